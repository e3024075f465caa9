/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope: how a program reports to the profiler.
 *
 * Link with libmoescope.so, call what you need, and run the program under `moescope run`. Without
 * `moescope run` (or moescope_start) every call returns after one relaxed load.
 *
 * The contract, for every function here:
 *   - safe from any thread, before start, after stop and in a forked child;
 *   - never blocks on I/O, exits, prints to stdout or changes errno;
 *   - if it cannot record, it drops the record and counts the drop; the report shows the count;
 *   - structures begin with their size: one from an older header lacks its last fields, which are
 *     then zero; for one from a newer header, the known fields are used.
 *
 * A forked child, however it was created, records nothing until it starts its own session; its
 * calls are counted as dropped. A process ends with its last thread, profiled or not.
 *
 * Calls are safe in signal handlers. If the signal interrupted another call of the same thread, the
 * call is dropped and counted, and functions with a result return -EBUSY, NULL or 0. A thread's
 * first record, a new name, starting and stopping allocate memory: do these outside handlers. A
 * handler that longjmps out of one of our calls leaves the thread inside it.
 *
 * If a thread disables the time-stamp counter (PR_SET_TSC) before its first record, its calls are
 * dropped and counted; a thread that does so later must stop recording, as must one under strict
 * seccomp. A session that starts with the counter disabled keeps time by system calls.
 *
 * Three parts, in the order you will need them: simple, context, advanced.
 */
#ifndef MOESCOPE_H
#define MOESCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MOESCOPE_API __attribute__((visibility("default")))
#else
#define MOESCOPE_API
#endif

#define MOESCOPE_VERSION_MAJOR 0
#define MOESCOPE_VERSION_MINOR 2
#define MOESCOPE_VERSION_PATCH 0

/* ------------------------------------------------------------------ simple */

/* Starts recording into the run directory `run_dir`, creating it if needed. NULL uses the directory
 * of `moescope run`, or creates `moescope-PID.mscope` in the current directory. Returns 0, or
 * -errno, in which case nothing is recorded and every other call stays a no-op. Starting twice is
 * harmless. -EBUSY: inside another call (see above), or in a child forked without fork handlers
 * (_Fork, clone) while another thread held one of our locks. Programs under `moescope run` need not
 * call it: loading the library starts it. In a process that `moescope run --ranks` leaves out, NULL
 * starts nothing and returns 0. */
MOESCOPE_API int moescope_start(const char *run_dir);

/* Writes pending records and closes the run. Called at exit if you do not. */
MOESCOPE_API void moescope_stop(void);

/* One training or decoding step ends here and the next begins: call it at the end of each
 * iteration, so that n calls make n steps, numbered from 0. The first one begins at moescope_start,
 * also under `moescope run`. In a program that never calls that, it begins when the library is
 * loaded; its time then includes set-up, and step-time statistics leave it out. What follows the
 * last call is not a step. If called at the beginning of iterations instead, step 0 is everything
 * before the loop, step i the iteration before, and the last iteration is not a step: use
 * moescope_step_begin and moescope_step_end there. `tokens` is how many the ending step has
 * processed (0: unknown). */
MOESCOPE_API void moescope_step(uint64_t tokens);

/* A named range of this thread; ranges nest, and a pop closes the innermost one. */
MOESCOPE_API void moescope_range_push(const char *name);
MOESCOPE_API void moescope_range_pop(void);

/* An instant with a text; a sample of a numeric series. */
MOESCOPE_API void moescope_mark(const char *text);
MOESCOPE_API void moescope_counter(const char *name, double value);

/* ----------------------------------------------------------------- context */

/* What a range is part of. Values on disk: the list only grows. */
enum moescope_phase {
	MOESCOPE_PHASE_NONE = 0,
	MOESCOPE_FORWARD = 1,
	MOESCOPE_BACKWARD = 2,
	MOESCOPE_OPTIMIZER = 3,
	MOESCOPE_DATA = 4,
	MOESCOPE_PREFILL = 5,
	MOESCOPE_DECODE = 6,
	MOESCOPE_RECOMPUTE = 7,
	MOESCOPE_EVALUATION = 8,
};

/* Steps with explicit numbers. A begin closes the open step; steps do not nest and are counted per
 * process, whichever thread calls. */
MOESCOPE_API void moescope_step_begin(int64_t step);
MOESCOPE_API void moescope_step_end(uint64_t tokens);
/* For tools that treat something as a step (a model call): begins one as moescope_step_begin does.
 * If moescope_step is the next call after its end, the program marks its own steps: that step then
 * becomes the program's, and lasts until the call. */
