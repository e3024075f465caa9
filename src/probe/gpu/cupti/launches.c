/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of launch configurations; see launches.h. Real programs have a few hundred.
 */
#include "probe/gpu/cupti/launches.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "probe/core/device_rows.h"
#include "probe/core/probe.h"

static struct row_launch *rows;
static size_t n_rows, capacity;
static uint32_t *slots; /* index + 1 */
static size_t n_slots;
static uint32_t session; /* whose shard has the rows */

static uint32_t hash(const struct row_launch *row)
{
	return crc32c(0, &row->name, sizeof(*row) - offsetof(struct row_launch, name));
}

static bool same(const struct row_launch *a, const struct row_launch *b)
{
	return !memcmp(&a->name, &b->name, sizeof(*a) - offsetof(struct row_launch, name));
}

static bool rehash(void)
{
	size_t wanted = n_slots ? n_slots * 2 : 1024;
	uint32_t *grown = calloc(wanted, sizeof(*grown));

	if (!grown)
		return false;
	for (size_t i = 0; i < n_rows; i++) {
		size_t at = hash(&rows[i]) & (wanted - 1);

		while (grown[at])
			at = (at + 1) & (wanted - 1);
		grown[at] = (uint32_t)i + 1;
	}
	free(slots);
	slots = grown;
	n_slots = wanted;
	return true;
}

/* A new session has none of them on disk. Done here, not when it starts: only the caller of
 * launch_id may touch the table, and CUPTI may deliver while sessions change. */
static void forget_other_session(void)
{
	uint32_t now = atomic_load(&probe_session);

	if (now == session)
		return;
	session = now;
	n_rows = 0;
	if (slots)
		memset(slots, 0, n_slots * sizeof(*slots));
}

uint32_t launch_id(const struct row_launch *launch)
{
	size_t at;

	forget_other_session();
	if (n_rows * 2 >= n_slots && !rehash())
		return 0;
	at = hash(launch) & (n_slots - 1);
	for (; slots[at]; at = (at + 1) & (n_slots - 1))
		if (same(&rows[slots[at] - 1], launch))
			return slots[at];
	if (array_grow(&rows, &capacity, n_rows + 1, sizeof(rows[0])) < 0)
		return 0;
	rows[n_rows] = *launch;
	rows[n_rows].id = (uint32_t)n_rows + 1;
	probe_push_device(RECORD_LAUNCH, &rows[n_rows], sizeof(rows[0]));
	slots[at] = (uint32_t)++n_rows;
	return slots[at];
}
