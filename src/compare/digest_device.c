/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels, copies and calls of each step for a comparison, how busy the devices were, and why not. See
 * digest.h.
 *
 * Work counts in the step that launched it. Devices are busy in the step in which they work: the mean
 * over the devices of the ranks. Causes are those of idle.h; a gap is cut where the step begins and
 * ends.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "compare/digest_inside.h"
#include "subjects/device/idle.h"
#include "subjects/shared/lanes.h"

static const enum compare_metric_id summed[] = { COMPARE_KERNEL_TIME, COMPARE_KERNEL_COUNT,
						 COMPARE_API_TIME, COMPARE_COPY_TIME,
						 COMPARE_COPY_BYTES };
enum { KERNEL_TIME, KERNEL_COUNT, API_TIME, COPY_TIME, COPY_BYTES, SUMMED };

static size_t covered_of_row(const struct digest_builder *b, size_t step_row)
{
	size_t unit = step_row == NO_STEP ? NO_UNIT : b->unit_of[step_row];

	return unit == NO_UNIT ? NO_UNIT : b->covered_at[unit];
}

/* call: of the work; see struct attribution. */
static size_t covered_of_work(const struct digest_builder *b, struct attribution_cursor *cursor,
			      struct device_work work, uint32_t call, uint32_t *ret_path)
{
	struct place place = { .path = 0, .step = NO_STEP };
	bool found = attribution_find_near(&b->at, cursor, &work, call, &place);

	if (ret_path)
		*ret_path = found ? place.path : 0;
	if (b->whole)
		return 0;
	return found ? covered_of_row(b, place.step) : NO_UNIT;
}

static void sum_kernels(struct digest_builder *b, double **sums)
{
	const struct table_kernel *t = &b->run->kernel;
	struct attribution_cursor cursor = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		size_t u = covered_of_work(b, &cursor,
					   (struct device_work){ t->correlation[i],
								 t->graph_node[i], t->start_ns[i],
								 t->shard[i] },
					   b->at.kernel_call[i], &b->kernel_path[i]);

		b->kernel_at[i] = u;
		if (u == NO_UNIT)
			continue;
		sums[KERNEL_COUNT][u] += 1;
		sums[KERNEL_TIME][u] += t->untimed[i] ? 0 : (double)t->duration_ns[i];
	}
}

static void sum_copies(struct digest_builder *b, double **sums)
{
	const struct table_copy *t = &b->run->copy;
	struct attribution_cursor cursor = { 0 };

	for (size_t i = 0; i < t->n; i++) {
		size_t u = covered_of_work(b, &cursor,
					   (struct device_work){ t->correlation[i],
								 t->graph_node[i], t->start_ns[i],
								 t->shard[i] },
					   b->at.copy_call[i], NULL);

		if (u == NO_UNIT)
			continue;
		sums[COPY_BYTES][u] += t->bytes[i] == BYTES_NOT_TOLD ? 0 : (double)t->bytes[i];
		sums[COPY_TIME][u] += t->untimed[i] ? 0 : (double)t->duration_ns[i];
	}
}

size_t digest_covered_at(const struct digest_builder *b, uint16_t shard, int64_t time_ns)
{
	size_t row = b->whole ? 0 : step_index_find(&b->index, b->run, shard, time_ns);

	return b->whole ? 0 : covered_of_row(b, row == SIZE_MAX ? NO_STEP : row);
}

static void sum_calls(struct digest_builder *b, double **sums)
{
	const struct table_api *t = &b->run->api;

	for (size_t i = 0; i < t->n; i++) {
		size_t u = digest_covered_at(b, t->shard[i], t->start_ns[i]);

		if (u != NO_UNIT)
			sums[API_TIME][u] += (double)t->duration_ns[i];
	}
}

static bool bytes_told(const struct run *run)
{
	for (size_t i = 0; i < run->copy.n; i++)
		if (run->copy.bytes[i] == BYTES_NOT_TOLD)
			return false;
	return true;
}

