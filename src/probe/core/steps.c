/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps, and the gate: which of them are recorded. Step calls are rare and take a lock that only
 * other step and control calls take; every other call sees the result through the gate alone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/core/floors.h"
#include "probe/core/probe.h"

uint32_t moescope_gate;

#define CHECK_WARMUP 4 /* steps before the overhead check: first touches and caches */

PROBE_LOCK(lock);
static struct {
	struct rings *rings; /* NULL: no session */
	bool child;	     /* forked from a session: the gate stays, so calls are counted */
	enum moescope_level level;
	struct moescope_schedule schedule;
	moescope_step_function function;
	void *function_arg;
	uint32_t check_pairs; /* of the overhead check, 0: none */
	uint32_t pauses;
	bool step_recorded; /* the schedule's current answer */
	bool device;	    /* device records are wanted */
	uint8_t probe;
	int64_t seen; /* steps begun in this session */
	bool open;
	bool open_by_next; /* moescope_step began it when the previous one ended */
	bool open_by_tool; /* moescope_step_guess began it */
	/* The first step began with the session, unless one has begun since. */
	uint8_t first; /* how (STEP_FIRST_*), 0: no */
	uint64_t first_ticks;
	/* The step that a tool last began and ended: moescope_step makes it the program's own. */
	bool kept;
	struct row_step kept_row;
	int64_t step;	/* open, or last; -1: none yet */
	int64_t before; /* the one before it, when it is open */
	uint64_t start_ticks;
	int64_t start_ns; /* the same moment, for the governor */
} state = { .step_recorded = true };

static _Atomic int64_t current_step = -1;

int64_t steps_current(void)
{
	return atomic_load_explicit(&current_step, memory_order_relaxed);
}

int64_t moescope_current_step(void)
{
	return steps_current();
}

static bool has_cycle(const struct moescope_schedule *s)
{
	return s->wait || s->warmup || s->active;
}

static int schedule_records(const struct moescope_schedule *s, int64_t step)
{
	int64_t cycle, in_cycle, nth;

	if (step < (int64_t)s->skip_first)
		return 0;
	step -= s->skip_first;
	nth = step;
	if (has_cycle(s)) {
		cycle = (int64_t)s->wait + s->warmup + s->active;
		in_cycle = step % cycle - s->wait - s->warmup;
		if (in_cycle < 0 || (s->repeat && step / cycle >= s->repeat))
			return 0;
		nth = step / cycle * s->active + in_cycle;
	}
	return s->sample < 2 || nth % s->sample == 0;
}

int moescope_schedule_records(const struct moescope_schedule *schedule, int64_t step)
{
	struct moescope_schedule given;

	return !probe_given(&given, sizeof(given), schedule) || schedule_records(&given, step);
}

int schedule_parse(const char *text, struct moescope_schedule *ret_schedule)
{
	struct moescope_schedule s = { .struct_size = sizeof(s) };
	const struct {
		const char *name;
		uint32_t *value;
	} fields[] = { { "skip_first", &s.skip_first }, { "wait", &s.wait },
		       { "warmup", &s.warmup },		{ "active", &s.active },
		       { "repeat", &s.repeat },		{ "sample", &s.sample } };

	while (*text) {
		size_t name = strcspn(text, "=,"), i = 0, n = sizeof(fields) / sizeof(fields[0]);
		unsigned long value;
		char *end;

		while (i < n &&
		       (strlen(fields[i].name) != name || strncmp(fields[i].name, text, name) != 0))
			i++;
		if (i == n || text[name] != '=')
			return -EINVAL;
		errno = 0;
		value = strtoul(text + name + 1, &end, 10);
		if (errno || end == text + name + 1 || value > UINT32_MAX || (*end && *end != ','))
			return -EINVAL;
		*fields[i].value = (uint32_t)value;
		text = *end ? end + 1 : end;
	}
	*ret_schedule = s;
	return 0;
}

