/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts for people and as fields; see verdicts_page.h.
 */
#include "verdicts/verdicts_page.h"

#include <stdio.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/steps/steps.h"

#define INDENT 11 /* columns of the words beside the severity */

static struct format evidence_value(const struct evidence *e)
{
	switch (e->unit) {
	case EVIDENCE_NS:
		return format_ns(e->v);
	case EVIDENCE_BYTES:
		return format_bytes(e->v);
	case EVIDENCE_PCT:
		return format_pct(e->v);
	case EVIDENCE_COUNT:
		return format_count(e->v);
	case EVIDENCE_NUMBER:
	case EVIDENCE_MHZ:
		break;
	}
	return format_ratio(e->v);
}

static void evidence_line(const struct verdict *v, struct page *page)
{
	page_words(page, INDENT, INDENT, "%s", "");
	for (size_t i = 0; i < v->n_evidence; i++) {
		const struct evidence *e = &v->evidence[i];
		char key[48];
		char *unit;

		/* The value carries its unit here: "p50 12.3 ms", not "p50_ns 12.3 ms". */
		snprintf(key, sizeof(key), "%s", e->key);
		unit = strrchr(key, '_');
		if (unit && (!strcmp(unit, "_ns") || !strcmp(unit, "_pct") ||
			     !strcmp(unit, "_bytes") || !strcmp(unit, "_mhz")))
			*unit = '\0';
		for (char *c = key; *c; c++)
			*c = *c == '_' && e->unit != EVIDENCE_NUMBER ? ' ' : *c;
		page_put(page, "%s%s %s%s", i ? ", " : "", key, evidence_value(e).text,
			 e->unit == EVIDENCE_MHZ ? " MHz" : "");
	}
	page_set_tone(page, TONE_FAINT);
}

enum tone verdict_tone(const struct verdict *verdict)
{
	static const enum tone tones[] = { TONE_BAD, TONE_WARNING, TONE_COOL, TONE_GOOD };

	return tones[verdict->severity];
}

static void verdict_lines(const struct scene *scene, const struct verdict *v, struct page *page)
{
	page_words(page, 2, INDENT, "%s", "");
	page_put_in(page, verdict_tone(v), "%-8s", severity_name(v->severity));
	page_put_in(page, TONE_PLAIN, " ");
	page_put_in(page, TONE_PLAIN, "%s", v->title);
	if (v->severity == SEVERITY_OK)
		return;
	/* Notes are short, so that what matters fits a screen; the JSON has their evidence. */
	if (v->n_evidence && v->severity < SEVERITY_NOTE)
		evidence_line(v, page);
	if (v->gain_pct.known && v->gain_assumption)
		page_words(page, INDENT, INDENT, "est. gain %s of %s, if %s",
			   format_pct(v->gain_pct.v).text,
			   v->gain_of				 ? v->gain_of
			   : answer_steps(scene->answers)->all.n ? "the step time"
								 : "the time of the device",
			   v->gain_assumption);
	page_words(page, INDENT, INDENT, "%s", v->advice);
}

void verdicts_page(const struct scene *scene, const struct verdicts *verdicts, struct page *page)
{
	page_title(page, "Verdicts");
	for (size_t i = 0; i < verdicts->n; i++)
		verdict_lines(scene, &verdicts->items[i], page);
	if (!verdicts->n)
		page_line(page, 2, "none: too little was recorded to judge");
}

static struct cell read_severity(const struct field_row *at)
{
	const struct verdict *v = at->item;

	return cell_text(severity_name(v->severity));
}

static struct cell read_place(const struct field_row *at)
{
	const struct verdict *v = at->item;
	const char *place = verdict_kind_find(v->id)->place;

	return place ? cell_text(place) : cell_absent("no table shows it");
}

static const char *evidence_name(const struct field_row *at, char *room, size_t size)
{
	const struct evidence *e = at->item;

	(void)room;
	(void)size;
	return e->key;
}

static const struct field evidence_field = { "value", .unit = UNIT_RATIO,
					     MEMBER(struct evidence, v) };

static const struct field_group evidence = {
	.shape = FIELD_MAP,
	.layout = FIELD_ON_ONE_LINE,
	.fields = &evidence_field,
	.n_fields = 1,
	.items = { ITEMS_INSIDE(struct verdict, evidence, n_evidence) },
	.name = evidence_name,
	PART("evidence", "Measured figures by key, with the unit in it."),
};

