/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope sql: questions to runs, in the words of a database.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "cmd/options/common_options.h"
#include "cmd/results/sql_output.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"

#define TEXT_LIMIT 1000

struct values {
	bool json, csv, schema;
	const char *file;
	int64_t limit; /* -1: TEXT_LIMIT in text, all else */
	uint64_t width;
};

static const struct option_desc own[] = {
	{ .name = "file",
	  .short_name = 'f',
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "read the statements from this file; - is standard input",
	  .offset = offsetof(struct values, file),
	  .completion = COMPLETE_FILE },
	{ .name = "schema",
	  .kind = OPTION_FLAG,
	  .help = "print the tables and their columns; needs no run",
	  .offset = offsetof(struct values, schema) },
	{ .name = "json",
	  .kind = OPTION_FLAG,
	  .help = "print one JSON object: columns and rows",
	  .offset = offsetof(struct values, json) },
	CSV_OPTION(struct values, csv),
	LIMIT_OPTION(struct values, limit, "1000 in text, all with --json or --csv"),
	WIDTH_OPTION(struct values, width, "the terminal's width; unlimited elsewhere"),
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope sql a 'select name, sum(duration_ns) from kernels group by name'",
	  "The time of each kernel." },
	{ "moescope sql a b 'select run, step, duration_ns from steps'",
	  "Two runs at once; every table has the run of each row." },
	{ "moescope sql a.mscope", "Prompts for statements; .help lists the commands." },
	{ "moescope sql --schema", "All tables and columns." },
	{ NULL, NULL },
};

struct job {
	struct invocation *inv;
	const struct values *values;
	char **given; /* the runs, as the user named them */
	size_t n;
	char **labels;
	const char *query; /* NULL: from a file or a prompt */
	struct sql *sql;
	struct text_layout layout;
};

static int load_run(void *context, size_t i, const struct run_want *want, struct run **ret_run,
		    struct err *err)
{
	const struct job *job = context;

	/* It has said what is wrong. */
	if (run_open_with_steps(job->given[i], want, ret_run) != EXIT_OK)
		return err_set(err, -EIO, "%s", "");
	return 0;
}

/* A word with a space in it that names no file. */
static bool is_query(const char *word)
{
	return strpbrk(word, " \t\n;") && access(word, F_OK) < 0;
}

static char *name_of(const char *path)
{
	size_t length = strlen(path), suffix = strlen(".mscope");
	const char *from;

	while (length > 1 && path[length - 1] == '/')
		length--;
	for (from = path + length; from > path && from[-1] != '/';)
		from--;
	length -= (size_t)(from - path);
	if (length > suffix && !strncmp(from + length - suffix, ".mscope", suffix))
		length -= suffix;
	return strndup(from, length);
}

/* Names of the runs for the column `run`, each different. */
static int make_labels(struct job *job)
{
	job->labels = calloc(job->n, sizeof(*job->labels));
	for (size_t i = 0; job->labels && i < job->n; i++) {
		char *name = name_of(job->given[i]);
		size_t number = 1;

		job->labels[i] = name ? strdup(name) : NULL;
		for (size_t k = 0; job->labels[i] && k < i;) {
			if (strcmp(job->labels[k++], job->labels[i]) != 0)
				continue;
			free(job->labels[i]);
			if (asprintf(&job->labels[i], "%s-%zu", name, ++number) < 0)
				job->labels[i] = NULL;
			k = 0;
		}
		free(name);
		if (!job->labels[i])
			return -ENOMEM;
	}
	return job->labels ? 0 : -ENOMEM;
}

static void job_release(struct job *job)
{
	sql_close(job->sql);
	for (size_t i = 0; i < job->n; i++) {
		free(job->given[i]);
		if (job->labels)
			free(job->labels[i]);
	}
	free(job->given);
	free(job->labels);
}

/* The runs and the query among the arguments. */
static int look_at_args(struct job *job)
{
	struct invocation *inv = job->inv;
	int n = inv->n_args;
	struct err err = { "" };

	if (n && is_query(inv->args[n - 1]))
		job->query = inv->args[--n];
	if (job->query && job->values->file)
		return usage_error(inv->command, "a query and '--file' exclude each other.");
	job->given = calloc((size_t)n + 1, sizeof(*job->given));
	if (!job->given)
		return fail("no memory.");
	if (!n) {
		int r = run_find(NULL, &job->given[0], &err);

		if (r < 0)
			return fail("%s", err.message[0] ? err.message : strerror(-r));
		say("the newest run here is %s.", job->given[0]);
		job->n = 1;
	}
	/* Now, and not when a statement needs them: a word that was meant as one is told at once. */
	for (int i = 0; i < n; i++) {
		int r = run_find(inv->args[i], &job->given[job->n], &err);

		if (r < 0)
			return fail("%s", err.message[0] ? err.message : strerror(-r));
		job->n++;
	}
	return make_labels(job) < 0 ? fail("no memory.") : EXIT_OK;
}

static struct sql *volatile running;

static void on_interrupt(int number)
{
	(void)number;
	if (running)
		sql_interrupt(running);
}

