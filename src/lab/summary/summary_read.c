/* SPDX-License-Identifier: Apache-2.0
 *
 * Experiment directories of a batch, and the figures in their summary.json. Untrusted: anything may
 * be missing, broken or from another program.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/files/input_file.h"
#include "lab/shared/experiment.h"
#include "lab/summary/summary_inside.h"

#define SUMMARY_MAX ((size_t)64 << 20) /* bytes */
#define SCHEMA "moescope/experiment/1"
#define ERROR_MAX 2000 /* bytes; the experiment's own files have all of it */

const char *const batch_status_names[BATCH_STATUSES] = { "success", "failed", "timeout",
							 "unreadable" };

double batch_number(const char *text)
{
	char *end;
	double value = strtod(text, &end);

	/* Also rejects what strtod accepts and nobody means as a number: nan, inf, 0x10. */
	if (end == text || *end || !isfinite(value) || strpbrk(text, "xXnN"))
		return NAN;
	return value;
}

static struct value node_value(const struct json_node *node, const char *absent)
{
	double v;

	if (!node || node->type != JSON_NUMBER)
		return value_absent(absent);
	v = batch_number(node->text);
	if (isnan(v))
		return value_absent("its number is too large");
	return v < 0 ? value_absent("its number is below 0") : value_of(v);
}

const struct json_node *batch_note(const struct batch_experiment *experiment,
				   const struct json_node *after)
{
	const struct json_node *notes = json_get(experiment->root, "notes");
	const struct json_node *note = after				    ? after->next
				       : notes && notes->type == JSON_ARRAY ? notes->child
									    : NULL;

	while (note && note->type != JSON_STRING)
		note = note->next;
	return note;
}

const struct json_node *batch_config(const struct batch_experiment *experiment, const char *key)
{
	return json_get(json_get(experiment->root, "config"), key);
}

/* The value at "a.b.c". Absent: the reason next to the first missing part. */
static struct value value_at(const struct json_node *node, const char *path)
{
	const char *reason = "not in the experiment's metrics";
	char key[64], beside[80];

	while (node && *path) {
		size_t length = strcspn(path, ".");
		const struct json_node *parent = node;

		snprintf(key, sizeof(key), "%.*s", (int)length, path);
		snprintf(beside, sizeof(beside), "%s_reason", key);
		node = json_get(parent, key);
		if (!node || node->type == JSON_NULL) {
			reason = json_get_string(parent, beside,
						 json_get_string(parent, "reason", reason));
			node = NULL;
		}
		path += length + (path[length] == '.');
	}
	return node_value(node, reason);
}

/* Experiments of older versions lack some of these. */
static double size_of(const struct batch_experiment *e, const char *key)
{
	struct value size = node_value(batch_config(e, key), "");

	return size.known && size.v >= 1 ? size.v : 1;
}

static struct value per_gpu(const struct batch_experiment *e, struct value rate)
{
	double ranks = size_of(e, "nodes") * size_of(e, "processes"), gpus = 1;

	if (!rate.known)
		return rate;
	if (!node_value(batch_config(e, "tensor_parallel_size"), "").known)
		return value_absent("tensor_parallel_size is not known");
	for (const char *const *key = parallel_sizes; *key; key++)
		gpus *= size_of(e, *key);
	return value_of(rate.v / fmax(gpus, ranks));
}

static struct value cost_of_rate(const struct batch_experiment *e, struct value rate)
{
	struct value price = node_value(batch_config(e, "price_per_hour"), "");
	const struct json_node *task = batch_config(e, "task");

	if (task && task->type == JSON_STRING && !strcmp(task->text, "training"))
		return value_absent("training has no output tokens");
	if (!price.known || price.v == 0)
		return value_absent("price_per_hour was not given");
	if (!rate.known)
		return rate;
	return rate.v > 0 ? value_of(price.v / 3600 / rate.v * 1e6)
			  : value_absent("no output tokens");
}

