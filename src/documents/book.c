/* SPDX-License-Identifier: Apache-2.0
 *
 * The book: a run as a folder of tables, those that users of other profilers read, with their names
 * and columns, and every table of moescope's own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "documents/document.h"
#include "exports/tools/tool_files.h"
#include "subjects/answers/subject.h"
#include "subjects/device/device_fields.h"
#include "subjects/memory/memory_history.h"
#include "verdicts/verdicts_page.h"

/* Its questions: one for all, and kernels by something else. */
enum { ASKED_ALL, ASKED_BY_CLASS, ASKED_BY_EXPERT, ASKED };
_Static_assert(ASKED <= ASKED_MAX, "as many as a document can ask");

struct book {
	const struct scene *scene;
	struct selection sel;
	struct verdicts verdicts;
	struct memory_history memory;
	struct overview overview;
	struct profiler_report profiler_report;
};

static const struct subject *const kernel_reads[] = { &subject_kernels, NULL };

/* It reads every subject: its sections and the rules of its verdicts declare what each of them does. */
static size_t book_ask(const struct run *run, const struct question *question,
		       struct asked *ret_asked)
{
	struct question q = *question;

	(void)run;
	q.kernels_by = KERNELS_BY_CLASS;
	ret_asked[ASKED_BY_CLASS] = (struct asked){ q, { "book, classes", kernel_reads } };
	q.kernels_by = KERNELS_BY_EXPERT;
	ret_asked[ASKED_BY_EXPERT] = (struct asked){ q, { "book, experts", kernel_reads } };
	q.kernels_by = KERNELS_BY_NAME;
	q.routed_tokens = true;
	q.router_time = true;
	ret_asked[ASKED_ALL] = (struct asked){ q, { "book", subjects_all } };
	return ASKED;
}

static void book_release(void *own)
{
	struct book *book = own;

	verdicts_release(&book->verdicts);
	memory_history_release(&book->memory);
	overview_release(&book->overview);
	profiler_report_release(&book->profiler_report);
	free(book);
}

static int fill_book(const struct scene *scenes, struct book *book)
{
	const struct run *run = scenes->run;
	const struct answers *a = scenes[ASKED_ALL].answers;
	const struct kernels *by_expert = answer_kernels(scenes[ASKED_BY_EXPERT].answers);
	const struct overview_parts parts = {
		.memory = answer_memory(a),
		.device_memory = answer_device_memory(a),
		.device_states = answer_device_states(a),
		.timeline = answer_timeline(a),
		.routing = answer_routing(a),
		.by_class = answer_kernels(scenes[ASKED_BY_CLASS].answers),
		.by_expert = by_expert,
	};
	int r = verdicts_analyze(run, a, &book->verdicts);

	if (r >= 0)
		r = memory_history_make(run, parts.memory, &book->memory);
	if (r >= 0)
		r = overview_make(run, &parts, &book->overview);
	if (r >= 0)
		r = profiler_report_make(run, a, by_expert, &book->overview,
					 &book->profiler_report);
	return r;
}

static int book_make(const struct scene *scenes, size_t n, void **ret_own)
{
	struct book *book = calloc(1, sizeof(*book));
	int r;

	(void)n;
	if (!book)
		return -ENOMEM;
	book->scene = &scenes[ASKED_ALL];
	book->sel = book->scene->question.sel;
	r = fill_book(scenes, book);
	if (r < 0) {
		book_release(book);
		return r;
	}
	*ret_own = book;
	return 0;
}

/* A row of columns.csv. */
struct book_column {
	const char *file, *column, *how;
};

#define OF(member) MEMBER(struct book_column, member), .meaning = ""

static const struct field column_fields[] = {
	{ "file", NULL, UNIT_TEXT, OF(file) },
	{ "column", NULL, UNIT_TEXT, OF(column) },
	{ "how", NULL, UNIT_TEXT, OF(how) },
};

static int each_column(const struct field_row *from, field_visit visit, void *data);

static const struct field_set columns_file = { FIELDS(column_fields), .each = each_column };

#define OWN(member) .own = offsetof(struct book, member)

