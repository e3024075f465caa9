/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing as text; see routing_text.h.
 */
#include "present/views/routing_text.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"

void routing_text_none(const struct scene *scene, FILE *out)
{
	fputs("  ", out);
	text_wrap(out,
		  "no routing in this run or window: a program reports it with moescope_route(), a "
		  "PyTorch model by moescope.MoEProfiler",
		  (size_t)scene_layout(scene, 0).width, 2, 2);
}

static void place_text(char *out, size_t size, const struct routing_layer *layer)
{
	snprintf(out, size, "%d%s%s", layer->layer, layer->phase ? " " : "",
		 phase_name(layer->phase));
}

static void cell_of(struct text_table *table, struct value value, enum text_style style)
{
	if (value.known)
		text_table_cell(table, format_ratio(value.v).text, style);
	else
		text_table_cell(table, "n/a", TEXT_DIM);
}

static void count_cell(struct text_table *table, const struct load_metrics *load, uint32_t count,
		       enum text_style style)
{
	if (load->known)
		text_table_cellf(table, style, "%u", count);
	else
		text_table_cell(table, "n/a", TEXT_DIM);
}

int routing_text_table(const struct scene *scene, const struct grid *grid, size_t limit, FILE *out)
{
	static const struct text_column columns[] = {
		{ "layer", TEXT_LEFT, true },	   { "k", TEXT_RIGHT, false },
		{ "max/mean", TEXT_RIGHT, false }, { "chance", TEXT_RIGHT, false },
		{ "cv", TEXT_RIGHT, false },	   { "chance", TEXT_RIGHT, false },
		{ "excess", TEXT_RIGHT, false },   { "gini", TEXT_RIGHT, false },
		{ "entr.", TEXT_RIGHT, false },	   { "dead", TEXT_RIGHT, false },
		{ "low", TEXT_RIGHT, false },	   { "high", TEXT_RIGHT, false },
	};
	struct text_layout layout = scene_layout(scene, 2);
	struct text_table *table = text_table_new(columns, sizeof(columns) / sizeof(columns[0]));
	size_t n = limit && limit < grid->n ? limit : grid->n;
	int r;

	if (!table)
		return -ENOMEM;
	layout.gap = layout.width < 92 ? 1 : 2;
	for (size_t i = 0; i < n; i++) {
		const struct routing_layer *layer = grid->rows[i].item;
		const struct load_metrics *m = &layer->load;
		struct value absent = value_absent("");
		char place[64];

		place_text(place, sizeof(place), layer);
		text_table_cell(table, place, TEXT_PLAIN);
		cell_of(table, layer->slots.mean, TEXT_PLAIN);
		cell_of(table, m->known ? value_of(m->imbalance) : absent, TEXT_PLAIN);
		cell_of(table, layer->imbalance_floor, TEXT_DIM);
		cell_of(table, m->known ? value_of(m->cv) : absent, TEXT_PLAIN);
		cell_of(table, layer->cv_floor, TEXT_DIM);
		cell_of(table, layer->cv_excess,
			layer->cv_excess.known && layer->cv_excess.v > 0.3 ? TEXT_RED : TEXT_PLAIN);
		cell_of(table, m->known ? value_of(m->gini) : absent, TEXT_PLAIN);
		cell_of(table, m->known ? value_of(m->entropy_norm) : absent, TEXT_PLAIN);
		count_cell(table, m, m->dead, m->dead ? TEXT_RED : TEXT_PLAIN);
		count_cell(table, m, m->starved, TEXT_PLAIN);
		count_cell(table, m, m->overloaded, TEXT_PLAIN);
	}
	r = text_table_print(table, &layout, out);
	text_table_free(table);
	scene_more(n, grid->n, out);
	return r;
}

#define HEAT_LAYERS 32 /* lines of the heat strip */

