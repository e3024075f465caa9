/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads were; see sampled_stacks.h. Pure, any thread.
 */
#include "subjects/stacks/sampled_stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/hash_map.h"
#include "subjects/stacks/stack_choice.h"
#include "trace/rundir.h"

#define NO_ROW UINT32_MAX
#define NO_STACK "(no stack)"
#define DEPTH_MOST 4096 /* files are not to be trusted */

/* Rows of run->stack by shard and id. */
struct stack_ids {
	const struct run *run;
	struct hash_map map; /* row + 1 */
};

static uint32_t id_hash(uint16_t shard, uint32_t id)
{
	return hash_word((uint64_t)shard << 32 | id);
}

static int ids_init(struct stack_ids *ids, const struct run *run)
{
	*ids = (struct stack_ids){ .run = run };
	for (size_t i = 0; i < run->stack.n; i++)
		if (hash_map_add(&ids->map, id_hash(run->stack.shard[i], run->stack.id[i]),
				 (uint32_t)i + 1) < 0)
			return -ENOMEM;
	return 0;
}

static uint32_t ids_find(const struct stack_ids *ids, uint16_t shard, uint32_t id)
{
	const struct table_stack *t = &ids->run->stack;
	struct hash_walk walk = hash_map_walk(&ids->map, id_hash(shard, id));
	uint32_t found;

	while (id && (found = hash_map_next(&ids->map, &walk)))
		if (t->shard[found - 1] == shard && t->id[found - 1] == id)
			return found - 1;
	return NO_ROW;
}

static uint32_t *find_all(const struct run *run, const uint16_t *shard, const uint32_t *id,
			  size_t n)
{
	uint32_t *rows = calloc(n ? n : 1, sizeof(*rows));
	struct stack_ids ids;
	int r = ids_init(&ids, run);

	for (size_t i = 0; rows && r == 0 && i < n; i++)
		rows[i] = ids_find(&ids, shard[i], id[i]);
	hash_map_release(&ids.map);
	if (r == 0)
		return rows;
	free(rows);
	return NULL;
}

uint32_t *stack_rows_of_samples(const struct run *run)
{
	return find_all(run, run->stack_sample.shard, run->stack_sample.stack, run->stack_sample.n);
}

uint32_t *stack_rows_of_heap(const struct run *run)
{
	return find_all(run, run->heap_sample.shard, run->heap_sample.stack, run->heap_sample.n);
}

uint32_t *stack_parents(const struct run *run)
{
	uint32_t *parents = find_all(run, run->stack.shard, run->stack.parent, run->stack.n);

	/* A stack comes after the one around it: so there are no circles. */
	for (size_t i = 0; parents && i < run->stack.n; i++)
		if (parents[i] != NO_ROW && parents[i] >= i)
			parents[i] = NO_ROW;
	return parents;
}

struct builder {
	const struct run *run;
	const struct stack_choice *choice;
	enum stacks_by by;
	uint32_t *row_of_sample, *parents;
	struct hash_map map; /* rows + 1, by key */
	uint64_t *keys;
	size_t keys_capacity;
	struct stack_row *rows;
	size_t n, capacity;
	size_t *counted; /* of each row, the last sample that it has the total of, + 1 */
	size_t counted_capacity;
};

static void add(struct stack_times *to, const struct stack_times *more)
{
	to->samples += more->samples;
	to->cpu_ns += more->cpu_ns;
	to->ready_ns += more->ready_ns;
	to->wait_ns += more->wait_ns;
	for (int i = 0; i < WAIT_CAUSE_LIMIT; i++)
		to->wait_for_ns[i] += more->wait_for_ns[i];
}

static struct stack_row *row_of(struct builder *b, uint64_t key)
{
	uint32_t hash = hash_word(key), found;
	struct hash_walk walk = hash_map_walk(&b->map, hash);

	while ((found = hash_map_next(&b->map, &walk)))
		if (b->keys[found - 1] == key)
			return &b->rows[found - 1];
	if (array_grow(&b->rows, &b->capacity, b->n + 1, sizeof(*b->rows)) < 0 ||
	    array_grow(&b->keys, &b->keys_capacity, b->n + 1, sizeof(*b->keys)) < 0 ||
	    array_grow(&b->counted, &b->counted_capacity, b->n + 1, sizeof(*b->counted)) < 0 ||
	    hash_map_add(&b->map, hash, (uint32_t)b->n + 1) < 0)
		return NULL;
	b->rows[b->n] = (struct stack_row){ 0 };
	b->keys[b->n] = key;
	b->counted[b->n] = 0;
	return &b->rows[b->n++];
}

