/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of devices mean: kernels and when they ran, what a kernel profiler measured, and how
 * much of the device the work used.
 */
#include "subjects/meanings/meanings.h"

#define COUNTERS "hardware counters only"
#define OF_DEVICE "Of the whole device, where NVML reads its counters (Hopper and later)."
#define OF_KERNEL "Per kernel, over its measured launches; n/a where it was not counted."

static const struct metric timeline[] = {
	{ "kernel_time", "ns",
	  "end - start of the device record. start = 0, end = 0 or end < start is untimed: counted "
	  "apart, never a zero duration.",
	  FROM_DEVICE, NO_RECORDS,
	  .keys = "mean_ns min_ns max_ns p50_ns p95_ns p99_ns share_pct untimed" },
	{ "kernel_class", "word",
	  "what a kernel does, by its name: gemm (convolutions too), grouped_gemm, attention (linear "
	  "attention and state-space layers too), normalisation (softmax too), routing (top-k, sorting, "
	  "histograms), permute (tokens gathered and scattered), quantisation, transpose, fft, "
	  "elementwise, reduction (sampling too), copy; dispatch, combine and notify of expert "
	  "parallelism, other collectives; other: the name says nothing.",
	  "a table of words, after the lines of --classes",
	  "In 'kernels --by class' the innermost range or operation that says more decides: gemm, "
	  "grouped_gemm and other become attention inside attention ('attn', 'mla'), gemm and other "
	  "routing inside a router or 'gate', gemm grouped_gemm inside 'experts' but not a shared one. "
	  "Every other class stays." },
	{ "gpu_busy", "ns", "length of the union of all device intervals in the window.",
	  FROM_DEVICE, NO_RECORDS, .keys = "window_ns kernel_ns set_ns busy_ns busy_pct" },
	{ "gpu_idle", "ns",
	  "the window without gpu_busy, each moment by its cause: host (nothing queued), sync "
	  "(nothing queued after a wait of the host), launch, queued (launched over 10 us before, "
	  "not begun), copy, profiler (edges of windows), unknown.",
	  FROM_DEVICE " and of calls",
	  "A wait for a collective is busy time: its kernel runs. " NO_RECORDS,
	  .keys = "host_ns launch_ns sync_ns copy_ns queued_ns profiler_ns unknown_ns "
		  "collective_ns idle_ns idle_by_cause" },
	{ "coverage_pct", "%",
	  "time in which device records were collected / time from the governor's first gear to the "
	  "end, over all processes.",
	  "measured by the governor's gear records",
	  "Below 100 the device tables are sampled: they count the windows, not scaled up.",
	  .keys = "sampled windows" },
	{ "steps_covered", "steps",
	  "finished steps that lie wholly inside a window of device records.",
	  "derived from gear and step records", "Means a step of device figures are over these.",
	  .keys = "device_covered whole" },
	{ "staged", "moves",
	  "a copy to the host and, at most 1 ms after its end, one of as many bytes (4096 or more) "
	  "to another device.",
	  FROM_DEVICE, "A guess by size and time: two unrelated copies can look the same." },
	{ "launch_latency", "ns",
	  "device start - start of the launching API call, of the first kernel of each call; the "
	  "median.",
	  FROM_DEVICE, NO_RECORDS, .keys = "launch_latency_ns" },
	{ "launch_overhead", "ns",
	  "duration of the launch call, shared equally by the kernels that it launched (a graph's "
	  "are many); the median.",
	  "measured by API records", NO_RECORDS, .keys = "launch_overhead_ns" },
	{ "launch_bound", "kernels",
	  "timed kernels whose launch_overhead is longer than their time on the device; "
	  "launch_bound_pct is their share.",
	  "derived from kernel and API records",
	  "Over the kernels whose launch call was recorded. " NO_RECORDS,
	  .keys = "launch_bound_pct" },
	{ "overlap_pct", "%",
	  "length of (compute and copy at once) / length of copy; likewise for collectives.",
	  FROM_DEVICE, NO_RECORDS, .keys = "compute_copy_ns compute_copy_pct" },
};

const struct metric_group timeline_metrics = { "kernels and timeline", METRICS(timeline) };