struct value batch_figure_of(const struct batch_experiment *experiment,
			     const struct json_node *metrics, enum batch_metric_id metric,
			     const char *dialect)
{
	const struct batch_metric *m = &batch_metrics[metric];
	char path[128];

	if (m->percentile) {
		snprintf(path, sizeof(path), "serving.%s.%s.%s", dialect, m->path, m->percentile);
		return value_at(metrics, path);
	}
	if (m->path)
		return value_at(metrics, m->path);
	struct value rate = batch_figure_of(experiment, metrics, BATCH_TOKENS_PER_S, dialect);

	return metric == BATCH_COST ? cost_of_rate(experiment, rate) : per_gpu(experiment, rate);
}

/* Text on one line, trimmed. */
static char *one_line(const char *text)
{
	char *line = strndup(text + strspn(text, " \t\r\n"), ERROR_MAX);

	for (char *c = line; line && *c; c++)
		if (*c == '\n' || *c == '\r' || *c == '\t')
			*c = ' ';
	for (size_t n = line ? strlen(line) : 0; n > 0 && line[n - 1] == ' ';)
		line[--n] = '\0';
	return line;
}

static int unreadable(struct batch_experiment *e, const char *why)
{
	json_node_free(e->root);
	e->root = NULL;
	e->status = BATCH_UNREADABLE;
	e->error = one_line(why);
	return e->error ? 0 : -ENOMEM;
}

/* The GPUs by name, in their order: "2 x A, 1 x B". */
static int take_hardware(const struct json_node *document, struct batch_experiment *e)
{
	const struct json_node *gpus = json_get(document, "gpus"), *gpu;
	struct buf text = { 0 };
	int r = 0;

	gpu = gpus && gpus->type == JSON_ARRAY ? gpus->child : NULL;
	while (gpu) {
		const char *name = json_get_string(gpu, "name", "GPU without a name");
		size_t n = 0;

		for (; gpu && !strcmp(json_get_string(gpu, "name", "GPU without a name"), name);
		     gpu = gpu->next)
			n++;
		buf_printf(&text, "%s%zu x %s", text.size ? ", " : "", n, name);
	}
	if (text.failed)
		r = -ENOMEM;
	else if (text.data)
		e->hardware = one_line(text.data);
	if (text.data && !e->hardware)
		r = -ENOMEM;
	buf_release(&text);
	return r;
}

static int read_hardware(const char *folder, struct batch_experiment *e)
{
	struct json_node *document = NULL;
	char *path, *text = NULL;
	size_t length;
	int r;

	if (asprintf(&path, "%s/%s/gpu_info.json", folder, e->name) < 0)
		return -ENOMEM;
	r = input_text(path, SUMMARY_MAX, &text, &length, NULL);
	if (r == 0)
		r = json_parse("gpu_info.json", text, length, &document, NULL);
	if (r == 0)
		r = take_hardware(document, e);
	json_node_free(document);
	free(text);
	free(path);
	return r == -ENOMEM ? r : 0; /* it is not needed */
}

static int take_document(struct batch_experiment *e)
{
	const char *schema = json_get_string(e->root, "schema", NULL);
	const char *status = json_get_string(e->root, "status", "");
	const char *error = json_get_string(e->root, "error", NULL);
	const struct json_node *config = json_get(e->root, "config");
	char why[256];

	if (!schema || strcmp(schema, SCHEMA) != 0) {
		snprintf(why, sizeof(why), "summary.json has %s%.100s, not " SCHEMA,
			 schema ? "the schema " : "no schema", schema ? schema : "");
		return unreadable(e, why);
	}
	for (e->status = 0; e->status < BATCH_UNREADABLE; e->status++)
		if (!strcmp(batch_status_names[e->status], status))
			break;
	if (e->status == BATCH_UNREADABLE) {
		snprintf(why, sizeof(why),
			 "summary.json has the status '%.100s', not success, failed or timeout",
			 status);
		return unreadable(e, why);
	}
	if (!config || config->type != JSON_OBJECT)
		return unreadable(e, "summary.json has no config");
	e->duration_s = node_value(json_get(e->root, "duration_s"), "not in summary.json");
	if (e->status == BATCH_SUCCESS)
		return 0;
	e->error = one_line(error ? error : "no error was noted");
	return e->error ? 0 : -ENOMEM;
}

