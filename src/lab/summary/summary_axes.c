/* SPDX-License-Identifier: Apache-2.0
 *
 * How figures change with one parameter while the others stay fixed: lines of configurations,
 * efficiency relative to the smallest value, and the power law through each line. See summary.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lab/summary/summary_inside.h"

#define LAW_MIN 3 /* points; two always lie on a line */

static const char *const resources[] = {
	"tensor_parallel_size",
	"pipeline_parallel_size",
	"data_parallel_size",
	"batch_size",
	"concurrency",
	"processes",
	"nodes",
	"threads",
};

static double x_of(const struct batch *batch, const struct batch_axis *axis, size_t i)
{
	return batch_number(batch->configurations[i].values[axis->parameter]);
}

static bool is_axis(const struct batch *batch, size_t parameter)
{
	for (size_t i = 0; i < batch->n_configurations; i++)
		if (isnan(batch_number(batch->configurations[i].values[parameter])))
			return false;
	return true;
}

static bool is_resource(const char *key)
{
	for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
		if (!strcmp(resources[i], key))
			return true;
	return false;
}

/* All parameters except the axis are the same. */
static bool same_line(const struct batch *batch, size_t parameter, size_t a, size_t b)
{
	for (size_t p = 0; p < batch->n_parameters; p++)
		if (p != parameter && strcmp(batch->configurations[a].values[p],
					     batch->configurations[b].values[p]) != 0)
			return false;
	return true;
}

static char *line_label(const struct batch *batch, size_t parameter, size_t i)
{
	struct buf text = { 0 };

	buf_append(&text, "", 1);
	text.size = 0;
	for (size_t p = 0; p < batch->n_parameters; p++) {
		const char *value = batch->configurations[i].values[p];

		if (p != parameter)
			buf_printf(&text, "%s%s %s", text.size ? ", " : "", batch->parameters[p],
				   *value ? value : "(none)");
	}
	if (text.failed)
		buf_release(&text);
	return text.data;
}

/* Configurations are sorted by their values, so those of a line come in order of x. */
static int add_to_lines(const struct batch *batch, struct batch_axis *axis, size_t *capacity,
			size_t i)
{
	struct batch_line *line = NULL;

	for (size_t l = 0; !line && l < axis->n; l++)
		if (same_line(batch, axis->parameter, axis->lines[l].at[0], i))
			line = &axis->lines[l];
	if (!line) {
		if (array_grow(&axis->lines, capacity, axis->n + 1, sizeof(*line)) < 0)
			return -ENOMEM;
		line = &axis->lines[axis->n];
		*line = (struct batch_line){
			.label = line_label(batch, axis->parameter, i),
			.at = calloc(batch->n_configurations, sizeof(*line->at)),
		};
		axis->n++;
		if (!line->label || !line->at)
			return -ENOMEM;
	}
	line->at[line->n++] = i;
	return 0;
}

/* Least squares through the logarithms. */
static void fit_law(const struct batch *batch, const struct batch_axis *axis,
		    struct batch_line *line, enum batch_metric_id metric)
{
	double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0, across, along;

	for (size_t i = 0; i < line->n; i++) {
		struct value y = batch->configurations[line->at[i]].figures[metric].mean;
		double x = x_of(batch, axis, line->at[i]);

		if (!y.known || !(y.v > 0) || !(x > 0))
			continue;
		x = log(x);
		y.v = log(y.v);
		n++;
		sx += x;
		sy += y.v;
		sxx += x * x;
		sxy += x * y.v;
		syy += y.v * y.v;
	}
	across = n * sxx - sx * sx;
	along = n * syy - sy * sy;
	line->exponent[metric] = n >= LAW_MIN && across > 0
					 ? value_of((n * sxy - sx * sy) / across)
					 : value_absent("fewer than 3 points above 0");
	/* A constant is a law that explains everything there is. */
	line->r2[metric] = along > 1e-12 * n * syy
				   ? (n * sxy - sx * sy) * (n * sxy - sx * sy) / (across * along)
				   : 1;
}

static void fill_efficiency(struct batch *batch, size_t index, const struct batch_line *line)
{
	const struct batch_axis *axis = &batch->axes[index];
	const struct batch_configuration *base = NULL;
	double x0 = 0, rate0 = 0;

	for (size_t i = 0; i < line->n; i++) {
		struct batch_configuration *c = &batch->configurations[line->at[i]];
		struct batch_efficiency *e = &c->efficiency[index];
		struct value rate = c->figures[BATCH_TOKENS_PER_S].mean;
		double x = x_of(batch, axis, line->at[i]);

		e->pct = value_absent(rate.known ? "a parameter or throughput that is not above 0"
						 : rate.reason);
		if (!rate.known || !(rate.v > 0) || !(x > 0))
			continue;
		if (!base) {
			base = c;
			x0 = x;
			rate0 = rate.v;
		}
		e->relative_to = base->values[axis->parameter];
		e->pct = value_of(100 * (rate.v / x) / (rate0 / x0));
	}
}

static int fill_axis(struct batch *batch, size_t index)
{
	struct batch_axis *axis = &batch->axes[index];
	size_t capacity = 0;

	for (size_t i = 0; i < batch->n_configurations; i++)
		if (add_to_lines(batch, axis, &capacity, i) < 0)
			return -ENOMEM;
	for (size_t l = 0; l < axis->n; l++) {
		fill_efficiency(batch, index, &axis->lines[l]);
		for (int m = 0; m < BATCH_METRICS; m++)
			fit_law(batch, axis, &axis->lines[l], (enum batch_metric_id)m);
	}
	return 0;
}

int batch_fill_axes(struct batch *batch)
{
	int r = 0;

	batch->axes = calloc(batch->n_parameters + 1, sizeof(*batch->axes));
	if (!batch->axes)
		return -ENOMEM;
	for (size_t p = 0; p < batch->n_parameters; p++)
		if (is_axis(batch, p))
			batch->axes[batch->n_axes++] = (struct batch_axis){
				.parameter = p, .resource = is_resource(batch->parameters[p])
			};
	for (size_t i = 0; i < batch->n_configurations; i++) {
		struct batch_configuration *c = &batch->configurations[i];

		c->efficiency = calloc(batch->n_axes + 1, sizeof(*c->efficiency));
		if (!c->efficiency)
			return -ENOMEM;
	}
	for (size_t i = 0; r == 0 && i < batch->n_axes; i++)
		r = fill_axis(batch, i);
	return r;
}

void batch_axes_release(struct batch *batch)
{
	for (size_t i = 0; i < batch->n_axes; i++) {
		for (size_t l = 0; l < batch->axes[i].n; l++) {
			free(batch->axes[i].lines[l].label);
			free(batch->axes[i].lines[l].at);
		}
		free(batch->axes[i].lines);
	}
	free(batch->axes);
	for (size_t i = 0; i < batch->n_configurations; i++)
		free(batch->configurations[i].efficiency);
}
