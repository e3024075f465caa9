/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake_windows.h.
 */
#include "fake_windows.h"

#include "moescope.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

static void add_gears(struct run *run)
{
	static const struct {
		int64_t ms;
		uint8_t gear, attached;
		double cost_pct;
		uint64_t device_bytes;
		const char *why;
	} rows[] = {
		{ 5, 3, 1, 0, 36000000, "the program uses CUDA" },
		{ 20, 2, 0, 8, 36000000, "over budget: many small kernels" },
		{ 40, 2, 1, 8, 36500000, "a window begins" },
		{ 60, 2, 0, 6, 36500000, "a window ends" },
		{ 70, 4, 0, 6, 36500000, "torch.profiler collects" },
		{ 80, 2, 1, 6, 37000000, "torch.profiler has stopped" },
		{ 90, 2, 0, 6, 37000000, "a window ends" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		fake_add_gear(run, 0,
			      &(struct row_gear){ .time_ns = rows[i].ms * MS,
						  .gear = rows[i].gear,
						  .attached = rows[i].attached,
						  .why = fake_string(run, rows[i].why),
						  .cost_pct = rows[i].cost_pct,
						  .device_bytes = rows[i].device_bytes });
	for (int i = 0; i < 2; i++)
		fake_add_device_cost(run, 0,
				     &(struct row_device_cost){ .time_ns = (30 + i * 60) * MS,
								.cupti_ns = 200000,
								.translate_ns = 100000,
								.held_ns = 50000,
								.switch_ns = 150000,
								.kernels = 5,
								.calls = 6 });
}

static void add_node(struct run *run, int64_t time_ns, uint64_t node, uint64_t source)
{
	fake_add_graph_node(run, 0,
			    &(struct row_graph_node){ .time_ns = time_ns,
						      .thread = 1,
						      .graph = source ? 3 : 2,
						      .node = node,
						      .source = source });
}

static void add_capture(struct run *run)
{
	uint32_t capture = fake_site(run, "capture", -1, -1, 0);

	for (int l = 0; l < 2; l++) {
		int64_t at = (12 + l) * MS;

		add_node(run, at + 200 * US, 101 + (uint64_t)l, 0);
		fake_range(run, fake_site(run, "block", l, -1, MOESCOPE_DECODE), at, at + 900 * US,
			   1, 1);
	}
	fake_range(run, capture, 11900 * US, 15 * MS, 1, 0);
	add_node(run, 15500 * US, 201, 101);
	add_node(run, 15500 * US, 202, 102);
}

static void add_graph_kernel(struct run *run, int64_t start_ns, int64_t duration_ns, uint64_t node,
			     uint64_t id)
{
	fake_add_kernel(run, 0,
			&(struct row_kernel){ .launch = fake_launch(run, "decode_kernel"),
					      .start_ns = start_ns,
					      .duration_ns = duration_ns,
					      .stream = 7,
					      .correlation = id,
					      .graph = 3,
					      .graph_node = node });
}

static void add_eager(struct run *run, int64_t at, uint64_t id)
{
	fake_call(run, "cudaLaunchKernel", at, at + 5 * US, id);
	fake_kernel(run, "flash_fwd_kernel", at + 20 * US, at + 20 * US + MS, id);
}

static void add_replay(struct run *run, uint32_t decode, int64_t at, uint64_t id)
{
	fake_call(run, "cudaGraphLaunch", at + MS, at + MS + 5 * US, id);
	fake_range(run, decode, at + 900 * US, at + 2900 * US, 1, 0);
	add_graph_kernel(run, at + 1020 * US, 2 * MS, 201, id);
	add_graph_kernel(run, at + 3020 * US, 3 * MS, 202, id);
	fake_call(run, "cudaStreamSynchronize", at + 2 * MS, at + 6030 * US, id + 1);
	add_eager(run, at + 8 * MS, id + 2);
}

static void add_sample(struct run *run, int64_t ms, const char *metric, double value)
{
	fake_add_sample(run, 0,
			&(struct row_sample){ .time_ns = ms * MS,
					      .metric = fake_string(run, metric),
					      .value = value });
}

static void add_state(struct run *run)
{
	static const struct row_process processes[] = {
		{ .time_ns = 6 * MS, .pid = 4242, .bytes = UINT64_C(3) << 30 },
		{ .time_ns = 6 * MS, .pid = 777, .bytes = UINT64_C(2) << 30 },
		{ .time_ns = 6 * MS, .pid = 888, .kind = 1 },
		{ .time_ns = 50 * MS, .pid = 777, .bytes = UINT64_C(1) << 30 },
	};
	static const struct row_pool pools[] = {
		{ .time_ns = 7 * MS, .address = 0x10, .release_bytes = 16000000 },
		{ .time_ns = 50 * MS,
		  .event = 2,
		  .address = 0x10,
		  .bytes = 64000000,
		  .used_bytes = 48000000,
		  .release_bytes = 16000000 },
		{ .time_ns = 60 * MS,
		  .event = 2,
		  .address = 0x10,
		  .bytes = 32000000,
		  .used_bytes = 30000000,
		  .release_bytes = 16000000 },
	};

	for (size_t i = 0; i < sizeof(processes) / sizeof(processes[0]); i++) {
		struct row_process row = processes[i];

		row.name = fake_string(run, row.pid == 888 ? "Xorg" : "python3 train.py");
		fake_add_process(run, 0, &row);
	}
	for (size_t i = 0; i < sizeof(pools) / sizeof(pools[0]); i++)
		fake_add_pool(run, 0, &pools[i]);
	for (int i = 0; i < 3; i++) {
		add_sample(run, 10 + i, "power_w", 500 + 100 * i);
		add_sample(run, 10 + i, "clock_sm_mhz", i == 2 ? 1200 : 1980);
		add_sample(run, 10 + i, "temperature_c", i == 1 ? 70 : 60);
		add_sample(run, 10 + i, "clock_limit_reasons", i == 0 ? 0 : i == 1 ? 4 : 4 + 32);
	}
}

static void add_spans(struct run *run)
{
	uint32_t request = fake_string(run, "request"), server = fake_string(run, "server");

	for (int i = 0; i < 2; i++)
		fake_add_span(run, 0,
			      &(struct row_span){ .name = request,
						  .start_ns = (40 + i * 2) * MS,
						  .duration_ns = (5 + i * 2) * MS,
						  .thread = 1,
						  .end_thread = 2,
						  .domain = server });
	fake_add_span(run, 0,
		      &(struct row_span){ .name = fake_string(run, "load"),
					  .start_ns = 2 * MS,
					  .duration_ns = 3 * MS,
					  .thread = 1,
					  .end_thread = 1 });
}

struct run *fake_windows_run(void)
{
	struct run *run = fake_run_new();
	uint32_t decode;

	fake_span(run, 0, 100 * MS);
	run->info.budget_pct = 1;
	run->info.budget_known = true;
	add_gears(run);
	add_eager(run, 7 * MS, 1);
	add_capture(run);
	add_eager(run, 17 * MS, 2);
	decode = fake_site(run, "decode", -1, -1, MOESCOPE_DECODE);
	for (int64_t step = 0; step < 10; step++) {
		if (step == 4 || step == 5 || step == 8)
			add_replay(run, decode, step * 10 * MS, (uint64_t)step * 10);
		fake_step(run, step, step * 10 * MS, (step + 1) * 10 * MS, 16);
	}
	add_state(run);
	add_spans(run);
	return run;
}
