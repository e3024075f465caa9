/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of a track in order and in rows; see lod_build.h. Records come nearly in order: kernels by their
 * start, calls by their end. So the sort costs what is out of place, not n log n.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/lod_build.h"

#define INSERTED 32 /* events that are sorted by insertion */

bool raw_comes_before(const struct raw_event *a, const struct raw_event *b)
{
	if (a->start != b->start)
		return a->start < b->start;
	/* A moment is before what starts with it, not inside. */
	if (!a->duration || !b->duration)
		return !a->duration && b->duration;
	return a->duration > b->duration;
}

static void sort_by_insertion(struct raw_event *events, uint64_t n)
{
	for (uint64_t i = 1; i < n; i++) {
		struct raw_event event = events[i];
		uint64_t at = i;

		for (; at > 0 && raw_comes_before(&event, &events[at - 1]); at--)
			events[at] = events[at - 1];
		events[at] = event;
	}
}

/* The first of n that comes after `event`, or else is not before it. */
static uint64_t find_place(const struct raw_event *events, uint64_t n,
			   const struct raw_event *event, bool after)
{
	uint64_t from = 0, to = n;

	while (from < to) {
		uint64_t middle = from + (to - from) / 2;
		bool behind = after ? raw_comes_before(event, &events[middle])
				    : !raw_comes_before(&events[middle], event);

		if (behind)
			to = middle;
		else
			from = middle + 1;
	}
	return from;
}

/* Merges two sorted neighbours; only what is interleaved is moved. */
static int merge_parts(struct raw_event *events, uint64_t n_left, uint64_t n,
		       struct raw_event **room, size_t *capacity)
{
	struct raw_event *left, *right, *out;
	uint64_t skip, n_right = n - n_left, i = 0, j = 0;

	if (!n_right || !raw_comes_before(&events[n_left], &events[n_left - 1]))
		return 0;
	skip = find_place(events, n_left, &events[n_left], true);
	n_right = find_place(events + n_left, n_right, &events[n_left - 1], false);
	out = events + skip;
	n_left -= skip;
	if (array_grow(room, capacity, n_left, sizeof(**room)) < 0)
		return -ENOMEM;
	left = *room;
	memcpy(left, out, n_left * sizeof(*left));
	right = out + n_left;
	while (i < n_left && j < n_right)
		*out++ = raw_comes_before(&right[j], &left[i]) ? right[j++] : left[i++];
	memcpy(out, left + i, (n_left - i) * sizeof(*left));
	return 0;
}

static int sort_events(struct builder *b, struct raw_event *events, uint64_t n)
{
	struct raw_event *room = NULL;
	size_t capacity = 0;
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < n; at += INSERTED) {
		sort_by_insertion(events + at, n - at < INSERTED ? n - at : INSERTED);
		r = builder_rests(b, INSERTED * sizeof(*events));
	}
	for (uint64_t width = INSERTED; r == 0 && width < n; width *= 2)
		for (uint64_t at = 0; r == 0 && at + width < n; at += 2 * width) {
			r = merge_parts(events + at, width, n - at < 2 * width ? n - at : 2 * width,
					&room, &capacity);
			if (r == 0) /* at least a page at its middle */
				r = builder_rests(b, 4096);
		}
	free(room);
	return r;
}

/* counts has one more: of what fits in none. */
static int choose_rows(struct builder *b, struct raw_event *events, uint64_t n, uint64_t *counts,
		       size_t *ret_rows)
{
	int64_t *ends = calloc(LOD_ROWS_MOST, sizeof(*ends));
	size_t n_rows = 0, row;
	int r = ends ? 0 : -ENOMEM;

	for (uint64_t i = 0; r == 0 && i < n; i++) {
		for (row = 0; row < n_rows && ends[row] > events[i].start;)
			row++;
		events[i].row = (uint32_t)row;
		counts[row]++;
		r = builder_rests(b, sizeof(*events));
		if (row == LOD_ROWS_MOST)
			continue;
		n_rows += row == n_rows;
		ends[row] = events[i].start + events[i].duration;
	}
	free(ends);
	*ret_rows = n_rows;
	return r;
}

int rows_assign(struct builder *b, const struct track *track, uint64_t **ret_counts,
		size_t *ret_rows)
{
	struct raw_event *events = (struct raw_event *)b->scratch.data + track->first;
	uint64_t *counts = calloc(LOD_ROWS_MOST + 1, sizeof(*counts));
	int r = counts ? 0 : -ENOMEM;

	if (r == 0 && track->unsorted)
		r = sort_events(b, events, track->taken);
	if (r == 0)
		r = choose_rows(b, events, track->taken, counts, ret_rows);
	if (r == 0)
		*ret_counts = counts;
	else
		free(counts);
	return r;
}
