/* SPDX-License-Identifier: Apache-2.0
 *
 * Attaches and detaches as the governor decides; see gears.h.
 */
#include "probe/gpu/gears.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "device/driver/proof.h"
#include "moescope.h"
#include "probe/gpu/cupti/cupti.h"
#include "probe/core/device_rows.h"
#include "probe/gpu/gpu.h"
#include "probe/core/name_filter.h"
#include "probe/core/locks.h"
#include "probe/gpu/proved.h"

#define MS INT64_C(1000000)
#define FLUSH_NS (500 * MS)
#define RETRY_NS (1000 * MS) /* after another client had CUPTI */
#define COST_NS (1000 * MS)
#define TICK_NS (100 * MS)
#define ALLOWANCE_MB 128
/* Of host memory, by all sessions of a process; each leaves 15 MB behind on an H200. */
#define LEFT_MOST (UINT64_C(4) << 30)
#define BUDGET_PCT 1.0
#define ASKED "the schedule starts, or a pause ends"

PROBE_LOCK(lock);
static _Atomic bool running, wanted = true; /* stored with the lock, except by gears_want */
static bool proved;
static bool attached;	     /* according to the governor and the run */
static enum gear leaving_to; /* the gear to record once it has left */
static bool yielded;	     /* another client has CUPTI */
static bool asked;	     /* for a window that could not begin at once */
static bool told_held;	     /* that it keeps the subscription */
static double rest_cost;     /* the largest so far, to be told */
static struct cupti_wish wish;
static struct governor governor;
static int64_t changed_ns; /* of `attached` */
static int64_t flushed_ns, retry_ns, cost_ns;
static struct cupti_sums before; /* of the last attaching or detaching */
static struct cupti_sums told;	 /* in the last cost row */
static uint64_t kept_before;	 /* host memory that earlier sessions left behind */

static void write_gear_at(int64_t time_ns, enum gear gear, const char *why)
{
	struct row_gear row = { .time_ns = time_ns,
				.gear = (uint8_t)gear,
				.attached = attached,
				.why = moescope_intern(why),
				.cost_pct = governor.cost > 0 ? 100 * governor.cost : 0,
				.device_bytes = governor_device_bytes(&governor) };

	probe_push_device(RECORD_GEAR, &row, sizeof(row));
}

static void write_gear(enum gear gear, const char *why)
{
	write_gear_at(clock_monotonic_ns(), gear, why);
}

static void write_cost(void)
{
	struct cupti_sums now = cupti_sums();
	struct row_device_cost row = {
		.time_ns = clock_monotonic_ns(),
		.cupti_ns = now.overhead_ns - told.overhead_ns,
		.translate_ns = now.translate_ns - told.translate_ns,
		.held_ns = now.held_ns - told.held_ns,
		.switch_ns = now.attach_ns - told.attach_ns + now.detach_ns - told.detach_ns,
		.kernels = now.counts.launches - told.counts.launches + now.counts.nodes -
			   told.counts.nodes,
		.calls = now.counts.calls - told.counts.calls,
	};

	cost_ns = row.time_ns;
	if (!memcmp(&now, &told, sizeof(now)))
		return;
	told = now;
	probe_push_device(RECORD_DEVICE_COST, &row, sizeof(row));
}

/* "0.5", whatever the program's locale says about commas. */
static double parse_pct(const char *text)
{
	char *end;
	double value = (double)strtoul(text, &end, 10), place = 0.1;

	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++, place /= 10)
			value += (*end - '0') * place;
	return value;
}

/* The limits from the program's environment; `moescope run` has checked them. */
static struct governor_limits limits(void)
{
	const char *budget = getenv("MOESCOPE_BUDGET"), *memory = getenv("MOESCOPE_DEVICE_MB");
	const char *shifts = getenv("MOESCOPE_SHIFTS"), *stays = getenv("MOESCOPE_STAY_ATTACHED");
	struct governor_limits l = { .budget = BUDGET_PCT / 100,
				     .may_detach = true,
				     .sparse = true,
				     .rests = stays && *stays };
	uint64_t mb = memory ? strtoull(memory, NULL, 10) : 0;

