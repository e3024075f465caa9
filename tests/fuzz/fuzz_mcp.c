/* SPDX-License-Identifier: Apache-2.0
 *
 * Arbitrary lines to the server of the Model Context Protocol: each gets at most one line, which is JSON with a
 * version, and an error has a sentence. The tools are not those of the server: they give back what they are
 * given, so that arguments are read as well.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"
#include "documents/document.h"
#include "fuzz.h"
#include "surfaces/mcp/tool.h"

static int echo(const struct tool_call *call, FILE *out, struct err *err)
{
	const struct json_node *node = call->arguments ? call->arguments->child : NULL;
	char *run = NULL;
	int r = tool_run(call, "run", &run, err);

	free(run);
	for (; node; node = node->next)
		fprintf(out, "%s=%s %zu\n", node->key,
			tool_argument(call, node->key) ? tool_argument(call, node->key) : "",
			tool_number(call, "offset"));
	return r;
}

#define TOOL(id)                                                                                   \
	const struct tool tool_##id = {                                                            \
		.name = #id,                                                                       \
		.description = "",                                                                 \
		.arguments = { { .name = "table", .help = "", .required = true },                  \
			       ARGUMENT_RUN,                                                       \
			       ARGUMENT_OFFSET },                                                  \
		.of_tables = true,                                                                 \
		.call = echo,                                                                      \
	}
TOOL(runs);
TOOL(verdicts);
TOOL(table);
TOOL(explain);
TOOL(sql);
TOOL(compare);

extern const struct section second;
static const char *const choices[] = { "a", "b", NULL };
static const struct section *const tables[] = { &second, &second };
static const struct question_parameter
	by = { .name = "by", .kind = ASK_CHOICE, .help = "", .choices = choices },
	layer = { .name = "layer", .kind = ASK_NUMBER, .help = "" },
	flag = { .name = "flag", .kind = ASK_FLAG, .help = "" },
	file = { .name = "file", .kind = ASK_FILE, .help = "" },
	table = { .name = "which", .kind = ASK_TABLE, .help = "", .choices = choices };
static const struct section first = { .name = "first",
				      .command = { .summary = "",
						   .parameters = PARAMETERS(&by, &layer, &flag,
									    &file, &table),
						   .tables = tables } },
			    third = { .name = "third", .command = { .summary = "" } };
const struct section second = { .name = "second" };
const struct section *const sections[] = { &first, &second, &third, NULL };

static int find(void *context, const char *given, char **ret_name, struct err *err)
{
	(void)context;
	if (given && *given == '!')
		return err_set(err, -1, "there is no run '%s'", given);
	*ret_name = strdup(given ? given : "");
	return *ret_name ? 0 : -1;
}

static void check_one(const struct json_node *node)
{
	const struct json_node *error = json_get(node, "error");

	if (strcmp(json_get_string(node, "jsonrpc", ""), "2.0") != 0 || !json_get(node, "id"))
		abort();
	if (!error == !json_get(node, "result"))
		abort();
	if (error && !*json_get_string(error, "message", ""))
		abort();
}

static void check_answer(const char *text, size_t size)
{
	struct json_node *root = NULL;
	struct err err = { "" };

	if (!size)
		return;
	if (text[size - 1] != '\n' || memchr(text, '\n', size - 1) ||
	    json_parse("answer", text, size, &root, &err) < 0)
		abort();
	if (root->type != JSON_ARRAY)
		check_one(root);
	for (const struct json_node *node = root->type == JSON_ARRAY ? root->child : NULL; node;
	     node = node->next)
		check_one(node);
	json_node_free(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct mcp_host host = { .version = "0", .find = find };
	FILE *in = size ? fmemopen((void *)data, size, "r") : NULL;
	struct buf line = { 0 };

	while (in && mcp_read(in, &line) > 0) {
		char *text = NULL, *exact = malloc(line.size + !line.size);
		size_t length = 0;
		FILE *out = open_memstream(&text, &length);

		if (!out || !exact)
			abort();
		if (line.size)
			memcpy(exact, line.data, line.size); /* a byte too far is seen */
		if (mcp_answer(&host, exact, line.size, out) < 0 || fclose(out) != 0)
			abort();
		check_answer(text, length);
		free(text);
		free(exact);
	}
	if (in)
		fclose(in);
	buf_release(&line);
	return 0;
}
