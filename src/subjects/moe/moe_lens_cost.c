/* SPDX-License-Identifier: Apache-2.0
 *
 * What communication costs the kernels beside it; see moe_lens.h. Pure, one thread.
 *
 * Kernels that stay on the device have one grid for every size of problem, so that name and grid do
 * not make two launches alike. The place in the program does.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/demangle.h"
#include "device/sheets/kernel_name.h"
#include "subjects/moe/moe_lens_inside.h"

static int by_instance(const void *a, const void *b)
{
	const struct moe_sample *x = a, *y = b;

	return CMP(x->launch, y->launch) ?: CMP(x->site, y->site) ?:
	       CMP(x->instance, y->instance) ?: CMP(x->start_ns, y->start_ns);
}

static int by_position(const void *a, const void *b)
{
	const struct moe_sample *x = a, *y = b;

	return CMP(x->launch, y->launch) ?: CMP(x->site, y->site) ?: CMP(x->total, y->total) ?:
	       CMP(x->order, y->order);
}

static void number_samples(struct moe_sample *samples, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i; end < n && samples[end].launch == samples[i].launch &&
			      samples[end].site == samples[i].site &&
			      samples[end].instance == samples[i].instance;)
			end++;
		for (size_t k = i; k < end; k++) {
			samples[k].order = (uint32_t)(k - i);
			samples[k].total = (uint32_t)(end - i);
		}
	}
}

static struct moe_cost_row *row_of(const struct moe_names *names, struct moe_cost *cost,
				   size_t *capacity, uint32_t name)
{
	struct moe_cost_row *row;
	size_t i = 0;

	while (i < cost->n && cost->rows[i].name_id != name)
		i++;
	if (i < cost->n)
		return &cost->rows[i];
	if (array_grow(&cost->rows, capacity, i + 1, sizeof(*cost->rows)) < 0)
		return NULL;
	row = &cost->rows[cost->n++];
	*row = (struct moe_cost_row){ .name_id = name };
	if (demangled(run_string(names->run, name), &row->name) < 0 ||
	    kernel_short_name(row->name, &row->short_name) < 0)
		return NULL;
	return row;
}

static int tell_apart(struct moe_cost *cost)
{
	struct kernel_alias *labels = array_new(cost->n + 1, sizeof(*labels));
	int r;

	if (!labels)
		return -ENOMEM;
	for (size_t i = 0; i < cost->n; i++)
		labels[i] = (struct kernel_alias){ cost->rows[i].name, &cost->rows[i].short_name };
	r = kernel_aliases_tell_apart(labels, cost->n);
	free(labels);
	return r;
}

/* samples[0..n) are of one position. */
static int add_position(const struct moe_names *names, struct moe_cost *cost, size_t *capacity,
			const struct moe_sample *samples, size_t n)
{
	double sum[2] = { 0, 0 };
	uint64_t count[2] = { 0, 0 };
	struct moe_cost_row *row;
	double clear_ns;

	for (size_t i = 0; i < n; i++) {
		if (samples[i].beside < 0)
			continue;
		sum[samples[i].beside] += (double)samples[i].duration_ns;
		count[samples[i].beside]++;
	}
	if (!count[0] || !count[1])
		return 0;
	row = row_of(names, cost, capacity, run_launch(names->run, samples[0].launch).name);
	if (!row)
		return -ENOMEM;
	clear_ns = sum[0] / (double)count[0] * (double)count[1];
	row->beside += count[1];
	row->clear += count[0];
	row->beside_ns += sum[1];
	row->clear_ns += clear_ns;
	row->extra_ns += sum[1] - clear_ns;
	return 0;
}

static int by_extra(const void *a, const void *b)
{
	const struct moe_cost_row *x = a, *y = b;

	return CMP(y->extra_ns, x->extra_ns) ?: CMP(x->name_id, y->name_id);
}

static void sum_up_costs(struct moe_cost *cost)
{
	double extra = 0, clear = 0;

	for (size_t i = 0; i < cost->n; i++) {
		struct moe_cost_row *row = &cost->rows[i];

		extra += row->extra_ns;
		clear += row->clear_ns;
		cost->compared += row->beside;
		row->beside_ns /= (double)row->beside;
		row->clear_ns /= (double)row->beside;
	}
	cost->extra_ns = cost->slower_pct =
		value_absent("no kernel ran at the same place both with and without communication");
	if (cost->n) {
		qsort(cost->rows, cost->n, sizeof(*cost->rows), by_extra);
		cost->extra_ns = value_of(extra);
		cost->slower_pct = value_of(100 * extra / clear);
	}
}

void moe_cost_release(struct moe_cost *cost)
{
	for (size_t i = 0; i < cost->n; i++) {
		free(cost->rows[i].name);
		free(cost->rows[i].short_name);
	}
	free(cost->rows);
}

int moe_cost_measure(const struct moe_names *names, struct moe_sample *samples, size_t n,
		     struct moe_cost *ret_cost)
{
	struct moe_cost cost = { 0 };
	size_t capacity = 0;
	int r = 0;

	if (n) {
		qsort(samples, n, sizeof(*samples), by_instance);
		number_samples(samples, n);
		qsort(samples, n, sizeof(*samples), by_position);
	}
	for (size_t i = 0, end; r >= 0 && i < n; i = end) {
		for (end = i; end < n && !by_position(&samples[i], &samples[end]);)
			end++;
		r = add_position(names, &cost, &capacity, samples + i, end - i);
	}
	if (r >= 0)
		r = tell_apart(&cost);
	if (r < 0) {
		moe_cost_release(&cost);
		return r;
	}
	sum_up_costs(&cost);
	*ret_cost = cost;
	return 0;
}