/* Sets the gate from the state; the lock is held. */
static void update_gate(void)
{
	uint32_t old = gate_load(), epoch = GATE_EPOCH(old);
	bool open = (state.rings || state.child) && !state.pauses;
	uint32_t session = open ? (uint32_t)state.level : 0;
	uint32_t now = state.step_recorded ? session : 0;

	if (now != GATE_NOW(old))
		epoch = epoch == UINT16_MAX ? 1 : epoch + 1;
	__atomic_store_n(&moescope_gate, now | session << 8 | epoch << 16, __ATOMIC_RELAXED);
}

/* on, off, off, on, on, off, …: neighbours differ and drift cancels. */
static uint8_t overhead_probe(int64_t seen)
{
	uint64_t i = (uint64_t)(seen - CHECK_WARMUP);

	if (seen < CHECK_WARMUP || i >= (uint64_t)state.check_pairs * 2)
		return 0;
	return (i + 1) / 2 % 2 == 0 ? 1 : 2;
}

static bool scheduled(int64_t step)
{
	return !state.schedule.struct_size || schedule_records(&state.schedule, step);
}

/* Whether device records are wanted around step `nth` of the session: they are also on during
 * warm-up steps, and stay on between steps of a sample. A step function decides only when the step
 * has come, so they stay on. */
static bool device_wanted(int64_t nth)
{
	const struct moescope_schedule *s = &state.schedule;
	int64_t ahead = s->warmup > s->sample ? s->warmup : s->sample;

	if (state.pauses)
		return false;
	if (!s->struct_size || state.function)
		return true;
	/* A sample of every millionth step is no reason to look a million steps ahead. */
	for (int64_t i = 0; i <= ahead && i < 1000; i++)
		if (schedule_records(s, nth + i))
			return true;
	return false;
}

static void decide(bool recorded)
{
	state.probe = recorded ? overhead_probe(state.seen) : 0;
	state.step_recorded = recorded && state.probe != 2;
	update_gate();
}

enum step_call { STEP_BEGIN, STEP_GUESS, STEP_END, STEP_NEXT };

/* Ends the open step, if any, into *row; true if there is something to push. Push after the lock:
 * it may need a ring, and getting one takes the session's lock. */
static bool close_step(uint64_t tokens, uint64_t now, struct row_step *row)
{
	if (!state.rings || !state.open)
		return false;
	*row = (struct row_step){ .step = state.step,
				  .start_ns = (int64_t)state.start_ticks,
				  .duration_ns = (int64_t)(now - state.start_ticks),
				  .tokens = tokens,
				  .tokens_known = tokens != 0,
				  .recorded = state.step_recorded && !state.pauses,
				  .probe = state.probe };
	state.open = false;
	atomic_store_explicit(&state.rings->header->step.open, 0, memory_order_release);
	return true;
}

/* Holds back a step that a tool ended. True if it should be pushed now. */
static bool keep_back(bool closed, enum step_call call, struct row_step *row)
{
	if (!closed || call != STEP_END || !state.open_by_tool)
		return closed;
	state.kept = true;
	state.kept_row = *row;
	/* After a kill it is found as an open step. */
	atomic_store_explicit(&state.rings->header->step.open, 1, memory_order_release);
	return false;
}

/* The held-back step becomes a step of its own. */
static bool release_kept_step(struct row_step *row)
{
	if (!state.kept)
		return false;
	state.kept = false;
	*row = state.kept_row;
	if (state.rings)
		atomic_store_explicit(&state.rings->header->step.open, 0, memory_order_release);
	return state.rings != NULL;
}

/* The first call of moescope_step in a session ends a step like every other: the one that began
 * with the session, or that a tool ended. */
static bool close_first(uint64_t tokens, uint64_t now, struct row_step *row)
{
	if (!state.rings || (!state.first && !state.kept))
		return false;
	if (!release_kept_step(row)) {
		*row = (struct row_step){ .start_ns = (int64_t)state.first_ticks,
					  .recorded = state.step_recorded && !state.pauses,
					  .first = state.first };
		state.step = 0;
		state.seen = 1;
	}
	row->duration_ns = (int64_t)now - row->start_ns;
	row->tokens = tokens ? tokens : row->tokens;
	row->tokens_known = row->tokens != 0;
	return true;
}

