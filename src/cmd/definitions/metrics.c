/* SPDX-License-Identifier: Apache-2.0
 *
 * The one table of definitions. {group, name, unit, definition, source, caveats}
 *
 * Symbols of the routing group: T valid tokens (padding excluded), E experts, k slots per token,
 * n_e assignments to expert e, N their sum, m = N/E their mean, p_e = n_e/N, C the capacity of
 * an expert, H hidden width, I inner width of an expert.
 */
#include "cmd/definitions/metrics.h"

#include <stddef.h>

#define ROUTING "routing"
#define TIMELINE "kernels and timeline"
#define COMMUNICATION "communication"
#define HARDWARE "hardware counters"
#define STEPS "steps"
#define INFERENCE "inference"
#define MEMORY "memory"
#define VERDICTS "verdicts"
#define OVERHEAD "overhead and loss"
#define COMPARISON "comparison"
#define EXPERIMENTS "experiments"

/* Where routing numbers come from. */
#define COUNTED "derived from the assignments counted in each routing record"
#define ROUTER_WEIGHTS "measured from the router weights that the program gives with its routing"
#define ROUTER_SCORES "measured from the full score rows that the program gives with its routing"
#define PER_TOKEN "derived from the experts of every token (level full)"
/* Where device numbers come from. */
#define DEVICE "measured by the device's activity records"
#define COUNTERS "hardware counters only"
#define NO_RECORDS "n/a in runs without device records."
#define OF_DEVICE                                                                                  \
	"Of the whole device, where NVML reads its counters (Hopper and later); per kernel n/a."
#define NOT_YET "Not computed by this version: n/a."
#define COVERED_STEPS "Mean over the steps that device records cover wholly, and over the ranks."
#define TWO_SIDES "derived from the figures of both sides"
#define ALLOCATOR "replay of the program's allocate and free records"

