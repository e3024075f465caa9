/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch as JSON and CSV, and all of its files in a directory; see summary.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/whole_file.h"
#include "base/text/csv_write.h"
#include "base/text/json_write.h"
#include "lab/summary/summary_inside.h"
#include "surfaces/plot/plot.h"

static void put_value(struct json *json, const char *key, struct value value)
{
	char reason[64];

	json_key(json, key);
	if (value.known && isfinite(value.v)) {
		json_double(json, value.v);
		return;
	}
	json_null(json);
	snprintf(reason, sizeof(reason), "%s_reason", key);
	json_key(json, reason);
	json_string(json, value.known ? "not a finite number" : value.reason);
}

static void put_text(struct json *json, const char *key, const char *text)
{
	json_key(json, key);
	json_string(json, text);
}

static void put_count(struct json *json, const char *key, size_t count)
{
	json_key(json, key);
	json_uint(json, count);
}

/* One experiment's parameters that vary. */
static void put_parameters(const struct batch *batch, const struct batch_experiment *e,
			   struct json *json)
{
	json_key(json, "parameters");
	json_object_line(json);
	for (size_t i = 0; i < batch->n_parameters; i++) {
		const struct json_node *node = batch_config(e, batch->parameters[i]);

		json_key(json, batch->parameters[i]);
		if (node && node->type != JSON_NULL)
			batch_write_node(json, node);
		else
			json_string(json, "");
	}
	json_object_end(json);
}

static void put_notes(const struct batch_experiment *e, struct json *json)
{
	const struct json_node *note = batch_note(e, NULL);

	if (!note)
		return;
	json_key(json, "notes");
	json_array(json);
	for (; note; note = batch_note(e, note))
		json_string(json, note->text);
	json_array_end(json);
}

static void put_experiment(const struct batch *batch, const struct batch_experiment *e,
			   struct json *json)
{
	json_object(json);
	put_text(json, "name", e->name);
	put_text(json, "status", batch_status_names[e->status]);
	if (e->error)
		put_text(json, "error", e->error);
	if (e->root) {
		put_value(json, "duration_s", e->duration_s);
		if (e->hardware)
			put_text(json, "hardware", e->hardware);
		put_text(json, "configuration", batch->configurations[e->configuration].label);
		put_parameters(batch, e, json);
		put_notes(e, json);
	}
	if (e->status == BATCH_SUCCESS) {
		put_count(json, "repeats", e->repeats);
		json_key(json, "metrics");
		json_object(json);
		for (int m = 0; m < BATCH_METRICS; m++)
			put_value(json, batch_metrics[m].key, e->figures[m]);
		json_object_end(json);
	}
	json_object_end(json);
}

static void put_figure(const struct batch_figure *f, struct json *json)
{
	json_object_line(json);
	put_value(json, "mean", f->mean);
	put_count(json, "n", f->n);
	put_value(json, "std_sample", f->std);
	put_value(json, "low", f->low);
	put_value(json, "high", f->high);
	json_object_end(json);
}

static void put_difference(const struct difference *d, struct json *json)
{
	json_object_line(json);
	put_value(json, "pct", d->pct);
	put_value(json, "low_pct", d->low_pct);
	put_value(json, "high_pct", d->high_pct);
	put_value(json, "p_adjusted", d->p_adjusted);
	put_text(json, "verdict", compare_verdict_name(d->verdict));
	json_object_end(json);
}

