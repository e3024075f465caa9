/* SPDX-License-Identifier: Apache-2.0
 *
 * How far counting of launches is (run --counters of kernels), as the programs' buffer files tell from outside. One
 * thread.
 */
#ifndef CMD_COUNTING_H
#define CMD_COUNTING_H

#include <stdbool.h>

#define COUNTING_LOOK_MS 250 /* from look to look */

struct counting_told {
	unsigned int parts; /* of those that are told */
};

/* A line on standard error when a tenth, half or all of the launches have been counted: the terminal is the program's,
 * whose own output a line that rewrites itself would tear apart. False: there will be no more. */
bool counting_tell(struct counting_told *told, const char *run);

#endif
