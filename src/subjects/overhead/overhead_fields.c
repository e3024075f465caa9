/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the profiler's own cost; see fields.h.
 */
#include "subjects/overhead/overhead.h"

#include "subjects/answers/answers.h"
#include "subjects/shared/coverage.h"
#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct overhead, member)
#define OF_COVERAGE(member) MEMBER(struct coverage, member), .from = coverage

static struct cell budget(const struct field_row *at)
{
	const struct run_info *info = &at->run->info;

	if (!info->budget_known)
		return cell_absent("no budget was set for this run");
	return info->budget_pct > 0 ? cell_real(info->budget_pct)
				    : cell_absent("the budget is off");
}

static const struct field account_fields[] = {
	{ "cupti_ns", NULL, UNIT_NS, OF(cupti_ns), .meaning = "by CUPTI itself" },
	{ "translate_ns", NULL, UNIT_NS, OF(translate_ns),
	  .meaning = "CPU time of translating records" },
	{ "held_ns", NULL, UNIT_NS, OF(held_ns), .meaning = "calls of the program held" },
	{ "switch_ns", NULL, UNIT_NS, OF(switch_ns), .meaning = "attaching and detaching" },
	{ "kernels", NULL, UNIT_COUNT, OF(device_kernels), .meaning = "seen meanwhile" },
	{ "calls", NULL, UNIT_COUNT, OF(device_calls), .meaning = "seen meanwhile" },
};

static const struct field_group account = {
	FIELD_OBJECT, FIELD_ON_ONE_LINE, FIELDS(account_fields),
	PART("device_account", "The profiler's own account of collecting device records.")
};

static const char *no_account(const struct field_row *at)
{
	return field_unknown(((const struct overhead *)at->item)->device_account_pct);
}

static const void *coverage(const struct field_row *at)
{
	return answer_coverage(at->answers);
}

/* Counts of what was covered are known when something was watched. */
static struct cell covered_count(const struct field_row *at)
{
	const struct coverage *c = at->item;
	const char *count = (const char *)c + at->field->offset;

	return c->watched_ns > 0 ? cell_real((double)*(const size_t *)(const void *)count)
				 : cell_value(c->coverage_pct);
}

#define COVERED(member)                                                                            \
	.from = coverage, MAY_READ(REAL, covered_count), .offset = offsetof(struct coverage, member)

#define OF_CHANGE(member) MEMBER(struct level_change, member)
#define OF_SHARD(member, row) MEMBER(struct run_shard, member), .from = shard_of_##row

static struct cell gear(const struct field_row *at)
{
	return cell_text(gear_name(((const struct level_change *)at->item)->gear));
}

static const void *shard_of_change(const struct field_row *at)
{
	return &at->run->shards[((const struct level_change *)at->item)->shard];
}

static const void *shard_of_yield(const struct field_row *at)
{
	return &at->run->shards[((const struct yielded *)at->item)->shard];
}

static const struct field change_fields[] = {
	{ "time_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct level_change, time_ns),
	  .meaning = "since the start of the run", .metric = NO_METRIC },
	{ "gear", NULL, UNIT_TEXT, READ(TEXT, gear),
	  .meaning = "none, counts, windows, always or yielded" },
	{ "attached", NULL, UNIT_INT, OF_CHANGE(attached),
	  .meaning = "device records are being collected" },
	{ "why", NULL, UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct level_change, why),
	  .none = "not said", .meaning = "the reason" },
	{ "cost_pct", NULL, UNIT_PCT, OF_CHANGE(cost_pct), .meaning = "est., while attached" },
	{ "rank", NULL, UNIT_INT, OF_SHARD(rank, change) },
	{ "pid", NULL, UNIT_INT, OF_SHARD(pid, change) },
};

static const struct field_group changes = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(change_fields),
	.items = { ITEMS(struct coverage, changes, n_changes) },
	PART("level_change", "A change of gear of the governor."),
};

