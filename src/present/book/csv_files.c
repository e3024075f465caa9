/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of the files of a book, and the book; see csv_files.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "present/book/csv_book.h"

#define COLUMNS_FILE "columns.csv"

static const struct csv_column columns_columns[] = {
	{ "file", "" }, { "column", "" }, { "how", "" }, { NULL, NULL }
};

static int write_columns(const struct csv_book *book, const struct csv_file *file, FILE *out);

/* A new file is one line here. Files of a section have its columns, which `explain` defines. */
static const struct csv_file files[] = {
	/* Of real-time MoE profilers. */
	{ "memory_stats_%s.csv", csv_memory_stats, NULL, csv_write_memory_stats },
	{ "kernel_stats_%s.csv", csv_kernel_stats, NULL, csv_write_kernel_stats },
	{ "expert_routing_%s.csv", csv_expert_routing, NULL, csv_write_expert_routing },
	{ "profiler_report_%s.json", csv_profiler_report, NULL, csv_write_profiler_report },
	/* Of frameworks around the Nsight tools. */
	{ "nsys_summary.csv", csv_nsys_summary, NULL, csv_write_nsys_summary },
	{ "cuda_api_summary.csv", csv_api_summary, NULL, csv_write_api_summary },
	{ "nsys_metrics.json", csv_nsys_metrics, NULL, csv_write_nsys_metrics },
	/* Ours. routing_steps.csv has the columns of router profilers. */
	{ .section = &section_kernels },
	{ .section = &section_ops },
	{ .section = &section_api },
	{ .section = &section_steps },
	{ .section = &section_transfers },
	{ .section = &section_comm },
	{ .section = &section_moe },
	{ .section = &section_memory },
	{ .section = &section_routing },
	{ .section = &section_routing_steps },
	{ "timeline.csv", csv_timeline, NULL, csv_write_timeline },
	{ "verdicts.csv", csv_verdicts, NULL, csv_write_verdicts },
	{ COLUMNS_FILE, columns_columns, NULL, write_columns },
};
#define N_FILES (sizeof(files) / sizeof(files[0]))

size_t csv_book_files(void)
{
	return N_FILES;
}

void csv_header(const struct csv_column *columns, FILE *out)
{
	for (size_t i = 0; columns[i].key; i++)
		fprintf(out, "%s%s", i ? "," : "", columns[i].key);
	fputc('\n', out);
}

struct cell csv_timestamp(int64_t realtime_ns, char *text, size_t size)
{
	/* Records are of our time; a broken clock must not print "-1.-5". */
	if (realtime_ns < 0)
		return cell_real((double)realtime_ns / 1e9);
	snprintf(text, size, "%lld.%09lld", (long long)(realtime_ns / 1000000000),
		 (long long)(realtime_ns % 1000000000));
	return cell_text(text);
}

static void set_stamp(const struct run *run, char *out, size_t size)
{
	int64_t ns = run->info.started_realtime_ns;
	struct tm local;
	time_t seconds;

	if (!ns && run->n_shards)
		ns = run->shards[0].start_ns + run->shards[0].realtime_offset_ns;
	seconds = (time_t)(ns / 1000000000);
	if (!ns || !localtime_r(&seconds, &local) || !strftime(out, size, "%Y%m%d_%H%M%S", &local))
		snprintf(out, size, "unknown");
}

static const struct subject *const kernel_reads[] = { &subject_kernels, NULL };

/* It reads every subject: its sections and the rules of its verdicts declare what each of them does. */
static int analyze(struct csv_book *book, struct err *err)
{
	const struct answers *a = book->answers;
	struct question q = scene_question(&book->options);
	struct asked asked[BOOK_ASKED] = {
		[BOOK] = { q, { "the CSV book", subjects_all } },
		[BOOK_BY_CLASS] = { q, { "the CSV book by class", kernel_reads } },
		[BOOK_BY_EXPERT] = { q, { "the CSV book by expert", kernel_reads } },
	};
	struct overview_parts parts;
	int r;

	asked[BOOK].question.routed_tokens = true;
	asked[BOOK].question.router_time = true;
	asked[BOOK_BY_CLASS].question.kernels_by = KERNELS_BY_CLASS;
	asked[BOOK_BY_EXPERT].question.kernels_by = KERNELS_BY_EXPERT;
	r = scene_compute(book->run, &book->options, asked, BOOK_ASKED, book->answers, err);
	if (r < 0)
		return r;
	parts = (struct overview_parts){
		.memory = answer_memory(a),
		.device_memory = answer_device_memory(a),
		.device_states = answer_device_states(a),
		.timeline = answer_timeline(a),
		.routing = answer_routing(a),
		.by_class = answer_kernels(&a[BOOK_BY_CLASS]),
		.by_expert = answer_kernels(&a[BOOK_BY_EXPERT]),
	};
	r = verdicts_analyze(book->run, a, &book->verdicts);
	if (r >= 0)
		r = memory_history_make(book->run, answer_memory(a), &book->memory);
	if (r >= 0)
		r = overview_make(book->run, &parts, &book->overview);
	return r < 0 ? err_sys(err, r, "cannot analyse run '%s'", book->run->info.name) : 0;
}

