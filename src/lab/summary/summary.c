/* SPDX-License-Identifier: Apache-2.0
 *
 * From experiments to configurations, their figures, the best of them and the Pareto front; see
 * summary.h.
 */
#include "lab/summary/summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lab/serving/serving.h"
#include "lab/shared/experiment.h"
#include "lab/summary/summary_inside.h"
#include "subjects/numbers/stats.h"

#define FEW "fewer than 3 repeats"
#define FEW_ON_A_SIDE "fewer than 3 repeats on a side"

/* clang-format off */
const struct batch_metric batch_metrics[BATCH_METRICS] = {
	[BATCH_TOKENS_PER_S] = { "tokens_per_second", "tokens/s", "", "tokens_per_second", NULL,
		"output tokens / inference time; of training the tokens of its steps / their time", 1, true },
	[BATCH_TOKENS_PER_S_PER_GPU] = { "tokens_per_second_per_gpu", "tokens/s per GPU", "", NULL, NULL,
		"tokens_per_second / max(tensor_parallel_size * pipeline_parallel_size * "
		"data_parallel_size, nodes * processes)", 1, true },
	[BATCH_INFERENCE_TIME] = { "inference_time", "time", "s", "inference_time", NULL,
		"wall time of the measured part, model load and warm-up excluded", 1, false },
	[BATCH_TTFT_P50] = { "ttft_p50_ms", "TTFT p50", "ms", "ttft_ms", "p50",
		"time to first token, median over requests", 1, false },
	[BATCH_TTFT_P99] = { "ttft_p99_ms", "TTFT p99", "ms", "ttft_ms", "p99",
		"time to first token, 99th percentile over requests", 1, false },
	[BATCH_TPOT_P50] = { "tpot_p50_ms", "TPOT p50", "ms", "tpot_ms", "p50",
		"time per output token, median over requests", 1, false },
	[BATCH_TPOT_P99] = { "tpot_p99_ms", "TPOT p99", "ms", "tpot_ms", "p99",
		"time per output token, 99th percentile over requests", 1, false },
	[BATCH_ITL_P50] = { "itl_p50_ms", "ITL p50", "ms", "itl_ms", "p50",
		"inter-token latency, median", 1, false },
	[BATCH_ITL_P99] = { "itl_p99_ms", "ITL p99", "ms", "itl_ms", "p99",
		"inter-token latency, 99th percentile", 1, false },
	[BATCH_E2EL_P50] = { "e2el_p50_ms", "E2EL p50", "ms", "e2el_ms", "p50",
		"end-to-end latency, median over requests", 1, false },
	[BATCH_E2EL_P99] = { "e2el_p99_ms", "E2EL p99", "ms", "e2el_ms", "p99",
		"end-to-end latency, 99th percentile over requests", 1, false },
	[BATCH_PEAK_MEMORY] = { "peak_memory_bytes", "peak memory", "GB", "memory.measured_peak_bytes", NULL,
		"largest memory use measured in the experiment", 1e9, false },
	[BATCH_COST] = { "cost_per_million_output_tokens", "cost per 1M tokens", "", NULL, NULL,
		"price_per_hour / 3600 / tokens_per_second * 1,000,000", 1, false },
};
/* clang-format on */

void batch_formula(const struct batch *batch, enum batch_metric_id metric, char *out, size_t size)
{
	const struct batch_metric *m = &batch_metrics[metric];
	const char *own = NULL;

	for (size_t i = 0; m->percentile && !own && i < batch->n; i++) {
		const struct json_node *node = json_get(batch->experiments[i].root, "metrics");

		node = json_get(json_get(json_get(node, "serving"), batch->dialect), m->path);
		own = json_get_string(node, "formula", NULL);
	}
	snprintf(out, size, "%s%s%s", m->formula, own ? ": " : "", own ? own : "");
}

