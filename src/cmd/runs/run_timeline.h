/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a run's timeline, made by the command that made the run.
 */
#ifndef CMD_RUN_TIMELINE_H
#define CMD_RUN_TIMELINE_H

#include <stdint.h>

/* Makes the index if the run has more events than serve would index in a moment, and at most `most`;
 * says why if it cannot. */
void run_index_timeline(const char *path, uint64_t most);

#endif
