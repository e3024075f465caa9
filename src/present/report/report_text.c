/* SPDX-License-Identifier: Apache-2.0
 *
 * The report as text, 80 columns or wider: trouble first, verdicts, then the figures.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"
#include "present/frame/whole_views.h"
#include "present/views/device_text.h"
#include "present/views/memory_text.h"
#include "present/views/routing_text.h"
#include "present/views/slow_text.h"
#include "present/views/tax_text.h"
#include "subjects/comm/comm.h"
#include "subjects/counters/launch_metrics.h"
#include "subjects/device/device_state.h"
#include "subjects/efficiency/efficiency.h"
#include "subjects/inference/inference.h"
#include "subjects/kernels/kernels.h"
#include "subjects/memory/memory.h"
#include "subjects/moe/moe_lens.h"
#include "subjects/ops/ops.h"
#include "subjects/overhead/overhead.h"
#include "subjects/routing/routing.h"
#include "subjects/spans/named_spans.h"
#include "subjects/steps/device_phases.h"
#include "subjects/steps/steps.h"

#define TOP_OPS 12
#define TOP_KERNELS 10
#define TOP_LAYERS 16
#define TOP_SPANS 10
#define TOP_WORK 6
#define TOP_COLLECTIVES 6
#define TOP_SLOW 3
#define TOP_REQUESTS 8

static void run_line(const struct scene *scene, FILE *out)
{
	const struct run_info *info = &scene->run->info;
	size_t width = (size_t)scene_layout(scene, 0).width;
	bool color = scene->options->color;
	char line[512];

	fprintf(out, "%smoescope report%s  ", text_style_on(TEXT_BOLD, color),
		text_style_off(TEXT_BOLD, color));
	text_wrap(out, info->name, width, 17, 2);
	fputs("  ", out);
	text_wrap(out, info->command[0] ? info->command : "(command not known)", width, 2, 4);
	if (info->source[0]) {
		snprintf(line, sizeof(line), "imported from %s", info->source);
		fputs("  ", out);
		text_wrap(out, line, width, 2, 4);
	}
	/* Files of other profilers seldom name the machine. */
	if (!info->source[0] || info->host[0] || info->cpu[0]) {
		char cpus[24] = "number of CPUs n/a";

		if (info->cpus > 0)
			snprintf(cpus, sizeof(cpus), "%d CPUs", info->cpus);
		snprintf(line, sizeof(line), "%s, %s, %s", info->host[0] ? info->host : "host n/a",
			 info->cpu[0] ? info->cpu : "CPU n/a", cpus);
		fputs("  ", out);
		text_wrap(out, line, width, 2, 4);
	}
	fprintf(out, "  %s, ",
		info->source[0] && !info->started_realtime_ns
			? "time of day not known"
			: format_date(info->started_realtime_ns).text);
	if (info->duration_known)
		fprintf(out, "ran %s, ", format_ns((double)info->duration_ns).text);
	if (!strcmp(info->status, "exited"))
		fprintf(out, "exit status %d", info->exit_status);
	else if (!strcmp(info->status, "killed"))
		fprintf(out, "killed by signal %d", info->signal);
	else
		fprintf(out, "%s",
			!strcmp(info->status, "running")     ? "still running"
			: !strcmp(info->status, "abandoned") ? "abandoned, end not known"
							     : "end not known");
	/* Levels are of our recordings. */
	if (!info->source[0] || info->level[0]) {
		fputs(", level ", out);
		text_put(out, info->level[0] ? info->level : "n/a", scene->options->utf8);
	}
	fprintf(out, ", %zu process%s\n", scene->run->n_shards,
		scene->run->n_shards == 1 ? "" : "es");
}

/* What the program said about itself, each key once: the last value of the first shard. */
static void facts(const struct scene *scene, FILE *out)
{
	const struct table_fact *fact = &scene->run->fact;
	size_t width = (size_t)scene_layout(scene, 0).width;

	for (size_t i = 0; i < fact->n; i++) {
		bool later = false;
		char line[512];

		for (size_t j = i + 1; j < fact->n && !later; j++)
			later = fact->key[j] == fact->key[i] && fact->shard[j] == fact->shard[i];
		if (later || fact->shard[i] != fact->shard[0])
			continue;
		snprintf(line, sizeof(line), "%s: %s", run_string(scene->run, fact->key[i]),
			 run_string(scene->run, fact->value[i]));
		fputs("  ", out);
		text_wrap(out, line, width, 2, 4);
	}
}