MOESCOPE_API void moescope_step_guess(int64_t step);
/* The number of the open or last step; -1 before the first. */
MOESCOPE_API int64_t moescope_current_step(void);
/* The open step is not a step after all: nothing of it is written, and its number is free again. */
MOESCOPE_API void moescope_step_cancel(void);

/* Names are interned once and then passed as ids: the cheapest way in a hot loop. The id stays
 * valid for the process, across stop and start. 0 is "no name"; NULL and "" give 0. */
typedef uint32_t moescope_name;
MOESCOPE_API moescope_name moescope_intern(const char *text);

/* A range with its place in the model. layer and expert: -1 inherits from the enclosing range, as
 * does MOESCOPE_PHASE_NONE for the phase. */
MOESCOPE_API void moescope_range_begin(moescope_name name, int32_t layer, int32_t expert,
				       enum moescope_phase phase);
MOESCOPE_API void moescope_range_end(void);

/* An operation is a range that did arithmetic (flops) and moved memory (bytes); `shape` is a
 * short text such as "[2048,64]x[64,256]", or 0. Operations and ranges share one stack. */
MOESCOPE_API void moescope_op_begin(moescope_name name, int32_t layer, int32_t expert,
				    moescope_name shape);
MOESCOPE_API void moescope_op_end(uint64_t flops, uint64_t bytes);
#define MOESCOPE_UNKNOWN UINT64_MAX /* for uncounted flops or bytes */

/* Operations that something else has already timed (a framework's own collector). Times are
 * CLOCK_MONOTONIC nanoseconds, `thread` is the kernel id of the thread they ran on, depth how many
 * operations and ranges enclosed them; from 64 up they are placed by their times. Waits for the
 * profiler's own thread if its buffers are full, so call it between steps. */
struct moescope_past_op {
	moescope_name name, shape;
	int32_t layer, expert; /* -1: none */
	enum moescope_phase phase;
	uint32_t thread, depth;
	int64_t start_ns, duration_ns;
	uint64_t flops, bytes;
};
MOESCOPE_API void moescope_past_ops(const struct moescope_past_op *ops, size_t n);

enum moescope_number {
	MOESCOPE_I32 = 0,
	MOESCOPE_I64 = 1,
	MOESCOPE_F32 = 2,
	MOESCOPE_F16 = 3,
	MOESCOPE_BF16 = 4,
};

/* Where the router sent the tokens of one layer in the current step.
 *
 * indices has tokens*k entries, row by row. An entry is an expert in [0, experts), or
 *   MOESCOPE_SLOT_PADDING  no token here (a row of nothing else is padding and not a token),
 *   MOESCOPE_SLOT_UNUSED   the token chose fewer than k experts (dynamic k),
 *   MOESCOPE_SLOT_DROPPED  the chosen expert was full (capacity).
 * Anything else is counted as invalid and shown at the top of the report.
 * Arrays are read before the call returns and may then be reused. Below MOESCOPE_FULL the
 * statistics of weights and scores are those of every eighth token. */
#define MOESCOPE_SLOT_PADDING (-1)
#define MOESCOPE_SLOT_UNUSED (-2)
#define MOESCOPE_SLOT_DROPPED (-3)

struct moescope_routing {
	size_t struct_size;	   /* sizeof(struct moescope_routing) */
	int32_t layer;		   /* index of the MoE layer, from 0 */
	enum moescope_phase phase; /* MOESCOPE_PHASE_NONE: the enclosing range's */
	uint32_t experts;	   /* E, at most 32768 */
	uint32_t k;		   /* slots per token, at most 64 */
	uint64_t tokens;	   /* rows, including padding */
	const void *indices;	   /* tokens*k */
	const void *weights;	   /* tokens*k router weights of the chosen experts, or NULL */
	const float *scores; /* tokens*experts, the full score row as probabilities, or NULL */
	const uint8_t *mask; /* a byte per row, 0: padding; NULL: only indices mark padding */
	enum moescope_number indices_type; /* I32 or I64 */
	enum moescope_number weights_type; /* F32 (or 0), F16 or BF16 */
	/* Not 0: an index outside [0, experts), except MOESCOPE_SLOT_DROPPED, is an expert of
	 * another process: a slot unused here. */
	uint32_t elsewhere;
	uint32_t reserved;
};
MOESCOPE_API void moescope_route(const struct moescope_routing *routing);
/* Same as n calls: the layers of a step together. All have the first one's struct_size. */
MOESCOPE_API void moescope_routes(const struct moescope_routing *routings, size_t n);

