/* SPDX-License-Identifier: Apache-2.0
 *
 * See device_phases.h.
 */
#include "subjects/steps/device_phases.h"

#include <errno.h>
#include <stdlib.h>

#include "subjects/shared/attribution.h"
#include "subjects/shared/lanes.h"
#include "subjects/shared/step_sample.h"

/* The records of one device, all kinds, by their start. */
struct records {
	const struct device_lanes *lanes;
	size_t at[LANE_KINDS], end[LANE_KINDS];
};

struct looking {
	const struct run *slice;
	struct attribution at;
	struct attribution_cursor cursor;
	struct device_lanes lanes;
	struct device_phases *out;
};

static struct records records_of(const struct device_lanes *lanes, const struct lane *device)
{
	struct records records = { .lanes = lanes };

	for (int k = 0; k < LANE_KINDS; k++) {
		const struct lane *lane = lane_find(&lanes->of[k], device->shard, device->device);

		records.at[k] = lane ? lane->first : 0;
		records.end[k] = lane ? lane->end : 0;
	}
	return records;
}

static bool next_record(struct records *records, enum lane_kind *ret_kind, size_t *ret_row)
{
	int first = -1;
	int64_t first_ns = 0;

	for (int k = 0; k < LANE_KINDS; k++) {
		const struct lane_order *order = &records->lanes->of[k];
		int64_t start_ns;

		if (records->at[k] == records->end[k])
			continue;
		start_ns = order->table.start_ns[lane_row(order, records->at[k])];
		if (first >= 0 && start_ns >= first_ns)
			continue;
		first = k;
		first_ns = start_ns;
	}
	if (first < 0)
		return false;
	*ret_kind = (enum lane_kind)first;
	*ret_row = lane_row(&records->lanes->of[first], records->at[first]++);
	return true;
}

#define WORK(table, row)                                                                           \
	(struct device_work)                                                                       \
	{                                                                                          \
		(table)->correlation[row], (table)->graph_node[row], (table)->start_ns[row],       \
			(table)->shard[row]                                                        \
	}

/* 0: launched outside all phases, or nobody knows where. */
static uint8_t phase_of(struct looking *l, enum lane_kind kind, size_t row)
{
	struct device_work work = kind == LANE_KERNEL ? WORK(&l->slice->kernel, row)
				  : kind == LANE_COPY ? WORK(&l->slice->copy, row)
						      : WORK(&l->slice->set, row);
	struct place place;

	if (!attribution_find_near(&l->at, &l->cursor, &work, lane_call(&l->at, kind, row), &place))
		return 0;
	return place.phase < STEP_PHASES ? place.phase : 0;
}

/* Steps of a process in the order of their start: the first that ends after the moment. */
static size_t step_after(const struct step_index *steps, const struct table_step *t, size_t from,
			 uint16_t shard, int64_t time_ns)
{
	while (from < steps->n &&
	       (t->shard[steps->rows[from]] < shard ||
		(t->shard[steps->rows[from]] == shard &&
		 t->start_ns[steps->rows[from]] + t->duration_ns[steps->rows[from]] <= time_ns)))
		from++;
	return from;
}

static void add_device_phases(struct looking *l, const struct lane *device)
{
	const struct step_index *steps = &l->at.steps;
	const struct table_step *t = &l->slice->step;
	struct records records = records_of(&l->lanes, device);
	int64_t at = INT64_MIN;
	enum lane_kind kind;
	size_t row, step = 0;

	while (next_record(&records, &kind, &row)) {
		const struct lane_table *table = &l->lanes.of[kind].table;
		int64_t start = table->start_ns[row], end = start + table->duration_ns[row];
		int64_t begin, stop;

		step = step_after(steps, t, step, device->shard, start);
		if (step == steps->n || t->shard[steps->rows[step]] != device->shard)
			return;
		begin = t->start_ns[steps->rows[step]];
		stop = begin + t->duration_ns[steps->rows[step]];
		if (table->untimed[row] || start < begin)
			continue;
		at = at > begin ? at : begin;
		end = end < stop ? end : stop;
		if (end <= at)
			continue;
		l->out->ns[phase_of(l, kind, row)] += end - at;
		at = end;
	}
}

static int add_all_device_phases(struct looking *l)
{
	struct lane *devices = calloc(device_lanes_room(&l->lanes) + 1, sizeof(*devices));
	size_t n = devices ? device_lanes_list(&l->lanes, devices) : 0;

	for (size_t i = 0; i < n; i++)
		add_device_phases(l, &devices[i]);
	free(devices);
	return devices ? 0 : -ENOMEM;
}

static int measure_slice(const struct run *slice, struct device_phases *out)
{
	struct looking l = { .slice = slice, .out = out };
	int r = attribution_init(&l.at, slice);

	if (r < 0)
		return r;
	r = device_lanes_init(&l.lanes, slice);
	if (r >= 0) {
		r = add_all_device_phases(&l);
		device_lanes_release(&l.lanes);
	}
	attribution_release(&l.at);
	return r;
}

int device_phases_analyze(const struct run *run, const struct steps *steps,
			  const struct coverage *coverage, struct device_phases *ret_phases)
{
	struct device_phases out = { 0 };
	struct run slice;
	int64_t in_phases = 0;
	int r;

	if (!run->kernel.n && !run->copy.n && !run->set.n) {
		*ret_phases = (struct device_phases){ .reason = "no device records in this run" };
		return 0;
	}
	r = step_sample_init(&slice, run, steps, coverage, DEVICE_PHASE_STEPS, &out.steps);
	if (r < 0)
		return r;
	r = measure_slice(&slice, &out);
	run_slice_release(&slice);
	if (r < 0)
		return r;
	for (unsigned int phase = 1; phase < STEP_PHASES; phase++)
		in_phases += out.ns[phase];
	if (!out.steps)
		out.reason = "device records cover no step wholly";
	else if (!in_phases)
		out.reason = "no work of these steps was launched in a phase";
	*ret_phases = out;
	return 0;
}
