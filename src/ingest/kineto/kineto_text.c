/* SPDX-License-Identifier: Apache-2.0
 *
 * Where things are in the text of a Kineto trace: the members of the top level, the list of events, and
 * the next event after one that cannot be read. Of the other members it reads the devices, the place of
 * this process among others and the zero of its clock; they are small, so a tree is made of them.
 */
#include "ingest/kineto/kineto_inside.h"

#include <errno.h>
#include <string.h>

#include "base/text/json_read.h"
#include "ingest/kineto/kineto_record.h"

#define MEMBER_MOST ((size_t)16 << 20) /* bytes */
#define FACT_MOST 4096
#define CUT_WITHIN ((size_t)256 << 10) /* of the end of a block */

static void note_damage_at(struct reader *r, const char *p, const char *what)
{
	part_damaged(r->part, r->offset + (uint64_t)(p - r->begin), what);
}

/* One too many does no harm. */
static const char *skip_commas(const char *p)
{
	p = skip_blanks(p);
	while (*p == ',')
		p = skip_blanks(p + 1);
	return p;
}

static const char *read_start(struct reader *r, struct text_state *state, const char *p)
{
	static const char mark[] = "\xef\xbb\xbf"; /* of UTF-8 */
	size_t here = r->end - p < 3 ? (size_t)(r->end - p) : 3;

	if (!memcmp(p, mark, here)) {
		if (here < 3)
			return NULL;
		p += 3;
	}
	p = skip_blanks(p);
	if (p >= r->end)
		return NULL;
	state->bare = *p == '[';
	state->place = *p == '[' ? PLACE_EVENTS : *p == '{' ? PLACE_TOP : PLACE_LOST_TOP;
	r->known.has_events |= state->bare;
	return state->place == PLACE_LOST_TOP ? p : p + 1;
}

static uint64_t positive_of(const struct json_node *node, const char *key)
{
	int64_t value = json_get_int(node, key, 0);

	return value > 0 ? (uint64_t)value : 0;
}