	if (budget && *budget)
		l.budget = strcmp(budget, "off") == 0 ? 0 : parse_pct(budget) / 100;
	l.allowance_bytes = (mb ? mb : ALLOWANCE_MB) << 20;
	l.shifts = shifts ? (unsigned int)strtoul(shifts, NULL, 10) : 0;
	return l;
}

/* Once CUPTI is loaded and its version is known. */
static void find_proof(void)
{
	char driver[64];
	struct proof proof;

	driver_version(driver, sizeof(driver));
	proof = proof_find(cupti_version(), driver);
	/* The stress test tries what is not proved yet. */
	cupti_trust_graphs(proof.graphs || getenv("MOESCOPE_TRUST"));
	governor.prices = proof.prices;
	proved = true;
}

static void note_attached(const char *why)
{
	struct cupti_sums now = cupti_sums();

	if (!proved) {
		find_proof();
		gpu_watch_exit(); /* it may just have been loaded */
	}
	attached = true;
	yielded = asked = false;
	changed_ns = clock_monotonic_ns();
	/* Includes the rest of the previous detach. */
	governor_attached(
		&governor, changed_ns,
		(int64_t)(now.attach_ns - before.attach_ns + now.detach_ns - before.detach_ns),
		&now.counts);
	before = now;
	write_gear(governor.gear, why);
}

static void note_detached(enum gear gear, const char *why)
{
	struct cupti_sums now = cupti_sums();
	/* Time in which nothing was recorded is not part of the window. */
	bool off = cupti_off_ns() > changed_ns;

	attached = false;
	changed_ns = clock_monotonic_ns();
	governor.host_bytes = cupti_kept_bytes() - kept_before;
	governor_detached(&governor, changed_ns, (int64_t)(now.detach_ns - before.detach_ns),
			  &now.counts);
	if (governor.rest_cost > rest_cost)
		rest_cost = governor.rest_cost;
	before = now;
	write_gear_at(off ? cupti_off_ns() : changed_ns, gear, why);
}

static void yield_to(const char *why)
{
	yielded = true;
	retry_ns = clock_monotonic_ns() + RETRY_NS;
	if (attached)
		note_detached(GEAR_YIELDED, why);
	else
		write_gear(GEAR_YIELDED, why);
}

int gears_start(bool full, char *words, size_t size)
{
	struct governor_limits l = limits();
	int r = 0;

	cupti_on_clients(gears_yield, gears_resume);
	pthread_mutex_lock(&lock);
	wish = (struct cupti_wish){ .full = full,
				    .detach = !l.rests,
				    .allowance_bytes = l.allowance_bytes };
	before = told = cupti_sums();
	flushed_ns = cost_ns = clock_monotonic_ns();
	yielded = attached = proved = told_held = false;
	rest_cost = 0;
	governor_start(&governor, &l, clock_monotonic_ns());
	kept_before = cupti_kept_bytes();
	snprintf(words, size, "GPU records when the schedule asks for them");
	if (kept_before >= LEFT_MOST) {
		snprintf(words, size,
			 "GPU records off: CUPTI holds %.1f GB of host memory that earlier "
			 "sessions in this process left behind",
			 (double)kept_before / 1e9);
		pthread_mutex_unlock(&lock);
		return -ENOMEM;
	}
	asked = wanted && !cupti_may_attach_now();
	if (asked)
		snprintf(words, size, "GPU records once the previous session has detached");
	else if (wanted)
		r = cupti_attach(&wish, words, size);
	if (asked || !wanted)
		cupti_watch_clients();
	running = r == 0 || r == -EBUSY;
	if (r == -EBUSY)
		yield_to(words);
	else if (r == 0 && wanted && !asked)
		note_attached(governor.why);
	pthread_mutex_unlock(&lock);
	return running ? 0 : r;
}