static struct cell yielded_ns(const struct field_row *at)
{
	const struct yielded *yielded = at->item;

	return cell_int(yielded->end_ns - yielded->start_ns);
}

static const struct field yield_fields[] = {
	{ "time_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct yielded, start_ns),
	  .meaning = "since the start of the run", .metric = NO_METRIC },
	{ "duration_ns", NULL, UNIT_NS, READ(I64, yielded_ns), .meaning = "for how long" },
	{ "why", NULL, UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct yielded, why), .none = "not said",
	  .meaning = "who took over the device records" },
	{ "rank", NULL, UNIT_INT, OF_SHARD(rank, yield) },
	{ "pid", NULL, UNIT_INT, OF_SHARD(pid, yield) },
};

static const struct field_group yields = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(yield_fields),
	.items = { ITEMS(struct coverage, yields, n_yields) },
	PART("yielded", "Another client had the device records."),
};

static const char *no_changes(const struct field_row *at)
{
	return answer_coverage(at->answers)->n_changes
		       ? NULL
		       : field_unknown(answer_coverage(at->answers)->governed_pct);
}

static const struct field cost_fields[] = {
	{ "budget_pct", NULL, UNIT_PCT, MAY_READ(REAL, budget),
	  .meaning = "what it was allowed to cost" },
	{ "measured_pct", NULL, UNIT_PCT, OF(measured_pct),
	  .meaning = "recording on against off, in pairs of steps" },
	{ "measured_low_pct", NULL, UNIT_PCT, OF(low_pct), .meaning = "95% interval" },
	{ "measured_high_pct", NULL, UNIT_PCT, OF(high_pct), .meaning = "95% interval" },
	{ "pairs", NULL, UNIT_INT, OF(pairs), .meaning = "of steps" },
	{ "on_median_ns", NULL, UNIT_NS, OF(on_median_ns),
	  .meaning = "step time with recording on" },
	{ "off_median_ns", NULL, UNIT_NS, OF(off_median_ns), .meaning = "with recording off" },
	{ "own_cpu_pct", NULL, UNIT_PCT, OF(own_cpu_pct),
	  .meaning = "of a core, by the profiler's thread" },
	{ "own_cpu_ns", NULL, UNIT_NS, OF(own_cpu_ns),
	  .meaning = "CPU time of the profiler's thread" },
	{ "records", NULL, UNIT_COUNT, OF(records), .meaning = "taken" },
	{ "device_account_pct", NULL, UNIT_PCT, OF(device_account_pct) },
	{ "device_account", .of = &account, .absent = no_account, .meaning = "its parts" },
	{ "device_estimate_pct", NULL, UNIT_PCT, OF_COVERAGE(governed_pct),
	  .meaning = "est., by the governor" },
	{ "coverage_pct", NULL, UNIT_PCT, OF_COVERAGE(coverage_pct) },
	{ "windows", NULL, UNIT_INT, COVERED(n_windows), .meaning = "of device records" },
	{ "steps_covered", NULL, UNIT_INT, COVERED(steps_covered) },
	{ "steps", NULL, UNIT_INT, COVERED(steps), .meaning = "of the watched processes" },
	{ "device_memory_estimate_bytes", NULL, UNIT_BYTES, OF_COVERAGE(device_bytes),
	  .meaning = "est., taken on the device" },
	{ "level_changes", .from = coverage, .of = &changes, .absent = no_changes,
	  .meaning = "of the governor" },
	{ "yielded", .from = coverage, .of = &yields, .absent = no_changes,
	  .meaning = "to another client" },
};

static const struct field_group cost = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(cost_fields),
					 PART("overhead", "What profiling cost.") };

static const void *overhead(const struct field_row *at)
{
	return answer_overhead(at->answers);
}

static const struct field fields[] = {
	{ "overhead", .from = overhead, .of = &cost, .meaning = "what profiling cost" },
};

const struct field_set overhead_fields = { FIELDS(fields) };
