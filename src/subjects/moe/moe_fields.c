/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields of the parts of a mixture of experts; see moe_fields.h.
 */
#include "subjects/moe/moe_fields.h"

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

static const char *untimed(const struct field_row *at)
{
	const struct moe_row *row = at->item;

	return row->count > row->untimed ? NULL : "none was timed";
}

static struct cell share(const struct field_row *at)
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
	{ "part", "part", UNIT_TEXT, .read = part, .flexible = true },
	{ "pass", "pass", UNIT_TEXT, .read = pass },
	{ "count", "kernels", UNIT_INT, OF(count), .forms = MOE_BY_PART },
	{ "time_ns", "time", UNIT_NS, OF(time_ns), .forms = MOE_BY_PART, .absent = untimed },
	{ "share_pct", "of kernels", UNIT_PCT, .read = share, .forms = MOE_BY_PART },
	{ "comm_ns", "comm", UNIT_NS, OF(comm.time_ns), .titled = MOE_BY_COMM, .absent = no_comm },
	{ "notify_ns", "notify", UNIT_NS, OF(comm.notify_ns), .titled = MOE_BY_COMM,
	  .absent = no_comm },
	{ "overlap_ns", NULL, UNIT_NS, OF(comm.hidden_ns), .absent = no_comm },
	{ "comm_overlap_pct", "hidden", UNIT_PCT, OF(comm.hidden_pct), .titled = MOE_BY_COMM,
	  .absent = no_comm },
	{ "exposed_ns", "exposed", UNIT_NS, OF(comm.exposed_ns), .titled = MOE_BY_COMM,
	  .absent = no_comm },
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
};

#define OF_COST(member) MEMBER(struct moe_cost_row, member)

static const struct field cost_fields[] = {
	{ "short_name", "kernel", UNIT_TEXT, OF_COST(short_name), .flexible = true },
	{ "name", NULL, UNIT_TEXT, OF_COST(name) },
	{ "beside", "launches", UNIT_INT, OF_COST(beside) },
	{ "clear", NULL, UNIT_INT, OF_COST(clear) },
	{ "beside_mean_ns", "overlapped", UNIT_NS, OF_COST(beside_ns) },
	{ "clear_mean_ns", "alone", UNIT_NS, OF_COST(clear_ns) },
	{ "extra_ns", "extra", UNIT_NS, OF_COST(extra_ns) },
};

const struct field_set moe_cost_fields = {
	FIELDS(cost_fields),
	.rows = { { ITEMS(struct moe_lens, cost.rows, cost.n) } },
	.levels = 1,
};

#define OF_LAYER(member) MEMBER(struct moe_layer, member)
#define OF_PART(part) OF_LAYER(sum_ns[part]), .absent = no_part

struct moe_layers_context moe_layers_context(const struct moe_lens *moe)
{
	struct moe_layers_context context = { .any = { false } };

	for (size_t i = 0; i < moe->n_layers; i++)
		for (int p = 0; p < MOE_PARTS; p++)
			context.any[p] |= moe->layers[i].sum_ns[p] > 0;
	return context;
}

static const char *no_part(const struct field_row *at)
{
	const struct moe_layers_context *context = at->context;
	size_t which = (at->field->offset - offsetof(struct moe_layer, sum_ns)) / sizeof(int64_t);

	return context->any[which] ? NULL : "no kernel of this part has a layer";
}

static struct cell exposed(const struct field_row *at)
{
	const struct moe_lens *moe = at->in->item;
	const struct moe_layer *layer = at->item;

	return moe->comm.count ? cell_int(layer->comm_ns - layer->hidden_ns)
			       : cell_absent("no expert communication");
}

static const struct field layer_fields[] = {
	{ "number", "#", UNIT_INT, OF_LAYER(number) },
	{ "count", "kernels", UNIT_INT, OF_LAYER(count) },
	{ "attention_ns", "attention", UNIT_NS, OF_PART(MOE_ATTENTION) },
	{ "router_ns", "router", UNIT_NS, OF_PART(MOE_ROUTER) },
	{ "dispatch_ns", "dispatch", UNIT_NS, OF_PART(MOE_DISPATCH) },
	{ "experts_ns", "experts", UNIT_NS, OF_PART(MOE_EXPERTS) },
	{ "combine_ns", "combine", UNIT_NS, OF_PART(MOE_COMBINE) },
	{ "shared_ns", NULL, UNIT_NS, OF_PART(MOE_SHARED) },
	{ "rest_ns", NULL, UNIT_NS, OF_PART(MOE_REST) },
	{ "exposed_ns", "exposed", UNIT_NS, .read = exposed },
};

const struct field_set moe_layers_fields = {
	FIELDS(layer_fields),
	.rows = { { ITEMS(struct moe_lens, layers, n_layers) } },
	.levels = 1,
};
