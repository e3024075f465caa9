/* SPDX-License-Identifier: Apache-2.0
 *
 * /api/runs/{run}/timeline and what is below it: lanes, boxes, sums, search and find. docs/serve.md
 * describes them. They load no tables: everything comes from the index of the run. Any thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_write.h"
#include "surfaces/http/routes.h"

#define WIDTH_MOST 8192
#define NAMES_MOST 50  /* of an area */
#define FOUND_MOST 100 /* of a search */

#define FROM "from"
#define TO "to"
#define WIDTH "width"
#define LANES "lanes"
#define TEXT "text"
#define NAME "name"
#define ID "id"
#define AFTER "after"

/* What is asked, checked. */
struct lod_question {
	const struct lod *lod;
	struct lod_part part;
	uint32_t width;
	size_t *lanes;
	size_t n_lanes;
	const char *text; /* of a search */
	uint32_t name;
	int64_t after;
};

static int take_number(const struct target *target, const char *key, int64_t least, int64_t most,
		       int64_t *ret_value, struct err *err)
{
	const char *text = target_value(target, key);
	long long value;
	char *end;

	if (!text)
		return err_set(err, -EINVAL, "'%s' is missing.", key);
	errno = 0;
	value = strtoll(text, &end, 10);
	/* strtoll would take blanks and a plus. */
	if (errno || *end || !(*text == '-' || (*text >= '0' && *text <= '9')) || end == text ||
	    value < least || value > most)
		return err_set(err, -EINVAL,
			       "'%s' needs a whole number from %" PRId64 " to %" PRId64
			       ", not '%s'.",
			       key, least, most, text);
	*ret_value = value;
	return 0;
}

/* A number of a list, behind which *text then points. */
static int take_lane(const struct lod *lod, const char **text, size_t *ret_lane, struct err *err)
{
	size_t n = lod_facts(lod).lanes;
	char *end;
	unsigned long value = strtoul(*text, &end, 10);

	if (**text < '0' || **text > '9')
		return err_set(err, -EINVAL,
			       "'" LANES "' needs lane numbers such as 0,1,5-9, not '%s'.", *text);
	if (value >= n)
		return err_set(err, -EINVAL,
			       "there is no lane %.*s; the run has %zu, numbered from 0.",
			       (int)(end - *text), *text, n);
	*text = end;
	*ret_lane = value;
	return 0;
}

/* "0,1,5-9"; each once, in the order of the screen. */
static int mark_lanes(const struct lod *lod, const char *text, bool *wanted, struct err *err)
{
	size_t first = 0, last;
	int r;

	for (;; text++) {
		r = take_lane(lod, &text, &first, err);
		last = first;
		if (r == 0 && *text == '-') {
			text++;
			r = take_lane(lod, &text, &last, err);
		}
		if (r < 0)
			return r;
		if (last < first)
			return err_set(err, -EINVAL, "'" LANES "': %zu-%zu goes backwards.", first,
				       last);
		for (size_t i = first; i <= last; i++)
			wanted[i] = true;
		if (!*text)
			return 0;
		if (*text != ',')
			return err_set(err, -EINVAL,
				       "'" LANES "' needs lane numbers such as 0,1,5-9, not '%s'.",
				       text);
	}
}

static int take_lanes(const struct target *target, struct lod_question *asked, struct err *err)
{
	const char *text = target_value(target, LANES);
	size_t n = lod_facts(asked->lod).lanes;
	bool *wanted = calloc(n + 1, sizeof(*wanted));
	int r = 0;

	asked->lanes = calloc(n + 1, sizeof(*asked->lanes));
	if (!wanted || !asked->lanes)
		r = err_set(err, -ENOMEM, "no memory for the lanes.");
	else if (text)
		r = mark_lanes(asked->lod, text, wanted, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!text || wanted[i])
			asked->lanes[asked->n_lanes++] = i;
	free(wanted);
	return r;
}

static int take_part(const struct target *target, struct lod_question *asked, struct err *err)
{
	struct lod_part *part = &asked->part;
	int r = take_number(target, FROM, -LOD_TIME_MAX, LOD_TIME_MAX, &part->from, err);

	if (r == 0)
		r = take_number(target, TO, -LOD_TIME_MAX, LOD_TIME_MAX, &part->to, err);
	if (r == 0 && part->from >= part->to)
		r = err_set(err, -EINVAL, "'" FROM "' must be before '" TO "'.");
	return r == 0 ? take_lanes(target, asked, err) : r;
}

static void put_text(struct json *json, const char *key, struct lod_text text)
{
	json_key(json, key);
	json_string_n(json, text.text, text.length);
}

