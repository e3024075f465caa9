/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics of single launches by kernel, every value by hand.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "fake_counters.h"
#include "subjects/counters/launch_metrics.h"

static void check_row(const struct run *run, const struct launch_metric_row *row,
		      const char *kernel, const char *metric, uint64_t launches)
{
	assert_string_equal(run_string(run, row->kernel), kernel);
	assert_string_equal(run_string(run, row->metric), metric);
	assert_int_equal(row->launches, launches);
}

static void test_groups(void **state)
{
	struct run *run = fake_counters_run();
	struct launch_metrics m;

	(void)state;
	assert_int_equal(launch_metrics_analyze(run, &m), 0);
	assert_int_equal(m.kernels, 2);
	assert_int_equal(m.launches, 3); /* number 0 of two processes is two launches */
	assert_int_equal(m.values, 10);
	assert_int_equal(m.n, 7);
	check_row(run, &m.rows[0], "gemm", "dram__throughput", 2);
	assert_true(m.rows[0].mean.known && m.rows[0].mean.v == 65);
	assert_true(m.rows[0].min.v == 60 && m.rows[0].max.v == 70);
	check_row(run, &m.rows[1], "gemm", "cycles", 2);
	assert_true(m.rows[1].mean.v == 2500);
	check_row(run, &m.rows[2], "gemm", "cache", 2);
	assert_false(m.rows[2].mean.known);
	assert_int_equal(m.rows[2].text, 0); /* they differ */
	assert_string_equal(m.rows[2].no_text, "several texts");
	check_row(run, &m.rows[3], "gemm", "rule Bottleneck", 1);
	assert_string_equal(run_string(run, m.rows[3].text), "Look at it.");
	check_row(run, &m.rows[4], "gemm", "device__attribute_warp_size", 1);
	check_row(run, &m.rows[5], "softmax", "dram__throughput", 1);
	assert_true(m.rows[5].mean.v == 12.5);
	check_row(run, &m.rows[6], "softmax", "hit_rate", 1);
	assert_false(m.rows[6].max.known);
	launch_metrics_release(&m);
	fake_run_free(run);
}

static void test_short_names(void **state)
{
	struct run *run = fake_run_new();
	struct launch_metrics m;

	(void)state;
	fake_add_metric(run, 0,
			&(struct row_metric){
				.launch = fake_launch(run, "void a::copy<float, 3>(float *, int)"),
				.name = fake_string(run, "m") });
	fake_add_metric(run, 0,
			&(struct row_metric){
				.launch = fake_launch(run, "abcdefghijklmnopqrstu\xc3\xa4xyz1234"),
				.name = fake_string(run, "m") });
	fake_add_metric(run, 0,
			&(struct row_metric){ .launch = fake_launch(run, "_Z4tinyPf"),
					      .name = fake_string(run, "m") });
	assert_int_equal(launch_metrics_analyze(run, &m), 0);
	assert_string_equal(m.rows[2].name, "tiny(float*)");
	assert_string_equal(m.rows[0].short_name, "a::copy");
	assert_string_equal(m.rows[1].short_name, "abcdefghijklmnopqrstu..");
	launch_metrics_release(&m);
	fake_run_free(run);
}

/* Values that no mean can be made of. */
static void test_extremes(void **state)
{
	static const double values[] = { 1e308, 1.7e308, NAN };
	struct run *run = fake_run_new();
	struct launch_metrics m;

	(void)state;
	assert_int_equal(launch_metrics_analyze(run, &m), 0);
	assert_int_equal(m.n, 0);
	for (uint32_t i = 0; i < 3; i++)
		fake_add_metric(run, 0,
				&(struct row_metric){ .launch = fake_launch(run, "k"),
						      .profile = i,
						      .name = fake_string(run, "m"),
						      .value = values[i] });
	assert_int_equal(launch_metrics_analyze(run, &m), 0);
	assert_int_equal(m.n, 1);
	assert_int_equal(m.rows[0].launches, 3);
	assert_int_equal(m.rows[0].numbers, 2);
	assert_false(m.rows[0].mean.known);
	assert_true(m.rows[0].max.v == 1.7e308);
	launch_metrics_release(&m);
	fake_run_free(run);
}

