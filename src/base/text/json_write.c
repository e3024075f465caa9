/* SPDX-License-Identifier: Apache-2.0
 *
 * The streaming JSON writer; see json_write.h. State is in struct json only.
 */
#include "base/text/json_write.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

void json_init_file(struct json *json, FILE *file, int indent)
{
	memset(json, 0, offsetof(struct json, pending));
	json->file = file;
	json->indent = indent;
}

void json_init_buffer(struct json *json, int indent)
{
	json_init_file(json, NULL, indent);
}

static void fail_with(struct json *json, int code)
{
	if (!json->failed)
		json->failed = code;
}

static void flush_json(struct json *json)
{
	if (!json->failed && json->n_pending &&
	    fwrite(json->pending, 1, json->n_pending, json->file) != json->n_pending)
		fail_with(json, errno ? -errno : -EIO);
	json->n_pending = 0;
}

static void put_memory(struct json *json, const char *bytes, size_t n)
{
	if (json->length + n + 1 > json->capacity) {
		size_t capacity = (json->length + n + 1) * 2;
		char *grown = realloc(json->buffer, capacity);

		if (!grown) {
			fail_with(json, -ENOMEM);
			return;
		}
		json->buffer = grown;
		json->capacity = capacity;
	}
	memcpy(json->buffer + json->length, bytes, n);
	json->length += n;
	json->buffer[json->length] = '\0';
}

static void put_raw(struct json *json, const char *bytes, size_t n)
{
	if (json->failed)
		return;
	if (!json->file) {
		put_memory(json, bytes, n);
		return;
	}
	while (n) {
		size_t room = JSON_PENDING - json->n_pending, part = n < room ? n : room;

		memcpy(json->pending + json->n_pending, bytes, part);
		json->n_pending += part;
		bytes += part;
		n -= part;
		if (json->n_pending == JSON_PENDING)
			flush_json(json);
	}
}

static void put_text(struct json *json, const char *text)
{
	put_raw(json, text, strlen(text));
}

static void put_newline(struct json *json)
{
	if (json->indent <= 0)
		return;
	if (json->compact) {
		put_raw(json, " ", 1);
		return;
	}
	put_raw(json, "\n", 1);
	for (unsigned int i = 0; i < json->depth * (unsigned int)json->indent; i++)
		put_raw(json, " ", 1);
}

/* What goes between the element before and this one. */
static void put_separator(struct json *json)
{
	uint64_t bit = UINT64_C(1) << json->depth;

	if (json->after_key) {
		json->after_key = false;
		return;
	}
	if (json->filled & bit)
		put_raw(json, ",", 1);
	json->filled |= bit;
	if (json->depth)
		put_newline(json);
}

static void open_container(struct json *json, const char *bracket, bool line)
{
	put_separator(json);
	put_raw(json, bracket, 1);
	if (json->depth + 1 >= JSON_DEPTH_MAX) {
		fail_with(json, -EOVERFLOW);
		return;
	}
	json->depth++;
	json->filled &= ~(UINT64_C(1) << json->depth);
	if (line && !json->compact)
		json->compact = json->depth;
}

static void close_container(struct json *json, const char *bracket)
{
	bool filled = json->filled >> json->depth & 1;
	bool ends_line = json->compact == json->depth;

	if (!json->depth) {
		fail_with(json, -EINVAL);
		return;
	}
	json->depth--;
	if (filled)
		put_newline(json);
	if (ends_line)
		json->compact = 0;
	put_raw(json, bracket, 1);
}

void json_object(struct json *json)
{
	open_container(json, "{", false);
}

void json_object_line(struct json *json)
{
	open_container(json, "{", true);
}

void json_object_end(struct json *json)
{
	close_container(json, "}");
}

void json_array(struct json *json)
{
	open_container(json, "[", false);
}

void json_array_line(struct json *json)
{
	open_container(json, "[", true);
}

void json_array_end(struct json *json)
{
	close_container(json, "]");
}

