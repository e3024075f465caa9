/* SPDX-License-Identifier: Apache-2.0
 *
 * What only the experts of every token can tell (ROUTED records, level full): repetition,
 * co-activation, affinity between layers. Pure, any thread.
 *
 * Consecutive tokens are consecutive rows of one record, and records of one row each; where a new
 * sequence begins is not recorded, so repetition includes the seams. Affinity pairs the rows of two
 * layers by shard, step and row number, and repeated batches of a step in their order.
 */
#include "subjects/routing/routing.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cmp.h"

#define SET_MAX 64 /* slots per token that the API takes */

struct set {
	uint32_t experts[SET_MAX];
	uint32_t n;
};

/* A ROUTED record and what its rows are paired by. */
struct place {
	int64_t step;
	uint64_t first;
	size_t row;
	uint16_t shard;
};

struct places {
	struct place *items;
	size_t n;
};

/* The MoE layer that tokens come to after another. */
struct following {
	int32_t layer;
	uint32_t experts;
	uint8_t phase;
};

/* The valid experts of token `token` of a record, each once. */
static void read_set(const struct table_routed *t, size_t row, uint64_t token, uint32_t experts,
		     struct set *set)
{
	const int32_t *slot = t->expert + t->expert_first[row] + token * t->k[row];

	set->n = 0;
	for (uint32_t j = 0; j < t->k[row] && j < SET_MAX; j++) {
		bool seen = slot[j] < 0 || (uint32_t)slot[j] >= experts;

		for (uint32_t i = 0; !seen && i < set->n; i++)
			seen = set->experts[i] == (uint32_t)slot[j];
		if (!seen)
			set->experts[set->n++] = (uint32_t)slot[j];
	}
}

static uint64_t tokens_of(const struct table_routed *t, size_t row)
{
	uint64_t slots = t->expert_first[row + 1] - t->expert_first[row];

	return t->k[row] ? slots / t->k[row] : 0;
}

static bool intersect(const struct set *a, const struct set *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		for (uint32_t j = 0; j < b->n; j++)
			if (a->experts[i] == b->experts[j])
				return true;
	return false;
}

static int compare_place(const struct place *x, const struct place *y)
{
	return CMP(x->shard, y->shard) ?: CMP(x->step, y->step) ?: CMP(x->first, y->first);
}

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return compare_place(x, y) ?: CMP(x->row, y->row);
}

