/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of kernels, from the metrics of their launches; see kernel_limits.h. Pure, any thread.
 */
#include "subjects/counters/kernel_limits.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/text/demangle.h"
#include "base/text/scaled_units.h"
#include "device/sheets/kernel_name.h"
#include "subjects/counters/paired_sums.h"
#include "subjects/shared/occupancy.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WARP 32
#define NAMES_MOST 4
/* Kernels without their operations have up to 1% (GH100). */
#define TENSOR_WORKS_PCT 5
#define OF(member) offsetof(struct kernel_limit_row, member)
#define ELAPSED ".avg.pct_of_peak_sustained_elapsed"
#define ACTIVE ".avg.pct_of_peak_sustained_active"
/* The same, counted beside the units (src/counters/sets.c). */
#define BESIDE(name) "TPC.TriageCompute." name

/* A figure and the metrics that are it, the better ones first: those of the raw page, then the titles that the
 * details page has for them. Throughputs of whole units need several passes; where kernels are counted in one, there is
 * what they mostly come to: instructions of an SM, sectors of L2. */
static const struct figure {
	size_t offset; /* of a struct value */
	const char *unit, *missing;
	const char *names[NAMES_MOST]; /* up to NULL */
} figures[] = {
	{ OF(mean_ns), "ns", "gpu__time_duration was not counted", { TIME_METRIC, "Duration" } },
	{ OF(sm_pct),
	  "%",
	  "sm__throughput was not counted",
	  { "sm__throughput" ELAPSED, "Compute (SM) Throughput", "sm__inst_executed" ELAPSED,
	    BESIDE("sm__inst_executed_realtime" ELAPSED) } },
	{ OF(sm_active_pct),
	  "%",
	  "sm__cycles_active was not counted",
	  { "sm__cycles_active" ELAPSED, BESIDE("sm__cycles_active" ELAPSED) } },
	{ OF(tensor_pct),
	  "%",
	  "sm__pipe_tensor_cycles_active was not counted",
	  { "sm__pipe_tensor_cycles_active" ELAPSED,
	    BESIDE("sm__pipe_tensor_cycles_active_realtime" ELAPSED) } },
	{ OF(dram_pct),
	  "%",
	  "dram__throughput was not counted",
	  { "dram__throughput" ELAPSED, "gpu__dram_throughput" ELAPSED, "DRAM Throughput" } },
	{ OF(l2_pct),
	  "%",
	  "lts__throughput was not counted",
	  { "lts__throughput" ELAPSED, "L2 Cache Throughput", "lts__t_sectors" ELAPSED } },
	{ OF(l1_hit_pct),
	  "%",
	  "l1tex__t_sector_hit_rate was not counted",
	  { "l1tex__t_sector_hit_rate.pct", "L1/TEX Hit Rate" } },
	{ OF(l2_hit_pct),
	  "%",
	  "lts__t_sector_hit_rate was not counted",
	  { "lts__t_sector_hit_rate.pct", "L2 Hit Rate" } },
	{ OF(achieved_occupancy_pct),
	  "%",
	  "sm__warps_active was not counted",
	  { "sm__warps_active" ACTIVE, "Achieved Occupancy" } },
	{ OF(theoretical_occupancy_pct),
	  "%",
	  NULL, /* it can be computed */
	  { "sm__maximum_warps_per_active_cycle_pct", "Theoretical Occupancy" } },
	{ OF(waves), "", NULL, { "launch__waves_per_multiprocessor", "Waves Per SM" } },
	{ OF(threads_per_warp),
	  "",
	  "smsp__thread_inst_executed_per_inst_executed was not counted",
	  { "smsp__thread_inst_executed_per_inst_executed.ratio",
	    "Avg. Active Threads Per Warp" } },
	{ OF(dram_read_bytes),
	  "byte",
	  "dram__bytes_read was not counted",
	  { DRAM_METRIC "_read.sum", DRAM_METRIC "_op_read.sum" } },
	{ OF(dram_write_bytes),
	  "byte",
	  "dram__bytes_write was not counted",
	  { DRAM_METRIC "_write.sum", DRAM_METRIC "_op_write.sum" } },
	{ OF(dram_bytes), "byte", NULL, { DRAM_METRIC ".sum" } },
	{ OF(dram_bytes_per_s),
	  "byte/s",
	  NULL,
	  { "dram__bytes.sum.per_second", "Memory Throughput" } },
};