static void put_uint(struct json *json, const char *key, uint64_t value)
{
	json_key(json, key);
	json_uint(json, value);
}

static void put_int(struct json *json, const char *key, int64_t value)
{
	json_key(json, key);
	json_int(json, value);
}

static void put_sum(struct json *json, struct lod_sum sum)
{
	put_uint(json, "events", sum.events);
	put_uint(json, "busy_ns", sum.busy);
}

static void put_event(struct json *json, const char *key, const struct lod_event *event)
{
	json_key(json, key);
	json_object(json);
	put_uint(json, "lane", event->lane);
	put_uint(json, "start", event->start);
	put_uint(json, "duration", event->duration);
	json_object_end(json);
}

static const char *steps_absent(enum lod_steps steps)
{
	switch (steps) {
	case LOD_STEPS_NOT_FOUND:
		return "the program marked no steps, and none were found by repetition.";
	case LOD_STEPS_NOT_SOUGHT:
		return "the program marked no steps, and there are too many records to look for "
		       "repetition here; 'moescope steps' does.";
	default:
		return NULL;
	}
}

static int print_lanes(const struct lod_question *asked, struct json *json, struct err *err)
{
	struct lod_facts facts = lod_facts(asked->lod);

	(void)err;
	put_int(json, "origin_ns", facts.origin_ns);
	put_int(json, "since_start_ns", facts.since_start_ns);
	put_uint(json, "end_ns", facts.end_ns);
	put_uint(json, "events", facts.events);
	if (facts.left_out)
		put_uint(json, "left_out", facts.left_out);
	json_key(json, "lanes");
	json_array(json);
	for (size_t i = 0; i < facts.lanes; i++) {
		struct lod_lane lane = lod_lane(asked->lod, i);

		json_object(json);
		put_uint(json, "lane", i);
		put_uint(json, "rank", lane.rank);
		put_text(json, "group", lane.group);
		json_key(json, "kind");
		json_string(json, lod_kind_name(lane.kind));
		put_text(json, "title", lane.title);
		put_uint(json, "depth", lane.depth);
		put_uint(json, "events", lane.events);
		json_object_end(json);
	}
	json_array_end(json);
	if (steps_absent(facts.steps)) {
		json_key(json, "steps_absent");
		json_string(json, steps_absent(facts.steps));
	}
	if (!facts.events) {
		json_key(json, "absent");
		json_string(json, "the run has no step, kernel, copy, range or call with a time.");
	}
	return 0;
}

static void put_boxes(struct json *json, size_t lane, const struct lod_boxes *boxes)
{
	json_object(json);
	put_uint(json, "lane", lane);
#define ARRAY(key, put, member)                                                                    \
	json_key(json, key);                                                                       \
	json_array(json);                                                                          \
	for (size_t i = 0; i < boxes->n; i++)                                                      \
		put(json, boxes->of[i].member);                                                    \
	json_array_end(json)
	ARRAY("start", json_int, start);
	ARRAY("duration", json_uint, duration);
	ARRAY("name", json_uint, name);
	ARRAY("merged", json_uint, merged);
#undef ARRAY
	json_object_end(json);
}

/* used: a bit for each name of the index. */
static void note_names(uint64_t *used, size_t n_names, const struct lod_boxes *boxes)
{
	for (size_t i = 0; i < boxes->n; i++)
		if (boxes->of[i].name < n_names)
			used[boxes->of[i].name / 64] |= UINT64_C(1) << boxes->of[i].name % 64;
}

static void put_names(const struct lod *lod, struct json *json, const uint64_t *used,
		      size_t n_names)
{
	json_key(json, "names");
	json_object(json);
	for (size_t word = 0; word < n_names / 64 + 1; word++)
		for (uint64_t left = used[word]; left; left &= left - 1) {
			uint32_t name = (uint32_t)(word * 64 + (size_t)__builtin_ctzll(left));
			char key[16];

			snprintf(key, sizeof(key), "%" PRIu32, name);
			put_text(json, key, lod_name(lod, name));
		}
	json_object_end(json);
}

static int print_boxes(const struct lod_question *asked, struct json *json, struct err *err)
{
	struct lod_boxes boxes = { 0 };
	size_t n_names = lod_facts(asked->lod).names;
	uint64_t *used = calloc(n_names / 64 + 1, sizeof(*used));
	int r = used ? 0 : -ENOMEM;

	put_int(json, FROM, asked->part.from);
	put_int(json, TO, asked->part.to);
	put_uint(json, WIDTH, asked->width);
	json_key(json, "lanes");
	json_array(json);
	for (size_t i = 0; r == 0 && i < asked->n_lanes; i++) {
		boxes.n = 0;
		r = lod_boxes(asked->lod, asked->lanes[i], &asked->part, asked->width, &boxes);
		if (r < 0)
			break;
		note_names(used, n_names, &boxes);
		put_boxes(json, asked->lanes[i], &boxes);
	}
	json_array_end(json);
	if (r == 0)
		put_names(asked->lod, json, used, n_names);
	free(boxes.of);
	free(used);
	return r < 0 ? err_set(err, r, "no memory for the boxes.") : 0;
}

