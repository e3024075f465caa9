/* SPDX-License-Identifier: Apache-2.0
 *
 * The record kinds of a run: the one list from which the enumeration, the row structures, the
 * codec's column tables, the loaded tables and `docs/format.md` are made.
 *
 * Ids of kinds and columns are on disk and never change or get reused; both lists only grow.
 * A reader skips (and counts) kinds and columns that it does not know, and gives a column that
 * a file does not have its default, 0.
 *
 * KIND(id, NAME, name): the columns of it are in RECORD_COLUMNS_name.
 * Column: C(id, field, TYPE, CODING)
 *   TYPE    U8 U16 U32 U64 I32 I64 F64   how a row and a loaded table hold it
 *   CODING  PLAIN  values minus the chunk's smallest
 *           DELTA  difference to the row before
 *           START  a start time: difference to the end (start + the START column's duration) of
 *                  the row before; back-to-back work then costs almost nothing
 *           DUR    the duration that goes with START; there is at most one pair in a kind
 *           FLOAT  the bits of a double
 *           STRING SITE LAUNCH  the id of a row of that dictionary; stored as PLAIN
 *   L(id, field, TYPE, count_field): a list; row i has count_field[i] values
 *   B(id, field, count_field): bytes, likewise
 *
 * Times are CLOCK_MONOTONIC nanoseconds of the recording host.
 */
#ifndef TRACE_RECORDS_H
#define TRACE_RECORDS_H

#include <stddef.h>
#include <stdint.h>

#define RECORD_KINDS(KIND)                                                                         \
	KIND(1, STRING, string)                                                                    \
	KIND(2, SITE, site)                                                                        \
	KIND(3, LAUNCH, launch)                                                                    \
	KIND(4, KERNEL, kernel)                                                                    \
	KIND(5, RANGE, range)                                                                      \
	KIND(6, OP, op)                                                                            \
	KIND(7, STEP, step)                                                                        \
	KIND(8, MEMORY, memory)                                                                    \
	KIND(9, COUNTER, counter)                                                                  \
	KIND(10, MARK, mark)                                                                       \
	KIND(11, ROUTING, routing)                                                                 \
	KIND(12, ROUTED, routed)                                                                   \
	KIND(13, MOE_LAYER, moe_layer)                                                             \
	KIND(14, TOKEN, token)                                                                     \
	KIND(15, FACT, fact)                                                                       \
	KIND(16, THREAD, thread)                                                                   \
	KIND(17, COST, cost)                                                                       \
	KIND(18, COPY, copy)                                                                       \
	KIND(19, SET, set)                                                                         \
	KIND(20, API, api)                                                                         \
	KIND(21, SYNC, sync)                                                                       \
	KIND(22, DEVICE, device)                                                                   \
	KIND(23, SAMPLE, sample)                                                                   \
	KIND(24, DEVICE_MEMORY, device_memory)                                                     \
	KIND(25, GEAR, gear)                                                                       \
	KIND(26, GRAPH_NODE, graph_node)                                                           \
	KIND(27, PROCESS, process)                                                                 \
	KIND(28, POOL, pool)                                                                       \
	KIND(29, DEVICE_COST, device_cost)                                                         \
	KIND(30, SPAN, span)                                                                       \
	KIND(31, PAYLOAD, payload)                                                                 \
	KIND(32, COLLECTIVE, collective)                                                           \
	KIND(33, FRAME, frame)                                                                     \
	KIND(34, FLOW, flow)                                                                       \
	KIND(35, METRIC, metric)                                                                   \
	KIND(36, OS_CALL, os_call)                                                                 \
	KIND(37, STACK, stack)                                                                     \
	KIND(38, STACK_SAMPLE, stack_sample)                                                       \
	KIND(39, HOST_SAMPLE, host_sample)                                                         \
	KIND(40, HEAP_SAMPLE, heap_sample)                                                         \
	KIND(41, CALL_COUNT, call_count)                                                           \
	KIND(42, LIBRARY_CALL, library_call)                                                       \
	KIND(43, COUNTED, counted)                                                                 \
	KIND(44, PC_SAMPLE, pc_sample)

/* Dictionaries: rows of other kinds refer to them by id, dense from 1; 0 is "none". */
#define RECORD_COLUMNS_string(C, L, B)                                                             \
	C(1, id, U32, DELTA)                                                                       \
	C(2, length, U32, PLAIN)                                                                   \
	B(3, text, length)
