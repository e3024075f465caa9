/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules that turn findings into verdicts: one table, one function a rule. A rule returns
 * false when it has nothing to say; what is not known makes no verdict. Pure, any thread.
 *
 * Thresholds come from what users of step profilers go by (data loading under 10% of the step,
 * variation under 10%, optimizer under 15%) and from chance: routing is judged by cv_excess, the
 * part of the variation that uniform routing would not show.
 */
#include "analyze/verdicts.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moescope.h"

#define ENOUGH_LOAD 10.0       /* mean assignments per expert below which routing is not judged */
#define COLLAPSED_ENTROPY 0.75 /* entropy_norm under which a router counts as collapsed */
#define EXCESS_WARNING 0.30
#define EXCESS_NOTE 0.10
#define DATA_PCT 10.0
#define VARIATION 0.10
#define OPTIMIZER_PCT 15.0
#define COST_PCT 1.0
#define WARMUP_RATIO 1.5
#define STEPS_MIN 8 /* fewer steps say nothing about variation */

static void say(char *out, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(char *out, size_t size, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(out, size, format, args);
	va_end(args);
}

#define TITLE(v, ...) say((v)->title, sizeof((v)->title), __VA_ARGS__)
#define ADVICE(v, ...) say((v)->advice, sizeof((v)->advice), __VA_ARGS__)

static void evidence(struct verdict *v, const char *key, enum evidence_unit unit, double value)
{
	if (v->n_evidence < VERDICT_EVIDENCE)
		v->evidence[v->n_evidence++] = (struct evidence){ key, value, unit };
}

static bool program_failed(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct run_info *info = &run->info;

	(void)f;
	v->severity = SEVERITY_CRITICAL;
	if (!strcmp(info->status, "exited") && info->exit_status) {
		TITLE(v, "the program failed: exit status %d", info->exit_status);
		evidence(v, "exit_status", EVIDENCE_COUNT, info->exit_status);
	} else if (!strcmp(info->status, "killed")) {
		TITLE(v, "the program was killed by signal %d (%s)", info->signal,
		      strsignal(info->signal));
		evidence(v, "signal", EVIDENCE_COUNT, info->signal);
	} else if (!strcmp(info->status, "unknown")) {
		v->severity = SEVERITY_WARNING;
		TITLE(v, "how the program ended is not known");
	} else {
		return false;
	}
	ADVICE(v, "Figures cover what ran before the end; read the program's own output first.");
	return true;
}

static bool records_lost(const struct run *run, const struct findings *f, struct verdict *v)
{
	uint64_t lost = loss_total(&run->loss);

	(void)f;
	if (!lost)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "%" PRIu64 " losses while recording: sums below are too small", lost);
	evidence(v, "lost", EVIDENCE_COUNT, (double)lost);
	if (run->loss.dropped_ring_full) {
		evidence(v, "dropped_ring_full", EVIDENCE_COUNT,
			 (double)run->loss.dropped_ring_full);
		ADVICE(v, "Give the threads larger buffers (run --ring-kb 4096), or record less "
			  "(run --level steps, or a schedule).");
	} else {
		ADVICE(v, "The counters at the top say what was lost and where.");
	}
	return true;
}

static bool self_check_failed(const struct run *run, const struct findings *f, struct verdict *v)
{
	(void)run;
	if (f->routing.self_check_ok || !f->routing.records)
		return false;
	v->severity = SEVERITY_CRITICAL;
	TITLE(v, "routing counts do not add up: do not trust the routing figures");
	evidence(v, "records", EVIDENCE_COUNT, (double)f->routing.records);
	evidence(v, "failed_counts", EVIDENCE_COUNT, (double)f->routing.failed_counts);
	evidence(v, "failed_slots", EVIDENCE_COUNT, (double)f->routing.failed_slots);
	ADVICE(v, "Check what the program passes to moescope_route: indices, k and tokens.");
	return true;
}