/* path: of summary.json. */
static int read_experiment(const char *path, struct batch_experiment *e)
{
	struct err err = { "" };
	size_t length;
	char *text;
	int r = input_text(path, SUMMARY_MAX, &text, &length, &err);

	if (r == -ENOENT)
		return unreadable(e, "no summary.json: it has not ended, or was killed");
	if (r == 0) {
		r = json_parse("summary.json", text, length, &e->root, &err);
		free(text);
	}
	if (r == -ENOMEM)
		return r;
	return r < 0 ? unreadable(e, err.message) : take_document(e);
}

static bool is_there(const char *directory, const char *name, const char *file)
{
	char path[8192];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s%s%s", directory, name, *file ? "/" : "", file);
	return stat(path, &st) == 0 && (*file || S_ISDIR(st.st_mode));
}

/* all: every folder counts, else only those with a file of an experiment. */
static bool is_experiment(const char *directory, const char *name, bool all)
{
	if (*name == '.' || !strcmp(name, BATCH_PLOTS) || !is_there(directory, name, ""))
		return false;
	return all || is_there(directory, name, "summary.json") ||
	       is_there(directory, name, "config.yaml") ||
	       is_there(directory, name, "experiment.log");
}

static int add_experiment(struct batch *batch, size_t *capacity, const char *directory,
			  const char *name)
{
	struct batch_experiment *e;
	char *path;
	int r;

	if (array_grow(&batch->experiments, capacity, batch->n + 1, sizeof(*e)) < 0)
		return -ENOMEM;
	e = &batch->experiments[batch->n];
	*e = (struct batch_experiment){ .name = strdup(name), .configuration = SIZE_MAX };
	if (!e->name)
		return -ENOMEM;
	batch->n++;
	if (asprintf(&path, "%s/%s/summary.json", directory, name) < 0)
		return -ENOMEM;
	r = read_experiment(path, e);
	free(path);
	return r < 0 || !e->root ? r : read_hardware(directory, e);
}

static int by_experiment_name(const void *a, const void *b)
{
	const struct batch_experiment *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int read_folder(const char *directory, bool all, struct batch *batch, struct err *err)
{
	DIR *dir = opendir(directory);
	const struct dirent *entry;
	size_t capacity = 0;
	int r = 0;

	if (!dir)
		return err_sys(err, -errno, "%s: cannot open", directory);
	while (r == 0 && (entry = readdir(dir)))
		if (is_experiment(directory, entry->d_name, all))
			r = add_experiment(batch, &capacity, directory, entry->d_name);
	closedir(dir);
	if (r < 0)
		return err_sys(err, r, "%s", directory);
	if (!batch->n)
		return err_set(
			err, -ENOENT,
			"%s: no experiments there; give the directory of a sweep, or one that "
			"holds 'moescope bench' directories.",
			directory);
	qsort(batch->experiments, batch->n, sizeof(*batch->experiments), by_experiment_name);
	for (size_t i = 0; i < batch->n; i++)
		batch->counts[batch->experiments[i].status]++;
	return 0;
}

int batch_read_experiments(const char *directory, struct batch *batch, struct err *err)
{
	size_t length = strlen(directory), from;
	char *points;
	bool sweep;
	int r;

	while (length > 1 && directory[length - 1] == '/')
		length--;
	for (from = length; from > 0 && directory[from - 1] != '/';)
		from--;
	batch->name = strndup(directory + from, length - from);
	if (!batch->name || asprintf(&points, "%s/points", directory) < 0)
		return err_sys(err, -ENOMEM, "%s", directory);
	sweep = is_there(points, ".", "");
	r = read_folder(sweep ? points : directory, sweep, batch, err);
	free(points);
	return r;
}

void batch_experiments_release(struct batch *batch)
{
	for (size_t i = 0; i < batch->n; i++) {
		free(batch->experiments[i].name);
		free(batch->experiments[i].error);
		free(batch->experiments[i].hardware);
		json_node_free(batch->experiments[i].root);
	}
	free(batch->experiments);
	free(batch->name);
}
