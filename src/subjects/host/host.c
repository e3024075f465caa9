/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under the program; see host.h.
 */
#include "subjects/host/host.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"

#define TIMES_MOST 240
#define LEAST_NS INT64_C(100000000) /* the kernel counts in hundredths of a second */
#define GLANCES_LEAST 10
#define GROWTH_READINGS 3 /* in the second half of its life, at least */
#define GROWTH_REST 0.15  /* of its life: so long it may stay as it is at the end */
#define GROWTH_STEADY 0.8
#define GROWTH_LEAST_BYTES 33554432.0 /* less is nobody's leak within a run */
#define GROWTH_LEAST_SHARE 0.2	      /* of the peak, in the second half */
#define GROWTH_LEAST_NS INT64_C(2000000000)
#define GROWTH_AT_ONCE 0.25 /* of all that came, in a reading */
#define GROWTH_TIMES 2.0    /* as much as in the same time elsewhere */
#define TURN_LEAST 0.75	    /* processors wanted while threads take turns */
#define TURN_MOST 1.2	    /* used; and wanted, beside two threads */

static const char not_read[] = "could not be read on that machine";
static const char no_limit[] = "no limit";

/* What the figures are made from. */
struct maker {
	const struct host_readings *readings;
	const struct host_thing *machine, *cgroup;
	struct host *host;
	int64_t from_ns, to_ns;
};

static struct value grew(const struct maker *m, const struct host_thing *thing,
			 enum host_metric metric)
{
	double value;

	return thing && host_grew(m->readings, thing, metric, m->from_ns, m->to_ns, &value)
		       ? value_of(value)
		       : value_absent(not_read);
}

static struct value last(const struct maker *m, const struct host_thing *thing,
			 enum host_metric metric)
{
	double value;

	return thing && host_at(m->readings, thing, metric, m->to_ns, &value)
		       ? value_of(value)
		       : value_absent(not_read);
}

static struct value scaled(struct value value, double by)
{
	value.v *= by;
	return value;
}

/* The largest (sign 1) or smallest (-1) reading. */
static struct value extreme(const struct maker *m, const struct host_thing *thing,
			    enum host_metric metric, double sign)
{
	const struct table_host_sample *t = &m->readings->run->host_sample;
	struct value best = value_absent(not_read);

	for (size_t i = 0; thing && i < thing->series[metric].n; i++) {
		double value = (double)t->value[thing->series[metric].rows[i]];

		if (!best.known || sign * value > sign * best.v)
			best = value_of(value);
	}
	return best;
}

/* Over the time that a state held. */
static struct value mean(const struct maker *m, const struct host_thing *thing,
			 enum host_metric metric)
{
	const struct table_host_sample *t = &m->readings->run->host_sample;
	struct host_series series = thing ? thing->series[metric] : (struct host_series){ 0 };
	double sum = 0, time = 0;

	for (size_t i = 0; i < series.n; i++) {
		int64_t until = i + 1 < series.n ? t->time_ns[series.rows[i + 1]] : m->to_ns;
		double held = (double)(until - t->time_ns[series.rows[i]]);

		sum += held * (double)t->value[series.rows[i]];
		time += held;
	}
	return time > 0 ? value_of(sum / time) : last(m, thing, metric);
}

static struct value plus(struct value a, struct value b)
{
	return a.known && b.known ? value_of(a.v + b.v) : a.known ? a : b;
}

/* ---- processes */

static const char *process_name(const struct run *run, const struct host_thing *thing)
{
	const struct table_fact *fact = &run->fact;
	const char *name = "";
	char key[48];

	snprintf(key, sizeof(key), "process %.20s", run_string(run, thing->name));
	for (size_t i = 0; i < fact->n; i++)
		if (fact->shard[i] == thing->shard &&
		    strcmp(run_string(run, fact->key[i]), key) == 0)
			name = run_string(run, fact->value[i]);
	return name;
}