void routing_text_heat(const struct scene *scene, FILE *out)
{
	const struct routing *routing = answer_routing(scene->answers);
	int width = scene_layout(scene, 0).width - 26;
	size_t n = routing->n < HEAT_LAYERS ? routing->n : HEAT_LAYERS;

	fputs("\n  Load per expert, from expert 0 (half height: the mean)\n", out);
	for (size_t i = 0; i < n; i++) {
		const struct routing_layer *layer = &routing->layers[i];
		char place[64];

		place_text(place, sizeof(place), layer);
		fputs("  ", out);
		text_fit(out, place, 13, false, scene->options->utf8);
		fputc(' ', out);
		scene_heat_strip(scene, layer->n, layer->experts, layer->load.mean, width, out);
		fprintf(out, "  %u\n", layer->experts);
	}
	if (n < routing->n)
		fprintf(out, "  ... %zu more layers (--layer N shows one)\n", routing->n - n);
	fputs("  chance: uniform routing of as many tokens would show this; excess: cv beyond.\n"
	      "  low, high: experts under half and over one and a half times the mean.\n",
	      out);
}

static void line(const struct scene *scene, FILE *out, const char *name, struct value value,
		 const char *after)
{
	bool color = scene->options->color;

	fprintf(out, "    %-24s ", name);
	if (value.known)
		fprintf(out, "%s%s%s\n", format_ratio(value.v).text, *after ? "  " : "", after);
	else
		fprintf(out, "%sn/a (%s)%s\n", text_style_on(TEXT_DIM, color), value.reason,
			text_style_off(TEXT_DIM, color));
}

static void expert_bars(const struct scene *scene, const struct routing_layer *layer, FILE *out)
{
	int width = scene_layout(scene, 0).width - 34;
	bool color = scene->options->color;

	for (uint32_t e = 0; e < layer->experts; e++) {
		double load = (double)layer->n[e];
		enum text_style style = load > 1.5 * layer->load.mean	? TEXT_RED
					: load < 0.5 * layer->load.mean ? TEXT_YELLOW
									: TEXT_GREEN;

		fprintf(out, "    expert %-5u %8s %6s  %s", e, format_count(load).text,
			format_pct(layer->load.known ? 100 * load / (double)layer->load.total : 0)
				.text,
			text_style_on(style, color));
		if (layer->load.known)
			scene_bar(scene, load / (double)layer->load.max, width, out);
		fprintf(out, "%s\n", text_style_off(style, color));
	}
}

static void what_ifs(const struct scene *scene, const struct routing_layer *layer, FILE *out)
{
	char name[64], after[64];

	for (unsigned int i = 0; i < layer->n_capacity; i++) {
		const struct routing_capacity_case *c = &layer->capacity[i];

		snprintf(name, sizeof(name), "at capacity factor %.4g", c->factor);
		fprintf(out, "    %-24s ", name);
		if (c->drop_rate.known && c->pad_waste.known)
			fprintf(out, "%s dropped, %s of the places empty (est.)\n",
				format_pct(100 * c->drop_rate.v).text,
				format_pct(100 * c->pad_waste.v).text);
		else
			fputs("n/a (no assignments)\n", out);
	}
	snprintf(name, sizeof(name), "waste in tiles of %u", layer->tile_rows);
	line(scene, out, name, layer->tile_waste, "of grouped GEMM rows (est.)");
	line(scene, out, "dropped, measured", layer->drop_rate_measured, "of the assignments");
	snprintf(after, sizeof(after), "uniform: %s",
		 layer->repeat_null.known ? format_ratio(layer->repeat_null.v).text : "n/a");
	line(scene, out, "repeat rate", layer->repeat_rate, after);
	snprintf(after, sizeof(after), "of the %u busiest experts, step to step", layer->hot_h);
	line(scene, out, "hot persistence", layer->hot_persistence, after);
	snprintf(after, sizeof(after), "uniform: %s",
		 layer->unique_step_expected.known
			 ? format_ratio(layer->unique_step_expected.v).text
			 : "n/a");
	line(scene, out, "experts used per step", layer->unique_step_mean, after);
	if (layer->expert_bytes_touched_step_mean.known)
		fprintf(out, "    %-24s %s a step  uniform: %s\n", "expert bytes touched",
			format_bytes(layer->expert_bytes_touched_step_mean.v).text,
			format_bytes(layer->expert_bytes_touched_step_uniform.v).text);
	else
		line(scene, out, "expert bytes touched", layer->expert_bytes_touched_step_mean, "");
}