static int compare_texts(const char *a, const char *b)
{
	double x = batch_number(a), y = batch_number(b);

	if (!isnan(x) && !isnan(y))
		return x < y ? -1 : x > y;
	return strcmp(a, b);
}

static int compare_values(char *const *a, char *const *b, size_t n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = compare_texts(a[i], b[i]);
	return r;
}

static void values_free(char **values, size_t n)
{
	for (size_t i = 0; values && i < n; i++)
		free(values[i]);
	free(values);
}

static char **values_of(const struct batch *batch, const struct batch_experiment *e)
{
	char **values = calloc(batch->n_parameters + 1, sizeof(*values));

	for (size_t i = 0; values && i < batch->n_parameters; i++) {
		values[i] = batch_text_of(batch_config(e, batch->parameters[i]));
		if (!values[i]) {
			values_free(values, i);
			return NULL;
		}
	}
	return values;
}

/* The index of these values among the configurations, which are sorted. */
static size_t place_of(const struct batch *batch, char *const *values, bool *ret_found)
{
	size_t low = 0, high = batch->n_configurations;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = compare_values(batch->configurations[middle].values, values,
					   batch->n_parameters);

		if (order == 0) {
			*ret_found = true;
			return middle;
		}
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*ret_found = false;
	return low;
}

static char *label_of(const struct batch *batch, char *const *values, const char *name)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < batch->n_parameters; i++)
		buf_printf(&text, "%s%s %s", i ? ", " : "", batch->parameters[i],
			   *values[i] ? values[i] : "(none)");
	if (!batch->n_parameters) /* one configuration, possibly repeated */
		buf_printf(&text, "%s", name);
	if (text.failed)
		buf_release(&text);
	return text.data;
}

static int add_member(struct batch *batch, size_t *capacity, size_t index)
{
	struct batch_experiment *e = &batch->experiments[index];
	char **values = values_of(batch, e);
	struct batch_configuration *c;
	bool found;
	size_t at;

	if (!values)
		return -ENOMEM;
	at = place_of(batch, values, &found);
	if (!found) {
		if (array_grow(&batch->configurations, capacity, batch->n_configurations + 1,
			       sizeof(*c)) < 0) {
			values_free(values, batch->n_parameters);
			return -ENOMEM;
		}
		c = &batch->configurations[at];
		memmove(c + 1, c, (batch->n_configurations - at) * sizeof(*c));
		*c = (struct batch_configuration){ .values = values, .first = index };
		batch->n_configurations++;
	} else {
		values_free(values, batch->n_parameters);
	}
	c = &batch->configurations[at];
	c->members++;
	if (e->status == BATCH_SUCCESS && !c->successful++)
		c->first = index;
	return 0;
}

/* The values of `other` determine those of `parameter`. */
static bool determines(const struct batch *batch, size_t other, size_t parameter)
{
	const struct batch_configuration *c = batch->configurations;

	for (size_t i = 0; i < batch->n_configurations; i++)
		for (size_t j = 0; j < i; j++)
			if (!strcmp(c[i].values[other], c[j].values[other]) &&
			    strcmp(c[i].values[parameter], c[j].values[parameter]) != 0)
				return false;
	return true;
}

static void drop_parameter(struct batch *batch, size_t parameter)
{
	size_t rest = --batch->n_parameters - parameter;

	for (size_t i = 0; i < batch->n_configurations; i++) {
		char **at = batch->configurations[i].values + parameter;

		free(*at);
		memmove(at, at + 1, rest * sizeof(*at));
	}
	memmove(batch->parameters + parameter, batch->parameters + parameter + 1,
		rest * sizeof(*batch->parameters));
}

/* A model has up to three names: one is enough if it determines the others. */
static void drop_redundant(struct batch *batch)
{
	static const char *const pairs[][2] = { { "model_path", "model_name" },
						{ "model_path", "model" },
						{ "model", "model_name" } };

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		size_t dropped = batch_parameter_index(batch, pairs[i][0]),
		       kept = batch_parameter_index(batch, pairs[i][1]);

		if (dropped != SIZE_MAX && kept != SIZE_MAX && determines(batch, kept, dropped))
			drop_parameter(batch, dropped);
	}
}