static bool routing_invalid(const struct run *run, const struct findings *f, struct verdict *v)
{
	(void)run;
	if (!f->routing.invalid)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "%" PRIu64 " routing slots hold no valid expert", f->routing.invalid);
	evidence(v, "invalid_slots", EVIDENCE_COUNT, (double)f->routing.invalid);
	ADVICE(v, "Indices must be an expert, or one of the MOESCOPE_SLOT_ markers.");
	return true;
}

static bool judged(const struct routing_layer *layer)
{
	return layer->load.known && layer->load.mean >= ENOUGH_LOAD && layer->experts > 1 &&
	       layer->cv_excess.known;
}

static bool router_collapsed(const struct run *run, const struct findings *f, struct verdict *v)
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
	evidence(v, "layers", EVIDENCE_COUNT, (double)n);
	evidence(v, "entropy_norm", EVIDENCE_NUMBER, worst->load.entropy_norm);
	evidence(v, "imbalance", EVIDENCE_NUMBER, worst->load.imbalance);
	evidence(v, "dead", EVIDENCE_COUNT, worst->load.dead);
	v->gain_pct = value_absent("it costs model quality, not time, on one device");
	ADVICE(v, "Raise the load-balancing loss (or its bias update), lower the router's learning "
		  "rate, add router z-loss; check that router inputs are normalised.");
	return true;
}

static bool dead_experts(const struct run *run, const struct findings *f, struct verdict *v)
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
	evidence(v, "dead", EVIDENCE_COUNT, (double)dead);
	evidence(v, "layers", EVIDENCE_COUNT, (double)layers);
	if (bytes > 0)
		evidence(v, "idle_weight_bytes", EVIDENCE_BYTES, bytes);
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

static bool routing_imbalance(const struct run *run, const struct findings *f, struct verdict *v)
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
	evidence(v, "layer", EVIDENCE_COUNT, worst->layer);
	evidence(v, "cv_excess", EVIDENCE_NUMBER, worst->cv_excess.v);
	evidence(v, "cv", EVIDENCE_NUMBER, worst->load.cv);
	evidence(v, "cv_floor", EVIDENCE_NUMBER, worst->cv_floor.v);
	evidence(v, "imbalance", EVIDENCE_NUMBER, worst->load.imbalance);
	evidence(v, "imbalance_floor", EVIDENCE_NUMBER, worst->imbalance_floor.v);
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

static bool capacity_drops(const struct run *run, const struct findings *f, struct verdict *v)
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
	evidence(v, "dropped_assignments", EVIDENCE_COUNT, dropped);
	evidence(v, "dropped_pct", EVIDENCE_PCT, share);
	evidence(v, "worst_layer", EVIDENCE_COUNT, worst->layer);
	evidence(v, "worst_layer_dropped_pct", EVIDENCE_PCT, 100 * worst->drop_rate_measured.v);
	v->gain_pct = value_absent("drops cost quality, not time");
	ADVICE(v, "Raise the capacity factor, or balance the router; 'moescope routing "
		  "--capacity-factor X' shows what another factor would drop and pad.");
	return true;
}

static bool data_loading(const struct run *run, const struct findings *f, struct verdict *v)
{
	struct value share = f->steps.phase_pct[MOESCOPE_DATA];

	(void)run;
	if (!share.known || share.v <= 0)
		return false;
	evidence(v, "data_pct", EVIDENCE_PCT, share.v);
	evidence(v, "data_ns_per_step", EVIDENCE_NS,
		 (double)f->steps.phase_ns[MOESCOPE_DATA] / (double)f->steps.n_phased);
	if (share.v <= DATA_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "data loading takes %.1f%% of the step", share.v);
		ADVICE(v, "Nothing to do.");
		return true;
	}
	v->severity = SEVERITY_WARNING;
	TITLE(v, "data loading takes %.0f%% of the step", share.v);
	v->gain_pct = value_of(share.v);
	v->gain_assumption = "all of it can be hidden behind computation";
	ADVICE(v, "Load the next batch on another thread while this one computes.");
	return true;
}

