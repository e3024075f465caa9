/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of why kernels are slow, by the counters of their launches.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/counters/kernel_limits.h"
#include "subjects/pages/pages.h"

#define TOP_KERNELS 8
#define NAME_COLUMNS 24 /* beside a bar */

/* The words are too long for a column beside the figures. */
static void because_table(const struct grid *figures, size_t limit, struct page *page)
{
	static const struct grid_column columns[] = {
		{ "short_name", "kernel", UNIT_TEXT, .flexible = true },
		{ "because", "why", UNIT_TEXT },
	};
	struct grid *grid = figures ? page_grid(page) : NULL;

	if (!grid)
		return;
	grid_init(grid, columns, 2);
	for (size_t i = 0; i < figures->n; i++) {
		const struct kernel_limit_row *row = figures->rows[i].item;
		struct cell *cells = grid_add(grid, row);

		if (!cells) {
			page->error = -ENOMEM;
			return;
		}
		cells[0] = cell_text(row->short_name);
		cells[1] = cell_text(row->bound ? row->because : row->no_bound);
	}
	page_empty_line(page);
	page_table(page, grid, limit, PAGE_MORE_ROWS);
}

/* The part of the GPU that each kernel brought closest to its peak. */
static void speed_of_light(const struct grid *figures, size_t limit, struct page *page)
{
	size_t told = 0;

	for (size_t i = 0; i < figures->n && (!limit || told < limit); i++) {
		const struct kernel_limit_row *row = figures->rows[i].item;
		size_t part = kernel_part_nearest(row);
		struct value pct;

		if (part == KERNEL_PARTS)
			continue;
		pct = kernel_part_pct(row, part);
		if (!told++) {
			page_empty_line(page);
			page_line(
				page, 2,
				"the part of the GPU that each kernel brought closest to its peak");
		}
		page_line(page, 4, "%s", "");
		page_put_fitted(page, row->short_name, NAME_COLUMNS);
		page_put(page, "  %-12s %6s  ", kernel_part_name(part), format_pct(pct.v).text);
		page_bar(page, pct.v / 100, pct.v >= BOUND_PCT ? TONE_WARNING : TONE_PLAIN,
			 4 + NAME_COLUMNS + 2 + 12 + 1 + 6 + 2);
	}
	if (told)
		page_empty_line(page);
}

/* Clocks are left as they are: they may have changed from launch to launch. */
static void tell_clocks(const struct kernel_limits *limits, struct page *page)
{
	size_t kernels = 0;
	double most = 0;

	for (size_t i = 0; i < limits->n; i++) {
		const struct value *spread = &limits->rows[i].clock_spread_pct;

		if (!spread->known || spread->v < CLOCK_SPREAD_PCT)
			continue;
		kernels++;
		most = spread->v > most ? spread->v : most;
	}
	if (kernels)
		page_words(page, 2, 4,
			   "clocks changed while launches were measured, by up to %.0f%% (kernels: "
			   "%zu): times and rates are means over them",
			   most, kernels);
}

static void limits_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct kernel_limits *limits = answer_kernel_limits(scene->answers);

	if (!grid->n) {
		page_words(
			page, 2, 2,
			"no counters of kernels here: see run --counters, or import a CSV of ncu");
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	because_table(grid, scene->limit, page);
	speed_of_light(grid, scene->limit, page);
	tell_clocks(limits, page);
	page_line(page, 2, "measured: launches %" PRIu64 ", of kernels %zu", limits->launches,
		  limits->n);
}

/* Someone may have counted other things alone. */
static bool any_figure(const struct kernel_limits *limits)
{
	bool any = false;

	for (size_t i = 0; i < limits->n && !any; i++)
		any = limits->rows[i].figures > 0;
	return any;
}

void kernel_limits_report(const struct scene *scene, struct page *page)
{
	const struct grid *grid;

	if (!any_figure(answer_kernel_limits(scene->answers)))
		return;
	page_title(page, "What bounds the kernels, by hardware counters");
	grid = page_section(page, &section_counters_kernels, scene);
	page_table(page, grid, TOP_KERNELS, ": moescope counters --by kernel");
	because_table(grid, TOP_KERNELS, page);
	tell_clocks(answer_kernel_limits(scene->answers), page);
}

const struct section section_counters_kernels = {
	.name = "counters-kernels",
	.sql = "kernel_limits",
	.reads = READS(&subject_kernel_limits),
	.subject = &subject_kernel_limits,
	.rows = &kernel_limits_fields,
	.total = &kernel_limits_total,
	.page = limits_page,
};
