/* SPDX-License-Identifier: Apache-2.0
 *
 * One screen (80 x 24) of a run that may be growing or empty: only what is known, n/a for the
 * rest. Repainted several times a second by live views, so steps and routing are the last ones.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"
#include "base/text/utf8.h"
#include "present/frame/whole_views.h"
#include "present/report/dashboard_lines.h"
#include "subjects/counters/counters.h"
#include "subjects/overhead/overhead.h"
#include "subjects/routing/routing.h"
#include "subjects/steps/steps.h"

#define RECENT_STEPS 50
#define RECENT_ROUTING 20
#define LAYERS 4

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

	dashboard_label(scene, "Loss", out);
	counter_series_read(scene->run, "loss", (size_t)scene_layout(scene, 0).width - 52, &s);
	if (!s.n) {
		dashboard_absent(scene, "the program has no counter named loss", out);
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
	const struct steps *s = answer_steps(scene->answers);

	dashboard_label(scene, "Speed", out);
	if (!s->all.n) {
		dashboard_absent(scene, "no step has ended", out);
	} else {
		if (s->tokens_per_s.known)
			fprintf(out, "%s tokens/s, ", format_count(s->tokens_per_s.v).text);
		fprintf(out, "step %s, p95 %s, variation %s (last %zu)\n",
			format_ns(s->all.p50).text, format_ns(s->all.p95).text,
			format_pct(100 * s->all.cv).text, s->all.n);
	}
	dashboard_label(scene, "Phases", out);
	if (!s->n_phased) {
		dashboard_absent(scene, "no range names a phase", out);
		return;
	}
	scene_phase_bar(scene, scene_layout(scene, 0).width - 13, out);
	scene_phase_legend(scene, 5, out);
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

static void experts(const struct scene *scene, const struct routing *routing, FILE *out)
{
	int strip = scene_layout(scene, 0).width - 12 - 36;
	char window[64];
	size_t most = 0;

	fputc('\n', out);
	dashboard_label(scene, "Experts", out);
	if (!routing->n) {
		dashboard_absent(scene, "the program reports no routing", out);
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

static void cost(const struct scene *scene, const struct routing *routing, FILE *out)
{
	const struct overhead *o = answer_overhead(scene->answers);
	uint64_t lost = loss_total(&scene->run->loss);
	bool color = scene->options->color;

	dashboard_label(scene, "Overhead", out);
	if (o->measured_pct.known)
		fprintf(out, "%s of the step (95%%: %s to %s)", format_pct(o->measured_pct.v).text,
			format_pct(o->low_pct.v).text, format_pct(o->high_pct.v).text);
	else
		fputs("on against off n/a", out);
	if (o->own_cpu_pct.known)
		fprintf(out, ", own thread %s of a core", format_pct(o->own_cpu_pct.v).text);
	fputc('\n', out);
	dashboard_label(scene, "Losses", out);
	if (lost)
		fprintf(out, "%s%" PRIu64 "%s (see the report)\n",
			text_style_on(TEXT_YELLOW, color), lost,
			text_style_off(TEXT_YELLOW, color));
	else
		fputs("none\n", out);
	if (routing->records && !routing->self_check_ok) {
		dashboard_label(scene, "Check", out);
		text_fit(out, routing->self_check, (size_t)scene_layout(scene, 0).width - 12, false,
			 scene->options->utf8);
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

/* Its questions. Two windows, both ending at the last step: a longer one for times, a shorter for
 * routing. Times of kernels are those of the whole run. */
enum { ASKED_TIMES, ASKED_ROUTING, ASKED_CLASSES, ASKED_EXPERTS, ASKED };
_Static_assert(ASKED <= ASKED_MAX, "as many as a section can ask");

static const struct subject *const routing_reads[] = { &subject_routing, NULL };
static const struct subject *const kernel_reads[] = { &subject_kernels, NULL };

static size_t ask(const struct run *run, const struct present_options *options,
		  struct asked *ret_asked)
{
	struct question q = scene_question(options);
	bool window = selection_is_window(&q.sel);
	int64_t last = 0;

	if (!window && run && last_step(run, &last))
		q.sel.step_first = last - RECENT_STEPS + 1;
	ret_asked[ASKED_TIMES] = (struct asked){ q, { "dashboard", section_dashboard.reads } };
	if (!window && run && run->step.n)
		q.sel.step_first = last - RECENT_ROUTING + 1;
	ret_asked[ASKED_ROUTING] = (struct asked){ q, { "dashboard, experts", routing_reads } };
	q.sel = SELECT_ALL;
	q.kernels_by = KERNELS_BY_CLASS;
	ret_asked[ASKED_CLASSES] = (struct asked){ q, { "dashboard, classes", kernel_reads } };
	q.kernels_by = KERNELS_BY_EXPERT;
	ret_asked[ASKED_EXPERTS] = (struct asked){ q, { "dashboard, kernels", kernel_reads } };
	return run && !names_experts(run) ? ASKED_EXPERTS : ASKED;
}

static int overview(const struct run *run, const struct answers *answers, size_t n,
		    struct overview *ret)
{
	const struct answers *times = &answers[ASKED_TIMES];
	struct overview_parts parts = {
		.memory = answer_memory(times),
		.device_memory = answer_device_memory(times),
		.device_states = answer_device_states(times),
		.timeline = answer_timeline(times),
		.routing = answer_routing(&answers[ASKED_ROUTING]),
		.by_class = answer_kernels(&answers[ASKED_CLASSES]),
		.by_expert = n > ASKED_EXPERTS ? answer_kernels(&answers[ASKED_EXPERTS]) : NULL,
	};

	return overview_make(run, &parts, ret);
}

static int render(const struct run *run, const struct present_options *options, FILE *out,
		  struct err *err)
{
	struct present_options fitted = *options;
	struct asked asked[ASKED];
	struct answers answers[ASKED];
	struct overview o;
	struct scene scene = { run, &fitted, &answers[ASKED_TIMES] };
	const struct routing *routing;
	size_t n;
	int r;

	if (options->json || options->csv)
		return err_set(err, -EINVAL,
			       "the dashboard is text only; the report has the same as JSON");
	if (fitted.width < 80)
		fitted.width = 80;
	n = ask(run, &fitted, asked);
	r = scene_compute(run, &fitted, asked, n, answers, err);
	if (r < 0)
		return r;
	r = overview(run, answers, n, &o);
	if (r < 0) {
		answers_release(answers);
		return err_sys(err, r, "cannot make the dashboard of '%s'", run->info.name);
	}
	routing = answer_routing(&answers[ASKED_ROUTING]);
	head(&scene, out);
	loss(&scene, out);
	speed(&scene, out);
	dashboard_memory(&scene, &o, out);
	dashboard_device(&scene, &o, out);
	experts(&scene, routing, out);
	dashboard_experts(&scene, &o, out);
	cost(&scene, routing, out);
	overview_release(&o);
	answers_release(answers);
	return 0;
}

/* The series of the loss is made of counters. */
const struct section section_dashboard = {
	.name = "dashboard",
	.reads = READS(&subject_steps, &subject_memory, &subject_device_memory,
		       &subject_device_states, &subject_overhead, &subject_timeline,
		       &subject_coverage),
	.kinds = WANT(COUNTER) | WANT(STEP),
	.ask = ask,
	.render = render,
};