/* A new file is one line here. */
static const struct document_file files[] = {
	/* Of real-time MoE profilers. */
	{ "memory_stats_%s.csv", .fields = &memory_stats_file, OWN(memory) },
	{ "kernel_stats_%s.csv", .fields = &kernel_stats_file, OWN(sel) },
	{ "expert_routing_%s.csv", .fields = &expert_routing_file, .subject = &subject_routing },
	{ "profiler_report_%s.json", .fields = &profiler_report_file, OWN(profiler_report) },
	/* Of frameworks around the Nsight tools. */
	{ "nsys_summary.csv", .fields = &nsys_summary_file, .subject = &subject_kernels },
	{ "cuda_api_summary.csv", .fields = &api_summary_file, .subject = &subject_api_calls },
	{ "nsys_metrics.json", .fields = &nsys_metrics_file, .subject = &subject_kernels },
	{ "ncu_metrics.json", .fields = &ncu_metrics_file, .subject = &subject_kernel_limits },
	{ "ncu_summary.csv", .fields = &ncu_summary_file, .subject = &subject_kernel_limits },
	/* Ours. routing_steps.csv has the columns of router profilers. */
	{ "kernels.csv", &section_kernels },
	{ "ops.csv", &section_ops },
	{ "api.csv", &section_api },
	{ "steps.csv", &section_steps },
	{ "transfers.csv", &section_transfers },
	{ "comm.csv", &section_comm },
	{ "moe.csv", &section_moe },
	{ "memory.csv", &section_memory },
	{ "routing.csv", &section_routing },
	{ "routing_steps.csv", &section_routing_steps, .command = "routing --columns steps" },
	{ "timeline.csv", .fields = &timeline_rows, .subject = &subject_timeline },
	{ "verdicts.csv", .fields = &verdict_rows, OWN(verdicts) },
	{ "columns.csv", .fields = &columns_file, OWN(scene) },
	{ 0 },
};
_Static_assert(!offsetof(struct book, scene), "columns.csv is read from all of the book");

/* The row that is being made, and who wants it. */
struct listing {
	struct book_column column;
	struct field_row row;
	field_visit visit;
	void *data;
};

static int list_column(struct listing *listing, const char *key, const char *how)
{
	listing->column.column = key;
	listing->column.how = how;
	return listing->visit(&listing->row, listing->data);
}

/* Fields that are explained, and those of the objects among them, as "stats.memory". */
static int list_fields(struct listing *listing, const struct field *fields, size_t n,
		       const char *prefix)
{
	int r = 0;

	for (size_t i = 0; !r && i < n; i++) {
		const struct field_group *of = fields[i].of;
		char key[128];

		snprintf(key, sizeof(key), "%s%s", prefix, fields[i].key);
		if (fields[i].meaning)
			r = list_column(listing, key, fields[i].meaning);
		if (!r && of && of->shape == FIELD_OBJECT) {
			snprintf(key, sizeof(key), "%s%s.", prefix, fields[i].key);
			r = list_fields(listing, of->fields, of->n_fields, key);
		}
	}
	return r;
}

static int list_section(struct listing *listing, const struct document_file *file,
			const struct scene *scene)
{
	const struct field_set *set = file->section->rows;
	unsigned int form = section_from(file->section, scene).form;
	char how[128];
	int r = 0;

	snprintf(how, sizeof(how), "'moescope %s --csv'; 'moescope explain' defines it",
		 file->command ? file->command : file->section->name);
	for (size_t i = 0; !r && i < set->n_fields; i++)
		if (field_is_column(&set->fields[i], form))
			r = list_column(listing, set->fields[i].key, how);
	return r;
}

/* What the other files hold. */
static int each_column(const struct field_row *from, field_visit visit, void *data)
{
	const struct book *book = from->item;
	char name[DOCUMENT_FILE_NAME_SIZE];
	struct listing listing = { { .file = name }, *from, visit, data };
	int r = 0;

	listing.row.in = from;
	listing.row.item = &listing.column;
	for (const struct document_file *f = files; !r && f->fields != &columns_file; f++) {
		document_file_name(f, from->run, name, sizeof(name));
		r = f->section ? list_section(&listing, f, book->scene)
			       : list_fields(&listing, f->fields->fields, f->fields->n_fields, "");
	}
	return r;
}

/* When the run began where this is read: "20260131_140307". */
static void format_start(const struct run *run, char *out, size_t size)
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

void document_file_name(const struct document_file *file, const struct run *run, char *out,
			size_t size)
{
	const char *at = strstr(file->name, "%s");
	char start[24];

	if (!at) {
		snprintf(out, size, "%s", file->name);
		return;
	}
	format_start(run, start, sizeof(start));
	snprintf(out, size, "%.*s%s%s", (int)(at - file->name), file->name, start, at + 2);
}

const struct document document_book = {
	.kinds = WANT_ALL,
	.ask = book_ask,
	.make = book_make,
	.release = book_release,
	.files = files,
};
