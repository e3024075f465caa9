/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads wait for; see waits.h.
 */
#include "host/stacks/waits.h"

#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "host/peer/peer.h"
#include "host/stacks/python_stack.h"

#define LINK_MOST 128
#define WATCHED_MOST 16	  /* descriptors of a poll; one with more is a poll of many things */
#define SOCKETS_MOST 4096 /* remembered; then it begins again */

/* A socket by its inode: a program that waits for one does so again and again. */
struct socket {
	uint64_t inode;
	bool local;
};

struct waits {
	pid_t pid;
	struct socket *sockets;
	size_t n, capacity;
	struct hash_map by_inode;
};

struct call {
	long number;
	uint64_t args[4];
};

/* What tells the cause of a call: the call itself, or something that an argument leads to. */
enum telling { ITSELF, LOCK_WORD, DESCRIPTOR, POLLED, SELECTED };

struct known_call {
	long number;
	enum telling telling;
	enum wait_cause cause; /* ITSELF */
};

/* Calls that AArch64 and newer machines do not have under these names have a more general one there. */
static const struct known_call known_calls[] = {
	{ SYS_futex, LOCK_WORD, WAIT_LOCK },
#ifdef SYS_futex_waitv
	{ SYS_futex_waitv, ITSELF, WAIT_LOCK },
#endif
	{ SYS_flock, ITSELF, WAIT_LOCK },
	{ SYS_fcntl, ITSELF, WAIT_LOCK },
	{ SYS_semop, ITSELF, WAIT_LOCK },
	{ SYS_semtimedop, ITSELF, WAIT_LOCK },
	{ SYS_nanosleep, ITSELF, WAIT_SLEEP },
	{ SYS_clock_nanosleep, ITSELF, WAIT_SLEEP },
	{ SYS_wait4, ITSELF, WAIT_CHILD },
	{ SYS_waitid, ITSELF, WAIT_CHILD },
	{ SYS_clone, ITSELF, WAIT_CHILD }, /* until the child has its own program */
#ifdef SYS_clone3
	{ SYS_clone3, ITSELF, WAIT_CHILD },
#endif
#ifdef SYS_vfork
	{ SYS_vfork, ITSELF, WAIT_CHILD },
#endif
	{ SYS_ppoll, POLLED, WAIT_POLL },
	{ SYS_pselect6, SELECTED, WAIT_POLL },
	{ SYS_epoll_pwait, ITSELF, WAIT_POLL },
#ifdef SYS_epoll_pwait2
	{ SYS_epoll_pwait2, ITSELF, WAIT_POLL },
#endif
#ifdef SYS_poll
	{ SYS_poll, POLLED, WAIT_POLL },
	{ SYS_select, SELECTED, WAIT_POLL },
	{ SYS_epoll_wait, ITSELF, WAIT_POLL },
	{ SYS_open, ITSELF, WAIT_FILE },
	{ SYS_stat, ITSELF, WAIT_FILE },
	{ SYS_lstat, ITSELF, WAIT_FILE },
	{ SYS_access, ITSELF, WAIT_FILE },
	{ SYS_rename, ITSELF, WAIT_FILE },
	{ SYS_unlink, ITSELF, WAIT_FILE },
	{ SYS_mkdir, ITSELF, WAIT_FILE },
	{ SYS_rmdir, ITSELF, WAIT_FILE },
	{ SYS_readlink, ITSELF, WAIT_FILE },
	{ SYS_getdents, ITSELF, WAIT_FILE },
#endif
	{ SYS_openat, ITSELF, WAIT_FILE },
#ifdef SYS_openat2
	{ SYS_openat2, ITSELF, WAIT_FILE },
#endif
	{ SYS_newfstatat, ITSELF, WAIT_FILE },
	{ SYS_statx, ITSELF, WAIT_FILE },
	{ SYS_statfs, ITSELF, WAIT_FILE },
	{ SYS_faccessat, ITSELF, WAIT_FILE },
	{ SYS_renameat2, ITSELF, WAIT_FILE },
	{ SYS_unlinkat, ITSELF, WAIT_FILE },
	{ SYS_mkdirat, ITSELF, WAIT_FILE },
	{ SYS_readlinkat, ITSELF, WAIT_FILE },
	{ SYS_getdents64, ITSELF, WAIT_FILE },
	{ SYS_truncate, ITSELF, WAIT_FILE },
	{ SYS_execve, ITSELF, WAIT_FILE },
	{ SYS_sync, ITSELF, WAIT_FILE },
	{ SYS_msync, ITSELF, WAIT_FILE },
	{ SYS_io_getevents, ITSELF, WAIT_FILE },
	{ SYS_mq_timedreceive, ITSELF, WAIT_PIPE },
	{ SYS_mq_timedsend, ITSELF, WAIT_PIPE },
	{ SYS_msgrcv, ITSELF, WAIT_PIPE },
	{ SYS_msgsnd, ITSELF, WAIT_PIPE },
	{ SYS_read, DESCRIPTOR, WAIT_OTHER },
	{ SYS_write, DESCRIPTOR, WAIT_OTHER },
	{ SYS_readv, DESCRIPTOR, WAIT_OTHER },
	{ SYS_writev, DESCRIPTOR, WAIT_OTHER },
	{ SYS_pread64, DESCRIPTOR, WAIT_OTHER },
	{ SYS_pwrite64, DESCRIPTOR, WAIT_OTHER },
	{ SYS_preadv, DESCRIPTOR, WAIT_OTHER },
	{ SYS_pwritev, DESCRIPTOR, WAIT_OTHER },
	{ SYS_preadv2, DESCRIPTOR, WAIT_OTHER },
	{ SYS_pwritev2, DESCRIPTOR, WAIT_OTHER },
	{ SYS_close, DESCRIPTOR, WAIT_OTHER },
	{ SYS_fsync, DESCRIPTOR, WAIT_OTHER },
	{ SYS_fdatasync, DESCRIPTOR, WAIT_OTHER },
	{ SYS_syncfs, DESCRIPTOR, WAIT_OTHER },
	{ SYS_sync_file_range, DESCRIPTOR, WAIT_OTHER },
	{ SYS_ftruncate, DESCRIPTOR, WAIT_OTHER },
	{ SYS_fallocate, DESCRIPTOR, WAIT_OTHER },
	{ SYS_fstat, DESCRIPTOR, WAIT_OTHER },
	{ SYS_sendfile, DESCRIPTOR, WAIT_OTHER },
	{ SYS_splice, DESCRIPTOR, WAIT_OTHER },
	{ SYS_ioctl, DESCRIPTOR, WAIT_OTHER },
	{ SYS_recvfrom, DESCRIPTOR, WAIT_OTHER },
	{ SYS_recvmsg, DESCRIPTOR, WAIT_OTHER },
	{ SYS_recvmmsg, DESCRIPTOR, WAIT_OTHER },
	{ SYS_sendto, DESCRIPTOR, WAIT_OTHER },
	{ SYS_sendmsg, DESCRIPTOR, WAIT_OTHER },
	{ SYS_sendmmsg, DESCRIPTOR, WAIT_OTHER },
	{ SYS_accept, DESCRIPTOR, WAIT_OTHER },
	{ SYS_accept4, DESCRIPTOR, WAIT_OTHER },
	{ SYS_connect, DESCRIPTOR, WAIT_OTHER },
};

