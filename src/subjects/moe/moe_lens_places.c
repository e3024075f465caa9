/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranges around a launch tell of a mixture of experts; see moe_lens.h. Pure, one thread.
 *
 * Each range takes over what those around it tell: they have smaller indexes, so that one pass over
 * all of them is enough.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "moescope.h"
#include "subjects/moe/moe_lens_inside.h"

static const struct moe_place nowhere = {
	.part = MOE_PARTS, .pass = MOE_PASSES, .layer = MOE_NO_LAYER, .named = MOE_NO_NAMED
};

static uint8_t pass_of_phase(uint8_t phase)
{
	switch (phase) {
	case MOESCOPE_FORWARD:
	case MOESCOPE_PREFILL:
	case MOESCOPE_DECODE:
		return MOE_FORWARD;
	case MOESCOPE_BACKWARD:
		return MOE_BACKWARD;
	default:
		return MOE_PASSES;
	}
}

/* How often a name has been met within a step, or without steps in all. */
struct met {
	size_t step;
	uint32_t thread, n;
	uint16_t shard;
};

struct filling {
	struct moe_places *places;
	struct moe_names *names;
	struct met *met; /* by string id */
	size_t met_capacity;
	size_t step_hint;
};

static int count_name(struct filling *f, const struct nested *item, uint32_t name,
		      uint32_t *ret_order)
{
	const struct attribution *at = f->places->at;
	size_t old = f->met_capacity;
	size_t step = step_index_find_near(&at->steps, at->run, item->shard, item->start_ns,
					   &f->step_hint);
	struct met *met;

	if (name >= old) {
		if (array_grow(&f->met, &f->met_capacity, (size_t)name + 1, sizeof(*met)) < 0)
			return -ENOMEM;
		for (size_t i = old; i < f->met_capacity; i++)
			f->met[i] = (struct met){ 0 };
	}
	met = &f->met[name];
	if (!met->n || met->step != step || met->thread != item->thread ||
	    met->shard != item->shard)
		*met = (struct met){ step, item->thread, 0, item->shard };
	*ret_order = ++met->n;
	return 0;
}

static int fill_range(struct filling *f, size_t i)
{
	const struct attribution *at = f->places->at;
	const struct nested *item = &at->ranges[i];
	struct site site = run_site(at->run, item->is_op ? at->run->op.site[item->row]
							 : at->run->range.site[item->row]);
	size_t outer = attribution_outer(at, i);
	struct moe_place *place = &f->places->of[i];
	struct moe_word word;
	int r = moe_names_word(f->names, site.name, &word);

	if (r < 0)
		return r;
	*place = outer == NO_RANGE ? nowhere : f->places->of[outer];
	if (word.pass == MOE_PASSES)
		word.pass = pass_of_phase(site.phase);
	if (word.pass != MOE_PASSES)
		place->pass = word.pass;
	if (site.layer >= 0 || word.layer != MOE_NO_LAYER)
		place->layer = site.layer >= 0 ? site.layer : word.layer;
	place->all_to_all |= word.all_to_all;
	f->places->certain |= word.certain;
	f->places->backward |= word.pass == MOE_BACKWARD || word.pass == MOE_WEIGHT;
	if (word.part == MOE_PARTS)
		return 0;
	place->part = word.part;
	place->certain = word.certain;
	place->named = (uint32_t)i;
	return count_name(f, item, site.name, &place->order);
}

/* Of each process the thread with most ranges, not operations, that name a part. Those of a thread
 * are neighbours. */
static int find_lenders(struct moe_places *places)
{
	const struct attribution *at = places->at;
	size_t *most = calloc(at->run->n_shards + 1, sizeof(*most));
	size_t n = 0;

	places->lenders = calloc(at->run->n_shards + 1, sizeof(*places->lenders));
	for (size_t i = 0; most && places->lenders && i < at->n_ranges; i++) {
		const struct nested *item = &at->ranges[i];

		if (i && (item->shard != item[-1].shard || item->thread != item[-1].thread))
			n = 0;
		n += !item->is_op && places->of[i].named == i;
		if (item->shard < at->run->n_shards && n > most[item->shard]) {
			most[item->shard] = n;
			places->lenders[item->shard] = item->thread;
		}
	}
	free(most);
	return most && places->lenders ? 0 : -ENOMEM;
}

/* What the modules of the thread tell: the part, if the one that names it began after the range that
 * does; the layer, if no range has one. */
static void ask_modules(struct moe_places *places, const struct moe_moment *at,
			struct moe_place *place)
{
	const struct moe_module *m = places->modules.n
					     ? moe_modules_find(&places->modules, at->shard,
								at->thread, at->time_ns)
					     : NULL;

	if (!m)
		return;
	place->module = true;
	if (place->layer == MOE_NO_LAYER)
		place->layer = m->layer;
	if (m->part == MOE_PARTS || (place->named != MOE_NO_NAMED &&
				     places->at->ranges[place->named].start_ns >= m->part_start_ns))
		return;
	place->part = m->part;
	place->certain = m->certain;
}

struct arrow {
	struct moe_moment from, to;
};

static int by_end(const void *a, const void *b)
{
	const struct moe_moment *x = &((const struct arrow *)a)->to;
	const struct moe_moment *y = &((const struct arrow *)b)->to;

	return CMP(x->shard, y->shard) ?: CMP(x->thread, y->thread) ?: CMP(x->time_ns, y->time_ns);
}

