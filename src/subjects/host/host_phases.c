/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and page faults by range; see host_phases.h.
 */
#include "subjects/host/host_phases.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "base/hash_map.h"
#include "subjects/host/host_readings.h"

struct builder {
	struct host_readings readings;
	const struct host_thing **processes; /* by shard of the program; NULL: not watched */
	struct host_phases *to;
	size_t capacity;
	struct hash_map map;
};

/* The process that a shard is of. */
static const struct host_thing *process_of(const struct host_readings *readings, uint32_t pid)
{
	for (size_t i = 0; i < readings->n; i++) {
		const struct host_thing *thing = &readings->things[i];

		if (thing->place == HOST_PROCESS &&
		    strtoul(run_string(readings->run, thing->name), NULL, 10) == pid)
			return thing;
	}
	return NULL;
}

/* The look at a process before a time: what has no reading there was as it had been. */
static int64_t last_look(const struct host_readings *readings, const struct host_thing *thing,
			 int64_t before_ns)
{
	const int64_t *time_ns = readings->run->host_sample.time_ns;
	struct host_series looks = thing->series[HOST_THREAD_LOOKS];
	size_t n = host_readings_until(readings, looks, before_ns - 1);

	return n ? time_ns[looks.rows[n - 1]] : INT64_MIN;
}

/* Between two readings: evenly from one to the other. */
static bool between(const struct host_readings *readings, const struct host_thing *thing,
		    enum host_metric metric, int64_t time_ns, double *ret_value)
{
	const struct table_host_sample *t = &readings->run->host_sample;
	struct host_series series = thing->series[metric];
	size_t low = host_readings_until(readings, series, time_ns);
	int64_t from_ns, to_ns;
	double before, after;

	if (!low)
		return false;
	before = (double)t->value[series.rows[low - 1]];
	*ret_value = before;
	if (low == series.n)
		return true;
	from_ns = last_look(readings, thing, t->time_ns[series.rows[low]]);
	if (from_ns < t->time_ns[series.rows[low - 1]])
		from_ns = t->time_ns[series.rows[low - 1]];
	to_ns = t->time_ns[series.rows[low]];
	after = (double)t->value[series.rows[low]];
	if (time_ns > from_ns && to_ns > from_ns)
		*ret_value += (after - before) * (double)(time_ns - from_ns) /
			      (double)(to_ns - from_ns);
	return true;
}

static struct host_phase *phase_of(struct builder *b, uint32_t name)
{
	uint32_t hash = hash_word(name), found;
	struct hash_walk walk = hash_map_walk(&b->map, hash);
	struct host_phases *to = b->to;

	while ((found = hash_map_next(&b->map, &walk)))
		if (to->rows[found - 1].name == name)
			return &to->rows[found - 1];
	if (array_grow(&to->rows, &b->capacity, to->n + 1, sizeof(*to->rows)) < 0 ||
	    hash_map_add(&b->map, hash, (uint32_t)to->n + 1) < 0)
		return NULL;
	to->rows[to->n] = (struct host_phase){
		.name = name,
		.minor_faults = value_absent("could not be read on that machine"),
		.major_faults = value_absent("could not be read on that machine")
	};
	return &to->rows[to->n++];
}

static void add_grown(const struct builder *b, const struct host_thing *thing,
		      enum host_metric metric, int64_t start_ns, int64_t end_ns, struct value *sum)
{
	double before, after;

	if (between(&b->readings, thing, metric, start_ns, &before) &&
	    between(&b->readings, thing, metric, end_ns, &after))
		*sum = value_of((sum->known ? sum->v : 0) + after - before);
}

static int add_range(struct builder *b, size_t i)
{
	const struct run *run = b->readings.run;
	const struct table_range *t = &run->range;
	const struct host_thing *thing = b->processes[t->shard[i]];
	int64_t start_ns = t->start_ns[i], end_ns = start_ns + t->duration_ns[i];
	struct host_phase *phase;
	double before, after;

	if (t->depth[i] || !thing ||
	    !between(&b->readings, thing, HOST_RESIDENT_BYTES, start_ns, &before) ||
	    !between(&b->readings, thing, HOST_RESIDENT_BYTES, end_ns, &after))
		return 0;
	phase = phase_of(b, run_site(run, t->site[i]).name);
	if (!phase)
		return -ENOMEM;
	phase->count++;
	phase->time_ns += t->duration_ns[i];
	phase->grew_bytes += after - before;
	phase->peak_bytes = after > phase->peak_bytes ? after : phase->peak_bytes;
	phase->peak_bytes = before > phase->peak_bytes ? before : phase->peak_bytes;
	add_grown(b, thing, HOST_MINOR_FAULTS, start_ns, end_ns, &phase->minor_faults);
	add_grown(b, thing, HOST_MAJOR_FAULTS, start_ns, end_ns, &phase->major_faults);
	return 0;
}

static int by_growth(const void *a, const void *b)
{
	const struct host_phase *x = a, *y = b;

	return CMP(y->grew_bytes, x->grew_bytes) ?: CMP(y->time_ns, x->time_ns)
						 ?: CMP(x->name, y->name);
}

int host_phases_analyze(const struct run *run, struct host_phases *ret_phases)
{
	struct builder b = { .to = ret_phases };
	int r;

	*ret_phases = (struct host_phases){ 0 };
	if (!run->host_sample.n || !run->range.n)
		return 0;
	r = host_readings_make(run, &b.readings);
	b.processes = calloc(run->n_shards + 1, sizeof(*b.processes));
	if (!b.processes)
		r = -ENOMEM;
	for (size_t s = 0; r == 0 && s < run->n_shards; s++)
		b.processes[s] = process_of(&b.readings, run->shards[s].pid);
	for (size_t i = 0; r == 0 && i < run->range.n; i++)
		r = add_range(&b, i);
	if (r == 0 && ret_phases->n)
		qsort(ret_phases->rows, ret_phases->n, sizeof(*ret_phases->rows), by_growth);
	free(b.processes);
	hash_map_release(&b.map);
	host_readings_release(&b.readings);
	return r;
}

void host_phases_release(struct host_phases *phases)
{
	free(phases->rows);
	*phases = (struct host_phases){ 0 };
}
