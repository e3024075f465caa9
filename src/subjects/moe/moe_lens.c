/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a mixture of experts on the devices; see moe_lens.h. Pure, one thread.
 *
 * Kernels of a device come by their start, so that each set of them is merged as it grows. What lies
 * beside communication is looked at afterwards, when all of it is known.
 */
#include "subjects/moe/moe_lens.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "device/sheets/kernel_class.h"
#include "moescope.h"
#include "subjects/moe/moe_lens_inside.h"

/* Below this share of the communication an overlap with another batch is chance. */
#define TWO_BATCH_PCT 20
#define BESIDE 0.9
#define CLEAR 0.1
#define LAYERS_MOST 4096
#define SAMPLES_MOST ((size_t)1 << 18)

struct layers {
	struct moe_layer *of; /* by number */
	size_t n, capacity;
	bool too_many;
};

/* A kernel that communicates, until it is known what ran beside it. */
struct moved {
	int64_t start_ns, end_ns;
	int64_t layer, order; /* -1: none */
};

struct lens {
	const struct run *run;
	const struct attribution *at;
	const struct selection *sel;
	struct moe_names names;
	struct moe_places places;
	struct attribution_cursor cursor;
	struct moe_lens out;
	bool expert;			/* some kernel may communicate for experts */
	bool certain;			/* a kernel of a mixture of experts was met */
	int64_t other_ns, attention_ns; /* of communication beside them */
	int64_t precision_ns[MOE_PRECISIONS];
	struct layers by_range, by_order;
	uint32_t most_order[MOE_PARTS];
	struct moe_sample *samples;
	size_t n_samples, samples_capacity;
	/* Of the device at hand. */
	struct moe_sets sets;
	struct span_list comm, compute; /* when `expert` */
	struct moved *moved;
	size_t n_moved, moved_capacity;
	size_t first_sample;
	bool after_experts;
};

const char *moe_part_name(enum moe_part part)
{
	static const char *const names[] = { "attention", "router",	   "dispatch", "experts",
					     "combine",	  "shared expert", "rest" };

	return names[part];
}

const char *moe_pass_name(enum moe_pass pass)
{
	static const char *const names[] = { "forward", "backward", "weight", "unknown" };

	return names[pass];
}

const char *moe_overlap_name(enum moe_overlap overlap)
{
	static const char *const names[] = { "none", "forward beside backward",
					     "two micro-batches" };

	return names[overlap];
}

static int add_to_set(struct span_list *set, int64_t start_ns, int64_t end_ns)
{
	return span_list_add(set, &(struct span){ .start_ns = start_ns, .end_ns = end_ns });
}

/* What of [start, end) the set covers; those asked for come by their start. */
static int64_t covered_by_set(const struct span_list *set, int64_t start_ns, int64_t end_ns,
			      size_t *hint)
{
	int64_t sum = 0;

	while (*hint < set->n && set->spans[*hint].end_ns <= start_ns)
		++*hint;
	for (size_t i = *hint; i < set->n && set->spans[i].start_ns < end_ns; i++) {
		int64_t from = set->spans[i].start_ns > start_ns ? set->spans[i].start_ns
								 : start_ns;
		int64_t to = set->spans[i].end_ns < end_ns ? set->spans[i].end_ns : end_ns;

		sum += to - from;
	}
	return sum;
}

/* One kernel with all that is known of it. */
struct seen {
	size_t row;
	int64_t start_ns, end_ns;
	struct moe_kernel kernel;
	struct moe_place place;
	uint8_t part, pass;
	bool timed, comm;
	size_t step;
};

static uint8_t part_of(struct lens *l, struct seen *s)
{
	const struct moe_kernel *kernel = &s->kernel;
	uint8_t around = s->place.part;
	bool moving = around == MOE_DISPATCH || around == MOE_COMBINE;

	s->comm = kernel->expert || (kernel->moves && moving);
	if (moving)
		return around;
	if (kernel->moves && !kernel->expert && around != MOE_ATTENTION &&
	    (kernel->all_to_all || s->place.all_to_all)) {
		s->comm = true;
		return l->after_experts == (s->pass != MOE_BACKWARD) ? MOE_COMBINE : MOE_DISPATCH;
	}
	if (kernel->moves && !kernel->expert)
		return MOE_REST;
	if (kernel->part != MOE_PARTS && (kernel->decides || around == MOE_PARTS))
		return kernel->part;
	return around == MOE_PARTS ? MOE_REST : around;
}

