/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow steps against usual ones; see slow_steps.h.
 *
 * The records of all these steps are cut out of the run once; each step then is a small run of its
 * own, on which the analyses of whole runs work.
 */
#include "subjects/steps/slow_steps.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "base/text/demangle.h"
#include "subjects/device/device_samples.h"
#include "subjects/numbers/intervals.h"
#include "device/sheets/kernel_name.h"
#include "subjects/shared/run_slice.h"
#include "subjects/device/timeline.h"
#include "subjects/shared/lanes.h"

static const char no_records[] = "device records do not cover the step";
static const char no_phases[] = "no range in the step names a phase";

/* What one step did, or the mean of several. */
struct account {
	double device[SLOW_DEVICE_PARTS], phases[STEP_PHASES];
	double time_ns, allocation_ns, gap_ns, gap_at_ns;
	uint64_t allocation_calls;
	bool has_device, has_phases, has_calls;
	struct value clock_mhz, tokens;
	double *kernel_ns; /* by string id of the name, n_names of them */
};

struct looking {
	const struct run *run;
	const struct steps *steps;
	const struct coverage *coverage;
	struct run slice; /* all steps at hand */
	int64_t calls_before_ns;
	size_t n_names;
};

static const char *device_part_name(size_t part)
{
	static const char *const names[] = { "kernels", "copies" };
	static const char *const idle[] = { "idle: host",   "idle: launch", "idle: sync",
					    "idle: copy",   "idle: queued", "idle: profiler",
					    "idle: unknown" };

	_Static_assert(sizeof(idle) / sizeof(idle[0]) == IDLE_CAUSES, "one for each cause");
	return part < 2 ? names[part] : idle[part - 2];
}

static bool step_is_covered(const struct looking *l, const struct step_row *row)
{
	return coverage_has_step(l->coverage, l->run, row->row);
}

static bool comparable(const struct looking *l, const struct step_row *row)
{
	return row->timed && !row->outlier && row->recorded &&
	       (!l->run->kernel.n || step_is_covered(l, row));
}

static struct stretch stretch_of(const struct looking *l, const struct step_row *row)
{
	return (struct stretch){ row->start_ns, row->start_ns + row->duration_ns,
				 l->run->step.shard[row->row] };
}

static void sum_kernels(const struct run *one, const struct stretch *s, struct account *a)
{
	const struct table_kernel *kernel = &one->kernel;

	for (size_t i = 0; i < kernel->n; i++) {
		int64_t start = kernel->start_ns[i], end = start + kernel->duration_ns[i];

		start = start < s->start_ns ? s->start_ns : start;
		end = end > s->end_ns ? s->end_ns : end;
		if (!kernel->untimed[i] && end > start)
			a->kernel_ns[run_launch(one, kernel->launch[i]).name] +=
				(double)(end - start);
	}
}

/* The longest time in which one device had nothing to do. */
static void find_gap_of(const struct device_lanes *lanes, const struct lane *lane,
			const struct stretch *s, struct account *a)
{
	struct busy_stream stream = busy_stream(lanes, lane->shard, lane->device);
	int64_t at = s->start_ns;
	struct lane_span busy;
	bool more = true;

	while (more && at < s->end_ns) {
		int64_t next;

		more = busy_stream_next(&stream, &busy);
		next = more && busy.start_ns < s->end_ns ? busy.start_ns : s->end_ns;
		if ((double)(next - at) > a->gap_ns) {
			a->gap_ns = (double)(next - at);
			a->gap_at_ns = (double)(at - s->start_ns);
		}
		at = more && busy.end_ns > at ? busy.end_ns : at;
	}
}

static int find_gap(const struct run *one, const struct stretch *s, struct account *a)
{
	struct device_lanes lanes;
	struct lane *devices;
	int r = device_lanes_init(&lanes, one);

	if (r < 0)
		return r;
	devices = calloc(device_lanes_room(&lanes) + 1, sizeof(*devices));
	if (devices)
		for (size_t i = 0, n = device_lanes_list(&lanes, devices); i < n; i++)
			find_gap_of(&lanes, &devices[i], s, a);
	device_lanes_release(&lanes);
	r = devices ? 0 : -ENOMEM;
	free(devices);
	return r;
}