/* Where in the program: a name with its place in the model. layer, expert -1: none. */
#define RECORD_COLUMNS_site(C, L, B)                                                               \
	C(1, id, U32, DELTA)                                                                       \
	C(2, name, U32, STRING)                                                                    \
	C(3, layer, I32, PLAIN)                                                                    \
	C(4, expert, I32, PLAIN)                                                                   \
	C(5, phase, U8, PLAIN)
/* How a kernel was launched: real programs have a few hundred of these. */
#define RECORD_COLUMNS_launch(C, L, B)                                                             \
	C(1, id, U32, DELTA)                                                                       \
	C(2, name, U32, STRING)                                                                    \
	C(3, grid_x, U32, PLAIN)                                                                   \
	C(4, grid_y, U32, PLAIN)                                                                   \
	C(5, grid_z, U32, PLAIN)                                                                   \
	C(6, block_x, U32, PLAIN)                                                                  \
	C(7, block_y, U32, PLAIN)                                                                  \
	C(8, block_z, U32, PLAIN)                                                                  \
	C(9, registers, U32, PLAIN)                                                                \
	C(10, static_shared_bytes, U32, PLAIN)                                                     \
	C(11, dynamic_shared_bytes, U32, PLAIN)
/* untimed: no device timestamps; start_ns is then the delivery time and duration_ns 0. */
#define RECORD_COLUMNS_kernel(C, L, B)                                                             \
	C(1, launch, U32, LAUNCH)                                                                  \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, stream, U32, PLAIN)                                                                   \
	C(5, device, U32, PLAIN)                                                                   \
	C(6, correlation, U64, DELTA)                                                              \
	C(7, untimed, U8, PLAIN)                                                                   \
	C(8, context, U32, PLAIN)                                                                  \
	C(9, graph, U32, PLAIN)                                                                    \
	C(10, graph_node, U64, DELTA)
/* unfinished: the process ended inside the range; its duration is up to the last sign of life. */
#define RECORD_COLUMNS_range(C, L, B)                                                              \
	C(1, site, U32, SITE)                                                                      \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, depth, U8, PLAIN)                                                                     \
	C(6, unfinished, U8, PLAIN)
/* unknown: bit 0 flops, bit 1 bytes are unknown; the column is then 0. stack: the calls it was made
 * from, outermost first, separated by ';'. */
#define RECORD_COLUMNS_op(C, L, B)                                                                 \
	C(1, site, U32, SITE)                                                                      \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, depth, U8, PLAIN)                                                                     \
	C(6, unfinished, U8, PLAIN)                                                                \
	C(7, shape, U32, STRING)                                                                   \
	C(8, flops, U64, PLAIN)                                                                    \
	C(9, bytes, U64, PLAIN)                                                                    \
	C(10, unknown, U8, PLAIN)                                                                  \
	C(11, stack, U32, STRING)
#define OP_FLOPS_UNKNOWN 1
#define OP_BYTES_UNKNOWN 2
/* recorded 0: paused or not in the schedule; only its time is known. tokens_known 0: tokens was not
 * given. probe: 0 no overhead check, 1 its step with recording on, 2 with recording off. source:
 * enum step_source. stage: enum step_stage. batch: requests; 0: unknown. first: the session's
 * first, whose start no call marked; everything before it is part of it. */
#define RECORD_COLUMNS_step(C, L, B)                                                               \
	C(1, step, I64, DELTA)                                                                     \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, tokens, U64, PLAIN)                                                                   \
	C(5, tokens_known, U8, PLAIN)                                                              \
	C(6, recorded, U8, PLAIN)                                                                  \
	C(7, probe, U8, PLAIN)                                                                     \
	C(8, unfinished, U8, PLAIN)                                                                \
	C(9, source, U8, PLAIN)                                                                    \
	C(10, stage, U8, PLAIN)                                                                    \
	C(11, batch, U16, PLAIN)                                                                   \
	C(12, first, U8, PLAIN)
#define STEP_FIRST_STARTED 1 /* it began with the session, started by the program */
#define STEP_FIRST_LOADED 2  /* with the library, so its time includes set-up */
/* Who marked this as a step. */
enum step_source {
	STEP_TOLD = 0,	    /* the program, to its profiler */
	STEP_BY_NAME = 1,   /* the name of a range, as inference engines give it */
	STEP_ON_DEVICE = 2, /* the same, with only the device's side of the range */
	STEP_REPEATED = 3,  /* nobody: the work repeats there; an estimate */
};
enum step_stage { STEP_STAGE_UNKNOWN, STEP_PREFILL, STEP_DECODE, STEP_MIXED };
/* An allocation (event 0) or free (event 1; bytes 0: unknown) in the program's own allocator;
 * memory it took from the driver (2) and returned (3); what was live in it before its first event
 * here (4, without an address). */