const struct metric metrics[] = {
	{ ROUTING, "load", "assignments", "n_e: the token slots sent to expert e.",
	  "counted in each routing record",
	  "Dropped, unused and padding slots are not assignments; they are counted apart." },
	{ ROUTING, "utilization_pct", "%", "100 * n_e / N: the expert's share of all assignments.",
	  COUNTED, "A share of tokens, not of time." },
	{ ROUTING, "imbalance", "ratio",
	  "max(n) / m. 1 is perfect; it bounds the speed of expert parallelism.", COUNTED,
	  "Chance alone gives more than 1: compare with imbalance_floor." },
	{ ROUTING, "balancedness", "0..1", "m / max(n), the inverse of imbalance.", COUNTED, "" },
	{ ROUTING, "max_violation", "ratio",
	  "(max(n) - m) / m; of one step as max_violation_step, over the window as "
	  "max_violation_window.",
	  COUNTED, "The two are never mixed: loads that differ step by step cancel in a window." },
	{ ROUTING, "cv", "ratio", "population standard deviation of n, divided by m.", COUNTED,
	  "At small batches mostly chance: compare with cv_floor, judge by cv_excess." },
	{ ROUTING, "gini", "0..1",
	  "sum over i of (2i - E - 1) * n_(i), divided by E * N; loads ascending, i from 1.",
	  COUNTED, "" },
	{ ROUTING, "entropy_norm", "0..1", "-sum(p ln p) / ln E over all E experts; 0 ln 0 is 0.",
	  COUNTED, "1 is uniform; near 0 the router has collapsed." },
	{ ROUTING, "dead", "experts", "experts with n_e = 0 in the whole window.", COUNTED,
	  "Depends on the window: an expert can be silent for a step without being dead." },
	{ ROUTING, "starved", "experts", "experts with n_e < 0.5 m.", COUNTED, "" },
	{ ROUTING, "overloaded", "experts", "experts with n_e > 1.5 m.", COUNTED, "" },
	{ ROUTING, "cv_floor", "ratio",
	  "sqrt((E - k) / (T * k)): the cv that perfectly uniform routing shows by chance.",
	  "derived from E, k and T", "Assumes independent tokens." },
	{ ROUTING, "imbalance_floor", "ratio",
	  "1 + sqrt(2 ln E * (1 - k/E) / m): the imbalance that uniform routing shows by chance.",
	  "derived from E, k and m", "Assumes independent tokens." },
	{ ROUTING, "cv_excess", "ratio",
	  "sqrt(max(0, cv^2 - cv_floor^2)): the part of cv that can be fixed.", COUNTED,
	  "Verdicts use this, never raw cv." },
	{ ROUTING, "k", "slots",
	  "k_t: the valid slots of token t (index at least 0 and less than E); mean, min, max and "
	  "the number of tokens with 0, 1, 2... of them.",
	  "counted in each routing record", "" },
	{ ROUTING, "slots", "slots",
	  "tokens * k = assignments + unused + dropped + invalid; padding rows are not tokens.",
	  "counted in each routing record",
	  "unused: dynamic k chose fewer; dropped: the expert was full; invalid: not an expert." },
	{ ROUTING, "drop_rate_measured", "0..1", "dropped / (assignments + dropped).",
	  "counted in each routing record", "What the program did drop." },
	{ ROUTING, "imbalance_tax", "ns/step",
	  "per step, layer and phase: time of expert work of the busiest worker less the mean over "
	  "all workers; a worker is a device, or a thread where no kernels were recorded. Over up "
	  "to 64 steps.",
	  "measured: kernels (else ranges) that name a layer and an expert, grouped GEMMs of a layer",
	  "n/a with one worker. tax_tokens_per_s: tokens/s won without it. Chance makes a part." },
	{ ROUTING, "what_if_ns", "ns/step",
	  "est.: the tax if one worker's experts were spread in order over D devices: (busiest share "
	  "* D - 1) * expert time / D, D the largest of 8, 4, 2 that divides the experts.",
	  "estimated from loads and expert time", "Assumes that time grows with load." },
	{ ROUTING, "tile_ns", "ns/step", "est.: tile_waste * time of expert work on the device.",
	  "estimated from loads and expert time",
	  "Assumes that time follows rows, and the height." },
	{ ROUTING, "router_confidence", "0..1",
	  "1 - H(w_t) / ln E over the token's normalised router weights, mean over tokens.",
	  ROUTER_WEIGHTS,
	  "The weights of the k chosen alone: when they are equal it is 1 - ln k / ln E, not 0; see "
	  "router_confidence_k. n/a when the program gives no weights; below level full of every "
	  "eighth token." },
	{ ROUTING, "router_confidence_k", "0..1",
	  "1 - H(w_t) / ln k over the token's normalised router weights, mean over tokens: 0 when "
	  "the k chosen have equal weights, 1 when one has all.",
	  ROUTER_WEIGHTS,
	  "n/a for k = 1, where one weight says nothing, and when the program gives no weights; "
	  "below level full of every eighth token." },
	{ ROUTING, "router_entropy", "nats",
	  "entropy of the token's full score row, mean over tokens.", ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ ROUTING, "top1_prob", "0..1", "the largest score of the row, mean over tokens.",
	  ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ ROUTING, "topk_mass", "0..1", "the sum of the k largest scores, mean over tokens.",
	  ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ ROUTING, "margin", "score", "s_(k) - s_(k+1): how clearly the last chosen expert won.",
	  ROUTER_SCORES,
	  "n/a when the program gives no scores; below level full of every eighth token." },
	{ ROUTING, "drop_rate", "0..1",
	  "sum max(0, n_e - C) / N with C = ceil(cf * T * k / E): assignments over a capacity.",
	  "estimated from the loads for the capacity factor cf asked for",
	  "An estimate (est.): what would drop; what was dropped is counted as dropped." },
	{ ROUTING, "pad_waste", "0..1",
	  "sum max(0, C - n_e) / (E * C): empty rows when every expert is padded to C.",
	  "estimated from the loads for the capacity factor cf asked for", "" },
	{ ROUTING, "tile_waste", "0..1",
	  "1 - N / sum(ceil(n_e / B) * B): rows a grouped GEMM computes in vain at tile height B.",
	  "estimated from the loads for the tile height asked for", "" },
	{ ROUTING, "coactivation", "0..1",
	  "tokens sent to both i and j, divided by the tokens sent to i; by chance, from the loads "
	  "alone, (k - 1) * n_j / (N - n_i).",
	  PER_TOKEN, "" },
	{ ROUTING, "affinity", "0..1",
	  "share of the tokens at i in layer l that go to j in layer l+1 (k*k pairs, divided "
	  "by k); by chance j's share of the load of layer l+1.",
	  PER_TOKEN, "" },
	{ ROUTING, "repeat_rate", "0..1",
	  "share of consecutive tokens whose expert sets intersect; uniform routing gives "
	  "1 - C(E-k,k) / C(E,k).",
	  PER_TOKEN, "" },
	{ ROUTING, "hot_persistence", "0..1",
	  "Jaccard index of the h most loaded experts at step s and at step s+d.", COUNTED, "" },
	{ ROUTING, "unique_experts", "experts",
	  "experts with n_e > 0; uniform routing expects E * (1 - (1 - k/E)^T).", COUNTED, "" },
	{ ROUTING, "expert_bytes_touched", "bytes", "the weight bytes of the experts with n_e > 0.",
	  "derived from the loads and the layer sizes the program gives",
	  "n/a when the program gives no layer sizes." },
	{ ROUTING, "flops_router", "FLOP", "2*T*H*E + 5*T*E.",
	  "derived from the tokens and the layer sizes the program gives",
	  "n/a when the program gives no layer sizes." },
	{ ROUTING, "flops_expert", "FLOP",
	  "sum over tokens of k_t * (4*H*I with two matrices, 6*H*I with three).",
	  "derived from the tokens and the layer sizes the program gives",
	  "The number of matrices is read from the program, never assumed; n/a without it." },
	{ ROUTING, "flops_total", "FLOP", "flops_router + flops_expert.",
	  "derived from the tokens and the layer sizes the program gives",
	  "n/a when the program gives no layer sizes." },
	{ ROUTING, "latency_ms", "ms",
	  "time inside the ranges and operations named 'router' of a layer, phase and step.",
	  "the host's clock", "n/a when the program names no such range." },
	{ ROUTING, "self_check", "ok or what failed",
	  "sum n_e = sum k_t for every layer and step, and every slot is accounted for.",
	  "derived from each routing record", "A mismatch is at the top of every report." },
	{ ROUTING, "load_balance_score", "ratio", "the same as cv.", COUNTED,
	  "For compatibility only, under 'legacy'." },
	{ ROUTING, "routing_efficiency", "0..100", "clamp(100 - 10 * cv, 0, 100).", COUNTED,
	  "For compatibility only, under 'legacy'. No efficiency: with 6 of 8 experts dead it is "
	  "still 82.7. balancedness and entropy_norm tell." },

	{ TIMELINE, "kernel_time", "ns",
	  "end - start of the device record. start = 0, end = 0 or end < start is untimed: counted "
	  "apart, never a zero duration.",
	  DEVICE, NO_RECORDS },
	{ TIMELINE, "kernel_class", "word",
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
	{ TIMELINE, "gpu_busy", "ns", "length of the union of all device intervals in the window.",
	  DEVICE, NO_RECORDS },
	{ TIMELINE, "gpu_idle", "ns",
	  "the window without gpu_busy, each moment by its cause: host (nothing queued), sync "
	  "(nothing queued after a wait of the host), launch, queued (launched over 10 us before, "
	  "not begun), copy, profiler (edges of windows), unknown.",
	  DEVICE " and of calls",
	  "A wait for a collective is busy time: its kernel runs. " NO_RECORDS },
	{ TIMELINE, "coverage_pct", "%",
	  "time in which device records were collected / time from the governor's first gear to the "
	  "end, over all processes.",
	  "measured by the governor's gear records",
	  "Below 100 the device tables are sampled: they count the windows, not scaled up." },
	{ TIMELINE, "steps_covered", "steps",
	  "finished steps that lie wholly inside a window of device records.",
	  "derived from gear and step records", "Means a step of device figures are over these." },
	{ TIMELINE, "staged", "moves",
	  "a copy to the host and, at most 1 ms after its end, one of as many bytes (4096 or more) "
	  "to another device.",
	  DEVICE, "A guess by size and time: two unrelated copies can look the same." },
	{ TIMELINE, "launch_latency", "ns",
	  "device start - start of the launching API call, of the first kernel of each call; the "
	  "median.",
	  DEVICE, NO_RECORDS },
	{ TIMELINE, "launch_overhead", "ns",
	  "duration of the launch call, shared equally by the kernels that it launched (a graph's "
	  "are many); the median.",
	  "measured by API records", NO_RECORDS },
	{ TIMELINE, "launch_bound", "kernels",
	  "timed kernels whose launch_overhead is longer than their time on the device; "
	  "launch_bound_pct is their share.",
	  "derived from kernel and API records",
	  "Over the kernels whose launch call was recorded. " NO_RECORDS },
	{ TIMELINE, "overlap_pct", "%",
	  "length of (compute and copy at once) / length of copy; likewise for collectives.",
	  DEVICE, NO_RECORDS },
	{ HARDWARE, "launch_metric", "the row's",
	  "a figure of one launch, by the name and in the unit that Nsight Compute gives it; mean, "
	  "min and max are over the launches of a kernel that have a number for it.",
	  "imported from a CSV of Nsight Compute",
	  "The profiler replays kernels, alone and often at fixed clocks: times differ from those "
	  "of a trace. Figures that it did not collect have no row." },
	{ COMMUNICATION, "comm_time", "ns",
	  "length of the union of the communication kernels of a device: those of NCCL, of expert "
	  "parallelism, of NVSHMEM, of a class that communicates (collective, dispatch, combine, "
	  "notify), and those with a collective record.",
	  DEVICE, "By the names of kernels where no record says it. " NO_RECORDS },
	{ COMMUNICATION, "compute_time", "ns",
	  "length of the union of all kernels that do not communicate; non_compute_ns is gpu_busy "
	  "without it, others_ns of a transport the union of all kernels that are not of it.",
	  DEVICE, NO_RECORDS },
	{ COMMUNICATION, "comm_overlap", "ns, %",
	  "length of (communication and compute at once); comm_overlap_pct is its share of "
	  "comm_time. Of one transport: with all kernels that are not of it.",
	  DEVICE, NO_RECORDS },
	{ COMMUNICATION, "exposed_comm", "ns, %",
	  "comm_time - comm_overlap: a device communicates and computes nothing. exposed_window_pct is "
	  "its share of the window. exposed_pct is step_exposed_ns, the part in the time of the steps, "
	  "over that time, step_window_ns; without steps, over the window.",
	  DEVICE, "Includes waiting for other ranks. " NO_RECORDS },
	{ COMMUNICATION, "moe_part", "ns",
	  "length of the union of the kernels of a part of a mixture of experts in a pass, summed over "
	  "devices. The part is told by the ranges and operations around the launch, innermost first, "
	  "and by the class of the kernel; the pass by their names, the phase of the range and the "
	  "kernel's name.",
	  DEVICE, "What nothing tells is part rest, pass unknown. " NO_RECORDS },
	{ COMMUNICATION, "moe_layer", "ns",
	  "sum of the durations of the kernels of a part in one layer. The layer is the number that "
	  "ranges and PyTorch's modules give; where none does and the ranges of all parts run equally "
	  "often in a step, it is the position of the range in its step, from 1 (layers_by: order).",
	  DEVICE,
	  "By order, a backward pass begins with the last layer, and several micro-batches of a step "
	  "count on. n/a where neither tells." },
	{ COMMUNICATION, "moe_notify", "ns",
	  "union of the kernels of expert parallelism that exchange counts and wait for other ranks, "
	  "of class notify; the rest of the communication is the transfer.",
	  DEVICE, "A transfer waits for other ranks, too. " NO_RECORDS },
	{ COMMUNICATION, "moe_beside", "ns, %",
	  "communication between experts during which a kernel of that pass computes; two_batch_ns is "
	  "what runs beside work that cannot be of its own batch: of the other direction, or attention "
	  "of the same pass.",
	  DEVICE, "Passes may overlap each other: the sum may be more than overlap_ns." },
	{ COMMUNICATION, "moe_cost", "ns, %",
	  "kernels that ran at one place of the program both beside communication between experts (90% "
	  "of their time or more) and without it (10% or less): time of those beside - their count * "
	  "mean of those without. A place: name and launch configuration, innermost range that names a "
	  "part or else the step, position in there.",
	  DEVICE, "n/a where no kernel ran both ways. Kernels of other places are not in it." },
	{ COMMUNICATION, "host_collectives", "count, ns",
	  "collectives that processors do (gloo, MPI, UCC), and the sum of their times. Rows by the "
	  "transport host; no part of any figure of a device.",
	  "annotations of torch.distributed in imported traces",
	  "Threads of a process may do several at once. Group and sequence number are not told." },
	{ COMMUNICATION, "collective_bytes", "bytes",
	  "elements of a collective (the larger of those that go in and come out) * size of their "
	  "type.",
	  "derived from collective records", "n/a for kernels without such a record." },
	{ COMMUNICATION, "algorithm_bandwidth", "bytes/s",
	  "collective_bytes / time of the kernels.", "derived from collective records",
	  "The time of a kernel includes its wait for the other ranks." },
	{ COMMUNICATION, "bus_bandwidth", "bytes/s",
	  "algorithm_bandwidth * 2 (n - 1) / n for an all-reduce of n ranks, (n - 1) / n for "
	  "all-gather, reduce-scatter, all-to-all, gather and scatter, 1 for others, as NCCL's tests "
	  "have it.",
	  "derived from collective records",
	  "What the links carry if the algorithm is a ring; n/a where n is not told." },
	{ COMMUNICATION, "skew", "ns",
	  "start of the last rank - start of the first one, of a collective that more than one rank "
	  "recorded (same name, group and sequence number).",
	  "derived from collective records", "As good as the ranks' clocks agree." },
	{ COMMUNICATION, "wait", "ns, %",
	  "start of the last rank - own start, at most what the own kernel takes longer than the "
	  "shortest of them; sum over ranks. wait_pct: of the time of the steps of all ranks.",
	  "derived from collective records",
	  "Clocks of ranks that differ make nobody wait: all kernels are as long then." },
	{ COMMUNICATION, "late_rank", "rank",
	  "the rank that began most of the matched collectives last, alone, while others waited; "
	  "late_pct is how many.",
	  "derived from collective records", "As good as the ranks' clocks agree." },
	{ TIMELINE, "self_time", "ns",
	  "time of a range or operation without its children on the same thread.",
	  "derived from the recorded ranges", "In JSON self_cpu_ns and self_gpu_ns." },
	{ TIMELINE, "total_time", "ns", "time of a range or operation with its children.",
	  "measured by the processor's counter, as CLOCK_MONOTONIC",
	  "In JSON cpu_ns and gpu_ns. Threads add up: it can exceed the wall time." },
	{ TIMELINE, "flops", "FLOP", "arithmetic of an operation: 2*m*n*k for a matrix product.",
	  "as given by the program", "n/a for ranges, which do not say." },
	{ TIMELINE, "bytes_moved", "bytes", "memory read and written by an operation.",
	  "as given by the program", "In JSON self_bytes. n/a for ranges, which do not say." },
	{ TIMELINE, "theoretical_occupancy", "%",
	  "warps of a multiprocessor that blocks of the launch can fill / warps that it can hold, "
	  "from registers, shared memory, block size and the device's limits; weighted by time.",
	  "derived from the launch and device records",
	  "What could be resident, not what was. Assumes the largest shared memory that the device "
	  "can set aside, and no clusters. In JSON occupancy_pct, with what limits it." },
	{ TIMELINE, "achieved_occupancy", "%", "mean active warps / warps the device can hold.",
	  COUNTERS, NOT_YET },
	{ TIMELINE, "sm_pct", "%", "share of the peak issue rate of the multiprocessors.", COUNTERS,
	  NOT_YET },
	{ TIMELINE, "tensor_pct", "%", "share of the peak rate of the tensor cores.", COUNTERS,
	  NOT_YET },
	{ TIMELINE, "sm_active_pct", "%",
	  "share of the multiprocessors that had work, mean of samples.", COUNTERS, OF_DEVICE },
	{ TIMELINE, "sm_occupancy_pct", "%",
	  "warps that were active / warps the device can hold, mean of samples.", COUNTERS,
	  OF_DEVICE },
	{ TIMELINE, "tensor_active_pct", "%",
	  "share of the time in which multiprocessors did tensor operations, mean of samples.",
	  COUNTERS, OF_DEVICE },
	{ TIMELINE, "dram_pct", "%", "share of the peak device-memory bandwidth, mean of samples.",
	  COUNTERS, OF_DEVICE },
	{ TIMELINE, "pcie_pct", "%",
	  "mean of the busier direction of the PCIe link / what a link of its generation and width "
	  "carries in one direction.",
	  "measured by the device's counters; the link's rate is derived",
	  "Of the whole device. Packet headers are in neither figure." },
	{ TIMELINE, "l2_hit_pct", "%", "L2 cache hits / L2 accesses.", COUNTERS, NOT_YET },
	{ TIMELINE, "warp_efficiency", "%", "mean active threads of an executed warp / 32.",
	  COUNTERS, NOT_YET },
	{ TIMELINE, "dram_bandwidth", "bytes/s", "counter bytes / time.", COUNTERS,
	  "The driver's \"memory utilisation\" is a share of time, not a bandwidth. " NOT_YET },
	{ TIMELINE, "copy_bandwidth", "bytes/s",
	  "bytes / device time of the copy, by direction and by pinned or pageable memory; peer "
	  "copies by device pair.",
	  DEVICE, NO_RECORDS },
	{ TIMELINE, "copy_limit", "%",
	  "copy bandwidth / the most that this way can do: with the host what was measured for "
	  "pinned memory, within a device its copy rate, of sets the rate of its memory.",
	  "derived; the limit is measured by 'doctor --calibrate', or the vendor's",
	  "In JSON limit_pct and limit_bytes_per_s. n/a for ways that nobody has measured." },
	{ TIMELINE, "mfu", "%",
	  "model FLOPs / (time of the steps * the device's peak for the data type), over finished, "
	  "recorded steps.",
	  "derived; the peak is measured by 'doctor --calibrate', or the vendor's",
	  "FLOPs are those that operations tell; without them those of routers and experts in the "
	  "forward pass, a lower bound (est.)." },
	{ TIMELINE, "peak_flops_per_s", "FLOP/s",
	  "the most arithmetic that the device does with this data type, without sparsity.",
	  "'doctor --calibrate' (8192 x 8192 products of random numbers), or the vendor's data sheet",
	  "The vendor's figure is not reached by real products: MFU against it is lower." },
	{ TIMELINE, "flops_per_byte", "FLOP/byte",
	  "arithmetic intensity: FLOPs / bytes that the operations told.", "derived",
	  "Bytes are the program's count; what caches save or add is not in it." },
	{ TIMELINE, "roof_pct", "%",
	  "FLOPs a second / min(peak, flops_per_byte * rate of the memory).", "derived",
	  "Over the covered time. On a processor est.: a core's share of the machine's peaks." },
	{ TIMELINE, "covered_pct", "%",
	  "share of the time of these kernels that belongs to operations that told FLOPs.",
	  "derived from the launch calls",
	  "An operation's FLOPs and bytes are shared among its kernels by their time." },

	{ STEPS, "step_time", "ns",
	  "end - begin of a step: mean, p50, p95, p99, min, max and coefficient of variation.",
	  "measured",
	  "Percentiles interpolate linearly between order statistics; deviations are population. A "
	  "first step that began when the library was loaded has set-up in it and is left out." },
	{ STEPS, "step_source", "word",
	  "who marked the steps: the program; the name of a range (vLLM's execute_*, SGLang's "
	  "step[...], ATOM's prefill[...] and decode[...]), which also tells stage, batch and "
	  "tokens; or nobody, and they were found by repetition of a kernel (found_by).",
	  "names of ranges; estimated where by repetition",
	  "By repetition (est.): kernels that come once in each turn of the outermost loop of a "
	  "stream, four times or more; only where weights are changed in a turn or it is made of "
	  "layers. The last turn is left out, for its end is not known." },
	{ STEPS, "step_cv", "ratio",
	  "population standard deviation of the step times / their mean.",
	  "derived from the step times", "Above 0.1 the steps vary more than they usually do." },
	{ STEPS, "step_outlier", "yes or no",
	  "a step much longer than the others; the limit is shown with the steps.",
	  "derived from the step times", "Outliers count in every mean: they are only named." },
	{ STEPS, "phase_share_pct", "%",
	  "share of the step's time inside forward, backward, optimizer and data ranges; "
	  "'other' is the rest.",
	  "derived from ranges that name a phase; where one lies in another, from the innermost",
	  "Usual: forward 35-40, backward 40-45, optimizer below 15, data below 10." },
	{ STEPS, "device_phases", "ns",
	  "time of the devices in steps by phase: each moment from a step's begin to the end of its "
	  "last work belongs to the phase in which the work that runs, or the work that comes next, "
	  "was launched.",
	  "derived from device records, calls and ranges, over up to 64 steps, evenly spread",
	  "What CUDA events around the phases show. The host's phases say little of it: it runs "
	  "ahead of its devices." },
	{ STEPS, "tokens_per_s", "1/s", "tokens of the steps / their time.",
	  "derived from the tokens the program gives with each step",
	  "n/a when the program gives none; never from a configured batch size." },

	{ STEPS, "slow_step", "ns",
	  "extra time of an outlier: its time less the mean of up to 16 usual steps, nearest to the "
	  "median; by what the device did (kernels, copies without kernels, idle by cause) and by "
	  "phase, each less its mean in the usual steps.",
	  "derived from the steps, device records and ranges",
	  "The parts of the device add up to the extra time; n/a where records do not cover it." },

	{ INFERENCE, "ttft", "ns", "time to first token: first token - begin of the request.",
	  "measured per token", "Never includes loading the model." },
	{ INFERENCE, "tpot", "ns",
	  "time per output token: (last token - first token) / (tokens - 1) of a request.",
	  "derived from per-token times", "n/a for requests of one token." },
	{ INFERENCE, "itl", "ns",
	  "inter-token latency: time between consecutive tokens of a request.",
	  "measured per token", "" },
	{ INFERENCE, "request_tokens_per_s", "1/s",
	  "tokens produced / time from the begin of the request to its last token.",
	  "derived from per-token times", "Never from max_tokens." },

	{ INFERENCE, "prefill", "ns",
	  "time in which at least one request is between its begin and its first token; tokens/s "
	  "are prompt tokens over it.",
	  "derived from per-token times",
	  "Waiting in a queue counts: range_ns and device_ns say what was worked." },
	{ INFERENCE, "decode", "ns",
	  "time in which at least one request is between its first and its last token; tokens/s "
	  "are tokens after the first over it.",
	  "derived from per-token times", "Never from max_tokens." },

	{ MEMORY, "allocated_bytes", "bytes", "live bytes of the program's allocator.", ALLOCATOR,
	  "What the program does not report is not in it." },
	{ MEMORY, "reserved_bytes", "bytes", "bytes that the allocator holds from the driver.",
	  "the driver's allocations in which blocks of the program lay, else the framework's own "
	  "figure (counter 'torch reserved_bytes')",
	  "n/a for plain host memory, and where the program's addresses are none of the device's." },
	{ MEMORY, "segments", "count",
	  "pieces of the driver's memory that the allocator holds at the last record.",
	  "what the allocator told that it took, or the driver's allocations in which blocks of the "
	  "program lay",
	  "A segment that can grow (expandable_segments) counts as one as far as it is mapped without "
	  "a gap." },
	{ MEMORY, "peak_allocated_bytes", "bytes", "running maximum of allocated_bytes.", ALLOCATOR,
	  "" },
	{ MEMORY, "before_bytes", "bytes",
	  "live in the allocator before the first record: the first total that it told, less the "
	  "bytes of its event. before_at_peak_bytes is what of it was live at the peak, "
	  "before_freed_bytes what was freed since.",
	  "totals in PyTorch's traces (Total Allocated)",
	  "In allocated_bytes and its peak; of no use and no site. n/a where the allocator tells no "
	  "totals, and for host memory, which PyTorch counts only while it profiles." },
	{ MEMORY, "device_used_bytes", "bytes",
	  "memory in use on the whole device and by this process; what exceeds reserved_bytes is "
	  "outside the allocator.",
	  "NVML", NO_RECORDS },
	{ MEMORY, "account_peak_allocated_bytes", "bytes",
	  "The largest of the peaks that the program's allocator has told of its allocated bytes.",
	  "the allocator's own account (moescope_device_sample; record_memory() for PyTorch)",
	  "PyTorch rounds blocks up: it is PyTorch's max_memory_allocated. peak_allocated_bytes is "
	  "replayed from what was asked for, which the account calls requested." },
	{ MEMORY, "headroom_bytes", "bytes",
	  "memory of the device - the most that was in use on it, whoever used it.", "NVML",
	  "How far the run was from running out. Peaks between two samples are missed." },
	{ MEMORY, "outside_allocator", "bytes",
	  "in use on the device at its peak - what the driver had handed out to this process then.",
	  "NVML and the driver's allocations",
	  "Contexts, libraries, other processes, the profiler, and what was allocated before "
	  "recording began." },
	{ MEMORY, "oom_steps", "steps",
	  "free bytes of the device / bytes a step that leak suspects grow by.", "est.",
	  "Assumes that they grow as in the last 10 steps. n/a when nothing grows." },
	{ MEMORY, "cache_slack", "%", "100 * (reserved - allocated) / reserved.",
	  "derived from the allocator's figures", "This is not fragmentation." },
	{ MEMORY, "fragmentation_pct", "%", "100 * (1 - largest free block / total free bytes).",
	  "replay of the program's allocate and free records inside the segments that it holds from "
	  "the driver",
	  "At the last record, and at the peak as fragmentation_at_peak_pct. n/a without segments: "
	  "gaps of a heap may belong to others." },
	{ MEMORY, "live_at_peak", "bytes",
	  "blocks that were live when the peak was first reached, by the place that allocated them, "
	  "with the layer, expert and phase of the innermost range around.",
	  ALLOCATOR, "" },
	{ MEMORY, "allocations", "count",
	  "allocate and free records; live ones, those freed without an allocation (unmatched) and "
	  "addresses allocated twice without a free (replaced) apart.",
	  ALLOCATOR, "" },
	{ MEMORY, "leak_suspect", "bytes/step",
	  "an allocation site whose live bytes, at the same phase of successive steps, grow in at "
	  "least 8 of the last 10 steps and by more than 1% in all.",
	  ALLOCATOR, "A suspicion: caches that are still filling look the same." },
	{ MEMORY, "composition", "bytes",
	  "live bytes by use: parameters, gradients, optimizer, activations, cache, other.",
	  ALLOCATOR, "The use is what the program says it is." },
	{ MEMORY, "expert_memory", "bytes",
	  "bytes allocated inside an expert's or layer's range: all of them, and those live at the "
	  "peak by use.",
	  ALLOCATOR, "In JSON parts. By the innermost range of the allocating thread." },

	{ VERDICTS, "gain_pct", "%",
	  "est.: the time that a verdict is about, as a share of the time of the steps (without "
	  "steps, of the devices' windows), that is won if its assumption holds.",
	  "estimated from measured times",
	  "From 20 on the verdict is critical, from 5 on a warning, else a note." },
	{ VERDICTS, "gpu_starved", "%",
	  "idle time of the devices by what they wait for: launches (the cause launch, and gaps of at "
	  "most 50 us of the cause host), data (a thread that makes a tenth of the calls or more is "
	  "in a range of phase data), synchronisation (also blocking copies of less than 64 KiB), and "
	  "the rest of the host.",
	  DEVICE ", of calls and ranges",
	  "Of the steady part, only what records cover; means over the devices." },
	{ VERDICTS, "steady_part", "ns",
	  "what verdicts about devices judge: from the first step that is not longer than 1.5 medians "
	  "and than nine in ten of the later ones to the last step; without steps, what is left when "
	  "time with at most 5% of the kernels' time and long gaps is cut off at both ends, and long "
	  "gaps are taken out in which code was loaded or a graph made (up to 8), or after which a "
	  "recorded program runs a kernel for the first time.",
	  DEVICE ", of calls and steps",
	  "A long gap is a 256th of the window or more. Less than 10% or 50 ms is not cut. The verdict "
	  "slow-start says what was left out; with chosen steps nothing is." },
	{ VERDICTS, "copies_alone_pct", "%",
	  "time in which a device only copies, or is idle and waits on a copy.", DEVICE,
	  "The gain is at most the time of kernels that the copies could hide behind, unless most "
	  "of them are pageable." },
	{ VERDICTS, "clock_throttled", "%",
	  "est.: (1 - mean SM clock / the device's maximum) * share of the time with kernels, where "
	  "samples of a working device name the power or thermal limit.",
	  "NVML samples in the time of the steps",
	  "Assumes that kernels take longer by as much as the clock is lower." },

	{ OVERHEAD, "overhead_pct", "%",
	  "median difference of neighbouring steps recorded and not recorded / median time of the "
	  "steps not recorded, with a 95% interval.",
	  "measured in the run itself (run --overhead-check)", "n/a with fewer than 8 pairs." },
	{ OVERHEAD, "drain_cpu_ns", "ns",
	  "CPU time of the profiler's own thread inside the program.", "measured",
	  "On a machine with idle cores it costs the program nothing." },
	{ OVERHEAD, "device_account_pct", "%",
	  "CUPTI's own overhead + translating records + holding calls + attaching and detaching, "
	  "over the time of the processes.",
	  "measured by the probe and CUPTI", "An account of CPU time, not a slowdown." },
	{ OVERHEAD, "device_estimate_pct", "%",
	  "cost while collecting device records, weighted by the share of the time in which they "
	  "were collected.",
	  "estimated by the governor from its own measurements",
	  "An estimate (est.); overhead_pct of an overhead check is better evidence." },
	{ OVERHEAD, "loss", "records",
	  "everything dropped, cut off, damaged or not understood, each cause counted apart.",
	  "counted where it happens", "All zero: nothing was lost. Shown first in every report." },
	{ COMPARISON, "run_time", "ns",
	  "from the first to the last device record, call, range or operation of a process, mean "
	  "over the processes.",
	  "derived from all records",
	  "compare shows it where a run has no steps, and so whole runs are compared." },
	{ COMPARISON, "call_ns", "ns",
	  "mean device time of one execution (of operations: self time), tested over all "
	  "executions: call_baseline_ns, call_pct, call_low_pct, call_high_pct, call_p, "
	  "call_verdict.",
	  TWO_SIDES,
	  "Executions of one run: what differs from run to run is not in the interval. A name "
	  "whose executions have different sizes varies by that." },
	{ COMPARISON, "step_time_mean", "ns", "mean of the step times.",
	  "derived from the step times",
	  "compare shows it beside step_time, which is there the median: a few slow steps move "
	  "the mean alone." },
	{ COMPARISON, "phase_time", "ns", "wall time of a phase in a step, mean over the steps.",
	  "measured by the ranges that name a phase", "" },
	{ COMPARISON, "gpu_busy_pct", "%",
	  "gpu_busy of a step over its time, mean over the devices.", DEVICE, COVERED_STEPS },
	{ COMPARISON, "idle_time", "ns", "gpu_idle of a step by cause, mean over the devices.",
	  DEVICE, COVERED_STEPS " A gap is cut where the step begins and ends." },
	{ COMPARISON, "kernel_count", "kernels", "kernels launched in a step.", DEVICE,
	  COVERED_STEPS },
	{ COMPARISON, "api_time", "ns", "time in recorded CUDA calls that began in a step.", DEVICE,
	  COVERED_STEPS " Sum over the threads." },
	{ COMPARISON, "copy_time", "ns", "device time of the copies launched in a step.", DEVICE,
	  COVERED_STEPS },
	{ COMPARISON, "copy_bytes", "bytes", "bytes of the copies launched in a step.", DEVICE,
	  COVERED_STEPS },
	{ COMPARISON, "difference", "as the metric",
	  "value - baseline; difference_pct is 100 * difference / baseline.", TWO_SIDES,
	  "Percent are n/a where the baseline is 0, their interval where it may be." },
	{ COMPARISON, "interval", "as the metric, %",
	  "95% confidence interval of the difference (difference_low, difference_high, low_pct, "
	  "high_pct) or of the value (value_low, value_high): over runs by Welch's t where both "
	  "sides have 3 or more, else over steps. Of means by Welch's t with the effective number "
	  "of steps, of medians by bootstrap with a fixed seed.",
	  TWO_SIDES,
	  "n steps count as n / (1 + 2 r1 / (1 - phi)), r1 and phi from their autocorrelation at "
	  "lags 1 and 2. Over steps it leaves out what differs from run to run." },
	{ COMPARISON, "p", "0..1",
	  "probability of a difference as large by chance alone: Welch's t test with the effective "
	  "number of steps, for medians on the ranks of all figures. p_adjusted is that of "
	  "Benjamini and Hochberg over the rows of one metric, or all kernels or operations.",
	  TWO_SIDES, "n/a where neither side varies at all." },
	{ COMPARISON, "visible", "as the metric, %",
	  "the smallest difference that would have been found 4 times in 5; visible_pct is at "
	  "least 0.5.",
	  TWO_SIDES, "What is noise may still be a difference smaller than this." },
	{ COMPARISON, "verdict", "word",
	  "better or worse (faster, slower): the interval leaves out 0, p_adjusted is at most 0.05 "
	  "and the difference is more than 0.5%. Else noise. same: nothing differs or varies. "
	  "untested: too few figures.",
	  TWO_SIDES, "" },
	{ COMPARISON, "explains_pct", "%",
	  "100 * difference of the row's time a step / difference of step_time_mean; of whole "
	  "runs difference of the row's time / difference of kernel_time.",
	  TWO_SIDES,
	  "n/a when the step times differ by noise only. Kernels and threads that run side by side "
	  "add up to more than 100." },

	{ EXPERIMENTS, "inference_time", "s",
	  "of a repeat: its last answer - its first request; mean over the repeats.",
	  "measured by the engine or the load client", "Loading and warm-up do not count." },
	{ EXPERIMENTS, "tokens_per_second", "1/s",
	  "tokens generated by all repeats / sum of their times; training: tokens trained on.",
	  "measured by the engine or the load client", "Never from max_tokens." },
	{ EXPERIMENTS, "estimated_bytes", "bytes",
	  "weights + keys and values of the batch + activations + gradients and moments, from the "
	  "sizes in the model's configuration, on one GPU.",
	  "derived from config.json",
	  "Activations are a rough bound; a token of the prompt is taken to be a byte." },
	{ EXPERIMENTS, "measured_to_estimated", "ratio",
	  "measured_peak_bytes / estimated_bytes; measured by the trace, else the largest resident "
	  "set of a process.",
	  "derived from the trace or the kernel's account",
	  "A resident set holds libraries, too." },
	{ EXPERIMENTS, "throughput_per_gpu", "1/s",
	  "tokens_per_second / GPUs; GPUs = tensor_parallel_size * pipeline_parallel_size * "
	  "data_parallel_size, or nodes * processes where a launcher starts more processes than that.",
	  "derived from tokens_per_second",
	  "A process counts as a GPU, also where several share one." },
	{ EXPERIMENTS, "request_latency", "ms",
	  "median (p50) and 99th percentile (p99) over the requests of an experiment of TTFT (time to "
	  "first token), TPOT (time per output token), ITL (inter-token latency) and E2EL (end to "
	  "end).",
	  "measured per request and piece",
	  "Each word as the experiment's dialect defines it; its formula is in the JSON." },
	{ EXPERIMENTS, "peak_memory", "bytes", "largest memory use measured in an experiment.",
	  "the trace's allocations, or the largest process's resident set",
	  "metrics.json says which of the two." },
	{ EXPERIMENTS, "token_cost", "the price's currency",
	  "of a million output tokens: price_per_hour / 3600 / tokens_per_second * 1,000,000.",
	  "derived from tokens_per_second", "n/a without price_per_hour, and of training." },
	{ EXPERIMENTS, "scaling_efficiency", "%",
	  "100 * (tokens_per_second / value) / the same of the smallest value of the parameter that "
	  "succeeded while the others stay.",
	  "derived from tokens_per_second", "100 is linear scaling." },
	{ EXPERIMENTS, "scaling_exponent", "ratio",
	  "b of metric = c * parameter^b by least squares through the logarithms; r2 is the share of "
	  "the variance that this explains.",
	  "derived from three configurations or more that differ in one parameter",
	  "A fit through what was measured, not a forecast." },
	{ EXPERIMENTS, "pareto", "configurations",
	  "those that no other one beats in both tokens_per_second and latency (TPOT p50, else E2EL "
	  "p50, else inference_time).",
	  "derived from the means", "By the means alone: neighbours may differ by noise." },
	{ NULL, NULL, NULL, NULL, NULL, NULL },
};
