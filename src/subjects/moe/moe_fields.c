/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the parts of a mixture of experts; see fields.h.
 */
#include "subjects/moe/moe_lens.h"

#include "subjects/shared/fields.h"

#define OF(member) MEMBER(struct moe_row, member)

static const void *row_at(const struct field_row *in, size_t i)
{
	const struct moe_lens *moe = in->item;
	const struct moe_row *row = &moe->rows[i / MOE_PASSES][i % MOE_PASSES];

	return (in->form == MOE_BY_COMM ? row->comm.count : row->count) ? row : NULL;
}

static size_t row_count(const struct field_row *in)
{
	(void)in;
	return (size_t)MOE_PARTS * MOE_PASSES;
}

static struct cell part(const struct field_row *at)
{
	return cell_text(moe_part_name((enum moe_part)(at->index / MOE_PASSES)));
}

static struct cell pass(const struct field_row *at)
{
	return cell_text(moe_pass_name((enum moe_pass)(at->index % MOE_PASSES)));
}

static const char *moe_untimed(const struct field_row *at)
{
	const struct moe_row *row = at->item;

	return row->count > row->untimed ? NULL : "none was timed";
}

static struct cell share_of_kernels(const struct field_row *at)
{
	int64_t kernels_ns = ((const struct moe_lens *)at->in->item)->kernels_ns;
	const struct moe_row *row = at->item;

	return kernels_ns > 0 ? cell_real(100 * (double)row->time_ns / (double)kernels_ns)
			      : cell_absent("no kernel was timed");
}

static const char *no_comm(const struct field_row *at)
{
	return ((const struct moe_row *)at->item)->comm.count ? NULL
							      : "this part does not communicate";
}

/* clang-format off */
static const struct field fields[] = {
	{ "part", "part", UNIT_TEXT, READ(TEXT, part), .flexible = true,
	  .meaning = "attention, router, dispatch, experts, combine, shared expert or rest" },
	{ "pass", "pass", UNIT_TEXT, READ(TEXT, pass),
	  .meaning = "forward, backward, weight or unknown; weight: gradients of weights, where "
		     "they are apart" },
	{ "count", "kernels", UNIT_INT, OF(count), .forms = MOE_BY_PART, .meaning = "kernels" },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .forms = MOE_BY_PART, .absent = moe_untimed,
	  .meaning = "their union, sum over the devices", .metric = "moe_part" },
	{ "share_pct", "of kernels", UNIT_PCT, MAY_READ(REAL, share_of_kernels), .forms = MOE_BY_PART,
	  .meaning = "of kernels_ns; kernels at once make it more than 100 in all", .metric = "moe_part" },
	{ "comm_ns", "comm", UNIT_NS, OF(comm.time_ns), .titled = MOE_BY_COMM, .absent = no_comm,
	  .meaning = "those of them that communicate; null: none does, and so for those that "
		     "follow" },
	{ "notify_ns", "notify", UNIT_NS, OF(comm.notify_ns), .titled = MOE_BY_COMM,
	  .absent = no_comm },
	{ "overlap_ns", NULL, UNIT_NS, OF(comm.hidden_ns), .absent = no_comm,
	  .meaning = "communication that overlaps kernels that do not communicate" },
	{ "comm_overlap_pct", "hidden", UNIT_PCT, OF(comm.hidden_pct), .titled = MOE_BY_COMM,
	  .absent = no_comm },
	{ "exposed_ns", "exposed", UNIT_NS, OF(comm.exposed_ns), .titled = MOE_BY_COMM,
	  .absent = no_comm, .meaning = "comm_ns - overlap_ns" },
	{ "beside_forward_ns", NULL, UNIT_NS, OF(comm.beside_ns[MOE_FORWARD]), .absent = no_comm },
	{ "beside_backward_ns", NULL, UNIT_NS, OF(comm.beside_ns[MOE_BACKWARD]), .absent = no_comm },
	{ "beside_weight_ns", NULL, UNIT_NS, OF(comm.beside_ns[MOE_WEIGHT]), .absent = no_comm },
	{ "beside_unknown_ns", NULL, UNIT_NS, OF(comm.beside_ns[MOE_UNKNOWN]), .absent = no_comm },
	{ "two_batch_ns", "over other batch", UNIT_NS, OF(comm.two_batch_ns), .titled = MOE_BY_COMM,
	  .absent = no_comm },
	{ "untimed", NULL, UNIT_INT, OF(untimed) },
};
/* clang-format on */