/* Parts of all that came and of the time since the last that came. A library, a model or a cache does; a leak does not. */
static bool came_at_once(double part, double time_part)
{
	return part > fmax(GROWTH_AT_ONCE, GROWTH_TIMES * time_part);
}

/* Memory that grows to the end, not only while the program starts: absent unless most readings up to the peak
 * are larger than the one before. What comes after the peak is the process ending. */
static struct value steady_growth(const struct maker *m, const struct host_thing *thing,
				  int64_t from_ns, int64_t to_ns, double peak)
{
	const struct table_host_sample *t = &m->readings->run->host_sample;
	struct host_series series = thing->series[HOST_RESIDENT_BYTES];
	int64_t middle_ns = from_ns + (to_ns - from_ns) / 2, peak_ns = from_ns, last_ns = middle_ns;
	double first, before, half_ns = (double)(to_ns - middle_ns);
	bool at_once = false;
	size_t n = 0, grows = 0;

	if (to_ns - from_ns < GROWTH_LEAST_NS)
		return value_absent("too short to tell");
	if (!host_at(m->readings, thing, HOST_RESIDENT_BYTES, middle_ns, &first))
		return value_absent(not_read);
	before = first;
	for (size_t i = 0; i < series.n && before < peak; i++) {
		double now = (double)t->value[series.rows[i]];

		peak_ns = t->time_ns[series.rows[i]];
		/* The same again says only when it was seen so. */
		if (peak_ns <= middle_ns || now == before)
			continue;
		n++;
		grows += now > before;
		at_once = at_once || came_at_once((now - before) / (peak - first),
						  (double)(peak_ns - last_ns) / half_ns);
		before = now;
		last_ns = peak_ns;
	}
	if (at_once || n < GROWTH_READINGS || (double)grows < GROWTH_STEADY * (double)n ||
	    (double)(to_ns - peak_ns) > GROWTH_REST * (double)(to_ns - from_ns) ||
	    peak - first < GROWTH_LEAST_BYTES || peak - first < GROWTH_LEAST_SHARE * peak)
		return value_absent("it does not grow steadily");
	return value_of((peak - first) * 1e9 / (double)(peak_ns - middle_ns));
}

/* Time in which several threads worked and together wanted no more than about one processor. */
static struct value turns(const struct maker *m, const struct host_thing *thing, int64_t life_ns)
{
	const struct table_host_sample *t = &m->readings->run->host_sample;
	struct host_series looks = thing->series[HOST_THREAD_LOOKS];
	double ns = 0;

	if (!thing->series[HOST_ACTIVE_THREADS].n || life_ns <= 0)
		return value_absent(not_read);
	for (size_t i = 1; i < looks.n; i++) {
		int64_t from = t->time_ns[looks.rows[i - 1]], to = t->time_ns[looks.rows[i]];
		double active, user, system, ready, used, wanted;

		if (!host_at(m->readings, thing, HOST_ACTIVE_THREADS, to, &active) || active < 2 ||
		    !host_grew(m->readings, thing, HOST_USER_NS, from, to, &user) ||
		    !host_grew(m->readings, thing, HOST_SYSTEM_NS, from, to, &system) ||
		    !host_grew(m->readings, thing, HOST_READY_NS, from, to, &ready) || to <= from)
			continue;
		used = (user + system) / (double)(to - from);
		wanted = used + ready / (double)(to - from);
		if (used <= TURN_MOST && wanted >= TURN_LEAST && wanted <= TURN_MOST / 2 * active)
			ns += (double)(to - from);
	}
	return value_of(100 * ns / (double)life_ns);
}

/* Files are not to be trusted: what is no mask is none. */
static uint64_t mask(struct value value)
{
	return value.known && value.v > 0 && value.v < 9e18 ? (uint64_t)value.v : 0;
}

