/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings into a shard; see readings.h.
 */
#include "host/machine/readings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash_map.h"
#include "base/interned.h"
#include "trace/outside_shard.h"
#include "trace/rundir.h"

#define PAIRS_MOST 65536 /* a build starts thousands of processes */

static const char *const metric_names[] = {
#define METRIC(NAME, name, grows) [HOST_##NAME] = (name),
	HOST_METRICS(METRIC)
#undef METRIC
};

/* The last value of one thing. Of facts: name is the key, value the text's id. */
struct last {
	uint32_t place, name, metric;
	int64_t value;
};

#define PLACE_OF_FACTS HOST_PLACE_LIMIT

struct readings {
	struct outside_shard shard;
	struct interned names;
	struct last *last;
	size_t n, capacity;
	struct hash_map by_key;
	int64_t now_ns;
	int lost; /* 0, or -errno: not all of them could be kept */
};

int readings_open(struct readings **ret_readings, const char *run, pid_t program, struct err *err)
{
	struct readings *r = calloc(1, sizeof(*r));
	struct shard_origin origin = { .rank = rundir_rank_of(program), .pid = (uint32_t)getpid() };
	char *path = NULL;
	int error = -ENOMEM;

	if (r && asprintf(&path, "%s/" RUNDIR_HOST "%d.mst", run, (int)getpid()) < 0)
		path = NULL;
	if (path)
		error = outside_shard_open(&r->shard, path, origin, &r->names);
	free(path);
	if (error < 0) {
		free(r);
		return err_sys(err, error, "%s: cannot create the shard of the machine", run);
	}
	*ret_readings = r;
	return 0;
}

void readings_at(struct readings *r, int64_t now_ns)
{
	r->now_ns = now_ns;
}

/* True: this is new, and is kept. */
static bool changes(struct readings *r, struct last key)
{
	uint32_t hash = hash_word((uint64_t)key.place << 56 ^ (uint64_t)key.metric << 40 ^
				  key.name);
	struct hash_walk walk = hash_map_walk(&r->by_key, hash);
	uint32_t found;

	while ((found = hash_map_next(&r->by_key, &walk))) {
		struct last *last = &r->last[found - 1];

		if (last->place != key.place || last->name != key.name ||
		    last->metric != key.metric)
			continue;
		if (last->value == key.value)
			return false;
		last->value = key.value;
		return true;
	}
	if (r->n == PAIRS_MOST) {
		r->lost = -EMLINK;
		return false;
	}
	if (array_grow(&r->last, &r->capacity, r->n + 1, sizeof(*r->last)) < 0 ||
	    hash_map_add(&r->by_key, hash, (uint32_t)r->n + 1) < 0) {
		r->lost = -ENOMEM;
		return false;
	}
	r->last[r->n++] = key;
	return true;
}

void readings_put(struct readings *r, enum host_place place, const char *name,
		  enum host_metric metric, int64_t value)
{
	struct row_host_sample row = { .time_ns = r->now_ns,
				       .place = (uint8_t)place,
				       .name = outside_shard_name(&r->shard, name),
				       .metric = outside_shard_name(&r->shard,
								    metric_names[metric]),
				       .value = value };

	if (changes(r, (struct last){ place, row.name, metric, value }))
		outside_shard_append(&r->shard, RECORD_HOST_SAMPLE, &row);
}

void readings_held(struct readings *r, enum host_place place, const char *name,
		   enum host_metric metric, int64_t value, int64_t until_ns)
{
	struct row_host_sample row = { .time_ns = until_ns,
				       .place = (uint8_t)place,
				       .name = outside_shard_name(&r->shard, name),
				       .metric = outside_shard_name(&r->shard,
								    metric_names[metric]),
				       .value = value };

	outside_shard_append(&r->shard, RECORD_HOST_SAMPLE, &row);
}

void readings_fact(struct readings *r, const char *key, const char *value)
{
	struct row_fact row = { .key = outside_shard_name(&r->shard, key),
				.value = outside_shard_name(&r->shard, value) };

	if (changes(r, (struct last){ PLACE_OF_FACTS, row.key, 0, row.value }))
		outside_shard_append(&r->shard, RECORD_FACT, &row);
}

void readings_write(struct readings *r)
{
	outside_shard_write(&r->shard);
}

int readings_close(struct readings *r, struct err *err)
{
	int error, lost;

	if (!r)
		return 0;
	error = outside_shard_close(&r->shard);
	lost = r->lost;
	hash_map_release(&r->by_key);
	interned_release(&r->names);
	free(r->last);
	free(r);
	if (error < 0)
		return err_sys(err, error, "host: cannot record");
	return lost == -EMLINK ? err_set(err, lost, "host: more readings than the run can hold")
	       : lost < 0      ? err_sys(err, lost, "host: cannot record")
			       : 0;
}