/* The metrics of one kernel. */
struct of_kernel {
	const struct run *run;
	const struct launch_metric_row *rows;
	size_t n;
	const struct paired_sums *sums;
	struct value mean_ns;
};

/* The mean in the figure's unit; false: its unit measures something else, or it has no numbers. */
static bool mean_in_unit(const struct of_kernel *of, const struct launch_metric_row *row,
			 const char *unit, double *ret_mean)
{
	const char *own = row->unit ? run_string(of->run, row->unit) : unit;
	int power;

	if (!row->mean.known || !scaled_unit_power(*own ? own : unit, unit, &power))
		return false;
	*ret_mean = scaled_by_power(row->mean.v, power);
	return isfinite(*ret_mean);
}

static struct value find_figure(const struct of_kernel *of, const struct figure *figure)
{
	for (size_t k = 0; k < NAMES_MOST && figure->names[k]; k++)
		for (size_t i = 0; i < of->n; i++) {
			double mean;

			if (!strcmp(run_string(of->run, of->rows[i].metric), figure->names[k]) &&
			    mean_in_unit(of, &of->rows[i], figure->unit, &mean))
				return value_of(mean);
		}
	return value_absent(figure->missing);
}

/* What lies between a beginning and an end of a metric's name; false: it has not both. */
static bool name_inside(const char *name, const char *begin, const char *end,
			const char **ret_inside, size_t *ret_length)
{
	size_t length = strlen(name), before = strlen(begin), after = strlen(end);

	if (length <= before + after || strncmp(name, begin, before) != 0 ||
	    strcmp(name + length - after, end) != 0)
		return false;
	*ret_inside = name + before;
	*ret_length = length - before - after;
	return true;
}

/* Whether another metric of the kernel counts its operations, too. */
static bool type_is_part(const struct of_kernel *of, const char *name)
{
	for (size_t i = 0; i < of->n; i++)
		if (of->rows[i].mean.known &&
		    tensor_metric_covers(run_string(of->run, of->rows[i].metric), name))
			return true;
	return false;
}

/* A metric a second: over the launches that have it and a time, else by the means. */
static struct value rate_of(const struct of_kernel *of, const struct launch_metric_row *row,
			    struct value mean)
{
	const struct paired_sum *sum = paired_sums_find(of->sums, row->kernel, row->metric);

	return sum ? value_ratio(value_of(sum->amount), value_of(sum->time_ns), 1e9, "too large")
		   : value_ratio(mean, of->mean_ns, 1e9, "it took no time");
}

static struct value rate_of_bytes(const struct of_kernel *of, enum dram_way way, struct value mean)
{
	for (size_t i = 0; i < of->n; i++)
		if (dram_metric_way(run_string(of->run, of->rows[i].metric)) == way)
			return rate_of(of, &of->rows[i], mean);
	return mean;
}

static struct value value_sum(struct value a, struct value b)
{
	if (!a.known || !b.known)
		return a.known ? b : a;
	/* The sum of large doubles may not be one. */
	return isfinite(a.v + b.v) ? value_of(a.v + b.v) : value_absent("the sum is too large");
}

static struct value mean_of(const struct of_kernel *of, const char *name)
{
	for (size_t i = 0; i < of->n; i++)
		if (of->rows[i].mean.known &&
		    !strcmp(run_string(of->run, of->rows[i].metric), name))
			return of->rows[i].mean;
	return value_absent("it was not counted");
}

/* Where kernels are counted in one pass, hits and misses come from different launches. */
static struct value hits_of_parts(const struct of_kernel *of, struct value absent)
{
	struct value hits = mean_of(of, "lts__t_sectors_lookup_hit.sum"),
		     misses = mean_of(of, "lts__t_sectors_lookup_miss.sum");

