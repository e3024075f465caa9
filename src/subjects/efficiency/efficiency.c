/* SPDX-License-Identifier: Apache-2.0
 *
 * The share of a device's arithmetic that the model uses; see efficiency.h.
 */
#include "subjects/efficiency/efficiency.h"

#include <errno.h>
#include <stdlib.h>

#include "device/sheets/kernel_class.h"

/* Of one process. */
struct share {
	double flops;
	int64_t time_ns;
	size_t steps;
};

static bool step_counts(const struct table_step *step, const struct selection *sel, size_t at)
{
	return step->recorded[at] && step_is_timed(step, at) &&
	       selection_has_step(sel, step->step[at]);
}

/* FLOPs of operations that began in steps that count, and in which of them; true if there are any. */
static bool sum_operations(const struct run *run, const struct selection *sel,
			   const struct step_index *index, struct share *shares, bool *told)
{
	bool any = false;

	for (size_t i = 0; i < run->op.n; i++) {
		size_t at;

		if ((run->op.unknown[i] & OP_FLOPS_UNKNOWN) || !run->op.flops[i])
			continue;
		at = step_index_find(index, run, run->op.shard[i], run->op.start_ns[i]);
		if (at == SIZE_MAX || !step_counts(&run->step, sel, at))
			continue;
		shares[run->op.shard[i]].flops += (double)run->op.flops[i];
		told[at] = any = true;
	}
	return any;
}

/* Finished, recorded steps of the selection, and the FLOPs of operations that began in them; of a sample of
 * steps only those with such operations. */
static int sum_steps(const struct run *run, const struct selection *sel, struct share *shares,
		     bool *ret_told)
{
	const struct table_step *step = &run->step;
	bool *told = calloc(step->n ? step->n : 1, sizeof(*told));
	struct step_index index;
	bool sampled;
	int r = told ? step_index_init(&index, run) : -ENOMEM;

	if (r < 0) {
		free(told);
		return r;
	}
	*ret_told = sum_operations(run, sel, &index, shares, told);
	sampled = *ret_told && run_fact(run, FACT_SAMPLED_OPS);
	for (size_t i = 0; i < step->n; i++) {
		struct share *share = &shares[step->shard[i]];

		if (!step_counts(step, sel, i) || (sampled && !told[i]))
			continue;
		share->time_ns += step->duration_ns[i];
		share->steps++;
	}
	step_index_release(&index);
	free(told);
	return 0;
}

/* What the routers and experts alone must have computed. */
static struct value routing_flops(const struct run *run, const struct routing *routing)
{
	double flops = 0;

	for (size_t i = 0; i < routing->n; i++) {
		const struct routing_layer *layer = &routing->layers[i];

		if (!layer->flops_router.known || !layer->flops_expert.known)
			return value_absent("the sizes of the MoE layers were not reported");
		flops += layer->flops_router.v + layer->flops_expert.v;
	}
	if (flops > 0)
		return value_of(flops);
	return value_absent(run_is_foreign(run)
				    ? "no operation of the file tells its FLOPs, or "
				      "the shapes of its inputs"
				    : "no operation of a recorded step reported its FLOPs: "
				      "see moescope_op_end()");
}

/* time * peak of the devices of one process. */
static struct value capacity(const struct efficiency *e, uint16_t shard, int64_t time_ns)
{
	double peak = 0;

	for (size_t i = 0; i < e->n_devices; i++) {
		const struct efficiency_device *d = &e->devices[i];

		if (d->shard != shard && !d->cpu)
			continue;
		if (!d->peak_flops_per_s.known)
			return value_absent(d->peak_flops_per_s.reason);
		peak += d->peak_flops_per_s.v;
	}
	return peak > 0 ? value_of(peak * (double)time_ns * 1e-9)
			: value_absent("a process with steps used no device");
}

static struct value mfu(const struct run *run, const struct efficiency *e,
			const struct share *shares)
{
	double all = 0;
	size_t processes = 0;

	for (size_t i = 0; i < run->n_shards; i++) {
		struct value one;

		if (!shares[i].steps)
			continue;
		processes++;
		one = capacity(e, (uint16_t)i, shares[i].time_ns);
		if (!one.known)
			return one;
		all += one.v;
	}
	if (!e->on_device && processes > 1)
		return value_absent("several processes share the processor");
	return all > 0 ? value_of(100 * e->model_flops.v / all)
		       : value_absent("the steps took no time");
}

static int model(const struct run *run, const struct selection *sel, const struct routing *routing,
		 struct efficiency *e)
{
	struct share *shares = calloc(run->n_shards ? run->n_shards : 1, sizeof(*shares));
	double flops = 0;
	bool told = false;
	int r = shares ? sum_steps(run, sel, shares, &told) : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < run->n_shards; i++) {
		flops += shares[i].flops;
		e->step_time_ns += shares[i].time_ns;
		e->steps += shares[i].steps;
	}
	if (r < 0) {
		free(shares);
		return r;
	}
	if (!e->steps)
		e->model_flops = value_absent("no finished, recorded step in this run or window");
	else if (sel->layer >= 0 || sel->phase >= 0)
		e->model_flops = value_absent("only a layer or phase was asked for");
	else if (told)
		e->model_flops = value_of(flops);
	else
		e->model_flops = routing_flops(run, routing);
	e->flops_source =
		told ? run_is_foreign(run) ? "of the operations: as the file reports them, else by "
					     "the shapes of their inputs"
					   : "reported by the operations"
		     : "est.: routers and experts in the forward pass alone, a lower bound";
	e->model_flops_per_s = e->mfu_pct = e->model_flops;
	if (e->model_flops.known) {
		e->model_flops_per_s = e->step_time_ns > 0 ? value_of(e->model_flops.v * 1e9 /
								      (double)e->step_time_ns)
							   : value_absent("the steps took no time");
		e->mfu_pct = mfu(run, e, shares);
	}
	free(shares);
	return 0;
}

int efficiency_analyze(const struct run *run, const struct selection *sel,
		       const struct efficiency_options *options, const struct ops *ops,
		       const struct routing *routing, struct efficiency *ret_efficiency)
{
	struct efficiency e = { 0 };
	struct kernel_classes *own = NULL;
	const struct kernel_classes *classes;
	int r = options->classes ? 0 : kernel_classes_new(NULL, &own, NULL);

	if (r < 0)
		return r;
	classes = own ? own : options->classes;
	r = efficiency_devices_fill(run, options->peaks, &e);
	if (r >= 0)
		r = efficiency_dtype_find(run, classes, &e);
	if (r >= 0)
		r = efficiency_rows_fill(run, sel, classes, ops, &e);
	if (r >= 0)
		r = model(run, sel, routing, &e);
	kernel_classes_free(own);
	if (r < 0) {
		efficiency_release(&e);
		return r;
	}
	*ret_efficiency = e;
	return 0;
}

bool efficiency_is_told(const struct efficiency *efficiency)
{
	for (size_t i = 0; i < efficiency->n; i++)
		if (efficiency->rows[i].covered_pct.known && efficiency->rows[i].covered_pct.v > 0)
			return true;
	return false;
}

void efficiency_release(struct efficiency *efficiency)
{
	for (size_t i = 0; i < efficiency->n; i++)
		free(efficiency->rows[i].name);
	free(efficiency->rows);
	free(efficiency->devices);
	free(efficiency->points);
	*efficiency = (struct efficiency){ 0 };
}
