/* SPDX-License-Identifier: Apache-2.0
 *
 * Salvage of hostile buffer files beside a valid shard. A ring file is mostly empty pages, so an
 * input is cut into windows that are laid over a small valid template (see `windows`); what the
 * input does not cover stays as in the template. The first byte of the input:
 *   bit 0  the file is cut at the place that the last two bytes of the input give, in pages
 *   bit 1  the shard is sealed as well, and must then give the same rows as the salvage
 *   bit 2  the shard has no checkpoint
 * Called with the environment variable MOESCOPE_SEED_FILE set, it writes the template as an input
 * into that file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "trace/drain.h"
#include "trace/ring.h"
#include "trace/shard.h"

#define CUT 1u
#define SEAL 2u
#define NO_CHECKPOINT 4u

#define N_REGIONS 3
#define REGION_BYTES 4096u
#define REGION_AT(i) (RING_HEADER_BYTES + (i) * (RING_CONTROL_BYTES + REGION_BYTES))
#define FILE_BYTES REGION_AT(N_REGIONS)

static const struct window {
	uint32_t file_offset, bytes;
} windows[] = {
	{ 0, offsetof(struct ring_header, maps) },
	{ offsetof(struct ring_header, maps), 2 * sizeof(struct tick_segment) },
	{ offsetof(struct ring_header, maps) + offsetof(struct tick_map, n_segments), 24 },
	{ offsetof(struct ring_header, regions), (N_REGIONS + 1) * sizeof(struct ring_region) },
	{ REGION_AT(0), 128 + 16 + 8 * DROP_SLOTS + 3 * sizeof(struct ring_frame) },
	{ REGION_AT(0) + RING_CONTROL_BYTES, 1024 },
	{ REGION_AT(1), 8 },
	{ REGION_AT(1) + RING_CONTROL_BYTES, 128 },
	{ REGION_AT(2), 128 + 16 },
	{ REGION_AT(2) + RING_CONTROL_BYTES, 512 },
};

static char directory[] = "/dev/shm/moescope-fuzz-XXXXXX";
static char shard_paths[2][64], shard_bytes[2][16384]; /* with a checkpoint, and without */
static size_t shard_sizes[2];
static char template[FILE_BYTES];

static void die(const char *what)
{
	perror(what);
	abort();
}

static void *put_record(char *data, uint64_t *head, enum record_kind kind, const void *row,
			size_t size, size_t list_bytes)
{
	uint64_t bytes = sizeof(struct ring_record) + size + list_bytes;
	struct ring_record record = { .words = (uint16_t)(bytes / 8), .kind = (uint8_t)kind };
	char *to = data + *head;

	memcpy(to, &record, sizeof(record));
	memcpy(to + sizeof(record), row, size);
	*head += bytes;
	return to + sizeof(record) + size;
}

static void put_range(char *data, uint64_t *head, enum record_kind kind, uint64_t start)
{
	struct ring_op op = { .range = { .record = { .kind = (uint8_t)kind, .name = 1 },
					 .layer = 1,
					 .expert = -1,
					 .start_ticks = start,
					 .duration_phase = 100 << 8 | 1 },
			      .flops = 7 };
	size_t bytes = kind == RECORD_OP ? sizeof(op) : sizeof(op.range);

	op.range.record.words = (uint16_t)(bytes / 8);
	memcpy(data + *head, &op, bytes);
	*head += bytes;
}

static uint64_t fill_ring(char *data)
{
	struct row_step step = { .step = 3, .start_ns = 2000, .duration_ns = 500 };
	struct row_routing routing = {
		.time_ns = 2100, .k = 2, .tokens = 4, .experts = 4, .k_slots = 3
	};
	struct row_routed routed = { .k = 2, .slots = 4 };
	struct row_mark mark = { .time_ns = 2200, .text = 1 };
	uint64_t head = 0;
	uint32_t *list;

	put_range(data, &head, RECORD_RANGE, 1000);
	put_range(data, &head, RECORD_OP, 1500);
	put_record(data, &head, RECORD_STEP, &step, sizeof(step), 0);
	list = put_record(data, &head, RECORD_ROUTING, &routing, sizeof(routing), 32);
	for (uint32_t e = 0; e < 4; e++)
		list[e] = e;
	put_record(data, &head, RECORD_ROUTED, &routed, sizeof(routed), 16);
	put_record(data, &head, RECORD_MARK, &mark, sizeof(mark), 0);
	return head;
}