	return hits.known && misses.known ? value_ratio(hits, value_sum(hits, misses), 100,
							"nothing was looked up in L2")
					  : absent;
}

static void sum_tensor_ops(const struct of_kernel *of, struct kernel_limit_row *row)
{
	struct value ops = value_of(0), rate = value_of(0);
	double most = 0;
	bool any = false;

	row->tensor_type = PEAK_DTYPES;

	for (size_t i = 0; i < of->n; i++) {
		const char *name = run_string(of->run, of->rows[i].metric);

		if (!of->rows[i].mean.known || !is_tensor_metric(name) || type_is_part(of, name))
			continue;
		if (of->rows[i].mean.v > most) {
			most = of->rows[i].mean.v;
			row->tensor_type = tensor_metric_dtype(name);
		}
		ops = value_sum(ops, of->rows[i].mean);
		rate = value_sum(rate, rate_of(of, &of->rows[i], of->rows[i].mean));
		any = true;
	}
	row->tensor_ops = any ? ops : value_absent("sm__ops_path_tensor was not counted");
	/* Groups of metrics take turns: a kernel with few launches may have those of other types. */
	if (any && most <= 0 && !(row->tensor_pct.known && row->tensor_pct.v < TENSOR_WORKS_PCT)) {
		row->tensor_ops = value_absent(
			row->tensor_pct.known
				? "the tensor cores worked, but on no type that was counted"
				: "none of the types that were counted, and whether the tensor "
				  "cores worked was not counted");
		any = false;
	}
	row->tensor_ops_per_s = any ? rate : row->tensor_ops;
}

/* The largest reason, and its share of all that were counted. "selected" is a warp at work. */
static void find_stall(const struct of_kernel *of, struct kernel_limit_row *row)
{
	double sum = 0, most = 0;

	for (size_t i = 0; i < of->n; i++) {
		const char *reason;
		size_t length;
		double ratio = of->rows[i].mean.v;

		if (!of->rows[i].mean.known || !(ratio > 0) ||
		    !name_inside(run_string(of->run, of->rows[i].metric),
				 "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio",
				 &reason, &length) ||
		    length > STALL_NAME_MOST ||
		    (length == strlen("selected") && !memcmp(reason, "selected", length)))
			continue;
		sum += ratio;
		if (ratio > most) {
			most = ratio;
			memcpy(row->stall, reason, length);
			row->stall[length] = '\0';
		}
	}
	row->stall_pct = sum > 0 && isfinite(sum)
				 ? value_of(100 * most / sum)
				 : value_absent("stalls were not counted, or there were none");
}

/* How far apart a metric's values were in the launches. */
static struct value spread_of(const struct of_kernel *of, const char *name, const char *not_counted)
{
	for (size_t i = 0; i < of->n; i++) {
		const struct launch_metric_row *row = &of->rows[i];

		if (strcmp(run_string(of->run, row->metric), name) != 0 || !row->mean.known)
			continue;
		if (row->numbers < 2)
			return value_absent("one launch alone has it");
		return value_ratio(value_of(row->max.v - row->min.v), row->mean, 100, "it is 0");
	}
	return value_absent(not_counted);
}

/* From what is counted beside the units: its share is of all cycles, whatever the metric's name says (GH100). */
static struct value occupancy_beside(const struct of_kernel *of, struct value absent)
{
	struct value warps = mean_of(of, BESIDE("tpc__warps_active_shader_cs_realtime" ACTIVE)),
		     active = mean_of(of, BESIDE("sm__cycles_active" ELAPSED));

	return warps.known && active.known ? value_ratio(warps, active, 100, "no SM was active")
					   : absent;
}

