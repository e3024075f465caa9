/* SPDX-License-Identifier: Apache-2.0
 *
 * Records of comma-separated values; see csv.h.
 *
 * A record lies whole in `bytes` before it is taken apart, so that one that turns out to be broken
 * can be given up and the file read on behind its first line.
 */
#include "ingest/shared/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/input_file.h"

#define CSV_READ_BYTES ((size_t)64 << 10)

int csv_open(struct csv *csv, const char *path, struct err *err)
{
	*csv = (struct csv){ .next_line = 1 };
	csv->file = input_stream(path, err);
	return csv->file ? 0 : -errno;
}

int csv_open_bytes(struct csv *csv, const char *bytes, size_t size)
{
	*csv = (struct csv){ .next_line = 1, .ended = true, .size = size, .capacity = size };
	csv->bytes = malloc(size ? size : 1);
	if (!csv->bytes)
		return -ENOMEM;
	if (size)
		memcpy(csv->bytes, bytes, size);
	return 0;
}

void csv_close(struct csv *csv)
{
	if (csv->file)
		fclose(csv->file);
	free(csv->bytes);
	free(csv->texts);
	free(csv->fields);
	*csv = (struct csv){ 0 };
}

/* More bytes behind those that are there; what is read already goes. 1, 0 at the end, -errno. */
static int fill_csv(struct csv *csv)
{
	size_t got;

	if (csv->ended)
		return csv->failed;
	if (csv->at) {
		memmove(csv->bytes, csv->bytes + csv->at, csv->size - csv->at);
		csv->base += csv->at;
		csv->size -= csv->at;
		csv->at = 0;
	}
	if (csv->capacity - csv->size < CSV_READ_BYTES) {
		size_t capacity = csv->capacity + csv->capacity / 2 + CSV_READ_BYTES;
		char *bytes = realloc(csv->bytes, capacity);

		if (!bytes)
			return -ENOMEM;
		csv->bytes = bytes;
		csv->capacity = capacity;
	}
	got = fread(csv->bytes + csv->size, 1, csv->capacity - csv->size, csv->file);
	csv->size += got;
	if (got)
		return 1;
	csv->ended = true;
	if (ferror(csv->file))
		csv->failed = errno ? -errno : -EIO;
	return csv->failed;
}

/* Where the record ends that begins at `at`, behind its line break. 1: *ret_end; 0: it is broken;
 * -errno. The bytes may move. */
static int find_end(struct csv *csv, size_t *ret_end)
{
	enum { BEGIN, PLAIN, QUOTED, CLOSED } state = BEGIN; /* of the field */
	size_t i = 0;					     /* from `at` */

	for (;;) {
		char c;

		if (csv->at + i == csv->size || i == CSV_RECORD_MAX) {
			int r = i < CSV_RECORD_MAX ? fill_csv(csv) : 0;

			if (r < 0)
				return r;
			if (!r) {
				*ret_end = csv->at + i;
				return i < CSV_RECORD_MAX && state != QUOTED;
			}
			continue;
		}
		c = csv->bytes[csv->at + i++];
		if (state == QUOTED) {
			state = c == '"' ? CLOSED : QUOTED;
		} else if (c == '\n') {
			*ret_end = csv->at + i;
			return 1;
		} else if (c == '"' && state != PLAIN) {
			/* Behind a closing one: two quotes are one. */
			state = QUOTED;
		} else if (c == ',') {
			state = BEGIN;
		} else if (c != ' ' || state != BEGIN) {
			/* nvidia-smi puts a blank behind its commas. */
			state = PLAIN;
		}
	}
}

static int add_csv_field(struct csv *csv, const char *text, size_t length)
{
	if (csv->n == csv->fields_capacity) {
		size_t capacity = csv->fields_capacity ? 2 * csv->fields_capacity : 64;
		struct csv_field *fields = realloc(csv->fields, capacity * sizeof(*fields));

		if (!fields)
			return -ENOMEM;
		csv->fields = fields;
		csv->fields_capacity = capacity;
	}
	csv->fields[csv->n++] = (struct csv_field){ text, length };
	return 0;
}

