/* SPDX-License-Identifier: Apache-2.0
 *
 * The governor by itself, fed by hand: no CUPTI, no clock, no thread. Programs are simulated by
 * how many kernels they launch and what it takes to attach to them; the budget must hold for any.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/gpu/governor.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)
#define MB (UINT64_C(1) << 20)
#define BUDGET 0.01
#define TARGET (0.8 * BUDGET)
#define LAUNCH_NS 1000.0

static const struct governor_limits usual = { .budget = BUDGET,
					      .allowance_bytes = 128 * MB,
					      .may_detach = true };
static const struct governor_prices prices = { .launch_ns = LAUNCH_NS,
					       .node_ns = 500,
					       .call_ns = 100,
					       .attach_bytes = 14 * MB,
					       .window_bytes = 600 << 10 };

/* A program, and the machine that it runs on. */
struct program {
	double cost; /* slowdown while attached */
	int64_t attach_ns, detach_ns;
	int64_t leave_ns;	  /* from the order to detach until it is done */
	int64_t step_ns;	  /* 0: it tells none */
	int64_t busy_ns, idle_ns; /* in turn; idle_ns 0: always busy */
};

struct world {
	struct governor governor;
	const struct program *program;
	int64_t start_ns, now_ns;
	struct governor_counts counts;
	double launches;			   /* with fractions */
	double lost_ns, covered_ns, lost_first_ns; /* in the first second */
	int64_t step_at_ns;
	uint64_t detaches, most_bytes;
};

static bool busy(const struct world *w)
{
	const struct program *p = w->program;

	return !p->idle_ns || w->now_ns % (p->busy_ns + p->idle_ns) < p->busy_ns;
}

static void lose(struct world *w, double ns)
{
	w->lost_ns += ns;
	if (w->now_ns - w->start_ns <= SECOND)
		w->lost_first_ns += ns;
}

/* The program runs on for a while; without records nobody counts what it does. */
static void advance(struct world *w, int64_t ns)
{
	double cost = busy(w) ? w->program->cost : 0, work_ns;
	bool attached = w->governor.attached;

	w->now_ns += ns;
	if (w->program->step_ns && w->now_ns - w->step_at_ns > 2 * w->program->step_ns) {
		w->step_at_ns = w->now_ns;
		governor_step(&w->governor, attached,
			      (int64_t)((double)w->program->step_ns * (1 + attached * cost)));
	}
	if (!attached)
		return;
	work_ns = (double)ns / (1 + cost);
	lose(w, (double)ns - work_ns);
	w->covered_ns += (double)ns;
	w->launches += work_ns * cost / LAUNCH_NS;
	w->counts.launches = (uint64_t)w->launches;
}

static void attach(struct world *w)
{
	w->now_ns += w->program->attach_ns;
	lose(w, (double)w->program->attach_ns);
	governor_attached(&w->governor, w->now_ns, w->program->attach_ns, &w->counts);
	w->step_at_ns = w->now_ns;
	if (governor_device_bytes(&w->governor) > w->most_bytes)
		w->most_bytes = governor_device_bytes(&w->governor);
}

static void detach(struct world *w)
{
	advance(w, w->program->leave_ns);
	w->now_ns += w->program->detach_ns;
	lose(w, (double)w->program->detach_ns);
	governor_detached(&w->governor, w->now_ns, w->program->detach_ns, &w->counts);
	w->step_at_ns = w->now_ns;
	w->detaches++;
}

static void begin(struct world *w, const struct program *program,
		  const struct governor_limits *limits)
{
	*w = (struct world){ .program = program, .start_ns = 77 * SECOND, .now_ns = 77 * SECOND };
	governor_start(&w->governor, limits, w->now_ns);
	w->governor.prices = prices;
	attach(w);
}

/* Share of the time that was lost so far, without the first second. */
static double mean_cost(const struct world *w)
{
	return (w->lost_ns - w->lost_first_ns) / (double)(w->now_ns - w->start_ns - SECOND);
}