/* Another client has left its subscription behind. Collection that exceeds the budget could then
 * never be stopped. */
static bool could_not_leave(void)
{
	if (!cupti_is_held() || governor_may_stay(&governor))
		return false;
	retry_ns = clock_monotonic_ns() + RETRY_NS;
	if (!told_held)
		write_gear(GEAR_YIELDED,
			   "another profiler holds the CUPTI subscription, so recording could not "
			   "be stopped safely: no device records (--budget off records them)");
	told_held = yielded = true;
	return true;
}

/* Attaches unless already attached; the lock is held. */
static void attach_unless_attached(const char *why)
{
	enum gear gear = governor.gear;
	char words[256];
	int r;

	if (could_not_leave())
		return;
	if (!governor_may_attach(&governor)) {
		if (yielded || gear != GEAR_COUNTS)
			write_gear(governor.gear, governor.why);
		yielded = false;
		return;
	}
	r = cupti_attach(&wish, words, sizeof(words));
	if (r == 0)
		note_attached(why);
	else if (!yielded)
		yield_to(words);
	else
		retry_ns = clock_monotonic_ns() + RETRY_NS;
}

static void tick_off(int64_t now_ns, int64_t *wait_ns)
{
	struct cupti_sums sums = cupti_sums();

	if (!cupti_may_attach()) {
		*wait_ns = LEAVE_POLL_MS * MS;
		return;
	}
	if (yielded) {
		if (wanted && now_ns >= retry_ns)
			attach_unless_attached("the other profiler has finished");
		return;
	}
	if (asked && wanted) {
		asked = false;
		attach_unless_attached(ASKED);
		return;
	}
	if (cupti_state() == CUPTI_SETTLING) { /* windows can wait until it is detached */
		*wait_ns = LEAVE_POLL_MS * MS;
		return;
	}
	if (wanted && governor_ask(&governor, now_ns, &sums.counts, wait_ns) == GOVERNOR_ATTACH)
		attach_unless_attached(governor.why);
}

/* False if it stays attached, which is recorded once. */
static bool leave(enum gear gear)
{
	int r = cupti_leave(governor_patience_ns(&governor));

	leaving_to = gear;
	if (r == 0)
		return true;
	if (governor.limits.may_detach) {
		governor_cannot_detach(
			&governor,
			r == -EPERM ? "detaching while CUDA graphs run is not proven safe for "
				      "this CUPTI and driver: run moescope doctor --stress"
				    : "another profiler holds the CUPTI subscription, so "
				      "moescope cannot detach safely: always on");
		write_gear(governor.gear, governor.why);
	}
	return false;
}

static void tick_on(int64_t now_ns, int64_t *wait_ns)
{
	struct cupti_sums sums = cupti_sums();
	enum governor_order order;
	enum gear gear = governor.gear;

	if (!wanted) {
		const char *why = governor.why;

		governor.why = "outside the schedule, or paused";
		if (leave(GEAR_NONE))
			return;
		governor.why = why;
	}
	/* What the governor counts has been delivered by now. */
	if (now_ns - flushed_ns >= FLUSH_NS || governor_is_due(&governor, now_ns)) {
		flushed_ns = now_ns;
		cupti_flush();
		sums = cupti_sums();
		now_ns = clock_monotonic_ns();
	}
	order = governor_ask(&governor, now_ns, &sums.counts, wait_ns);
	if (order == GOVERNOR_DETACH)
		leave(governor.gear);
	else if (governor.gear != gear)
		write_gear(governor.gear, governor.why);
}

/* The thread that detaches notifies nobody. */
static void note_if_gone(void)
{
	enum cupti_state state = cupti_state();

	if (attached && state != CUPTI_ON && state != CUPTI_LEAVING)
		note_detached(leaving_to, governor.why);
}

