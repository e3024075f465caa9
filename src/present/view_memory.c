/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by process and device: live, peak, what it is made of, over time.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/format.h"
#include "present/device_text.h"
#include "present/memory_text.h"
#include "present/scene.h"

static const struct grid_column columns[] = {
	{ .key = "rank", .title = "rank", .unit = GRID_INT },
	{ .key = "device", .title = "device", .unit = GRID_INT },
	{ .key = "allocated_bytes", .title = "live", .unit = GRID_BYTES },
	{ .key = "peak_allocated_bytes", .title = "peak", .unit = GRID_BYTES },
	{ .key = "peak_ns", .title = "peak at", .unit = GRID_NS },
	{ .key = "live_allocations", .title = "blocks", .unit = GRID_INT },
	{ .key = "allocations", .title = "allocs", .unit = GRID_COUNT },
	{ .key = "frees", .title = "frees", .unit = GRID_COUNT },
	{ .key = "unmatched_frees", .unit = GRID_INT },
	{ .key = "replaced", .unit = GRID_INT },
	{ .key = "allocated_total_bytes", .title = "in all", .unit = GRID_BYTES },
	{ .key = "reserved_bytes", .unit = GRID_BYTES },
	{ .key = "device_used_bytes", .unit = GRID_BYTES },
	{ .key = "fragmentation_pct", .unit = GRID_PCT },
	{ .key = "leak_suspects", .unit = GRID_INT },
};

static int fill(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < scene->f->memory.n; i++) {
		const struct memory_device *d = &scene->f->memory.devices[i];
		struct cell *cell = grid_add(grid, d);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_uint(d->rank);
		*cell++ = cell_int(d->device);
		*cell++ = cell_uint(d->live_bytes);
		*cell++ = cell_uint(d->peak_bytes);
		*cell++ = d->peak_bytes ? cell_int(d->peak_ns - scene->run->start_ns)
					: cell_absent("nothing was allocated");
		*cell++ = cell_uint(d->live_allocations);
		*cell++ = cell_uint(d->allocations);
		*cell++ = cell_uint(d->frees);
		*cell++ = cell_uint(d->unmatched_frees);
		*cell++ = cell_uint(d->replaced);
		*cell++ = cell_uint(d->allocated_bytes);
		*cell++ = cell_value(d->reserved_bytes);
		*cell++ = cell_value(d->device_used_bytes);
		*cell++ = cell_value(d->fragmentation_pct);
		*cell++ = cell_value(d->leaks_known);
	}
	return 0;
}

static void composition(struct json *json, const char *key, const uint64_t *use)
{
	json_key(json, key);
	json_object_line(json);
	for (unsigned int u = 0; u < MEMORY_USES; u++) {
		if (!use[u])
			continue;
		json_key(json, memory_use_name(u));
		json_uint(json, use[u]);
	}
	json_object_end(json);
}

static void extra(struct json *json, const void *item, const void *context)
{
	const struct memory_device *d = item;
	const struct scene *scene = context;

	composition(json, "composition", d->use_at_end);
	composition(json, "composition_at_peak", d->use_at_peak);
	json_key(json, "leaks");
	json_array_line(json);
	for (size_t i = 0; i < d->n_leaks; i++) {
		json_object_line(json);
		json_key(json, "site");
		json_string(json, run_string(scene->run, d->leaks[i].site));
		json_key(json, "bytes_per_step");
		json_double(json, d->leaks[i].bytes_per_step);
		json_key(json, "live_bytes");
		json_uint(json, d->leaks[i].last_bytes);
		json_key(json, "grew_steps");
		json_uint(json, d->leaks[i].grew_steps);
		json_object_end(json);
	}
	json_array_end(json);
	json_key(json, "series");
	json_array_line(json);
	for (size_t i = 0; i < d->n_points; i++) {
		json_object_line(json);
		json_key(json, "time_ns");
		json_int(json, d->points[i].time_ns - scene->run->start_ns);
		json_key(json, "allocated_bytes");
		json_uint(json, d->points[i].live_bytes);
		json_object_end(json);
	}
	json_array_end(json);
}

