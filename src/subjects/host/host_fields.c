/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the machine under the program; see fields.h.
 */
#include "subjects/host/host.h"
#include "subjects/host/host_phases.h"

#include "subjects/shared/fields.h"

/* ---- processes */

#define OF(member) MEMBER(struct host_process, member)

static const struct field process_fields[] = {
	{ "pid", "process", UNIT_INT, OF(pid), .meaning = "its number", .names_row = true },
	{ "name", "name", UNIT_TEXT, OF(name), .flexible = true, .meaning = "of its program" },
	{ "life_ns", NULL, UNIT_NS, OF(life_ns),
	  .meaning = "from the first to the last look that saw it" },
	{ "cpus", "CPUs", UNIT_RATIO, OF(cpus),
	  .meaning = "processors that it used, on average over its life" },
	{ "user_ns", "user", UNIT_NS, OF(user_ns),
	  .meaning = "time on a processor in the program" },
	{ "system_ns", NULL, UNIT_NS, OF(system_ns),
	  .meaning = "time on a processor in the kernel" },
	{ "ready_ns", "ready", UNIT_NS, OF(ready_ns),
	  .meaning = "time that its threads waited for a processor", .metric = NO_METRIC },
	{ "blocked_threads", "blocked", UNIT_RATIO, OF(blocked_threads),
	  .meaning = "threads that waited for a disk, on average; at least so many" },
	{ "turns_pct", NULL, UNIT_PCT, OF(turns_pct),
	  .meaning = "of its life: several threads worked, but one at a time" },
	{ "threads", "threads", UNIT_INT, OF(threads), .meaning = "at most" },
	{ "resident_bytes", NULL, UNIT_BYTES, OF(resident_bytes),
	  .meaning = "memory at the last look" },
	{ "peak_resident_bytes", "memory", UNIT_BYTES, OF(peak_resident_bytes),
	  .meaning = "memory at its largest" },
	{ "grew_bytes", NULL, UNIT_BYTES, OF(grew_bytes),
	  .meaning = "memory at the last look less that at the first" },
	{ "growth_bytes_per_s", NULL, UNIT_BYTES, OF(growth_bytes_per_s),
	  .meaning =
		  "memory that came each second in the second half of its life; absent unless it "
		  "grew steadily" },
	{ "swapped_bytes", NULL, UNIT_BYTES, OF(swapped_bytes),
	  .meaning = "memory that was swapped out, at most" },
	{ "minor_faults", NULL, UNIT_COUNT, OF(minor_faults),
	  .meaning = "page faults that memory answered" },
	{ "major_faults", NULL, UNIT_COUNT, OF(major_faults),
	  .meaning = "page faults that a disk answered" },
	{ "voluntary_switches", NULL, UNIT_COUNT, OF(voluntary),
	  .meaning = "times that a thread gave its processor up to wait" },
	{ "involuntary_switches", NULL, UNIT_COUNT, OF(involuntary),
	  .meaning = "times that a processor was taken from a thread" },
	{ "read_bytes", "read", UNIT_BYTES, OF(read_bytes), .meaning = "read from disks" },
	{ "written_bytes", NULL, UNIT_BYTES, OF(written_bytes), .meaning = "written to disks" },
	{ "allowed_cpus", NULL, UNIT_INT, OF(allowed_cpus),
	  .meaning = "processors that it may run on" },
	{ "cpu_nodes", NULL, UNIT_INT, OF(cpu_nodes), .none = "the machine does not tell",
	  .meaning = "nodes of memory of these processors, a bit for each" },
	{ "memory_nodes", NULL, UNIT_INT, OF(memory_nodes), .none = "the machine does not tell",
	  .meaning = "nodes that it may take memory from, a bit for each" },
};

const struct field_set host_fields = {
	FIELDS(process_fields),
	.rows = { { ITEMS(struct host, processes, n_processes) } },
	.levels = 1,
	.meaning = "process of the program, as the kernel counts it",
};

/* ---- parts */

#undef OF
#define OF(member) MEMBER(struct host_part, member)