static void put_name_sums(const struct lod *lod, struct json *json, const struct lod_name_sum *sums,
			  size_t n)
{
	json_key(json, "by_name");
	json_array(json);
	for (size_t i = 0; i < n; i++) {
		json_object(json);
		put_text(json, "name", lod_name(lod, sums[i].name));
		put_sum(json, sums[i].sum);
		json_object_end(json);
	}
	json_array_end(json);
}

static int print_sums(const struct lod_question *asked, struct json *json, struct err *err)
{
	struct lod_name_sum *names = NULL;
	struct lod_sum all = { 0 };
	size_t n = 0;
	int r = lod_sum_names(asked->lod, asked->lanes, asked->n_lanes, &asked->part, NAMES_MOST,
			      &names, &n);

	if (r < 0 && r != -E2BIG)
		return err_set(err, r, "no memory for the sums.");
	json_key(json, "lanes");
	json_array(json);
	for (size_t i = 0; i < asked->n_lanes; i++) {
		struct lod_sum sum = lod_sum(asked->lod, asked->lanes[i], &asked->part);

		json_object(json);
		put_uint(json, "lane", asked->lanes[i]);
		put_sum(json, sum);
		json_object_end(json);
		all.events += sum.events;
		all.busy += sum.busy;
	}
	json_array_end(json);
	put_sum(json, all);
	put_name_sums(asked->lod, json, names, n);
	free(names);
	if (r == -E2BIG) {
		json_key(json, "by_name_absent");
		json_string(json, "the area has too many events to add them up by name; choose a "
				  "shorter time or fewer lanes.");
	}
	return 0;
}

static int print_search(const struct lod_question *asked, struct json *json, struct err *err)
{
	struct lod_found *found;
	size_t n;
	int r = lod_search(asked->lod, asked->text, FOUND_MOST, &found, &n);

	if (r < 0)
		return err_set(err, r, "no memory for the search.");
	json_key(json, "names");
	json_array(json);
	for (size_t i = 0; i < n; i++) {
		json_object(json);
		put_uint(json, ID, found[i].name);
		put_text(json, "name", lod_name(asked->lod, found[i].name));
		put_sum(json, found[i].sum);
		put_event(json, "first", &found[i].first);
		json_object_end(json);
	}
	json_array_end(json);
	free(found);
	return 0;
}

static int print_find(const struct lod_question *asked, struct json *json, struct err *err)
{
	struct lod_event event;

	(void)err;
	if (lod_find(asked->lod, asked->name, asked->after, &event)) {
		put_event(json, "found", &event);
	} else {
		json_key(json, "found");
		json_null(json);
	}
	return 0;
}

static int take_name(const struct target *target, struct lod_question *asked, struct err *err)
{
	const char *name = target_value(target, NAME);
	int64_t id = 0, most = (int64_t)lod_facts(asked->lod).names - 1;
	int r = 0;

	if (name && target_value(target, ID))
		return err_set(err, -EINVAL, "give '" NAME "' or '" ID "', not both.");
	if (target_value(target, ID)) {
		r = take_number(target, ID, 0, most, &id, err);
		asked->name = (uint32_t)id;
	} else if (!name || !*name) {
		return err_set(err, -EINVAL, "'" NAME "' is missing.");
	} else {
		asked->name = lod_name_id(asked->lod, name);
	}
	return r == 0 ? take_number(target, AFTER, -LOD_TIME_MAX, LOD_TIME_MAX, &asked->after, err)
		      : r;
}

static int take_boxes(const struct target *target, struct lod_question *asked, struct err *err)
{
	int64_t width = 0;
	int r = take_number(target, WIDTH, 1, WIDTH_MOST, &width, err);

	asked->width = (uint32_t)width;
	return r == 0 ? take_part(target, asked, err) : r;
}

static int take_text(const struct target *target, struct lod_question *asked, struct err *err)
{
	asked->text = target_value(target, TEXT);
	if (!asked->text || !*asked->text)
		return err_set(err, -EINVAL, "'" TEXT "' is missing.");
	return 0;
}