static void put_efficiency(const struct batch *batch, const struct batch_configuration *c,
			   struct json *json)
{
	json_key(json, "efficiency");
	json_array(json);
	for (size_t a = 0; a < batch->n_axes; a++) {
		if (!batch->axes[a].resource)
			continue;
		json_object_line(json);
		put_text(json, "parameter", batch->parameters[batch->axes[a].parameter]);
		put_value(json, "efficiency_pct", c->efficiency[a].pct);
		if (c->efficiency[a].relative_to)
			put_text(json, "relative_to", c->efficiency[a].relative_to);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_configuration(const struct batch *batch, size_t index, struct json *json)
{
	const struct batch_configuration *c = &batch->configurations[index];

	json_object(json);
	put_text(json, "label", c->label);
	put_parameters(batch, &batch->experiments[c->first], json);
	json_key(json, "experiments");
	json_array_line(json);
	for (size_t i = 0; i < batch->n; i++)
		if (batch->experiments[i].configuration == index)
			json_string(json, batch->experiments[i].name);
	json_array_end(json);
	put_count(json, "successful", c->successful);
	put_text(json, "n_of", c->by_experiments ? "experiments" : "repeats");
	json_key(json, "pareto");
	json_bool(json, c->pareto);
	json_key(json, "figures");
	json_object(json);
	for (int m = 0; m < BATCH_METRICS; m++) {
		json_key(json, batch_metrics[m].key);
		put_figure(&c->figures[m], json);
	}
	json_object_end(json);
	json_key(json, "against_best");
	json_object(json);
	for (int m = 0; m < BATCH_METRICS; m++) {
		if (c->against_best[m].verdict == COMPARE_ABSENT)
			continue;
		json_key(json, batch_metrics[m].key);
		put_difference(&c->against_best[m], json);
	}
	json_object_end(json);
	put_efficiency(batch, c, json);
	json_object_end(json);
}

static void put_best(const struct batch *batch, struct json *json)
{
	json_key(json, "best");
	json_object(json);
	for (int m = 0; m < BATCH_METRICS; m++) {
		const struct batch_configuration *best;

		if (batch->best[m] == SIZE_MAX)
			continue;
		best = &batch->configurations[batch->best[m]];
		json_key(json, batch_metrics[m].key);
		json_object(json);
		put_text(json, "configuration", best->label);
		put_value(json, "mean", best->figures[m].mean);
		put_count(json, "n", best->figures[m].n);
		json_key(json, "within_noise");
		json_array_line(json);
		for (size_t i = 0; i < batch->n_configurations; i++) {
			const struct batch_configuration *c = &batch->configurations[i];

			if (c->against_best[m].verdict == COMPARE_NOISE ||
			    c->against_best[m].verdict == COMPARE_SAME)
				json_string(json, c->label);
		}
		json_array_end(json);
		json_object_end(json);
	}
	json_object_end(json);
}

static void put_front(const struct batch *batch, struct json *json)
{
	const char *latency = batch_metrics[batch->latency].key;

	put_text(json, "pareto_latency", latency);
	json_key(json, "pareto");
	json_array(json);
	for (size_t i = 0; i < batch->n_front; i++) {
		const struct batch_configuration *c = &batch->configurations[batch->front[i]];

		json_object_line(json);
		put_text(json, "configuration", c->label);
		put_value(json, "tokens_per_second", c->figures[BATCH_TOKENS_PER_S].mean);
		put_value(json, "latency", c->figures[batch->latency].mean);
		json_object_end(json);
	}
	json_array_end(json);
}

static void put_scaling(const struct batch *batch, struct json *json)
{
	json_key(json, "scaling");
	json_array(json);
	for (size_t a = 0; a < batch->n_axes; a++) {
		const struct batch_axis *axis = &batch->axes[a];

		for (size_t i = 0; i < axis->n * BATCH_METRICS; i++) {
			const struct batch_line *line = &axis->lines[i / BATCH_METRICS];
			size_t m = i % BATCH_METRICS;

			if (!line->exponent[m].known)
				continue;
			json_object_line(json);
			put_text(json, "parameter", batch->parameters[axis->parameter]);
			put_text(json, "metric", batch_metrics[m].key);
			put_text(json, "where", line->label);
			put_value(json, "exponent", line->exponent[m]);
			put_value(json, "r2", value_of(line->r2[m]));
			json_object_end(json);
		}
	}
	json_array_end(json);
}

static void put_constants(const struct batch *batch, struct json *json)
{
	json_key(json, "constants");
	json_object(json);
	for (size_t i = 0; i < batch->n_constants; i++) {
		json_key(json, batch->constants[i].node->key);
		batch_write_node(json, batch->constants[i].node);
	}
	json_object_end(json);
}

int batch_write_json(const struct batch *batch, FILE *out)
{
	struct json json;

	json_init_file(&json, out, 2);
	json_object(&json);
	put_text(&json, "schema", "moescope/batch/1");
	put_text(&json, "name", batch->name);
	put_count(&json, "total_experiments", batch->n);
	put_count(&json, "successful", batch->counts[BATCH_SUCCESS]);
	put_count(&json, "failed", batch->counts[BATCH_FAILED]);
	put_count(&json, "timeout", batch->counts[BATCH_TIMEOUT]);
	put_count(&json, "unreadable", batch->counts[BATCH_UNREADABLE]);
	put_text(&json, "hardware", batch->hardware);
	if (!batch->hardware)
		put_text(&json, "hardware_reason", batch->no_hardware);
	put_text(&json, "dialect", batch->dialect);
	json_key(&json, "confidence_pct");
	json_int(&json, 95);
	json_key(&json, "parameters");
	json_array_line(&json);
	for (size_t i = 0; i < batch->n_parameters; i++)
		json_string(&json, batch->parameters[i]);
	json_array_end(&json);
	put_constants(batch, &json);
	json_key(&json, "experiments");
	json_array(&json);
	for (size_t i = 0; i < batch->n; i++)
		put_experiment(batch, &batch->experiments[i], &json);
	json_array_end(&json);
	json_key(&json, "configurations");
	json_array(&json);
	for (size_t i = 0; i < batch->n_configurations; i++)
		put_configuration(batch, i, &json);
	json_array_end(&json);
	put_best(batch, &json);
	put_front(batch, &json);
	put_scaling(batch, &json);
	json_key(&json, "formulas");
	json_object(&json);
	for (int m = 0; m < BATCH_METRICS; m++) {
		char formula[1024];

		batch_formula(batch, (enum batch_metric_id)m, formula, sizeof(formula));
		put_text(&json, batch_metrics[m].key, formula);
	}
	json_object_end(&json);
	json_object_end(&json);
	return json_finish(&json, NULL);
}

static void put_cell(struct value value, FILE *out)
{
	char text[64] = "";

	if (value.known && isfinite(value.v))
		json_format_double(text, sizeof(text), value.v);
	fprintf(out, ",%s", text);
}

int batch_write_csv(const struct batch *batch, FILE *out)
{
	fputs("name,status,error,duration_s,repeats", out);
	for (size_t i = 0; i < batch->n_parameters; i++) {
		fputc(',', out);
		csv_write_text(batch->parameters[i], out);
	}
	for (int m = 0; m < BATCH_METRICS; m++)
		fprintf(out, ",%s", batch_metrics[m].key);
	fputc('\n', out);
	for (size_t i = 0; i < batch->n; i++) {
		const struct batch_experiment *e = &batch->experiments[i];

		csv_write_text(e->name, out);
		fprintf(out, ",%s,", batch_status_names[e->status]);
		csv_write_text(e->error ? e->error : "", out);
		put_cell(e->duration_s, out);
		if (e->status == BATCH_SUCCESS)
			fprintf(out, ",%zu", e->repeats);
		else
			fputc(',', out);
		for (size_t p = 0; p < batch->n_parameters; p++) {
			fputc(',', out);
			if (e->root)
				csv_write_text(batch->configurations[e->configuration].values[p],
					       out);
		}
		for (int m = 0; m < BATCH_METRICS; m++)
			put_cell(e->figures[m], out);
		fputc('\n', out);
	}
	return ferror(out) ? -EIO : 0;
}

/* What writes a file of the batch. */
struct job {
	const struct batch *batch;
	const char *no_plots;
	size_t plot;
	bool svg;
	int (*write)(const struct job *job, FILE *out, struct err *err);
};

static int write_json(const struct job *job, FILE *out, struct err *err)
{
	(void)err;
	return batch_write_json(job->batch, out);
}

static int write_csv(const struct job *job, FILE *out, struct err *err)
{
	(void)err;
	return batch_write_csv(job->batch, out);
}

static int write_markdown(const struct job *job, FILE *out, struct err *err)
{
	(void)err;
	return batch_write_markdown(job->batch, job->no_plots, out);
}

static int write_plot(const struct job *job, FILE *out, struct err *err)
{
	return batch_plot_draw(job->batch, job->plot, job->svg, out, err);
}

static int write_file(const struct job *job, const char *directory, const char *name,
		      const char *ending, struct err *err)
{
	struct whole_file whole;
	char *path;
	int r;

	if (asprintf(&path, "%s/%s.%s", directory, name, ending) < 0)
		return err_sys(err, -ENOMEM, "%s", directory);
	r = whole_file_open(&whole, path);
	if (r < 0)
		r = err_sys(err, r, "cannot write '%s'", path);
	else
		r = whole_file_close(&whole, job->write(job, whole.file, err), err);
	free(path);
	return r;
}

static int write_plots(const struct batch *batch, const char *directory, struct err *err)
{
	struct job job = { .batch = batch, .write = write_plot };
	char name[256], *folder;
	int r = 0;

	if (asprintf(&folder, "%s/" BATCH_PLOTS, directory) < 0)
		return err_sys(err, -ENOMEM, "%s", directory);
	if (batch_plot_name(batch, 0, name, sizeof(name)) && mkdir(folder, 0777) < 0 &&
	    errno != EEXIST)
		r = err_sys(err, -errno, "cannot create the directory '%s'", folder);
	for (; r == 0 && batch_plot_name(batch, job.plot, name, sizeof(name)); job.plot++)
		for (int svg = 0; r == 0 && svg < 2; svg++) {
			job.svg = svg;
			r = write_file(&job, folder, name, svg ? "svg" : "png", err);
		}
	free(folder);
	return r;
}

int batch_write_files(const struct batch *batch, const char *directory, const char **ret_no_plots,
		      struct err *err)
{
	static const struct {
		const char *ending;
		int (*write)(const struct job *job, FILE *out, struct err *err);
	} files[] = { { "json", write_json }, { "csv", write_csv }, { "md", write_markdown } };
	struct job job = { .batch = batch, .no_plots = plot_unavailable() };
	char name[256];
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(files) / sizeof(files[0]); i++) {
		job.write = files[i].write;
		r = write_file(&job, directory, "batch_summary", files[i].ending, err);
	}
	if (r == 0 && !job.no_plots)
		r = write_plots(batch, directory, err);
	if (r == 0 && !job.no_plots && !batch_plot_name(batch, 0, name, sizeof(name)))
		job.no_plots = "there is nothing to plot: no two configurations have figures.";
	if (r == 0)
		*ret_no_plots = job.no_plots;
	return r;
}