static void make_process(const struct maker *m, const struct host_thing *thing,
			 struct host_process *p)
{
	const struct run *run = m->readings->run;
	struct host_series looks = thing->series[HOST_THREAD_LOOKS];
	struct value user = grew(m, thing, HOST_USER_NS), system = grew(m, thing, HOST_SYSTEM_NS);
	struct value blocked = grew(m, thing, HOST_BLOCKED_LOOKS);
	struct value looked = grew(m, thing, HOST_THREAD_LOOKS);
	int64_t from_ns = looks.n ? run->host_sample.time_ns[looks.rows[0]] : m->from_ns;
	int64_t to_ns = looks.n ? run->host_sample.time_ns[looks.rows[looks.n - 1]] : m->from_ns;
	double first;

	*p = (struct host_process){
		.pid = (uint32_t)strtoul(run_string(run, thing->name), NULL, 10),
		.name = process_name(run, thing),
		.life_ns = to_ns - from_ns,
		.user_ns = user.v,
		.system_ns = system.v,
		.ready_ns = grew(m, thing, HOST_READY_NS),
		.minor_faults = grew(m, thing, HOST_MINOR_FAULTS),
		.major_faults = grew(m, thing, HOST_MAJOR_FAULTS),
		.voluntary = grew(m, thing, HOST_VOLUNTARY_SWITCHES),
		.involuntary = grew(m, thing, HOST_INVOLUNTARY_SWITCHES),
		.read_bytes = grew(m, thing, HOST_READ_BYTES),
		.written_bytes = grew(m, thing, HOST_WRITTEN_BYTES),
		.resident_bytes = last(m, thing, HOST_RESIDENT_BYTES),
		.peak_resident_bytes = extreme(m, thing, HOST_RESIDENT_BYTES, 1),
		.swapped_bytes = extreme(m, thing, HOST_SWAPPED_BYTES, 1),
		.threads = extreme(m, thing, HOST_THREADS, 1),
		.allowed_cpus = last(m, thing, HOST_ALLOWED_CPUS),
		.python = last(m, thing, HOST_PYTHON).v > 0,
		.cpu_nodes = mask(last(m, thing, HOST_CPU_NODES)),
		.memory_nodes = mask(last(m, thing, HOST_MEMORY_NODES)),
	};
	p->cpus = p->life_ns > 0 ? (p->user_ns + p->system_ns) / (double)p->life_ns : 0;
	p->blocked_threads =
		blocked.known && looked.known && looked.v >= GLANCES_LEAST
			? value_of(blocked.v / looked.v * mean(m, thing, HOST_THREADS).v)
			: value_absent("too few looks");
	p->turns_pct = turns(m, thing, p->life_ns);
	p->growth_bytes_per_s = steady_growth(m, thing, from_ns, to_ns, p->peak_resident_bytes.v);
	p->grew_bytes = value_absent(not_read);
	if (p->resident_bytes.known &&
	    host_at(m->readings, thing, HOST_RESIDENT_BYTES, from_ns, &first))
		p->grew_bytes = value_of(p->resident_bytes.v - first);
}

static int by_cpu(const void *a, const void *b)
{
	const struct host_process *x = a, *y = b;

	return CMP(y->user_ns + y->system_ns, x->user_ns + x->system_ns) ?: CMP(x->pid, y->pid);
}

static int make_processes(const struct maker *m)
{
	const struct host_readings *readings = m->readings;
	struct host *host = m->host;

	host->processes = calloc(readings->n + 1, sizeof(*host->processes));
	if (!host->processes)
		return -ENOMEM;
	for (size_t i = 0; i < readings->n; i++)
		if (readings->things[i].place == HOST_PROCESS)
			make_process(m, &readings->things[i],
				     &host->processes[host->n_processes++]);
	if (host->n_processes)
		qsort(host->processes, host->n_processes, sizeof(*host->processes), by_cpu);
	return 0;
}

/* ---- parts */

