/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope export: a run in the format of another tool.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/output.h"
#include "cmd/progress.h"
#include "cmd/run_find.h"
#include "cmd/whole_file.h"
#include "present/present.h"

struct values {
	int to; /* index into formats */
	const char *output;
};

/* FORMAT(name, suffix of its file, what writes it to a stream, what writes it to a path, where it is
 * opened): one of the two writers. */
#define FORMATS(FORMAT)                                                                            \
	FORMAT("chrome", ".trace.json", present_chrome, NULL,                                      \
	       "open it in ui.perfetto.dev or chrome://tracing")                                   \
	FORMAT("perfetto", ".perfetto-trace", present_perfetto, NULL,                              \
	       "open it in ui.perfetto.dev")                                                       \
	FORMAT("folded", ".folded", present_folded, NULL,                                          \
	       "device time by host stack: make it a flame graph, or open it in speedscope")       \
	FORMAT("folded-host", ".host.folded", present_folded_host, NULL,                           \
	       "host time by stack: make it a flame graph, or open it in speedscope")              \
	FORMAT("speedscope", ".speedscope.json", present_speedscope, NULL,                         \
	       "open it in speedscope.app")

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
	  .help = "chrome: trace-event JSON for Perfetto and chrome://tracing",
	  .default_text = "chrome",
	  .offset = offsetof(struct values, to) },
	{ .name = "output",
	  .short_name = 'o',
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "the file to write; - is standard output",
	  .default_text = "NAME.trace.json",
	  .offset = offsetof(struct values, output),
	  .completion = COMPLETE_FILE },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope export a.mscope --to chrome",
	  "Writes a.trace.json; open it in ui.perfetto.dev or chrome://tracing." },
	{ "moescope export a.mscope --to chrome -o - | gzip > a.json.gz", "To a pipe." },
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
		return fail("this format is no stream; name a file with --output.");
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
	const struct values *values = inv->values;
	struct run *run;
	char *target = NULL;
	int r = run_open(inv->n_args ? inv->args[0] : NULL, WANT_ALL, &run);

	if (r != EXIT_OK)
		return r;
	if (values->output && strcmp(values->output, "-") == 0) {
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
	.summary = "write a run in the format of another tool",
	.words = "[RUN]",
	.description = "Writes the run as trace-event JSON, which Perfetto and Chrome's tracing "
		       "page open. The file appears when it is complete. Without RUN it is the "
		       "newest *.mscope in the current directory.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_export,
};
