/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards with right checksums and impossible or extreme numbers, or names that are made to do harm:
 * every view and export gets through them, and passes none of it on. Under UBSan it also shows that no
 * time of a file makes an analysis overflow.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "compare/digest.h"
#include "documents/document.h"
#include "exports/exports.h"
#include "fontconfig_leaks.h"
#include "kept_regex.h"
#include "subjects/kernels/kernels.h"
#include "surfaces/views/document_view.h"
#include "surfaces/plot/plot.h"
#include "surfaces/views/views.h"
#include "table_rows.h"

#define RUNS 40
#define ROWS 24

/* Names that analyses look for. */
static const char *const usual[] = { "work",
				     "cudaGraphLaunch",
				     "ncclDevKernel_AllReduce",
				     "power_w",
				     "memory_used_bytes",
				     "clock_limit_reasons",
				     "sm_active_pct",
				     "cudaLaunchKernel",
				     "torch reserved_bytes",
				     "torch allocated_bytes",
				     "dtype",
				     "bf16" };
#define N_NAMES (sizeof(usual) / sizeof(usual[0]))
static const char *const *names = usual;

/* Escape sequences in C0 and in C1, a mark that reverses what follows, a formula. */
#define EVIL                                                                                       \
	"=1+2\033[2J\xc2\x9b"                                                                      \
	"2J\xe2\x80\xae"                                                                           \
	"exe,\"x\n"

/* Mostly small, so that rows have to do with each other. `wild`: also what no reader takes. */
static uint64_t number(struct rng *rng, bool wild)
{
	static const int64_t extremes[] = { SHARD_TIME_MAX,	SHARD_TIME_MAX - 1,
					    -SHARD_TIME_MAX,	1 - SHARD_TIME_MAX,
					    SHARD_TIME_MAX / 2, SHARD_TIME_MAX / 100,
					    INT64_C(1) << 32,	-1 };
	static const int64_t impossible[] = { INT64_MAX, INT64_MIN, INT64_MAX / 2 + 1,
					      SHARD_TIME_MAX + 1 };

	if (wild && rng_below(rng, 40) == 0)
		return (uint64_t)impossible[rng_below(rng, 4)];
	if (rng_below(rng, 4) == 0)
		return (uint64_t)extremes[rng_below(rng, 8)];
	return rng_below(rng, 4);
}

static void put_row(struct encoder *encoder, struct rng *rng, unsigned int kind, bool wild)
{
	const struct kind_desc *desc = kind_desc(kind);
	struct random_row row;

	random_row(rng, kind, N_NAMES, &row);
	for (unsigned int c = 0; c < desc->n_columns; c++) {
		const struct column_desc *column = &desc->columns[c];
		uint64_t v = number(rng, wild);
		bool counts = false;

		for (unsigned int l = 0; l < desc->n_columns; l++)
			counts |= desc->columns[l].count_column == (int)c;
		if (column->count_column >= 0 || column->refers || counts ||
		    column->coding == CODING_FLOAT)
			continue;
		if (column->coding == CODING_DUR && !wild)
			v &= (uint64_t)SHARD_TIME_MAX * 2 - 1;
		column_narrow(column->type, &v, 1, (char *)&row.row + column->row_offset);
	}
	assert_int_equal(encoder_append(encoder, (enum record_kind)kind, &row.row), 0);
}

static void write_shard(const char *directory, uint32_t rank, struct rng *rng, bool wild)
{
	struct shard_writer *writer;
	struct encoder encoder;
	char name[32], *path;

	snprintf(name, sizeof(name), "%u-1.mst", rank);
	path = path_in(directory, name);
	encoder_init(&encoder, 1, 1, 0);
	assert_int_equal(shard_create(path, rank, 0, &writer, NULL), 0);
	for (uint32_t i = 0; i < N_NAMES; i++) {
		struct row_string string = { .id = i + 1,
					     .length = (uint32_t)strlen(names[i]),
					     .text = names[i] };

		encoder_append(&encoder, RECORD_STRING, &string);
		encoder_site(&encoder, &(struct row_site){ .name = i + 1,
							   .layer = (int32_t)i - 1,
							   .expert = -1,
							   .phase = (uint8_t)(i % 8) });
		encoder_launch(&encoder, &(struct row_launch){ .name = i + 1,
							       .grid_x = 8,
							       .block_x = 64,
							       .registers = 32 });
	}
	for (unsigned int k = RECORD_LAUNCH + 1; k < RECORD_KIND_LIMIT; k++) {
		for (int i = 0; i < ROWS; i++) {
			put_row(&encoder, rng, k, wild);
			if (i % 4)
				continue;
			/* Small chunks: a wild row costs those beside it. */
			assert_int_equal(encoder_finish(&encoder), 0);
			assert_int_equal(shard_write(writer, &encoder), 0);
		}
	}
	assert_int_equal(encoder_finish(&encoder), 0);
	assert_int_equal(shard_write(writer, &encoder), 0);
	assert_int_equal(shard_close(writer, &encoder), 0);
	encoder_release(&encoder);
	free(path);
}

