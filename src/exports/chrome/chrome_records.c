/* SPDX-License-Identifier: Apache-2.0
 *
 * Records that Kineto has no events for, by the list of their columns: `record` (its kind) and a key for each
 * column in the arguments, time and duration as those of the event. Strings, sites and launches are
 * written out; lists are arrays, and say their lengths themselves. Numbers that JSON has no form for
 * are texts.
 *
 * Counters and readings are drawn from their arguments, so their kind stands beside these.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_write.h"
#include "exports/chrome/chrome_inside.h"
#include "tables/room.h"

/* Written by the other files, or in forms of their own below. */
#define OTHERWISE                                                                                  \
	(WANT(STRING) | WANT(SITE) | WANT(LAUNCH) | WANT(KERNEL) | WANT(RANGE) | WANT(OP) |        \
	 WANT(STEP) | WANT(MEMORY) | WANT(COUNTER) | WANT(THREAD) | WANT(COPY) | WANT(SET) |       \
	 WANT(API) | WANT(SYNC) | WANT(SAMPLE) | WANT(SPAN) | WANT(COLLECTIVE) | WANT(FRAME) |     \
	 WANT(FLOW))

/* The arrays of a table; only looked at. */
static const void *slot_of(const struct trace *t, enum record_kind kind, unsigned int slot)
{
	return *(void **)room_slot((struct run *)t->run, kind, slot);
}

static size_t rows_of(const struct trace *t, enum record_kind kind)
{
	return *room_rows((struct run *)t->run, kind);
}

/* Slots of a table: the shards, then one a column, two a list. */
static unsigned int slot_of_column(const struct kind_desc *desc, unsigned int column)
{
	unsigned int slot = 2;

	for (unsigned int c = 0; c < column; c++)
		slot += column_is_list(&desc->columns[c]) ? 2 : 1;
	return slot;
}

static void put_number(struct trace *t, enum column_type type, const void *values, size_t i)
{
	double real;

	switch (type) {
	case COLUMN_U8:
		emit_uint(&t->out, ((const uint8_t *)values)[i]);
		break;
	case COLUMN_U16:
		emit_uint(&t->out, ((const uint16_t *)values)[i]);
		break;
	case COLUMN_U32:
		emit_uint(&t->out, ((const uint32_t *)values)[i]);
		break;
	case COLUMN_U64:
		emit_uint(&t->out, ((const uint64_t *)values)[i]);
		break;
	case COLUMN_I32:
		emit_int(&t->out, ((const int32_t *)values)[i]);
		break;
	case COLUMN_I64:
		emit_int(&t->out, ((const int64_t *)values)[i]);
		break;
	case COLUMN_F64:
		real = ((const double *)values)[i];
		if (isfinite(real))
			emit_double(&t->out, real);
		else
			emit_text(&t->out, isnan(real) ? "\"NaN\""
					   : real > 0  ? "\"Infinity\""
						       : "\"-Infinity\"");
		break;
	}
}

static void put_site_object(struct trace *t, uint32_t id)
{
	struct site site = run_site(t->run, id);

	EMIT(&t->out, "{\"name\":");
	put_string(t, site.name);
	EMIT(&t->out, ",\"layer\":");
	emit_int(&t->out, site.layer);
	EMIT(&t->out, ",\"expert\":");
	emit_int(&t->out, site.expert);
	EMIT(&t->out, ",\"phase\":");
	emit_uint(&t->out, site.phase);
	EMIT(&t->out, "}");
}

static void put_launch_object(struct trace *t, uint32_t id)
{
	struct row_launch launch = run_launch(t->run, id);
	const struct kind_desc *desc = kind_desc(RECORD_LAUNCH);

	EMIT(&t->out, "{");
	for (unsigned int c = 1; c < desc->n_columns; c++) { /* all but the id */
		const struct column_desc *column = &desc->columns[c];

		emit_text(&t->out, c > 1 ? ",\"" : "\"");
		emit_text(&t->out, column->name);
		EMIT(&t->out, "\":");
		if (column->refers)
			put_string(t, launch.name);
		else
			put_number(t, column->type, (const char *)&launch + column->row_offset, 0);
	}
	EMIT(&t->out, "}");
}

static void put_list(struct trace *t, const struct column_desc *column, const void *values,
		     const uint64_t *first, size_t row)
{
	EMIT(&t->out, "[");
	for (uint64_t i = first[row]; i < first[row + 1]; i++) {
		if (i > first[row])
			EMIT(&t->out, ",");
		put_number(t, column->type, values, i);
	}
	EMIT(&t->out, "]");
}

