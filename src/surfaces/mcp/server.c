/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods of the Model Context Protocol. Failures of the protocol are errors of JSON-RPC; failures of a
 * tool are answers that say so, as the protocol wants it: agents read those and correct themselves.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "base/text/utf8.h"
#include "surfaces/mcp/message.h"
#include "surfaces/mcp/tool.h"

#define VERSION_KEY "io.modelcontextprotocol/protocolVersion"

/* The newest first: versions that begin with a handshake, and those in which each request says its version. */
static const char *const handshake_versions[] = { "2025-11-25", "2025-06-18", "2025-03-26",
						  "2024-11-05", NULL };
static const char *const stateless_versions[] = { "2026-07-28", NULL };

static const struct tool *const tools[] = {
	&tool_verdicts, &tool_table, &tool_runs, &tool_explain, &tool_sql, &tool_compare, NULL
};

static const char instructions[] =
	"moescope profiles LLM and MoE programs. Start with `verdicts`: it names causes, most important "
	"first, with evidence. Follow a verdict's table, sort and rows with `table`; `explain` its id or a "
	"figure. After a change record again (`moescope run -- COMMAND`) and `compare`. Times are in ns "
	"where keys end in _ns. Answers are cut to 4,000 tokens and say what they left out.";

static void json_texts(struct json *json, const char *const *texts)
{
	for (; *texts; texts++)
		json_string(json, *texts);
}

static void json_versions(struct json *json, const char *key)
{
	json_key(json, key);
	json_array(json);
	json_texts(json, stateless_versions);
	json_texts(json, handshake_versions);
	json_array_end(json);
}

static const char *find_text(const char *const *texts, const char *text)
{
	for (; *texts; texts++)
		if (!strcmp(*texts, text))
			return *texts;
	return NULL;
}

static void about_server(const struct mcp_host *host, struct json *json)
{
	json_key(json, "capabilities");
	json_object(json);
	json_key(json, "tools");
	json_object(json);
	json_object_end(json);
	json_object_end(json);
	json_key(json, "serverInfo");
	json_object(json);
	json_key(json, "name");
	json_string(json, "moescope");
	json_key(json, "version");
	json_string(json, host->version);
	json_object_end(json);
	json_key(json, "instructions");
	json_string(json, instructions);
}

/* The version that the client asks for, or the newest: then it is the client's to leave. */
static void initialize(const struct mcp_host *host, const struct request *request)
{
	const char *wanted = json_get_string(request->params, "protocolVersion", NULL);
	const char *spoken = wanted ? find_text(handshake_versions, wanted) : NULL;

	if (!wanted) {
		reply_error(request, RPC_BAD_PARAMS, "initialize needs a protocolVersion.");
		return;
	}
	reply_begin(request);
	json_key(request->reply, "protocolVersion");
	json_string(request->reply, spoken ? spoken : handshake_versions[0]);
	about_server(host, request->reply);
	reply_end(request);
}

/* What may be kept: the tools are the same for as long as the server runs. */
static void cache_keys(const struct request *request)
{
	if (!request->stateless)
		return;
	json_key(request->reply, "ttlMs");
	json_int(request->reply, 3600000);
	json_key(request->reply, "cacheScope");
	json_string(request->reply, "private");
}

static void discover(const struct mcp_host *host, const struct request *request)
{
	reply_begin(request);
	json_versions(request->reply, "supportedVersions");
	about_server(host, request->reply);
	cache_keys(request);
	reply_end(request);
}

static void ping(const struct mcp_host *host, const struct request *request)
{
	(void)host;
	reply_begin(request);
	reply_end(request);
}

static void argument_json(struct json *json, const struct argument *argument, const char *of)
{
	static const char *const types[] = { "string", "integer", "boolean" };
	char text[600];

	json_key(json, argument->name);
	json_object(json);
	json_key(json, "type");
	json_string(json, types[argument->kind]);
	if (argument->choices) {
		json_key(json, "enum");
		json_array(json);
		json_texts(json, argument->choices);
		json_array_end(json);
	}
	json_key(json, "description");
	snprintf(text, sizeof(text), "%s%s", argument->help, of);
	json_string(json, text);
	json_object_end(json);
}

/* Which tables have a parameter, in words; "" if all do. Those of one command have the same: "routing*". */
static void tables_with(const char *name, char *text, size_t size)
{
	const struct section *table;
	struct argument parameter;
	char names[2][300] = { "", "" }; /* of those that have it not, and that have it */
	size_t n[2] = { 0, 0 }, used[2] = { 0, 0 };
	bool fewer;

	for (size_t i = 0; (table = tool_table_at(i)); i++) {
		bool has = tool_table_has(table, name, &parameter);

		if (used[has] < sizeof(names[has]) && tool_table_owner(table) == table)
			used[has] += (size_t)snprintf(
				names[has] + used[has], sizeof(names[has]) - used[has], "%s%s%s",
				n[has] ? ", " : "", table->name, table->command.tables ? "*" : "");
		n[has]++;
	}
	fewer = n[1] <= n[0];
	snprintf(text, size, "%s%s",
		 !n[0]	 ? ""
		 : fewer ? "; of "
			 : "; not of ",
		 n[0] ? names[fewer] : "");
}

/* Each once, from the first table that has it. */
static void table_parameters_json(struct json *json)
{
	const struct section *table, *before;
	struct argument parameter, same;
	char of[300];

	for (size_t t = 0; (table = tool_table_at(t)); t++) {
		for (size_t i = 0; tool_parameter(table, i, &parameter); i++) {
			bool seen = false;

			for (size_t b = 0; b < t && (before = tool_table_at(b)); b++)
				seen = seen || tool_table_has(before, parameter.name, &same);
			if (seen)
				continue;
			tables_with(parameter.name, of, sizeof(of));
			argument_json(json, &parameter, of);
		}
	}
}