#define RECORD_COLUMNS_memory(C, L, B)                                                             \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, event, U8, PLAIN)                                                                     \
	C(3, address, U64, DELTA)                                                                  \
	C(4, bytes, U64, PLAIN)                                                                    \
	C(5, device, I32, PLAIN)                                                                   \
	C(6, use, U8, PLAIN)                                                                       \
	C(7, site, U32, STRING)                                                                    \
	C(8, thread, U32, PLAIN)
#define RECORD_COLUMNS_counter(C, L, B)                                                            \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, name, U32, STRING)                                                                    \
	C(3, value, F64, FLOAT)
#define RECORD_COLUMNS_mark(C, L, B)                                                               \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, text, U32, STRING)                                                                    \
	C(3, thread, U32, PLAIN)
/* One layer of one step. load: assignments per expert. k_hist: tokens that used 0..k slots.
 * Slots: tokens*k = sum(load) + unused + dropped + invalid. The *_sum columns are over
 * weighted_tokens and scored_tokens (0: not captured). */
#define RECORD_COLUMNS_routing(C, L, B)                                                            \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, step, I64, DELTA)                                                                     \
	C(3, layer, I32, PLAIN)                                                                    \
	C(4, phase, U8, PLAIN)                                                                     \
	C(5, k, U32, PLAIN)                                                                        \
	C(6, tokens, U64, PLAIN)                                                                   \
	C(7, padding, U64, PLAIN)                                                                  \
	C(8, unused, U64, PLAIN)                                                                   \
	C(9, dropped, U64, PLAIN)                                                                  \
	C(10, invalid, U64, PLAIN)                                                                 \
	C(11, experts, U32, PLAIN)                                                                 \
	C(12, k_slots, U32, PLAIN)                                                                 \
	C(13, weighted_tokens, U64, PLAIN)                                                         \
	C(14, confidence_sum, F64, FLOAT)                                                          \
	C(15, scored_tokens, U64, PLAIN)                                                           \
	C(16, entropy_sum, F64, FLOAT)                                                             \
	C(17, top1_sum, F64, FLOAT)                                                                \
	C(18, topk_mass_sum, F64, FLOAT)                                                           \
	C(19, margin_sum, F64, FLOAT)                                                              \
	L(20, load, U32, experts)                                                                  \
	L(21, k_hist, U32, k_slots)
/* The slots of consecutive tokens of one layer and step (level full), as given to the API; first:
 * row of the first one; slots = rows*k. weight: each slot's share of the token's router weights, in
 * 255ths; weights is slots, or 0 if they were not kept. */
#define RECORD_COLUMNS_routed(C, L, B)                                                             \
	C(1, step, I64, DELTA)                                                                     \
	C(2, layer, I32, PLAIN)                                                                    \
	C(3, phase, U8, PLAIN)                                                                     \
	C(4, k, U32, PLAIN)                                                                        \
	C(5, first, U64, PLAIN)                                                                    \
	C(6, slots, U32, PLAIN)                                                                    \
	L(7, expert, I32, slots)                                                                   \
	C(8, weights, U32, PLAIN)                                                                  \
	L(9, weight, U8, weights)
#define RECORD_COLUMNS_moe_layer(C, L, B)                                                          \
	C(1, layer, I32, PLAIN)                                                                    \
	C(2, experts, U32, PLAIN)                                                                  \
	C(3, k, U32, PLAIN)                                                                        \
	C(4, hidden, U32, PLAIN)                                                                   \
	C(5, inner, U32, PLAIN)                                                                    \
	C(6, matrices, U32, PLAIN)                                                                 \
	C(7, expert_bytes, U64, PLAIN)                                                             \
	C(8, capacity_factor, F64, FLOAT)
/* event 0: request begins, count = prompt tokens; 1: a token; 2: request ends. */
#define RECORD_COLUMNS_token(C, L, B)                                                              \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, request, U64, PLAIN)                                                                  \
	C(3, event, U8, PLAIN)                                                                     \
	C(4, count, U64, PLAIN)
#define RECORD_COLUMNS_fact(C, L, B)                                                               \
	C(1, key, U32, STRING)                                                                     \
	C(2, value, U32, STRING)
#define RECORD_COLUMNS_thread(C, L, B)                                                             \
	C(1, thread, U32, PLAIN)                                                                   \
	C(2, name, U32, STRING)