static bool allocates(const char *call)
{
	return strstr(call, "Alloc") || strstr(call, "alloc") || strstr(call, "Free") ||
	       strstr(call, "HostRegister");
}

/* A driver call inside a runtime call is merged with it. */
static int sum_allocations(const struct run *one, const struct stretch *s, struct account *a)
{
	const struct table_api *api = &one->api;
	struct span *spans = calloc(api->n + 1, sizeof(*spans));
	size_t n = 0;

	if (!spans)
		return -ENOMEM;
	for (size_t i = 0; i < api->n; i++) {
		int64_t end = api->start_ns[i] + api->duration_ns[i];

		if (api->start_ns[i] >= s->start_ns && api->start_ns[i] < s->end_ns &&
		    allocates(run_string(one, api->name[i])))
			spans[n++] = (struct span){ api->start_ns[i], end, 0, api->thread[i],
						    api->shard[i] };
	}
	n = n ? spans_merge(spans, n) : 0;
	a->has_calls = api->n > 0;
	a->allocation_calls = n;
	a->allocation_ns = (double)spans_length(spans, n);
	free(spans);
	return 0;
}

static int split_device(const struct run *one, int64_t step, struct account *a)
{
	struct selection sel = SELECT_ALL;
	struct timeline timeline;
	int r;

	sel.step_first = sel.step_last = step;
	r = timeline_analyze(one, &sel, &timeline);
	if (r < 0)
		return r;
	a->has_device = timeline.n > 0;
	for (size_t i = 0; i < timeline.n; i++) {
		const struct timeline_device *d = &timeline.devices[i];
		double n = (double)timeline.n;

		a->device[0] += (double)d->kernel_ns / n;
		a->device[1] += (double)(d->busy_ns - d->kernel_ns) / n;
		for (int c = 0; c < IDLE_CAUSES; c++)
			a->device[2 + c] += (double)d->idle_by_cause[c] / n;
	}
	timeline_release(&timeline);
	return 0;
}

static int account_for_step(const struct looking *l, const struct step_row *row, struct account *a)
{
	struct stretch stretch = stretch_of(l, row);
	struct run one;
	int r = run_slice_init(&one, &l->slice, &stretch, 1, l->calls_before_ns);

	if (r < 0)
		return r;
	a->time_ns = (double)row->duration_ns;
	a->tokens = row->tokens;
	a->clock_mhz = device_samples_clock(&one, stretch.shard, stretch.start_ns, stretch.end_ns);
	a->has_phases = row->phases_known;
	for (int p = 0; p < STEP_PHASES; p++)
		a->phases[p] = (double)row->phase_ns[p];
	if (l->run->kernel.n && step_is_covered(l, row)) {
		sum_kernels(&one, &stretch, a);
		r = split_device(&one, row->step, a);
		if (r >= 0)
			r = find_gap(&one, &stretch, a);
		if (r >= 0)
			r = sum_allocations(&one, &stretch, a);
	}
	run_slice_release(&one);
	return r;
}

static struct value mean_value(double sum, size_t n, const char *reason)
{
	return n ? value_of(sum / (double)n) : value_absent(reason);
}

/* The mean of the usual steps. */
static int look_at_usual(const struct looking *l, const size_t *usual, size_t n,
			 struct account *ret_mean)
{
	double clock = 0, tokens = 0;
	size_t clocks = 0, with_tokens = 0;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		/* The names add up over all of them. */
		struct account a = { .kernel_ns = ret_mean->kernel_ns };

		r = account_for_step(l, &l->steps->rows[usual[i]], &a);
		ret_mean->time_ns += a.time_ns / (double)n;
		ret_mean->allocation_ns += a.allocation_ns / (double)n;
		for (size_t p = 0; p < SLOW_DEVICE_PARTS; p++)
			ret_mean->device[p] += a.device[p] / (double)n;
		for (size_t p = 0; p < STEP_PHASES; p++)
			ret_mean->phases[p] += a.phases[p] / (double)n;
		ret_mean->has_device = (i == 0 || ret_mean->has_device) && a.has_device;
		ret_mean->has_phases = (i == 0 || ret_mean->has_phases) && a.has_phases;
		ret_mean->has_calls |= a.has_calls;
		if (a.clock_mhz.known) {
			clock += a.clock_mhz.v;
			clocks++;
		}
		if (a.tokens.known) {
			tokens += a.tokens.v;
			with_tokens++;
		}
	}
	for (size_t i = 0; i < l->n_names; i++)
		ret_mean->kernel_ns[i] /= (double)n;
	ret_mean->clock_mhz = mean_value(clock, clocks, "no clock was sampled in the usual steps");
	ret_mean->tokens = mean_value(tokens, with_tokens, "the program did not give the tokens");
	return r;
}

