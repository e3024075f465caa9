/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of counting; see counting.h.
 */
#include "cmd/recording/counting.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/terminal/output.h"
#include "trace/ring.h"

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
