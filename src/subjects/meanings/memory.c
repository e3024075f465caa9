/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of memory mean.
 */
#include "subjects/meanings/meanings.h"

#define ALLOCATOR "replay of the program's allocate and free records"

static const struct metric memory[] = {
	{ "allocated_bytes", "bytes", "live bytes of the program's allocator.", ALLOCATOR,
	  "What the program does not report is not in it." },
	{ "reserved_bytes", "bytes", "bytes that the allocator holds from the driver.",
	  "the driver's allocations in which blocks of the program lay, else the framework's own "
	  "figure (counter 'torch reserved_bytes')",
	  "n/a for plain host memory, and where the program's addresses are none of the device's.",
	  .keys = "peak_reserved_bytes peak_reserved" },
	{ "segments", "count",
	  "pieces of the driver's memory that the allocator holds at the last record.",
	  "what the allocator reported as taken, or the driver's allocations in which blocks of the "
	  "program lay",
	  "A segment that can grow (expandable_segments) counts as one as far as it is mapped without "
	  "a gap." },
	{ "peak_allocated_bytes", "bytes", "running maximum of allocated_bytes.", ALLOCATOR,
	  .keys = "peak_ns peak_allocated" },
	{ "before_bytes", "bytes",
	  "live in the allocator before the first record: the first total that it reported, less the "
	  "bytes of its event. before_at_peak_bytes is what of it was live at the peak, "
	  "before_freed_bytes what was freed since.",
	  "totals in PyTorch's traces (Total Allocated)",
	  "In allocated_bytes and its peak; without use and site. n/a where the allocator reports no "
	  "totals, and for host memory, which PyTorch counts only while it profiles.",
	  .keys = "before_at_peak_bytes before_freed_bytes" },
	{ "device_used_bytes", "bytes",
	  "memory in use on the whole device and by this process; what exceeds reserved_bytes is "
	  "outside the allocator.",
	  "NVML", NO_RECORDS, .keys = "peak_device_used_bytes peak_device_used" },
	{ "account_peak_allocated_bytes", "bytes",
	  "The largest of the peaks that the program's allocator has reported for its allocated bytes.",
	  "the allocator's own account (moescope_device_sample; record_memory() for PyTorch)",
	  "PyTorch rounds blocks up: it is PyTorch's max_memory_allocated. peak_allocated_bytes is "
	  "replayed from the sizes asked for, which the account calls requested.",
	  .keys = "account_allocated_bytes account_reserved_bytes "
		  "account_peak_reserved_bytes account_peak_requested_bytes" },
	{ "headroom_bytes", "bytes",
	  "memory of the device - the most that was in use on it, whoever used it.", "NVML",
	  "How far the run was from running out. Peaks between two samples are missed.",
	  .keys = "device_total_bytes peak_device_used_pct" },
	{ "outside_allocator", "bytes",
	  "in use on the device at its peak - what the driver had allocated to this process then.",
	  "NVML and the driver's allocations",
	  "Contexts, libraries, other processes, the profiler, and what was allocated before "
	  "recording began.",
	  .keys = "driver_at_peak_bytes outside_allocator_bytes" },
	{ "oom_steps", "steps",
	  "free bytes of the device / bytes a step that leak suspects grow by.", "est.",
	  "Assumes that they grow as in the last 10 steps. n/a when nothing grows." },
	{ "cache_slack", "%", "100 * (reserved - allocated) / reserved.",
	  "derived from the allocator's figures", "This is not fragmentation.",
	  .keys = "cache_slack_pct" },
	{ "fragmentation_pct", "%", "100 * (1 - largest free block / total free bytes).",
	  "replay of the program's allocate and free records inside the segments that it holds from "
	  "the driver",
	  "At the last record, and at the peak as fragmentation_at_peak_pct. n/a without segments: "
	  "gaps of a heap may belong to others.",
	  .keys = "fragmentation_at_peak_pct free_at_peak_bytes "
		  "largest_free_at_peak_bytes" },
	{ "live_at_peak", "bytes",
	  "blocks that were live when the peak was first reached, by the place that allocated them, "
	  "with the layer, expert and phase of the innermost range around.",
	  ALLOCATOR, .keys = "oldest_age_ns youngest_age_ns live_at_peak_sites" },
	{ "allocations", "count",
	  "allocate and free records; live ones, those freed without an allocation (unmatched) and "
	  "addresses allocated twice without a free (replaced) apart.",
	  ALLOCATOR,
	  .keys = "frees live_allocations unmatched_frees replaced allocated_total_bytes" },
	{ "leak_suspect", "bytes/step",
	  "an allocation site whose live bytes, at the same phase of successive steps, grow in at "
	  "least 8 of the last 10 steps and by more than 1% in all.",
	  ALLOCATOR, "A suspicion: caches that are still filling look the same.",
	  .keys = "grew_steps leak_suspects leaks" },
	{ "composition", "bytes",
	  "live bytes by use: parameters, gradients, optimizer, activations, cache, other.",
	  ALLOCATOR, "The use is what the program says it is.", .keys = "composition_at_peak" },
	{ "expert_memory", "bytes",
	  "bytes allocated inside an expert's or layer's range: all of them, and those live at the "
	  "peak by use.",
	  ALLOCATOR, "In JSON parts. By the innermost range of the allocating thread.",
	  .keys = "at_peak_bytes parts" },
};

const struct metric_group memory_metrics = { "memory", METRICS(memory) };
