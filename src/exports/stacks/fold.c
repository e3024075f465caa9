/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks added up; see fold.h.
 */
#include "exports/stacks/fold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "exports/stacks/samples.h"
#include "subjects/heap/heap_use.h"
#include "subjects/shared/attribution.h"
#include "subjects/stacks/sampled_stacks.h"
#include "subjects/stacks/stack_choice.h"

/* In the names of functions of Python's import itself. */
#define IMPORT_ITSELF " (<frozen importlib."

static int find_node(struct fold *f, uint32_t parent, uint32_t label, uint32_t *ret_node)
{
	uint32_t hash = hash_word((uint64_t)parent << 32 | label), node;
	struct hash_walk walk = hash_map_walk(&f->map, hash);

	while ((node = hash_map_next(&f->map, &walk)))
		if (f->nodes[node].parent == parent && f->nodes[node].label == label) {
			*ret_node = node;
			return 0;
		}
	if (f->n >= UINT32_MAX)
		return -EFBIG;
	f->n += !f->n; /* node 0 */
	if (array_grow(&f->nodes, &f->capacity, f->n + 1, sizeof(*f->nodes)) < 0 ||
	    hash_map_add(&f->map, hash, (uint32_t)f->n) < 0)
		return -ENOMEM;
	f->nodes[f->n] = (struct fold_node){ .parent = parent, .label = label };
	*ret_node = (uint32_t)f->n++;
	return 0;
}

static int named_node(struct fold *f, uint32_t parent, const char *text, uint32_t *ret_node)
{
	uint32_t label = interned_id(&f->labels.texts, text, strlen(text));

	return label ? find_node(f, parent, label, ret_node) : -ENOMEM;
}

/* The stack that all of a track or process are in. */
static int root_node(struct fold *f, uint16_t shard, const char *name, uint32_t *ret_node)
{
	uint32_t parent = 0;
	char rank[32];
	int r = 0;

	if (run_processes(f->run) > 1 && shard < f->run->n_shards) {
		snprintf(rank, sizeof(rank), "rank %u", f->run->shards[shard].rank);
		r = named_node(f, 0, rank, &parent);
	}
	return r == 0 ? named_node(f, parent, name, ret_node) : r;
}

/* What is open on a lane of a thread. */
struct open {
	int64_t end_ns;
	uint32_t node;
};
struct lane {
	struct open *open;
	size_t n, capacity;
};

static int fold_ref(struct fold *f, struct lane *lane, const struct stack_ref *ref, uint32_t root)
{
	int64_t start_ns = stack_start(&f->stacks, ref), end_ns = stack_end(&f->stacks, ref);
	uint32_t node = 0, parent, label = 0;
	int r;

	while (lane->n && lane->open[lane->n - 1].end_ns <= start_ns)
		lane->n--;
	parent = lane->n ? lane->open[lane->n - 1].node : root;
	if (ref->kind == STACK_API)
		f->call_node[ref->row] = parent;
	r = stack_label(&f->labels, ref, &label);
	if (r == 0)
		r = find_node(f, parent, label, &node);
	if (r == 0)
		r = array_grow(&lane->open, &lane->capacity, lane->n + 1, sizeof(*lane->open));
	if (r < 0)
		return r;
	f->nodes[node].host_ns += end_ns - start_ns;
	f->nodes[node].host_n++;
	if (lane->n)
		f->nodes[parent].host_ns -= end_ns - start_ns;
	lane->open[lane->n++] = (struct open){ end_ns, node };
	return 0;
}

static int fold_thread(struct fold *f, size_t track)
{
	const struct stack_ref *refs;
	struct lane *lanes;
	size_t n, n_lanes;
	char name[200];
	uint32_t root = 0;
	int r = stacks_walk(&f->stacks, track, &refs, &n, &n_lanes);

	if (r < 0)
		return r;
	stack_track_name(f->run, &f->stacks.tracks[track], name, sizeof(name));
	r = root_node(f, f->stacks.tracks[track].shard, name, &root);
	lanes = calloc(n_lanes ? n_lanes : 1, sizeof(*lanes));
	if (!lanes)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < n; i++)
		if (!stack_kind_is_moment(refs[i].kind))
			r = fold_ref(f, &lanes[refs[i].lane], &refs[i], root);
	for (size_t l = 0; l < n_lanes; l++)
		free(lanes[l].open);
	free(lanes);
	return r;
}

static int fold_work(struct fold *f, enum stack_kind kind, const uint32_t *calls)
{
	const struct stack_source *source = &f->stacks.sources[kind];

	for (size_t i = 0; i < source->n; i++) {
		struct stack_ref ref = { .row = (uint32_t)i, .kind = (uint8_t)kind };
		uint32_t node = calls[i] == NO_CALL32 ? 0 : f->call_node[calls[i]];
		uint32_t label = 0;
		int r = 0;

		if (source->untimed[i])
			continue;
		if (!node)
			r = root_node(f, source->shard[i], "no call recorded", &node);
		if (r == 0)
			r = stack_label(&f->labels, &ref, &label);
		if (r == 0)
			r = find_node(f, node, label, &node);
		if (r < 0)
			return r;
		f->nodes[node].device_n++;
		f->nodes[node].device_ns += stack_end(&f->stacks, &ref) -
					    stack_start(&f->stacks, &ref);
	}
	return 0;
}

/* What of samples to fold. */
enum { SAMPLES_WAITS = 1, SAMPLES_WITHOUT_IMPORT = 2 };

