/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks, for flame graphs: lines of "outer;inner;… nanoseconds".
 *
 * Of the host: the time of frames, ranges, operations and calls that nothing inside them took. Of the
 * device: the time of kernels, copies and sets, under what was open on the thread when the call that
 * launched them began; the call itself is no part of the stack. Work without its call is under a name
 * that says so. What has no time is in neither.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "base/text/utf8.h"
#include "exports/exports.h"
#include "exports/stacks/stacks.h"
#include "subjects/shared/attribution.h"

/* A stack: its innermost name, and the stack around it. Node 0 is none. */
struct node {
	uint32_t parent, label;
	int64_t host_ns, device_ns;
};

struct folder {
	const struct run *run;
	struct stacks stacks;
	struct stack_labels labels;
	struct node *nodes;
	size_t n, capacity;
	struct hash_map map; /* of nodes */
	uint32_t *call_node; /* of each row of run->api; 0: none */
};

static int find_node(struct folder *f, uint32_t parent, uint32_t label, uint32_t *ret_node)
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
	f->nodes[f->n] = (struct node){ .parent = parent, .label = label };
	*ret_node = (uint32_t)f->n++;
	return 0;
}

static int named_node(struct folder *f, uint32_t parent, const char *text, uint32_t *ret_node)
{
	uint32_t label = interned_id(&f->labels.texts, text, strlen(text));

	return label ? find_node(f, parent, label, ret_node) : -ENOMEM;
}

/* The stack that all of a track or process are in. */
static int root_node(struct folder *f, uint16_t shard, const char *name, uint32_t *ret_node)
{
	uint32_t parent = 0;
	char rank[32];
	int r = 0;

	if (f->run->n_shards > 1 && shard < f->run->n_shards) {
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

static int fold_ref(struct folder *f, struct lane *lane, const struct stack_ref *ref, uint32_t root)
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
	if (lane->n)
		f->nodes[parent].host_ns -= end_ns - start_ns;
	lane->open[lane->n++] = (struct open){ end_ns, node };
	return 0;
}

static int fold_thread(struct folder *f, size_t track)
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

static int fold_work(struct folder *f, enum stack_kind kind, const uint32_t *calls)
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
		f->nodes[node].device_ns += stack_end(&f->stacks, &ref) -
					    stack_start(&f->stacks, &ref);
	}
	return 0;
}

static int fold(struct folder *f, bool device)
{
	struct attribution at;
	int r = stacks_init(&f->stacks, f->run);

	if (r == 0) {
		f->call_node = calloc(f->run->api.n ? f->run->api.n : 1, sizeof(*f->call_node));
		r = f->call_node ? 0 : -ENOMEM;
	}
	for (size_t t = 0; r == 0 && t < f->stacks.n; t++)
		if (f->stacks.tracks[t].family == STACK_FAMILY_THREAD)
			r = fold_thread(f, t);
	if (r < 0 || !device)
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

/* A name without what separates names and lines. */
static void put_text(struct buf *out, const char *text)
{
	size_t length = strlen(text), taken;

	for (size_t i = 0; i < length; i += taken) {
		uint32_t point;
		int valid;

		taken = utf8_decode(text + i, length - i, &point, &valid);
		if (!valid)
			buf_append(out, "\xef\xbf\xbd", 3);
		else if (point == ';')
			buf_append(out, ":", 1);
		else if (!utf8_is_harmless(point))
			buf_append(out, " ", 1);
		else
			buf_append(out, text + i, taken);
	}
}

static int put_line(struct folder *f, uint32_t node, int64_t ns, uint32_t **path, size_t *capacity,
		    FILE *out)
{
	struct buf line = { 0 };
	size_t depth = 0;
	int r = 0;

	for (; node; node = f->nodes[node].parent) {
		r = array_grow(path, capacity, depth + 1, sizeof(**path));
		if (r < 0)
			return r;
		(*path)[depth++] = f->nodes[node].label;
	}
	while (depth) {
		put_text(&line, interned_key(&f->labels.texts, (*path)[--depth]));
		buf_append(&line, depth ? ";" : " ", 1);
	}
	buf_printf(&line, "%" PRId64 "\n", ns);
	if (line.failed)
		r = -ENOMEM;
	else if (fwrite(line.data, 1, line.size, out) != line.size)
		r = errno ? -errno : -EIO;
	buf_release(&line);
	return r;
}

static int export_stacks(const struct run *run, FILE *out, struct err *err, bool device)
{
	struct folder f = { .run = run };
	uint32_t *path = NULL;
	size_t capacity = 0;
	int r;

	stack_labels_init(&f.labels, run);
	r = fold(&f, device);
	for (size_t i = 1; r == 0 && i < f.n; i++) {
		int64_t ns = device ? f.nodes[i].device_ns : f.nodes[i].host_ns;

		if (ns > 0)
			r = put_line(&f, (uint32_t)i, ns, &path, &capacity, out);
	}
	free(path);
	free(f.nodes);
	hash_map_release(&f.map);
	free(f.call_node);
	stack_labels_release(&f.labels);
	stacks_release(&f.stacks);
	return r < 0 ? err_sys(err, r, "cannot write the stacks of '%s'", run->info.name) : 0;
}

int export_folded(const struct run *run, FILE *out, struct err *err)
{
	return export_stacks(run, out, err, true);
}

int export_folded_host(const struct run *run, FILE *out, struct err *err)
{
	return export_stacks(run, out, err, false);
}
