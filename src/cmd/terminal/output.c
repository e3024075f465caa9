/* SPDX-License-Identifier: Apache-2.0
 *
 * Stdout, stderr and what is known about the terminal. Main thread only.
 */
#include "cmd/terminal/output.h"

#include <errno.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/utf8.h"
#include "cmd/options/command.h"

int out_open(struct out *out)
{
	out->text = NULL;
	out->size = 0;
	out->file = open_memstream(&out->text, &out->size);
	if (!out->file) {
		out->failed = true;
		return fail("no memory for the output.");
	}
	return EXIT_OK;
}

static int write_all(const char *text, size_t size)
{
	while (size > 0) {
		ssize_t n = write(STDOUT_FILENO, text, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

/* Takes the stream apart; a stream that failed has lost text and must not pass for whole. */
static int out_drain(struct out *out)
{
	bool lost = ferror(out->file) != 0;
	int r;

	if (fclose(out->file) != 0)
		lost = true;
	out->file = NULL;
	if (lost) {
		r = EXIT_FAILED;
		if (!out->failed)
			fail("no memory for the output.");
	} else {
		r = out->failed ? -EPIPE : write_all(out->text, out->size);
		if (r < 0 && r != -EPIPE)
			fail("cannot write to standard output: %s.", strerror(-r));
		r = r < 0 ? EXIT_FAILED : EXIT_OK;
	}
	free(out->text);
	out->text = NULL;
	if (r != EXIT_OK)
		out->failed = true;
	return r;
}

int out_flush(struct out *out)
{
	int r = out_drain(out);
	int opened = out_open(out);

	return r != EXIT_OK ? r : opened;
}

int out_close(struct out *out)
{
	return out->file ? out_drain(out) : EXIT_FAILED;
}

static struct err *listener; /* NULL: stderr */

void fail_into(struct err *err)
{
	listener = err;
}

/* Messages from below name what failed, not how a sentence ends. */
static void whole_sentence(const char *after, const char *format, va_list args)
{
	char text[2048];
	const char *stop;
	size_t n;

	vsnprintf(text, sizeof(text), format, args);
	/* Names of files, and what files say, may hold anything. */
	utf8_make_harmless(text);
	n = strlen(text);
	stop = n && strchr(".?!", text[n - 1]) ? "" : ".";
	if (!listener)
		fprintf(stderr, "moescope: %s%s%s\n", text, stop, after);
	else if (!listener->message[0])
		err_set(listener, -EINVAL, "%s%s", text, stop);
}

void say(const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		return;
	utf8_make_harmless(text);
	fprintf(stderr, "moescope: %s\n", text);
	free(text);
}

int fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	whole_sentence("", format, args);
	va_end(args);
	return EXIT_FAILED;
}

int usage_error(const struct command *command, const char *format, ...)
{
	char see[80];
	va_list args;

	snprintf(see, sizeof(see), " See 'moescope %s%s--help'.", command ? command->name : "",
		 command ? " " : "");
	va_start(args, format);
	whole_sentence(see, format, args);
	va_end(args);
	return EXIT_USAGE;
}

static int positive_environment(const char *name)
{
	const char *text = getenv(name);
	long value = text ? strtol(text, NULL, 10) : 0;

	return value > 0 && value < 10000 ? (int)value : 0;
}

struct terminal terminal_look(void)
{
	struct terminal t = { .columns = 80, .rows = 24 };
	const char *term = getenv("TERM");
	const char *no_color = getenv("NO_COLOR");
	struct winsize size;

	t.stdout_is_terminal = isatty(STDOUT_FILENO);
	t.stderr_is_terminal = isatty(STDERR_FILENO);
	t.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	t.cursor = t.stdout_is_terminal && term && *term && strcmp(term, "dumb") != 0;
	t.color = t.cursor && !(no_color && *no_color);
	if (!t.stdout_is_terminal)
		return t;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
		t.columns = size.ws_col;
		t.rows = size.ws_row > 0 ? size.ws_row : 24;
	} else {
		if (positive_environment("COLUMNS"))
			t.columns = positive_environment("COLUMNS");
		if (positive_environment("LINES"))
			t.rows = positive_environment("LINES");
	}
	return t;
}
