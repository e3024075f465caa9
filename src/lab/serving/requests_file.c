/* SPDX-License-Identifier: Apache-2.0
 *
 * requests.jsonl: a line about the whole, one line per request, and perhaps the generated text.
 * Drivers in other processes and other languages write it, and some are killed while they do. So
 * keys and values are checked one by one: a misspelt key would be a silently wrong figure.
 */
#include "lab/serving/requests.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/input_file.h"
#include "base/files/whole_file.h"
#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "base/text/nearest.h"

#define SCHEMA "moescope/requests/1"
/* Sums of two times and of all counts below these do not overflow. */
#define LARGEST_TIME (INT64_C(1) << 61)
#define LARGEST_COUNT (INT64_C(1) << 32)

enum kind { SCHEMA_NAME, TIME, COUNT, FLAG, TEXT, END, PIECES, EMPTIES };

struct key {
	const char *name;
	enum kind kind;
	size_t offset; /* of the value's target; not for lists and the schema */
	bool required;
};

#define IN_REQUESTS(member) offsetof(struct requests, member)
#define IN_REQUEST(member) offsetof(struct request, member)

static const struct key header_keys[] = {
	{ "schema", SCHEMA_NAME, 0, true },
	{ "start_ns", TIME, IN_REQUESTS(start_ns), false },
	{ "end_ns", TIME, IN_REQUESTS(end_ns), false },
	{ "load_ns", TIME, IN_REQUESTS(load_ns), false },
	{ "over_saturated", FLAG, IN_REQUESTS(over_saturated), false },
	{ 0 },
};

static const struct key request_keys[] = {
	{ "due_ns", TIME, IN_REQUEST(due_ns), false },
	{ "sent_ns", TIME, IN_REQUEST(sent_ns), true },
	{ "end_ns", TIME, IN_REQUEST(end_ns), true },
	{ "end", END, IN_REQUEST(end), true },
	{ "warmup", FLAG, IN_REQUEST(warmup), false },
	{ "server_counts", FLAG, IN_REQUEST(server_counts), false },
	{ "prompt_tokens", COUNT, IN_REQUEST(prompt_tokens), false },
	{ "output_tokens", COUNT, IN_REQUEST(output_tokens), false },
	{ "pieces_ns", PIECES, 0, false },
	{ "empties_ns", EMPTIES, 0, false },
	{ "error", TEXT, IN_REQUEST(error), false },
	{ 0 },
};

static const struct key text_keys[] = {
	{ "text", TEXT, IN_REQUESTS(text), true },
	{ 0 },
};

static const char *const ends[] = { "ok", "failed", "cancelled", "timeout", "unfinished", NULL };

struct reader {
	const char *path;
	size_t line;
	struct requests *requests;
	struct err *err;
};

__attribute__((format(printf, 2, 3))) static int bad(const struct reader *in, const char *format,
						     ...)
{
	char why[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, sizeof(why), format, arguments);
	va_end(arguments);
	return err_set(in->err, -EBADMSG, "%s: line %zu: %s", in->path, in->line, why);
}

static int whole_number_of(const struct reader *in, const struct json_node *node, const char *name,
			   int64_t largest, int64_t *ret_value)
{
	long long value;
	char *end;

	if (node->type == JSON_NULL) {
		*ret_value = -1;
		return 0;
	}
	if (node->type == JSON_NUMBER) {
		errno = 0;
		value = strtoll(node->text, &end, 10);
		if (!errno && !*end && value >= 0 && value < largest) {
			*ret_value = value;
			return 0;
		}
	}
	return bad(in, "%s must be a whole number of at least 0, or null", name);
}

static int take_end(const struct reader *in, const struct json_node *node, enum request_end *ret)
{
	if (node->type == JSON_STRING)
		for (int i = 0; ends[i]; i++)
			if (!strcmp(node->text, ends[i])) {
				*ret = (enum request_end)i;
				return 0;
			}
	return bad(in, "end must be \"ok\", \"failed\", \"cancelled\", \"timeout\" or "
		       "\"unfinished\"");
}