static void trouble(const struct scene *scene, FILE *out)
{
	if (!scene_trouble(scene, true, out))
		return;
	scene_title(scene, "Before you trust the figures", out);
	scene_trouble(scene, false, out);
}

static void evidence_line(const struct verdict *v, char *line, size_t size)
{
	size_t at = 0;

	line[0] = '\0';
	for (size_t i = 0; i < v->n_evidence && at < size; i++) {
		const struct evidence *e = &v->evidence[i];
		struct format text = e->unit == EVIDENCE_NS	 ? format_ns(e->v)
				     : e->unit == EVIDENCE_BYTES ? format_bytes(e->v)
				     : e->unit == EVIDENCE_PCT	 ? format_pct(e->v)
				     : e->unit == EVIDENCE_COUNT ? format_count(e->v)
								 : format_ratio(e->v);
		char key[48];
		char *unit;

		/* The value carries its unit here: "p50 12.3 ms", not "p50_ns 12.3 ms". */
		snprintf(key, sizeof(key), "%s", e->key);
		unit = strrchr(key, '_');
		if (unit && (!strcmp(unit, "_ns") || !strcmp(unit, "_pct") ||
			     !strcmp(unit, "_bytes") || !strcmp(unit, "_mhz")))
			*unit = '\0';
		for (char *c = key; *c; c++)
			*c = *c == '_' && e->unit != EVIDENCE_NUMBER ? ' ' : *c;
		at += (size_t)snprintf(line + at, size - at, "%s%s %s%s", i ? ", " : "", key,
				       text.text, e->unit == EVIDENCE_MHZ ? " MHz" : "");
	}
}

static void verdict_text(const struct scene *scene, const struct verdict *v, FILE *out)
{
	static const enum text_style styles[] = { TEXT_RED, TEXT_YELLOW, TEXT_CYAN, TEXT_GREEN };
	size_t width = (size_t)scene_layout(scene, 0).width;
	bool color = scene->options->color;
	char line[512];

	fprintf(out, "  %s%-8s%s ", text_style_on(styles[v->severity], color),
		severity_name(v->severity), text_style_off(styles[v->severity], color));
	text_wrap(out, v->title, width, 11, 11);
	if (v->severity == SEVERITY_OK)
		return;
	evidence_line(v, line, sizeof(line));
	/* Notes are short, so that what matters fits a screen; the JSON has their evidence. */
	if (line[0] && v->severity < SEVERITY_NOTE) {
		fprintf(out, "%11s%s", "", text_style_on(TEXT_DIM, color));
		text_wrap(out, line, width, 11, 11);
		fputs(text_style_off(TEXT_DIM, color), out);
	}
	if (v->gain_pct.known && v->gain_assumption) {
		snprintf(line, sizeof(line), "est. gain %s of %s, if %s",
			 format_pct(v->gain_pct.v).text,
			 answer_steps(scene->answers)->all.n ? "the step time"
							     : "the time of the device",
			 v->gain_assumption);
		fprintf(out, "%11s", "");
		text_wrap(out, line, width, 11, 11);
	}
	fprintf(out, "%11s", "");
	text_wrap(out, v->advice, width, 11, 11);
}

/* The phases above are those of the host, which runs ahead of its devices. */
static void device_phases(const struct scene *scene, FILE *out)
{
	const struct device_phases *p = answer_device_phases(scene->answers);
	char line[STEP_PHASES * 32];
	double all = 0;
	size_t at = 0;

	if (p->reason)
		return;
	for (unsigned int phase = 0; phase < STEP_PHASES; phase++)
		all += (double)p->ns[phase];
	line[0] = '\0';
	for (unsigned int i = 1; i <= STEP_PHASES; i++) {
		unsigned int phase = i % STEP_PHASES; /* other comes last */
		double pct = 100.0 * (double)p->ns[phase] / all;

		if (p->ns[phase] > 0)
			at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s %.*f%%",
					       at ? ", " : "", phase ? phase_name(phase) : "other",
					       pct < 9.95 ? 1 : 0, pct);
	}
	fputs("  on the devices: ", out);
	text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 18, 4);
}

