/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of efficiency: how near the run comes to what its devices can do. MFU, and kernel classes (or
 * operations) against their roof.
 */
#include "base/text/format.h"
#include "subjects/efficiency/efficiency.h"
#include "subjects/pages/pages.h"

#define DEVICES 8  /* that have lines */
#define TOP_WORK 6 /* of the report */

static void model_lines(const struct efficiency *e, struct page *page)
{
	const char *plural = e->steps == 1 ? "" : "s";

	if (e->mfu_pct.known)
		page_words(page, 2, 4, "MFU %s of %s (%s): %s FLOP in %zu step%s (%s)",
			   format_pct(e->mfu_pct.v).text,
			   peak_dtype_name((enum peak_dtype)(int)e->dtype.v), e->dtype_source,
			   format_count(e->model_flops.v).text, e->steps, plural, e->flops_source);
	else
		page_words(page, 2, 4, "MFU n/a: %s", e->mfu_pct.reason);
	if (!e->mfu_pct.known && e->model_flops_per_s.known)
		page_words(page, 2, 4, "model: %s in %zu step%s (%s)",
			   format_flops(e->model_flops_per_s.v).text, e->steps, plural,
			   e->flops_source);
}

static struct format pct_or_none(struct value value)
{
	return value.known ? format_pct(value.v) : (struct format){ "n/a" };
}

static void efficiency_device_lines(const struct efficiency_device *d, struct page *page)
{
	if (d->cpu)
		page_words(page, 2, 4, "processor: ");
	else
		page_words(page, 2, 4, "rank %u, gpu %u: ", d->rank, d->device);
	if (!d->source) {
		page_put(page, "%s", d->reason);
		return;
	}
	page_put(page, "%s, peak %s, memory %s/s; %s", d->name,
		 d->peak_flops_per_s.known ? format_flops(d->peak_flops_per_s.v).text : "n/a",
		 d->memory_bytes_per_s.known ? format_bytes(d->memory_bytes_per_s.v).text : "n/a",
		 d->source);
	if (d->gpm[GPM_SM].known || d->gpm[GPM_TENSOR].known || d->gpm[GPM_DRAM].known)
		page_words(page, 4, 4, "measured: SM active %s, tensor active %s, DRAM %s",
			   pct_or_none(d->gpm[GPM_SM]).text, pct_or_none(d->gpm[GPM_TENSOR]).text,
			   pct_or_none(d->gpm[GPM_DRAM]).text);
}

static void efficiency_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct efficiency *e = answer_efficiency(scene->answers);

	model_lines(e, page);
	for (size_t i = 0; i < e->n_devices && i < DEVICES; i++)
		efficiency_device_lines(&e->devices[i], page);
	page_rest(page, 2, e->n_devices, DEVICES, " devices: moescope efficiency --json");
	if (e->on_device)
		page_sampled(scene, "", page);
	if (!grid->n) {
		page_line(page, 2,
			  e->on_device ? "no kernels in this run or window"
			  : run_is_foreign(scene->run)
				  ? "no operation of the file tells FLOPs or bytes"
				  : "no operation reported FLOPs or bytes: see moescope_op_end()");
		return;
	}
	if (e->on_device && !efficiency_is_told(e)) {
		page_line(
			page, 2,
			"work against its roof: n/a (no kernel's operation reported FLOPs or bytes)");
		return;
	}
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	page_line(page, 2,
		  e->on_device ? "rates cover the kernels whose operation reported FLOPs or bytes"
			       : "rates and roof are of one thread; est.: all cores share the peak "
				 "alike");
}

void efficiency_report(const struct scene *scene, struct page *page)
{
	size_t n;

	page_title(page, "Efficiency");
	n = page_top(page, &section_efficiency, scene, TOP_WORK);
	if (efficiency_is_told(answer_efficiency(scene->answers)))
		page_rest(page, 2, n, TOP_WORK, ": moescope efficiency");
}

const struct section section_efficiency = {
	.name = "efficiency",
	.sql = "efficiency_summary",
	.reads = READS(&subject_efficiency, &subject_routing, &subject_coverage),
	.device = true,
	.subject = &subject_efficiency,
	.rows = &efficiency_fields,
	.total = &efficiency_total,
	.page = efficiency_page,
	.command = {
		.place = 120,
		.summary = "model FLOPs utilisation, and work against its roof",
		.description = "The share of the device's arithmetic that the model uses (MFU), "
			       "and for each kernel class (without a GPU: each operation) the "
			       "FLOPs and bytes per second against the most that work of this "
			       "intensity can reach. Peaks are those measured by 'moescope doctor "
			       "--calibrate', or else the vendor's.",
		.examples = EXAMPLES({ "moescope efficiency", "The newest run here." },
				     { "moescope efficiency a.mscope --sort roof_pct --limit 5",
				       "The five kinds of work closest to their roof." },
				     { "moescope doctor --calibrate",
				       "Measure the peaks of this machine first." }),
		.parameters = PARAMETERS(&ask_steps),
	},
};