static void open_step(int64_t step, bool recorded)
{
	struct open_step *shared = &state.rings->header->step;
	uint64_t flags;

	decide(recorded);
	state.seen++;
	state.before = state.step;
	state.step = step;
	state.open = true;
	atomic_store_explicit(&current_step, step, memory_order_relaxed);
	flags = (uint64_t)(state.step_recorded && !state.pauses) | (uint64_t)state.probe << 8;
	state.start_ticks = clock_ticks();
	state.start_ns = clock_monotonic_ns();
	atomic_store_explicit(&shared->step, step, memory_order_relaxed);
	atomic_store_explicit(&shared->start_ticks, state.start_ticks, memory_order_relaxed);
	atomic_store_explicit(&shared->flags, flags, memory_order_relaxed);
	atomic_store_explicit(&shared->open, 1, memory_order_release);
}

/* True if the call completes a row: of the open step, or of one held back. *ret_ended: a step has
 * ended. The lock is held. */
static bool close_for(enum step_call call, uint64_t tokens, struct row_step *row, bool *ret_ended)
{
	uint64_t now = clock_ticks();
	bool ready;

	if (state.open) {
		*ret_ended = close_step(tokens, now, row);
		ready = keep_back(*ret_ended, call, row);
	} else {
		*ret_ended = call == STEP_NEXT && close_first(tokens, now, row);
		ready = *ret_ended || (call != STEP_END && release_kept_step(row));
	}
	if (call != STEP_END)
		state.first = 0;
	return ready;
}

static void step_call(enum step_call call, int64_t step, uint64_t tokens)
{
	moescope_step_function function;
	struct ring *ring;
	struct row_step row;
	int64_t start_ns;
	bool ready, ended, recorded, device;
	void *arg;

	/* One relaxed load without a session. The gate does not work here: a pause closes it, and
	 * steps are still counted then. */
	if (!atomic_load_explicit(&probe_session, memory_order_relaxed) &&
	    !GATE_SESSION(gate_load()))
		return;
	if (!probe_control_begin())
		return;
	ring = probe_ring();
	if (thread_clockless || !atomic_load(&probe_session) || !probe_lock(&lock)) {
		probe_control_end();
		return;
	}
	start_ns = state.start_ns;
	ready = close_for(call, tokens, &row, &ended);
	if (call == STEP_NEXT)
		step = state.step + 1;
	recorded = scheduled(state.seen);
	device = call == STEP_END ? state.device : device_wanted(state.seen);
	if (device != state.device) {
		/* Before the step begins, and without the lock: attaching takes a while. */
		state.device = device;
		probe_unlock(&lock);
		floors_want(device);
		probe_lock(&lock);
	}
	function = call == STEP_END ? NULL : state.function;
	arg = state.function_arg;
	if (function) {
		/* The program's own code: it may call back, so no lock is held. */
		probe_unlock(&lock);
		probe_control_end();
		recorded = function(step, arg) != 0;
		probe_control_begin();
		probe_lock(&lock);
	}
	if (state.rings && call != STEP_END)
		open_step(step, recorded);
	state.open_by_next = call == STEP_NEXT;
	state.open_by_tool = call == STEP_GUESS;
	probe_unlock(&lock);
	if (ready && ring)
		probe_push(RECORD_STEP, &row, sizeof(row), NULL, 0);
	if (ended && ring)
		floors_step(start_ns, clock_monotonic_ns());
	probe_control_end();
}

void moescope_step_begin(int64_t step)
{
	step_call(STEP_BEGIN, step, 0);
}

void moescope_step_guess(int64_t step)
{
	step_call(STEP_GUESS, step, 0);
}

void moescope_step_end(uint64_t tokens)
{
	step_call(STEP_END, 0, tokens);
}

void moescope_step(uint64_t tokens)
{
	step_call(STEP_NEXT, 0, tokens);
}

/* The lock is held. */
static void cancel_step(void)
{
	if (!state.rings || !state.open)
		return;
	state.open = false;
	state.seen--;
	state.step = state.before;
	atomic_store_explicit(&current_step, state.step, memory_order_relaxed);
	atomic_store_explicit(&state.rings->header->step.open, 0, memory_order_release);
}

