/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of routing: layers, the load of their experts, everything about one layer, and layers and
 * experts in time.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/text/format.h"
#include "subjects/pages/pages.h"
#include "subjects/routing/routing.h"

#define HEAT_LAYERS 32
#define TOP_LAYERS 16 /* of the report */
#define TOP_PAIRS 6   /* of a layer */

static void none(struct page *page)
{
	page_words(
		page, 2, 2,
		"no routing in this run or window: a program reports it with moescope_route(), a "
		"PyTorch model by moescope.MoEProfiler");
}

static const char *place_text(const struct routing_layer *layer, struct page *page)
{
	const char *text = page_text(page, "%d%s%s", layer->layer, layer->phase ? " " : "",
				     phase_name(layer->phase));

	return text ? text : "";
}

static const struct grid_column layer_columns[] = {
	{ "place", "layer", UNIT_TEXT, .flexible = true },
	{ "k_mean", "k", UNIT_RATIO },
	{ "imbalance", "max/mean", UNIT_RATIO },
	{ "imbalance_floor", "chance", UNIT_RATIO },
	{ "cv", "cv", UNIT_RATIO },
	{ "cv_floor", "chance", UNIT_RATIO },
	{ "cv_excess", "excess", UNIT_RATIO },
	{ "gini", "gini", UNIT_RATIO },
	{ "entropy_norm", "entr.", UNIT_RATIO },
	{ "dead", "dead", UNIT_INT },
	{ "starved", "low", UNIT_INT },
	{ "overloaded", "high", UNIT_INT },
};

enum { IMBALANCE_FLOOR = 3, CV_FLOOR = 5, CV_EXCESS = 6, DEAD = 9 };

static enum tone layer_tone(const struct grid_row *row, size_t column)
{
	const struct cell *cell = &row->cells[column];

	switch (column) {
	case IMBALANCE_FLOOR:
	case CV_FLOOR:
		return TONE_FAINT;
	case CV_EXCESS:
		return cell_number(cell) > 0.3 ? TONE_BAD : TONE_PLAIN;
	case DEAD:
		return cell_number(cell) > 0 ? TONE_BAD : TONE_PLAIN;
	default:
		return TONE_PLAIN;
	}
}

static void layer_cells(const struct routing_layer *layer, struct cell *cell, struct page *page)
{
	const struct load_metrics *m = &layer->load;
	struct cell absent = cell_absent("no assignments");

	*cell++ = cell_text(place_text(layer, page));
	*cell++ = cell_value(layer->slots.mean);
	*cell++ = m->known ? cell_real(m->imbalance) : absent;
	*cell++ = cell_value(layer->imbalance_floor);
	*cell++ = m->known ? cell_real(m->cv) : absent;
	*cell++ = cell_value(layer->cv_floor);
	*cell++ = cell_value(layer->cv_excess);
	*cell++ = m->known ? cell_real(m->gini) : absent;
	*cell++ = m->known ? cell_real(m->entropy_norm) : absent;
	*cell++ = m->known ? cell_uint(m->dead) : absent;
	*cell++ = m->known ? cell_uint(m->starved) : absent;
	*cell = m->known ? cell_uint(m->overloaded) : absent;
}

/* A row for each layer and phase, in the order of `rows`, the grid of the section. */
static void layers_table(const struct grid *rows, size_t limit, struct page *page)
{
	struct grid *grid = page_grid(page);
	struct block *block;

	if (!grid)
		return;
	grid_init(grid, layer_columns, sizeof(layer_columns) / sizeof(layer_columns[0]));
	for (size_t i = 0; i < rows->n; i++) {
		struct cell *cells = grid_add(grid, rows->rows[i].item);

		if (!cells) {
			page->error = -ENOMEM;
			return;
		}
		layer_cells(rows->rows[i].item, cells, page);
	}
	block = page_table(page, grid, limit, PAGE_MORE_ROWS);
	if (!block)
		return;
	block->dense = true;
	block->tone = layer_tone;
}

static void heat_lines(const struct routing *routing, struct page *page)
{
	page_empty_line(page);
	page_line(page, 2, "Load per expert, from expert 0 (half height: the mean)");
	for (size_t i = 0; i < routing->n && i < HEAT_LAYERS; i++) {
		const struct routing_layer *layer = &routing->layers[i];

		page_line(page, 2, "%s", "");
		page_put_fitted(page, place_text(layer, page), 13);
		page_put(page, " ");
		page_heat(page, (struct heat){ layer->n, layer->experts, layer->load.mean }, 26,
			  false);
		page_put(page, "  %u", layer->experts);
	}
	page_rest(page, 2, routing->n, HEAT_LAYERS, " layers (--layer N shows one)");
	page_line(page, 2,
		  "chance: uniform routing of as many tokens would show this; excess: cv beyond.");
	page_line(page, 2, "low, high: experts under half and over one and a half times the mean.");
}

