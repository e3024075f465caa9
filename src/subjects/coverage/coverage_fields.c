/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the run device records cover, as fields; see coverage_fields.h.
 */
#include "subjects/coverage/coverage_fields.h"

#include "subjects/answers/answers.h"
#include "subjects/shared/coverage.h"

#define OF(member) MEMBER(struct coverage, member)

static const struct field fields[] = {
	{ "coverage_pct", NULL, UNIT_PCT, OF(coverage_pct) },
	{ "windows", NULL, UNIT_INT, OF(n_windows), .meaning = "their number" },
	{ "steps_covered", NULL, UNIT_INT, OF(steps_covered) },
	{ "steps", NULL, UNIT_INT, OF(steps),
	  .meaning = "finished steps of the watched processes" },
};

const struct field_group coverage_sampled = {
	FIELD_OBJECT, FIELD_ON_ONE_LINE, FIELDS(fields),
	PART("sampled", "Device records were collected in windows; figures are of the windows and "
			"never scaled up.")
};

const void *coverage_of(const struct field_row *at)
{
	return answer_coverage(at->answers);
}

const char *coverage_not_sampled(const struct field_row *at)
{
	const struct coverage *c = answer_coverage(at->answers);

	if (c->sampled)
		return NULL;
	return c->watched_ns > 0 ? "device records cover the whole run"
				 : field_unknown(c->coverage_pct);
}