/* The sizes of one MoE layer, reported once, for FLOPs and bytes per expert. matrices: 2 (up, down)
 * or 3 (gated). */
struct moescope_moe_layer {
	size_t struct_size;
	int32_t layer;
	uint32_t experts, k, hidden, inner, matrices;
	uint64_t expert_bytes;	/* weights of one expert */
	double capacity_factor; /* 0: tokens are never dropped */
};
MOESCOPE_API void moescope_moe_layer(const struct moescope_moe_layer *layer);

/* Inference: a request starts (with its prompt), each token as it is produced, the end. */
MOESCOPE_API void moescope_request_begin(uint64_t request, uint64_t prompt_tokens);
MOESCOPE_API void moescope_token(uint64_t request);
MOESCOPE_API void moescope_request_end(uint64_t request);

/* Memory as the program's own allocator sees it. `address` pairs a free with its allocation;
 * device -1 is the host. Values on disk: the list only grows. */
enum moescope_memory_use {
	MOESCOPE_MEMORY_OTHER = 0,
	MOESCOPE_MEMORY_PARAMETERS = 1,
	MOESCOPE_MEMORY_GRADIENTS = 2,
	MOESCOPE_MEMORY_OPTIMIZER = 3,
	MOESCOPE_MEMORY_ACTIVATIONS = 4,
	MOESCOPE_MEMORY_CACHE = 5,
};
MOESCOPE_API void moescope_alloc(const void *address, uint64_t bytes, int32_t device,
				 enum moescope_memory_use use, moescope_name site);
MOESCOPE_API void moescope_free(const void *address, int32_t device);

/* What an allocator did, reported later from its own history, like moescope_past_ops. A reserve is
 * memory taken from the driver to hand out in pieces, a release is memory returned. Before: the
 * bytes live before the first of these events. Values on disk: the list only grows. */
enum moescope_memory_event {
	MOESCOPE_EVENT_ALLOC = 0,
	MOESCOPE_EVENT_FREE = 1,
	MOESCOPE_EVENT_RESERVE = 2,
	MOESCOPE_EVENT_RELEASE = 3,
	MOESCOPE_EVENT_BEFORE = 4,
};
struct moescope_past_memory {
	int64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t address, bytes;
	int32_t device;
	enum moescope_memory_event event;
	enum moescope_memory_use use;
	moescope_name site;
};
MOESCOPE_API void moescope_past_memory(const struct moescope_past_memory *events, size_t n);

/* A device reading, now; the unit is in the metric's name. An allocator's own account uses the
 * names "allocated_bytes", "reserved_bytes", "peak_allocated_bytes", "peak_reserved_bytes" and
 * "peak_requested_bytes". */
MOESCOPE_API void moescope_device_sample(uint32_t device, moescope_name metric, double value);

/* A fact about the run, shown in the report: ("model", "tinymoe 4x64, 8 experts, top-2"). */
MOESCOPE_API void moescope_info(const char *key, const char *value);

/* ---------------------------------------------------------------- advanced */

/* How much is recorded. Each level includes the previous ones. */
enum moescope_level {
	MOESCOPE_OFF = 0,
	MOESCOPE_COUNTS = 1, /* steps, routing counts, counters, marks */
	MOESCOPE_STEPS = 2,  /* plus ranges that name a phase, tokens, memory */
	MOESCOPE_TRACE = 3,  /* plus every range and operation: the default */
	MOESCOPE_FULL = 4,   /* plus the experts of every token */
};

struct moescope_options {
	size_t struct_size;
	enum moescope_level level; /* MOESCOPE_OFF (0): MOESCOPE_TRACE */
	uint32_t ring_bytes;	   /* per thread, 64 KiB to 64 MiB, rounded up to a power of two;
				    * 0: 1 MiB */
	uint32_t flush_ms;	   /* flush interval; 0: 250, or 1000 if there are few records */
};
MOESCOPE_API int moescope_start_with(const char *run_dir, const struct moescope_options *options);

/* Recording stops at the next call of each thread and continues at resume; steps are still counted,
 * and marked as not recorded. */
MOESCOPE_API void moescope_pause(void);
MOESCOPE_API void moescope_resume(void);
MOESCOPE_API void moescope_set_level(enum moescope_level level);

