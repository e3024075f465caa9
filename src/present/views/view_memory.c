/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by process and device: live, peak, what it is made of, over time.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "present/views/device_text.h"
#include "present/views/memory_text.h"
#include "subjects/memory/memory_fields.h"

static int fill(const struct scene *scene, struct grid *grid)
{
	struct field_row from = { .run = scene->run, .item = &scene->f->memory };

	return grid_fill(grid, &memory_fields, &from);
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
	memory_json_driver(json, scene);
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
		memory_text_parts(scene, grid->rows[i].item, out);
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
	.extra = memory_json_device,
	.text = text,
};