static const struct metric counters[] = {
	{ "launch_metric", "the row's",
	  "a figure of one launch, by the name and in the unit that Nsight Compute gives it; mean, "
	  "min and max are over the launches of a kernel that have a number for it.",
	  "imported from a CSV of Nsight Compute",
	  "The profiler replays kernels, alone and often at fixed clocks: times differ from those "
	  "of a trace. Figures that it did not collect have no row." },
	{ "bound_by", "word",
	  "the part of the GPU that a kernel brings nearest to its peak, from 60% on: memory (dram_pct), "
	  "L2 (l2_pct), tensor (tensor_pct) or SM (sm_pct, unless tensor is at 60%: it is a part of it). If "
	  "memory, L2 and SM were counted and none is: small grid with less than one wave of blocks, "
	  "else latency: warps wait.",
	  "derived from the counters of its launches",
	  "A rule of thumb. Of a kernel launched with several sizes it is about their mean. n/a where "
	  "what was counted does not decide.",
	  .keys = "because" },
	{ "kernel_dram_pct", "%", "share of the peak device-memory bandwidth: dram__throughput.",
	  COUNTERS, OF_KERNEL },
	{ "l2_pct", "%", "rate of the busiest part of the L2 cache / its peak: lts__throughput.",
	  COUNTERS, OF_KERNEL },
	{ "l1_hit_pct", "%", "L1 cache hits / L1 accesses, in sectors.", COUNTERS, OF_KERNEL },
	{ "waves", "number",
	  "blocks of the grid / (blocks that fit a multiprocessor * multiprocessors): how often the "
	  "GPU is filled.",
	  "Nsight Compute, or derived from the launch and device records",
	  "Below 1 a part of the GPU has nothing to do." },
	{ "dram_bytes", "bytes", "bytes that a launch read from and wrote to device memory, mean.",
	  COUNTERS, OF_KERNEL, .keys = "dram_read_bytes dram_write_bytes" },
	{ "tensor_ops", "operations",
	  "operations of the tensor cores (a multiply-add is two): sum of sm__ops_path_tensor_src_*, "
	  "without those that another of them has in it.",
	  COUNTERS, "Of the types that were counted. Arithmetic of other pipes is not in it.",
	  .keys = "tensor_ops_per_s" },
	{ "ops_per_byte", "operations/byte",
	  "measured arithmetic intensity: tensor_ops_per_s / dram_bytes_per_s.", COUNTERS,
	  OF_KERNEL },
	{ "stall", "word",
	  "the state in which warps spent the most time without issuing, by NVIDIA's name: "
	  "long_scoreboard waits for global memory, short_scoreboard for shared memory, barrier for "
	  "other warps, math_pipe_throttle for an arithmetic pipe, not_selected for its turn. "
	  "stall_pct: its share of all such states that were counted.",
	  COUNTERS, OF_KERNEL, .keys = "stall_pct" },
};

const struct metric_group counters_metrics = { "hardware counters", METRICS(counters) };

