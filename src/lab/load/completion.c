/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenAI's completion API as JSON; see completion.h.
 */
#include "lab/load/completion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "base/text/utf8.h"

static void copy_message(char *out, size_t size, const char *text, size_t length)
{
	size_t n = length < size - 1 ? length : size - 1;

	memcpy(out, text, n);
	out[n] = '\0';
	utf8_make_harmless(out);
}

/* {"error": {"message": …}}, {"error": …}, {"message": …}, {"detail": …} (FastAPI). */
static const char *error_text(const struct json_node *root)
{
	static const char *const keys[] = { "error", "message", "detail" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		const struct json_node *node = json_get(root, keys[i]);

		if (node && node->type == JSON_OBJECT)
			return json_get_string(node, "message", "an error without words");
		if (node && node->type == JSON_STRING)
			return node->text;
	}
	return NULL;
}

void completion_error_message(const char *body, size_t length, char *out, size_t size)
{
	struct json_node *root = NULL;
	const char *text = NULL;

	if (json_parse("", body, length, &root, NULL) == 0)
		text = error_text(root);
	if (text)
		copy_message(out, size, text, strlen(text));
	else
		copy_message(out, size, body, strnlen(body, length));
	json_node_free(root);
}

static bool take_string(const struct json_node *node, const char *key, struct buf *text)
{
	const char *value = json_get_string(node, key, "");

	if (!*value)
		return false;
	if (text)
		buf_append(text, value, strlen(value));
	return true;
}

/* A choice of a completion, a chat chunk, or a whole chat answer. */
static bool take_choice(const struct json_node *choice, struct buf *text)
{
	static const char *const places[] = { "delta", "message" };
	const struct json_node *calls;
	bool found = take_string(choice, "text", text);

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		const struct json_node *part = json_get(choice, places[i]);

		found |= take_string(part, "reasoning_content", text);
		found |= take_string(part, "reasoning", text);
		found |= take_string(part, "content", text);
		calls = json_get(part, "tool_calls");
		found |= calls && calls->type == JSON_ARRAY && calls->child;
	}
	return found;
}

static void take_usage(const struct json_node *root, struct completion_event *event)
{
	const struct json_node *usage = json_get(root, "usage");

	event->prompt_tokens = json_get_int(usage, "prompt_tokens", -1);
	event->output_tokens = json_get_int(usage, "completion_tokens", -1);
	event->has_usage = event->output_tokens >= 0;
}

int completion_read(const char *data, size_t length, struct completion_event *ret_event,
		    struct buf *text)
{
	struct completion_event event = { .prompt_tokens = -1, .output_tokens = -1 };
	const struct json_node *choices, *choice;
	struct json_node *root = NULL;
	int r = 0;

	*ret_event = event;
	if (length == 6 && memcmp(data, "[DONE]", 6) == 0) {
		ret_event->done = true;
		return 0;
	}
	if (json_parse("", data, length, &root, NULL) < 0 || root->type != JSON_OBJECT) {
		snprintf(ret_event->error, sizeof(ret_event->error),
			 "an event is not a JSON object: %.*s", (int)(length < 60 ? length : 60),
			 data);
		utf8_make_harmless(ret_event->error);
		json_node_free(root);
		return -EPROTO;
	}
	choices = json_get(root, "choices");
	for (choice = choices && choices->type == JSON_ARRAY ? choices->child : NULL; choice;
	     choice = choice->next) {
		const struct json_node *reason = json_get(choice, "finish_reason");

		event.has_choice = true;
		event.has_text |= take_choice(choice, text);
		event.finished |= reason && reason->type == JSON_STRING;
	}
	take_usage(root, &event);
	if (!choices && error_text(root)) {
		const char *message = error_text(root);

		copy_message(event.error, sizeof(event.error), message, strlen(message));
		r = -EPROTO;
	}
	json_node_free(root);
	*ret_event = event;
	return r;
}

int completion_body(struct buf *buf, const struct experiment *experiment, const char *model,
		    const char *prompt, int64_t max_tokens)
{
	struct json json;
	char *text = NULL;
	int r;

	json_init_buffer(&json, 0);
	json_object(&json);
	if (model) {
		json_key(&json, "model");
		json_string(&json, model);
	}
	if (experiment->endpoint == ENDPOINT_CHAT) {
		json_key(&json, "messages");
		json_array(&json);
		json_object(&json);
		json_key(&json, "role");
		json_string(&json, "user");
		json_key(&json, "content");
		json_string(&json, prompt);
		json_object_end(&json);
		json_array_end(&json);
	} else {
		json_key(&json, "prompt");
		json_string(&json, prompt);
	}
	json_key(&json, "max_tokens");
	json_int(&json, max_tokens);
	json_key(&json, "temperature");
	json_double(&json, experiment->temperature);
	if (experiment->ignore_eos) {
		json_key(&json, "ignore_eos");
		json_bool(&json, true);
	}
	json_key(&json, "stream");
	json_bool(&json, true);
	json_key(&json, "stream_options");
	json_object(&json);
	json_key(&json, "include_usage");
	json_bool(&json, true);
	json_object_end(&json);
	json_object_end(&json);
	r = json_finish(&json, &text);
	if (r < 0)
		return r;
	buf_append(buf, text, strlen(text));
	free(text);
	return buf->failed ? -ENOMEM : 0;
}
