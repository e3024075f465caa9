/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of counters by place: their fields and their page.
 */
#include <inttypes.h>

#include "subjects/counters/counted_places.h"
#include "subjects/pages/pages.h"
#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct counted_place, member)

static struct cell range(const struct field_row *at)
{
	const struct counted_place *row = at->item;

	return row->range ? cell_text(row->range) : cell_absent("outside all ranges");
}

/* clang-format off */
#define RANGE                                                                                      \
	{ "range", "range", UNIT_TEXT, MAY_READ(TEXT, range), .flexible = true,                    \
	  .meaning = "innermost range around the launches, with those around it" },
#define LAYER                                                                                      \
	{ "layer", "layer", UNIT_INT, OF(layer), .meaning = "layer that ranges around the launches name" },
#define EXPERT                                                                                     \
	{ "expert", "expert", UNIT_INT, OF(expert), .meaning = "expert that ranges around the launches name" },
#define FIGURES                                                                                    \
	{ "launches", "n", UNIT_INT, OF(launches), .meaning = "that were counted" },               \
	{ "kernels", NULL, UNIT_INT, OF(kernels), .meaning = "names of kernels among them" },      \
	{ "measured_pct", NULL, UNIT_PCT, OF(measured_pct), .metric = NO_METRIC,                   \
	  .meaning = "launches that have a metric, of all, the least of those used: below 100 amounts are estimates" }, \
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .metric = NO_METRIC,                            \
	  .meaning = "of the counted launches; they run one at a time" },                          \
	{ "share_pct", "share", UNIT_PCT, OF(share_pct), .metric = NO_METRIC,                      \
	  .meaning = "of the time of all counted launches" },                                      \
	{ "dram_bytes", "DRAM", UNIT_BYTES, OF(dram_bytes), .meaning = "bytes of DRAM, read and written" }, \
	{ "dram_bytes_per_s", "DRAM/s", UNIT_BYTES, OF(dram_bytes_per_s), .meaning = "dram_bytes / time" }, \
	{ "tensor_ops", NULL, UNIT_COUNT, OF(tensor_ops),                                          \
	  .meaning = "operations of the tensor cores, of all types that were counted" },           \
	{ "tensor_ops_per_s", "ops/s", UNIT_COUNT, OF(tensor_ops_per_s), .meaning = "tensor_ops / time" }, \
	{ "ops_per_byte", "ops/B", UNIT_RATIO, OF(ops_per_byte),                                   \
	  .meaning = "tensor_ops / dram_bytes: the arithmetic intensity" },                        \
	{ "steps", NULL, UNIT_INT, OF(steps), .metric = NO_METRIC,                                 \
	  .meaning = "steps that were counted from begin to end" },                                \
	{ "tokens", "tokens", UNIT_INT, OF(tokens), .metric = NO_METRIC, .meaning = "of these steps" }, \
	{ "dram_bytes_per_token", "B/token", UNIT_BYTES, OF(dram_bytes_per_token),                 \
	  .meaning = "bytes of DRAM in these steps / tokens" },
/* clang-format on */

static const struct field range_fields[] = { RANGE FIGURES };
static const struct field layer_fields[] = { LAYER FIGURES };
static const struct field expert_fields[] = { LAYER EXPERT FIGURES };

const struct field_set counted_ranges_fields = {
	FIELDS(range_fields),
	.rows = { { ITEMS(struct counted_places, ranges.rows, ranges.n) } },
	.levels = 1,
	.meaning = "range with counters of the launches in it",
};
const struct field_set counted_layers_fields = {
	FIELDS(layer_fields),
	.rows = { { ITEMS(struct counted_places, layers.rows, layers.n) } },
	.levels = 1,
	.meaning = "layer with counters of the launches in it",
};
const struct field_set counted_experts_fields = {
	FIELDS(expert_fields),
	.rows = { { ITEMS(struct counted_places, experts.rows, experts.n) } },
	.levels = 1,
	.meaning = "expert of a layer with counters of the launches in it",
};

static const struct field total_fields[] = {
	{ "launches", NULL, UNIT_INT, MEMBER(struct counted_places, launches),
	  .meaning = "launches that were counted and whose place in the program is known" },
};

static const struct field_set places_total = { FIELDS(total_fields) };

/* Nothing here has what was left alone: graphs, communication. */
static void tell_uncounted(const struct run *run, struct page *page)
{
	const char *counted = run_fact(run, "kernels counted");

	if (counted)
		page_words(page, 2, 4, "%s", counted);
}

static void places_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct counted_places *places = answer_counted_places(scene->answers);

	if (!places->launches)
		page_words(page, 2, 2,
			   "no launches whose place in the program is known: see run --counters");
	else if (!grid->n)
		page_words(page, 2, 2,
			   "%" PRIu64
			   " launches were counted, none of them inside a range that names one",
			   places->launches);
	if (!grid->n)
		return;
	page_table(page, grid, scene->limit, PAGE_MORE_ROWS);
	if (places->estimated)
		page_words(
			page, 2, 4,
			"est.: a launch has a part of the metrics, so an amount is the mean over "
			"those that have it, times all");
	tell_uncounted(scene->run, page);
}

#define PLACES(title, table, set)                                                                  \
	{                                                                                          \
		.name = (title), .sql = (table), .reads = READS(&subject_counted_places),          \
		.subject = &subject_counted_places, .rows = &(set), .total = &places_total,        \
		.page = places_page,                                                               \
	}

const struct section section_counters_ranges = PLACES("counters-ranges", "range_counters",
						      counted_ranges_fields);
const struct section section_counters_layers = PLACES("counters-layers", "layer_counters",
						      counted_layers_fields);
const struct section section_counters_experts = PLACES("counters-experts", "expert_counters",
						       counted_experts_fields);