static uint32_t number32_of(const struct json_node *node, const char *key)
{
	uint64_t value = positive_of(node, key);

	return value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void add_kineto_devices(struct reader *r, const struct json_node *list)
{
	for (const struct json_node *node = list->child; node; node = node->next) {
		struct row_device row = {
			.device = number32_of(node, "id"),
			.name = part_text(r->part, json_get_string(node, "name", "")),
			.memory_bytes = positive_of(node, "totalGlobalMem"),
			.multiprocessors = number32_of(node, "numSms"),
			.capability = number32_of(node, "computeMajor") * 10 +
				      number32_of(node, "computeMinor"),
			.threads_per_multiprocessor = number32_of(node,
								  "maxThreadsPerMultiprocessor"),
			.registers_per_multiprocessor = number32_of(node, "regsPerMultiprocessor"),
			.shared_bytes_per_multiprocessor =
				number32_of(node, "sharedMemPerMultiprocessor"),
		};

		if (kineto_extra_node(r->part, RECORD_DEVICE, &row, json_get(node, "moescope")) ==
		    -EBADMSG)
			part_damaged(r->part, r->offset, "a device that cannot be read wholly");
		if (node->type == JSON_OBJECT)
			part_add(r->part, RECORD_DEVICE, &row);
	}
}

static void add_top_fact(struct reader *r, const char *key, size_t key_length, const char *value,
			 size_t length)
{
	struct row_fact row = { .key = part_string(r->part, key, key_length),
				.value = part_string(r->part, value, length) };

	/* What we have written there ourselves is no news. */
	if (length <= FACT_MOST && !r->own)
		part_add(r->part, RECORD_FACT, &row);
}

/* The scalars in it are facts; of the rank, the process is told. */
static void add_distributed(struct reader *r, const struct json_node *object)
{
	int64_t rank = json_get_int(object, "rank", -1);

	for (const struct json_node *node = object->child; node; node = node->next)
		if (node->text && node->key)
			add_top_fact(r, node->key, strlen(node->key), node->text,
				     strlen(node->text));
	if (rank >= 0 && rank <= UINT32_MAX && object->type == JSON_OBJECT) {
		r->known.rank_known = true;
		r->known.rank = (uint32_t)rank;
	}
}

static void read_tree(struct reader *r, struct text key, struct extent value)
{
	struct json_node *root = NULL;
	size_t length = (size_t)(value.end - value.at);
	int r_parse;

	if (length > MEMBER_MOST)
		return;
	r_parse = json_parse("the top level", value.at, length, &root, NULL);
	if (r_parse == -ENOMEM)
		r->failed = -ENOMEM;
	if (r_parse < 0) {
		part_damaged(r->part, r->offset + (uint64_t)(value.at - r->begin),
			     "a description of devices or ranks that cannot be read");
		return;
	}
	if (key.length == 16)
		add_kineto_devices(r, root);
	else
		add_distributed(r, root);
	json_node_free(root);
}

static bool is_key(struct text key, const char *is)
{
	return key.length == strlen(is) && !memcmp(key.at, is, key.length);
}

/* The list inside of the description of ranks, as it stands. */
static void add_groups(struct reader *r, struct extent value)
{
	static const char key[] = "\"pg_config\"";
	const char *p = memmem(value.at, (size_t)(value.end - value.at), key, sizeof(key) - 1);
	const char *end;

	if (!p)
		return;
	p = skip_blanks(p + sizeof(key) - 1);
	if (*p != ':')
		return;
	p = skip_blanks(p + 1);
	end = value_skip(r, p);
	if (end && end <= value.end)
		add_top_fact(r, "pg_config", 9, p, (size_t)(end - p));
}

/* A member that is whole. */
static void read_member(struct reader *r, struct text key, struct extent value)
{
	uint64_t base;

	if (is_key(key, "deviceProperties") || is_key(key, "distributedInfo")) {
		read_tree(r, key, value);
		if (key.length == 15)
			add_groups(r, value);
	} else if (is_key(key, "moescope") && *value.at == '{') {
		r->about.size = 0;
		buf_append(&r->about, value.at, (size_t)(value.end - value.at));
		r->own = true;
		r->failed = r->about.failed ? -ENOMEM : r->failed;
	} else if (is_key(key, "baseTimeNanoseconds")) {
		if (!value_whole(r, value.at, &base) || base > TIME_MOST_NS) {
			part_damaged(r->part, r->offset + (uint64_t)(value.at - r->begin),
				     "no number where the zero of the clock should be");
			return;
		}
		r->known.base_known = true;
		r->known.base_ns = (int64_t)base;
	} else if (*value.at == '"') {
		struct text text;
		const char *plain;
		size_t length;

		if (value_text(r, value.at, &text) && (plain = text_plain(r, text, &length)))
			add_top_fact(r, key.at, key.length, plain, length);
	} else if (*value.at != '[' && *value.at != '{') {
		add_top_fact(r, key.at, key.length, value.at, (size_t)(value.end - value.at));
	}
}

/* A member of the top level. NULL: it is not whole. */
static const char *read_top(struct reader *r, struct text_state *state, const char *p)
{
	struct text key;
	struct extent value;
	const char *begin;

	p = skip_commas(p);
	if (p >= r->end)
		return NULL;
	if (*p == '}') {
		state->place = PLACE_DONE;
		return p + 1;
	}
	begin = p;
	r->why = "no key where one should be";
	p = *p == '"' ? value_text(r, p, &key) : NULL;
	if (p) {
		p = skip_blanks(p);
		if (*p != ':')
			p = value_bad(r, p, "no colon after a key");
	}
	if (p) {
		value.at = p = skip_blanks(p + 1);
		if (*p == '[' && key.length == 11 && !memcmp(key.at, "traceEvents", 11)) {
			state->place = PLACE_EVENTS;
			r->known.has_events = true;
			return p + 1;
		}
		value.end = p = value_skip(r, p);
	}
	if (p) {
		read_member(r, key, value);
		return p;
	}
	if (!r->why)
		return NULL;
	note_damage_at(r, begin, r->why);
	state->place = PLACE_LOST_TOP;
	return begin + 1;
}

/* A value in the place of an event, such as null. NULL: it is not whole, or there is none. */
static const char *skip_other(struct reader *r, const char *p)
{
	const char *end = value_skip(r, p), *after = end ? skip_blanks(end) : NULL;

	if (end && *after != ',' && *after != ']')
		return value_bad(r, after, "something that is not an event");
	return end;
}

/* An event, or the end of their list. NULL: it is not whole; *at: where it begins. */
static const char *read_next(struct reader *r, struct text_state *state, const char **at)
{
	const char *p = skip_commas(*at), *end;

	*at = p;
	if (__builtin_expect(*p == '{', 1)) {
		end = event_read(r, p);
		if (end || !r->why)
			return end;
		note_damage_at(r, p, r->why);
		state->place = PLACE_LOST;
		return p + 1;
	}
	if (p >= r->end)
		return NULL;
	if (*p == ']') {
		state->place = state->bare ? PLACE_DONE : PLACE_TOP;
		return p + 1;
	}
	end = skip_other(r, p);
	if (!end && !r->why)
		return NULL;
	note_damage_at(r, p, "something that is not an event");
	state->place = end ? PLACE_EVENTS : PLACE_LOST;
	return end ? end : p + 1;
}

enum finding { NO, YES, UNSURE /* it may go on after the end */ };

/* What follows the list of events; else a list inside of an event would end them all. */
static enum finding is_list_end(const struct reader *r, const char *p)
{
	static const char *const keys[] = { "\"traceName\"",	   "\"displayTimeUnit\"",
					    "\"schemaVersion\"",   "\"deviceProperties\"",
					    "\"distributedInfo\"", "\"INFO\"",
					    "\"moescope\"",	   "\"baseTimeNanoseconds\"" };
	bool unsure = false;

	p = skip_blanks(p + 1);
	if (*p == ',')
		p = skip_blanks(p + 1);
	else if (p < r->end)
		return NO;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		size_t length = strlen(keys[i]), here = (size_t)(r->end - p);

		if (!memcmp(p, keys[i], here < length ? here : length)) {
			if (here >= length)
				return YES;
			unsure = true;
		}
	}
	return unsure ? UNSURE : NO;
}

