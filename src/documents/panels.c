/* SPDX-License-Identifier: Apache-2.0
 *
 * The panels of the live view and their places on a screen; see panels.h.
 */
#include "documents/panels.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/format.h"
#include "documents/dashboard_lines.h"
#include "subjects/answers/subject.h"
#include "subjects/device/device_now.h"
#include "subjects/kernels/kernels.h"
#include "subjects/ops/ops.h"
#include "subjects/stacks/sampled_stacks.h"
#include "subjects/steps/steps.h"
#include "verdicts/verdicts_page.h"

#define BRIEF_ROWS 100	/* of a table in the overview: more than any screen has lines */
#define WHOLE_ROWS 1000 /* of a table on a screen of its own */
#define BRIEF_LAYERS 64

static void recent_steps(const struct run *run, struct question *question)
{
	dashboard_recent(run, RECENT_STEPS, &question->sel);
}

static void recent_routing(const struct run *run, struct question *question)
{
	dashboard_recent(run, RECENT_ROUTING, &question->sel);
}

/* Launches are dear. */
static void no_launches(const struct run *run, struct question *question)
{
	(void)run;
	question->no_launches = true;
}

/* As in the report. */
static void judged(const struct run *run, struct question *question)
{
	no_launches(run, question);
	question->routed_tokens = true;
}

static void head_brief(const struct scene *scene, const struct panel_view *view, struct page *page)
{
	const struct run_info *info = &scene->run->info;
	char status[64];

	(void)view;
	snprintf(status, sizeof(status), "%s", info->status);
	if (!strcmp(info->status, "exited"))
		snprintf(status, sizeof(status), "exited with %d", info->exit_status);
	else if (!strcmp(info->status, "killed"))
		snprintf(status, sizeof(status), "killed by signal %d (%s)", info->signal,
			 strsignal(info->signal));
	dashboard_head(scene->run, status, page);
}

/* The first line of a whole panel whose older records were let go. */
static void window_line(const struct run *run, struct page *page)
{
	struct format window;

	if (!dashboard_window(run, "of ", &window))
		return;
	page_line(page, 1, "%s", "");
	page_put_in(page, TONE_FAINT, "%s; older records were let go", window.text);
	page_empty_line(page);
}

/* "93%" and the like after a word, where it was sampled. */
static void part(const struct device_now *d, enum now_reading reading, const char *before,
		 struct format (*format)(double), const char *after, struct page *page)
{
	if (d->readings[reading].known)
		page_part(page, "%s%s%s", before, format(d->readings[reading].v).text, after);
}

static struct format whole_number(double value)
{
	struct format text;

	snprintf(text.text, sizeof(text.text), "%.0f", value);
	return text;
}

static void device_line(const struct device_now *d, bool several, size_t others, struct page *page)
{
	bool counters = d->readings[NOW_SM_ACTIVE].known || d->readings[NOW_TENSOR_ACTIVE].known ||
			d->readings[NOW_DRAM].known;
	char label[32];

	if (several)
		snprintf(label, sizeof(label), "%u: GPU %u", d->rank, d->device);
	else
		snprintf(label, sizeof(label), "GPU %u", d->device);
	dashboard_parts(label, page);
	part(d, NOW_USE, "use ", format_pct, "  ", page);
	part(d, NOW_MEMORY_USED, "memory ", format_bytes, "  ", page);
	part(d, NOW_MEMORY_TOTAL, "of ", format_bytes, "  ", page);
	part(d, NOW_POWER, "", whole_number, " W  ", page);
	part(d, NOW_CLOCK_SM, "", whole_number, " MHz  ", page);
	part(d, NOW_TEMPERATURE, "", whole_number, " C  ", page);
	page_part(page, "%zu other process%s", others, others == 1 ? "" : "es");
	dashboard_parts("", page);
	part(d, NOW_SM_ACTIVE, "SM ", format_pct, "  ", page);
	part(d, NOW_TENSOR_ACTIVE, "tensor ", format_pct, "  ", page);
	part(d, NOW_DRAM, "DRAM ", format_pct, "  ", page);
	if (!counters)
		page_part(page, "SM, tensor, DRAM n/a  ");
	part(d, NOW_CLOCK_MEMORY, "memory clock ", whole_number, " MHz  ", page);
	part(d, NOW_POWER_LIMIT, "power limit ", whole_number, " W", page);
	page_parts_end(page, NULL, counters ? NULL : "the run has no samples of hardware counters");
}