/* One Ctrl-C ends the statement, a second one the command. */
static int run_text(struct job *job, const char *text)
{
	struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };
	const struct values *values = job->values;
	struct sql_output output;
	struct sql_sink sink = sql_output_sink(&output);
	size_t limit = values->limit >= 0	     ? (size_t)values->limit
		       : values->json || values->csv ? 0
						     : TEXT_LIMIT;
	struct sigaction before;
	struct err err = { "" };
	bool more = false;
	int r;

	r = sql_output_init(&output,
			    values->json  ? SQL_JSON
			    : values->csv ? SQL_CSV
					  : SQL_TEXT_TABLE,
			    &job->layout, job->inv->out->file);
	if (r < 0)
		return fail("no memory.");
	running = job->sql;
	sigaction(SIGINT, &action, &before);
	r = sql_run(job->sql, text, limit, &sink, &more, &err);
	sigaction(SIGINT, &before, NULL);
	running = NULL;
	if (r == 0)
		r = sql_output_finish(&output);
	sql_output_release(&output);
	if (r < 0)
		return err.message[0] ? fail("%s", err.message) : EXIT_FAILED;
	if (more)
		say("there are more than %zu rows; --limit 0 shows all.", limit);
	return EXIT_OK;
}

static int read_all(FILE *in, struct buf *text)
{
	char piece[65536];
	size_t n;

	while ((n = fread(piece, 1, sizeof(piece), in)) > 0)
		buf_append(text, piece, n);
	buf_append(text, "", 1);
	return ferror(in) ? -EIO : text->failed ? -ENOMEM : 0;
}

static int run_file(struct job *job, const char *path)
{
	bool standard = !path || !strcmp(path, "-");
	FILE *in = standard ? stdin : fopen(path, "re");
	struct buf text = { 0 };
	int r;

	if (!in)
		return fail("cannot read '%s': %s.", path, strerror(errno));
	r = read_all(in, &text);
	if (!standard)
		fclose(in);
	r = r < 0 ? fail("cannot read '%s': %s.", standard ? "standard input" : path, strerror(-r))
		  : run_text(job, text.data);
	buf_release(&text);
	return r;
}

/* Lines with a dot are to the prompt itself. False: it is to end. */
static bool run_dot(struct job *job, char *line)
{
	FILE *out = job->inv->out->file;

	line[strcspn(line, "\r\n")] = '\0';
	if (!strcmp(line, ".quit") || !strcmp(line, ".exit"))
		return false;
	if (!strcmp(line, ".tables")) {
		sql_tables(out);
	} else if (!strncmp(line, ".schema", 7)) {
		const char *prefix = line + 7 + strspn(line + 7, " ");

		if (sql_schema(prefix, out) < 0)
			fail("no memory.");
	} else {
		fputs(".tables         list the tables\n"
		      ".schema [NAME]  show their columns\n"
		      ".quit           quit, as does the end of the input\n"
		      "Anything else is SQL; a statement ends with ';' and may span several "
		      "lines.\n",
		      out);
	}
	return true;
}

static int prompt(struct job *job)
{
	struct buf text = { 0 };
	char *line = NULL;
	size_t size = 0;
	int r = EXIT_OK;

	for (;;) {
		fputs(text.size ? "     ...> " : "moescope> ", stderr);
		if (getline(&line, &size, stdin) < 0)
			break;
		if (!text.size && line[0] == '.') {
			if (!run_dot(job, line))
				break;
		} else {
			buf_append(&text, line, strlen(line));
			buf_append(&text, "", 1);
			if (text.failed) {
				r = fail("no memory.");
				break;
			}
			text.size--; /* the NUL is written over by the next line */
			if (!sql_complete(text.data))
				continue;
			/* A statement that failed has said so; the next may be better. */
			(void)run_text(job, text.data);
			text.size = 0;
		}
		if (out_flush(job->inv->out) != EXIT_OK) {
			r = EXIT_FAILED;
			break;
		}
	}
	fputc('\n', stderr);
	free(line);
	buf_release(&text);
	return r;
}

static int run_job(struct job *job)
{
	const struct values *values = job->values;
	struct terminal terminal = terminal_look();
	struct sql_source source = { .load = load_run, .release = run_free, .context = job };
	struct err err = { "" };
	int r = look_at_args(job);

	if (r != EXIT_OK)
		return r;
	job->layout = (struct text_layout){
		.width = values->width		       ? (int)values->width
			 : terminal.stdout_is_terminal ? terminal.columns
						       : 0,
		.utf8 = terminal.utf8,
		.color = terminal.color,
	};
	source.n = job->n;
	source.labels = (const char *const *)job->labels;
	r = sql_open(&source, &job->sql, &err);
	if (r < 0)
		return fail("%s", err.message);
	if (job->query)
		return run_text(job, job->query);
	if (values->file || !isatty(STDIN_FILENO))
		return run_file(job, values->file);
	return prompt(job);
}

static int run_sql(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct job job = { .inv = inv, .values = values };
	int r;

	if (values->json && values->csv)
		return usage_error(inv->command, "'--json' and '--csv' exclude each other.");
	if (values->schema) {
		r = sql_schema(NULL, inv->out->file);
		return r == -ENOTSUP ? fail("this build of moescope has no SQLite.")
		       : r < 0	     ? fail("no memory.")
				     : EXIT_OK;
	}
	r = run_job(&job);
	job_release(&job);
	return r;
}

static const struct values defaults = { .limit = -1 };

const struct command cmd_sql = {
	.name = "sql",
	.purpose = PURPOSE_EXPORT,
	.summary = "query runs with SQL",
	.words = "[RUN...] [QUERY]",
	.description =
		"Every kind of record is a table (kernels, api_calls, ranges, operations, steps, "
		"routing and so on), as is every common analysis (kernel_summary, step_times, "
		"verdicts and so on); --schema lists them. A query reads only the parts of a run "
		"that it uses. Several runs are queried together; the column `run` tells them "
		"apart. Without QUERY, statements come from --file, standard input or, on a "
		"terminal, a prompt. Runs are read-only; temporary tables are allowed. " NEWEST_RUN,
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = -1,
	.completion = COMPLETE_RUN,
	.run = run_sql,
};