unsigned int gears_tick(void)
{
	int64_t now_ns = clock_monotonic_ns(), wait_ns = TICK_NS;
	enum cupti_state state;

	cupti_settle_clients();
	pthread_mutex_lock(&lock);
	if (running) {
		state = cupti_poll();
		note_if_gone();
		if (state == CUPTI_LEAVING)
			wait_ns = LEAVE_POLL_MS * MS;
		else if (state == CUPTI_ON)
			tick_on(now_ns, &wait_ns);
		else
			tick_off(now_ns, &wait_ns);
		if (now_ns - cost_ns >= COST_NS)
			write_cost();
	}
	pthread_mutex_unlock(&lock);
	if (wait_ns > TICK_NS)
		wait_ns = TICK_NS;
	return wait_ns > MS ? (unsigned int)(wait_ns / MS) : 1;
}

static void tell_skipped(void)
{
	char words[64];

	if (!name_filter_skipped(&kernel_filter))
		return;
	snprintf(words, sizeof(words), "%llu do not match --kernel and were not recorded",
		 (unsigned long long)name_filter_skipped(&kernel_filter));
	moescope_info("kernels", words);
}

/* Only what CUPTI itself adds to a launch is known; where the program waits for the device anyway
 * nothing is lost. */
static void tell_rest_cost(void)
{
	char words[256];

	if (rest_cost <= 0 || !governor.limits.rests)
		return;
	snprintf(
		words, sizeof(words),
		"CUPTI stays attached where nothing is recorded: by the %.1f µs a kernel launch that an "
		"H200 shows, an estimated %.1f%% here if the program waits for its launches%s",
		governor.prices.rest_ns / 1e3, 100 * rest_cost,
		rest_cost > governor.limits.budget ? ", more than the budget" : "");
	moescope_info("CUPTI", words);
}

void gears_stop(bool ending)
{
	pthread_mutex_lock(&lock);
	if (running) {
		note_if_gone();
		if (ending)
			cupti_end();
		else {
			cupti_stop();
			cupti_unwatch_clients();
		}
		if (attached)
			note_detached(GEAR_NONE, "the session ends");
		write_cost();
		if (!ending || governor.windows > 1)
			tell_rest_cost();
		tell_skipped();
	}
	running = false;
	pthread_mutex_unlock(&lock);
}

void gears_want(bool on)
{
	/* A session starts with its own lock held, and a row may need that under this one: so this
	 * lock is not taken before something runs. Turning off is left to the GPU thread. */
	atomic_store(&wanted, on);
	if (!on || !atomic_load(&running))
		return;
	pthread_mutex_lock(&lock);
	note_if_gone();
	/* It may have been told to leave a moment ago. */
	if (wanted && running && !yielded && !cupti_stay()) {
		probe_on_program_thread = true;
		note_if_gone();
		asked = !cupti_may_attach_now();
		if (!asked)
			attach_unless_attached(ASKED);
		probe_on_program_thread = false;
	}
	pthread_mutex_unlock(&lock);
}

void gears_step(int64_t start_ns, int64_t end_ns)
{
	/* Which steps are compared hardly matters: one that comes at a bad moment is skipped. */
	if (pthread_mutex_trylock(&lock) != 0)
		return;
	/* While another client records, the steps include its cost. */
	if (running && !yielded && changed_ns <= start_ns &&
	    cupti_state() == (attached ? CUPTI_ON : CUPTI_OFF))
		governor_step(&governor, attached, end_ns - start_ns);
	pthread_mutex_unlock(&lock);
}

void gears_yield(const char *to)
{
	pthread_mutex_lock(&lock);
	if (running && !yielded) {
		probe_on_program_thread = true;
		cupti_leave_now();
		yield_to(to);
		retry_ns = INT64_MAX; /* until it has left */
		probe_on_program_thread = false;
	}
	pthread_mutex_unlock(&lock);
}

void gears_resume(void)
{
	pthread_mutex_lock(&lock);
	if (yielded)
		retry_ns = clock_monotonic_ns() + RETRY_NS;
	pthread_mutex_unlock(&lock);
}

void gears_process_ends(void)
{
	cupti_end();
}

void gears_after_fork(void)
{
	running = attached = yielded = false;
	cupti_after_fork();
}