static int label_configurations(struct batch *batch)
{
	for (size_t i = 0; i < batch->n_configurations; i++) {
		struct batch_configuration *c = &batch->configurations[i];

		c->label = label_of(batch, c->values, batch->experiments[c->first].name);
		if (!c->label)
			return -ENOMEM;
	}
	return 0;
}

static int make_configurations(struct batch *batch)
{
	size_t capacity = 0;

	for (size_t i = 0; i < batch->n; i++)
		if (batch->experiments[i].root && add_member(batch, &capacity, i) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < batch->n; i++) {
		struct batch_experiment *e = &batch->experiments[i];
		char **values = e->root ? values_of(batch, e) : NULL;
		bool found;

		if (!e->root)
			continue;
		if (!values)
			return -ENOMEM;
		e->configuration = place_of(batch, values, &found);
		values_free(values, batch->n_parameters);
	}
	drop_redundant(batch);
	return label_configurations(batch);
}

/* The one that all experiments name, or else vLLM's. */
static const char *dialect_of(const struct batch *batch)
{
	const char *common = NULL;
	int dialect;

	for (size_t i = 0; i < batch->n; i++) {
		const struct json_node *node = batch_config(&batch->experiments[i], "dialect");

		if (!node || node->type != JSON_STRING)
			continue;
		if (common && strcmp(common, node->text) != 0)
			return dialect_names[DIALECT_VLLM];
		common = node->text;
	}
	dialect = common ? dialect_find(common) : -1;
	return dialect_names[dialect < 0 ? DIALECT_VLLM : dialect];
}

static const struct json_node *repeats_of(const struct batch_experiment *e)
{
	const struct json_node *repeats = json_get(json_get(e->root, "metrics"), "repeats");

	return repeats && repeats->type == JSON_ARRAY ? repeats->child : NULL;
}

static void fill_experiment(struct batch *batch, struct batch_experiment *e)
{
	const struct json_node *metrics = json_get(e->root, "metrics");

	for (int m = 0; m < BATCH_METRICS; m++)
		e->figures[m] = e->status == BATCH_SUCCESS
					? batch_figure_of(e, metrics, (enum batch_metric_id)m,
							  batch->dialect)
					: value_absent("the experiment did not succeed");
	for (const struct json_node *r = repeats_of(e); r; r = r->next)
		e->repeats++;
	if (!e->repeats)
		e->repeats = 1;
}

static void settle_figure(struct batch_figure *f)
{
	struct moments m = moments_of_runs(f->x, f->n);
	double half;

	f->mean = value_of(m.mean);
	f->std = f->n > 1 ? value_of(sqrt(m.var)) : value_absent("n = 1");
	f->low = f->high = value_absent(f->n > 1 ? FEW : "n = 1");
	if (f->n < BATCH_INTERVAL_MIN)
		return;
	half = stats_t_quantile(1 - COMPARE_ALPHA / 2, (double)f->n - 1) *
	       sqrt(m.var / (double)f->n);
	f->low = value_of(m.mean - half);
	f->high = value_of(m.mean + half);
}

/* From the repeats if at least two have the figure; else from the whole experiment. */
static void gather_repeats(const struct batch *batch, const struct batch_experiment *e,
			   enum batch_metric_id metric, struct batch_figure *f)
{
	for (const struct json_node *r = repeats_of(e); r && f->n < e->repeats; r = r->next) {
		struct value v = batch_figure_of(e, r, metric, batch->dialect);

		if (v.known)
			f->x[f->n++] = v.v;
	}
	if (f->n < 2) {
		f->n = e->figures[metric].known;
		f->x[0] = e->figures[metric].v;
	}
}

