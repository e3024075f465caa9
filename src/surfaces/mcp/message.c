/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines in, lines out; see mcp.h and message.h. What is not a request gets one sentence, or, where JSON-RPC
 * wants silence, none.
 */
#include "surfaces/mcp/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

int mcp_read(FILE *in, struct buf *line)
{
	int c;

	line->size = 0;
	while ((c = getc_unlocked(in)) != EOF && c != '\n') {
		char byte = (char)c;

		if (line->size <= MCP_MESSAGE_MAX)
			buf_append(line, &byte, 1);
	}
	if (line->failed)
		return -ENOMEM;
	if (c == EOF && ferror(in))
		return -EIO;
	return c != EOF || line->size;
}

static void reply_head(const struct request *request, const char *key)
{
	struct json *json = request->reply;

	json_object(json);
	json_key(json, "jsonrpc");
	json_string(json, "2.0");
	json_key(json, "id");
	if (!request->id)
		json_null(json);
	else if (request->id->type == JSON_NUMBER)
		json_raw(json, request->id->text);
	else
		json_string(json, request->id->text);
	json_key(json, key);
	json_object(json);
}

void reply_begin(const struct request *request)
{
	reply_head(request, "result");
	if (request->stateless) {
		json_key(request->reply, "resultType");
		json_string(request->reply, "complete");
	}
}

void reply_begin_error(const struct request *request, enum rpc_error code, const char *message)
{
	reply_head(request, "error");
	json_key(request->reply, "code");
	json_int(request->reply, code);
	json_key(request->reply, "message");
	json_string(request->reply, message);
}

void reply_end(const struct request *request)
{
	json_object_end(request->reply);
	json_object_end(request->reply);
}

void reply_error(const struct request *request, enum rpc_error code, const char *format, ...)
{
	char text[1200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	utf8_make_harmless(text);
	reply_begin_error(request, code, text);
	reply_end(request);
}

static bool is_scalar(const struct json_node *node)
{
	return node && (node->type == JSON_STRING || node->type == JSON_NUMBER);
}

/* Notifications get no answer, and neither do answers: the server asks nothing. */
static void take_message(const struct mcp_host *host, const struct json_node *node,
			 struct json *reply)
{
	const struct json_node *id = json_get(node, "id"), *params = json_get(node, "params");
	struct request request = { .id = is_scalar(id) ? id : NULL,
				   .method = json_get_string(node, "method", NULL),
				   .params = params,
				   .reply = reply };

	if (node->type != JSON_OBJECT || strcmp(json_get_string(node, "jsonrpc", ""), "2.0") != 0)
		reply_error(&request, RPC_INVALID,
			    "a message is an object with \"jsonrpc\": \"2.0\".");
	else if (request.method ? !id : json_get(node, "result") || json_get(node, "error"))
		return;
	else if (!request.method)
		reply_error(&request, RPC_INVALID, "the message has no method.");
	else if (!request.id)
		reply_error(&request, RPC_INVALID, "the id must be a text or a number.");
	else if (params && params->type != JSON_OBJECT)
		reply_error(&request, RPC_BAD_PARAMS, "params must be an object.");
	else
		request_answer(host, &request);
}

static void take_batch(const struct mcp_host *host, const struct json_node *root,
		       struct json *reply)
{
	json_array(reply);
	for (const struct json_node *node = root->child; node; node = node->next)
		take_message(host, node, reply);
	json_array_end(reply);
}

/* Where the text stops being UTF-8; its length if it is. */
static size_t valid_length(const char *text, size_t length)
{
	size_t at = 0;

	while (at < length) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text + at, length - at, &point, &valid);

		if (!valid)
			break;
		at += n;
	}
	return at;
}

static void take_text(const struct mcp_host *host, const char *text, size_t length,
		      struct json *reply)
{
	struct request nobody = { .reply = reply };
	size_t valid = valid_length(text, length);
	struct json_node *root = NULL;
	struct err err = { "" };

	if (length > MCP_MESSAGE_MAX)
		reply_error(&nobody, RPC_INVALID, "a message has at most %zu bytes.",
			    MCP_MESSAGE_MAX);
	else if (valid < length)
		reply_error(&nobody, RPC_NOT_JSON, "the message is not UTF-8 at byte %zu.", valid);
	else if (json_parse("the message", text, length, &root, &err) < 0)
		reply_error(&nobody, RPC_NOT_JSON, "%s.",
			    err.message[0] ? err.message : "no memory");
	else if (root->type == JSON_ARRAY && root->child)
		take_batch(host, root, reply);
	else
		take_message(host, root, reply);
	json_node_free(root);
}

int mcp_answer(const struct mcp_host *host, const char *message, size_t length, FILE *out)
{
	struct json reply;
	char *text = NULL;
	int r;

	while (length && (message[length - 1] == '\r' || message[length - 1] == ' '))
		length--;
	if (!length)
		return 0;
	json_init_buffer(&reply, 0);
	take_text(host, message, length, &reply);
	r = json_finish(&reply, &text);
	/* Notifications get no answer, and a batch of them neither. */
	if (r >= 0 && text && *text && strcmp(text, "[]") != 0)
		fprintf(out, "%s\n", text);
	free(text);
	return r;
}
