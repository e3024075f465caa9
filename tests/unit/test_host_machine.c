/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under a program, from tables made by hand: its figures, its verdicts, and what a damaged file may
 * hold.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "judge.h"
#include "subjects/host/host.h"
#include "subjects/host/host_phases.h"
#include "subjects/host/host_points.h"

#define SECOND INT64_C(1000000000)
#define LOOKS 21 /* half a second apart: ten seconds */
#define MEMORY INT64_C(64000000000)

static void put(struct run *run, int look, enum host_place place, const char *name,
		enum host_metric metric, double value)
{
	fake_add_host_sample(
		run, 0,
		&(struct row_host_sample){ .time_ns = look * SECOND / 2,
					   .place = (uint8_t)place,
					   .name = *name ? fake_string(run, name) : 0,
					   .metric = fake_string(run, host_metric_name(metric)),
					   .value = (int64_t)value });
}

static void fact(struct run *run, const char *key, const char *value)
{
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, key),
					  .value = fake_string(run, value) });
}

/* What a program of one process does each second, in seconds, threads and bytes. */
struct plan {
	double user, system, ready, others, steal, blocked, io_pressure, throttled;
	double allowed, quota, grows, reads, sends, swaps, faults, used, limit;
	int threads, active;
	bool python;
	int64_t cpu_nodes, memory_nodes;
};

static struct run *run_of(const struct plan *plan)
{
	struct run *run = fake_run_new();

	fake_span(run, 0, 10 * SECOND);
	fact(run, "process 77", "train");
	for (int i = 0; i < LOOKS; i++) {
		double s = i * 0.5, ns = s * 1e9;
		double busy = plan->user + plan->system + plan->others;

		put(run, i, HOST_MACHINE, "", HOST_LOOKS, i + 1);
		put(run, i, HOST_MACHINE, "", HOST_OWN_NS, ns / 2000);
		put(run, i, HOST_MACHINE, "", HOST_CPUS, 4);
		put(run, i, HOST_MACHINE, "", HOST_USER_NS,
		    (plan->user + plan->others) * ns + 5e12);
		put(run, i, HOST_MACHINE, "", HOST_SYSTEM_NS, plan->system * ns);
		put(run, i, HOST_MACHINE, "", HOST_STEAL_NS, plan->steal * ns);
		put(run, i, HOST_MACHINE, "", HOST_IDLE_NS, (4 - busy - plan->steal) * ns);
		put(run, i, HOST_MACHINE, "", HOST_IO_PRESSURE_NS, plan->io_pressure * ns);
		put(run, i, HOST_MACHINE, "", HOST_MEMORY_PRESSURE_NS,
		    plan->swaps > 0 ? ns / 4 : 0);
		put(run, i, HOST_MACHINE, "", HOST_MEMORY_BYTES, (double)MEMORY);
		put(run, i, HOST_MACHINE, "", HOST_AVAILABLE_BYTES, (double)MEMORY / 2);
		put(run, i, HOST_MACHINE, "", HOST_SWAP_IN_BYTES, plan->swaps * s);
		put(run, i, HOST_MACHINE, "", HOST_SWAP_OUT_BYTES, 0);
		put(run, i, HOST_DISK, "sda", HOST_READ_BYTES, plan->reads * s);
		put(run, i, HOST_DISK, "sda", HOST_WRITTEN_BYTES, 0);
		put(run, i, HOST_NETWORK, "eth0", HOST_RECEIVED_BYTES, plan->sends * s);
		put(run, i, HOST_NETWORK, "eth0", HOST_SENT_BYTES, 0);
		put(run, i, HOST_NETWORK, "eth0", HOST_LINK_BYTES_PER_S, 1e9);
		if (plan->others > 0)
			put(run, i, HOST_OTHER, "neighbour", HOST_CPU_NS, plan->others * ns);
		if (plan->quota > 0) {
			put(run, i, HOST_CGROUP, "", HOST_QUOTA_MILLICPUS, plan->quota * 1000);
			put(run, i, HOST_CGROUP, "", HOST_PERIODS, i * 5);
			put(run, i, HOST_CGROUP, "", HOST_THROTTLED_PERIODS,
			    i * 5 * plan->throttled);
			put(run, i, HOST_CGROUP, "", HOST_THROTTLED_NS, plan->throttled * ns);
		}
		if (plan->limit > 0) {
			put(run, i, HOST_CGROUP, "", HOST_LIMIT_BYTES, plan->limit);
			put(run, i, HOST_CGROUP, "", HOST_USED_BYTES, plan->used);
		}
		if (i == LOOKS - 1)
			break; /* it has ended */
		put(run, i, HOST_PROCESS, "77", HOST_USER_NS, plan->user * ns);
		put(run, i, HOST_PROCESS, "77", HOST_SYSTEM_NS, plan->system * ns);
		put(run, i, HOST_PROCESS, "77", HOST_READY_NS, plan->ready * ns);
		put(run, i, HOST_PROCESS, "77", HOST_THREADS, plan->threads);
		put(run, i, HOST_PROCESS, "77", HOST_ACTIVE_THREADS, plan->active);
		put(run, i, HOST_PROCESS, "77", HOST_THREAD_LOOKS, i * 10);
		put(run, i, HOST_PROCESS, "77", HOST_BLOCKED_LOOKS, i * 10 * plan->blocked);
		put(run, i, HOST_PROCESS, "77", HOST_RESIDENT_BYTES, 1e8 + plan->grows * s);
		put(run, i, HOST_PROCESS, "77", HOST_MAJOR_FAULTS, plan->faults * s);
		put(run, i, HOST_PROCESS, "77", HOST_READ_BYTES, plan->reads * s);
		put(run, i, HOST_PROCESS, "77", HOST_WRITTEN_BYTES, 0);
		put(run, i, HOST_PROCESS, "77", HOST_ALLOWED_CPUS,
		    plan->allowed > 0 ? plan->allowed : 4);
		put(run, i, HOST_PROCESS, "77", HOST_PYTHON, plan->python);
		put(run, i, HOST_PROCESS, "77", HOST_CPU_NODES, (double)plan->cpu_nodes);
		put(run, i, HOST_PROCESS, "77", HOST_MEMORY_NODES, (double)plan->memory_nodes);
	}
	return run;
}