/* One question, and what follows from the answer. */
static enum governor_order turn(struct world *w)
{
	int64_t wait_ns;
	enum governor_order order = governor_ask(&w->governor, w->now_ns, &w->counts, &wait_ns);

	if (order == GOVERNOR_ATTACH)
		attach(w);
	else if (order == GOVERNOR_DETACH)
		detach(w);
	else if (w->governor.attached && wait_ns > 100 * MS)
		advance(w, 100 * MS);
	else
		advance(w, wait_ns > MS ? wait_ns : MS);
	return order;
}

static void run_for(struct world *w, int64_t ns)
{
	int64_t until_ns = w->now_ns + ns;

	while (w->now_ns < until_ns)
		turn(w);
}

static void run_until(struct world *w, enum governor_order order)
{
	int64_t until_ns = w->now_ns + 10000 * HOUR;

	while (turn(w) != order)
		if (w->now_ns > until_ns)
			fail_msg("the governor never orders %d", order);
}

static const struct program cheap = { .cost = 0.005, .attach_ns = 11 * MS, .detach_ns = 5 * MS };
static const struct program dear = { .cost = 0.5, .attach_ns = 11 * MS, .detach_ns = 5 * MS };

static void test_cheap_is_always(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &cheap, &usual);
	run_for(&w, HOUR);
	assert_int_equal(w.governor.gear, GEAR_ALWAYS);
	assert_int_equal(w.detaches, 0);
	assert_true(w.governor.attached);
	assert_true(fabs(w.governor.cost - cheap.cost) < 1e-4);
	assert_int_equal(governor_device_bytes(&w.governor), prices.attach_bytes);
}

static const struct governor_counts none = { 0 };

static struct governor started(enum gear gear)
{
	struct governor g;

	governor_start(&g, &usual, 0);
	g.prices = prices;
	g.gear = gear;
	return g;
}

/* All three prices count. */
static void test_prices(void **state)
{
	static const struct governor_counts counts = { .launches = 1000,
						       .nodes = 4000,
						       .calls = 20000 };
	struct governor g = started(GEAR_ALWAYS);
	int64_t wait_ns;

	(void)state;
	governor_attached(&g, 0, 11 * MS, &none);
	assert_true(g.cost < 0);
	governor_ask(&g, 300 * MS, &counts, &wait_ns);
	/* 1 + 2 + 2 ms of 300 have been added to 295. */
	assert_true(fabs(g.cost - 5.0 / 295) < 1e-9);
}

static enum governor_order look(struct governor *g, int64_t at_ns, uint64_t launches)
{
	struct governor_counts counts = { .launches = launches };
	int64_t wait_ns;

	return governor_ask(g, at_ns, &counts, &wait_ns);
}

static void test_debt(void **state)
{
	struct governor g = started(GEAR_ALWAYS);

	(void)state;
	governor_attached(&g, 0, 11 * MS, &none);
	assert_false(governor_is_due(&g, 99 * MS));
	assert_int_equal(look(&g, 99 * MS, 100000), GOVERNOR_KEEP);
	assert_true(governor_is_due(&g, 100 * MS));
	/* 5 ms lost in 100, of which 0.8 are paid for; then nothing in 250, which pays for 2. */
	assert_int_equal(look(&g, 100 * MS, 5000), GOVERNOR_KEEP);
	assert_true(fabs(g.debt_ns - 4.2 * MS) < 0.01 * MS);
	assert_int_equal(look(&g, 350 * MS, 5000), GOVERNOR_KEEP);
	assert_true(fabs(g.debt_ns - 2.2 * MS) < 0.01 * MS);
	assert_int_equal(look(&g, 450 * MS, 10000), GOVERNOR_KEEP);
	assert_int_equal(g.gear, GEAR_ALWAYS);
	assert_int_equal(look(&g, 550 * MS, 15000), GOVERNOR_DETACH);
	assert_int_equal(g.gear, GEAR_WINDOWS);
	assert_non_null(strstr(g.why, "more than the budget"));
}

static const double all_costs[] = { 0.0085, 0.02, 0.1, 0.35, 0.9, 3 };

