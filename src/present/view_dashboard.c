/* SPDX-License-Identifier: Apache-2.0
 *
 * One screen (80 x 24) of a run that may be growing or empty: only what is known, n/a for the
 * rest. Repainted several times a second by live views, so steps and routing are the last ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "analyze/counters.h"
#include "analyze/overview.h"
#include "base/format.h"
#include "base/utf8.h"
#include "present/whole_views.h"

#define RECENT_STEPS 50
#define RECENT_ROUTING 20
#define LAYERS 4
#define LABEL "%-10s"
#define SHORTEST_REASON 20 /* columns; less of it says nothing */

static void label(const struct scene *scene, const char *text, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, " %s" LABEL "%s", text_style_on(TEXT_BOLD, color), text,
		text_style_off(TEXT_BOLD, color));
}

static void absent(const struct scene *scene, const char *reason, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, "%sn/a (%s)%s\n", text_style_on(TEXT_DIM, color), reason,
		text_style_off(TEXT_DIM, color));
}

static bool last_step(const struct run *run, int64_t *ret_step)
{
	for (size_t i = 0; i < run->step.n; i++)
		if (!i || run->step.step[i] > *ret_step)
			*ret_step = run->step.step[i];
	return run->step.n != 0;
}

static void head(const struct scene *scene, FILE *out)
{
	const struct run *run = scene->run;
	size_t width = (size_t)scene_layout(scene, 0).width, command;
	bool color = scene->options->color;
	char right[96];
	int64_t step = 0;
	int n = 0;

	if (last_step(run, &step))
		n = snprintf(right, sizeof(right), "step %" PRId64 "   ", step);
	snprintf(right + n, sizeof(right) - (size_t)n, "elapsed %s   %s",
		 format_ns((double)(run->end_ns - run->start_ns)).text, run->info.status);
	fprintf(out, " %smoescope%s  ", text_style_on(TEXT_BOLD, color),
		text_style_off(TEXT_BOLD, color));
	if (width > 12 + strlen(right))
		text_fit(out, run->info.name, width - 13 - strlen(right), false,
			 scene->options->utf8);
	fputc(' ', out);
	text_fit(out, right, strlen(right), false, scene->options->utf8);
	fputs("\n ", out);
	command = utf8_width(run->info.command);
	text_fit(out, run->info.command, command < width - 2 ? command : width - 2, false,
		 scene->options->utf8);
	fputs("\n\n", out);
}