/* The profiler's own cost since the previous row: CPU time of its thread, records taken. */
#define RECORD_COLUMNS_cost(C, L, B)                                                               \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, drain_cpu_ns, U64, PLAIN)                                                             \
	C(3, records, U64, PLAIN)                                                                  \
	C(4, bytes, U64, PLAIN)

/* A copy by a device's engine. kind, source and target as CUPTI numbers them: kind 1 host to
 * device, 2 device to host, 8 device to device, 10 peer to peer; memory 1 pageable, 2 pinned, 3
 * device, 4 array, 5 managed. Both devices of a copy that is not peer to peer are `device`.
 * asynchronous: as requested by the program; unknown in files of other profilers. */
#define RECORD_COLUMNS_copy(C, L, B)                                                               \
	C(1, start_ns, I64, START)                                                                 \
	C(2, duration_ns, I64, DUR)                                                                \
	C(3, bytes, U64, PLAIN)                                                                    \
	C(4, kind, U8, PLAIN)                                                                      \
	C(5, source_memory, U8, PLAIN)                                                             \
	C(6, target_memory, U8, PLAIN)                                                             \
	C(7, device, U32, PLAIN)                                                                   \
	C(8, stream, U32, PLAIN)                                                                   \
	C(9, correlation, U64, DELTA)                                                              \
	C(10, source_device, U32, PLAIN)                                                           \
	C(11, target_device, U32, PLAIN)                                                           \
	C(12, asynchronous, U8, PLAIN)                                                             \
	C(13, untimed, U8, PLAIN)                                                                  \
	C(14, context, U32, PLAIN)                                                                 \
	C(15, graph, U32, PLAIN)                                                                   \
	C(16, graph_node, U64, DELTA)
#define BYTES_NOT_TOLD UINT64_MAX /* of a copy or set, in files of other profilers */
#define COPY_ASYNCHRONOUS 1
#define COPY_NOT_TOLD UINT8_MAX
#define RECORD_COLUMNS_set(C, L, B)                                                                \
	C(1, start_ns, I64, START)                                                                 \
	C(2, duration_ns, I64, DUR)                                                                \
	C(3, bytes, U64, PLAIN)                                                                    \
	C(4, memory, U8, PLAIN)                                                                    \
	C(5, device, U32, PLAIN)                                                                   \
	C(6, stream, U32, PLAIN)                                                                   \
	C(7, correlation, U64, DELTA)                                                              \
	C(8, untimed, U8, PLAIN)                                                                   \
	C(9, context, U32, PLAIN)                                                                  \
	C(10, graph, U32, PLAIN)                                                                   \
	C(11, graph_node, U64, DELTA)
/* A call into the CUDA runtime (driver 0) or driver (1); status 0 is success. */
#define RECORD_COLUMNS_api(C, L, B)                                                                \
	C(1, name, U32, STRING)                                                                    \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, correlation, U64, DELTA)                                                              \
	C(6, driver, U8, PLAIN)                                                                    \
	C(7, status, U32, PLAIN)
#define API_NOT_TOLD UINT32_MAX /* the status, in files of other profilers */
/* The host waits. type: 1 event, 2 stream waits for event, 3 stream, 4 context. */
#define RECORD_COLUMNS_sync(C, L, B)                                                               \
	C(1, start_ns, I64, START)                                                                 \
	C(2, duration_ns, I64, DUR)                                                                \
	C(3, type, U8, PLAIN)                                                                      \
	C(4, context, U32, PLAIN)                                                                  \
	C(5, stream, U32, PLAIN)                                                                   \
	C(6, correlation, U64, DELTA)
/* What a device is; 0 in a number: the driver did not say. */
#define RECORD_COLUMNS_device(C, L, B)                                                             \
	C(1, device, U32, PLAIN)                                                                   \
	C(2, name, U32, STRING)                                                                    \
	C(3, uuid, U32, STRING)                                                                    \
	C(4, memory_bytes, U64, PLAIN)                                                             \
	C(5, multiprocessors, U32, PLAIN)                                                          \
	C(6, capability, U32, PLAIN)                                                               \
	C(7, clock_khz, U32, PLAIN)                                                                \
	C(8, memory_bytes_per_s, U64, PLAIN)                                                       \
	C(9, l2_bytes, U32, PLAIN)                                                                 \
	C(10, threads_per_multiprocessor, U32, PLAIN)                                              \
	C(11, registers_per_multiprocessor, U32, PLAIN)                                            \
	C(12, shared_bytes_per_multiprocessor, U32, PLAIN)                                         \
	C(13, blocks_per_multiprocessor, U32, PLAIN)
