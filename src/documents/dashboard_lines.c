/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that one screen of a run is made of; see dashboard_lines.h.
 */
#include "documents/dashboard_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "subjects/counters/counters.h"
#include "subjects/overhead/overhead.h"
#include "subjects/pages/pages.h"
#include "subjects/steps/steps.h"

#define BESIDE_HEAT 48 /* columns of a layer's line that are not its heat */

static bool last_step(const struct run *run, int64_t *ret_step)
{
	bool any = run->gone.has_step;

	*ret_step = run->gone.last_step;
	for (size_t i = 0; i < run->step.n; i++)
		if (!any || run->step.step[i] > *ret_step) {
			*ret_step = run->step.step[i];
			any = true;
		}
	return any;
}

void dashboard_recent(const struct run *run, int64_t steps, struct selection *sel)
{
	int64_t last = 0;

	if (!selection_is_window(sel) && run && last_step(run, &last))
		sel->step_first = last - steps + 1;
}

void dashboard_head(const struct run *run, const char *status, struct page *page)
{
	char right[128];
	int64_t step = 0;
	int n = 0;

	if (last_step(run, &step))
		n = snprintf(right, sizeof(right), "step %" PRId64 "   ", step);
	snprintf(right + n, sizeof(right) - (size_t)n, "elapsed %s   %s",
		 format_ns((double)(run->end_ns - run->start_ns)).text, status);
	page_line(page, 1, "%s", "");
	page_put_in(page, TONE_STRONG, "moescope");
	page_put_in(page, TONE_PLAIN, "  ");
	page_put_filling(page, run->info.name, 13 + (int)strlen(right), true);
	page_put(page, " ");
	page_put_fitted(page, right, strlen(right));
	page_line(page, 1, "%s", "");
	page_put_filling(page, run->info.command, 2, false);
	page_empty_line(page);
}

bool dashboard_window(const struct run *run, const char *before, struct format *ret_text)
{
	struct format time = format_ns((double)(run->end_ns - run->gone.since_ns));

	ret_text->text[0] = '\0';
	if (run->gone.any)
		snprintf(ret_text->text, sizeof(ret_text->text), "%sthe last %.16s", before,
			 time.text);
	return run->gone.any;
}

void dashboard_label(const char *text, struct page *page)
{
	page_line(page, 1, "%s", "");
	page_put_in(page, TONE_STRONG, "%-10s", text);
}

void dashboard_absent(const char *reason, struct page *page)
{
	page_put_in(page, TONE_FAINT, "n/a (%s)", reason);
}

void dashboard_parts(const char *label, struct page *page)
{
	page_parts(page, 1);
	page_put_in(page, TONE_STRONG, "%-10s", label);
}

/* A figure above the limit has the word; the last of a figure has every other. */
enum judged { FRAGMENTATION_PCT, CV_EXCESS };
static const struct {
	enum judged figure;
	double above;
	const char *word;
} words[] = {
	{ FRAGMENTATION_PCT, 50, "high" }, { FRAGMENTATION_PCT, 20, "medium" },
	{ FRAGMENTATION_PCT, 0, "low" },   { CV_EXCESS, 0.3, "poor" },
	{ CV_EXCESS, 0.1, "fair" },	   { CV_EXCESS, 0, "good" },
};

static const char *word_of(enum judged figure, double value)
{
	const char *word = "";

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].figure != figure)
			continue;
		word = words[i].word;
		if (value > words[i].above)
			break;
	}
	return word;
}

/* "12%" or "n/a"; the first reason is kept for the end of the line. */
static struct format known(struct value value, struct format text, const char **reason)
{
	if (value.known)
		return text;
	if (!*reason)
		*reason = value.reason;
	return (struct format){ "n/a" };
}

static void composition(const struct memory_device *d, struct page *page)
{
	dashboard_parts("", page);
	for (size_t j = 0, n = 0; j < MEMORY_USES; j++) {
		unsigned int u = d->order_at_peak[j];

		if (d->use_at_peak[u])
			page_part(page, "%s%s %s", n++ ? ", " : "at the peak ", memory_use_name(u),
				  format_bytes((double)d->use_at_peak[u]).text);
	}
}

