/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication of one device; see comm.h. Pure, any thread.
 *
 * One pass over the records of the device in the order of their start measures the unions of a few
 * sets of kernels at once. What two sets share follows from their union: |A and B| = |A| + |B| -
 * |A or B|.
 */
#include "subjects/comm/comm_inside.h"

/* What of [start, end) the windows cover. */
static int64_t covered(const struct comm_sweep *s, int64_t start_ns, int64_t end_ns, size_t *hint)
{
	int64_t length = 0;

	if (end_ns <= start_ns)
		return 0;
	if (!s->governed)
		return end_ns - start_ns;
	while (*hint < s->n_windows && s->windows[*hint].end_ns <= start_ns)
		++*hint;
	for (size_t i = *hint; i < s->n_windows && s->windows[i].start_ns < end_ns; i++) {
		const struct span *w = &s->windows[i];
		int64_t from = w->start_ns > start_ns ? w->start_ns : start_ns;
		int64_t to = w->end_ns < end_ns ? w->end_ns : end_ns;

		length += to > from ? to - from : 0;
	}
	return length;
}

static void close_stretch(const struct comm_sweep *s, struct comm_stretch *u)
{
	int64_t from = u->start_ns > s->steps.start_ns ? u->start_ns : s->steps.start_ns;
	int64_t to = u->end_ns < s->steps.end_ns ? u->end_ns : s->steps.end_ns;
	size_t hint;

	u->length_ns += covered(s, u->start_ns, u->end_ns, &u->window);
	hint = u->window;
	u->in_steps_ns += covered(s, from, to, &hint);
}

static void add(const struct comm_sweep *s, struct comm_stretch *u, int64_t start_ns,
		int64_t end_ns)
{
	if (u->end_ns > u->start_ns && start_ns <= u->end_ns) {
		u->end_ns = end_ns > u->end_ns ? end_ns : u->end_ns;
		return;
	}
	close_stretch(s, u);
	u->start_ns = start_ns;
	u->end_ns = end_ns;
}

static bool is_selected(struct comm_sweep *s, enum lane_kind kind, size_t i)
{
	const struct table_kernel *kernel = &s->run->kernel;
	const struct table_copy *copy = &s->run->copy;
	const struct table_set *set = &s->run->set;
	const struct lane_table *t = &s->lanes->of[kind].table;
	const uint64_t *correlation = kind == LANE_KERNEL ? kernel->correlation
				      : kind == LANE_COPY ? copy->correlation
							  : set->correlation;
	const uint64_t *node = kind == LANE_KERNEL ? kernel->graph_node
			       : kind == LANE_COPY ? copy->graph_node
						   : set->graph_node;
	struct place place;

	if (!s->at)
		return true;
	if (!attribution_find_near(
		    s->at, &s->cursor,
		    &(struct device_work){ correlation[i], node[i], t->start_ns[i], t->shard[i] },
		    lane_call(s->at, kind, i), &place)) {
		s->comm.without_call++;
		return selection_is_all(s->sel);
	}
	return attribution_selects(s->at, s->sel, &place);
}

/* The collective record of a kernel: it began with it, on the same device, by the same call. */
static size_t record_of(struct comm_sweep *s, size_t kernel)
{
	const struct table_collective *c = &s->run->collective;
	const struct table_kernel *k = &s->run->kernel;
	int64_t start = k->start_ns[kernel];

	while (s->record < s->records_end && c->start_ns[lane_row(&s->records, s->record)] < start)
		s->record++;
	for (size_t i = s->record; i < s->records_end; i++) {
		size_t row = lane_row(&s->records, i);

		if (c->start_ns[row] != start)
			break;
		if (c->correlation[row] == k->correlation[kernel] &&
		    c->duration_ns[row] == k->duration_ns[kernel] &&
		    s->rows.row_of[row] == COMM_NO_ROW)
			return row;
	}
	return SIZE_MAX;
}

