/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of communication mean.
 */
#include "subjects/meanings/meanings.h"

static const struct metric comm[] = {
	{ "comm_time", "ns",
	  "length of the union of the communication kernels of a device: those of NCCL, of expert "
	  "parallelism, of NVSHMEM, of a class that communicates (collective, dispatch, combine, "
	  "notify), and those with a collective record.",
	  FROM_DEVICE, "By the names of kernels where no record says it. " NO_RECORDS,
	  .keys = "comm_ns" },
	{ "compute_time", "ns",
	  "length of the union of all kernels that do not communicate; non_compute_ns is gpu_busy "
	  "without it, others_ns of a transport the union of all kernels that are not of it.",
	  FROM_DEVICE, NO_RECORDS, .keys = "compute_ns non_compute_ns others_ns" },
	{ "comm_overlap", "ns, %",
	  "length of (communication and compute at once); comm_overlap_pct is its share of "
	  "comm_time. Of one transport: with all kernels that are not of it.",
	  FROM_DEVICE, NO_RECORDS, .keys = "comm_overlap_pct overlap_ns" },
	{ "exposed_comm", "ns, %",
	  "comm_time - comm_overlap: a device communicates and computes nothing. exposed_window_pct is "
	  "its share of the window. exposed_pct is step_exposed_ns, the part in the time of the steps, "
	  "over that time, step_window_ns; without steps, over the window.",
	  FROM_DEVICE, "Includes waiting for other ranks. " NO_RECORDS,
	  .keys = "exposed_ns exposed_pct exposed_window_pct step_exposed_ns "
		  "step_window_ns exposed_of_steps" },
	{ "moe_part", "ns",
	  "length of the union of the kernels of a part of a mixture of experts in a pass, summed over "
	  "devices. The part follows from the ranges and operations around the launch, innermost first, "
	  "and from the class of the kernel; the pass from their names, the phase of the range and the "
	  "kernel's name.",
	  FROM_DEVICE, "Anything unidentified is part rest, pass unknown. " NO_RECORDS,
	  .keys = "part pass kernels_ns attention_ns router_ns dispatch_ns experts_ns "
		  "combine_ns shared_ns rest_ns precision" },
	{ "moe_layer", "ns",
	  "sum of the durations of the kernels of a part in one layer. The layer is the number that "
	  "ranges and PyTorch's modules give; where none does and the ranges of all parts run equally "
	  "often in a step, it is the position of the range in its step, from 1 (layers_by: order).",
	  FROM_DEVICE,
	  "By order, a backward pass begins with the last layer, and several micro-batches of a step "
	  "continue the count. n/a where neither identifies it.",
	  .keys = "layers_by number" },
	{ "moe_notify", "ns",
	  "union of the kernels of expert parallelism that exchange counts and wait for other ranks, "
	  "of class notify; the rest of the communication is the transfer.",
	  FROM_DEVICE, "A transfer waits for other ranks too. " NO_RECORDS, .keys = "notify_ns" },
	{ "moe_beside", "ns, %",
	  "communication between experts during which a kernel of that pass computes; two_batch_ns is "
	  "what overlaps work that cannot belong to its own batch: of the other direction, or attention "
	  "of the same pass.",
	  FROM_DEVICE, "Passes may overlap each other: the sum may be more than overlap_ns.",
	  .keys = "beside_forward_ns beside_backward_ns beside_weight_ns "
		  "beside_unknown_ns two_batch_ns two_batch_pct overlap_kind" },
	{ "moe_cost", "ns, %",
	  "kernels that ran at one place of the program both overlapping communication between experts "
	  "(90% of their time or more) and without it (10% or less): time of the overlapping ones - their "
	  "count * mean of those without. A place: name and launch configuration, innermost range that "
	  "names a part or else the step, position in there.",
	  FROM_DEVICE, "n/a where no kernel ran both ways. Kernels of other places are not in it.",
	  .keys = "beside clear extra_ns slower_pct compared beside_mean_ns clear_mean_ns" },
	{ "host_collectives", "count, ns",
	  "collectives that processors do (gloo, MPI, UCC), and the sum of their times. Rows by the "
	  "transport host; no part of any figure of a device.",
	  "annotations of torch.distributed in imported traces",
	  "Threads of a process may do several at once. Group and sequence number are not reported.",
	  .keys = "host_count host_time_ns" },
	{ "collective_bytes", "bytes",
	  "elements of a collective (the larger of those that go in and come out) * size of their "
	  "type.",
	  "derived from collective records", "n/a for kernels without such a record." },
	{ "algorithm_bandwidth", "bytes/s", "collective_bytes / time of the kernels.",
	  "derived from collective records",
	  "The time of a kernel includes its wait for the other ranks.",
	  .keys = "algorithm_bytes_per_s" },
	{ "bus_bandwidth", "bytes/s",
	  "algorithm_bandwidth * 2 (n - 1) / n for an all-reduce of n ranks, (n - 1) / n for "
	  "all-gather, reduce-scatter, all-to-all, gather and scatter, 1 for others, as NCCL's tests "
	  "have it.",
	  "derived from collective records",
	  "What the links carry if the algorithm is a ring; n/a where n is unknown.",
	  .keys = "bus_bytes_per_s" },
	{ "skew", "ns",
	  "start of the last rank - start of the first one, of a collective that more than one rank "
	  "recorded (same name, group and sequence number).",
	  "derived from collective records", "As good as the ranks' clocks agree.",
	  .keys = "matched skew_mean_ns skew_max_ns" },
	{ "wait", "ns, %",
	  "start of the last rank - own start, at most what the own kernel takes longer than the "
	  "shortest of them; sum over ranks. wait_pct: of the time of the steps of all ranks.",
	  "derived from collective records",
	  "Clocks of ranks that differ make nobody wait: all kernels are as long then.",
	  .keys = "wait_ns wait_pct" },
	{ "late_rank", "rank",
	  "the rank that began most of the matched collectives last, alone, while others waited; "
	  "late_pct is how many.",
	  "derived from collective records", "As good as the ranks' clocks agree.",
	  .keys = "late_pct" },
};

const struct metric_group comm_metrics = { "communication", METRICS(comm) };
