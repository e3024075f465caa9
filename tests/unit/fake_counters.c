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

#define ELAPSED ".avg.pct_of_peak_sustained_elapsed"
#define STALL(reason) "smsp__average_warps_issue_stalled_" reason "_per_issue_active.ratio"
#define TENSOR(type) "sm__ops_path_tensor_src_" type ".sum"
#define SAMPLED(reason) "smsp__pcsamp_warps_issue_stalled_" reason
#define US INT64_C(1000)

struct counted {
	const char *kernel;
	uint32_t profile;
	const char *name, *unit;
	double value;
};

static const struct counted counted[] = {
	{ "attention", 0, "gpu__time_duration.sum", "ns", 100e3 },
	{ "attention", 0, "dram__throughput" ELAPSED, "%", 78 },
	{ "attention", 0, "dram__bytes_read.sum", "byte", 20e6 },
	{ "attention", 0, "dram__bytes_write.sum", "Mbyte", 5 },
	{ "attention", 1, "gpu__time_duration.sum", "us", 120 },
	{ "attention", 1, "sm__throughput" ELAPSED, "%", 65 },
	{ "attention", 1, "smsp__thread_inst_executed_per_inst_executed.ratio", "", 24 },
	{ "gemm", 2, "gpu__time_duration.sum", "ns", 2e6 },
	{ "gemm", 2, "sm__throughput" ELAPSED, "%", 75 },
	{ "gemm", 2, "sm__pipe_tensor_cycles_active" ELAPSED, "%", 72 },
	{ "gemm", 2, TENSOR("bf16_dst_fp32"), "", 9e11 },
	{ "gemm", 2, TENSOR("fp16"), "", 5e10 },
	{ "gemm", 2, TENSOR("fp16_dst_fp32"), "", 4e10 },
	{ "gemm", 2, TENSOR("fp16_dst_fp16"), "", 1e10 },
	{ "gemm", 2, TENSOR("fp8_sparsity_off"), "", 3e10 },
	{ "gemm", 2, TENSOR("fp8_sparsity_on"), "", 2e10 },
	{ "gemm", 3, "gpu__time_duration.sum", "ns", 2e6 },
	{ "gemm", 3, "dram__throughput" ELAPSED, "%", 30 },
	{ "gemm", 3, "dram__bytes_read.sum", "byte", 1.5e9 },
	{ "gemm", 3, "dram__bytes_write.sum", "byte", 5e8 },
	{ "gemm", 3, "lts__throughput" ELAPSED, "%", 45 },
	{ "scan", 4, "gpu__time_duration.sum", "ns", 500e3 },
	{ "scan", 4, "dram__throughput" ELAPSED, "%", 12 },
	{ "scan", 4, "lts__throughput" ELAPSED, "%", 9 },
	{ "scan", 4, "sm__throughput" ELAPSED, "%", 20 },
	{ "scan", 4, "sm__cycles_active" ELAPSED, "%", 99 },
	{ "scan", 4, "sm__warps_active.avg.pct_of_peak_sustained_active", "%", 12.5 },
	{ "scan", 5, STALL("long_scoreboard"), "inst", 12 },
	{ "scan", 5, STALL("barrier"), "inst", 4 },
	{ "scan", 5, STALL("wait"), "inst", 3 },
	{ "scan", 5, STALL("not_selected"), "inst", 1 },
	{ "scan", 5, STALL("selected"), "inst", 1 },
	{ "scan", 6, STALL("long_scoreboard"), "inst", 18 },
	{ "tiny", 7, "gpu__time_duration.sum", "ns", 2000 },
	{ "tiny", 7, "dram__throughput" ELAPSED, "%", 0.5 },
	{ "tiny", 7, "lts__throughput" ELAPSED, "%", 0.25 },
	{ "tiny", 7, "sm__throughput" ELAPSED, "%", 0.125 },
	{ "tiny", 7, "lts__t_sector_hit_rate.pct", "%", 40 },
	{ "tiny", 7, "l1tex__t_sector_hit_rate.pct", "%", 50 },
	{ "rest", 8, "dram__throughput" ELAPSED, "%", 20 },
};

/* Instructions of scan, with lines, and of attention, without. */
static void add_samples(struct run *run)
{
	static const struct {
		const char *kernel, *reason, *file;
		uint32_t line;
		uint64_t offset, samples;
	} samples[] = {
		{ "scan", SAMPLED("long_scoreboard"), "/src/moe/scan.cu", 41, 0x1a0, 7200 },
		{ "scan", SAMPLED("long_scoreboard_not_issued"), "/src/moe/scan.cu", 41, 0x1a0,
		  6100 },
		{ "scan", SAMPLED("barrier"), "/src/moe/scan.cu", 44, 0x2f0, 1500 },
		{ "scan", SAMPLED("selected"), "/src/moe/scan.cu", 41, 0x1b0, 300 },
		{ "attention", SAMPLED("math_pipe_throttle"), NULL, 0, 0x4c0, 900 },
		{ "attention", SAMPLED("selected"), NULL, 0, 0x4d0, 100 },
	};

	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
		fake_add_pc_sample(
			run, 0,
			&(struct row_pc_sample){
				.time_ns = 1000,
				.kernel = fake_string(run, samples[i].kernel),
				.reason = fake_string(run, samples[i].reason),
				.samples = samples[i].samples,
				.module = 1,
				.offset = samples[i].offset,
				.file = samples[i].file ? fake_string(run, samples[i].file) : 0,
				.line = samples[i].line });
	fake_add_pc_sample(run, 0,
			   &(struct row_pc_sample){ .time_ns = 1000,
						    .reason = fake_string(run, "dropped"),
						    .samples = 25 });
}

struct run *fake_limits_run(void)
{
	static const struct {
		const char *name;
		uint32_t grid, block, registers;
		int64_t time_us;
	} launches[] = {
		/* scan: 8 blocks of 4 warps for the registers of a multiprocessor: half of its warps, 2 waves. */
		{ "scan", 2112, 128, 64, 6000 },
		{ "gemm", 132, 128, 255, 3000 },
		{ "attention", 4224, 256, 32, 900 },
		{ "rest", 1000, 256, 32, 100 },
		{ "tiny", 1, 32, 16, 0 },
	};
	struct run *run = fake_run_new();
	int64_t now = 0;

	fake_add_device(run, 0,
			&(struct row_device){ .name = fake_string(run, "NVIDIA H200"),
					      .capability = 90,
					      .multiprocessors = 132 });
	for (uint32_t i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		fake_add_launch(run, 0,
				&(struct row_launch){ .id = i + 1,
						      .name = fake_string(run, launches[i].name),
						      .grid_x = launches[i].grid,
						      .grid_y = 1,
						      .grid_z = 1,
						      .block_x = launches[i].block,
						      .block_y = 1,
						      .block_z = 1,
						      .registers = launches[i].registers });
		if (launches[i].time_us)
			fake_kernel(run, launches[i].name, now, now + launches[i].time_us * US,
				    i + 1);
		now += launches[i].time_us * US;
	}
	fake_span(run, 0, now);
	for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
		add(run, 0, counted[i].kernel, counted[i].profile, "", counted[i].name,
		    counted[i].unit, counted[i].value, "");
	add_samples(run);
	return run;
}