static void value_line(const char *name, struct value value, const char *after, struct page *page)
{
	page_line(page, 4, "%-24s ", name);
	if (value.known)
		page_put(page, "%s%s%s", format_ratio(value.v).text, *after ? "  " : "", after);
	else
		page_put_in(page, TONE_FAINT, "n/a (%s)", value.reason);
}

static void expert_bars(const struct routing_layer *layer, struct page *page)
{
	for (uint32_t e = 0; e < layer->experts; e++) {
		double load = (double)layer->n[e];
		enum tone tone = load > 1.5 * layer->load.mean	 ? TONE_BAD
				 : load < 0.5 * layer->load.mean ? TONE_WARNING
								 : TONE_GOOD;

		page_line(page, 4, "expert %-5u %8s %6s  ", e, format_count(load).text,
			  format_pct(layer->load.known ? 100 * load / (double)layer->load.total : 0)
				  .text);
		page_bar(page, layer->load.known ? load / (double)layer->load.max : 0, tone, 34);
	}
}

static void what_ifs(const struct routing_layer *layer, struct page *page)
{
	char name[64], after[64];

	for (unsigned int i = 0; i < layer->n_capacity; i++) {
		const struct routing_capacity_case *c = &layer->capacity[i];

		snprintf(name, sizeof(name), "at capacity factor %.4g", c->factor);
		page_line(page, 4, "%-24s ", name);
		if (c->drop_rate.known && c->pad_waste.known)
			page_put(page, "%s dropped, %s of the places empty (est.)",
				 format_pct(100 * c->drop_rate.v).text,
				 format_pct(100 * c->pad_waste.v).text);
		else
			page_put(page, "n/a (no assignments)");
	}
	snprintf(name, sizeof(name), "waste in tiles of %u", layer->tile_rows);
	value_line(name, layer->tile_waste, "of grouped GEMM rows (est.)", page);
	value_line("dropped, measured", layer->drop_rate_measured, "of the assignments", page);
	snprintf(after, sizeof(after), "uniform: %s",
		 layer->repeat_null.known ? format_ratio(layer->repeat_null.v).text : "n/a");
	value_line("repeat rate", layer->repeat_rate, after, page);
	snprintf(after, sizeof(after), "of the %u busiest experts, step to step", layer->hot_h);
	value_line("hot persistence", layer->hot_persistence, after, page);
	snprintf(after, sizeof(after), "uniform: %s",
		 layer->unique_step_expected.known
			 ? format_ratio(layer->unique_step_expected.v).text
			 : "n/a");
	value_line("experts used per step", layer->unique_step_mean, after, page);
	if (layer->expert_bytes_touched_step_mean.known)
		page_line(page, 4, "%-24s %s a step  uniform: %s", "expert bytes touched",
			  format_bytes(layer->expert_bytes_touched_step_mean.v).text,
			  format_bytes(layer->expert_bytes_touched_step_uniform.v).text);
	else
		value_line("expert bytes touched", layer->expert_bytes_touched_step_mean, "", page);
}

/* `words` stand between the two experts. */
static void pair_lines(const char *name, struct value known, const struct routing_pair *pairs,
		       unsigned int n, const char *words, struct page *page)
{
	if (!known.known) {
		value_line(name, known, "", page);
		return;
	}
	if (!n)
		page_line(page, 4, "%-24s none beyond chance", name);
	for (unsigned int i = 0; i < n && i < TOP_PAIRS; i++) {
		char both[48];

		snprintf(both, sizeof(both), "%u%s%u", pairs[i].from, words, pairs[i].to);
		page_line(page, 4, "%-24s %-12s %5s  chance: %s", i ? "" : name, both,
			  format_pct(100 * pairs[i].share).text,
			  format_pct(100 * pairs[i].chance).text);
	}
}

/* What an expert tells of the next one; nothing where the lines above say why it is unknown. */
static void told_bits(const struct routing_layer *layer, struct page *page)
{
	char after[96];

	if (!layer->affinity_known.known)
		return;
	if (layer->affinity_bits.known)
		snprintf(after, sizeof(after), "bits of %s; chance: %s",
			 format_ratio(layer->affinity_bits_most.v).text,
			 format_ratio(layer->affinity_bits_floor.v).text);
	value_line("about the next expert", layer->affinity_bits,
		   layer->affinity_bits.known ? after : "", page);
}