static void devices_brief(const struct scene *scene, const struct panel_view *view,
			  struct page *page)
{
	const struct device_states *states = answer_device_states(scene->answers);
	struct devices_now now;
	int r = devices_now_read(scene->run, &now);

	(void)view;
	if (r < 0) {
		page->error = r;
		return;
	}
	for (size_t i = 0; i < now.n; i++) {
		size_t others = 0;

		for (size_t j = 0; j < states->n_others; j++)
			others += states->others[j].device == now.items[i].device;
		device_line(&now.items[i], run_processes(scene->run) > 1, others, page);
	}
	if (!now.n) {
		dashboard_label("GPU", page);
		dashboard_absent(scene_has_device(scene->run)
					 ? "no readings of the devices in this run"
					 : "no device records in this run",
				 page);
	}
	devices_now_release(&now);
}

static void devices_whole(const struct scene *scene, const struct panel_view *view,
			  struct page *page)
{
	devices_brief(scene, view, page);
	window_line(scene->run, page);
	devices_report(scene, page);
}

/* The last steps of the first process, against the longest of them. */
static size_t step_heights(const struct series *series, size_t columns, unsigned int top,
			   unsigned char *ret_heights)
{
	const struct steps *steps = series->of;
	int64_t longest = 1;
	size_t n = 0, first;

	while (n < steps->n && steps->rows[n].rank == steps->rows[0].rank)
		n++;
	first = n > columns ? n - columns : 0;
	for (size_t i = first; i < n; i++)
		if (steps->rows[i].timed && steps->rows[i].duration_ns > longest)
			longest = steps->rows[i].duration_ns;
	for (size_t i = first; i < n; i++) {
		double share = steps->rows[i].timed
				       ? (double)steps->rows[i].duration_ns / (double)longest
				       : 0;

		ret_heights[i - first] = (unsigned char)(share * top + 0.5);
	}
	return n - first;
}

static void steps_brief(const struct scene *scene, const struct panel_view *view, struct page *page)
{
	const struct steps *steps = answer_steps(scene->answers);

	(void)view;
	dashboard_loss(scene->run, page);
	if (steps->n) {
		dashboard_label("Steps", page);
		page_series(page, (struct series){ scene->run, steps, step_heights }, 13);
	}
	dashboard_speed(scene, page);
}

static void experts_brief(const struct scene *scene, const struct panel_view *view,
			  struct page *page)
{
	const struct routing *routing = answer_routing(scene->answers);

	(void)view;
	dashboard_layers(routing, BRIEF_LAYERS, page);
	if (routing->records && !routing->self_check_ok) {
		dashboard_label("Check", page);
		page_put_filling(page, routing->self_check, 12, true);
	}
}

static const struct {
	const char *mark;
	char letter;
	enum tone tone;
} use_marks[MEMORY_USES] = {
	{ "·", '.', TONE_FAINT }, { "█", 'P', TONE_GOOD },    { "▓", 'G', TONE_COOL },
	{ "▒", 'O', TONE_PLAIN }, { "░", 'A', TONE_WARNING }, { "▚", 'C', TONE_COOL },
};

/* What is live now by use, against the most that there was. */
static struct stack live_uses(const struct memory_device *d, struct page *page)
{
	struct stack_part *parts = page_keep(page, MEMORY_USES * sizeof(*parts));
	double most = d->peak_bytes ? (double)d->peak_bytes : 1;

