/* SPDX-License-Identifier: Apache-2.0
 *
 * Host memory by stack; see heap_use.h.
 */
#include "subjects/heap/heap_use.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/hash_map.h"
#include "base/interned.h"
#include "subjects/heap/heap_growth.h"
#include "subjects/stacks/sampled_stacks.h"
#include "subjects/stacks/stack_choice.h"
#include "trace/format.h"

#define NO_ROW UINT32_MAX
#define NO_STACK "(no stack)"
#define DEPTH_MOST 4096 /* files are not to be trusted */
#define BYTES_MOST (UINT64_C(1) << 50)

struct builder {
	const struct run *run;
	bool by_function;
	const struct stack_choice *choice;
	uint32_t *stacks, *parents;    /* rows of run->stack */
	uint32_t *order;	       /* of samples, by time */
	struct growth_window *windows; /* of each shard */
	uint32_t *row_of_stack;	       /* + 1; 0: not known yet; the last is that of none */
	struct interned texts;	       /* of rows: number - 1 */
	struct heap_row *rows;
	struct growth *growth;
	uint64_t *counted; /* of each row, the last sample that its total has, + 1 */
	size_t rows_capacity, growth_capacity, counted_capacity;
};

int64_t heap_sample_bytes(const struct run *run, size_t i)
{
	uint64_t bytes = run->heap_sample.bytes[i];

	return (int64_t)(bytes < BYTES_MOST ? bytes : BYTES_MOST);
}

int64_t heap_sample_held_ns(const struct run *run, size_t i)
{
	int64_t held_ns = run->heap_sample.held_ns[i];

	return held_ns < 0 ? 0 : held_ns < SHARD_TIME_MAX ? held_ns : SHARD_TIME_MAX;
}

static bool is_chosen(const struct builder *b, size_t i)
{
	const struct table_heap_sample *t = &b->run->heap_sample;

	return stack_choice_has(b->choice, t->shard[i], t->thread[i],
				t->time_ns[i] - heap_sample_held_ns(b->run, i));
}

static int sign_of(const struct run *run, size_t i)
{
	return run->heap_sample.event[i] == HEAP_SAMPLE_FREED ? -1 : 1;
}

/* ---- rows */

/* The row of a text, from 1; 0: no memory. */
static uint32_t row_of_text(struct builder *b, const char *text, size_t length)
{
	size_t had = b->texts.n;
	uint32_t id = interned_id(&b->texts, text, length);

	if (!id || b->texts.n == had)
		return id;
	if (array_grow(&b->rows, &b->rows_capacity, id, sizeof(*b->rows)) < 0 ||
	    array_grow(&b->growth, &b->growth_capacity, id, sizeof(*b->growth)) < 0 ||
	    array_grow(&b->counted, &b->counted_capacity, id, sizeof(*b->counted)) < 0)
		return 0;
	b->rows[id - 1] = (struct heap_row){ 0 };
	b->growth[id - 1] = (struct growth){ 0 };
	b->counted[id - 1] = 0;
	return id;
}

static const char *function_of(const struct builder *b, uint32_t stack)
{
	return stack == NO_ROW ? NO_STACK : run_string(b->run, b->run->stack.name[stack]);
}

/* "inner < outer": the part that says most is the last to be cut. */
static uint32_t row_of_whole(struct builder *b, uint32_t stack)
{
	struct buf text = { 0 };
	uint32_t row = 0;
	int depth = 0;

	buf_printf(&text, "%s", function_of(b, stack));
	while (stack != NO_ROW && (stack = b->parents[stack]) != NO_ROW && depth++ < DEPTH_MOST)
		buf_printf(&text, " < %s", function_of(b, stack));
	if (!text.failed)
		row = row_of_text(b, text.data, text.size);
	buf_release(&text);
	return row;
}

static uint32_t row_of(struct builder *b, uint32_t stack)
{
	uint32_t *row = &b->row_of_stack[stack == NO_ROW ? b->run->stack.n : stack];
	const char *function = function_of(b, stack);

	if (!*row)
		*row = b->by_function ? row_of_text(b, function, strlen(function))
				      : row_of_whole(b, stack);
	return *row;
}

/* ---- samples in the order of time */

static int by_time(const void *a, const void *b, void *run)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	const int64_t *time_ns = ((const struct run *)run)->heap_sample.time_ns;

	return CMP(time_ns[x], time_ns[y]) ?: CMP(x, y);
}

