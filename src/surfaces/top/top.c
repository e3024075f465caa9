/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a live view; see top.h.
 *
 * Invariant: a panel's text belongs to the run and the choices of the moment when it was made; `stale`
 * says that either has changed since.
 */
#include "base/clock.h"
#include "surfaces/top/top.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "documents/panels.h"
#include "subjects/stacks/sampled_stacks.h"
#include "surfaces/text/page_text.h"
#include "surfaces/top/pace.h"
#include "surfaces/views/scene.h"

/* Of a core: for making panels, and for them and reading what is new together. Reading comes first: a
 * run that grows fast leaves less for its panels, but never nothing. */
#define PANELS_SHARE 0.004
#define WHOLE_SHARE 0.007
#define LEAST_SHARE 0.001
#define READS_MEANT 16 /* looks that the mean cost of reading is of */
#define NARROWEST 80
/* Of tables; panels need about as much again while they are made. */
#define WINDOW_BYTES (24 << 20)
#define ALL_RANKS SIZE_MAX

_Static_assert(PANELS + 1 <= PACE_MOST, "pace() has room for all");

/* A panel as it was last made. The last one of a view is the panel that has the screen for itself. */
struct shown {
	struct lines lines;
	int64_t made_ns, cost_ns, period_ns;
	bool stale;
	bool changed; /* by whoever looks: made at once */
};

struct top {
	struct top_options options;
	struct run *run;
	struct run *one; /* the run as its chosen process saw it; NULL: all of them */
	size_t shard;	 /* that was chosen, or ALL_RANKS */
	struct shown shown[PANELS + 1];
	size_t sorts[PANELS]; /* index into the sorts of the panel */
	int layer;	      /* -1: all */
	size_t opened;	      /* panel with a screen of its own; PANEL_HEAD: the overview */
	int scroll;
	bool paused, help;
	char status[16];
	int64_t looked_ns; /* last update; 0: none */
	double read_ns;	   /* mean CPU time of reading what is new */
};

static void change_all(struct top *top)
{
	for (size_t i = 0; i <= PANELS; i++)
		top->shown[i].changed = true;
}

static int load(struct top *top, const char *path, struct run **ret_run, struct err *err)
{
	struct run_want want = section_want(&section_top, &top->options.view);

	want.window_bytes = WINDOW_BYTES;
	return run_load(path, &want, ret_run, err);
}

int top_open(const char *path, const struct top_options *options, struct top **ret_top,
	     struct err *err)
{
	struct top *top = calloc(1, sizeof(*top));
	int r;

	if (!top)
		return err_set(err, -ENOMEM, "no memory for the live view.");
	top->options = *options;
	top->shard = ALL_RANKS;
	top->layer = -1;
	r = load(top, path, &top->run, err);
	if (r < 0) {
		free(top);
		return r;
	}
	change_all(top);
	*ret_top = top;
	return 0;
}

void top_free(struct top *top)
{
	if (!top)
		return;
	for (size_t i = 0; i <= PANELS; i++)
		lines_release(&top->shown[i].lines);
	run_free(top->one);
	run_free(top->run);
	free(top);
}

bool top_ended(const struct top *top)
{
	for (size_t s = 0; s < top->run->n_shards; s++)
		if (top->run->shards[s].state == SHARD_LIVE)
			return false;
	return strcmp(top->run->info.status, "running") != 0;
}

/* The panel that `shown` stands for, and its face. */
static const struct panel *panel_of(const struct top *top, size_t shown,
				    const struct panel_face **ret_face)
{
	const struct panel *panel = &panels[shown < PANELS ? shown : top->opened];

	*ret_face = shown < PANELS ? &panel->brief : &panel->whole;
	return panel;
}

static const char *sort_of(const struct top *top, const struct panel *panel)
{
	return panel->sorts ? panel->sorts[top->sorts[panel - panels]] : NULL;
}

static int print_panel(struct top *top, const struct panel *panel, const struct panel_face *face,
		       const struct run *run, const struct question *question,
		       const struct answers *answers, FILE *out)
{
	const struct view_options *options = &top->options.view;
	struct panel_view view = { sort_of(top, panel) };
	struct scene scene = scene_of(run, options, answers);
	int columns = face == &panel->brief ? panel_columns(panel, options->width) : options->width;
	struct text_layout layout = { .width = columns > NARROWEST ? columns : NARROWEST,
				      .color = options->color,
				      .utf8 = options->utf8 };
	struct page page = { 0 };
	int r;

	scene.question = *question;
	panel_page(face, &scene, &view, &page);
	r = page_print(&page, &layout, out);
	page_release(&page);
	return r;
}

