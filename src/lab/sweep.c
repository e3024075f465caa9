/* SPDX-License-Identifier: Apache-2.0
 *
 * The points of a sweep. Every value is checked before anything starts.
 */
#include "lab/sweep.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text/nearest.h"
#include "lab/engines/engine.h"

static const struct {
	const char *name, *sweep;
} presets[] = {
	{ "quick", "batch_size:1,2;max_tokens:50,100" },
	{ "comprehensive",
	  "batch_size:1,2,4,8;max_tokens:50,100,200,500;temperature:0.1,0.5,0.7,1.0" },
	{ "scaling", "batch_size:1,2,4,8,16;tensor_parallel_size:1,2,4" },
};

/* Each point has its own place, and all points share one launcher. */
static const char *const fixed[] = { "experiment_name",
				     "output_dir",
				     "parameter_sweep",
				     "preset",
				     "launcher",
				     "launcher_args",
				     "gpus",
				     NULL };

const char *const sweep_state_names[SWEEP_STATES] = { "waiting", "under way", "success", "failed",
						      "timeout" };

/* A sweep's files contain its configuration, and may be shown to others. */
static int check_secret(const struct experiment *base, struct err *err)
{
	if (base->api_key && base->api_key[0] != '$')
		return err_set(
			err, -EINVAL,
			"a sweep writes its configuration to files, so give api_key as the name "
			"of a variable, such as '$OPENAI_API_KEY'.");
	return 0;
}

static int sweep_text(const struct experiment *base, const char **ret_text, struct err *err)
{
	if (base->preset && base->parameter_sweep)
		return err_set(err, -EINVAL,
			       "a sweep has a preset or a parameter_sweep, not both.");
	if (base->parameter_sweep) {
		*ret_text = base->parameter_sweep;
		return 0;
	}
	for (size_t i = 0; base->preset && i < sizeof(presets) / sizeof(*presets); i++) {
		if (strcmp(presets[i].name, base->preset) == 0) {
			*ret_text = presets[i].sweep;
			return 0;
		}
	}
	return err_set(
		err, -EINVAL,
		"a sweep needs values to try, such as --parameter-sweep "
		"\"batch_size:1,2,4;max_tokens:100,200\", or --preset quick, comprehensive or "
		"scaling.");
}

/* Up to one of `ends` or the end of the text, blanks around it cut; a backslash keeps the next
 * character. */
static char *take_item(const char **at, const char *ends)
{
	struct buf out = { 0 };
	size_t keep = 0;

	*at += strspn(*at, " \t\n");
	while (**at && !strchr(ends, **at)) {
		bool escaped = **at == '\\' && (*at)[1];

		if (escaped)
			(*at)++;
		buf_append(&out, *at, 1);
		if (escaped || !strchr(" \t\n", **at))
			keep = out.size;
		(*at)++;
	}
	buf_append(&out, "", 1);
	if (out.failed) {
		buf_release(&out);
		return NULL;
	}
	out.data[keep] = '\0';
	return out.data;
}

static int check_key(const struct sweep *sweep, const char *key, struct err *err)
{
	const struct parameter *parameter = parameter_find(key);
	const char *near;

	if (!parameter) {
		near = parameter_nearest(key);
		return err_set(err, -EINVAL, "parameter_sweep: no parameter '%s'%s%s%s", key,
			       near ? "; did you mean '" : ".", near ? near : "", near ? "'?" : "");
	}
	for (size_t i = 0; fixed[i]; i++)
		if (strcmp(fixed[i], parameter->key) == 0)
			return err_set(
				err, -EINVAL,
				"parameter_sweep: '%s' is the same for all points of a sweep.",
				key);
	for (size_t i = 0; i < sweep->n_axes; i++)
		if (sweep->axes[i].parameter == parameter)
			return err_set(
				err, -EINVAL,
				"parameter_sweep: '%s' occurs twice; give all its values in one list.",
				key);
	return 0;
}

/* The value as the configuration would write it, so that 0.5 and 0.50 are the same. */
static int add_value(struct sweep *sweep, struct sweep_axis *axis, const char *text,
		     struct err *err)
{
	struct experiment trial;
	struct err inner = { "" };
	char *value = NULL;
	int r;