static uint8_t pass_of(const struct lens *l, const struct seen *s, const struct place *place)
{
	if (s->place.pass != MOE_PASSES)
		return s->place.pass;
	if (place->phase == MOESCOPE_OPTIMIZER || place->phase == MOESCOPE_DATA)
		return MOE_UNKNOWN;
	if (place->phase == MOESCOPE_BACKWARD)
		return MOE_BACKWARD;
	if (place->phase)
		return MOE_FORWARD;
	if (s->kernel.pass != MOE_PASSES)
		return s->kernel.pass;
	if (!l->places.backward)
		return MOE_FORWARD;
	return place->range == NO_RANGE && !s->place.module ? MOE_UNKNOWN : MOE_FORWARD;
}

/* False: the kernel was not selected. */
static int locate_kernel(struct lens *l, size_t row, struct seen *s, bool *ret_selected)
{
	const struct table_kernel *k = &l->run->kernel;
	struct place place = { .layer = -1, .expert = -1, .step = NO_STEP, .range = NO_RANGE };
	uint32_t call = lane_call(l->at, LANE_KERNEL, row);
	bool found = attribution_find_near(l->at, &l->cursor,
					   &(struct device_work){ k->correlation[row],
								  k->graph_node[row],
								  k->start_ns[row], k->shard[row] },
					   call, &place);
	int r;

	*ret_selected = found ? attribution_selects(l->at, l->sel, &place)
			      : selection_is_all(l->sel);
	if (!*ret_selected)
		return 0;
	*s = (struct seen){ .row = row, .start_ns = k->start_ns[row], .step = place.step };
	s->end_ns = s->start_ns + k->duration_ns[row];
	s->timed = !k->untimed[row] && s->end_ns > s->start_ns;
	r = moe_names_kernel(&l->names, k->launch[row], &s->kernel);
	if (r < 0)
		return r;
	/* A graph's node says its range; no thread was in it. */
	s->place = moe_places_find(&l->places, place.range, k->graph_node[row] ? NO_CALL32 : call);
	s->pass = pass_of(l, s, &place);
	s->part = part_of(l, s);
	if (place.layer >= 0)
		s->place.layer = place.layer;
	return 0;
}

static int grow_layers(struct layers *layers, int64_t number)
{
	size_t need = (size_t)number + 1;

	if (need > LAYERS_MOST) {
		layers->too_many = true;
		return 0;
	}
	if (array_grow(&layers->of, &layers->capacity, need, sizeof(*layers->of)) < 0)
		return -ENOMEM;
	for (; layers->n < need; layers->n++)
		layers->of[layers->n] = (struct moe_layer){ .number = (int64_t)layers->n };
	return 0;
}

static int add_to_layer(struct layers *layers, int64_t number, const struct seen *s)
{
	int r = grow_layers(layers, number);
	struct moe_layer *layer;

	if (r < 0 || layers->too_many)
		return r;
	layer = &layers->of[number];
	layer->count++;
	layer->sum_ns[s->part] = ns_sum(layer->sum_ns[s->part], s->end_ns - s->start_ns);
	return 0;
}

static int add_layers(struct lens *l, const struct seen *s)
{
	int r = s->place.layer >= 0 ? add_to_layer(&l->by_range, s->place.layer, s) : 0;

	if (s->place.named == MOE_NO_NAMED || r < 0)
		return r;
	if (s->place.order > l->most_order[s->place.part])
		l->most_order[s->place.part] = s->place.order;
	return add_to_layer(&l->by_order, s->place.order, s);
}