static void figures(void **state)
{
	struct run *run = run_of(&(struct plan){ .user = 1.5,
						 .system = 0.25,
						 .ready = 0.5,
						 .others = 0.5,
						 .threads = 3,
						 .active = 2,
						 .blocked = 0.5,
						 .reads = 1e6 });
	struct host host;
	const struct host_process *p;
	double sum = 0;

	(void)state;
	assert_int_equal(host_analyze(run, &host), 0);
	assert_null(host.missing);
	assert_int_equal(host.looks, LOOKS);
	assert_int_equal(host.elapsed_ns, 10 * SECOND);
	assert_float_equal(host.own_pct.v, 0.05, 1e-6);
	assert_float_equal(host.user_pct.v, 50, 1e-6);
	assert_float_equal(host.system_pct.v, 6.25, 1e-6);
	assert_float_equal(host.others_cpus.v, 0.5, 1e-6);
	assert_float_equal(host.disk_read_bytes.v, 1e7, 1);
	/* What nobody read is absent. */
	assert_false(host.iowait_pct.known || host.quota_cpus.known || host.limit_bytes.known);
	assert_int_equal(host.n_processes, 1);
	p = host.processes;
	assert_int_equal(p->pid, 77);
	assert_string_equal(p->name, "train");
	assert_float_equal(p->user_ns, 1.5 * 9.5e9, 1);
	assert_float_equal(p->cpus, 1.75, 1e-6);
	assert_float_equal(p->blocked_threads.v, 1.5, 1e-6);
	assert_float_equal(p->peak_resident_bytes.v, 1e8, 1);
	assert_false(p->growth_bytes_per_s.known || p->swapped_bytes.known);
	assert_int_equal(host.n_times, LOOKS - 1);
	for (size_t i = 0; i < host.n_times; i++)
		sum += host.times[i].program_cpus.v * (double)host.times[i].duration_ns;
	assert_float_equal(sum, host.program_cpu_ns, 10);
	host_release(&host);
	fake_run_free(run);
}

/* Of a process that began later all counts, of one that was there before only what came since. */
static void beginnings(void **state)
{
	struct run *run = fake_run_new();
	struct host host;

	(void)state;
	fake_span(run, 0, SECOND);
	for (int i = 0; i < 3; i++)
		put(run, i, HOST_MACHINE, "", HOST_LOOKS, i + 1);
	for (int i = 0; i < 3; i++) {
		put(run, i, HOST_PROCESS, "1", HOST_THREAD_LOOKS, i);
		put(run, i, HOST_PROCESS, "1", HOST_USER_NS, 5e12 + i * 1e8);
		if (i) {
			put(run, i, HOST_PROCESS, "2", HOST_THREAD_LOOKS, i);
			put(run, i, HOST_PROCESS, "2", HOST_USER_NS, i * 4e8);
		}
	}
	assert_int_equal(host_analyze(run, &host), 0);
	assert_int_equal(host.n_processes, 2);
	assert_int_equal(host.processes[0].pid, 2);
	assert_float_equal(host.processes[0].user_ns, 8e8, 1);
	assert_float_equal(host.processes[1].user_ns, 2e8, 1);
	host_release(&host);
	fake_run_free(run);
}

