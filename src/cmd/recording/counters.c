/* SPDX-License-Identifier: Apache-2.0
 *
 * The process that reads counters; see counters.h.
 */
#include "cmd/recording/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text/format.h"
#include "cmd/recording/installed.h"

#define READY_MS 10000 /* for the driver to start, at most */
#define END_MS 10000   /* for the last samples */
#define LINE_MOST 8192 /* a group of metrics is one line */
#define INTERVAL_LEAST_NS 10000
#define INTERVAL_MOST_NS INT64_C(1000000000)

void counters_prepare(struct counters *counters)
{
	size_t n = 0;

	*counters = (struct counters){ .input = -1, .output = -1 };
	while (environ[n])
		n++;
	/* The words stay where they are: whoever sets one makes a new one. */
	counters->environment = calloc(n + 1, sizeof(char *));
	if (counters->environment)
		memcpy(counters->environment, environ, n * sizeof(char *));
}

/* Starts moescope-counters with these words after its name, at most four and NULL. */
static int spawn(struct counters *counters, char *const *words, char *const *environment,
		 struct err *err)
{
	char *argv[6] = { installed_program("moescope-counters") };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int to[2] = { -1, -1 }, from[2] = { -1, -1 }, r = 0;
	sigset_t none;

	if (!argv[0])
		return err_set(
			err, -ENOENT,
			"moescope-counters is not next to moescope; build with the CUDA headers "
			"and install again (make, make install)");
	for (size_t i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	sigemptyset(&none);
	if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
		r = errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
	posix_spawnattr_init(&attributes);
	/* A session of its own: signals to the program's group are not for it. */
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &none);
	if (r == 0)
		r = posix_spawn(&counters->pid, argv[0], &actions, &attributes, argv, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	free(argv[0]);
	if (to[0] >= 0)
		close(to[0]);
	if (from[1] >= 0)
		close(from[1]);
	counters->input = to[1];
	counters->output = from[0];
	if (r == 0)
		return 0;
	counters->pid = 0;
	return err_sys(err, -r, "moescope-counters cannot be started");
}

/* The next line that it has to say, without its end; "": none came in that time, or it has ended. */
static void read_line(const struct counters *counters, int timeout_ms, char *line, size_t size)
{
	int64_t until_ns = clock_monotonic_ns() + timeout_ms * INT64_C(1000000);
	size_t n = 0;
	char byte = 0;

	while (n + 1 < size && byte != '\n') {
		struct pollfd fd = { .fd = counters->output, .events = POLLIN };
		int64_t left_ms = (until_ns - clock_monotonic_ns()) / 1000000;

		if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) <= 0 ||
		    read(counters->output, &byte, 1) != 1)
			break;
		if (byte != '\n')
			line[n++] = byte;
	}
	line[n] = '\0';
}

/* The process has ended, or is made to. */
static void bury(struct counters *counters)
{
	int64_t until_ns = clock_monotonic_ns() + END_MS * INT64_C(1000000);
	struct pollfd fd = { .fd = counters->output, .events = 0 };

	/* The other end of its output closes with it. */
	while (clock_monotonic_ns() < until_ns && !(fd.revents & POLLHUP))
		if (poll(&fd, 1, END_MS) < 0 && errno != EINTR)
			break;
	if (!(fd.revents & POLLHUP))
		kill(counters->pid, SIGKILL);
	while (waitpid(counters->pid, NULL, 0) < 0 && errno == EINTR)
		;
	counters->pid = 0;
}

static void release(struct counters *counters)
{
	if (counters->input >= 0)
		close(counters->input);
	if (counters->output >= 0)
		close(counters->output);
	counters->input = counters->output = -1;
	free(counters->environment);
	counters->environment = NULL;
}

int counters_start(struct counters *counters, const char *run, int64_t interval_ns, int64_t keep_ns,
		   struct err *err)
{
	char interval[24], keep[24], line[900] = "";
	char *words[] = { "sample", (char *)run, interval, keep, NULL };
	int r;

