/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of sampled addresses, with many threads that put and take at once, and the gaps between samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "heap/gap.h"
#include "heap/sampled.h"

#define THREADS 8
#define ROUNDS 20000

static struct sampled table;

static void *address(uintptr_t number)
{
	return (void *)(0x7f0000000000 + number * 16); /* NOLINT(performance-no-int-to-ptr) */
}

static void test_put_and_take(void **state)
{
	uint64_t before;

	(void)state;
	assert_false(sampled_maybe(&table, address(1)));
	assert_int_equal(sampled_take(&table, address(1)), 0);
	assert_true(sampled_put(&table, address(1), 7, &before));
	assert_int_equal(before, 0);
	assert_true(sampled_maybe(&table, address(1)));
	/* An address whose end nobody saw is another's now. */
	assert_true(sampled_put(&table, address(1), 8, &before));
	assert_int_equal(before, 7);
	assert_int_equal(sampled_take(&table, address(1)), 8);
	assert_int_equal(sampled_take(&table, address(1)), 0);
	assert_false(sampled_maybe(&table, address(1)));
}

/* A bucket has so many places; what does not fit is refused and leaves no trace. */
static void test_full_bucket(void **state)
{
	void *same[SAMPLED_WAYS + 1];
	unsigned int n = 0;
	uint64_t before;

	(void)state;
	for (uintptr_t i = 1; n <= SAMPLED_WAYS; i++)
		if (sampled_bucket(address(i)) == sampled_bucket(address(0)))
			same[n++] = address(i);
	for (unsigned int i = 0; i < SAMPLED_WAYS; i++)
		assert_true(sampled_put(&table, same[i], i + 1, &before));
	assert_false(sampled_put(&table, same[SAMPLED_WAYS], 99, &before));
	for (unsigned int i = 0; i < SAMPLED_WAYS; i++)
		assert_int_equal(sampled_take(&table, same[i]), i + 1);
	assert_false(sampled_maybe(&table, same[0]));
}

/* Addresses of all threads are in the same few buckets. */
static void *put_and_take(void *arg)
{
	uintptr_t of = *(const uintptr_t *)arg;
	uint64_t seed = of, wrong = 0, before;

	for (int i = 0; i < ROUNDS; i++) {
		uintptr_t number = gap_random(&seed) % 64 * THREADS + of;
		uint64_t sample = number + 1;

		if (!sampled_put(&table, address(number), sample, &before))
			continue;
		wrong += before != 0;
		wrong += !sampled_maybe(&table, address(number));
		wrong += sampled_take(&table, address(number)) != sample;
	}
	return (void *)(uintptr_t)wrong; /* NOLINT(performance-no-int-to-ptr) */
}

static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	uintptr_t numbers[THREADS];
	void *wrong;

	(void)state;
	for (uintptr_t i = 0; i < THREADS; i++)
		numbers[i] = i;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_and_take, &numbers[i]), 0);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	for (uint32_t i = 0; i < SAMPLED_BUCKETS; i++)
		assert_int_equal(table.counts[i], 0);
}

/* Exponential: mean and share beyond one, two and three distances, within five standard deviations. */
static void test_gaps(void **state)
{
	enum { N = 200000, DISTANCE = 524288 };
	uint64_t seed = 42;
	double sum = 0;
	int beyond[4] = { 0 };

	(void)state;
	for (int i = 0; i < N; i++) {
		int64_t gap = gap_draw(&seed, DISTANCE);

		assert_true(gap >= 0);
		sum += (double)gap;
		for (int k = 1; k < 4; k++)
			beyond[k] += gap >= (int64_t)k * DISTANCE;
	}
	assert_true(fabs(sum / N / DISTANCE - 1) < 5 / sqrt(N));
	for (int k = 1; k < 4; k++) {
		double p = exp(-k);

		assert_true(fabs(beyond[k] / (double)N - p) < 5 * sqrt(p * (1 - p) / N));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_and_take),
		cmocka_unit_test(test_full_bucket),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
