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
#include <math.h>
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

double routing_coactivation_chance(const struct routing_layer *layer, uint32_t i, uint32_t j)
{
	double rest = layer->routed_slots - layer->routed_load[i];
	double others = layer->routed_slots / (double)layer->routed_tokens - 1;

	/* The other slots of a token at i, drawn by the loads of the other experts. */
	return rest > 0 ? fmin(1, others * layer->routed_load[j] / rest) : 0;
}

static void pick_coactivation(struct routing_layer *layer)
{
	const double *load = layer->routed_load;
	double beyond[ROUTING_PAIRS];

	for (uint32_t i = 0; i < layer->experts; i++)
		for (uint32_t j = 0; load[i] > 0 && j < layer->experts; j++) {
			double share = layer->coactivation[(size_t)i * layer->experts + j];

			/* Once for the two: seen from the expert that has fewer tokens. */
			if (i == j || load[i] > load[j] || (load[i] == load[j] && i > j))
				continue;
			offer_pair(layer->coactivation_pairs, &layer->n_coactivation_pairs, beyond,
				   (struct routing_pair){
					   i, j, (uint64_t)llround(share * load[i]), share,
					   routing_coactivation_chance(layer, i, j) },
				   load[i]);
		}
}

static int fill_coactivation(const struct table_routed *t, const struct places *places,
			     struct routing_layer *layer)
{
	size_t experts = layer->experts;
	double *together = calloc(experts * experts, sizeof(*together));

	layer->coactivation = together;
	layer->routed_load = calloc(experts, sizeof(*layer->routed_load));
	if (!together || !layer->routed_load)
		return -ENOMEM;
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
		double load = together[i * experts + i];

		layer->routed_load[i] = load;
		layer->routed_slots += load;
		for (size_t j = 0; load > 0 && j < experts; j++)
			together[i * experts + j] /= load;
	}
	layer->coactivation_known = value_of(1);
	pick_coactivation(layer);
	return 0;
}

/* The way of tokens from a layer to the next: each pair of an expert here and one there counts. */
struct flow {
	double *pairs;		/* [i * next + j] */
	double *rows, *columns; /* their sums */
	uint32_t experts, next;
	uint64_t tokens, slots, next_slots; /* of tokens that have experts in both layers */
	double by_next[SET_MAX + 1];	    /* pairs of tokens with so many experts there */
};

static void flow_release(struct flow *flow)
{
	free(flow->pairs);
	free(flow->rows);
	free(flow->columns);
}

static int flow_init(struct flow *flow, uint32_t experts, uint32_t next)
{
	*flow = (struct flow){ .experts = experts, .next = next };
	flow->pairs = calloc((size_t)experts * next, sizeof(*flow->pairs));
	flow->rows = calloc(experts, sizeof(*flow->rows));
	flow->columns = calloc(next, sizeof(*flow->columns));
	if (flow->pairs && flow->rows && flow->columns)
		return 0;
	flow_release(flow);
	return -ENOMEM;
}

/* Adds the tokens of one record of a layer and of the same tokens' record of the next. */
static void flow_add(struct flow *flow, const struct table_routed *t, size_t row, size_t next_row)
{
	uint64_t tokens = tokens_of(t, row), next_tokens = tokens_of(t, next_row);
	struct set from, to;

	for (uint64_t token = 0; token < tokens && token < next_tokens; token++) {
		read_set(t, row, token, flow->experts, &from);
		read_set(t, next_row, token, flow->next, &to);
		if (!from.n || !to.n)
			continue;
		flow->tokens++;
		flow->slots += from.n;
		flow->next_slots += to.n;
		flow->by_next[to.n] += from.n * to.n;
		for (uint32_t i = 0; i < from.n; i++)
			for (uint32_t j = 0; j < to.n; j++)
				flow->pairs[(size_t)from.experts[i] * flow->next + to.experts[j]]++;
	}
}

