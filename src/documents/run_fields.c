/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of every document for programs: the run, and what was lost of it. See document.h.
 */
#include <string.h>

#include "documents/document.h"
#include "subjects/stacks/sampled_stacks.h"

void run_head_make(const struct run *run, struct run_head *ret_head)
{
	bool seen[RUN_DEVICES_MAX] = { false };

	ret_head->n_devices = 0;
	for (size_t i = 0; i < run->kernel.n; i++) {
		uint32_t device = run->kernel.device[i];

		if (device >= RUN_DEVICES_MAX || seen[device])
			continue;
		seen[device] = true;
		ret_head->devices[ret_head->n_devices++] = device;
	}
}

static const void *run_of(const struct field_row *at)
{
	return at->run;
}

static const void *info_of(const struct field_row *at)
{
	return &at->run->info;
}

static const void *loss_of(const struct field_row *at)
{
	return &at->run->loss;
}

static bool is_imported(const struct field_row *at)
{
	return at->run->info.source[0];
}

static const char *not_imported(const struct field_row *at)
{
	return is_imported(at) ? NULL : "recorded";
}

static const char *no_duration(const struct field_row *at)
{
	if (at->run->info.duration_known)
		return NULL;
	return is_imported(at) ? NOT_IN_FILE : "the program has not ended";
}

static const char *no_exit(const struct field_row *at)
{
	if (!strcmp(at->run->info.status, "exited"))
		return NULL;
	return is_imported(at) ? NOT_IN_FILE : "the program did not exit by itself";
}

static const char *no_start(const struct field_row *at)
{
	return is_imported(at) && !at->run->info.started_realtime_ns ? NOT_IN_FILE : NULL;
}

static const struct field device = { .unit = UNIT_INT, .type = FIELD_U32 };

static const struct field_group devices = {
	FIELD_ARRAY,
	.fields = &device,
	.items = { ITEMS_INSIDE(struct run_head, devices, n_devices) },
};

static const struct field rank = { .unit = UNIT_INT, MEMBER(struct run_shard, rank) };

static size_t count_shards(const struct field_row *in)
{
	return ((const struct run *)in->item)->n_shards;
}

static const void *process_shard(const struct field_row *in, size_t i)
{
	const struct run *run = in->item;

	return shard_is_process(run, i) ? &run->shards[i] : NULL;
}

static const struct field_group ranks = {
	FIELD_ARRAY,
	.fields = &rank,
	.items = { .item = process_shard, .count = count_shards },
};

#define OF(member) MEMBER(struct run_info, member), .from = info_of

static const struct field run_fields[] = {
	{ "name", NULL, UNIT_TEXT, OF(name), .meaning = "directory name without .mscope" },
	{ "command", NULL, UNIT_TEXT, OF(command),
	  .meaning = "the command line, quoted for a shell" },
	{ "source", NULL, UNIT_TEXT, OF(source), .absent = not_imported, .optional = true,
	  .meaning = "the file that the run was imported from; absent when it was recorded" },
	{ "duration_ns", NULL, UNIT_NS, OF(duration_ns), .absent = no_duration,
	  .meaning = "of the program; null while it runs" },
	{ "devices", .of = &devices,
	  .meaning = "devices that ran kernels, as the processes number them" },
	{ "ranks", .from = run_of, .of = &ranks, .meaning = "of the processes" },
	{ "status", NULL, UNIT_TEXT, OF(status),
	  .meaning = "running, abandoned (its recorder is gone without noting the end), exited, "
		     "killed, left (it went on when the recording ended), imported or unknown" },
	{ "exit_status", NULL, UNIT_INT, OF(exit_status), .absent = no_exit,
	  .meaning = "of the program; null unless it exited" },
	{ "host", NULL, UNIT_TEXT, OF(host), .meaning = "name of the machine" },
	{ "cpu", NULL, UNIT_TEXT, OF(cpu), .meaning = "model of its processor" },
	{ "level", NULL, UNIT_TEXT, OF(level),
	  .meaning = "of recording: counts, steps, trace or full; empty when the run was imported "
		     "from a file of another profiler" },
	{ "version", NULL, UNIT_TEXT, OF(version), .meaning = "of moescope that made the run" },
	{ "started_realtime_ns", NULL, UNIT_NS, OF(started_realtime_ns), .absent = no_start,
	  .meaning = "start since 1970" },
	{ "notes", NULL, UNIT_TEXT, OF(notes),
	  .meaning = "trouble while recording, one sentence a line" },
};

static const struct field_group run_group = { FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(run_fields),
					      PART("run", "The run that the document is about.") };

static const struct field loss_fields[] = {
#define LOSS(field, words)                                                                         \
	{ #field, NULL, UNIT_INT, MEMBER(struct loss, field), .meaning = (words) },
	LOSS_COUNTERS(LOSS)
#undef LOSS
};

static const struct field_group loss_group = {
	FIELD_OBJECT, FIELD_SPREAD_OUT, FIELDS(loss_fields),
	PART("loss", "What was dropped, cut or not understood; all zero when nothing was lost. The "
		     "figures do not miss what was salvaged, nor unknown events.")
};

static const struct field fields[] = {
	{ "run", .of = &run_group, .meaning = "the run" },
	{ "loss", .from = loss_of, .of = &loss_group, .meaning = "what was lost while recording" },
};

const struct field_set run_head_fields = { FIELDS(fields) };

/* The counters of a process one by one; all of them are numbers of the same type. */
static const char *const loss_words[] = {
#define LOSS(field, words) words,
	LOSS_COUNTERS(LOSS)
#undef LOSS
};
#define N_LOSSES (sizeof(loss_words) / sizeof(loss_words[0]))
_Static_assert(sizeof(struct loss) == N_LOSSES * sizeof(uint64_t), "one number for each");

static struct cell read_loss_words(const struct field_row *at)
{
	return cell_text(loss_words[at->index]);
}

static const struct field loss_row_fields[] = {
	{ "rank", NULL, UNIT_INT, MEMBER(struct run_shard, rank), .up = 1 },
	{ "pid", NULL, UNIT_INT, MEMBER(struct run_shard, pid), .up = 1 },
	{ "what", NULL, UNIT_TEXT, READ(TEXT, read_loss_words) },
	{ "records", NULL, UNIT_INT, .type = FIELD_U64 },
};

const struct field_set loss_rows = {
	FIELDS(loss_row_fields),
	.rows = { { ITEMS(struct run, shards, n_shards) },
		  { .first = offsetof(struct run_shard, loss),
		    .inside = true,
		    .size = sizeof(uint64_t),
		    .most = N_LOSSES } },
	.levels = 2,
};