/* Once windows have their full length, what is lost in one and by switching is no more than the
 * target's share of window and gap, and not much less either. */
static void test_window_and_gap(void **state)
{
	static const int64_t switches_ns[] = { MS, 16 * MS, 150 * MS };

	(void)state;
	for (size_t c = 0; c < sizeof(all_costs) / sizeof(all_costs[0]); c++)
		for (size_t s = 0; s < sizeof(switches_ns) / sizeof(switches_ns[0]); s++) {
			struct program p = { .cost = all_costs[c],
					     .attach_ns = switches_ns[s] / 2,
					     .detach_ns = switches_ns[s] / 2,
					     .leave_ns = 100 * MS };
			struct governor_limits limits = usual;
			double since_ns, lost_ns, share;
			struct world w;

			limits.allowance_bytes = UINT64_MAX / 2; /* nothing is stretched */
			begin(&w, &p, &limits);
			run_for(&w, 10 * HOUR);
			run_until(&w, GOVERNOR_DETACH);
			since_ns = (double)w.now_ns;
			lost_ns = w.lost_ns;
			for (int i = 0; i < 10; i++)
				run_until(&w, GOVERNOR_DETACH);
			share = (w.lost_ns - lost_ns) / ((double)w.now_ns - since_ns);
			if (!(share <= TARGET * 1.02 && share >= TARGET * 0.95))
				fail_msg("cost %g, switching %g ms: %g", p.cost,
					 (double)switches_ns[s] / MS, share);
		}
}

/* The budget holds at every moment from ten seconds on, and for a tenth of a second before. */
static void test_from_the_first_second(void **state)
{
	const size_t n = sizeof(all_costs) / sizeof(all_costs[0]);

	(void)state;
	for (size_t c = 0; c < 2 * n; c++) { /* always busy; in bursts */
		struct program p = { .cost = all_costs[c % n],
				     .attach_ns = 11 * MS,
				     .detach_ns = 8 * MS,
				     .busy_ns = 2 * SECOND,
				     .idle_ns = (int64_t)(c / n) * 9 * SECOND };
		struct world w;

		begin(&w, &p, &usual);
		while (w.now_ns - w.start_ns < 600 * SECOND) {
			double ran_ns = (double)(w.now_ns - w.start_ns);
			double may_ns = ran_ns < 10 * SECOND ? 100 * MS : BUDGET * ran_ns;

			turn(&w);
			if (w.lost_ns > may_ns)
				fail_msg("cost %g: %g ms lost after %g s", p.cost, w.lost_ns / MS,
					 ran_ns / SECOND);
		}
		/* And something is seen: a first window, and others soon. */
		assert_true(w.detaches >= 3 || p.cost < 0.01 || p.idle_ns);
		assert_true(w.covered_ns > 100 * MS);
	}
}

/* The dearer it is, the shorter the wait for a good moment to detach. */
static void test_patience(void **state)
{
	struct governor g = started(GEAR_ALWAYS);

	(void)state;
	assert_int_equal(governor_patience_ns(&g), 200 * MS);
	assert_false(governor_may_stay(&g));
	g.cost = 0.1;
	assert_int_equal(governor_patience_ns(&g), 50 * MS);
	g.cost = 0.007;
	assert_int_equal(governor_patience_ns(&g), 200 * MS);
	assert_true(governor_may_stay(&g));
	g.gear = GEAR_WINDOWS; /* it cost too much; the program was idle in the last window */
	assert_false(governor_may_stay(&g));
	g.cost = 5;
	assert_int_equal(governor_patience_ns(&g), 20 * MS);
	g.limits.budget = 0;
	assert_true(governor_may_stay(&g));
}