static void steps_text(const struct scene *scene, FILE *out)
{
	const struct steps *s = answer_steps(scene->answers);

	scene_title(scene, "Steps", out);
	if (!s->all.n) {
		fputs("  n/a: no finished step in this run or window\n", out);
		return;
	}
	fprintf(out, "  %zu step%s, mean %s, p50 %s, p95 %s, p99 %s, variation %s\n", s->all.n,
		s->all.n == 1 ? "" : "s", format_ns(s->all.mean).text, format_ns(s->all.p50).text,
		format_ns(s->all.p95).text, format_ns(s->all.p99).text,
		format_pct(100 * s->all.cv).text);
	scene_steps_source(scene, 2, out);
	if (s->tokens_per_s.known)
		fprintf(out, "  %s tokens/s, %s tokens in all\n",
			format_count(s->tokens_per_s.v).text, format_count(s->tokens.v).text);
	else
		fprintf(out, "  tokens/s n/a: %s\n", s->tokens_per_s.reason);
	if (s->n_phased) {
		fputs("  ", out);
		scene_phase_bar(scene, scene_layout(scene, 0).width - 4, out);
		scene_phase_legend(scene, 2, out);
		device_phases(scene, out);
	} else {
		fputs("  phases n/a: no range names a phase\n", out);
	}
	if (s->n_not_recorded)
		fprintf(out, "  %zu of %zu steps were not recorded in detail; their time counts\n",
			s->n_not_recorded, s->n);
}

static int ops_text(const struct scene *scene, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	struct grid grid;
	int r;

	scene_title(scene, "Operations, by self time over all threads", out);
	if (answer_ops(scene->answers)->gpu_ns.known)
		scene_sampled(scene, "device time ", out);
	if (!answer_ops(scene->answers)->n) {
		fputs("  n/a: no operations or ranges were recorded\n", out);
		return 0;
	}
	r = section_grid(&section_ops, scene, &grid);
	if (r >= 0)
		r = grid_print(&grid, TOP_OPS, &layout, out);
	if (r >= 0 && grid.n > TOP_OPS)
		fprintf(out, "  ... %zu more: moescope ops\n", grid.n - TOP_OPS);
	grid_release(&grid);
	return r;
}

static int kernels_text(const struct scene *scene, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	struct grid grid;
	int r;

	scene_title(scene, "Kernels, by device time", out);
	scene_sampled(scene, "", out);
	if (!answer_kernels(scene->answers)->n) {
		fputs("  n/a: no kernels in this run or window\n", out);
		return 0;
	}
	r = section_grid(&section_kernels, scene, &grid);
	if (r >= 0)
		r = grid_print(&grid, TOP_KERNELS, &layout, out);
	if (r >= 0 && grid.n > TOP_KERNELS)
		fprintf(out, "  ... %zu more: moescope kernels\n", grid.n - TOP_KERNELS);
	grid_release(&grid);
	return r;
}

static int efficiency_text(const struct scene *scene, FILE *out)
{
	struct grid grid, top;
	int r = section_grid(&section_efficiency, scene, &grid);

	scene_title(scene, "Efficiency", out);
	top = grid;
	top.n = top.n < TOP_WORK ? top.n : TOP_WORK;
	if (r >= 0)
		r = section_efficiency.text(scene, &top, out);
	if (r >= 0 && grid.n > TOP_WORK && efficiency_is_told(answer_efficiency(scene->answers)))
		fprintf(out, "  ... %zu more: moescope efficiency\n", grid.n - TOP_WORK);
	grid_release(&grid);
	return r;
}

static int transfers_text(const struct scene *scene, FILE *out)
{
	struct grid grid;
	int r = section_grid(&section_transfers, scene, &grid);

	scene_title(scene, "Copies and sets", out);
	if (r >= 0)
		r = section_transfers.text(scene, &grid, out);
	grid_release(&grid);
	return r;
}

/* Only where devices or ranks talk to each other. */
static int comm_text(const struct scene *scene, FILE *out)
{
	struct grid grid, top;
	int r;

	if (!answer_comm(scene->answers)->n)
		return 0;
	r = section_grid(&section_comm, scene, &grid);
	scene_title(scene, "Communication", out);
	top = grid;
	top.n = top.n < TOP_COLLECTIVES ? top.n : TOP_COLLECTIVES;
	if (r >= 0)
		r = section_comm.text(scene, &top, out);
	if (r >= 0 && grid.n > TOP_COLLECTIVES)
		fprintf(out, "  ... %zu more: moescope comm\n", grid.n - TOP_COLLECTIVES);
	grid_release(&grid);
	return r;
}