/* PyTorch comes up: libraries, one after the other, to the last reading, as on an H200. Nothing leaks. */
static void starting(void **state)
{
	static const int megabytes[] = { 5,   24,  429, 451, 470, 475, 483,  492,  492, 513,
					 519, 749, 980, 928, 954, 989, 1294, 1361, 1402 };
	struct run *run = fake_run_new();
	struct host host;

	(void)state;
	fake_span(run, 0, 10 * SECOND);
	for (int i = 0; i < 19; i++) {
		put(run, i, HOST_MACHINE, "", HOST_LOOKS, i + 1);
		put(run, i, HOST_PROCESS, "1", HOST_THREAD_LOOKS, i);
		put(run, i, HOST_PROCESS, "1", HOST_RESIDENT_BYTES, megabytes[i] * 1e6);
	}
	assert_int_equal(host_analyze(run, &host), 0);
	assert_false(host.processes[0].growth_bytes_per_s.known);
	host_release(&host);
	fake_run_free(run);
}

static void verdicts(void **state)
{
	static const struct {
		const char *id;
		struct plan plan;
	} cases[] = {
		{ "host-throttled",
		  { .user = 0.5, .ready = 3, .quota = 0.5, .throttled = 0.9, .threads = 4 } },
		{ "host-pinned", { .user = 0.98, .ready = 3, .allowed = 1, .threads = 4 } },
		{ "host-neighbours", { .user = 0.4, .ready = 0.6, .others = 3.5, .threads = 1 } },
		{ "host-oversubscribed", { .user = 3.9, .ready = 12, .threads = 16 } },
		{ "host-stolen", { .user = 2, .steal = 1.5, .threads = 2, .active = 2 } },
		{ "host-swapping",
		  { .user = 0.3, .swaps = 5e7, .faults = 4000, .threads = 1, .active = 1 } },
		{ "host-disk-bound", { .user = 0.3, .blocked = 0.6, .reads = 1e8, .threads = 1 } },
		{ "host-disk-bound",
		  { .user = 0.3, .io_pressure = 0.5, .reads = 1e8, .threads = 1 } },
		{ "host-memory-limit", { .user = 0.5, .limit = 1e9, .used = 9.7e8, .threads = 1 } },
		{ "host-leak", { .user = 0.5, .grows = 1e8, .threads = 1 } },
		{ "host-one-at-a-time",
		  { .user = 0.98, .threads = 5, .active = 4, .python = true } },
		{ "host-one-at-a-time", { .user = 0.98, .threads = 5, .active = 4 } },
		{ "host-network-bound", { .user = 0.5, .sends = 9e8, .threads = 1 } },
		{ "host-wrong-node",
		  { .user = 0.5, .cpu_nodes = 1, .memory_nodes = 2, .threads = 1 } },
		{ "host-one-processor", { .user = 0.98, .threads = 1, .active = 1 } },
		{ "host-waiting", { .user = 0.01, .threads = 4 } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct run *run = run_of(&cases[i].plan);
		struct judged j = judge(run);

		if (!j.v.n || strcmp(j.v.items[0].id, cases[i].id) != 0)
			fail_msg("case %zu: %s, not %s", i, j.v.n ? j.v.items[0].id : "nothing",
				 cases[i].id);
		/* One cause, one verdict. */
		for (size_t k = 1; k < j.v.n; k++)
			if (strncmp(j.v.items[k].id, "host-", 5) == 0)
				fail_msg("case %zu: %s, too", i, j.v.items[k].id);
		judged_release(&j);
		fake_run_free(run);
	}
}

/* Programs that have no such trouble, though one figure alone might look so. */
static void silence(void **state)
{
	static const struct plan plans[] = {
		{ .user = 3.9, .threads = 4, .active = 4 },
		{ .user = 2, .threads = 2, .active = 2, .others = 1.9, .ready = 0.05 },
		{ .user = 2, .threads = 2, .active = 2, .reads = 1e8, .io_pressure = 0.02 },
		{ .user = 2, .threads = 2, .active = 2, .grows = 1e6 },
		{ .user = 2, .threads = 2, .active = 2, .limit = 1e9, .used = 5e8 },
		{ .user = 1.9, .threads = 2, .active = 2, .quota = 2, .throttled = 0.01 },
		{ .user = 2, .threads = 2, .active = 2, .allowed = 2, .ready = 0.01 },
		{ .user = 2, .threads = 2, .active = 2, .cpu_nodes = 1, .memory_nodes = 3 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
		struct run *run = run_of(&plans[i]);
		struct judged j = judge(run);

		for (size_t k = 0; k < j.v.n; k++)
			if (strncmp(j.v.items[k].id, "host-", 5) == 0)
				fail_msg("case %zu: %s", i, j.v.items[k].id);
		judged_release(&j);
		fake_run_free(run);
	}
}

/* A GPU at a node where its process may not run. */
static void far_gpu(void **state)
{
	(void)state;
	for (int near = 0; near < 2; near++) {
		struct run *run = run_of(&(struct plan){ .user = 2,
							 .threads = 2,
							 .active = 2,
							 .cpu_nodes = near ? 3 : 1,
							 .memory_nodes = 3 });

		run->shards[0].pid = 77;
		fake_add_device(run, 0, &(struct row_device){ .uuid = fake_string(run, "GPU-1") });
		fact(run, "node of GPU-1", "1");
		if (near)
			SILENT(run, "host-wrong-node");
		else
			SAYS(run, "host-wrong-node", SEVERITY_WARNING);
		fake_run_free(run);
	}
}

static int add_value(void *sum, const struct host_point *point)
{
	if (strcmp(point->of, "process 77") == 0 &&
	    strcmp(point->what, "user, share of time") == 0) {
		assert_true(!point->time_ns || (point->value > 1.49 && point->value < 1.51));
		*(double *)sum += point->value;
	}
	return 0;
}

static void curves(void **state)
{
	struct run *run = run_of(&(struct plan){ .user = 1.5, .threads = 1 });
	double sum = 0;

	(void)state;
	assert_int_equal(host_points_each(run, add_value, &sum), 0);
	assert_float_equal(sum, 1.5 * (LOOKS - 2), 1e-6);
	fake_run_free(run);
}

/* Two ranges of half a second in turn; memory comes in the first of them alone. */
static void phases(void **state)
{
	struct run *run = fake_run_new();
	uint32_t load = fake_site(run, "load", -1, -1, 0), work = fake_site(run, "work", -1, -1, 0);
	struct host_phases phases;

	(void)state;
	fake_span(run, 0, 10 * SECOND);
	run->shards[0].pid = 77;
	for (int i = 0; i < LOOKS; i++) {
		put(run, i, HOST_PROCESS, "77", HOST_THREAD_LOOKS, i);
		/* Written only where it changes, as the watch does. */
		if (i % 2 || !i)
			put(run, i, HOST_PROCESS, "77", HOST_RESIDENT_BYTES, 1e6 * (i + 1) / 2);
		fake_range(run, i % 2 ? work : load, i * SECOND / 2, (i + 1) * SECOND / 2, 1, 0);
		fake_range(run, work, i * SECOND / 2, (i + 1) * SECOND / 2, 1, 1); /* inside */
	}
	assert_int_equal(host_phases_analyze(run, &phases), 0);
	assert_int_equal(phases.n, 2);
	assert_string_equal(run_string(run, phases.rows[0].name), "load");
	assert_int_equal(phases.rows[0].count, 11);
	assert_float_equal(phases.rows[0].grew_bytes, 9.5e6, 1);
	assert_float_equal(phases.rows[1].grew_bytes, 0, 1);
	assert_false(phases.rows[0].minor_faults.known);
	host_phases_release(&phases);
	fake_run_free(run);
}

static void hostile(void **state)
{
	static const int64_t values[] = { INT64_MIN, INT64_MAX, -1, 0, 1 };
	struct run *run = fake_run_new();
	struct host host;
	struct judged j;
	uint64_t seed = 1;

	(void)state;
	fake_span(run, 0, 10 * SECOND);
	for (int i = 0; i < 5000; i++) {
		struct row_host_sample row = { .time_ns = i * SECOND / 500 };

		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		row.place = (uint8_t)((seed >> 40) % 10);
		row.name = fake_string(run, (seed >> 44) % 2 ? "1" : "x");
		row.metric = fake_string(run, (seed >> 50) % 60 < HOST_METRIC_COUNT
						      ? host_metric_name((seed >> 50) % 60)
						      : "nothing");
		row.value = values[(seed >> 56) % 5];
		fake_add_host_sample(run, 0, &row);
	}
	assert_int_equal(host_analyze(run, &host), 0);
	host_release(&host);
	j = judge(run);
	judged_release(&j);
	assert_int_equal(host_points_each(run, add_value, &(double){ 0 }), 0);
	fake_run_free(run);
}

static void nothing(void **state)
{
	struct run *run = fake_run_new();
	struct host host;

	(void)state;
	assert_int_equal(host_analyze(run, &host), 0);
	assert_non_null(host.missing);
	host_release(&host);
	/* One look has no time. */
	put(run, 0, HOST_MACHINE, "", HOST_LOOKS, 1);
	assert_int_equal(host_analyze(run, &host), 0);
	assert_non_null(host.missing);
	host_release(&host);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures),  cmocka_unit_test(beginnings),
		cmocka_unit_test(starting), cmocka_unit_test(verdicts),
		cmocka_unit_test(silence),  cmocka_unit_test(far_gpu),
		cmocka_unit_test(curves),   cmocka_unit_test(hostile),
		cmocka_unit_test(phases),   cmocka_unit_test(nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
