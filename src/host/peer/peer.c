/* SPDX-License-Identifier: Apache-2.0
 *
 * Another process, looked at from outside; see peer.h.
 */
#include "host/peer/peer.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int peer_may_look(pid_t pid)
{
	char byte;
	struct iovec here = { &byte, 1 }, nowhere = { NULL, 1 };

	if (process_vm_readv(pid, &here, 1, &nowhere, 1, 0) >= 0 || errno == EFAULT)
		return 0;
	return -errno;
}

bool peer_read(pid_t pid, uint64_t from, void *to, size_t bytes)
{
	struct peer_part part = { from, to, bytes };

	return peer_read_parts(pid, &part, 1);
}

bool peer_read_parts(pid_t pid, const struct peer_part *parts, size_t n)
{
	struct iovec here[PEER_PARTS], there[PEER_PARTS];
	size_t bytes = 0;

	if (n > PEER_PARTS)
		return false;
	for (size_t i = 0; i < n; i++) {
		here[i] = (struct iovec){ parts[i].to, parts[i].bytes };
		/* An address in another process is no pointer of ours. */
		there[i] = (struct iovec){ (void *)(uintptr_t)parts[i].from, // NOLINT
					   parts[i].bytes };
		bytes += parts[i].bytes;
	}
	return process_vm_readv(pid, here, n, there, n, 0) == (ssize_t)bytes;
}

bool peer_write(pid_t pid, uint64_t to, const void *from, size_t bytes)
{
	struct iovec here = { (void *)(uintptr_t)from, bytes }; // NOLINT: it is only read
	struct iovec there = { (void *)(uintptr_t)to, bytes };	// NOLINT

	return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

int peer_thread_open(pid_t pid, pid_t thread, const char *file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)thread, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int peer_thread_times(int fd, struct peer_times *ret_times)
{
	uint64_t numbers[3];
	char text[96], *at = text, *end;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	text[n] = '\0';
	for (int i = 0; i < 3; i++, at = end) { /* sscanf took longer than the kernel */
		numbers[i] = strtoull(at, &end, 10);
		if (end == at)
			return -EBADMSG;
	}
	*ret_times = (struct peer_times){ (int64_t)numbers[0], (int64_t)numbers[1], numbers[2] };
	return 0;
}

int peer_thread_cpu(int fd)
{
	enum { FIELDS_BEFORE = 36 }; /* between the name's end and the processor */
	char text[1024], *at;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return -1;
	text[n] = '\0';
	at = strrchr(text, ')'); /* a name may have anything in it */
	for (int i = 0; at && i <= FIELDS_BEFORE; i++)
		at = strchr(at + 1, ' ');
	return at ? (int)strtol(at, NULL, 10) : -1;
}

bool peer_thread_sleeps(int fd)
{
	char text[1024], *at;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strrchr(text, ')');
	return at && (strncmp(at, ") S", 3) == 0 || strncmp(at, ") D", 3) == 0);
}

/* The first bytes of a file below /proc/PID/task/THREAD; false if there is none. */
static bool read_of_thread(pid_t pid, pid_t thread, const char *name, char *out, size_t size)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)thread, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, out, size - 1);
	close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

void peer_thread_name(pid_t pid, pid_t thread, char *out, size_t size)
{
	if (!read_of_thread(pid, thread, "comm", out, size))
		out[0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

void peer_thread_place(pid_t pid, pid_t thread, char *out, size_t size)
{
	if (!read_of_thread(pid, thread, "wchan", out, size))
		out[0] = '\0';
}

int peer_numbers_open(void)
{
	return open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
}

int64_t peer_last_number(int fd)
{
	char text[96];
	const char *last;
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return -1;
	text[n] = '\0';
	last = strrchr(text, ' ');
	return last ? strtoll(last, NULL, 10) : -1;
}

int peer_threads(pid_t pid, pid_t *ids, size_t most)
{
	char path[32];
	struct dirent *entry;
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		if ((size_t)n < most)
			ids[n] = (pid_t)strtol(entry->d_name, NULL, 10);
		n++;
	}
	closedir(dir);
	return n;
}

int peer_children(pid_t pid, pid_t *ids, size_t most)
{
	pid_t threads[1024];
	int n_threads = peer_threads(pid, threads, 1024), n = 0;
	char text[4096];

	if (n_threads < 0)
		return n_threads;
	for (int i = 0; i < n_threads && i < 1024; i++) {
		char *at = text, *end;

		if (!read_of_thread(pid, threads[i], "children", text, sizeof(text)))
			continue;
		for (long id; (id = strtol(at, &end, 10)) > 0 && end != at; at = end) {
			if ((size_t)n < most)
				ids[n] = (pid_t)id;
			n++;
		}
	}
	return n;
}