	for (unsigned int i = 0; parts && i < MEMORY_USES; i++) {
		unsigned int use = (i + 1) % MEMORY_USES; /* other comes last */

		parts[i] = (struct stack_part){
			.pct = 100 * (double)d->use_at_end[use] / most,
			.name = d->use_at_end[use] ? memory_use_name(use) : NULL,
			.mark = use_marks[use].mark ? use_marks[use].mark : use_marks[0].mark,
			.letter = use_marks[use].mark ? use_marks[use].letter : use_marks[0].letter,
			.tone = use_marks[use].tone,
		};
	}
	return (struct stack){ parts, parts ? MEMORY_USES : 0 };
}

static void memory_brief(const struct scene *scene, const struct panel_view *view,
			 struct page *page)
{
	const struct memory *memory = answer_memory(scene->answers);

	(void)view;
	if (!memory->n) {
		dashboard_label("Memory", page);
		dashboard_absent("the program reports no allocations", page);
	}
	for (size_t i = 0; i < memory->n; i++) {
		const struct memory_device *d = &memory->devices[i];
		struct stack uses = live_uses(d, page);

		dashboard_parts("Memory", page);
		if (memory->n > 1)
			page_part(page, "rank %u, ", d->rank);
		if (d->device >= 0)
			page_part(page, "GPU %d: ", d->device);
		else
			page_part(page, "host: ");
		page_part(page, "live %s, peak %s", format_bytes((double)d->live_bytes).text,
			  format_bytes((double)d->peak_bytes).text);
		if (d->reserved_bytes.known)
			page_part(page, ", reserved %s", format_bytes(d->reserved_bytes.v).text);
		if (d->headroom_bytes.known)
			page_part(page, ", %s left on the device",
				  format_bytes(d->headroom_bytes.v).text);
		dashboard_label("", page);
		page_stack(page, uses, 13);
		page_legend(page, 11, uses);
	}
}

/* The rows of a section as the panel's view wants them. */
static const struct grid *sorted_rows(const struct section *section, const struct scene *scene,
				      const struct panel_view *view, struct page *page)
{
	struct field_row from = section_from(section, scene);
	struct grid *grid = page_grid(page);
	int r = grid ? grid_fill(grid, section->rows, &from) : 0;

	if (r >= 0 && grid && view->sort)
		r = grid_sort(grid, view->sort, NULL);
	if (r < 0)
		page->error = r;
	return r < 0 ? NULL : grid;
}

static void kernels_brief(const struct scene *scene, const struct panel_view *view,
			  struct page *page)
{
	const struct kernels *kernels = answer_kernels(scene->answers);
	const struct run_gone *gone = &scene->run->gone;
	struct format window;
	const struct grid *grid;

	dashboard_label("Kernels", page);
	if (!kernels->n) {
		dashboard_absent(scene_has_device(scene->run) ? "no kernels in this run"
							      : "no device records in this run",
				 page);
		return;
	}
	page_put(page, "%s of device time in %s kernels%s, by %s",
		 format_ns((double)(kernels->time_ns + gone->durations_ns[RECORD_KERNEL])).text,
		 format_count((double)(kernels->count + gone->rows[RECORD_KERNEL])).text,
		 dashboard_window(scene->run, "; ", &window) ? window.text : "", view->sort);
	grid = sorted_rows(&section_kernels, scene, view, page);
	if (grid)
		page_table(page, grid, BRIEF_ROWS, NULL);
}

static void ops_brief(const struct scene *scene, const struct panel_view *view, struct page *page)
{
	const struct ops *ops = answer_ops(scene->answers);
	const struct grid *grid;
	struct format window;

	dashboard_label("Ops", page);
	if (!ops->n) {
		dashboard_absent("the program reports no operations", page);
		return;
	}
	dashboard_window(scene->run, " of ", &window);
	page_put(page, "%zu operations%s, by %s", ops->n, window.text, view->sort);
	grid = sorted_rows(&section_ops, scene, view, page);
	if (grid)
		page_table(page, grid, BRIEF_ROWS, NULL);
}

static void verdict_lines(const struct scene *scene, const struct verdicts *verdicts,
			  struct page *page)
{
	struct format window;
	bool labelled = dashboard_window(scene->run, "of ", &window);

