/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of `doctor`.
 */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

enum check_state {
	CHECK_OK,
	CHECK_NOTE,   /* works less well, or not in this version */
	CHECK_FAILED, /* recording or reading needs it */
};

struct check {
	const char *name;
	enum check_state state;
	char text[512];
	char fix[256]; /* what to do; empty: nothing */
	bool has_number;
	const char *number_key; /* with its unit, for JSON */
	double number;
};

enum { DOCTOR_CHECKS_MAX = 24 };

/* Does all checks; returns how many. */
size_t doctor_look(struct check *checks);

#endif
