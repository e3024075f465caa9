/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about routing. It is judged by cv_excess, the part of the variation that uniform
 * routing would not show. See rules.h.
 */
#include <inttypes.h>
#include <math.h>

#include "subjects/routing/imbalance_tax.h"
#include "subjects/routing/routing.h"
#include "verdicts/rules.h"

#define ENOUGH_LOAD 10.0       /* mean assignments per expert below which routing is not judged */
#define COLLAPSED_ENTROPY 0.75 /* entropy_norm under which a router counts as collapsed */
#define EXCESS_WARNING 0.30
#define EXCESS_NOTE 0.10
#define TILE_WASTE 0.25

bool rule_self_check_failed(const struct run *run, const struct answers *a, struct verdict *v)
{
	(void)run;
	if (answer_routing(a)->self_check_ok || !answer_routing(a)->records)
		return false;
	v->severity = SEVERITY_CRITICAL;
	TITLE(v, "routing counts do not add up: do not trust the routing figures");
	rule_evidence(v, "records", EVIDENCE_COUNT, (double)answer_routing(a)->records);
	rule_evidence(v, "failed_counts", EVIDENCE_COUNT, (double)answer_routing(a)->failed_counts);
	rule_evidence(v, "failed_slots", EVIDENCE_COUNT, (double)answer_routing(a)->failed_slots);
	ADVICE(v, "Check what the program passes to moescope_route: indices, k and tokens.");
	return true;
}

bool rule_routing_invalid(const struct run *run, const struct answers *a, struct verdict *v)
{
	(void)run;
	if (!answer_routing(a)->invalid)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "%" PRIu64 " routing slots hold no valid expert", answer_routing(a)->invalid);
	rule_evidence(v, "invalid_slots", EVIDENCE_COUNT, (double)answer_routing(a)->invalid);
	ADVICE(v, "Indices must be an expert, or one of the MOESCOPE_SLOT_ markers.");
	return true;
}

static bool judged(const struct routing_layer *layer)
{
	return layer->load.known && layer->load.mean >= ENOUGH_LOAD && layer->experts > 1 &&
	       layer->cv_excess.known;
}

/* A layer has a row for each phase: the first of its rows, of those that `which` (NULL: any) holds
 * for. */
static bool first_row(const struct routing *routing, size_t row,
		      bool (*which)(const struct routing_layer *))
{
	for (size_t i = 0; i < row; i++)
		if (routing->layers[i].layer == routing->layers[row].layer &&
		    (!which || which(&routing->layers[i])))
			return false;
	return true;
}

static bool collapsed(const struct routing_layer *layer)
{
	return judged(layer) && layer->load.entropy_norm < COLLAPSED_ENTROPY;
}

static bool uneven(const struct routing_layer *layer)
{
	return judged(layer) && !collapsed(layer) && layer->cv_excess.v > EXCESS_NOTE;
}

static bool steady(const struct routing_layer *layer)
{
	return judged(layer) && !collapsed(layer);
}

/* What the imbalance of the layers that `which` holds for costs, as the gain of the verdict; only
 * where it was measured. A layer counts once, whatever phases it was routed in. */
static void tax_gain(const struct answers *a, bool (*which)(const struct routing_layer *),
		     struct verdict *v)
{
	double sum = 0;

	if (!answer_imbalance_tax(a)->tax_ns.known || !answer_imbalance_tax(a)->step_ns.known)
		return;
	for (size_t i = 0; i < answer_imbalance_tax(a)->n; i++)
		for (size_t l = 0; l < answer_routing(a)->n; l++)
			if (answer_routing(a)->layers[l].layer ==
				    answer_imbalance_tax(a)->layers[i].layer &&
			    which(&answer_routing(a)->layers[l])) {
				sum += answer_imbalance_tax(a)->layers[i].tax_ns.v;
				break;
			}
	rule_evidence(v, "tax_per_step_ns", EVIDENCE_NS, sum);
	rule_gain(v, 100 * sum / answer_imbalance_tax(a)->step_ns.v,
		  answer_imbalance_tax(a)->on_device
			  ? "the devices get equal shares of the experts' work"
			  : "the threads get equal shares of the experts' work");
}