void dashboard_memory(const struct overview *o, struct page *page)
{
	const struct memory_device *d = o->memory;
	const char *reason = NULL;

	if (!o->peak_bytes.known) {
		dashboard_label("Memory", page);
		dashboard_absent(o->peak_bytes.reason, page);
		return;
	}
	dashboard_parts(d && d->device < 0 && !o->peak_by_driver ? "Memory" : "GPU mem", page);
	page_part(page, "peak %s / %s", format_bytes(o->peak_bytes.v).text,
		  known(o->total_bytes, format_bytes(o->total_bytes.v), &reason).text);
	if (o->total_bytes.known && o->total_bytes.v > 0)
		page_part(page, " (%s)", format_pct(100 * o->peak_bytes.v / o->total_bytes.v).text);
	if (o->peak_by_driver)
		page_part(page, ", by the driver");
	else
		page_part(page, ", live %s", format_bytes((double)d->live_bytes).text);
	page_part(page, ", fragmentation ");
	if (d && d->fragmentation_pct.known)
		page_part(page, "%s (%s)", format_pct(d->fragmentation_pct.v).text,
			  word_of(FRAGMENTATION_PCT, d->fragmentation_pct.v));
	else
		page_part(page, "n/a");
	page_parts_end(page, NULL,
		       !d			     ? "the program reports no allocations"
		       : !d->fragmentation_pct.known ? d->fragmentation_pct.reason
						     : NULL);
	if (d && !o->peak_by_driver)
		composition(d, page);
}

void dashboard_device(const struct run *run, const struct overview *o, struct page *page)
{
	const char *reason = NULL;

	if (!scene_has_device(run)) {
		dashboard_label("GPU", page);
		dashboard_absent("no device records in this run", page);
		return;
	}
	dashboard_parts("Kernels", page);
	page_part(page, "busy %s", known(o->busy_pct, format_pct(o->busy_pct.v), &reason).text);
	page_part(page, "; on average attention %s",
		  known(o->attention_ns, format_ns(o->attention_ns.v), &reason).text);
	page_part(page, ", %s %s", o->expert_by_class ? "grouped GEMM" : "experts",
		  known(o->expert_ns, format_ns(o->expert_ns.v), &reason).text);
	page_parts_end(page, NULL, reason);
	reason = NULL;
	dashboard_parts("Bandwidth", page);
	page_part(page, "memory %s", known(o->dram_pct, format_pct(o->dram_pct.v), &reason).text);
	page_part(page, ", PCIe %s", known(o->pcie_pct, format_pct(o->pcie_pct.v), &reason).text);
	page_parts_end(page, NULL, reason);
}

static struct format expert_share(const struct overview *o, uint32_t e)
{
	struct format text;

	snprintf(text.text, sizeof(text.text), "%.1f%%",
		 100 * (double)o->n[e] / (double)o->load.total);
	return text;
}

static struct format expert_weights(const struct overview *o, uint32_t e)
{
	struct format none = { "n/a" };

	return o->expert_bytes[e].known ? format_bytes(o->expert_bytes[e].v) : none;
}

/* As many experts as fit, with dots for the others. */
static void put_experts(const struct overview *o,
			struct format (*text)(const struct overview *o, uint32_t e),
			struct page *page)
{
	for (uint32_t e = 0; e < o->experts; e++)
		page_part(page, "%s%s", e ? ", " : "", text(o, e).text);
}

static bool weights_alike(const struct overview *o)
{
	for (uint32_t e = 0; e < o->experts; e++)
		if (o->expert_bytes[e].known != o->expert_bytes[0].known ||
		    o->expert_bytes[e].v != o->expert_bytes[0].v)
			return false;
	return true;
}

/* Experts by their number, over all layers. */
void dashboard_experts(const struct overview *o, struct page *page)
{
	static const char more[] = " ...";
	bool alike;

	if (!o->load.known)
		return;
	dashboard_parts("Use", page);
	put_experts(o, expert_share, page);
	page_parts_end(page, more, NULL);
	alike = weights_alike(o);
	dashboard_parts("Weights", page);
	if (!alike)
		put_experts(o, expert_weights, page);
	else
		page_part(page, "%s%s", expert_weights(o, 0).text,
			  o->expert_bytes[0].known ? " each" : "");
	page_parts_end(page, alike ? NULL : more, o->expert_bytes[0].reason);
	dashboard_parts("Balance", page);
	if (o->cv_excess.known)
		page_part(page, "%s (cv beyond chance %s); ", word_of(CV_EXCESS, o->cv_excess.v),
			  format_ratio(o->cv_excess.v).text);
	page_part(page, "legacy: score %s, efficiency %s", format_ratio(o->load.cv).text,
		  format_pct(routing_legacy_efficiency(o->load.cv)).text);
}

static size_t loss_heights(const struct series *series, size_t columns, unsigned int top,
			   unsigned char *ret_heights)
{
	struct counter_series s;
	double span;

	counter_series_read(series->run, series->of,
			    columns < COUNTER_POINTS_MAX ? columns : COUNTER_POINTS_MAX, &s);
	span = s.max - s.min;
	for (size_t i = 0; i < s.n_points; i++)
		ret_heights[i] = (unsigned char)(span > 0 ? (s.points[i] - s.min) / span * top + 0.5
							  : 0);
	return s.n_points;
}

