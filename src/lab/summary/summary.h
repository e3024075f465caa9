/* SPDX-License-Identifier: Apache-2.0
 *
 * Many experiments as one table: what differs between them, what each measured, what is best, and
 * what of it is more than chance. Reads the summary.json of every experiment directory in a
 * directory; missing, broken or foreign ones are named and counted. One thread.
 *
 * A configuration is the experiments with the same parameters (apart from seed, name and place). A
 * configuration with one successful experiment uses the figures of its repeats; with several, each
 * of them is one figure, so the interval includes the variation between runs. Failed experiments
 * have no figures. A figure has an interval from BATCH_INTERVAL_MIN up.
 */
#ifndef LAB_SUMMARY_H
#define LAB_SUMMARY_H

#include <stdio.h>

#include "base/err.h"
#include "base/text/json_read.h"
#include "base/text/text_table.h"
#include "compare/compare.h"

#define BATCH_INTERVAL_MIN 3
#define BATCH_PLOTS "visualization" /* folder of the plots, in the directory of the batch */

enum batch_metric_id {
	BATCH_TOKENS_PER_S,
	BATCH_TOKENS_PER_S_PER_GPU,
	BATCH_INFERENCE_TIME,
	BATCH_TTFT_P50,
	BATCH_TTFT_P99,
	BATCH_TPOT_P50,
	BATCH_TPOT_P99,
	BATCH_ITL_P50,
	BATCH_ITL_P99,
	BATCH_E2EL_P50,
	BATCH_E2EL_P99,
	BATCH_PEAK_MEMORY,
	BATCH_COST,
	BATCH_METRICS
};

struct batch_metric {
	const char *key, *title, *unit; /* unit "": none */
	const char *path;	/* in metrics; for a percentile the part after serving.DIALECT */
	const char *percentile; /* "p50"; NULL: not of a distribution */
	const char *formula;
	double divisor; /* from the JSON unit to that of the tables */
	bool higher_is_better;
};
extern const struct batch_metric batch_metrics[BATCH_METRICS];

/* n figures and their mean; the interval is Student's. */
struct batch_figure {
	double *x;
	size_t n;
	struct value mean, std, low, high; /* std: of the sample, n - 1 */
};

enum batch_status { BATCH_SUCCESS, BATCH_FAILED, BATCH_TIMEOUT, BATCH_UNREADABLE, BATCH_STATUSES };
extern const char *const batch_status_names[BATCH_STATUSES];

struct batch_experiment {
	char *name; /* of its directory */
	enum batch_status status;
	char *error;		/* one line; NULL: none */
	struct json_node *root; /* summary.json; NULL: unreadable */
	struct value duration_s;
	char *hardware;			     /* "8 x NVIDIA H200"; NULL: not in gpu_info.json */
	size_t repeats;			     /* that succeeded and have figures; at least 1 */
	size_t configuration;		     /* not for an unreadable one */
	struct value figures[BATCH_METRICS]; /* over all repeats, as in metrics.json */
};

/* Throughput per unit of a parameter, relative to the smallest value of it that has one. */
struct batch_efficiency {
	struct value pct;
	const char *relative_to; /* that smallest value */
};

struct batch_configuration {
	char *label;	/* "batch_size 4, max_tokens 100" */
	char **values;	/* of the parameters that vary; "" if an experiment has none */
	size_t members; /* experiments, and how many of them succeeded */
	size_t successful;
	size_t first;	     /* the first experiment, and the first successful one */
	bool by_experiments; /* each experiment is one figure; else each repeat */
	struct batch_figure figures[BATCH_METRICS];
	struct difference against_best[BATCH_METRICS];
	struct batch_efficiency *efficiency; /* of each axis */
	bool pareto;
};

/* Configurations that differ in only one parameter, by its value. */
struct batch_line {
	char *label;			      /* the other parameters; "": none varies */
	size_t *at, n;			      /* configurations */
	struct value exponent[BATCH_METRICS]; /* of the power law through at least three points */
	double r2[BATCH_METRICS];
};

/* A numeric parameter that varies. */
struct batch_axis {
	size_t parameter;
	bool resource; /* more of it should give more throughput: it has an efficiency */
	struct batch_line *lines;
	size_t n;
};

/* A parameter that is the same in all readable experiments. */
struct batch_constant {
	const struct json_node *node;
	char *text;
};

struct batch {
	char *name;			      /* of the directory */
	struct batch_experiment *experiments; /* by name */
	size_t n, counts[BATCH_STATUSES];
	const char **parameters; /* that vary */
	size_t n_parameters;
	struct batch_constant *constants;
	size_t n_constants;
	struct batch_configuration *configurations; /* by their values */
	size_t n_configurations;
	struct batch_axis *axes;
	size_t n_axes;
	const char *hardware; /* of all of them; NULL, and why not */
	const char *no_hardware;
	const char *dialect;	      /* of the serving figures */
	size_t best[BATCH_METRICS];   /* SIZE_MAX: no configuration has the figure */
	enum batch_metric_id latency; /* of the Pareto front and of the plots */
	size_t *front, n_front;	      /* by latency, smallest first */
};

/* Reads the experiments in DIRECTORY/points, or else in DIRECTORY. -ENOENT: there are none. */
int batch_read(const char *directory, struct batch *ret_batch, struct err *err);
void batch_release(struct batch *batch);

/* Whether a metric is worth a column: a configuration has it, and it does not repeat its
 * neighbour. */
bool batch_shows(const struct batch *batch, enum batch_metric_id metric);

/* The files batch_summary.json, .csv and .md. no_plots: NULL, or why there are none. 0 or -errno. */
int batch_write_json(const struct batch *batch, FILE *out);
int batch_write_csv(const struct batch *batch, FILE *out);
int batch_write_markdown(const struct batch *batch, const char *no_plots, FILE *out);
/* For the end of a sweep. */
int batch_print(const struct batch *batch, const struct text_layout *layout, FILE *out);

/* Plots, PNG and SVG each. Names without a suffix: batch_plot_name gives the i-th; false: no
 * more.
 */
bool batch_plot_name(const struct batch *batch, size_t i, char *out, size_t size);
/* What the i-th shows, one line. */
void batch_plot_title(const struct batch *batch, size_t i, char *out, size_t size);
int batch_plot_draw(const struct batch *batch, size_t i, bool svg, FILE *out, struct err *err);

/* Writes all of these files to the directory. ret_no_plots: NULL, or why there are no plots. */
int batch_write_files(const struct batch *batch, const char *directory, const char **ret_no_plots,
		      struct err *err);

#endif