const struct field_set moe_fields = {
	FIELDS(fields),
	.rows = { { .item = row_at, .count = row_count } },
	.levels = 1,
	.meaning = "part of a mixture of experts and pass",
};

#define OF_COST(member) MEMBER(struct moe_cost_row, member)

static const struct field cost_fields[] = {
	{ "short_name", "kernel", UNIT_TEXT, OF_COST(short_name), .flexible = true,
	  .meaning = "of the kernel, for people" },
	{ "name", NULL, UNIT_TEXT, OF_COST(name), .meaning = "of the kernel" },
	{ "beside", "launches", UNIT_INT, OF_COST(beside),
	  .meaning = "launches that overlap communication" },
	{ "clear", NULL, UNIT_INT, OF_COST(clear), .meaning = "launches without" },
	{ "beside_mean_ns", "overlapped", UNIT_NS, OF_COST(beside_ns),
	  .meaning = "mean of those that overlap" },
	{ "clear_mean_ns", "alone", UNIT_NS, OF_COST(clear_ns),
	  .meaning = "mean of those that do not, with places weighted as for those that overlap" },
	{ "extra_ns", "extra", UNIT_NS, OF_COST(extra_ns),
	  .meaning = "beside * (beside_mean_ns - clear_mean_ns)" },
};

const struct field_set moe_cost_fields = {
	FIELDS(cost_fields),
	.rows = { { ITEMS(struct moe_lens, cost.rows, cost.n) } },
	.levels = 1,
	.part = "moe_cost",
	.meaning =
		"A kernel with and without overlapping communication, at the same places of the program.",
};

#define OF_LAYER(member) MEMBER(struct moe_layer, member)
#define OF_PART(part) OF_LAYER(sum_ns[part]), .absent = no_part

static const char *no_part(const struct field_row *at)
{
	const struct moe_lens *moe = at->in->item;
	size_t which = (at->field->offset - offsetof(struct moe_layer, sum_ns)) / sizeof(int64_t);

	return moe->layers_with[which] ? NULL : "no kernel of this part has a layer";
}

static struct cell exposed(const struct field_row *at)
{
	const struct moe_lens *moe = at->in->item;
	const struct moe_layer *layer = at->item;

	return moe->comm.count ? cell_int(layer->comm_ns - layer->hidden_ns)
			       : cell_absent("no expert communication");
}

static const struct field layer_fields[] = {
	{ "number", "#", UNIT_INT, OF_LAYER(number),
	  .meaning = "of the layer, or its order from 1; see layers_by" },
	{ "count", "kernels", UNIT_INT, OF_LAYER(count), .meaning = "kernels" },
	{ "attention_ns", "attention", UNIT_NS, OF_PART(MOE_ATTENTION), .meaning = "attention",
	  .metric = "moe_layer" },
	{ "router_ns", "router", UNIT_NS, OF_PART(MOE_ROUTER), .meaning = "router",
	  .metric = "moe_layer" },
	{ "dispatch_ns", "dispatch", UNIT_NS, OF_PART(MOE_DISPATCH), .meaning = "dispatch",
	  .metric = "moe_layer" },
	{ "experts_ns", "experts", UNIT_NS, OF_PART(MOE_EXPERTS), .meaning = "experts",
	  .metric = "moe_layer" },
	{ "combine_ns", "combine", UNIT_NS, OF_PART(MOE_COMBINE), .meaning = "combine",
	  .metric = "moe_layer" },
	{ "shared_ns", NULL, UNIT_NS, OF_PART(MOE_SHARED), .meaning = "shared expert",
	  .metric = "moe_layer" },
	{ "rest_ns", NULL, UNIT_NS, OF_PART(MOE_REST),
	  .meaning = "not identified by a range or a name", .metric = "moe_layer" },
	{ "exposed_ns", "exposed", UNIT_NS, MAY_READ(I64, exposed) },
};

const struct field_set moe_layers_fields = {
	FIELDS(layer_fields),
	.rows = { { ITEMS(struct moe_lens, layers, n_layers) } },
	.levels = 1,
	PART("moe_layer", "One layer; times are sums of durations."),
};

