/* SPDX-License-Identifier: Apache-2.0
 *
 * Iterations by repetition, on sequences of kernels made by hand; and those that must not be taken for
 * steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "fake_run.h"
#include "subjects/shared/iterations.h"

#define KERNEL_NS 1000

/* Kernels one after the other, each with its launch 500 ns before. */
struct writer {
	struct run *run;
	uint16_t shard;
	int64_t at_ns;
	uint64_t correlation;
	bool calls;
};

static void put(struct writer *w, const char *name)
{
	uint64_t correlation = ++w->correlation;

	if (w->calls)
		fake_add_api(w->run, w->shard,
			     &(struct row_api){ .name = fake_string(w->run, "cudaLaunchKernel"),
						.start_ns = w->at_ns - 500,
						.duration_ns = 100,
						.thread = 1,
						.correlation = correlation });
	fake_add_kernel(w->run, w->shard,
			&(struct row_kernel){ .launch = fake_launch(w->run, name),
					      .start_ns = w->at_ns,
					      .duration_ns = KERNEL_NS,
					      .stream = 7,
					      .correlation = correlation });
	w->at_ns += KERNEL_NS;
}

/* A forward pass: the host turns round for 5 us, then embedding, layers, head. */
static void forward(struct writer *w, int layers)
{
	w->at_ns += 5000;
	put(w, "embedding");
	for (int l = 0; l < layers; l++) {
		put(w, "norm");
		put(w, "qkv_gemm");
		put(w, "flash_fwd");
		put(w, "out_gemm");
		put(w, "mlp_gemm");
	}
	put(w, "head_gemm");
	put(w, "argmax");
}

static struct iterations found_in(struct run *run)
{
	struct iterations it;

	assert_int_equal(iterations_find(run, &it), 0);
	return it;
}

static void test_decode_loop(void **state)
{
	struct writer w = { .run = fake_run_new(), .at_ns = 1000000, .calls = true };
	struct iterations it;

	(void)state;
	put(&w, "load_weights"); /* before the loop */
	for (int i = 0; i < 7; i++)
		forward(&w, 6);
	it = found_in(w.run);
	/* Seven begins; the end of the last one is not known. */
	assert_string_equal(it.anchor, "embedding");
	assert_int_equal(it.n, 6);
	for (size_t i = 0; i < it.n; i++) {
		/* 33 kernels and the turn of the host; the first launch comes 500 ns early. */
		int64_t turn = 33 * KERNEL_NS + 5000;

		assert_int_equal(it.steps[i].step, i);
		assert_int_equal(it.steps[i].start_ns,
				 1000000 + KERNEL_NS + 5000 - 500 + (int64_t)i * turn);
		assert_int_equal(it.steps[i].duration_ns, turn);
		assert_int_equal(it.steps[i].source, STEP_REPEATED);
		assert_int_equal(it.shards[i], 0);
	}
	assert_true(it.kernels == 33);
	iterations_release(&it);
	fake_run_free(w.run);
}

/* Without records of launches the times are the device's. */
static void test_device_alone(void **state)
{
	struct writer w = { .run = fake_run_new(), .at_ns = 0 };
	struct iterations it;

	(void)state;
	for (int i = 0; i < 5; i++)
		forward(&w, 4);
	it = found_in(w.run);
	assert_int_equal(it.n, 4);
	assert_int_equal(it.steps[0].start_ns, 5000);
	iterations_release(&it);
	fake_run_free(w.run);
}

static void test_training_without_layers(void **state)
{
	struct writer w = { .run = fake_run_new(), .at_ns = 0 };
	struct iterations it;

	(void)state;
	for (int i = 0; i < 6; i++) {
		w.at_ns += 9000;
		put(&w, "conv");
		put(&w, "relu");
		put(&w, "conv_wgrad");
		put(&w, "multi_tensor_apply_kernel");
	}
	it = found_in(w.run);
	assert_string_equal(it.anchor, "conv");
	assert_int_equal(it.n, 5);
	iterations_release(&it);
	fake_run_free(w.run);
}

static void refused(struct run *run, const char *reason)
{
	struct iterations it = found_in(run);

	assert_null(it.anchor);
	assert_int_equal(it.n, 0);
	if (!strstr(it.reason, reason))
		fail_msg("'%s', not '%s'", it.reason, reason);
	iterations_release(&it);
	fake_run_free(run);
}

static void test_refused(void **state)
{
	struct writer one = { .run = fake_run_new() }, few = { .run = fake_run_new() };
	struct writer odd = { .run = fake_run_new() }, graph = { .run = fake_run_new() };
	uint32_t seed = 12345;

	(void)state;
	refused(fake_run_new(), "no kernels");
	/* One pass of 24 layers: they repeat, and are no steps. */
	forward(&one, 24);
	refused(one.run, "layers");
	/* Three turns are too few to tell. */
	for (int i = 0; i < 3; i++)
		forward(&few, 2);
	refused(few.run, "regularly");
	/* No order at all. */
	for (int i = 0; i < 4000; i++) {
		char name[16];

		seed = seed * 1664525 + 1013904223;
		snprintf(name, sizeof(name), "k%u", seed >> 24);
		put(&odd, name);
	}
	refused(odd.run, "regularly");
	/* All of it was launched at once. */
	for (int i = 0; i < 6; i++)
		forward(&graph, 5);
	for (size_t i = 0; i < graph.run->kernel.n; i++)
		graph.run->kernel.correlation[i] = 9;
	refused(graph.run, "one launch");
}

/* A name that comes in every fourth step is no loop of its own: nothing else keeps its time. */
static void test_every_fourth_step(void **state)
{
	struct writer w = { .run = fake_run_new() };
	struct iterations it;

	(void)state;
	for (int i = 0; i < 20; i++) {
		forward(&w, 5);
		if (i % 4 == 3)
			put(&w, "new_block");
	}
	it = found_in(w.run);
	assert_string_equal(it.anchor, "embedding");
	assert_int_equal(it.n, 19);
	iterations_release(&it);
	fake_run_free(w.run);
}

static void test_processes(void **state)
{
	struct run *run = fake_run_new();
	struct writer a = { .run = run, .at_ns = 0 };
	struct writer b = { .run = run, .shard = fake_shard(run, 1, 4243), .at_ns = 300 };
	struct iterations it;

	(void)state;
	for (int i = 0; i < 6; i++) {
		forward(&a, 4);
		forward(&b, 4);
	}
	it = found_in(run);
	assert_int_equal(it.n, 10);
	assert_int_equal(it.shards[4], 0);
	assert_int_equal(it.shards[5], 1);
	assert_int_equal(it.steps[5].step, 0);
	iterations_release(&it);
	/* Numbers of steps would not fit: rank 1 has one more. */
	forward(&b, 4);
	refused(run, "processes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_decode_loop),
		cmocka_unit_test(test_device_alone),
		cmocka_unit_test(test_training_without_layers),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_every_fourth_step),
		cmocka_unit_test(test_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