static int take_nothing(const struct target *target, struct lod_question *asked, struct err *err)
{
	(void)target;
	(void)asked;
	(void)err;
	return 0;
}

/* A question to an index: how it is read, and how it is answered. */
struct kind_of_question {
	int (*take)(const struct target *target, struct lod_question *asked, struct err *err);
	int (*print)(const struct lod_question *asked, struct json *json, struct err *err);
};

static struct reply lod_reply(const struct lod *lod, const struct kind_of_question *question,
			      const struct target *target)
{
	struct lod_question asked = { .lod = lod };
	struct reply reply = { .status = 200, .type = JSON_TYPE, .once = true };
	struct err err = { "" };
	struct json json;
	int r = question->take(target, &asked, &err);

	if (r == 0) {
		json_init_buffer(&json, 0);
		json_object(&json);
		r = question->print(&asked, &json, &err);
		json_object_end(&json);
		if (json_finish(&json, r == 0 ? &reply.body : NULL) < 0 && r == 0)
			r = -ENOMEM;
	}
	free(asked.lanes);
	if (r < 0)
		return failed_reply(r, &err);
	reply.size = strlen(reply.body);
	return reply;
}

/* Status 0: the index is being made. */
static struct reply timeline_reply(const struct routes *routes, const struct target *target,
				   const struct kind_of_question *question)
{
	struct held_timeline *held;
	struct err err = { "" };
	struct reply reply;
	bool growing = false;
	char *path = library_find(&routes->library, target->segments[2], &err);
	int r;

	if (!path)
		return error_reply(404, err.message);
	r = timelines_hold(routes->timelines, path, library_signature(path, &growing), &held, &err);
	free(path);
	if (r == -EAGAIN)
		return (struct reply){ .status = 0 };
	if (r < 0)
		return failed_reply(r, &err);
	reply = lod_reply(held_lod(held), question, target);
	timelines_release(routes->timelines, held);
	return reply;
}

static uint64_t timeline_version(const struct routes *routes, const struct target *target)
{
	char *path = library_find(&routes->library, target->segments[2], NULL);
	uint64_t version = path ? timelines_version(routes->timelines, path) : 0;

	free(path);
	return version;
}

/* ROUTE(name, "/path below timeline", how it is taken, "summary", "answer", its parameters) */
#define ROUTE(name, path_below, how, words, reply_words, ...)                                      \
	static struct reply make_##name(const struct routes *routes, const struct target *target)  \
	{                                                                                          \
		static const struct kind_of_question question = { how, print_##name };             \
                                                                                                   \
		return timeline_reply(routes, target, &question);                                  \
	}                                                                                          \
	static const struct http_parameter name##_parameters[] = { __VA_ARGS__ };                  \
	const struct http_route route_##name = {                                                   \
		.path = "/api/runs/{run}/timeline" path_below,                                     \
		.summary = words,                                                                  \
		.answer = reply_words,                                                             \
		.parameters = name##_parameters,                                                   \
		.make = make_##name,                                                               \
		.version = timeline_version,                                                       \
	}

#define PARAMETER(name, help)                                                                      \
	{                                                                                          \
		name, help, NULL                                                                   \
	}
#define PARAMETERS_END                                                                             \
	{                                                                                          \
		NULL, NULL, NULL                                                                   \
	}
#define PART_PARAMETERS                                                                            \
	PARAMETER(FROM, "nanoseconds since the origin"),                                           \
		PARAMETER(TO, "nanoseconds since the origin"),                                     \
		PARAMETER(LANES, "numbers of lanes, such as 0,1,5-9; all unless given")

ROUTE(lanes, "", take_nothing, "the lanes of the timeline", "Lanes from the top of the screen.",
      PARAMETERS_END);
ROUTE(boxes, "/boxes", take_boxes, "what to draw of a part of the time",
      "Boxes of each lane, at most two a column.", PART_PARAMETERS,
      PARAMETER(WIDTH, "columns of pixels, 1 to 8192"), PARAMETERS_END);
ROUTE(sums, "/sums", take_part, "sums over a part of the time",
      "Events and busy time, by lane and by name.", PART_PARAMETERS, PARAMETERS_END);
ROUTE(search, "/search", take_text, "names that contain a text", "At most 100, the busiest first.",
      PARAMETER(TEXT, "a part of the name, in upper or lower case"), PARAMETERS_END);
ROUTE(find, "/find", take_name, "the next event of a name", "The event, or null.",
      PARAMETER(NAME, "the whole name"),
      PARAMETER(ID, "instead of the name its number, as boxes and search have it"),
      PARAMETER(AFTER, "where to start, in nanoseconds since the origin"), PARAMETERS_END);
