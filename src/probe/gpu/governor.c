/* SPDX-License-Identifier: Apache-2.0
 *
 * The governor's arithmetic; see governor.h.
 */
#include "probe/gpu/governor.h"

#include <stdlib.h>
#include <string.h>

#define HOST_ALLOWANCE (UINT64_C(256) << 20) /* for what CUPTI does not give back */
#define MS INT64_C(1000000)
#define LOOK_NS (100 * MS)	/* keeps the loss found by one look small */
#define DEBT_MAX_NS (10.0 * MS) /* beyond the budget: the price of finding out the cost */
#define PART_MAX 0.9		/* of attached time lost: beyond that, the prices are wrong */
#define GAP_MAX_NS 1e18
#define WINDOW_MIN_NS (50 * MS) /* below, attaching is most of what is seen */
#define WINDOW_MAX_NS (8000 * MS)
#define SWITCH_NS (16 * MS) /* until one has been measured: 11 to attach, 5 to detach */
#define MARGIN 0.8	    /* of the budget: leaves room for what is not counted */
#define UP_AGAIN 0.6	    /* of that: when windows become always */
#define STEPS_NEEDED 8	    /* of each kind before the comparison is trusted */
#define SPARSE_AFTER_NS (30000 * MS)
#define EARLY_PART 0.5 /* of the total allowed loss so far, for one window */
#define PATIENCE_MIN_NS (20 * MS)
#define PATIENCE_MAX_NS (200 * MS)
#define PATIENCE_LOST_NS (5.0 * MS) /* this much may be lost meanwhile */
#define REST_PART 0.75 /* of the budget for resting, at most: windows get the remainder */
#define FACTOR_MAX 4.0 /* beyond that, steps differ for other reasons */

void governor_start(struct governor *g, const struct governor_limits *limits, int64_t now_ns)
{
	*g = (struct governor){ .limits = *limits,
				.gear = GEAR_ALWAYS,
				.why = limits->budget > 0 ? "recording starts" : "no budget",
				.cost = -1,
				.switch_ns = SWITCH_NS,
				.rarer = 1,
				.start_ns = now_ns,
				.since_ns = now_ns,
				.looked_ns = now_ns,
				.look_ns = now_ns + LOOK_NS };
}

uint64_t governor_device_bytes(const struct governor *g)
{
	return g->windows ? g->prices.attach_bytes + (g->windows - 1) * g->prices.window_bytes : 0;
}

/* Windows that there is room for, if each takes as much. */
static uint64_t room_for(uint64_t allowance, uint64_t used, uint64_t each)
{
	if (!each)
		return UINT64_MAX;
	return used < allowance ? (allowance - used) / each : 0;
}

static uint64_t host_windows_left(const struct governor *g)
{
	return room_for(HOST_ALLOWANCE, g->host_bytes, g->windows ? g->host_bytes / g->windows : 0);
}

/* Windows that the allowances still have room for. */
static uint64_t windows_left(const struct governor *g)
{
	uint64_t device = room_for(g->limits.allowance_bytes, governor_device_bytes(g),
				   g->prices.window_bytes);
	uint64_t host = host_windows_left(g);

	return host < device ? host : device;
}

bool governor_may_attach(struct governor *g)
{
	if (g->limits.shifts || !g->windows || windows_left(g))
		return true;
	g->gear = GEAR_COUNTS;
	g->why = host_windows_left(g)
			 ? "the device memory allowance is used up: no more device records"
			 : "past windows hold too much host memory: no more device records";
	return false;
}

/* As the allowance is used up, windows become longer, up to a limit, and rarer, so that a run of
 * any length ends with some left. */
static double stretch(const struct governor *g)
{
	uint64_t left = windows_left(g);
	double all, share;

	if (left == UINT64_MAX || !left)
		return 1;
	all = (double)(left + g->windows);
	share = all / (double)left;
	return share * share;
}

static int doubles_ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of_steps(const double *values, unsigned int n)
{
	double sorted[GOVERNOR_STEPS];

	if (n > GOVERNOR_STEPS)
		n = GOVERNOR_STEPS;
	memcpy(sorted, values, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), doubles_ascending);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

