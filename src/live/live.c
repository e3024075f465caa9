/* SPDX-License-Identifier: Apache-2.0
 *
 * Following a growing run. One thread; the caller decides when to look.
 *
 * Invariant: `shown` is true exactly while the terminal is in the state that `enter` made.
 */
#include "live/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "live/line.h"
#include "tables/tables.h"

/* Alternate screen, no cursor, no line wrap; and back. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
static const char leave[] = "\033[?7h\033[?25h\033[?1049l";

struct live {
	struct live_options options;
	const struct section *view;
	struct run *run;
	size_t steps_told; /* rows of run->step that a line has covered */
	bool shown;
};

static int write_all(int fd, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, text, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

int live_open(const char *path, const struct live_options *options, struct live **ret_live,
	      struct err *err)
{
	struct run_want want = { .kinds = WANT(STEP) | WANT(COUNTER) | WANT(ROUTING) };
	struct live *live = calloc(1, sizeof(*live));
	int r;

	if (!live)
		return err_set(err, -ENOMEM, "no memory for the live view.");
	live->options = *options;
	live->view = section_find("dashboard");
	if (options->screen)
		want = section_want(live->view, &options->present);
	r = run_load(path, &want, &live->run, err);
	if (r < 0) {
		free(live);
		return r;
	}
	live_show(live);
	*ret_live = live;
	return 0;
}

/* One frame as terminal bytes: clears each line after its end and everything below, so nothing
 * flickers and nothing old stays. Cut at the height of the screen. */
static char *frame(const struct live *live, const char *text, size_t *ret_size)
{
	int lines_left = live->options.rows - (live->options.footer ? 1 : 0);
	char *out = NULL;
	FILE *file = open_memstream(&out, ret_size);
	bool failed;

	if (!file)
		return NULL;
	fputs("\033[H", file);
	while (*text && lines_left-- > 0) {
		size_t length = strcspn(text, "\n");

		fwrite(text, 1, length, file);
		fputs(lines_left > 0 ? "\033[K\r\n" : "\033[K", file);
		text += length + (text[length] == '\n');
	}
	fputs("\033[J", file);
	if (live->options.footer)
		fprintf(file, "\033[%d;1H%s\033[K", live->options.rows, live->options.footer);
	failed = ferror(file) != 0;
	if (fclose(file) != 0 || failed) {
		free(out);
		return NULL;
	}
	return out;
}

static int paint(struct live *live, struct err *err)
{
	char *text = NULL, *bytes;
	size_t size;
	FILE *file = open_memstream(&text, &size);
	int r;

	if (!file)
		return err_set(err, -ENOMEM, "no memory for the live view.");
	r = section_render(live->view, live->run, &live->options.present, file, err);
	if (fclose(file) != 0 && r == 0)
		r = err_set(err, -ENOMEM, "no memory for the live view.");
	if (r == 0) {
		bytes = frame(live, text, &size);
		r = bytes ? write_all(live->options.fd, bytes, size) : -ENOMEM;
		if (r < 0)
			err_sys(err, r, "cannot draw the live view");
		free(bytes);
	}
	free(text);
	return r;
}

static int tell(struct live *live, struct err *err)
{
	char line[256];
	int r;

	if (live->run->step.n <= live->steps_told)
		return 0;
	r = live_line(live->run, live->steps_told, line, sizeof(line) - 1);
	if (r == 0 && line[0]) {
		size_t length = strlen(line);

		line[length] = '\n';
		r = write_all(live->options.fd, line, length + 1);
	}
	live->steps_told = live->run->step.n;
	return r < 0 ? err_sys(err, r, "cannot write the progress") : 0;
}

int live_update(struct live *live, struct err *err)
{
	uint64_t gained;
	int r = run_refresh(live->run, &gained, err);

	if (r < 0)
		return r;
	if (!live->options.screen)
		return tell(live, err);
	return live->shown ? paint(live, err) : 0;
}

void live_resize(struct live *live, int columns, int rows)
{
	live->options.present.width = columns;
	live->options.rows = rows;
}

/* A terminal that is gone cannot be restored, and the next update says so. */
static void switch_screen(struct live *live, const char *sequence, bool shown)
{
	if (live->options.screen && live->shown != shown &&
	    write_all(live->options.fd, sequence, strlen(sequence)) == 0)
		live->shown = shown;
}

void live_hide(struct live *live)
{
	switch_screen(live, leave, false);
}

void live_show(struct live *live)
{
	switch_screen(live, enter, true);
}

void live_free(struct live *live)
{
	if (!live)
		return;
	live_hide(live);
	run_free(live->run);
	free(live);
}
