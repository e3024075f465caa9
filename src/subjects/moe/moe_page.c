/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of the parts of a mixture of experts on the devices: a row for each part and pass, what of its
 * communication is hidden, what that costs, and the layers.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/moe/moe_lens.h"
#include "subjects/pages/pages.h"

#define TOP_COST 5
#define TOP_LAYERS 16

static void more_rows(const struct scene *scene, size_t limit, const struct field_set *set,
		      enum moe_form form, struct page *page)
{
	struct field_row at = section_from(&section_moe, scene);

	at.form = form;
	page_table(page, page_rows(page, set, &at), limit, ": moescope moe --json");
}

static void communication(const struct scene *scene, struct page *page)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);
	const struct moe_comm *comm = &moe->comm;

	if (!comm->count) {
		page_words(page, 2, 4,
			   "no expert communication: no dispatch, combine or all-to-all kernels");
		return;
	}
	page_words(page, 2, 4, "expert communication: %s, %s hidden, %s exposed",
		   format_ns((double)comm->time_ns).text,
		   comm->hidden_pct.known ? format_pct(comm->hidden_pct.v).text : "n/a",
		   format_ns((double)comm->exposed_ns).text);
	if (comm->notify_ns > 0)
		page_put(page, "; %s of it notify and wait",
			 format_ns((double)comm->notify_ns).text);
	if (moe->overlap != MOE_NO_OVERLAP)
		page_words(page, 2, 4,
			   "two-batch overlap, %s: %s of it overlaps work of another batch",
			   moe_overlap_name(moe->overlap), format_pct(moe->two_batch_pct.v).text);
	more_rows(scene, 0, &moe_fields, MOE_BY_COMM, page);
}

static void cost_of_overlap(const struct scene *scene, struct page *page)
{
	const struct moe_cost *cost = &answer_moe_lens(scene->answers)->cost;

	if (!answer_moe_lens(scene->answers)->comm.count)
		return;
	if (!cost->extra_ns.known) {
		page_words(page, 2, 4, "slowdown of overlapped kernels: n/a: %s",
			   cost->extra_ns.reason);
		return;
	}
	page_words(
		page, 2, 4,
		"overlapped kernels run %s %s than the same launches without communication (%" PRIu64
		" compared, %s in total)",
		format_pct(cost->slower_pct.v < 0 ? -cost->slower_pct.v : cost->slower_pct.v).text,
		cost->slower_pct.v < 0 ? "faster" : "slower", cost->compared,
		format_ns(cost->extra_ns.v).text);
	more_rows(scene, TOP_COST, &moe_cost_fields, MOE_BY_PART, page);
}

static void layers(const struct scene *scene, struct page *page)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);

	if (moe->layers_none) {
		page_words(page, 2, 4, "layers: n/a: %s", moe->layers_none);
		return;
	}
	page_words(page, 2, 4, "%zu layer%s, %s", moe->n_layers, moe->n_layers == 1 ? "" : "s",
		   moe->layers_by[0] == 'r' ? "numbered as in their ranges"
					    : "numbered in the order of their ranges");
	more_rows(scene, TOP_LAYERS, &moe_layers_fields, MOE_BY_PART, page);
}

static void moe_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct moe_lens *moe = answer_moe_lens(scene->answers);

	if (moe->reason) {
		page_words(page, 2, 4, "n/a: %s", moe->reason);
		return;
	}
	page_sampled(scene, "", page);
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	communication(scene, page);
	if (moe->precision)
		page_words(page, 2, 4, "experts compute in %s", moe->precision);
	if (moe->shared_none)
		page_words(page, 2, 4, "%s", moe->shared_none);
	cost_of_overlap(scene, page);
	layers(scene, page);
}

/* Only where there is one: most runs are of dense models. */
void moe_report(const struct scene *scene, struct page *page)
{
	if (answer_moe_lens(scene->answers)->reason)
		return;
	page_title(page, "Mixture of experts on the devices");
	page_top(page, &section_moe, scene, 0);
}

const struct section section_moe = {
	.name = "moe",
	.sql = "moe_summary",
	.reads = READS(&subject_moe_lens, &subject_coverage),
	.device = true,
	.subject = &subject_moe_lens,
	.rows = &moe_fields,
	.total = &moe_total,
	.page = moe_page,
	.command = {
		.place = 70,
		.summary = "attention, router, dispatch, experts, combine: hidden and exposed",
		.description = "Device time by part of a mixture of experts and by pass; how much of the "
			       "communication between experts is hidden, behind which pass, and what "
			       "that costs the overlapped kernels; one row per layer if layers can be "
			       "identified.",
		.examples = EXAMPLES({ "moescope moe", "The newest run here." },
				     { "moescope moe train.json.gz --sort exposed_ns",
				       "The most exposed communication in a PyTorch trace." },
				     { "moescope moe a.mscope --steps 10:19 --json",
				       "Ten steps, for a script." }),
		.parameters = PARAMETERS(ASK_PLACE),
	},
};