static void make_part(const struct maker *m, const struct host_thing *thing, struct host_part *p)
{
	struct value none = value_absent("not of this kind of thing");
	double of_time = 100 / (double)m->host->elapsed_ns,
	       per_s = 1e9 / (double)m->host->elapsed_ns;

	*p = (struct host_part){ .kind = host_place_name(thing->place),
				 .name = run_string(m->readings->run, thing->name),
				 .place = thing->place,
				 .busy_pct = none,
				 .steal_pct = none,
				 .mhz = none,
				 .in_bytes = none,
				 .out_bytes = none,
				 .in_bytes_per_s = none,
				 .out_bytes_per_s = none,
				 .link_bytes_per_s = none,
				 .memory_bytes = none,
				 .free_bytes = none };
	switch (thing->place) {
	case HOST_PROCESSOR:
		p->busy_pct =
			scaled(plus(grew(m, thing, HOST_USER_NS), grew(m, thing, HOST_SYSTEM_NS)),
			       of_time);
		p->steal_pct = scaled(grew(m, thing, HOST_STEAL_NS), of_time);
		p->mhz = scaled(mean(m, thing, HOST_KHZ), 1e-3);
		p->mhz.v = round(p->mhz.v);
		break;
	case HOST_DISK:
		p->busy_pct = scaled(grew(m, thing, HOST_BUSY_NS), of_time);
		p->in_bytes = grew(m, thing, HOST_READ_BYTES);
		p->out_bytes = grew(m, thing, HOST_WRITTEN_BYTES);
		break;
	case HOST_NETWORK:
		p->in_bytes = grew(m, thing, HOST_RECEIVED_BYTES);
		p->out_bytes = grew(m, thing, HOST_SENT_BYTES);
		p->link_bytes_per_s = last(m, thing, HOST_LINK_BYTES_PER_S);
		break;
	case HOST_NODE:
		p->memory_bytes = last(m, thing, HOST_MEMORY_BYTES);
		p->free_bytes = last(m, thing, HOST_FREE_BYTES);
		break;
	case HOST_OTHER:
		p->busy_pct = scaled(grew(m, thing, HOST_CPU_NS), of_time);
		break;
	default:
		break;
	}
	if (p->in_bytes.known) {
		p->in_bytes_per_s = scaled(p->in_bytes, per_s);
		p->out_bytes_per_s = scaled(p->out_bytes, per_s);
	}
}

static int by_kind(const void *a, const void *b)
{
	const struct host_part *x = a, *y = b;

	return CMP(x->place, y->place) ?:
	       CMP(y->busy_pct.v, x->busy_pct.v) ?:
	       CMP(y->in_bytes.v + y->out_bytes.v, x->in_bytes.v + x->out_bytes.v) ?:
	       strcmp(x->name, y->name);
}

static int make_parts(const struct maker *m)
{
	const struct host_readings *readings = m->readings;
	struct host *host = m->host;

	host->parts = calloc(readings->n + 1, sizeof(*host->parts));
	if (!host->parts)
		return -ENOMEM;
	for (size_t i = 0; i < readings->n; i++) {
		const struct host_thing *thing = &readings->things[i];

		if (thing->shard != m->machine->shard || thing->place == HOST_MACHINE ||
		    thing->place == HOST_CGROUP || thing->place == HOST_PROCESS)
			continue;
		make_part(m, thing, &host->parts[host->n_parts++]);
	}
	if (host->n_parts)
		qsort(host->parts, host->n_parts, sizeof(*host->parts), by_kind);
	return 0;
}

/* ---- over time */

static struct value rate(const struct maker *m, const struct host_thing *thing,
			 enum host_metric metric, double scale)
{
	return scaled(grew(m, thing, metric), scale / (double)(m->to_ns - m->from_ns));
}

/* Over all things of a place; absent if none has it. */
static struct value sum_rates(const struct maker *m, enum host_place place, enum host_metric metric,
			      double scale)
{
	struct value sum = value_absent(not_read);

	for (size_t i = 0; i < m->readings->n; i++) {
		const struct host_thing *thing = &m->readings->things[i];

		if (thing->place == place && thing->shard == m->machine->shard)
			sum = plus(sum, rate(m, thing, metric, scale));
	}
	return sum;
}