bool rule_router_collapsed(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct routing_layer *worst = NULL;
	size_t n = 0;

	(void)run;
	for (size_t i = 0; i < answer_routing(a)->n; i++) {
		const struct routing_layer *layer = &answer_routing(a)->layers[i];

		if (!collapsed(layer))
			continue;
		n += first_row(answer_routing(a), i, collapsed);
		if (!worst || layer->load.entropy_norm < worst->load.entropy_norm)
			worst = layer;
	}
	if (!worst)
		return false;
	TITLE(v, "collapsed router: layer %d%s sends %.0f%% of its work to one of %u experts",
	      worst->layer, n > 1 ? " (the worst)" : "",
	      100 * (double)worst->load.max / (double)worst->load.total, worst->experts);
	rule_evidence(v, "layers", EVIDENCE_COUNT, (double)n);
	rule_evidence(v, "entropy_norm", EVIDENCE_NUMBER, worst->load.entropy_norm);
	rule_evidence(v, "imbalance", EVIDENCE_NUMBER, worst->load.imbalance);
	rule_evidence(v, "dead", EVIDENCE_COUNT, worst->load.dead);
	v->gain_pct = value_absent("it costs model quality, not time, on one device");
	tax_gain(a, collapsed, v);
	/* Whatever it costs in time: the model does not learn what it could. */
	v->severity = SEVERITY_CRITICAL;
	ADVICE(v, "Raise the load-balancing loss (or its bias update), lower the router's learning "
		  "rate, add router z-loss; check that router inputs are normalised.");
	return true;
}

/* Experts that no phase of the layer of this row used; 0 where there was too little to use them. */
static uint32_t dead_in_all_phases(const struct routing *routing, size_t row)
{
	const struct routing_layer *first = &routing->layers[row];
	uint64_t total = 0;
	uint32_t dead = 0;

	for (uint32_t e = 0; e < first->experts; e++) {
		uint64_t n = 0;

		for (size_t i = row; i < routing->n; i++)
			if (routing->layers[i].layer == first->layer &&
			    routing->layers[i].experts == first->experts)
				n += routing->layers[i].n[e];
		dead += n == 0;
		total += n;
	}
	return first->experts > 1 && (double)total >= ENOUGH_LOAD * first->experts ? dead : 0;
}

bool rule_dead_experts(const struct run *run, const struct answers *a, struct verdict *v)
{
	double bytes = 0;
	uint64_t dead = 0;
	size_t layers = 0;

	(void)run;
	for (size_t i = 0; i < answer_routing(a)->n; i++) {
		const struct routing_layer *layer = &answer_routing(a)->layers[i];
		uint32_t here;

		if (!first_row(answer_routing(a), i, NULL))
			continue;
		here = dead_in_all_phases(answer_routing(a), i);
		dead += here;
		layers += here > 0;
		if (here && layer->expert_bytes_touched.known && layer->load.unique)
			bytes += layer->expert_bytes_touched.v / layer->load.unique * here;
	}
	if (!dead)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v,
	      "%" PRIu64
	      " dead expert%s in %zu layer%s: no token in the whole window, in any phase",
	      dead, dead == 1 ? "" : "s", layers, layers == 1 ? "" : "s");
	rule_evidence(v, "dead", EVIDENCE_COUNT, (double)dead);
	rule_evidence(v, "layers", EVIDENCE_COUNT, (double)layers);
	if (bytes > 0)
		rule_evidence(v, "idle_weight_bytes", EVIDENCE_BYTES, bytes);
	v->gain_pct = value_absent("dead experts cost memory and quality, not step time");
	ADVICE(v, "Strengthen load balancing or re-initialise the dead experts; see 'moescope "
		  "routing --layer N' for which they are.");
	return true;
}

/* True when cv is within two standard deviations of what uniform routing shows. */
static bool within_chance(const struct routing_layer *layer)
{
	return layer->load.cv <= layer->cv_floor.v * (1 + 2 / sqrt(2.0 * (layer->experts - 1.0)));
}

static void say_balanced(const struct routing_layer *worst, size_t n, bool chance,
			 struct verdict *v)
{
	v->severity = SEVERITY_OK;
	if (chance)
		TITLE(v, "routing is balanced to within chance in all %zu layer%s", n,
		      n == 1 ? "" : "s");
	else
		TITLE(v, "routing is balanced: at most %.1f%% variation beyond chance",
		      100 * worst->cv_excess.v);
	ADVICE(v, "Nothing to do.");
}

