/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope export: a run in the format of another tool.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/whole_file.h"
#include "cmd/options/command.h"
#include "cmd/results/chrome_files.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "cmd/terminal/progress.h"
#include "exports/csv/csv_kinds.h"
#include "exports/exports.h"
#include "exports/sqlite/sqlite_write.h"
#include "surfaces/metrics/metrics.h"

struct values {
	int to; /* index into formats */
	const char *output;
	bool per_rank;
};

/* FORMAT(name, suffix of its file, what writes it to a stream, what writes it to a path, where it is
 * opened): one of the two writers. */
#define FORMATS(FORMAT)                                                                            \
	FORMAT("chrome", ".pt.trace.json.gz", export_chrome_gzip, NULL,                            \
	       "open it in ui.perfetto.dev, chrome://tracing or TensorBoard")                      \
	FORMAT("chrome-json", ".pt.trace.json", export_chrome, NULL,                               \
	       "open it in ui.perfetto.dev, chrome://tracing or TensorBoard")                      \
	FORMAT("perfetto", ".perfetto-trace", export_perfetto, NULL, "open it in ui.perfetto.dev") \
	FORMAT("folded", ".folded", export_folded, NULL,                                           \
	       "device time by host stack: make it a flame graph, or open it in speedscope")       \
	FORMAT("folded-host", ".host.folded", export_folded_host, NULL,                            \
	       "host time by stack: make it a flame graph, or open it in speedscope")              \
	FORMAT("folded-heap", ".heap.folded", export_folded_heap, NULL,                            \
	       "host memory by stack: make it a flame graph, or open it in speedscope")            \
	FORMAT("speedscope", ".speedscope.json", export_speedscope, NULL,                          \
	       "open it in speedscope.app")                                                        \
	FORMAT("speedscope-host", ".host.speedscope.json", export_speedscope_host, NULL,           \
	       "open it in speedscope.app")                                                        \
	FORMAT("pprof", ".pprof", export_pprof, NULL,                                              \
	       "device time by host stack: open it with go tool pprof")                            \
	FORMAT("pprof-host", ".host.pprof", export_pprof_host, NULL,                               \
	       "host time by stack: open it with go tool pprof")                                   \
	FORMAT("openmetrics", ".prom", metrics_print, NULL,                                        \
	       "put it where node-exporter's textfile collector looks")                            \
	FORMAT("csv", ".csv", NULL, csv_kinds_write, "columns.csv in it says what the files hold") \
	FORMAT("sqlite", ".sqlite", NULL, sqlite_write,                                            \
	       "query it as an export of Nsight Systems; MOESCOPE_* has everything")
enum { TO_CHROME, TO_CHROME_JSON }; /* the first two of them */

static const struct {
	const char *suffix;
	int (*write)(const struct run *run, FILE *out, struct err *err);
	int (*write_path)(const struct run *run, const char *path, struct err *err);
	const char *opened;
} formats[] = {
#define FORMAT(name, suffix, write, write_path, opened) { suffix, write, write_path, opened },
	FORMATS(FORMAT)
#undef FORMAT
};
static const char *const format_names[] = {
#define FORMAT(name, suffix, write, write_path, opened) name,
	FORMATS(FORMAT)
#undef FORMAT
		NULL
};