#define OF_ALL(member) MEMBER(struct moe_lens, member)

static const char *none(const struct field_row *at)
{
	return ((const struct moe_lens *)at->item)->reason;
}

static struct cell present(const struct field_row *at)
{
	return cell_bool(!((const struct moe_lens *)at->item)->reason);
}

static struct cell overlap_kind(const struct field_row *at)
{
	return cell_text(moe_overlap_name(((const struct moe_lens *)at->item)->overlap));
}

static struct cell precision(const struct field_row *at)
{
	const struct moe_lens *moe = at->item;

	if (moe->precision)
		return cell_text(moe->precision);
	return cell_absent(moe->reason ? moe->reason : "no name of a product of experts tells it");
}

static struct cell layers_by(const struct field_row *at)
{
	const struct moe_lens *moe = at->item;

	if (!moe->layers_none && moe->layers_by)
		return cell_text(moe->layers_by);
	return cell_absent(moe->reason ? moe->reason : moe->layers_none);
}

static const struct field_group cost = { FIELD_LIST, FIELD_LINE_EACH, .table = &moe_cost_fields };
static const struct field_group layers = { FIELD_LIST, FIELD_LINE_EACH,
					   .table = &moe_layers_fields };

static const struct field total_fields[] = {
	{ "present", NULL, UNIT_INT, READ(BOOL, present),
	  .meaning = "some kernel or range is of a mixture of experts" },
	{ "count", NULL, UNIT_INT, OF_ALL(comm.count),
	  .meaning = "kernels that communicate between experts" },
	{ "kernels_ns", NULL, UNIT_NS, OF_ALL(kernels_ns), .absent = none,
	  .meaning = "union of all kernels, sum over the devices; likewise those that follow" },
	{ "comm_ns", NULL, UNIT_NS, OF_ALL(comm.time_ns),
	  .meaning = "communication between experts" },
	{ "notify_ns", NULL, UNIT_NS, OF_ALL(comm.notify_ns) },
	{ "overlap_ns", NULL, UNIT_NS, OF_ALL(comm.hidden_ns),
	  .meaning = "communication that overlaps kernels that do not communicate" },
	{ "exposed_ns", NULL, UNIT_NS, OF_ALL(comm.exposed_ns), .meaning = "comm_ns - overlap_ns" },
	{ "two_batch_ns", NULL, UNIT_NS, OF_ALL(comm.two_batch_ns) },
	{ "beside_forward_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_FORWARD]) },
	{ "beside_backward_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_BACKWARD]) },
	{ "beside_weight_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_WEIGHT]) },
	{ "beside_unknown_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_UNKNOWN]) },
	{ "comm_overlap_pct", NULL, UNIT_PCT, OF_ALL(comm.hidden_pct), .absent = none },
	{ "two_batch_pct", NULL, UNIT_PCT, OF_ALL(two_batch_pct), .absent = none,
	  .meaning = "two_batch_ns / comm_ns" },
	{ "overlap_kind", NULL, UNIT_TEXT, READ(TEXT, overlap_kind),
	  .meaning = "two-batch overlap: none, forward beside backward, two micro-batches" },
	{ "precision", NULL, UNIT_TEXT, MAY_READ(TEXT, precision),
	  .meaning = "FP4, FP8, BF16 or FP16: of the products of experts, by most of their time" },
	{ "compared", NULL, UNIT_INT, OF_ALL(cost.compared),
	  .meaning = "kernels that overlap communication and are compared with others at the same "
		     "place" },
	{ "extra_ns", NULL, UNIT_NS, OF_ALL(cost.extra_ns), .absent = none,
	  .meaning = "what they took longer, in all" },
	{ "slower_pct", NULL, UNIT_PCT, OF_ALL(cost.slower_pct), .absent = none,
	  .meaning = "extra_ns / what they would have taken" },
	{ "layers_by", NULL, UNIT_TEXT, MAY_READ(TEXT, layers_by),
	  .meaning = "ranges: the number of the layer; order: of the ranges within their step" },
	{ "cost", .of = &cost, .meaning = "one a kernel, by extra_ns" },
	{ "layers", .of = &layers, .meaning = "one a layer" },
};

const struct field_set moe_total = { FIELDS(total_fields), .meaning = "All devices." };
