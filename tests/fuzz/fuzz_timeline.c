/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of a timeline's index (timeline.lod) on arbitrary bytes, and every question to what it
 * opens. Bit 0 of the first byte: the sizes and checksums in the header are made right, so that mutations
 * reach behind them.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "fuzz.h"
#include "timeline/lod_index.h"

#define FIX_CHECKSUMS 1u

static void fix_checksums(char *file, size_t size)
{
	struct lod_file_header header;

	if (size < sizeof(header))
		return;
	memcpy(&header, file, sizeof(header));
	header.magic = LOD_MAGIC;
	header.version = LOD_VERSION;
	header.file_bytes = size;
	header.tables_crc = 0;
	for (int s = LOD_LANES; s <= LOD_TEXTS; s++) {
		uint64_t offset = header.sections[s].offset, n = header.sections[s].n;

		if (offset > size || n > (size - offset) / lod_sizes[s])
			return;
		header.tables_crc = crc32c(header.tables_crc, file + offset, n * lod_sizes[s]);
	}
	header.crc = 0;
	header.crc = crc32c(0, &header, sizeof(header));
	memcpy(file, &header, sizeof(header));
}

static void ask_part(const struct lod *lod, const struct lod_part *part, const size_t *lanes)
{
	struct lod_facts facts = lod_facts(lod);
	struct lod_name_sum *sums;
	size_t n;

	for (size_t l = 0; l < facts.lanes; l++) {
		struct lod_boxes boxes = { 0 };

		if (lod_boxes(lod, l, part, 100, &boxes) < 0)
			abort();
		for (size_t i = 0; i < boxes.n; i++)
			lod_name(lod, boxes.of[i].name);
		free(boxes.of);
		lod_sum(lod, l, part);
	}
	if (lod_sum_names(lod, lanes, facts.lanes, part, 10, &sums, &n) == 0)
		free(sums);
}

static void ask(const struct lod *lod)
{
	struct lod_facts facts = lod_facts(lod);
	const struct lod_part parts[] = { { 0, (int64_t)facts.end_ns + 1 },
					  { 100, 1000 },
					  { -LOD_TIME_MAX, LOD_TIME_MAX } };
	size_t *lanes = calloc(facts.lanes + 1, sizeof(*lanes)), n;
	struct lod_found *found;
	struct lod_event event;

	if (!lanes || lod_search(lod, "a", 10, &found, &n) < 0)
		abort();
	for (size_t l = 0; l < facts.lanes; l++) {
		lanes[l] = l;
		if (!lod_kind_name(lod_lane(lod, l).kind))
			abort();
	}
	for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
		ask_part(lod, &parts[p], lanes);
	for (uint32_t name = 0; name < facts.names && name < 20; name++)
		lod_find(lod, name, 500, &event);
	lod_name_id(lod, "gemm");
	free(found);
	free(lanes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { "" };
	struct lod *lod;
	char *file;
	int fd;

	if (!size)
		return 0;
	file = malloc(size);
	fd = memfd_create("timeline", MFD_CLOEXEC);
	if (!file || fd < 0)
		abort();
	memcpy(file, data + 1, size - 1);
	if (data[0] & FIX_CHECKSUMS)
		fix_checksums(file, size - 1);
	if (write(fd, file, size - 1) != (ssize_t)(size - 1))
		abort();
	free(file);
	if (index_map(fd, "fuzzed", NULL, &lod, &err) == 0) {
		ask(lod);
		lod_close(lod);
	} else if (!err.message[0]) {
		abort();
	}
	return 0;
}