static const struct option_desc own[] = {
	{ .name = "to",
	  .short_name = 't',
	  .kind = OPTION_CHOICE,
	  .metavar = "FORMAT",
	  .choices = format_names,
	  .help = "chrome: trace-event JSON in the form of PyTorch's profiler, compressed; "
		  "chrome-json: the same, plain; perfetto: a trace with tracks, counters and "
		  "flows; for flame graphs, folded: device time by host stack, folded-host: host "
		  "time by stack, folded-heap: host memory at its peak by stack; speedscope: "
		  "profiles of threads and streams, speedscope-host: threads as sampled by 'run "
		  "--stacks'; pprof, pprof-host: the data of folded and folded-host for pprof, the "
		  "latter with waiting time; openmetrics: the "
		  "totals of all tables, layers and extreme experts, for Prometheus; csv: a folder "
		  "with one file per kind of record; sqlite: a database with the tables of Nsight "
		  "Systems and all records",
	  .default_text = "chrome",
	  .offset = offsetof(struct values, to) },
	{ .name = "output",
	  .short_name = 'o',
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "the file to write; - is standard output. Chrome traces are compressed if it "
		  "ends with .gz",
	  .default_text = "NAME with the format's suffix",
	  .offset = offsetof(struct values, output),
	  .completion = COMPLETE_FILE },
	{ .name = "per-rank",
	  .kind = OPTION_FLAG,
	  .help = "one Chrome trace per rank, NAME-rankN.pt.trace.json.gz, in the directory "
		  "given by --output, as TensorBoard and Holistic Trace Analysis expect",
	  .offset = offsetof(struct values, per_rank) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope export a.mscope --to chrome",
	  "Writes a.pt.trace.json.gz; open it in ui.perfetto.dev or chrome://tracing." },
	{ "moescope export a.mscope --to chrome -o - | gzip > a.json.gz", "To a pipe." },
	{ "moescope export a.mscope --to perfetto",
	  "Writes a.perfetto-trace, with the routing of each layer as counters." },
	{ "moescope export a.mscope --to folded -o - | flamegraph.pl > a.svg",
	  "A flame graph of device time, by what the program was doing." },
	{ "moescope export a.mscope --to pprof-host",
	  "Writes a.host.pprof, the samples of 'moescope run --stacks'." },
	{ "moescope export a.mscope --per-rank -o traces",
	  "One file per rank, for TensorBoard and Holistic Trace Analysis." },
	{ "moescope export a.mscope --to sqlite",
	  "Writes a.sqlite, which works with queries for Nsight Systems exports." },
	{ "moescope export a.mscope --to openmetrics -o /var/lib/node_exporter/a.prom",
	  "The totals for Prometheus, through node-exporter." },
	{ "moescope export a.mscope --to csv", "Creates the folder a.csv." },
	{ NULL, NULL },
};

static int write_file(const struct run *run, const struct values *values, const char *target)
{
	struct err err = { "" };
	struct whole_file whole;
	int r;

	if (formats[values->to].write_path) {
		r = formats[values->to].write_path(run, target, &err);
		return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
	}
	r = whole_file_open(&whole, target);
	if (r < 0)
		return fail("cannot write '%s': %s; choose another place with --output.", target,
			    strerror(-r));
	r = whole_file_close(&whole, formats[values->to].write(run, whole.file, &err), &err);
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static int write_stdout(const struct run *run, const struct values *values)
{
	struct err err = { "" };
	int r;

	if (!formats[values->to].write)
		return fail("this format is not a stream; name a file with --output.");
	signal(SIGPIPE, SIG_IGN);
	errno = 0;
	r = formats[values->to].write(run, stdout, &err);
	if (r == 0 && fflush(stdout) != 0)
		r = err_sys(&err, -errno, "cannot write to standard output");
	if (r < 0 && (r == -EPIPE || errno == EPIPE))
		return EXIT_FAILED;
	return r < 0 ? fail("%s", err.message[0] ? err.message : strerror(-r)) : EXIT_OK;
}

static int run_export(struct invocation *inv)
{
	struct values *values = inv->values;
	bool chrome = values->to == TO_CHROME || values->to == TO_CHROME_JSON;
	struct run *run;
	char *target = NULL;
	int r;

	if (values->per_rank && !chrome)
		return usage_error(inv->command, "--per-rank is for Chrome traces.");
	if (values->per_rank && values->output && strcmp(values->output, "-") == 0)
		return usage_error(inv->command, "with --per-rank, --output names a directory.");
	if (chrome && !values->per_rank)
		values->to = chrome_packs(values->output, values->to == TO_CHROME) ? TO_CHROME
										   : TO_CHROME_JSON;
	r = run_open(inv->n_args ? inv->args[0] : NULL, WANT_ALL, &run);
	if (r != EXIT_OK)
		return r;
	if (values->per_rank) {
		r = chrome_write_ranks(run, values->output, values->to == TO_CHROME);
	} else if (values->output && strcmp(values->output, "-") == 0) {
		r = write_stdout(run, values);
	} else if (asprintf(&target, "%s%s", values->output ? values->output : run->info.name,
			    values->output ? "" : formats[values->to].suffix) < 0) {
		r = fail("no memory.");
	} else {
		progress_begin("writing the trace");
		r = write_file(run, values, target);
		progress_end();
		if (r == EXIT_OK)
			say("wrote %s; %s.", target, formats[values->to].opened);
		free(target);
	}
	run_free(run);
	return r;
}

const struct command cmd_export = {
	.name = "export",
	.purpose = PURPOSE_EXPORT,
	.summary = "write a run in the format of another tool",
	.words = "[RUN]",
	.description = "Writes the run for another tool. Chrome traces have the form of "
		       "PyTorch's profiler: Perfetto, chrome://tracing, TensorBoard's plugin and "
		       "Holistic Trace Analysis open them, and 'moescope import' restores the "
		       "same run. The file appears when it is complete. " NEWEST_RUN,
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_export,
};
