/* SPDX-License-Identifier: Apache-2.0
 *
 * How near the run comes to what its devices can do: MFU, and kernel classes (or operations)
 * against their roof.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "subjects/efficiency/efficiency.h"

static const struct grid_column columns[] = {
	{ .key = "name", .title = "work", .unit = GRID_TEXT, .flexible = true },
	{ .key = "count", .unit = GRID_INT },
	{ .key = "time_ns", .title = "time", .unit = GRID_NS },
	{ .key = "covered_pct", .title = "covered", .unit = GRID_PCT },
	{ .key = "flops", .unit = GRID_FLOPS },
	{ .key = "bytes", .unit = GRID_BYTES },
	{ .key = "flops_per_s", .title = "rate", .unit = GRID_FLOPS },
	{ .key = "bytes_per_s", .unit = GRID_BYTES },
	{ .key = "flops_per_byte", .title = "FLOP/B", .unit = GRID_RATIO },
	{ .key = "roof_flops_per_s", .unit = GRID_FLOPS },
	{ .key = "roof_pct", .title = "of roof", .unit = GRID_PCT },
	{ .key = "bound", .title = "bound", .unit = GRID_TEXT },
};

static int fill(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < answer_efficiency(scene->answers)->n; i++) {
		const struct efficiency_row *row = &answer_efficiency(scene->answers)->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_text(row->name);
		*cell++ = cell_uint(row->count);
		*cell++ = cell_int(row->time_ns);
		*cell++ = cell_value(row->covered_pct);
		*cell++ = cell_value(row->flops);
		*cell++ = cell_value(row->bytes);
		*cell++ = cell_value(row->flops_per_s);
		*cell++ = cell_value(row->bytes_per_s);
		*cell++ = cell_value(row->flops_per_byte);
		*cell++ = cell_value(row->roof_flops_per_s);
		*cell++ = cell_value(row->roof_pct);
		*cell++ = row->bound ? cell_text(row->bound)
				     : cell_absent(row->roof_flops_per_s.reason);
	}
	return 0;
}

static void figure(struct json *json, const char *key, double value)
{
	grid_json_value(json, key, value > 0 ? value_of(value) : value_absent("not known"));
}

static void device_json(struct json *json, const struct efficiency_device *d)
{
	char key[48];

	json_object(json);
	json_key(json, "rank");
	json_uint(json, d->rank);
	json_key(json, "device");
	json_string(json, d->cpu ? "cpu" : "gpu");
	json_key(json, "index");
	json_uint(json, d->device);
	json_key(json, "name");
	json_string(json, d->name);
	json_key(json, "peaks_source");
	json_string(json, d->source);
	if (!d->source) {
		json_key(json, "peaks_source_reason");
		json_string(json, d->reason);
	}
	json_key(json, "calibrated");
	json_bool(json, d->calibrated);
	grid_json_value(json, "peak_flops_per_s", d->peak_flops_per_s);
	grid_json_value(json, "peak_memory_bytes_per_s", d->memory_bytes_per_s);
	for (unsigned int i = 0; i < PEAK_DTYPES; i++) {
		snprintf(key, sizeof(key), "%s_flops_per_s", peak_dtype_name((enum peak_dtype)i));
		figure(json, key, d->peaks.flops_per_s[i]);
	}
	for (unsigned int i = 0; i < GPM_METRICS; i++)
		grid_json_value(json, gpm_metric_key((enum gpm_metric)i), d->gpm[i]);
	grid_json_value(json, "dram_bytes_per_s", d->dram_bytes_per_s);
	json_object_end(json);
}

static void total(const struct scene *scene, struct json *json)
{
	const struct efficiency *e = answer_efficiency(scene->answers);
	struct cell told = e->model_flops.known ? cell_text(e->flops_source)
						: cell_absent(e->model_flops.reason);
	struct cell dtype = cell_absent(e->dtype.reason), known_by = dtype;

	if (e->dtype.known) {
		dtype = cell_text(peak_dtype_name((enum peak_dtype)(int)e->dtype.v));
		known_by = cell_text(e->dtype_source);
	}

	json_key(json, "by");
	json_string(json, e->on_device ? "kernel class" : "operation");
	grid_json_value(json, "mfu_pct", e->mfu_pct);
	grid_json_value(json, "model_flops", e->model_flops);
	grid_json_value(json, "model_flops_per_s", e->model_flops_per_s);
	grid_json_cell(json, "flops_source", &told);
	grid_json_cell(json, "dtype", &dtype);
	grid_json_cell(json, "dtype_source", &known_by);
	json_key(json, "steps");
	json_uint(json, e->steps);
	json_key(json, "step_time_ns");
	json_int(json, e->step_time_ns);
	grid_json_value(json, "roof_flops_per_s", e->roof_flops_per_s);
	grid_json_value(json, "roof_bytes_per_s", e->roof_bytes_per_s);
	json_key(json, "devices");
	json_array(json);
	for (size_t i = 0; i < e->n_devices; i++)
		device_json(json, &e->devices[i]);
	json_array_end(json);
	json_key(json, "roofline");
	json_array(json);
	for (size_t i = 0; i < e->n_points; i++) {
		json_object_line(json);
		json_key(json, "name");
		json_string(json, e->points[i].name);
		json_key(json, "flops_per_byte");
		json_double(json, e->points[i].flops_per_byte);
		json_key(json, "flops_per_s");
		json_double(json, e->points[i].flops_per_s);
		json_key(json, "time_ns");
		json_int(json, e->points[i].time_ns);
		json_object_end(json);
	}
	json_array_end(json);
}

static void line(const struct scene *scene, const char *words, FILE *out)
{
	fputs("  ", out);
	text_wrap(out, words, (size_t)scene_layout(scene, 0).width, 2, 4);
}

static void model_line(const struct scene *scene, FILE *out)
{
	const struct efficiency *e = answer_efficiency(scene->answers);
	char words[640];

	if (e->mfu_pct.known)
		snprintf(words, sizeof(words), "MFU %s of %s (%s): %s FLOP in %zu step%s (%s)",
			 format_pct(e->mfu_pct.v).text,
			 peak_dtype_name((enum peak_dtype)(int)e->dtype.v), e->dtype_source,
			 format_count(e->model_flops.v).text, e->steps, e->steps == 1 ? "" : "s",
			 e->flops_source);
	else
		snprintf(words, sizeof(words), "MFU n/a: %s", e->mfu_pct.reason);
	line(scene, words, out);
	if (!e->mfu_pct.known && e->model_flops_per_s.known) {
		snprintf(words, sizeof(words), "model: %s in %zu step%s (%s)",
			 format_flops(e->model_flops_per_s.v).text, e->steps,
			 e->steps == 1 ? "" : "s", e->flops_source);
		line(scene, words, out);
	}
}

static void device_line(const struct scene *scene, const struct efficiency_device *d, FILE *out)
{
	char words[640], where[48], peak[64] = "n/a";

	snprintf(where, sizeof(where), d->cpu ? "processor" : "rank %u, gpu %u", d->rank,
		 d->device);
	if (!d->source) {
		snprintf(words, sizeof(words), "%s: %s", where, d->reason);
		line(scene, words, out);
		return;
	}
	if (d->peak_flops_per_s.known)
		snprintf(peak, sizeof(peak), "%s", format_flops(d->peak_flops_per_s.v).text);
	snprintf(words, sizeof(words), "%s: %s, peak %s, memory %s/s; %s", where, d->name, peak,
		 d->memory_bytes_per_s.known ? format_bytes(d->memory_bytes_per_s.v).text : "n/a",
		 d->source);
	line(scene, words, out);
	if (!d->gpm[GPM_SM].known && !d->gpm[GPM_TENSOR].known && !d->gpm[GPM_DRAM].known)
		return;
	snprintf(words, sizeof(words), "measured: SM active %s, tensor active %s, DRAM %s",
		 d->gpm[GPM_SM].known ? format_pct(d->gpm[GPM_SM].v).text : "n/a",
		 d->gpm[GPM_TENSOR].known ? format_pct(d->gpm[GPM_TENSOR].v).text : "n/a",
		 d->gpm[GPM_DRAM].known ? format_pct(d->gpm[GPM_DRAM].v).text : "n/a");
	fputs("  ", out);
	line(scene, words, out);
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct efficiency *e = answer_efficiency(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r = 0;

	model_line(scene, out);
	for (size_t i = 0; i < e->n_devices && i < 8; i++)
		device_line(scene, &e->devices[i], out);
	if (e->n_devices > 8)
		fprintf(out, "  ... %zu more devices: moescope efficiency --json\n",
			e->n_devices - 8);
	if (e->on_device)
		scene_sampled(scene, "", out);
	if (!grid->n) {
		fputs(e->on_device ? "  no kernels in this run or window\n"
		      : run_is_foreign(scene->run)
			      ? "  no operation of the file tells FLOPs or bytes\n"
			      : "  no operation told FLOPs or bytes: see moescope_op_end()\n",
		      out);
		return 0;
	}
	if (e->on_device && !efficiency_is_told(e)) {
		fputs("  work against its roof: n/a (no kernel's operation told FLOPs or bytes)\n",
		      out);
		return 0;
	}
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fputs(e->on_device ? "  rates are over the covered time: kernels whose operation told "
			     "FLOPs or bytes\n"
			   : "  rates and roof are of one thread; est.: all cores share the peak "
			     "alike\n",
	      out);
	return r;
}

const struct section section_efficiency = {
	.name = "efficiency",
	.sql = "efficiency_summary",
	.reads = READS(&subject_efficiency, &subject_routing, &subject_coverage),
	.device = true,
	.grid = fill,
	.total = total,
	.text = text,
};