static bool counts_a_list(const struct kind_desc *desc, unsigned int column)
{
	for (unsigned int c = 0; c < desc->n_columns; c++)
		if (desc->columns[c].count_column == (int)column)
			return true;
	return false;
}

static void put_column(struct trace *t, enum record_kind kind, unsigned int c, size_t row)
{
	const struct kind_desc *desc = kind_desc(kind);
	const struct column_desc *column = &desc->columns[c];
	unsigned int slot = slot_of_column(desc, c);
	const void *values = slot_of(t, kind, slot);
	uint32_t id = column->refers ? ((const uint32_t *)values)[row] : 0;
	char key[64];
	int n = snprintf(key, sizeof(key), "\"%s\":", column->name);

	if (column->refers && !id)
		return;
	arg_key(t, key, (size_t)n);
	if (column->refers == RECORD_STRING)
		put_string(t, id);
	else if (column->refers == RECORD_SITE)
		put_site_object(t, id);
	else if (column->refers == RECORD_LAUNCH)
		put_launch_object(t, id);
	else if (column_is_list(column))
		put_list(t, column, values, slot_of(t, kind, slot + 1), row);
	else
		put_number(t, column->type, values, row);
}

void put_columns(struct trace *t, enum record_kind kind, size_t row, bool duration_too)
{
	const struct kind_desc *desc = kind_desc(kind);

	args_begin(t);
	ARG(t, "record");
	EMIT(&t->out, "\"");
	emit_text(&t->out, desc->name);
	EMIT(&t->out, "\"");
	for (unsigned int c = 0; c < desc->n_columns; c++)
		if ((int)c != desc->time_column &&
		    (duration_too || (int)c != desc->duration_column) && !counts_a_list(desc, c))
			put_column(t, kind, c, row);
}

/* The column that an event is called by, or the kind has its own name. */
static const char *name_of(const struct trace *t, enum record_kind kind, size_t row)
{
	switch (kind) {
	case RECORD_MARK:
		return run_string(t->run, t->run->mark.text[row]);
	case RECORD_PAYLOAD:
		return run_string(t->run, t->run->payload.name[row]);
	case RECORD_LIBRARY_CALL:
		return run_string(t->run, t->run->library_call.name[row]);
	case RECORD_OS_CALL:
		return run_string(t->run, t->run->os_call.name[row]);
	default:
		return kind_desc(kind)->name;
	}
}

static uint64_t thread_of(const struct trace *t, enum record_kind kind, size_t row)
{
	const struct kind_desc *desc = kind_desc(kind);

	for (unsigned int c = 0; c < desc->n_columns; c++)
		if (!strcmp(desc->columns[c].name, "thread"))
			return ((const uint32_t *)slot_of(t, kind, slot_of_column(desc, c)))[row];
	return RECORD_TRACK;
}

/* The name that the program gave to a category of a domain: a fact of the run. NULL: none. */
static const char *category_name(const struct run *run, uint16_t shard, const char *domain,
				 uint32_t category)
{
	const struct table_fact *fact = &run->fact;
	char key[128];

	snprintf(key, sizeof(key), "NVTX category %s%s%u", domain, *domain ? "/" : "", category);
	for (size_t i = 0; i < fact->n; i++)
		if (fact->shard[i] == shard && !strcmp(run_string(run, fact->key[i]), key))
			return run_string(run, fact->value[i]);
	return NULL;
}

/* For people: the value in its type, and the name of the category. */
static void explain_payload(struct trace *t, size_t i)
{
	const struct table_payload *payload = &t->run->payload;
	const char *name = payload->category[i]
				   ? category_name(t->run, payload->shard[i],
						   run_string(t->run, payload->domain[i]),
						   payload->category[i])
				   : NULL;
	double real;

	if (name) {
		ARG(t, "category_name");
		emit_string(&t->out, name);
	}
	if (!payload->type[i])
		return; /* a category alone, or a payload that the probe cannot read */
	ARG(t, "payload");
	memcpy(&real, &payload->bits[i], sizeof(real));
	if (payload->type[i] == 1)
		emit_uint(&t->out, payload->bits[i]);
	else if (payload->type[i] == 2)
		emit_int(&t->out, (int64_t)payload->bits[i]);
	else
		emit_double(&t->out, real);
}

