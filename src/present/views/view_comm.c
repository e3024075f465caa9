/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of communication: devices, transports, and a row for each collective.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/comm/comm.h"

static int print_grid(const struct scene *scene, const struct field_set *set, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit ? scene->options->limit : SIZE_MAX;
	struct field_row at = section_from(&section_comm, scene);
	struct grid grid;
	int r = grid_fill(&grid, set, &at);

	if (r >= 0) {
		r = grid_print(&grid, limit, &layout, out);
		scene_more(limit < grid.n ? limit : grid.n, grid.n, out);
	}
	grid_release(&grid);
	return r;
}

/* Only where there is more than one: else it is what the devices' table says. */
static bool has_transports(const struct comm *comm)
{
	int n = 0;

	for (int t = 0; t < COMM_TRANSPORTS; t++)
		n += comm->of[t].count != 0;
	return n > 1;
}

static void waits(const struct scene *scene, FILE *out)
{
	const struct comm_skew *skew = &answer_comm(scene->answers)->skew;
	char line[320], late[128] = "";

	if (!skew->matched)
		return;
	if (skew->late_rank.known)
		snprintf(late, sizeof(late),
			 "; rank %.0f was last in %s of them, the others waited %s",
			 skew->late_rank.v, format_pct(skew->late_pct.v).text,
			 format_ns(skew->wait_ns.v).text);
	snprintf(line, sizeof(line),
		 "%s collectives on more than one rank: begun %s apart on average, %s at most%s",
		 format_count((double)skew->matched).text, format_ns(skew->mean_ns.v).text,
		 format_ns(skew->max_ns.v).text, late);
	fputs("  ", out);
	text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 2, 4);
}

/* The table is of the whole windows; what is exposed in the steps, of their time. */
static void of_steps(const struct comm *comm, FILE *out)
{
	int64_t window = 0, exposed = 0;

	if (!comm->of_steps || !comm->exposed_pct.known || !comm->all.count)
		return;
	for (size_t i = 0; i < comm->n_devices; i++) {
		window = ns_sum(window, comm->devices[i].step_window_ns);
		exposed = ns_sum(exposed, comm->devices[i].step_exposed_ns);
	}
	fprintf(out, "  in the steps: exposed %s of %s, %s\n", format_ns((double)exposed).text,
		format_ns((double)window).text, format_pct(comm->exposed_pct.v).text);
}

static void notes(const struct comm *comm, FILE *out)
{
	if (comm->host_count)
		fprintf(out,
			"  on the host: %" PRIu64 " collective%s, %s in all; in no figure of a "
			"device\n",
			comm->host_count, comm->host_count == 1 ? "" : "s",
			format_ns((double)comm->host_ns).text);
	if (comm->all.untimed)
		fprintf(out, "  without times: %" PRIu64 "; they count, their time does not\n",
			comm->all.untimed);
	if (comm->without_kernel)
		fprintf(out, "  without a kernel: %" PRIu64 " records; they are in no union\n",
			comm->without_kernel);
	if (comm->without_call)
		fprintf(out, "  left out: %" PRIu64 " device records whose call was not recorded\n",
			comm->without_call);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct comm *comm = answer_comm(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r = 0;

	if (!scene_has_device(scene->run) && !grid->n) {
		scene_no_device(scene, out);
		return 0;
	}
	scene_sampled(scene, "", out);
	if (comm->n_devices)
		r = print_grid(scene, &comm_devices_fields, out);
	if (r >= 0 && has_transports(comm)) {
		fputc('\n', out);
		r = print_grid(scene, &comm_transports_fields, out);
	}
	if (r >= 0 && grid->n) {
		if (comm->n_devices)
			fputc('\n', out);
		r = grid_print(grid, limit, &layout, out);
		scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	} else if (r >= 0) {
		fputs("  no communication kernels in this run or window\n", out);
	}
	if (r < 0)
		return r;
	of_steps(comm, out);
	waits(scene, out);
	notes(comm, out);
	return 0;
}

const struct section section_comm = {
	.name = "comm",
	.sql = "comm_summary",
	.reads = READS(&subject_comm, &subject_coverage),
	.device = true,
	.subject = &subject_comm,
	.rows = &comm_fields,
	.total = &comm_total,
	.text = text,
};
