/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of samples, from inside the program; see trace/heap_file.h. Any thread, also in a signal handler, once it
 * is open: nothing waits and nothing is allocated.
 */
#ifndef HEAP_LOG_H
#define HEAP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/heap_file.h"

extern struct heap_header *heap_log; /* NULL: there is none */

/* Makes and maps it. False: that is not possible, and nothing is left behind. */
bool log_open(const char *run, uint64_t distance);

/* False: there was no place, which is counted. An allocation leaves places for frees. */
bool log_event(const struct heap_event *event);
/* The stack `parent` (0: none) with one more function. Returns the same stack if there is no place. */
uint32_t log_node(uint32_t parent, uint64_t function);
/* For log_node; 0: no place. */
uint64_t log_text(const char *text);
/* Which files are where in memory, for whoever names addresses after the program's end. Not in a signal handler. */
void log_modules(void);

#endif