static int fold_sample(struct fold *f, struct samples *samples, size_t i, unsigned int how)
{
	bool waits = how & SAMPLES_WAITS;
	const struct table_stack_sample *t = &f->run->stack_sample;
	struct stack_track track = { .family = STACK_FAMILY_THREAD,
				     .shard = t->shard[i],
				     .id = t->thread[i] };
	struct sample_part parts[SAMPLE_PARTS];
	size_t n = sample_parts(f->run, i, parts);
	uint32_t node = 0, leaf;
	char name[200];
	int r;

	if (!n || (!waits && parts[0].waiting))
		return 0;
	samples_walk(samples, i);
	stack_track_name(f->run, &track, name, sizeof(name));
	r = root_node(f, t->shard[i], name, &node);
	while (r == 0 && samples->depth--) {
		const char *function = samples->path[samples->depth];

		if (!(how & SAMPLES_WITHOUT_IMPORT) || !strstr(function, IMPORT_ITSELF))
			r = named_node(f, node, function, &node);
	}
	for (size_t p = 0; r == 0 && p < n && (waits || !parts[p].waiting); p++) {
		leaf = node;
		if (parts[p].waiting)
			r = named_node(f, node, parts[p].waiting, &leaf);
		if (r < 0)
			break;
		*(parts[p].waiting ? &f->nodes[leaf].wait_ns
				   : &f->nodes[leaf].host_ns) += parts[p].ns;
		if (p == 0) /* a look counts once */
			f->nodes[leaf].host_n += t->samples[i];
	}
	return r;
}

/* choice: NULL: all of them. Time on a processor is chosen whole or not at all. */
static int fold_samples(struct fold *f, unsigned int how, const struct stack_choice *choice)
{
	struct samples samples;
	struct stack_times times;
	int r = samples_init(&samples, f->run);

	for (size_t i = 0; r == 0 && i < f->run->stack_sample.n; i++)
		if (!choice || stack_choice_times(choice, f->run, i, &times))
			r = fold_sample(f, &samples, i, how);
	samples_release(&samples);
	return r;
}

int fold_make(struct fold *f, const struct run *run, unsigned int more)
{
	struct attribution at;
	int r;

	*f = (struct fold){ .run = run };
	stack_labels_init(&f->labels, run);
	r = stacks_init(&f->stacks, run);

	if (r == 0) {
		f->call_node = calloc(f->run->api.n ? f->run->api.n : 1, sizeof(*f->call_node));
		r = f->call_node ? 0 : -ENOMEM;
	}
	for (size_t t = 0; r == 0 && t < f->stacks.n; t++)
		if (f->stacks.tracks[t].family == STACK_FAMILY_THREAD)
			r = fold_thread(f, t);
	if (r == 0)
		r = fold_samples(f, more & FOLD_WAITS ? SAMPLES_WAITS : 0, NULL);
	if (r < 0 || !(more & FOLD_DEVICE))
		return r;
	r = attribution_init_calls(&at, f->run);
	if (r < 0)
		return r;
	r = fold_work(f, STACK_KERNEL, at.kernel_call);
	if (r == 0)
		r = fold_work(f, STACK_COPY, at.copy_call);
	if (r == 0)
		r = fold_work(f, STACK_SET, at.set_call);
	attribution_release(&at);
	return r;
}

int fold_make_samples(struct fold *f, const struct run *run, const struct selection *sel)
{
	struct stack_choice choice;
	int r = stack_choice_init(&choice, run, sel ? sel : &SELECT_ALL, NULL);

	*f = (struct fold){ .run = run };
	stack_labels_init(&f->labels, run);
	if (r == 0)
		r = fold_samples(f, SAMPLES_WITHOUT_IMPORT, &choice);
	stack_choice_release(&choice);
	return r;
}

static int fold_heap_sample(struct fold *f, struct samples *samples, size_t i)
{
	const struct table_heap_sample *t = &f->run->heap_sample;
	int64_t bytes = heap_sample_bytes(f->run, i);
	uint32_t node = 0;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "process %u", f->run->shards[t->shard[i]].pid);
	r = root_node(f, t->shard[i], name, &node);
	samples_walk(samples, i);
	while (r == 0 && samples->depth--)
		if (!strstr(samples->path[samples->depth], IMPORT_ITSELF))
			r = named_node(f, node, samples->path[samples->depth], &node);
	if (t->event[i] == HEAP_SAMPLE_FREED)
		bytes = -bytes;
	/* Sums of a file that is damaged may be anything, but not undefined. */
	if (r == 0)
		f->nodes[node].heap_bytes =
			(int64_t)((uint64_t)f->nodes[node].heap_bytes + (uint64_t)bytes);
	return r;
}

int fold_make_heap(struct fold *f, const struct run *run)
{
	struct samples samples = { 0 };
	uint32_t *rows = NULL;
	size_t n = 0;
	int r;

	*f = (struct fold){ .run = run };
	stack_labels_init(&f->labels, run);
	r = heap_until_peak(run, &rows, &n);
	if (r == 0)
		r = samples_init_heap(&samples, run);
	for (size_t k = 0; r == 0 && k < n; k++)
		r = fold_heap_sample(f, &samples, rows[k]);
	samples_release(&samples);
	free(rows);
	return r;
}

void fold_release(struct fold *f)
{
	free(f->nodes);
	hash_map_release(&f->map);
	free(f->call_node);
	stack_labels_release(&f->labels);
	stacks_release(&f->stacks);
}
