/* SPDX-License-Identifier: Apache-2.0
 *
 * Lengths of sets of kernels of one device, for the MoE lens; see moe_lens.h. Pure, one thread.
 *
 * Kernels come by their start, so that the length of a union needs only its last stretch. What two sets
 * share follows from their union: |A and B| = |A| + |B| - |A or B|. Unions with communication are kept
 * from the first kernel of its row on: until then the union is the other set.
 */
#include "subjects/moe/moe_lens_inside.h"

static void add_stretch(struct moe_stretch *u, int64_t start_ns, int64_t end_ns)
{
	if (u->end_ns > u->start_ns && start_ns <= u->end_ns) {
		u->end_ns = end_ns > u->end_ns ? end_ns : u->end_ns;
		return;
	}
	u->closed_ns += u->end_ns - u->start_ns;
	u->start_ns = start_ns;
	u->end_ns = end_ns;
}

static int64_t length(const struct moe_stretch *u)
{
	return u->closed_ns + u->end_ns - u->start_ns;
}

/* Whether work of one pass is of another batch than communication of the other pass. */
static bool is_other_pass(unsigned int comm, unsigned int work)
{
	return (comm == MOE_FORWARD && (work == MOE_BACKWARD || work == MOE_WEIGHT)) ||
	       (comm == MOE_BACKWARD && work == MOE_FORWARD);
}

/* The set of compute that union `with` of communication of a pass is with. */
static const struct moe_stretch *compute_set(const struct moe_sets *sets, unsigned int with,
					     unsigned int pass)
{
	switch (with) {
	case MOE_WITH_COMPUTE:
		return &sets->compute;
	case MOE_WITH_OTHER:
		return &sets->other[pass];
	case MOE_WITH_ATTENTION:
		return &sets->attention[pass];
	case MOE_WITH_BATCH:
		return &sets->batch[pass];
	default:
		return &sets->pass[with - MOE_WITH_PASS];
	}
}

static void add_comm_row(struct moe_sets *sets, struct moe_comm_sets *row, unsigned int pass,
			 int64_t start_ns, int64_t end_ns)
{
	for (unsigned int with = 0; with < MOE_WITHS; with++) {
		if (!row->any)
			row->with[with] = *compute_set(sets, with, pass);
		add_stretch(&row->with[with], start_ns, end_ns);
	}
	row->any = true;
	add_stretch(&row->comm, start_ns, end_ns);
}

void moe_sets_comm(struct moe_sets *sets, enum moe_part part, enum moe_pass pass, bool notify,
		   int64_t start_ns, int64_t end_ns)
{
	struct moe_comm_sets *row = &sets->rows[part == MOE_COMBINE][pass];

	add_comm_row(sets, row, pass, start_ns, end_ns);
	add_comm_row(sets, &sets->all, MOE_UNKNOWN, start_ns, end_ns);
	if (!notify)
		return;
	add_stretch(&row->notify, start_ns, end_ns);
	add_stretch(&sets->all.notify, start_ns, end_ns);
}

static void add_compute(struct moe_comm_sets *row, unsigned int row_pass, enum moe_part part,
			enum moe_pass pass, int64_t start_ns, int64_t end_ns)
{
	bool other = is_other_pass(row_pass, pass);
	bool attention = part == MOE_ATTENTION && pass == row_pass;

	if (!row->any)
		return;
	add_stretch(&row->with[MOE_WITH_COMPUTE], start_ns, end_ns);
	add_stretch(&row->with[MOE_WITH_PASS + pass], start_ns, end_ns);
	if (other)
		add_stretch(&row->with[MOE_WITH_OTHER], start_ns, end_ns);
	if (attention)
		add_stretch(&row->with[MOE_WITH_ATTENTION], start_ns, end_ns);
	if (other || attention)
		add_stretch(&row->with[MOE_WITH_BATCH], start_ns, end_ns);
}

void moe_sets_compute(struct moe_sets *sets, enum moe_part part, enum moe_pass pass,
		      int64_t start_ns, int64_t end_ns)
{
	add_stretch(&sets->compute, start_ns, end_ns);
	add_stretch(&sets->pass[pass], start_ns, end_ns);
	for (unsigned int p = 0; p < MOE_PASSES; p++) {
		bool other = is_other_pass(p, pass);
		bool attention = part == MOE_ATTENTION && p == pass;

		if (other)
			add_stretch(&sets->other[p], start_ns, end_ns);
		if (attention)
			add_stretch(&sets->attention[p], start_ns, end_ns);
		if (other || attention)
			add_stretch(&sets->batch[p], start_ns, end_ns);
		for (int combine = 0; combine < 2; combine++)
			add_compute(&sets->rows[combine][p], p, part, pass, start_ns, end_ns);
	}
	add_compute(&sets->all, MOE_UNKNOWN, part, pass, start_ns, end_ns);
}

void moe_sets_kernel(struct moe_sets *sets, enum moe_part part, enum moe_pass pass,
		     int64_t start_ns, int64_t end_ns)
{
	add_stretch(&sets->kernels, start_ns, end_ns);
	add_stretch(&sets->of[part][pass], start_ns, end_ns);
}

static int64_t beside(const struct moe_sets *sets, const struct moe_comm_sets *row,
		      unsigned int with, unsigned int pass)
{
	if (!row->any)
		return 0;
	return length(&row->comm) + length(compute_set(sets, with, pass)) -
	       length(&row->with[with]);
}

static void put_comm(const struct moe_sets *sets, const struct moe_comm_sets *row,
		     unsigned int pass, struct moe_comm *comm)
{
	int64_t hidden = beside(sets, row, MOE_WITH_COMPUTE, pass);

	comm->time_ns = ns_sum(comm->time_ns, length(&row->comm));
	comm->notify_ns = ns_sum(comm->notify_ns, length(&row->notify));
	comm->hidden_ns = ns_sum(comm->hidden_ns, hidden);
	comm->exposed_ns = ns_sum(comm->exposed_ns, length(&row->comm) - hidden);
	for (unsigned int p = 0; p < MOE_PASSES; p++)
		comm->beside_ns[p] = ns_sum(comm->beside_ns[p],
					    beside(sets, row, MOE_WITH_PASS + p, pass));
}

void moe_sets_put(const struct moe_sets *sets, struct moe_lens *lens, int64_t *other_ns,
		  int64_t *attention_ns)
{
	lens->kernels_ns = ns_sum(lens->kernels_ns, length(&sets->kernels));
	put_comm(sets, &sets->all, MOE_UNKNOWN, &lens->comm);
	for (unsigned int part = 0; part < MOE_PARTS; part++)
		for (unsigned int pass = 0; pass < MOE_PASSES; pass++) {
			struct moe_row *row = &lens->rows[part][pass];

			row->time_ns = ns_sum(row->time_ns, length(&sets->of[part][pass]));
		}
	for (unsigned int i = 0; i < 2 * MOE_PASSES; i++) {
		unsigned int pass = i % MOE_PASSES;
		const struct moe_comm_sets *from = &sets->rows[i / MOE_PASSES][pass];
		struct moe_comm *comm =
			&lens->rows[i / MOE_PASSES ? MOE_COMBINE : MOE_DISPATCH][pass].comm;

		put_comm(sets, from, pass, comm);
		comm->two_batch_ns = ns_sum(comm->two_batch_ns,
					    beside(sets, from, MOE_WITH_BATCH, pass));
		*other_ns = ns_sum(*other_ns, beside(sets, from, MOE_WITH_OTHER, pass));
		*attention_ns = ns_sum(*attention_ns, beside(sets, from, MOE_WITH_ATTENTION, pass));
	}
}