static int make(struct top *top, size_t shown, struct err *err)
{
	const struct panel_face *face;
	const struct panel *panel = panel_of(top, shown, &face);
	const struct run *run = top->one && shown != PANEL_HEAD ? top->one : top->run;
	struct question question = top->options.view.question;
	struct answers answers;
	struct asked asked;
	struct lines lines;
	char *text = NULL;
	size_t size;
	FILE *out;
	int r;

	question.sel.layer = top->layer;
	asked = panel_asked(panel, face, run, &question);
	r = scene_compute(run, &top->options.view, &asked, 1, &answers, err);
	if (r < 0)
		return r;
	out = open_memstream(&text, &size);
	r = out ? print_panel(top, panel, face, run, &asked.question, &answers, out) : -ENOMEM;
	answers_release(&answers);
	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	if (r == 0)
		r = lines_take(&lines, text);
	else
		free(text);
	if (r < 0)
		return err_sys(err, r, "cannot make the panel '%s'", panel->name);
	lines_release(&top->shown[shown].lines);
	top->shown[shown].lines = lines;
	return 0;
}

/* Panels that are on the screen. */
static bool is_shown(const struct top *top, size_t shown)
{
	if (top->opened != PANEL_HEAD)
		return shown == PANEL_HEAD || shown == PANELS;
	return shown < PANELS;
}

/* What reading leaves for panels. */
static double panels_share(const struct top *top)
{
	double left = WHOLE_SHARE - top->read_ns / (double)top->options.interval_ns;

	return left > PANELS_SHARE ? PANELS_SHARE : left < LEAST_SHARE ? LEAST_SHARE : left;
}

static int make_due(struct top *top, int64_t now_ns, struct err *err)
{
	int64_t costs[PANELS + 1], periods[PANELS + 1];
	size_t which[PANELS + 1], n = 0;
	int r = 0;

	for (size_t i = 0; i <= PANELS; i++) {
		if (!is_shown(top, i))
			continue;
		costs[n] = top->shown[i].cost_ns;
		which[n++] = i;
	}
	pace(costs, n, top->options.interval_ns, panels_share(top), periods);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct shown *s = &top->shown[which[i]];
		/* A timer that is a little early is still in time. */
		bool due = now_ns - s->made_ns >= periods[i] - top->options.interval_ns / 4;
		int64_t before;

		if (!s->changed && !(s->stale && due))
			continue;
		before = clock_process_cpu_ns();
		r = make(top, which[i], err);
		s->cost_ns = clock_process_cpu_ns() - before;
		s->made_ns = now_ns;
		s->stale = s->changed = false;
	}
	return r;
}

/* A run that is gone says so in its own words. */
static int refresh(struct run *run, uint64_t *gained, struct err *err)
{
	uint64_t n = 0;
	int r = run_refresh(run, &n, err);

	*gained += n;
	if (access(run->info.path, F_OK) < 0 && errno == ENOENT)
		return err_set(err, -ENOENT, "the run %s is gone: its files were removed.",
			       run->info.path);
	return r;
}

int top_update(struct top *top, int64_t now_ns, struct err *err)
{
	int64_t before = clock_process_cpu_ns();
	uint64_t gained = 0;
	int r = 0;

	if (!top->paused) {
		r = refresh(top->run, &gained, err);
		if (r == 0 && top->one)
			r = refresh(top->one, &gained, err);
		top->read_ns += ((double)(clock_process_cpu_ns() - before) - top->read_ns) /
				READS_MEANT;
	}
	if (r < 0)
		return r;
	if (strncmp(top->status, top->run->info.status, sizeof(top->status) - 1) != 0) {
		snprintf(top->status, sizeof(top->status), "%s", top->run->info.status);
		gained++;
	}
	for (size_t i = 0; gained && i <= PANELS; i++)
		top->shown[i].stale = true;
	top->looked_ns = now_ns;
	return make_due(top, now_ns, err);
}

void top_resize(struct top *top, int columns, int rows)
{
	if (top->options.view.width != columns)
		change_all(top);
	top->options.view.width = columns;
	top->options.rows = rows;
}

static void open_panel(struct top *top, size_t panel)
{
	top->opened = panel;
	top->scroll = 0;
	top->shown[PANELS].changed = panel != PANEL_HEAD;
	/* Panels that were hidden have aged. */
	for (size_t i = 0; panel == PANEL_HEAD && i < PANELS; i++)
		top->shown[i].changed |= top->shown[i].stale;
}

static void place(const struct top *top, struct panel_place *places)
{
	int has[PANELS];

	for (size_t i = 0; i < PANELS; i++)
		has[i] = top->shown[i].lines.n;
	panels_place(has, top->options.view.width, top->options.rows - 1, places);
}