static void pair_tables(const struct routing_layer *layer, struct page *page)
{
	char next[48] = "on to the next layer";

	pair_lines("experts chosen together", layer->coactivation_known, layer->coactivation_pairs,
		   layer->n_coactivation_pairs, " and ", page);
	if (layer->affinity_layer.known)
		snprintf(next, sizeof(next), "on to layer %.0f", layer->affinity_layer.v);
	pair_lines(next, layer->affinity_known, layer->affinity_pairs, layer->n_affinity_pairs,
		   " to ", page);
	if (layer->n_coactivation_pairs || layer->n_affinity_pairs) {
		page_line(page, 4,
			  "Shares of the first expert's tokens, or of their slots in the next "
			  "layer;");
		page_line(page, 4, "chance: the loads alone would give this.");
	}
	told_bits(layer, page);
}

static void slots_line(const struct k_counts *slots, struct page *page)
{
	if (slots->min.known && slots->min.v == slots->max.v) {
		page_line(page, 4, "%-24s %.0f, by every token", "slots used per token",
			  slots->min.v);
		return;
	}
	page_line(page, 4, "%-24s", "slots used per token");
	for (uint32_t j = 0; j < slots->n; j++)
		if (slots->hist[j])
			page_put(page, " %u: %s", j, format_count((double)slots->hist[j]).text);
}

static void one_layer(const struct routing_layer *layer, struct page *page)
{
	page_title(page, "Layer %s: %s tokens in %zu step%s", place_text(layer, page),
		   format_count((double)layer->tokens).text, layer->n_steps,
		   layer->n_steps == 1 ? "" : "s");
	expert_bars(layer, page);
	page_empty_line(page);
	slots_line(&layer->slots, page);
	value_line("router confidence", layer->router_confidence, "", page);
	value_line("... among the k", layer->router_confidence_k, "", page);
	value_line("router entropy", layer->router_entropy, "", page);
	value_line("top-1 probability", layer->top1_prob, "", page);
	value_line("top-k mass", layer->topk_mass, "", page);
	value_line("margin", layer->margin, "", page);
	what_ifs(layer, page);
	pair_tables(layer, page);
}

static void self_check(const struct routing *routing, struct page *page)
{
	page_words(page, 2, 4, "self-check: ");
	page_put_in(page, TONE_PLAIN, "%s", routing->self_check);
}

static unsigned int routing_form(const struct scene *scene)
{
	return scene->question.sel.layer < 0 ? ROUTING_ALL_LAYERS : ROUTING_ONE_LAYER;
}

static void routing_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct routing *routing = answer_routing(scene->answers);
	bool detailed = scene->question.sel.layer >= 0;

	if (!grid->n) {
		none(page);
		return;
	}
	layers_table(grid, scene->limit, page);
	heat_lines(routing, page);
	imbalance_tax_page(scene, page);
	for (size_t i = 0; detailed && i < grid->n; i++)
		one_layer(grid->rows[i].item, page);
	if (detailed)
		page_empty_line(page);
	if (routing->self_check_ok)
		page_line(page, 2,
			  "self-check: ok, the loads of %" PRIu64
			  " records add up to the tokens' choices",
			  routing->records);
	else
		self_check(routing, page);
}

void routing_report(const struct scene *scene, struct page *page)
{
	const struct routing *routing = answer_routing(scene->answers);
	const struct grid *grid;

	page_title(page, "Routing");
	if (!routing->n) {
		page_line(page, 2, "n/a: no routing was recorded");
		return;
	}
	grid = page_section(page, &section_routing, scene);
	if (grid)
		layers_table(grid, TOP_LAYERS, page);
	heat_lines(routing, page);
	imbalance_tax_page(scene, page);
	self_check(routing, page);
}

static void rows_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	struct block *block;

	if (!grid->n) {
		none(page);
		return;
	}
	block = page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	if (block)
		block->dense = true;
}

static void pairs_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct routing *routing = answer_routing(scene->answers);
	const char *why = NULL;

	if (grid->n || !routing->n) {
		rows_page(scene, grid, page);
		return;
	}
	for (size_t i = 0; i < routing->n && !why; i++)
		why = routing->layers[i].coactivation_known.reason;
	page_words(page, 2, 2, "no pair of experts beyond chance%s%s", why ? ": " : "",
		   why ? why : "");
}

