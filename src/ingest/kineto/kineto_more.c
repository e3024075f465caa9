/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters of a Kineto trace, which have a name and several values each, and arrows, whose two ends are
 * events of their own, anywhere in the file; and collectives that nothing else in the file tells.
 */
#include "ingest/kineto/kineto_rows.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

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

/* name, group, type: in the order of struct told. */
static bool append_text(struct reader *r, struct buf *texts, bool has, struct text text)
{
	size_t length = 0;
	const char *plain = has ? text_plain(r, text, &length) : "";

	if (plain)
		buf_append(texts, plain, length);
	buf_append(texts, "", 1);
	return plain;
}

void rows_note_told(struct reader *r, const struct event *e, const struct args *args)
{
	struct told told = {
		.row = { .start_ns = e->time_ns,
			 .duration_ns = e->duration_ns,
			 .device = COLLECTIVE_ON_HOST,
			 .stream = thread_of(e),
			 .sequence_known = has_arg(args, ARG_SEQUENCE),
			 .sequence = number(args, ARG_SEQUENCE, 0),
			 .group_size = number32(args, ARG_GROUP_SIZE, 0),
			 .in_elements = number(args, ARG_IN_ELEMENTS, 0),
			 .out_elements = number(args, ARG_OUT_ELEMENTS, 0) },
		.lane = (uint32_t)(r->lane - r->lanes),
	};
	struct buf texts = { 0 };

	/* Without a name it may as well be the wait for one. */
	if (!has_arg(args, ARG_COLLECTIVE) || is_text(args->collective, "wait") ||
	    begins_with(args->collective, "init"))
		return;
	if (!append_text(r, &texts, true, args->collective) ||
	    !append_text(r, &texts, has_arg(args, ARG_GROUP), args->group) ||
	    !append_text(r, &texts, has_arg(args, ARG_TYPE), args->type) || texts.failed ||
	    array_grow(&r->told, &r->told_capacity, r->n_told + 1, sizeof(*r->told)) < 0) {
		r->failed = -ENOMEM;
		buf_release(&texts);
		return;
	}
	told.texts = texts.data;
	r->told[r->n_told++] = told;
}

void rows_add_told(struct reader *r, const struct told *told, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct row_collective row = told[i].row;
		const char *name = told[i].texts, *group = name + strlen(name) + 1;
		const char *type = group + strlen(group) + 1;

		lane_choose(r, told[i].lane);
		row.name = part_text(r->part, name);
		row.group = *group ? part_text(r->part, group) : 0;
		row.type = *type ? part_text(r->part, type) : 0;
		part_add(r->part, RECORD_COLLECTIVE, &row);
	}
}

void told_cut(struct reader *r, size_t n)
{
	while (r->n_told > n)
		free(r->told[--r->n_told].texts);
}
