/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of where warps wait: their fields and their pages.
 */
#include <inttypes.h>

#include "subjects/counters/kernel_limits.h"
#include "subjects/counters/stalls.h"
#include "subjects/pages/pages.h"
#include "subjects/shared/fields.h"

#define TOP_LINES 8
#define OF_REASON(member) MEMBER(struct stall_row, member)
#define OF_LINE(member) MEMBER(struct stalled_line, member)

static const char *words_of(const char *stall)
{
	const char *words = stall_words(stall);

	return words ? words : stall;
}

static struct cell reason_kernel(const struct field_row *at)
{
	return cell_text(((const struct stall_row *)at->item)->kernel->name);
}

static struct cell reason_short_name(const struct field_row *at)
{
	return cell_text(((const struct stall_row *)at->item)->kernel->short_name);
}

static struct cell reason_words(const struct field_row *at)
{
	return cell_text(words_of(((const struct stall_row *)at->item)->stall));
}

static struct cell line_kernel(const struct field_row *at)
{
	return cell_text(((const struct stalled_line *)at->item)->kernel->name);
}

static struct cell line_short_name(const struct field_row *at)
{
	return cell_text(((const struct stalled_line *)at->item)->kernel->short_name);
}

#define NO_LINES "its module has no line information (nvcc -lineinfo)"

static struct cell line_file(const struct field_row *at)
{
	const struct stalled_line *row = at->item;

	return row->file ? cell_text(row->file) : cell_absent(NO_LINES);
}

static struct cell line_number(const struct field_row *at)
{
	const struct stalled_line *row = at->item;

	return row->file ? cell_int(row->line) : cell_absent(NO_LINES);
}

static struct cell line_stall(const struct field_row *at)
{
	const struct stalled_line *row = at->item;

	return row->stall ? cell_text(row->stall) : cell_absent(row->stall_pct.reason);
}

static struct cell line_words(const struct field_row *at)
{
	const struct stalled_line *row = at->item;

	return row->stall ? cell_text(words_of(row->stall)) : cell_absent(row->stall_pct.reason);
}

/* clang-format off */
static const struct field reason_fields[] = {
	{ "kernel", NULL, UNIT_TEXT, READ(TEXT, reason_kernel), .meaning = "name of the kernel, demangled" },
	{ "short_name", "kernel", UNIT_TEXT, READ(TEXT, reason_short_name), .flexible = true,
	  .meaning = "function with its namespaces" },
	{ "stall", "stall", UNIT_TEXT, OF_REASON(stall),
	  .meaning = "reason for which a warp did not go on, by NVIDIA's name; selected: it did" },
	{ "waits_for", "warps wait for", UNIT_TEXT, READ(TEXT, reason_words), .meaning = "the same in words" },
	{ "samples", "samples", UNIT_INT, OF_REASON(samples), .meaning = "warps that were seen so" },
	{ "kernel_pct", "of kernel", UNIT_PCT, OF_REASON(kernel_pct), .metric = NO_METRIC,
	  .meaning = "share of the kernel's samples" },
	{ "not_issued", "idle", UNIT_INT, OF_REASON(not_issued),
	  .meaning = "of these samples those in which the scheduler had no warp that could go on: they cost time" },
};

