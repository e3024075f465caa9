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
	{ "cupti_ns", NULL, UNIT_NS, OF(cupti_ns) },
	{ "translate_ns", NULL, UNIT_NS, OF(translate_ns) },
	{ "held_ns", NULL, UNIT_NS, OF(held_ns) },
	{ "switch_ns", NULL, UNIT_NS, OF(switch_ns) },
	{ "kernels", NULL, UNIT_COUNT, OF(device_kernels) },
	{ "calls", NULL, UNIT_COUNT, OF(device_calls) },
};

static const struct field_group account = { FIELD_OBJECT, FIELD_ON_ONE_LINE,
					    FIELDS(account_fields) };

static const char *no_account(const struct field_row *at)
{
	return field_unknown(((const struct overhead *)at->item)->device_account_pct);
}

static const void *coverage(const struct field_row *at)
{
	return answer_coverage(at->answers);
}

/* Counts of what was covered are known when something was watched. */
static struct cell covered(const struct field_row *at)
{
	const struct coverage *c = at->item;
	const char *count = (const char *)c + at->field->offset;

	return c->watched_ns > 0 ? cell_real((double)*(const size_t *)(const void *)count)
				 : cell_value(c->coverage_pct);
}

#define COVERED(member)                                                                            \
	.from = coverage, .read = covered, .offset = offsetof(struct coverage, member)

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
	{ "time_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct level_change, time_ns) },
	{ "gear", NULL, UNIT_TEXT, .read = gear },
	{ "attached", NULL, UNIT_INT, OF_CHANGE(attached) },
	{ "why", NULL, UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct level_change, why),
	  .none = "not said" },
	{ "cost_pct", NULL, UNIT_PCT, OF_CHANGE(cost_pct) },
	{ "rank", NULL, UNIT_INT, OF_SHARD(rank, change) },
	{ "pid", NULL, UNIT_INT, OF_SHARD(pid, change) },
};

static const struct field_group changes = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(change_fields),
	.items = { ITEMS(struct coverage, changes, n_changes) },
};

static struct cell yielded_ns(const struct field_row *at)
{
	const struct yielded *yielded = at->item;

	return cell_int(yielded->end_ns - yielded->start_ns);
}

static const struct field yield_fields[] = {
	{ "time_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct yielded, start_ns) },
	{ "duration_ns", NULL, UNIT_NS, .read = yielded_ns },
	{ "why", NULL, UNIT_TEXT, MEMBER_AS(FIELD_STRING, struct yielded, why),
	  .none = "not said" },
	{ "rank", NULL, UNIT_INT, OF_SHARD(rank, yield) },
	{ "pid", NULL, UNIT_INT, OF_SHARD(pid, yield) },
};

static const struct field_group yields = {
	FIELD_LIST,
	FIELD_LINE_EACH,
	FIELDS(yield_fields),
	.items = { ITEMS(struct coverage, yields, n_yields) },
};

static const char *no_changes(const struct field_row *at)
{
	return answer_coverage(at->answers)->n_changes
		       ? NULL
		       : field_unknown(answer_coverage(at->answers)->governed_pct);
}

static const struct field cost_fields[] = {
	{ "budget_pct", NULL, UNIT_PCT, .read = budget },
	{ "measured_pct", NULL, UNIT_PCT, OF(measured_pct) },
	{ "measured_low_pct", NULL, UNIT_PCT, OF(low_pct) },
	{ "measured_high_pct", NULL, UNIT_PCT, OF(high_pct) },
	{ "pairs", NULL, UNIT_INT, OF(pairs) },
	{ "on_median_ns", NULL, UNIT_NS, OF(on_median_ns) },
	{ "off_median_ns", NULL, UNIT_NS, OF(off_median_ns) },
	{ "own_cpu_pct", NULL, UNIT_PCT, OF(own_cpu_pct) },
	{ "own_cpu_ns", NULL, UNIT_NS, OF(own_cpu_ns) },
	{ "records", NULL, UNIT_COUNT, OF(records) },
	{ "device_account_pct", NULL, UNIT_PCT, OF(device_account_pct) },
	{ "device_account", .of = &account, .absent = no_account },
	{ "device_estimate_pct", NULL, UNIT_PCT, OF_COVERAGE(governed_pct) },
	{ "coverage_pct", NULL, UNIT_PCT, OF_COVERAGE(coverage_pct) },
	{ "windows", NULL, UNIT_INT, COVERED(n_windows) },
	{ "steps_covered", NULL, UNIT_INT, COVERED(steps_covered) },
	{ "steps", NULL, UNIT_INT, COVERED(steps) },
	{ "device_memory_estimate_bytes", NULL, UNIT_BYTES, OF_COVERAGE(device_bytes) },
	{ "level_changes", .from = coverage, .of = &changes, .absent = no_changes },
	{ "yielded", .from = coverage, .of = &yields, .absent = no_changes },
};

static const struct field_group cost = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(cost_fields) };

static const void *overhead(const struct field_row *at)
{
	return answer_overhead(at->answers);
}

static const struct field fields[] = {
	{ "overhead", .from = overhead, .of = &cost },
};

const struct field_set overhead_fields = { FIELDS(fields) };
