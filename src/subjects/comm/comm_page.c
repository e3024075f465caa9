/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of communication: devices, transports, and a row for each collective.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/comm/comm.h"
#include "subjects/pages/pages.h"

#define TOP_COLLECTIVES 6 /* of the report */

static void more_rows(const struct scene *scene, const struct field_set *set, struct page *page)
{
	struct field_row at = section_from(&section_comm, scene);

	page_table(page, page_rows(page, set, &at), scene->limit, PAGE_MORE_ROWS);
}

/* Only where there is more than one: else it is what the devices' table says. */
static bool has_transports(const struct comm *comm)
{
	int n = 0;

	for (int t = 0; t < COMM_TRANSPORTS; t++)
		n += comm->of[t].count != 0;
	return n > 1;
}

static void waits(const struct comm_skew *skew, struct page *page)
{
	if (!skew->matched)
		return;
	page_words(page, 2, 4,
		   "%s collectives on more than one rank: begun %s apart on average, %s at most",
		   format_count((double)skew->matched).text, format_ns(skew->mean_ns.v).text,
		   format_ns(skew->max_ns.v).text);
	if (skew->late_rank.known)
		page_put(page, "; rank %.0f was last in %s of them, the others waited %s",
			 skew->late_rank.v, format_pct(skew->late_pct.v).text,
			 format_ns(skew->wait_ns.v).text);
}

/* The table is of the whole windows; what is exposed in the steps, of their time. */
static void of_steps(const struct comm *comm, struct page *page)
{
	int64_t window = 0, exposed = 0;

	if (!comm->of_steps || !comm->exposed_pct.known || !comm->all.count)
		return;
	for (size_t i = 0; i < comm->n_devices; i++) {
		window = ns_sum(window, comm->devices[i].step_window_ns);
		exposed = ns_sum(exposed, comm->devices[i].step_exposed_ns);
	}
	page_line(page, 2, "in the steps: exposed %s of %s, %s", format_ns((double)exposed).text,
		  format_ns((double)window).text, format_pct(comm->exposed_pct.v).text);
}

static void comm_doubts(const struct comm *comm, struct page *page)
{
	if (comm->host_count)
		page_line(page, 2,
			  "on the host: %" PRIu64
			  " collective%s, %s in all; in no figure of a device",
			  comm->host_count, comm->host_count == 1 ? "" : "s",
			  format_ns((double)comm->host_ns).text);
	if (comm->all.untimed)
		page_line(page, 2, "without times: %" PRIu64 "; they count, their time does not",
			  comm->all.untimed);
	if (comm->without_kernel)
		page_line(page, 2, "without a kernel: %" PRIu64 " records; they are in no union",
			  comm->without_kernel);
	if (comm->without_call)
		page_line(page, 2,
			  "left out: %" PRIu64 " device records whose call was not recorded",
			  comm->without_call);
}

static void comm_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct comm *comm = answer_comm(scene->answers);

	if (!scene_has_device(scene->run) && !grid->n) {
		page_no_device(scene, page);
		return;
	}
	page_sampled(scene, "", page);
	if (comm->n_devices)
		more_rows(scene, &comm_devices_fields, page);
	if (has_transports(comm)) {
		page_empty_line(page);
		more_rows(scene, &comm_transports_fields, page);
	}
	if (grid->n) {
		if (comm->n_devices)
			page_empty_line(page);
		page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	} else {
		page_line(page, 2, "no communication kernels in this run or window");
	}
	of_steps(comm, page);
	waits(&comm->skew, page);
	comm_doubts(comm, page);
}

/* Only where devices or ranks talk to each other. */
void comm_report(const struct scene *scene, struct page *page)
{
	if (!answer_comm(scene->answers)->n)
		return;
	page_title(page, "Communication");
	page_rest(page, 2, page_top(page, &section_comm, scene, TOP_COLLECTIVES), TOP_COLLECTIVES,
		  ": moescope comm");
}

const struct section section_comm = {
	.name = "comm",
	.sql = "comm_summary",
	.reads = READS(&subject_comm, &subject_coverage),
	.device = true,
	.subject = &subject_comm,
	.rows = &comm_fields,
	.total = &comm_total,
	.page = comm_page,
	.command = {
		.place = 90,
		.summary = "communication: what it overlapped, and which rank waits for which",
		.description = "For each device, the time of communication kernels, how much of it "
			       "overlapped computation and how much was exposed; one row per "
			       "collective: bytes, bandwidth, and how far apart the ranks started it.",
		.examples = EXAMPLES({ "moescope comm", "The newest run here, by time." },
				     { "moescope comm ranks.mscope --sort skew_mean_ns",
				       "Largest skew between ranks first." },
				     { "moescope comm a.mscope --steps 10:19 --json",
				       "Ten steps, for a script." }),
		.parameters = PARAMETERS(ASK_PLACE),
	},
};