static const char *const columns_choices[] = { "layers", "steps", "experts", "pairs", "k", NULL };
/* In the order of columns_choices. */
static const struct section *const columns_tables[] = {
	&section_routing,	&section_routing_steps, &section_routing_experts,
	&section_routing_pairs, &section_routing_k,	NULL
};
static const struct question_parameter columns = {
	.name = "columns",
	.kind = ASK_TABLE,
	.metavar = "WHAT",
	.choices = columns_choices,
	.help = "one row per layer (layers), per layer and step (steps: FLOPs, k, latency, "
		"confidence), per expert of these (experts: tokens, utilization), per pair of "
		"experts beyond chance (pairs), or per number of experts that tokens had (k)",
	.default_text = "layers",
};
static const struct question_parameter capacity_factor = {
	.name = "capacity-factor",
	.kind = ASK_NUMBERS,
	.metavar = "X,...",
	.min = 0.01,
	.max = 1000,
	.help = "capacity factors for the drop and padding estimates, up to eight",
	.default_text = "1.25",
	.offset = offsetof(struct question, capacity_factors),
};
static const struct question_parameter tile_rows = {
	.name = "tile-rows",
	.kind = ASK_NUMBER,
	.metavar = "N",
	.min = 1,
	.max = 65536,
	.help = "tile height for the grouped-GEMM waste estimate",
	.default_text = "64",
	.offset = offsetof(struct question, tile_rows),
};
static const struct question_parameter step = {
	.name = "step",
	.kind = ASK_STEPS,
	.metavar = "A:B",
	.help = "same as --steps",
	.offset = offsetof(struct question, sel.step_first),
};

const struct section section_routing = {
	.name = "routing",
	.sql = "routing_summary",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.routed_tokens = true,
	.subject = &subject_routing,
	.rows = &routing_fields,
	.watched = &routing_ends_fields,
	.form = routing_form,
	.total = &routing_total,
	.page = routing_page,
	.command = {
		.place = 60,
		.summary = "where the router sent the tokens, layer by layer",
		.description = "One row per MoE layer and phase: how evenly the experts are used, "
			       "compared with chance alone, and how many are dead, starved or "
			       "overloaded. --layer shows every expert of that layer, which "
			       "experts tokens visit together and in sequence, and how well an "
			       "expert predicts the one in the next layer.",
		.examples = EXAMPLES({ "moescope routing", "Every layer of the newest run here." },
				     { "moescope routing a.mscope --layer 2",
				       "Layer 2, expert by expert." },
				     { "moescope routing a.mscope --steps 200: --sort cv_excess",
				       "From step 200, worst layers first." },
				     { "moescope routing a.mscope --layer 2 --capacity-factor 1,1.25,1.5,2",
				       "What four capacities would drop and leave empty." },
				     { "moescope routing a.mscope --columns steps --csv",
				       "One row per layer and step, for a spreadsheet." },
				     { "moescope routing a.mscope --columns pairs --sort lift",
				       "Experts that tokens visit together or one after the other." }),
		.parameters = PARAMETERS(&columns, &capacity_factor, &tile_rows, &step, ASK_PLACE),
		.tables = columns_tables,
	},
};

/* A row for each layer and step, with the columns that users of router profilers know, and a row for
 * each expert of them. Layer after layer, steps ascending. */
const struct section section_routing_steps = {
	.name = "routing-steps",
	.sql = "routing_steps",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.router_time = true,
	.subject = &subject_routing,
	.rows = &routing_steps_fields,
	.total = &routing_total,
	.page = rows_page,
};

const struct section section_routing_experts = {
	.name = "routing-experts",
	.sql = "routing_experts",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.subject = &subject_routing,
	.rows = &routing_experts_fields,
	.total = &routing_total,
	.page = rows_page,
};

/* Pairs of experts of a layer, and of it and the next. */
const struct section section_routing_pairs = {
	.name = "routing-pairs",
	.sql = "routing_pairs",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.routed_tokens = true,
	.subject = &subject_routing,
	.rows = &routing_pairs_fields,
	.total = &routing_total,
	.page = pairs_page,
};

/* How many experts the tokens of each layer had. */
const struct section section_routing_k = {
	.name = "routing-k",
	.sql = "routing_k",
	.reads = READS(&subject_routing, &subject_imbalance_tax),
	.subject = &subject_routing,
	.rows = &routing_k_fields,
	.total = &routing_total,
	.page = rows_page,
};