static const struct field line_fields[] = {
	{ "kernel", NULL, UNIT_TEXT, READ(TEXT, line_kernel), .meaning = "name of the kernel, demangled" },
	{ "short_name", "kernel", UNIT_TEXT, READ(TEXT, line_short_name), .flexible = true,
	  .meaning = "function with its namespaces" },
	{ "source", "source", UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct stalled_line, source), .flexible = true,
	  .meaning = "file and line in short, or, without line information, the instruction" },
	{ "file", NULL, UNIT_TEXT, MAY_READ(TEXT, line_file), .meaning = "of the source" },
	{ "line", NULL, UNIT_INT, MAY_READ(U32, line_number), .meaning = "in that file" },
	{ "offset", NULL, UNIT_INT, OF_LINE(offset),
	  .meaning = "of the instruction with the most samples, in the kernel, in bytes" },
	{ "samples", "samples", UNIT_INT, OF_LINE(samples), .meaning = "warps that were seen there" },
	{ "share_pct", "share", UNIT_PCT, OF_LINE(share_pct), .metric = NO_METRIC, .meaning = "share of all samples of kernels" },
	{ "kernel_pct", "of kernel", UNIT_PCT, OF_LINE(kernel_pct), .metric = NO_METRIC,
	  .meaning = "share of the kernel's samples" },
	{ "not_issued", "idle", UNIT_INT, OF_LINE(not_issued),
	  .meaning = "of these samples those in which the scheduler had no warp that could go on: they cost time" },
	{ "stall", NULL, UNIT_TEXT, MAY_READ(TEXT, line_stall),
	  .meaning = "most frequent reason for which a warp did not go on, by NVIDIA's name" },
	{ "waits_for", "mostly for", UNIT_TEXT, MAY_READ(TEXT, line_words), .meaning = "the same in words" },
	{ "stall_pct", "of line", UNIT_PCT, OF_LINE(stall_pct), .metric = NO_METRIC, .meaning = "its share of the line's samples" },
};
/* clang-format on */

const struct field_set stall_reasons_fields = {
	FIELDS(reason_fields),
	.rows = { { ITEMS(struct stalls, reasons, n_reasons) } },
	.levels = 1,
	.meaning = "kernel and reason for which its warps waited",
};
const struct field_set stalled_lines_fields = {
	FIELDS(line_fields),
	.rows = { { ITEMS(struct stalls, lines, n_lines) } },
	.levels = 1,
	.meaning =
		"line of the source of a kernel (or instruction, if it has no lines) with samples of its warps",
};

static const struct field total_fields[] = {
	{ "samples", NULL, UNIT_INT, MEMBER(struct stalls, samples),
	  .meaning = "samples of kernels of the program" },
	{ "dropped", NULL, UNIT_INT, MEMBER(struct stalls, dropped),
	  .meaning = "samples that the hardware dropped" },
	{ "driver", NULL, UNIT_INT, MEMBER(struct stalls, driver),
	  .meaning = "samples of the driver's own kernels, which have no rows" },
	{ "unnamed", NULL, UNIT_INT, MEMBER(struct stalls, unnamed),
	  .meaning = "samples whose kernel or reason CUPTI did not name" },
};

static const struct field_set stalls_total = { FIELDS(total_fields) };

static void tell_samples(const struct scene *scene, struct page *page)
{
	const struct stalls *stalls = answer_stalls(scene->answers);
	const char *sampled = run_fact(scene->run, "instructions sampled");

	/* A program that was killed has told no more than the samples. */
	if (sampled)
		page_words(page, 2, 4, "%s", sampled);
	else
		page_words(page, 2, 4, "%" PRIu64 " samples of kernels, %" PRIu64 " dropped",
			   stalls->samples, stalls->dropped);
}

static void stalls_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const char *why = run_fact(scene->run, "samples of instructions");

	if (why)
		page_words(page, 2, 4, "%s", why);
	if (!grid->n) {
		if (!why)
			page_words(page, 2, 2,
				   "no samples of instructions here: see run --counters pc");
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	tell_samples(scene, page);
}

void stalls_report(const struct scene *scene, struct page *page)
{
	const struct stalls *stalls = answer_stalls(scene->answers);

	if (!stalls->n_lines)
		return;
	page_title(page, "Where warps wait, by samples of instructions");
	page_table(page, page_section(page, &section_counters_lines, scene), TOP_LINES,
		   ": moescope counters --by line");
	tell_samples(scene, page);
}

#define TABLE(title, table, set)                                                                   \
	{                                                                                          \
		.name = (title), .sql = (table), .reads = READS(&subject_stalls),                  \
		.subject = &subject_stalls, .rows = &(set), .total = &stalls_total,                \
		.page = stalls_page,                                                               \
	}

const struct section section_counters_stalls = TABLE("counters-stalls", "kernel_stalls",
						     stall_reasons_fields);
const struct section section_counters_lines = TABLE("counters-lines", "line_stalls",
						    stalled_lines_fields);
