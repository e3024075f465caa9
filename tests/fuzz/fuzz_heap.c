/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader of allocation samples on hostile files, and the shard that comes of them. Such a file is mostly empty, so
 * an input is cut into windows that are laid over nothing (see `windows`). The first byte of the input:
 *   bit 0  the file is cut at the place that the last two bytes of the input give, in 64ths of a KiB
 *   bit 1  the magic number is made right, and the process is one that has ended
 * Called with the environment variable MOESCOPE_SEED_FILE set, it writes a file with samples as an input.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "host/heap.h"
#include "trace/heap_file.h"

#define CUT 1u
#define IN_ORDER 2u
#define GONE 0x7ffffffeu /* more than any kernel gives out */
#define EVENTS 24
#define NODES 24
#define TEXT_BYTES 256
#define LAST_NODES 4

static const struct window {
	uint64_t offset, bytes;
} windows[] = {
	{ 0, sizeof(struct heap_header) },
	{ HEAP_EVENTS_AT, EVENTS * sizeof(struct heap_event) },
	{ HEAP_NODES_AT, NODES * sizeof(struct heap_node) },
	{ HEAP_TEXTS_AT, TEXT_BYTES },
	{ HEAP_TEXTS_AT + HEAP_TEXT_BYTES - 16, 16 },
	{ HEAP_NODES_AT + (HEAP_NODES - LAST_NODES) * sizeof(struct heap_node),
	  LAST_NODES * sizeof(struct heap_node) },
	{ HEAP_EVENTS_AT + (HEAP_EVENTS - 2) * sizeof(struct heap_event),
	  2 * sizeof(struct heap_event) },
	{ HEAP_MAPS_AT, HEAP_MAPS_BYTES },
};
#define N_WINDOWS (sizeof(windows) / sizeof(windows[0]))

static char folder[] = "/dev/shm/moescope-fuzz-XXXXXX";

static void die(const char *what)
{
	perror(what);
	abort();
}

static void remove_folder(void)
{
	rmdir(folder);
}

static void write_seed(const char *path)
{
	static const char maps[] = "1000-9000 r-xp 0 0:0 0 /lib/none.so\na000-b000 r-xp 0 0:0 0\n";
	static char file[HEAP_FILE_BYTES];
	struct heap_header *header = (struct heap_header *)(void *)file;
	struct heap_event *events = (struct heap_event *)(void *)(file + HEAP_EVENTS_AT);
	struct heap_node *nodes = (struct heap_node *)(void *)(file + HEAP_NODES_AT);
	uint64_t functions[] = { HEAP_TEXT_BIT, HEAP_TEXT_BIT | 7, 0x1234, 0xa010, 0x77 };
	FILE *f = fopen(path, "wb");

	if (!f)
		die(path);
	header->distance = 1000;
	header->head = 6;
	header->dropped = header->dropped_frees = header->shortened = 3;
	for (unsigned int i = 0; i < 6; i++)
		events[i] = (struct heap_event){ .turn = i + 1,
						 .time_ns = 1000 + i,
						 .sample = i < 4 ? i + 1 : i - 3,
						 .size = 100 * i,
						 .distance = 1000,
						 .kind = i < 4 ? HEAP_TAKEN : HEAP_FREED,
						 .thread = 5,
						 .node = i + 1 };
	for (unsigned int i = 0; i < 5; i++)
		nodes[i] = (struct heap_node){ .state = 2, .parent = i, .function = functions[i] };
	memcpy(file + HEAP_TEXTS_AT, "\5\0alpha\4\0beta", 13);
	memcpy(file + HEAP_MAPS_AT, maps, sizeof(maps));
	putc(IN_ORDER, f);
	for (size_t i = 0; i < N_WINDOWS; i++)
		fwrite(file + windows[i].offset, 1,
		       i + 1 < N_WINDOWS ? windows[i].bytes : sizeof(maps), f);
	fclose(f);
}

static void set_up(void)
{
	static bool ready;

	if (ready)
		return;
	ready = true;
	if (!mkdtemp(folder))
		die(folder);
	atexit(remove_folder);
	if (getenv("MOESCOPE_SEED_FILE"))
		write_seed(getenv("MOESCOPE_SEED_FILE"));
}

static void make_file(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct heap_header header = { .magic = HEAP_MAGIC };
	size_t at = 1;

	if (fd < 0 || ftruncate(fd, (off_t)HEAP_FILE_BYTES) < 0)
		die(path);
	for (size_t i = 0; i < N_WINDOWS && at < size; i++) {
		size_t part = size - at < windows[i].bytes ? size - at : windows[i].bytes;

		if (pwrite(fd, data + at, part, (off_t)windows[i].offset) != (ssize_t)part)
			die(path);
		at += part;
	}
	header.pid = GONE;
	if (data[0] & IN_ORDER && pwrite(fd, &header, 12, 0) != 12)
		die(path);
	/* Of a real process, nothing would be the same twice. */
	if (!(data[0] & IN_ORDER) && pwrite(fd, &header.pid, 4, 8) != 4)
		die(path);
	if (data[0] & CUT &&
	    ftruncate(fd, (off_t)((data[size - 1] | data[size - 2] << 8) * UINT64_C(64))) < 0)
		die(path);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heap_end end = { 0 };
	struct err err = { "" };
	struct heap *heap;
	char path[64];

	set_up();
	if (size < 2)
		return 0;
	snprintf(path, sizeof(path), "%s/5.heap", folder);
	make_file(path, data, size);
	if (heap_start(&heap, folder, &err) < 0 || heap_stop(heap, &end, &err) < 0)
		die(err.message);
	if (access(path, F_OK) == 0)
		abort();
	snprintf(path, sizeof(path), "%s/0-5-heap.mst", folder);
	if (access(path, F_OK) == 0 && fuzz_load(path, NULL, NULL) < 0)
		abort();
	unlink(path);
	return 0;
}
