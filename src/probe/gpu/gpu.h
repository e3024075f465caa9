/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU collection inside the process: CUPTI activity records, NVTX ranges, NVML readings.
 *
 * Threads: the driver calls InitializeInjection on the program's thread; CUPTI delivers finished
 * buffers on its own thread or inside a flush; our GPU thread flushes, reads NVML and does what the
 * governor decides (gears.h). Records go through the rings like everything else, so they survive a
 * kill.
 */
#ifndef PROBE_GPU_GPU_H
#define PROBE_GPU_GPU_H

#include <stddef.h>

/* Starts collection once a session runs and CUDA is in the process. Safe to call again. */
void gpu_start(void);
/* Call it once CUPTI and NVML are loaded: what is registered later runs earlier, so the session
 * ends before the destructors of those libraries run. */
void gpu_watch_exit(void);

/* nvml.c: open, then one reading after the other, then report what was missing. */
int nvml_open(char *words, size_t size);
void nvml_describe(void);
void nvml_sample(void);
void nvml_end(void);

#endif
