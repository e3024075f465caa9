/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels, copies and calls of each step for a comparison. Work counts in the step that launched
 * it. See digest.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "compare/digest_inside.h"

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
