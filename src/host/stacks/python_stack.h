/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python stacks of another process, CPython 3.9 to 3.14, read from its memory while it goes on: it
 * knows nothing of it and is never stopped. A stack is read, then checked once more; what has changed
 * in between is read again. One thread.
 */
#ifndef HOST_STACKS_PYTHON_STACK_H
#define HOST_STACKS_PYTHON_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct python;

/* 0; -ENOENT: no Python is in it, or it has not begun yet; or -errno with a sentence: it is a Python that is
 * not known here, or nobody may look at it. */
int python_open(struct python **ret_python, pid_t pid, char *why, size_t size);
/* The Python of this very process, for a thread that reads its own stack: there is no other try, as nothing changes
 * meanwhile. */
struct python_here {
	uint64_t runtime, code_type; /* where _PyRuntime and PyCode_Type are */
	int minor;
};
int python_open_here(struct python **ret_python, const struct python_here *here);
void python_close(struct python *python);
/* As in "3.12". */
int python_minor(const struct python *python);
bool python_is_free_threaded(const struct python *python);

/* Where the main thread of a Python from 3.14 on looks for a script that another process has it run (PEP 768). It is
 * in memory that lasts as long as the process. */
struct python_script_place {
	bool off; /* Python does not look */
	bool free_threaded;
	uint64_t flag, path; /* 32 bits; text */
	size_t path_bytes;
	uint64_t breaker; /* a byte that is not 0 where it has something to look at */
};
/* -ENOTSUP: it has none, or is not as it is known here; -ESRCH: its main thread runs no Python, or the process has gone. */
int python_script_place(const struct python *python, struct python_script_place *ret_place);

struct python_thread {
	pid_t id;
	uint64_t state; /* 0: it runs none */
	uint64_t word;	/* in the state, its alone: says whether it still is that thread's */
	uint64_t gil;	/* where the global lock of its interpreter is; 0: unknown */
	/* Where its innermost frame was, to begin with the next time. */
	struct python_place {
		uint64_t frame, c_frame, chunk;
	} place;
};
/* The calling thread, by its state, for python_open_here. */
bool python_thread_here(const struct python *python, uint64_t state,
			struct python_thread *ret_thread);
/* A thread that waits for the lock waits for a word of these. */
#define PYTHON_GIL_BYTES 224
/* Those that run Python, or -errno. Returns how many there are, at most `most` of which are filled in, without
 * a place. */
int python_threads(struct python *python, struct python_thread *threads, size_t most);
/* Whether one may have come since they were listed: new ones are first in the interpreter's list. Those that have
 * gone are -ESTALE to python_stack. */
bool python_has_new_threads(const struct python *python);

struct python_function {
	uint32_t name; /* for python_name */
	bool entry;    /* C has called it, not Python */
};

/* The functions on its stack, innermost first. Returns how many; a stack
 * deeper than `most` lacks its outermost. -EAGAIN: it changed too fast for its innermost functions to be
 * read; *ret_n are what is certain. -ESTALE: the state is not that thread's any more. -errno: the thread, or the
 * process, has gone. */
int python_stack(struct python *python, struct python_thread *thread,
		 struct python_function *functions, size_t most, size_t *ret_n);
/* "train (loop.py:12)", by the line at which the function begins. */
const char *python_name(const struct python *python, uint32_t name);

#endif
