/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of a Kineto trace, which have a name and several values each, and arrows, whose two ends are
 * events of their own, anywhere in the file.
 */
#include "ingest/kineto_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* p: at a number; false: it is none, or one that is not finite. */
static bool read_double(const char *p, const char *end, double *ret_value)
{
	char text[64];
	size_t length = (size_t)(end - p);
	char *stop;

	if (length >= sizeof(text))
		return false;
	memcpy(text, p, length);
	text[length] = 0;
	*ret_value = strtod(text, &stop);
	return length && *stop == 0 && isfinite(*ret_value);
}

/* The counter "memory" with the argument "used" is "memory used". */
static uint32_t counter_name(struct reader *r, struct text name, struct text key)
{
	size_t length, key_length;
	const char *plain = text_plain(r, name, &length);
	struct buf joined = { 0 };
	uint32_t id;

	if (key.length == 5 && !memcmp(key.at, "value", 5))
		return text_id(r, name);
	if (!plain)
		return 0;
	buf_append(&joined, plain, length);
	plain = text_plain(r, key, &key_length);
	if (plain && key_length) {
		buf_append(&joined, " ", 1);
		buf_append(&joined, plain, key_length);
	}
	id = joined.failed ? 0 : part_string(r->part, joined.data, joined.size);
	buf_release(&joined);
	return id;
}

void rows_add_counters(struct reader *r, const struct event *e)
{
	struct row_counter row = { .time_ns = e->time_ns };
	const char *p = e->args.at;
	bool bad = !(e->has & EVENT_TIME) || !p || *p != '{';

	if (!bad)
		p = skip_blanks(p + 1);
	while (!bad && *p == '"') {
		struct text key;
		const char *value;

		p = value_text(r, p, &key);
		value = p ? skip_blanks(skip_blanks(p) + 1)
			  : NULL; /* it was skipped: it is whole */
		p = value ? value_skip(r, value) : NULL;
		if (!p || !read_double(value, p, &row.value)) {
			bad = true;
			break;
		}
		row.name = counter_name(r, e->name, key);
		part_add(r->part, RECORD_COUNTER, &row);
		p = skip_blanks(p);
		if (*p == ',')
			p = skip_blanks(p + 1);
	}
	if (bad)
		part_damaged(r->part, r->offset + (uint64_t)(e->begin - r->begin),
			     "a counter without its time or numbers");
}

static int by_place_and_time(const void *a, const void *b)
{
	const struct arrow *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->end - y->end;
}

void rows_add_arrows(struct reader *r, struct arrow *arrows, size_t n)
{
	size_t alone = 0;

	if (n)
		qsort(arrows, n, sizeof(*arrows), by_place_and_time);
	for (size_t i = 0; i < n; i++) {
		struct row_flow row = { .start_ns = arrows[i].time_ns,
					.thread = arrows[i].thread,
					.id = arrows[i].id };

		if (arrows[i].end || i + 1 == n || arrows[i + 1].id != arrows[i].id ||
		    arrows[i + 1].lane != arrows[i].lane || !arrows[i + 1].end) {
			alone++;
			continue;
		}
		i++;
		row.duration_ns = arrows[i].time_ns - row.start_ns;
		row.end_thread = arrows[i].thread;
		lane_choose(r, arrows[i].lane);
		row.name = part_text(r->part, "fwdbwd");
		part_add(r->part, RECORD_FLOW, &row);
	}
	if (alone)
		intake_note(r->intake,
			    "%zu ends of arrows from forward to backward operations have no other "
			    "end and are left out",
			    alone);
}
