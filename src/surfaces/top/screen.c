/* SPDX-License-Identifier: Apache-2.0
 *
 * A terminal by ncurses; see screen.h. The only file that knows it.
 *
 * Invariant: `shown` is true exactly while the terminal is in ncurses' state.
 */
#include "surfaces/top/screen.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "surfaces/top/top.h"

#define ESCAPE_MS 25

/* Of term.h, whose macros have names such as lines and columns. */
extern char *tigetstr(const char *capability);

static struct {
	SCREEN *screen;
	FILE *in, *out;
	struct termios given; /* as we found the terminal */
	char restore[128];    /* sequences that end ncurses' state */
	bool shown;
} terminal;

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

const char *screen_unavailable(void)
{
	return NULL;
}

/* In a handler: only calls that are safe there. */
static void crash(int sig)
{
	if (terminal.shown) {
		(void)!write(STDOUT_FILENO, terminal.restore, strlen(terminal.restore));
		tcsetattr(STDOUT_FILENO, TCSANOW, &terminal.given);
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

static void remember_sequence(const char *capability)
{
	const char *text = tigetstr(capability);
	size_t used = strlen(terminal.restore);

	/* -1: the capability is no text. */
	if (text && (intptr_t)text != -1)
		snprintf(terminal.restore + used, sizeof(terminal.restore) - used, "%s", text);
}

static void watch_for_crashes(void)
{
	struct sigaction action = { .sa_handler = crash, .sa_flags = (int)SA_RESETHAND };

	terminal.restore[0] = '\0';
	remember_sequence("sgr0");
	remember_sequence("cnorm");
	remember_sequence("rmcup");
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &action, NULL);
}

static void begin_colors(void)
{
	static const short colors[] = { [TEXT_RED] = COLOR_RED,
					[TEXT_YELLOW] = COLOR_YELLOW,
					[TEXT_GREEN] = COLOR_GREEN,
					[TEXT_CYAN] = COLOR_CYAN };

	if (!has_colors())
		return;
	start_color();
	use_default_colors();
	for (int style = TEXT_RED; style <= TEXT_CYAN; style++)
		init_pair((short)style, colors[style], -1);
}

static void close_files(void)
{
	if (terminal.in)
		fclose(terminal.in);
	if (terminal.out)
		fclose(terminal.out);
	terminal.in = terminal.out = NULL;
}

static FILE *own_stream(int fd, const char *mode)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	FILE *file = copy < 0 ? NULL : fdopen(copy, mode);

	if (!file && copy >= 0)
		close(copy);
	return file;
}

int screen_open(struct err *err)
{
	const char *term = getenv("TERM");

	tcgetattr(STDOUT_FILENO, &terminal.given);
	terminal.out = own_stream(STDOUT_FILENO, "w");
	/* The terminal that we draw on; stdin may be something else. */
	terminal.in = fopen("/dev/tty", "re");
	if (!terminal.in)
		terminal.in = own_stream(STDOUT_FILENO, "r");
	if (terminal.in && terminal.out)
		terminal.screen = newterm(NULL, terminal.out, terminal.in);
	if (!terminal.screen) {
		close_files();
		return err_set(err, -ENOTTY, "cannot draw on a terminal of type '%s'.",
			       term ? term : "");
	}
	terminal.shown = true;
	/* Signals of keys stay those of the terminal: they are meant for whole jobs. */
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	begin_colors();
	watch_for_crashes();
	return 0;
}

void screen_hide(void)
{
	if (!terminal.shown)
		return;
	endwin();
	terminal.shown = false;
}

void screen_show(void)
{
	if (terminal.shown || !terminal.screen)
		return;
	terminal.shown = true;
	clearok(stdscr, TRUE);
	refresh();
}

void screen_close(void)
{
	if (!terminal.screen)
		return;
	screen_hide();
	delscreen(terminal.screen);
	terminal.screen = NULL;
	close_files();
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		signal(crashes[i], SIG_DFL);
}

bool screen_is_ours(void)
{
	pid_t foreground = tcgetpgrp(STDOUT_FILENO);

	/* It is not our controlling terminal: then there are no jobs on it, either. */
	return foreground < 0 ? errno == ENOTTY : foreground == getpgrp();
}

void screen_size(int *ret_columns, int *ret_rows)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col && size.ws_row &&
	    (size.ws_col != COLS || size.ws_row != LINES))
		resizeterm(size.ws_row, size.ws_col);
	*ret_columns = COLS;
	*ret_rows = LINES;
}

static void set_style(enum text_style style)
{
	static const attr_t attributes[] = { [TEXT_BOLD] = A_BOLD, [TEXT_DIM] = A_DIM };

	if (style >= TEXT_RED)
		attrset(has_colors() ? (attr_t)COLOR_PAIR(style) : A_NORMAL);
	else
		attrset(attributes[style]);
}

void screen_draw(const struct lines *frame)
{
	if (!terminal.shown)
		return;
	erase();
	for (int y = 0; y < frame->n && y < LINES; y++) {
		struct styled styled = { .style = TEXT_PLAIN };
		const char *bytes;
		size_t size;
		int columns, at = 0;

		size = lines_at(frame, y, &styled.at);
		styled.end = styled.at + size;
		move(y, 0);
		while (styled_next(&styled, &bytes, &size, &columns) && at + columns <= COLS) {
			set_style(styled.style);
			addnstr(bytes, (int)size);
			at += columns;
		}
	}
	refresh();
}

int screen_key(void)
{
	static const struct {
		int from, to;
	} keys[] = {
		{ KEY_UP, TOP_KEY_UP },		{ KEY_DOWN, TOP_KEY_DOWN },
		{ KEY_PPAGE, TOP_KEY_PAGE_UP }, { KEY_NPAGE, TOP_KEY_PAGE_DOWN },
		{ KEY_HOME, TOP_KEY_HOME },	{ KEY_END, TOP_KEY_END },
		{ '\t', TOP_KEY_TAB },		{ KEY_BTAB, TOP_KEY_BACK_TAB },
		{ '\033', TOP_KEY_ESCAPE },
	};
	int key = terminal.shown ? getch() : ERR;

	if (key == ERR)
		return -1;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].from == key)
			return keys[i].to;
	/* Others are nobody's. */
	return key < 256 ? key : 0;
}

int screen_fd(void)
{
	return terminal.in ? fileno(terminal.in) : -1;
}