/* Asked for inside a gap (a schedule, a pause that ends): the rest of the gap is added later. */
static void test_cut_gap_is_owed(void **state)
{
	int64_t gap_ns, left_ns;
	struct world w;

	(void)state;
	begin(&w, &dear, &usual);
	run_for(&w, HOUR / 12); /* windows have their full length */
	run_until(&w, GOVERNOR_DETACH);
	gap_ns = w.governor.gap_ns;
	advance(&w, SECOND);
	left_ns = gap_ns - SECOND - w.program->attach_ns;
	attach(&w);
	run_until(&w, GOVERNOR_DETACH);
	assert_true(llabs(w.governor.gap_ns - gap_ns - left_ns) < gap_ns / 20);
	run_until(&w, GOVERNOR_DETACH); /* once */
	assert_true(llabs(w.governor.gap_ns - gap_ns) < gap_ns / 20);
}

static struct governor with_steps(unsigned int n_without, unsigned int n_with, double ratio)
{
	struct governor g = started(GEAR_WINDOWS);

	governor_attached(&g, 0, 11 * MS, &none);
	for (unsigned int i = 0; i < n_without; i++)
		governor_step(&g, false, 10 * MS + (i % 3) * MS / 10);
	for (unsigned int i = 0; i < n_with; i++)
		governor_step(&g, true, (int64_t)(ratio * (10 * MS + (i % 3) * MS / 10)));
	/* 20% by the prices. */
	look(&g, 300 * MS, (uint64_t)(300 * MS / 1.2 * 0.2 / LAUNCH_NS));
	return g;
}

static void test_steps_decide(void **state)
{
	struct governor g = with_steps(7, 32, 1.3);

	(void)state;
	assert_false(g.cost_by_steps);
	assert_true(fabs(g.cost - 0.2) < 1e-2);
	g = with_steps(32, 7, 1.3);
	assert_false(g.cost_by_steps);
	g = with_steps(8, 8, 1.3);
	assert_true(g.cost_by_steps);
	assert_true(fabs(g.cost - 0.3) < 1e-2);
	g = with_steps(1000, 1000, 1.3); /* more than are kept */
	assert_true(fabs(g.cost - 0.3) < 1e-2);
	/* Steps that got faster are noise: it is not free. */
	g = with_steps(32, 32, 0.9);
	assert_true(fabs(g.cost - 0.2 / 4) < 1e-2);
	/* And not many times as dear as the prices say. */
	g = with_steps(32, 32, 5);
	assert_true(fabs(g.cost - 0.2 * 4) < 1e-2);
}

/* The program's steps became five times as short between two windows: that is not a cost. */
static void test_steps_of_another_time(void **state)
{
	struct governor g = started(GEAR_WINDOWS);

	(void)state;
	for (int64_t length = 50 * MS; length >= 10 * MS; length -= 40 * MS) {
		for (unsigned int i = 0; i < GOVERNOR_STEPS; i++)
			governor_step(&g, false, length);
		governor_attached(&g, 0, 11 * MS, &none);
		for (unsigned int i = 0; i < 4; i++)
			governor_step(&g, true, length * 13 / 10);
	}
	look(&g, 300 * MS, (uint64_t)(300 * MS / 1.2 * 0.2 / LAUNCH_NS));
	assert_true(g.cost_by_steps);
	assert_true(fabs(g.cost - 0.3) < 1e-2);
}

/* Each window twice as late as the one before: a day has a dozen, and the budget is kept. */
static void test_sparse(void **state)
{
	struct governor_limits limits = usual;
	struct world w;

	(void)state;
	limits.sparse = true;
	begin(&w, &dear, &limits);
	run_for(&w, 24 * HOUR);
	assert_in_range(w.detaches, 10, 18);
	assert_true(mean_cost(&w) <= BUDGET);
}

/* Between windows CUPTI slows launches, too: the budget has less left for windows, but never nothing,
 * and the cost is known. `dear` loses a third of its time to launches of 1 µs each while attached. */