static int part_order(const void *a, const void *b)
{
	const struct slow_part *x = a, *y = b;

	return CMP(y->extra_ns, x->extra_ns);
}

static void compare_parts(const struct account *a, const struct account *usual,
			  struct slow_step *step)
{
	step->device_known = a->has_device && usual->has_device ? value_of(1)
								: value_absent(no_records);
	for (size_t p = 0; step->device_known.known && p < SLOW_DEVICE_PARTS; p++)
		if (a->device[p] != 0 || usual->device[p] != 0)
			step->device[step->n_device++] = (struct slow_part){
				device_part_name(p), a->device[p] - usual->device[p]
			};
	qsort(step->device, step->n_device, sizeof(step->device[0]), part_order);
	step->phases_known = a->has_phases && usual->has_phases ? value_of(1)
								: value_absent(no_phases);
	for (unsigned int p = 0; step->phases_known.known && p < STEP_PHASES; p++)
		if (a->phases[p] != 0 || usual->phases[p] != 0)
			step->phases[step->n_phases++] = (struct slow_part){
				p ? phase_name(p) : "other", a->phases[p] - usual->phases[p]
			};
	qsort(step->phases, step->n_phases, sizeof(step->phases[0]), part_order);
}

/* The names whose kernels took most longer than usual. */
static int compare_kernels(const struct looking *l, const struct account *a,
			   const struct account *usual, struct slow_step *step)
{
	int r = 0;

	if (!step->device_known.known)
		return 0;
	for (size_t k = 0; r >= 0 && k < SLOW_KERNELS; k++) {
		size_t most = 0;
		double extra = 0;
		char *name;

		for (size_t i = 0; i < l->n_names; i++)
			if (a->kernel_ns[i] - usual->kernel_ns[i] > extra) {
				extra = a->kernel_ns[i] - usual->kernel_ns[i];
				most = i;
			}
		if (extra <= 0)
			break;
		a->kernel_ns[most] = 0; /* not once more */
		r = demangled(most ? run_string(l->run, (uint32_t)most) : "(no name)", &name);
		if (r < 0)
			break;
		r = kernel_short_name(name, &step->kernels[k].name);
		free(name);
		step->kernels[k].extra_ns = extra;
		step->n_kernels += r >= 0;
	}
	return r;
}

static int explain(const struct looking *l, size_t row, const struct account *usual,
		   struct slow_step *step)
{
	struct account a = { .kernel_ns = calloc(l->n_names + 1, sizeof(*a.kernel_ns)) };
	int r = a.kernel_ns ? account_for_step(l, &l->steps->rows[row], &a) : -ENOMEM;

	*step = (struct slow_step){ .row = row, .extra_ns = a.time_ns - usual->time_ns };
	if (r >= 0) {
		compare_parts(&a, usual, step);
		step->gap_ns = a.gap_ns > 0 ? value_of(a.gap_ns) : value_absent(no_records);
		step->gap_at_ns = a.gap_ns > 0 ? value_of(a.gap_at_ns) : value_absent(no_records);
		step->clock_mhz = a.clock_mhz;
		step->allocation_calls = a.allocation_calls;
		step->allocation_ns = a.has_calls ? value_of(a.allocation_ns)
						  : value_absent("no calls were recorded");
		r = compare_kernels(l, &a, usual, step);
	}
	free(a.kernel_ns);
	return r;
}

struct candidate {
	double key; /* smallest first */
	size_t row;
};

static int candidate_order(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return CMP(x->key, y->key) ?: CMP(x->row, y->row);
}

