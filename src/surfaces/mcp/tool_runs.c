/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools about runs as a whole: which there are, two side by side, and what their figures mean.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "surfaces/mcp/tool.h"

#define COMMAND_BYTES 200

static void json_time(struct json *json, int64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000);
	struct tm tm;
	char text[32];

	if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		return;
	json_key(json, "started");
	json_string(json, text);
}

static void recorded_json(struct json *json, const struct run *run)
{
	const struct run_info *info = &run->info;

	json_key(json, "command");
	json_clipped(json, info->command, COMMAND_BYTES);
	json_key(json, "status");
	json_string(json, info->status);
	if (!strcmp(info->status, "exited")) {
		json_key(json, "exit_status");
		json_int(json, info->exit_status);
	}
	if (info->started_realtime_ns > 0)
		json_time(json, info->started_realtime_ns);
	if (info->duration_known) {
		json_key(json, "duration_ns");
		json_int(json, info->duration_ns);
	}
	json_key(json, "steps");
	json_uint(json, run_rows(run, RECORD_STEP));
}

/* A file of another profiler would have to be imported to say more. */
static void run_json(const struct tool_call *call, const struct mcp_run *listed, struct json *json)
{
	struct err trouble = { "" };
	struct run *run;

	json_init_buffer(json, 0);
	json_object(json);
	json_key(json, "run");
	json_string(json, listed->name);
	if (listed->format) {
		json_key(json, "format");
		json_string(json, listed->format);
	} else if (call->host->load(call->host->context, listed->name, &(struct run_want){ 0 },
				    false, &run, &trouble) < 0) {
		json_key(json, "trouble");
		json_clipped(json, trouble.message, COMMAND_BYTES);
	} else {
		recorded_json(json, run);
		call->host->release(run);
	}
	json_object_end(json);
}

static int call_runs(const struct tool_call *call, FILE *out, struct err *err)
{
	size_t offset = tool_number(call, "offset");
	struct mcp_runs runs;
	struct listing listing;
	struct json item;
	int r = call->host->list(call->host->context, &runs, err);

	if (r < 0)
		return r;
	listing_begin(&listing);
	if (runs.more) {
		json_key(&listing.json, "note");
		json_string(&listing.json,
			    "too many files to look at all of them: there may be more "
			    "runs, which can be named");
	}
	json_key(&listing.json, "runs");
	json_array(&listing.json);
	for (size_t i = offset; i < runs.n; i++) {
		/* What is left out anyway is not opened. */
		if (listing.left_out) {
			listing.left_out++;
			continue;
		}
		run_json(call, &runs.runs[i], &item);
		listing_add(&listing, &item);
	}
	return listing_end(&listing, offset, out);
}

const struct tool tool_runs = {
	.name = "runs",
	.description = "The profiled runs in the directory, newest first: name, command, status, "
		       "start, duration, steps.",
	.arguments = { ARGUMENT_OFFSET },
	.call = call_runs,
};

/* What a function prints, cut at the end of a line. */
static int print_fitted(char *text, const char *more, FILE *out)
{
	size_t left_out = text_fitted(text, ANSWER_BYTES - 200, out);

	free(text);
	if (left_out)
		fprintf(out, "(%zu more lines are left out; %s)\n", left_out, more);
	return 0;
}

static int call_explain(const struct tool_call *call, FILE *out, struct err *err)
{
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);
	int r;

	if (!memory)
		return -ENOMEM;
	r = call->host->explain(call->host->context, tool_argument(call, "name"), memory, err);
	if (fclose(memory) != 0 && r >= 0)
		r = -ENOMEM;
	if (r >= 0)
		return print_fitted(text, "ask for one name", out);
	free(text);
	return r;
}

const struct tool tool_explain = {
	.name = "explain",
	.description = "What a figure or verdict means: definition, unit, source, caveats.",
	.arguments = { { .name = "name",
			 .help = "a metric, TABLE.KEY (a column), TABLE (all its columns) or the id "
				 "of a verdict",
			 .required = true } },
	.call = call_explain,
};

static int compare_named(const struct tool_call *call, const char *base, const char *other,
			 FILE *out, struct err *err)
{
	static const char *const names[] = { "steps", "sort", "limit" };
	struct mcp_word words[sizeof(names) / sizeof(names[0])];
	size_t n = 0, size;
	char *text = NULL;
	FILE *memory = open_memstream(&text, &size);
	int r;

	if (!memory)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = tool_argument(call, names[i]);

		if (!value && !strcmp(names[i], "limit"))
			value = "8";
		if (value)
			words[n++] = (struct mcp_word){ names[i], value };
	}
	r = call->host->compare(call->host->context, base, other, words, n, memory, err);
	if (fclose(memory) != 0 && r >= 0)
		r = -ENOMEM;
	if (r >= 0) {
		fprintf(out, "baseline %s, run %s\n", base, other);
		return print_fitted(text, "a smaller limit has fewer rows in each table", out);
	}
	free(text);
	return r;
}

static int call_compare(const struct tool_call *call, FILE *out, struct err *err)
{
	char *base = NULL, *other = NULL;
	int r = tool_run(call, "baseline", &base, err);

	if (r >= 0)
		r = tool_run(call, "run", &other, err);
	if (r >= 0)
		r = compare_named(call, base, other, out, err);
	free(base);
	free(other);
	return r;
}

const struct tool tool_compare = {
	.name = "compare",
	.description = "Two runs: what got faster or slower, with 95% intervals; noise is called "
		       "noise. Differences of the runs' conditions come first.",
	.arguments = { { .name = "baseline", .help = "name from `runs`", .required = true },
		       { .name = "run", .help = "name from `runs`", .required = true },
		       ARGUMENT_STEPS,
		       { .name = "sort", .help = "column of the tables of kernels and operations" },
		       { .name = "limit",
			 .help = "rows of each of these tables, default 8",
			 .kind = ARGUMENT_WHOLE } },
	.call = call_compare,
};