static int take_times(const struct reader *in, const struct json_node *node,
		      int (*add)(struct requests *, int64_t))
{
	int64_t last = 0, at = 0;

	if (node->type != JSON_ARRAY)
		return bad(in, "%s must be a list of times", node->key);
	for (const struct json_node *item = node->child; item; item = item->next) {
		int r = whole_number_of(in, item, node->key, LARGEST_TIME, &at);

		if (r < 0)
			return r;
		if (at < 0)
			return bad(in, "%s must be a list of times, without null", node->key);
		if (at < last)
			return bad(in, "%s goes back in time, from %lld to %lld", node->key,
				   (long long)last, (long long)at);
		last = at;
		if (add(in->requests, at) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int take_schema(const struct reader *in, const struct json_node *node)
{
	if (node->type == JSON_STRING && !strcmp(node->text, SCHEMA))
		return 0;
	if (node->type == JSON_STRING && !strncmp(node->text, SCHEMA, strlen(SCHEMA) - 1))
		return bad(in, "the schema is not %s; a newer moescope reads it", SCHEMA);
	return bad(in, "the schema must be \"%s\"", SCHEMA);
}

static int take_key(const struct reader *in, const struct key *key, const struct json_node *node,
		    void *into)
{
	void *place = (char *)into + key->offset;

	switch (key->kind) {
	case SCHEMA_NAME:
		return take_schema(in, node);
	case TIME:
		return whole_number_of(in, node, key->name, LARGEST_TIME, place);
	case COUNT:
		return whole_number_of(in, node, key->name, LARGEST_COUNT, place);
	case FLAG:
		if (node->type != JSON_TRUE && node->type != JSON_FALSE)
			return bad(in, "%s must be true or false", key->name);
		*(bool *)place = node->type == JSON_TRUE;
		return 0;
	case TEXT:
		if (node->type == JSON_NULL)
			return 0;
		if (node->type != JSON_STRING)
			return bad(in, "%s must be a string or null", key->name);
		*(char **)place = strdup(node->text);
		return *(char **)place ? 0 : -ENOMEM;
	case END:
		return take_end(in, node, place);
	case PIECES:
		return take_times(in, node, requests_piece);
	case EMPTIES:
		return take_times(in, node, requests_empty);
	}
	return 0;
}

static int unknown_key(const struct reader *in, const struct key *keys, const char *name)
{
	struct nearest nearest = nearest_to(name);

	for (const struct key *key = keys; key->name; key++)
		nearest_offer(&nearest, key->name);
	if (nearest.best)
		return bad(in, "unknown key \"%.64s\"; did you mean \"%s\"?", name, nearest.best);
	return bad(in, "unknown key \"%.64s\"", name);
}

static int take_object(const struct reader *in, const struct json_node *object,
		       const struct key *keys, void *into)
{
	unsigned int seen = 0;

	if (object->type != JSON_OBJECT)
		return bad(in, "must be an object");
	for (const struct json_node *node = object->child; node; node = node->next) {
		const struct key *key = keys;
		int r;

		while (key->name && strcmp(key->name, node->key) != 0)
			key++;
		if (!key->name)
			return unknown_key(in, keys, node->key);
		if (seen & 1U << (key - keys))
			return bad(in, "%s is there twice", key->name);
		seen |= 1U << (key - keys);
		r = take_key(in, key, node, into);
		if (r < 0)
			return r;
	}
	for (const struct key *key = keys; key->name; key++)
		if (key->required && !(seen & 1U << (key - keys)))
			return bad(in, "%s is missing", key->name);
	return 0;
}

/* The times are in a possible order, so no figure is negative. */
static int check_times(const struct reader *in, const struct request *request, const int64_t *times,
		       size_t n, const char *name)
{
	if (!n)
		return 0;
	if (request->sent_ns < 0 || times[0] < request->sent_ns)
		return bad(in, "%s begins before sent_ns", name);
	if (request->end_ns >= 0 && times[n - 1] > request->end_ns)
		return bad(in, "%s goes on after end_ns", name);
	return 0;
}

static int check_request(const struct reader *in, const struct request *request)
{
	const struct requests *all = in->requests;
	int r;

	if (request->end == REQUEST_OK && (request->sent_ns < 0 || request->end_ns < 0))
		return bad(in, "a request that ended as ok needs sent_ns and end_ns");
	if (request->end_ns >= 0 && request->end_ns < request->sent_ns)
		return bad(in, "end_ns is before sent_ns");
	r = check_times(in, request, request_pieces(all, request), request->pieces, "pieces_ns");
	if (r == 0)
		r = check_times(in, request, request_empties(all, request), request->empties,
				"empties_ns");
	return r;
}

static int read_line(struct reader *in, const char *line, size_t length, bool last)
{
	struct json_node *node = NULL;
	struct request *request;
	struct err why;
	char what[64];
	int r;

	snprintf(what, sizeof(what), "line %zu", in->line);
	r = json_parse(what, line, length, &node, &why);
	if (r == -ENOMEM)
		return r;
	if (r < 0 && last && in->line > 1) {
		in->requests->cut_off = true;
		return 0;
	}
	if (r < 0)
		return err_set(in->err, r, "%s: %s", in->path, why.message);
	if (in->line == 1) {
		r = take_object(in, node, header_keys, in->requests);
	} else if (in->requests->text) {
		r = bad(in, "a line after that of the text");
	} else if (json_get(node, "text")) {
		r = take_object(in, node, text_keys, in->requests);
	} else {
		request = requests_add(in->requests);
		r = request ? take_object(in, node, request_keys, request) : -ENOMEM;
		if (r == 0)
			r = check_request(in, request);
	}
	json_node_free(node);
	return r;
}

/* Fills in what a driver did not know when it started to write. */
static void find_ends(struct requests *requests)
{
	bool start = requests->start_ns < 0, end = requests->end_ns < 0;

	for (size_t i = 0; i < requests->n; i++) {
		const struct request *request = &requests->v[i];

		if (request->warmup || request->sent_ns < 0)
			continue;
		if (start && (requests->start_ns < 0 || request->sent_ns < requests->start_ns))
			requests->start_ns = request->sent_ns;
		if (end && request->end_ns > requests->end_ns)
			requests->end_ns = request->end_ns;
	}
}

static int read_lines(struct reader *in, FILE *file)
{
	char *line = NULL;
	size_t capacity = 0;
	ssize_t length;
	int r = 0;

	while (r == 0 && (length = getline(&line, &capacity, file)) > 0) {
		bool whole_line = line[length - 1] == '\n';

		in->line++;
		r = read_line(in, line, (size_t)length, !whole_line);
	}
	if (r == 0 && ferror(file))
		r = err_sys(in->err, errno ? -errno : -EIO, "cannot read %s", in->path);
	free(line);
	if (r == 0 && !in->line)
		r = err_set(in->err, -EBADMSG, "%s is empty; its first line must have \"schema\"",
			    in->path);
	if (r == 0 && in->requests->start_ns >= 0 && in->requests->end_ns >= 0 &&
	    in->requests->end_ns < in->requests->start_ns)
		r = err_set(in->err, -EBADMSG, "%s: line 1: end_ns is before start_ns", in->path);
	return r == -ENOMEM ? err_sys(in->err, r, "cannot read %s", in->path) : r;
}

int requests_read(const char *path, struct requests *ret_requests, struct err *err)
{
	struct requests requests = { .start_ns = -1, .end_ns = -1, .load_ns = -1 };
	struct reader in = { .path = path, .requests = &requests, .err = err };
	FILE *file = input_stream(path, err);
	int r;

	if (!file)
		return -errno;
	r = read_lines(&in, file);
	fclose(file);
	if (r < 0) {
		requests_release(&requests);
		return r;
	}
	find_ends(&requests);
	*ret_requests = requests;
	return 0;
}

static void put_whole(struct json *json, const char *key, int64_t value)
{
	json_key(json, key);
	if (value < 0)
		json_null(json);
	else
		json_int(json, value);
}

static void put_times(struct json *json, const int64_t *times, size_t n)
{
	json_array(json);
	for (size_t i = 0; i < n; i++)
		json_int(json, times[i]);
	json_array_end(json);
}

/* An object's members, by the table that the reader uses. */
static int put_line(FILE *file, const struct requests *all, const struct key *keys,
		    const void *from)
{
	const struct request *request = from;
	struct json json;
	int r;

	json_init_file(&json, file, 0);
	json_object(&json);
	for (const struct key *key = keys; key->name; key++) {
		const void *place = (const char *)from + key->offset;

		if (key->kind == EMPTIES && !request->empties)
			continue;
		if (key->kind == TIME || key->kind == COUNT) {
			put_whole(&json, key->name, *(const int64_t *)place);
			continue;
		}
		json_key(&json, key->name);
		if (key->kind == SCHEMA_NAME)
			json_string(&json, SCHEMA);
		else if (key->kind == FLAG)
			json_bool(&json, *(const bool *)place);
		else if (key->kind == TEXT)
			json_string(&json, *(char *const *)place);
		else if (key->kind == END)
			json_string(&json, ends[*(const enum request_end *)place]);
		else if (key->kind == PIECES)
			put_times(&json, request_pieces(all, request), request->pieces);
		else
			put_times(&json, request_empties(all, request), request->empties);
	}
	json_object_end(&json);
	r = json_finish(&json, NULL);
	if (r == 0 && putc('\n', file) == EOF)
		r = -EIO;
	return r;
}

int requests_write(const struct requests *requests, const char *path, struct err *err)
{
	struct whole_file whole;
	int r = whole_file_open(&whole, path);

	if (r < 0)
		return err_sys(err, r, "cannot write '%s'", path);
	r = put_line(whole.file, requests, header_keys, requests);
	for (size_t i = 0; r == 0 && i < requests->n; i++)
		r = put_line(whole.file, requests, request_keys, &requests->v[i]);
	if (r == 0 && requests->text)
		r = put_line(whole.file, requests, text_keys, requests);
	if (r < 0)
		err_sys(err, r, "cannot write '%s'", path);
	return whole_file_close(&whole, r, err);
}