/* What processes hold: one that has ended holds nothing. */
static struct value resident(const struct maker *m)
{
	const struct table_host_sample *t = &m->readings->run->host_sample;
	struct value sum = value_absent("no process was seen");

	for (size_t i = 0; i < m->readings->n; i++) {
		const struct host_thing *thing = &m->readings->things[i];
		struct host_series looks = thing->series[HOST_THREAD_LOOKS];

		if (thing->place == HOST_PROCESS && thing->shard == m->machine->shard && looks.n &&
		    t->time_ns[looks.rows[looks.n - 1]] >= m->from_ns)
			sum = plus(sum, last(m, thing, HOST_RESIDENT_BYTES));
	}
	return sum;
}

static void make_time(const struct maker *m, struct host_time *t)
{
	double cpus = last(m, m->machine, HOST_CPUS).v, share = 100 / (cpus > 0 ? cpus : 1);
	struct value periods = m->cgroup ? grew(m, m->cgroup, HOST_PERIODS)
					 : value_absent(no_limit);
	struct value throttled = m->cgroup ? grew(m, m->cgroup, HOST_THROTTLED_PERIODS)
					   : value_absent(no_limit);

	*t = (struct host_time){
		.start_ns = m->from_ns,
		.duration_ns = m->to_ns - m->from_ns,
		.user_pct = rate(m, m->machine, HOST_USER_NS, share),
		.system_pct = rate(m, m->machine, HOST_SYSTEM_NS, share),
		.iowait_pct = rate(m, m->machine, HOST_IOWAIT_NS, share),
		.steal_pct = rate(m, m->machine, HOST_STEAL_NS, share),
		.program_cpus = plus(sum_rates(m, HOST_PROCESS, HOST_USER_NS, 1),
				     sum_rates(m, HOST_PROCESS, HOST_SYSTEM_NS, 1)),
		.ready_cpus = sum_rates(m, HOST_PROCESS, HOST_READY_NS, 1),
		.resident_bytes = resident(m),
		.available_bytes = last(m, m->machine, HOST_AVAILABLE_BYTES),
		.runnable = last(m, m->machine, HOST_RUNNABLE),
		.read_bytes_per_s = sum_rates(m, HOST_DISK, HOST_READ_BYTES, 1e9),
		.written_bytes_per_s = sum_rates(m, HOST_DISK, HOST_WRITTEN_BYTES, 1e9),
		.received_bytes_per_s = sum_rates(m, HOST_NETWORK, HOST_RECEIVED_BYTES, 1e9),
		.sent_bytes_per_s = sum_rates(m, HOST_NETWORK, HOST_SENT_BYTES, 1e9),
		.throttled_pct = periods.known && throttled.known && periods.v > 0
					 ? value_of(100 * throttled.v / periods.v)
					 : value_absent(no_limit),
		.major_faults = sum_rates(m, HOST_PROCESS, HOST_MAJOR_FAULTS,
					  (double)(m->to_ns - m->from_ns)),
	};
}

static int make_times(const struct maker *m)
{
	struct host *host = m->host;
	const int64_t *time_ns = m->readings->run->host_sample.time_ns;
	struct host_series looks = m->machine->series[HOST_LOOKS];
	struct maker part = *m;

	host->times = calloc(TIMES_MOST + 1, sizeof(*host->times));
	if (!host->times)
		return -ENOMEM;
	/* From look to look, not between: a count is known at looks alone. */
	for (size_t i = 1; i < looks.n; i++) {
		part.to_ns = time_ns[looks.rows[i]];
		if (part.to_ns - part.from_ns < host->elapsed_ns / TIMES_MOST && i + 1 < looks.n)
			continue;
		if (host->n_times < TIMES_MOST && part.to_ns > part.from_ns)
			make_time(&part, &host->times[host->n_times++]);
		part.from_ns = part.to_ns;
	}
	return 0;
}