static void make_template(void)
{
	struct ring_header *header = (struct ring_header *)template;
	struct ring_control *ring = (struct ring_control *)(template + REGION_AT(0));
	struct ring_control *second = (struct ring_control *)(template + REGION_AT(2));
	struct ring_string string = { 1, 5 };
	char *strings = template + REGION_AT(1);

	memcpy(header->magic, RING_MAGIC, sizeof(header->magic));
	header->version = RING_VERSION;
	header->n_regions = N_REGIONS;
	header->alive_ticks = 5000;
	header->step.open = 1;
	header->step.start_ticks = 4000;
	header->maps[0].segments[0] = (struct tick_segment){ 1, 1000, 0.5 };
	header->maps[0].n_segments = 1;
	for (uint32_t i = 0; i < N_REGIONS; i++) {
		header->regions[i].bytes = REGION_BYTES;
		header->regions[i].offset = REGION_AT(i);
		header->regions[i].type = i == 1 ? REGION_STRINGS : REGION_RING;
	}
	ring->thread = 11;
	ring->head = fill_ring((char *)ring + RING_CONTROL_BYTES);
	ring->depth = 1;
	ring->frames[0].start_ticks = 4100;
	ring->frames[0].name_layer = 1;
	second->thread = 12;
	second->head = fill_ring((char *)second + RING_CONTROL_BYTES);
	memcpy(strings + RING_CONTROL_BYTES, &string, sizeof(string));
	memcpy(strings + RING_CONTROL_BYTES + sizeof(string), "alpha", 5);
	((struct strings_control *)strings)->used = 16;
}

static void make_shard(int which)
{
	struct drain_positions positions = { .n = which == 0 ? N_REGIONS : 0 };
	struct row_string string = { .id = 1, .length = 5, .text = "alpha" };
	struct row_site site = { .name = 1, .layer = 1, .expert = -1 };
	struct row_mark mark = { .time_ns = 900, .text = 1 };
	struct shard_writer *writer;
	struct encoder encoder;
	struct err err = { "" };
	FILE *f;

	snprintf(shard_paths[which], sizeof(shard_paths[which]), "%s/%d.mst", directory, which);
	encoder_init(&encoder, 1, 1, 0);
	if (shard_create(shard_paths[which], 0, 0, &writer, &err) < 0)
		die(err.message);
	encoder_append(&encoder, RECORD_STRING, &string);
	encoder_site(&encoder, &site);
	encoder_append(&encoder, RECORD_MARK, &mark);
	if (encoder_finish(&encoder) < 0 ||
	    (which == 0 && drain_checkpoint(&encoder, &positions) < 0) ||
	    shard_write(writer, &encoder) < 0)
		die("shard");
	shard_abandon(writer);
	encoder_release(&encoder);
	f = fopen(shard_paths[which], "rb");
	shard_sizes[which] = f ? fread(shard_bytes[which], 1, sizeof(shard_bytes[which]), f) : 0;
	if (!shard_sizes[which] || shard_sizes[which] == sizeof(shard_bytes[which]))
		die("shard");
	fclose(f);
}

static void remove_files(void)
{
	char path[80];

	for (int i = 0; i < 2; i++) {
		unlink(shard_paths[i]);
		snprintf(path, sizeof(path), "%s/%d.ring", directory, i);
		unlink(path);
	}
	rmdir(directory);
}

static void write_seed(const char *path)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		die(path);
	putc(SEAL, f);
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
		fwrite(template + windows[i].file_offset, 1, windows[i].bytes, f);
	fclose(f);
}

static void set_up(void)
{
	if (!mkdtemp(directory))
		die(directory);
	atexit(remove_files);
	make_template();
	make_shard(0);
	make_shard(1);
	if (getenv("MOESCOPE_SEED_FILE"))
		write_seed(getenv("MOESCOPE_SEED_FILE"));
}

static void put_file(const char *path, const void *data, size_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		die(path);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool ready;
	static char file[FILE_BYTES];
	unsigned int mode = size ? data[0] : 0, which = mode & NO_CHECKPOINT ? 1 : 0;
	struct fuzz_rows salvaged, sealed;
	size_t at = 1, bytes = FILE_BYTES;
	char *ring;
	int r;

	if (!ready)
		set_up();
	ready = true;
	memcpy(file, template, sizeof(file));
	for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]) && at < size; i++) {
		size_t part = size - at < windows[i].bytes ? size - at : windows[i].bytes;

		memcpy(file + windows[i].file_offset, data + at, part);
		at += part;
	}
	if (mode & CUT && size > 2)
		bytes = (size_t)(data[size - 1] | data[size - 2] << 8) * 512 % (FILE_BYTES + 1);
	ring = shard_ring_path(shard_paths[which]);
	if (!ring)
		die("ring");
	put_file(shard_paths[which], shard_bytes[which], shard_sizes[which]);
	put_file(ring, file, bytes);
	r = fuzz_load(shard_paths[which], NULL, &salvaged);
	if (mode & SEAL && r == 0) {
		struct err err = { "" };

		r = shard_seal(shard_paths[which], &err);
		if (r < 0 && !err.message[0])
			abort();
		if (r == 1 && access(ring, F_OK) == 0)
			abort();
		/* Taken in for good or not, the rows are the same. */
		if (fuzz_load(shard_paths[which], NULL, &sealed) < 0 ||
		    memcmp(&salvaged, &sealed, sizeof(sealed)) != 0)
			abort();
	}
	free(ring);
	return 0;
}
