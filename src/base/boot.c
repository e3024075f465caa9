/* SPDX-License-Identifier: Apache-2.0
 *
 * See boot.h. Runs inside the profiled process, so without stdio.
 */
#include "base/boot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "01234567-89ab-cdef-0123-456789abcdef" */
static bool parse_id(const char *text, char id[BOOT_ID_BYTES])
{
	bool any = false;

	for (int i = 0; i < BOOT_ID_BYTES; i++) {
		int high, low;

		text += *text == '-';
		high = hex(text[0]);
		low = high < 0 ? -1 : hex(text[1]);
		if (low < 0)
			return false;
		id[i] = (char)(high << 4 | low);
		any |= id[i] != 0;
		text += 2;
	}
	return any;
}

/* "monotonic  SECONDS  NANOSECONDS" */
static bool parse_offset(const char *text, int64_t *ret_ns)
{
	const char *line = strstr(text, "monotonic");
	long long s, ns;
	char *end, *last;

	if (!line)
		return false;
	line += strlen("monotonic");
	s = strtoll(line, &end, 10);
	ns = strtoll(end, &last, 10);
	if (end == line || last == end || s < -(1LL << 32) || s > 1LL << 32 || ns < 0 ||
	    ns >= 1000000000)
		return false;
	*ret_ns = s * 1000000000 + ns;
	return true;
}

bool boot_parse(const char *id, const char *offsets, struct boot *ret_boot)
{
	struct boot boot = { .offset_ns = 0 };

	*ret_boot = (struct boot){ .offset_ns = 0 };
	if (!parse_id(id, boot.id) || (offsets && !parse_offset(offsets, &boot.offset_ns)))
		return false;
	*ret_boot = boot;
	return true;
}

/* timens_offsets are those of the children's namespace. */
static bool offsets_are_ours(void)
{
	char own[64], children[64];
	ssize_t n = readlink("/proc/self/ns/time", own, sizeof(own));

	return n > 0 &&
	       n == readlink("/proc/self/ns/time_for_children", children, sizeof(children)) &&
	       !memcmp(own, children, (size_t)n);
}

bool boot_read(struct boot *ret_boot)
{
	char id[64], offsets[256];
	int saved = errno;
	bool namespaces = access("/proc/self/ns/time", F_OK) == 0, known;

	*ret_boot = (struct boot){ .offset_ns = 0 };
	known = small_file_text("/proc/sys/kernel/random/boot_id", id, sizeof(id)) > 0 &&
		(!namespaces ||
		 (offsets_are_ours() &&
		  small_file_text("/proc/self/timens_offsets", offsets, sizeof(offsets)) > 0)) &&
		boot_parse(id, namespaces ? offsets : NULL, ret_boot);
	errno = saved;
	return known;
}
