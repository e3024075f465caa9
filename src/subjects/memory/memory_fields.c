/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of memory; see fields.h.
 */
#include "subjects/memory/memory.h"

#include "subjects/answers/answers.h"
#include "subjects/device/device_state.h"
#include "subjects/memory/device_memory.h"
#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct memory_device, member)

static const char *no_peak(const struct field_row *at)
{
	const struct memory_device *device = at->item;

	return device->peak_bytes ? NULL : "nothing was allocated";
}

#define NO_PLACE "no range around the allocation names one"
#define SITES 64 /* places live at the peak that are listed; their number is told */

/* Bytes by use, of those that have any. */
static const void *use_at(const struct field_row *in, size_t i)
{
	const uint64_t *bytes = (const uint64_t *)in->item + i;

	return *bytes ? bytes : NULL;
}

static size_t use_count(const struct field_row *in)
{
	(void)in;
	return MEMORY_USES;
}

static const char *use_key(const struct field_row *at, char *room, size_t size)
{
	(void)room;
	(void)size;
	return memory_use_name((unsigned int)at->index);
}

static const struct field use_field = { .unit = UNIT_BYTES, .type = FIELD_U64 };

static const struct field_group composition = {
	FIELD_MAP,
	.fields = &use_field,
	.items = { .item = use_at, .count = use_count },
	.name = use_key,
	PART("uses", "Bytes by use."),
	.n_names = MEMORY_USES,
};

#define OF_LEAK(member) MEMBER(struct memory_leak, member)

static const struct field leak_fields[] = {
	{ "site", NULL, UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct memory_leak, site),
	  .meaning = "where" },
	{ "bytes_per_step", NULL, UNIT_BYTES, OF_LEAK(bytes_per_step), .meaning = "growth" },
	{ "live_bytes", NULL, UNIT_BYTES, OF_LEAK(last_bytes), .meaning = "at the end" },
	{ "grew_steps", NULL, UNIT_INT, OF_LEAK(grew_steps), .meaning = "of the last 10" },
};

static const struct field_group leaks = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(leak_fields),
	.items = { ITEMS(struct memory_device, leaks, n_leaks) },
	PART("leak", "A site whose live bytes grow with the steps."),
};

#define OF_SITE(member) MEMBER(struct memory_site, member)

static struct cell place_cell(int32_t number)
{
	return number < 0 ? cell_absent(NO_PLACE) : cell_int(number);
}

static struct cell site_use(const struct field_row *at)
{
	return cell_text(memory_use_name(((const struct memory_site *)at->item)->use));
}

static struct cell site_layer(const struct field_row *at)
{
	return place_cell(((const struct memory_site *)at->item)->layer);
}

static struct cell site_expert(const struct field_row *at)
{
	return place_cell(((const struct memory_site *)at->item)->expert);
}

static struct cell site_phase(const struct field_row *at)
{
	const struct memory_site *site = at->item;

	return site->phase ? cell_text(phase_name(site->phase)) : cell_absent(NO_PLACE);
}

#define SITE_FIELDS                                                                                \
	{ "site",                                                                                  \
	  NULL,                                                                                    \
	  UNIT_TEXT,                                                                               \
	  MEMBER_AS(FIELD_STRING, struct memory_site, site),                                       \
	  .none = "the allocation names none",                                                     \
	  .meaning = "the call site" },                                                            \
		{ "use", NULL, UNIT_TEXT, READ(TEXT, site_use),                                    \
		  .meaning = "parameters, gradients, optimizer, activations, cache or other" },    \
	{                                                                                          \
		"bytes", NULL, UNIT_BYTES, OF_SITE(bytes), .meaning = "live",                      \
							   .metric = "live_at_peak"                \
	}
#define PLACE_FIELDS                                                                               \
	{ "layer", NULL, UNIT_INT, MAY_READ(I32, site_layer),                                      \
	  .meaning = "layer of the innermost range around" },                                      \
		{ "expert", NULL, UNIT_INT, MAY_READ(I32, site_expert),                            \
		  .meaning = "expert of the innermost range around" },                             \
	{                                                                                          \
		"phase", NULL, UNIT_TEXT, MAY_READ(TEXT, site_phase),                              \
			.meaning = "phase of the innermost range around"                           \
	}

