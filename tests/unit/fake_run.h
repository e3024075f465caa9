/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs built by hand for tests of the analyses and views: any tables, no files. Stands in for
 * src/tables: it defines the look-ups of tables.h, so tests link this or tables.c, not both.
 * Any failure ends the test program.
 */
#ifndef TESTS_FAKE_RUN_H
#define TESTS_FAKE_RUN_H

#include "tables/tables.h"

/* A run with one shard, rank 0, pid 4242, "exited" with status 0, no records. */
struct run *fake_run_new(void);
void fake_run_free(struct run *run);
uint16_t fake_shard(struct run *run, uint32_t rank, uint32_t pid);

uint32_t fake_string(struct run *run, const char *text);
uint32_t fake_site(struct run *run, const char *name, int32_t layer, int32_t expert, uint8_t phase);

/* fake_add_range(run, shard, &(struct row_range){…}) and so on for every kind. Widens
 * run->start_ns and end_ns is up to the test (fake_span). */
#define KIND(id, NAME, name)                                                                       \
	void fake_add_##name(struct run *run, uint16_t shard, const struct row_##name *row);
RECORD_KINDS(KIND)
#undef KIND

void fake_span(struct run *run, int64_t start_ns, int64_t end_ns);

/* Shorthands. */
void fake_range(struct run *run, uint32_t site, int64_t start_ns, int64_t end_ns, uint32_t thread,
		uint8_t depth);
void fake_op(struct run *run, uint32_t site, int64_t start_ns, int64_t end_ns, uint32_t thread,
	     uint8_t depth, uint64_t flops);
void fake_step(struct run *run, int64_t step, int64_t start_ns, int64_t end_ns, uint64_t tokens);
/* All tokens use k slots: the loads must add up to tokens * k. */
void fake_routing(struct run *run, int64_t step, int64_t time_ns, int32_t layer, uint32_t k,
		  uint32_t experts, const uint32_t *load);

/* A launch of that name; the same id for the same name. */
uint32_t fake_launch(struct run *run, const char *name);
/* On device 0, stream 7. end_ns < 0: untimed. */
void fake_kernel(struct run *run, const char *name, int64_t start_ns, int64_t end_ns,
		 uint64_t correlation);
/* kind and memory as in records.h; device 0. */
void fake_copy(struct run *run, uint8_t kind, uint8_t host_memory, uint64_t bytes, int64_t start_ns,
	       int64_t end_ns, uint64_t correlation);
/* A successful runtime call of thread 1. */
void fake_call(struct run *run, const char *name, int64_t start_ns, int64_t end_ns,
	       uint64_t correlation);

/* Three training steps on one GPU: kernels of several classes in ranges, layers and phases,
 * copies beside them, a set, a failed call, an untimed kernel and one without its call,
 * memory of the driver. */
struct run *fake_gpu_run(void);

/* A small training run of 12 steps with everything in it: phases, worker threads, two MoE layers
 * with all tokens, memory with a leak, requests, counters, an overhead check. */
struct run *fake_training_run(void);

#endif
