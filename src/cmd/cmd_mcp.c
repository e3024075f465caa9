/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope mcp: the same answers for agents. The server is surfaces/mcp; this tells it which runs there are and
 * has the commands answer what is theirs.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/version.h"
#include "cmd/results/table.h"
#include "cmd/runs/run_find.h"
#include "cmd/runs/run_list.h"
#include "cmd/terminal/output.h"
#include "surfaces/mcp/mcp.h"
#include "surfaces/sql/sql.h"

#define QUERY_SECONDS 30
#define WORDS_MAX 40

static const struct example examples[] = {
	{ "moescope mcp", "Serve the runs below the current directory." },
	{ "moescope mcp runs/a.mscope", "Serve one run." },
	{ NULL, NULL },
};

struct server {
	struct run_list list;
	struct mcp_run *runs; /* as many as the list has */
	char *sort;	      /* of the last options */
};

static int list_runs(void *context, struct mcp_runs *ret_runs, struct err *err)
{
	struct server *server = context;
	struct run_list *list = &server->list;
	struct mcp_run *runs;
	int r = run_list_read(list);

	runs = r < 0 ? NULL : reallocarray(server->runs, list->n + 1, sizeof(*runs));
	if (!runs)
		return err_set(err, -ENOMEM, "no memory.");
	server->runs = runs;
	for (size_t i = 0; i < list->n; i++)
		runs[i] = (struct mcp_run){ list->runs[i].name, list->runs[i].format };
	*ret_runs = (struct mcp_runs){ runs, list->n, list->more };
	return 0;
}

static int find_run(void *context, const char *given, char **ret_name, struct err *err)
{
	struct server *server = context;

	return run_list_find(&server->list, given, ret_name, err);
}

static int load_run(void *context, const char *name, const struct run_want *want, bool always_steps,
		    struct run **ret_run, struct err *err)
{
	const struct server *server = context;
	char *path = run_list_path(&server->list, name);
	int r;

	if (!path)
		return -ENOMEM;
	fail_into(err);
	r = always_steps ? run_open_with_steps(path, want, ret_run)
			 : run_open_part(path, want, ret_run);
	fail_into(NULL);
	free(path);
	return r == EXIT_OK ? 0 : -EIO;
}

/* A command that is called here: its options, and where it speaks. */
struct call {
	struct invocation inv;
	struct out out;
	char *words[WORDS_MAX];
	char *argv[WORDS_MAX + 4];
};

static void call_end(struct call *call)
{
	fail_into(NULL);
	free(call->inv.values);
	for (size_t i = 0; i < WORDS_MAX; i++)
		free(call->words[i]);
}

/* The command's options are these; args: up to NULL. Failures go to err until the call ends, which the caller sees
 * to in any case. Values and arguments are never taken for options. */
static int call_begin(struct call *call, const struct command *command,
		      const struct mcp_word *words, size_t n, const char *const *args,
		      struct err *err)
{
	static char dashes[] = "--";
	int argc = 0;

	*call = (struct call){ .inv = { .command = command, .out = &call->out } };
	fail_into(err);
	for (size_t i = 0; i < n && argc < WORDS_MAX; i++) {
		bool flag = !strcmp(words[i].value, "true");

		if (!strcmp(words[i].value, "false"))
			continue;
		if (asprintf(&call->words[argc], "--%s%s%s", words[i].name, flag ? "" : "=",
			     flag ? "" : words[i].value) < 0)
			return -ENOMEM;
		call->argv[argc] = call->words[argc];
		argc++;
	}
	call->argv[argc++] = dashes;
	while (*args)
		call->argv[argc++] = (char *)*args++;
	call->inv.values = calloc(1, command->values_size + 1);
	if (!call->inv.values)
		return -ENOMEM;
	if (command->defaults)
		memcpy(call->inv.values, command->defaults, command->values_size);
	return options_parse(&call->inv, argc, call->argv) == PARSE_OK ? 0 : -EINVAL;
}

