/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of attaching and detaching: gpu_child.h with a driver that says what it is, a file of
 * proofs, programs that launch, and the gear rows of a run. Include after cmocka.h, once a program.
 */
#ifndef FAKE_GEARS_CHILD_H
#define FAKE_GEARS_CHILD_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu_child.h"
#include "probe/gpu/governor.h"

/* The driver tells its version in a file. The probe opens it through here, because a program's own
 * functions come before the C library's. */
static const char *driver = "580.95.05"; /* NULL: there is none */

static inline int open_driver(void)
{
	int fd = driver ? memfd_create("driver", MFD_CLOEXEC) : -1;

	if (fd >= 0 && pwrite(fd, driver, strlen(driver), 0) < 0)
		abort();
	errno = ENOENT;
	return fd;
}

#define TEST_OPEN(name)                                                                            \
	int test_##name(const char *path, int flags, mode_t mode) __asm__(#name);                  \
	int test_##name(const char *path, int flags, mode_t mode)                                  \
	{                                                                                          \
		if (!strcmp(path, "/sys/module/nvidia/version"))                                   \
			return open_driver();                                                      \
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);                      \
	}
TEST_OPEN(open)
TEST_OPEN(open64)

/* What `doctor --stress` has found on this machine: a launch costs a millisecond, so that a handful
 * is over any budget. */
#define DEAR "graphs 1 launch_ns 900000 node_ns 900000 window_bytes 614400\n"

static inline void prove(const char *line)
{
	FILE *f = fopen("stress", "w");

	CHECK(f && fputs(line, f) >= 0 && fclose(f) == 0);
	setenv("MOESCOPE_CACHE", ".", 1);
}

/* Under a budget of a quarter of the time windows of 50 ms come a few times a second. */
static inline void start_dear(enum moescope_level level)
{
	char line[256];

	snprintf(line, sizeof(line), "cupti %u driver %s " DEAR, (unsigned int)CUPTI_API_VERSION,
		 driver);
	prove(line);
	setenv("MOESCOPE_BUDGET", "25", 1);
	start_at(level);
}

static uint32_t next_kernel = 1; /* its correlation */

/* Two calls of the program: not at the end of a launch, but at that of a mark it can be detached. */
static inline void call_once(void)
{
	cupti->call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
	cupti->call(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020);
}

/* The program goes on until the library's state is as wanted; false after 100 seconds. */
static inline bool runs_until(bool (*reached)(const struct fake_state *state))
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	for (int i = 0; i < 100000; i++) {
		struct fake_state now = cupti->state();

		if (reached(&now))
			return true;
		call_once();
		nanosleep(&moment, NULL);
	}
	return false;
}

/* 16 kernels, of a graph or not. */
static inline void launch_some(uint64_t node)
{
	struct fake_record records[16];

	for (int i = 0; i < 16; i++) {
		records[i] = kernel_record("some_kernel", next_kernel++);
		records[i].kernel.graphNodeId = node;
		records[i].kernel.graphId = node ? 1 : 0;
	}
	if (!node)
		call_once();
	cupti->deliver(0, records, 16, 0);
}

static unsigned int enough;

static inline bool is_off(const struct fake_state *s)
{
	return s->kinds == 0;
}

static inline bool is_on(const struct fake_state *s)
{
	return s->kinds != 0;
}

static inline bool is_finalized_enough(const struct fake_state *s)
{
	return s->finalized >= enough;
}

static inline pid_t thread_id(void)
{
	return (pid_t)syscall(SYS_gettid);
}

static inline int64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* What a scenario lets its test know. */
static struct gears_shared {
	struct fake_state state;
	uint32_t launched; /* kernels */
	uint32_t threads[2];
	uint64_t theirs[2];
	int64_t ours_ns[2];
	uint64_t rss_kb[2];
} * shared;

static inline bool share_memory(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared != MAP_FAILED;
}

static inline void note_state(void)
{
	shared->state = cupti->state();
	shared->launched = next_kernel - 1;
}

/* Each kernel that the library had for the probe is in the run, once, but for records of any kind that
 * are lost and counted. */