static const struct field part_fields[] = {
	{ "kind", "kind", UNIT_TEXT, OF(kind),
	  .meaning = "processor, disk, network, node (of memory) or other (a program of others)",
	  .metric = NO_METRIC },
	{ "name", "name", UNIT_TEXT, OF(name), .flexible = true, .meaning = "which of them" },
	{ "busy_pct", "busy", UNIT_PCT, OF(busy_pct),
	  .meaning = "of its time; of a program of others: of one processor", .metric = NO_METRIC },
	{ "steal_pct", "stolen", UNIT_PCT, OF(steal_pct),
	  .meaning = "of its time: what the hypervisor gave to other guests", .metric = NO_METRIC },
	{ "mhz", "MHz", UNIT_INT, MEMBER_AS(FIELD_WHOLE, struct host_part, mhz),
	  .meaning = "clock, the mean of all readings" },
	{ "in_bytes", NULL, UNIT_BYTES, OF(in_bytes), .meaning = "read or received" },
	{ "in_bytes_per_s", "in/s", UNIT_BYTES, OF(in_bytes_per_s),
	  .meaning = "read or received each second" },
	{ "out_bytes", NULL, UNIT_BYTES, OF(out_bytes), .meaning = "written or sent" },
	{ "out_bytes_per_s", "out/s", UNIT_BYTES, OF(out_bytes_per_s),
	  .meaning = "written or sent each second" },
	{ "link_bytes_per_s", NULL, UNIT_BYTES, OF(link_bytes_per_s),
	  .meaning = "the most that the network's link can carry, each way" },
	{ "memory_bytes", NULL, UNIT_BYTES, OF(memory_bytes), .meaning = "of a node",
	  .metric = NO_METRIC },
	{ "free_bytes", "free", UNIT_BYTES, OF(free_bytes), .meaning = "of a node, at the end",
	  .metric = NO_METRIC },
};

const struct field_set host_parts_fields = {
	FIELDS(part_fields),
	.rows = { { ITEMS(struct host, parts, n_parts) } },
	.levels = 1,
	.meaning = "part of the machine, or program of others that used its processors",
};

/* ---- over time */

#undef OF
#define OF(member) MEMBER(struct host_time, member)

static const struct field time_fields[] = {
	{ "start_ns", "time", UNIT_NS, MEMBER_AS(FIELD_TIME, struct host_time, start_ns),
	  .meaning = "begin of this stretch of time" },
	{ "duration_ns", NULL, UNIT_NS, OF(duration_ns), .meaning = "its length" },
	{ "user_pct", "user", UNIT_PCT, OF(user_pct), .meaning = "of all processors: in programs" },
	{ "system_pct", "system", UNIT_PCT, OF(system_pct),
	  .meaning = "of all processors: in the kernel" },
	{ "iowait_pct", "iowait", UNIT_PCT, OF(iowait_pct),
	  .meaning = "of all processors: idle while a disk was waited for" },
	{ "steal_pct", NULL, UNIT_PCT, OF(steal_pct),
	  .meaning = "of all processors: what the hypervisor gave to other guests" },
	{ "program_cpus", "CPUs", UNIT_RATIO, OF(program_cpus),
	  .meaning = "processors that the program used" },
	{ "ready_cpus", "wanted", UNIT_RATIO, OF(ready_cpus),
	  .meaning = "processors that its threads waited for" },
	{ "throttled_pct", NULL, UNIT_PCT, OF(throttled_pct),
	  .meaning = "of the periods of its cgroup: it was held back" },
	{ "resident_bytes", "memory", UNIT_BYTES, OF(resident_bytes),
	  .meaning = "memory of the program" },
	{ "available_bytes", NULL, UNIT_BYTES, OF(available_bytes),
	  .meaning = "memory that the machine has left" },
	{ "major_faults", NULL, UNIT_COUNT, OF(major_faults),
	  .meaning = "page faults of the program that a disk answered" },
	{ "runnable", NULL, UNIT_INT, MEMBER_AS(FIELD_WHOLE, struct host_time, runnable),
	  .meaning = "threads of the machine that run or could, at the end" },
	{ "read_bytes_per_s", "read", UNIT_BYTES, OF(read_bytes_per_s),
	  .meaning = "from all disks" },
	{ "written_bytes_per_s", "written", UNIT_BYTES, OF(written_bytes_per_s),
	  .meaning = "to all disks" },
	{ "received_bytes_per_s", NULL, UNIT_BYTES, OF(received_bytes_per_s),
	  .meaning = "by all networks" },
	{ "sent_bytes_per_s", NULL, UNIT_BYTES, OF(sent_bytes_per_s),
	  .meaning = "by all networks" },
};