static void flow_walk(struct flow *flow, const struct table_routed *t, const struct places *places,
		      const struct places *next)
{
	size_t p = 0, q = 0;

	while (p < places->n && q < next->n) {
		int order = compare_place(&places->items[p], &next->items[q]);

		if (order == 0)
			flow_add(flow, t, places->items[p].row, next->items[q].row);
		p += order <= 0;
		q += order >= 0;
	}
	for (uint32_t i = 0; i < flow->experts; i++)
		for (uint32_t j = 0; j < flow->next; j++) {
			flow->rows[i] += flow->pairs[(size_t)i * flow->next + j];
			flow->columns[j] += flow->pairs[(size_t)i * flow->next + j];
		}
}

static double used(const double *sums, uint32_t n)
{
	double found = 0;

	for (uint32_t i = 0; i < n; i++)
		found += sums[i] > 0;
	return found;
}

/* Even who knew all would have to guess which of a token's experts in the next layer is meant. */
static double most_bits(const struct flow *flow, double total)
{
	double bits = routing_entropy_bits(flow->columns, flow->next);

	for (uint32_t n = 2; n <= SET_MAX; n++)
		bits -= flow->by_next[n] / total * log2(n);
	return fmax(0, bits);
}

static void set_bits(const struct flow *flow, double total, struct routing_layer *layer)
{
	double tokens = (double)flow->tokens, most = most_bits(flow, total);
	double floor = routing_mutual_floor(
		used(flow->rows, flow->experts), (double)flow->slots / tokens,
		used(flow->columns, flow->next), (double)flow->next_slots / tokens, tokens);

	layer->affinity_bits = value_of(routing_mutual_bits(flow->pairs, flow->experts, flow->next,
							    flow->rows, flow->columns));
	layer->affinity_bits_floor = value_of(fmin(floor, most));
	layer->affinity_bits_most = value_of(most);
}

/* The pairs of a flow become shares of their rows, beside what the next layer's loads give. */
static void take_flow(struct flow *flow, struct routing_layer *layer)
{
	double beyond[ROUTING_PAIRS], total = 0;

	for (uint32_t j = 0; j < flow->next; j++)
		total += flow->columns[j];
	if (total > 0)
		set_bits(flow, total, layer);
	else
		layer->affinity_bits = layer->affinity_bits_floor = layer->affinity_bits_most =
			value_absent("no token has experts in both layers");
	for (uint32_t j = 0; total > 0 && j < flow->next; j++)
		flow->columns[j] /= total;
	for (uint32_t i = 0; i < flow->experts; i++)
		for (uint32_t j = 0; flow->rows[i] > 0 && j < flow->next; j++) {
			double *cell = &flow->pairs[(size_t)i * flow->next + j], tokens = *cell;

			*cell /= flow->rows[i];
			offer_pair(layer->affinity_pairs, &layer->n_affinity_pairs, beyond,
				   (struct routing_pair){ i, j, (uint64_t)tokens, *cell,
							  flow->columns[j] },
				   flow->rows[i]);
		}
	layer->affinity = flow->pairs;
	layer->affinity_chance = flow->columns;
	flow->pairs = flow->columns = NULL;
	flow_release(flow);
}

static int fill_affinity(const struct table_routed *t, const struct places *places,
			 const struct places *next, const struct following *after,
			 struct routing_layer *layer)
{
	struct flow flow;
	int r = flow_init(&flow, layer->experts, after->experts);

	if (r < 0)
		return r;
	flow_walk(&flow, t, places, next);
	layer->affinity_layer = value_of(after->layer);
	layer->affinity_experts = after->experts;
	layer->affinity_tokens = value_of((double)flow.tokens);
	layer->affinity_known = value_of(1);
	take_flow(&flow, layer);
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

static void lack_affinity(struct routing_layer *layer, const char *reason)
{
	layer->affinity_known = layer->affinity_layer = layer->affinity_tokens =
		layer->affinity_bits = layer->affinity_bits_floor = layer->affinity_bits_most =
			value_absent(reason);
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
		layer->coactivation_known = value_absent(large);
		lack_affinity(layer, large);
		return 0;
	}
	r = fill_coactivation(&run->routed, places, layer);
	if (r < 0)
		return r;
	if (last || after.experts > ROUTING_MATRIX_EXPERTS) {
		lack_affinity(layer, last ? "no MoE layer after this one" : large);
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