/* Takes the record apart into `texts`, which is as large as the record with a NUL for each comma. */
static int split_record(struct csv *csv, const char *from, const char *to)
{
	char *out;

	if (csv->texts_capacity < (size_t)(to - from) + 2) {
		size_t capacity = (size_t)(to - from) + 256;
		char *texts = realloc(csv->texts, capacity);

		if (!texts)
			return -ENOMEM;
		csv->texts = texts;
		csv->texts_capacity = capacity;
	}
	out = csv->texts;
	for (bool more = true; more;) {
		char *begin = out;
		const char *p = from;

		while (p < to && *p == ' ')
			p++;
		if (p < to && *p == '"') {
			for (from = p + 1; from < to; from++) {
				if (*from != '"')
					*out++ = *from;
				else if (from + 1 < to && from[1] == '"')
					*out++ = *from++;
				else
					break;
			}
			from += from < to;
		}
		while (from < to && *from != ',')
			*out++ = *from++;
		more = from < to;
		from += more;
		if (csv->n == CSV_FIELDS_MAX) {
			csv->n = 0;
			csv->broken = true;
			return 0;
		}
		*out++ = 0;
		if (add_csv_field(csv, begin, (size_t)(out - begin) - 1) < 0)
			return -ENOMEM;
	}
	return 0;
}

static uint64_t count_lines(const char *bytes, size_t size)
{
	uint64_t n = 0;

	for (const char *p = bytes; size && (p = memchr(p, '\n', size - (size_t)(p - bytes))); p++)
		n++;
	return n;
}

/* The first line of a broken record is given up; all of it when that is too long as well. */
static void give_up(struct csv *csv, size_t end)
{
	const char *line = memchr(csv->bytes + csv->at, '\n', end - csv->at);
	size_t to = line ? (size_t)(line - csv->bytes) + 1 : end;

	csv->broken = true;
	csv->next_line += line != NULL;
	csv->at = to;
}

int csv_next(struct csv *csv)
{
	for (;;) {
		size_t end, to;
		int r = 1;

		csv->n = 0;
		csv->broken = csv->unended = false;
		if (csv->at == csv->size)
			r = fill_csv(csv);
		if (r <= 0)
			return r;
		/* A mark of the byte order, which some tools put in front. */
		if (csv->base + csv->at == 0) {
			while (csv->size < 3 && (r = fill_csv(csv)) > 0)
				;
			if (r < 0)
				return r;
			if (csv->size >= 3 && !memcmp(csv->bytes, "\xef\xbb\xbf", 3)) {
				csv->at = 3;
				continue;
			}
		}
		csv->line = csv->next_line;
		r = find_end(csv, &end);
		csv->offset = csv->base + csv->at;
		if (r < 0)
			return r;
		if (!r) {
			give_up(csv, end);
			return 1;
		}
		to = end;
		csv->unended = to == csv->at || csv->bytes[to - 1] != '\n';
		if (!csv->unended)
			to--;
		if (to > csv->at && csv->bytes[to - 1] == '\r')
			to--;
		csv->next_line += count_lines(csv->bytes + csv->at, end - csv->at);
		r = to > csv->at ? split_record(csv, csv->bytes + csv->at, csv->bytes + to) : 0;
		csv->at = end;
		if (r < 0)
			return r;
		if (csv->n || csv->broken)
			return 1;
	}
}

struct csv_field csv_trimmed(const struct csv *csv, size_t i)
{
	struct csv_field field = { "", 0 };

	if (i >= csv->n)
		return field;
	field = csv->fields[i];
	while (field.length && (*field.text == ' ' || *field.text == '\t')) {
		field.text++;
		field.length--;
	}
	while (field.length &&
	       (field.text[field.length - 1] == ' ' || field.text[field.length - 1] == '\t'))
		field.length--;
	return field;
}

bool csv_is(const struct csv_field *field, const char *text)
{
	return strlen(text) == field->length && !memcmp(field->text, text, field->length);
}