void dashboard_loss(const struct run *run, struct page *page)
{
	struct counter_series s;

	dashboard_label("Loss", page);
	counter_series_read(run, "loss", 1, &s);
	if (!s.n) {
		dashboard_absent("the program has no counter named loss", page);
		return;
	}
	page_put(page, "%-9.4g from %-8.4g lowest %-8.4g ", s.last, s.first, s.min);
	page_series(page, (struct series){ run, "loss", loss_heights }, 52);
}

void dashboard_speed(const struct scene *scene, struct page *page)
{
	const struct steps *s = answer_steps(scene->answers);
	struct stack phases;

	dashboard_label("Speed", page);
	if (!s->all.n) {
		dashboard_absent(scene->run->gone.has_step
					 ? "no whole step among the records that are kept"
					 : "no step has ended",
				 page);
	} else {
		if (s->tokens_per_s.known)
			page_put(page, "%s tokens/s, ", format_count(s->tokens_per_s.v).text);
		page_put(page, "step %s, p95 %s, variation %s (last %zu)",
			 format_ns(s->all.p50).text, format_ns(s->all.p95).text,
			 format_pct(100 * s->all.cv).text, s->all.n);
	}
	dashboard_label("Phases", page);
	if (!s->n_phased) {
		dashboard_absent("no range names a phase", page);
		return;
	}
	phases = steps_phases(scene, page);
	page_stack(page, phases, 13);
	page_legend(page, 5, phases);
}

static void ratio(struct value value, int width, struct page *page)
{
	page_put(page, "%*s", width, value.known ? format_ratio(value.v).text : "n/a");
}

static void layer_line(const struct routing_layer *layer, struct page *page)
{
	struct value imbalance = layer->load.known ? value_of(layer->load.imbalance)
						   : value_absent("");
	char place[32];

	snprintf(place, sizeof(place), "%d %s", layer->layer, phase_name(layer->phase));
	page_line(page, 1, "%-9.9s ", place);
	page_heat(page, (struct heat){ layer->n, layer->experts, layer->load.mean }, BESIDE_HEAT,
		  true);
	ratio(imbalance, 9, page);
	ratio(layer->imbalance_floor, 8, page);
	ratio(layer->cv_excess, 8, page);
	page_put(page, "%5u%6s", layer->load.dead,
		 layer->drop_rate_measured.known
			 ? format_pct(100 * layer->drop_rate_measured.v).text
			 : "n/a");
}

void dashboard_layers(const struct routing *routing, size_t limit, struct page *page)
{
	char window[64];
	size_t most = 0;

	dashboard_label("Experts", page);
	if (!routing->n) {
		dashboard_absent("the program reports no routing", page);
		return;
	}
	for (size_t i = 0; i < routing->n; i++)
		most = routing->layers[i].n_steps > most ? routing->layers[i].n_steps : most;
	snprintf(window, sizeof(window), "load, last %zu steps", most);
	page_put_filling(page, window, BESIDE_HEAT, true);
	page_put(page, " max/mean  chance  excess dead  drop");
	for (size_t i = 0; i < routing->n && i < limit; i++)
		layer_line(&routing->layers[i], page);
	page_rest(page, 1, routing->n, limit, " layers");
}

void dashboard_cost(const struct scene *scene, const struct routing *routing, struct page *page)
{
	const struct overhead *o = answer_overhead(scene->answers);
	uint64_t lost = loss_total(&scene->run->loss);
	struct format window;

	dashboard_label("Overhead", page);
	if (o->measured_pct.known)
		page_put(page, "%s of the step (95%%: %s to %s)",
			 format_pct(o->measured_pct.v).text, format_pct(o->low_pct.v).text,
			 format_pct(o->high_pct.v).text);
	else
		page_put(page, "on against off n/a");
	if (o->own_cpu_pct.known)
		page_put(page, ", own thread %s of a core", format_pct(o->own_cpu_pct.v).text);
	if (dashboard_window(scene->run, ", ", &window))
		page_put(page, "%s", window.text);
	dashboard_label("Losses", page);
	if (lost) {
		page_put_in(page, TONE_WARNING, "%" PRIu64, lost);
		page_put(page, " (see the report)");
	} else {
		page_put(page, "none");
	}
	if (routing && routing->records && !routing->self_check_ok) {
		dashboard_label("Check", page);
		page_put_filling(page, routing->self_check, 12, true);
	}
}