/* What the link of a descriptor begins with. A path of none of these is a file. */
static const struct {
	const char *begin;
	enum wait_cause cause;
} known_links[] = {
	{ "/dev/nvidia", WAIT_CUDA },
	{ "/dev/shm/", WAIT_FILE },
	{ "/dev/", WAIT_OTHER },
	{ "/", WAIT_FILE },
	{ "pipe:", WAIT_PIPE },
	{ "anon_inode:[eventfd", WAIT_PIPE },
	{ "anon_inode:[timerfd", WAIT_SLEEP },
	{ "anon_inode:[eventpoll", WAIT_POLL },
	{ "anon_inode:[pidfd", WAIT_CHILD },
	{ "pidfd:", WAIT_CHILD },
};

/* What the name of the kernel's function has in it, which differ from version to version. */
static const struct {
	const char *part;
	enum wait_cause cause;
} known_places[] = {
	{ "futex", WAIT_LOCK },
	{ "nanosleep", WAIT_SLEEP },
	{ "pipe", WAIT_PIPE },
	{ "fifo", WAIT_PIPE },
	{ "wait_for_partner", WAIT_PIPE }, /* who opens a named pipe */
	{ "eventfd", WAIT_PIPE },
	{ "unix_", WAIT_PIPE },
	{ "epoll", WAIT_POLL },
	{ "ep_poll", WAIT_POLL },
	{ "poll_schedule", WAIT_POLL },
	{ "do_select", WAIT_POLL },
	{ "do_poll", WAIT_POLL },
	{ "do_wait", WAIT_CHILD },
	{ "kernel_waitid", WAIT_CHILD },
	{ "kernel_clone", WAIT_CHILD },
	{ "inet_", WAIT_NETWORK },
	{ "tcp_", WAIT_NETWORK },
	{ "udp_", WAIT_NETWORK },
	{ "skb_", WAIT_NETWORK },
	{ "sk_wait", WAIT_NETWORK },
	{ "sk_stream", WAIT_NETWORK },
	{ "nfs", WAIT_FILE },
	{ "rpc_", WAIT_FILE },
	{ "folio_wait", WAIT_FILE },
	{ "filemap", WAIT_FILE },
	{ "wait_on_page", WAIT_FILE },
	{ "io_schedule", WAIT_FILE },
	{ "blk_", WAIT_FILE },
	{ "bio_", WAIT_FILE },
	{ "jbd2", WAIT_FILE },
	{ "ext4_", WAIT_FILE },
	{ "xfs_", WAIT_FILE },
	{ "btrfs_", WAIT_FILE },
	{ "fuse_", WAIT_FILE },
	{ "swap", WAIT_FILE },
	{ "locks_", WAIT_LOCK },
	{ "nvidia", WAIT_CUDA },
	{ "uvm_", WAIT_CUDA },
};