/* What follows from other figures. */
static void derive_figures(struct of_kernel *of, struct kernel_limit_row *row)
{
	of->mean_ns = row->mean_ns;
	row->time_spread_pct = spread_of(of, TIME_METRIC, "gpu__time_duration was not counted");
	row->clock_spread_pct = spread_of(of, "gpc__cycles_elapsed.avg.per_second",
					  "gpc__cycles_elapsed was not counted");
	if (row->dram_read_bytes.known && row->dram_write_bytes.known) {
		row->dram_bytes = value_sum(row->dram_read_bytes, row->dram_write_bytes);
		row->dram_bytes_per_s =
			value_sum(rate_of_bytes(of, DRAM_READ, row->dram_read_bytes),
				  rate_of_bytes(of, DRAM_WRITE, row->dram_write_bytes));
	} else if (row->dram_bytes.known) {
		row->dram_bytes_per_s = rate_of_bytes(of, DRAM_BOTH_WAYS, row->dram_bytes);
	} else {
		row->dram_bytes = row->dram_read_bytes.known ? row->dram_write_bytes
							     : row->dram_read_bytes;
		/* The profiler may have said the rate alone. */
		if (!row->dram_bytes_per_s.known)
			row->dram_bytes_per_s = row->dram_bytes;
	}
	if (!row->l2_hit_pct.known)
		row->l2_hit_pct = hits_of_parts(of, row->l2_hit_pct);
	if (!row->achieved_occupancy_pct.known)
		row->achieved_occupancy_pct = occupancy_beside(of, row->achieved_occupancy_pct);
	row->warp_efficiency_pct = value_ratio(row->threads_per_warp, value_of(WARP), 100, NULL);
	sum_tensor_ops(of, row);
	row->ops_per_byte = row->tensor_ops_per_s.known && row->dram_bytes_per_s.known &&
					    row->dram_bytes.known
				    ? value_ratio(row->tensor_ops_per_s, row->dram_bytes_per_s, 1,
						  "it moved no bytes of DRAM")
				    : value_ratio(row->tensor_ops, row->dram_bytes, 1,
						  "it moved no bytes of DRAM");
	find_stall(of, row);
}

/* A launch that was measured. */
struct measured {
	uint32_t kernel, shard, profile, launch, device;
};

static int by_measured(const void *a, const void *b)
{
	const struct measured *x = a, *y = b;

	return CMP(x->kernel, y->kernel) ?: CMP(x->shard, y->shard) ?: CMP(x->profile, y->profile);
}

/* Each launch once, by kernel; free() them. */
static int list_measured(const struct run *run, struct measured **ret_all, size_t *ret_n)
{
	const struct table_metric *t = &run->metric;
	struct measured *all = NULL;
	size_t n = 0, kept = 0, capacity = 0;

	for (size_t i = 0; i < t->n; i++) {
		/* The metrics of a launch mostly stand side by side. */
		if (i && t->shard[i] == t->shard[i - 1] && t->profile[i] == t->profile[i - 1] &&
		    t->launch[i] == t->launch[i - 1])
			continue;
		if (array_grow(&all, &capacity, n + 1, sizeof(*all)) < 0) {
			free(all);
			return -ENOMEM;
		}
		all[n++] = (struct measured){ run_launch(run, t->launch[i]).name, t->shard[i],
					      t->profile[i], t->launch[i], t->device[i] };
	}
	if (n)
		qsort(all, n, sizeof(*all), by_measured);
	for (size_t i = 0; i < n; i++)
		if (!i || by_measured(&all[kept - 1], &all[i]) != 0)
			all[kept++] = all[i];
	*ret_all = all;
	*ret_n = kept;
	return 0;
}

static bool find_device(const struct run *run, const struct measured *launch,
			struct row_device *ret_device)
{
	const struct table_device *t = &run->device;

	for (size_t i = 0; i < t->n; i++)
		if (t->shard[i] == launch->shard && t->device[i] == launch->device) {
			*ret_device = (struct row_device){
				.capability = t->capability[i],
				.multiprocessors = t->multiprocessors[i],
				.threads_per_multiprocessor = t->threads_per_multiprocessor[i],
				.registers_per_multiprocessor = t->registers_per_multiprocessor[i],
				.shared_bytes_per_multiprocessor =
					t->shared_bytes_per_multiprocessor[i],
				.blocks_per_multiprocessor = t->blocks_per_multiprocessor[i],
			};
			return true;
		}
	return false;
}

