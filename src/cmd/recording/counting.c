/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting of kernels, seen from outside; see counting.h.
 */
#include "cmd/recording/counting.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/format.h"
#include "cmd/terminal/output.h"
#include "trace/ring.h"

/* What that took on an H200: see docs/benchmarks.md. The beginning is that of CUPTI, and room for a row of launches. */
#define BEGIN_MS 1500.0
#define ALONE_MS 20.0
#define CHANGE_MS 250.0
#define TURN_MOST 512.0 /* launches: src/exact/windows.c */

/* Groups of "A,B;19 C,D", those of them in which kernels run several times, and how often all of these. */
struct plan_size {
	uint64_t groups, replayed, passes;
};

static struct plan_size plan_size(const char *planned)
{
	struct plan_size size = { 0 };

	for (const char *group = planned; group; group = strchr(group, ';')) {
		uint64_t passes;

		group += *group == ';';
		passes = *group >= '0' && *group <= '9' ? strtoull(group, NULL, 10) : 1;
		size.groups++;
		size.replayed += passes > 1;
		size.passes += passes > 1 ? passes : 0;
	}
	return size;
}

/* Groups take turns of one launch, two, four and so on to TURN_MOST: what their changes take, for each launch. */
static double turns_ms(uint64_t groups, uint64_t launches)
{
	double of_each = fmax((double)launches / (double)groups, 1);
	double growing = fmin(of_each, TURN_MOST - 1);
	double turns = log2(growing + 1) + (of_each - growing) / TURN_MOST;

	return groups > 1 ? CHANGE_MS * turns / of_each : 0;
}

/* Nobody has measured a replay by itself: each pass is taken for a launch that is counted alone. */
static void tell_replay_cost(uint64_t launches, const struct plan_size *size)
{
	double others = (double)(size->groups - size->replayed);
	double each_ms = ALONE_MS * (others + (double)size->passes) / (double)size->groups +
			 turns_ms(size->groups, launches);

	say("counting %llu launches, one at a time, in %llu groups of metrics: %llu of one pass, and %llu for which a kernel "
	    "runs %llu times%s. That takes est. %s: %g ms per pass, as for a launch that is counted alone on an H200; "
	    "saving and restoring memory has not been measured. --launch-count changes that.",
	    (unsigned long long)launches, (unsigned long long)size->groups,
	    (unsigned long long)(size->groups - size->replayed), (unsigned long long)size->replayed,
	    (unsigned long long)size->passes, size->replayed > 1 ? " in all" : "",
	    format_ns((double)launches * each_ms * 1e6).text, ALONE_MS);
}

void counting_tell_cost(const struct counting_plan *planned, uint64_t launches, bool by_kernel)
{
	struct plan_size size = plan_size(planned->groups);
	bool turns = size.groups > 1;
	/* By name, others between may end a row. */
	double each_ms = (by_kernel ? ALONE_MS : planned->in_row_ms) +
			 turns_ms(size.groups, launches);

	if (size.replayed) {
		tell_replay_cost(launches, &size);
		return;
	}
	say("counting %llu launches, one at a time, in %llu group%s of metrics of one pass%s, takes %s %s: %g s to start and "
	    "%s%.3g ms per launch%s; --launch-count changes that.",
	    (unsigned long long)launches, (unsigned long long)size.groups, turns ? "s" : "",
	    turns ? " each" : "",
	    turns	? "about"
	    : by_kernel ? "up to about"
			: "at least",
	    format_ns((BEGIN_MS + (double)launches * each_ms) * 1e6).text, BEGIN_MS / 1e3,
	    turns ? "an estimated " : "", each_ms, turns ? "" : ", as on an H200");
}

static const unsigned int parts_pct[] = { 10, 50, 100 };
#define PARTS (sizeof(parts_pct) / sizeof(parts_pct[0]))

/* Of all processes. */
struct counting {
	uint64_t counted, wanted;
	uint32_t groups_seen, groups;
};

static bool is_ring(const char *name)
{
	size_t length = strlen(name), suffix = strlen(".ring");

	return length > suffix && strcmp(name + length - suffix, ".ring") == 0;
}

/* The process may be writing: the figures are of one moment or the next. */
static void add_process(struct counting *all, int folder, const char *name)
{
	struct ring_counting one;
	struct ring_header header;
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return;
	if (pread(fd, &header, offsetof(struct ring_header, n_regions), 0) ==
		    (ssize_t)offsetof(struct ring_header, n_regions) &&
	    memcmp(header.magic, RING_MAGIC, sizeof(header.magic)) == 0 &&
	    header.version == RING_VERSION &&
	    pread(fd, &one, sizeof(one), offsetof(struct ring_header, counting)) ==
		    (ssize_t)sizeof(one) &&
	    one.wanted) {
		all->counted += one.counted;
		all->wanted += one.wanted;
		all->groups_seen = one.groups_seen > all->groups_seen ? one.groups_seen
								      : all->groups_seen;
		all->groups = one.groups;
	}
	close(fd);
}

static struct counting look(const char *run)
{
	struct counting all = { 0 };
	struct dirent *entry;
	DIR *dir = opendir(run);

	while (dir && (entry = readdir(dir)))
		if (is_ring(entry->d_name))
			add_process(&all, dirfd(dir), entry->d_name);
	if (dir)
		closedir(dir);
	return all;
}

bool counting_tell(struct counting_told *told, const char *run)
{
	struct pollfd terminal = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct counting now = look(run);
	unsigned int before = told->parts;

	/* Stopped by Ctrl-S: signals for the program must not wait for that. */
	if (poll(&terminal, 1, 0) != 1 || !(terminal.revents & POLLOUT))
		return true;

	while (told->parts < PARTS && now.wanted &&
	       now.counted >= now.wanted / 100.0 * parts_pct[told->parts])
		told->parts++;
	if (told->parts > before)
		say("counted %llu of %llu launches, %u of %u group%s of metrics.",
		    (unsigned long long)now.counted, (unsigned long long)now.wanted,
		    now.groups_seen, now.groups, now.groups == 1 ? "" : "s");
	return told->parts < PARTS;
}