static void driver_row(struct json *json, const struct scene *scene, const struct driver_memory *d)
{
	json_object_line(json);
	json_key(json, "rank");
	json_uint(json, d->rank);
	json_key(json, "device");
	json_uint(json, d->device);
	json_key(json, "memory");
	json_string(json, d->memory);
	json_key(json, "live_bytes");
	json_uint(json, d->live_bytes);
	json_key(json, "peak_bytes");
	json_uint(json, d->peak_bytes);
	grid_json_value(json, "peak_ns",
			d->peak_bytes ? value_of((double)(d->peak_ns - scene->run->start_ns))
				      : value_absent("nothing was allocated"));
	json_key(json, "allocations");
	json_uint(json, d->allocations);
	json_key(json, "frees");
	json_uint(json, d->frees);
	json_key(json, "unmatched_frees");
	json_uint(json, d->unmatched_frees);
	json_object_end(json);
}

static void used_row(struct json *json, const struct device_used *used)
{
	json_object_line(json);
	json_key(json, "rank");
	json_uint(json, used->rank);
	json_key(json, "device");
	json_uint(json, used->device);
	json_key(json, "samples");
	json_uint(json, used->samples);
	json_key(json, "device_used_bytes");
	json_double(json, used->last_bytes);
	json_key(json, "peak_device_used_bytes");
	json_double(json, used->peak_bytes);
	json_object_end(json);
}

static void driver_json(struct json *json, const struct scene *scene)
{
	const struct device_memory *m = &scene->f->device_memory;

	if (m->n_driver) {
		json_key(json, "driver");
		json_array(json);
		for (size_t i = 0; i < m->n_driver; i++)
			driver_row(json, scene, &m->driver[i]);
		json_array_end(json);
	} else {
		grid_json_value(json, "driver",
				value_absent("no allocations of the driver in this run"));
	}
	if (m->n_used) {
		json_key(json, "device_used");
		json_array(json);
		for (size_t i = 0; i < m->n_used; i++)
			used_row(json, &m->used[i]);
		json_array_end(json);
	} else {
		grid_json_value(json, "device_used",
				value_absent("no samples of device memory in this run"));
	}
}

static void total(const struct scene *scene, struct json *json)
{
	uint64_t allocations = 0, frees = 0, unmatched = 0;

	for (size_t i = 0; i < scene->f->memory.n; i++) {
		allocations += scene->f->memory.devices[i].allocations;
		frees += scene->f->memory.devices[i].frees;
		unmatched += scene->f->memory.devices[i].unmatched_frees;
	}
	json_key(json, "allocations");
	json_uint(json, allocations);
	json_key(json, "frees");
	json_uint(json, frees);
	json_key(json, "unmatched_frees");
	json_uint(json, unmatched);
	driver_json(json, scene);
	device_json_memory(scene, json);
}

static bool has_device_memory(const struct scene *scene)
{
	const struct device_memory *m = &scene->f->device_memory;

	return m->n_driver || m->n_used || m->n_pools || scene->f->device_states.n_others;
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	int r = 0;

	if (!grid->n && !has_device_memory(scene)) {
		fputs("  no allocations in this run: the program reports them with "
		      "moescope_alloc()\n",
		      out);
		return 0;
	}
	if (grid->n)
		r = grid_print(grid, scene->options->limit, &layout, out);
	for (size_t i = 0; r >= 0 && i < grid->n; i++) {
		fputc('\n', out);
		r = memory_text_device(scene, grid->rows[i].item, out);
	}
	memory_text_driver(scene, out);
	device_text_processes(scene, out);
	return r;
}

const struct section section_memory = {
	.name = "memory",
	.want = FIND_MEMORY,
	.grid = fill,
	.total = total,
	.extra = extra,
	.text = text,
};
