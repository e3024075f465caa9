/* SPDX-License-Identifier: Apache-2.0
 *
 * Every object of the JSON that is made of fields, by its name in the schema: the rows and totals of
 * tables, and the groups in them.
 */
#ifndef CMD_PARTS_H
#define CMD_PARTS_H

#include "subjects/shared/fields.h"

#define PART_NAME_SIZE 48
#define PARTS_MAX 128

struct section;

struct part {
	char name[PART_NAME_SIZE];
	const char *meaning;	    /* what one is */
	const struct field *fields; /* of a map one: how its values are read */
	size_t n_fields;
	unsigned int forms;	       /* those that data can have */
	const struct field_group *map; /* names to values; NULL: an object of the fields */
	const struct section *rows;    /* whose rows it has beside the fields; NULL: none */
	const struct section *section; /* whose rows or total it is; NULL: a group */
	bool row;		       /* its rows */
	bool sheet;		       /* all of a document that is not about one run */
};

struct parts {
	struct part items[PARTS_MAX];
	size_t n;
};

/* -ENOSPC: there are more than PARTS_MAX. */
int parts_collect(struct parts *parts);
/* By its name, or by the name of the section whose rows it is; NULL: there is none. */
const struct part *parts_find(const struct parts *parts, const char *name);

/* The fields of a part by number, with the names of those that stand beside the others spelled out. */
struct part_key {
	const char *key;
	const struct field *field;
	bool nullable; /* null where it is unknown */
	bool always;   /* there in every form, known or not */
	char room[FIELD_NAME_SIZE];
};

typedef void (*part_visit)(const struct part *part, const struct part_key *key, void *data);
/* Once for each key. */
void part_each(const struct part *part, part_visit visit, void *data);

/* What a key means in a few words: those of the field, of its key, or of the metric of that name. NULL: none
 * of them says it. */
const char *part_key_meaning(const struct part_key *key);

#endif