static int call_command(const struct command *command, const struct mcp_word *words, size_t n,
			const char *const *args, FILE *out, struct err *err)
{
	struct call call;
	int r = call_begin(&call, command, words, n, args, err);

	call.out.file = out;
	if (r >= 0 && command->run(&call.inv) != EXIT_OK)
		r = -EINVAL;
	call_end(&call);
	return r;
}

static int table_options(void *context, const char *command, const struct mcp_word *words, size_t n,
			 struct view_options *ret_options, struct err *err)
{
	static const char *const no_args[] = { NULL };
	struct server *server = context;
	struct call call;
	int r = call_begin(&call, command_find(command), words, n, no_args, err);

	if (r >= 0) {
		*ret_options = table_view_options(call.inv.values);
		free(server->sort);
		server->sort = ret_options->sort ? strdup(ret_options->sort) : NULL;
		ret_options->sort = server->sort;
	}
	call_end(&call);
	return r;
}

static int explain(void *context, const char *word, FILE *out, struct err *err)
{
	const char *const args[] = { word, NULL };

	(void)context;
	return call_command(&cmd_explain, NULL, 0, args, out, err);
}

static int compare(void *context, const char *base, const char *other, const struct mcp_word *words,
		   size_t n, FILE *out, struct err *err)
{
	const struct server *server = context;
	char *paths[3] = { run_list_path(&server->list, base),
			   run_list_path(&server->list, other) };
	int r = paths[0] && paths[1]
			? call_command(&cmd_compare, words, n, (const char *const *)paths, out, err)
			: -ENOMEM;

	free(paths[0]);
	free(paths[1]);
	return r;
}

static struct sql *volatile watched;

static void on_alarm(int number)
{
	(void)number;
	if (watched)
		sql_interrupt(watched);
}

static void watch_query(void *context, struct sql *sql)
{
	(void)context;
	watched = sql;
	alarm(sql ? QUERY_SECONDS : 0);
}

static int serve(struct invocation *inv, const struct mcp_host *host)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct buf line = { 0 };
	int r, status = EXIT_OK;

	sigaction(SIGALRM, &action, NULL);
	while (status == EXIT_OK && (r = mcp_read(stdin, &line)) > 0) {
		r = mcp_answer(host, line.data, line.size, inv->out->file);
		status = r < 0 ? fail("cannot answer: %s.", strerror(-r)) : out_flush(inv->out);
	}
	if (status == EXIT_OK && r < 0)
		status = fail("cannot read standard input: %s.", strerror(-r));
	buf_release(&line);
	return status;
}

static int run_mcp(struct invocation *inv)
{
	struct server server = { 0 };
	struct mcp_host host = {
		.version = VERSION_TEXT,
		.context = &server,
		.list = list_runs,
		.find = find_run,
		.load = load_run,
		.release = run_free,
		.options = table_options,
		.explain = explain,
		.compare = compare,
		.watch = watch_query,
	};
	struct err err = { "" };
	int r = run_list_open(&server.list, inv->n_args ? inv->args[0] : ".", &err);

	r = r < 0 ? fail("%s", err.message) : serve(inv, &host);
	run_list_release(&server.list);
	free(server.runs);
	free(server.sort);
	return r;
}

const struct command cmd_mcp = {
	.name = "mcp",
	.purpose = PURPOSE_WATCH,
	.summary = "the same answers for AI agents, over the Model Context Protocol",
	.words = "[DIR]",
	.description =
		"A Model Context Protocol server on standard input and output, started by an agent. It "
		"answers which runs exist, what is wrong with one (verdicts), its tables, what a figure "
		"means, SQL queries and comparisons of two runs. Every answer has at most 4,000 tokens and "
		"says what it leaves out. It serves the runs in DIR, by default the current directory, or "
		"the one run given instead, and reads nothing else.",
	.examples = examples,
	.max_args = 1,
	.completion = COMPLETE_DIR,
	.run = run_mcp,
};
