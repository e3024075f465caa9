/* SPDX-License-Identifier: Apache-2.0
 *
 * The run on disk: bytes per record, time to encode, time to read into columns, and how both
 * grow. Kernel records are drawn from a recorded training step (bench/data): each repetition
 * takes durations and gaps at random from those recorded for the same launch configuration, so
 * that no two steps are alike and compression does not live on copies.
 *
 *   codec DATA_DIR WORK_DIR [LARGEST]   LARGEST: records in the biggest run, default 10 million
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "samples.h"
#include "tables/tables.h"
#include "trace/shard.h"

#define FLUSH_ROWS 262144

static void die(const char *what, int r)
{
	fprintf(stderr, "codec: %s: %s\n", what, strerror(-r));
	exit(1);
}

/* ---- making records */

struct maker {
	size_t at;
	int64_t time_ns;
	uint64_t correlation;
	uint32_t launch_ids[SAMPLES_LAUNCHES];
};

static void make_kernel(struct maker *maker, struct row_kernel *row)
{
	const struct sample *s = &samples.kernels[maker->at++ % samples.n];

	*row = (struct row_kernel){ .launch = maker->launch_ids[s->launch], .stream = 7 };
	maker->time_ns += samples_alike(s)->gap_ns;
	row->start_ns = maker->time_ns;
	/* Device clocks tick in 32 ns; a single recorded value still varies by a tick or two. */
	row->duration_ns = samples_alike(s)->duration_ns + (int64_t)(samples_random() % 3) * 32 -
			   32;
	if (row->duration_ns < 32)
		row->duration_ns = 32;
	maker->time_ns += row->duration_ns;
	maker->correlation += (uint64_t)s->correlation_step + (samples_random() % 64 == 0);
	row->correlation = maker->correlation;
}

/* Ranges of a model: step > phase > layer > operation, in the order of their ends, with times
 * that vary as host times do. */
struct range_maker {
	uint32_t sites[2][16][8];
	int64_t time_ns;
	int phase, layer, op;
	int64_t layer_start, phase_start;
};

static void make_range(struct range_maker *m, struct row_range *row)
{
	static const int64_t typical_ns[8] = { 2100, 9300, 640, 18500, 1500, 31000, 7700, 900 };

	*row = (struct row_range){ .thread = 4242 };
	if (m->op < 8) {
		int64_t typical = typical_ns[m->op];

		row->start_ns = m->time_ns + 150 + (int64_t)(samples_random() % 120);
		row->duration_ns = typical +
				   (int64_t)(samples_random() % (uint64_t)(typical / 8 + 1));
		m->time_ns = row->start_ns + row->duration_ns;
		row->site = m->sites[m->phase][m->layer][m->op++];
		row->depth = 3;
		return;
	}
	if (m->op == 8) {
		m->op = 9;
		row->start_ns = m->layer_start;
		m->time_ns += 90 + (int64_t)(samples_random() % 60);
		row->duration_ns = m->time_ns - m->layer_start;
		row->site = m->sites[m->phase][m->layer][0] + 200;
		row->depth = 2;
		return;
	}
	m->op = 0;
	m->layer_start = m->time_ns + 100;
	m->layer = (m->layer + 1) % 16;
	m->phase ^= m->layer == 0;
	make_range(m, row);
}

/* ---- writing and reading */

struct figures {
	double encode_ns, read_per_s, bytes, read_mb;
};

static void flush(struct shard_writer *writer, struct encoder *encoder)
{
	int r = encoder_finish(encoder);

	if (r == 0)
		r = shard_write(writer, encoder);
	if (r < 0)
		die("write", r);
}