/* One reading of one device metric; the unit is in the metric's name. */
#define RECORD_COLUMNS_sample(C, L, B)                                                             \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, device, U32, PLAIN)                                                                   \
	C(3, metric, U32, STRING)                                                                  \
	C(4, value, F64, FLOAT)
/* An allocation (event 0) or free (event 1) by the CUDA driver; memory as in copy. */
#define RECORD_COLUMNS_device_memory(C, L, B)                                                      \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, event, U8, PLAIN)                                                                     \
	C(3, address, U64, DELTA)                                                                  \
	C(4, bytes, U64, PLAIN)                                                                    \
	C(5, memory, U8, PLAIN)                                                                    \
	C(6, device, U32, PLAIN)                                                                   \
	C(7, correlation, U64, DELTA)                                                              \
	C(8, pool, U64, PLAIN)
/* From time_ns device records are collected in this gear, until the next row of the process. gear:
 * 0 none, 1 counts (no device records), 2 windows, 3 always, 4 yielded to another client. attached
 * 1: they are being collected now. cost_pct: cost to the program while attached, in percent of wall
 * time, estimated by the governor; 0: unknown so far. device_bytes is an estimate too. */
#define RECORD_COLUMNS_gear(C, L, B)                                                               \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, gear, U8, PLAIN)                                                                      \
	C(3, attached, U8, PLAIN)                                                                  \
	C(4, why, U32, STRING)                                                                     \
	C(5, cost_pct, F64, FLOAT)                                                                 \
	C(6, device_bytes, U64, PLAIN)
/* A node of a CUDA graph was created on this thread: what its kernels belong to. source: the node
 * it is a copy of, 0: none. */
#define RECORD_COLUMNS_graph_node(C, L, B)                                                         \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, thread, U32, PLAIN)                                                                   \
	C(3, graph, U32, PLAIN)                                                                    \
	C(4, node, U64, DELTA)                                                                     \
	C(5, source, U64, DELTA)
/* A process that uses a device, as the driver lists it; kind 0 compute, 1 graphics. bytes 0:
 * unknown. */
#define RECORD_COLUMNS_process(C, L, B)                                                            \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, device, U32, PLAIN)                                                                   \
	C(3, pid, U32, PLAIN)                                                                      \
	C(4, name, U32, STRING)                                                                    \
	C(5, bytes, U64, PLAIN)                                                                    \
	C(6, kind, U8, PLAIN)
/* A memory pool of the driver: event 0 created, 1 destroyed, 2 trimmed. */
#define RECORD_COLUMNS_pool(C, L, B)                                                               \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, event, U8, PLAIN)                                                                     \
	C(3, address, U64, DELTA)                                                                  \
	C(4, device, U32, PLAIN)                                                                   \
	C(5, bytes, U64, PLAIN)                                                                    \
	C(6, used_bytes, U64, PLAIN)                                                               \
	C(7, release_bytes, U64, PLAIN)
/* What collecting device records cost since the previous row: CUPTI's own account of its overhead,
 * CPU time for translating, time that calls of the program were held, time for attaching and
 * detaching; kernels and calls seen meanwhile. */
#define RECORD_COLUMNS_device_cost(C, L, B)                                                        \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, cupti_ns, U64, PLAIN)                                                                 \
	C(3, translate_ns, U64, PLAIN)                                                             \
	C(4, held_ns, U64, PLAIN)                                                                  \
	C(5, switch_ns, U64, PLAIN)                                                                \
	C(6, kernels, U64, PLAIN)                                                                  \
	C(7, calls, U64, PLAIN)
/* A range that may end on a different thread than it began on (NVTX start and end). unfinished: the
 * session ended inside it; end_thread is then 0. */
#define RECORD_COLUMNS_span(C, L, B)                                                               \
	C(1, name, U32, STRING)                                                                    \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, end_thread, U32, PLAIN)                                                               \
	C(6, domain, U32, STRING)                                                                  \
	C(7, unfinished, U8, PLAIN)
/* The number that an NVTX range or mark carries, with its domain and category, at its start. type:
 * 1 unsigned, 2 signed, 3 floating point, 0 only a category or a payload with a schema; bits: the
 * program's value, widened to 64 bits. */