static const struct field site_fields[] = {
	SITE_FIELDS,
	{ "blocks", NULL, UNIT_INT, OF_SITE(count), .meaning = "live" },
	{ "oldest_age_ns", NULL, UNIT_NS, OF_SITE(oldest_ns), .meaning = "at the peak" },
	{ "youngest_age_ns", NULL, UNIT_NS, OF_SITE(youngest_ns), .meaning = "at the peak" },
	PLACE_FIELDS,
};

static const struct field_group sites = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(site_fields),
	.items = { ITEMS(struct memory_device, sites, n_sites), .most = SITES },
	PART("live_site", "What was live at the peak, by the place that allocated it."),
};

static const struct field then_site_fields[] = {
	SITE_FIELDS,
	{ "share_pct", NULL, UNIT_PCT, OF_SITE(share_pct), .meaning = "of all live bytes then",
	  .metric = NO_METRIC },
	{ "blocks", NULL, UNIT_INT, OF_SITE(count), .meaning = "live" },
	{ "oldest_age_ns", NULL, UNIT_NS, OF_SITE(oldest_ns), .meaning = "then" },
	{ "youngest_age_ns", NULL, UNIT_NS, OF_SITE(youngest_ns), .meaning = "then" },
	PLACE_FIELDS,
};

static const struct field_group then_sites = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(then_site_fields),
	.items = { ITEMS(struct memory_then, sites, n_sites), .most = SITES },
	PART("then_site", "What was live at the moment, by the place that allocated it."),
};

static struct cell block_address(const struct field_row *at)
{
	return cell_uint(((const struct memory_block *)at->item)->address);
}

/* A block is a site of its own, and its address. */
static const struct field then_block_fields[] = {
	SITE_FIELDS,
	{ "share_pct", NULL, UNIT_PCT, OF_SITE(share_pct), .meaning = "of all live bytes then",
	  .metric = NO_METRIC },
	{ "age_ns", NULL, UNIT_NS, OF_SITE(oldest_ns), .meaning = "since its allocation" },
	PLACE_FIELDS,
	{ "address", NULL, UNIT_INT, READ(U64, block_address), .meaning = "of the block" },
};

static const struct field_group then_blocks = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(then_block_fields),
	.items = { ITEMS(struct memory_then, blocks, n_blocks), .most = SITES },
	PART("then_block", "A block that was live at the moment."),
};

static const void *use_share_at(const struct field_row *in, size_t i)
{
	const double *pct = (const double *)in->item + i;

	return *pct > 0 ? pct : NULL;
}

static const struct field use_share_field = { .unit = UNIT_PCT, .type = FIELD_REAL };

static const struct field_group shares = {
	FIELD_MAP,
	.fields = &use_share_field,
	.items = { .item = use_share_at, .count = use_count },
	.name = use_key,
	PART("use_shares", "Shares by use, in percent."),
	.n_names = MEMORY_USES,
};

#define OF_THEN(member) MEMBER(struct memory_then, member)

static const struct field then_fields[] = {
	{ "time_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct memory_then, time_ns),
	  .meaning = "the moment, since the start of the run", .metric = NO_METRIC },
	{ "allocated_bytes", NULL, UNIT_BYTES, OF_THEN(live_bytes), .meaning = "live then" },
	{ "before_bytes", NULL, UNIT_BYTES, OF_THEN(before_bytes),
	  .meaning = "of them live before the first record" },
	{ "composition", .offset = offsetof(struct memory_then, use), .of = &composition,
	  .meaning = "the others by use" },
	{ "composition_pct", .offset = offsetof(struct memory_then, use_pct), .of = &shares,
	  .meaning = "their shares of all live bytes" },
	{ "blocks", NULL, UNIT_INT, OF_THEN(n_blocks), .meaning = "live" },
	{ "sites", .of = &then_sites, .meaning = "the 64 largest places" },
	{ "sites_in_all", NULL, UNIT_INT, OF_THEN(n_sites), .meaning = "places in all" },
	{ "largest_blocks", .of = &then_blocks, .meaning = "the 64 largest" },
};