static const struct metric work[] = {
	{ "self_time", "ns",
	  "time of a range or operation without its children on the same thread.",
	  "derived from the recorded ranges", "In JSON self_cpu_ns and self_gpu_ns.",
	  .keys = "self_cpu_ns self_gpu_ns self_cpu_pct" },
	{ "total_time", "ns", "time of a range or operation with its children.",
	  "measured by the processor's counter, as CLOCK_MONOTONIC",
	  "In JSON cpu_ns and gpu_ns. Threads add up: it can exceed the wall time.",
	  .keys = "cpu_ns gpu_ns" },
	{ "flops", "FLOP", "arithmetic of an operation: 2*m*n*k for a matrix product.",
	  "as given by the program", "n/a for ranges, which do not say.", .keys = "flops_per_s" },
	{ "bytes_moved", "bytes", "memory read and written by an operation.",
	  "as given by the program", "In JSON self_bytes. n/a for ranges, which do not say.",
	  .keys = "self_bytes bytes_per_s bytes" },
	{ "theoretical_occupancy", "%",
	  "warps of a multiprocessor that blocks of the launch can fill / warps that it can hold, "
	  "from registers, shared memory, block size and the device's limits; weighted by time.",
	  "derived from the launch and device records",
	  "What could be resident, not what was. Assumes the largest shared memory that the device "
	  "can set aside, and no clusters. In JSON occupancy_pct, with what limits it.",
	  .keys = "occupancy_pct occupancy_limiter" },
	{ "achieved_occupancy", "%",
	  "mean active warps / warps the device can hold, while a multiprocessor had work.",
	  COUNTERS, OF_KERNEL, .keys = "achieved_occupancy_pct" },
	{ "sm_pct", "%",
	  "rate of the busiest part of the multiprocessors (issue, pipes) / its peak: sm__throughput.",
	  COUNTERS, OF_KERNEL },
	{ "tensor_pct", "%", "share of the cycles in which the tensor cores worked.", COUNTERS,
	  OF_KERNEL },
	{ "sm_active_pct", "%", "share of the multiprocessors that had work, mean of samples.",
	  COUNTERS, OF_DEVICE },
	{ "sm_occupancy_pct", "%",
	  "warps that were active / warps the device can hold, mean of samples.", COUNTERS,
	  OF_DEVICE },
	{ "tensor_active_pct", "%",
	  "share of the time in which multiprocessors did tensor operations, mean of samples.",
	  COUNTERS, OF_DEVICE },
	{ "dram_pct", "%", "share of the peak device-memory bandwidth, mean of samples.", COUNTERS,
	  OF_DEVICE, .keys = "dram_bandwidth_pct" },
	{ "pcie_pct", "%",
	  "mean of the busier direction of the PCIe link / what a link of its generation and width "
	  "carries in one direction.",
	  "measured by the device's counters; the link's rate is derived",
	  "Of the whole device. Packet headers are in neither figure.",
	  .keys = "pcie_tx_mib_per_s pcie_rx_mib_per_s pcie_link_generation "
		  "pcie_link_width" },
	{ "l2_hit_pct", "%", "L2 cache hits / L2 accesses, in sectors.", COUNTERS, OF_KERNEL },
	{ "warp_efficiency", "%", "mean active threads of an executed warp / 32.", COUNTERS,
	  OF_KERNEL, .keys = "warp_efficiency_pct" },
	{ "dram_bandwidth", "bytes/s", "counter bytes / time, of the launches that have both.",
	  COUNTERS,
	  "The driver's \"memory utilisation\" is a share of time, not a bandwidth. " OF_KERNEL,
	  .keys = "dram_bytes_per_s" },
	{ "copy_bandwidth", "bytes/s",
	  "bytes / device time of the copy, by direction and by pinned or pageable memory; peer "
	  "copies by device pair.",
	  FROM_DEVICE, NO_RECORDS, .keys = "bandwidth_bytes_per_s" },
	{ "copy_limit", "%",
	  "copy bandwidth / the most that this way can do: with the host what was measured for "
	  "pinned memory, within a device its copy rate, of sets the rate of its memory.",
	  "derived; the limit is measured by 'doctor --calibrate', or the vendor's",
	  "In JSON limit_pct and limit_bytes_per_s. n/a for directions that were not measured.",
	  .keys = "limit_pct limit_bytes_per_s" },
	{ "mfu", "%",
	  "model FLOPs / (time of the steps * the device's peak for the data type), over finished, "
	  "recorded steps.",
	  "derived; the peak is measured by 'doctor --calibrate', or the vendor's",
	  "FLOPs are those that operations report; without them those of routers and experts in the "
	  "forward pass, a lower bound (est.).",
	  .keys = "mfu_pct model_flops model_flops_per_s" },
	{ "peak_flops_per_s", "FLOP/s",
	  "the most arithmetic that the device does with this data type, without sparsity.",
	  "'doctor --calibrate' (8192 x 8192 products of random numbers), or the vendor's data sheet",
	  "The vendor's figure is not reached by real products: MFU against it is lower.",
	  .keys = "fp64_flops_per_s fp32_flops_per_s tf32_flops_per_s bf16_flops_per_s "
		  "fp16_flops_per_s fp8_flops_per_s peak_memory_bytes_per_s" },
	{ "flops_per_byte", "FLOP/byte",
	  "arithmetic intensity: FLOPs / bytes that the operations reported.", "derived",
	  "Bytes are the program's count; what caches save or add is not in it." },
	{ "roof_pct", "%", "FLOPs a second / min(peak, flops_per_byte * rate of the memory).",
	  "derived",
	  "Over the covered time. On a processor est.: a core's share of the machine's peaks.",
	  .keys = "roof_flops_per_s roof_bytes_per_s bound roofline" },
	{ "covered_pct", "%",
	  "share of the time of these kernels that belongs to operations that reported FLOPs.",
	  "derived from the launch calls",
	  "An operation's FLOPs and bytes are shared among its kernels by their time." },
};

const struct metric_group work_metrics = { "kernels and timeline", METRICS(work) };