#define RECORD_COLUMNS_payload(C, L, B)                                                            \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, thread, U32, PLAIN)                                                                   \
	C(3, name, U32, STRING)                                                                    \
	C(4, domain, U32, STRING)                                                                  \
	C(5, category, U32, PLAIN)                                                                 \
	C(6, type, U8, PLAIN)                                                                      \
	C(7, bits, U64, PLAIN)

/* A kernel that moves data between devices or ranks, as its communicator describes it; the kernel
 * has its own row. name: "allreduce" and so on. group, sequence: the same on every participating
 * rank; sequence_known 0: unknown. elements 0: unknown. CPU collectives (gloo, MPI) have no kernel:
 * device is then COLLECTIVE_ON_HOST and stream the thread. */
#define COLLECTIVE_ON_HOST UINT32_MAX
#define RECORD_COLUMNS_collective(C, L, B)                                                         \
	C(1, name, U32, STRING)                                                                    \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, device, U32, PLAIN)                                                                   \
	C(5, stream, U32, PLAIN)                                                                   \
	C(6, correlation, U64, DELTA)                                                              \
	C(7, group, U32, STRING)                                                                   \
	C(8, sequence, U64, DELTA)                                                                 \
	C(9, sequence_known, U8, PLAIN)                                                            \
	C(10, group_size, U32, PLAIN)                                                              \
	C(11, type, U32, STRING)                                                                   \
	C(12, in_elements, U64, PLAIN)                                                             \
	C(13, out_elements, U64, PLAIN)
/* A function call in the program (Python's, as other profilers record them). */
#define RECORD_COLUMNS_frame(C, L, B)                                                              \
	C(1, name, U32, STRING)                                                                    \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, depth, U16, PLAIN)
/* An arrow from one moment of a thread to a later one of the same or another thread, such as from a
 * forward operation to its backward one. Launches need none: they have correlations. */
#define RECORD_COLUMNS_flow(C, L, B)                                                               \
	C(1, name, U32, STRING)                                                                    \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, end_thread, U32, PLAIN)                                                               \
	C(6, id, U64, DELTA)
/* A metric of one launch from a kernel profiler (Nsight Compute), which replays kernels: there is
 * no time. profile: number of the launch in its file. section: its group of metrics, or 0. text:
 * the value if not numeric; value is then 0. */
#define RECORD_COLUMNS_metric(C, L, B)                                                             \
	C(1, launch, U32, LAUNCH)                                                                  \
	C(2, profile, U32, DELTA)                                                                  \
	C(3, device, U32, PLAIN)                                                                   \
	C(4, context, U32, PLAIN)                                                                  \
	C(5, stream, U32, PLAIN)                                                                   \
	C(6, section, U32, STRING)                                                                 \
	C(7, name, U32, STRING)                                                                    \
	C(8, unit, U32, STRING)                                                                    \
	C(9, value, F64, FLOAT)                                                                    \
	C(10, text, U32, STRING)
/* When and on which thread the program made a launch that `run --counters` has counted: its metrics have the same
 * profile. */
#define RECORD_COLUMNS_counted(C, L, B)                                                            \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, profile, U32, DELTA)                                                                  \
	C(3, thread, U32, PLAIN)
/* What CUPTI's PC sampling saw since the row before of the same instruction and reason: how often a warp was there and
 * could not go on for that reason (by NVIDIA's name for it). offset: of the instruction in the kernel, in bytes.
 * module: CUPTI's number of the cubin. file and line: 0 without line information. kernel 0: samples of no kernel that
 * is told, and the reason says why. */
#define RECORD_COLUMNS_pc_sample(C, L, B)                                                          \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, kernel, U32, STRING)                                                                  \
	C(3, reason, U32, STRING)                                                                  \
	C(4, samples, U64, PLAIN)                                                                  \
	C(5, device, U32, PLAIN)                                                                   \
	C(6, context, U32, PLAIN)                                                                  \
	C(7, module, U64, PLAIN)                                                                   \
	C(8, offset, U64, PLAIN)                                                                   \
	C(9, file, U32, STRING)                                                                    \
	C(10, line, U32, PLAIN)
/* A call into the operating system, as Nsight Systems and `run --calls` record them. bytes: that it has moved,
 * if bytes_known. file: what its descriptor was, enum call_file. */
#define RECORD_COLUMNS_os_call(C, L, B)                                                            \
	C(1, name, U32, STRING)                                                                    \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, bytes, U64, PLAIN)                                                                    \
	C(6, bytes_known, U8, PLAIN)                                                               \
	C(7, file, U8, PLAIN)