/* True if ranges would be recorded now: lets a program skip work that only feeds them. */
MOESCOPE_API int moescope_recording(void);

/* Which steps are recorded, as in torch.profiler: skip_first steps, then cycles of wait (nothing),
 * warmup (recorded by torch and discarded; here: not recorded), active (recorded); after `repeat`
 * cycles nothing (0: forever). All of wait, warmup, active zero: every step. `sample` n > 1 then
 * keeps every n-th of the recorded steps. */
struct moescope_schedule {
	size_t struct_size;
	uint32_t skip_first, wait, warmup, active, repeat, sample;
};
MOESCOPE_API void moescope_set_schedule(const struct moescope_schedule *schedule);

/* The same decision as a pure function (step counts from 0), and your own decision, called once at
 * each step begin. NULL restores the schedule. */
MOESCOPE_API int moescope_schedule_records(const struct moescope_schedule *schedule, int64_t step);
typedef int (*moescope_step_function)(int64_t step, void *arg);
MOESCOPE_API void moescope_set_step_function(moescope_step_function function, void *arg);

/* The profiler's activity so far in this process. */
struct moescope_stats {
	size_t struct_size;
	uint64_t recorded;	/* records accepted from the program */
	uint64_t dropped;	/* records rejected: ring full, no memory, nesting too deep */
	uint64_t written_bytes; /* of the shard */
	uint64_t write_errors;	/* failed writes; their records are kept and retried */
	uint64_t drain_cpu_ns;	/* CPU time of the profiler's own thread */
};
MOESCOPE_API void moescope_get_stats(struct moescope_stats *stats);

/* "MAJOR.MINOR.PATCH", and the directory being written (NULL when not recording). Both stay valid
 * for the life of the process. */
MOESCOPE_API const char *moescope_version(void);
MOESCOPE_API const char *moescope_run_dir(void);

/* The file in that directory with the records of this process only: the tool reads it like a run.
 * NULL when not recording; stays valid likewise. */
MOESCOPE_API const char *moescope_shard(void);
/* Waits until everything recorded before is in that file, except a guessed step that may still
 * become the program's. 0; -ETIMEDOUT if it could not be written within seconds; -EBUSY inside
 * another call. The only other call that waits is moescope_past_ops. */
MOESCOPE_API int moescope_flush(void);

/* For whoever starts a session inside a program that is already running, as 'moescope attach --inside' does:
 * waits until the moescope that made the run wants no more of it or has ended, the session has ended, or
 * somebody calls moescope_leave. Then it is the caller's turn to call moescope_stop. One thread. */
MOESCOPE_API void moescope_wait_for_leave(void);
MOESCOPE_API void moescope_leave(void);

/* Routing in the memory of a CUDA device.
 *
 * A recorder counts there, with one small kernel on the stream that produced the indices: nothing
 * waits, nothing is copied back on that stream, and a CUDA graph can contain all of it; its replays
 * are then recorded too. The counts of a step wait on the device in one of `slots` places until a
 * profiler thread has fetched them; if all are full, the step is dropped and its calls are counted
 * as lost.
 *
 * The calls of a step may be on several streams if the program orders them with events: calls for
 * one layer in sequence, the step's end after all of them. A layer has the same experts and k in
 * all its calls. Rows have the time at which the device ended the step.
 *
 * A recorder belongs to the CUDA context that is current when it is opened. Calls return 0 or
 * -errno: -ENOTSUP without a CUDA driver, a context or a compiler for the kernel (libnvrtc), and
 * moescope_recorder_words() says which and what helps; -EINVAL for numbers beyond those given at
 * opening. */
struct moescope_recorder;

struct moescope_recorder_options {
	size_t struct_size;
	uint32_t layers;  /* MoE layers, numbered from 0; at most 1024 */
	uint32_t experts; /* the largest E, at most 1024 */
	uint32_t k;	  /* the largest k, at most 64 */
	uint64_t tokens;  /* of a layer in one step whose experts are kept one by one; 0: counts */
	uint32_t slots; /* steps that may wait to be fetched; 0: 64 to 1024, with tokens 2 to 64 */
	uint32_t weights; /* not 0: also keep the router weights of kept tokens, as 8-bit shares */
};
MOESCOPE_API int moescope_recorder_open(const struct moescope_recorder_options *options,
					struct moescope_recorder **ret_recorder);

