/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of the process around the probe: forks that run no handlers, signals whose handlers call
 * the API, and the end of the program's last thread.
 */
#ifndef PROBE_CORE_LIFE_H
#define PROBE_CORE_LIFE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The kernel clears this page in a forked child (MADV_WIPEONFORK), whether fork, _Fork or a bare
 * clone created it. So a child finds no session here, before it touches anything of its
 * parent's. */
#if defined(__x86_64__)
#define PROBE_PAGE_BYTES 4096
#else
#define PROBE_PAGE_BYTES 65536
#endif
enum owner { OWNER_OTHER, OWNER_THIS, OWNER_BY_PID /* this kernel clears nothing */ };
struct probe_page {
	_Atomic uint32_t session; /* number of the session, 0: none */
	_Atomic uint32_t owner;
} __attribute__((aligned(PROBE_PAGE_BYTES)));
extern struct probe_page probe_page;
#define probe_session (probe_page.session)

void life_begin(void);
void life_look(void);

/* First in every call that takes a lock or reads what a session left behind: in a child that no
 * handler notified of the fork, it forgets the parent's session. */
static inline void life_check(void)
{
	if (__builtin_expect(
		    atomic_load_explicit(&probe_page.owner, memory_order_relaxed) != OWNER_THIS, 0))
		life_look();
}
/* The same from the fork handler. */
void life_forked(void);
/* In a child whose fork ran no handlers, malloc may be locked forever; and if one of our own locks
 * was held, the data it guards is in doubt. */
bool life_may_allocate(void);
bool life_in_doubt(void);

/* This thread is writing a record or holds a lock: a signal handler that calls the API now is
 * rejected, and counted. Such sections never nest. */
extern __thread bool thread_busy __attribute__((tls_model("initial-exec")));
extern _Atomic uint64_t probe_dropped_in_signal;

/* This thread is ours, or is about to start one of ours, or has given its ring back: its calls into libraries are not
 * the program's (calls.h). */
extern __thread bool thread_apart __attribute__((tls_model("initial-exec")));

/* Takes a probe lock for one section; false: rejected. */
bool probe_lock(pthread_mutex_t *lock);
void probe_unlock(pthread_mutex_t *lock);

/* A control call (start, stop, steps, pauses, recorders): it may write records and take locks, but
 * not be interrupted by another one on this thread. False: rejected. */
bool probe_control_begin(void);
void probe_control_end(void);
bool probe_in_control(void);

/* Calls of children that record nothing are counted in a page shared with the session they were
 * forked from. */
int life_share(void);
void life_unshare(void);
uint64_t life_child_calls(void);
/* True: this is such a child, and the call is counted. */
bool life_count_call(void);

/* Our own threads: all signals but SIGBUS blocked, the time-stamp counter on. */
int life_thread_create(pthread_t *ret_thread, void *(*function)(void *), void *arg);
void life_thread_begins(const char *name);
void life_thread_ends(void);
/* They call this now and then, as often as they like. When no thread of the program is left, it
 * ends the session in a separate thread, so that ours end and with them the process. */
void life_watch(void);
/* The same continuously, by a thread of the session: the drain's descriptor table is not the
 * program's. Start on a thread of the program; forget in a forked child. */
int life_guard_start(void);
void life_guard_stop(void);
void life_guard_forget(void);
/* A thread that has recorded is ending. */
void life_program_thread_ends(void);

#endif