/* p: after a brace. Whether an event begins here, or their list ends; *ret_at: where. */
static enum finding is_between(const struct reader *r, const char *p, const char **ret_at)
{
	p = skip_blanks(p);
	*ret_at = p;
	if (*p == ']')
		return is_list_end(r, p);
	if (*p == ',')
		*ret_at = p = skip_blanks(p + 1);
	if (*p == '{')
		p = skip_blanks(p + 1);
	else if (p < r->end)
		return NO;
	return p >= r->end ? UNSURE : *p == '"' ? YES : NO;
}

/* After an event that cannot be read: the end of one with the beginning of another after it, be it in
 * a string or not. NULL: there is none here; *at: what may be the beginning of it. */
static const char *find_event(struct reader *r, struct text_state *state, const char **at)
{
	const char *p = *at, *next;

	while ((p = memchr(p, '}', (size_t)(r->end - p))) != NULL) {
		enum finding found = is_between(r, p + 1, &next);

		if (found == YES) {
			state->place = PLACE_EVENTS;
			return next;
		}
		if (found == UNSURE) {
			*at = p;
			return NULL;
		}
		p++;
	}
	*at = r->end;
	return NULL;
}

static const char *find_list(struct reader *r, struct text_state *state, const char **at)
{
	static const char key[] = "\"traceEvents\"";
	const size_t length = sizeof(key) - 1;
	const char *p = *at, *q;

	while ((p = memmem(p, (size_t)(r->end - p), key, length)) != NULL) {
		*at = p;
		q = skip_blanks(p + length);
		if (*q == ':')
			q = skip_blanks(q + 1);
		if (q >= r->end)
			return NULL;
		if (*q == '[' && q[-1] != '"') { /* there was a colon */
			state->place = PLACE_EVENTS;
			r->known.has_events = true;
			return q + 1;
		}
		*at = p += length;
	}
	if ((size_t)(r->end - *at) > length - 1)
		*at = r->end - (length - 1);
	return NULL;
}

/* Zeros are what some systems fill files up with. Traces one behind the other occur: only the first is
 * read, for the others have clocks and processes of their own. */
static const char *read_after(struct reader *r, struct text_state *state, const char *p)
{
	while (p < r->end && (unsigned char)*p <= ' ')
		p++;
	if (p < r->end) {
		note_damage_at(r, p, "something after the end of the trace");
		state->place = PLACE_OVER;
	}
	return r->end;
}

const char *text_read(struct reader *r, struct text_state *state)
{
	const char *p = r->begin, *next = p;

	while (next && p < r->end) {
		switch (state->place) {
		case PLACE_START:
			next = read_start(r, state, p);
			break;
		case PLACE_TOP:
			next = read_top(r, state, p);
			break;
		case PLACE_EVENTS:
			next = read_next(r, state, &p);
			break;
		case PLACE_LOST:
			next = find_event(r, state, &p);
			break;
		case PLACE_LOST_TOP:
			next = find_list(r, state, &p);
			break;
		case PLACE_DONE:
			next = read_after(r, state, p);
			break;
		case PLACE_OVER:
			next = r->end;
			break;
		}
		if (next)
			p = next;
	}
	return p;
}

size_t text_cut(const char *data, size_t size)
{
	const char *begin = size > CUT_WITHIN ? data + size - CUT_WITHIN : data;
	const char *p = data + size, *q;

	while ((p = memrchr(begin, '{', (size_t)(p - begin))) != NULL) {
		for (q = p + 1; q < data + size && (unsigned char)*q <= ' ';)
			q++;
		if (q == data + size || *q != '"')
			continue;
		for (q = p; q > begin && (unsigned char)q[-1] <= ' ';)
			q--;
		if (q == begin || *--q != ',')
			continue;
		for (; q > begin && (unsigned char)q[-1] <= ' ';)
			q--;
		if (q > begin && q[-1] == '}')
			return (size_t)(p - data);
	}
	return size;
}

void text_finish(struct reader *r, const struct text_state *state)
{
	switch (state->place) {
	case PLACE_TOP:
		note_damage_at(r, r->begin, "the file ends here, before its end");
		break;
	case PLACE_EVENTS:
		if (r->begin < r->end || !state->bare)
			note_damage_at(r, r->begin,
				       r->begin < r->end ? "the file ends inside of an event"
							 : "the file ends here, before its end");
		break;
	default: /* whole, or said before */
		break;
	}
}