static int add_comm(struct lens *l, const struct seen *s)
{
	int r = add_to_set(&l->comm, s->start_ns, s->end_ns);

	if (r >= 0)
		r = array_grow(&l->moved, &l->moved_capacity, l->n_moved + 1, sizeof(*l->moved));
	if (r < 0)
		return r;
	moe_sets_comm(&l->sets, s->part, s->pass, s->kernel.notify, s->start_ns, s->end_ns);
	l->moved[l->n_moved++] =
		(struct moved){ s->start_ns, s->end_ns, s->place.layer,
				s->place.named == MOE_NO_NAMED ? -1 : (int64_t)s->place.order };
	return 0;
}

static int add_place_sample(struct lens *l, const struct seen *s)
{
	const struct nested *named = s->place.named == MOE_NO_NAMED
					     ? NULL
					     : &l->at->ranges[s->place.named];
	struct site site = { 0 };

	if (l->n_samples == SAMPLES_MOST || (!named && s->step == NO_STEP))
		return 0;
	if (named)
		site = run_site(l->run, named->is_op ? l->run->op.site[named->row]
						     : l->run->range.site[named->row]);
	if (array_grow(&l->samples, &l->samples_capacity, l->n_samples + 1, sizeof(*l->samples)) <
	    0)
		return -ENOMEM;
	l->samples[l->n_samples++] = (struct moe_sample){
		.launch = l->run->kernel.launch[s->row],
		.site = site.name,
		.instance = named ? s->place.named : s->step,
		.start_ns = s->start_ns,
		.duration_ns = s->end_ns - s->start_ns,
	};
	return 0;
}

/* Kernels come by their start: what has ended beside no communication so far never will be beside any.
 * Most of a long run is that, and is not kept. */
static void forget_alone(struct span_list *compute, const struct span_list *comm, int64_t now_ns)
{
	int64_t comm_end_ns = comm->n ? comm->spans[comm->n - 1].end_ns : INT64_MIN;

	while (compute->n && compute->spans[compute->n - 1].end_ns <= now_ns &&
	       compute->spans[compute->n - 1].start_ns >= comm_end_ns)
		compute->n--;
}

static int add_compute(struct lens *l, const struct seen *s)
{
	int64_t *precision_ns = &l->precision_ns[s->kernel.precision];
	int r;

	moe_sets_compute(&l->sets, s->part, s->pass, s->start_ns, s->end_ns);
	if (s->part == MOE_EXPERTS && s->kernel.product)
		*precision_ns = ns_sum(*precision_ns, s->end_ns - s->start_ns);
	if (!l->expert)
		return 0;
	forget_alone(&l->compute, &l->comm, s->start_ns);
	r = add_to_set(&l->compute, s->start_ns, s->end_ns);
	return r < 0 ? r : add_place_sample(l, s);
}

static int add_moe_kernel(struct lens *l, size_t row)
{
	struct moe_row *sum;
	struct seen s;
	bool selected;
	int r = locate_kernel(l, row, &s, &selected);

	if (r < 0 || !selected)
		return r;
	if (s.part == MOE_EXPERTS)
		l->after_experts = true;
	else if (s.part == MOE_ROUTER || s.part == MOE_ATTENTION)
		l->after_experts = false;
	l->certain |= s.kernel.certain || s.place.certain;
	sum = &l->out.rows[s.part][s.pass];
	sum->count++;
	sum->untimed += !s.timed;
	sum->comm.count += s.comm;
	l->out.comm.count += s.comm;
	if (!s.timed)
		return 0;
	moe_sets_kernel(&l->sets, s.part, s.pass, s.start_ns, s.end_ns);
	r = add_layers(l, &s);
	if (r >= 0 && s.comm)
		r = add_comm(l, &s);
	if (r >= 0 && !s.kernel.moves)
		r = add_compute(l, &s);
	return r;
}

static void put_moved(struct layers *layers, int64_t number, const struct moved *m, int64_t hidden)
{
	struct moe_layer *layer;

	if (number < 0 || (size_t)number >= layers->n)
		return;
	layer = &layers->of[number];
	layer->comm_ns = ns_sum(layer->comm_ns, m->end_ns - m->start_ns);
	layer->hidden_ns = ns_sum(layer->hidden_ns, hidden);
}