void put_record(struct trace *t, enum record_kind kind, size_t row)
{
	const struct kind_desc *desc = kind_desc(kind);
	uint16_t shard = ((const uint16_t *)slot_of(t, kind, 1))[row];
	int64_t time_ns = t->run->start_ns;
	bool spans = desc->duration_column >= 0;

	if (desc->time_column >= 0)
		time_ns = ((const int64_t *)slot_of(
			t, kind, slot_of_column(desc, (unsigned int)desc->time_column)))[row];
	event_begin(t, spans ? "X" : "i", "moescope");
	event_name(t, name_of(t, kind, row));
	event_place(t, t->process[shard].pid, thread_of(t, kind, row));
	event_time(t, time_ns);
	if (spans)
		event_duration(
			t,
			((const int64_t *)slot_of(
				t, kind,
				slot_of_column(desc, (unsigned int)desc->duration_column)))[row]);
	else
		EMIT(&t->out, ",\"s\":\"t\"");
	put_columns(t, kind, row, false);
	if (kind == RECORD_PAYLOAD)
		explain_payload(t, row);
	args_end(t);
}

/* A counter track of its own for each device. */
static void put_value(struct trace *t, enum record_kind kind, size_t row)
{
	const struct table_counter *counter = &t->run->counter;
	const struct table_sample *sample = &t->run->sample;
	bool counts = kind == RECORD_COUNTER;
	double value = counts ? counter->value[row] : sample->value[row];

	if (!isfinite(value)) {
		put_record(t, kind, row);
		return;
	}
	event_begin(t, "C", "moescope");
	EMIT(&t->out, ",\"record\":\"");
	emit_text(&t->out, kind_desc(kind)->name);
	EMIT(&t->out, "\"");
	event_name_id(t, counts ? counter->name[row] : sample->metric[row]);
	event_place(t, t->process[counts ? counter->shard[row] : sample->shard[row]].pid, 0);
	event_time(t, counts ? counter->time_ns[row] : sample->time_ns[row]);
	if (!counts) {
		EMIT(&t->out, ",\"id\":");
		emit_uint(&t->out, sample->device[row]);
	}
	args_begin(t);
	ARG(t, "value");
	emit_double(&t->out, value);
	args_end(t);
}

void put_sample(struct trace *t, size_t row)
{
	put_value(t, RECORD_SAMPLE, row);
}

/* Asynchronous events: they begin and end where they like. The beginning is the record. */
static void put_spans(struct trace *t)
{
	const struct table_span *span = &t->run->span;

	for (size_t i = 0; i < span->n; i++) {
		uint32_t ends_on = span->unfinished[i] ? span->thread[i] : span->end_thread[i];

		if (!is_on(t, span->shard[i]))
			continue;
		for (int end = 0; end < 2; end++) {
			event_begin(t, end ? "e" : "b", "moescope");
			event_name_id(t, span->name[i]);
			EMIT(&t->out, ",\"id\":");
			emit_uint(&t->out, i + 1);
			event_place(t, t->process[span->shard[i]].pid,
				    end ? ends_on : span->thread[i]);
			event_time(t, span->start_ns[i] + (end ? span->duration_ns[i] : 0));
			if (end) {
				EMIT(&t->out, "}");
				continue;
			}
			put_columns(t, RECORD_SPAN, i, true);
			args_end(t);
		}
	}
}

void put_records(struct trace *t)
{
	const struct table_counter *counter = &t->run->counter;
	const struct table_sample *sample = &t->run->sample;

	for (size_t i = 0; i < counter->n; i++)
		if (is_on(t, counter->shard[i]))
			put_value(t, RECORD_COUNTER, i);
	for (size_t i = 0; i < sample->n; i++)
		if (is_on(t, sample->shard[i]) && !t->told[i])
			put_sample(t, i);
	put_spans(t);
	for (unsigned int kind = 1; kind < RECORD_KIND_LIMIT; kind++) {
		/* Devices of one process are in the head of the file. */
		bool otherwise = OTHERWISE >> kind & 1 || (kind == RECORD_DEVICE && t->n_on == 1);
		size_t n = otherwise ? 0 : rows_of(t, kind);
		const uint16_t *shard = n ? slot_of(t, kind, 1) : NULL;

		for (size_t i = 0; i < n; i++)
			if (is_on(t, shard[i]))
				put_record(t, kind, i);
	}
}
