/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API over a process's life: start, stop, restart, threads, fork, exec, kill.
 */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "probe_child.h"
#include "trace/ring.h"

static void before_start(void)
{
	every_call();
	CHECK(!moescope_run_dir());
	CHECK(!moescope_recording());
	KEEPS(moescope_stop());
	moescope_set_level(MOESCOPE_FULL);
	every_call();
	CHECK(!moescope_recording());
}

static void test_before_start(void **state)
{
	(void)state;
	assert_int_equal(in_child(before_start), 0);
	assert_int_equal(count_entries(directory), 0);
}

static void start_and_stop(void)
{
	int r = 1;

	every_call(); /* names from before are valid later */
	KEEPS(r = moescope_start("run.mscope"));
	CHECK(r == 0);
	CHECK(moescope_recording());
	CHECK(strstr(moescope_run_dir(), "/run.mscope"));
	CHECK(moescope_start("other.mscope") == 0); /* harmless */
	CHECK(access("other.mscope", F_OK) != 0);
	every_call();
	KEEPS(moescope_stop());
	CHECK(!moescope_recording());
	CHECK(!moescope_run_dir());
	every_call();
	moescope_stop();
	every_call();
}

static void test_start_and_stop_twice(void **state)
{
	struct run *run = run_of(start_and_stop);

	(void)state;
	assert_level_rows(run, MOESCOPE_TRACE, 1);
	assert_int_equal(run->n_shards, 1);
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	assert_string_equal(run->info.status, "exited");
	assert_string_equal(run_string(run, run->mark.text[0]), "a mark");
	run_free(run);
	assert_int_equal(count_entries(directory), 1);
}

static void stop_is_forgotten(void)
{
	CHECK(moescope_start("run.mscope") == 0);
	every_call();
	exit(0);
}

static void test_stop_at_exit(void **state)
{
	struct run *run = run_of(stop_is_forgotten);

	(void)state;
	assert_level_rows(run, MOESCOPE_TRACE, 1);
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	run_free(run);
}

static void restart(void)
{
	moescope_name name = moescope_intern("kept");

	for (int i = 0; i < 3; i++) {
		char path[32];

		snprintf(path, sizeof(path), "%d.mscope", i);
		CHECK(moescope_start(path) == 0);
		moescope_range_begin(name, i, -1, MOESCOPE_FORWARD);
		moescope_range_end();
		moescope_mark("again");
		CHECK(moescope_intern("kept") == name);
		moescope_stop();
	}
}

static void test_restart_elsewhere(void **state)
{
	(void)state;
	assert_int_equal(in_child(restart), 0);
	for (int i = 0; i < 3; i++) {
		char name[32];
		struct run *run;
		struct site site;

		snprintf(name, sizeof(name), "%d.mscope", i);
		run = load_run(name);
		assert_int_equal(run->range.n, 1);
		site = run_site(run, run->range.site[0]);
		assert_string_equal(run_string(run, site.name), "kept");
		assert_int_equal(site.layer, i);
		assert_int_equal(run->mark.n, 1);
		assert_string_equal(run_string(run, run->mark.text[0]), "again");
		assert_int_equal(loss_total(&run->loss), 0);
		run_free(run);
	}
}

static void start_fails(void)
{
	int r = 0;

	CHECK(close(open("file", O_CREAT | O_WRONLY, 0644)) == 0);
	KEEPS(r = moescope_start("file/run.mscope"));
	CHECK(r == -ENOTDIR);
	KEEPS(r = moescope_start("absent/run.mscope"));
	CHECK(r == -ENOENT);
	CHECK(!moescope_recording() && !moescope_run_dir());
	every_call();
	CHECK(moescope_start("run.mscope") == 0);
	every_call();
	moescope_stop();
}

static void start_on_a_full_disk(void)
{
	struct rlimit before, small;
	int r = 0;

	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
	small = before;
	small.rlim_cur = 3000; /* enough for run.json, not for the shard's header */
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	KEEPS(r = moescope_start("run.mscope"));
	CHECK(r == -EFBIG);
	CHECK(access("run.mscope", F_OK) != 0);
	every_call();
	CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
	CHECK(moescope_start("run.mscope") == 0);
	every_call();
	moescope_stop();
}

static void test_start_on_a_full_disk(void **state)
{
	struct run *run = run_of(start_on_a_full_disk);

	(void)state;
	assert_level_rows(run, MOESCOPE_TRACE, 1);
	run_free(run);
	assert_int_equal(count_entries(directory), 1);
}