/* A step with records counts as a multiple of those just before its window: steps at other times
 * may have had other work, or a busier machine. */
void governor_step(struct governor *g, bool with, int64_t duration_ns)
{
	double value = (double)duration_ns;

	if (with && (g->gear != GEAR_WINDOWS || g->n_steps[0] < STEPS_NEEDED))
		return;
	if (with)
		value /= median_of_steps(g->steps[0], g->n_steps[0]);
	g->steps[with][g->n_steps[with]++ % GOVERNOR_STEPS] = value;
}

/* The slowdown: what attaching added to a stretch of attached time. */
static double slowdown(double added_ns, double elapsed_ns)
{
	double part = added_ns / elapsed_ns;

	return part < PART_MAX ? part / (1 - part) : PART_MAX / (1 - PART_MAX);
}

/* What collecting has added according to the prices. */
static double added_since_look(const struct governor *g, const struct governor_counts *counts)
{
	return (double)(counts->launches - g->looked.launches) * g->prices.launch_ns +
	       (double)(counts->nodes - g->looked.nodes) * g->prices.node_ns +
	       (double)(counts->calls - g->looked.calls) * g->prices.call_ns;
}

/* The steps correct the prices; noise can make them neither free nor many times as expensive. */
static double corrected(struct governor *g, double cost)
{
	double by_steps = median_of_steps(g->steps[1], g->n_steps[1]) - 1;

	if (by_steps > FACTOR_MAX * cost)
		return FACTOR_MAX * cost;
	return by_steps < cost / FACTOR_MAX ? cost / FACTOR_MAX : by_steps;
}

static void measure_cost(struct governor *g, int64_t now_ns, const struct governor_counts *counts)
{
	double elapsed_ns = (double)(now_ns - g->looked_ns);
	double cost = slowdown(added_since_look(g, counts), elapsed_ns);

	g->cost_by_steps = g->n_steps[1] >= STEPS_NEEDED;
	if (g->cost_by_steps)
		cost = corrected(g, cost);
	g->cost = cost;
	g->look_ns = now_ns + LOOK_NS;
	if (g->gear == GEAR_ALWAYS) {
		/* Cheap times pay for earlier expensive ones, not in advance. */
		g->debt_ns += elapsed_ns * (cost / (1 + cost) - g->limits.budget * MARGIN);
		if (g->debt_ns < 0)
			g->debt_ns = 0;
		g->looked = *counts;
		g->looked_ns = now_ns;
	} else {
		/* A window is checked as a whole, and less often as it grows. */
		g->look_ns = now_ns + (now_ns - g->looked_ns);
	}
}

/* The lost share of attached time: without records the program would have done the same work in
 * time / (1 + cost). */
static double lost_share(const struct governor *g)
{
	return g->cost > 0 ? g->cost / (1 + g->cost) : 0;
}

/* The cost of a window of that length, including switching. */
static double window_cost(const struct governor *g, double window_ns)
{
	return window_ns * lost_share(g) + (double)g->switch_ns;
}

/* The longer a window, the less its switching matters, but once that is a quarter of the window's
 * own cost there is little left to gain. Early in a run windows are shorter: a program that ends
 * soon should get more than one, and each is paid for before it begins. */
static void plan_windows(struct governor *g, int64_t now_ns)
{
	double share = lost_share(g) > 1e-4 ? lost_share(g) : 1e-4;
	double allowed_ns = g->limits.budget * MARGIN * (double)(now_ns - g->start_ns) * EARLY_PART;
	double window_ns = 4 * (double)g->switch_ns / share, most_ns = WINDOW_MAX_NS, step_ns;
	double longer = stretch(g);

	if (window_cost(g, window_ns) > allowed_ns)
		window_ns = (allowed_ns - (double)g->switch_ns) / share;
	if (window_ns < WINDOW_MIN_NS)
		window_ns = WINDOW_MIN_NS;
	if (window_ns > most_ns)
		window_ns = most_ns;
	/* At least one whole step fits, wherever the window begins. */
	step_ns = g->n_steps[0] ? 2.5 * median_of_steps(g->steps[0], g->n_steps[0]) : 0;
	if (window_ns < step_ns)
		window_ns = step_ns;
	if (most_ns < window_ns)
		most_ns = window_ns;
	/* The program is slower for as long as a window lasts, so beyond the longest window, only
	 * the gaps grow. */
	g->rarer = longer * window_ns > most_ns ? longer * window_ns / most_ns : 1;
	g->window_ns = (int64_t)(longer * window_ns < most_ns ? longer * window_ns : most_ns);
}