/* FILE(id, NAME, word): what a descriptor stands for. */
#define CALL_FILES(FILE)                                                                           \
	FILE(0, NONE, "")                                                                          \
	FILE(1, FILE, "file")                                                                      \
	FILE(2, DIRECTORY, "directory")                                                            \
	FILE(3, DEVICE, "device")                                                                  \
	FILE(4, PIPE, "pipe")                                                                      \
	FILE(5, SOCKET, "socket")                                                                  \
	FILE(6, OTHER, "other") /* an event, a timer, a set of others */
enum call_file {
#define FILE(id, NAME, word) CALL_ON_##NAME = id,
	CALL_FILES(FILE)
#undef FILE
		CALL_FILE_LIMIT /* one past the last known */
};

/* A stack of functions: the innermost, and the stack that has called it (0: none), whose id is lower. Ids
 * count from 1 in each shard. */
#define RECORD_COLUMNS_stack(C, L, B)                                                              \
	C(1, id, U32, DELTA)                                                                       \
	C(2, parent, U32, PLAIN)                                                                   \
	C(3, name, U32, STRING)
/* What a thread did since it was looked at before, by the stack that it has now. cpu_ns: on a processor;
 * ready_ns: waiting for one; it waited for something else in the rest. samples: looks that this stands
 * for. wait: what it waited for, enum wait_cause. */
#define RECORD_COLUMNS_stack_sample(C, L, B)                                                       \
	C(1, start_ns, I64, START)                                                                 \
	C(2, duration_ns, I64, DUR)                                                                \
	C(3, thread, U32, PLAIN)                                                                   \
	C(4, stack, U32, PLAIN)                                                                    \
	C(5, cpu_ns, I64, PLAIN)                                                                   \
	C(6, ready_ns, I64, PLAIN)                                                                 \
	C(7, samples, U32, PLAIN)                                                                  \
	C(8, wait, U8, PLAIN)
/* CAUSE(id, NAME, name, words): what a thread waited for. */
#define WAIT_CAUSES(CAUSE)                                                                         \
	CAUSE(0, UNKNOWN, unknown, "that nobody could tell the cause of")                          \
	CAUSE(1, LOCK, lock, "for a lock, a condition or the end of a thread")                     \
	CAUSE(2, GIL, gil, "for Python's global lock")                                             \
	CAUSE(3, SLEEP, sleep, "for a time to pass")                                               \
	CAUSE(4, FILE, file, "for a file or a page of memory")                                     \
	CAUSE(5, NETWORK, network, "for the network")                                              \
	CAUSE(6, PIPE, pipe, "for a pipe, a local socket or an event of another thread")           \
	CAUSE(7, POLL, poll, "for one of several descriptors")                                     \
	CAUSE(8, CHILD, child, "for a process that it has started")                                \
	CAUSE(9, CUDA, cuda, "for a GPU")                                                          \
	CAUSE(10, OTHER, other, "for anything else")                                               \
	CAUSE(11, ENDED, ended, "that was over when the thread was looked at")
enum wait_cause {
#define CAUSE(id, NAME, name, words) WAIT_##NAME = id,
	WAIT_CAUSES(CAUSE)
#undef CAUSE
		WAIT_CAUSE_LIMIT /* one past the last known */
};
/* A reading of the machine or of a process of the program, from outside. place: enum host_place; name: which
 * of them; metric: see trace/host_metrics.h. A reading holds until the next one of the same: only what has
 * changed is written. */
#define RECORD_COLUMNS_host_sample(C, L, B)                                                        \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, place, U8, PLAIN)                                                                     \
	C(3, name, U32, STRING)                                                                    \
	C(4, metric, U32, STRING)                                                                  \
	C(5, value, I64, PLAIN)
/* An allocation of host memory that was sampled (event 0), or its end (event 1), which repeats what the
 * allocation said: so live memory is the difference of two sums. size: bytes asked for. bytes: what the sample stands
 * for; sums of it are estimates of all allocations. held_ns: of an end, the time since the allocation. thread, stack:
 * those that allocated it. */
#define RECORD_COLUMNS_heap_sample(C, L, B)                                                        \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, event, U8, PLAIN)                                                                     \
	C(3, thread, U32, PLAIN)                                                                   \
	C(4, stack, U32, PLAIN)                                                                    \
	C(5, size, U64, PLAIN)                                                                     \
	C(6, bytes, U64, PLAIN)                                                                    \
	C(7, held_ns, I64, PLAIN)
#define HEAP_SAMPLE_TAKEN 0
#define HEAP_SAMPLE_FREED 1

