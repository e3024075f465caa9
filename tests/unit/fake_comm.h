/* SPDX-License-Identifier: Apache-2.0
 *
 * Two of four ranks of a training program, built by hand.
 *
 * Ten steps of 1000 us. Rank 0 has device 0, rank 1 device 1. Of each step, in us after its begin:
 *
 *   0..400    gemm
 *   300..700  all-reduce of 1,000,000 floats by NCCL in group "dp", number of the step; rank 1 is late
 *             and begins at 380
 *   700..800  dispatch of DeepEP, without a record
 *   750..900  gemm
 *   900..950  a copy to the device
 *
 * The calls are at the begin of the step.
 */
#ifndef TESTS_FAKE_COMM_H
#define TESTS_FAKE_COMM_H

#include "fake_run.h"

#define FAKE_NCCL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define FAKE_DISPATCH "void deep_ep::internode::dispatch<false, 8>(int4*, float*)"

struct run *fake_comm_run(void);

/* On any process and device, in us, launched by a call at the begin of its step of 1000 us. */
void fake_comm_kernel(struct run *run, uint16_t shard, uint32_t device, const char *name,
		      int64_t start_us, int64_t end_us);
/* The record of a kernel, with group and sequence known when the group is not NULL. */
void fake_collective(struct run *run, uint16_t shard, uint32_t device, const char *name,
		     const char *group, uint64_t sequence, int64_t start_us, int64_t end_us);

#endif
