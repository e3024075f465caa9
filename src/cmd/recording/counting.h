/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting of individual kernels (run --counters basic, say): what it will cost, and how far it is, as the programs'
 * buffer files tell from outside. One thread.
 */
#ifndef CMD_COUNTING_H
#define CMD_COUNTING_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/recording/counters.h"

#define COUNTING_LAUNCHES 1000 /* unless --launch-count says otherwise */

/* Says on standard error how long that will take. by_kernel: launches are chosen by their kernels' names. */
void counting_tell_cost(const struct counting_plan *planned, uint64_t launches, bool by_kernel);

#define COUNTING_LOOK_MS 250 /* from look to look */

struct counting_told {
	unsigned int parts; /* of those that are told */
};

/* A line on standard error when a tenth, half or all of the launches have been counted: the terminal is the program's,
 * whose own output a line that rewrites itself would tear apart. False: there will be no more. */
bool counting_tell(struct counting_told *told, const char *run);

#endif