static void table_names_json(struct json *json, const struct argument *argument)
{
	const struct section *table;

	json_key(json, argument->name);
	json_object(json);
	json_key(json, "type");
	json_string(json, "string");
	json_key(json, "enum");
	json_array(json);
	for (size_t i = 0; (table = tool_table_at(i)); i++)
		json_string(json, table->name);
	json_array_end(json);
	json_object_end(json);
}

static void tool_json(const struct tool *tool, struct json *json)
{
	const struct argument *argument;

	json_object(json);
	json_key(json, "name");
	json_string(json, tool->name);
	json_key(json, "description");
	json_string(json, tool->description);
	json_key(json, "inputSchema");
	json_object(json);
	json_key(json, "type");
	json_string(json, "object");
	json_key(json, "properties");
	json_object(json);
	for (argument = tool->arguments; argument->name; argument++) {
		if (tool->of_tables && argument == tool->arguments)
			table_names_json(json, argument);
		else
			argument_json(json, argument, "");
	}
	if (tool->of_tables)
		table_parameters_json(json);
	json_object_end(json);
	json_key(json, "required");
	json_array(json);
	for (argument = tool->arguments; argument->name; argument++)
		if (argument->required)
			json_string(json, argument->name);
	json_array_end(json);
	json_key(json, "additionalProperties");
	json_bool(json, false);
	json_object_end(json);
	json_key(json, "annotations");
	json_object(json);
	json_key(json, "readOnlyHint");
	json_bool(json, true);
	json_object_end(json);
	json_object_end(json);
}

static void list_tools(const struct mcp_host *host, const struct request *request)
{
	(void)host;
	reply_begin(request);
	json_key(request->reply, "tools");
	json_array(request->reply);
	for (const struct tool *const *tool = tools; *tool; tool++)
		tool_json(*tool, request->reply);
	json_array_end(request->reply);
	cache_keys(request);
	reply_end(request);
}

static void reply_text(const struct request *request, const char *text, bool failed)
{
	struct json *json = request->reply;

	reply_begin(request);
	json_key(json, "content");
	json_array(json);
	json_object(json);
	json_key(json, "type");
	json_string(json, "text");
	json_key(json, "text");
	json_string(json, text);
	json_object_end(json);
	json_array_end(json);
	json_key(json, "isError");
	json_bool(json, failed);
	reply_end(request);
}

/* Messages from below name what failed, not how a sentence ends; and names in them may hold anything. */
static void end_sentence(struct err *err)
{
	size_t n;

	utf8_make_harmless(err->message);
	n = strlen(err->message);
	if (!strchr(".?!", err->message[n - 1]) && n + 1 < sizeof(err->message))
		memcpy(err->message + n, ".", sizeof("."));
}

static void run_tool(const struct tool_call *call, const struct tool *tool,
		     const struct request *request)
{
	struct err err = { "" };
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);
	int r = -ENOMEM;

	if (memory) {
		r = tool_check(call, tool, &err);
		if (r >= 0)
			r = tool->call(call, memory, &err);
		if (fclose(memory) != 0 && r >= 0)
			r = -ENOMEM;
	}
	if (r < 0 && !err.message[0])
		err_sys(&err, r, "the tool '%s' failed", tool->name);
	if (r < 0)
		end_sentence(&err);
	reply_text(request, r < 0 ? err.message : text, r < 0);
	free(text);
}

static void call_tool(const struct mcp_host *host, const struct request *request)
{
	const char *name = json_get_string(request->params, "name", NULL);
	struct tool_call call = { host, json_get(request->params, "arguments") };
	struct nearest nearest = nearest_to(name ? name : "");

	if (call.arguments && call.arguments->type == JSON_NULL)
		call.arguments = NULL;
	if (!name || (call.arguments && call.arguments->type != JSON_OBJECT)) {
		reply_error(request, RPC_BAD_PARAMS,
			    "tools/call needs a name, and arguments as an object.");
		return;
	}
	for (const struct tool *const *tool = tools; *tool; tool++) {
		if (!strcmp((*tool)->name, name)) {
			run_tool(&call, *tool, request);
			return;
		}
		nearest_offer(&nearest, (*tool)->name);
	}
	reply_error(request, RPC_BAD_PARAMS, "there is no tool '%.60s'%s%s%s", name,
		    nearest.best ? "; did you mean '" : "", nearest.best ? nearest.best : "",
		    nearest.best ? "'?" : "; tools/list has them.");
}

static const struct {
	const char *name;
	void (*answer)(const struct mcp_host *host, const struct request *request);
} methods[] = {
	{ "initialize", initialize }, { "server/discover", discover }, { "ping", ping },
	{ "tools/list", list_tools }, { "tools/call", call_tool },
};

static void unknown_version(const struct request *request, const char *version)
{
	reply_begin_error(request, RPC_VERSION, "this version of the protocol is not spoken here.");
	json_key(request->reply, "data");
	json_object(request->reply);
	json_versions(request->reply, "supported");
	json_key(request->reply, "requested");
	json_string(request->reply, version);
	json_object_end(request->reply);
	reply_end(request);
}

void request_answer(const struct mcp_host *host, struct request *request)
{
	const char *version = json_get_string(json_get(request->params, "_meta"), VERSION_KEY,
					      NULL);

	request->stateless = version && find_text(stateless_versions, version);
	if (version && !request->stateless && !find_text(handshake_versions, version)) {
		unknown_version(request, version);
		return;
	}
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (!strcmp(methods[i].name, request->method)) {
			methods[i].answer(host, request);
			return;
		}
	reply_error(request, RPC_NO_METHOD, "there is no method '%.60s'.", request->method);
}
