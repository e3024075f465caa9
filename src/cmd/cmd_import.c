/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope import: a run from the file of another profiler.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/options/common_options.h"
#include "cmd/runs/foreign.h"
#include "cmd/runs/run_files.h"
#include "cmd/runs/run_timeline.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/progress.h"
#include "ingest/ingest.h"
#include "tables/tables.h"
#include "trace/rundir.h"

struct values {
	const char *output;
};

static const struct option_desc own[] = {
	RUN_OUTPUT_OPTION(struct values, output, "RUN", "NAME.mscope, from the file's name"),
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope import trace.json.gz",
	  "Makes trace.mscope from a trace of PyTorch's profiler." },
	{ "moescope import traces/ -o job.mscope", "One run from the files of all ranks." },
	{ "moescope report trace.json.gz", "Every command takes such files directly." },
	{ NULL, NULL },
};

/* The name without its folder and the endings that such files have. */
static char *default_name(const char *path)
{
	static const char *const endings[] = { ".gz",	    ".json", ".trace", ".pt",	  ".sqlite",
					       ".nsys-rep", ".csv",  ".pkl",   ".pickle", NULL };
	size_t length = strlen(path), start;
	char *name;
	bool cut = true;

	while (length > 1 && path[length - 1] == '/')
		length--;
	for (start = length; start > 0 && path[start - 1] != '/';)
		start--;
	while (cut) {
		cut = false;
		for (int i = 0; endings[i]; i++) {
			size_t n = strlen(endings[i]);

			if (length - start > n && !strncmp(path + length - n, endings[i], n)) {
				length -= n;
				cut = true;
			}
		}
	}
	return asprintf(&name, "%.*s%s", (int)(length - start), path + start, RUNDIR_SUFFIX) < 0
		       ? NULL
		       : name;
}

static void say_kinds(const struct run *run)
{
	char line[600];
	size_t at = 0;

	for (unsigned int kind = RECORD_LAUNCH + 1; kind < RECORD_KIND_LIMIT; kind++)
		if (run_rows(run, kind) && at < sizeof(line))
			at += (size_t)snprintf(line + at, sizeof(line) - at, "%s%s %" PRIu64,
					       at ? ", " : "", kind_desc(kind)->name,
					       run_rows(run, kind));
	say("records: %s.", at ? line : "none");
}

/* What became of it, from the run itself. */
static int tell(const char *target, const struct importer *importer)
{
	struct run_want nothing = { .kinds = 0 };
	struct err err = { "" };
	struct run *run;
	uint64_t left_out;

	if (run_load(target, &nothing, &run, &err) < 0)
		return fail("%s", err.message);
	say("wrote %s from a%s %s, %zu process%s.", target,
	    strchr("Nn", importer->title[0]) ? "n" : "", importer->title, run->n_shards,
	    run->n_shards == 1 ? "" : "es");
	say_kinds(run);
	for (const char *note = run->info.notes; *note; note += strspn(note, "\n")) {
		size_t length = strcspn(note, "\n");

		say("%.*s", (int)length, note);
		note += length;
	}
	left_out = loss_total(&run->loss) + run->loss.unknown_events;
	if (left_out)
		say("%" PRIu64 " events were not taken; 'moescope report %s' says which.", left_out,
		    target);
	run_free(run);
	return EXIT_OK;
}

static int refuse(const char *path)
{
	struct run_files files;
	struct err err = { "" };

	if (run_files_look(path, &files) == 0 && files.run)
		return fail("%s: already a run; all commands take it directly.", path);
	foreign_refuse(path, &err);
	return fail("%s", err.message);
}

static int run_import(struct invocation *inv)
{
	const struct values *values = inv->values;
	const char *path = inv->args[0];
	const struct importer *importer = NULL;
	struct err err = { "" };
	char *target;
	int r = ingest_recognise(path, &importer, &err);

	if (r < 0)
		return fail("%s", err.message);
	if (!importer)
		return refuse(path);
	target = values->output ? strdup(values->output) : default_name(path);
	if (!target)
		return fail("no memory.");
	progress_begin("importing");
	r = ingest_run(path, WANT_ALL, target, &err);
	progress_end();
	if (r == 0)
		run_index_timeline(target, UINT64_MAX);
	r = r < 0 ? fail("%s", err.message) : tell(target, importer);
	free(target);
	return r;
}

const struct command cmd_import = {
	.name = "import",
	.purpose = PURPOSE_RECORD,
	.summary = "convert another profiler's trace into a run",
	.words = "FILE",
	.description =
		"Reads a trace of PyTorch's profiler (Kineto, JSON, optionally compressed), an "
		"Nsight Systems SQLite export, an Nsight Compute or nvidia-smi CSV, or a PyTorch "
		"memory snapshot, and converts it into a run. FILE may be a directory with the files "
		"of several ranks, which become one run on one clock. File types are detected "
		"from their content. Anything unreadable is skipped and counted. Other commands "
		"take such files directly in place of a run; importing saves reading them again.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.min_args = 1,
	.completion = COMPLETE_FILE,
	.run = run_import,
};