static void test_rests(void **state)
{
	struct governor_limits limits = usual;
	struct world detaches, rests;

	(void)state;
	begin(&detaches, &dear, &limits);
	run_for(&detaches, HOUR);
	assert_true(detaches.governor.rest_cost == 0);
	limits.rests = true;
	begin(&rests, &dear, &limits);
	rests.governor.prices.rest_ns = LAUNCH_NS / 100;
	run_for(&rests, HOUR);
	assert_true(fabs(rests.governor.rest_cost - 0.01 / 3) < 0.0005);
	assert_true(rests.covered_ns < 0.75 * detaches.covered_ns);
	assert_true(mean_cost(&rests) <= BUDGET - 0.003);
	begin(&rests, &dear, &limits);
	rests.governor.prices.rest_ns = LAUNCH_NS; /* more than the whole budget */
	run_for(&rests, HOUR);
	assert_true(rests.detaches > 10 && mean_cost(&rests) <= BUDGET / 3);
}

/* Steps are long: a window has room for a whole one. */
static void test_window_holds_a_step(void **state)
{
	struct program p = dear;
	struct world w;

	(void)state;
	p.step_ns = 700 * MS;
	begin(&w, &p, &usual);
	run_for(&w, HOUR);
	assert_true(w.governor.n_steps[1] >= 8 && w.governor.cost_by_steps);
	assert_true(w.governor.window_ns >= 2 * p.step_ns);
	assert_true(mean_cost(&w) <= BUDGET);
}

static void test_up_again(void **state)
{
	struct program p = dear;
	struct world w;

	(void)state;
	begin(&w, &p, &usual);
	run_for(&w, 60 * SECOND);
	assert_int_equal(w.governor.gear, GEAR_WINDOWS);
	p.cost = 0.002;
	run_for(&w, 60 * SECOND);
	assert_int_equal(w.governor.gear, GEAR_ALWAYS);
	assert_true(w.governor.attached);
	assert_non_null(strstr(w.governor.why, "always"));
	p.cost = 0.5;
	run_for(&w, 3 * SECOND);
	assert_int_equal(w.governor.gear, GEAR_WINDOWS);
}

/* Between what goes up and what goes down there is room: it does not swing. */
static void test_no_swinging(void **state)
{
	struct program p = dear;
	struct world w;
	uint64_t detaches;

	(void)state;
	begin(&w, &p, &usual);
	run_for(&w, 60 * SECOND);
	p.cost = 0.0075;
	run_for(&w, 600 * SECOND);
	assert_int_equal(w.governor.gear, GEAR_WINDOWS);
	p.cost = 0.003;
	run_for(&w, 600 * SECOND);
	assert_int_equal(w.governor.gear, GEAR_ALWAYS);
	p.cost = 0.0075;
	detaches = w.detaches;
	run_for(&w, 600 * SECOND);
	assert_int_equal(w.governor.gear, GEAR_ALWAYS);
	assert_int_equal(w.detaches, detaches);
}

static void test_memory_lasts(void **state)
{
	struct program p = dear;
	double first_gap_ns = 0;
	struct world w;

	(void)state;
	p.attach_ns = 3 * MS; /* thousands of windows if memory were nothing */
	p.detach_ns = MS;
	begin(&w, &p, &usual);
	while (w.now_ns - w.start_ns < 20 * HOUR) {
		turn(&w);
		if (!first_gap_ns && !w.governor.attached)
			first_gap_ns = (double)w.governor.gap_ns;
		assert_true(governor_device_bytes(&w.governor) <= usual.allowance_bytes);
		assert_true(w.governor.window_ns <= 30 * SECOND);
	}
	/* Not used up at the end of a long run, and most of it was used. */
	assert_int_equal(w.governor.gear, GEAR_WINDOWS);
	assert_true(w.governor.windows > 100);
	assert_true((double)w.governor.gap_ns > 100 * first_gap_ns);
	assert_true(mean_cost(&w) <= BUDGET);
	run_for(&w, 1000 * HOUR);
	assert_true(w.most_bytes <= usual.allowance_bytes);
	assert_true(mean_cost(&w) <= BUDGET);
}

static void test_memory_without_price(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &dear, &usual);
	w.governor.prices.window_bytes = 0;
	run_for(&w, 10 * HOUR);
	assert_true(w.governor.windows > 3000);
	assert_int_equal(w.governor.gear, GEAR_WINDOWS);
}