static const struct field_group then = {
	FIELD_OBJECT,
	FIELD_SPREAD_OUT,
	FIELDS(then_fields),
	PART("live_at", "What was live at the moment that was asked for."),
};

static const char *no_then(const struct field_row *at)
{
	return ((const struct memory_device *)at->item)->then.absent;
}

#define OF_PART(member) MEMBER(struct memory_part, member)

static struct cell part_layer(const struct field_row *at)
{
	return place_cell(((const struct memory_part *)at->item)->layer);
}

static struct cell part_expert(const struct field_row *at)
{
	return place_cell(((const struct memory_part *)at->item)->expert);
}

static const struct field part_fields[] = {
	{ "layer", NULL, UNIT_INT, MAY_READ(I32, part_layer) },
	{ "expert", NULL, UNIT_INT, MAY_READ(I32, part_expert) },
	{ "allocations", NULL, UNIT_COUNT, OF_PART(allocations), .meaning = "in its ranges" },
	{ "allocated_bytes", NULL, UNIT_BYTES, OF_PART(allocated_bytes), .meaning = "sum of them" },
	{ "at_peak_bytes", NULL, UNIT_BYTES, OF_PART(at_peak_bytes),
	  .meaning = "of them live at the peak" },
	{ "composition_at_peak", .offset = offsetof(struct memory_part, peak_use),
	  .of = &composition, .meaning = "those by use" },
};

static const struct field_group parts = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(part_fields),
	.items = { ITEMS(struct memory_device, parts, n_parts) },
	PART("memory_part", "Memory of one layer or expert."),
};

static const char *no_parts(const struct field_row *at)
{
	return ((const struct memory_device *)at->item)->n_parts
		       ? NULL
		       : "no allocation lies in a range of a layer or expert";
}

static const struct field point_fields[] = {
	{ "time_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct memory_point, time_ns),
	  .meaning = "since the start of the run", .metric = NO_METRIC },
	{ "allocated_bytes", NULL, UNIT_BYTES, MEMBER(struct memory_point, live_bytes),
	  .meaning = "the most in its part of the time" },
	/* Without segments the row says why, once. */
	{ "reserved_bytes", NULL, UNIT_BYTES, MEMBER(struct memory_point, reserved_bytes),
	  .optional = true,
	  .meaning = "held from the driver; left out where the row's reserved_bytes is null" },
};

static const struct field_group points = {
	FIELD_LIST,
	FIELD_ON_ONE_LINE,
	FIELDS(point_fields),
	.items = { ITEMS(struct memory_device, points, n_points) },
	PART("memory_point", "Bytes over time."),
};