#define OF_WHEN(member) MEMBER(struct verdict_when, member)

static const struct field when_fields[] = {
	{ "what", NULL, UNIT_TEXT, OF_WHEN(what),
	  .meaning = "happened then, such as 'the slowest step'" },
	{ "start_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct verdict_when, start_ns),
	  .meaning = "since the start of the run", .metric = NO_METRIC },
	{ "end_ns", NULL, UNIT_NS, MEMBER_AS(FIELD_TIME, struct verdict_when, end_ns),
	  .meaning = "likewise; of a moment the same", .metric = NO_METRIC },
	{ "rank", NULL, UNIT_INT, OF_WHEN(rank), .meaning = "on which it was" },
	{ "device", NULL, UNIT_INT, MEMBER_AS(FIELD_WHOLE, struct verdict_when, device),
	  .meaning = "on which it was" },
	{ "lane", NULL, UNIT_TEXT, OF_WHEN(lane),
	  .meaning = "steps, kernels or copies: the lanes of the timeline that show it" },
};

static const struct field_group when = {
	.shape = FIELD_OBJECT,
	.layout = FIELD_ON_ONE_LINE,
	FIELDS(when_fields),
	PART("when", "A moment or stretch of time in which a verdict shows best."),
};

static const char *no_when(const struct field_row *at)
{
	return ((const struct verdict *)at->item)->when.what ? NULL : "no one moment shows it";
}

#define OF(member) MEMBER(struct verdict, member)

static const struct field verdict_fields[] = {
	{ "id", NULL, UNIT_TEXT, OF(id), .meaning = "of the rule" },
	{ "severity", NULL, UNIT_TEXT, READ(TEXT, read_severity),
	  .meaning = "critical, warning, note or ok" },
	{ "title", NULL, UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct verdict, title),
	  .meaning = "one sentence" },
	{ "evidence", .of = &evidence, .meaning = "the figures behind it" },
	{ "place", NULL, UNIT_TEXT, MAY_READ(TEXT, read_place),
	  .meaning = "TABLE.KEY: it shows in the largest rows of the table by this key" },
	{ "when", .offset = offsetof(struct verdict, when), .of = &when, .absent = no_when,
	  .meaning = "where on the timeline it shows" },
	{ "gain_pct", NULL, UNIT_PCT, OF(gain_pct), .meaning = "est., of the step time" },
	{ "gain_assumption", NULL, UNIT_TEXT, OF(gain_assumption), .read_may_lack = true,
	  .meaning = "under which the gain is estimated" },
	{ "advice", NULL, UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct verdict, advice),
	  .meaning = "what to do" },
};

static const struct field_group list = {
	.shape = FIELD_LIST,
	.layout = FIELD_SPREAD_OUT,
	FIELDS(verdict_fields),
	.items = { ITEMS(struct verdicts, items, n) },
	PART("verdict", "What the figures mean and what to do."),
};

static const struct field fields[] = {
	{ "verdicts", .of = &list, .meaning = "what the figures mean, most severe first" },
};

const struct field_set verdicts_fields = { FIELDS(fields) };

static const struct field columns[] = {
	{ "id", NULL, UNIT_TEXT, OF(id), .meaning = "of the rule" },
	{ "severity", NULL, UNIT_TEXT, READ(TEXT, read_severity),
	  .meaning = "critical, warning, note or ok" },
	{ "title", NULL, UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct verdict, title),
	  .meaning = "" },
	{ "gain_pct", NULL, UNIT_PCT, OF(gain_pct),
	  .meaning = "estimate, of the step time, under gain_assumption" },
	{ "gain_assumption", NULL, UNIT_TEXT, OF(gain_assumption), .none = "no gain is estimated",
	  .meaning = "" },
	{ "advice", NULL, UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct verdict, advice),
	  .meaning = "" },
	{ "evidence", NULL, UNIT_TEXT, MEMBER_AS(FIELD_TEXT_INSIDE, struct verdict, evidence_text),
	  .meaning = "key=value of the measured figures, by semicolons" },
};

const struct field_set verdict_rows = {
	FIELDS(columns),
	.rows = { { ITEMS(struct verdicts, items, n) } },
	.levels = 1,
};
