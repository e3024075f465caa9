/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by process and device: live, peak, what it is made of, over time.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "present/views/device_text.h"
#include "present/views/memory_text.h"
#include "subjects/device/device_state.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"

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
	.subject = &subject_memory,
	.rows = &memory_fields,
	.total = &memory_total,
	.text = text,
};