#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

struct waits *waits_open(pid_t pid)
{
	struct waits *w = calloc(1, sizeof(*w));

	if (w)
		w->pid = pid;
	return w;
}

void waits_close(struct waits *w)
{
	if (!w)
		return;
	free(w->sockets);
	hash_map_release(&w->by_inode);
	free(w);
}

/* Whether the kernel lists it among the sockets that stay on a machine: "address: n n n n n INODE path". */
static bool is_listed_local(pid_t pid, uint64_t inode)
{
	char path[48], line[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/net/unix", (int)pid);
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		const char *at = strchr(line, ':');

		for (int field = 0; at && field < 6; field++) {
			at = strchr(at, ' ');
			at = at ? at + strspn(at, " ") : NULL;
		}
		found = at && strtoull(at, NULL, 10) == inode;
	}
	if (file)
		fclose(file);
	return found;
}

static enum wait_cause socket_cause(struct waits *w, uint64_t inode)
{
	uint32_t hash = hash_word(inode), found;
	struct hash_walk walk = hash_map_walk(&w->by_inode, hash);
	struct socket new = { .inode = inode };

	while ((found = hash_map_next(&w->by_inode, &walk)))
		if (w->sockets[found - 1].inode == inode)
			return w->sockets[found - 1].local ? WAIT_PIPE : WAIT_NETWORK;
	new.local = is_listed_local(w->pid, inode);
	if (w->n == SOCKETS_MOST) {
		hash_map_release(&w->by_inode);
		w->n = 0;
	}
	/* Without memory it is asked for again. */
	if (array_grow(&w->sockets, &w->capacity, w->n + 1, sizeof(*w->sockets)) == 0 &&
	    hash_map_add(&w->by_inode, hash, (uint32_t)w->n + 1) == 0)
		w->sockets[w->n++] = new;
	return new.local ? WAIT_PIPE : WAIT_NETWORK;
}

static enum wait_cause link_cause(struct waits *w, const char *link)
{
	if (strncmp(link, "socket:[", 8) == 0)
		return socket_cause(w, strtoull(link + 8, NULL, 10));
	for (size_t i = 0; i < N_OF(known_links); i++)
		if (strncmp(link, known_links[i].begin, strlen(known_links[i].begin)) == 0)
			return known_links[i].cause;
	return WAIT_OTHER;
}

/* A link is read, never followed: that could wait for a file server. */
static enum wait_cause descriptor_cause(struct waits *w, int fd)
{
	char path[48], link[LINK_MOST];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)w->pid, fd);
	n = readlink(path, link, sizeof(link) - 1);
	if (n <= 0)
		return WAIT_UNKNOWN;
	link[n] = '\0';
	return link_cause(w, link);
}

/* Several descriptors: what all of them are, else a poll; a GPU among them is what a thread of CUDA's waits
 * for, beside the descriptor that ends it. */
static enum wait_cause watched_cause(struct waits *w, const int *fds, size_t n)
{
	enum wait_cause all = WAIT_SLEEP; /* nothing but time */

	if (n > WATCHED_MOST)
		return WAIT_POLL;
	for (size_t i = 0; i < n; i++) {
		enum wait_cause one = descriptor_cause(w, fds[i]);

		if (one == WAIT_CUDA)
			return WAIT_CUDA;
		all = i == 0 || one == all ? one : WAIT_POLL;
	}
	return all == WAIT_UNKNOWN ? WAIT_POLL : all;
}

static enum wait_cause polled_cause(struct waits *w, const struct call *call)
{
	struct pollfd polled[WATCHED_MOST];
	int fds[WATCHED_MOST];
	size_t n = call->args[1], kept = 0;