const struct field_set host_times_fields = {
	FIELDS(time_fields),
	.rows = { { ITEMS(struct host, times, n_times) } },
	.levels = 1,
	.meaning = "stretch of time",
};

/* ---- by phase */

#undef OF
#define OF(member) MEMBER(struct host_phase, member)

static const struct field phase_fields[] = {
	{ "name", "range", UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct host_phase, name),
	  .flexible = true, .meaning = "of outermost ranges" },
	{ "count", "count", UNIT_INT, OF(count), .meaning = "how often", .metric = NO_METRIC },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .meaning = "in all", .metric = NO_METRIC },
	{ "grew_bytes", "grew", UNIT_BYTES, OF(grew_bytes),
	  .meaning = "memory of the process that came meanwhile, less what went; estimated from "
		     "readings before and after" },
	{ "peak_bytes", "at most", UNIT_BYTES, OF(peak_bytes),
	  .meaning = "memory of the process at the begin or end of one", .metric = NO_METRIC },
	{ "minor_faults", "minor faults", UNIT_COUNT, OF(minor_faults),
	  .meaning = "page faults that memory answered, likewise" },
	{ "major_faults", "major faults", UNIT_COUNT, OF(major_faults),
	  .meaning = "page faults that a disk answered, likewise" },
};

const struct field_set host_phases_fields = {
	FIELDS(phase_fields),
	.rows = { { ITEMS(struct host_phases, rows, n) } },
	.levels = 1,
	.meaning = "outermost ranges of one name",
};

static const struct field phase_total_fields[] = {
	{ "names", NULL, UNIT_INT, MEMBER(struct host_phases, n), .meaning = "names of ranges",
	  .metric = NO_METRIC },
};

const struct field_set host_phases_total = { FIELDS(phase_total_fields) };

/* ---- total */

static const char *missing(const struct field_row *at)
{
	const struct host *host = at->item;

	return host->missing;
}

#undef OF
#define OF(member) MEMBER(struct host, member), .absent = missing

