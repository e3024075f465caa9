/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes and threads that the sampler looks at, and what it knows of them: its inside. All of it belongs to the
 * sampler's thread.
 */
#ifndef HOST_STACKS_FOLLOWED_H
#define HOST_STACKS_FOLLOWED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/wake.h"
#include "host/peer/peer.h"
#include "host/stacks/native.h"
#include "host/stacks/places.h"
#include "host/stacks/python_stack.h"
#include "host/stacks/stack_shard.h"
#include "host/stacks/unwind.h"
#include "host/stacks/waits.h"
#include "trace/shard.h"

#define FOLLOWED_CHAIN_MOST 128 /* the kernel takes 127, unless it is told otherwise */
#define FOLLOWED_PATH_MOST 256
#define FOLLOWED_NAME 16    /* of a thread, as long as the kernel keeps it */
#define FOLLOWED_LITTLE 100 /* one of so many parts: not worth telling apart */

/* The last stack that the kernel took of a thread; its addresses are named when somebody asks. */
struct chain {
	int64_t time_ns;
	enum native_moment moment;
	uint32_t stack; /* 0: not named yet */
	size_t n;
	uint64_t ips[FOLLOWED_CHAIN_MOST];
	bool has_registers;
	uint64_t registers[UNWIND_REGISTERS];
};

/* A thread, and what it has done since the last row about it. */
struct thread {
	pid_t id;
	char name[FOLLOWED_NAME];
	unsigned int named;	       /* times that its name was asked for */
	int times_fd, cpu_fd, call_fd; /* below 0: not to be had */
	bool seen;
	bool waits;	      /* it has not run since the row below began */
	bool newly_python;    /* its row is of the time before */
	unsigned int idle;    /* looks since it ran */
	unsigned int skipped; /* of them, since the last one that was made */
	int64_t skipped_ns;
	enum wait_cause why;  /* when it was last seen to wait; WAIT_ENDED: never yet */
	unsigned int why_age; /* looks since */
	uint64_t waits_at;    /* the instruction, then */
	struct peer_times times;
	int64_t looked_ns;
	int64_t open_ns; /* without a processor, neither waiting nor ready yet; below 0: too much was */
	struct python_thread python;
	struct chain *chain;	     /* NULL: none yet */
	uint64_t left;		     /* times it has left a processor, of those that were seen */
	uint64_t missed;	     /* turns - left while it was on none, */
	int64_t missed_ns;	     /* at that time; 0: never seen so */
	struct row_stack_sample row; /* stack 0: none */
};

struct process {
	pid_t pid;
	bool seen;
	struct places places;
	struct python *python;
	struct waits *waiting; /* NULL: no memory */
	bool told_why;
	char program[FOLLOWED_PATH_MOST]; /* what its threads run, as the kernel says */
	/* Since when, and when that and Python were last looked for. */
	int64_t program_ns, program_sought_ns, python_sought_ns;
	struct thread *threads; /* by id */
	bool has_new_threads;	/* since those of Python were listed */
	size_t n, capacity;
	struct stack_shard shard;
	uint64_t samples, unread, untold; /* untold: nobody knows what was waited for */
	uint64_t unseen;		  /* threads without their times */
	uint64_t joined, leaves,
		apart; /* stacks of Python: with native functions, one of these, none */
};

struct sampler {
	pthread_t thread;
	struct wake wake;
	_Atomic bool ends;
	char *run;
	pid_t pid;
	unsigned int hz;
	struct native *native;
	char no_native[200]; /* why */
	struct process **processes;
	size_t n, capacity, opened;
	int64_t now_ns, looked_ns, written_ns;
	int numbers_fd;
	int64_t last_number; /* of the machine, when threads and processes were looked for */
	bool lost_one;	     /* a thread has ended */
	int64_t leaves_ns;   /* since when stacks of all threads that leave a processor come */
	int64_t searched_ns; /* when that was, and for how many threads */
	size_t searched;
	int trouble;
	struct err err;
};

/* Now and then: new processes and threads, those that have ended, and Python in them. */
void followed_search(struct sampler *s);
/* Who of a process's threads runs Python, anew. */
void followed_find_python_threads(struct process *p);
struct thread *followed_thread(struct process *p, pid_t id);
/* Writes down names that have changed. A thread is asked twice, as most name themselves soon after they began; all: again. */
void followed_name_threads(struct process *p, bool all);
/* What a thread did since its last row is written down. */
void followed_end_row(struct process *p, struct thread *t);
/* The process's shard is complete. */
void followed_close(struct sampler *s, struct process *p);

#endif