int csv_book_new(const struct run *run, const struct present_options *options,
		 struct csv_book **ret_book, struct err *err)
{
	struct csv_book *book = calloc(1, sizeof(*book));
	int r;

	if (!book)
		return err_sys(err, -ENOMEM, "cannot analyse run '%s'", run->info.name);
	book->run = run;
	book->options = *options;
	book->options.kernels_by = KERNELS_BY_NAME;
	book->options.limit = 0;
	book->scene = (struct scene){ run, &book->options, book->answers };
	set_stamp(run, book->stamp, sizeof(book->stamp));
	r = analyze(book, err);
	if (r < 0) {
		csv_book_free(book);
		return r;
	}
	*ret_book = book;
	return 0;
}

void csv_book_free(struct csv_book *book)
{
	if (!book)
		return;
	answers_release(book->answers);
	verdicts_release(&book->verdicts);
	memory_history_release(&book->memory);
	overview_release(&book->overview);
	free(book);
}

/* A section's by its name: "routing_steps.csv". The others have one "%s" at most, and are ours. */
static void file_name(const struct csv_file *file, const char *stamp, char *out, size_t size)
{
	const char *at = file->name ? strstr(file->name, "%s") : NULL;

	if (file->section) {
		snprintf(out, size, "%s.csv", file->section->name);
		for (char *c = out; *c; c++)
			*c = *c == '-' ? '_' : *c;
	} else if (at) {
		snprintf(out, size, "%.*s%s%s", (int)(at - file->name), file->name, stamp, at + 2);
	} else {
		snprintf(out, size, "%s", file->name);
	}
}

void csv_book_name(const struct csv_book *book, size_t file, char *out, size_t size)
{
	file_name(&files[file], book->stamp, out, size);
}

static int write_section(const struct csv_book *book, const struct section *section, FILE *out)
{
	struct answers answers;
	struct scene scene = section_scene(section, &book->scene, &answers);
	struct grid grid;
	int r = section_grid(section, &scene, &grid);

	if (r >= 0)
		grid_csv(&grid, 0, out);
	grid_release(&grid);
	return r;
}

int csv_book_write(const struct csv_book *book, size_t file, FILE *out, struct err *err)
{
	const struct csv_file *f = &files[file];
	int r = f->section ? write_section(book, f->section, out) : f->write(book, f, out);

	if (r < 0) {
		char name[64];

		csv_book_name(book, file, name, sizeof(name));
		return err_sys(err, r, "cannot make '%s'", name);
	}
	return 0;
}

static int section_columns(const struct csv_book *book, const struct csv_file *file,
			   const char *name, FILE *out)
{
	struct answers answers;
	struct scene scene = section_scene(file->section, &book->scene, &answers);
	struct grid grid;
	char how[128];
	int r = section_grid(file->section, &scene, &grid);

	snprintf(how, sizeof(how), "'moescope %s --csv'; 'moescope explain' defines it",
		 file->section == &section_routing_steps ? "routing --columns steps"
							 : file->section->name);
	for (size_t c = 0; r >= 0 && c < grid.n_columns; c++) {
		struct cell cells[] = { cell_text(name), cell_text(grid.columns[c].key),
					cell_text(how) };

		grid_csv_row(cells, 3, out);
	}
	grid_release(&grid);
	return r;
}

/* What the other files hold. */
static int write_columns(const struct csv_book *book, const struct csv_file *file, FILE *out)
{
	int r = 0;

	csv_header(file->columns, out);
	for (size_t i = 0; r >= 0 && i < N_FILES; i++) {
		char name[64];

		if (&files[i] == file)
			continue;
		file_name(&files[i], book->stamp, name, sizeof(name));
		if (files[i].section) {
			r = section_columns(book, &files[i], name, out);
			continue;
		}
		for (const struct csv_column *c = files[i].columns; c->key; c++) {
			struct cell cells[] = { cell_text(name), cell_text(c->key),
						cell_text(c->how) };

			grid_csv_row(cells, 3, out);
		}
	}
	return r;
}
