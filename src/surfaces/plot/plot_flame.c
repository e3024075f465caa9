/* SPDX-License-Identifier: Apache-2.0
 *
 * Flame graphs: of the threads that were looked at from outside, boxes as wide as the time on a processor, and of
 * host memory, as wide as what their stacks had allocated; the
 * outermost functions at the top, as on the web page; the largest of a caller is on the left. What Python's
 * import calls of its own is left out: five levels for each module that imports another.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "base/text/format.h"
#include "exports/stacks/fold.h"
#include "surfaces/plot/plot_draw.h"

#define ROW_MOST 20
#define ROW_LEAST 15  /* for a name in it */
#define NARROWEST 0.5 /* pixels of a box that is drawn */
#define READABLE 24   /* pixels of a box with its name in it */
#define BESIDE 3      /* pixels beside a name */
#define PALE 0.35

struct box {
	uint32_t node, parent;
	int64_t total; /* nanoseconds or bytes, with what it called */
};

struct flame_layout {
	struct fold fold;
	int64_t *total;
	double *x; /* of each node, likewise */
	uint32_t *depth;
	struct box *boxes; /* by parent, the largest first; node 0 is none of them */
	size_t n;
	uint32_t deepest, rows; /* rows: that fit */
};

static int by_parent_and_width(const void *a, const void *b)
{
	const struct box *x = a, *y = b;

	return CMP(x->parent, y->parent) ?: CMP(y->total, x->total) ?: CMP(x->node, y->node);
}

static void layout_release(struct flame_layout *l)
{
	fold_release(&l->fold);
	free(l->total);
	free(l->x);
	free(l->depth);
	free(l->boxes);
}

/* A stack's number is higher than that of the one around it, so one pass each way is enough. */
static int make_layout(struct flame_layout *l, const struct plot_scene *scene, bool heap)
{
	int r;

	*l = (struct flame_layout){ 0 };
	r = heap ? fold_make_heap(&l->fold, scene->run)
		 : fold_make_samples(&l->fold, scene->run, scene->sel);
	if (r < 0)
		return r;
	l->n = l->fold.n ? l->fold.n : 1;
	l->total = calloc(l->n, sizeof(*l->total));
	l->x = calloc(l->n, sizeof(*l->x));
	l->depth = calloc(l->n, sizeof(*l->depth));
	l->boxes = calloc(l->n, sizeof(*l->boxes));
	if (!l->total || !l->x || !l->depth || !l->boxes)
		return -ENOMEM;
	for (size_t i = l->n; i-- > 1;) {
		l->total[i] += heap ? l->fold.nodes[i].heap_bytes : l->fold.nodes[i].host_ns;
		l->total[l->fold.nodes[i].parent] += l->total[i];
		l->boxes[i - 1] = (struct box){ (uint32_t)i, l->fold.nodes[i].parent, l->total[i] };
	}
	qsort(l->boxes, l->n - 1, sizeof(*l->boxes), by_parent_and_width);
	for (size_t i = 0; i + 1 < l->n; i++) {
		const struct box *box = &l->boxes[i], *left = i ? box - 1 : NULL;

		l->x[box->node] = left && left->parent == box->parent
					  ? l->x[left->node] + (double)left->total
					  : l->x[box->parent];
	}
	for (size_t i = 1; i < l->n; i++)
		l->depth[i] = l->depth[l->fold.nodes[i].parent] + 1;
	return 0;
}

static plot_color color_of(const struct canvas *c, const char *name)
{
	const struct plot_theme *theme = canvas_theme(c);
	uint32_t hash = 0;

	while (*name)
		hash = hash * 31 + (unsigned char)*name++;
	/* The last is grey, for what has no name. */
	return plot_mix(theme->series[hash % (PLOT_SERIES - 1)], theme->background, PALE);
}

/* Whole, or without the file, or cut. Code of a module has the name of its file. */
static void write_name(struct canvas *c, struct rect box, plot_color on, const char *name)
{
	static const char module[] = "<module> (";
	struct text_style_desc style = { .size = TEXT_SMALL };
	bool of_module = strncmp(name, module, sizeof(module) - 1) == 0;
	char text[512], *end;

	snprintf(text, sizeof(text), "%s", of_module ? name + sizeof(module) - 1 : name);
	end = of_module ? strrchr(text, ':') : strstr(text, " (");
	if (end && end != text &&
	    (of_module || canvas_text_width(c, style, text) > box.w - 2 * BESIDE))
		*end = '\0';
	canvas_fit(c, style, text, box.w - 2 * BESIDE, false, text, sizeof(text));
	canvas_text(c, box.x + BESIDE, box.y + box.h / 2, style, plot_text_on(on), text);
}

