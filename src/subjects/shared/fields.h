/* SPDX-License-Identifier: Apache-2.0
 *
 * Fields: what the rows of an answer hold, described once. A field has a key with its unit, a title
 * for text, the forms of the table in which it exists, and how it is read from a row. Text, JSON,
 * CSV and SQL are made from this; a new figure of a subject is one line in its list of fields.
 *
 * Nothing here prints or knows a format. Pure, any thread.
 */
#ifndef SUBJECTS_FIELDS_H
#define SUBJECTS_FIELDS_H

#include <stddef.h>

#include "subjects/shared/cell.h"
#include "tables/tables.h"

/* Why a figure is absent from an imported run. */
#define NOT_IN_FILE "the imported file does not say"

/* How a value looks to people; data has the plain number. */
enum field_unit {
	UNIT_TEXT,
	UNIT_INT,
	UNIT_DEVICE, /* below 0: the host */
	UNIT_COUNT,  /* 3.40 M */
	UNIT_NS,
	UNIT_BYTES,
	UNIT_PCT,
	UNIT_RATIO,
	UNIT_FLOPS,
	UNIT_RATE,
};

struct field;
struct field_group;
struct field_set;
struct answers;

/* Where a reader stands. */
struct field_row {
	const struct run *run;
	const void *item;	       /* the row; of the outermost: the answer */
	const struct field_row *in;    /* what the row lies in; NULL: nothing */
	size_t index;		       /* of the row in there */
	unsigned int form;	       /* one bit */
	const struct answers *answers; /* of other subjects */
	const struct field *field;     /* that is being read */
};

enum field_type {
	FIELD_UNTYPED, /* of groups */
	FIELD_BOOL,
	FIELD_U8,
	FIELD_U16,
	FIELD_U32,
	FIELD_U64,
	FIELD_I32,
	FIELD_I64,
	FIELD_REAL,
	FIELD_VALUE,
	FIELD_TEXT,
	FIELD_TEXT_INSIDE, /* an array of characters */
	FIELD_STRING,	   /* uint32_t, a string of the run */
	FIELD_TIME,	   /* int64_t, given since the begin of the run */
	FIELD_WHOLE,	   /* struct value, given as an integer */
};

#define NO_METRIC "" /* the key has a definition, but of something else */

struct field {
	const char *key;
	const char *title; /* of its column in text; NULL: only in data */
	enum field_unit unit;
	enum field_type type;
	size_t offset;	     /* of the member in the row */
	const char *meaning; /* in a few words; NULL: those of its key (meanings.h) */
	const char *metric;  /* its definition, by name; NULL: that of its key; NO_METRIC: none */
	unsigned int up;     /* read from the row that this one lies in, so many levels up */
	unsigned int forms;  /* in which it exists; 0: all */
	unsigned int titled; /* in which text shows it; 0: all */
	bool flexible;	     /* its column in text may be cut */
	bool optional; /* where it is absent, data leaves it out, else it has null and the reason */
	bool detail;   /* not a column: it stands beside the groups alone */
	/* For whoever follows a run while it grows. */
	bool names_row;	  /* tells its row from the others: layer, rank, expert */
	bool watched;	  /* of a row: worth following, row by row */
	bool grows;	  /* never becomes less: a counter */
	const char *none; /* the reason when the member is 0 or NULL; NULL: that is a value */
	const char *(*absent)(const struct field_row *at); /* the reason; NULL: it is not absent */
	/* What holds the member, or all of the group; NULL: the row. Not asked where it is absent. */
	const void *(*from)(const struct field_row *at);
	struct cell (*read)(const struct field_row *at); /* instead of the member; see READ */
	bool read_may_lack;				 /* it may find nothing */
	/* What it is made of; NULL: it is one value. Text and CSV leave groups out. */
	const struct field_group *of;
};

/* Any member of a type that a cell can hold. Other types do not compile. */
#define MEMBER(row_type, member)                                                                   \
	.type = _Generic(&((row_type *)0)->member,                                                 \
		bool *: FIELD_BOOL,                                                                \
		uint8_t *: FIELD_U8,                                                               \
		uint16_t *: FIELD_U16,                                                             \
		uint32_t *: FIELD_U32,                                                             \
		uint64_t *: FIELD_U64,                                                             \
		int32_t *: FIELD_I32,                                                              \
		int64_t *: FIELD_I64,                                                              \
		double *: FIELD_REAL,                                                              \
		struct value *: FIELD_VALUE,                                                       \
		char **: FIELD_TEXT,                                                               \
		const char **: FIELD_TEXT),                                                        \
	.offset = offsetof(row_type, member)