static int measure_kernel(struct comm_sweep *s, struct comm_device *d, unsigned int transport,
			  int64_t start, int64_t end)
{
	add(s, &s->unions[COMM_ALL_KERNELS], start, end);
	if (transport == COMM_NONE) {
		add(s, &s->unions[COMM_COMPUTE], start, end);
	} else {
		add(s, &s->unions[COMM_COMMUNICATION], start, end);
		add(s, &s->unions[COMM_OF_TRANSPORT + transport], start, end);
	}
	for (unsigned int t = 0; t < COMM_TRANSPORTS; t++)
		if (t != transport && s->transports & 1U << t)
			add(s, &s->unions[COMM_OTHERS + t], start, end);
	if (transport == COMM_NONE)
		return 0;
	return span_list_add(&d->when, &(struct span){ .start_ns = start,
						       .end_ns = end,
						       .device = d->device,
						       .shard = d->shard });
}

static void count_kernel(struct comm_part *part, int64_t duration_ns, bool untimed)
{
	part->count++;
	part->untimed += untimed;
	part->sum_ns += untimed ? 0 : duration_ns;
}

/* Counts a kernel that communicates; *ret_transport: what every kernel is. */
static int add_kernel(struct comm_sweep *s, struct comm_device *d, size_t i,
		      unsigned int *ret_transport)
{
	const struct table_kernel *k = &s->run->kernel;
	size_t record = s->records_end ? record_of(s, i) : SIZE_MAX;
	struct comm_launch launch;
	int r = comm_names_launch(&s->rows.names, k->launch[i], &launch);

	if (r < 0)
		return r;
	if (record != SIZE_MAX && launch.transport == COMM_NONE)
		launch.transport = COMM_OTHER;
	*ret_transport = launch.transport;
	if (launch.transport == COMM_NONE)
		return 0;
	count_kernel(&d->all, k->duration_ns[i], k->untimed[i]);
	count_kernel(&d->of[launch.transport], k->duration_ns[i], k->untimed[i]);
	if (record == SIZE_MAX)
		return comm_rows_kernel(&s->rows, &launch, i);
	s->comm.records++;
	return comm_rows_record(&s->rows, (enum comm_transport)launch.transport, record,
				k->untimed[i]);
}

static int add_work(struct comm_sweep *s, struct comm_device *d, enum lane_kind kind, size_t row)
{
	const struct lane_table *t = &s->lanes->of[kind].table;
	int64_t start = t->start_ns[row], end = start + t->duration_ns[row];
	unsigned int transport = COMM_NONE;
	bool timed = !t->untimed[row] && end > start;
	int r;

	if (!is_selected(s, kind, row))
		return 0;
	if (kind == LANE_KERNEL) {
		r = add_kernel(s, d, row, &transport);
		if (r < 0)
			return r;
		if (timed)
			r = measure_kernel(s, d, transport, start, end);
		if (r < 0)
			return r;
	}
	if (timed) {
		add(s, &s->unions[COMM_ALL_WORK], start, end);
		s->first_ns = start < s->first_ns ? start : s->first_ns;
		s->last_ns = end > s->last_ns ? end : s->last_ns;
	}
	return 0;
}

/* All records of the device, by their start. */
static int sweep_device(struct comm_sweep *s, struct comm_device *d)
{
	size_t at[LANE_KINDS] = { 0 }, end[LANE_KINDS] = { 0 };
	const struct lane *records = lane_find(&s->records, d->shard, d->device);
	int r = 0;

	s->record = records ? records->first : 0;
	s->records_end = records ? records->end : 0;
	for (int k = 0; k < LANE_KINDS; k++) {
		const struct lane *lane = lane_find(&s->lanes->of[k], d->shard, d->device);

		at[k] = lane ? lane->first : 0;
		end[k] = lane ? lane->end : 0;
	}
	while (r >= 0) {
		int first = -1;
		size_t first_row = 0;

		for (int k = 0; k < LANE_KINDS; k++) {
			size_t row;

			if (at[k] == end[k])
				continue;
			row = lane_row(&s->lanes->of[k], at[k]);
			if (first >= 0 && s->lanes->of[k].table.start_ns[row] >=
						  s->lanes->of[first].table.start_ns[first_row])
				continue;
			first = k;
			first_row = row;
		}
		if (first < 0)
			break;
		at[first]++;
		r = add_work(s, d, (enum lane_kind)first, first_row);
	}
	return r;
}

