/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes device rows into the rings, for the floors that collect them. Any thread.
 */
#ifndef PROBE_CORE_DEVICE_ROWS_H
#define PROBE_CORE_DEVICE_ROWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/records.h"

struct probe_list;

/* A device row, its times in nanoseconds of CLOCK_MONOTONIC. On a thread that is not the program's
 * it waits briefly for the drain if the ring is full, then counts a drop. */
extern __thread bool probe_on_program_thread; /* then it never waits */
void probe_push_device(enum record_kind kind, const void *row, size_t row_size);
void probe_push_device_lists(enum record_kind kind, const void *row, size_t row_size,
			     const struct probe_list *lists, int n_lists);
/* Records that CUPTI or a device recorder dropped, and records of a kind that nothing here
 * requests. */
void probe_lost_device(uint64_t dropped, uint64_t unknown);
extern _Atomic uint64_t probe_device_dropped, probe_device_unknown;
/* A large ring, for a thread that carries device records. */
void probe_attach_large(void);

#endif