static const struct field fields[] = {
	{ "rank", "rank", UNIT_INT, OF(rank) },
	{ "device", "device", UNIT_DEVICE, OF(device), .meaning = "-1: the host" },
	{ "allocated_bytes", "live", UNIT_BYTES, OF(live_bytes), .meaning = "live at the end" },
	{ "peak_allocated_bytes", "peak", UNIT_BYTES, OF(peak_bytes) },
	{ "peak_ns", "peak at", UNIT_NS, MEMBER_AS(FIELD_TIME, struct memory_device, peak_ns),
	  .absent = no_peak },
	{ "live_allocations", "blocks", UNIT_INT, OF(live_allocations), .meaning = "at the end" },
	{ "allocations", "allocs", UNIT_COUNT, OF(allocations), .meaning = "calls" },
	{ "frees", "frees", UNIT_COUNT, OF(frees), .meaning = "calls" },
	{ "unmatched_frees", NULL, UNIT_INT, OF(unmatched_frees) },
	{ "replaced", NULL, UNIT_INT, OF(replaced),
	  .meaning = "allocations at a live address: its free was not recorded" },
	{ "allocated_total_bytes", "in all", UNIT_BYTES, OF(allocated_bytes),
	  .meaning = "sum of all allocations" },
	{ "reserved_bytes", NULL, UNIT_BYTES, OF(reserved_bytes) },
	{ "device_used_bytes", NULL, UNIT_BYTES, OF(device_used_bytes), .meaning = "by NVML" },
	{ "fragmentation_pct", NULL, UNIT_PCT, OF(fragmentation_pct) },
	{ "peak_reserved_bytes", NULL, UNIT_BYTES, OF(peak_reserved_bytes),
	  .meaning = "the most held from the driver" },
	{ "cache_slack_pct", NULL, UNIT_PCT, OF(cache_slack_pct),
	  .meaning = "100 (reserved - allocated) / reserved" },
	{ "fragmentation_at_peak_pct", NULL, UNIT_PCT, OF(fragmentation_at_peak_pct),
	  .meaning = "fragmentation when the peak was reached" },
	{ "free_at_peak_bytes", NULL, UNIT_BYTES, OF(free_at_peak_bytes),
	  .meaning = "held and not allocated then" },
	{ "largest_free_at_peak_bytes", NULL, UNIT_BYTES, OF(largest_free_at_peak_bytes),
	  .meaning = "the largest free block then" },
	{ "device_total_bytes", NULL, UNIT_BYTES, OF(device_total_bytes) },
	{ "headroom_bytes", NULL, UNIT_BYTES, OF(headroom_bytes) },
	{ "oom_steps", NULL, UNIT_COUNT, OF(oom_steps),
	  .meaning = "est., steps until leak suspects fill the device" },
	{ "leak_suspects", NULL, UNIT_INT, OF(leaks_known),
	  .meaning = "sites whose live bytes grow" },
	{ "account_allocated_bytes", NULL, UNIT_BYTES, OF(account_allocated_bytes),
	  .meaning = "live, as the allocator itself says" },
	{ "account_reserved_bytes", NULL, UNIT_BYTES, OF(account_reserved_bytes),
	  .meaning = "held from the driver, as the allocator itself says" },
	{ "account_peak_allocated_bytes", NULL, UNIT_BYTES, OF(account_peak_allocated_bytes) },
	{ "account_peak_reserved_bytes", NULL, UNIT_BYTES, OF(account_peak_reserved_bytes),
	  .meaning = "its peak of reserved bytes" },
	{ "account_peak_requested_bytes", NULL, UNIT_BYTES, OF(account_peak_requested_bytes),
	  .meaning = "its peak of requested bytes, before rounding" },
	{ "segments", NULL, UNIT_INT, OF(segments) },
	{ "before_bytes", NULL, UNIT_BYTES, OF(before_bytes) },
	{ "before_at_peak_bytes", NULL, UNIT_BYTES, OF(before_at_peak_bytes),
	  .meaning = "what of it was live at the peak" },
	{ "before_freed_bytes", NULL, UNIT_BYTES, OF(before_freed_bytes),
	  .meaning = "what of it was freed since" },
	{ "composition", .offset = offsetof(struct memory_device, use_at_end), .of = &composition,
	  .meaning = "at the end" },
	{ "composition_at_peak", .offset = offsetof(struct memory_device, use_at_peak),
	  .of = &composition, .meaning = "at the peak" },
	{ "leaks", .of = &leaks, .meaning = "the suspects" },
	{ "live_at_peak", .of = &sites, .meaning = "the 64 largest places" },
	{ "live_at_peak_sites", NULL, UNIT_INT, OF(n_sites), .detail = true,
	  .meaning = "places in all" },
	{ "parts", .of = &parts, .absent = no_parts, .meaning = "by layer and expert" },
	{ "live_at", .offset = offsetof(struct memory_device, then), .of = &then, .absent = no_then,
	  .forms = MEMORY_AT, .meaning = "at the moment that was asked for" },
	{ "series", .of = &points, .meaning = "over time" },
};

const struct field_set memory_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct memory, devices, n) } },
	.levels = 1,
	.meaning = "device of a process, as the program's allocator uses it",
};

