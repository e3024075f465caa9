/* SPDX-License-Identifier: Apache-2.0
 *
 * Comma-separated values (RFC 4180) as other tools write them, one record after another: memory is
 * that of the longest record. Untrusted input. One thread at a time a reader.
 */
#ifndef INGEST_CSV_H
#define INGEST_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/* A record that is longer, or a quote that is open longer, is broken: the file goes on in the line
 * after the one that it began on. */
#define CSV_RECORD_MAX ((size_t)4 << 20)
#define CSV_FIELDS_MAX 65536

struct csv_field {
	const char *text; /* NUL-terminated, without the quotes; may hold NULs */
	size_t length;
};

/* Until the next csv_next. */
struct csv {
	struct csv_field *fields;
	size_t n;
	uint64_t offset; /* of the record in the file */
	uint64_t line;	 /* the record's first; from 1 */
	bool broken;	 /* no field of it can be trusted; n is 0 */
	bool unended;	 /* the file ends without a line break: its last field may be cut */

	FILE *file; /* NULL: bytes */
	char *bytes;
	size_t at, size, capacity; /* of bytes: next to be read, filled, allocated */
	uint64_t base;		   /* offset of bytes in the file */
	uint64_t next_line;
	bool ended; /* nothing comes after bytes */
	int failed; /* reading failed: -errno */
	char *texts;
	size_t texts_capacity, fields_capacity;
};

/* 0 or -errno with a sentence. */
int csv_open(struct csv *csv, const char *path, struct err *err);
/* The bytes are copied. 0 or -ENOMEM. */
int csv_open_bytes(struct csv *csv, const char *bytes, size_t size);
void csv_close(struct csv *csv);
/* 1: a record; 0: the end; -errno. Empty lines are left out. */
int csv_next(struct csv *csv);

/* The field without blanks around it; one that is not there is empty. */
struct csv_field csv_trimmed(const struct csv *csv, size_t i);
bool csv_is(const struct csv_field *field, const char *text);

/* How a file writes numbers: 1,234.5 or 1.234,5 or 1 234,5 or 1'234.5. */
struct number_form {
	uint64_t points, commas; /* values that can only be read with that decimal sign */
	char decimal;		 /* after number_form_decide */
};
/* Looks at one value; what is not a number says nothing. */
void number_form_see(struct number_form *form, const char *text, size_t length);
/* By the majority; a point where nothing says otherwise. */
void number_form_decide(struct number_form *form);

enum number_kind {
	NUMBER_READ,
	NUMBER_NONE,  /* a text: no digit begins it, or it goes on after the number */
	NUMBER_OTHER, /* a number that this form cannot be */
};
/* Grouped digits are taken out. Infinite and undefined numbers are texts. */
enum number_kind number_read(const struct number_form *form, const char *text, size_t length,
			     double *ret_value);

#endif
