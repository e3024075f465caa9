/* SPDX-License-Identifier: Apache-2.0
 *
 * Folded stacks (fold.h) as a tree for a flame graph, small enough for a page: stacks below a share of
 * the whole, or very deep ones, are added up in the one around them, and how much that is, is told.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/json_write.h"
#include "exports/exports.h"
#include "exports/stacks/fold.h"

#define LEAST_PER_MILLE 1
#define MOST_NODES 20000
#define DEEPEST 400 /* a row for each must fit a picture */

#define NO_PLACE UINT32_MAX

struct flame {
	struct fold fold;
	bool device;
	size_t n;	   /* nodes, node 0 among them: all stacks */
	int64_t *total_ns; /* with what is inside */
	int64_t least_ns;  /* of a node that is shown */
	uint16_t *depth;   /* up to DEEPEST + 1 */
	uint32_t *place;   /* among those that are shown */
	uint64_t *merged;  /* stacks inside that are not, and their time */
	int64_t *merged_ns;
	struct json json;
};

static int64_t self_ns(const struct flame *f, size_t node)
{
	int64_t ns;

	if (!node)
		return 0;
	ns = f->device ? f->fold.nodes[node].device_ns : f->fold.nodes[node].host_ns;
	return ns > 0 ? ns : 0;
}

static int largest_first(const void *a, const void *b)
{
	return CMP(*(const int64_t *)b, *(const int64_t *)a);
}

static bool is_shown(const struct flame *f, size_t node)
{
	return !node || (f->total_ns[node] >= f->least_ns && f->depth[node] <= DEEPEST);
}

/* No node is larger than the one around it, so what is shown is a tree. */
static int choose_least(struct flame *f)
{
	int64_t *large = array_new(f->n, sizeof(*large));
	size_t n = 0;

	if (!large)
		return -ENOMEM;
	f->least_ns = f->total_ns[0] / 1000 * LEAST_PER_MILLE;
	f->least_ns += !f->least_ns;
	for (size_t i = 0; i < f->n; i++)
		if (is_shown(f, i))
			large[n++] = f->total_ns[i];
	if (n > MOST_NODES) {
		qsort(large, n, sizeof(*large), largest_first);
		f->least_ns = large[MOST_NODES] + 1;
	}
	free(large);
	return 0;
}

/* A merged node counts where it leaves the tree: at the first one around it that is shown. */
static void merge_small(struct flame *f)
{
	uint32_t shown = 0;

	for (size_t i = 0; i < f->n; i++)
		f->place[i] = is_shown(f, i) ? shown++ : NO_PLACE;
	for (size_t i = f->n; i-- > 1;) {
		uint32_t parent = f->fold.nodes[i].parent;

		if (f->place[i] != NO_PLACE || !f->total_ns[i])
			continue;
		f->merged[parent] += f->merged[i] + 1;
		if (f->place[parent] != NO_PLACE)
			f->merged_ns[parent] += f->total_ns[i];
	}
}

static int make_flame(struct flame *f, const struct run *run)
{
	int r = fold_make(&f->fold, run, f->device ? FOLD_DEVICE : 0);

	if (r < 0)
		return r;
	f->n = f->fold.n ? f->fold.n : 1;
	f->total_ns = calloc(f->n, sizeof(*f->total_ns));
	f->depth = calloc(f->n, sizeof(*f->depth));
	f->place = calloc(f->n, sizeof(*f->place));
	f->merged = calloc(f->n, sizeof(*f->merged));
	f->merged_ns = calloc(f->n, sizeof(*f->merged_ns));
	if (!f->total_ns || !f->depth || !f->place || !f->merged || !f->merged_ns)
		return -ENOMEM;
	for (size_t i = f->n; i-- > 1;) {
		f->total_ns[i] += self_ns(f, i);
		f->total_ns[f->fold.nodes[i].parent] += f->total_ns[i];
	}
	for (size_t i = 1; i < f->n; i++) {
		uint16_t above = f->depth[f->fold.nodes[i].parent];

		f->depth[i] = (uint16_t)(above + (above <= DEEPEST));
	}
	r = choose_least(f);
	if (r == 0)
		merge_small(f);
	return r;
}

/* One list of a value of each node that is shown. */
static void put_list(struct flame *f, const char *key,
		     int64_t (*value)(const struct flame *f, size_t node))
{
	json_key(&f->json, key);
	json_array_line(&f->json);
	for (size_t i = 0; i < f->n; i++)
		if (f->place[i] != NO_PLACE)
			json_int(&f->json, value(f, i));
	json_array_end(&f->json);
}

