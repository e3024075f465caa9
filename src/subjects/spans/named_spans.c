/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans by name and domain; see named_spans.h. A sort, then one sweep.
 */
#include "subjects/spans/named_spans.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"

static int by_name(const void *a, const void *b)
{
	const struct named_span *x = a, *y = b;

	return CMP(x->name, y->name) ?: CMP(x->domain, y->domain);
}

static int named_spans_by_time(const void *a, const void *b)
{
	const struct named_span *x = a, *y = b;

	return CMP(y->time_ns, x->time_ns) ?: by_name(a, b);
}

int named_spans_analyze(const struct run *run, struct named_spans *ret_spans)
{
	const struct table_span *t = &run->span;
	struct named_span *rows;
	size_t n = 0;

	*ret_spans = (struct named_spans){ 0 };
	if (!t->n)
		return 0;
	rows = calloc(t->n, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < t->n; i++)
		rows[i] = (struct named_span){ .name = t->name[i],
					       .domain = t->domain[i],
					       .count = 1,
					       .unfinished = t->unfinished[i] != 0,
					       .moved = !t->unfinished[i] &&
							t->thread[i] != t->end_thread[i],
					       .time_ns = t->duration_ns[i],
					       .max_ns = t->duration_ns[i] };
	qsort(rows, t->n, sizeof(*rows), by_name);
	for (size_t i = 0; i < t->n; i++) {
		struct named_span *last = n ? &rows[n - 1] : NULL;

		if (!last || by_name(last, &rows[i])) {
			rows[n++] = rows[i];
			continue;
		}
		last->count++;
		last->unfinished += rows[i].unfinished;
		last->moved += rows[i].moved;
		last->time_ns += rows[i].time_ns;
		last->max_ns = rows[i].max_ns > last->max_ns ? rows[i].max_ns : last->max_ns;
	}
	qsort(rows, n, sizeof(*rows), named_spans_by_time);
	*ret_spans = (struct named_spans){ rows, n };
	return 0;
}

void named_spans_release(struct named_spans *spans)
{
	free(spans->rows);
	*spans = (struct named_spans){ 0 };
}
