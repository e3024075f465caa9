/* SPDX-License-Identifier: Apache-2.0
 *
 * See calibrate.h. Main thread. Every figure is a line that the process writes when it has it, so a
 * process that dies or hangs leaves those before.
 */
#include "cmd/doctor/calibrate.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/cache.h"
#include "base/text/format.h"
#include "base/text/json_read.h"
#include "cmd/recording/installed.h"
#include "cmd/terminal/progress.h"
#include "device/sheets/peaks.h"

#define SECONDS 300 /* of the whole; then it hangs */
#define DEVICES_MAX 16
#define ABSENT_MAX 16

static const struct {
	const char *key, *title;
	enum { FLOPS, BYTES, MHZ } unit;
} figures[] = {
	{ "bf16_flops_per_s", "bf16", FLOPS },
	{ "fp16_flops_per_s", "fp16", FLOPS },
	{ "fp8_flops_per_s", "fp8", FLOPS },
	{ "tf32_flops_per_s", "tf32", FLOPS },
	{ "fp32_flops_per_s", "fp32", FLOPS },
	{ "fp64_flops_per_s", "fp64", FLOPS },
	{ "memory_bytes_per_s", "memory", BYTES },
	{ "copy_bytes_per_s", "copies inside", BYTES },
	{ "htod_pinned_bytes_per_s", "in pinned", BYTES },
	{ "dtoh_pinned_bytes_per_s", "out pinned", BYTES },
	{ "htod_pageable_bytes_per_s", "in pageable", BYTES },
	{ "dtoh_pageable_bytes_per_s", "out pageable", BYTES },
	{ "clock_mhz", "clock", MHZ },
};

#define FIGURES (sizeof(figures) / sizeof(figures[0]))

/* A device while its lines come. */
struct found {
	char label[16];
	struct peaks peaks;
	char text[512];
	size_t measured, n_absent;
	struct {
		const char *title;
		char why[192];
	} absent[ABSENT_MAX];
};

struct outcome {
	struct found devices[DEVICES_MAX];
	size_t n;
	char trouble[256]; /* about all GPUs, or the process; empty: none */
};

static const char *node_text(const struct json_node *root, const char *key)
{
	const struct json_node *node = json_get(root, key);

	return node && node->type == JSON_STRING ? node->text : NULL;
}

static double node_number(const struct json_node *root, const char *key)
{
	const struct json_node *node = json_get(root, key);

	return node && node->type == JSON_NUMBER ? strtod(node->text, NULL) : 0;
}

static struct found *device_of(struct outcome *outcome, const char *label)
{
	for (size_t i = 0; i < outcome->n; i++)
		if (!strcmp(outcome->devices[i].label, label))
			return &outcome->devices[i];
	if (outcome->n == DEVICES_MAX)
		return NULL;
	snprintf(outcome->devices[outcome->n].label, sizeof(outcome->devices[0].label), "%.15s",
		 label);
	return &outcome->devices[outcome->n++];
}

static void describe_figure(struct found *found, size_t figure, double value, double low,
			    double high)
{
	size_t at = strlen(found->text);
	struct format text = figures[figure].unit == FLOPS ? format_flops(value)
							   : format_bytes(value);
	char spread[32] = "";

	if (high > low && value > 0)
		snprintf(spread, sizeof(spread), " (-%.1f +%.1f%%)", 100 * (value - low) / value,
			 100 * (high - value) / value);
	if (figures[figure].unit == MHZ)
		snprintf(text.text, sizeof(text.text), "%.0f MHz", value);
	snprintf(found->text + at, sizeof(found->text) - at, "%s%s %s%s%s", at ? ", " : "",
		 figures[figure].title, text.text, figures[figure].unit == BYTES ? "/s" : "",
		 spread);
}

static void take_outcome(struct outcome *outcome, const struct json_node *root)
{
	const char *label = node_text(root, "device"), *name = node_text(root, "name");
	const char *key = node_text(root, "key"), *absent = node_text(root, "absent");
	struct found *found;
	size_t figure = 0;
	double value = node_number(root, "value");

	if (!label || !name || !key)
		return;
	if (absent && !*key) {
		snprintf(outcome->trouble, sizeof(outcome->trouble), "%.250s", absent);
		return;
	}
	while (figure < FIGURES && strcmp(figures[figure].key, key) != 0)
		figure++;
	found = device_of(outcome, label);
	if (!found || figure == FIGURES)
		return;
	snprintf(found->peaks.name, sizeof(found->peaks.name), "%s", name);
	peaks_set(&found->peaks, "cpu", !strcmp(label, "cpu"));
	peaks_set(&found->peaks, "cores", node_number(root, "cores"));
	peaks_set(&found->peaks, "memory_bytes", node_number(root, "memory_bytes"));
	if (absent && found->n_absent < ABSENT_MAX) {
		found->absent[found->n_absent].title = figures[figure].title;
		snprintf(found->absent[found->n_absent].why, sizeof(found->absent[0].why), "%.190s",
			 absent);
		found->n_absent++;
	} else if (!absent && value > 0 && peaks_set(&found->peaks, key, value)) {
		found->measured++;
		describe_figure(found, figure, value, node_number(root, "low"),
				node_number(root, "high"));
	}
}

static void take_line(struct outcome *outcome, const char *line)
{
	struct json_node *root = NULL;

	if (*line != '{' || json_parse("calibration", line, strlen(line), &root, NULL) < 0)
		return;
	take_outcome(outcome, root);
	json_node_free(root);
}

