/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication of all devices; see comm.h. Pure, any thread.
 *
 * One pass over the records of a device in the order of their start measures the unions of a few sets of
 * kernels at once. What two sets share follows from their union: |A and B| = |A| + |B| - |A or B|.
 */
#include "subjects/comm/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "device/sheets/kernel_class.h"
#include "subjects/comm/comm_rows.h"
#include "subjects/shared/attribution.h"
#include "subjects/shared/coverage.h"
#include "subjects/shared/lanes.h"

/* The union of intervals that come by their start, as far as it lies in the windows of records. */
struct stretch {
	int64_t start_ns, end_ns; /* the last one, which may still grow; empty: none */
	int64_t length_ns, in_steps_ns;
	size_t window; /* where the last one was found */
};

/* Unions of a device. Those of UNION_OTHERS are of all kernels that are not of the transport. */
enum {
	UNION_ALL_WORK,
	UNION_ALL_KERNELS,
	UNION_COMPUTE,
	UNION_COMMUNICATION,
	UNION_OF_TRANSPORT,
	UNION_OTHERS = UNION_OF_TRANSPORT + COMM_TRANSPORTS,
	UNIONS = UNION_OTHERS + COMM_TRANSPORTS,
};

struct sweep {
	const struct run *run;
	const struct selection *sel;
	const struct attribution *at; /* NULL: everything is selected */
	const struct device_lanes *lanes;
	const struct kernel_classes *classes;
	unsigned int transports; /* bit of each that any kernel may be of */
	struct attribution_cursor cursor;
	struct coverage coverage;
	struct lane_order records; /* collective records by device and start */
	struct comm_rows rows;
	struct comm comm;
	/* Of the device at hand. */
	bool governed; /* only what the windows cover counts */
	const struct span *windows;
	size_t n_windows;
	struct span steps; /* empty: none */
	struct stretch unions[UNIONS];
	int64_t first_ns, last_ns;  /* of its selected records */
	size_t record, records_end; /* the next of them that a kernel may have */
};

static struct value share_pct(int64_t part, int64_t whole, const char *reason)
{
	return whole > 0 ? value_of(100.0 * (double)part / (double)whole) : value_absent(reason);
}

/* What of [start, end) the windows cover. */
static int64_t covered_ns(const struct sweep *s, int64_t start_ns, int64_t end_ns, size_t *hint)
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

static void close_stretch(const struct sweep *s, struct stretch *u)
{
	int64_t from = u->start_ns > s->steps.start_ns ? u->start_ns : s->steps.start_ns;
	int64_t to = u->end_ns < s->steps.end_ns ? u->end_ns : s->steps.end_ns;
	size_t hint;

	u->length_ns += covered_ns(s, u->start_ns, u->end_ns, &u->window);
	hint = u->window;
	u->in_steps_ns += covered_ns(s, from, to, &hint);
}

static void extend_union(const struct sweep *s, struct stretch *u, int64_t start_ns, int64_t end_ns)
{
	if (u->end_ns > u->start_ns && start_ns <= u->end_ns) {
		u->end_ns = end_ns > u->end_ns ? end_ns : u->end_ns;
		return;
	}
	close_stretch(s, u);
	u->start_ns = start_ns;
	u->end_ns = end_ns;
}

static bool is_selected(struct sweep *s, enum lane_kind kind, size_t i)
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
static size_t record_of(struct sweep *s, size_t kernel)
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

static int measure_kernel(struct sweep *s, struct comm_device *d, unsigned int transport,
			  int64_t start, int64_t end)
{
	extend_union(s, &s->unions[UNION_ALL_KERNELS], start, end);
	if (transport == COMM_NONE) {
		extend_union(s, &s->unions[UNION_COMPUTE], start, end);
	} else {
		extend_union(s, &s->unions[UNION_COMMUNICATION], start, end);
		extend_union(s, &s->unions[UNION_OF_TRANSPORT + transport], start, end);
	}
	for (unsigned int t = 0; t < COMM_TRANSPORTS; t++)
		if (t != transport && s->transports & 1U << t)
			extend_union(s, &s->unions[UNION_OTHERS + t], start, end);
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
static int add_comm_kernel(struct sweep *s, struct comm_device *d, size_t i,
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

static int add_device_work(struct sweep *s, struct comm_device *d, enum lane_kind kind, size_t row)
{
	const struct lane_table *t = &s->lanes->of[kind].table;
	int64_t start = t->start_ns[row], end = start + t->duration_ns[row];
	unsigned int transport = COMM_NONE;
	bool timed = !t->untimed[row] && end > start;
	int r;

	if (!is_selected(s, kind, row))
		return 0;
	if (kind == LANE_KERNEL) {
		r = add_comm_kernel(s, d, row, &transport);
		if (r < 0)
			return r;
		if (timed)
			r = measure_kernel(s, d, transport, start, end);
		if (r < 0)
			return r;
	}
	if (timed) {
		extend_union(s, &s->unions[UNION_ALL_WORK], start, end);
		s->first_ns = start < s->first_ns ? start : s->first_ns;
		s->last_ns = end > s->last_ns ? end : s->last_ns;
	}
	return 0;
}

/* All records of the device, by their start. */
static int sweep_device(struct sweep *s, struct comm_device *d)
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
		r = add_device_work(s, d, (enum lane_kind)first, first_row);
	}
	return r;
}