void moescope_step_cancel(void)
{
	if (!probe_lock(&lock))
		return;
	cancel_step();
	probe_unlock(&lock);
}

void moescope_pause(void)
{
	if (!probe_control_begin())
		return;
	if (probe_lock(&lock)) {
		state.pauses = 1;
		update_gate();
		state.device = false;
		probe_unlock(&lock);
		floors_want(false);
	}
	probe_control_end();
}

void moescope_resume(void)
{
	bool device;

	if (!probe_control_begin())
		return;
	if (probe_lock(&lock)) {
		state.pauses = 0;
		update_gate();
		device = state.device = device_wanted(state.open ? state.seen - 1 : state.seen);
		probe_unlock(&lock);
		floors_want(device);
	}
	probe_control_end();
}

void moescope_set_level(enum moescope_level level)
{
	if (!probe_lock(&lock))
		return;
	state.level = level > MOESCOPE_FULL ? MOESCOPE_FULL : level;
	update_gate();
	probe_unlock(&lock);
}

int moescope_recording(void)
{
	return GATE_NOW(gate_load()) >= MOESCOPE_TRACE && atomic_load(&probe_session);
}

void moescope_set_schedule(const struct moescope_schedule *schedule)
{
	struct moescope_schedule given = { 0 };

	probe_given(&given, sizeof(given), schedule);
	if (!probe_lock(&lock))
		return;
	state.schedule = given;
	/* Before the first step, record nothing that the schedule would skip. */
	if (!state.seen)
		state.step_recorded = scheduled(0);
	update_gate();
	probe_unlock(&lock);
}

void moescope_set_step_function(moescope_step_function function, void *arg)
{
	if (!probe_lock(&lock))
		return;
	state.function = function;
	state.function_arg = arg;
	probe_unlock(&lock);
}

void steps_set_overhead_check(uint32_t pairs)
{
	pthread_mutex_lock(&lock);
	state.check_pairs = pairs;
	pthread_mutex_unlock(&lock);
}

/* The lock is held. */
static void first_begins(uint8_t how)
{
	state.first = how;
	state.first_ticks = clock_ticks();
	state.start_ns = clock_monotonic_ns();
}

void steps_begin_first(void)
{
	bool wanted;

	if (!probe_lock(&lock))
		return;
	wanted = state.rings && state.first == STEP_FIRST_LOADED;
	probe_unlock(&lock);
	/* A ring first: a thread without one may not read the clock. */
	if (!wanted || !probe_ring() || thread_clockless || !probe_lock(&lock))
		return;
	if (state.first == STEP_FIRST_LOADED)
		first_begins(STEP_FIRST_STARTED);
	probe_unlock(&lock);
}

void steps_write_kept(void)
{
	struct row_step row;
	bool kept;

	if (!probe_lock(&lock))
		return;
	kept = release_kept_step(&row);
	probe_unlock(&lock);
	if (kept && probe_ring())
		probe_push(RECORD_STEP, &row, sizeof(row), NULL, 0);
}

void steps_start(enum moescope_level level, struct rings *rings, bool by_program)
{
	bool device;

	pthread_mutex_lock(&lock);
	state.rings = rings;
	state.child = false;
	state.level = level;
	state.seen = 0;
	state.open = state.kept = false;
	state.step = -1;
	first_begins(by_program ? STEP_FIRST_STARTED : STEP_FIRST_LOADED);
	state.pauses = 0;
	state.step_recorded = scheduled(0);
	atomic_store_explicit(&current_step, -1, memory_order_relaxed);
	update_gate();
	device = state.device = device_wanted(0);
	pthread_mutex_unlock(&lock);
	floors_want(device);
}

void steps_stop(void)
{
	pthread_mutex_lock(&lock);
	if (state.open_by_next)
		cancel_step();
	state.rings = NULL;
	update_gate();
	pthread_mutex_unlock(&lock);
}

void steps_before_fork(void)
{
	pthread_mutex_lock(&lock);
}

void steps_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

void steps_forget(void)
{
	bool child = state.child || state.rings;

	/* Closed first: open ranges belong to no session of the child's. */
	state.child = false;
	state.rings = NULL;
	update_gate();
	state.child = child;
	update_gate();
}