bool rule_routing_imbalance(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct routing_layer *worst = NULL;
	size_t n = 0, over = 0;
	bool chance = true;

	(void)run;
	for (size_t i = 0; i < answer_routing(a)->n; i++) {
		const struct routing_layer *layer = &answer_routing(a)->layers[i];

		/* A collapsed one has its own verdict. */
		if (!steady(layer))
			continue;
		n += first_row(answer_routing(a), i, steady);
		if (uneven(layer))
			over += first_row(answer_routing(a), i, uneven);
		chance = chance && within_chance(layer);
		if (!worst || layer->cv_excess.v > worst->cv_excess.v)
			worst = layer;
	}
	if (!worst)
		return false;
	rule_evidence(v, "layer", EVIDENCE_COUNT, worst->layer);
	rule_evidence(v, "cv_excess", EVIDENCE_NUMBER, worst->cv_excess.v);
	rule_evidence(v, "cv", EVIDENCE_NUMBER, worst->load.cv);
	rule_evidence(v, "cv_floor", EVIDENCE_NUMBER, worst->cv_floor.v);
	rule_evidence(v, "imbalance", EVIDENCE_NUMBER, worst->load.imbalance);
	if (worst->cv_excess.v <= EXCESS_NOTE) {
		say_balanced(worst, n, chance, v);
		return true;
	}
	v->severity = worst->cv_excess.v > EXCESS_WARNING ? SEVERITY_WARNING : SEVERITY_NOTE;
	TITLE(v, "routing is uneven beyond chance in %zu of %zu layers (worst: layer %d)", over, n,
	      worst->layer);
	v->gain_pct = value_absent("the work of one device does not depend on its distribution");
	tax_gain(a, uneven, v);
	if (v->gain_pct.known)
		ADVICE(v,
		       "The busiest of the %zu %s that run experts sets the pace. Raise the "
		       "balancing loss, or place or replicate the hot experts; 'moescope routing' "
		       "shows each layer's cost.",
		       answer_imbalance_tax(a)->workers,
		       answer_imbalance_tax(a)->on_device ? "devices" : "threads");
	else
		ADVICE(v,
		       "With experts spread over devices the busiest one sets the pace (%.2f times "
		       "the mean here). Raise the balancing loss, or place or replicate the hot "
		       "experts.",
		       worst->load.imbalance);
	return true;
}

bool rule_capacity_drops(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct routing_layer *worst = NULL;
	double kept = 0, dropped = 0, share;

	(void)run;
	for (size_t i = 0; i < answer_routing(a)->n; i++) {
		const struct routing_layer *layer = &answer_routing(a)->layers[i];

		kept += (double)layer->assignments;
		dropped += (double)layer->dropped;
		if (layer->drop_rate_measured.known &&
		    (!worst || layer->drop_rate_measured.v > worst->drop_rate_measured.v))
			worst = layer;
	}
	if (dropped <= 0 || !worst)
		return false;
	share = 100 * dropped / (kept + dropped);
	v->severity = share > 1 ? SEVERITY_WARNING : SEVERITY_NOTE;
	TITLE(v, "full experts dropped %.2f%% of all assignments", share);
	rule_evidence(v, "dropped_assignments", EVIDENCE_COUNT, dropped);
	rule_evidence(v, "dropped_pct", EVIDENCE_PCT, share);
	rule_evidence(v, "worst_layer", EVIDENCE_COUNT, worst->layer);
	rule_evidence(v, "worst_layer_dropped_pct", EVIDENCE_PCT,
		      100 * worst->drop_rate_measured.v);
	v->gain_pct = value_absent("drops cost quality, not time");
	ADVICE(v, "Raise the capacity factor, or balance the router; 'moescope routing "
		  "--capacity-factor X' shows what another factor would drop and pad.");
	return true;
}

bool rule_tile_waste(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct routing_layer *worst = NULL;
	double waste_ns = 0;
	size_t n = 0;

	for (size_t i = 0; i < answer_routing(a)->n; i++) {
		const struct routing_layer *layer = &answer_routing(a)->layers[i];

		if (!layer->tile_waste.known || layer->tile_waste.v < TILE_WASTE)
			continue;
		n++;
		if (!worst || layer->tile_waste.v > worst->tile_waste.v)
			worst = layer;
	}
	/* Tiles are a matter of devices. */
	if (!worst || !run->kernel.n || !worst->n_steps)
		return false;
	for (size_t i = 0; i < answer_imbalance_tax(a)->n; i++)
		waste_ns += answer_imbalance_tax(a)->layers[i].tile_ns.known
				    ? answer_imbalance_tax(a)->layers[i].tile_ns.v
				    : 0;
	TITLE(v, "small batches fill only %.0f%% of the %u-row tiles of layer %d%s",
	      100 * (1 - worst->tile_waste.v), worst->tile_rows, worst->layer,
	      n > 1 ? " (the worst)" : "");
	rule_evidence(v, "layers", EVIDENCE_COUNT, (double)n);
	rule_evidence(v, "tile_waste", EVIDENCE_NUMBER, worst->tile_waste.v);
	rule_evidence(v, "tokens_per_expert_step", EVIDENCE_NUMBER,
		      (double)worst->assignments / (double)worst->n_steps / worst->experts);
	if (answer_imbalance_tax(a)->step_ns.known && waste_ns > 0)
		rule_gain(
			v, 100 * waste_ns / answer_imbalance_tax(a)->step_ns.v,
			"the experts' kernels run full tiles of that height, and time follows rows");
	else
		v->gain_pct = value_absent("expert times were not recorded");
	/* The tile height is a guess. */
	v->severity = SEVERITY_NOTE;
	ADVICE(v,
	       "Batch more tokens together (larger decode batches, merged micro-batches), or use "
	       "grouped GEMMs with lower tiles; 'moescope routing --tile-rows N' shows others.");
	return true;
}
