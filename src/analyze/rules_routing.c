/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about routing. It is judged by cv_excess, the part of the variation that uniform
 * routing would not show. See rules.h.
 */
#include <inttypes.h>
#include <math.h>

#include "analyze/rules.h"

#define ENOUGH_LOAD 10.0       /* mean assignments per expert below which routing is not judged */
#define COLLAPSED_ENTROPY 0.75 /* entropy_norm under which a router counts as collapsed */
#define EXCESS_WARNING 0.30
#define EXCESS_NOTE 0.10

bool rule_self_check_failed(const struct run *run, const struct findings *f, struct verdict *v)
{
	(void)run;
	if (f->routing.self_check_ok || !f->routing.records)
		return false;
	v->severity = SEVERITY_CRITICAL;
	TITLE(v, "routing counts do not add up: do not trust the routing figures");
	rule_evidence(v, "records", EVIDENCE_COUNT, (double)f->routing.records);
	rule_evidence(v, "failed_counts", EVIDENCE_COUNT, (double)f->routing.failed_counts);
	rule_evidence(v, "failed_slots", EVIDENCE_COUNT, (double)f->routing.failed_slots);
	ADVICE(v, "Check what the program passes to moescope_route: indices, k and tokens.");
	return true;
}

bool rule_routing_invalid(const struct run *run, const struct findings *f, struct verdict *v)
{
	(void)run;
	if (!f->routing.invalid)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "%" PRIu64 " routing slots hold no valid expert", f->routing.invalid);
	rule_evidence(v, "invalid_slots", EVIDENCE_COUNT, (double)f->routing.invalid);
	ADVICE(v, "Indices must be an expert, or one of the MOESCOPE_SLOT_ markers.");
	return true;
}

static bool judged(const struct routing_layer *layer)
{
	return layer->load.known && layer->load.mean >= ENOUGH_LOAD && layer->experts > 1 &&
	       layer->cv_excess.known;
}

bool rule_router_collapsed(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct routing_layer *worst = NULL;
	size_t n = 0;

	(void)run;
	for (size_t i = 0; i < f->routing.n; i++) {
		const struct routing_layer *layer = &f->routing.layers[i];

		if (!judged(layer) || layer->load.entropy_norm >= COLLAPSED_ENTROPY)
			continue;
		n++;
		if (!worst || layer->load.entropy_norm < worst->load.entropy_norm)
			worst = layer;
	}
	if (!worst)
		return false;
	v->severity = SEVERITY_CRITICAL;
	TITLE(v, "collapsed router: layer %d%s sends %.0f%% of its work to one of %u experts",
	      worst->layer, n > 1 ? " (the worst)" : "",
	      100 * (double)worst->load.max / (double)worst->load.total, worst->experts);
	rule_evidence(v, "layers", EVIDENCE_COUNT, (double)n);
	rule_evidence(v, "entropy_norm", EVIDENCE_NUMBER, worst->load.entropy_norm);
	rule_evidence(v, "imbalance", EVIDENCE_NUMBER, worst->load.imbalance);
	rule_evidence(v, "dead", EVIDENCE_COUNT, worst->load.dead);
	v->gain_pct = value_absent("it costs model quality, not time, on one device");
	ADVICE(v, "Raise the load-balancing loss (or its bias update), lower the router's learning "
		  "rate, add router z-loss; check that router inputs are normalised.");
	return true;
}

bool rule_dead_experts(const struct run *run, const struct findings *f, struct verdict *v)
{
	double bytes = 0;
	uint64_t dead = 0;
	size_t layers = 0;

	(void)run;
	for (size_t i = 0; i < f->routing.n; i++) {
		const struct routing_layer *layer = &f->routing.layers[i];

		if (!judged(layer) || !layer->load.dead)
			continue;
		dead += layer->load.dead;
		layers++;
		if (layer->expert_bytes_touched.known && layer->load.unique)
			bytes += layer->expert_bytes_touched.v / layer->load.unique *
				 layer->load.dead;
	}
	if (!dead)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "%" PRIu64 " dead expert%s in %zu layer%s: no token in the whole window", dead,
	      dead == 1 ? "" : "s", layers, layers == 1 ? "" : "s");
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

bool rule_routing_imbalance(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct routing_layer *worst = NULL;
	size_t n = 0, over = 0;
	bool chance = true;

	(void)run;
	for (size_t i = 0; i < f->routing.n; i++) {
		const struct routing_layer *layer = &f->routing.layers[i];

		if (!judged(layer))
			continue;
		n++;
		over += layer->cv_excess.v > EXCESS_NOTE;
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
	rule_evidence(v, "imbalance_floor", EVIDENCE_NUMBER, worst->imbalance_floor.v);
	if (worst->cv_excess.v <= EXCESS_NOTE) {
		say_balanced(worst, n, chance, v);
		return true;
	}
	v->severity = worst->cv_excess.v > EXCESS_WARNING ? SEVERITY_WARNING : SEVERITY_NOTE;
	TITLE(v, "routing is uneven beyond chance in %zu of %zu layers (worst: layer %d)", over, n,
	      worst->layer);
	v->gain_pct = value_absent("depends on where the experts run: one device does the same "
				   "work either way");
	ADVICE(v,
	       "With experts spread over devices the busiest one sets the pace (%.2f times the "
	       "mean here). Raise the balancing loss, or place or replicate the hot experts.",
	       worst->load.imbalance);
	return true;
}

bool rule_capacity_drops(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct routing_layer *worst = NULL;
	double kept = 0, dropped = 0, share;

	(void)run;
	for (size_t i = 0; i < f->routing.n; i++) {
		const struct routing_layer *layer = &f->routing.layers[i];

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