static void test_memory_used_up(void **state)
{
	struct governor_limits small = usual;
	struct world w;

	(void)state;
	small.allowance_bytes = prices.attach_bytes + 3 * prices.window_bytes + 1;
	begin(&w, &dear, &small);
	run_for(&w, 3000 * HOUR);
	assert_int_equal(w.governor.windows, 4);
	assert_int_equal(w.governor.gear, GEAR_COUNTS);
	assert_false(w.governor.attached);
	assert_false(governor_may_attach(&w.governor));
	assert_non_null(strstr(w.governor.why, "allowance"));
	assert_true(w.most_bytes <= small.allowance_bytes);
	/* Room for the first attaching alone. */
	small.allowance_bytes = prices.attach_bytes;
	begin(&w, &dear, &small);
	run_for(&w, HOUR);
	assert_int_equal(w.governor.gear, GEAR_COUNTS);
	assert_int_equal(w.governor.windows, 1);
}

/* What windows leave behind on the host is limited as well. */
static void test_host_memory(void **state)
{
	struct world w;

	(void)state;
	begin(&w, &dear, &usual);
	run_for(&w, HOUR);
	assert_int_equal(w.governor.gear, GEAR_WINDOWS);
	w.governor.host_bytes = w.governor.windows * MB;
	assert_true(governor_may_attach(&w.governor));
	w.governor.host_bytes = 256 * MB;
	assert_false(governor_may_attach(&w.governor));
	assert_int_equal(w.governor.gear, GEAR_COUNTS);
	assert_non_null(strstr(w.governor.why, "host memory"));
}

/* A schedule that turns records on and off spends the allowance, too. */
static void test_memory_of_a_schedule(void **state)
{
	struct governor_limits off = usual;
	struct world w;
	int times = 1;

	(void)state;
	off.budget = 0;
	begin(&w, &cheap, &off);
	for (;; times++) {
		advance(&w, SECOND);
		detach(&w);
		assert_int_equal(w.governor.gap_ns, 0);
		if (!governor_may_attach(&w.governor))
			break;
		attach(&w);
	}
	assert_int_equal(times,
			 1 + (usual.allowance_bytes - prices.attach_bytes) / prices.window_bytes);
	assert_true(w.most_bytes <= usual.allowance_bytes);
	assert_int_equal(w.governor.gear, GEAR_COUNTS);
}

static void test_budget_off(void **state)
{
	struct governor_limits off = usual;
	struct program p = dear;
	struct world w;

	(void)state;
	off.budget = 0;
	p.cost = 8;
	begin(&w, &p, &off);
	run_for(&w, HOUR);
	assert_int_equal(w.governor.gear, GEAR_ALWAYS);
	assert_int_equal(w.detaches, 0);
	assert_false(governor_is_due(&w.governor, w.now_ns));
}

static void test_shifts(void **state)
{
	struct governor_limits limits = usual;
	struct world w;

	(void)state;
	limits.shifts = 500; /* more than the allowance has room for */
	begin(&w, &cheap, &limits);
	run_for(&w, 60 * SECOND);
	assert_int_equal(w.governor.windows, 500);
	assert_int_equal(w.detaches, 500);
	assert_false(w.governor.attached);
}

static void test_cannot_detach(void **state)
{
	struct governor_limits limits = usual;
	struct world w;

	(void)state;
	begin(&w, &dear, &usual);
	while (governor_ask(&w.governor, w.now_ns, &w.counts, &(int64_t){ 0 }) != GOVERNOR_DETACH)
		advance(&w, 100 * MS);
	governor_cannot_detach(&w.governor, "because");
	assert_int_equal(w.governor.gear, GEAR_ALWAYS);
	assert_string_equal(w.governor.why, "because");
	run_for(&w, 60 * SECOND);
	assert_int_equal(w.detaches, 0);
	/* Known from the start. */
	limits.may_detach = false;
	begin(&w, &dear, &limits);
	run_for(&w, 60 * SECOND);
	assert_int_equal(w.detaches, 0);
	assert_true(fabs(w.governor.cost - dear.cost) < 0.01); /* and it is told */
	/* A test of the transitions ends. */
	limits = usual;
	limits.shifts = 10;
	begin(&w, &cheap, &limits);
	governor_cannot_detach(&w.governor, "because");
	run_for(&w, 60 * SECOND);
	assert_int_equal(w.detaches, 0);
}

