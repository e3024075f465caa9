/* SPDX-License-Identifier: Apache-2.0
 *
 * Another process, looked at from outside: its memory and its threads. Nothing is stopped and nothing
 * is changed: what is read may be changing meanwhile. Any thread.
 */
#ifndef HOST_PEER_PEER_H
#define HOST_PEER_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 0; -EPERM: this process may not; -ESRCH: it has ended. */
int peer_may_look(pid_t pid);

struct peer_part {
	uint64_t from;
	void *to;
	size_t bytes;
};

/* All of it, or false: the process has ended, or that is not its memory. */
bool peer_read(pid_t pid, uint64_t from, void *to, size_t bytes);
/* Several parts in this order, as close to one moment as that can be; at most PEER_PARTS. */
#define PEER_PARTS 256
bool peer_read_parts(pid_t pid, const struct peer_part *parts, size_t n);
/* The one that changes something, for those who join a program (host/join): all of it, or false. */
bool peer_write(pid_t pid, uint64_t to, const void *from, size_t bytes);

/* What the scheduler knows of a thread. */
struct peer_times {
	int64_t run_ns;	  /* on a processor */
	int64_t ready_ns; /* waiting for one */
	uint64_t turns;	  /* times it got one */
};

/* Descriptors for peer_thread_times and peer_thread_cpu, or -errno. */
int peer_thread_open(pid_t pid, pid_t thread, const char *file);
#define PEER_TIMES "schedstat"
#define PEER_CPU "stat"
#define PEER_CALL "syscall" /* see waits.h */
int peer_thread_times(int fd, struct peer_times *ret_times);
/* The processor that it runs on, or ran on last; -1: unknown. */
int peer_thread_cpu(int fd);
/* By the same descriptor: whether it waits and will not run before somebody wakes it. */
bool peer_thread_sleeps(int fd);
/* "name", cut to fit; empty if it has none. */
void peer_thread_name(pid_t pid, pid_t thread, char *out, size_t size);
/* The kernel's function that it sleeps in, likewise; empty or "0" where that is not told. */
void peer_thread_place(pid_t pid, pid_t thread, char *out, size_t size);

/* The number that the machine gave to a thread or process last; -1: unknown. While it is the same none has begun.
 * Of a descriptor that peer_numbers_open has opened, if it could. */
int peer_numbers_open(void);
int64_t peer_last_number(int fd);

/* The threads of a process, and the processes that it has started. Returns how many there are, at most
 * `most` of which are in `ids`, or -errno. */
int peer_threads(pid_t pid, pid_t *ids, size_t most);
int peer_children(pid_t pid, pid_t *ids, size_t most);

#endif