	if (!*text)
		return err_set(err, -EINVAL, "parameter_sweep: an empty value in the list of '%s'.",
			       axis->parameter->key);
	r = experiment_copy(&trial, &sweep->base);
	if (r < 0)
		return err_set(err, r, "no memory.");
	r = experiment_set(&trial, axis->parameter->key, text, &inner);
	if (r < 0)
		err_set(err, r, "parameter_sweep: %s", inner.message);
	else if (!(value = experiment_get(&trial, axis->parameter)))
		r = err_set(err, -ENOMEM, "no memory.");
	for (size_t i = 0; r == 0 && i < axis->values.n; i++)
		if (strcmp(axis->values.v[i], value) == 0)
			r = err_set(err, -EINVAL, "parameter_sweep: '%s' has %s twice.",
				    axis->parameter->key, value);
	if (r == 0 && texts_add(&axis->values, value) < 0)
		r = err_set(err, -ENOMEM, "no memory.");
	free(value);
	experiment_release(&trial);
	return r;
}

static int parse_axis(struct sweep *sweep, const char **at, struct err *err)
{
	struct sweep_axis *grown, *axis;
	char *key = take_item(at, ":;");
	int r = key ? 0 : err_set(err, -ENOMEM, "no memory.");

	if (r == 0 && **at != ':')
		r = err_set(err, -EINVAL,
			    "parameter_sweep: '%s' has no values; write %s:1,2,4 and ';' between "
			    "parameters.",
			    key, *key ? key : "batch_size");
	if (r == 0)
		r = check_key(sweep, key, err);
	if (r == 0) {
		grown = realloc(sweep->axes, (sweep->n_axes + 1) * sizeof(*grown));
		if (!grown) {
			r = err_set(err, -ENOMEM, "no memory.");
		} else {
			sweep->axes = grown;
			axis = &grown[sweep->n_axes++];
			*axis = (struct sweep_axis){ .parameter = parameter_find(key) };
			while (r == 0 && (**at == ':' || **at == ',')) {
				char *value;

				(*at)++;
				value = take_item(at, ",;");
				r = value ? add_value(sweep, axis, value, err)
					  : err_set(err, -ENOMEM, "no memory.");
				free(value);
			}
		}
	}
	free(key);
	return r;
}

/* The lists as one text again: sweep.yaml has presets and old names expanded. */
static int write_out(struct sweep *sweep, struct err *err)
{
	struct buf out = { 0 };
	int r;

	for (size_t i = 0; i < sweep->n_axes; i++) {
		buf_printf(&out, "%s%s", i ? ";" : "", sweep->axes[i].parameter->key);
		for (size_t v = 0; v < sweep->axes[i].values.n; v++) {
			buf_append(&out, v ? "," : ":", 1);
			for (const char *c = sweep->axes[i].values.v[v]; *c; c++) {
				if (strchr(",;\\", *c))
					buf_append(&out, "\\", 1);
				buf_append(&out, c, 1);
			}
		}
	}
	buf_append(&out, "", 1);
	r = out.failed ? -ENOMEM : experiment_set(&sweep->base, "parameter_sweep", out.data, err);
	buf_release(&out);
	if (r == 0)
		r = experiment_set(&sweep->base, "preset", "", err);
	return r == -ENOMEM ? err_set(err, r, "no memory.") : r;
}

static const char *value_of(const struct sweep *sweep, size_t point, size_t axis)
{
	for (size_t i = sweep->n_axes - 1; i > axis; i--)
		point /= sweep->axes[i].values.n;
	return sweep->axes[axis].values.v[point % sweep->axes[axis].values.n];
}

static int name_point(struct sweep *sweep, size_t i)
{
	enum { NAME_MAX_BYTES = 120 };
	struct sweep_point *point = &sweep->points[i];
	struct buf name = { 0 }, label = { 0 };

	buf_printf(&name, "%03zu", i + 1);
	for (size_t a = 0; a < sweep->n_axes; a++) {
		const char *key = sweep->axes[a].parameter->key, *value = value_of(sweep, i, a);

		buf_printf(&label, "%s%s %s", a ? ", " : "", key, value);
		buf_printf(&name, "-%s=%s", key, value);
	}
	buf_append(&name, "", 1);
	buf_append(&label, "", 1);
	if (name.failed || label.failed) {
		buf_release(&name);
		buf_release(&label);
		return -ENOMEM;
	}
	if (name.size > NAME_MAX_BYTES)
		name.data[NAME_MAX_BYTES] = '\0';
	for (char *c = name.data; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=-",
			    *c))
			*c = '-';
	*point = (struct sweep_point){ .name = name.data, .label = label.data, .duration_s = NAN };
	return 0;
}

static int make_points(struct sweep *sweep, struct err *err)
{
	size_t n = 1;

	for (size_t i = 0; i < sweep->n_axes; i++) {
		n *= sweep->axes[i].values.n;
		if (n > SWEEP_POINTS_MAX)
			return err_set(err, -E2BIG,
				       "parameter_sweep: these are more than %d points; give fewer "
				       "values.",
				       SWEEP_POINTS_MAX);
	}
	sweep->points = calloc(n, sizeof(*sweep->points));
	if (!sweep->points)
		return err_set(err, -ENOMEM, "no memory.");
	for (; sweep->n < n; sweep->n++)
		if (name_point(sweep, sweep->n) < 0)
			return err_set(err, -ENOMEM, "no memory.");
	for (size_t i = 0; i < n; i++) {
		struct experiment experiment;
		int r = sweep_experiment(sweep, i, &experiment, err);

		if (r < 0)
			return r;
		experiment_release(&experiment);
	}
	return 0;
}