	if (labelled) {
		dashboard_label("Verdicts", page);
		page_put_in(page, TONE_FAINT, "%s", window.text);
	}
	for (size_t i = 0; i < verdicts->n; i++) {
		const struct verdict *v = &verdicts->items[i];

		dashboard_label(i || labelled ? "" : "Verdicts", page);
		page_put_in(page, verdict_tone(v), "%-8s", severity_name(v->severity));
		page_put_in(page, TONE_PLAIN, " ");
		page_put_filling(page, v->title, 21, false);
	}
	if (!verdicts->n) {
		dashboard_label(labelled ? "" : "Verdicts", page);
		page_put(page, "none: too little was recorded to judge");
	}
}

static void with_verdicts(const struct scene *scene, struct page *page,
			  void (*show)(const struct scene *scene, const struct verdicts *verdicts,
				       struct page *page))
{
	struct verdicts verdicts;
	int r = verdicts_analyze(scene->run, scene->answers, &verdicts);

	if (r < 0) {
		page->error = r;
		return;
	}
	show(scene, &verdicts, page);
	verdicts_release(&verdicts);
}

static void verdicts_brief(const struct scene *scene, const struct panel_view *view,
			   struct page *page)
{
	(void)view;
	with_verdicts(scene, page, verdict_lines);
}

static void verdicts_whole(const struct scene *scene, const struct panel_view *view,
			   struct page *page)
{
	(void)view;
	window_line(scene->run, page);
	with_verdicts(scene, page, verdicts_page);
}

static void cost_brief(const struct scene *scene, const struct panel_view *view, struct page *page)
{
	(void)view;
	dashboard_cost(scene, NULL, page);
}

static void cost_whole(const struct scene *scene, const struct panel_view *view, struct page *page)
{
	(void)view;
	window_line(scene->run, page);
	overhead_report(scene, page);
	trouble_page(scene, page);
}

static const char *const kernel_sorts[] = { "time_ns", "count", "mean_ns", "max_ns", "name", NULL };
static const char *const op_sorts[] = { "self_cpu_ns", "cpu_ns", "count", "name", NULL };
static const struct subject *const nothing[] = { NULL };
static const struct subject *const steps_reads[] = { &subject_steps, NULL };
static const struct subject *const routing_reads[] = { &subject_routing, NULL };
static const struct subject *const memory_reads[] = { &subject_memory, NULL };
static const struct subject *const kernels_reads[] = { &subject_kernels, &subject_launches, NULL };
static const struct subject *const ops_reads[] = { &subject_ops, NULL };
static const struct subject *const cost_reads[] = { &subject_overhead, NULL };
static const struct subject *const overhead_reads[] = { &subject_overhead, &subject_coverage,
							NULL };
static const struct subject *const state_reads[] = { &subject_device_states, NULL };
static const struct subject *const device_reads[] = { &subject_device_states, &subject_timeline,
						      &subject_coverage, NULL };

const struct panel panels[PANELS] = {
	[PANEL_HEAD] = { .name = "head", .least = 3, .brief = { NULL, nothing, NULL, head_brief } },
	{ .name = "devices",
	  .least = 1,
	  .brief = { NULL, state_reads, NULL, devices_brief },
	  .whole = { NULL, device_reads, NULL, devices_whole } },
	{ .name = "steps",
	  .least = 5,
	  .brief = { NULL, steps_reads, recent_steps, steps_brief },
	  .whole = { &section_steps } },
	{ .name = "experts",
	  .by_layer = true,
	  .least = 3,
	  .brief = { NULL, routing_reads, recent_routing, experts_brief },
	  .whole = { &section_routing } },
	{ .name = "memory",
	  .least = 2,
	  .brief = { NULL, memory_reads, NULL, memory_brief },
	  .whole = { &section_memory } },
	{ .name = "kernels",
	  .sorts = kernel_sorts,
	  .least = 4,
	  .right = true,
	  .brief = { NULL, kernels_reads, no_launches, kernels_brief },
	  .whole = { &section_kernels } },
	{ .name = "verdicts",
	  .least = 2,
	  .right = true,
	  .brief = { NULL, subjects_all, judged, verdicts_brief },
	  .whole = { NULL, subjects_all, judged, verdicts_whole } },
	{ .name = "cost",
	  .least = 2,
	  .right = true,
	  .brief = { NULL, cost_reads, NULL, cost_brief },
	  .whole = { NULL, overhead_reads, NULL, cost_whole } },
	{ .name = "ops",
	  .sorts = op_sorts,
	  .least = 5,
	  .right = true,
	  .brief = { NULL, ops_reads, NULL, ops_brief },
	  .whole = { &section_ops } },
};