/* What can be computed of the launches, where the profiler has not said it: means over the n launches. */
static void compute_occupancy(const struct run *run, const struct measured *launches, size_t n,
			      struct kernel_limit_row *row)
{
	struct occupancy_mean mean = { 0 };
	struct value waves = value_absent("the run does not say what the device is");
	double sum = 0;
	uint64_t counted = 0;

	for (size_t i = 0; i < n; i++) {
		struct row_launch launch = run_launch(run, launches[i].launch);
		struct row_device device;
		struct occupancy one;
		double blocks = (double)launch.grid_x * launch.grid_y * launch.grid_z;

		if (!find_device(run, &launches[i], &device)) {
			mean.reason = waves.reason;
			continue;
		}
		one = occupancy_of(&launch, &device);
		occupancy_mean_add(&mean, &one, 1);
		if (!one.pct.known) {
			waves.reason = one.pct.reason;
		} else if (!device.multiprocessors || !(blocks > 0)) {
			waves.reason = "the size of the grid or of the device is unknown";
		} else {
			sum += blocks / ((double)one.blocks * device.multiprocessors);
			counted++;
		}
	}
	row->occupancy_limiter = occupancy_mean_limiter(&mean);
	if (!row->theoretical_occupancy_pct.known)
		row->theoretical_occupancy_pct = occupancy_mean_pct(&mean);
	if (!row->waves.known)
		row->waves = counted ? value_of(sum / (double)counted) : waves;
}

static int make_limit_row(struct of_kernel *of, struct kernel_limit_row *row)
{
	row->kernel = of->rows->kernel;
	row->first = of->rows->kernel_first;
	for (size_t i = 0; i < COUNT(figures); i++) {
		struct value *value = (struct value *)((char *)row + figures[i].offset);

		*value = find_figure(of, &figures[i]);
		row->figures += value->known;
	}
	derive_figures(of, row);
	if (demangled(row->kernel ? run_string(of->run, row->kernel) : "(no name)", &row->name) < 0)
		return -ENOMEM;
	return kernel_short_name(row->name, &row->short_name);
}

static int tell_apart(struct kernel_limits *limits)
{
	struct kernel_alias *labels = array_new(limits->n, sizeof(*labels));
	int r = labels ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && i < limits->n; i++)
		labels[i] = (struct kernel_alias){ limits->rows[i].name,
						   &limits->rows[i].short_name };
	if (r >= 0)
		r = kernel_aliases_tell_apart(labels, limits->n);
	free(labels);
	return r;
}

static int by_kernel(const void *a, const void *b)
{
	const struct kernel_limit_row *x = a, *y = b;

	return CMP(x->kernel, y->kernel);
}

static int by_time(const void *a, const void *b)
{
	const struct kernel_limit_row *x = a, *y = b;

	return CMP(y->time_ns, x->time_ns) ?: CMP(x->first, y->first);
}

/* How much of the device time of the run they are; rows are by kernel. */
static void add_shares(const struct run *run, struct kernel_limits *limits)
{
	const struct table_kernel *t = &run->kernel;
	int64_t all_ns = 0, sum_ns;

	for (size_t i = 0; i < t->n; i++) {
		struct kernel_limit_row key = { .kernel = run_kernel_name(run, i) }, *row;

		if (t->untimed[i] || t->duration_ns[i] < 0 ||
		    __builtin_add_overflow(all_ns, t->duration_ns[i], &sum_ns))
			continue;
		all_ns = sum_ns;
		row = bsearch(&key, limits->rows, limits->n, sizeof(key), by_kernel);
		if (!row)
			continue;
		row->time_ns += t->duration_ns[i];
		row->count++;
	}
	for (size_t i = 0; i < limits->n; i++)
		limits->rows[i].share_pct =
			all_ns > 0
				? value_of(100.0 * (double)limits->rows[i].time_ns / (double)all_ns)
				: value_absent("the run has no times of kernels");
}