static uint64_t function_key(const struct builder *b, uint32_t stack)
{
	return stack == NO_ROW ? 0 : b->run->stack.name[stack];
}

/* Once a sample, however often the function is on the stack. */
static int add_total(struct builder *b, size_t sample, uint64_t key,
		     const struct stack_times *times)
{
	struct stack_row *row = row_of(b, key);
	size_t at;

	if (!row)
		return -ENOMEM;
	at = (size_t)(row - b->rows);
	if (b->counted[at] != sample + 1)
		add(&row->total, times);
	b->counted[at] = sample + 1;
	return 0;
}

static int64_t within(int64_t value, int64_t most)
{
	return value < 0 ? 0 : value < most ? value : most;
}

const char *wait_cause_name(unsigned int cause)
{
	static const char *const names[] = {
#define CAUSE(id, NAME, name, words) [WAIT_##NAME] = #name,
		WAIT_CAUSES(CAUSE)
#undef CAUSE
	};

	return cause < WAIT_CAUSE_LIMIT ? names[cause] : "?";
}

unsigned int stack_times_cause(const struct stack_times *times)
{
	unsigned int most = WAIT_CAUSE_LIMIT;
	int64_t most_ns = 0;

	for (unsigned int i = 0; i < WAIT_CAUSE_LIMIT; i++)
		if (times->wait_for_ns[i] > most_ns) {
			most = i;
			most_ns = times->wait_for_ns[i];
		}
	return most;
}

/* One of a newer moescope is not known here. */
static unsigned int known_cause(unsigned int cause)
{
	return cause < WAIT_CAUSE_LIMIT ? cause : WAIT_UNKNOWN;
}

/* Durations were checked when the run was loaded; their parts were not. */
struct stack_times stack_sample_times(const struct run *run, size_t i)
{
	const struct table_stack_sample *t = &run->stack_sample;
	int64_t duration_ns = within(t->duration_ns[i], INT64_MAX);
	struct stack_times times = { .samples = t->samples[i],
				     .cpu_ns = within(t->cpu_ns[i], duration_ns) };

	times.ready_ns = within(t->ready_ns[i], duration_ns - times.cpu_ns);
	times.wait_ns = duration_ns - times.cpu_ns - times.ready_ns;
	times.wait_for_ns[known_cause(t->wait[i])] = times.wait_ns;
	return times;
}

static uint64_t sample_key(const struct builder *b, size_t i)
{
	const struct table_stack_sample *t = &b->run->stack_sample;

	switch (b->by) {
	case STACKS_BY_FUNCTION:
		return function_key(b, b->row_of_sample[i]);
	case STACKS_BY_THREAD:
		return (uint64_t)t->shard[i] << 32 | t->thread[i];
	case STACKS_BY_WAIT:
		return known_cause(t->wait[i]);
	case STACKS_BY_STACK:
		break;
	}
	return b->row_of_sample[i];
}

static int add_sample(struct builder *b, size_t i, struct stack_times *all)
{
	struct stack_times times;
	uint32_t stack = b->row_of_sample[i];
	struct stack_row *row;
	int r = 0, depth = 0;

	if (!stack_choice_times(b->choice, b->run, i, &times))
		return 0;
	add(all, &times);
	/* What it did beside waiting has no cause. */
	if (b->by == STACKS_BY_WAIT) {
		if (!times.wait_ns)
			return 0;
		times.cpu_ns = times.ready_ns = 0;
	}
	row = row_of(b, sample_key(b, i));
	if (!row)
		return -ENOMEM;
	add(&row->self, &times);
	if (b->by != STACKS_BY_FUNCTION) {
		add(&row->total, &times);
		return 0;
	}
	if (stack == NO_ROW)
		r = add_total(b, i, function_key(b, stack), &times);
	for (; r == 0 && depth < DEPTH_MOST && stack != NO_ROW; depth++) {
		r = add_total(b, i, function_key(b, stack), &times);
		stack = b->parents[stack];
	}
	return r;
}

static char *thread_text(const struct run *run, uint16_t shard, uint32_t thread)
{
	const char *name = NULL;
	char *text;

	for (size_t i = 0; i < run->thread.n; i++)
		if (run->thread.shard[i] == shard && run->thread.thread[i] == thread)
			name = run_string(run, run->thread.name[i]);
	if (asprintf(&text, "%s, thread %u of %u", name && *name ? name : "(no name)", thread,
		     run->shards[shard].pid) < 0)
		return NULL;
	return text;
}