int sweep_plan(struct sweep *ret_sweep, const struct experiment *base, struct err *err)
{
	struct sweep sweep = { .lock_fd = -1, .points_fd = -1, .journal_fd = -1 };
	const char *text;
	int r = experiment_copy(&sweep.base, base);

	if (r < 0)
		return err_set(err, r, "no memory.");
	r = check_secret(&sweep.base, err);
	if (r == 0)
		r = sweep_text(&sweep.base, &text, err);
	while (r == 0) {
		r = parse_axis(&sweep, &text, err);
		text += strspn(text, "; \t\n");
		if (!*text)
			break;
	}
	if (r == 0)
		r = write_out(&sweep, err);
	if (r == 0)
		r = make_points(&sweep, err);
	if (r < 0)
		sweep_release(&sweep);
	else
		*ret_sweep = sweep;
	return r;
}

static int check_engine(const char *name, struct err *err)
{
	struct nearest nearest;

	if (!name || engine_find(name))
		return 0;
	nearest = nearest_to(name);
	for (size_t i = 0; engines[i]; i++)
		nearest_offer(&nearest, engines[i]->name);
	return err_set(err, -EINVAL, "no engine '%s'%s%s%s", name,
		       nearest.best ? "; did you mean '" : ".", nearest.best ? nearest.best : "",
		       nearest.best ? "'?" : "");
}

int sweep_experiment(const struct sweep *sweep, size_t point, struct experiment *ret_experiment,
		     struct err *err)
{
	struct experiment experiment;
	struct err inner = { "" };
	char *points = NULL;
	int r = experiment_copy(&experiment, &sweep->base);

	if (r < 0)
		return err_set(err, r, "no memory.");
	for (size_t i = 0; r == 0 && i < sweep->n_axes; i++)
		r = experiment_set(&experiment, sweep->axes[i].parameter->key,
				   value_of(sweep, point, i), &inner);
	if (r == 0)
		r = experiment_set(&experiment, "parameter_sweep", "", &inner);
	if (r == 0)
		r = experiment_set(&experiment, "experiment_name", sweep->points[point].name,
				   &inner);
	if (r == 0 && sweep->directory) {
		points = sweep_path(sweep, "points");
		r = points ? experiment_set(&experiment, "output_dir", points, &inner) : -ENOMEM;
	}
	free(points);
	if (r == 0)
		r = experiment_complete(&experiment);
	if (r == 0)
		r = check_engine(experiment.engine, &inner);
	if (r == 0)
		r = experiment_check(&experiment, &inner);
	if (r == 0) {
		*ret_experiment = experiment;
		return 0;
	}
	experiment_release(&experiment);
	if (r == -ENOMEM)
		return err_set(err, r, "no memory.");
	return err_set(err, r, "point %zu (%s): %s", point + 1, sweep->points[point].label,
		       inner.message);
}

void sweep_release(struct sweep *sweep)
{
	int fds[] = { sweep->journal_fd, sweep->points_fd, sweep->lock_fd };

	for (size_t i = 0; i < sweep->n_axes; i++)
		texts_release(&sweep->axes[i].values);
	free(sweep->axes);
	for (size_t i = 0; i < sweep->n; i++) {
		free(sweep->points[i].name);
		free(sweep->points[i].label);
		free(sweep->points[i].error);
		free(sweep->points[i].dead_node);
	}
	free(sweep->points);
	free(sweep->directory);
	free(sweep->cwd);
	for (size_t i = 0; i < 3; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	experiment_release(&sweep->base);
	memset(sweep, 0, sizeof(*sweep));
	sweep->lock_fd = sweep->points_fd = sweep->journal_fd = -1;
}

char *sweep_path(const struct sweep *sweep, const char *format, ...)
{
	struct buf out = { 0 };
	char part[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(part, sizeof(part), format, ap);
	va_end(ap);
	buf_printf(&out, "%s/%s", sweep->directory, part);
	buf_append(&out, "", 1);
	if (!out.failed)
		return out.data;
	buf_release(&out);
	return NULL;
}

size_t sweep_count(const struct sweep *sweep, enum sweep_state state)
{
	size_t n = 0;

	for (size_t i = 0; i < sweep->n; i++)
		n += sweep->points[i].state == state;
	return n;
}
