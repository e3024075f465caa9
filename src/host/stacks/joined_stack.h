/* SPDX-License-Identifier: Apache-2.0
 *
 * One stack of a thread's Python functions and its native ones, both of the same moment. The interpreter runs
 * Python in a native function of its own; each call of that from C stands for the Python functions that have
 * called each other since. Names are numbers of the caller's. Any thread.
 */
#ifndef HOST_STACKS_JOINED_STACK_H
#define HOST_STACKS_JOINED_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/stacks/python_stack.h"

enum join_kind {
	JOIN_OTHER,
	JOIN_EVAL, /* runs Python functions */
	JOIN_GLUE, /* of the interpreter, between these and what they call; says nothing */
	JOIN_BASE, /* of the C library, without a name: outside all Python functions it has started the program */
};
/* Of a native function as symbols_name has it: "name (file)". */
enum join_kind join_kind_of(const char *label);

struct join_native {
	uint32_t name;
	enum join_kind kind;
};

/* All innermost first. True: whole. False: native functions are missing, as those built without frame pointers
 * leave out their callers; then only the innermost one is sure to be inside all Python functions. At most
 * n_python + n_native names. */
bool join_stacks(const struct python_function *python, size_t n_python,
		 const struct join_native *native, size_t n_native, uint32_t *names, size_t *ret_n);

#endif