/* What only a run with device records has, or with samples of devices. */
static int device_text(const struct scene *scene, FILE *out)
{
	int r;

	if (!scene_has_device(scene->run) && !answer_device_states(scene->answers)->n &&
	    !answer_device_states(scene->answers)->n_others)
		return comm_text(scene, out);
	scene_title(scene, "Devices", out);
	device_text_timeline(scene, out);
	if (!scene_has_device(scene->run))
		return comm_text(scene, out);
	r = kernels_text(scene, out);
	if (r >= 0)
		r = transfers_text(scene, out);
	return r < 0 ? r : comm_text(scene, out);
}

/* There are many, and which of them matter depends on the question: they have a view of their own. */
static void counters_text(const struct scene *scene, FILE *out)
{
	const struct launch_metrics *m = answer_launch_metrics(scene->answers);

	if (!m->n)
		return;
	scene_title(scene, "Hardware counters, by Nsight Compute", out);
	fprintf(out, "  profiled: launches %" PRIu64 ", of kernels %" PRIu64 "\n", m->launches,
		m->kernels);
	fprintf(out, "  ... %" PRIu64 " values: moescope counters\n", m->values);
}

static void spans_text(const struct scene *scene, FILE *out)
{
	const struct named_spans *spans = answer_named_spans(scene->answers);

	if (!spans->n)
		return;
	scene_title(scene, "Spans that threads pass on, by time", out);
	for (size_t i = 0; i < spans->n && i < TOP_SPANS; i++) {
		const struct named_span *span = &spans->rows[i];
		char line[512];

		snprintf(line, sizeof(line), "%s%s%s: %s in %" PRIu64 ", longest %s",
			 span->domain ? run_string(scene->run, span->domain) : "",
			 span->domain ? "/" : "", run_string(scene->run, span->name),
			 format_ns((double)span->time_ns).text, span->count,
			 format_ns((double)span->max_ns).text);
		fputs("  ", out);
		text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 2, 4);
	}
	if (spans->n > TOP_SPANS)
		fprintf(out, "  ... %zu more: moescope report --json\n", spans->n - TOP_SPANS);
}

static int routing_text(const struct scene *scene, FILE *out)
{
	const struct routing *routing = answer_routing(scene->answers);
	struct grid grid;
	int r;

	scene_title(scene, "Routing", out);
	if (!routing->n) {
		fputs("  n/a: no routing was recorded\n", out);
		return 0;
	}
	r = section_grid(&section_routing, scene, &grid);
	if (r >= 0)
		r = routing_text_table(scene, &grid, TOP_LAYERS, out);
	grid_release(&grid);
	if (r >= 0)
		routing_text_heat(scene, out);
	if (r >= 0)
		r = tax_text(scene, out);
	fputs("  self-check: ", out);
	text_wrap(out, routing->self_check, (size_t)scene_layout(scene, 0).width, 14, 4);
	return r;
}

/* Only where there is one: most runs are of dense models. */
static int moe_text(const struct scene *scene, FILE *out)
{
	struct grid grid;
	int r;

	if (answer_moe_lens(scene->answers)->reason)
		return 0;
	scene_title(scene, "Mixture of experts on the devices", out);
	r = section_grid(&section_moe, scene, &grid);
	if (r >= 0)
		r = section_moe.text(scene, &grid, out);
	grid_release(&grid);
	return r;
}

static int memory_text(const struct scene *scene, FILE *out)
{
	int r = 0;

	scene_title(scene, "Memory, as the program reported it", out);
	if (!answer_memory(scene->answers)->n)
		fputs("  n/a: no allocations were recorded\n", out);
	for (size_t i = 0; r >= 0 && i < answer_memory(scene->answers)->n; i++)
		r = memory_text_device(scene, &answer_memory(scene->answers)->devices[i], out);
	memory_text_driver(scene, out);
	return r;
}

static void latency(FILE *out, const char *name, const struct stats_summary *s)
{
	if (s->n)
		fprintf(out, "  %-5s p50 %s, p95 %s, p99 %s, max %s\n", name,
			format_ns(s->p50).text, format_ns(s->p95).text, format_ns(s->p99).text,
			format_ns(s->max).text);
	else
		fprintf(out, "  %-5s n/a\n", name);
}