static int64_t parent_of(const struct flame *f, size_t node)
{
	return node ? (int64_t)f->place[f->fold.nodes[node].parent] : -1;
}

/* Labels count from 1. */
static int64_t name_of(const struct flame *f, size_t node)
{
	return node ? (int64_t)f->fold.nodes[node].label - 1 : -1;
}

static int64_t total_of(const struct flame *f, size_t node)
{
	return f->total_ns[node];
}

static int64_t count_of(const struct flame *f, size_t node)
{
	const struct fold_node *of = node ? &f->fold.nodes[node] : NULL;

	return of ? (int64_t)(f->device ? of->device_n : of->host_n) : 0;
}

static int64_t merged_of(const struct flame *f, size_t node)
{
	return (int64_t)f->merged[node];
}

static int64_t merged_ns_of(const struct flame *f, size_t node)
{
	return f->merged_ns[node];
}

static void put_number(struct flame *f, const char *key, int64_t value)
{
	json_key(&f->json, key);
	json_int(&f->json, value);
}

static void put_sums(struct flame *f)
{
	uint64_t merged = 0;
	int64_t merged_ns = 0;

	for (size_t i = 0; i < f->n; i++)
		if (f->place[i] != NO_PLACE) {
			merged += f->merged[i];
			merged_ns += f->merged_ns[i];
		}
	put_number(f, "total_ns", f->total_ns[0]);
	put_number(f, "least_ns", f->least_ns);
	put_number(f, "deepest", DEEPEST);
	put_number(f, "merged", (int64_t)merged);
	put_number(f, "merged_ns", merged_ns);
}

/* Of names that only merged stacks have, the place in the list stays, empty. */
static int put_names(struct flame *f)
{
	const struct interned *texts = &f->fold.labels.texts;
	bool *used = calloc(texts->n + 1, sizeof(*used));

	if (!used)
		return -ENOMEM;
	for (size_t i = 1; i < f->n; i++)
		used[f->fold.nodes[i].label - 1] |= f->place[i] != NO_PLACE;
	json_key(&f->json, "names");
	json_array(&f->json);
	for (size_t i = 0; i < texts->n; i++)
		json_string(&f->json, used[i] ? texts->keys[i] : "");
	json_array_end(&f->json);
	free(used);
	return 0;
}

static int print_flame(struct flame *f, FILE *out)
{
	int r, written;

	json_init_file(&f->json, out, 2);
	json_object(&f->json);
	json_key(&f->json, "schema");
	json_string(&f->json, "moescope/stacks/1");
	json_key(&f->json, "of");
	json_string(&f->json, f->device ? "device" : "host");
	put_sums(f);
	r = put_names(f);
	json_key(&f->json, "nodes");
	json_object(&f->json);
	put_list(f, "parent", parent_of);
	put_list(f, "name", name_of);
	put_list(f, "self_ns", self_ns);
	put_list(f, "total_ns", total_of);
	put_list(f, "count", count_of);
	put_list(f, "merged", merged_of);
	put_list(f, "merged_ns", merged_ns_of);
	json_object_end(&f->json);
	json_object_end(&f->json);
	written = json_finish(&f->json, NULL);
	return r < 0 ? r : written;
}

struct run_want export_flame_want(bool device)
{
	struct run_want want = { .kinds = WANT(FRAME) | WANT(RANGE) | WANT(OP) | WANT(API) |
					  WANT(OS_CALL) | WANT(LIBRARY_CALL) | WANT(THREAD) |
					  WANT(STACK) | WANT(STACK_SAMPLE) };

	if (device)
		want.kinds |= WANT(KERNEL) | WANT(COPY) | WANT(SET) | WANT(GRAPH_NODE);
	return want;
}

int export_flame(const struct run *run, bool device, FILE *out, struct err *err)
{
	struct flame f = { .device = device };
	int r = make_flame(&f, run);

	if (r == 0)
		r = print_flame(&f, out);
	fold_release(&f.fold);
	free(f.total_ns);
	free(f.depth);
	free(f.place);
	free(f.merged);
	free(f.merged_ns);
	return r < 0 ? err_sys(err, r, "cannot add up the stacks of '%s'", run->info.name) : 0;
}