static const struct view_options plain = { .width = 100, .utf8 = true, .question = QUESTION_ALL };

/* Whatever the names were. */
static void assert_harmless(const char *what, const char *text)
{
	static const char *const harm[] = { "\033", "\xc2\x9b", "\xe2\x80\xae", "\n=1+2", ",=1+2" };

	for (size_t i = 0; i < sizeof(harm) / sizeof(harm[0]); i++)
		if (strstr(text, harm[i]))
			fail_msg("%s: '%.60s'", what, strstr(text, harm[i]));
}

static void show(const struct run *run, const struct section *view, struct view_options options)
{
	struct err err = { "" };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_non_null(out);
	if (section_render(view, run, &options, out, &err) < 0)
		assert_true(err.message[0]);
	fclose(out);
	assert_true(size || err.message[0]);
	assert_harmless(view->name, text);
	free(text);
}

static void show_views(const struct run *run)
{
	struct view_options options = plain;

	for (const struct section *const *view = sections; *view; view++)
		for (int form = 0; form < 4; form++) {
			options.json = form == 1;
			options.csv = form == 2;
			options.markdown = form == 3;
			show(run, *view, options);
		}
	options.csv = options.markdown = false;
	for (options.question.kernels_by = 1; options.question.kernels_by <= KERNELS_BY_GRAPH;
	     options.question.kernels_by++)
		for (int form = 0; form < 2; form++) {
			options.csv = form == 1;
			show(run, &section_kernels, options);
		}
}

static void show_exports(const struct run *run)
{
	int (*const exports[])(const struct run *, FILE *,
			       struct err *) = { export_chrome, export_perfetto, export_folded,
						 export_folded_host, export_speedscope };

	for (size_t i = 0; i < sizeof(exports) / sizeof(exports[0]); i++) {
		struct err err = { "" };
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		assert_non_null(out);
		if (exports[i](run, out, &err) < 0)
			assert_true(err.message[0]);
		fclose(out);
		if (exports[i] != export_perfetto) /* not a text */
			assert_harmless("export", text);
		free(text);
	}
}

static void show_book(const struct run *run)
{
	struct document_view book;
	struct err err = { "" };

	if (document_view_open(&book, &document_book, run, &plain, &err) < 0)
		return;
	for (size_t f = 0; f < document_view_files(&book); f++) {
		char name[200], *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		assert_non_null(out);
		document_view_file_name(&book, f, name, sizeof(name));
		document_view_write(&book, f, out, &err);
		fclose(out);
		assert_harmless(name, text);
		free(text);
	}
	document_view_close(&book);
}

static void show_plots(const struct run *run)
{
	struct plot_options options = { .svg = true, .scale = 1, .layer = -1 };
	struct err err = { "" };
	struct answers answers;

	if (plot_unavailable() || plot_compute(run, &plain, &answers, &err) < 0)
		return;
	for (size_t i = 0; plots[i].name; i++) {
		FILE *out = fopen("/dev/null", "we");

		assert_non_null(out);
		plot_draw(plots[i].name, run, &answers, &options, out, &err);
		fclose(out);
	}
	answers_release(&answers);
}

static void show_all(const char *directory, bool with_plots)
{
	const struct selection all = SELECT_ALL;
	struct run_digest digest;
	struct err err = { "" };
	struct run *run = NULL;

	assert_int_equal(run_load(directory, NULL, &run, &err), 0);
	for (size_t i = 0; i < run->kernel.n; i++) {
		assert_true(time_is_sane(run->kernel.start_ns[i]));
		assert_true(run->kernel.duration_ns[i] >= 0);
	}
	show_views(run);
	show_exports(run);
	show_book(run);
	if (with_plots)
		show_plots(run);
	if (digest_take(run, &all, &digest) == 0)
		digest_release(&digest);
	run_free(run);
}

static void test_extremes(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < RUNS; seed++) {
		char *directory = temporary_directory();
		struct rng rng = { seed };

		for (uint32_t rank = 0; rank < 2; rank++)
			write_shard(directory, rank, &rng, seed % 2);
		show_all(directory, seed < 4);
		remove_directory(directory);
	}
}

/* Every name of a run does what it can. */
static void test_evil_names(void **state)
{
	static char evil[N_NAMES][128];
	static const char *pointers[N_NAMES];

	(void)state;
	for (size_t i = 0; i < N_NAMES; i++) {
		snprintf(evil[i], sizeof(evil[i]), EVIL "%s", usual[i]);
		pointers[i] = evil[i];
	}
	for (int round = 0; round < 6; round++) {
		char *directory = temporary_directory();
		struct rng rng = { 77 + (uint64_t)round };

		names = pointers;
		write_shard(directory, 0, &rng, false);
		/* Some that analyses know. */
		names = usual;
		write_shard(directory, 1, &rng, false);
		show_all(directory, false);
		remove_directory(directory);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_extremes),
		cmocka_unit_test(test_evil_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