/* False: time is up. */
static bool read_lines(int from, struct outcome *outcome)
{
	int64_t end_ns = clock_monotonic_ns() + SECONDS * INT64_C(1000000000);
	struct pollfd wait = { .fd = from, .events = POLLIN };
	char line[1024];
	size_t n = 0;

	for (;;) {
		int64_t left_ms = (end_ns - clock_monotonic_ns()) / 1000000;
		char c;
		ssize_t r;

		if (left_ms <= 0 || poll(&wait, 1, (int)left_ms) == 0)
			return false;
		r = read(from, &c, 1);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return true;
		if (c != '\n') {
			line[n] = c;
			n += n < sizeof(line) - 1;
			continue;
		}
		line[n] = '\0';
		take_line(outcome, line);
		n = 0;
	}
}

static int start_calibration(const char *program, int *ret_pipe, pid_t *ret_pid)
{
	int ends[2];
	pid_t pid;

	if (pipe(ends) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	if (pid < 0) {
		int r = -errno;

		close(ends[0]);
		return r;
	}
	*ret_pipe = ends[0];
	*ret_pid = pid;
	return 0;
}

static void run_program(const char *program, struct outcome *outcome)
{
	int from = -1, status = 0;
	pid_t pid = -1;
	int r = start_calibration(program, &from, &pid);

	if (r < 0) {
		snprintf(outcome->trouble, sizeof(outcome->trouble), "cannot start a process: %s",
			 strerror(-r));
		return;
	}
	if (!read_lines(from, outcome)) {
		kill(pid, SIGKILL);
		snprintf(outcome->trouble, sizeof(outcome->trouble),
			 "it was still measuring after %d s and was stopped", SECONDS);
	}
	close(from);
	waitpid(pid, &status, 0);
	if (outcome->trouble[0])
		return;
	if (WIFSIGNALED(status))
		snprintf(outcome->trouble, sizeof(outcome->trouble),
			 "signal %d killed it while measuring", WTERMSIG(status));
	else if (WEXITSTATUS(status) != 0)
		snprintf(outcome->trouble, sizeof(outcome->trouble), "it ended with status %d",
			 WEXITSTATUS(status));
}

/* "not measured: bf16, fp8 (why)", each reason once. */
static void tell_absent(const struct found *found, char *out, size_t size)
{
	size_t at = 0;

	*out = '\0';
	for (size_t i = 0; i < found->n_absent && at < size; i++) {
		bool told = false;

		for (size_t j = 0; j < i && !told; j++)
			told = !strcmp(found->absent[j].why, found->absent[i].why);
		if (told)
			continue;
		at += (size_t)snprintf(out + at, size - at, "%s", at ? "; " : "not measured: ");
		for (size_t j = i; j < found->n_absent && at < size; j++)
			if (!strcmp(found->absent[j].why, found->absent[i].why))
				at += (size_t)snprintf(out + at, size - at, "%s%s",
						       j > i ? ", " : "", found->absent[j].title);
		if (at < size)
			at += (size_t)snprintf(out + at, size - at, " (%s)", found->absent[i].why);
	}
}

static void tell_device(struct checks *checks, const struct found *found)
{
	char name[24], absent[512];
	struct check *check;

	snprintf(name, sizeof(name), "peaks %s", found->label);
	check = checks_add(checks, name);
	tell_absent(found, absent, sizeof(absent));
	check_found(check, found->measured ? CHECK_OK : CHECK_NOTE, "%.120s: %s", found->peaks.name,
		    found->measured ? found->text : "nothing was measured");
	if (found->n_absent)
		check_fix(check, "%s", absent);
	if (found->peaks.memory_bytes_per_s > 0)
		check_number(check, "memory_bytes_per_s", found->peaks.memory_bytes_per_s);
}

static void keep_peaks(struct checks *checks, const struct outcome *outcome)
{
	struct check *check = checks_add(checks, "peaks");
	char path[512];
	int r = cache_path_made("peaks", path, sizeof(path));
	size_t kept = 0;

	for (size_t i = 0; r >= 0 && i < outcome->n; i++) {
		if (!outcome->devices[i].measured)
			continue;
		r = peaks_append(path, &outcome->devices[i].peaks);
		kept++;
	}
	if (r < 0) {
		check_found(check, CHECK_FAILED, "not kept: cannot write the file: %s",
			    strerror(-r));
		check_fix(check, "set MOESCOPE_CACHE to a writable folder");
	} else if (kept) {
		check_found(check, CHECK_OK, "kept for %zu device%s in %s", kept,
			    kept == 1 ? "" : "s", path);
	} else {
		check_found(check, CHECK_FAILED, "nothing was measured");
	}
}

void doctor_calibrate(struct checks *checks)
{
	static struct outcome outcome;
	char *program = installed_program("moescope-calibrate");

	if (!program) {
		check_found(checks_add(checks, "peaks"), CHECK_FAILED,
			    "moescope-calibrate is not next to moescope; build and install again "
			    "(make, make install)");
		return;
	}
	progress_begin("the peak rates of this machine");
	run_program(program, &outcome);
	progress_end();
	free(program);
	for (size_t i = 0; i < outcome.n && checks->n + 3 < DOCTOR_CHECKS_MAX; i++)
		tell_device(checks, &outcome.devices[i]);
	if (outcome.trouble[0])
		check_found(checks_add(checks, "calibration"), CHECK_NOTE,
			    "GPUs were not measured, or only in part: %s", outcome.trouble);
	keep_peaks(checks, &outcome);
}
