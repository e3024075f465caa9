/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of `doctor`. Text and JSON are made from the same list of them.
 *
 * Tests put a folder of their own, named by MOESCOPE_PROC, in place of /proc: the driver's settings,
 * the process's capabilities and the names of other processes are read from there.
 */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

enum check_state {
	CHECK_OK,
	CHECK_NOTE,   /* works less well, or not here */
	CHECK_FAILED, /* recording or reading needs it */
};

struct check {
	char name[24];
	enum check_state state;
	char text[640];
	char fix[512]; /* what to do; empty: nothing */
	bool has_number;
	const char *number_key; /* with its unit, for JSON */
	double number;
};

enum { DOCTOR_CHECKS_MAX = 100 }; /* with one for each of 64 devices */

struct checks {
	size_t n;
	struct check check[DOCTOR_CHECKS_MAX];
};

/* Does all checks. */
void doctor_look(struct checks *ret_checks);

/* For the files of doctor. A further check, "ok" and without text so far. */
struct check *checks_add(struct checks *checks, const char *name);
void check_found(struct check *check, enum check_state state, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void check_fix(struct check *check, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_number(struct check *check, const char *key, double value);
/* The value behind "key : value" in a file of /proc, or "". */
void proc_value(const char *name, const char *key, char *out, size_t size);
const char *proc_root(void);

/* doctor_gpu.c: driver, devices, libraries, permissions, other profilers, what each level gives. */
void doctor_look_gpu(struct checks *checks);

#endif