static int put_in_order(struct builder *b)
{
	size_t n = b->run->heap_sample.n;

	b->order = calloc(n + 1, sizeof(*b->order));
	if (!b->order)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		b->order[i] = (uint32_t)i;
	qsort_r(b->order, n, sizeof(*b->order), by_time, (void *)b->run);
	return 0;
}

/* When live memory was most, as a number of samples in their order; and the totals. */
static size_t find_peak(const struct builder *b, struct heap_use *use)
{
	const struct table_heap_sample *t = &b->run->heap_sample;
	int64_t live = 0, most = 0;
	size_t peak = 0;

	for (size_t k = 0; k < t->n; k++) {
		size_t i = b->order[k];

		if (!is_chosen(b, i))
			continue;
		/* Sums of a file that is damaged may be anything, but not undefined. */
		live = (int64_t)((uint64_t)live +
				 (uint64_t)(sign_of(b->run, i) * heap_sample_bytes(b->run, i)));
		if (sign_of(b->run, i) > 0) {
			use->all.allocated += (uint64_t)heap_sample_bytes(b->run, i);
			use->samples++;
		}
		if (live > most) {
			most = live;
			peak = k + 1;
			use->peak_ns = t->time_ns[i];
		}
	}
	use->all.live = live > 0 ? (uint64_t)live : 0;
	use->all.peak = (uint64_t)most;
	return peak;
}

/* Up to the last allocation: what comes then is the end. */
static int find_windows(struct builder *b)
{
	const struct table_heap_sample *t = &b->run->heap_sample;
	size_t n = b->run->n_shards;
	int64_t *first = calloc(n + 1, sizeof(*first)), *last = calloc(n + 1, sizeof(*last));
	int r = -ENOMEM;

	b->windows = calloc(n + 1, sizeof(*b->windows));
	if (first && last && b->windows) {
		r = 0;
		for (size_t s = 0; s < n; s++)
			first[s] = INT64_MAX;
		for (size_t i = 0; i < t->n; i++) {
			uint16_t s = t->shard[i];

			if (t->event[i] == HEAP_SAMPLE_FREED)
				continue;
			if (first[s] == INT64_MAX)
				last[s] = t->time_ns[i];
			first[s] = t->time_ns[i] < first[s] ? t->time_ns[i] : first[s];
			last[s] = t->time_ns[i] > last[s] ? t->time_ns[i] : last[s];
		}
		for (size_t s = 0; s < n; s++)
			if (first[s] <= last[s])
				b->windows[s] = growth_window(first[s], last[s]);
	}
	free(first);
	free(last);
	return r;
}

/* ---- adding up */

/* A later free has the same row as its allocation, so that nothing falls below 0 in a file that is whole. */
static void add_to(uint64_t *sum, int64_t bytes, int sign)
{
	uint64_t more = (uint64_t)bytes;

	*sum = sign > 0 ? *sum + more : *sum > more ? *sum - more : 0;
}

static void add_bytes(struct heap_bytes *to, int64_t bytes, int sign, bool in_peak)
{
	add_to(&to->live, bytes, sign);
	if (in_peak)
		add_to(&to->peak, bytes, sign);
	if (sign > 0)
		add_to(&to->allocated, bytes, sign);
}

static int add_totals(struct builder *b, size_t i, bool in_peak)
{
	uint32_t stack = b->stacks[i];
	int depth = 0;

	do {
		uint32_t row = row_of(b, stack);

		if (!row)
			return -ENOMEM;
		/* Once a sample, however often the function is on the stack. */
		if (b->counted[row - 1] != i + 1)
			add_bytes(&b->rows[row - 1].total, heap_sample_bytes(b->run, i),
				  sign_of(b->run, i), in_peak);
		b->counted[row - 1] = i + 1;
		stack = stack == NO_ROW ? NO_ROW : b->parents[stack];
	} while (b->by_function && stack != NO_ROW && depth++ < DEPTH_MOST);
	return 0;
}

