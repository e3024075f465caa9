/* SPDX-License-Identifier: Apache-2.0
 *
 * What is put into the memory of a program that is joined, for a moment: a function that Python calls between two
 * of its instructions, and the text that it has Python run. PyRun_SimpleString would print what a handler of the
 * program's signals raises meanwhile, and lose it; this one passes it on to the program. x86-64 only.
 */
#ifndef HOST_JOIN_LANDING_H
#define HOST_JOIN_LANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANDING_BYTES 8192
/* The function begins with it. When it has been left for good, there is a time here: then all of it can be unmapped. */
#define LANDING_LEFT_AT 256
#define LANDING_TEXT_AT 512

/* Functions that are in the program. */
struct landing_uses {
	uint64_t dict_new, run_string, dec_ref; /* Python's */
	uint64_t clock_gettime;			/* the C library's */
};

/* As it has to be at the address `at`. False: the text is too long. */
bool landing_make(unsigned char *landing, uint64_t at, const struct landing_uses *uses,
		  const char *text);

#endif
