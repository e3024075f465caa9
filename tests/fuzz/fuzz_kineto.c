/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as a Kineto trace: every way of looking through text and every size of blocks gives
 * the same run, and what is not read is counted. The first byte chooses: bit 7 plain or gzip, bit 6
 * all kinds or kernels alone, bits 0 to 5 the size of the blocks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/fake_intake.c"
#include "fuzz.h"
#include "ingest/ingest.h"
#include "ingest/kineto/kineto.h"
#include "ingest/shared/json_scan.h"

static int read_with(const struct ingest_file *file, uint64_t kinds,
		     const struct kineto_choices *choices, char **ret_lines)
{
	struct intake *intake = fake_intake_new(kinds);
	struct err err = { "" };
	int r = kineto_read(file, intake, choices, &err);

	if (r < 0 && !err.message[0])
		abort();
	*ret_lines = fake_intake_text(intake);
	fake_intake_free(intake);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kineto_choices one = { scan_way(0), 16384, 1 }, other = { scan_best(), 0, 1 };
	char path[64], *lines, *other_lines;
	struct ingest_file file = { .path = path, .rank_hint = 1 };
	uint64_t kinds;
	int fd, r;

	if (!size)
		return 0;
	other.block_bytes = (data[0] & 63) + 1;
	kinds = data[0] & 64 ? UINT64_C(1) << RECORD_KERNEL : ~UINT64_C(0);
	file.gzip = data[0] & 128;
	file.head = (const char *)data + 1;
	file.bytes = file.head_bytes = size - 1;
	fd = memfd_create("input", 0);
	if (fd < 0 || write(fd, data + 1, size - 1) != (ssize_t)(size - 1))
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = read_with(&file, kinds, &one, &lines);
	if (read_with(&file, kinds, &other, &other_lines) != r || strcmp(lines, other_lines) != 0) {
		fprintf(stderr, "one block:\n%s\nblocks of %zu:\n%s\n", lines, other.block_bytes,
			other_lines);
		abort();
	}
	free(lines);
	free(other_lines);
	close(fd);
	return 0;
}
