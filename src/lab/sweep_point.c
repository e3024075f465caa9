/* SPDX-License-Identifier: Apache-2.0
 *
 * A point's leftovers on disk. One thread.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/input_file.h"
#include "base/files/whole_file.h"
#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "lab/results.h"
#include "lab/sweep.h"

#define SUMMARY_MAX ((size_t)256 << 20)
#define LOG_MAX ((size_t)16 << 20)

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "no memory.");
}

enum sweep_state sweep_point_result(const struct sweep *sweep, size_t point, char **ret_error,
				    double *ret_duration_s)
{
	char *path = sweep_path(sweep, "points/%s/" POINT_SUMMARY, sweep->points[point].name);
	enum sweep_state found = SWEEP_WAITING;
	struct json_node *root = NULL;
	const struct json_node *duration;
	const char *status;
	char *text = NULL;
	size_t length;

	*ret_error = NULL;
	*ret_duration_s = NAN;
	if (!path || input_text(path, SUMMARY_MAX, &text, &length, NULL) < 0 ||
	    json_parse(path, text, length, &root, NULL) < 0)
		goto out;
	status = json_get_string(root, "status", "");
	for (int state = SWEEP_SUCCESS; state < SWEEP_STATES; state++)
		if (strcmp(status, sweep_state_names[state]) == 0)
			found = (enum sweep_state)state;
	if (found != SWEEP_WAITING && json_get_string(root, "error", NULL))
		*ret_error = strdup(json_get_string(root, "error", NULL));
	duration = json_get(root, "duration_s");
	if (duration && duration->type == JSON_NUMBER)
		*ret_duration_s = strtod(duration->text, NULL);
out:
	json_node_free(root);
	free(text);
	free(path);
	return found;
}

int sweep_point_set_aside(const struct sweep *sweep, size_t point, struct err *err)
{
	const char *name = sweep->points[point].name;
	char *from = sweep_path(sweep, "points/%s", name), *to = NULL;
	char *folder = sweep_path(sweep, "set-aside");
	int r = from && folder ? 0 : no_memory(err);

	if (r == 0 && access(from, F_OK) == 0) {
		if (mkdir(folder, 0777) < 0 && errno != EEXIST)
			r = err_sys(err, -errno, "%s: cannot create this folder", folder);
		for (int i = 1; r == 0; i++) {
			free(to);
			to = sweep_path(sweep, "set-aside/%s.%d", name, i);
			if (!to)
				r = no_memory(err);
			else if (access(to, F_OK) == 0)
				continue;
			else if (rename(from, to) < 0)
				r = err_sys(err, -errno, "%s: cannot move it to %s", from, to);
			break;
		}
	}
	free(to);
	free(folder);
	free(from);
	return r;
}

int sweep_point_note(const struct sweep *sweep, size_t point, const char *text, struct err *err)
{
	char *path = sweep_path(sweep, "queue/%zu.note", point + 1);
	int r = path ? 0 : no_memory(err);

	if (r == 0 && text)
		r = whole_file_text(path, text, strlen(text), err);
	else if (r == 0 && unlink(path) < 0 && errno != ENOENT)
		r = err_sys(err, -errno, "%s: cannot remove", path);
	free(path);
	return r;
}

/* Copies a file from the queue to the point, unless it has it. */
static int copy_file(const struct sweep *sweep, size_t point, const char *ending, const char *name,
		     struct err *err)
{
	char *from = sweep_path(sweep, "queue/%zu.%s", point + 1, ending);
	char *to = sweep_path(sweep, "points/%s/%s", sweep->points[point].name, name);
	char *text = NULL;
	size_t length = 0;
	int r = from && to ? 0 : no_memory(err);

	if (r == 0 && access(to, F_OK) < 0) {
		r = input_text(from, LOG_MAX, &text, &length, err);
		if (r == -ENOENT)
			r = 0; /* a task that never started has no log */
		if (r == 0)
			r = whole_file_text(to, text, length, err);
	}
	free(text);
	free(to);
	free(from);
	return r;
}

static int write_summary(const struct sweep *sweep, size_t number, const struct experiment *config,
			 enum sweep_state state, const char *why, struct err *err)
{
	const struct sweep_point *p = &sweep->points[number];
	struct point point = {
		.experiment = config,
		.engine = engine_find(config->engine),
		.name = p->name,
		.directory = sweep_path(sweep, "points/%s", p->name),
		.start_ns = p->start_ns,
		.end_ns = clock_monotonic_ns(),
		.status = state == SWEEP_TIMEOUT ? POINT_TIMEOUT : POINT_FAILED,
		.unmeasured = { "the experiment was ended before it could say" },
		.unestimated = { "the experiment was ended before it could say" },
		.trace_unknown = { "the experiment was ended before it could say" },
		.trace_peak_bytes = -1,
	};
	char *path = sweep_path(sweep, "points/%s/" POINT_SUMMARY, p->name);
	struct whole_file whole;
	struct json json;
	int r;

	if (!path || !point.directory) {
		r = no_memory(err);
		goto out;
	}
	point.start_realtime_ns = clock_realtime_ns() - (point.end_ns - point.start_ns);
	snprintf(point.error.message, sizeof(point.error.message), "%s", why);
	r = whole_file_open(&whole, path);
	if (r < 0) {
		err_sys(err, r, "%s: cannot write", path);
		goto out;
	}
	json_init_file(&json, whole.file, 2);
	r = results_summary(&point, &json);
	if (json_finish(&json, NULL) < 0 && r == 0)
		r = -EIO;
	r = whole_file_close(&whole, r, err);
out:
	free(point.directory);
	free(path);
	return r;
}

int sweep_point_write_failure(const struct sweep *sweep, size_t point, enum sweep_state state,
			      const char *why, struct err *err)
{
	char *folder = sweep_path(sweep, "points/%s", sweep->points[point].name);
	struct experiment config;
	int r = folder ? 0 : no_memory(err);

	if (r == 0 && mkdir(folder, 0777) < 0 && errno != EEXIST)
		r = err_sys(err, -errno, "%s: cannot create this folder", folder);
	free(folder);
	if (r == 0)
		r = copy_file(sweep, point, "yaml", POINT_CONFIG, err);
	if (r == 0)
		r = copy_file(sweep, point, "log", POINT_LOG, err);
	if (r == 0)
		r = sweep_experiment(sweep, point, &config, err);
	if (r < 0)
		return r;
	r = write_summary(sweep, point, &config, state, why, err);
	experiment_release(&config);
	return r;
}
