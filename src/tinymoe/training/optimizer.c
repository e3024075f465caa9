/* SPDX-License-Identifier: Apache-2.0
 *
 * AdamW. The parameters are split into segments of fixed size that do not cross parameter
 * boundaries; a task is a segment. The norm is summed over segments in order, in double.
 */
#include "tinymoe/training/optimizer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tgmath.h>

enum { SEGMENT = 16384, WARMUP_STEPS = 20 };

#define MEAN_DECAY 0.9
#define SQUARE_DECAY 0.98
#define EPSILON 1e-8
#define WEIGHT_DECAY 0.01
#define CLIP_NORM 1.0
#define RATE_FLOOR 0.1

struct segment {
	size_t first, count;
	bool decays;
};

static size_t cut_into_segments(const struct param_layout *layout, struct segment *segments)
{
	size_t count = 0;

	for (int param = 0; param < PARAM_COUNT; param++) {
		int32_t copies = param_in_layers((enum param)param) ? layout->layers : 1;

		for (int32_t layer = 0; layer < copies; layer++) {
			size_t first = param_at(layout, (enum param)param, layer);
			size_t size = layout->size[param];

			for (size_t at = 0; at < size; at += SEGMENT) {
				if (segments)
					segments[count] = (struct segment){
						.first = first + at,
						.count = size - at < SEGMENT ? size - at : SEGMENT,
						.decays = param_decays((enum param)param),
					};
				count++;
			}
		}
	}
	return count;
}

int optimizer_init(struct optimizer *optimizer, const struct model *model)
{
	size_t bytes = model->layout.total * sizeof(real);

	*optimizer = (struct optimizer){ .segment_count = cut_into_segments(&model->layout, NULL) };
	optimizer->mean = memory_new(bytes, MOESCOPE_MEMORY_OPTIMIZER, "first moments");
	optimizer->square = memory_new(bytes, MOESCOPE_MEMORY_OPTIMIZER, "second moments");
	optimizer->segments = calloc(optimizer->segment_count, sizeof(*optimizer->segments));
	optimizer->partial = calloc(optimizer->segment_count, sizeof(*optimizer->partial));
	if (!optimizer->mean || !optimizer->square || !optimizer->segments || !optimizer->partial) {
		optimizer_release(optimizer);
		return -ENOMEM;
	}
	cut_into_segments(&model->layout, optimizer->segments);
	return 0;
}

void optimizer_release(struct optimizer *optimizer)
{
	memory_free(optimizer->mean);
	memory_free(optimizer->square);
	free(optimizer->segments);
	free(optimizer->partial);
	*optimizer = (struct optimizer){ 0 };
}

double optimizer_rate(const struct config *config, int64_t step)
{
	double span = config->schedule - WARMUP_STEPS;
	double progress;

	if (step < WARMUP_STEPS)
		return config->learning_rate * (double)(step + 1) / WARMUP_STEPS;
	progress = span > 0 ? (double)(step - WARMUP_STEPS) / span : 1;
	if (progress > 1)
		progress = 1;
	return config->learning_rate *
	       (RATE_FLOOR + (1 - RATE_FLOOR) * 0.5 * (1 + cos(progress * 3.14159265358979323846)));
}

struct update {
	struct optimizer *optimizer;
	struct model *model;
	real rate, clip, mean_correction, square_correction;
};

static void norm_task(void *arg, size_t task)
{
	const struct update *u = arg;
	const struct segment *s = &u->optimizer->segments[task];
	const real *gradient = u->model->grads + s->first;
	double sum = 0;

	for (size_t i = 0; i < s->count; i++)
		sum += (double)gradient[i] * (double)gradient[i];
	u->optimizer->partial[task] = sum;
}

static void update_task(void *arg, size_t task)
{
	const struct update *u = arg;
	const struct segment *s = &u->optimizer->segments[task];
	real *param = u->model->params + s->first, *gradient = u->model->grads + s->first;
	real *mean = u->optimizer->mean + s->first, *square = u->optimizer->square + s->first;
	const real mean_decay = (real)MEAN_DECAY, square_decay = (real)SQUARE_DECAY;
	const real decay = s->decays ? (real)WEIGHT_DECAY : 0;

	for (size_t i = 0; i < s->count; i++) {
		real g = gradient[i] * u->clip;
		real m = mean_decay * mean[i] + (1 - mean_decay) * g;
		real v = square_decay * square[i] + (1 - square_decay) * g * g;
		real direction = m * u->mean_correction /
				 (sqrt(v * u->square_correction) + (real)EPSILON);

		mean[i] = m;
		square[i] = v;
		param[i] -= u->rate * (direction + decay * param[i]);
	}
	memset(gradient, 0, s->count * sizeof(real));
}

double optimizer_step(struct optimizer *optimizer, struct model *model, int64_t step)
{
	const struct report *report = &model->report;
	struct update update = {
		.optimizer = optimizer,
		.model = model,
		.rate = (real)optimizer_rate(&model->config, step),
		.mean_correction = (real)(1 / (1 - pow(MEAN_DECAY, (double)step + 1))),
		.square_correction = (real)(1 / (1 - pow(SQUARE_DECAY, (double)step + 1))),
	};
	double norm = 0;

	report_range(report, RANGE_OPTIMIZER, -1, -1, MOESCOPE_OPTIMIZER);
	report_begin(report, OP_GRADIENT_NORM);
	pool_run(model->pool, optimizer->segment_count, norm_task, &update);
	for (size_t i = 0; i < optimizer->segment_count; i++)
		norm += optimizer->partial[i];
	norm = sqrt(norm);
	report_end(report, OP_GRADIENT_NORM, model->layout.total, 0);

	update.clip = norm > CLIP_NORM ? (real)(CLIP_NORM / norm) : 1;
	report_begin(report, OP_ADAMW);
	pool_run(model->pool, optimizer->segment_count, update_task, &update);
	report_end(report, OP_ADAMW, model->layout.total, 0);
	report_range_end();
	return norm;
}