/* From the begin of the first chosen step of the process to the end of the last one. */
static struct span steps_of(const struct comm_sweep *s, uint16_t shard)
{
	const struct table_step *step = &s->run->step;
	struct span steps = { 0 };
	bool any = false;

	for (size_t i = 0; i < step->n; i++) {
		int64_t end = step->start_ns[i] + step->duration_ns[i];

		if (step->shard[i] != shard || step->unfinished[i] ||
		    !selection_has_step(s->sel, step->step[i]))
			continue;
		steps.start_ns = any && steps.start_ns < step->start_ns[i] ? steps.start_ns
									   : step->start_ns[i];
		steps.end_ns = any && steps.end_ns > end ? steps.end_ns : end;
		any = true;
	}
	return steps;
}

static void put_part(struct comm_part *part, const struct comm_stretch *these,
		     const struct comm_stretch *others, const struct comm_stretch *both)
{
	part->time_ns = these->length_ns;
	part->others_ns = others->length_ns;
	part->overlap_ns = these->length_ns + others->length_ns - both->length_ns;
	part->exposed_ns = both->length_ns - others->length_ns;
	part->overlap_pct = comm_share(part->overlap_ns, part->time_ns,
				       "no communication was timed");
}

static void put_device(struct comm_sweep *s, struct comm_device *d)
{
	const struct comm_stretch *u = s->unions;
	size_t hint = 0;
	int64_t window = covered(s, s->first_ns, s->last_ns, &hint);

	put_part(&d->all, &u[COMM_COMMUNICATION], &u[COMM_COMPUTE], &u[COMM_ALL_KERNELS]);
	for (int t = 0; t < COMM_TRANSPORTS; t++)
		put_part(&d->of[t], &u[COMM_OF_TRANSPORT + t],
			 s->transports & 1U << t ? &u[COMM_OTHERS + t] : &u[COMM_ALL_KERNELS],
			 &u[COMM_ALL_KERNELS]);
	d->busy_ns = u[COMM_ALL_WORK].length_ns;
	d->non_compute_ns = d->busy_ns - d->all.others_ns;
	d->idle_ns = value_absent("none of its records has a time");
	/* A part of the steps has no window of its own. */
	if (s->sel->layer >= 0 || s->sel->phase >= 0)
		d->idle_ns = value_absent("only a layer or phase was chosen");
	else if (s->last_ns > s->first_ns)
		d->idle_ns = value_of((double)(window - d->busy_ns));
	d->window_ns = d->idle_ns.known ? value_of((double)window) : d->idle_ns;
	d->exposed_window_pct = d->window_ns.known ? comm_share(d->all.exposed_ns, window,
								"no time was recorded")
						   : d->window_ns;
	hint = 0;
	d->of_steps = s->steps.end_ns > s->steps.start_ns;
	d->step_window_ns = d->of_steps ? covered(s, s->steps.start_ns, s->steps.end_ns, &hint)
					: window;
	d->step_exposed_ns = d->of_steps
				     ? u[COMM_ALL_KERNELS].in_steps_ns - u[COMM_COMPUTE].in_steps_ns
				     : d->all.exposed_ns;
	d->exposed_pct = comm_share(d->step_exposed_ns, d->step_window_ns, "no time was recorded");
}

static bool is_governed(const struct run *run, uint16_t shard)
{
	for (size_t i = 0; i < run->gear.n; i++)
		if (run->gear.shard[i] == shard)
			return true;
	return false;
}

int comm_device_measure(struct comm_sweep *s, struct comm_device *d)
{
	struct span lane = { .shard = d->shard };
	int r;

	s->governed = is_governed(s->run, d->shard);
	s->windows = spans_lane(s->coverage.windows, s->coverage.n_windows, &lane, &s->n_windows);
	s->steps = steps_of(s, d->shard);
	s->first_ns = INT64_MAX;
	s->last_ns = INT64_MIN;
	for (int i = 0; i < COMM_UNIONS; i++)
		s->unions[i] = (struct comm_stretch){ 0 };
	r = sweep_device(s, d);
	for (int i = 0; i < COMM_UNIONS; i++)
		close_stretch(s, &s->unions[i]);
	put_device(s, d);
	return r;
}