/* Prefixes that the profiler chose by the value do not tear a metric apart. */
static void test_units(void **state)
{
	static const struct {
		const char *name, *unit;
		double value;
	} values[] = {
		{ "Duration", "usecond", 500 },
		{ "Duration", "msecond", 1.5 },
		{ "Duration", "ns", 250000 },
		{ "Throughput", "Gbyte/second", 1.5 },
		{ "Throughput", "Mbyte/s", 500 },
		{ "Frequency", "cycle/nsecond", 1.25 },
		{ "Frequency", "cycle/usecond", 750 },
		{ "Share", "%", 50 },
		{ "Share", "inst", 3 },
		{ "Share", "", 4 },
		{ "Share", "inst/cycle", 5 },
	};
	struct run *run = fake_run_new();
	struct launch_metrics m;

	(void)state;
	for (uint32_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		fake_add_metric(run, 0,
				&(struct row_metric){ .launch = fake_launch(run, "k"),
						      .profile = i,
						      .name = fake_string(run, values[i].name),
						      .unit = fake_string(run, values[i].unit),
						      .value = values[i].value });
	assert_int_equal(launch_metrics_analyze(run, &m), 0);
	assert_int_equal(m.n, 7);
	check_row(run, &m.rows[0], "k", "Duration", 3);
	assert_string_equal(run_string(run, m.rows[0].unit), "usecond");
	assert_true(m.rows[0].mean.v == 750);
	assert_true(m.rows[0].min.v == 250 && m.rows[0].max.v == 1500);
	check_row(run, &m.rows[1], "k", "Throughput", 2);
	assert_string_equal(run_string(run, m.rows[1].unit), "Gbyte/second");
	assert_true(m.rows[1].mean.v == 1);
	check_row(run, &m.rows[2], "k", "Frequency", 2);
	assert_true(m.rows[2].mean.v == 1);
	check_row(run, &m.rows[3], "k", "Share", 1);
	launch_metrics_release(&m);
	fake_run_free(run);
}

static void add_value(struct run *run, uint32_t launch, const char *section, const char *metric,
		      double value)
{
	fake_add_metric(run, 0,
			&(struct row_metric){ .launch = launch,
					      .profile = (uint32_t)run->metric.n,
					      .section = section ? fake_string(run, section) : 0,
					      .name = fake_string(run, metric),
					      .value = value });
}

static const struct launch_metric_row *row_of(const struct run *run, const struct launch_metrics *m,
					      const char *kernel, const char *metric, bool replayed)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(run_string(run, m->rows[i].kernel), kernel) &&
		    !strcmp(run_string(run, m->rows[i].metric), metric) &&
		    (m->rows[i].section != 0) == replayed)
			return &m->rows[i];
	fail_msg("no row of %s", metric);
	return NULL;
}

/* Beside what launches of one pass and of the same shape vary by themselves: 100 to 120. */
static void test_doubt(void **state)
{
	static const char time[] = "gpu__time_duration.sum",
			  clock[] = "gpc__cycles_elapsed.avg.per_second",
			  share[] = "sm__throughput.avg.pct_of_peak_sustained_elapsed",
			  passes[] = "replayed in 5 passes";
	struct run *run = fake_run_new();
	uint32_t like = fake_launch(run, "like"), longer = fake_launch(run, "longer"),
		 slower = fake_launch(run, "slower"), over = fake_launch(run, "over"),
		 other = fake_launch(run, "other"), alone = fake_launch(run, "alone");
	const struct {
		uint32_t launch;
		double time, clock, share;
	} replays[] = { { like, 131, 0.96e9, 100 },
			{ longer, 150, 1e9, 40 },
			{ slower, 110, 0.9e9, 40 },
			{ over, 110, 1e9, 101 } };
	struct launch_metrics m;

	(void)state;
	for (size_t i = 0; i < sizeof(replays) / sizeof(replays[0]); i++) {
		add_value(run, replays[i].launch, NULL, time, 100);
		add_value(run, replays[i].launch, NULL, time, 120);
		add_value(run, replays[i].launch, NULL, clock, 1e9);
		add_value(run, replays[i].launch, passes, time, replays[i].time);
		add_value(run, replays[i].launch, passes, clock, replays[i].clock);
		add_value(run, replays[i].launch, passes, share, replays[i].share);
	}
	/* Another profiler's section, and a kernel that nothing can be compared with. */
	add_value(run, other, "GPU Speed Of Light Throughput", share, 104);
	add_value(run, alone, passes, time, 300);
	assert_int_equal(launch_metrics_analyze(run, &m), 0);
	assert_string_equal(row_of(run, &m, "like", share, true)->doubt, "");
	assert_string_equal(row_of(run, &m, "like", time, false)->doubt, "");
	assert_string_equal(row_of(run, &m, "longer", share, true)->doubt,
			    "the kernel took 25% longer than in launches of one pass");
	assert_string_equal(row_of(run, &m, "slower", share, true)->doubt,
			    "the clock was 10% lower than in launches of one pass");
	assert_string_equal(row_of(run, &m, "over", share, true)->doubt,
			    "more than 100%: the passes do not fit together");
	assert_string_equal(row_of(run, &m, "over", time, true)->doubt, "");
	assert_string_equal(row_of(run, &m, "other", share, true)->doubt, "");
	assert_string_equal(row_of(run, &m, "alone", time, true)->doubt, "");
	/* Of "longer" and "slower" all three, of "over" one. */
	assert_int_equal(m.doubted, 7);
	launch_metrics_release(&m);
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),	 cmocka_unit_test(test_short_names),
		cmocka_unit_test(test_extremes), cmocka_unit_test(test_units),
		cmocka_unit_test(test_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
