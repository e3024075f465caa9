/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of copies and sets.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/pages/pages.h"
#include "subjects/transfers/transfers.h"

static const char *bytes_text(struct format *text, uint64_t bytes, uint64_t not_told,
			      uint64_t count)
{
	*text = format_bytes((double)bytes);
	return not_told && not_told == count ? "n/a bytes" : text->text;
}

static void sums(const struct transfers *t, struct page *page)
{
	struct format bytes;

	page_line(page, 2, "copies: %s, %s in %s, %s of them below %d bytes",
		  format_count((double)t->count).text,
		  bytes_text(&bytes, t->bytes, t->bytes_not_told, t->count),
		  format_ns((double)t->time_ns).text, format_count((double)t->small).text,
		  TRANSFER_SMALL_BYTES);
	if (t->sets)
		page_line(page, 2, "sets: %s, %s in %s", format_count((double)t->sets).text,
			  bytes_text(&bytes, t->set_bytes, t->set_bytes_not_told, t->sets),
			  format_ns((double)t->set_time_ns).text);
	if (t->bytes_not_told || t->set_bytes_not_told)
		page_line(page, 2, "without bytes: copies %" PRIu64 ", sets %" PRIu64 "; %s",
			  t->bytes_not_told, t->set_bytes_not_told, NOT_IN_FILE);
	for (size_t i = 0; i < t->n; i++)
		if (t->rows[i].limit_pct.known)
			page_line(page, 2, "against the limit: %s %s, %s of %s/s", t->rows[i].kind,
				  t->rows[i].memory, format_pct(t->rows[i].limit_pct.v).text,
				  format_bytes(t->rows[i].limit_bytes_per_s.v).text);
	for (size_t i = 0; i < t->n_staged; i++)
		page_line(page, 2, "staged through the host: gpu %u to gpu %u, %s moves, %s in %s",
			  t->staged[i].src, t->staged[i].dst,
			  format_count((double)t->staged[i].count).text,
			  format_bytes((double)t->staged[i].bytes).text,
			  format_ns((double)t->staged[i].time_ns).text);
	if (t->untimed || t->sets_untimed)
		page_line(page, 2, "without times: %" PRIu64 "; they count, their time does not",
			  t->untimed + t->sets_untimed);
}

static void transfers_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct transfers *t = answer_transfers(scene->answers);

	if (!scene_has_device(scene->run)) {
		page_no_device(scene, page);
		return;
	}
	page_sampled(scene, "", page);
	if (grid->n) {
		page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
		sums(t, page);
	} else {
		page_line(page, 2, "no copies or sets in this run or window");
	}
	if (t->without_call)
		page_line(page, 2, "left out: %" PRIu64 " whose call was not recorded",
			  t->without_call);
}

void transfers_report(const struct scene *scene, struct page *page)
{
	if (!scene_has_device(scene->run))
		return;
	page_title(page, "Copies and sets");
	page_top(page, &section_transfers, scene, 0);
}

const struct section section_transfers = {
	.name = "transfers",
	.sql = "transfer_summary",
	.reads = READS(&subject_transfers, &subject_coverage),
	.device = true,
	.subject = &subject_transfers,
	.rows = &transfers_fields,
	.total = &transfers_total,
	.page = transfers_page,
	.command = {
		.place = 80,
		.summary = "copies between host and devices, and their bandwidth",
		.description = "One row per kind of copy, host memory and pair of devices: bytes, "
			       "time, bandwidth, how much overlapped kernels, and how many were "
			       "too small to be fast. Memory sets are separate.",
		.examples = EXAMPLES({ "moescope transfers", "The newest run here, by time." },
				     { "moescope transfers a.mscope --sort bytes",
				       "By bytes moved." }),
		.parameters = PARAMETERS(ASK_PLACE),
	},
};