/* The part of a gap's time that windows may cost. */
static double paid_share(const struct governor *g)
{
	double target = g->limits.budget * MARGIN;

	return target - (g->rest_cost < target * REST_PART ? g->rest_cost : target * REST_PART);
}

/* The gap that pays the debt and the next window. */
static int64_t gap_before_window(const struct governor *g)
{
	double target = paid_share(g), window_ns = (double)g->window_ns, gap_ns;

	if (target <= 0)
		return 0;
	gap_ns = ((g->debt_ns + window_cost(g, window_ns)) / target - window_ns) * g->rarer;
	if (gap_ns < 0)
		return 0;
	return (int64_t)(gap_ns < GAP_MAX_NS ? gap_ns : GAP_MAX_NS);
}

static enum governor_order end_window(struct governor *g, const char *why)
{
	g->why = why;
	governor_may_attach(g);
	return GOVERNOR_DETACH;
}

/* While always attached: down to windows if it costs too much. */
static enum governor_order ask_always(struct governor *g)
{
	if (g->debt_ns < DEBT_MAX_NS || !g->limits.may_detach)
		return GOVERNOR_KEEP;
	g->gear = GEAR_WINDOWS;
	/* The debt includes what was lost until now. */
	g->since_ns = g->looked_ns;
	return end_window(g, "recording costs more than the budget: windows");
}

static enum governor_order ask_window(struct governor *g, int64_t now_ns, int64_t *wait_ns)
{
	int64_t left_ns;

	plan_windows(g, g->since_ns);
	if (g->cost < g->limits.budget * MARGIN * UP_AGAIN) {
		g->gear = GEAR_ALWAYS;
		g->debt_ns += (double)g->switch_ns;
		g->why = "recording costs less than the budget: always on";
		return GOVERNOR_KEEP;
	}
	left_ns = g->since_ns + g->window_ns - now_ns;
	if (g->look_ns > now_ns + left_ns)
		g->look_ns = now_ns + left_ns; /* and again at its end */
	if (left_ns <= 0)
		return end_window(g, "window ends");
	*wait_ns = left_ns;
	return GOVERNOR_KEEP;
}

static enum governor_order ask_shifts(struct governor *g, int64_t now_ns, int64_t *wait_ns)
{
	int64_t left_ns = g->since_ns + 10 * MS - now_ns;

	*wait_ns = left_ns;
	if (left_ns > 0)
		return GOVERNOR_KEEP;
	g->gear = GEAR_WINDOWS;
	g->why = "testing the transitions";
	if (g->attached)
		return GOVERNOR_DETACH;
	*wait_ns = 10 * MS;
	return g->windows < g->limits.shifts ? GOVERNOR_ATTACH : GOVERNOR_KEEP;
}

bool governor_is_due(const struct governor *g, int64_t now_ns)
{
	return g->limits.budget > 0 && g->attached && now_ns >= g->look_ns;
}

enum governor_order governor_ask(struct governor *g, int64_t now_ns,
				 const struct governor_counts *counts, int64_t *ret_wait_ns)
{
	*ret_wait_ns = LOOK_NS;
	if (g->limits.shifts)
		return ask_shifts(g, now_ns, ret_wait_ns);
	if (g->limits.budget <= 0 || g->gear == GEAR_COUNTS)
		return GOVERNOR_KEEP;
	if (!g->attached) {
		int64_t left_ns = g->since_ns + g->gap_ns - now_ns;

		if (left_ns > 0) {
			*ret_wait_ns = left_ns;
			return GOVERNOR_KEEP;
		}
		g->why = "window";
		*ret_wait_ns = WINDOW_MIN_NS;
		return GOVERNOR_ATTACH;
	}
	if (governor_is_due(g, now_ns)) {
		measure_cost(g, now_ns, counts);
		if (g->gear == GEAR_ALWAYS)
			return ask_always(g);
	}
	if (g->gear == GEAR_WINDOWS && g->cost >= 0)
		return ask_window(g, now_ns, ret_wait_ns);
	return GOVERNOR_KEEP;
}

