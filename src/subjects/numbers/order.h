/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a table in the order of a column. Records come nearly in order, so that a bucket for a
 * few neighbours does most of it: linear for what programs record, n log n for anything else. Pure,
 * any thread.
 *
 * Orders are of 32-bit row numbers: a table has less than ORDER_MOST rows.
 */
#ifndef SUBJECTS_ORDER_H
#define SUBJECTS_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ORDER_MOST ((size_t)UINT32_MAX)

/* For keys that are signed, and for those whose largest comes first. */
#define ORDER_SIGNED (UINT64_C(1) << 63)
#define ORDER_SIGNED_DOWN (~ORDER_SIGNED)

/* Rows are ordered by key ^ flip, then by `then` if there is one, then by their number. */
struct order_keys {
	const void *key; /* uint64_t or int64_t */
	uint64_t flip;	 /* 0: unsigned, smallest first */
	const int64_t *then;
};

/* ret_order[n]: the rows first .. first + n - 1. 0, -ENOMEM, or -EFBIG beyond ORDER_MOST. */
int order_rows(const struct order_keys *keys, size_t first, size_t n, uint32_t *ret_order);
/* Groups an order by `group` of each row, smallest first, keeping the order inside of a group.
 * 0 or -ENOMEM. */
int order_group(const uint16_t *group, uint32_t *order, size_t n);

/* Sets `low` to the number of leading i in 0 .. n - 1 for which `before` (an expression of `probe`)
 * holds; it must hold for those and no other. `hint`: where it may be, or n. The cost is the logarithm
 * of the distance. */
#define ORDER_FIND(low, n, hint, before)                                                           \
	do {                                                                                       \
		size_t order_high = (n), order_step = 1, probe = (hint);                           \
		(low) = 0;                                                                         \
		if (probe < order_high && (before)) {                                              \
			(low) = probe + 1;                                                         \
			for (; (low) + order_step <= order_high; order_step *= 2) {                \
				probe = (low) + order_step - 1;                                    \
				if (!(before)) {                                                   \
					order_high = probe;                                        \
					break;                                                     \
				}                                                                  \
				(low) = probe + 1;                                                 \
			}                                                                          \
		} else if (probe < order_high) {                                                   \
			for (order_high = probe; order_high >= order_step; order_step *= 2) {      \
				probe = order_high - order_step;                                   \
				if (before) {                                                      \
					(low) = probe + 1;                                         \
					break;                                                     \
				}                                                                  \
				order_high = probe;                                                \
			}                                                                          \
		}                                                                                  \
		while ((low) < order_high) {                                                       \
			probe = (low) + (order_high - (low)) / 2;                                  \
			if (before)                                                                \
				(low) = probe + 1;                                                 \
			else                                                                       \
				order_high = probe;                                                \
		}                                                                                  \
	} while (0)

#endif
