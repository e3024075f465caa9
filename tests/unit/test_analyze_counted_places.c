/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters by place in the program, and the traffic of memory in steps, every value by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "fake_run.h"
#include "figures.h"
#include "subjects/counters/counted_places.h"
#include "subjects/counters/device_counters.h"
#include "subjects/shared/attribution.h"

#define TIME "gpu__time_duration.sum"
#define READ "dram__bytes_read.sum"
#define WRITE "dram__bytes_write.sum"
#define BF16 "sm__ops_path_tensor_src_bf16.sum"
#define BF16_TO_FP32 "sm__ops_path_tensor_src_bf16_dst_fp32.sum"

static struct counted_places analyzed(struct run *run)
{
	struct counted_places places;
	struct attribution at;

	assert_int_equal(attribution_init(&at, run), 0);
	assert_int_equal(counted_places_analyze(&at, &places), 0);
	attribution_release(&at);
	return places;
}

/* A launch of thread 1 with up to three metrics. */
static void launched(struct run *run, const char *kernel, uint32_t profile, int64_t time_ns,
		     const char *const names[3], const double values[3])
{
	fake_add_counted(
		run, 0,
		&(struct row_counted){ .time_ns = time_ns, .profile = profile, .thread = 1 });
	for (size_t i = 0; i < 3 && names[i]; i++)
		fake_add_metric(run, 0,
				&(struct row_metric){ .launch = fake_launch(run, kernel),
						      .profile = profile,
						      .name = fake_string(run, names[i]),
						      .value = values[i] });
}

#define NAMES(...) ((const char *const[3]){ __VA_ARGS__ })
#define VALUES(...) ((const double[3]){ __VA_ARGS__ })

static const struct counted_place *of_expert(const struct counted_places *places, int expert)
{
	for (size_t i = 0; i < places->experts.n; i++)
		if (places->experts.rows[i].expert.v == expert)
			return &places->experts.rows[i];
	fail_msg("no row of expert %d", expert);
	return NULL;
}

/* Steps of 100 ns with layer 2 in them, expert 0 in its first half and expert 1 in its second. */
static struct run *run_of_steps(int steps)
{
	struct run *run = fake_run_new();
	uint32_t layer = fake_site(run, "layer", 2, -1, 0);

	for (int s = 0; s < steps; s++) {
		int64_t at = 1000 + 100 * s;

		fake_step(run, s, at, at + 100, 16);
		for (int e = 0; e < 2; e++)
			fake_range(run, fake_site(run, "expert", -1, e, 0), at + 10 + 40 * e,
				   at + 50 + 40 * e, 1, 1);
		fake_range(run, layer, at + 5, at + 95, 1, 0);
		fake_routing(run, s, at, 2, 1, 2, (const uint32_t[]){ 4, 12 });
	}
	return run;
}

/* Each launch has a part of the metrics: times are of all, bytes and operations of every second one. */
static void test_groups_take_turns(void **state)
{
	struct run *run = run_of_steps(4);
	struct counted_places places;
	const struct counted_place *row;

	(void)state;
	for (uint32_t s = 0; s < 4; s++) {
		int64_t at = 1020 + 100 * s;

		launched(run, "gemm", 4 * s, at, NAMES(TIME, READ, WRITE), VALUES(10, 100 + s, 20));
		launched(run, "gemm", 4 * s + 1, at + 1, NAMES(TIME, BF16), VALUES(30, 5000));
		/* What covers it is counted, too. */
		launched(run, "gemm", 4 * s + 2, at + 40, NAMES(TIME, BF16, BF16_TO_FP32),
			 VALUES(50, 700, 699));
		/* Outside all ranges. */
		launched(run, "norm", 4 * s + 3, at - 18, NAMES(TIME), VALUES(10));
	}
	places = analyzed(run);
	assert_int_equal(places.launches, 16);
	assert_int_equal(places.experts.n, 2);
	row = of_expert(&places, 0);
	is_about(row->layer, 2);
	assert_int_equal(row->launches, 8);
	assert_int_equal(row->kernels, 1);
	is_about(row->measured_pct, 50);
	assert_true(places.estimated);
	is_about(row->time_ns, 160);
	is_about(row->share_pct, 40);
	/* The mean of 100 to 103 and 20, for eight launches. */
	is_about(row->dram_bytes, 8 * 121.5);
	is_about(row->tensor_ops, 8 * 5000);
	is_about(row->ops_per_byte, 5000 / 121.5);
	is_about(row->dram_bytes_per_s, 8 * 121.5 / 160e-9);
	/* Steps 1 and 2 are whole, with two launches each. */
	assert_int_equal(row->steps, 2);
	is_about(row->tokens, 8);
	is_about(row->dram_bytes_per_token, 4 * 121.5 / 8);
	row = of_expert(&places, 1);
	is_about(row->tensor_ops, 4 * 700);
	is_absent(row->dram_bytes, "it was not counted in a launch of each kernel");
	is_absent(row->dram_bytes_per_token, "it was not counted in a launch of each kernel");
	is_about(row->tokens, 24);
	assert_int_equal(places.layers.n, 1);
	is_about(places.layers.rows->tokens, 32);
	is_about(places.layers.rows->time_ns, 360);
	assert_int_equal(places.ranges.n, 2);
	assert_string_equal(places.ranges.rows[0].range, "layer/expert");
	assert_null(places.ranges.rows[1].range);
	is_about(places.ranges.rows[0].tokens, 32);
	counted_places_release(&places);
	fake_run_free(run);
}

