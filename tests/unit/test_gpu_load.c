/* SPDX-License-Identifier: Apache-2.0
 *
 * Many kernels, fast: none is lost, and the process does not grow. The libraries are the scripted
 * ones of tests/fake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "gpu_child.h"

static uint64_t *rss_kb; /* before and after; a scenario lets its test know */

#define MANY (SANITIZED ? 200000u : 1000000u)
#define BATCH 20000u

static uint64_t resident_kb(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	unsigned long long kb = 0;
	char line[256];

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		sscanf(line, "VmRSS: %llu", &kb);
	fclose(f);
	CHECK(kb);
	return kb;
}

static void many_kernels(void)
{
	struct fake_record *records = calloc(BATCH, sizeof(*records));

	CHECK(records);
	for (uint32_t i = 0; i < BATCH; i++)
		records[i] = kernel_record("some_kernel", 0);
	start_at(MOESCOPE_TRACE);
	rss_kb[0] = resident_kb();
	for (uint32_t done = 0; done < MANY; done += BATCH) {
		for (uint32_t i = 0; i < BATCH; i++)
			records[i].kernel.correlationId = done + i + 1;
		cupti->deliver(0, records, BATCH, 0);
	}
	rss_kb[1] = resident_kb();
	moescope_stop();
}

static void test_many_kernels(void **state)
{
	struct run *run = run_of(many_kernels);

	(void)state;
	assert_kernels(run, MANY);
	assert_int_equal(loss_total(&run->loss), 0);
	/* Sanitizers keep what was freed. */
	if (!SANITIZED)
		assert_true(rss_kb[1] < rss_kb[0] + 100 * 1000);
	run_free(run);
}

#define BURST 600000u /* more than twice what the buffer of a delivering thread holds */

static struct rlimit no_limit;

/* The disk takes nothing until the drain has failed twice: by then the buffer is full. */
static void *make_room_on_disk(void *arg)
{
	struct moescope_stats stats = { .struct_size = sizeof(stats) };

	(void)arg;
	while (stats.write_errors < 2) {
		sched_yield();
		moescope_get_stats(&stats);
	}
	CHECK(setrlimit(RLIMIT_FSIZE, &no_limit) == 0);
	return NULL;
}

/* All at once and with a slow disk: the delivering thread has to wait for the drain. */
static void burst(void)
{
	struct moescope_options options = { .struct_size = sizeof(options), .flush_ms = 100 };
	struct fake_record *records = calloc(BURST, sizeof(*records));
	struct rlimit limit;
	pthread_t thread;

	CHECK(records);
	for (uint32_t i = 0; i < BURST; i++)
		records[i] = kernel_record("some_kernel", i + 1);
	CHECK(moescope_start_with("run.mscope", &options) == 0);
	driver_injects();
	cupti->deliver(0, records, 1, 0); /* the thread has its buffer in the file */
	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &no_limit) == 0);
	limit = no_limit;
	limit.rlim_cur = 1;
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(pthread_create(&thread, NULL, make_room_on_disk, NULL) == 0);
	cupti->deliver(0, records + 1, BURST - 1, 0);
	pthread_join(thread, NULL);
	moescope_stop();
}

static void test_burst(void **state)
{
	struct run *run = run_of(burst);

	(void)state;
	assert_kernels(run, BURST);
	assert_true(run->loss.write_errors >= 2);
	assert_int_equal(loss_total(&run->loss), run->loss.write_errors);
	run_free(run);
}

#define EACH 30000u

static void *deliver_half(void *arg)
{
	uint32_t worker = (uint32_t)(uintptr_t)arg;

	deliver_kernels(worker, 1 + worker * EACH, EACH);
	return NULL;
}

static void two_threads(void)
{
	pthread_t threads[2];

	start_at(MOESCOPE_TRACE);
	for (uintptr_t i = 0; i < 2; i++)
		CHECK(pthread_create(&threads[i], NULL, deliver_half, (void *)i) == 0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	moescope_stop();
}

static void test_two_threads(void **state)
{
	struct run *run = run_of(two_threads);

	(void)state;
	assert_kernels(run, 2 * EACH);
	assert_int_equal(loss_total(&run->loss), 0);
	run_free(run);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_many_kernels),
		TEST(test_burst),
		TEST(test_two_threads),
	};

	rss_kb = mmap(NULL, 2 * sizeof(*rss_kb), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (rss_kb == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
