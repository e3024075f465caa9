/* SPDX-License-Identifier: Apache-2.0
 *
 * save-fakes DIRECTORY: the runs built by hand as run directories, for programs that read files
 * (tools/same.py). The same bytes every time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_comm.h"
#include "fake_counters.h"
#include "fake_h200.h"
#include "fake_run.h"
#include "fake_slow.h"
#include "fake_windows.h"
#include "trace/encoder.h"
#include "trace/rundir.h"
#include "trace/shard.h"

static const struct {
	const char *name;
	struct run *(*make)(void);
} fakes[] = {
	{ "training", fake_training_run }, { "gpu", fake_gpu_run },	  { "h200", fake_h200_run },
	{ "windows", fake_windows_run },   { "slow", fake_slow_run },	  { "comm", fake_comm_run },
	{ "counters", fake_counters_run }, { "limits", fake_limits_run },
};

static void must(int result, const char *what, const struct err *err)
{
	if (result >= 0)
		return;
	fprintf(stderr, "save-fakes: %s: %s%s%s\n", what, strerror(-result), err ? ": " : "",
		err ? err->message : "");
	exit(1);
}

/* The texts of fakes have a terminating zero, which those of files do not. */
static void without_end(struct row_string *row)
{
	row->length--;
}

/* Every shard gets the whole dictionaries, so that ids stay as they are. */
#define SAVE_C(id, field, TYPE, CODING) row.field = t->field[i];
#define SAVE_L(id, field, TYPE, count) row.field = t->field + t->field##_first[i];
#define SAVE_B(id, field, count) SAVE_L(id, field, U8, count)
#define KIND(kind_id, NAME, name)                                                                  \
	static void save_##name(struct encoder *encoder, const struct run *run, uint16_t shard)    \
	{                                                                                          \
		const struct table_##name *t = &run->name;                                         \
		const bool dictionary = RECORD_##NAME <= RECORD_LAUNCH;                            \
                                                                                                   \
		for (size_t i = 0; i < t->n; i++) {                                                \
			struct row_##name row = { 0 };                                             \
                                                                                                   \
			if (!dictionary && t->shard[i] != shard)                                   \
				continue;                                                          \
			RECORD_COLUMNS_##name(SAVE_C, SAVE_L,                                      \
					      SAVE_B) if (RECORD_##NAME == RECORD_STRING)          \
				without_end((void *)&row);                                         \
			must(encoder_append(encoder, RECORD_##NAME, &row), #name, NULL);           \
		}                                                                                  \
	}
RECORD_KINDS(KIND)
#undef KIND

static void save_shard(const struct run *run, uint16_t shard, const char *directory)
{
	const struct run_shard *from = &run->shards[shard];
	struct shard_origin origin = { .rank = from->rank,
				       .pid = from->pid,
				       .monotonic_ns = run->start_ns,
				       .realtime_ns = run->info.started_realtime_ns };
	struct shard_writer *writer;
	struct encoder encoder;
	struct err err = { 0 };
	char path[1024];

	snprintf(path, sizeof(path), "%s/%u-%u.mst", directory, from->rank, from->pid);
	encoder_init(&encoder, 1, 1, 0);
	must(shard_create_from(path, &origin, &writer, &err), path, &err);
#define KIND(id, NAME, name) save_##name(&encoder, run, shard);
	RECORD_KINDS(KIND)
#undef KIND
	must(encoder_finish(&encoder), path, NULL);
	must(shard_write(writer, &encoder), path, NULL);
	must(shard_close(writer, &encoder), path, NULL);
	encoder_release(&encoder);
}

static void save(const struct run *run, const char *path)
{
	const struct run_info *info = &run->info;
	struct rundir_info to = { .source = info->source,
				  .command = info->command,
				  .status = info->status,
				  .host = info->host,
				  .cpu = info->cpu,
				  .version = info->version,
				  .level = info->level,
				  .schedule = "",
				  .kernel = "",
				  .ranks = "",
				  .notes = info->notes,
				  .cpus = info->cpus,
				  .exit_status = info->exit_status,
				  .signal = info->signal,
				  .started_realtime_ns = info->started_realtime_ns,
				  .duration_ns = info->duration_ns,
				  .duration_known = info->duration_known,
				  .budget_pct = info->budget_pct,
				  .budget_known = info->budget_known };
	struct err err = { 0 };
	char *made;

	must(rundir_create_from(path, &to, &made, &err), path, &err);
	for (size_t i = 0; i < run->n_shards; i++)
		save_shard(run, (uint16_t)i, made);
	free(made);
}

int main(int argc, char **argv)
{
	char path[512];

	if (argc != 2) {
		fprintf(stderr, "usage: save-fakes DIRECTORY\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(fakes) / sizeof(fakes[0]); i++) {
		struct run *run = fakes[i].make();

		snprintf(path, sizeof(path), "%s/%s" RUNDIR_SUFFIX, argv[1], fakes[i].name);
		save(run, path);
		fake_run_free(run);
	}
	return 0;
}
