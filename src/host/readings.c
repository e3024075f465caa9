/* SPDX-License-Identifier: Apache-2.0
 *
 * Readings into a shard; see readings.h.
 */
#include "host/readings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash_map.h"
#include "base/interned.h"
#include "trace/rundir.h"
#include "trace/shard.h"

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
	struct shard_writer *writer;
	struct encoder encoder;
	struct interned names;
	size_t written_names;
	struct last *last;
	size_t n, capacity;
	struct hash_map by_key;
	int64_t now_ns;
	int trouble;
	struct err err;
};

static void note_trouble(struct readings *r, int error, const char *what)
{
	if (r->trouble == 0) {
		r->trouble = error;
		err_sys(&r->err, error, "%s", what);
	}
}

int readings_open(struct readings **ret_readings, const char *run, pid_t program, struct err *err)
{
	struct readings *r = calloc(1, sizeof(*r));
	struct shard_origin origin = { .rank = rundir_rank_of(program),
				       .pid = (uint32_t)getpid(),
				       .monotonic_ns = clock_monotonic_ns(),
				       .realtime_ns = clock_realtime_ns() };
	char *path = NULL;
	int error = -ENOMEM;

	boot_read(&origin.boot);
	if (r && asprintf(&path, "%s/" RUNDIR_HOST "%d.mst", run, (int)getpid()) < 0)
		path = NULL;
	if (path)
		error = shard_create_from(path, &origin, &r->writer, NULL);
	free(path);
	if (error < 0) {
		free(r);
		return err_sys(err, error, "%s: cannot create the shard of the machine", run);
	}
	encoder_init(&r->encoder, 1, 1, 0);
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
		note_trouble(r, -EMLINK, "host: more readings than the run can hold");
		return false;
	}
	if (array_grow(&r->last, &r->capacity, r->n + 1, sizeof(*r->last)) < 0 ||
	    hash_map_add(&r->by_key, hash, (uint32_t)r->n + 1) < 0) {
		note_trouble(r, -ENOMEM, "host: cannot record");
		return false;
	}
	r->last[r->n++] = key;
	return true;
}

static uint32_t name_id(struct readings *r, const char *text)
{
	return *text ? interned_id(&r->names, text, strlen(text)) : 0;
}

static void append(struct readings *r, enum record_kind kind, const void *row)
{
	int error = encoder_append(&r->encoder, kind, row);

	if (error < 0)
		note_trouble(r, error, "host: cannot record");
}

void readings_put(struct readings *r, enum host_place place, const char *name,
		  enum host_metric metric, int64_t value)
{
	struct row_host_sample row = { .time_ns = r->now_ns,
				       .place = (uint8_t)place,
				       .name = name_id(r, name),
				       .metric = name_id(r, metric_names[metric]),
				       .value = value };

	if (changes(r, (struct last){ place, row.name, metric, value }))
		append(r, RECORD_HOST_SAMPLE, &row);
}

void readings_held(struct readings *r, enum host_place place, const char *name,
		   enum host_metric metric, int64_t value, int64_t until_ns)
{
	struct row_host_sample row = { .time_ns = until_ns,
				       .place = (uint8_t)place,
				       .name = name_id(r, name),
				       .metric = name_id(r, metric_names[metric]),
				       .value = value };

	append(r, RECORD_HOST_SAMPLE, &row);
}

void readings_fact(struct readings *r, const char *key, const char *value)
{
	struct row_fact row = { .key = name_id(r, key), .value = name_id(r, value) };

	if (changes(r, (struct last){ PLACE_OF_FACTS, row.key, 0, row.value }))
		append(r, RECORD_FACT, &row);
}

/* Dictionaries first: whoever reads a row knows its names. */
void readings_write(struct readings *r)
{
	int error;

	for (; r->written_names < r->names.n; r->written_names++) {
		struct row_string row = { .id = (uint32_t)r->written_names + 1,
					  .length = (uint32_t)r->names.lengths[r->written_names],
					  .text = r->names.keys[r->written_names] };

		append(r, RECORD_STRING, &row);
	}
	error = encoder_finish(&r->encoder);
	if (error == 0)
		error = shard_write(r->writer, &r->encoder);
	if (error < 0)
		note_trouble(r, error, "host: cannot write");
}

int readings_close(struct readings *r, struct err *err)
{
	int error;

	if (!r)
		return 0;
	readings_write(r);
	error = shard_close(r->writer, &r->encoder);
	if (error < 0)
		note_trouble(r, error, "host: cannot close the shard of the machine");
	error = r->trouble;
	if (error < 0 && err)
		*err = r->err;
	encoder_release(&r->encoder);
	hash_map_release(&r->by_key);
	interned_release(&r->names);
	free(r->last);
	free(r);
	return error;
}
