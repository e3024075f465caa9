/* SPDX-License-Identifier: Apache-2.0
 *
 * A run with something to say about; see fake_slow.h.
 */
#include "fake_slow.h"

#include "moescope.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define SLOW 13

struct sites {
	uint32_t data, moe;
};

static void launch(struct run *run, const char *name, int64_t call, int64_t start, int64_t end)
{
	uint64_t id = run->kernel.n + 1;

	fake_call(run, "cudaLaunchKernel", call, call + 5 * US, id);
	fake_kernel(run, name, start, end, id);
}

static void sample(struct run *run, int64_t at, const char *metric, double value)
{
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = at,
					      .metric = fake_string(run, metric),
					      .value = value });
}

static int64_t add_step(struct run *run, const struct sites *sites, int step, int64_t at)
{
	static const uint32_t load[] = { 40, 20, 10, 10 };
	bool slow = step == SLOW;
	int64_t ready = at + (slow ? 6 : 3) * MS, experts = (slow ? 6 : 4) * MS;
	int64_t end = ready + 3 * MS + experts;

	fake_range(run, sites->data, at, ready - 20 * US, 1, 0);
	if (slow)
		fake_call(run, "cudaMalloc", at + MS, at + 3 * MS, 9000);
	launch(run, "attn_fwd", ready - 10 * US, ready, ready + 2 * MS);
	launch(run, "grouped_gemm", ready + MS, ready + 2 * MS, ready + 2 * MS + experts);
	fake_range(run, sites->moe, ready + 900 * US, ready + 1050 * US, 1, 0);
	launch(run, "adam", ready + 1100 * US, ready + 2 * MS + experts, end);
	sample(run, at + 5 * MS, "clock_sm_mhz", slow ? 1200 : 1500);
	sample(run, at + 5 * MS, "clock_limit_reasons", 4);
	fake_routing(run, step, at, 0, 1, 4, load);
	fake_step(run, step, at, end, 80);
	return end;
}

struct run *fake_slow_run(void)
{
	struct run *run = fake_run_new();
	struct sites sites = {
		.data = fake_site(run, "next batch", -1, -1, MOESCOPE_DATA),
		.moe = fake_site(run, "moe", 0, -1, MOESCOPE_FORWARD),
	};
	int64_t at = 0;

	fake_add_device(run, 0,
			&(struct row_device){ .name = fake_string(run, "Test GPU"),
					      .clock_khz = 1600000,
					      .memory_bytes = 80000000000 });
	for (int step = 0; step < 20; step++)
		at = add_step(run, &sites, step, at);
	fake_span(run, 0, at);
	return run;
}