/* The panel that the key for sorting is about: the opened one, or the first with a table. */
static size_t sorted_panel(const struct top *top)
{
	struct panel_place places[PANELS];

	place(top, places);
	for (size_t i = 0; i < PANELS; i++)
		if (panels[i].sorts &&
		    (top->opened == i || (top->opened == PANEL_HEAD && places[i].lines > 1)))
			return i;
	return PANELS;
}

static void next_sort(struct top *top)
{
	size_t panel = sorted_panel(top);

	if (panel == PANELS)
		return;
	if (!panels[panel].sorts[++top->sorts[panel]])
		top->sorts[panel] = 0;
	top->shown[panel].changed = true;
	top->shown[PANELS].changed = true;
}

/* All of them, the first, … the last, and all again; or the other way round. */
static int turn(int now, int last, int by)
{
	int next = now + by;

	return next > last ? -1 : next < -1 ? last : next;
}

static void next_layer(struct top *top, int by)
{
	top->layer = turn(top->layer, panels_last_layer(top->run), by);
	for (size_t i = 0; i < PANELS; i++)
		top->shown[i].changed |= panels[i].by_layer;
	top->shown[PANELS].changed = true;
}

/* A process whose shard cannot be read is passed over in silence: the whole run says why. */
static void next_rank(struct top *top, int by)
{
	int last = (int)top->run->n_shards - 1;
	int now = top->shard == ALL_RANKS ? -1 : (int)top->shard;

	run_free(top->one);
	top->one = NULL;
	do
		now = turn(now, last, by);
	while (now >= 0 && (!shard_is_process(top->run, (size_t)now) ||
			    load(top, top->run->shards[now].path, &top->one, NULL) < 0));
	top->shard = now < 0 ? ALL_RANKS : (size_t)now;
	change_all(top);
}

static int room(const struct top *top)
{
	int lines = top->options.rows - top->shown[PANEL_HEAD].lines.n - 1;

	return lines > 1 ? lines : 1;
}

static void scroll(struct top *top, int by)
{
	int most = top->shown[PANELS].lines.n - room(top);

	top->scroll += by;
	if (top->scroll > most)
		top->scroll = most;
	if (top->scroll < 0)
		top->scroll = 0;
}

/* by: given to the function. */
static const struct {
	int key;
	void (*act)(struct top *top, int by);
	int by;
} keys[] = {
	{ 'l', next_layer, 1 },
	{ 'L', next_layer, -1 },
	{ 'r', next_rank, 1 },
	{ 'R', next_rank, -1 },
	{ 'j', scroll, 1 },
	{ 'k', scroll, -1 },
	{ TOP_KEY_DOWN, scroll, 1 },
	{ TOP_KEY_UP, scroll, -1 },
	{ TOP_KEY_HOME, scroll, -(1 << 20) },
	{ TOP_KEY_END, scroll, 1 << 20 },
};

bool top_key(struct top *top, int key)
{
	bool help = top->help;

	if (key == 'q' || key == 'Q')
		return false;
	top->help = (key == '?' || key == 'h') && !help;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i].key == key)
			keys[i].act(top, keys[i].by);
	if (key == ' ' || key == 'p')
		top->paused = !top->paused;
	else if (key == 's')
		next_sort(top);
	else if (key == TOP_KEY_PAGE_DOWN || key == TOP_KEY_PAGE_UP)
		scroll(top, key == TOP_KEY_PAGE_DOWN ? room(top) : -room(top));
	else if (key >= '0' && key < '0' + PANELS)
		open_panel(top, (size_t)(key - '0'));
	else if (key == TOP_KEY_TAB)
		open_panel(top, (top->opened + 1) % PANELS);
	else if (key == TOP_KEY_BACK_TAB)
		open_panel(top, (top->opened + PANELS - 1) % PANELS);
	else if (key == TOP_KEY_ESCAPE && !help)
		open_panel(top, PANEL_HEAD);
	return true;
}

/* Ends a line of the frame, without the spaces at its end. */
static void end_line(struct buf *frame)
{
	while (frame->size && frame->data[frame->size - 1] == ' ')
		frame->size--;
	buf_append(frame, "\n", 1);
}

static void put_line(struct buf *frame, const struct lines *lines, int line, int columns)
{
	const char *text = "";
	size_t size = line >= 0 && line < lines->n ? lines_at(lines, line, &text) : 0;

	frame_put(frame, text, size, columns);
}

static void put_overview(const struct top *top, struct buf *frame, int lines)
{
	struct panel_place places[PANELS];

	place(top, places);
	for (int y = 0; y < lines; y++) {
		int at = 0;

		/* Panels of the left side come before those of the right in the list. */
		for (size_t i = 0; i < PANELS; i++) {
			const struct panel_place *p = &places[i];

			if (y < p->line || y >= p->line + p->lines)
				continue;
			frame_put(frame, "", 0, p->column - at);
			put_line(frame, &top->shown[i].lines, y - p->line, p->columns);
			at = p->column + p->columns;
		}
		end_line(frame);
	}
}