static double random_between(uint64_t *seed, double least, double most)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return least + (most - least) * (double)(*seed >> 11) / (double)(UINT64_C(1) << 53);
}

static struct program random_program(uint64_t *seed)
{
	struct program p = {
		.cost = exp(random_between(seed, log(1e-4), log(8))),
		.attach_ns = (int64_t)random_between(seed, (double)MS, 60.0 * MS),
		.detach_ns = (int64_t)random_between(seed, (double)MS, 40.0 * MS),
		.leave_ns = (int64_t)random_between(seed, 0, 300.0 * MS),
	};

	if (random_between(seed, 0, 1) < 0.4)
		p.step_ns = (int64_t)exp(random_between(seed, log(MS), log(2.0 * SECOND)));
	if (!p.step_ns && random_between(seed, 0, 1) < 0.5) {
		p.busy_ns = (int64_t)exp(random_between(seed, log(50.0 * MS), log(60.0 * SECOND)));
		p.idle_ns = (int64_t)exp(random_between(seed, log(50.0 * MS), log(60.0 * SECOND)));
	}
	return p;
}

/* Whatever the program: at the end of every gap the budget has been kept, and there is something
 * to see. */
static void test_any_program(void **state)
{
	static const double budgets[] = { 0.005, 0.01, 0.05 };
	uint64_t seed = 20240611;

	(void)state;
	for (int i = 0; i < 600; i++) {
		struct program p = random_program(&seed);
		struct governor_limits limits = usual;
		struct world w;

		limits.budget = budgets[i % 3];
		begin(&w, &p, &limits);
		while (w.now_ns - w.start_ns < 2 * HOUR) {
			if (turn(&w) == GOVERNOR_ATTACH && w.now_ns - w.start_ns > 900 * SECOND &&
			    mean_cost(&w) > limits.budget)
				fail_msg("program %d (cost %g, switching %lld + %lld ms, leaving "
					 "%lld ms, busy %lld idle %lld ms) lost %g after %lld s",
					 i, p.cost, (long long)(p.attach_ns / MS),
					 (long long)(p.detach_ns / MS),
					 (long long)(p.leave_ns / MS), (long long)(p.busy_ns / MS),
					 (long long)(p.idle_ns / MS), mean_cost(&w),
					 (long long)((w.now_ns - w.start_ns) / SECOND));
			assert_true(governor_device_bytes(&w.governor) <= limits.allowance_bytes);
		}
		assert_true(w.covered_ns > 0);
		/* What is cheap is seen in full. */
		if (p.cost < 0.75 * limits.budget)
			assert_true(w.covered_ns > 0.999 * (double)(2 * HOUR));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cheap_is_always),
		cmocka_unit_test(test_prices),
		cmocka_unit_test(test_debt),
		cmocka_unit_test(test_window_and_gap),
		cmocka_unit_test(test_from_the_first_second),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_cut_gap_is_owed),
		cmocka_unit_test(test_steps_decide),
		cmocka_unit_test(test_steps_of_another_time),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_rests),
		cmocka_unit_test(test_window_holds_a_step),
		cmocka_unit_test(test_up_again),
		cmocka_unit_test(test_no_swinging),
		cmocka_unit_test(test_memory_lasts),
		cmocka_unit_test(test_memory_without_price),
		cmocka_unit_test(test_memory_used_up),
		cmocka_unit_test(test_host_memory),
		cmocka_unit_test(test_memory_of_a_schedule),
		cmocka_unit_test(test_budget_off),
		cmocka_unit_test(test_shifts),
		cmocka_unit_test(test_cannot_detach),
		cmocka_unit_test(test_any_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
