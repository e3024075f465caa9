/* SPDX-License-Identifier: Apache-2.0
 *
 * Running one experiment: its folder, its program, its end. The status is what really happened.
 */
#include "lab/point.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/format.h"
#include "base/text/utf8.h"
#include "lab/launcher.h"
#include "lab/results.h"
#include "lab/shared/child.h"

#define GRACE_S 5.0 /* for a program to end when asked */

const char *const point_status_names[POINT_STATUSES] = { "success", "failed", "timeout" };

char *point_path(const struct point *point, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", point->directory, name) < 0 ? NULL : path;
}

__attribute__((format(printf, 2, 3))) static void point_log(struct point *point, const char *format,
							    ...)
{
	struct timespec now;
	struct tm local;
	char text[1200], stamp[32];
	va_list args;

	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &local);
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &local);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	dprintf(point->log_fd, "[%s moescope] %s\n", stamp, text);
}

void point_note(struct point *point, const char *format, ...)
{
	char text[1100];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	point_log(point, "%s", text);
	texts_add(&point->notes, text);
}

int make_directories(const char *path, struct err *err)
{
	char *copy = strdup(path);
	int r = copy ? 0 : -ENOMEM;

	for (char *c = copy; copy && r == 0 && c; c++) {
		c = strchr(*c == '/' ? c + 1 : c, '/');
		if (c)
			*c = '\0';
		if (mkdir(copy, 0777) < 0 && errno != EEXIST)
			r = -errno;
		if (!c)
			break;
		*c = '/';
	}
	free(copy);
	return r < 0 ? err_sys(err, r, "cannot create the directory '%s'", path) : 0;
}

/* A model's name as part of a file name. */
static void put_name(char *out, size_t size, const char *name)
{
	size_t n = 0;

	for (; *name && n + 1 < size; name++)
		out[n++] = (unsigned char)*name > ' ' && !strchr("/\\:*?\"<>|'", *name) ? *name
											: '_';
	/* Not inside a character. */
	while (n && (*name & 0xC0) == 0x80)
		name = &out[--n];
	out[n] = '\0';
	if (out[0] == '.')
		out[0] = '_';
}

void point_default_name(const struct experiment *e, const char *kind, char *out, size_t size)
{
	time_t now = time(NULL);
	char stamp[32], model[128];
	struct tm local;

	localtime_r(&now, &local);
	strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", &local);
	put_name(model, sizeof(model), e->model_name);
	snprintf(out, size, "%s_%s_%s%s", model,
		 parameter_find("profile_mode")->choices[e->profile_mode], kind, stamp);
}

static int set_place(struct point *point, const char *parent, const char *name, const char *number,
		     struct err *err)
{
	char *full = NULL, *directory = NULL;

	if (asprintf(&full, "%s%s", name, number) < 0 ||
	    asprintf(&directory, "%s/%s", parent, full) < 0)
		return err_set(err, -ENOMEM, "no memory.");
	free(point->name);
	free(point->directory);
	point->name = full;
	point->directory = directory;
	return 0;
}

/* A new folder, with a number if two start in the same second. */
static int make_named(struct point *point, const char *parent, struct err *err)
{
	char name[256];

	point_default_name(point->experiment, "", name, sizeof(name) - 16);
	for (int i = 1; i < 10000; i++) {
		char number[16] = "";

		if (i > 1)
			snprintf(number, sizeof(number), "_%d", i);
		if (set_place(point, parent, name, number, err) < 0)
			return -ENOMEM;
		if (mkdir(point->directory, 0777) == 0)
			return 0;
		if (errno != EEXIST)
			return err_sys(err, -errno, "cannot create the directory '%s'",
				       point->directory);
	}
	return err_set(err, -EEXIST, "'%s/%s' exists, with every number.", parent, name);
}

/* Under the user's name. Leftovers of an earlier attempt must not pass for results. */
static int take_named(struct point *point, const char *parent, bool replace, struct err *err)
{
	char *summary;
	int r = 0;

	if (set_place(point, parent, point->experiment->experiment_name, "", err) < 0)
		return -ENOMEM;
	if (mkdir(point->directory, 0777) < 0 && errno != EEXIST)
		return err_sys(err, -errno, "cannot create the directory '%s'", point->directory);
	summary = point_path(point, POINT_SUMMARY);
	if (!summary)
		return err_set(err, -ENOMEM, "no memory.");
	if (!replace && access(summary, F_OK) == 0)
		r = err_set(
			err, -EEXIST,
			"'%s' already has results; choose another --experiment-name, or --force "
			"to replace them.",
			point->directory);
	free(summary);
	return r < 0 ? r : results_clear(point, err);
}