/* What needs all of the device to be known. */
static void look_beside(struct lens *l)
{
	size_t hint = 0;

	for (size_t i = 0; i < l->n_moved; i++) {
		const struct moved *m = &l->moved[i];
		int64_t hidden = covered_by_set(&l->compute, m->start_ns, m->end_ns, &hint);

		put_moved(&l->by_range, m->layer, m, hidden);
		put_moved(&l->by_order, m->order, m, hidden);
	}
	hint = 0;
	for (size_t i = l->first_sample; i < l->n_samples; i++) {
		struct moe_sample *s = &l->samples[i];
		double share = (double)covered_by_set(&l->comm, s->start_ns,
						      s->start_ns + s->duration_ns, &hint) /
			       (double)s->duration_ns;

		s->beside = share >= BESIDE ? 1 : share <= CLEAR ? 0 : -1;
	}
}

static int measure_device(struct lens *l, const struct lane_order *order, const struct lane *lane)
{
	int r = 0;

	l->sets = (struct moe_sets){ 0 };
	l->comm.n = l->compute.n = 0;
	l->n_moved = 0;
	l->first_sample = l->n_samples;
	l->after_experts = false;
	for (size_t i = lane->first; r >= 0 && i < lane->end; i++)
		r = add_moe_kernel(l, lane_row(order, i));
	if (r < 0)
		return r;
	moe_sets_put(&l->sets, &l->out, &l->other_ns, &l->attention_ns);
	look_beside(l);
	return 0;
}

/* What the names of all kernels tell before any is placed. */
static int look_at_names(struct lens *l)
{
	const struct table_kernel *k = &l->run->kernel;
	struct moe_kernel kernel;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < k->n; i++) {
		if (i && k->launch[i] == k->launch[i - 1])
			continue;
		r = moe_names_kernel(&l->names, k->launch[i], &kernel);
		if (r < 0)
			break;
		l->expert |= kernel.moves;
		l->places.certain |= kernel.certain;
		l->places.backward |= kernel.pass == MOE_BACKWARD || kernel.pass == MOE_WEIGHT;
	}
	return r;
}

static struct value share_or_absent(int64_t part, int64_t whole, const char *reason)
{
	return whole > 0 ? value_of(100.0 * (double)part / (double)whole) : value_absent(reason);
}

static void put_overlap(struct lens *l)
{
	static const char *const none = "no expert communication was timed";
	struct moe_comm *all = &l->out.comm;

	for (unsigned int part = 0; part < MOE_PARTS; part++)
		for (unsigned int pass = 0; pass < MOE_PASSES; pass++) {
			struct moe_comm *comm = &l->out.rows[part][pass].comm;

			comm->hidden_pct = share_or_absent(comm->hidden_ns, comm->time_ns, none);
			all->two_batch_ns = ns_sum(all->two_batch_ns, comm->two_batch_ns);
		}
	all->hidden_pct = share_or_absent(all->hidden_ns, all->time_ns, none);
	l->out.two_batch_pct = share_or_absent(all->two_batch_ns, all->time_ns, none);
	if (l->out.two_batch_pct.known && l->out.two_batch_pct.v >= TWO_BATCH_PCT)
		l->out.overlap = l->other_ns >= l->attention_ns ? MOE_FORWARD_BACKWARD
								: MOE_TWO_BATCHES;
}

/* Ranges without numbers: the parts must run equally often, or the n-th of each are not of one layer. */
static const char *why_no_order(const struct lens *l)
{
	uint32_t times = 0;

	if (!l->most_order[MOE_EXPERTS] && !l->most_order[MOE_DISPATCH] &&
	    !l->most_order[MOE_COMBINE])
		return "no range names a layer or a part";
	if (l->by_order.too_many)
		return "the ranges have no layer number and the run has no steps";
	for (int part = 0; part < MOE_PARTS; part++) {
		if (!l->most_order[part] || part == MOE_ROUTER || part == MOE_SHARED)
			continue;
		if (times && l->most_order[part] != times)
			return "the ranges of the parts do not occur equally often in a step";
		times = l->most_order[part];
	}
	return NULL;
}

