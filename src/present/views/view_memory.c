/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by process and device: live, peak, what it is made of, over time.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "present/views/device_text.h"
#include "present/views/memory_text.h"
#include "subjects/device/device_state.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"

static const struct grid_column columns[] = {
	{ .key = "rank", .title = "rank", .unit = GRID_INT },
	{ .key = "device", .title = "device", .unit = GRID_DEVICE },
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
	{ .key = "peak_reserved_bytes", .unit = GRID_BYTES },
	{ .key = "cache_slack_pct", .unit = GRID_PCT },
	{ .key = "fragmentation_at_peak_pct", .unit = GRID_PCT },
	{ .key = "free_at_peak_bytes", .unit = GRID_BYTES },
	{ .key = "largest_free_at_peak_bytes", .unit = GRID_BYTES },
	{ .key = "device_total_bytes", .unit = GRID_BYTES },
	{ .key = "headroom_bytes", .unit = GRID_BYTES },
	{ .key = "oom_steps", .unit = GRID_COUNT },
	{ .key = "leak_suspects", .unit = GRID_INT },
	{ .key = "account_allocated_bytes", .unit = GRID_BYTES },
	{ .key = "account_reserved_bytes", .unit = GRID_BYTES },
	{ .key = "account_peak_allocated_bytes", .unit = GRID_BYTES },
	{ .key = "account_peak_reserved_bytes", .unit = GRID_BYTES },
	{ .key = "account_peak_requested_bytes", .unit = GRID_BYTES },
	{ .key = "segments", .unit = GRID_INT },
	{ .key = "before_bytes", .unit = GRID_BYTES },
	{ .key = "before_at_peak_bytes", .unit = GRID_BYTES },
	{ .key = "before_freed_bytes", .unit = GRID_BYTES },
};

static int fill(const struct scene *scene, struct grid *grid)
{
	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < answer_memory(scene->answers)->n; i++) {
		const struct memory_device *d = &answer_memory(scene->answers)->devices[i];
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
		*cell++ = cell_value(d->peak_reserved_bytes);
		*cell++ = cell_value(d->cache_slack_pct);
		*cell++ = cell_value(d->fragmentation_at_peak_pct);
		*cell++ = cell_value(d->free_at_peak_bytes);
		*cell++ = cell_value(d->largest_free_at_peak_bytes);
		*cell++ = cell_value(d->device_total_bytes);
		*cell++ = cell_value(d->headroom_bytes);
		*cell++ = cell_value(d->oom_steps);
		*cell++ = cell_value(d->leaks_known);
		*cell++ = cell_value(d->account_allocated_bytes);
		*cell++ = cell_value(d->account_reserved_bytes);
		*cell++ = cell_value(d->account_peak_allocated_bytes);
		*cell++ = cell_value(d->account_peak_reserved_bytes);
		*cell++ = cell_value(d->account_peak_requested_bytes);
		*cell++ = cell_value(d->segments);
		*cell++ = cell_value(d->before_bytes);
		*cell++ = cell_value(d->before_at_peak_bytes);
		*cell++ = cell_value(d->before_freed_bytes);
	}
	return 0;
}

static void total(const struct scene *scene, struct json *json)
{
	uint64_t allocations = 0, frees = 0, unmatched = 0;

	for (size_t i = 0; i < answer_memory(scene->answers)->n; i++) {
		allocations += answer_memory(scene->answers)->devices[i].allocations;
		frees += answer_memory(scene->answers)->devices[i].frees;
		unmatched += answer_memory(scene->answers)->devices[i].unmatched_frees;
	}
	json_key(json, "allocations");
	json_uint(json, allocations);
	json_key(json, "frees");
	json_uint(json, frees);
	json_key(json, "unmatched_frees");
	json_uint(json, unmatched);
	memory_json_driver(json, scene);
	device_json_memory(scene, json);
}

static bool has_device_memory(const struct scene *scene)
{
	const struct device_memory *m = answer_device_memory(scene->answers);

	return m->n_driver || m->n_used || m->n_pools ||
	       answer_device_states(scene->answers)->n_others;
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
		memory_text_parts(scene, grid->rows[i].item, out);
	}
	memory_text_driver(scene, out);
	device_text_processes(scene, out);
	return r;
}

const struct section section_memory = {
	.name = "memory",
	.sql = "memory_peaks",
	.reads = READS(&subject_memory, &subject_device_memory, &subject_device_states),
	.grid = fill,
	.total = total,
	.extra = memory_json_device,
	.text = text,
};