/* From the begin of the first chosen step of the process to the end of the last one. */
static struct span steps_of(const struct sweep *s, uint16_t shard)
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

static void put_part(struct comm_part *part, const struct stretch *these,
		     const struct stretch *others, const struct stretch *both)
{
	part->time_ns = these->length_ns;
	part->others_ns = others->length_ns;
	part->overlap_ns = these->length_ns + others->length_ns - both->length_ns;
	part->exposed_ns = both->length_ns - others->length_ns;
	part->overlap_pct = share_pct(part->overlap_ns, part->time_ns,
				      "no communication was timed");
}

static void put_device(struct sweep *s, struct comm_device *d)
{
	const struct stretch *u = s->unions;
	size_t hint = 0;
	int64_t window = covered_ns(s, s->first_ns, s->last_ns, &hint);

	put_part(&d->all, &u[UNION_COMMUNICATION], &u[UNION_COMPUTE], &u[UNION_ALL_KERNELS]);
	for (int t = 0; t < COMM_TRANSPORTS; t++)
		put_part(&d->of[t], &u[UNION_OF_TRANSPORT + t],
			 s->transports & 1U << t ? &u[UNION_OTHERS + t] : &u[UNION_ALL_KERNELS],
			 &u[UNION_ALL_KERNELS]);
	d->busy_ns = u[UNION_ALL_WORK].length_ns;
	d->non_compute_ns = d->busy_ns - d->all.others_ns;
	d->idle_ns = value_absent("none of its records has a time");
	/* A part of the steps has no window of its own. */
	if (s->sel->layer >= 0 || s->sel->phase >= 0)
		d->idle_ns = value_absent("only a layer or phase was chosen");
	else if (s->last_ns > s->first_ns)
		d->idle_ns = value_of((double)(window - d->busy_ns));
	d->window_ns = d->idle_ns.known ? value_of((double)window) : d->idle_ns;
	d->exposed_window_pct = d->window_ns.known ? share_pct(d->all.exposed_ns, window,
							       "no time was recorded")
						   : d->window_ns;
	hint = 0;
	d->of_steps = s->steps.end_ns > s->steps.start_ns;
	d->step_window_ns = d->of_steps ? covered_ns(s, s->steps.start_ns, s->steps.end_ns, &hint)
					: window;
	d->step_exposed_ns = d->of_steps ? u[UNION_ALL_KERNELS].in_steps_ns -
						   u[UNION_COMPUTE].in_steps_ns
					 : d->all.exposed_ns;
	d->exposed_pct = share_pct(d->step_exposed_ns, d->step_window_ns, "no time was recorded");
}

static bool is_governed(const struct run *run, uint16_t shard)
{
	for (size_t i = 0; i < run->gear.n; i++)
		if (run->gear.shard[i] == shard)
			return true;
	return false;
}

/* All figures of a device whose shard and number are set; its kernels into the rows. */
static int measure_device(struct sweep *s, struct comm_device *d)
{
	struct span lane = { .shard = d->shard };
	int r;

	s->governed = is_governed(s->run, d->shard);
	s->windows = spans_lane(s->coverage.windows, s->coverage.n_windows, &lane, &s->n_windows);
	s->steps = steps_of(s, d->shard);
	s->first_ns = INT64_MAX;
	s->last_ns = INT64_MIN;
	for (int i = 0; i < UNIONS; i++)
		s->unions[i] = (struct stretch){ 0 };
	r = sweep_device(s, d);
	for (int i = 0; i < UNIONS; i++)
		close_stretch(s, &s->unions[i]);
	put_device(s, d);
	return r;
}