struct asked panel_asked(const struct panel *panel, const struct panel_face *face,
			 const struct run *run, const struct question *question)
{
	const struct section *section = face->section;
	struct asked asked = { *question, { panel->name, section ? section->reads : face->reads } };

	if (!panel->by_layer)
		asked.question.sel.layer = -1;
	if (section) {
		asked.question.router_time = section->router_time;
		asked.question.routed_tokens = section->routed_tokens;
	}
	if (face->ask)
		face->ask(run, &asked.question);
	return asked;
}

void panel_page(const struct panel_face *face, const struct scene *scene,
		const struct panel_view *view, struct page *page)
{
	struct scene limited = *scene;
	const struct grid *grid;

	if (!face->section) {
		face->page(scene, view, page);
		return;
	}
	limited.limit = WHOLE_ROWS;
	window_line(scene->run, page);
	grid = sorted_rows(face->section, scene, view, page);
	if (grid)
		face->section->page(&limited, grid, page);
}

int panels_last_layer(const struct run *run)
{
	int last = -1;

	for (size_t i = 0; i < run->routing.n; i++)
		last = run->routing.layer[i] > last ? run->routing.layer[i] : last;
	return last;
}

int panel_columns(const struct panel *panel, int columns)
{
	bool two = columns >= PANELS_TWO_COLUMNS;

	return two && panel != &panels[PANEL_HEAD] ? (columns - PANELS_GAP) / 2 : columns;
}

/* side < 0: there is only one. */
static bool on_side(size_t panel, int side)
{
	return panel != PANEL_HEAD && (side < 0 || panels[panel].right == (side == 1));
}

static void place_side(const int *has, int side, int first_line, int lines,
		       struct panel_place *places)
{
	int left = lines - first_line, shown = 0, gap;
	bool given = true;

	for (size_t i = 0; i < PANELS; i++) {
		int least = panels[i].least < has[i] ? panels[i].least : has[i];

		if (!on_side(i, side) || least > left)
			continue;
		places[i].lines = least;
		left -= least;
	}
	while (given && left > 0) {
		given = false;
		for (size_t i = 0; i < PANELS && left > 0; i++) {
			if (!on_side(i, side) || places[i].lines >= has[i] || !places[i].lines)
				continue;
			places[i].lines++;
			left--;
			given = true;
		}
	}
	for (size_t i = 0; i < PANELS; i++)
		shown += on_side(i, side) && places[i].lines;
	/* Empty lines between all of them, or none. */
	gap = left >= shown - 1;
	for (size_t i = 0; i < PANELS; i++) {
		if (!on_side(i, side) || !places[i].lines)
			continue;
		places[i].line = first_line;
		first_line += places[i].lines + gap;
	}
}

void panels_place(const int *has, int columns, int lines, struct panel_place *ret_places)
{
	int head = has[PANEL_HEAD] < lines ? has[PANEL_HEAD] : lines;

	memset(ret_places, 0, PANELS * sizeof(*ret_places));
	ret_places[PANEL_HEAD].lines = head;
	for (size_t i = 0; i < PANELS; i++) {
		ret_places[i].columns = panel_columns(&panels[i], columns);
		if (panels[i].right && ret_places[i].columns < columns)
			ret_places[i].column = columns - ret_places[i].columns;
	}
	if (columns < PANELS_TWO_COLUMNS) {
		place_side(has, -1, head, lines, ret_places);
		return;
	}
	place_side(has, 0, head, lines, ret_places);
	place_side(has, 1, head, lines, ret_places);
}
