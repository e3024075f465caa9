/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of devices mean: kernels and when they ran, what a kernel profiler measured, and how
 * much of the device the work used.
 */
#include "subjects/meanings/meanings.h"

#define COUNTERS "hardware counters only"
#define OF_DEVICE                                                                                  \
	"Of the whole device, where NVML reads its counters (Hopper and later); per kernel n/a."
#define NOT_YET "Not computed by this version: n/a."

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
	  "parallelism, other collectives; other: the name tells nothing.",
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
	{ "achieved_occupancy", "%", "mean active warps / warps the device can hold.", COUNTERS,
	  NOT_YET },
	{ "sm_pct", "%", "share of the peak issue rate of the multiprocessors.", COUNTERS,
	  NOT_YET },
	{ "tensor_pct", "%", "share of the peak rate of the tensor cores.", COUNTERS, NOT_YET },
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
	{ "l2_hit_pct", "%", "L2 cache hits / L2 accesses.", COUNTERS, NOT_YET },
	{ "warp_efficiency", "%", "mean active threads of an executed warp / 32.", COUNTERS,
	  NOT_YET },
	{ "dram_bandwidth", "bytes/s", "counter bytes / time.", COUNTERS,
	  "The driver's \"memory utilisation\" is a share of time, not a bandwidth. " NOT_YET,
	  .keys = "dram_bytes_per_s" },
	{ "copy_bandwidth", "bytes/s",
	  "bytes / device time of the copy, by direction and by pinned or pageable memory; peer "
	  "copies by device pair.",
	  FROM_DEVICE, NO_RECORDS, .keys = "bandwidth_bytes_per_s" },
	{ "copy_limit", "%",
	  "copy bandwidth / the most that this way can do: with the host what was measured for "
	  "pinned memory, within a device its copy rate, of sets the rate of its memory.",
	  "derived; the limit is measured by 'doctor --calibrate', or the vendor's",
	  "In JSON limit_pct and limit_bytes_per_s. n/a for ways that nobody has measured.",
	  .keys = "limit_pct limit_bytes_per_s" },
	{ "mfu", "%",
	  "model FLOPs / (time of the steps * the device's peak for the data type), over finished, "
	  "recorded steps.",
	  "derived; the peak is measured by 'doctor --calibrate', or the vendor's",
	  "FLOPs are those that operations tell; without them those of routers and experts in the "
	  "forward pass, a lower bound (est.).",
	  .keys = "mfu_pct model_flops model_flops_per_s" },
	{ "peak_flops_per_s", "FLOP/s",
	  "the most arithmetic that the device does with this data type, without sparsity.",
	  "'doctor --calibrate' (8192 x 8192 products of random numbers), or the vendor's data sheet",
	  "The vendor's figure is not reached by real products: MFU against it is lower.",
	  .keys = "fp64_flops_per_s fp32_flops_per_s tf32_flops_per_s bf16_flops_per_s "
		  "fp16_flops_per_s fp8_flops_per_s peak_memory_bytes_per_s" },
	{ "flops_per_byte", "FLOP/byte",
	  "arithmetic intensity: FLOPs / bytes that the operations told.", "derived",
	  "Bytes are the program's count; what caches save or add is not in it." },
	{ "roof_pct", "%", "FLOPs a second / min(peak, flops_per_byte * rate of the memory).",
	  "derived",
	  "Over the covered time. On a processor est.: a core's share of the machine's peaks.",
	  .keys = "roof_flops_per_s roof_bytes_per_s bound roofline" },
	{ "covered_pct", "%",
	  "share of the time of these kernels that belongs to operations that told FLOPs.",
	  "derived from the launch calls",
	  "An operation's FLOPs and bytes are shared among its kernels by their time." },
};

const struct metric_group work_metrics = { "kernels and timeline", METRICS(work) };