static int measure_devices(struct sweep *s)
{
	size_t most = device_lanes_room(s->lanes), n;
	struct lane *list = calloc(most + 1, sizeof(*list));
	int r = 0;

	s->comm.devices = calloc(most + 1, sizeof(*s->comm.devices));
	if (!list || !s->comm.devices) {
		free(list);
		return -ENOMEM;
	}
	n = device_lanes_list(s->lanes, list);
	for (size_t i = 0; r >= 0 && i < n; i++) {
		struct comm_device *d = &s->comm.devices[s->comm.n_devices];

		*d = (struct comm_device){ .shard = list[i].shard,
					   .rank = s->run->shards[list[i].shard].rank,
					   .device = list[i].device };
		r = measure_device(s, d);
		/* Nothing of it was chosen, or nothing has a time. */
		s->comm.n_devices += s->last_ns > s->first_ns || d->all.count;
	}
	free(list);
	return r;
}

static void sum_part(struct comm_part *sum, const struct comm_part *part)
{
	sum->count += part->count;
	sum->untimed += part->untimed;
	sum->sum_ns = ns_sum(sum->sum_ns, part->sum_ns);
	sum->time_ns = ns_sum(sum->time_ns, part->time_ns);
	sum->others_ns = ns_sum(sum->others_ns, part->others_ns);
	sum->overlap_ns = ns_sum(sum->overlap_ns, part->overlap_ns);
	sum->exposed_ns = ns_sum(sum->exposed_ns, part->exposed_ns);
	sum->overlap_pct = share_pct(sum->overlap_ns, sum->time_ns, "no communication was timed");
}

static void sum_devices(struct comm *comm)
{
	struct value none = value_absent("no device records in this run or window");
	int64_t window = 0, exposed = 0;
	double windows = 0, idle = 0;

	sum_part(&comm->all, &(struct comm_part){ 0 });
	for (int t = 0; t < COMM_TRANSPORTS; t++)
		sum_part(&comm->of[t], &(struct comm_part){ 0 });
	comm->window_ns = comm->idle_ns = none;
	for (size_t i = 0; i < comm->n_devices; i++) {
		const struct comm_device *d = &comm->devices[i];

		sum_part(&comm->all, &d->all);
		for (int t = 0; t < COMM_TRANSPORTS; t++)
			sum_part(&comm->of[t], &d->of[t]);
		comm->busy_ns = ns_sum(comm->busy_ns, d->busy_ns);
		comm->non_compute_ns = ns_sum(comm->non_compute_ns, d->non_compute_ns);
		comm->of_steps |= d->of_steps;
		window = ns_sum(window, d->step_window_ns);
		exposed = ns_sum(exposed, d->step_exposed_ns);
		if (d->idle_ns.known) {
			windows += d->window_ns.v;
			idle += d->idle_ns.v;
			comm->window_ns = value_of(windows);
			comm->idle_ns = value_of(idle);
		} else if (!comm->idle_ns.known) {
			comm->window_ns = comm->idle_ns = d->idle_ns;
		}
	}
	comm->exposed_pct = share_pct(exposed, window, none.reason);
	comm->wait_pct = comm->skew.wait_ns;
	if (comm->skew.wait_ns.known)
		comm->wait_pct = window > 0 ? value_of(100 * comm->skew.wait_ns.v / (double)window)
					    : none;
}

/* Records that no kernel has, in a run of which nothing is left out. */
static int add_lone_records(struct sweep *s)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && !s->at && i < s->run->collective.n; i++) {
		if (s->rows.row_of[i] != COMM_NO_ROW ||
		    s->run->collective.device[i] == COLLECTIVE_ON_HOST)
			continue;
		r = comm_rows_record(&s->rows, COMM_OTHER, i, false);
		s->comm.records++;
		s->comm.without_kernel++;
	}
	return r;
}

