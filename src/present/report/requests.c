/* SPDX-License-Identifier: Apache-2.0
 *
 * The requests of an inference run, for the report.
 */
#include <errno.h>

#include "present/frame/whole_views.h"
#include "subjects/inference/inference.h"

static const struct grid_column columns[] = {
	{ .key = "request", .title = "request", .unit = GRID_INT },
	{ .key = "rank", .title = "rank", .unit = GRID_INT },
	{ .key = "begin_ns", .title = "begin", .unit = GRID_NS },
	{ .key = "prompt_tokens", .title = "prompt", .unit = GRID_INT },
	{ .key = "tokens", .title = "tokens", .unit = GRID_INT },
	{ .key = "ttft_ns", .title = "TTFT", .unit = GRID_NS },
	{ .key = "tpot_ns", .title = "TPOT", .unit = GRID_NS },
	{ .key = "time_ns", .title = "time", .unit = GRID_NS },
	{ .key = "request_tokens_per_s", .title = "tokens/s", .unit = GRID_COUNT },
	{ .key = "finished", .unit = GRID_INT },
};

int requests_grid(const struct scene *scene, struct grid *grid)
{
	const struct inference *f = answer_inference(scene->answers);

	grid_init(grid, columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < f->n_rows; i++) {
		const struct inference_request *row = &f->rows[i];
		struct cell *cell = grid_add(grid, row);

		if (!cell)
			return -ENOMEM;
		*cell++ = cell_uint(row->request);
		*cell++ = cell_uint(row->rank);
		*cell++ = cell_int(row->begin_ns - scene->run->start_ns);
		*cell++ = cell_uint(row->prompt_tokens);
		*cell++ = cell_uint(row->tokens);
		*cell++ = cell_value(row->ttft_ns);
		*cell++ = cell_value(row->tpot_ns);
		*cell++ = cell_value(row->time_ns);
		*cell++ = cell_value(row->tokens_per_s);
		*cell++ = cell_bool(row->finished);
	}
	return grid_sort(grid, "ttft_ns", NULL);
}