static void put_opened(const struct top *top, struct buf *frame, int lines)
{
	const struct lines *head = &top->shown[PANEL_HEAD].lines;

	for (int y = 0; y < lines; y++) {
		bool above = y < head->n;

		put_line(frame, above ? head : &top->shown[PANELS].lines,
			 above ? y : y - head->n + top->scroll, top->options.view.width);
		end_line(frame);
	}
}

static const char help_text[] =
	"q          quit                        space, p   pause, go on\n"
	"s          sort by the next column     l, L       next, previous layer, or all\n"
	"r, R       next, previous rank, or all ?, h       this page, or back\n"
	"tab, 1-8   a panel with the whole screen; esc, 0 or tab after the last: all of them\n"
	"arrows, j, k, page up, page down, home, end: scroll such a panel\n"
	"\n"
	"Times and routing in the overview are of the last steps, everything else of the whole run, or\n"
	"of a long one as far back as the panel says: older records are let go.\n"
	"A panel that takes long to compute is made less often; the last line then says how old it is.\n";

static void put_help(const struct top *top, struct buf *frame, int lines)
{
	const char *at = help_text;

	for (int y = 0; y < lines; y++) {
		size_t size = strcspn(at, "\n");

		if (y > 0) {
			frame_put(frame, "", 0, 1);
			frame_put(frame, at, size, top->options.view.width - 1);
			at += size + (at[size] == '\n');
		}
		end_line(frame);
	}
}

static void put_age(const struct top *top, struct buf *line)
{
	for (size_t i = 0; i <= PANELS; i++) {
		const struct shown *s = &top->shown[i];
		int64_t age_ns = top->looked_ns - s->made_ns;
		const struct panel_face *face;

		if (is_shown(top, i) && s->stale && age_ns >= 2 * top->options.interval_ns)
			buf_printf(line, "  %s: %.0f s old", panel_of(top, i, &face)->name,
				   (double)age_ns / 1e9);
	}
}

/* The last line: what can be done, and what has been chosen. */
static void put_footer(const struct top *top, struct buf *frame)
{
	const struct top_options *o = &top->options;
	size_t sorted = sorted_panel(top);
	struct buf line = { 0 };

	buf_printf(&line, " ");
	if (o->hint)
		buf_printf(&line, "%s ", o->hint);
	buf_printf(&line, "q quit  ? help  %s", top->paused ? "PAUSED (space)" : "space pause");
	if (top->opened != PANEL_HEAD)
		buf_printf(&line, "  panel %s", panels[top->opened].name);
	else
		buf_printf(&line, "  tab panel");
	if (sorted < PANELS)
		buf_printf(&line, "  s sort %s", sort_of(top, &panels[sorted]));
	if (top->layer >= 0)
		buf_printf(&line, "  l layer %d", top->layer);
	else
		buf_printf(&line, "  l layer all");
	if (top->shard != ALL_RANKS)
		buf_printf(&line, "  r rank %u", top->run->shards[top->shard].rank);
	else if (run_processes(top->run) > 1)
		buf_printf(&line, "  r rank all");
	put_age(top, &line);
	if (!line.failed)
		frame_put(frame, line.data, line.size, o->view.width);
	frame->failed |= line.failed;
	buf_release(&line);
	end_line(frame);
}

/* Makes lines of what was put into the frame. */
static int finish(struct buf *frame, struct lines *ret_frame)
{
	char *text = NULL;

	buf_append(frame, "", 1);
	if (!frame->failed) {
		text = frame->data;
		frame->data = NULL;
	}
	buf_release(frame);
	*ret_frame = (struct lines){ 0 };
	return text ? lines_take(ret_frame, text) : -ENOMEM;
}

int top_frame(const struct top *top, struct lines *ret_frame)
{
	int lines = top->options.rows - 1;
	struct buf frame = { 0 };

	if (top->help)
		put_help(top, &frame, lines);
	else if (top->opened != PANEL_HEAD)
		put_opened(top, &frame, lines);
	else
		put_overview(top, &frame, lines);
	put_footer(top, &frame);
	return finish(&frame, ret_frame);
}

int top_waiting(const char *sentence, int columns, int rows, struct lines *ret_frame)
{
	struct buf frame = { 0 };

	for (int y = 0; y < rows; y++) {
		const char *text = y == 1 ? sentence : y == rows - 1 ? "q quit" : "";

		frame_put(&frame, "", 0, 1);
		frame_put(&frame, text, strlen(text), columns - 1);
		end_line(&frame);
	}
	return finish(&frame, ret_frame);
}
