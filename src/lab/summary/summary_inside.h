/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a batch share; see summary.h.
 */
#ifndef LAB_SUMMARY_INSIDE_H
#define LAB_SUMMARY_INSIDE_H

#include "base/text/json_write.h"
#include "lab/summary/summary.h"

/* Fills name, experiments, n and counts; not yet figures and configurations. */
int batch_read_experiments(const char *directory, struct batch *batch, struct err *err);
void batch_experiments_release(struct batch *batch);
/* From the metrics of an experiment, or of one of its repeats. */
struct value batch_figure_of(const struct batch_experiment *experiment,
			     const struct json_node *metrics, enum batch_metric_id metric,
			     const char *dialect);

double batch_number(const char *text); /* NaN: not a number */
/* A parameter of an experiment; NULL: it has no such name. */
const struct json_node *batch_config(const struct batch_experiment *experiment, const char *key);
/* The note after this one (NULL: the first) in its summary.json; NULL: no more. */
const struct json_node *batch_note(const struct batch_experiment *experiment,
				   const struct json_node *after);
/* A JSON value as one text; NULL: no memory. free() it. */
char *batch_text_of(const struct json_node *node);
void batch_write_node(struct json *json, const struct json_node *node);
/* Fills parameters and constants. 0 or -ENOMEM. */
int batch_find_parameters(struct batch *batch);
void batch_parameters_release(struct batch *batch);
/* SIZE_MAX: it does not vary. */
size_t batch_parameter_index(const struct batch *batch, const char *key);
/* How a figure is computed, with its dialect's formula if an experiment has it. */
void batch_formula(const struct batch *batch, enum batch_metric_id metric, char *out, size_t size);

/* Axes with their lines, efficiency and power laws. */
int batch_fill_axes(struct batch *batch);
void batch_axes_release(struct batch *batch);

/* A figure as the tables print it, in the unit of its column: "1234 ± 12", or "1234" without an interval. */
void batch_mean_text(enum batch_metric_id metric, const struct batch_figure *figure, bool utf8,
		     char *out, size_t size);
/* Of a configuration against the best: "best", "-3.1%", "-0.2% (noise)", "-4.0% (untested)". */
void batch_verdict_text(const struct batch *batch, size_t index, enum batch_metric_id metric,
			char *out, size_t size);
/* "12 successful, 1 failed, 2 unreadable" */
void batch_counts_text(const struct batch *batch, char *out, size_t size);
/* "tokens/s", "TTFT p50 (ms)" */
void batch_metric_heading(enum batch_metric_id metric, char *out, size_t size);

#endif