#define OF_DRIVER(member) MEMBER(struct driver_memory, member)
#define OF_USED(member) MEMBER(struct device_used, member)
#define OF_POOL(member) MEMBER(struct memory_pool, member)
#define OF_PROCESS(member) MEMBER(struct other_process, member)

static struct cell driver_peak(const struct field_row *at)
{
	const struct driver_memory *driver = at->item;

	return driver->peak_bytes ? cell_real((double)(driver->peak_ns - at->run->start_ns))
				  : cell_absent("nothing was allocated");
}

static const struct field driver_fields[] = {
	{ "rank", NULL, UNIT_INT, OF_DRIVER(rank) },
	{ "device", NULL, UNIT_INT, OF_DRIVER(device) },
	{ "memory", NULL, UNIT_TEXT, OF_DRIVER(memory), .meaning = "device, pinned, managed…" },
	{ "live_bytes", NULL, UNIT_BYTES, OF_DRIVER(live_bytes), .meaning = "at the end" },
	{ "peak_bytes", NULL, UNIT_BYTES, OF_DRIVER(peak_bytes), .meaning = "at the most" },
	{ "peak_ns", NULL, UNIT_NS, MAY_READ(REAL, driver_peak), .metric = NO_METRIC },
	{ "allocations", NULL, UNIT_COUNT, OF_DRIVER(allocations), .meaning = "calls",
	  .metric = NO_METRIC },
	{ "frees", NULL, UNIT_COUNT, OF_DRIVER(frees), .meaning = "calls", .metric = NO_METRIC },
	{ "unmatched_frees", NULL, UNIT_INT, OF_DRIVER(unmatched_frees), .metric = NO_METRIC },
};

static const struct field_group driver = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(driver_fields),
	.items = { ITEMS(struct device_memory, driver, n_driver) },
	PART("driver_memory", "What the CUDA driver allocated."),
};

static const struct field used_fields[] = {
	{ "rank", NULL, UNIT_INT, OF_USED(rank), .meaning = "rank of the process that sampled" },
	{ "device", NULL, UNIT_INT, OF_USED(device) },
	{ "samples", NULL, UNIT_INT, OF_USED(samples) },
	{ "device_used_bytes", NULL, UNIT_BYTES, OF_USED(last_bytes), .meaning = "the last" },
	{ "peak_device_used_bytes", NULL, UNIT_BYTES, OF_USED(peak_bytes), .meaning = "the most" },
	{ "device_total_bytes", NULL, UNIT_BYTES, OF_USED(total_bytes) },
	{ "headroom_bytes", NULL, UNIT_BYTES, OF_USED(headroom_bytes) },
	{ "peak_device_used_pct", NULL, UNIT_PCT, OF_USED(peak_pct),
	  .meaning = "the most in use, of the total" },
	{ "driver_at_peak_bytes", NULL, UNIT_BYTES, OF_USED(driver_at_peak_bytes),
	  .meaning = "allocated by the driver to this process then" },
	{ "outside_allocator_bytes", NULL, UNIT_BYTES, OF_USED(outside_bytes),
	  .meaning = "in use at the peak - allocated to this process: contexts, other processes" },
};

static const struct field_group used = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(used_fields),
	.items = { ITEMS(struct device_memory, used, n_used) },
	PART("device_used", "Memory of the whole device by NVML."),
};

static const struct field pool_fields[] = {
	{ "rank", NULL, UNIT_INT, OF_POOL(rank) },
	{ "device", NULL, UNIT_INT, OF_POOL(device) },
	{ "address", NULL, UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct memory_pool, name),
	  .meaning = "of the pool" },
	{ "size_bytes", NULL, UNIT_BYTES, OF_POOL(bytes), .meaning = "held from the device" },
	{ "used_bytes", NULL, UNIT_BYTES, OF_POOL(used_bytes), .meaning = "allocated" },
	{ "peak_size_bytes", NULL, UNIT_BYTES, OF_POOL(peak_bytes), .meaning = "the most held" },
	{ "peak_used_bytes", NULL, UNIT_BYTES, OF_POOL(peak_used_bytes),
	  .meaning = "the most allocated" },
	{ "release_threshold_bytes", NULL, UNIT_BYTES, OF_POOL(release_bytes),
	  .meaning = "kept when it is trimmed" },
	{ "trims", NULL, UNIT_INT, OF_POOL(trims), .meaning = "times it was trimmed" },
	{ "destroyed", NULL, UNIT_INT, OF_POOL(destroyed), .meaning = "it is gone" },
};

