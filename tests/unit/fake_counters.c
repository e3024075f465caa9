/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake_counters.h.
 */
#include "fake_counters.h"

static void add(struct run *run, uint16_t shard, const char *kernel, uint32_t profile,
		const char *section, const char *name, const char *unit, double value,
		const char *text)
{
	fake_add_metric(run, shard,
			&(struct row_metric){ .launch = fake_launch(run, kernel),
					      .profile = profile,
					      .section = *section ? fake_string(run, section) : 0,
					      .name = fake_string(run, name),
					      .unit = *unit ? fake_string(run, unit) : 0,
					      .value = value,
					      .text = *text ? fake_string(run, text) : 0 });
}

struct run *fake_counters_run(void)
{
	struct run *run = fake_run_new();
	uint16_t other = fake_shard(run, 1, 4243);

	add(run, 0, "gemm", 0, "", "device__attribute_warp_size", "", 32, "");
	add(run, 0, "gemm", 0, "Speed", "dram__throughput", "%", 60, "");
	add(run, 0, "gemm", 0, "Speed", "cycles", "cycle", 1000, "");
	add(run, 0, "gemm", 0, "Launch", "cache", "", 0, "PreferNone");
	add(run, 0, "gemm", 1, "Speed", "dram__throughput", "%", 70, "");
	add(run, 0, "gemm", 1, "Speed", "cycles", "cycle", 4000, "");
	add(run, 0, "gemm", 1, "Launch", "cache", "", 0, "PreferL1");
	add(run, 0, "gemm", 1, "Speed", "rule Bottleneck", "OPT", 0, "Look at it.");
	add(run, other, "softmax", 0, "Speed", "dram__throughput", "%", 12.5, "");
	add(run, other, "softmax", 0, "Speed", "hit_rate", "%", 0, "nan");
	return run;
}
