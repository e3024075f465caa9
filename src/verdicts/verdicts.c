/* SPDX-License-Identifier: Apache-2.0
 *
 * Every rule asked, and their verdicts in order; see rules.h.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_write.h"
#include "subjects/answers/subject.h"
#include "subjects/numbers/intervals.h"
#include "subjects/steps/steps.h"
#include "verdicts/rules.h"

static const struct rule {
	struct reader reader; /* its name is the id */
	bool (*judge)(const struct run *run, const struct answers *a, struct verdict *v);
} rules[] = {
#define RULE(id, name, place, about, ...) { { id, READS(__VA_ARGS__) }, rule_##name },
	VERDICT_RULES(RULE)
#undef RULE
};

const struct verdict_kind verdict_kinds[] = {
#define RULE(id, name, place, about, ...) { id, about, place },
	VERDICT_RULES(RULE)
#undef RULE
		{ 0 },
};

const struct verdict_kind *verdict_kind_find(const char *id)
{
	for (const struct verdict_kind *kind = verdict_kinds; kind->id; kind++)
		if (!strcmp(kind->id, id))
			return kind;
	return NULL;
}

#define GAIN_CRITICAL_PCT 20.0
#define GAIN_WARNING_PCT 5.0
#define N_RULES (sizeof(rules) / sizeof(rules[0]))

void rule_words(char *out, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(out, size, format, args);
	va_end(args);
}

void rule_when_step(struct verdict *v, const char *what, const struct step_row *step)
{
	if (step)
		v->when = (struct verdict_when){
			what,		"steps",
			step->start_ns, step->start_ns + step->duration_ns,
			step->rank,	value_absent("a step is of a process")
		};
}

void rule_when_span(const struct run *run, struct verdict *v, const char *what, const char *lane,
		    const struct span *span)
{
	if (span->end_ns > span->start_ns)
		v->when = (struct verdict_when){ what,
						 lane,
						 span->start_ns,
						 span->end_ns,
						 run->shards[span->shard].rank,
						 value_of(span->device) };
}

void rule_evidence(struct verdict *v, const char *key, enum evidence_unit unit, double value)
{
	if (v->n_evidence < VERDICT_EVIDENCE)
		v->evidence[v->n_evidence++] = (struct evidence){ key, value, unit };
}

enum severity rule_severity_of_gain(double gain_pct)
{
	return gain_pct >= GAIN_CRITICAL_PCT  ? SEVERITY_CRITICAL
	       : gain_pct >= GAIN_WARNING_PCT ? SEVERITY_WARNING
					      : SEVERITY_NOTE;
}

void rule_gain(struct verdict *v, double gain_pct, const char *assumption)
{
	gain_pct = gain_pct < 0 ? 0 : gain_pct > 100 ? 100 : gain_pct;
	v->gain_pct = value_of(gain_pct);
	v->gain_assumption = assumption;
	v->severity = rule_severity_of_gain(gain_pct);
}

const char *severity_name(enum severity severity)
{
	static const char *const names[] = { "critical", "warning", "note", "ok" };

	return names[severity];
}

/* Stable insertion: equal verdicts stay in the order of the table. */
static bool before(const struct verdict *a, const struct verdict *b)
{
	double gain_a = a->gain_pct.known ? a->gain_pct.v : -1;
	double gain_b = b->gain_pct.known ? b->gain_pct.v : -1;

	if (a->severity != b->severity)
		return a->severity < b->severity;
	return gain_a > gain_b;
}

void verdicts_reads(const struct subject **reads)
{
	bool seen[SUBJECT_COUNT] = { false };
	size_t n = 0;

	for (size_t i = 0; i < N_RULES; i++) {
		for (const struct subject *const *s = rules[i].reader.reads; *s; s++) {
			if (!seen[(*s)->id])
				reads[n++] = *s;
			seen[(*s)->id] = true;
		}
	}
	reads[n] = NULL;
}

static void write_evidence(struct verdict *v)
{
	size_t at = 0, size = sizeof(v->evidence_text);

	for (size_t e = 0; e < v->n_evidence && at < size; e++) {
		char number[40];

		json_format_double(number, sizeof(number), v->evidence[e].v);
		at += (size_t)snprintf(v->evidence_text + at, size - at, "%s%s=%s", e ? "; " : "",
				       v->evidence[e].key, number);
	}
}

int verdicts_analyze(const struct run *run, const struct answers *answers,
		     struct verdicts *ret_verdicts)
{
	struct verdict *items = calloc(N_RULES, sizeof(*items));
	size_t n = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < N_RULES; i++) {
		struct answers own = answers_for(answers, rules[i].reader);
		struct verdict v = { .id = rules[i].reader.name,
				     .gain_pct = value_absent("not a matter of time") };
		size_t at = n;

		if (!rules[i].judge(run, &own, &v))
			continue;
		write_evidence(&v);
		while (at && before(&v, &items[at - 1])) {
			items[at] = items[at - 1];
			at--;
		}
		items[at] = v;
		n++;
	}
	*ret_verdicts = (struct verdicts){ items, n };
	return 0;
}

void verdicts_release(struct verdicts *verdicts)
{
	free(verdicts->items);
	*verdicts = (struct verdicts){ 0 };
}