/* Collectives of processors; of chosen steps, those that began in them. */
static int add_host_records(struct sweep *s)
{
	const struct table_collective *c = &s->run->collective;
	struct step_index index;
	int r = step_index_init(&index, s->run);

	if (r < 0)
		return r;
	for (size_t i = 0; r >= 0 && i < c->n; i++) {
		if (c->device[i] != COLLECTIVE_ON_HOST || s->sel->layer >= 0 || s->sel->phase >= 0)
			continue;
		if (s->at) {
			size_t at = step_index_find(&index, s->run, c->shard[i], c->start_ns[i]);

			if (at == SIZE_MAX || !selection_has_step(s->sel, s->run->step.step[at]))
				continue;
		}
		r = comm_rows_record(&s->rows, COMM_HOST, i, false);
		s->comm.records++;
		s->comm.host_count++;
		s->comm.host_ns = ns_sum(s->comm.host_ns, c->duration_ns[i]);
	}
	step_index_release(&index);
	return r;
}

/* Which transports there are: others need not be measured. */
static int find_transports(struct sweep *s)
{
	const struct table_kernel *k = &s->run->kernel;
	struct comm_launch launch = { 0 };
	int r = 0;

	s->transports = s->run->collective.n ? 1U << COMM_OTHER : 0;
	for (size_t i = 0; r >= 0 && i < k->n; i++) {
		if (i && k->launch[i] == k->launch[i - 1])
			continue;
		r = comm_names_launch(&s->rows.names, k->launch[i], &launch);
		if (r >= 0 && launch.transport != COMM_NONE)
			s->transports |= 1U << launch.transport;
	}
	return r;
}

static int comm_rows_by_time(const void *a, const void *b)
{
	const struct comm_row *x = a, *y = b;

	return CMP(y->sum_ns, x->sum_ns) ?: strcmp(x->name, y->name) ?: CMP(x->group, y->group) ?:
	       CMP(x->group_size, y->group_size) ?: CMP(x->type, y->type);
}

static int build_sweep(struct sweep *s)
{
	const struct table_collective *c = &s->run->collective;
	int r = comm_rows_init(&s->rows, s->run, s->classes);

	if (r >= 0)
		r = coverage_analyze(s->run, &s->coverage);
	if (r >= 0)
		r = lane_order_init(&s->records,
				    &(struct lane_table){ c->start_ns, c->duration_ns, c->device,
							  c->shard, NULL, c->n });
	if (r >= 0)
		r = find_transports(s);
	if (r >= 0)
		r = measure_devices(s);
	if (r >= 0)
		r = add_lone_records(s);
	if (r >= 0)
		r = add_host_records(s);
	if (r >= 0)
		r = comm_ranks_compare(&s->rows, &s->comm.skew);
	if (r >= 0)
		r = comm_rows_finish(&s->rows);
	return r;
}

int comm_analyze_at(const struct attribution *at, const struct device_lanes *lanes,
		    const struct selection *sel, const struct kernel_classes *classes,
		    struct comm *ret_comm)
{
	struct sweep s = { .run = at->run, .sel = sel, .lanes = lanes };
	struct kernel_classes *own = NULL;
	int r = classes ? 0 : kernel_classes_new(NULL, &own, NULL);

	if (r < 0)
		return r;
	s.classes = own ? own : classes;
	s.at = attribution_needed(at->run, sel) ? at : NULL;
	r = build_sweep(&s);
	lane_order_release(&s.records);
	coverage_release(&s.coverage);
	if (r >= 0) {
		sum_devices(&s.comm);
		s.comm.rows = s.rows.rows;
		s.comm.n = s.rows.n;
		s.rows.rows = NULL;
		s.rows.n = 0;
		if (s.comm.n)
			qsort(s.comm.rows, s.comm.n, sizeof(*s.comm.rows), comm_rows_by_time);
		*ret_comm = s.comm;
	} else {
		comm_release(&s.comm);
	}
	comm_rows_release(&s.rows);
	kernel_classes_free(own);
	return r;
}

int comm_analyze(const struct run *run, const struct selection *sel,
		 const struct kernel_classes *classes, struct comm *ret_comm)
{
	struct attribution at = { .run = run };
	struct device_lanes lanes = { 0 };
	int r = attribution_needed(run, sel) ? attribution_init(&at, run) : 0;

	if (r >= 0)
		r = device_lanes_init(&lanes, run);
	if (r >= 0)
		r = comm_analyze_at(&at, &lanes, sel, classes, ret_comm);
	device_lanes_release(&lanes);
	attribution_release(&at);
	return r;
}

void comm_release(struct comm *comm)
{
	for (size_t i = 0; i < comm->n; i++)
		free(comm->rows[i].name);
	free(comm->rows);
	for (size_t i = 0; i < comm->n_devices; i++)
		free(comm->devices[i].when.spans);
	free(comm->devices);
	*comm = (struct comm){ 0 };
}