static void stage_text(const struct scene *scene, const char *name,
		       const struct inference_stage *stage, FILE *out)
{
	char rate[48] = "", ranges[64] = "", devices[64] = "", line[320];

	if (stage->tokens_per_s.known)
		snprintf(rate, sizeof(rate), ", %s tokens/s",
			 format_count(stage->tokens_per_s.v).text);
	if (stage->range_ns.known)
		snprintf(ranges, sizeof(ranges), "; in its ranges %s",
			 format_ns(stage->range_ns.v).text);
	if (stage->device_ns.known)
		snprintf(devices, sizeof(devices), ", on devices %s",
			 format_ns(stage->device_ns.v).text);
	if (stage->time_ns.known)
		snprintf(line, sizeof(line), "%s, %s tokens%s%s%s",
			 format_ns(stage->time_ns.v).text, format_count(stage->tokens.v).text, rate,
			 ranges, devices);
	else
		snprintf(line, sizeof(line), "n/a: %s", stage->time_ns.reason);
	fprintf(out, "  %-7s ", name);
	text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 10, 10);
}

static int requests_text(const struct scene *scene, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	struct grid grid;
	int r = requests_grid(scene, &grid);

	if (r >= 0)
		r = grid_print(&grid, TOP_REQUESTS, &layout, out);
	if (r >= 0 && grid.n > TOP_REQUESTS)
		fprintf(out, "  ... %zu more: moescope report --json\n", grid.n - TOP_REQUESTS);
	grid_release(&grid);
	return r;
}

static int inference_text(const struct scene *scene, FILE *out)
{
	const struct inference *f = answer_inference(scene->answers);

	if (!f->requests && !f->without_begin)
		return 0;
	scene_title(scene, "Inference", out);
	fprintf(out, "  %zu request%s (%zu finished), %s prompt tokens, %s tokens generated",
		f->requests, f->requests == 1 ? "" : "s", f->finished,
		format_count((double)f->prompt_tokens).text, format_count((double)f->tokens).text);
	if (f->tokens_per_s.known)
		fprintf(out, ", %s tokens/s", format_count(f->tokens_per_s.v).text);
	fputc('\n', out);
	latency(out, "TTFT", &f->ttft_ns);
	latency(out, "TPOT", &f->tpot_ns);
	latency(out, "ITL", &f->itl_ns);
	stage_text(scene, "prefill", &f->stages[STAGE_PREFILL], out);
	stage_text(scene, "decode", &f->stages[STAGE_DECODE], out);
	if (f->without_begin)
		fprintf(out, "  %zu token records belong to requests whose begin is missing\n",
			f->without_begin);
	return f->n_rows ? requests_text(scene, out) : 0;
}

static void overhead_text(const struct scene *scene, FILE *out)
{
	const struct overhead *o = answer_overhead(scene->answers);
	double file_bytes = 0;

	for (size_t i = 0; i < scene->run->n_shards; i++)
		file_bytes += (double)scene->run->shards[i].file_bytes;
	scene_title(scene, "What profiling cost", out);
	if (o->measured_pct.known)
		fprintf(out, "  on against off: %s of the step time (95%%: %s to %s, %zu pairs)\n",
			format_pct(o->measured_pct.v).text, format_pct(o->low_pct.v).text,
			format_pct(o->high_pct.v).text, o->pairs);
	else
		fprintf(out, "  on against off: n/a (%s)\n", o->measured_pct.reason);
	if (o->own_cpu_pct.known)
		fprintf(out, "  its own thread: %s of one core, %s records, %s on disk\n",
			format_pct(o->own_cpu_pct.v).text, format_count((double)o->records).text,
			format_bytes(file_bytes).text);
	else
		fprintf(out, "  its own thread: n/a (%s)\n", o->own_cpu_pct.reason);
	device_text_cost(scene, out);
}

int report_text(const struct scene *scene, const struct verdicts *verdicts, FILE *out)
{
	int r;

	run_line(scene, out);
	facts(scene, out);
	trouble(scene, out);
	scene_title(scene, "Verdicts", out);
	for (size_t i = 0; i < verdicts->n; i++)
		verdict_text(scene, &verdicts->items[i], out);
	if (!verdicts->n)
		fputs("  none: too little was recorded to judge\n", out);
	steps_text(scene, out);
	slow_text(scene, TOP_SLOW, out);
	r = ops_text(scene, out);
	spans_text(scene, out);
	if (r >= 0)
		r = device_text(scene, out);
	counters_text(scene, out);
	if (r >= 0)
		r = efficiency_text(scene, out);
	if (r >= 0)
		r = moe_text(scene, out);
	if (r >= 0)
		r = routing_text(scene, out);
	if (r >= 0)
		r = memory_text(scene, out);
	if (r >= 0)
		r = inference_text(scene, out);
	if (r < 0)
		return r;
	overhead_text(scene, out);
	fputs("\nUnits are decimal: 1 MB is 10^6 bytes. "
	      "'moescope explain NAME' defines a number.\n",
	      out);
	return 0;
}
