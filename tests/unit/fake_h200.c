/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake_h200.h.
 */
#include "fake_h200.h"

#include "moescope.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)
#define GB UINT64_C(1000000000)

static uint32_t launch(struct run *run, const char *name, uint32_t threads, uint32_t registers,
		       uint32_t shared)
{
	struct row_launch row = { .id = (uint32_t)run->launch.n + 1,
				  .name = fake_string(run, name),
				  .grid_x = 132,
				  .grid_y = 1,
				  .grid_z = 1,
				  .block_x = threads,
				  .block_y = 1,
				  .block_z = 1,
				  .registers = registers,
				  .dynamic_shared_bytes = shared };

	fake_add_launch(run, 0, &row);
	return row.id;
}

/* An operation of 300 us that launches a kernel of `us`. */
static void work(struct run *run, uint32_t site, const char *kernel, int64_t at, int64_t us,
		 uint64_t flops, uint64_t bytes)
{
	uint64_t id = run->api.n + 1;

	fake_add_op(run, 0,
		    &(struct row_op){ .site = site,
				      .start_ns = at,
				      .duration_ns = 300 * US,
				      .thread = 1,
				      .depth = 1,
				      .flops = flops,
				      .bytes = bytes,
				      .unknown = flops ? 0 : OP_FLOPS_UNKNOWN | OP_BYTES_UNKNOWN });
	fake_call(run, "cudaLaunchKernel", at + 5 * US, at + 10 * US, id);
	fake_kernel(run, kernel, at + 20 * US, at + (20 + us) * US, id);
}

static void memory(struct run *run, int64_t at, uint8_t event, uint64_t address, uint64_t bytes,
		   uint8_t use, const char *site)
{
	fake_add_memory(run, 0,
			&(struct row_memory){ .time_ns = at,
					      .event = event,
					      .address = address,
					      .bytes = bytes,
					      .use = use,
					      .site = fake_string(run, site),
					      .thread = 1 });
}

/* 40 GB and 20 GB from the driver; at the peak 52 GB are live, the free 8 GB in three pieces. */
static void add_memory(struct run *run)
{
	static const struct row_device_memory segments[] = {
		{ .time_ns = MS / 10, .address = 1000 * GB, .bytes = 40 * GB, .memory = 3 },
		{ .time_ns = MS / 5, .address = 2000 * GB, .bytes = 20 * GB, .memory = 3 },
		{ .time_ns = MS / 5, .address = 3000 * GB, .bytes = GB / 2, .memory = 3 },
	};
	static const double used[] = { 62e9, 135e9, 70e9 };

	for (size_t i = 0; i < sizeof(segments) / sizeof(segments[0]); i++)
		fake_add_device_memory(run, 0, &segments[i]);
	memory(run, MS / 2, 0, 1000 * GB, 30 * GB, MOESCOPE_MEMORY_PARAMETERS, "weights");
	memory(run, 1100 * US, 0, 1033 * GB, 4 * GB, MOESCOPE_MEMORY_ACTIVATIONS, "hidden");
	memory(run, 2100 * US, 0, 2000 * GB, 18 * GB, MOESCOPE_MEMORY_CACHE, "kv cache");
	memory(run, 5 * MS, 1, 1033 * GB, 0, 0, "");
	for (int i = 0; i < 3; i++)
		fake_add_sample(
			run, 0,
			&(struct row_sample){ .time_ns = (1 + 2 * i) * MS,
					      .metric = fake_string(run, "memory_used_bytes"),
					      .value = used[i] });
}

static void add_readings(struct run *run)
{
	static const struct {
		const char *metric;
		double value;
	} readings[] = { { "sm_active_pct", 72 },
			 { "tensor_active_pct", 31 },
			 { "dram_bandwidth_pct", 25 } };

	for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++)
		fake_add_sample(
			run, 0,
			&(struct row_sample){ .time_ns = 2 * MS,
					      .metric = fake_string(run, readings[i].metric),
					      .value = readings[i].value });
}

static void add_request(struct run *run)
{
	struct row_token row = { .time_ns = MS, .request = 7, .count = 512 };

	fake_add_token(run, 0, &row);
	row.event = 1;
	row.count = 0;
	for (int i = 0; i < 3; i++) {
		row.time_ns = (2 + i) * MS;
		fake_add_token(run, 0, &row);
	}
	row.event = 2;
	fake_add_token(run, 0, &row);
}

struct run *fake_h200_run(void)
{
	static const char gemm[] = "nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NTN";
	struct run *run = fake_run_new();
	uint32_t prefill = fake_site(run, "prefill", 0, -1, MOESCOPE_PREFILL);
	uint32_t decode = fake_site(run, "decode", 1, 3, MOESCOPE_DECODE);
	uint32_t mm = fake_site(run, "mm", -1, -1, 0), norm = fake_site(run, "norm", -1, -1, 0);

	fake_span(run, 0, 6 * MS);
	fake_add_device(run, 0,
			&(struct row_device){ .name = fake_string(run, "NVIDIA H200"),
					      .memory_bytes = 140 * GB,
					      .multiprocessors = 132,
					      .capability = 90,
					      .threads_per_multiprocessor = 2048,
					      .registers_per_multiprocessor = 65536,
					      .shared_bytes_per_multiprocessor = 233472,
					      .blocks_per_multiprocessor = 32 });
	launch(run, gemm, 384, 168, 200000);
	launch(run, "rms_norm_kernel", 256, 33, 0);
	fake_add_fact(run, 0,
		      &(struct row_fact){ .key = fake_string(run, "dtype"),
					  .value = fake_string(run, "bfloat16") });
	work(run, mm, gemm, 1000 * US, 200, UINT64_C(100000000000), 200000000);
	work(run, norm, "rms_norm_kernel", 1500 * US, 50, 500000000, 100000000);
	fake_range(run, prefill, 1000 * US, 1900 * US, 1, 0);
	work(run, mm, gemm, 2000 * US, 100, 0, 0);
	fake_range(run, decode, 2000 * US, 2500 * US, 1, 0);
	fake_step(run, 0, 1000 * US, 3000 * US, 512);
	add_memory(run);
	add_readings(run);
	add_request(run);
	return run;
}
