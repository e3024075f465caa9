/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests of an inference run, for the report.
 */
#include "present/frame/whole_views.h"
#include "subjects/inference/inference.h"

int requests_grid(const struct scene *scene, struct grid *grid)
{
	struct field_row from = { .run = scene->run, .item = answer_inference(scene->answers) };
	int r = grid_fill(grid, &requests_fields, &from);

	return r < 0 ? r : grid_sort(grid, "ttft_ns", NULL);
}