static void put_quoted_text(struct json *json, const char *text, size_t length)
{
	size_t at = 0, plain = 0;

	put_raw(json, "\"", 1);
	while (at < length) {
		unsigned char c = (unsigned char)text[at];
		uint32_t point;
		char escape[8];
		int valid;
		size_t n;

		if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
			at++;
			continue;
		}
		n = utf8_decode(text + at, length - at, &point, &valid);
		if (valid && c >= 0x80 && utf8_is_harmless(point)) {
			at += n;
			continue;
		}
		put_raw(json, text + plain, at - plain);
		if (!valid)
			put_text(json, "\xEF\xBF\xBD");
		else if (c == '"' || c == '\\')
			put_raw(json, (char[]){ '\\', (char)c }, 2);
		else if (c == '\n')
			put_text(json, "\\n");
		else if (c == '\t')
			put_text(json, "\\t");
		else if (c == '\r')
			put_text(json, "\\r");
		else {
			snprintf(escape, sizeof(escape), "\\u%04x", (unsigned int)point & 0xffff);
			put_text(json, escape);
		}
		at += n;
		plain = at;
	}
	put_raw(json, text + plain, at - plain);
	put_raw(json, "\"", 1);
}

void json_key(struct json *json, const char *key)
{
	put_separator(json);
	put_quoted_text(json, key, strlen(key));
	put_text(json, json->indent > 0 ? ": " : ":");
	json->after_key = true;
}

void json_string_n(struct json *json, const char *text, size_t length)
{
	put_separator(json);
	put_quoted_text(json, text, length);
}

void json_string(struct json *json, const char *text)
{
	if (text)
		json_string_n(json, text, strlen(text));
	else
		json_null(json);
}

void json_raw(struct json *json, const char *text)
{
	put_separator(json);
	put_text(json, text);
}

/* Pictures have hundreds of thousands of numbers: snprintf would take most of their time. */
static void put_number(struct json *json, uint64_t value, bool negative)
{
	char text[24], *at = text + sizeof(text);

	do {
		*--at = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	if (negative)
		*--at = '-';
	/* Of a dense array the comma in the same piece. */
	if (json->indent <= 0 && !json->after_key && json->filled >> json->depth & 1)
		*--at = ',';
	else
		put_separator(json);
	put_raw(json, at, (size_t)(text + sizeof(text) - at));
}

void json_int(struct json *json, int64_t value)
{
	put_number(json, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

void json_uint(struct json *json, uint64_t value)
{
	put_number(json, value, false);
}

void json_format_double(char *out, size_t size, double value)
{
	char *comma;

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(out, size, "%.*g", digits, value);
		if (strtod(out, NULL) == value)
			break;
	}
	/* A program that has called setlocale may print a decimal comma. */
	comma = strchr(out, ',');
	if (comma)
		*comma = '.';
}

const char *json_format_decimal(char room[JSON_DECIMAL_SIZE], int64_t value, unsigned int places)
{
	uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
	char *at = room + JSON_DECIMAL_SIZE - 1;

	*at = '\0';
	for (unsigned int i = 0; rest || i <= places; i++, rest /= 10) {
		if (i && i == places)
			*--at = '.';
		*--at = (char)('0' + rest % 10);
	}
	if (value < 0)
		*--at = '-';
	return at;
}

void json_double(struct json *json, double value)
{
	char text[40];

	if (!isfinite(value)) {
		json_null(json);
		return;
	}
	json_format_double(text, sizeof(text), value);
	json_raw(json, text);
}

void json_bool(struct json *json, bool value)
{
	json_raw(json, value ? "true" : "false");
}

void json_null(struct json *json)
{
	json_raw(json, "null");
}

int json_finish(struct json *json, char **ret_text)
{
	if (json->depth)
		fail_with(json, -EINVAL);
	if (json->indent > 0)
		put_raw(json, "\n", 1);
	if (json->file) {
		flush_json(json);
		if (!json->failed && fflush(json->file) != 0)
			fail_with(json, -errno);
		return json->failed;
	}
	if (json->failed || !ret_text) {
		free(json->buffer);
		json->buffer = NULL;
	} else {
		*ret_text = json->buffer;
	}
	return json->failed;
}
