/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows in the order of a column; see order.h.
 */
#include "subjects/numbers/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define BUCKET_ROWS 8	  /* on average */
#define INSERTION_ROWS 48 /* more are merged */

static uint64_t order_key_of(const struct order_keys *keys, uint32_t row)
{
	return ((const uint64_t *)keys->key)[row] ^ keys->flip;
}

static bool comes_after(const struct order_keys *keys, uint32_t a, uint32_t b)
{
	uint64_t x = order_key_of(keys, a), y = order_key_of(keys, b);

	if (x != y)
		return x > y;
	if (keys->then && keys->then[a] != keys->then[b])
		return keys->then[a] > keys->then[b];
	return a > b;
}

static void insertion_sort(const struct order_keys *keys, uint32_t *order, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		uint32_t row = order[i];
		size_t j = i;

		for (; j && comes_after(keys, order[j - 1], row); j--)
			order[j] = order[j - 1];
		order[j] = row;
	}
}

/* room: n rows. */
static void merge_sort(const struct order_keys *keys, uint32_t *order, size_t n, uint32_t *room)
{
	uint32_t *from = order, *to = room;

	for (size_t i = 0; i < n; i += INSERTION_ROWS)
		insertion_sort(keys, order + i, n - i < INSERTION_ROWS ? n - i : INSERTION_ROWS);
	for (size_t width = INSERTION_ROWS; width < n; width *= 2) {
		uint32_t *swap = from;

		for (size_t i = 0; i < n; i += 2 * width) {
			size_t a = i, middle = i + width < n ? i + width : n, b = middle;
			size_t end = i + 2 * width < n ? i + 2 * width : n;

			for (size_t k = i; k < end; k++)
				to[k] = b == end || (a < middle &&
						     !comes_after(keys, from[a], from[b]))
						? from[a++]
						: from[b++];
		}
		from = to;
		to = swap;
	}
	if (from != order)
		memcpy(order, from, n * sizeof(*order));
}

/* Buckets of the same width over the keys; next[b] is at last the end of bucket b. */
struct buckets {
	uint64_t smallest;
	unsigned int shift;
	size_t n;
	uint32_t *next;
};

static int make_buckets(const struct order_keys *keys, size_t first, size_t n, struct buckets *ret)
{
	uint64_t smallest = UINT64_MAX, largest = 0;
	struct buckets b = { 0 };

	for (size_t i = first; i < first + n; i++) {
		uint64_t key = order_key_of(keys, (uint32_t)i);

		smallest = key < smallest ? key : smallest;
		largest = key > largest ? key : largest;
	}
	b.smallest = smallest;
	while (b.shift < 63 && (largest - smallest) >> b.shift >= n / BUCKET_ROWS + 1)
		b.shift++;
	b.n = (size_t)((largest - smallest) >> b.shift) + 1;
	b.next = calloc(b.n, sizeof(*b.next));
	if (!b.next)
		return -ENOMEM;
	*ret = b;
	return 0;
}

static void scatter(const struct order_keys *keys, size_t first, size_t n, struct buckets *b,
		    uint32_t *order)
{
	uint32_t total = 0;

	for (size_t i = first; i < first + n; i++)
		b->next[(order_key_of(keys, (uint32_t)i) - b->smallest) >> b->shift]++;
	for (size_t i = 0; i < b->n; i++) {
		uint32_t count = b->next[i];

		b->next[i] = total;
		total += count;
	}
	for (size_t i = first; i < first + n; i++)
		order[b->next[(order_key_of(keys, (uint32_t)i) - b->smallest) >> b->shift]++] =
			(uint32_t)i;
}

static int sort_buckets(const struct order_keys *keys, const struct buckets *b, uint32_t *order)
{
	size_t from = 0, most = 0;
	uint32_t *room = NULL;

	for (size_t i = 0; i < b->n; from = b->next[i++])
		most = b->next[i] - from > most ? b->next[i] - from : most;
	if (most > INSERTION_ROWS) {
		room = array_new(most, sizeof(*room));
		if (!room)
			return -ENOMEM;
	}
	from = 0;
	for (size_t i = 0; i < b->n; from = b->next[i++]) {
		size_t n = b->next[i] - from;

		if (n <= INSERTION_ROWS)
			insertion_sort(keys, order + from, n);
		else
			merge_sort(keys, order + from, n, room);
	}
	free(room);
	return 0;
}

int order_rows(const struct order_keys *keys, size_t first, size_t n, uint32_t *ret_order)
{
	struct buckets b;
	size_t sorted = 1;
	int r;

	if (first + n > ORDER_MOST)
		return -EFBIG;
	for (size_t i = 0; i < n; i++)
		ret_order[i] = (uint32_t)(first + i);
	while (sorted < n && !comes_after(keys, ret_order[sorted - 1], ret_order[sorted]))
		sorted++;
	if (sorted >= n)
		return 0;
	r = make_buckets(keys, first, n, &b);
	if (r < 0)
		return r;
	scatter(keys, first, n, &b, ret_order);
	r = sort_buckets(keys, &b, ret_order);
	free(b.next);
	return r;
}

int order_group(const uint16_t *group, uint32_t *order, size_t n)
{
	size_t *next, total = 0, sorted = 1;
	uint32_t *room;

	while (sorted < n && group[order[sorted - 1]] <= group[order[sorted]])
		sorted++;
	if (sorted >= n)
		return 0;
	next = calloc(UINT16_MAX + 1, sizeof(*next));
	room = array_new(n, sizeof(*room));
	if (!next || !room) {
		free(next);
		free(room);
		return -ENOMEM;
	}
	for (size_t i = 0; i < n; i++)
		next[group[order[i]]]++;
	for (size_t g = 0; g <= UINT16_MAX; g++) {
		size_t count = next[g];

		next[g] = total;
		total += count;
	}
	for (size_t i = 0; i < n; i++)
		room[next[group[order[i]]]++] = order[i];
	memcpy(order, room, n * sizeof(*order));
	free(next);
	free(room);
	return 0;
}
