/* SPDX-License-Identifier: Apache-2.0
 *
 * The moescope program: finds the command, parses its options, runs it, and makes sure that what
 * it printed has arrived.
 */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/options/command.h"
#include "cmd/options/options.h"
#include "cmd/terminal/output.h"
#include "cmd/options/parameter_options.h"
#include "base/version.h"

/* With 0, 1 or 2 closed, the next file opened would take its number and be mistaken for the
 * terminal. Read-only, so that output still fails as it should; close-on-exec, so that a program
 * under `run` finds them closed as it would without us. */
static void fill_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

static int call(const struct command *command, int argc, char **argv, struct out *out)
{
	struct invocation inv = { .command = command, .out = out };
	int r;

	/* One more than asked for: a command without options has an empty structure. */
	inv.values = calloc(1, command->values_size + 1);
	if (!inv.values)
		return fail("no memory.");
	if (command->defaults)
		memcpy(inv.values, command->defaults, command->values_size);
	switch (options_parse(&inv, argc, argv)) {
	case PARSE_HELP:
		help_command(command, out->file);
		r = EXIT_OK;
		break;
	case PARSE_OK:
		r = command->run(&inv);
		break;
	default:
		r = EXIT_USAGE;
	}
	free(inv.values);
	return r;
}

static int dispatch(int argc, char **argv, struct out *out)
{
	const struct command *command;
	const char *nearest;

	if (argc < 2) {
		help_overview(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		help_overview(out->file);
		return EXIT_OK;
	}
	if (strcmp(argv[1], "--version") == 0) {
		fprintf(out->file, "moescope %s\n", VERSION_TEXT);
		return EXIT_OK;
	}
	if (argv[1][0] == '-')
		return usage_error(NULL, "unknown option '%s'; a command comes first.", argv[1]);
	command = command_find(argv[1]);
	if (command)
		return call(command, argc - 2, argv + 2, out);
	nearest = command_nearest(argv[1]);
	if (nearest)
		return usage_error(NULL, "unknown command '%s'; did you mean '%s'?", argv[1],
				   nearest);
	return usage_error(NULL, "unknown command '%s'.", argv[1]);
}

int main(int argc, char **argv)
{
	struct out out = { 0 };
	int r;

	fill_standard_files();
	setlocale(LC_CTYPE, "");
	if (out_open(&out) != EXIT_OK)
		return EXIT_FAILED;
	if (parameter_options_make() < 0 || commands_make() < 0)
		return fail("no memory.");
	r = dispatch(argc, argv, &out);
	/* Only now: a program under `run` has inherited the disposition that we were given. */
	signal(SIGPIPE, SIG_IGN);
	if (out_close(&out) != EXIT_OK && r == EXIT_OK)
		r = EXIT_FAILED;
	return r;
}