static int make_place(struct point *point, bool replace, struct err *err)
{
	const struct experiment *e = point->experiment;
	const char *output = e->output_dir ? e->output_dir : ".";
	char parent[PATH_MAX];
	char *log;
	int r = make_directories(output, err);

	if (r < 0)
		return r;
	if (!realpath(output, parent))
		return err_sys(err, -errno, "cannot use the directory '%s'", output);
	r = e->experiment_name ? take_named(point, parent, replace, err)
			       : make_named(point, parent, err);
	if (r < 0)
		return r;
	log = point_path(point, POINT_LOG);
	if (!log)
		return err_set(err, -ENOMEM, "no memory.");
	point->log_fd = open(log, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
	r = point->log_fd < 0 ? err_sys(err, -errno, "cannot write '%s'", log) : 0;
	free(log);
	return r;
}

/* Omits a literal key: the folder may be shown to others. */
static int save_config(struct point *point, struct err *err)
{
	const struct experiment *e = point->experiment;
	bool secret = e->api_key && e->api_key[0] != '$';
	char *path = point_path(point, POINT_CONFIG);
	struct experiment copy;
	int r = path ? experiment_copy(&copy, e) : -ENOMEM;

	if (r < 0) {
		free(path);
		return err_set(err, -ENOMEM, "no memory.");
	}
	if (secret) {
		r = experiment_set(&copy, "api_key", "", err);
		point_note(point, "api_key is not in " POINT_CONFIG
				  "; give it as $NAME of a variable to keep the file complete.");
	}
	if (r == 0)
		r = experiment_save(&copy, path, err);
	experiment_release(&copy);
	free(path);
	return r;
}

void point_last_message(const struct point *point, char *out, size_t size)
{
	enum { LINES = 3 };
	char text[1600];
	off_t end = lseek(point->log_fd, 0, SEEK_END);
	off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
	ssize_t n = pread(point->log_fd, text, sizeof(text) - 1, from);
	const char *lines[LINES] = { NULL };
	size_t used = 0;

	out[0] = '\0';
	text[n > 0 ? n : 0] = '\0';
	for (char *save, *line = strtok_r(text, "\r\n", &save); line;
	     line = strtok_r(NULL, "\r\n", &save)) {
		/* Our own lines are not the program's. */
		if (!line[strspn(line, " \t")] || (line[0] == '[' && strstr(line, " moescope] ")))
			continue;
		memmove(lines, lines + 1, sizeof(lines) - sizeof(lines[0]));
		lines[LINES - 1] = line;
	}
	for (int i = 0; i < LINES; i++)
		if (lines[i] && used + 1 < size)
			used += (size_t)snprintf(out + used, size - used, "%s%.240s",
						 used ? " / " : "", lines[i]);
	utf8_make_harmless(out);
}

/* Options of `run` from a map; Nsight Systems options for what we record anyway are noted. */
static int add_trace_options(struct point *point, struct argv *argv)
{
	static const char *const theirs[] = { "trace",
					      "sample",
					      "cpuctxsw",
					      "output",
					      "stats",
					      "force_overwrite",
					      "cuda_memory_usage",
					      "gpu_metrics_device",
					      "backtrace",
					      NULL };
	const struct texts *options = &point->experiment->trace_options;
	int r = 0;

	for (size_t i = 0; i + 1 < options->n; i += 2) {
		const char *name = options->v[i], *value = options->v[i + 1];
		char option[64];
		bool known = false;

		for (size_t k = 0; theirs[k]; k++)
			known |= strcmp(theirs[k], name) == 0;
		if (known) {
			point_note(point,
				   "trace option '%s' is one of Nsight Systems; moescope "
				   "records without it.",
				   name);
			continue;
		}
		if (strcmp(value, "false") == 0)
			continue;
		snprintf(option, sizeof(option), "--%s", name);
		for (char *c = option; *c; c++)
			if (*c == '_')
				*c = '-';
		r |= argv_add(argv, "%s", option);
		if (*value && strcmp(value, "true") != 0)
			r |= argv_add(argv, "%s", value);
	}
	return r;
}

static int add_profiler(struct point *point, struct argv *argv)
{
	/* Engines have steps of their own, and are measured. */
	int r = argv_add_all(argv, point->tools->moescope, "run", "--quiet", "--no-auto", "-o",
			     NULL);

	r |= argv_add(argv, "%s/" POINT_TRACE, point->directory);
	r |= add_trace_options(point, argv);
	r |= argv_add(argv, "--");
	if (point->experiment->profile_mode == PROFILE_FULL)
		point_note(point, "moescope does not collect hardware counters; record them with "
				  "ncu --csv and read them with 'moescope import'.");
	return r;
}

static int add_environment(struct point *point, struct texts *ret)
{
	const struct texts *given = &point->experiment->environment;
	char *requests = point_path(point, POINT_REQUESTS),
	     *config = point_path(point, POINT_CONFIG);
	int r = requests && config ? 0 : -ENOMEM;

	if (r == 0 && (texts_add(ret, DRIVER_REQUESTS) < 0 || texts_add(ret, requests) < 0 ||
		       texts_add(ret, DRIVER_CONFIG) < 0 || texts_add(ret, config) < 0))
		r = -ENOMEM;
	for (size_t i = 0; r == 0 && i < given->n; i++)
		r = texts_add(ret, given->v[i]);
	free(requests);
	free(config);
	return r;
}

int point_start(struct point *point, const struct argv *program, struct child *child,
		struct err *err)
{
	struct texts environment = { NULL, 0 };
	struct argv argv = { NULL, 0, 0 };
	int r = 0;

	if (point->experiment->profile_mode != PROFILE_INFERENCE_ONLY)
		r = add_profiler(point, &argv);
	for (size_t i = 0; i < program->n; i++)
		r |= argv_add(&argv, "%s", program->v[i]);
	r |= add_environment(point, &environment);
	if (r)
		r = err_set(err, -ENOMEM, "no memory.");
	if (r == 0)
		r = results_command(point, &argv, &environment, err);
	if (r == 0) {
		point_log(point, "starting: see " POINT_COMMAND);
		r = child_start(child, argv.v, &environment, point->log_fd, err);
	}
	texts_release(&environment);
	argv_release(&argv);
	return r;
}

void point_fail(struct point *point, enum point_status status, const char *format, ...)
{
	va_list args;

	point->status = status;
	va_start(args, format);
	vsnprintf(point->error.message, sizeof(point->error.message), format, args);
	va_end(args);
	point_log(point, "%s: %s", point_status_names[status], point->error.message);
}

/* What became of the driver. */
static void judge_driver(struct point *point, struct child *child, enum child_event event)
{
	static const int politely[] = { SIGTERM, 0 };
	char verdict[VERDICT_MAX], message[700];

	child_end(child, politely, GRACE_S);
	point->peak_rss_bytes = child->peak_rss_bytes;
	if (event == CHILD_TIMEOUT) {
		point_fail(point, POINT_TIMEOUT, "not finished within the time limit of %g s.",
			   point->experiment->time_limit_s);
		return;
	}
	if (event == CHILD_STOPPED) {
		point_fail(point, POINT_FAILED, "interrupted.");
		return;
	}
	child_verdict(child, verdict, sizeof(verdict));
	if (!verdict[0])
		return;
	point_last_message(point, message, sizeof(message));
	if (message[0])
		point_fail(point, POINT_FAILED, "the program %s; its last words: %s", verdict,
			   message);
	else
		point_fail(point, POINT_FAILED, "the program %s and said nothing.", verdict);
}

static void run_driver(struct point *point)
{
	struct argv program = { NULL, 0, 0 };
	struct child child = { .pid = 0 };
	struct err err = { "" };
	int r = launcher_prefix(point->experiment, &program, &err);

	if (r == 0)
		r = point->engine->driver(point->experiment, point->tools, point->directory,
					  &program, &err);
	if (r == 0)
		r = point_start(point, &program, &child, &err);
	if (r < 0)
		point_fail(point, POINT_FAILED, "%s", err.message);
	else
		judge_driver(point, &child, child_wait(&child, point->deadline_ns, point->stop));
	argv_release(&program);
}

/* What the driver recorded, even if it failed. */
static void read_requests(struct point *point)
{
	char *path = point_path(point, POINT_REQUESTS);

	if (!path) {
		err_set(&point->unmeasured, -ENOMEM, "no memory.");
		return;
	}
	if (access(path, F_OK) < 0) {
		if (point->status == POINT_SUCCESS)
			err_set(&point->unmeasured, -ENOENT,
				"the program wrote no $" DRIVER_REQUESTS ", so that only its wall "
				"time is known");
		else
			err_set(&point->unmeasured, -ENOENT,
				"the program ended before it had "
				"measured anything");
	} else if (requests_read(path, &point->requests, &point->unmeasured) == 0) {
		point->measured = true;
		if (point->requests.cut_off)
			point_note(point,
				   POINT_REQUESTS " ends within a line, which does not count.");
	} else if (point->status == POINT_SUCCESS) {
		point_fail(point, POINT_FAILED, "%s", point->unmeasured.message);
	}
	free(path);
}

/* A server may be up and fail every request. */
static void judge_requests(struct point *point)
{
	const char *why = NULL;
	size_t ok = 0, n = 0;

	for (size_t i = 0; i < point->requests.n; i++) {
		const struct request *request = &point->requests.v[i];

		if (request->warmup)
			continue;
		n++;
		ok += request->end == REQUEST_OK;
		if (request->end != REQUEST_OK && !why)
			why = request->error;
	}
	if (point->measured && point->status == POINT_SUCCESS && n && !ok)
		point_fail(point, POINT_FAILED, "none of %zu requests succeeded%s%s", n,
			   why ? "; the first: " : ".", why ? why : "");
}

/* A key given as $NAME, from the environment. */
static int resolve_key(struct experiment *live, struct err *err)
{
	const char *value;

	if (!live->api_key || live->api_key[0] != '$')
		return 0;
	value = getenv(live->api_key + 1);
	if (!value || !*value)
		return err_set(err, -ENOENT, "api_key is %s, but that variable is not set.",
			       live->api_key);
	return experiment_set(live, "api_key", value, err);
}

static void run_server(struct point *point)
{
	struct experiment live;
	struct err err = { "" };

	if (experiment_copy(&live, point->experiment) < 0) {
		point_fail(point, POINT_FAILED, "no memory.");
		return;
	}
	if (resolve_key(&live, &err) < 0 ||
	    (point->engine->check && point->engine->check(&live, point->tools, &err) < 0))
		point_fail(point, POINT_FAILED, "%s", err.message);
	else
		point_serve(point, &live);
	experiment_release(&live);
}

static void execute_point(struct point *point)
{
	const struct experiment *e = point->experiment;
	struct err err = { "" };

	if (estimate_model(e, point->tools, &point->estimate, &err) < 0)
		point->unestimated = err;
	else
		point_log(point, "estimated memory: %s for %s parameters",
			  format_bytes(point->estimate.total_bytes).text,
			  format_count(point->estimate.parameters).text);
	err.message[0] = '\0';
	if (e->task == TASK_TRAINING && !point->engine->trains) {
		point_fail(point, POINT_FAILED, "engine %s does not train; use builtin or command.",
			   e->engine);
		return;
	}
	if (e->time_limit_s > 0)
		point->deadline_ns = point->start_ns + (int64_t)(e->time_limit_s * 1e9);
	if (!point->engine->driver) {
		run_server(point);
	} else if (point->engine->check && point->engine->check(e, point->tools, &err) < 0) {
		point_fail(point, POINT_FAILED, "%s", err.message);
		return;
	} else {
		run_driver(point);
		read_requests(point);
	}
	judge_requests(point);
}

int point_run(const struct experiment *experiment, const struct lab_tools *tools, bool replace,
	      const volatile bool *stop, struct point *ret_point, struct err *err)
{
	struct point point = {
		.experiment = experiment,
		.engine = engine_find(experiment->engine),
		.tools = tools,
		.stop = stop,
		.log_fd = -1,
		.trace_peak_bytes = -1,
		.unmeasured = { "nothing was run" },
		.trace_unknown = { "no trace was requested" },
	};
	int r;

	if (!point.engine)
		return err_set(err, -EINVAL, "no engine '%s'.", experiment->engine);
	r = make_place(&point, replace, err);
	if (r == 0)
		r = save_config(&point, err);
	if (r == 0) {
		point.start_realtime_ns = clock_realtime_ns();
		point.start_ns = clock_monotonic_ns();
		if (getenv(POINT_NOTE))
			point_note(&point, "%s", getenv(POINT_NOTE));
		execute_point(&point);
		point.end_ns = clock_monotonic_ns();
		r = results_write(&point, err);
	}
	if (r < 0) {
		point_release(&point);
		return r;
	}
	*ret_point = point;
	return 0;
}

void point_release(struct point *point)
{
	free(point->name);
	free(point->directory);
	if (point->log_fd >= 0)
		close(point->log_fd);
	requests_release(&point->requests);
	texts_release(&point->notes);
}
