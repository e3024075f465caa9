/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of sampled stacks; see fields.h.
 */
#include "subjects/stacks/sampled_stacks.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct stack_row, member)

static struct cell text(const struct field_row *at)
{
	return cell_text(((const struct stack_row *)at->item)->text);
}

static struct cell wait_for(const struct field_row *at)
{
	const struct stack_row *row = at->item;
	unsigned int cause = stack_times_cause(&row->self);

	return cause < WAIT_CAUSE_LIMIT ? cell_text(wait_cause_name(cause))
					: cell_absent("nothing was waited for");
}

static const struct field fields[] = {
	{ "name", "where", UNIT_TEXT, READ(TEXT, text), .flexible = true,
	  .meaning = "function, with the file and line where it begins; thread; stack, outermost "
		     "first; or cause of waiting" },
	{ "samples", NULL, UNIT_INT, OF(self.samples),
	  .meaning = "samples that found a thread in it" },
	{ "cpu_ns", "on CPU", UNIT_NS, OF(self.cpu_ns),
	  .meaning = "time on a processor, without what it called", .metric = NO_METRIC,
	  .titled = STACKS_PLACES },
	{ "cpu_pct", "share", UNIT_PCT, OF(cpu_pct), .meaning = "of all time on a processor",
	  .metric = NO_METRIC, .titled = STACKS_PLACES },
	{ "total_cpu_ns", "with callees", UNIT_NS, OF(total.cpu_ns),
	  .meaning = "time on a processor, with what it called", .metric = NO_METRIC,
	  .titled = STACKS_PLACES },
	{ "total_cpu_pct", NULL, UNIT_PCT, OF(total_cpu_pct),
	  .meaning = "of all time on a processor, with what it called", .metric = NO_METRIC },
	{ "ready_ns", NULL, UNIT_NS, OF(self.ready_ns), .meaning = "time waiting for a processor",
	  .metric = NO_METRIC },
	{ "wait_ns", "waiting", UNIT_NS, OF(self.wait_ns),
	  .meaning = "time waiting for anything else: a lock, a file, a device, another thread",
	  .metric = NO_METRIC },
	{ "wait_for", "for", UNIT_TEXT, MAY_READ(TEXT, wait_for),
	  .meaning = "the main cause of that waiting", .titled = STACKS_PLACES },
	{ "wait_pct", "share", UNIT_PCT, OF(wait_pct), .meaning = "of all such waiting",
	  .metric = NO_METRIC, .titled = STACKS_CAUSES },
	{ "total_wait_ns", NULL, UNIT_NS, OF(total.wait_ns),
	  .meaning = "time waiting for anything else, with what it called", .metric = NO_METRIC },
#define CAUSE(id, NAME, name, words)                                                               \
	{ "wait_" #name "_ns",                                                                     \
	  NULL,                                                                                    \
	  UNIT_NS,                                                                                 \
	  OF(self.wait_for_ns[id]),                                                                \
	  .meaning = "time waiting " words,                                                        \
	  .metric = NO_METRIC },
	WAIT_CAUSES(CAUSE)
#undef CAUSE
};

const struct field_set stacks_fields = {
	FIELDS(fields),
	.rows = { { ITEMS(struct sampled_stacks, rows, n) } },
	.levels = 1,
	.meaning = "function, thread, stack or cause of waiting, sampled from outside",
};

#define OF_ALL(member) MEMBER(struct sampled_stacks, member)

static const struct field total_fields[] = {
	{ "samples", NULL, UNIT_INT, OF_ALL(all.samples), .meaning = "samples of threads",
	  .grows = true },
	{ "threads", NULL, UNIT_INT, OF_ALL(threads), .meaning = "threads that were sampled" },
	{ "cpu_ns", NULL, UNIT_NS, OF_ALL(all.cpu_ns), .meaning = "time on a processor",
	  .metric = NO_METRIC, .grows = true },
	{ "ready_ns", NULL, UNIT_NS, OF_ALL(all.ready_ns),
	  .meaning = "time waiting for a processor", .metric = NO_METRIC, .grows = true },
	{ "wait_ns", NULL, UNIT_NS, OF_ALL(all.wait_ns),
	  .meaning = "time waiting for anything else", .metric = NO_METRIC, .grows = true },
#define CAUSE(id, NAME, name, words)                                                               \
	{ "wait_" #name "_ns",                                                                     \
	  NULL,                                                                                    \
	  UNIT_NS,                                                                                 \
	  OF_ALL(all.wait_for_ns[id]),                                                             \
	  .meaning = "time waiting " words,                                                        \
	  .metric = NO_METRIC,                                                                     \
	  .grows = true },
	WAIT_CAUSES(CAUSE)
#undef CAUSE
};

const struct field_set stacks_total = { FIELDS(total_fields) };
