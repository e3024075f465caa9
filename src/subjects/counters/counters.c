/* SPDX-License-Identifier: Apache-2.0
 *
 * One numeric series; see counters.h. Pure, any thread.
 */
#include "subjects/counters/counters.h"

#include <math.h>
#include <string.h>

static bool belongs(const struct run *run, size_t i, uint32_t name, uint16_t shard)
{
	return run->counter.name[i] == name && run->counter.shard[i] == shard &&
	       isfinite(run->counter.value[i]);
}

static size_t find_first(const struct run *run, const char *name)
{
	size_t i = 0;

	while (i < run->counter.n && strcmp(run_string(run, run->counter.name[i]), name) != 0)
		i++;
	return i;
}

void counter_series_read(const struct run *run, const char *name, size_t max_points,
			 struct counter_series *ret_series)
{
	struct counter_series s = { 0 };
	size_t first = find_first(run, name), counts[COUNTER_POINTS_MAX] = { 0 }, at = 0;
	uint32_t id = first < run->counter.n ? run->counter.name[first] : 0;
	uint16_t shard = first < run->counter.n ? run->counter.shard[first] : 0;

	for (size_t i = first; i < run->counter.n; i++) {
		double value = run->counter.value[i];

		if (!belongs(run, i, id, shard))
			continue;
		if (!s.n++)
			s.first = s.min = s.max = value;
		s.last = value;
		s.min = fmin(s.min, value);
		s.max = fmax(s.max, value);
	}
	s.n_points = s.n < max_points ? s.n : max_points;
	for (size_t i = first; s.n_points && i < run->counter.n; i++) {
		size_t part;

		if (!belongs(run, i, id, shard))
			continue;
		part = at++ * s.n_points / s.n;
		s.points[part] += run->counter.value[i];
		counts[part]++;
	}
	for (size_t p = 0; p < s.n_points; p++)
		s.points[p] /= (double)counts[p];
	*ret_series = s;
}
