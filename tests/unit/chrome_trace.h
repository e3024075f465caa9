/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of the Chrome trace: one of a run that was built by hand, as a tree, and its events by
 * phase, category and name. Include after cmocka.h.
 */
#ifndef TESTS_CHROME_TRACE_H
#define TESTS_CHROME_TRACE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"
#include "exports/exports.h"
#include "fake_run.h"
#include "json_check.h"

struct trace {
	char *text;
	struct json_node *root;
};

static inline struct trace trace_of_rank(const struct run *run, int64_t rank)
{
	struct err err = { "" };
	struct trace trace;
	size_t size;
	FILE *out = open_memstream(&trace.text, &size);
	int r = rank < 0 ? export_chrome(run, out, &err)
			 : export_chrome_rank(run, (uint32_t)rank, false, out, &err);

	fclose(out);
	if (r < 0)
		fail_msg("%s", err.message);
	assert_true(json_check(trace.text));
	assert_int_equal(json_parse("trace", trace.text, size, &trace.root, &err), 0);
	return trace;
}

static inline struct trace trace_of(const struct run *run)
{
	return trace_of_rank(run, -1);
}

static inline void trace_release(struct trace *trace)
{
	json_node_free(trace->root);
	free(trace->text);
}

static inline bool is(const struct json_node *event, const char *key, const char *value)
{
	return !value || !strcmp(json_get_string(event, key, ""), value);
}

/* The n-th event with that phase, category and name; NULL for any. */
static inline const struct json_node *find(const struct trace *trace, const char *phase,
					   const char *category, const char *name, int n)
{
	const struct json_node *events = json_get(trace->root, "traceEvents");

	for (const struct json_node *e = events->child; e; e = e->next)
		if (is(e, "ph", phase) && is(e, "cat", category) && is(e, "name", name) && n-- == 0)
			return e;
	return NULL;
}

static inline size_t count(const struct trace *trace, const char *phase, const char *category,
			   const char *name)
{
	size_t n = 0;

	while (find(trace, phase, category, name, (int)n))
		n++;
	return n;
}

/* "args.moescope.layer" */
static inline const struct json_node *at(const struct json_node *node, const char *path)
{
	char word[64];

	while (node && *path) {
		size_t length = strcspn(path, ".");

		/* Names of Kineto's may end with a point, but have none inside. */
		memcpy(word, path, length);
		word[length] = '\0';
		node = json_get(node, word);
		path += length + (path[length] == '.');
	}
	return node;
}

/* A number or string as it stands; "" when it is not there. */
static inline const char *text_at(const struct json_node *node, const char *path)
{
	node = at(node, path);
	return node && node->text ? node->text : "";
}

static inline void check(const struct json_node *event, const char *path, const char *value)
{
	if (!event)
		fail_msg("no event with %s", path);
	if (strcmp(text_at(event, path), value) != 0)
		fail_msg("%s is '%s', not '%s'", path, text_at(event, path), value);
}

static inline void check_list(const struct json_node *event, const char *path,
			      const char *const *values)
{
	const struct json_node *list = at(event, path), *item = list ? list->child : NULL;

	for (; *values; values++, item = item->next) {
		assert_non_null(item);
		assert_string_equal(item->text, *values);
	}
	assert_null(item);
}

#endif