	if (n > WATCHED_MOST ||
	    (n && !peer_read(w->pid, call->args[0], polled, n * sizeof(*polled))))
		return WAIT_POLL;
	for (size_t i = 0; i < n; i++)
		if (polled[i].fd >= 0)
			fds[kept++] = polled[i].fd;
	return watched_cause(w, fds, kept);
}

static enum wait_cause selected_cause(struct waits *w, const struct call *call)
{
	int fds[WATCHED_MOST], n = (int)call->args[0];
	size_t kept = 0;
	fd_set all, one;

	if (n < 0 || n > FD_SETSIZE)
		return WAIT_POLL;
	FD_ZERO(&all);
	for (int set = 1; set <= 3; set++) {
		if (!call->args[set])
			continue;
		FD_ZERO(&one);
		if (!peer_read(w->pid, call->args[set], &one, ((size_t)n + 63) / 64 * 8))
			return WAIT_POLL;
		for (int fd = 0; fd < n; fd++)
			if (FD_ISSET(fd, &one))
				FD_SET(fd, &all);
	}
	for (int fd = 0; fd < n; fd++) {
		if (!FD_ISSET(fd, &all))
			continue;
		if (kept == WATCHED_MOST)
			return WAIT_POLL;
		fds[kept++] = fd;
	}
	return watched_cause(w, fds, kept);
}

/* WAIT_UNKNOWN: it says nothing. */
static enum wait_cause place_cause(const char *place)
{
	for (size_t i = 0; i < N_OF(known_places); i++)
		if (strstr(place, known_places[i].part))
			return known_places[i].cause;
	return place[0] && strcmp(place, "0") != 0 ? WAIT_OTHER : WAIT_UNKNOWN;
}

static enum wait_cause call_cause(struct waits *w, const struct call *call, uint64_t gil)
{
	const struct known_call *known = known_calls;

	while (known->number != call->number)
		if (++known == known_calls + N_OF(known_calls))
			return WAIT_UNKNOWN;
	switch (known->telling) {
	case LOCK_WORD:
		return gil && call->args[0] - gil < PYTHON_GIL_BYTES ? WAIT_GIL : known->cause;
	case DESCRIPTOR:
		return descriptor_cause(w, (int)call->args[0]);
	case POLLED:
		return polled_cause(w, call);
	case SELECTED:
		return selected_cause(w, call);
	case ITSELF:
		break;
	}
	return known->cause;
}

/* "running", "NUMBER ARGUMENT... STACK PLACE", or -1 for one that waits in no call, as for a page of memory. */
static enum wait_cause text_cause(struct waits *w, const char *text, uint64_t gil)
{
	struct call call;
	char *end;

	if (strncmp(text, "running", 7) == 0)
		return WAIT_ENDED;
	call.number = strtol(text, &end, 10);
	if (end == text)
		return WAIT_UNKNOWN;
	for (int i = 0; i < 4; i++) {
		text = end;
		call.args[i] = strtoull(text, &end, 16);
		if (end == text)
			return WAIT_UNKNOWN;
	}
	return call_cause(w, &call, gil);
}

/* Whether the place may tell more: a named pipe looks like a file by its path. */
static bool needs_place(enum wait_cause cause)
{
	return cause == WAIT_UNKNOWN || cause == WAIT_FILE;
}

static enum wait_cause refined(enum wait_cause cause, const char *place)
{
	enum wait_cause by_place = place_cause(place);

	return cause == WAIT_UNKNOWN || by_place == WAIT_PIPE ? by_place : cause;
}

enum wait_cause waits_told(struct waits *w, const char *call, const char *place, uint64_t gil)
{
	enum wait_cause cause = text_cause(w, call, gil);

	return needs_place(cause) ? refined(cause, place) : cause;
}

/* The last number of the text. */
static uint64_t instruction_of(const char *text)
{
	const char *last = strrchr(text, ' ');

	return last ? strtoull(last, NULL, 16) : 0;
}

enum wait_cause waits_look(struct waits *w, pid_t thread, int fd, uint64_t gil, uint64_t *ret_at)
{
	char call[256], place[64];
	ssize_t n = fd >= 0 ? pread(fd, call, sizeof(call) - 1, 0) : 0;
	enum wait_cause cause;

	call[n > 0 ? n : 0] = '\0';
	*ret_at = instruction_of(call);
	cause = text_cause(w, call, gil);
	if (!needs_place(cause))
		return cause;
	peer_thread_place(w->pid, thread, place, sizeof(place));
	return refined(cause, place);
}
