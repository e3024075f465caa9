/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary bytes as a pickle, and as a memory snapshot: values that can be read, or a sentence; never
 * more memory than in proportion; and what is refused is refused by the importer too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "ingest/importers.h"
#include "ingest/shared/intake.h"
#include "ingest/torch_memory/pickle.h"

/* Every box once, by its tag; the boxes that are still to be walked on a stack of their own. */
static size_t walk(struct pickle_value root, size_t most)
{
	struct pickle_value *stack = malloc((most + 1) * sizeof(*stack));
	size_t n = 0, bytes = 0;

	if (!stack)
		abort();
	stack[n++] = root;
	while (n) {
		struct pickle_value v = stack[--n];

		if (v.type == PICKLE_TEXT || v.type == PICKLE_BYTES)
			for (uint32_t i = 0; i < v.length; i++)
				bytes += (unsigned char)v.text[i];
		if (!pickle_is_box(v) || v.box->tag)
			continue;
		v.box->tag = 1;
		if (v.type == PICKLE_DICT && v.box->n % 2)
			abort();
		for (size_t i = 0; i < v.box->n; i++) {
			if (n == most)
				abort();
			stack[n++] = v.box->items[i];
		}
	}
	free(stack);
	return bytes;
}

static int import(const uint8_t *data, size_t size)
{
	char path[64];
	struct ingest_file file = {
		.path = path, .bytes = size, .head = (const char *)data, .head_bytes = size
	};
	struct intake *intake;
	struct err err = { "" };
	int fd = memfd_create("input", 0), r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || intake_new(UINT64_MAX, &intake) < 0)
		abort();
	torch_memory_importer.recognise(&file);
	r = torch_memory_importer.read(&file, intake, &err);
	if (r < 0 && !err.message[0])
		abort();
	intake_free(intake);
	close(fd);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pickle pickle = { 0 };
	struct err err = { "" };
	void *bytes = malloc(size ? size : 1); /* exact: a byte too far is seen */
	int r, imported;

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	r = pickle_read("input", bytes, size, &pickle, &err);
	if (r < 0 && (!err.message[0] || pickle.arena))
		abort();
	/* Every opcode pushes one value at most, and a value goes into one box. */
	if (r == 0)
		walk(pickle.root, size + 1);
	pickle_release(&pickle);
	free(bytes);
	imported = import(data, size);
	if ((r == -EPERM) != (imported == -EPERM))
		abort();
	return 0;
}
