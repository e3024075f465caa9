/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of all requests; see openapi.h.
 */
#include "surfaces/http/openapi.h"

#include <string.h>

#include "base/text/json_write.h"
#include "base/version.h"
#include "documents/document.h"
#include "surfaces/http/http.h"
#include "surfaces/http/parameters.h"
#include "surfaces/http/timeline_routes.h"

static void openapi_reply(struct json *json, const char *words, const char *type)
{
	json_key(json, "responses");
	json_object(json);
	json_key(json, "200");
	json_object_line(json);
	json_key(json, "description");
	json_string(json, words);
	json_key(json, "content");
	json_object(json);
	json_key(json, type);
	json_object(json);
	json_object_end(json);
	json_object_end(json);
	json_object_end(json);
	json_key(json, "default");
	json_object_line(json);
	json_key(json, "$ref");
	json_string(json, "#/components/responses/error");
	json_object_end(json);
	json_object_end(json);
}

static void openapi_parameter(struct json *json, const char *name, const char *in,
			      const char *words)
{
	json_object_line(json);
	json_key(json, "name");
	json_string(json, name);
	json_key(json, "in");
	json_string(json, in);
	json_key(json, "required");
	json_bool(json, !strcmp(in, "path"));
	json_key(json, "description");
	json_string(json, words);
	json_key(json, "schema");
	json_object(json);
	json_key(json, "type");
	json_string(json, "string");
	json_object_end(json);
	json_object_end(json);
}

/* A path up to its parameters, which the caller writes. */
static void openapi_begin(struct json *json, const char *path, const char *words, bool run)
{
	json_key(json, path);
	json_object(json);
	json_key(json, "get");
	json_object(json);
	json_key(json, "summary");
	json_string(json, words);
	json_key(json, "parameters");
	json_array(json);
	if (run)
		openapi_parameter(json, "run", "path", "the name of a run, of /api/runs");
}

static void openapi_end(struct json *json, const char *reply, const char *type)
{
	json_array_end(json);
	openapi_reply(json, reply, type);
	json_object_end(json);
	json_object_end(json);
}

/* run: it has one in its path. section: whose parameters it has; NULL: none. */
static void openapi_path(struct json *json, const char *path, const char *words, const char *reply,
			 const char *type, bool run, const struct section *section)
{
	struct http_parameter p;

	openapi_begin(json, path, words, run);
	for (size_t i = 0; section && (p = view_parameter_at(section, i)).name; i++)
		openapi_parameter(json, p.name, "query", p.help);
	openapi_end(json, reply, type);
}

static void openapi_timeline(struct json *json, const struct timeline_route *route)
{
	char path[64];

	snprintf(path, sizeof(path), "/api/runs/{run}/timeline%s%s", *route->name ? "/" : "",
		 route->name);
	openapi_begin(json, path, route->words, true);
	for (size_t i = 0; route->parameters[i].name; i++)
		openapi_parameter(json, route->parameters[i].name, "query",
				  route->parameters[i].help);
	openapi_end(json, route->reply, "application/json");
}

static void openapi_view(struct json *json, const struct section *section)
{
	char path[128], words[160], schema[64];

	if (section->document && section->document->not_json)
		return;
	section_schema(section, schema, sizeof(schema));
	snprintf(path, sizeof(path), "/api/runs/{run}/%s", section->name);
	snprintf(words, sizeof(words), "An object of the schema %s (docs/json.md).", schema);
	openapi_path(json, path, section->name, words, "application/json", true, section);
}

static void openapi_errors(struct json *json)
{
	json_key(json, "components");
	json_object(json);
	json_key(json, "responses");
	json_object(json);
	json_key(json, "error");
	json_object(json);
	json_key(json, "description");
	json_string(json, "What is wrong, in one sentence.");
	json_key(json, "content");
	json_raw(json, "{\"application/json\": {\"schema\": {\"type\": \"object\", "
		       "\"properties\": {\"error\": {\"type\": \"string\"}}}}}");
	json_object_end(json);
	json_object_end(json);
	json_object_end(json);
}

int openapi_print(const void *options, FILE *out, struct err *err)
{
	const struct http_options *given = options;
	struct json json;

	(void)err;
	json_init_file(&json, out, 2);
	json_object(&json);
	json_key(&json, "openapi");
	json_string(&json, "3.1.0");
	json_key(&json, "info");
	json_object_line(&json);
	json_key(&json, "title");
	json_string(&json, "moescope serve");
	json_key(&json, "version");
	json_string(&json, VERSION_TEXT);
	json_object_end(&json);
	json_key(&json, "paths");
	json_object(&json);
	openapi_path(&json, "/api/runs", "the runs, the newest first", "A row for each run.",
		     "application/json", false, NULL);
	for (const struct section *const *s = sections; *s; s++)
		openapi_view(&json, *s);
	for (const struct timeline_route *route = timeline_routes; route->words; route++)
		openapi_timeline(&json, route);
	openapi_path(&json, "/api/runs/{run}/events", "when the run has changed",
		     "Server-sent events: changed, gone.", "text/event-stream", true, NULL);
	if (given->metrics)
		openapi_path(&json, "/metrics", "the newest run, for a monitoring system",
			     "OpenMetrics.", "application/openmetrics-text", false, NULL);
	json_object_end(&json);
	openapi_errors(&json);
	json_object_end(&json);
	return json_finish(&json, NULL);
}