static int fill_figure(const struct batch *batch, size_t index, enum batch_metric_id metric)
{
	struct batch_configuration *c = &batch->configurations[index];
	const struct batch_experiment *first = &batch->experiments[c->first];
	struct batch_figure *f = &c->figures[metric];
	struct value none = c->successful ? first->figures[metric]
					  : value_absent("no experiment of it succeeded");

	f->mean = f->std = f->low = f->high = none;
	if (!c->successful)
		return 0;
	f->x = calloc(c->by_experiments ? c->successful : first->repeats, sizeof(*f->x));
	if (!f->x)
		return -ENOMEM;
	if (!c->by_experiments)
		gather_repeats(batch, first, metric, f);
	for (size_t i = 0; c->by_experiments && i < batch->n; i++) {
		const struct batch_experiment *e = &batch->experiments[i];

		if (e->configuration == index && e->figures[metric].known)
			f->x[f->n++] = e->figures[metric].v;
	}
	if (f->n)
		settle_figure(f);
	return 0;
}

static bool better(enum batch_metric_id metric, double a, double b)
{
	return batch_metrics[metric].higher_is_better ? a > b : a < b;
}

static size_t find_best(const struct batch *batch, enum batch_metric_id metric)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < batch->n_configurations; i++) {
		const struct value *v = &batch->configurations[i].figures[metric].mean;

		if (v->known &&
		    (best == SIZE_MAX ||
		     better(metric, v->v, batch->configurations[best].figures[metric].mean.v)))
			best = i;
	}
	return best;
}

/* Tests every configuration against the best one. */
static int compare_with_best(struct batch *batch, enum batch_metric_id metric)
{
	struct difference **all = calloc(batch->n_configurations + 1, sizeof(struct difference *));
	size_t n = 0;
	int r;

	if (!all)
		return -ENOMEM;
	batch->best[metric] = find_best(batch, metric);
	for (size_t i = 0; i < batch->n_configurations; i++) {
		struct batch_configuration *c = &batch->configurations[i];
		const struct batch_figure *f = &c->figures[metric], *best;
		struct difference *d = &c->against_best[metric];

		*d = difference_absent(i == batch->best[metric] ? "it is the best"
								: f->mean.reason);
		if (i == batch->best[metric] || !f->mean.known)
			continue;
		best = &batch->configurations[batch->best[metric]].figures[metric];
		if (best->n >= COMPARE_RUNS_MIN && f->n >= COMPARE_RUNS_MIN) {
			struct moments a = moments_of_runs(best->x, best->n);
			struct moments b = moments_of_runs(f->x, f->n);
			struct contrast contrast = contrast_means(&a, &b);

			difference_of_contrast(d, &contrast);
		} else {
			difference_untested(d, best->mean.v, f->mean.v, FEW_ON_A_SIDE);
		}
		d->by_runs = true;
		d->n_a = best->n;
		d->n_b = f->n;
		all[n++] = d;
	}
	r = differences_judge(all, n, batch_metrics[metric].higher_is_better);
	free(all);
	return r;
}

static bool in_front(const struct batch *batch, const struct batch_configuration *c)
{
	return c->figures[BATCH_TOKENS_PER_S].mean.known && c->figures[batch->latency].mean.known;
}

/* Latency per token if most have it: it is comparable between answers of any length. */
static enum batch_metric_id choose_latency(struct batch *batch)
{
	static const enum batch_metric_id order[] = { BATCH_TPOT_P50, BATCH_E2EL_P50,
						      BATCH_INFERENCE_TIME };
	enum batch_metric_id chosen = order[0];
	size_t most = 0;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		size_t n = 0;

		batch->latency = order[i];
		for (size_t c = 0; c < batch->n_configurations; c++)
			n += in_front(batch, &batch->configurations[c]);
		if (n > most) {
			most = n;
			chosen = order[i];
		}
	}
	return chosen;
}