static bool step_variation(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct stats_summary *s = &f->steps.all;

	(void)run;
	if (s->n < STEPS_MIN)
		return false;
	evidence(v, "cv_pct", EVIDENCE_PCT, 100 * s->cv);
	evidence(v, "p50_ns", EVIDENCE_NS, s->p50);
	evidence(v, "p95_ns", EVIDENCE_NS, s->p95);
	evidence(v, "max_ns", EVIDENCE_NS, s->max);
	evidence(v, "outliers", EVIDENCE_COUNT, (double)f->steps.n_outliers);
	if (s->cv <= VARIATION) {
		v->severity = SEVERITY_OK;
		TITLE(v, "step time is steady: variation %.1f%%", 100 * s->cv);
		ADVICE(v, "Nothing to do.");
		return true;
	}
	v->severity = SEVERITY_WARNING;
	TITLE(v, "step time varies by %.0f%%", 100 * s->cv);
	if (s->mean > s->p50) {
		v->gain_pct = value_of(100 * (s->mean - s->p50) / s->mean);
		v->gain_assumption = "every step could be as fast as the median one";
	} else {
		v->gain_pct = value_absent("the mean step is not above the median one");
	}
	ADVICE(v, "Look at the slow steps with 'moescope steps --sort time_ns': other programs on "
		  "the machine, input of different size, checkpoints, or a busy data loader.");
	return true;
}

static bool optimizer_share(const struct run *run, const struct findings *f, struct verdict *v)
{
	struct value share = f->steps.phase_pct[MOESCOPE_OPTIMIZER];

	(void)run;
	if (!share.known || share.v <= OPTIMIZER_PCT)
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "the optimizer takes %.0f%% of the step (usual: under 15%%)", share.v);
	evidence(v, "optimizer_pct", EVIDENCE_PCT, share.v);
	v->gain_pct = value_of(share.v - OPTIMIZER_PCT);
	v->gain_assumption = "it can be brought to 15% of the present step";
	ADVICE(v, "Its cost does not depend on the batch: a larger batch or a fused optimizer "
		  "makes its share smaller.");
	return true;
}

static bool slow_start(const struct run *run, const struct findings *f, struct verdict *v)
{
	(void)run;
	if (!f->steps.warmup_ratio.known || f->steps.warmup_ratio.v < WARMUP_RATIO)
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "the first %zu steps are %.1f times as long as the later ones", f->steps.n_warmup,
	      f->steps.warmup_ratio.v);
	evidence(v, "warmup_mean_ns", EVIDENCE_NS, f->steps.warmup_mean_ns.v);
	evidence(v, "p50_ns", EVIDENCE_NS, f->steps.all.p50);
	ADVICE(v, "They are part of every statistic here; give a step window to leave them out.");
	return true;
}

static bool profiler_cost(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct overhead *o = &f->overhead;

	(void)run;
	if (!o->measured_pct.known)
		return false;
	evidence(v, "measured_pct", EVIDENCE_PCT, o->measured_pct.v);
	evidence(v, "low_pct", EVIDENCE_PCT, o->low_pct.v);
	evidence(v, "high_pct", EVIDENCE_PCT, o->high_pct.v);
	evidence(v, "pairs", EVIDENCE_COUNT, (double)o->pairs);
	if (o->high_pct.v <= COST_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "profiling costs less than 1%% of the step time");
		ADVICE(v, "Nothing to do.");
	} else if (o->low_pct.v <= 0) {
		v->severity = SEVERITY_NOTE;
		TITLE(v,
		      "the cost of profiling is lost in the noise of the steps (95%%: %.1f to "
		      "%.1f%%)",
		      o->low_pct.v, o->high_pct.v);
		ADVICE(v, "More pairs (run --overhead-check N) or a quieter machine narrow it.");
	} else if (o->measured_pct.v <= COST_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "profiling costs about %.1f%% of the step time (95%%: %.1f to %.1f%%)",
		      o->measured_pct.v, o->low_pct.v, o->high_pct.v);
		ADVICE(v, "More pairs (run --overhead-check N) narrow the interval.");
	} else {
		v->severity = o->low_pct.v > COST_PCT ? SEVERITY_WARNING : SEVERITY_NOTE;
		TITLE(v, "profiling costs about %.1f%% of the step time (95%%: %.1f to %.1f%%)",
		      o->measured_pct.v, o->low_pct.v, o->high_pct.v);
		ADVICE(v, "Record less: run --level steps, a schedule, or --sample N.");
	}
	return true;
}