static void start_in_the_same_place(void)
{
	for (int i = 0; i < 3; i++) {
		CHECK(moescope_start("run.mscope") == 0);
		every_call();
		moescope_stop();
	}
}

/* Sessions of one process, and a program after an exec, each have a shard of their own. */
static void test_restart_in_the_same_place(void **state)
{
	struct run *run = run_of(start_in_the_same_place);

	(void)state;
	assert_int_equal(run->n_shards, 3);
	assert_level_rows(run, MOESCOPE_TRACE, 3);
	run_free(run);
}

static void test_start_that_fails(void **state)
{
	struct run *run = run_of(start_fails);

	(void)state;
	assert_level_rows(run, MOESCOPE_TRACE, 1);
	run_free(run);
	assert_int_equal(count_entries(directory), 2);
}

/* Polls (not sleeps) until the drain has taken `records`; 100 seconds at most. */
static struct moescope_stats wait_recorded(uint64_t records)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };
	time_t end = time(NULL) + 100;

	do {
		moescope_get_stats(&stats);
	} while (stats.recorded < records && time(NULL) < end);
	CHECK(stats.recorded >= records);
	return stats;
}

static void stats_scenario(void)
{
	struct moescope_options options = { .struct_size = sizeof(options), .flush_ms = 1 };
	struct moescope_stats stats = { .struct_size = sizeof(stats) }, later;

	moescope_get_stats(&stats);
	CHECK(stats.struct_size == sizeof(stats) && !stats.recorded && !stats.dropped);
	CHECK(moescope_start_with("run.mscope", &options) == 0);
	for (int i = 0; i < 1000; i++)
		moescope_counter("c", i);
	stats = wait_recorded(1000);
	CHECK(stats.dropped == 0 && stats.write_errors == 0 && stats.written_bytes > 0);
	for (int i = 0; i < 66; i++)
		moescope_range_push("deep");
	moescope_stop();
	later = (struct moescope_stats){ .struct_size = sizeof(later) };
	moescope_get_stats(&later); /* of the session that ended */
	CHECK(later.recorded >= stats.recorded && later.dropped == 2);
	CHECK(later.written_bytes > stats.written_bytes);
	CHECK(later.drain_cpu_ns > 0 && later.drain_cpu_ns >= stats.drain_cpu_ns);
	later = (struct moescope_stats){ .struct_size = 8 };
	moescope_get_stats(&later); /* an older program's, too small: left alone */
	CHECK(!later.recorded);
}

static void test_stats(void **state)
{
	struct run *run = run_of(stats_scenario);
	uint64_t cpu_ns = 0;

	(void)state;
	assert_int_equal(run->counter.n, 1000);
	assert_int_equal(run->range.n, 64);
	assert_int_equal(run->loss.unfinished, 64);
	assert_int_equal(run->loss.dropped_too_deep, 2);
	assert_true(run->cost.n > 0);
	for (size_t i = 0; i < run->cost.n; i++)
		cpu_ns += run->cost.drain_cpu_ns[i];
	assert_true(cpu_ns > 0);
	run_free(run);
}

#define THREADS 16
#define RANGES 10000 /* fits a ring of 1 MiB even when nobody drains */

static void *record_ranges(void *arg)
{
	moescope_name name = moescope_intern("loop");

	for (int i = 0; i < RANGES; i++) {
		moescope_range_begin(name, (int32_t)(intptr_t)arg, i % 8, MOESCOPE_FORWARD);
		moescope_range_end();
	}
	return NULL;
}