static double rate_of(const struct batch *batch, size_t i)
{
	return batch->configurations[i].figures[BATCH_TOKENS_PER_S].mean.v;
}

static double latency_of(const struct batch *batch, size_t i)
{
	return batch->configurations[i].figures[batch->latency].mean.v;
}

static bool dominated(const struct batch *batch, size_t i)
{
	for (size_t j = 0; j < batch->n_configurations; j++) {
		double rate = rate_of(batch, j), latency = latency_of(batch, j);

		if (in_front(batch, &batch->configurations[j]) && rate >= rate_of(batch, i) &&
		    latency <= latency_of(batch, i) &&
		    (rate > rate_of(batch, i) || latency < latency_of(batch, i)))
			return true;
	}
	return false;
}

static int find_front(struct batch *batch)
{
	batch->latency = choose_latency(batch);
	batch->front = calloc(batch->n_configurations + 1, sizeof(*batch->front));
	if (!batch->front)
		return -ENOMEM;
	for (size_t i = 0; i < batch->n_configurations; i++) {
		struct batch_configuration *c = &batch->configurations[i];
		size_t at = batch->n_front;

		c->pareto = in_front(batch, c) && !dominated(batch, i);
		if (!c->pareto)
			continue;
		/* The front is small: insertion sort. */
		for (; at > 0 && latency_of(batch, batch->front[at - 1]) > latency_of(batch, i);
		     at--)
			batch->front[at] = batch->front[at - 1];
		batch->front[at] = i;
		batch->n_front++;
	}
	return 0;
}

bool batch_shows(const struct batch *batch, enum batch_metric_id metric)
{
	bool varies = batch_parameter_index(batch, "nodes") != SIZE_MAX ||
		      batch_parameter_index(batch, "processes") != SIZE_MAX;

	for (const char *const *key = parallel_sizes; *key; key++)
		varies |= batch_parameter_index(batch, *key) != SIZE_MAX;
	return batch->best[metric] != SIZE_MAX && (metric != BATCH_TOKENS_PER_S_PER_GPU || varies);
}

static int compute_batch(struct batch *batch)
{
	int r;

	batch->dialect = dialect_of(batch);
	r = batch_find_parameters(batch);
	if (r == 0)
		r = make_configurations(batch);
	for (size_t i = 0; r == 0 && i < batch->n; i++)
		fill_experiment(batch, &batch->experiments[i]);
	for (size_t i = 0; r == 0 && i < batch->n_configurations; i++) {
		batch->configurations[i].by_experiments = batch->configurations[i].successful > 1;
		for (int m = 0; r == 0 && m < BATCH_METRICS; m++)
			r = fill_figure(batch, i, (enum batch_metric_id)m);
	}
	for (int m = 0; r == 0 && m < BATCH_METRICS; m++)
		r = compare_with_best(batch, (enum batch_metric_id)m);
	if (r == 0)
		r = find_front(batch);
	return r < 0 ? r : batch_fill_axes(batch);
}

int batch_read(const char *directory, struct batch *ret_batch, struct err *err)
{
	struct batch batch = { 0 };
	int r = batch_read_experiments(directory, &batch, err);

	if (r == 0) {
		r = compute_batch(&batch);
		if (r < 0)
			err_sys(err, r, "%s", directory);
	}
	if (r < 0)
		batch_release(&batch);
	else
		*ret_batch = batch;
	return r;
}

void batch_release(struct batch *batch)
{
	batch_axes_release(batch);
	for (size_t i = 0; i < batch->n_configurations; i++) {
		struct batch_configuration *c = &batch->configurations[i];

		for (int m = 0; m < BATCH_METRICS; m++)
			free(c->figures[m].x);
		values_free(c->values, batch->n_parameters);
		free(c->label);
	}
	free(batch->configurations);
	free(batch->front);
	batch_parameters_release(batch);
	batch_experiments_release(batch);
	memset(batch, 0, sizeof(*batch));
}
