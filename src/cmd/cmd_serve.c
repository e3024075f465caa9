/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope serve: runs in a browser, and over HTTP for programs. Main thread.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "cmd/options/command.h"
#include "cmd/options/listening.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "surfaces/http/http.h"

#define PORT 7878

struct values {
	const char *address, *token;
	uint64_t port;
	bool metrics;
};

static const struct option_desc own[] = {
	{ .name = "port",
	  .short_name = 'p',
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .max = 65535,
	  .help = "listen on this port; 0 takes a free one",
	  .default_text = "7878",
	  .offset = offsetof(struct values, port) },
	{ .name = "address",
	  .kind = OPTION_STRING,
	  .metavar = "ADDRESS",
	  .help = "listen on this address; any but a loopback address needs a token",
	  .default_text = LOOPBACK,
	  .offset = offsetof(struct values, address) },
	{ .name = "token",
	  .kind = OPTION_STRING,
	  .metavar = "WORD",
	  .help = "answer only requests with this token",
	  .default_text = "a random one where others can reach the address, else none",
	  .offset = offsetof(struct values, token) },
	{ .name = "metrics",
	  .kind = OPTION_FLAG,
	  .help = "answer /metrics in the OpenMetrics format, about the newest run",
	  .offset = offsetof(struct values, metrics) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope serve", "All runs of the current directory, for this machine only." },
	{ "moescope serve a.mscope --port 0", "One run, finished or live, on a free port." },
	{ "moescope serve runs --address 0.0.0.0 --metrics",
	  "For colleagues and for Prometheus; prints an address with a token." },
	{ NULL, NULL },
};

static const struct values defaults = { .address = LOOPBACK, .port = PORT };

static int tell_address(const struct invocation *inv, const char *path,
			const struct listening *listening, uint16_t port)
{
	char url[128];

	listening_url(listening, port, url, sizeof(url));
	fprintf(inv->out->file, "%s at %s/%s%s\n", path, url, listening->token[0] ? "?token=" : "",
		listening->token);
	return out_flush(inv->out);
}

static int serve_run(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct listening listening = { .port = (uint16_t)values->port };
	struct http_options options = { .path = inv->n_args ? inv->args[0] : ".",
					.address = values->address,
					.port = listening.port,
					.metrics = values->metrics,
					.load = run_load_quietly };
	struct http_server *server;
	struct err err = { "" };
	sigset_t ends;
	int signal_number, status;

	snprintf(listening.address, sizeof(listening.address), "%s", values->address);
	status = listening_guard(&listening, values->token, &err);
	if (status == -EINVAL)
		return usage_error(inv->command, "%s", err.message);
	if (status < 0)
		return fail("%s", err.message);
	options.token = listening.token[0] ? listening.token : NULL;
	/* Before there are threads, so that none of them gets it. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigaddset(&ends, SIGHUP);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	if (http_open(&options, &server, &err) < 0)
		return fail("%s", err.message);
	status = tell_address(inv, options.path, &listening, http_port(server));
	if (status == EXIT_OK)
		sigwait(&ends, &signal_number);
	http_close(server);
	return status;
}

const struct command cmd_serve = {
	.name = "serve",
	.purpose = PURPOSE_WATCH,
	.summary = "web pages about runs, finished or live",
	.words = "[RUN|DIR]",
	.description =
		"Serves one run, or all runs of a directory, to browsers and programs: every "
		"table as JSON (/api/openapi.json describes the requests), and a stream of "
		"events that says when a run has grown. It writes nothing but timeline indexes and "
		"reads nothing outside DIR. DIR defaults to the current directory. Ctrl-C ends it.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = serve_run,
};