/* Layers of attention alone say nothing of a mixture of experts. */
static bool has_experts(const struct layers *layers)
{
	for (size_t i = 0; i < layers->n; i++)
		if (layers->of[i].sum_ns[MOE_EXPERTS] || layers->of[i].sum_ns[MOE_DISPATCH] ||
		    layers->of[i].sum_ns[MOE_COMBINE])
			return true;
	return false;
}

static void put_layers(struct lens *l)
{
	struct layers *from = &l->by_range;
	size_t n = 0;

	l->out.layers_by = "ranges";
	if (!has_experts(from) || from->too_many) {
		from = &l->by_order;
		l->out.layers_by = "order";
		l->out.layers_none = why_no_order(l);
	}
	for (size_t i = 0; i < from->n && !l->out.layers_none; i++)
		if (from->of[i].count)
			from->of[n++] = from->of[i];
	for (size_t i = 0; i < n; i++)
		for (int part = 0; part < MOE_PARTS; part++)
			l->out.layers_with[part] |= from->of[i].sum_ns[part] > 0;
	l->out.n_layers = n;
	l->out.layers = from->of;
	from->of = NULL;
}

static void put_rest(struct lens *l)
{
	const struct moe_row *shared = l->out.rows[MOE_SHARED];
	unsigned int most = 0;
	uint64_t count = 0, experts = 0;

	for (unsigned int i = 1; i < MOE_PRECISIONS; i++)
		if (l->precision_ns[i] > l->precision_ns[most])
			most = i;
	l->out.precision = moe_precision_name(most);
	for (int pass = 0; pass < MOE_PASSES; pass++) {
		count += shared[pass].count;
		experts += l->out.rows[MOE_EXPERTS][pass].count;
	}
	if (!count && experts)
		l->out.shared_none = "shared expert: no range names one; its time, if any, is in "
				     "experts or rest";
}

static int build_lens(struct lens *l, const struct lane_order *order)
{
	int r = moe_places_init(&l->places, l->at, &l->names);

	l->cursor = (struct attribution_cursor){ l->at->n_ranges, l->at->steps.n, l->at->n_ranges };
	if (r >= 0)
		r = look_at_names(l);
	/* Most runs are of dense models: they pay for names alone. */
	if (r < 0 || !l->places.certain)
		return r;
	for (size_t i = 0; r >= 0 && i < order->n; i++)
		r = measure_device(l, order, &order->lanes[i]);
	if (r >= 0)
		r = moe_cost_measure(&l->names, l->samples, l->n_samples, &l->out.cost);
	if (r < 0)
		return r;
	put_overlap(l);
	put_layers(l);
	put_rest(l);
	return 0;
}

static void release(struct lens *l)
{
	free(l->comm.spans);
	free(l->compute.spans);
	free(l->moved);
	free(l->samples);
	free(l->by_range.of);
	free(l->by_order.of);
	moe_places_release(&l->places);
	moe_names_release(&l->names);
}

int moe_lens_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
			const struct selection *sel, const struct kernel_classes *classes,
			struct moe_lens *ret_lens)
{
	struct lens l = { .run = at->run, .at = at, .sel = sel };
	struct kernel_classes *own = NULL;
	int r;

	if (!at->run->kernel.n) {
		*ret_lens = (struct moe_lens){ .reason = "no kernels in this run" };
		return 0;
	}
	r = classes ? 0 : kernel_classes_new(NULL, &own, NULL);
	if (r >= 0)
		r = moe_names_init(&l.names, at->run, own ? own : classes);
	if (r >= 0)
		r = build_lens(&l, &lanes->of[LANE_KERNEL]);
	release(&l);
	kernel_classes_free(own);
	if (r < 0 || !l.certain) {
		moe_lens_release(&l.out);
		l.out.reason = "no mixture-of-experts kernels or ranges found";
	}
	if (r >= 0)
		*ret_lens = l.out;
	return r;
}

void moe_lens_release(struct moe_lens *lens)
{
	free(lens->layers);
	moe_cost_release(&lens->cost);
	*lens = (struct moe_lens){ 0 };
}