static bool memory_leak(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct memory_leak *worst = NULL;
	size_t n = 0;

	for (size_t i = 0; i < f->memory.n; i++) {
		const struct memory_device *d = &f->memory.devices[i];

		n += d->n_leaks;
		if (d->n_leaks && (!worst || d->leaks[0].bytes_per_step > worst->bytes_per_step))
			worst = &d->leaks[0];
	}
	if (!worst)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "memory allocated at '%.60s' grows with every step",
	      worst->site ? run_string(run, worst->site) : "(no name)");
	evidence(v, "bytes_per_step", EVIDENCE_BYTES, worst->bytes_per_step);
	evidence(v, "live_bytes", EVIDENCE_BYTES, (double)worst->last_bytes);
	evidence(v, "grew_steps", EVIDENCE_COUNT, worst->grew_steps);
	evidence(v, "suspect_sites", EVIDENCE_COUNT, (double)n);
	ADVICE(v, "Something keeps what it allocates in each step: history lists, graphs held by "
		  "a loss value, caches without a limit.");
	return true;
}

static const struct rule {
	const char *id;
	bool (*judge)(const struct run *run, const struct findings *f, struct verdict *v);
} rules[] = {
	{ "program-failed", program_failed },
	{ "self-check-failed", self_check_failed },
	{ "records-lost", records_lost },
	{ "routing-invalid", routing_invalid },
	{ "router-collapsed", router_collapsed },
	{ "dead-experts", dead_experts },
	{ "routing-imbalance", routing_imbalance },
	{ "capacity-drops", capacity_drops },
	{ "data-loading", data_loading },
	{ "step-variation", step_variation },
	{ "memory-leak", memory_leak },
	{ "profiler-cost", profiler_cost },
	{ "optimizer-share", optimizer_share },
	{ "slow-start", slow_start },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

const char *severity_name(enum severity severity)
{
	static const char *const names[] = { "critical", "warning", "note", "ok" };

	return names[severity];
}

/* Stable insertion: equal verdicts stay in the order of the table. */
static bool before(const struct verdict *a, const struct verdict *b)
{
	double gain_a = a->gain_pct.known ? a->gain_pct.v : -1;
	double gain_b = b->gain_pct.known ? b->gain_pct.v : -1;

	if (a->severity != b->severity)
		return a->severity < b->severity;
	return gain_a > gain_b;
}

int verdicts_analyze(const struct run *run, const struct findings *findings,
		     struct verdicts *ret_verdicts)
{
	struct verdict *items = calloc(N_RULES, sizeof(*items));
	size_t n = 0;

	if (!items)
		return -ENOMEM;
	for (size_t i = 0; i < N_RULES; i++) {
		struct verdict v = { .id = rules[i].id,
				     .gain_pct = value_absent("not a matter of time") };
		size_t at = n;

		if (!rules[i].judge(run, findings, &v))
			continue;
		while (at && before(&v, &items[at - 1])) {
			items[at] = items[at - 1];
			at--;
		}
		items[at] = v;
		n++;
	}
	*ret_verdicts = (struct verdicts){ items, n };
	return 0;
}

void verdicts_release(struct verdicts *verdicts)
{
	free(verdicts->items);
	*verdicts = (struct verdicts){ 0 };
}