static const struct field_group pools = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(pool_fields),
	.items = { ITEMS(struct device_memory, pools, n_pools) },
	PART("pool", "A memory pool of the driver as it last reported itself."),
};

static const char *no_process_bytes(const struct field_row *at)
{
	return ((const struct other_process *)at->item)->bytes_known ? NULL
								     : "the driver does not tell";
}

static const struct field process_fields[] = {
	{ "device", NULL, UNIT_INT, OF_PROCESS(device) },
	{ "pid", NULL, UNIT_INT, OF_PROCESS(pid) },
	{ "name", NULL, UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct other_process, name),
	  .none = "unknown", .meaning = "of the program" },
	{ "used_bytes", NULL, UNIT_BYTES, OF_PROCESS(last_bytes), .absent = no_process_bytes,
	  .meaning = "the last reading" },
	{ "peak_used_bytes", NULL, UNIT_BYTES, OF_PROCESS(peak_bytes), .absent = no_process_bytes,
	  .meaning = "the most" },
	{ "graphics", NULL, UNIT_INT, OF_PROCESS(graphics), .meaning = "it draws" },
};

static const struct field_group processes = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(process_fields),
	.items = { ITEMS(struct device_states, others, n_others) },
	PART("other_process", "A process on the device that does not belong to the run."),
};

static const void *device_memory(const struct field_row *at)
{
	return answer_device_memory(at->answers);
}

static const void *device_states(const struct field_row *at)
{
	return answer_device_states(at->answers);
}

static const char *no_driver(const struct field_row *at)
{
	return answer_device_memory(at->answers)->n_driver
		       ? NULL
		       : "no allocations of the driver in this run";
}

static const char *no_used(const struct field_row *at)
{
	return answer_device_memory(at->answers)->n_used
		       ? NULL
		       : "no samples of device memory in this run";
}

static const char *no_pools(const struct field_row *at)
{
	return answer_device_memory(at->answers)->n_pools
		       ? NULL
		       : "no memory pools of the driver in this run";
}

static const char *no_processes(const struct field_row *at)
{
	return answer_device_states(at->answers)->listed
		       ? NULL
		       : "the driver's list of processes was not recorded";
}

/* Sums over the devices of the member at the offset of the field. */
static struct cell sum(const struct field_row *at)
{
	const struct memory *memory = at->item;
	uint64_t total = 0;

	for (size_t i = 0; i < memory->n; i++) {
		const char *device = (const char *)&memory->devices[i];

		total += *(const uint64_t *)(const void *)(device + at->field->offset);
	}
	return cell_uint(total);
}

#define SUM(member) .offset = offsetof(struct memory_device, member), READ(U64, sum)

static const struct field total_fields[] = {
	{ "allocations", NULL, UNIT_COUNT, SUM(allocations),
	  .meaning = "by the program's allocator", .grows = true },
	{ "frees", NULL, UNIT_COUNT, SUM(frees), .meaning = "by the program's allocator",
	  .grows = true },
	{ "unmatched_frees", NULL, UNIT_INT, SUM(unmatched_frees) },
	{ "driver", .from = device_memory, .of = &driver, .absent = no_driver,
	  .meaning = "by process, device and kind" },
	{ "device_used", .from = device_memory, .of = &used, .absent = no_used,
	  .meaning = "by process and device" },
	{ "pools", .from = device_memory, .of = &pools, .absent = no_pools,
	  .meaning = "of the driver" },
	{ "other_processes", .from = device_states, .of = &processes, .absent = no_processes,
	  .meaning = "on the devices" },
};

const struct field_set memory_total = {
	FIELDS(total_fields),
	.meaning = "All rows together, and what lies under the program's allocator."
};