static void test_unknown_tokens(void **state)
{
	struct run *run = run_of_steps(3);
	uint16_t other = fake_shard(run, 1, 4243);
	const struct counted_place *row;
	struct counted_places places;

	(void)state;
	for (uint32_t s = 0; s < 2; s++)
		launched(run, "gemm", s, 1020 + 100 * s, NAMES(READ, WRITE), VALUES(1, 2));
	places = analyzed(run);
	row = of_expert(&places, 0);
	is_absent(row->tokens, "no step was counted from its begin to its end");
	is_absent(row->time_ns, "gpu__time_duration was not counted");
	is_about(row->dram_bytes, 6);
	counted_places_release(&places);
	launched(run, "gemm", 2, 1220, NAMES(READ, WRITE), VALUES(1, 2));
	/* Rows without counters, and counters without a place, belong nowhere. */
	fake_add_counted(run, 0,
			 &(struct row_counted){ .time_ns = 1221, .profile = 77, .thread = 1 });
	fake_add_metric(run, 0,
			&(struct row_metric){ .launch = fake_launch(run, "gemm"),
					      .profile = 78,
					      .name = fake_string(run, READ),
					      .value = 1e9 });
	places = analyzed(run);
	assert_int_equal(places.launches, 3);
	is_about(of_expert(&places, 0)->dram_bytes_per_token, 3.0 / 4);
	assert_false(places.estimated);
	counted_places_release(&places);
	/* A launch of the whole step was to be counted and was not: nobody knows its bytes. */
	fake_add_counted(run, 0,
			 &(struct row_counted){ .time_ns = 1121, .profile = 79, .thread = 1 });
	places = analyzed(run);
	is_absent(of_expert(&places, 0)->tokens, "no step was counted from its begin to its end");
	counted_places_release(&places);
	run->counted.n--;
	fake_add_routing(run, other, &(struct row_routing){ .step = 1, .layer = 2 });
	places = analyzed(run);
	is_absent(of_expert(&places, 0)->tokens, "several processes recorded routing");
	counted_places_release(&places);
	fake_run_free(run);
}

static void sampled(struct run *run, uint16_t shard, const char *name, int64_t time_ns,
		    double value)
{
	fake_add_sample(run, shard,
			&(struct row_sample){ .time_ns = time_ns,
					      .metric = fake_string(run, name),
					      .value = value });
}

static struct device_counters counted(const struct run *run)
{
	struct device_counters counters;
	struct selection all = SELECT_ALL;

	assert_int_equal(device_counters_analyze(run, NULL, &all, false, &counters), 0);
	return counters;
}

/* NVML's share of the bandwidth, then the two directions that --counters has read, too. */
static void test_traffic(void **state)
{
	struct run *run = fake_run_new();
	uint16_t outside = fake_shard(run, 0, 5000);
	struct device_counters counters;

	(void)state;
	run->shards[outside].role = ROLE_COUNTERS;
	for (int s = 0; s < 4; s++)
		fake_step(run, s, 1000 + 100 * s, 1100 + 100 * s, 50);
	run->step.first[0] = STEP_FIRST_LOADED;
	run->step.unfinished[3] = 1;
	for (int s = 0; s < 5; s++)
		sampled(run, 0, "dram_bandwidth_pct", 1050 + 100 * s,
			s == 1	 ? 30
			: s == 2 ? 50
				 : 100);
	counters = counted(run);
	assert_int_equal(counters.n_traffic, 1);
	assert_int_equal(counters.traffic->steps, 2);
	is_about(counters.traffic->tokens, 100);
	is_absent(counters.traffic->dram_bytes_per_s, "the run does not say what the device is");
	device_counters_release(&counters);
	fake_add_device(run, 0,
			&(struct row_device){ .name = fake_string(run, "a GPU"),
					      .memory_bytes_per_s = 1000000000 });
	counters = counted(run);
	is_about(counters.traffic->dram_bytes_per_s, 0.4e9);
	/* 200 ns at 0.4 bytes a nanosecond, for 100 tokens. */
	is_about(counters.traffic->dram_bytes_per_token, 0.8);
	assert_false(counters.traffic->sampled);
	device_counters_release(&counters);
	sampled(run, outside, "dram_read_pct", 1110, 10);
	counters = counted(run);
	assert_false(counters.traffic->sampled); /* one direction alone */
	device_counters_release(&counters);
	sampled(run, outside, "dram_read_pct", 1120, 20);
	sampled(run, outside, "dram_write_pct", 1120, 5);
	counters = counted(run);
	assert_int_equal(counters.n_traffic, 1);
	assert_true(counters.traffic->sampled);
	assert_int_equal(counters.traffic->steps, 1);
	is_about(counters.traffic->dram_bytes_per_token, 0.2 * 100 / 50);
	device_counters_release(&counters);
	fake_add_step(run, outside,
		      &(struct row_step){ .step = 0, .start_ns = 1, .duration_ns = 1 });
	counters = counted(run);
	is_absent(counters.traffic->dram_bytes_per_token, "several processes have steps");
	device_counters_release(&counters);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups_take_turns),
		cmocka_unit_test(test_unknown_tokens),
		cmocka_unit_test(test_traffic),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
