/* SPDX-License-Identifier: Apache-2.0
 *
 * A run with metrics of single launches.
 */
#ifndef TESTS_FAKE_COUNTERS_H
#define TESTS_FAKE_COUNTERS_H

#include "fake_run.h"

/* Three launches of two kernels in two processes: numbers, texts that are the same and texts that
 * differ, an attribute of the device, advice of a rule. */
struct run *fake_counters_run(void);

/* Kernels with counters of the SMs, caches, memory, tensor cores and stalls, as `run --counters` writes them: a
 * launch has a part of the metrics. "attention" is bound by memory, "gemm" by the tensor cores, "scan" by latency,
 * "tiny" has one block, and of "rest" too little was counted. All but "tiny" have times in the run. */
struct run *fake_limits_run(void);

#endif