/* ---- all of it */

static void make_machine(const struct maker *m)
{
	const struct host_thing *machine = m->machine;
	struct host *host = m->host;
	double of_time = 100 / (double)host->elapsed_ns, of_cpus;

	host->cpus = last(m, machine, HOST_CPUS);
	of_cpus = host->cpus.known && host->cpus.v > 0 ? of_time / host->cpus.v : 0;
	host->own_pct = scaled(grew(m, machine, HOST_OWN_NS), of_time);
	host->user_pct = scaled(grew(m, machine, HOST_USER_NS), of_cpus);
	host->system_pct = scaled(grew(m, machine, HOST_SYSTEM_NS), of_cpus);
	host->iowait_pct = scaled(grew(m, machine, HOST_IOWAIT_NS), of_cpus);
	host->steal_pct = scaled(grew(m, machine, HOST_STEAL_NS), of_cpus);
	host->idle_pct = scaled(grew(m, machine, HOST_IDLE_NS), of_cpus);
	host->runnable = mean(m, machine, HOST_RUNNABLE);
	host->cpu_pressure_pct = scaled(grew(m, machine, HOST_CPU_PRESSURE_NS), of_time);
	host->io_pressure_pct = scaled(grew(m, machine, HOST_IO_PRESSURE_NS), of_time);
	host->io_full_pct = scaled(grew(m, machine, HOST_IO_FULL_NS), of_time);
	host->memory_pressure_pct = scaled(grew(m, machine, HOST_MEMORY_PRESSURE_NS), of_time);
	host->memory_bytes = last(m, machine, HOST_MEMORY_BYTES);
	host->least_available_bytes = extreme(m, machine, HOST_AVAILABLE_BYTES, -1);
	host->swap_in_bytes = grew(m, machine, HOST_SWAP_IN_BYTES);
	host->swap_out_bytes = grew(m, machine, HOST_SWAP_OUT_BYTES);
}

static void make_limits(const struct maker *m)
{
	const struct host_thing *cgroup = m->cgroup;
	struct host *host = m->host;
	struct value none = value_absent(no_limit), periods;

	host->quota_cpus = host->throttled_pct = host->throttled_ns = host->limit_bytes =
		host->peak_used_bytes = host->limit_hits = host->oom_kills = none;
	if (!cgroup)
		return;
	if (cgroup->series[HOST_QUOTA_MILLICPUS].n) {
		host->quota_cpus = scaled(last(m, cgroup, HOST_QUOTA_MILLICPUS), 1e-3);
		host->throttled_ns = grew(m, cgroup, HOST_THROTTLED_NS);
		host->throttled_pct = grew(m, cgroup, HOST_THROTTLED_PERIODS);
		periods = grew(m, cgroup, HOST_PERIODS);
		if (host->throttled_pct.known && periods.known)
			host->throttled_pct = scaled(host->throttled_pct,
						     periods.v > 0 ? 100 / periods.v : 0);
	}
	if (cgroup->series[HOST_LIMIT_BYTES].n) {
		host->limit_bytes = last(m, cgroup, HOST_LIMIT_BYTES);
		host->peak_used_bytes = extreme(m, cgroup, HOST_USED_BYTES, 1);
		host->limit_hits = grew(m, cgroup, HOST_LIMIT_HITS);
		host->oom_kills = grew(m, cgroup, HOST_OOM_KILLS);
	}
}