/* `words` stand between the two experts. */
static void pair_lines(const struct scene *scene, const char *name, struct value known,
		       const struct routing_pair *pairs, unsigned int n, const char *words,
		       FILE *out)
{
	if (!known.known) {
		line(scene, out, name, known, "");
		return;
	}
	if (!n)
		fprintf(out, "    %-24s none beyond chance\n", name);
	for (unsigned int i = 0; i < n; i++) {
		char both[48];

		snprintf(both, sizeof(both), "%u%s%u", pairs[i].from, words, pairs[i].to);
		fprintf(out, "    %-24s %-12s %5s  chance: %s\n", i ? "" : name, both,
			format_pct(100 * pairs[i].share).text,
			format_pct(100 * pairs[i].chance).text);
	}
}

static void pair_tables(const struct scene *scene, const struct routing_layer *layer, FILE *out)
{
	char next[48] = "on to the next layer";

	pair_lines(scene, "experts chosen together", layer->coactivation_known,
		   layer->coactivation_pairs, layer->n_coactivation_pairs, " and ", out);
	if (layer->affinity_known.known)
		snprintf(next, sizeof(next), "on to layer %d", layer->affinity_layer);
	pair_lines(scene, next, layer->affinity_known, layer->affinity_pairs,
		   layer->n_affinity_pairs, " to ", out);
	if (layer->n_coactivation_pairs || layer->n_affinity_pairs)
		fputs("    Shares of the first expert's tokens, or of their slots in the next "
		      "layer;\n    chance: the loads alone would give this.\n",
		      out);
}

int routing_text_layer(const struct scene *scene, const struct routing_layer *layer, FILE *out)
{
	char title[160], place[64];

	place_text(place, sizeof(place), layer);
	snprintf(title, sizeof(title), "Layer %s: %s tokens in %zu step%s", place,
		 format_count((double)layer->tokens).text, layer->n_steps,
		 layer->n_steps == 1 ? "" : "s");
	scene_title(scene, title, out);
	expert_bars(scene, layer, out);
	fputc('\n', out);
	fputs("    slots used per token    ", out);
	for (uint32_t j = 0; j < layer->slots.n; j++)
		if (layer->slots.hist[j])
			fprintf(out, " %u: %s", j, format_count((double)layer->slots.hist[j]).text);
	fputc('\n', out);
	line(scene, out, "router confidence", layer->router_confidence, "");
	line(scene, out, "... among the k", layer->router_confidence_k, "");
	line(scene, out, "router entropy", layer->router_entropy, "");
	line(scene, out, "top-1 probability", layer->top1_prob, "");
	line(scene, out, "top-k mass", layer->topk_mass, "");
	line(scene, out, "margin", layer->margin, "");
	what_ifs(scene, layer, out);
	pair_tables(scene, layer, out);
	return 0;
}

void routing_text_check(const struct scene *scene, FILE *out)
{
	const struct routing *routing = answer_routing(scene->answers);

	fputs(scene->options->layer >= 0 ? "\n  self-check: " : "  self-check: ", out);
	if (routing->self_check_ok)
		fprintf(out, "ok, the loads of %" PRIu64 " records add up to the tokens' choices\n",
			routing->records);
	else
		text_wrap(out, routing->self_check, (size_t)scene_layout(scene, 0).width, 14, 4);
}
