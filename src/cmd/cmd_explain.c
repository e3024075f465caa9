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
#include "base/text/nearest.h"
#include "cmd/terminal/output.h"

struct values {
	bool json;
};

static const struct option_desc own[] = {
	{ .name = "json",
	  .kind = OPTION_FLAG,
	  .help = "print JSON",
	  .offset = offsetof(struct values, json) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope explain", "All metrics, by group." },
	{ "moescope explain cv_excess", "The definition, unit, source and caveats of one." },
	{ NULL, NULL },
};

static void metric_json(struct json *json, const struct metric *m)
{
	json_object(json);
	json_key(json, "name");
	json_string(json, m->name);
	json_key(json, "group");
	json_string(json, m->group);
	json_key(json, "unit");
	json_string(json, m->unit);
	json_key(json, "definition");
	json_string(json, m->definition);
	json_key(json, "source");
	json_string(json, m->source);
	json_key(json, "caveats");
	json_string(json, *m->caveats ? m->caveats : NULL);
	json_object_end(json);
}

/* The whole table, or only `one`. */
static int explain_json(FILE *out, const struct metric *one)
{
	struct json json;

	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "schema");
	json_string(&json, "moescope/explain/1");
	json_key(&json, "rows");
	json_array(&json);
	if (one)
		metric_json(&json, one);
	else
		for (const struct metric *m = metrics; m->name; m++)
			metric_json(&json, m);
	json_array_end(&json);
	json_object_end(&json);
	return json_finish(&json, NULL) < 0 ? fail("no memory for the output.") : EXIT_OK;
}

static void explain_list(FILE *out, int width)
{
	const char *group = "";

	for (const struct metric *m = metrics; m->name; m++) {
		if (strcmp(group, m->group) != 0) {
			fprintf(out, "%s%s\n", *group ? "\n" : "", m->group);
			group = m->group;
		}
		fprintf(out, "  %-23s", m->name);
		text_wrap(out, m->definition, (size_t)width, 25, 25);
	}
	fputs("\n'moescope explain METRIC' gives unit, source and caveats.\n", out);
}

static void explain_line(FILE *out, int width, const char *label, const char *text)
{
	fprintf(out, "  %-12s", label);
	text_wrap(out, text, (size_t)width, 14, 14);
}

static void explain_one(FILE *out, int width, const struct metric *m)
{
	fprintf(out, "%s\n", m->name);
	explain_line(out, width, "definition", m->definition);
	explain_line(out, width, "unit", m->unit);
	explain_line(out, width, "source", m->source);
	if (*m->caveats)
		explain_line(out, width, "caveats", m->caveats);
	if (strcmp(m->group, "routing") == 0)
		explain_line(out, width, "symbols",
			     "T valid tokens, E experts, k slots per token, n_e assignments to "
			     "expert e, N = sum n_e, m = N/E, p_e = n_e/N, C capacity of an "
			     "expert, H hidden width, I inner width of an expert");
}

/* Metrics whose names hold the word, or are a slip or two away from it. */
static int unknown_metric(const char *word)
{
	struct nearest nearest = nearest_to(word);
	char near[256] = "";
	size_t used = 0;

	for (const struct metric *m = metrics; m->name; m++) {
		size_t room = sizeof(near) - used;

		if (!strstr(m->name, word) && word_distance(word, m->name) >= nearest.distance)
			continue;
		if (strlen(m->name) + 5 < room)
			used += (size_t)snprintf(near + used, room, "%s'%s'", used ? ", " : "",
						 m->name);
	}
	if (used)
		return fail("there is no metric '%s'; near it: %s. 'moescope explain' lists all.",
			    word, near);
	return fail("there is no metric '%s'; 'moescope explain' lists all.", word);
}

static int run_explain(struct invocation *inv)
{
	const struct values *values = inv->values;
	const struct metric *metric;
	int width = terminal_look().columns;

	if (inv->n_args == 0) {
		if (values->json)
			return explain_json(inv->out->file, NULL);
		explain_list(inv->out->file, width);
		return EXIT_OK;
	}
	metric = metric_find(inv->args[0]);
	if (metric) {
		if (values->json)
			return explain_json(inv->out->file, metric);
		explain_one(inv->out->file, width, metric);
		return EXIT_OK;
	}
	return unknown_metric(inv->args[0]);
}

const struct command cmd_explain = {
	.name = "explain",
	.purpose = PURPOSE_HELP,
	.summary = "what a number means, and where it comes from",
	.words = "[METRIC]",
	.description = "Prints the definition, the unit, the source and the caveats of a metric, "
		       "or all definitions by group.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.completion = COMPLETE_METRIC,
	.run = run_explain,
};