/* The roofline, by measured operations and bytes. */
static void add_roof(const struct efficiency_device *device, struct kernel_limit_row *row)
{
	double peak = row->tensor_type < PEAK_DTYPES ? device->peaks.flops_per_s[row->tensor_type]
						     : 0;

	if (!row->ops_per_byte.known)
		row->roof_ops_per_s = row->ops_per_byte;
	else if (!(row->ops_per_byte.v > 0))
		row->roof_ops_per_s = value_absent("no operations of the tensor cores");
	else if (!(peak > 0))
		row->roof_ops_per_s = value_absent(
			device->reason ? device->reason : "the peak of this type is unknown");
	else if (!device->memory_bytes_per_s.known)
		row->roof_ops_per_s = device->memory_bytes_per_s;
	else
		row->roof_ops_per_s =
			value_of(fmin(peak, row->ops_per_byte.v * device->memory_bytes_per_s.v));
	row->roof_pct = value_ratio(row->tensor_ops_per_s, row->roof_ops_per_s, 100,
				    "the roof is 0");
}

static int fill_limits(const struct run *run, const struct peaks_file *peaks,
		       const struct launch_metrics *metrics, const struct paired_sums *sums,
		       struct kernel_limits *limits)
{
	struct measured *launches;
	size_t n_launches;
	int r = list_measured(run, &launches, &n_launches);

	if (r < 0)
		return r;
	limits->launches = n_launches;
	limits->device = efficiency_device_of(run, peaks, (uint16_t)launches->shard,
					      launches->device);
	/* Rows of a kernel are side by side. */
	for (size_t i = 0, end; r >= 0 && i < metrics->n; i = end) {
		for (end = i;
		     end < metrics->n && metrics->rows[end].kernel == metrics->rows[i].kernel;)
			end++;
		r = make_limit_row(
			&(struct of_kernel){
				.run = run, .rows = &metrics->rows[i], .n = end - i, .sums = sums },
			&limits->rows[limits->n++]);
	}
	qsort(limits->rows, limits->n, sizeof(*limits->rows), by_kernel);
	for (size_t i = 0, k = 0; r >= 0 && i < limits->n; i++) {
		struct kernel_limit_row *row = &limits->rows[i];
		size_t first = k;

		while (k < n_launches && launches[k].kernel == row->kernel)
			k++;
		row->launches = k - first;
		compute_occupancy(run, &launches[first], k - first, row);
		kernel_bound_decide(row);
		add_roof(&limits->device, row);
	}
	free(launches);
	if (r < 0)
		return r;
	add_shares(run, limits);
	qsort(limits->rows, limits->n, sizeof(*limits->rows), by_time);
	return tell_apart(limits);
}

int kernel_limits_analyze(const struct run *run, const struct peaks_file *peaks,
			  const struct launch_metrics *metrics, struct kernel_limits *ret_limits)
{
	struct kernel_limits limits = { 0 };
	struct paired_sums sums;
	int r;

	*ret_limits = limits;
	if (!metrics->n)
		return 0;
	r = paired_sums_make(run, &sums);
	if (r < 0)
		return r;
	limits.rows = calloc(metrics->kernels, sizeof(*limits.rows));
	r = limits.rows ? fill_limits(run, peaks, metrics, &sums, &limits) : -ENOMEM;
	paired_sums_release(&sums);
	if (r < 0)
		kernel_limits_release(&limits);
	else
		*ret_limits = limits;
	return r;
}

int64_t kernel_limit_time_ns(const struct kernel_limit_row *row)
{
	if (row->time_ns || !row->mean_ns.known)
		return row->time_ns;
	return (int64_t)(row->mean_ns.v * (double)row->launches);
}

void kernel_limits_release(struct kernel_limits *limits)
{
	for (size_t i = 0; i < limits->n; i++) {
		free(limits->rows[i].name);
		free(limits->rows[i].short_name);
	}
	free(limits->rows);
	*limits = (struct kernel_limits){ 0 };
}