static void write_run(const char *path, bool kernels, uint64_t n, struct figures *figures)
{
	struct row_kernel *kernel_rows = malloc(FLUSH_ROWS * sizeof(*kernel_rows));
	struct row_range *range_rows = malloc(FLUSH_ROWS * sizeof(*range_rows));
	struct encoder encoder;
	struct shard_writer *writer;
	struct maker maker = { .time_ns = 1000000000 };
	struct range_maker ranges = { .time_ns = 1000000000, .op = 0 };
	struct err err = { "" };
	struct stat st;
	uint64_t left = n;
	int64_t spent = 0;
	int r = shard_create(path, 0, 0, &writer, &err);

	if (r < 0 || !kernel_rows || !range_rows)
		die(path, r < 0 ? r : -ENOMEM);
	encoder_init(&encoder, 1, 1, 0);
	for (size_t l = 0; l < samples.n_launches; l++) {
		struct row_string name = { .id = (uint32_t)l + 1, .text = samples.names[l] };

		name.length = (uint32_t)strlen(samples.names[l]);
		encoder_append(&encoder, RECORD_STRING, &name);
		maker.launch_ids[l] = encoder_launch(&encoder, &samples.launches[l]);
	}
	for (int s = 0; s < 2 * 16 * 8 + 300; s++)
		encoder_site(&encoder, &(struct row_site){ .name = (uint32_t)(s % 100) + 1,
							   .layer = s / 16 });
	for (int i = 0; i < 2 * 16 * 8; i++)
		((uint32_t *)ranges.sites)[i] = (uint32_t)i + 1;
	while (left) {
		uint64_t part = left < FLUSH_ROWS ? left : FLUSH_ROWS;
		int64_t start;

		for (uint64_t i = 0; i < part; i++) {
			if (kernels)
				make_kernel(&maker, &kernel_rows[i]);
			else
				make_range(&ranges, &range_rows[i]);
		}
		start = clock_thread_cpu_ns();
		for (uint64_t i = 0; i < part; i++) {
			r = kernels ? encoder_append(&encoder, RECORD_KERNEL, &kernel_rows[i])
				    : encoder_append(&encoder, RECORD_RANGE, &range_rows[i]);
			if (r < 0)
				die("append", r);
		}
		flush(writer, &encoder);
		spent += clock_thread_cpu_ns() - start;
		left -= part;
	}
	shard_close(writer, &encoder);
	encoder_release(&encoder);
	free(kernel_rows);
	free(range_rows);
	stat(path, &st);
	figures->encode_ns = (double)spent / (double)n;
	figures->bytes = ((double)st.st_size - SHARD_HEADER_BYTES) / (double)n;
}

static void read_run(const char *path, bool kernels, uint64_t n, struct figures *figures)
{
	struct run_want want = { .kinds = kernels ? WANT(KERNEL) : WANT(RANGE) };
	double best = 0;

	for (int again = 0; again < 3; again++) {
		int64_t start = clock_thread_cpu_ns(), spent;
		struct err err = { "" };
		struct run *run;
		int r = run_load(path, &want, &run, &err);

		if (r < 0) {
			fprintf(stderr, "codec: %s\n", err.message);
			exit(1);
		}
		spent = clock_thread_cpu_ns() - start;
		if ((kernels ? run->kernel.n : run->range.n) != n || loss_total(&run->loss))
			die("the run does not hold what was written", -EBADMSG);
		if ((double)n / ((double)spent / 1e9) > best)
			best = (double)n / ((double)spent / 1e9);
		run_free(run);
	}
	figures->read_per_s = best;
}

static void one(const char *dir, bool kernels, uint64_t n)
{
	struct figures figures = { 0 };
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s-%" PRIu64 ".mst", dir, kernels ? "kernel" : "range", n);
	unlink(path);
	write_run(path, kernels, n, &figures);
	read_run(path, kernels, n, &figures);
	unlink(path);
	printf("%-8s %12" PRIu64 " %10.2f %12.1f %14.1f\n", kernels ? "kernel" : "range", n,
	       figures.bytes, figures.encode_ns, figures.read_per_s / 1e6);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	uint64_t largest = argc > 3 ? strtoull(argv[3], NULL, 10) : 10000000;
	int r;

	if (argc < 3) {
		fprintf(stderr, "usage: codec DATA_DIR WORK_DIR [LARGEST]\n");
		return 2;
	}
	r = samples_read(argv[1]);
	if (r < 0)
		die(argv[1], r);
	printf("%-8s %12s %10s %12s %14s\n", "record", "records", "bytes each", "encode ns",
	       "read M/s/core");
	for (int kernels = 1; kernels >= 0; kernels--)
		for (uint64_t n = 100000; n <= largest; n *= 10)
			one(argv[2], kernels, n);
	return 0;
}
