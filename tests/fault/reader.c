/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run of fault-victim holds, as one JSON object: fault-reader RUN
 *
 * Per thread: how many of its numbers are there, the first one missing, how many are there
 * twice, and its ranges and operations; then the losses, the rows of each kind, and in how many
 * ways the shards ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tables/tables.h"

#define THREADS 4

struct numbers {
	uint64_t n, missing, twice, last, ranges, ops;
};

static int count_numbers(const struct run *run, int thread, struct numbers *ret)
{
	char name[8];
	size_t room = run->counter.n + 1;
	uint8_t *seen = calloc(room, 1);

	if (!seen)
		return -1;
	memset(ret, 0, sizeof(*ret));
	snprintf(name, sizeof(name), "t%d", thread);
	for (size_t i = 0; i < run->counter.n; i++) {
		double value = run->counter.value[i];

		if (strcmp(run_string(run, run->counter.name[i]), name) != 0)
			continue;
		ret->n++;
		if (value > (double)ret->last)
			ret->last = (uint64_t)value;
		if (value >= 0 && value < (double)room)
			ret->twice += seen[(size_t)value]++ != 0;
	}
	while (ret->missing < room && seen[ret->missing])
		ret->missing++;
	for (size_t i = 0; i < run->range.n; i++)
		ret->ranges += !run->range.unfinished[i] &&
			       run_site(run, run->range.site[i]).layer == thread;
	for (size_t i = 0; i < run->op.n; i++)
		ret->ops += !run->op.unfinished[i] &&
			    run_site(run, run->op.site[i]).layer == thread;
	free(seen);
	return 0;
}

int main(int argc, char **argv)
{
	struct err err = { "" };
	uint64_t states[3] = { 0 };
	struct run *run;

	if (argc != 2) {
		fprintf(stderr, "usage: fault-reader RUN\n");
		return 2;
	}
	if (run_load(argv[1], NULL, &run, &err) < 0) {
		fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	printf("{\"threads\": [");
	for (int t = 0; t < THREADS; t++) {
		struct numbers numbers;

		if (count_numbers(run, t, &numbers) < 0)
			return 1;
		printf("%s{\"n\": %" PRIu64 ", \"missing\": %" PRIu64 ", \"twice\": %" PRIu64
		       ", \"last\": %" PRIu64 ", \"ranges\": %" PRIu64 ", \"ops\": %" PRIu64 "}",
		       t ? ", " : "", numbers.n, numbers.missing, numbers.twice, numbers.last,
		       numbers.ranges, numbers.ops);
	}
	for (size_t s = 0; s < run->n_shards; s++)
		states[run->shards[s].state]++;
	printf("], \"shards\": %zu, \"closed\": %" PRIu64 ", \"live\": %" PRIu64
	       ", \"crashed\": %" PRIu64 ", \"status\": \"%s\", \"loss\": {",
	       run->n_shards, states[SHARD_CLOSED], states[SHARD_LIVE], states[SHARD_CRASHED],
	       run->info.status);
#define LOSS(field, words) printf("\"" #field "\": %" PRIu64 ", ", run->loss.field);
	LOSS_COUNTERS(LOSS)
#undef LOSS
	printf("\"total\": %" PRIu64 "}, \"rows\": {", loss_total(&run->loss));
#define KIND(id, NAME, name) printf("\"" #name "\": %" PRIu64 ", ", run_rows(run, RECORD_##NAME));
	RECORD_KINDS(KIND)
#undef KIND
	printf("\"end\": 0}}\n");
	run_free(run);
	return 0;
}