static int collect_places(const struct run *run, const struct selection *sel, int32_t layer,
			  uint8_t phase, struct places *ret_places)
{
	const struct table_routed *t = &run->routed;
	struct place *items;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->layer[i] == layer && t->phase[i] == phase;
	items = calloc(n ? n : 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	n = 0;
	for (size_t i = 0; i < t->n; i++)
		if (t->layer[i] == layer && t->phase[i] == phase &&
		    selection_has_step(sel, t->step[i]))
			items[n++] = (struct place){ t->step[i], t->first[i], i, t->shard[i] };
	if (n)
		qsort(items, n, sizeof(*items), by_place);
	*ret_places = (struct places){ items, n };
	return 0;
}

/* A record of one row is a token of one sequence being decoded: it follows the record before. */
static bool goes_on(const struct table_routed *t, const struct places *places, size_t p)
{
	return p && places->items[p].shard == places->items[p - 1].shard &&
	       tokens_of(t, places->items[p].row) == 1 &&
	       tokens_of(t, places->items[p - 1].row) == 1;
}

static void fill_repeat(const struct table_routed *t, const struct places *places,
			struct routing_layer *layer)
{
	double pairs = 0, repeats = 0, expected = 0;
	struct set before = { .n = 0 }, now;

	for (size_t p = 0; p < places->n; p++) {
		size_t row = places->items[p].row;
		uint64_t tokens = tokens_of(t, row);

		if (!goes_on(t, places, p))
			before.n = 0;
		for (uint64_t token = 0; token < tokens; token++) {
			read_set(t, row, token, layer->experts, &now);
			layer->routed_tokens += now.n > 0;
			if (now.n && before.n) {
				pairs++;
				repeats += intersect(&before, &now);
				expected += routing_repeat_null(layer->experts, before.n, now.n);
			}
			before = now;
		}
	}
	if (!pairs)
		return;
	layer->repeat_rate = value_of(repeats / pairs);
	layer->repeat_null = value_of(expected / pairs);
}

/* Keeps the pairs with the most tokens beyond chance; `tokens`: of the expert `from`. */
static void offer_pair(struct routing_pair *pairs, unsigned int *n, double *beyond,
		       struct routing_pair pair, double tokens)
{
	double score = (pair.share - pair.chance) * tokens;
	unsigned int at;

	if (score <= 0 || (*n == ROUTING_PAIRS && score <= beyond[*n - 1]))
		return;
	if (*n < ROUTING_PAIRS)
		(*n)++;
	for (at = *n - 1; at && beyond[at - 1] < score; at--) {
		beyond[at] = beyond[at - 1];
		pairs[at] = pairs[at - 1];
	}
	beyond[at] = score;
	pairs[at] = pair;
}

/* The other slots of a token at i, drawn by the loads of the other experts. */
static void pick_coactivation(struct routing_layer *layer, const double *sent)
{
	size_t experts = layer->experts;
	double beyond[ROUTING_PAIRS], total = 0, tokens = (double)layer->routed_tokens;

	for (size_t e = 0; e < experts; e++)
		total += sent[e];
	for (uint32_t i = 0; tokens > 0 && i < experts; i++)
		for (uint32_t j = 0; j < experts; j++) {
			double rest = total - sent[i];
			double chance = rest > 0 ? (total / tokens - 1) * sent[j] / rest : 0;

			/* Once for the two: seen from the expert that has fewer tokens. */
			if (i == j || sent[i] > sent[j] || (sent[i] == sent[j] && i > j))
				continue;
			offer_pair(layer->coactivation_pairs, &layer->n_coactivation_pairs, beyond,
				   (struct routing_pair){ i, j,
							  layer->coactivation[i * experts + j],
							  chance < 1 ? chance : 1 },
				   sent[i]);
		}
}

/* The next layer's experts, drawn by their loads. */
static void pick_affinity(struct routing_layer *layer, const double *sent, const double *next,
			  double next_total)
{
	double beyond[ROUTING_PAIRS];

	for (uint32_t i = 0; next_total > 0 && i < layer->experts; i++)
		for (uint32_t j = 0; sent[i] > 0 && j < layer->affinity_experts; j++)
			offer_pair(layer->affinity_pairs, &layer->n_affinity_pairs, beyond,
				   (struct routing_pair){
					   i, j,
					   layer->affinity[(size_t)i * layer->affinity_experts + j],
					   next[j] / next_total },
				   sent[i]);
}

static int fill_coactivation(const struct table_routed *t, const struct places *places,
			     struct routing_layer *layer)
{
	size_t experts = layer->experts;
	double *together = calloc(experts * experts, sizeof(*together));
	double *tokens_at = calloc(experts, sizeof(*tokens_at));

	if (!together || !tokens_at) {
		free(together);
		free(tokens_at);
		return -ENOMEM;
	}
	for (size_t p = 0; p < places->n; p++) {
		size_t row = places->items[p].row;
		uint64_t tokens = tokens_of(t, row);
		struct set set;

		for (uint64_t token = 0; token < tokens; token++) {
			read_set(t, row, token, layer->experts, &set);
			for (uint32_t i = 0; i < set.n; i++)
				for (uint32_t j = 0; j < set.n; j++)
					together[set.experts[i] * experts + set.experts[j]]++;
		}
	}
	/* The diagonal holds the tokens sent to i; it ends as 1, or 0 for an unused expert. */
	for (size_t i = 0; i < experts; i++) {
		tokens_at[i] = together[i * experts + i];
		for (size_t j = 0; tokens_at[i] > 0 && j < experts; j++)
			together[i * experts + j] /= tokens_at[i];
	}
	layer->coactivation = together;
	layer->coactivation_known = value_of(1);
	pick_coactivation(layer, tokens_at);
	free(tokens_at);
	return 0;
}

/* Adds the pairs of one record of a layer and the same tokens' record of the next. */
static void add_affinity(const struct table_routed *t, size_t row, size_t next_row,
			 struct routing_layer *layer, double *sent)
{
	uint64_t tokens = tokens_of(t, row), next_tokens = tokens_of(t, next_row);
	struct set from, to;

	for (uint64_t token = 0; token < tokens && token < next_tokens; token++) {
		read_set(t, row, token, layer->experts, &from);
		read_set(t, next_row, token, layer->affinity_experts, &to);
		for (uint32_t i = 0; to.n && i < from.n; i++) {
			double *line = layer->affinity +
				       (size_t)from.experts[i] * layer->affinity_experts;

			sent[from.experts[i]]++;
			for (uint32_t j = 0; j < to.n; j++)
				line[to.experts[j]] += 1.0 / to.n;
		}
	}
}

static void walk_affinity(const struct table_routed *t, const struct places *places,
			  const struct places *next, struct routing_layer *layer, double *sent,
			  double *arrived)
{
	size_t i = 0, j = 0;

	while (i < places->n && j < next->n) {
		int order = compare_place(&places->items[i], &next->items[j]);

		if (order == 0)
			add_affinity(t, places->items[i].row, next->items[j].row, layer, sent);
		i += order <= 0;
		j += order >= 0;
	}
	/* The columns still hold tokens: their sums are the loads that the pairs saw. */
	for (uint32_t e = 0; e < layer->experts; e++)
		for (uint32_t f = 0; f < layer->affinity_experts; f++)
			arrived[f] += layer->affinity[(size_t)e * layer->affinity_experts + f];
}

static int fill_affinity(const struct table_routed *t, const struct places *places,
			 const struct places *next, const struct following *after,
			 struct routing_layer *layer)
{
	double *sent = calloc(layer->experts, sizeof(*sent));
	double *arrived = calloc(after->experts, sizeof(*arrived)), total = 0;

	layer->affinity_layer = after->layer;
	layer->affinity_experts = after->experts;
	layer->affinity = calloc((size_t)layer->experts * after->experts, sizeof(*layer->affinity));
	if (!sent || !arrived || !layer->affinity) {
		free(sent);
		free(arrived);
		return -ENOMEM;
	}
	walk_affinity(t, places, next, layer, sent, arrived);
	for (uint32_t e = 0; e < layer->experts; e++)
		for (uint32_t f = 0; sent[e] > 0 && f < layer->affinity_experts; f++)
			layer->affinity[(size_t)e * layer->affinity_experts + f] /= sent[e];
	for (uint32_t f = 0; f < layer->affinity_experts; f++)
		total += arrived[f];
	pick_affinity(layer, sent, arrived, total);
	free(sent);
	free(arrived);
	layer->affinity_known = value_of(1);
	return 0;
}

/* The next MoE layer of the same phase in the run, whichever layer was asked for. */
static bool find_following(const struct run *run, const struct routing_layer *layer,
			   struct following *ret)
{
	const struct table_routing *t = &run->routing;
	bool found = false;

	for (size_t i = 0; i < t->n; i++)
		if (t->phase[i] == layer->phase && t->layer[i] > layer->layer && t->experts[i] &&
		    (!found || t->layer[i] < ret->layer)) {
			*ret = (struct following){ t->layer[i], t->experts[i], layer->phase };
			found = true;
		}
	return found;
}

static int fill_matrices(const struct run *run, const struct selection *sel,
			 const struct places *places, struct routing_layer *layer)
{
	static const char large[] = "more than 1024 experts: the matrix would be too large";
	struct following after = { 0 };
	struct places next;
	bool last = !find_following(run, layer, &after);
	int r;

	if (layer->experts > ROUTING_MATRIX_EXPERTS) {
		layer->coactivation_known = layer->affinity_known = value_absent(large);
		return 0;
	}
	r = fill_coactivation(&run->routed, places, layer);
	if (r < 0)
		return r;
	if (last || after.experts > ROUTING_MATRIX_EXPERTS) {
		layer->affinity_known = value_absent(last ? "no MoE layer after this one" : large);
		return 0;
	}
	r = collect_places(run, sel, after.layer, after.phase, &next);
	if (r < 0)
		return r;
	r = fill_affinity(&run->routed, places, &next, &after, layer);
	free(next.items);
	return r;
}

int routing_tokens_fill(const struct run *run, const struct selection *sel, struct routing *routing)
{
	for (size_t i = 0; run->routed.n && i < routing->n; i++) {
		struct routing_layer *layer = &routing->layers[i];
		struct places places;
		int r = collect_places(run, sel, layer->layer, layer->phase, &places);

		if (r < 0)
			return r;
		if (places.n) {
			fill_repeat(&run->routed, &places, layer);
			r = fill_matrices(run, sel, &places, layer);
		}
		free(places.items);
		if (r < 0)
			return r;
	}
	return 0;
}
