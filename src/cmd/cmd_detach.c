/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope detach: ends a 'moescope attach' that goes on elsewhere, and waits until nothing of it is left in the
 * program, also if the attaching moescope was killed.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/options/common_options.h"
#include "cmd/recording/attached.h"
#include "cmd/terminal/output.h"

#define PATIENCE_NS INT64_C(60000000000)
#define LOOK_NS 20000000

static const struct option_group groups[] = { { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope detach 4711", "When this returns, the run is complete." },
	{ NULL, NULL },
};

/* Whether a session of ours records in it: its buffers are a file of a run, RANK-PID.ring, mapped there. */
static bool is_recording(pid_t pid)
{
	char name[32], end[32], line[PATH_MAX + 128];
	bool found = false;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	snprintf(end, sizeof(end), "-%d.ring", (int)pid);
	maps = fopen(name, "re");
	while (maps && !found && fgets(line, sizeof(line), maps)) {
		char *file = strchr(line, '/'), *at = file ? strrchr(file, '/') : NULL;

		found = at && strstr(at, end);
	}
	if (maps)
		fclose(maps);
	return found;
}

/* The attaching moescope ends its run and then the connection, whether by itself or because it dies. */
static bool wait_for_attach(int fd)
{
	struct pollfd end = { .fd = fd, .events = POLLIN };

	return poll(&end, 1, (int)(PATIENCE_NS / 1000000)) > 0;
}

/* Without it, what is inside leaves by itself within a second. */
static bool wait_for_program(pid_t pid)
{
	const struct timespec moment = { .tv_nsec = LOOK_NS };
	int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;

	while (is_recording(pid) && clock_monotonic_ns() < until_ns)
		nanosleep(&moment, NULL);
	return !is_recording(pid);
}

static int run_detach(struct invocation *inv)
{
	char *end;
	long pid = strtol(inv->args[0], &end, 10);
	bool done;
	int fd;

	if (*end || pid <= 0 || pid > INT_MAX)
		return usage_error(inv->command, "'%s' is not the number of a process.",
				   inv->args[0]);
	fd = attached_ask(ATTACHED_FOR_DETACH, (pid_t)pid);
	if (fd < 0 && fd != -ECONNREFUSED)
		return fail("cannot ask who is attached to process %ld: %s.", pid, strerror(-fd));
	if (fd < 0 && !is_recording((pid_t)pid))
		return fail("moescope is not attached to process %ld.", pid);
	done = (fd < 0 || wait_for_attach(fd)) && wait_for_program((pid_t)pid);
	if (fd >= 0)
		close(fd);
	return done ? EXIT_OK
		    : fail("cannot leave process %ld for a minute now: its Python runs no code; "
			   "moescope leaves when it does.",
			   pid);
}

const struct command cmd_detach = {
	.name = "detach",
	.purpose = PURPOSE_RECORD,
	.summary = "end an attach that was started elsewhere",
	.words = "PID",
	.description =
		"Ends 'moescope attach PID' in another terminal, completes its run, and returns when nothing "
		"of it is left in the program. If that moescope was killed, what it had loaded into the "
		"program leaves by itself within a second; detach waits for that.",
	.groups = groups,
	.examples = examples,
	.max_args = 1,
	.min_args = 1,
	.run = run_detach,
};
