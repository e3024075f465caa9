/* SPDX-License-Identifier: Apache-2.0
 *
 * The view of a program that we have started; see watched.h. One thread.
 *
 * Every signal is taken by launch_wait (launch.h), so keys are looked for now and then.
 */
#include "cmd/recording/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/format.h"
#include "cmd/results/table.h"
#include "cmd/runs/run_files.h"
#include "cmd/terminal/output.h"
#include "documents/progress_line.h"
#include "surfaces/top/screen.h"
#include "surfaces/top/top.h"

enum {
	KEYS_MS = 100,
	LINES_WINDOW = 4 << 20, /* bytes of tables: a line is about the newest steps */
	LOG_TAIL_BYTES = 2000,
};

int program_log_open(const struct recording *recording)
{
	char *path;
	int fd;

	if (asprintf(&path, "%s/" PROGRAM_LOG, recording->path) < 0)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0)
		fd = -errno;
	free(path);
	return fd;
}

void program_log_tail(int fd)
{
	char text[LOG_TAIL_BYTES + 1];
	off_t end = lseek(fd, 0, SEEK_END);
	off_t from = end > LOG_TAIL_BYTES ? end - LOG_TAIL_BYTES : 0;
	ssize_t n = pread(fd, text, LOG_TAIL_BYTES, from);
	char *start = text;

	if (n <= 0)
		return;
	text[n] = '\0';
	if (from > 0 && strchr(text, '\n'))
		start = strchr(text, '\n') + 1;
	fputs(start, stderr);
	if (text[n - 1] != '\n')
		fputc('\n', stderr);
}

#define INTERVAL_LEAST_NS INT64_C(100000000)

int watch_interval(const char *text, int64_t *ret_ns, struct err *err)
{
	int64_t ns;
	int r = interval_parse(text, &ns, err);

	if (r == 0 && ns < INTERVAL_LEAST_NS)
		r = err_set(err, -EINVAL, "'--interval' is at least 100ms.");
	if (r == 0)
		*ret_ns = ns;
	return r;
}

struct watch {
	struct top *top; /* of a screen */
	struct run *run; /* of lines */
	uint64_t told;	 /* steps that a line has covered */
	int64_t interval_ns, next_ns;
};

static int begin(struct watch *watch, const struct recording *recording, enum watch_form form,
		 const char *hint, struct err *err)
{
	struct run_want want = { .kinds = PROGRESS_KINDS, .window_bytes = LINES_WINDOW };
	struct table_values plain = TABLE_DEFAULTS;
	struct top_options options = {
		.view = table_view_options(&plain),
		.rows = terminal_look().rows,
		.interval_ns = watch->interval_ns,
		.hint = hint,
	};
	int r;

	if (form == WATCH_LINES)
		return run_load(recording->path, &want, &watch->run, err);
	r = top_open(recording->path, &options, &watch->top, err);
	return r < 0 ? r : screen_open(err);
}

static void end(struct watch *watch)
{
	if (watch->top)
		screen_close();
	top_free(watch->top);
	run_free(watch->run);
	*watch = (struct watch){ .interval_ns = watch->interval_ns };
}

static int tell(struct watch *watch, struct err *err)
{
	char line[256];
	uint64_t gained;
	int r = run_refresh(watch->run, &gained, err);
	uint64_t gone = watch->run->gone.rows[RECORD_STEP], steps = gone + watch->run->step.n;

	if (r < 0 || steps <= watch->told)
		return r;
	r = progress_line(watch->run, watch->told > gone ? (size_t)(watch->told - gone) : 0, line,
			  sizeof(line) - 1);
	watch->told = steps;
	if (r < 0 || !line[0])
		return r;
	strcat(line, "\n");
	if (write(STDOUT_FILENO, line, strlen(line)) < 0)
		return err_sys(err, -errno, "cannot write the progress");
	return 0;
}

/* -ECANCELED: whoever looks has seen enough. */
static int paint(struct watch *watch, struct err *err)
{
	int64_t now_ns = clock_monotonic_ns();
	bool touched = false;
	struct lines frame;
	int key, columns, rows, r;

	/* A job in the background leaves the terminal to others. */
	if (!screen_is_ours()) {
		screen_hide();
		return 0;
	}
	screen_show();
	for (; (key = screen_key()) >= 0; touched = true)
		if (!top_key(watch->top, key))
			return -ECANCELED;
	if (!touched && now_ns < watch->next_ns)
		return 0;
	watch->next_ns = now_ns + watch->interval_ns;
	screen_size(&columns, &rows);
	top_resize(watch->top, columns, rows);
	r = top_update(watch->top, now_ns, err);
	if (r < 0)
		return r;
	r = top_frame(watch->top, &frame);
	if (r == 0)
		screen_draw(&frame);
	lines_release(&frame);
	return r;
}

static int show(struct watch *watch, struct err *err)
{
	if (watch->top)
		return paint(watch, err);
	return watch->run ? tell(watch, err) : 0;
}

/* Ends it, and says why while the program goes on. */
static void give_up(struct watch *watch, const struct recording *recording, int r,
		    const struct err *err)
{
	end(watch);
	if (r == -ECANCELED)
		say("the view is closed; the program continues, with its output in "
		    "%s/" PROGRAM_LOG ".",
		    recording->name);
	else
		say("the live view ended early: %s", err->message);
}

void watch_program(struct recording *recording, enum watch_form form, int64_t interval_ns,
		   const char *hint)
{
	int64_t interval_ms = interval_ns / 1000000;
	int look_ms = form == WATCH_SCREEN    ? KEYS_MS
		      : interval_ms < INT_MAX ? (int)interval_ms
					      : INT_MAX;
	enum launch_event event = LAUNCH_TIMEOUT;
	struct watch watch = { .interval_ns = interval_ns };
	struct err err = { "" };
	int r = begin(&watch, recording, form, hint, &err);

	if (r < 0)
		give_up(&watch, recording, r, &err);
	while (event != LAUNCH_ENDED) {
		event = launch_wait(&recording->launch, watch.top || watch.run ? look_ms : -1);
		if (event == LAUNCH_STOPPED) {
			screen_hide();
			launch_suspend(&recording->launch);
		}
		if (event == LAUNCH_STOPPED || event == LAUNCH_RESIZED)
			watch.next_ns = 0;
		r = show(&watch, &err);
		if (r < 0 && (r != -ECANCELED || event != LAUNCH_ENDED))
			give_up(&watch, recording, r, &err);
	}
	end(&watch);
}
