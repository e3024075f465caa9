/* SPDX-License-Identifier: Apache-2.0
 *
 * The Python stacks of another process, CPython 3.9 to 3.14, read from its memory while it goes on: it
 * knows nothing of it and is never stopped. A stack is read, then checked once more; what has changed
 * in between is read again. One thread.
 */
#ifndef HOST_PYTHON_STACK_H
#define HOST_PYTHON_STACK_H

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

struct python_thread {
	pid_t id;
	uint64_t state; /* for python_stack */
	uint64_t gil;	/* where the global lock of its interpreter is; 0: unknown */
};
/* A thread that waits for the lock waits for a word of these. */
#define PYTHON_GIL_BYTES 224
/* Those that run Python, or -errno. Returns how many there are, at most `most` of which are filled in. */
int python_threads(struct python *python, struct python_thread *threads, size_t most);

/* The names of the functions on its stack, innermost first: ids for python_name. Returns how many; a stack
 * deeper than `most` lacks its outermost. -EAGAIN: it changed too fast for its innermost functions to be
 * read; *ret_n are what is certain. -errno: the thread, or the process, has gone. */
int python_stack(struct python *python, uint64_t state, uint32_t *names, size_t most,
		 size_t *ret_n);
/* "train (loop.py:12)", by the line at which the function begins. */
const char *python_name(const struct python *python, uint32_t name);

#endif