static void sixteen_threads(void)
{
	pthread_t threads[THREADS];

	start_at(MOESCOPE_TRACE);
	for (intptr_t i = 0; i < THREADS; i++)
		CHECK(pthread_create(&threads[i], NULL, record_ranges, (void *)i) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	moescope_stop();
}

static void test_sixteen_threads(void **state)
{
	struct run *run = run_of(sixteen_threads);
	size_t per_site[THREADS][8] = { { 0 } };

	(void)state;
	assert_int_equal(run->range.n, THREADS * RANGES);
	for (size_t i = 0; i < run->range.n; i++) {
		struct site site = run_site(run, run->range.site[i]);

		assert_in_range(site.layer, 0, THREADS - 1);
		assert_in_range(site.expert, 0, 7);
		per_site[site.layer][site.expert]++;
	}
	for (int t = 0; t < THREADS; t++)
		for (int e = 0; e < 8; e++)
			assert_int_equal(per_site[t][e], RANGES / 8);
	assert_int_equal(run->thread.n, THREADS);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

static void *short_thread(void *arg)
{
	for (int i = 0; i < 10; i++)
		moescope_counter("short", (double)(intptr_t)arg);
	return NULL;
}

static void many_threads(void)
{
	struct moescope_options options = { .struct_size = sizeof(options),
					    .flush_ms = 1,
					    .ring_bytes = 64 << 10 };
	char ring[64];
	struct stat st;

	CHECK(moescope_start_with("run.mscope", &options) == 0);
	for (intptr_t i = 0; i < 200; i++) {
		pthread_t thread;

		CHECK(pthread_create(&thread, NULL, short_thread, (void *)i) == 0);
		pthread_join(thread, NULL);
		wait_recorded(10 * ((uint64_t)i + 1));
	}
	/* Far fewer rings than threads, besides those kept ready. */
	snprintf(ring, sizeof(ring), "run.mscope/0-%d.ring", (int)getpid());
	CHECK(stat(ring, &st) == 0);
	CHECK(st.st_size < (30 + RING_SPARES) * (68 << 10) + (1 + STRINGS_SPARES) * (300 << 10));
	moescope_stop();
}

static void test_threads_reuse_rings(void **state)
{
	struct run *run = run_of(many_threads);
	double sum = 0;

	(void)state;
	assert_int_equal(run->counter.n, 2000);
	for (size_t i = 0; i < run->counter.n; i++)
		sum += run->counter.value[i];
	assert_near(sum, 10 * 199 * 200 / 2);
	assert_int_equal(run->thread.n, 200);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

/* ThreadSanitizer cannot follow a thread that is made in a forked child, and AddressSanitizer's
 * allocator may have been locked by one of the parent's, for ever. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
static const bool child_starts = false;
#else
static const bool child_starts = true;
#endif

static void fork_scenario(void)
{
	int status;
	pid_t pid;

	start_at(MOESCOPE_TRACE);
	moescope_step_begin(0);
	moescope_range_push("around the fork");
	moescope_mark("parent");
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(!moescope_recording() && !moescope_run_dir());
		every_call();
		moescope_mark("child, unrecorded");
		CHECK(!child_starts || moescope_start("child.mscope") == 0);
		every_call();
		moescope_stop();
		_exit(5);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5);
	moescope_mark("parent");
	moescope_range_pop();
	moescope_step_end(1);
	moescope_stop();
}

static void test_fork(void **state)
{
	struct run *run = run_of(fork_scenario);

	(void)state;
	assert_int_equal(run->n_shards, 1);
	assert_int_equal(run->mark.n, 2);
	assert_int_equal(run->range.n, 1);
	assert_int_equal(run->step.n, 1);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(run_string(run, run->mark.text[i]), "parent");
	assert_int_equal(run->shards[0].state, SHARD_CLOSED);
	assert_int_equal(run->loss.dropped_in_child,
			 1 + EVERY_CALL_RECORDS * (child_starts ? 1 : 2));
	assert_int_equal(loss_total(&run->loss), run->loss.dropped_in_child);
	run_free(run);
	if (!child_starts)
		return;
	run = load_run("child.mscope");
	assert_level_rows(run, MOESCOPE_TRACE, 1);
	run_free(run);
}

static void killed(void)
{
	start_at(MOESCOPE_TRACE);
	moescope_step_begin(7);
	for (int i = 0; i < 100; i++)
		moescope_mark("m");
	moescope_range_begin(moescope_intern("outer"), 1, -1, MOESCOPE_FORWARD);
	moescope_op_begin(moescope_intern("inner"), -1, 3, 0);
	raise(SIGKILL);
}

static void test_killed(void **state)
{
	struct run *run;

	(void)state;
	assert_int_equal(in_child(killed), -SIGKILL);
	run = load_run("run.mscope");
	assert_int_equal(run->mark.n, 100);
	assert_int_equal(run->loss.unfinished, 3);
	assert_int_equal(run->range.n, 1);
	assert_site(run, run->range.site[0], "outer", 1, -1, MOESCOPE_FORWARD);
	assert_int_equal(run->range.unfinished[0], 1);
	assert_int_equal(run->op.n, 1);
	assert_site(run, run->op.site[0], "inner", 1, 3, MOESCOPE_FORWARD);
	assert_int_equal(run->step.n, 1);
	assert_int_equal(run->step.unfinished[0], 1);
	assert_int_equal(run->shards[0].state, SHARD_CRASHED);
	run_free(run);
}

static void killed_before_its_child(void)
{
	int ready[2];
	FILE *f;
	pid_t pid;
	char byte;

	start_at(MOESCOPE_TRACE);
	moescope_mark("m");
	CHECK(pipe(ready) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK(write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	f = fopen("child", "w");
	CHECK(f && fprintf(f, "%d", (int)pid) > 0 && fclose(f) == 0);
	raise(SIGKILL);
}

/* A child that lives on holds nothing of its parent's: the run is seen as crashed. */
static void test_killed_before_its_child(void **state)
{
	struct bytes pid;
	struct run *run;
	char *path;

	(void)state;
	assert_int_equal(in_child(killed_before_its_child), -SIGKILL);
	run = load_run("run.mscope");
	path = path_in(directory, "child");
	pid = file_read(path);
	pid.data[pid.size] = 0;
	kill((pid_t)atoi(pid.data), SIGKILL);
	free(pid.data);
	free(path);
	assert_int_equal(run->shards[0].state, SHARD_CRASHED);
	assert_int_equal(run->mark.n, 1);
	run_free(run);
}

/* What loading the library under `moescope run` does needs a new program, not only a process. */
static void exec_self(const char *scenario)
{
	CHECK(mkdir("run.mscope", 0755) == 0);
	setenv("MOESCOPE_RUN", "run.mscope", 1);
	execl("/proc/self/exe", "test_probe_api", scenario, NULL);
	CHECK(!"exec");
}

static void exec_overhead(void)
{
	setenv("MOESCOPE_OVERHEAD_CHECK", "4", 1);
	exec_self("steps");
}

static void test_overhead_check(void **state)
{
	static const uint8_t probe[20] = { 0, 0, 0, 0, 1, 2, 2, 1, 1, 2, 2, 1 };
	struct run *run = run_of(exec_overhead);

	(void)state;
	assert_int_equal(run->step.n, 20);
	for (size_t i = 0; i < 20; i++) {
		assert_int_equal(run->step.probe[i], probe[i]);
		assert_int_equal(run->step.recorded[i], probe[i] != 2);
	}
	assert_int_equal(run->range.n, 16);
	run_free(run);
}

static void exec_twice(void)
{
	exec_self("exec");
}

static void test_exec_of_a_recording_program(void **state)
{
	struct run *run = run_of(exec_twice);

	(void)state;
	assert_int_equal(run->n_shards, 2);
	assert_int_equal(run->shards[0].pid, run->shards[1].pid);
	assert_int_equal(run->mark.n, 2);
	assert_string_equal(run_string(run, run->mark.text[0]), "before the exec");
	assert_int_equal(run->step.n, 20);
	run_free(run);
}

static void exec_environment(void)
{
	setenv("MOESCOPE_LEVEL", "steps", 1);
	setenv("MOESCOPE_SCHEDULE", "wait=1,active=1", 1);
	setenv("MOESCOPE_RING_KB", "64", 1);
	setenv("RANK", "3", 1);
	exec_self("steps");
}

static void test_environment(void **state)
{
	struct run *run = run_of(exec_environment);

	(void)state;
	assert_int_equal(run->shards[0].rank, 3);
	assert_int_equal(run->step.n, 20);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(run->step.recorded[i], i % 2);
	assert_int_equal(run->range.n, 0); /* the level wants a phase */
	run_free(run);
}

static int steps_program(void)
{
	for (int i = 0; i < 20; i++) {
		moescope_step_begin(i);
		moescope_range_push("work");
		moescope_range_pop();
		moescope_step_end(0);
	}
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_before_start),
		TEST(test_start_and_stop_twice),
		TEST(test_stop_at_exit),
		TEST(test_restart_elsewhere),
		TEST(test_start_that_fails),
		TEST(test_start_on_a_full_disk),
		TEST(test_restart_in_the_same_place),
		TEST(test_stats),
		TEST(test_sixteen_threads),
		TEST(test_threads_reuse_rings),
		TEST(test_fork),
		TEST(test_killed),
		TEST(test_killed_before_its_child),
		TEST(test_overhead_check),
		TEST(test_environment),
		TEST(test_exec_of_a_recording_program),
	};

	if (argc > 1 && !strcmp(argv[1], "steps"))
		return steps_program();
	if (argc > 1 && !strcmp(argv[1], "exec")) {
		moescope_mark("before the exec");
		moescope_mark("before the exec");
		execl("/proc/self/exe", "test_probe_api", "steps", NULL);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
