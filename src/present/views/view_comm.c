/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of communication: devices, transports, and a row for each collective.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/comm/comm.h"

#define NO_STEPS "no recorded step"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct grid_column columns[] = {
	{ .key = "name", .title = "collective", .unit = GRID_TEXT, .flexible = true },
	{ .key = "transport", .title = "by", .unit = GRID_TEXT },
	{ .key = "group", .unit = GRID_TEXT },
	{ .key = "group_size", .title = "ranks", .unit = GRID_INT },
	{ .key = "type", .unit = GRID_TEXT },
	{ .key = "count", .title = "count", .unit = GRID_INT },
	{ .key = "time_ns", .title = "time", .unit = GRID_NS },
	{ .key = "share_pct", .unit = GRID_PCT },
	{ .key = "mean_ns", .title = "mean", .unit = GRID_NS },
	{ .key = "max_ns", .unit = GRID_NS },
	{ .key = "collective_bytes", .unit = GRID_BYTES },
	{ .key = "algorithm_bytes_per_s", .unit = GRID_BYTES },
	{ .key = "bus_bytes_per_s", .title = "bus per s", .unit = GRID_BYTES },
	{ .key = "matched", .unit = GRID_INT },
	{ .key = "skew_mean_ns", .title = "skew", .unit = GRID_NS },
	{ .key = "skew_max_ns", .unit = GRID_NS },
	{ .key = "wait_ns", .unit = GRID_NS },
	{ .key = "late_rank", .unit = GRID_INT },
	{ .key = "late_pct", .unit = GRID_PCT },
	{ .key = "untimed", .unit = GRID_INT },
};

static const struct grid_column device_columns[] = {
	{ .key = "rank", .title = "rank", .unit = GRID_INT },
	{ .key = "device", .title = "gpu", .unit = GRID_INT },
	{ .key = "window_ns", .title = "window", .unit = GRID_NS },
	{ .key = "busy_ns", .unit = GRID_NS },
	{ .key = "idle_ns", .title = "idle", .unit = GRID_NS },
	{ .key = "compute_ns", .title = "compute", .unit = GRID_NS },
	{ .key = "non_compute_ns", .unit = GRID_NS },
	{ .key = "comm_ns", .title = "comm", .unit = GRID_NS },
	{ .key = "overlap_ns", .unit = GRID_NS },
	{ .key = "comm_overlap_pct", .title = "hidden", .unit = GRID_PCT },
	{ .key = "exposed_ns", .title = "exposed", .unit = GRID_NS },
	{ .key = "exposed_window_pct", .title = "of window", .unit = GRID_PCT },
	{ .key = "exposed_pct", .unit = GRID_PCT },
	{ .key = "step_window_ns", .unit = GRID_NS },
	{ .key = "step_exposed_ns", .unit = GRID_NS },
};

static const struct grid_column transport_columns[] = {
	{ .key = "rank", .title = "rank", .unit = GRID_INT },
	{ .key = "device", .title = "gpu", .unit = GRID_INT },
	{ .key = "transport", .title = "by", .unit = GRID_TEXT },
	{ .key = "count", .title = "kernels", .unit = GRID_INT },
	{ .key = "comm_ns", .title = "comm", .unit = GRID_NS },
	{ .key = "others_ns", .unit = GRID_NS },
	{ .key = "overlap_ns", .unit = GRID_NS },
	{ .key = "comm_overlap_pct", .title = "beside others", .unit = GRID_PCT },
	{ .key = "exposed_ns", .title = "alone", .unit = GRID_NS },
	{ .key = "untimed", .unit = GRID_INT },
};

static struct cell told(uint32_t id, const struct run *run)
{
	return id ? cell_text(run_string(run, id)) : cell_absent("it was not told");
}

/* Whole numbers print as such. */
static struct cell whole(struct value value)
{
	if (!value.known)
		return cell_absent(value.reason);
	return fabs(value.v) < 0x1p63 ? cell_int((int64_t)value.v) : cell_real(value.v);
}

static int fill(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, columns, COUNT(columns));
	for (size_t i = 0; i < answer_comm(scene->answers)->n; i++) {
		const struct comm_row *row = &answer_comm(scene->answers)->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(row->name);
		*cell++ = cell_text(comm_transport_name(row->transport));
		*cell++ = told(row->group, scene->run);
		*cell++ = row->group_size ? cell_uint(row->group_size)
					  : cell_absent("it was not told");
		*cell++ = told(row->type, scene->run);
		*cell++ = cell_uint(row->count);
		*cell++ = row->count > row->untimed ? cell_int(row->sum_ns)
						    : cell_absent("none was timed");
		*cell++ = cell_real(row->share_pct);
		*cell++ = cell_value(row->mean_ns);
		*cell++ = row->count > row->untimed ? cell_int(row->max_ns)
						    : cell_absent("none was timed");
		*cell++ = whole(row->bytes);
		*cell++ = cell_value(row->algorithm_bytes_per_s);
		*cell++ = cell_value(row->bus_bytes_per_s);
		*cell++ = cell_uint(row->skew.matched);
		*cell++ = cell_value(row->skew.mean_ns);
		*cell++ = whole(row->skew.max_ns);
		*cell++ = whole(row->skew.wait_ns);
		*cell++ = whole(row->skew.late_rank);
		*cell++ = cell_value(row->skew.late_pct);
		*cell++ = cell_uint(row->untimed);
	}
	return 0;
}