/* Rows of the slowest outliers and of the usual steps; the numbers of both. */
static int choose_slow_and_usual(const struct looking *l, size_t *slow, size_t *ret_slow,
				 size_t *usual, size_t *ret_usual)
{
	const struct steps *s = l->steps;
	struct candidate *c = calloc(s->n * 2 + 1, sizeof(*c)), *near = c + s->n;
	size_t n = 0, n_near = 0;

	if (!c)
		return -ENOMEM;
	for (size_t i = 0; i < s->n; i++) {
		double time = (double)s->rows[i].duration_ns;

		if (s->rows[i].outlier && s->rows[i].recorded)
			c[n++] = (struct candidate){ -time, i };
		else if (comparable(l, &s->rows[i]))
			near[n_near++] = (struct candidate){ fabs(time - s->all.p50), i };
	}
	qsort(c, n, sizeof(*c), candidate_order);
	qsort(near, n_near, sizeof(*near), candidate_order);
	*ret_slow = n < SLOW_STEPS ? n : SLOW_STEPS;
	*ret_usual = n_near < SLOW_USUAL ? n_near : SLOW_USUAL;
	for (size_t i = 0; i < *ret_slow; i++)
		slow[i] = c[i].row;
	for (size_t i = 0; i < *ret_usual; i++)
		usual[i] = near[i].row;
	free(c);
	return 0;
}

static size_t count_names(const struct run *run)
{
	size_t n = 0;

	for (size_t i = 0; i < run->kernel.n; i++) {
		size_t name = run_kernel_name(run, i);

		n = name + 1 > n ? name + 1 : n;
	}
	return n;
}

static int compare(struct looking *l, const size_t *slow, size_t n_slow, const size_t *usual,
		   size_t n_usual, struct slow_steps *out)
{
	struct account mean = { 0 };
	int r;

	l->n_names = count_names(&l->slice);
	mean.kernel_ns = calloc(l->n_names + 1, sizeof(*mean.kernel_ns));
	out->steps = calloc(n_slow, sizeof(*out->steps));
	r = mean.kernel_ns && out->steps ? look_at_usual(l, usual, n_usual, &mean) : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < n_slow; i++) {
		r = explain(l, slow[i], &mean, &out->steps[i]);
		out->n++;
	}
	free(mean.kernel_ns);
	out->usual = n_usual;
	out->usual_ns = value_of(mean.time_ns);
	out->usual_clock_mhz = mean.clock_mhz;
	out->usual_tokens = mean.tokens;
	out->usual_allocation_ns = mean.has_calls ? value_of(mean.allocation_ns)
						  : value_absent("no calls were recorded");
	return r;
}

int slow_steps_analyze(const struct run *run, const struct steps *steps,
		       const struct coverage *coverage, struct slow_steps *ret_slow)
{
	struct looking l = { .run = run, .steps = steps, .coverage = coverage };
	struct slow_steps out = { .outliers = steps->n_outliers };
	struct stretch stretches[SLOW_STEPS + SLOW_USUAL];
	size_t slow[SLOW_STEPS], usual[SLOW_USUAL], n_slow = 0, n_usual = 0;
	int r = 0;

	out.usual_ns = out.usual_clock_mhz = out.usual_tokens = out.usual_allocation_ns =
		value_absent(steps->n_outliers ? "no usual step was recorded" : "no slow steps");
	if (steps->n_outliers)
		r = choose_slow_and_usual(&l, slow, &n_slow, usual, &n_usual);
	if (r >= 0 && n_slow && n_usual) {
		for (size_t i = 0; i < n_slow + n_usual; i++)
			stretches[i] = stretch_of(
				&l, &steps->rows[i < n_slow ? slow[i] : usual[i - n_slow]]);
		l.calls_before_ns = run_slice_calls_before(run);
		r = run_slice_init(&l.slice, run, stretches, n_slow + n_usual, l.calls_before_ns);
		if (r >= 0)
			r = compare(&l, slow, n_slow, usual, n_usual, &out);
		run_slice_release(&l.slice);
	}
	if (r < 0) {
		slow_steps_release(&out);
		return r;
	}
	*ret_slow = out;
	return 0;
}

void slow_steps_release(struct slow_steps *slow)
{
	for (size_t i = 0; i < slow->n; i++)
		for (size_t k = 0; k < SLOW_KERNELS; k++)
			free(slow->steps[i].kernels[k].name);
	free(slow->steps);
	*slow = (struct slow_steps){ 0 };
}
