/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a Perfetto trace as the viewer does: packets sorted by time, the order of the file among
 * equal times, ends close what was opened last on their track. Any failure ends the test.
 */
#ifndef TESTS_PERFETTO_READ_H
#define TESTS_PERFETTO_READ_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "exports/exports.h"

struct pf_event {
	uint64_t time, track, duration;
	size_t order;
	int type, depth;
	char category[32], name[256], args[512]; /* args: " key=value" each */
	double value;
	uint64_t flows[64], ends[64]; /* flows that begin or go on here, and that end here */
	size_t n_flows, n_ends;
};

struct pf_track {
	uint64_t uuid, parent, pid, tid;
	char name[256];
	bool counter;
};

struct pf_names {
	char *text[4][16384]; /* by interned table: categories, names, annotations, strings */
};

struct pf_trace {
	struct pf_event *events; /* by time */
	size_t n;
	struct pf_track *tracks;
	size_t n_tracks;
	struct pf_names *names;
};

struct pf_field {
	unsigned int number, wire;
	uint64_t value;
	const uint8_t *data;
	size_t size;
};

static uint64_t pf_varint(const uint8_t **at, const uint8_t *end)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; shift < 70; shift += 7) {
		assert_true(*at < end);
		value |= (uint64_t)(**at & 0x7f) << shift;
		if (!(*(*at)++ & 0x80))
			return value;
	}
	fail_msg("a number without an end");
	return 0;
}

static bool pf_next(const uint8_t **at, const uint8_t *end, struct pf_field *ret)
{
	uint64_t tag;

	if (*at == end)
		return false;
	tag = pf_varint(at, end);
	*ret = (struct pf_field){ .number = (unsigned int)(tag >> 3), .wire = tag & 7 };
	if (ret->wire == 0) {
		ret->value = pf_varint(at, end);
		return true;
	}
	assert_true(ret->wire == 1 || ret->wire == 2);
	ret->size = ret->wire == 1 ? 8 : (size_t)pf_varint(at, end);
	assert_true(ret->size <= (size_t)(end - *at));
	ret->data = *at;
	*at += ret->size;
	if (ret->wire == 1)
		for (int i = 0; i < 8; i++)
			ret->value |= (uint64_t)ret->data[i] << 8 * i;
	return true;
}

static void pf_text(const struct pf_field *field, char *out, size_t size)
{
	size_t n = field->size < size - 1 ? field->size : size - 1;

	assert_int_equal(field->wire, 2);
	memcpy(out, field->data, n);
	out[n] = '\0';
	for (size_t i = 0, taken; i < field->size; i += taken) {
		uint32_t point;
		int valid;

		taken = utf8_decode((const char *)field->data + i, field->size - i, &point, &valid);
		assert_true(valid);
	}
}

static void pf_intern(struct pf_trace *trace, const struct pf_field *entry)
{
	static const unsigned int tables[] = { 1, 2, 3, 29 };
	const uint8_t *at = entry->data, *end = at + entry->size;
	char text[4096] = "";
	uint64_t iid = 0;
	struct pf_field field;
	int table = 0;

	while (table < 4 && tables[table] != entry->number)
		table++;
	assert_true(table < 4);
	while (pf_next(&at, end, &field)) {
		if (field.number == 1)
			iid = field.value;
		else
			pf_text(&field, text, sizeof(text));
	}
	assert_true(iid && iid < 16384);
	assert_null(trace->names->text[table][iid]);
	trace->names->text[table][iid] = strdup(text);
}

static const char *pf_named(const struct pf_trace *trace, int table, uint64_t iid)
{
	assert_true(iid < 16384);
	assert_non_null(trace->names->text[table][iid]);
	return trace->names->text[table][iid];
}

static void pf_annotation(const struct pf_trace *trace, struct pf_event *event,
			  const struct pf_field *entry)
{
	const uint8_t *at = entry->data, *end = at + entry->size;
	char *out = event->args + strlen(event->args);
	size_t size = (size_t)(event->args + sizeof(event->args) - out);
	const char *key = "?";
	char value[256] = "";
	struct pf_field field;
	double real;

	while (pf_next(&at, end, &field)) {
		switch (field.number) {
		case 1:
			key = pf_named(trace, 2, field.value);
			break;
		case 2:
		case 3:
			snprintf(value, sizeof(value), "%llu", (unsigned long long)field.value);
			break;
		case 4:
			snprintf(value, sizeof(value), "%lld", (long long)field.value);
			break;
		case 5:
			memcpy(&real, &field.value, sizeof(real));
			snprintf(value, sizeof(value), "%g", real);
			break;
		case 6:
			pf_text(&field, value, sizeof(value));
			break;
		case 17:
			snprintf(value, sizeof(value), "%s", pf_named(trace, 3, field.value));
			break;
		default:
			fail_msg("annotation field %u", field.number);
		}
	}
	snprintf(out, size, " %s=%s", key, value);
}

static void pf_read_event(struct pf_trace *trace, struct pf_event *event,
			  const struct pf_field *entry)
{
	const uint8_t *at = entry->data, *end = at + entry->size;
	struct pf_field field;

	while (pf_next(&at, end, &field)) {
		switch (field.number) {
		case 3:
			snprintf(event->category, sizeof(event->category), "%s",
				 pf_named(trace, 0, field.value));
			break;
		case 4:
			pf_annotation(trace, event, &field);
			break;
		case 9:
			event->type = (int)field.value;
			break;
		case 10:
			snprintf(event->name, sizeof(event->name), "%s",
				 pf_named(trace, 1, field.value));
			break;
		case 11:
			event->track = field.value;
			break;
		case 23:
			pf_text(&field, event->name, sizeof(event->name));
			break;
		case 44:
			memcpy(&event->value, &field.value, sizeof(event->value));
			break;
		case 47:
			assert_true(event->n_flows < 64);
			event->flows[event->n_flows++] = field.value;
			break;
		case 48:
			assert_true(event->n_ends < 64);
			event->ends[event->n_ends++] = field.value;
			break;
		default:
			fail_msg("event field %u", field.number);
		}
	}
}

