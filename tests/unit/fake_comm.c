/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake_comm.h.
 */
#include "fake_comm.h"

#define US INT64_C(1000)
#define STEP_US 1000

static uint64_t call(struct run *run, uint16_t shard, const char *name, int64_t start_us)
{
	uint64_t correlation = run->api.n + 1;

	fake_add_api(run, shard,
		     &(struct row_api){ .name = fake_string(run, name),
					.start_ns = start_us / STEP_US * STEP_US * US + 10,
					.duration_ns = 5,
					.thread = 1,
					.correlation = correlation });
	return correlation;
}

void fake_comm_kernel(struct run *run, uint16_t shard, uint32_t device, const char *name,
		      int64_t start_us, int64_t end_us)
{
	fake_add_kernel(run, shard,
			&(struct row_kernel){
				.launch = fake_launch(run, name),
				.start_ns = start_us * US,
				.duration_ns = (end_us - start_us) * US,
				.stream = 7,
				.device = device,
				.correlation = call(run, shard, "cudaLaunchKernel", start_us) });
}

void fake_collective(struct run *run, uint16_t shard, uint32_t device, const char *name,
		     const char *group, uint64_t sequence, int64_t start_us, int64_t end_us)
{
	/* The kernel is the last one that was added. */
	uint64_t correlation = run->kernel.n ? run->kernel.correlation[run->kernel.n - 1] : 0;

	fake_add_collective(run, shard,
			    &(struct row_collective){
				    .name = fake_string(run, name),
				    .start_ns = start_us * US,
				    .duration_ns = (end_us - start_us) * US,
				    .device = device,
				    .stream = 7,
				    .correlation = correlation,
				    .group = group ? fake_string(run, group) : 0,
				    .sequence = sequence,
				    .sequence_known = group != NULL,
				    .group_size = 4,
				    .type = fake_string(run, "Float"),
				    .in_elements = 1000000,
				    .out_elements = 1000000,
			    });
}

static void add_step(struct run *run, uint16_t shard, int64_t step)
{
	uint32_t device = run->shards[shard].rank;
	int64_t begin = step * STEP_US, late = device ? 80 : 0;

	fake_add_step(run, shard,
		      &(struct row_step){ .step = step,
					  .start_ns = begin * US,
					  .duration_ns = STEP_US * US,
					  .recorded = 1 });
	fake_comm_kernel(run, shard, device, "gemm", begin, begin + 400);
	fake_comm_kernel(run, shard, device, FAKE_NCCL, begin + 300 + late, begin + 700);
	fake_collective(run, shard, device, "allreduce", "dp", (uint64_t)step, begin + 300 + late,
			begin + 700);
	fake_comm_kernel(run, shard, device, FAKE_DISPATCH, begin + 700, begin + 800);
	fake_comm_kernel(run, shard, device, "gemm", begin + 750, begin + 900);
	fake_add_copy(
		run, shard,
		&(struct row_copy){ .start_ns = (begin + 900) * US,
				    .duration_ns = 50 * US,
				    .bytes = 1000000,
				    .kind = 1,
				    .source_memory = 2,
				    .target_memory = 3,
				    .device = device,
				    .source_device = device,
				    .target_device = device,
				    .correlation = call(run, shard, "cudaMemcpyAsync", begin) });
}

struct run *fake_comm_run(void)
{
	struct run *run = fake_run_new();

	fake_shard(run, 1, 4243);
	for (uint16_t shard = 0; shard < 2; shard++)
		for (int64_t step = 0; step < 10; step++)
			add_step(run, shard, step);
	fake_span(run, 0, 10000 * US);
	return run;
}
