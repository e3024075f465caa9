/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope explain: the definition of a number.
 */
#include <stddef.h>
#include <string.h>

#include "base/text/json_write.h"
#include "base/text/text_table.h"
#include "cmd/options/command.h"
#include "cmd/definitions/metrics.h"
#include "cmd/definitions/parts.h"
#include "cmd/definitions/schema.h"
#include "base/text/nearest.h"
#include "cmd/terminal/output.h"
#include "documents/document.h"
#include "verdicts/verdicts.h"

struct values {
	bool json, schema;
};

static const struct option_desc own[] = {
	{ .name = "json",
	  .kind = OPTION_FLAG,
	  .help = "print JSON",
	  .offset = offsetof(struct values, json) },
	{ .name = "schema",
	  .kind = OPTION_FLAG,
	  .help = "print the JSON Schema of all tables",
	  .offset = offsetof(struct values, schema) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope explain", "All metrics, by group." },
	{ "moescope explain cv_excess", "The definition, unit, source and caveats of one." },
	{ "moescope explain kernels.time_ns", "Of a key in the rows of 'moescope kernels'." },
	{ NULL, NULL },
};

static void metric_json(struct json *json, const struct metric *m, const struct metric_group *group)
{
	json_object(json);
	json_key(json, "name");
	json_string(json, m->name);
	json_key(json, "group");
	json_string(json, group->name);
	json_key(json, "unit");
	json_string(json, m->unit);
	json_key(json, "definition");
	json_string(json, m->definition);
	json_key(json, "source");
	json_string(json, m->source);
	json_key(json, "caveats");
	json_string(json, m->caveats);
	json_object_end(json);
}

static void explain_list(FILE *out, int width)
{
	for (const struct metric_group *const *g = metric_groups; *g; g++) {
		fprintf(out, "%s%s\n", g == metric_groups ? "" : "\n", (*g)->name);
		for (size_t i = 0; i < (*g)->n; i++) {
			fprintf(out, "  %-23s", (*g)->metrics[i].name);
			text_wrap(out, (*g)->metrics[i].definition, (size_t)width, 25, 25);
		}
	}
	fputs("\n'moescope explain METRIC' gives unit, source and caveats.\n", out);
}

static void explain_line(FILE *out, int width, const char *label, const char *text)
{
	fprintf(out, "  %-12s", label);
	text_wrap(out, text, (size_t)width, 14, 14);
}

static void explain_metric(FILE *out, int width, const struct metric *m,
			   const struct metric_group *group, bool unit)
{
	explain_line(out, width, "definition", m->definition);
	if (unit)
		explain_line(out, width, "unit", m->unit);
	explain_line(out, width, "source", m->source);
	if (m->caveats)
		explain_line(out, width, "caveats", m->caveats);
	if (group->symbols)
		explain_line(out, width, "symbols", group->symbols);
}

/* What is asked for: a key, a part, or a key of a part. Without parts: a metric, or all of them. */
struct asked_for {
	const struct verdict_kind *verdict; /* then the rest is about its evidence */
	const struct metric *metric;
	const struct metric_group *group;
	const struct part *part; /* NULL: any */
	const char *key;	 /* NULL: any */
	size_t n;		 /* keys that were found; of one, the metric is the one behind it */
	struct json *json;	 /* NULL: text */
	FILE *out;
	int width;
};

static const struct metric *metric_behind(const struct part_key *key,
					  const struct metric_group **ret_group)
{
	return metric_find(key->field->metric ? key->field->metric : key->key, ret_group);
}

static const char *unit_of(const struct part_key *key)
{
	const struct metric *metric = metric_find(key->key, NULL);
	const struct field *field = key->field;
	static const char *const units[] = {
		[UNIT_TEXT] = "text",	 [UNIT_INT] = "number",	  [UNIT_DEVICE] = "number",
		[UNIT_COUNT] = "number", [UNIT_NS] = "ns",	  [UNIT_BYTES] = "bytes",
		[UNIT_PCT] = "%",	 [UNIT_RATIO] = "number", [UNIT_FLOPS] = "FLOP",
		[UNIT_RATE] = "1/s",
	};

	if (metric && !strcmp(metric->name, key->key) && metric_behind(key, NULL) == metric)
		return metric->unit;
	if (field->of)
		return schema_type(field);
	return field->type == FIELD_BOOL ? "yes or no" : units[field->unit];
}

static void key_name(const struct part *part, const struct part_key *key, char *out, size_t size)
{
	snprintf(out, size, "%s.%s", part->row ? part->section->name : part->name, key->key);
}

static void key_json(struct json *json, const char *name, const struct part_key *key)
{
	const struct metric *metric = metric_behind(key, NULL);

	json_object(json);
	json_key(json, "name");
	json_string(json, name);
	json_key(json, "meaning");
	json_string(json, part_key_meaning(key));
	json_key(json, "unit");
	json_string(json, unit_of(key));
	json_key(json, "type");
	json_string(json, schema_type(key->field));
	json_key(json, "nullable");
	json_bool(json, key->nullable);
	if (key->field->title) {
		json_key(json, "title");
		json_string(json, key->field->title);
	}
	if (metric) {
		json_key(json, "metric");
		json_string(json, metric->name);
	}
	json_object_end(json);
}

static void explain_key(const struct asked_for *asked, const struct part_key *key)
{
	const struct metric *metric = asked->metric;
	const char *meaning = part_key_meaning(key);

	if (!metric || meaning != metric->definition)
		explain_line(asked->out, asked->width, "meaning", meaning);
	explain_line(asked->out, asked->width, "unit", unit_of(key));
	fprintf(asked->out, "  %-12s%s%s\n", "in JSON", schema_type(key->field),
		key->nullable ? " or null" : "");
	if (key->field->title)
		explain_line(asked->out, asked->width, "column", key->field->title);
	if (!metric)
		return;
	explain_line(asked->out, asked->width, "metric", metric->name);
	explain_metric(asked->out, asked->width, metric, asked->group, false);
}

static void find_key(const struct part *part, const struct part_key *key, void *data)
{
	struct asked_for *asked = data;

	(void)part;
	if (asked->key && strcmp(asked->key, key->key) != 0)
		return;
	asked->metric = asked->n++ ? NULL : metric_behind(key, &asked->group);
}

/* In a list of one part the keys alone. */
static void show_key(const struct part *part, const struct part_key *key, void *data)
{
	const struct asked_for *asked = data;
	char name[PART_NAME_SIZE + FIELD_NAME_SIZE];

	if (asked->key && strcmp(asked->key, key->key) != 0)
		return;
	key_name(part, key, name, sizeof(name));
	if (asked->json) {
		key_json(asked->json, name, key);
	} else if (asked->n == 1) {
		fprintf(asked->out, "%s\n", name);
		explain_key(asked, key);
	} else {
		fprintf(asked->out, "  %-33s ", asked->part ? key->key : name);
		text_wrap(asked->out, part_key_meaning(key), (size_t)asked->width, 36, 36);
	}
}

static void each_key(const struct parts *parts, struct asked_for *asked, part_visit visit)
{
	for (size_t i = 0; i < parts->n; i++)
		if (!asked->part || asked->part == &parts->items[i])
			part_each(&parts->items[i], visit, asked);
}

/* By the word: a metric; else "PART.KEY", "PART" or "KEY". */
static void look_for(const char *word, const struct parts *parts, struct asked_for *asked)
{
	const char *dot = strchr(word, '.');
	char part[PART_NAME_SIZE];

	asked->metric = metric_find(word, &asked->group);
	if (asked->metric)
		return;
	snprintf(part, sizeof(part), "%.*s", dot ? (int)(dot - word) : PART_NAME_SIZE - 1, word);
	asked->part = parts_find(parts, part);
	if (dot && !asked->part)
		return;
	if (dot || !asked->part)
		asked->key = dot ? dot + 1 : word;
	each_key(parts, asked, find_key);
}

static void explain_verdict(FILE *out, int width, const struct verdict_kind *verdict)
{
	fprintf(out, "%s\n", verdict->id);
	explain_line(out, width, "verdict", verdict->about);
	if (verdict->place)
		explain_line(out, width, "evidence", verdict->place);
}

static void verdict_json(struct json *json, const struct verdict_kind *verdict)
{
	json_key(json, "verdict");
	json_object(json);
	json_key(json, "id");
	json_string(json, verdict->id);
	json_key(json, "about");
	json_string(json, verdict->about);
	if (verdict->place) {
		json_key(json, "evidence");
		json_string(json, verdict->place);
	}
	json_object_end(json);
}

static int explain_json(const struct parts *parts, const struct asked_for *asked)
{
	struct asked_for in_json = *asked;
	struct json json;

	json_init_file(&json, asked->out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/explain/1");
	if (asked->verdict)
		verdict_json(&json, asked->verdict);
	json_key(&json, "rows");
	json_array(&json);
	if (asked->metric)
		metric_json(&json, asked->metric, asked->group);
	for (const struct metric_group *const *g = metric_groups;
	     !asked->verdict && !asked->metric && !asked->n && *g; g++)
		for (size_t i = 0; i < (*g)->n; i++)
			metric_json(&json, &(*g)->metrics[i], *g);
	json_array_end(&json);
	if (asked->n) {
		in_json.json = &json;
		json_key(&json, "fields");
		json_array(&json);
		each_key(parts, &in_json, show_key);
		json_array_end(&json);
	}
	json_object_end(&json);
	return json_finish(&json, NULL) < 0 ? fail("no memory for the output.") : EXIT_OK;
}

/* Metrics whose names hold the word, or are a slip or two away from it; verdicts that are. */
static int unknown_metric(const char *word)
{
	struct nearest nearest = nearest_to(word), verdict = nearest;
	char near[256] = "";
	size_t used = 0;

	for (const struct verdict_kind *kind = verdict_kinds; kind->id; kind++)
		nearest_offer(&verdict, kind->id);
	if (verdict.best)
		return fail("there is no metric or verdict '%s'; did you mean '%s'?", word,
			    verdict.best);

	for (const struct metric_group *const *g = metric_groups; *g; g++) {
		for (size_t i = 0; i < (*g)->n; i++) {
			const char *name = (*g)->metrics[i].name;
			size_t room = sizeof(near) - used;

			if (!strstr(name, word) && word_distance(word, name) >= nearest.distance)
				continue;
			if (strlen(name) + 5 < room)
				used += (size_t)snprintf(near + used, room, "%s'%s'",
							 used ? ", " : "", name);
		}
	}
	if (used)
		return fail("there is no metric '%s'; near it: %s. 'moescope explain' lists all.",
			    word, near);
	return fail("there is no metric '%s'; 'moescope explain' lists all.", word);
}

static int run_explain(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct asked_for asked = { .out = inv->out->file, .width = terminal_look().columns };
	const char *word = inv->n_args ? inv->args[0] : NULL;
	struct parts parts;

	if (values->schema)
		return schema_print(asked.out) < 0 ? fail("cannot make the schema.") : EXIT_OK;
	if (parts_collect(&parts) < 0)
		return fail("there are more parts than expected.");
	asked.verdict = word ? verdict_kind_find(word) : NULL;
	if (asked.verdict)
		word = asked.verdict->place;
	if (word)
		look_for(word, &parts, &asked);
	if (word && !asked.metric && !asked.n)
		return unknown_metric(word);
	if (values->json)
		return explain_json(&parts, &asked);
	if (asked.verdict)
		explain_verdict(asked.out, asked.width, asked.verdict);
	if (asked.n) {
		if (asked.n > 1)
			fprintf(asked.out, "%s\n", word);
		each_key(&parts, &asked, show_key);
	} else if (asked.metric) {
		fprintf(asked.out, "%s\n", asked.metric->name);
		explain_metric(asked.out, asked.width, asked.metric, asked.group, true);
	} else if (!asked.verdict) {
		explain_list(asked.out, asked.width);
	}
	return EXIT_OK;
}

const struct command cmd_explain = {
	.name = "explain",
	.purpose = PURPOSE_HELP,
	.summary = "what a number means, and where it comes from",
	.words = "[METRIC]",
	.description = "Prints the definition, the unit, the source and the caveats of a metric, "
		       "or all definitions by group. A key of a table's rows may be given as "
		       "TABLE.KEY; a table alone lists its keys.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.completion = COMPLETE_METRIC,
	.run = run_explain,
};