/* "outer;inner" */
static char *stack_text(const struct builder *b, uint32_t stack)
{
	uint32_t path[DEPTH_MOST];
	struct buf out = { 0 };
	int depth = 0;

	if (stack == NO_ROW)
		return strdup(NO_STACK);
	for (; stack != NO_ROW && depth < DEPTH_MOST; stack = b->parents[stack])
		path[depth++] = stack;
	while (depth--)
		buf_printf(&out, "%s%s", run_string(b->run, b->run->stack.name[path[depth]]),
			   depth ? ";" : "");
	buf_append(&out, "", 1);
	if (out.failed) {
		buf_release(&out);
		return NULL;
	}
	return out.data;
}

static char *row_text(const struct builder *b, uint64_t key)
{
	switch (b->by) {
	case STACKS_BY_FUNCTION:
		return strdup(key ? run_string(b->run, (uint32_t)key) : NO_STACK);
	case STACKS_BY_THREAD:
		return thread_text(b->run, (uint16_t)(key >> 32), (uint32_t)key);
	case STACKS_BY_WAIT:
		return strdup(wait_cause_name((unsigned int)key));
	case STACKS_BY_STACK:
		break;
	}
	return stack_text(b, (uint32_t)key);
}

static int name_rows(struct builder *b)
{
	for (size_t i = 0; i < b->n; i++) {
		b->rows[i].text = row_text(b, b->keys[i]);
		if (!b->rows[i].text)
			return -ENOMEM;
	}
	return 0;
}

static int by_cpu(const void *a, const void *b)
{
	const struct stack_row *x = a, *y = b;

	return CMP(y->self.cpu_ns, x->self.cpu_ns)   ?:
	       CMP(y->total.cpu_ns, x->total.cpu_ns) ?:
	       CMP(y->self.wait_ns, x->self.wait_ns) ?:
						       strcmp(x->text, y->text);
}

static double share(int64_t part, int64_t whole)
{
	return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

static size_t count_threads(const struct run *run, const struct stack_choice *choice)
{
	struct stack_times times;
	const struct table_stack_sample *t = &run->stack_sample;
	struct hash_map map = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		uint32_t hash = id_hash(t->shard[i], t->thread[i]), found;
		struct hash_walk walk = hash_map_walk(&map, hash);

		if (!stack_choice_times(choice, run, i, &times))
			continue;
		while ((found = hash_map_next(&map, &walk)) &&
		       (t->shard[found - 1] != t->shard[i] || t->thread[found - 1] != t->thread[i]))
			;
		if (!found && hash_map_add(&map, hash, (uint32_t)i + 1) == 0)
			n++;
	}
	hash_map_release(&map);
	return n;
}

int sampled_stacks_analyze(const struct run *run, enum stacks_by by,
			   const struct stack_choice *choice, struct sampled_stacks *ret_stacks)
{
	struct builder b = { .run = run,
			     .choice = choice,
			     .by = by,
			     .row_of_sample = stack_rows_of_samples(run),
			     .parents = stack_parents(run) };
	struct stack_times all = { 0 };
	int r = b.row_of_sample && b.parents ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < run->stack_sample.n; i++)
		r = add_sample(&b, i, &all);
	if (r == 0)
		r = name_rows(&b);
	for (size_t i = 0; r == 0 && i < b.n; i++) {
		b.rows[i].cpu_pct = share(b.rows[i].self.cpu_ns, all.cpu_ns);
		b.rows[i].total_cpu_pct = share(b.rows[i].total.cpu_ns, all.cpu_ns);
		b.rows[i].wait_pct = share(b.rows[i].self.wait_ns, all.wait_ns);
	}
	if (r == 0 && b.n)
		qsort(b.rows, b.n, sizeof(*b.rows), by_cpu);
	*ret_stacks = (struct sampled_stacks){ b.rows, b.n, count_threads(run, choice), all };
	hash_map_release(&b.map);
	free(b.keys);
	free(b.counted);
	free(b.row_of_sample);
	free(b.parents);
	return r;
}

void sampled_stacks_release(struct sampled_stacks *stacks)
{
	for (size_t i = 0; i < stacks->n; i++)
		free(stacks->rows[i].text);
	free(stacks->rows);
	*stacks = (struct sampled_stacks){ 0 };
}

size_t run_processes(const struct run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->n_shards; i++)
		n += shard_is_process(run, i);
	/* A program that recorded nothing itself is one all the same. */
	return n || !run->n_shards ? n : 1;
}