/* The arrows from forward operations to their backward ones, by where they end. */
static int collect_arrows(const struct run *run, struct arrow **ret_arrows, size_t *ret_n)
{
	const struct table_flow *f = &run->flow;
	struct arrow *arrows = array_new(f->n + 1, sizeof(*arrows));

	if (!arrows)
		return -ENOMEM;
	for (size_t i = 0; i < f->n; i++)
		arrows[i] = (struct arrow){
			{ f->start_ns[i], f->thread[i], f->shard[i] },
			{ f->start_ns[i] + f->duration_ns[i], f->end_thread[i], f->shard[i] },
		};
	qsort(arrows, f->n, sizeof(*arrows), by_end);
	*ret_arrows = arrows;
	*ret_n = f->n;
	return 0;
}

/* What the place does not tell itself. */
static void take_over(struct moe_place *place, const struct moe_place *from)
{
	if (place->layer == MOE_NO_LAYER)
		place->layer = from->layer;
	if (place->part != MOE_PARTS)
		return;
	place->part = from->part;
	place->certain = from->certain;
}

static void follow_arrow(struct moe_places *places, const struct arrow *arrow,
			 struct moe_place *place)
{
	const struct attribution *at = places->at;
	size_t hint = at->n_ranges;
	size_t range = attribution_innermost(at, arrow->from.shard, arrow->from.thread,
					     arrow->from.time_ns, &hint);
	struct moe_place from = range == NO_RANGE ? nowhere : places->of[range];

	ask_modules(places, &arrow->from, &from);
	if (from.pass != MOE_BACKWARD)
		take_over(place, &from);
}

/* Backward operations belong where their forward ones do. */
static int fill_backward(struct moe_places *places)
{
	const struct attribution *at = places->at;
	struct arrow *arrows;
	size_t n;
	int r = at->run->flow.n ? collect_arrows(at->run, &arrows, &n) : 0;

	if (r < 0 || !at->run->flow.n)
		return r;
	for (size_t i = 0; i < at->n_ranges; i++) {
		const struct nested *item = &at->ranges[i];
		struct arrow key = { .to = { item->start_ns, item->thread, item->shard } };
		struct moe_place *place = &places->of[i];
		size_t outer = attribution_outer(at, i);
		const struct arrow *arrow;

		if (place->pass != MOE_BACKWARD)
			continue;
		arrow = item->is_op ? bsearch(&key, arrows, n, sizeof(*arrows), by_end) : NULL;
		if (arrow)
			follow_arrow(places, arrow, place);
		if (outer != NO_RANGE)
			take_over(place, &places->of[outer]);
	}
	free(arrows);
	return 0;
}

int moe_places_init(struct moe_places *places, const struct attribution *at,
		    struct moe_names *names)
{
	struct filling f = { .places = places, .names = names, .step_hint = at->steps.n };
	int r = 0;

	*places = (struct moe_places){ .at = at, .hint = at->n_ranges };
	if (at->n_ranges >= MOE_NO_NAMED)
		return -EFBIG;
	places->of = array_new(at->n_ranges + 1, sizeof(*places->of));
	if (!places->of)
		return -ENOMEM;
	for (size_t i = 0; r >= 0 && i < at->n_ranges; i++)
		r = fill_range(&f, i);
	free(f.met);
	if (r >= 0)
		r = moe_modules_init(&places->modules, at->run, names);
	for (size_t i = 0; r >= 0 && i < places->modules.n; i++)
		places->certain |= places->modules.of[i].certain;
	if (r >= 0 && places->certain)
		r = fill_backward(places);
	return r < 0 ? r : find_lenders(places);
}

void moe_places_release(struct moe_places *places)
{
	free(places->of);
	free(places->lenders);
	moe_modules_release(&places->modules);
	*places = (struct moe_places){ 0 };
}

static void borrow(struct moe_places *places, uint32_t call, struct moe_place *place)
{
	const struct attribution *at = places->at;
	const struct table_api *api = &at->run->api;
	uint16_t shard = api->shard[call];
	uint32_t lender = shard < at->run->n_shards ? places->lenders[shard] : 0;
	const struct moe_place *lent;
	size_t range;

	if (!lender || lender == api->thread[call])
		return;
	range = attribution_innermost(at, shard, lender, api->start_ns[call], &places->hint);
	if (range == NO_RANGE)
		return;
	lent = &places->of[range];
	if (lent->part == MOE_PARTS || lent->pass == MOE_FORWARD)
		return;
	place->part = lent->part;
	place->certain = lent->certain;
	place->named = lent->named;
	place->order = lent->order;
	if (place->layer == MOE_NO_LAYER)
		place->layer = lent->layer;
	if (lent->pass != MOE_PASSES)
		place->pass = lent->pass;
}

struct moe_place moe_places_find(struct moe_places *places, size_t range, uint32_t call)
{
	struct moe_place place = range == NO_RANGE ? nowhere : places->of[range];
	bool outside = range == NO_RANGE;

	if (call != NO_CALL32) {
		const struct table_api *api = &places->at->run->api;

		ask_modules(places,
			    &(struct moe_moment){ api->start_ns[call], api->thread[call],
						  api->shard[call] },
			    &place);
	}
	if (place.part == MOE_PARTS && call != NO_CALL32 && (outside || place.pass == MOE_BACKWARD))
		borrow(places, call, &place);
	return place;
}
