/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress by an interval timer: the work itself needs no calls. The handler only writes a text
 * made beforehand and its own digits.
 */
#include "cmd/terminal/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/text/utf8.h"

static char text[512];
static size_t text_size;
static volatile sig_atomic_t seconds;
static bool running;

static void tick(int signal_number)
{
	char line[sizeof(text) + 32];
	int saved = errno;
	size_t n = text_size;
	int digits = 1, value = (int)++seconds;
	ssize_t ignored;

	(void)signal_number;
	memcpy(line, text, n);
	for (int v = value; v >= 10; v /= 10)
		digits++;
	for (int i = digits - 1; i >= 0; i--, value /= 10)
		line[n + (size_t)i] = (char)('0' + value % 10);
	n += (size_t)digits;
	memcpy(line + n, " s)", 3);
	n += 3;
	/* A progress line that cannot be shown is not worth a word. */
	ignored = write(STDERR_FILENO, line, n);
	(void)ignored;
	errno = saved;
}

void progress_begin(const char *what)
{
	struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
	struct itimerval every = { .it_interval = { 1, 0 }, .it_value = { 1, 0 } };
	char name[sizeof(text)];
	int n;

	if (!isatty(STDERR_FILENO))
		return;
	snprintf(name, sizeof(name), "%s", what);
	utf8_make_harmless(name);
	n = snprintf(text, sizeof(text), "\r\033[Kmoescope: %s (", name);
	text_size = n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1;
	seconds = 0;
	running = sigaction(SIGALRM, &action, NULL) == 0 &&
		  setitimer(ITIMER_REAL, &every, NULL) == 0;
}

void progress_end(void)
{
	static const struct itimerval never;
	static const char wipe[] = "\r\033[K";

	if (!running)
		return;
	setitimer(ITIMER_REAL, &never, NULL);
	signal(SIGALRM, SIG_DFL);
	running = false;
	if (seconds > 0)
		fputs(wipe, stderr);
}