/* Calls that have no row of their own, of all threads, since the row before of the same name and library: those
 * shorter than the threshold, and those of threads that have no buffer. library 0: the operating system.
 * Uncontended locks count without their time. */
#define RECORD_COLUMNS_call_count(C, L, B)                                                         \
	C(1, time_ns, I64, DELTA)                                                                  \
	C(2, name, U32, STRING)                                                                    \
	C(3, library, U32, STRING)                                                                 \
	C(4, calls, U64, PLAIN)                                                                    \
	C(5, total_ns, U64, PLAIN)                                                                 \
	C(6, bytes, U64, PLAIN)
/* A call into a library that works on the device: "cublas", "cudnn" or "nccl". type: of its numbers. gemm_*,
 * batch: of a matrix product, as the library counts them; 0: it is none. elements: of a collective, as its
 * arguments count them; 0: none. peer: root or other side; -1: none. communicator: its address; 0: none. status:
 * what it has returned, 0 is success, API_NOT_TOLD unknown. */
#define RECORD_COLUMNS_library_call(C, L, B)                                                       \
	C(1, name, U32, STRING)                                                                    \
	C(2, start_ns, I64, START)                                                                 \
	C(3, duration_ns, I64, DUR)                                                                \
	C(4, thread, U32, PLAIN)                                                                   \
	C(5, library, U32, STRING)                                                                 \
	C(6, type, U32, STRING)                                                                    \
	C(7, gemm_m, U64, PLAIN)                                                                   \
	C(8, gemm_n, U64, PLAIN)                                                                   \
	C(9, gemm_k, U64, PLAIN)                                                                   \
	C(10, batch, U64, PLAIN)                                                                   \
	C(11, elements, U64, PLAIN)                                                                \
	C(12, peer, I32, PLAIN)                                                                    \
	C(13, communicator, U64, PLAIN)                                                            \
	C(14, status, U32, PLAIN)

enum record_kind {
#define KIND(id, NAME, name) RECORD_##NAME = id,
	RECORD_KINDS(KIND)
#undef KIND
		RECORD_KIND_LIMIT /* one past the last known kind */
};

#define RECORD_CTYPE_U8 uint8_t
#define RECORD_CTYPE_U16 uint16_t
#define RECORD_CTYPE_U32 uint32_t
#define RECORD_CTYPE_U64 uint64_t
#define RECORD_CTYPE_I32 int32_t
#define RECORD_CTYPE_I64 int64_t
#define RECORD_CTYPE_F64 double

/* struct row_NAME: one record as the writer takes it; lists by pointer. */
#define RECORD_ROW_C(id, field, TYPE, CODING) RECORD_CTYPE_##TYPE field;
#define RECORD_ROW_L(id, field, TYPE, count) const RECORD_CTYPE_##TYPE *field;
#define RECORD_ROW_B(id, field, count) const char *field;
#define KIND(id, NAME, name)                                                                       \
	struct row_##name {                                                                        \
		RECORD_COLUMNS_##name(RECORD_ROW_C, RECORD_ROW_L, RECORD_ROW_B)                    \
	};
RECORD_KINDS(KIND)
#undef KIND

enum column_type {
	COLUMN_U8,
	COLUMN_U16,
	COLUMN_U32,
	COLUMN_U64,
	COLUMN_I32,
	COLUMN_I64,
	COLUMN_F64
};
enum column_coding {
	CODING_PLAIN = 0,
	CODING_DELTA = 1,
	CODING_START = 2,
	CODING_DUR = 3,
	CODING_FLOAT = 4,
	CODING_LIST = 5,
	CODING_BYTES = 6,
};

struct column_desc {
	const char *name;
	uint8_t id;
	uint8_t type;	     /* enum column_type */
	uint8_t coding;	     /* enum column_coding */
	uint8_t refers;	     /* enum record_kind of the dictionary it refers to, or 0 */
	int8_t count_column; /* of a list: index of the column with its lengths; else -1 */
	uint16_t row_offset;
};

struct kind_desc {
	const char *name;
	const struct column_desc *columns;
	uint16_t n_columns;
	uint16_t row_size;
	int8_t time_column; /* index of start_ns or time_ns; -1: the kind has no time */
	int8_t duration_column;
	uint8_t n_lists;
};

/* NULL for a kind unknown to this version. */
const struct kind_desc *kind_desc(unsigned int kind);
size_t column_type_size(enum column_type type);

/* What a fact's key begins with whose value is the build id of a file with functions on sampled stacks; its path
 * follows. */
#define FACT_BUILD_ID "build id of "

#endif