int digest_device(struct digest_builder *b)
{
	double *sums[SUMMED] = { NULL };
	int r = 0;

	for (int i = 0; i < COMPARE_METRICS; i++)
		if (compare_metrics[i].device)
			b->digest->missing[i] = !b->has_device ? "no device records in this run"
						: !b->n_units
							? b->digest->missing[COMPARE_STEP_TIME]
							: "device records cover no whole step";
	if (!b->has_device || !b->n_covered)
		return 0;
	b->kernel_at = calloc(b->run->kernel.n + 1, sizeof(*b->kernel_at));
	b->kernel_path = calloc(b->run->kernel.n + 1, sizeof(*b->kernel_path));
	for (int i = 0; i < SUMMED; i++) {
		sums[i] = calloc(b->n_covered, sizeof(**sums));
		r = sums[i] && b->kernel_at && b->kernel_path ? r : -ENOMEM;
	}
	if (r >= 0)
		r = attribution_init(&b->at, b->run);
	if (r >= 0) {
		sum_kernels(b, sums);
		sum_copies(b, sums);
		sum_calls(b, sums);
	}
	for (int i = 0; i < SUMMED; i++) {
		if (r >= 0 && i == COPY_BYTES && !bytes_told(b->run)) {
			b->digest->missing[COMPARE_COPY_BYTES] =
				"copies of this run do not tell their bytes";
			free(sums[i]);
			continue;
		}
		for (size_t u = 0; r >= 0 && u < b->n_covered; u++)
			sums[i][u] /= (double)b->ranks;
		if (r >= 0)
			r = digest_add(b, summed[i], "", 0, sums[i], b->n_covered);
		else
			free(sums[i]);
	}
	return r;
}

/* A stretch of work without a pause. */
struct stretch {
	int64_t start_ns, end_ns;
	uint32_t call; /* that launched the work which begins it, or NO_CALL32 */
	uint32_t device;
	uint16_t shard;
};

struct lanes {
	struct stretch *stretches; /* by process, device, start */
	size_t n;
};