static void draw_boxes(struct canvas *c, struct rect area, struct flame_layout *l)
{
	double per_unit = area.w / (double)l->total[0];
	double row = fmin(ROW_MOST, fmax(ROW_LEAST, area.h / (double)l->deepest));

	for (size_t i = 0; i + 1 < l->n; i++) {
		const struct box *of = &l->boxes[i];
		const char *name = interned_key(&l->fold.labels.texts,
						l->fold.nodes[of->node].label);
		struct rect box = { area.x + l->x[of->node] * per_unit,
				    area.y + (l->depth[of->node] - 1) * row,
				    (double)of->total * per_unit, row - 1 };
		plot_color color = color_of(c, name);

		if (box.w < NARROWEST || l->depth[of->node] > l->rows)
			continue;
		/* A gap between neighbours, if there is room for one. */
		canvas_fill(c, (struct rect){ box.x, box.y, box.w > 3 ? box.w - 1 : box.w, box.h },
			    color, 1);
		if (box.w >= READABLE)
			write_name(c, box, color, name);
	}
}

/* Of what is wide enough to be drawn. */
static uint32_t deepest_drawn(const struct flame_layout *l, double width)
{
	uint32_t deepest = 1;

	for (size_t i = 1; i < l->n; i++)
		if ((double)l->total[i] / (double)l->total[0] * width >= NARROWEST &&
		    l->depth[i] > deepest)
			deepest = l->depth[i];
	return deepest;
}

/* Its title, why there is nothing to draw, and words that a picture of it begins with. */
struct flame_words {
	const char *title, *no_data;
	char subtitle[160];
};

static void draw_flame(struct canvas *c, struct rect box, struct flame_layout *l,
		       const struct flame_words *words)
{
	char subtitle[256], cut[96] = "";

	if (l->total[0] <= 0) {
		box = plot_panel(c, box, words->title, NULL);
		plot_no_data(c, box, words->no_data);
		return;
	}
	l->deepest = deepest_drawn(l, box.w);
	l->rows = l->deepest;
	/* The title takes its part of the box. */
	if (l->rows > (box.h - 3 * ROW_MOST) / ROW_LEAST) {
		l->rows = (uint32_t)((box.h - 3 * ROW_MOST) / ROW_LEAST);
		snprintf(cut, sizeof(cut), "; the deepest %u of %u levels are not drawn",
			 l->deepest - l->rows, l->deepest);
	}
	snprintf(subtitle, sizeof(subtitle), "%s%s", words->subtitle, cut);
	box = plot_panel(c, box, words->title, subtitle);
	draw_boxes(c, box, l);
}

int plot_flame(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	struct flame_words words = { .title = "Flame graph of threads" };
	struct flame_layout l;
	uint64_t looks = 0;
	int r = make_layout(&l, scene, false);

	if (r == 0) {
		for (size_t i = 1; i < l.n; i++)
			looks += l.fold.nodes[i].host_n;
		words.no_data =
			scene->run->stack_sample.n
				? "no thread that was looked at has run (in the selected steps)"
				: "no stacks in this run: record it with 'moescope run --stacks'";
		snprintf(words.subtitle, sizeof(words.subtitle), "%s on a processor, %s looks",
			 format_ns((double)l.total[0]).text, format_count((double)looks).text);
		draw_flame(c, box, &l, &words);
	}
	layout_release(&l);
	return r;
}

int plot_heap(struct canvas *c, struct rect box, const struct plot_scene *scene)
{
	struct flame_words words = {
		.title = "Host memory at its peak",
		.no_data = "no samples of allocations in this run: record it with "
			   "'moescope run --heap'"
	};
	struct flame_layout l;
	int r = make_layout(&l, scene, true);

	if (r == 0) {
		snprintf(words.subtitle, sizeof(words.subtitle),
			 "%s by the stacks that allocated it, an estimate",
			 format_bytes((double)l.total[0]).text);
		draw_flame(c, box, &l, &words);
	}
	layout_release(&l);
	return r;
}