void governor_attached(struct governor *g, int64_t now_ns, int64_t took_ns,
		       const struct governor_counts *counts)
{
	/* What the gap has paid. A longer gap than needed pays for nothing more. */
	if (!g->attached && g->windows) {
		int64_t gap_ns = now_ns - g->since_ns < g->paid_ns ? now_ns - g->since_ns
								   : g->paid_ns;

		g->debt_ns -= (double)gap_ns * paid_share(g) / g->rarer;
	}
	g->gap_ns = 0;
	g->attached = true;
	g->windows++;
	g->window_since_ns = now_ns;
	g->window_counts = *counts;
	g->since_ns = g->looked_ns = now_ns;
	g->looked = *counts;
	g->look_ns = now_ns + (g->gear == GEAR_ALWAYS ? LOOK_NS : WINDOW_MIN_NS);
	/* The first one loads libraries, so it says nothing about the next. */
	g->switch_ns = g->windows > 1 ? took_ns : SWITCH_NS;
}

void governor_detached(struct governor *g, int64_t now_ns, int64_t took_ns,
		       const struct governor_counts *counts)
{
	double window_ns = (double)(now_ns - took_ns - g->looked_ns);
	double lost_ns = g->cost_by_steps ? window_ns * lost_share(g) : added_since_look(g, counts);

	if (lost_ns > window_ns * PART_MAX)
		lost_ns = window_ns * PART_MAX;
	/* While always attached, the debt includes everything up to the last look. */
	if (g->gear != GEAR_ALWAYS && g->since_ns < g->looked_ns) {
		window_ns += (double)(g->looked_ns - g->since_ns);
		lost_ns += (double)(g->looked_ns - g->since_ns) * lost_share(g);
	}
	g->attached = false;
	if (g->limits.rests && now_ns > g->window_since_ns)
		g->rest_cost = (double)(counts->launches - g->window_counts.launches) *
			       g->prices.rest_ns / (double)(now_ns - g->window_since_ns);
	g->switch_ns += took_ns;
	g->debt_ns += lost_ns + (double)g->switch_ns - window_ns * g->limits.budget * MARGIN;
	g->since_ns = now_ns;
	plan_windows(g, now_ns);
	g->gap_ns = g->paid_ns = gap_before_window(g);
	/* Every switch is a risk to the program, and a dozen windows say as much as hundreds:
	 * except for the first few, each is at least as far from the last as that was from the
	 * start. */
	if (g->limits.sparse && now_ns - g->start_ns > SPARSE_AFTER_NS &&
	    g->gap_ns < now_ns - g->start_ns)
		g->gap_ns = now_ns - g->start_ns;
}

int64_t governor_patience_ns(const struct governor *g)
{
	double ns = g->cost > 0 ? PATIENCE_LOST_NS / g->cost : PATIENCE_MAX_NS;

	if (ns < PATIENCE_MIN_NS)
		return PATIENCE_MIN_NS;
	return ns < PATIENCE_MAX_NS ? (int64_t)ns : PATIENCE_MAX_NS;
}

bool governor_may_stay(const struct governor *g)
{
	/* Windows mean that it costs too much, whatever an idle last one says. */
	return g->limits.budget <= 0 ||
	       (g->gear == GEAR_ALWAYS && g->cost >= 0 && g->cost <= g->limits.budget * MARGIN);
}

void governor_cannot_detach(struct governor *g, const char *why)
{
	g->limits.may_detach = false;
	g->limits.shifts = 0;
	g->gear = GEAR_ALWAYS;
	g->why = why;
}
