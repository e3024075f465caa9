/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of the machine by what they are of; see host_readings.h.
 */
#include "subjects/host/host_readings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"

static const struct {
	const char *name;
	bool grows;
} metrics[] = {
#define METRIC(NAME, name, grows) [HOST_##NAME] = { name, grows },
	HOST_METRICS(METRIC)
#undef METRIC
};

static const char *const places[] = {
#define PLACE(number, NAME, name) [number] = (name),
	HOST_PLACES(PLACE)
#undef PLACE
};

const char *host_place_name(unsigned int place)
{
	return place < HOST_PLACE_LIMIT ? places[place] : "?";
}

const char *host_metric_name(enum host_metric metric)
{
	return metrics[metric].name;
}

bool host_metric_grows(enum host_metric metric)
{
	return metrics[metric].grows;
}

/* While things are found. */
struct finder {
	const struct run *run;
	struct host_readings *to;
	size_t capacity;
	struct hash_map map;
	uint32_t ids[HOST_METRIC_COUNT]; /* of names; 0: not met yet */
	uint32_t unknown;		 /* the last name that is none */
};

static unsigned int metric_of(struct finder *f, uint32_t id)
{
	unsigned int m;
	const char *name;

	for (m = 0; m < HOST_METRIC_COUNT; m++)
		if (f->ids[m] == id)
			return m;
	if (id == f->unknown)
		return HOST_METRIC_COUNT;
	name = run_string(f->run, id);
	for (m = 0; m < HOST_METRIC_COUNT && strcmp(metrics[m].name, name) != 0;)
		m++;
	if (m < HOST_METRIC_COUNT)
		f->ids[m] = id;
	else
		f->unknown = id;
	return m;
}

static struct host_thing *thing_of(struct finder *f, size_t row)
{
	const struct table_host_sample *t = &f->run->host_sample;
	uint64_t key = (uint64_t)t->shard[row] << 48 ^ (uint64_t)t->place[row] << 32 ^ t->name[row];
	uint32_t hash = hash_word(key), found;
	struct hash_walk walk = hash_map_walk(&f->map, hash);
	struct host_readings *to = f->to;

	while ((found = hash_map_next(&f->map, &walk))) {
		struct host_thing *thing = &to->things[found - 1];

		if (thing->shard == t->shard[row] && thing->place == t->place[row] &&
		    thing->name == t->name[row])
			return thing;
	}
	if (array_grow(&to->things, &f->capacity, to->n + 1, sizeof(*to->things)) < 0 ||
	    hash_map_add(&f->map, hash, (uint32_t)to->n + 1) < 0)
		return NULL;
	to->things[to->n] = (struct host_thing){
		.shard = t->shard[row],
		.place = t->place[row],
		.name = t->name[row],
		.from_zero = t->place[row] == HOST_PROCESS &&
			     t->time_ns[row] >
				     f->run->shards[t->shard[row]].start_ns + INT64_C(100000000)
	};
	return &to->things[to->n++];
}

/* Twice over the rows: how many there are of each, then which. */
static int sort_rows(struct finder *f)
{
	const struct table_host_sample *t = &f->run->host_sample;
	uint32_t *at;

	for (int fill = 0; fill < 2; fill++) {
		for (size_t i = 0; i < t->n; i++) {
			unsigned int metric = metric_of(f, t->metric[i]);
			struct host_thing *thing;

			if (metric == HOST_METRIC_COUNT || t->place[i] >= HOST_PLACE_LIMIT)
				continue;
			thing = thing_of(f, i);
			if (!thing)
				return -ENOMEM;
			if (fill)
				((uint32_t *)thing->series[metric].rows)[thing->series[metric].n] =
					(uint32_t)i;
			thing->series[metric].n++;
		}
		if (fill)
			break;
		at = f->to->rows = calloc(t->n ? t->n : 1, sizeof(*at));
		if (!at)
			return -ENOMEM;
		for (size_t i = 0; i < f->to->n; i++)
			for (int m = 0; m < HOST_METRIC_COUNT; m++) {
				struct host_series *series = &f->to->things[i].series[m];

				series->rows = at;
				at += series->n;
				series->n = 0;
			}
	}
	return 0;
}

int host_readings_make(const struct run *run, struct host_readings *ret_readings)
{
	struct finder f = { .run = run, .to = ret_readings };
	int r;

	*ret_readings = (struct host_readings){ .run = run };
	r = sort_rows(&f);
	hash_map_release(&f.map);
	return r;
}

void host_readings_release(struct host_readings *readings)
{
	free(readings->things);
	free(readings->rows);
	*readings = (struct host_readings){ 0 };
}

const struct host_thing *host_find(const struct host_readings *readings, uint16_t shard,
				   enum host_place place)
{
	for (size_t i = 0; i < readings->n; i++)
		if (readings->things[i].shard == shard && readings->things[i].place == place)
			return &readings->things[i];
	return NULL;
}

size_t host_readings_until(const struct host_readings *readings, struct host_series series,
			   int64_t time_ns)
{
	const struct table_host_sample *t = &readings->run->host_sample;
	size_t low = 0, high = series.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (t->time_ns[series.rows[middle]] <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool host_at(const struct host_readings *readings, const struct host_thing *thing,
	     enum host_metric metric, int64_t time_ns, double *ret_value)
{
	const struct table_host_sample *t = &readings->run->host_sample;
	struct host_series series = thing ? thing->series[metric] : (struct host_series){ 0 };
	size_t n = host_readings_until(readings, series, time_ns);

	if (!n)
		return false;
	*ret_value = (double)t->value[series.rows[n - 1]];
	return true;
}

bool host_grew(const struct host_readings *readings, const struct host_thing *thing,
	       enum host_metric metric, int64_t from_ns, int64_t to_ns, double *ret_value)
{
	double before = 0, after;

	if (!host_at(readings, thing, metric, to_ns, &after))
		return false;
	/* A thing that began later counts from 0; others from their first reading. */
	if (!host_at(readings, thing, metric, from_ns, &before) && !thing->from_zero)
		before = (double)readings->run->host_sample.value[thing->series[metric].rows[0]];
	*ret_value = after > before ? after - before : 0;
	return true;
}
