/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings of the machine as curves; see host_points.h.
 */
#include "subjects/host/host_points.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "subjects/host/host_readings.h"

/* A curve, and the last of its rows. */
struct curve {
	size_t row;
};

struct curves {
	const struct table_host_sample *t;
	struct curve *list;
	size_t n, capacity;
	struct hash_map map;
};

static bool same(const struct table_host_sample *t, size_t a, size_t b)
{
	return t->shard[a] == t->shard[b] && t->place[a] == t->place[b] &&
	       t->name[a] == t->name[b] && t->metric[a] == t->metric[b];
}

/* The curve of a row, from 1; a new one has no row before. 0: no memory. */
static uint32_t curve_of(struct curves *c, size_t row, bool *ret_new)
{
	const struct table_host_sample *t = c->t;
	uint32_t hash = (uint32_t)hash_mix(hash_mix(t->shard[row], t->place[row]),
					   (uint64_t)t->name[row] << 32 | t->metric[row]);
	struct hash_walk walk = hash_map_walk(&c->map, hash);
	uint32_t found;

	*ret_new = false;
	while ((found = hash_map_next(&c->map, &walk)))
		if (same(t, c->list[found - 1].row, row))
			return found;
	*ret_new = true;
	if (array_grow(&c->list, &c->capacity, c->n + 1, sizeof(*c->list)) < 0 ||
	    hash_map_add(&c->map, hash, (uint32_t)c->n + 1) < 0)
		return 0;
	c->list[c->n++] = (struct curve){ row };
	return (uint32_t)c->n;
}

static bool grows(const char *metric)
{
	for (int m = 0; m < HOST_METRIC_COUNT; m++)
		if (strcmp(host_metric_name(m), metric) == 0)
			return host_metric_grows(m);
	return false;
}

int host_points_each(const struct run *run, int (*visit)(void *arg, const struct host_point *point),
		     void *arg)
{
	const struct table_host_sample *t = &run->host_sample;
	struct curves curves = { .t = t };
	int r = 0;

	for (size_t i = 0; r == 0 && i < t->n; i++) {
		const char *metric = run_string(run, t->metric[i]), *name;
		size_t length = strlen(metric);
		char of[128], what[128];
		bool is_new, is_time = length > 3 && strcmp(metric + length - 3, "_ns") == 0;
		uint32_t curve = curve_of(&curves, i, &is_new);
		struct host_point point = { .shard = t->shard[i],
					    .of = of,
					    .what = what,
					    .curve = curve - 1,
					    .time_ns = t->time_ns[i],
					    .value = (double)t->value[i] };

		if (!curve) {
			r = -ENOMEM;
			break;
		}
		name = run_string(run, t->name[i]);
		snprintf(of, sizeof(of), "%s%s%.60s", host_place_name(t->place[i]),
			 *name ? " " : "", name);
		snprintf(what, sizeof(what), "%.60s", metric);
		if (grows(metric)) {
			size_t before = curves.list[curve - 1].row;
			/* Not as doubles: of times since 1970 these have no nanoseconds. */
			double passed_ns = (double)(t->time_ns[i] - t->time_ns[before]);
			double more = (double)t->value[i] - (double)t->value[before];

			point.value = passed_ns > 0 ? more / passed_ns * (is_time ? 1 : 1e9) : 0;
			if (is_time)
				snprintf(what, sizeof(what), "%.*s, share of time",
					 (int)(length - 3), metric);
			else
				snprintf(what, sizeof(what), "%.60s a second", metric);
		}
		curves.list[curve - 1].row = i;
		r = visit(arg, &point);
	}
	hash_map_release(&curves.map);
	free(curves.list);
	return r;
}
