/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of metrics of single launches, as a kernel profiler measured them.
 */
#include <inttypes.h>

#include "subjects/counters/launch_metrics.h"
#include "subjects/pages/pages.h"

/* The first of the rows says what it is about. */
static void tell_doubt(const struct launch_metrics *m, struct page *page)
{
	for (size_t i = 0; i < m->n && m->doubted; i++)
		if (m->rows[i].doubt[0]) {
			page_words(
				page, 2, 4,
				"replayed kernels whose passes may not fit together (rows: %zu), such as %s: %s; "
				"--json has all as 'doubt'",
				m->doubted, m->rows[i].short_name, m->rows[i].doubt);
			return;
		}
}

static void counters_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct launch_metrics *m = answer_launch_metrics(scene->answers);

	if (!grid->n) {
		page_line(
			page, 2,
			"no counters of kernels here: see run --counters, or import a CSV of ncu");
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	tell_doubt(m, page);
	page_line(page, 2,
		  "profiled: launches %" PRIu64 ", of kernels %" PRIu64 ", values %" PRIu64,
		  m->launches, m->kernels, m->values);
}

/* There are many, and which of them matter depends on the question: they have a view of their own. */
void counters_report(const struct scene *scene, struct page *page)
{
	const struct launch_metrics *m = answer_launch_metrics(scene->answers);

	if (!m->n)
		return;
	page_title(page, "Hardware counters of kernels");
	page_line(page, 2, "profiled: launches %" PRIu64 ", of kernels %" PRIu64, m->launches,
		  m->kernels);
	page_line(page, 2, "... %" PRIu64 " values: moescope counters", m->values);
}

static const char *const by_choices[] = { "metric", "kernel", "range", "layer",
					  "expert", "stall",  "line",  NULL };
/* In the order of by_choices. */
static const struct section *const tables[] = {
	&section_counters,	   &section_counters_kernels,
	&section_counters_ranges,  &section_counters_layers,
	&section_counters_experts, &section_counters_stalls,
	&section_counters_lines,   NULL
};
static const struct question_parameter by = {
	.name = "by",
	.letter = 'b',
	.kind = ASK_TABLE,
	.metavar = "WHAT",
	.choices = by_choices,
	.help = "one row per metric of a kernel (metric), per kernel (kernel: its utilisation of the GPU, and what "
		"bounds it), or per range, layer or expert that launched it (bytes of memory, operations, tokens); "
		"with run --counters pc, per stall reason of a kernel (stall) or line of its source (line)",
	.default_text = "metric",
};

const struct section section_counters = {
	.name = "counters",
	.reads = READS(&subject_launch_metrics),
	.subject = &subject_launch_metrics,
	.rows = &counters_fields,
	.total = &counters_total,
	.page = counters_page,
	.command = {
		.place = 100,
		.summary = "hardware counters of individual kernels",
		.description = "One row per kernel and metric: in how many launches it was "
			       "measured, and the mean, smallest and largest value, in the row's "
			       "unit. RUN is a run recorded with 'run --counters', or an Nsight "
			       "Compute CSV (ncu --csv, with --page raw or details), imported or "
			       "not.",
		.examples = EXAMPLES({ "moescope counters ncu.csv",
				       "What Nsight Compute measured, one row per metric." },
				     { "moescope counters ncu.csv --csv | grep dram__",
				       "Memory metrics only." },
				     { "moescope counters ncu.csv --by kernel",
				       "What bounds each kernel." },
				     { "moescope counters a.mscope --by expert",
				       "Bytes of memory per token, by expert." },
				     { "moescope counters a.mscope --by line",
				       "Lines of kernels at which most warps waited." }),
		.parameters = PARAMETERS(&by),
		.tables = tables,
	},
};