static int fill_devices(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, device_columns, COUNT(device_columns));
	for (size_t i = 0; i < answer_comm(scene->answers)->n_devices; i++) {
		const struct comm_device *d = &answer_comm(scene->answers)->devices[i];
		struct cell *cell = grid_add(grid, d);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_uint(d->rank);
		*cell++ = cell_uint(d->device);
		*cell++ = whole(d->window_ns);
		*cell++ = cell_int(d->busy_ns);
		*cell++ = whole(d->idle_ns);
		*cell++ = cell_int(d->all.others_ns);
		*cell++ = cell_int(d->non_compute_ns);
		*cell++ = cell_int(d->all.time_ns);
		*cell++ = cell_int(d->all.overlap_ns);
		*cell++ = cell_value(d->all.overlap_pct);
		*cell++ = cell_int(d->all.exposed_ns);
		*cell++ = cell_value(d->exposed_window_pct);
		*cell++ = cell_value(d->exposed_pct);
		*cell++ = d->of_steps ? cell_int(d->step_window_ns) : cell_absent(NO_STEPS);
		*cell++ = d->of_steps ? cell_int(d->step_exposed_ns) : cell_absent(NO_STEPS);
	}
	return 0;
}

static int fill_transports(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, transport_columns, COUNT(transport_columns));
	for (size_t i = 0; i < answer_comm(scene->answers)->n_devices * COMM_TRANSPORTS; i++) {
		const struct comm_device *d =
			&answer_comm(scene->answers)->devices[i / COMM_TRANSPORTS];
		enum comm_transport transport = (enum comm_transport)(i % COMM_TRANSPORTS);
		const struct comm_part *part = &d->of[transport];
		struct cell *cell;

		if (!part->count)
			continue;
		cell = grid_add(grid, d);
		if (!cell)
			return -ENOMEM;
		*cell++ = cell_uint(d->rank);
		*cell++ = cell_uint(d->device);
		*cell++ = cell_text(comm_transport_name(transport));
		*cell++ = cell_uint(part->count);
		*cell++ = cell_int(part->time_ns);
		*cell++ = cell_int(part->others_ns);
		*cell++ = cell_int(part->overlap_ns);
		*cell++ = cell_value(part->overlap_pct);
		*cell++ = cell_int(part->exposed_ns);
		*cell++ = cell_uint(part->untimed);
	}
	return 0;
}

typedef int (*fill_function)(const struct scene *scene, struct grid *grid);

static void put_grid(const struct scene *scene, const char *key, fill_function fill_rows,
		     struct json *json)
{
	struct grid grid;

	/* Comes out of json_finish, as all failures of writing do. */
	if (fill_rows(scene, &grid) < 0 && !json->failed)
		json->failed = -ENOMEM;
	json_key(json, key);
	grid_json(&grid, 0, json, NULL, NULL);
	grid_release(&grid);
}

static void put_int(struct json *json, const char *key, int64_t value)
{
	json_key(json, key);
	json_int(json, value);
}

static void put_whole(struct json *json, const char *key, struct value value)
{
	struct cell cell = whole(value);

	grid_json_cell(json, key, &cell);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct comm *comm = answer_comm(scene->answers);

	json_key(json, "count");
	json_uint(json, comm->all.count);
	json_key(json, "records");
	json_uint(json, comm->records);
	json_key(json, "host_count");
	json_uint(json, comm->host_count);
	put_int(json, "host_time_ns", comm->host_ns);
	json_key(json, "without_kernel");
	json_uint(json, comm->without_kernel);
	json_key(json, "without_call");
	json_uint(json, comm->without_call);
	json_key(json, "untimed");
	json_uint(json, comm->all.untimed);
	put_int(json, "time_ns", comm->all.sum_ns);
	put_whole(json, "window_ns", comm->window_ns);
	put_int(json, "busy_ns", comm->busy_ns);
	put_whole(json, "idle_ns", comm->idle_ns);
	put_int(json, "compute_ns", comm->all.others_ns);
	put_int(json, "non_compute_ns", comm->non_compute_ns);
	put_int(json, "comm_ns", comm->all.time_ns);
	put_int(json, "overlap_ns", comm->all.overlap_ns);
	grid_json_value(json, "comm_overlap_pct", comm->all.overlap_pct);
	put_int(json, "exposed_ns", comm->all.exposed_ns);
	grid_json_value(json, "exposed_pct", comm->exposed_pct);
	json_key(json, "exposed_of_steps");
	json_bool(json, comm->of_steps);
	json_key(json, "matched");
	json_uint(json, comm->skew.matched);
	grid_json_value(json, "skew_mean_ns", comm->skew.mean_ns);
	put_whole(json, "skew_max_ns", comm->skew.max_ns);
	put_whole(json, "wait_ns", comm->skew.wait_ns);
	grid_json_value(json, "wait_pct", comm->wait_pct);
	put_whole(json, "late_rank", comm->skew.late_rank);
	grid_json_value(json, "late_pct", comm->skew.late_pct);
	put_grid(scene, "devices", fill_devices, json);
	put_grid(scene, "transports", fill_transports, json);
}

static int print_grid(const struct scene *scene, fill_function fill_rows, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit ? scene->options->limit : SIZE_MAX;
	struct grid grid;
	int r = fill_rows(scene, &grid);

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
		r = print_grid(scene, fill_devices, out);
	if (r >= 0 && has_transports(comm)) {
		fputc('\n', out);
		r = print_grid(scene, fill_transports, out);
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
	.grid = fill,
	.total = total,
	.text = text,
};