struct moescope_device_routing {
	size_t struct_size;
	int32_t layer;
	enum moescope_phase phase;
	uint32_t experts, k;
	uint64_t tokens;
	const void *indices;		   /* tokens*k, as in struct moescope_routing */
	enum moescope_number indices_type; /* I32 or I64 */
	enum moescope_number weights_type; /* F32, F16 or BF16 */
	const void *weights;		   /* tokens*k, or NULL */
	const uint32_t *valid; /* how many of the rows are tokens, read by the kernel; NULL: all */
	const uint8_t *mask;   /* a byte per row, 0: padding; NULL: none */
	void *stream;	       /* CUstream; NULL: the default one */
};
/* May be called during stream capture. Several calls for one layer and step add up, and the last
 * one sets the phase. Rows past `valid` and masked rows are padding. While nothing is recorded,
 * nothing is launched, except during capture. */
MOESCOPE_API int moescope_recorder_route(struct moescope_recorder *recorder,
					 const struct moescope_device_routing *routing);
/* Same as n calls: those of up to 32 rows each, for different layers and on one stream, share one
 * kernel for up to 62 of them. All have the first one's struct_size. Returns the first error; the
 * other calls are counted. */
MOESCOPE_API int moescope_recorder_routes(struct moescope_recorder *recorder,
					  const struct moescope_device_routing *routings, size_t n);
/* This many calls lost their indices: count them as lost. */
MOESCOPE_API void moescope_recorder_lost(struct moescope_recorder *recorder, uint64_t calls);

/* Step `step` is complete once the stream reaches this point, and the next begins. At each replay a
 * captured call continues from the previous step; `step` -1 does so everywhere. A step without
 * counts takes no slot. */
MOESCOPE_API int moescope_recorder_step(struct moescope_recorder *recorder, int64_t step,
					void *stream);
/* Off: nothing is counted until it is on again, including replays; steps keep their numbers. Takes
 * effect where the stream is now. -EBUSY during its capture. */
MOESCOPE_API int moescope_recorder_gate(struct moescope_recorder *recorder, int on, void *stream);
/* Waits until the profiler has all steps that the device has completed so far; to include those
 * still in flight, wait for their stream first. moescope_stop does this for every recorder. */
MOESCOPE_API int moescope_recorder_flush(struct moescope_recorder *recorder);
/* Waits for the device, flushes and frees. Graphs that contain its calls must not be replayed
 * afterwards. */
MOESCOPE_API void moescope_recorder_close(struct moescope_recorder *recorder);
/* Why the last call of this thread failed, as text; "" if it did not. */
MOESCOPE_API const char *moescope_recorder_words(void);

/* The gate: the current level in its low byte. Read it, never write it. With it, calls in hot loops
 * cost one load and no call while nothing is recorded. Define MOESCOPE_NO_INLINE before including
 * this header to get plain functions. */
MOESCOPE_API extern uint32_t moescope_gate;

#if defined(__GNUC__) && !defined(MOESCOPE_NO_INLINE)
static inline int moescope_gate_open(void)
{
	return __builtin_expect((__atomic_load_n(&moescope_gate, __ATOMIC_RELAXED) & 0xff) != 0, 0);
}

static inline void moescope_inline_range_begin(moescope_name name, int32_t layer, int32_t expert,
					       enum moescope_phase phase)
{
	if (moescope_gate_open())
		moescope_range_begin(name, layer, expert, phase);
}

static inline void moescope_inline_range_end(void)
{
	if (moescope_gate_open())
		moescope_range_end();
}

static inline void moescope_inline_range_push(const char *name)
{
	if (moescope_gate_open())
		moescope_range_push(name);
}

static inline void moescope_inline_range_pop(void)
{
	if (moescope_gate_open())
		moescope_range_pop();
}

static inline void moescope_inline_op_begin(moescope_name name, int32_t layer, int32_t expert,
					    moescope_name shape)
{
	if (moescope_gate_open())
		moescope_op_begin(name, layer, expert, shape);
}

static inline void moescope_inline_op_end(uint64_t flops, uint64_t bytes)
{
	if (moescope_gate_open())
		moescope_op_end(flops, bytes);
}

#define moescope_range_begin moescope_inline_range_begin
#define moescope_range_end moescope_inline_range_end
#define moescope_range_push moescope_inline_range_push
#define moescope_range_pop moescope_inline_range_pop
#define moescope_op_begin moescope_inline_op_begin
#define moescope_op_end moescope_inline_op_end
#endif

#ifdef __cplusplus
}
#endif
#endif
