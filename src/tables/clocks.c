/* SPDX-License-Identifier: Apache-2.0
 *
 * See clocks.h.
 */
#include "tables/clocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "trace/shard.h"

/* Clocks of different hosts differ by more. */
#define SAME_HOST_NS INT64_C(1000000000)

void clocks_release(struct clocks *clocks)
{
	interned_release(&clocks->boots);
	free(clocks->boot_offsets);
}

/* The number of a boot, or 0 when it is not known. The first shard's offset counts for all of it. */
static int find_boot(struct clocks *clocks, const struct boot *boot, int64_t *offset_ns,
		     uint32_t *ret_boot)
{
	static const struct boot unknown;
	size_t known = clocks->boots.n;
	int r;

	*ret_boot = 0;
	if (!memcmp(boot->id, unknown.id, sizeof(unknown.id)))
		return 0;
	*ret_boot = interned_id(&clocks->boots, boot->id, sizeof(boot->id));
	if (!*ret_boot)
		return -ENOMEM;
	if (*ret_boot <= known) {
		*offset_ns = clocks->boot_offsets[*ret_boot];
		return 0;
	}
	r = array_grow(&clocks->boot_offsets, &clocks->capacity, (size_t)*ret_boot + 1,
		       sizeof(*clocks->boot_offsets));
	if (r == 0)
		clocks->boot_offsets[*ret_boot] = *offset_ns;
	return r;
}

int clocks_shift(struct clocks *clocks, const struct shard_header *header, int64_t *ret_ns,
		 bool *ret_sane)
{
	struct boot boot = shard_boot(header);
	/* Each is at most SHARD_TIME_MAX, a quarter of what fits. */
	int64_t offset_ns = header->realtime_ns - header->monotonic_ns + boot.offset_ns, apart;
	uint32_t id;
	int r = find_boot(clocks, &boot, &offset_ns, &id);

	if (r < 0)
		return r;
	if (!clocks->begun) {
		clocks->begun = true;
		clocks->first_boot = id;
		clocks->first_offset_ns = offset_ns;
		clocks->first_namespace_ns = boot.offset_ns;
	}
	*ret_ns = 0;
	*ret_sane = !__builtin_sub_overflow(offset_ns, clocks->first_offset_ns, &apart);
	if (*ret_sane && (!id || !clocks->first_boot) && apart <= SAME_HOST_NS &&
	    apart >= -SAME_HOST_NS)
		apart = 0;
	*ret_sane = *ret_sane &&
		    !__builtin_add_overflow(apart, clocks->first_namespace_ns - boot.offset_ns,
					    &apart) &&
		    time_is_sane(apart);
	if (*ret_sane)
		*ret_ns = apart;
	return 0;
}