static void loss(const struct scene *scene, FILE *out)
{
	static const char *const heights[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char letters[] = "_.,-=+*#";
	struct counter_series s;

	label(scene, "Loss", out);
	counter_series_read(scene->run, "loss", (size_t)scene_layout(scene, 0).width - 52, &s);
	if (!s.n) {
		absent(scene, "the program has no counter named loss", out);
		return;
	}
	fprintf(out, "%-9.4g from %-8.4g lowest %-8.4g ", s.last, s.first, s.min);
	for (size_t i = 0; i < s.n_points; i++) {
		double span = s.max - s.min;
		int level = span > 0 ? (int)((s.points[i] - s.min) / span * 7 + 0.5) : 0;

		if (scene->options->utf8)
			fputs(heights[level], out);
		else
			fputc(letters[level], out);
	}
	fputc('\n', out);
}

static void speed(const struct scene *scene, FILE *out)
{
	const struct steps *s = &scene->f->steps;

	label(scene, "Speed", out);
	if (!s->all.n) {
		absent(scene, "no step has ended", out);
	} else {
		if (s->tokens_per_s.known)
			fprintf(out, "%s tokens/s, ", format_count(s->tokens_per_s.v).text);
		fprintf(out, "step %s, p95 %s, variation %s (last %zu)\n",
			format_ns(s->all.p50).text, format_ns(s->all.p95).text,
			format_pct(100 * s->all.cv).text, s->all.n);
	}
	label(scene, "Phases", out);
	if (!s->n_phased) {
		absent(scene, "no range names a phase", out);
		return;
	}
	scene_phase_bar(scene, scene_layout(scene, 0).width - 13, out);
	scene_phase_legend(scene, 5, out);
}

/* A figure above the limit has the word; the last of a figure has every other. */
enum judged { FRAGMENTATION_PCT, CV_EXCESS };
static const struct {
	enum judged figure;
	double above;
	const char *word;
} words[] = {
	{ FRAGMENTATION_PCT, 50, "high" }, { FRAGMENTATION_PCT, 20, "medium" },
	{ FRAGMENTATION_PCT, -1, "low" },  { CV_EXCESS, 0.3, "poor" },
	{ CV_EXCESS, 0.1, "fair" },	   { CV_EXCESS, -1, "good" },
};

static const char *word_of(enum judged figure, double value)
{
	size_t i = 0;

	while (words[i].figure != figure || !(value > words[i].above))
		i++;
	return words[i].word;
}

/* A line in the making; what does not fit is left out from the first part that does not. */
struct line {
	char text[512];
	size_t width, at;
	bool full;
};

static void put(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct line *line, const char *format, ...)
{
	char part[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	if (line->full || line->at + (size_t)n > line->width || (size_t)n >= sizeof(part)) {
		line->full = true;
		return;
	}
	memcpy(line->text + line->at, part, (size_t)n + 1);
	line->at += (size_t)n;
}

static struct line line_begin(const struct scene *scene)
{
	size_t width = (size_t)scene_layout(scene, 0).width - 12;

	return (struct line){ .width = width < 511 ? width : 511 };
}

/* "12%" or "n/a"; the first reason is kept for the end of the line. */
static const char *known(struct value value, struct format text, struct format *out,
			 const char **reason)
{
	*out = text;
	if (!value.known) {
		snprintf(out->text, sizeof(out->text), "n/a");
		if (!*reason)
			*reason = value.reason;
	}
	return out->text;
}

static void end_line(const struct scene *scene, const char *title, struct line *line,
		     const char *reason, FILE *out)
{
	size_t room = line->width - line->at, length = reason ? strlen(reason) : 0;

	label(scene, title, out);
	fputs(line->text, out);
	/* Reasons are ours, and plain ASCII. */
	if (reason && length + 3 <= room)
		fprintf(out, " (%s)", reason);
	else if (reason && room >= SHORTEST_REASON)
		fprintf(out, " (%.*s...)", (int)room - 6, reason);
	fputc('\n', out);
}

static void composition(const struct memory_device *d, struct line *line)
{
	for (size_t j = 0, n = 0; j < MEMORY_USES; j++) {
		unsigned int u = d->order_at_peak[j];

		if (d->use_at_peak[u])
			put(line, "%s%s %s", n++ ? ", " : "at the peak ", memory_use_name(u),
			    format_bytes((double)d->use_at_peak[u]).text);
	}
}

static void memory(const struct scene *scene, const struct overview *o, FILE *out)
{
	const struct memory_device *d = o->memory;
	struct line line = line_begin(scene);
	struct format text;
	const char *reason = NULL;

	if (!o->peak_bytes.known) {
		label(scene, "Memory", out);
		absent(scene, o->peak_bytes.reason, out);
		return;
	}
	put(&line, "peak %s / %s", format_bytes(o->peak_bytes.v).text,
	    known(o->total_bytes, format_bytes(o->total_bytes.v), &text, &reason));
	if (o->total_bytes.known && o->total_bytes.v > 0)
		put(&line, " (%s)", format_pct(100 * o->peak_bytes.v / o->total_bytes.v).text);
	if (o->peak_by_driver)
		put(&line, ", by the driver");
	else
		put(&line, ", live %s", format_bytes((double)d->live_bytes).text);
	put(&line, ", fragmentation ");
	if (d && d->fragmentation_pct.known)
		put(&line, "%s (%s)", format_pct(d->fragmentation_pct.v).text,
		    word_of(FRAGMENTATION_PCT, d->fragmentation_pct.v));
	else
		put(&line, "n/a");
	end_line(scene, d && d->device < 0 && !o->peak_by_driver ? "Memory" : "GPU mem", &line,
		 !d			       ? "the program reports no allocations"
		 : !d->fragmentation_pct.known ? d->fragmentation_pct.reason
					       : NULL,
		 out);
	if (d && !o->peak_by_driver) {
		line = line_begin(scene);
		composition(d, &line);
		end_line(scene, "", &line, NULL, out);
	}
}

static void device(const struct scene *scene, const struct overview *o, FILE *out)
{
	struct line line = line_begin(scene);
	struct format text;
	const char *reason = NULL;

	if (!scene_has_device(scene->run)) {
		label(scene, "GPU", out);
		absent(scene, "no device records in this run", out);
		return;
	}
	put(&line, "busy %s", known(o->busy_pct, format_pct(o->busy_pct.v), &text, &reason));
	put(&line, "; on average attention %s",
	    known(o->attention_ns, format_ns(o->attention_ns.v), &text, &reason));
	put(&line, ", %s %s", o->expert_by_class ? "grouped GEMM" : "experts",
	    known(o->expert_ns, format_ns(o->expert_ns.v), &text, &reason));
	end_line(scene, "Kernels", &line, reason, out);
	line = line_begin(scene);
	reason = NULL;
	put(&line, "memory %s", known(o->dram_pct, format_pct(o->dram_pct.v), &text, &reason));
	put(&line, ", PCIe %s", known(o->pcie_pct, format_pct(o->pcie_pct.v), &text, &reason));
	end_line(scene, "Bandwidth", &line, reason, out);
}

/* Experts by their number, over all layers. */
static void expert_lines(const struct scene *scene, const struct overview *o, FILE *out)
{
	struct line line = line_begin(scene);
	bool alike = true;

	if (!o->load.known)
		return;
	for (uint32_t e = 0; e < o->experts && !line.full; e++)
		put(&line, "%s%.1f%%", e ? " " : "", 100 * (double)o->n[e] / (double)o->load.total);
	end_line(scene, "Use", &line, NULL, out);
	line = line_begin(scene);
	for (uint32_t e = 0; e < o->experts; e++)
		alike = alike && o->expert_bytes[e].known &&
			o->expert_bytes[e].v == o->expert_bytes[0].v;
	if (alike)
		put(&line, "%s each", format_bytes(o->expert_bytes[0].v).text);
	for (uint32_t e = 0; !alike && e < o->experts && !line.full; e++)
		put(&line, "%s%s", e ? ", " : "",
		    o->expert_bytes[e].known ? format_bytes(o->expert_bytes[e].v).text : "n/a");
	end_line(scene, "Weights", &line,
		 o->expert_bytes[0].known ? NULL : o->expert_bytes[0].reason, out);
	line = line_begin(scene);
	if (o->cv_excess.known)
		put(&line, "%s (cv beyond chance %s)", word_of(CV_EXCESS, o->cv_excess.v),
		    format_ratio(o->cv_excess.v).text);
	put(&line, "; legacy: score %s, efficiency %s", format_ratio(o->load.cv).text,
	    format_pct(routing_legacy_efficiency(o->load.cv)).text);
	end_line(scene, "Balance", &line, NULL, out);
}

static void ratio(const struct value *value, int width, FILE *out)
{
	fprintf(out, "%*s", width, value->known ? format_ratio(value->v).text : "n/a");
}

static void layer_line(const struct scene *scene, const struct routing_layer *layer, FILE *out)
{
	int strip = scene_layout(scene, 0).width - 12 - 36;
	struct value imbalance = layer->load.known ? value_of(layer->load.imbalance)
						   : value_absent("");
	char place[32];
	int used;

	snprintf(place, sizeof(place), "%d %s", layer->layer, phase_name(layer->phase));
	fprintf(out, " %-9.9s ", place);
	used = scene_heat_strip(scene, layer->n, layer->experts, layer->load.mean, strip, out);
	fprintf(out, "%*s", strip - used, "");
	ratio(&imbalance, 9, out);
	ratio(&layer->imbalance_floor, 8, out);
	ratio(&layer->cv_excess, 8, out);
	fprintf(out, "%5u", layer->load.dead);
	fprintf(out, "%6s\n",
		layer->drop_rate_measured.known ? format_pct(100 * layer->drop_rate_measured.v).text
						: "n/a");
}

static void experts(const struct scene *scene, FILE *out)
{
	const struct routing *routing = &scene->f->routing;
	int strip = scene_layout(scene, 0).width - 12 - 36;
	char window[64];
	size_t most = 0;

	fputc('\n', out);
	label(scene, "Experts", out);
	if (!routing->n) {
		absent(scene, "the program reports no routing", out);
		return;
	}
	for (size_t i = 0; i < routing->n; i++)
		most = routing->layers[i].n_steps > most ? routing->layers[i].n_steps : most;
	snprintf(window, sizeof(window), "load, last %zu steps", most);
	text_fit(out, window, (size_t)strip, false, scene->options->utf8);
	fputs(" max/mean  chance  excess dead  drop\n", out);
	for (size_t i = 0; i < routing->n && i < LAYERS; i++)
		layer_line(scene, &routing->layers[i], out);
	if (routing->n > LAYERS)
		fprintf(out, " ... %zu more layers\n", routing->n - LAYERS);
}

static void cost(const struct scene *scene, FILE *out)
{
	const struct overhead *o = &scene->f->overhead;
	uint64_t lost = loss_total(&scene->run->loss);
	bool color = scene->options->color;

	label(scene, "Overhead", out);
	if (o->measured_pct.known)
		fprintf(out, "%s of the step (95%%: %s to %s)", format_pct(o->measured_pct.v).text,
			format_pct(o->low_pct.v).text, format_pct(o->high_pct.v).text);
	else
		fputs("on against off n/a", out);
	if (o->own_cpu_pct.known)
		fprintf(out, ", own thread %s of a core", format_pct(o->own_cpu_pct.v).text);
	fputc('\n', out);
	label(scene, "Losses", out);
	if (lost)
		fprintf(out, "%s%" PRIu64 "%s (see the report)\n",
			text_style_on(TEXT_YELLOW, color), lost,
			text_style_off(TEXT_YELLOW, color));
	else
		fputs("none\n", out);
	if (scene->f->routing.records && !scene->f->routing.self_check_ok) {
		label(scene, "Check", out);
		text_fit(out, scene->f->routing.self_check,
			 (size_t)scene_layout(scene, 0).width - 12, false, scene->options->utf8);
		fputc('\n', out);
	}
}

/* Whether any range names an expert: looking up the place of every kernel is dear. */
static bool names_experts(const struct run *run)
{
	uint32_t last = 0;

	for (size_t i = 0; i < run->range.n; i++) {
		uint32_t site = run->range.site[i];

		if (site != last && run_site(run, site).expert >= 0)
			return true;
		last = site;
	}
	return false;
}

/* Times of kernels are those of the whole run. */
static int overview(const struct run *run, const struct findings *f, struct overview *ret)
{
	struct kernels by_class = { 0 }, by_expert = { 0 };
	struct kernels_options by = { .by = KERNELS_BY_CLASS };
	int r = kernels_analyze(run, &SELECT_ALL, &by, &by_class);

	by.by = KERNELS_BY_EXPERT;
	if (r >= 0 && names_experts(run))
		r = kernels_analyze(run, &SELECT_ALL, &by, &by_expert);
	if (r >= 0)
		r = overview_make(run, f, &by_class, &by_expert, ret);
	kernels_release(&by_class);
	kernels_release(&by_expert);
	return r;
}

/* Two windows, both ending at the last step: a longer one for times, a shorter for routing. */
static int analyze(const struct run *run, const struct present_options *options,
		   struct findings *ret_findings, struct err *err)
{
	struct present_options recent = *options;
	struct findings steps, routing;
	bool window = options->step_first != INT64_MIN || options->step_last != INT64_MAX;
	int64_t last = 0;
	int r;

	if (!window && last_step(run, &last))
		recent.step_first = last - RECENT_STEPS + 1;
	r = scene_analyze(run, &recent, FIND_STEPS | FIND_MEMORY | FIND_OVERHEAD | FIND_TIMELINE,
			  &steps, err);
	if (r < 0)
		return r;
	if (!window && run->step.n)
		recent.step_first = last - RECENT_ROUTING + 1;
	r = scene_analyze(run, &recent, FIND_ROUTING, &routing, err);
	if (r < 0) {
		findings_release(&steps);
		return r;
	}
	*ret_findings = steps;
	ret_findings->routing = routing.routing;
	routing.routing = (struct routing){ 0 };
	findings_release(&routing);
	return 0;
}

int view_dashboard(const struct run *run, const struct present_options *options, FILE *out,
		   struct err *err)
{
	struct present_options fitted = *options;
	struct findings findings;
	struct overview o;
	struct scene scene = { run, &fitted, &findings };
	int r;

	if (options->json || options->csv)
		return err_set(err, -EINVAL,
			       "the dashboard is text only; the report has the same as JSON");
	if (fitted.width < 80)
		fitted.width = 80;
	r = analyze(run, &fitted, &findings, err);
	if (r < 0)
		return r;
	r = overview(run, &findings, &o);
	if (r < 0) {
		findings_release(&findings);
		return err_sys(err, r, "cannot make the dashboard of '%s'", run->info.name);
	}
	head(&scene, out);
	loss(&scene, out);
	speed(&scene, out);
	memory(&scene, &o, out);
	device(&scene, &o, out);
	experts(&scene, out);
	expert_lines(&scene, &o, out);
	cost(&scene, out);
	overview_release(&o);
	findings_release(&findings);
	return 0;
}
