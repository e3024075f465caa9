/* SPDX-License-Identifier: Apache-2.0
 *
 * One value of a row: a number, a text, yes or no, or the reason why it is absent.
 */
#ifndef SUBJECTS_CELL_H
#define SUBJECTS_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "subjects/numbers/value.h"

enum cell_kind { CELL_ABSENT, CELL_INT, CELL_UINT, CELL_REAL, CELL_TEXT, CELL_BOOL, CELL_DECIMAL };

struct cell {
	enum cell_kind kind;
	unsigned int places; /* of a decimal, behind the point */
	union {
		int64_t i; /* of a decimal: all its digits */
		uint64_t u;
		double d;
		const char *s; /* outlives the cell */
		const char *reason;
	};
};

static inline struct cell cell_int(int64_t value)
{
	return (struct cell){ .kind = CELL_INT, .i = value };
}

static inline struct cell cell_uint(uint64_t value)
{
	return (struct cell){ .kind = CELL_UINT, .u = value };
}

static inline struct cell cell_real(double value)
{
	return (struct cell){ .kind = CELL_REAL, .d = value };
}

/* value / 10^places, exactly; also quicker to print than a real number. */
static inline struct cell cell_decimal(int64_t value, unsigned int places)
{
	return (struct cell){ .kind = CELL_DECIMAL, .places = places, .i = value };
}

static inline struct cell cell_text(const char *text)
{
	return (struct cell){ .kind = CELL_TEXT, .s = text };
}

static inline struct cell cell_bool(bool value)
{
	return (struct cell){ .kind = CELL_BOOL, .u = value };
}

static inline struct cell cell_absent(const char *reason)
{
	return (struct cell){ .kind = CELL_ABSENT, .reason = reason };
}

static inline struct cell cell_value(struct value value)
{
	return value.known ? cell_real(value.v) : cell_absent(value.reason);
}

#endif