static void pf_read_track(struct pf_trace *trace, const struct pf_field *entry)
{
	const uint8_t *at = entry->data, *end = at + entry->size;
	struct pf_track track = { 0 };
	struct pf_field field, inner;

	while (pf_next(&at, end, &field)) {
		const uint8_t *in = field.data, *in_end = field.data + field.size;

		if (field.number == 1)
			track.uuid = field.value;
		else if (field.number == 5)
			track.parent = field.value;
		else if (field.number == 2)
			pf_text(&field, track.name, sizeof(track.name));
		else if (field.number == 8)
			track.counter = true;
		else if (field.number == 3 || field.number == 4)
			while (pf_next(&in, in_end, &inner)) {
				if (inner.number == 1)
					track.pid = inner.value;
				else if (inner.number == 2)
					track.tid = inner.value;
				else
					pf_text(&inner, track.name, sizeof(track.name));
			}
	}
	assert_true(track.uuid != 0);
	for (size_t i = 0; i < trace->n_tracks; i++)
		assert_true(trace->tracks[i].uuid != track.uuid);
	trace->tracks = realloc(trace->tracks, (trace->n_tracks + 1) * sizeof(track));
	trace->tracks[trace->n_tracks++] = track;
}

static void pf_packet(struct pf_trace *trace, const uint8_t *at, const uint8_t *end)
{
	struct pf_event event = { .order = trace->n };
	struct pf_field field, entry;
	bool sequence = false;

	while (pf_next(&at, end, &field)) {
		const uint8_t *in = field.data, *in_end = field.data + field.size;

		if (field.number == 8)
			event.time = field.value;
		else if (field.number == 10)
			sequence = true;
		else if (field.number == 12)
			while (pf_next(&in, in_end, &entry))
				pf_intern(trace, &entry);
		else if (field.number == 60)
			pf_read_track(trace, &field);
		else if (field.number == 11)
			pf_read_event(trace, &event, &field);
	}
	assert_true(sequence);
	if (!event.type)
		return;
	trace->events = realloc(trace->events, (trace->n + 1) * sizeof(event));
	trace->events[trace->n++] = event;
}

static int pf_by_time(const void *a, const void *b)
{
	const struct pf_event *x = a, *y = b;

	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* Gives slices their durations and depths. */
static void pf_match(struct pf_trace *trace)
{
	struct pf_event **open = calloc(trace->n + 1, sizeof(*open));

	for (size_t i = 0; i < trace->n; i++) {
		struct pf_event *event = &trace->events[i];
		size_t n = 0;

		if (event->type != 1 && event->type != 2)
			continue;
		for (size_t j = 0; j < i; j++)
			if (trace->events[j].track == event->track && trace->events[j].type == 1 &&
			    trace->events[j].duration == UINT64_MAX)
				open[n++] = &trace->events[j];
		if (event->type == 1) {
			event->depth = (int)n;
			event->duration = UINT64_MAX;
		} else {
			assert_true(n > 0);
			open[n - 1]->duration = event->time - open[n - 1]->time;
		}
	}
	for (size_t i = 0; i < trace->n; i++)
		assert_true(trace->events[i].duration != UINT64_MAX);
	free(open);
}

static struct pf_trace pf_read(const struct run *run)
{
	struct pf_trace trace = { .names = calloc(1, sizeof(struct pf_names)) };
	struct err err = { "" };
	struct pf_field packet;
	const uint8_t *at;
	char *bytes = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&bytes, &size);
	int r = export_perfetto(run, out, &err);

	assert_string_equal(err.message, "");
	assert_int_equal(r, 0);
	fclose(out);
	at = (const uint8_t *)bytes;
	while (pf_next(&at, (const uint8_t *)bytes + size, &packet)) {
		assert_int_equal(packet.number, 1);
		pf_packet(&trace, packet.data, packet.data + packet.size);
	}
	free(bytes);
	if (trace.n)
		qsort(trace.events, trace.n, sizeof(*trace.events), pf_by_time);
	pf_match(&trace);
	return trace;
}

static void pf_release(struct pf_trace *trace)
{
	for (int t = 0; t < 4; t++)
		for (size_t i = 0; i < 16384; i++)
			free(trace->names->text[t][i]);
	free(trace->names);
	free(trace->events);
	free(trace->tracks);
}

static const struct pf_track *pf_track_of(const struct pf_trace *trace, uint64_t uuid)
{
	for (size_t i = 0; i < trace->n_tracks; i++)
		if (trace->tracks[i].uuid == uuid)
			return &trace->tracks[i];
	fail_msg("an event of a track that is not described");
	return NULL;
}

/* The first slice of that category and name; NULL: any. */
static const struct pf_event *pf_find(const struct pf_trace *trace, const char *category,
				      const char *name)
{
	for (size_t i = 0; i < trace->n; i++)
		if (trace->events[i].type == 1 &&
		    (!category || !strcmp(trace->events[i].category, category)) &&
		    (!name || !strcmp(trace->events[i].name, name)))
			return &trace->events[i];
	return NULL;
}

static size_t pf_count(const struct pf_trace *trace, const char *category, uint64_t *ret_ns)
{
	size_t n = 0;

	*ret_ns = 0;
	for (size_t i = 0; i < trace->n; i++)
		if (trace->events[i].type == 1 && !strcmp(trace->events[i].category, category)) {
			n++;
			*ret_ns += trace->events[i].duration;
		}
	return n;
}

#endif
