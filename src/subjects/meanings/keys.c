/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that mean the same wherever they stand, and those that are made when they are read; see meanings.h.
 */
#include "subjects/meanings/meanings.h"

#include <string.h>

static const struct {
	const char *key, *meaning;
} keys[] = {
	{ "backward_ns", "time in ranges of the backward phase" },
	{ "beside_backward_ns", "communication that overlaps kernels of the backward pass" },
	{ "beside_forward_ns", "communication that overlaps kernels of the forward pass" },
	{ "beside_unknown_ns", "communication that overlaps kernels of an unknown pass" },
	{ "beside_weight_ns", "communication that overlaps kernels of the gradients of weights" },
	{ "bf16_flops_per_s", "peak for BF16 without sparsity" },
	{ "busy_ns", "kernels, copies and sets" },
	{ "clock_memory_mhz", "clock of the memory" },
	{ "clock_sm_mhz", "clock of the multiprocessors" },
	{ "comm_ns", "communication kernels" },
	{ "comm_overlap_pct", "overlap_ns / comm_ns" },
	{ "compute_ns", "kernels that do not communicate" },
	{ "copy_ns", "a blocking copy, or one by another device" },
	{ "data_ns", "time in ranges of the data phase" },
	{ "device", "number of the device" },
	{ "device_total_bytes", "memory of the device" },
	{ "dram_bandwidth_pct", "share of the memory's peak bandwidth, by hardware counters" },
	{ "dropped", "slots dropped by the program" },
	{ "errors", "calls that failed" },
	{ "expert", "number of the expert in its layer" },
	{ "exposed_ns", "communication and no compute" },
	{ "forward_ns", "time in ranges of the forward phase" },
	{ "fp16_flops_per_s", "peak for FP16 without sparsity" },
	{ "fp32_flops_per_s", "peak for FP32 without sparsity" },
	{ "fp64_flops_per_s", "peak for FP64 without sparsity" },
	{ "fp8_flops_per_s", "peak for FP8 without sparsity" },
	{ "host_ns", "nothing queued, the host was busy" },
	{ "idle_ns", "window_ns - busy_ns" },
	{ "invalid", "slots that name no expert" },
	{ "k_hist", "tokens by slots used" },
	{ "k_mean", "mean number of slots that a token used" },
	{ "late_pct", "how often it was last, of matched" },
	{ "launch_bound_pct", "kernels whose launch takes longer than they run" },
	{ "launch_latency_ns", "median of device start - call start" },
	{ "launch_ns", "work was being launched" },
	{ "layer", "number of the layer" },
	{ "matched", "collectives that more than one rank recorded" },
	{ "max", "largest" },
	{ "max_ns", "longest time" },
	{ "mean", "arithmetic mean" },
	{ "mean_ns", "mean time" },
	{ "memory_total_bytes", "memory of the device" },
	{ "min", "smallest" },
	{ "min_ns", "shortest time" },
	{ "non_compute_ns", "busy_ns - compute_ns" },
	{ "notify_ns", "of comm_ns: counts exchanged, waiting for other ranks" },
	{ "optimizer_ns", "time in ranges of the optimizer phase" },
	{ "overlap_ns", "communication that overlaps compute" },
	{ "p50_ns", "median time" },
	{ "p95_ns", "95th percentile of the times" },
	{ "p99_ns", "99th percentile of the times" },
	{ "pcie_link_generation", "generation of the PCIe link" },
	{ "pcie_link_width", "lanes of the PCIe link" },
	{ "pcie_rx_mib_per_s", "traffic to the device, by counters" },
	{ "pcie_tx_mib_per_s", "traffic from the device, by counters" },
	{ "peak_ns", "when the peak was reached, since the start of the run" },
	{ "phase", "phase of the step; empty: none" },
	{ "pid", "number of the process" },
	{ "power_w", "power draw" },
	{ "profiler_ns", "at the edges of windows of records" },
	{ "queued_ns", "work was queued and had not begun" },
	{ "rank", "rank of the process" },
	{ "samples", "number of readings" },
	{ "share_pct", "share of the time of all rows" },
	{ "skew_max_ns", "the largest skew of a collective" },
	{ "skew_mean_ns", "last start - first start of a collective, mean" },
	{ "step", "number of the step" },
	{ "sync_ns", "nothing queued after a wait of the host" },
	{ "temperature_c", "temperature of the chip" },
	{ "tf32_flops_per_s", "peak for TF32 without sparsity" },
	{ "timestamp", "seconds since 1970" },
	{ "transport", "nccl, expert, nvshmem or other" },
	{ "two_batch_ns", "communication that overlaps work of another batch" },
	{ "unfinished", "cut by the end of the process" },
	{ "unknown_ns", "the calls that would explain it were not recorded" },
	{ "unmatched_frees", "frees of addresses never seen allocated" },
	{ "untimed", "records without times" },
	{ "wait_ns", "last start - own start, at most what the own kernel takes longer than the "
		     "shortest; sum over ranks" },
};

const char *key_meaning(const char *key)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		if (!strcmp(keys[i].key, key))
			return keys[i].meaning;
	return NULL;
}