static void add_up(struct host *host)
{
	double elapsed = (double)host->elapsed_ns, system = 0, clocks = 0;
	struct value ready = value_absent("no process was seen");
	size_t n = 0;

	host->allowed_cpus = host->program_read_bytes = host->program_written_bytes =
		host->program_major_faults = ready;
	for (size_t i = 0; i < host->n_processes; i++) {
		const struct host_process *p = &host->processes[i];

		host->program_cpu_ns += p->user_ns + p->system_ns;
		system += p->system_ns;
		ready = plus(ready, p->ready_ns);
		host->program_read_bytes = plus(host->program_read_bytes, p->read_bytes);
		host->program_written_bytes = plus(host->program_written_bytes, p->written_bytes);
		host->program_major_faults = plus(host->program_major_faults, p->major_faults);
		if (p->allowed_cpus.known &&
		    (!host->allowed_cpus.known || p->allowed_cpus.v > host->allowed_cpus.v))
			host->allowed_cpus = p->allowed_cpus;
	}
	host->program_cpus = host->n_processes ? value_of(host->program_cpu_ns / elapsed) : ready;
	host->ready_cpus = scaled(ready, 1 / elapsed);
	host->program_system_pct = host->program_cpu_ns > 0
					   ? value_of(100 * system / host->program_cpu_ns)
					   : value_absent("it used no processor");
	host->peak_resident_bytes = value_absent("no process was seen");
	for (size_t i = 0; i < host->n_times; i++)
		if (host->times[i].resident_bytes.known &&
		    host->times[i].resident_bytes.v >= host->peak_resident_bytes.v)
			host->peak_resident_bytes = host->times[i].resident_bytes;
	host->others_cpus = value_of(0);
	host->disk_read_bytes = host->disk_written_bytes = host->received_bytes = host->sent_bytes =
		host->mhz = value_absent(not_read);
	for (size_t i = 0; i < host->n_parts; i++) {
		const struct host_part *p = &host->parts[i];

		if (p->place == HOST_OTHER)
			host->others_cpus.v += p->busy_pct.v / 100;
		if (p->place == HOST_DISK) {
			host->disk_read_bytes = plus(host->disk_read_bytes, p->in_bytes);
			host->disk_written_bytes = plus(host->disk_written_bytes, p->out_bytes);
		}
		if (p->place == HOST_NETWORK) {
			host->received_bytes = plus(host->received_bytes, p->in_bytes);
			host->sent_bytes = plus(host->sent_bytes, p->out_bytes);
		}
		if (p->place == HOST_PROCESSOR && p->mhz.known) {
			clocks += p->mhz.v;
			n++;
		}
	}
	if (n)
		host->mhz = value_of(clocks / (double)n);
}

static int make_host(struct maker *m)
{
	const struct table_host_sample *t = &m->readings->run->host_sample;
	struct host_series looks = m->machine->series[HOST_LOOKS];
	struct host *host = m->host;
	int r;

	host->looks = looks.n;
	m->from_ns = host->start_ns = t->time_ns[looks.rows[0]];
	m->to_ns = t->time_ns[looks.rows[looks.n - 1]];
	host->elapsed_ns = m->to_ns - m->from_ns;
	if (host->elapsed_ns < LEAST_NS) {
		host->missing = "the program was too short for readings of the machine";
		return 0;
	}
	make_machine(m);
	make_limits(m);
	r = make_processes(m);
	if (r == 0)
		r = make_parts(m);
	if (r == 0)
		r = make_times(m);
	add_up(host);
	return r;
}

int host_analyze(const struct run *run, struct host *ret_host)
{
	struct host_readings readings;
	struct maker m = { .readings = &readings, .host = ret_host };
	int r = host_readings_make(run, &readings);

	*ret_host = (struct host){ .missing = "nothing was read of the machine in this run" };
	for (size_t i = 0; r == 0 && i < readings.n; i++) {
		const struct host_thing *thing = &readings.things[i];

		if (thing->place != HOST_MACHINE || !thing->series[HOST_LOOKS].n)
			continue;
		ret_host->machines++;
		if (!m.machine)
			m.machine = thing;
	}
	if (r == 0 && m.machine) {
		ret_host->missing = NULL;
		m.cgroup = host_find(&readings, m.machine->shard, HOST_CGROUP);
		r = make_host(&m);
	}
	host_readings_release(&readings);
	return r;
}

void host_release(struct host *host)
{
	free(host->processes);
	free(host->parts);
	free(host->times);
	*host = (struct host){ 0 };
}