static int add_sample(struct builder *b, size_t i, bool in_peak)
{
	const struct table_heap_sample *t = &b->run->heap_sample;
	uint32_t number = row_of(b, b->stacks[i]);
	int64_t bytes = heap_sample_bytes(b->run, i);
	int sign = sign_of(b->run, i);
	struct heap_row *row;

	if (!number)
		return -ENOMEM;
	row = &b->rows[number - 1];
	add_bytes(&row->self, bytes, sign, in_peak);
	growth_add(&b->growth[number - 1], &b->windows[t->shard[i]], t->time_ns[i],
		   heap_sample_held_ns(b->run, i), (uint64_t)bytes, sign);
	if (sign > 0) {
		/* The variance of a sample: its square by the chance that it had to be none. */
		row->error_pct += (double)bytes * ((double)bytes - (double)t->size[i]);
		row->samples++;
		row->allocations += t->size[i]
					    ? (uint64_t)((double)bytes / (double)t->size[i] + 0.5)
					    : 1;
	}
	return add_totals(b, i, in_peak);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static int finish_rows(struct builder *b, const struct heap_use *use)
{
	for (size_t i = 0; i < b->texts.n; i++) {
		struct heap_row *row = &b->rows[i];

		row->text = strdup(interned_key(&b->texts, (uint32_t)i + 1));
		if (!row->text)
			return -ENOMEM;
		row->live_pct = share(row->self.live, use->all.live);
		row->allocated_pct = share(row->self.allocated, use->all.allocated);
		row->error_pct = row->self.allocated && row->error_pct > 0
					 ? 100 * sqrt(row->error_pct) / (double)row->self.allocated
					 : 0;
		row->growth = row->grown = growth_of(&b->growth[i]);
		if (row->growth.known)
			row->growth.v /= (double)b->growth[i].window_ns / 1e9;
	}
	return 0;
}

static int by_live(const void *a, const void *b)
{
	const struct heap_row *x = a, *y = b;

	return CMP(y->self.live, x->self.live)		 ?:
	       CMP(y->self.peak, x->self.peak)		 ?:
	       CMP(y->self.allocated, x->self.allocated) ?:
							   strcmp(x->text, y->text);
}

static size_t find_leak(const struct heap_use *use)
{
	size_t leak = use->n;

	for (size_t i = 0; i < use->n; i++)
		if (use->rows[i].grown.known &&
		    (leak == use->n || use->rows[i].grown.v > use->rows[leak].grown.v))
			leak = i;
	return leak;
}

static size_t count_processes(const struct run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->n_shards; i++)
		n += run->shards[i].role == ROLE_HEAP;
	return n;
}

int heap_use_analyze(const struct run *run, bool by_function, const struct stack_choice *choice,
		     struct heap_use *ret_use)
{
	struct builder b = { .run = run,
			     .by_function = by_function,
			     .choice = choice,
			     .stacks = stack_rows_of_heap(run),
			     .parents = stack_parents(run),
			     .row_of_stack = calloc(run->stack.n + 1, sizeof(uint32_t)) };
	struct heap_use use = { .processes = count_processes(run) };
	int r = b.stacks && b.parents && b.row_of_stack ? put_in_order(&b) : -ENOMEM;
	size_t peak;

	if (r == 0)
		r = find_windows(&b);
	peak = r == 0 ? find_peak(&b, &use) : 0;
	for (size_t k = 0; r == 0 && k < run->heap_sample.n; k++)
		if (is_chosen(&b, b.order[k]))
			r = add_sample(&b, b.order[k], k < peak);
	if (r == 0)
		r = finish_rows(&b, &use);
	use.rows = b.rows;
	use.n = b.rows ? b.texts.n : 0;
	if (r == 0 && use.n)
		qsort(use.rows, use.n, sizeof(*use.rows), by_live);
	use.leak = r == 0 ? find_leak(&use) : 0;
	*ret_use = use;
	interned_release(&b.texts);
	free(b.stacks);
	free(b.parents);
	free(b.order);
	free(b.windows);
	free(b.row_of_stack);
	free(b.growth);
	free(b.counted);
	return r;
}

int heap_until_peak(const struct run *run, uint32_t **ret_rows, size_t *ret_n)
{
	static const struct stack_choice all;
	struct builder b = { .run = run, .choice = &all };
	struct heap_use use = { 0 };
	int r = put_in_order(&b);

	if (r == 0) {
		*ret_n = find_peak(&b, &use);
		*ret_rows = b.order;
	}
	return r;
}

void heap_use_release(struct heap_use *use)
{
	for (size_t i = 0; i < use->n; i++)
		free(use->rows[i].text);
	free(use->rows);
	*use = (struct heap_use){ 0 };
}