#define MEMBER_AS(field_type, row_type, member)                                                    \
	.type = (field_type), .offset = offsetof(row_type, member)

/* A value that a function makes; MAY_READ: or the reason why there is none. Its type is for the schema. */
#define READ(kind, function) .type = FIELD_##kind, .read = (function)
#define MAY_READ(kind, function) READ(kind, function), .read_may_lack = true

/* Rows that lie in an answer or in another row. */
struct field_items {
	size_t first; /* offset of the pointer to the first, or of the first */
	bool inside;  /* they lie in the row itself */
	size_t size;  /* of one */
	size_t n;     /* offset of their number */
	enum field_type n_type;
	size_t most; /* 0: any; how many there are where they have no number */
	/* Instead: the item at i, NULL: there is none at i; and how many i there are. */
	const void *(*item)(const struct field_row *in, size_t i);
	size_t (*count)(const struct field_row *in);
};

#define ITEMS_NUMBER(in_type, number)                                                              \
	.n = offsetof(in_type, number), .n_type = _Generic(&((in_type *)0)->number, uint32_t *     \
							   : FIELD_U32, uint64_t *                 \
							   : FIELD_U64)
#define ITEMS(in_type, member, number)                                                             \
	.first = offsetof(in_type, member), .size = sizeof(*((in_type *)0)->member),               \
	ITEMS_NUMBER(in_type, number)
#define ITEMS_INSIDE(in_type, member, number) .inside = true, ITEMS(in_type, member, number)

enum field_shape {
	FIELD_OBJECT,
	FIELD_LIST,   /* of objects, one an item */
	FIELD_MAP,    /* names that are not known beforehand to values, one an item */
	FIELD_BESIDE, /* the same, but the names stand beside those of the other fields */
	FIELD_ARRAY,  /* of values, one an item */
};

enum field_layout {
	FIELD_ON_ONE_LINE,
	FIELD_LINE_EACH,  /* a line for each item */
	FIELD_SPREAD_OUT, /* a line for each value */
};

struct field_group {
	enum field_shape shape;
	enum field_layout layout;
	/* Of the object, or of an item of the list. Of the others one: how an item is read. */
	const struct field *fields;
	size_t n_fields;
	struct field_items items;
	/* The name of an item of a map; `room` may be used for it. */
	const char *(*name)(const struct field_row *at, char *room, size_t size);
	size_t n_names; /* of a map, where they are known beforehand: that many; 0: any */
	/* For the schema and the documentation: its name there, and what one item is. */
	const char *part, *meaning;
	const struct field_set *table; /* of a list: its rows, in place of fields and items */
};

#define FIELD_NAME_SIZE 64

#define FIELD_LEVELS 3

/* 0, or what the first visit returned that is not 0. from: the answer. */
typedef int (*field_visit)(const struct field_row *row, void *data);

/* The fields of a table, or with no levels those of its total or of one object. */
struct field_set {
	const struct field *fields;
	size_t n_fields;
	/* The rows: items of the answer; with more levels, the items of these, and so on. */
	struct field_items rows[FIELD_LEVELS];
	unsigned int levels;
	/* Instead, for rows that can be millions: visits them one by one, and holds none. Not for grids. */
	int (*each)(const struct field_row *from, field_visit visit, void *data);
	const char *row;     /* what one row is, in a word; NULL: none of the fields is watched */
	const char *part;    /* as in groups; of the tables of views and their totals: NULL */
	const char *meaning; /* what one row, or the total, is */
};

#define PART(name, words) .part = (name), .meaning = (words)
#define FIELDS(array) .fields = (array), .n_fields = sizeof(array) / sizeof((array)[0])

/* For `absent`: why a value is not known; NULL: it is. */
static inline const char *field_unknown(struct value value)
{
	return value.known ? NULL : value.reason ? value.reason : "unknown";
}

bool field_exists(const struct field *field, unsigned int form);
/* Whether it is one value in each row of a table. */
bool field_is_column(const struct field *field, unsigned int form);
/* Whether text shows it. */
bool field_is_titled(const struct field *field, unsigned int form);
struct cell field_read(const struct field *field, const struct field_row *at);
/* Of a field with a group: why it is absent; NULL: it is there, and ret_row is what its parts are
 * read from. */
const char *field_enter(const struct field *field, const struct field_row *at,
			struct field_row *ret_row);

int field_items_each(const struct field_items *items, const struct field_row *in, field_visit visit,
		     void *data);
/* Rows, or one object. */
static inline bool field_set_has_rows(const struct field_set *set)
{
	return set->levels || set->each;
}
int field_set_each(const struct field_set *set, const struct field_row *from, field_visit visit,
		   void *data);

#endif