static int order_lane(const struct stretch *x, const struct stretch *y)
{
	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static int collect_device(const struct attribution *at, const struct device_lanes *work,
			  const struct lane *lane, struct lanes *lanes, size_t *capacity)
{
	struct busy_stream stream = busy_stream(work, lane->shard, lane->device);
	struct lane_span span;

	while (busy_stream_next(&stream, &span)) {
		if (array_grow(&lanes->stretches, capacity, lanes->n + 1,
			       sizeof(*lanes->stretches)) < 0)
			return -ENOMEM;
		lanes->stretches[lanes->n++] = (struct stretch){ span.start_ns, span.end_ns,
								 lane_call(at, span.kind, span.row),
								 lane->device, lane->shard };
	}
	return 0;
}

static int collect_all(const struct attribution *at, const struct device_lanes *work,
		       struct lanes *lanes)
{
	struct lane *devices = calloc(device_lanes_room(work) + 1, sizeof(*devices));
	size_t n = devices ? device_lanes_list(work, devices) : 0, capacity = 0;
	int r = devices ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = collect_device(at, work, &devices[i], lanes, &capacity);
	free(devices);
	return r;
}

/* The index is filled on success, and only then. */
static int collect_lanes(struct digest_builder *b, struct lanes *lanes,
			 struct idle_index *ret_index)
{
	struct device_lanes work;
	struct attribution at;
	int r = attribution_init_calls(&at, b->run);

	if (r < 0)
		return r;
	r = device_lanes_init(&work, b->run);
	if (r >= 0) {
		r = collect_all(&at, &work, lanes);
		device_lanes_release(&work);
	}
	if (r >= 0)
		r = idle_index_init(ret_index, &at, &b->coverage);
	attribution_release(&at);
	return r;
}

/* The first stretch of [first, end), one lane, that ends after the time. */
static size_t first_after(const struct lanes *l, size_t first, size_t end, int64_t time_ns)
{
	while (first < end) {
		size_t middle = first + (end - first) / 2;

		if (l->stretches[middle].end_ns <= time_ns)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

struct idle_sums {
	double *busy_pct, *idle_ns[IDLE_CAUSES], *devices; /* by covered unit */
};

/* One step of one rank on one of its devices. */
static void measure_step_lane(struct idle_device *idle, const struct lanes *l, size_t first,
			      size_t end, const struct step_row *row, size_t u,
			      struct idle_sums *sums)
{
	int64_t at = row->start_ns, stop = row->start_ns + row->duration_ns, busy = 0;
	int64_t causes[IDLE_CAUSES] = { 0 };

	for (size_t i = first_after(l, first, end, at); at < stop; i++) {
		bool next = i < end && l->stretches[i].start_ns < stop;
		struct idle_gap gap = { .start_ns = at,
					.end_ns = next ? l->stretches[i].start_ns : stop,
					.has_next = next,
					.call = next ? l->stretches[i].call : NO_CALL32 };
		int64_t from, until;

		if (gap.end_ns > gap.start_ns)
			idle_account(idle, &gap, causes);
		if (!next)
			break;
		from = l->stretches[i].start_ns > at ? l->stretches[i].start_ns : at;
		until = l->stretches[i].end_ns < stop ? l->stretches[i].end_ns : stop;
		busy += until - from;
		at = until;
	}
	sums->busy_pct[u] += 100.0 * (double)busy / (double)row->duration_ns;
	for (int c = 0; c < IDLE_CAUSES; c++)
		sums->idle_ns[c][u] += (double)causes[c];
	sums->devices[u] += 1;
}

static void measure_lane(const struct digest_builder *b, const struct idle_index *index,
			 const struct lanes *l, size_t first, size_t end, struct idle_sums *sums)
{
	struct idle_device idle = idle_device(index, l->stretches[first].shard,
					      l->stretches[first].device);

	if (b->whole) {
		const struct stretch *last = &l->stretches[end - 1];
		struct step_row row = { .start_ns = l->stretches[first].start_ns };

		row.duration_ns = last->end_ns - row.start_ns;
		if (row.duration_ns > 0)
			measure_step_lane(&idle, l, first, end, &row, 0, sums);
		return;
	}
	for (size_t i = 0; i < b->steps.n; i++) {
		const struct step_row *row = &b->steps.rows[i];
		size_t unit = b->unit_of[row->row];
		size_t u = unit == NO_UNIT ? NO_UNIT : b->covered_at[unit];

		if (u != NO_UNIT && row->duration_ns > 0 &&
		    b->run->step.shard[row->row] == l->stretches[first].shard)
			measure_step_lane(&idle, l, first, end, row, u, sums);
	}
}

/* Means over the devices, without the steps of which no device was seen. */
static size_t mean_over_devices(const struct digest_builder *b, const double *devices, double *x)
{
	size_t n = 0;

	for (size_t u = 0; u < b->n_covered; u++)
		if (devices[u] > 0)
			x[n++] = x[u] / devices[u];
	return n;
}

static bool is_used(const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (x[i] > 0)
			return true;
	return false;
}

static int add_all(struct digest_builder *b, struct idle_sums *sums)
{
	size_t n = mean_over_devices(b, sums->devices, sums->busy_pct);
	int r = digest_add(b, COMPARE_GPU_BUSY_PCT, "", 0, sums->busy_pct, n);

	sums->busy_pct = NULL;
	for (int c = 0; r >= 0 && c < IDLE_CAUSES; c++) {
		n = mean_over_devices(b, sums->devices, sums->idle_ns[c]);
		/* A cause that never was is 0 only beside one of the other run: see compare.c. */
		if (is_used(sums->idle_ns[c], n)) {
			r = digest_add(b, COMPARE_IDLE_TIME, idle_cause_name((enum idle_cause)c), c,
				       sums->idle_ns[c], n);
			sums->idle_ns[c] = NULL;
		}
	}
	return r;
}

static int measure_all(struct digest_builder *b, const struct lanes *l,
		       const struct idle_index *index, struct idle_sums *sums)
{
	for (size_t i = 0, end; i < l->n; i = end) {
		for (end = i; end < l->n && !order_lane(&l->stretches[i], &l->stretches[end]);)
			end++;
		measure_lane(b, index, l, i, end, sums);
	}
	return add_all(b, sums);
}

int digest_idle(struct digest_builder *b)
{
	struct idle_sums sums = { 0 };
	struct idle_index index = { 0 };
	struct lanes lanes = { 0 };
	int r;

	if (!b->has_device || !b->n_covered)
		return 0;
	r = collect_lanes(b, &lanes, &index);
	sums.busy_pct = calloc(b->n_covered, sizeof(double));
	sums.devices = calloc(b->n_covered, sizeof(double));
	if (r >= 0 && (!sums.busy_pct || !sums.devices))
		r = -ENOMEM;
	for (int c = 0; c < IDLE_CAUSES; c++) {
		sums.idle_ns[c] = calloc(b->n_covered, sizeof(double));
		r = r >= 0 && !sums.idle_ns[c] ? -ENOMEM : r;
	}
	if (r >= 0 && lanes.n)
		r = measure_all(b, &lanes, &index, &sums);
	idle_index_release(&index);
	free(lanes.stretches);
	free(sums.busy_pct);
	free(sums.devices);
	for (int c = 0; c < IDLE_CAUSES; c++)
		free(sums.idle_ns[c]);
	return r;
}