static inline void assert_kept_but(const struct run *run, uint64_t lost)
{
	unsigned char *seen = calloc(shared->launched + 1, 1);

	assert_non_null(seen);
	assert_in_range(run->kernel.n + shared->state.not_enabled + shared->state.forgotten,
			shared->launched - (lost < shared->launched ? lost : shared->launched),
			shared->launched);
	for (size_t i = 0; i < run->kernel.n; i++) {
		assert_in_range(run->kernel.correlation[i], 1, shared->launched);
		assert_int_equal(seen[run->kernel.correlation[i]]++, 0);
	}
	assert_int_equal(loss_total(&run->loss), lost);
	free(seen);
}

static inline void assert_all_kept(const struct run *run)
{
	assert_kept_but(run, 0);
}

/* Rows come from several threads: into the order of time. */
static inline void sort_gears(struct table_gear *t)
{
#define SWAP(column)                                                                               \
	do {                                                                                       \
		__typeof__(t->column[0]) saved_ = t->column[i];                                    \
		t->column[i] = t->column[i - 1];                                                   \
		t->column[i - 1] = saved_;                                                         \
	} while (0)
	for (size_t n = 1; n < t->n; n++)
		for (size_t i = n; i > 0 && t->time_ns[i] < t->time_ns[i - 1]; i--) {
			SWAP(time_ns);
			SWAP(gear);
			SWAP(attached);
			SWAP(why);
			SWAP(cost_pct);
			SWAP(device_bytes);
		}
#undef SWAP
}

static inline struct run *load_gears(const char *name)
{
	struct run *run = load_run(name);

	sort_gears(&run->gear);
	return run;
}

static inline struct run *gears_of(void (*scenario)(void))
{
	assert_int_equal(in_child(scenario), 0);
	return load_gears("run.mscope");
}

static inline const char *why_of(const struct run *run, size_t row)
{
	return run_string(run, run->gear.why[row]);
}

/* A program that gets no CPU launches nothing, and collecting costs nothing then: rows that tell of
 * that, and change nothing else, depend on the machine. */
static inline struct run *without_idle_moments(struct run *run)
{
	struct table_gear *t = &run->gear;
	size_t kept = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (t->attached[i] && i > 0 && t->attached[i - 1] &&
		    strstr(why_of(run, i), "less than the budget: always"))
			continue;
		t->time_ns[kept] = t->time_ns[i];
		t->gear[kept] = t->gear[i];
		t->attached[kept] = t->attached[i];
		t->why[kept] = t->why[i];
		t->cost_pct[kept] = t->cost_pct[i];
		t->device_bytes[kept++] = t->device_bytes[i];
	}
	t->n = kept;
	return run;
}

#define assert_gear(run, row, wanted_gear, wanted_attached, words)                                 \
	do {                                                                                       \
		assert_true((row) < (run)->gear.n);                                                \
		assert_int_equal((run)->gear.gear[row], wanted_gear);                              \
		assert_int_equal((run)->gear.attached[row], wanted_attached);                      \
		if (!strstr(why_of(run, row), words))                                              \
			fail_msg("gear row %zu says \"%s\", not \"%s\"", (size_t)(row),            \
				 why_of(run, row), words);                                         \
	} while (0)

/* Rows with these words. */
static inline size_t count_gears(const struct run *run, enum gear gear, const char *words)
{
	size_t n = 0;

	for (size_t i = 0; i < run->gear.n; i++)
		n += run->gear.gear[i] == gear && strstr(why_of(run, i), words);
	return n;
}

/* Windows that ended, the first among them, whose end says that collecting is too dear. After an idle
 * moment another may say so. */
static inline size_t count_window_ends(const struct run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->gear.n; i++)
		n += run->gear.gear[i] == GEAR_WINDOWS && !run->gear.attached[i];
	return n;
}

/* Whether the library had kernel records on then. */
static inline bool was_on(int64_t time_ns)
{
	unsigned int n = 0;

	while (n < shared->state.n_switches && shared->state.switched_ns[n] <= time_ns)
		n++;
	return n % 2;
}

/* The rows say what the library did, but for the last: the session may end before what it has asked
 * for is off. */
static inline void assert_windows(const struct run *run)
{
	assert_true(shared->state.n_switches > 2);
	for (size_t i = 0; i + 1 < run->gear.n; i++)
		assert_int_equal(run->gear.attached[i], was_on(run->gear.time_ns[i]));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
