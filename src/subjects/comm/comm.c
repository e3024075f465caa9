/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication of all devices; see comm.h. Pure, any thread.
 */
#include "subjects/comm/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/sheets/kernel_class.h"
#include "subjects/comm/comm_inside.h"

static int measure_devices(struct comm_sweep *s)
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
		r = comm_device_measure(s, d);
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
	sum->overlap_pct = comm_share(sum->overlap_ns, sum->time_ns, "no communication was timed");
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
	comm->exposed_pct = comm_share(exposed, window, none.reason);
	comm->wait_pct = comm->skew.wait_ns;
	if (comm->skew.wait_ns.known)
		comm->wait_pct = window > 0 ? value_of(100 * comm->skew.wait_ns.v / (double)window)
					    : none;
}

/* Records that no kernel has, in a run of which nothing is left out. */
static int add_lone_records(struct comm_sweep *s)
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
static int add_host_records(struct comm_sweep *s)
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
static int find_transports(struct comm_sweep *s)
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

static int by_time(const void *a, const void *b)
{
	const struct comm_row *x = a, *y = b;
	int order;

	if (x->sum_ns != y->sum_ns)
		return x->sum_ns > y->sum_ns ? -1 : 1;
	order = strcmp(x->name, y->name);
	if (order)
		return order;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->group_size != y->group_size)
		return x->group_size < y->group_size ? -1 : 1;
	return x->type < y->type ? -1 : x->type > y->type;
}

static int build(struct comm_sweep *s)
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
	struct comm_sweep s = { .run = at->run, .sel = sel, .lanes = lanes };
	struct kernel_classes *own = NULL;
	int r = classes ? 0 : kernel_classes_new(NULL, &own, NULL);

	if (r < 0)
		return r;
	s.classes = own ? own : classes;
	s.at = attribution_needed(at->run, sel) ? at : NULL;
	r = build(&s);
	lane_order_release(&s.records);
	coverage_release(&s.coverage);
	if (r >= 0) {
		sum_devices(&s.comm);
		s.comm.rows = s.rows.rows;
		s.comm.n = s.rows.n;
		s.rows.rows = NULL;
		s.rows.n = 0;
		if (s.comm.n)
			qsort(s.comm.rows, s.comm.n, sizeof(*s.comm.rows), by_time);
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
