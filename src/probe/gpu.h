/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU collection inside the process: CUPTI activity records, NVTX ranges, NVML readings.
 *
 * Threads: the driver calls InitializeInjection on the program's thread; CUPTI hands finished
 * buffers over on a thread of its own or inside a flush; the GPU thread of ours flushes, reads NVML
 * and does what the governor says (gears.h). Records go through the rings like everything else, so that they survive a kill.
 */
#ifndef PROBE_GPU_H
#define PROBE_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/records.h"

/* Starts collection once a session runs and CUDA is in the process. Safe to call again. */
void gpu_start(void);
/* The same for a session that begins when CUDA may be in the process already. */
void gpu_join(void);
/* Delivers what CUPTI still holds, and stops collecting. Before the session's last flush. */
void gpu_stop(void);
/* To be called once CUPTI and NVML are loaded: what is registered later runs earlier, and so the
 * session ends before the destructors of those libraries run. */
void gpu_watch_exit(void);
void gpu_after_fork(void);

/* Records that CUPTI or a recorder on the device dropped, and records of a kind that nothing here asks for. */
void gpu_lost(uint64_t dropped, uint64_t unknown);
extern _Atomic uint64_t gpu_dropped, gpu_unknown;

/* A row whose times are nanoseconds of CLOCK_MONOTONIC. On a thread that is not the program's it
 * waits a moment for the drain when the ring is full, then counts a drop. */
extern __thread bool gpu_on_program_thread; /* then it never waits */
void gpu_push(enum record_kind kind, const void *row, size_t row_size);
struct probe_list;
void gpu_push_lists(enum record_kind kind, const void *row, size_t row_size,
		    const struct probe_list *lists, int n_lists);

/* nvml.c: what is there, then one reading after the other, then what was missing. */
int nvml_open(char *words, size_t size);
void nvml_describe(void);
void nvml_sample(void);
void nvml_end(void);

/* The large ring of a thread that carries device records. */
void probe_attach_large(void);

#endif