static const struct field total_fields[] = {
	{ "looks", NULL, UNIT_INT, MEMBER(struct host, looks), .meaning = "readings of the machine",
	  .grows = true },
	{ "elapsed_ns", NULL, UNIT_NS, OF(elapsed_ns),
	  .meaning = "from the first to the last of them" },
	{ "own_pct", NULL, UNIT_PCT, OF(own_pct), .meaning = "what they took, of one processor" },
	{ "machines", NULL, UNIT_INT, MEMBER(struct host, machines),
	  .meaning = "that were watched; figures of the machine are those of the first" },
	{ "cpus", NULL, UNIT_INT, OF(cpus), .meaning = "processors of the machine" },
	{ "mhz", NULL, UNIT_RATIO, OF(mhz), .meaning = "their clock, on average" },
	{ "user_pct", NULL, UNIT_PCT, OF(user_pct), .meaning = "of all processors: in programs" },
	{ "system_pct", NULL, UNIT_PCT, OF(system_pct),
	  .meaning = "of all processors: in the kernel" },
	{ "iowait_pct", NULL, UNIT_PCT, OF(iowait_pct),
	  .meaning = "of all processors: idle while a disk was waited for" },
	{ "steal_pct", NULL, UNIT_PCT, OF(steal_pct),
	  .meaning = "of all processors: what the hypervisor gave to other guests" },
	{ "idle_pct", NULL, UNIT_PCT, OF(idle_pct), .meaning = "of all processors",
	  .metric = NO_METRIC },
	{ "runnable", NULL, UNIT_RATIO, OF(runnable),
	  .meaning = "threads of the machine that ran or could, on average" },
	{ "cpu_pressure_pct", NULL, UNIT_PCT, OF(cpu_pressure_pct),
	  .meaning = "of the time: some thread waited for a processor" },
	{ "io_pressure_pct", NULL, UNIT_PCT, OF(io_pressure_pct),
	  .meaning = "of the time: some thread waited for a disk" },
	{ "io_full_pct", NULL, UNIT_PCT, OF(io_full_pct),
	  .meaning = "of the time: all threads that did not sleep waited for a disk" },
	{ "memory_pressure_pct", NULL, UNIT_PCT, OF(memory_pressure_pct),
	  .meaning = "of the time: some thread waited for memory" },
	{ "memory_bytes", NULL, UNIT_BYTES, OF(memory_bytes), .meaning = "of the machine",
	  .metric = NO_METRIC },
	{ "least_available_bytes", NULL, UNIT_BYTES, OF(least_available_bytes),
	  .meaning = "memory that the machine had left, at least" },
	{ "swap_in_bytes", NULL, UNIT_BYTES, OF(swap_in_bytes), .meaning = "read from swap" },
	{ "swap_out_bytes", NULL, UNIT_BYTES, OF(swap_out_bytes), .meaning = "written to swap" },
	{ "disk_read_bytes", NULL, UNIT_BYTES, OF(disk_read_bytes),
	  .meaning = "from all disks, by anybody" },
	{ "disk_written_bytes", NULL, UNIT_BYTES, OF(disk_written_bytes),
	  .meaning = "to all disks, by anybody" },
	{ "received_bytes", NULL, UNIT_BYTES, OF(received_bytes),
	  .meaning = "by all networks, for anybody" },
	{ "sent_bytes", NULL, UNIT_BYTES, OF(sent_bytes),
	  .meaning = "by all networks, by anybody" },
	{ "quota_cpus", NULL, UNIT_RATIO, OF(quota_cpus),
	  .meaning = "processors that the program's cgroup may use" },
	{ "throttled_pct", NULL, UNIT_PCT, OF(throttled_pct),
	  .meaning = "of the periods of the cgroup: it was held back" },
	{ "throttled_ns", NULL, UNIT_NS, OF(throttled_ns),
	  .meaning =
		  "time that it was held back, a sum over processors where the kernel makes one" },
	{ "limit_bytes", NULL, UNIT_BYTES, OF(limit_bytes),
	  .meaning = "memory that the cgroup may use" },
	{ "peak_used_bytes", NULL, UNIT_BYTES, OF(peak_used_bytes),
	  .meaning = "memory that it used, at most, without idle pages of files",
	  .metric = NO_METRIC },
	{ "limit_hits", NULL, UNIT_COUNT, OF(limit_hits),
	  .meaning = "times that it came up against this limit" },
	{ "oom_kills", NULL, UNIT_INT, OF(oom_kills),
	  .meaning = "processes of it that the kernel ended for want of memory" },
	{ "processes", NULL, UNIT_INT, MEMBER(struct host, n_processes),
	  .meaning = "of the program, that were seen" },
	{ "program_cpus", NULL, UNIT_RATIO, OF(program_cpus),
	  .meaning = "processors that the program used, on average" },
	{ "ready_cpus", NULL, UNIT_RATIO, OF(ready_cpus),
	  .meaning = "processors that its threads waited for, on average" },
	{ "allowed_cpus", NULL, UNIT_INT, OF(allowed_cpus),
	  .meaning = "processors that it may run on" },
	{ "program_system_pct", NULL, UNIT_PCT, OF(program_system_pct),
	  .meaning = "of its time on a processor: in the kernel" },
	{ "peak_resident_bytes", NULL, UNIT_BYTES, OF(peak_resident_bytes),
	  .meaning = "memory of the program, at most: the sum of its processes, whose shared pages "
		     "count in each" },
	{ "program_read_bytes", NULL, UNIT_BYTES, OF(program_read_bytes),
	  .meaning = "that the program read from disks" },
	{ "program_written_bytes", NULL, UNIT_BYTES, OF(program_written_bytes),
	  .meaning = "that it wrote to disks" },
	{ "program_major_faults", NULL, UNIT_COUNT, OF(program_major_faults),
	  .meaning = "page faults of the program that a disk answered" },
	{ "others_cpus", NULL, UNIT_RATIO, OF(others_cpus),
	  .meaning = "processors that programs of others used, on average; those that used a "
		     "twentieth of one at a time" },
};

const struct field_set host_total = { FIELDS(total_fields) };