	snprintf(interval, sizeof(interval), "%lld", (long long)interval_ns);
	snprintf(keep, sizeof(keep), "%lld", (long long)keep_ns);
	r = counters->environment ? spawn(counters, words, counters->environment, err)
				  : err_sys(err, -ENOMEM, "counters");
	if (r < 0) {
		release(counters);
		return r;
	}
	read_line(counters, READY_MS, line, sizeof(line));
	if (!strcmp(line, "ready"))
		return 0;
	close(counters->input);
	counters->input = -1;
	bury(counters);
	release(counters);
	return err_set(err, -EIO, "%s",
		       strncmp(line, "error: ", 7) == 0
			       ? line + 7
			       : "moescope-counters ended, or did not begin within ten seconds");
}

int counters_stop(struct counters *counters, struct err *err)
{
	char line[900];
	int r = 0;

	if (!counters->pid) {
		release(counters);
		return 0;
	}
	close(counters->input);
	counters->input = -1;
	read_line(counters, END_MS, line, sizeof(line));
	if (line[0])
		r = err_set(err, -EIO, "%s", strncmp(line, "error: ", 7) == 0 ? line + 7 : line);
	bury(counters);
	release(counters);
	return r;
}

/* Runs moescope-counters and hears its lines. */
static int ask(char *const *words, counters_line *tell, void *context, struct err *err)
{
	char line[LINE_MOST];
	struct counters counters = { .input = -1, .output = -1 };
	int r = spawn(&counters, words, environ, err);

	if (r < 0) {
		release(&counters);
		return r;
	}
	for (;;) {
		read_line(&counters, READY_MS, line, sizeof(line));
		if (!line[0] || !strncmp(line, "error: ", 7))
			break;
		tell(context, line);
	}
	if (line[0])
		r = err_set(err, -EIO, "%s", line + 7);
	close(counters.input);
	counters.input = -1;
	bury(&counters);
	release(&counters);
	return r;
}

int counters_describe(counters_line *tell, void *context, struct err *err)
{
	return ask((char *[]){ "devices", NULL }, tell, context, err);
}

struct planned {
	struct buf groups;
	double in_row_ms;
	counters_line *tell;
	void *context;
};

static void take_plan(void *context, const char *line)
{
	struct planned *planned = context;

	if (sscanf(line, "in a row %lf ms", &planned->in_row_ms) == 1)
		return;
	if (strncmp(line, "group ", 6) != 0)
		planned->tell(planned->context, line);
	else
		buf_printf(&planned->groups, "%s%s", planned->groups.size ? ";" : "", line + 6);
}

int counters_plan(const char *words, bool replay, struct counting_plan *ret_plan,
		  counters_line *tell, void *context, struct err *err)
{
	struct planned planned = { .tell = tell, .context = context };
	int r = ask((char *[]){ replay ? "replay" : "plan", (char *)words, NULL }, take_plan,
		    &planned, err);

	if (r == 0 && (planned.groups.failed || !planned.groups.size))
		r = err_set(err, -EIO,
			    "moescope-counters ended, or did not begin within ten seconds");
	*ret_plan = (struct counting_plan){ .in_row_ms = planned.in_row_ms };
	if (r == 0 && !(ret_plan->groups = strndup(planned.groups.data, planned.groups.size)))
		r = err_sys(err, -ENOMEM, "counters");
	buf_release(&planned.groups);
	return r;
}

bool counters_over_time(const char *what)
{
	return !strcmp(what, "timeline") || !strcmp(what, "recorder");
}

bool counters_of_instructions(const char *what)
{
	return !strcmp(what, "pc");
}

int counters_parse(const char *what, const char *interval, int64_t *ret_interval_ns,
		   int64_t *ret_keep_ns, struct err *err)
{
	struct given_moment moment;

	*ret_interval_ns = 1000000;
	*ret_keep_ns = 0;
	if (!strcmp(what, "recorder"))
		*ret_keep_ns = COUNTERS_KEEP_NS;
	if (interval && !counters_over_time(what))
		return err_set(
			err, -EINVAL,
			"'--counters-interval' is for '--counters timeline' and 'recorder'.");
	if (interval && (!moment_parse(interval, &moment) || moment.ns < INTERVAL_LEAST_NS ||
			 moment.ns > INTERVAL_MOST_NS))
		return err_set(err, -EINVAL,
			       "'--counters-interval' is a time from 10us to 1s, not '%s'.",
			       interval);
	if (interval)
		*ret_interval_ns = moment.ns;
	return 0;
}
