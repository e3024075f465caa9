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
	{ "present", NULL, UNIT_INT, .read = present },
	{ "count", NULL, UNIT_INT, OF_ALL(comm.count) },
	{ "kernels_ns", NULL, UNIT_NS, OF_ALL(kernels_ns), .absent = none },
	{ "comm_ns", NULL, UNIT_NS, OF_ALL(comm.time_ns) },
	{ "notify_ns", NULL, UNIT_NS, OF_ALL(comm.notify_ns) },
	{ "overlap_ns", NULL, UNIT_NS, OF_ALL(comm.hidden_ns) },
	{ "exposed_ns", NULL, UNIT_NS, OF_ALL(comm.exposed_ns) },
	{ "two_batch_ns", NULL, UNIT_NS, OF_ALL(comm.two_batch_ns) },
	{ "beside_forward_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_FORWARD]) },
	{ "beside_backward_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_BACKWARD]) },
	{ "beside_weight_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_WEIGHT]) },
	{ "beside_unknown_ns", NULL, UNIT_NS, OF_ALL(comm.beside_ns[MOE_UNKNOWN]) },
	{ "comm_overlap_pct", NULL, UNIT_PCT, OF_ALL(comm.hidden_pct), .absent = none },
	{ "two_batch_pct", NULL, UNIT_PCT, OF_ALL(two_batch_pct), .absent = none },
	{ "overlap_kind", NULL, UNIT_TEXT, .read = overlap_kind },
	{ "precision", NULL, UNIT_TEXT, .read = precision },
	{ "compared", NULL, UNIT_INT, OF_ALL(cost.compared) },
	{ "extra_ns", NULL, UNIT_NS, OF_ALL(cost.extra_ns), .absent = none },
	{ "slower_pct", NULL, UNIT_PCT, OF_ALL(cost.slower_pct), .absent = none },
	{ "layers_by", NULL, UNIT_TEXT, .read = layers_by },
	{ "cost", .of = &cost },
	{ "layers", .of = &layers },
};

const struct field_set moe_total = { FIELDS(total_fields) };
