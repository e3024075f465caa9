/* SPDX-License-Identifier: Apache-2.0
 *
 * The plots of a batch: figures against each numeric parameter, efficiency, and the Pareto front.
 * This decides which configurations go into which series of which panel; surfaces/plot/plot_lines.c
 * draws. See summary.h.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lab/summary/summary_inside.h"
#include "surfaces/plot/plot_lines.h"

#define FACETS_MAX 4
#define PANELS_MAX 8
#define LABELLED_MAX 40 /* points of the scatter that are named */

enum kind { PLOT_SCALING, PLOT_EFFICIENCY, PLOT_PARETO };

/* Configurations with a point in the scatter plot. */
static bool is_in_scatter(const struct batch *batch, size_t i)
{
	const struct batch_configuration *c = &batch->configurations[i];

	return c->figures[batch->latency].mean.known && c->figures[BATCH_TOKENS_PER_S].mean.known;
}

static size_t scatter_points(const struct batch *batch)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->n_configurations; i++)
		n += is_in_scatter(batch, i);
	return n;
}

/* The i-th plot; axis: for the first two kinds. */
static bool find_plot(const struct batch *batch, size_t i, enum kind *ret_kind, size_t *ret_axis)
{
	if (!batch->counts[BATCH_SUCCESS])
		return false;
	for (int kind = PLOT_SCALING; kind <= PLOT_EFFICIENCY; kind++) {
		for (size_t a = 0; a < batch->n_axes; a++) {
			if (kind == PLOT_EFFICIENCY && !batch->axes[a].resource)
				continue;
			if (i-- == 0) {
				*ret_kind = (enum kind)kind;
				*ret_axis = a;
				return true;
			}
		}
	}
	*ret_kind = PLOT_PARETO;
	*ret_axis = 0;
	return i == 0 && scatter_points(batch) > 1;
}

static const char *parameter_of(const struct batch *batch, size_t axis)
{
	return batch->parameters[batch->axes[axis].parameter];
}

bool batch_plot_name(const struct batch *batch, size_t i, char *out, size_t size)
{
	enum kind kind;
	size_t axis;

	if (!find_plot(batch, i, &kind, &axis))
		return false;
	if (kind == PLOT_PARETO) {
		snprintf(out, size, "pareto");
		return true;
	}
	snprintf(out, size, "%s_%.64s", kind == PLOT_SCALING ? "scaling" : "efficiency",
		 parameter_of(batch, axis));
	/* Parameter names come from files. */
	for (char *c = out; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *c))
			*c = '_';
	return true;
}

void batch_plot_title(const struct batch *batch, size_t i, char *out, size_t size)
{
	enum kind kind;
	size_t axis;

	out[0] = '\0';
	if (!find_plot(batch, i, &kind, &axis))
		return;
	if (kind == PLOT_PARETO)
		snprintf(out, size, "Throughput against latency");
	else
		snprintf(out, size, "%s against %s",
			 kind == PLOT_SCALING ? "Throughput and latency" : "Scaling efficiency",
			 parameter_of(batch, axis));
}

/* Everything on a page. */
struct sheet {
	const struct batch *batch;
	struct lines_page page;
	struct lines_panel panels[PANELS_MAX];
	char headings[PANELS_MAX][64], title[512], subtitle[1024];
	struct lines_series *series; /* of all panels, then their points */
	struct lines_point *points;
	size_t n_series, n_points;
	char **names, **facets, **labels;
	size_t n_names, n_facets, n_labels;
};

static void sheet_release(struct sheet *s)
{
	char **lists[] = { s->names, s->facets, s->labels };
	size_t lengths[] = { s->n_names, s->n_facets, s->n_labels };

	for (size_t l = 0; l < 3; l++) {
		for (size_t i = 0; i < lengths[l]; i++)
			free(lists[l][i]);
		free(lists[l]);
	}
	free(s->series);
	free(s->points);
}

static int sheet_init(struct sheet *s, const struct batch *batch)
{
	size_t n = batch->n_configurations;

	*s = (struct sheet){ .batch = batch };
	s->series = calloc(PANELS_MAX * (n + 2), sizeof(*s->series));
	s->points = calloc(PANELS_MAX * n, sizeof(*s->points));
	s->names = calloc(n + 2, sizeof(*s->names));
	s->facets = calloc(n + 2, sizeof(*s->facets));
	s->labels = calloc(n + 2, sizeof(*s->labels));
	s->page = (struct lines_page){ .title = s->title,
				       .subtitle = s->subtitle,
				       .footer = batch->name,
				       .panels = s->panels };
	if (s->series && s->points && s->names && s->facets && s->labels)
		return 0;
	sheet_release(s);
	return -ENOMEM;
}

/* The index of a text in the list, adding it if needed. SIZE_MAX: no memory. */
static size_t place_in(char **list, size_t *n, const char *text)
{
	for (size_t i = 0; i < *n; i++)
		if (!strcmp(list[i], text))
			return i;
	list[*n] = strdup(text);
	return list[*n] ? (*n)++ : SIZE_MAX;
}

static struct lines_point point_of(const struct batch *batch, const struct batch_axis *axis,
				   size_t index, enum batch_metric_id metric)
{
	const struct batch_configuration *c = &batch->configurations[index];
	const struct batch_figure *f = &c->figures[metric];
	double by = batch_metrics[metric].divisor;

	return (struct lines_point){
		.x = batch_number(c->values[axis->parameter]),
		.y = f->mean.known ? f->mean.v / by : NAN,
		.low = f->low.known ? f->low.v / by : NAN,
		.high = f->high.known ? f->high.v / by : NAN,
	};
}

/* Where each line of an axis goes. */
struct plan {
	size_t series_by; /* a parameter; SIZE_MAX: a line is a series by its label */
	size_t *name, *facet;
	size_t lines_left_out;
};

static void value_text(const struct batch *batch, size_t p, size_t index, char *out, size_t size)
{
	snprintf(out, size, "%s %s", batch->parameters[p], batch->configurations[index].values[p]);
}

static size_t distinct(const struct batch *batch, size_t parameter)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->n_configurations; i++) {
		bool seen = false;

		for (size_t j = 0; !seen && j < i; j++)
			seen = !strcmp(batch->configurations[i].values[parameter],
				       batch->configurations[j].values[parameter]);
		n += !seen;
	}
	return n;
}

/* More lines than colours: one parameter makes the series, the others small multiples. */
static size_t choose_series(const struct batch *batch, const struct batch_axis *axis)
{
	size_t chosen = SIZE_MAX, most = 0;

	if (axis->n <= LINES_SERIES || batch->n_parameters < 3)
		return SIZE_MAX;
	for (size_t p = 0; p < batch->n_parameters; p++) {
		size_t n = distinct(batch, p);

		if (p == axis->parameter || n > LINES_SERIES || n <= most)
			continue;
		most = n;
		chosen = p;
	}
	return chosen;
}

/* The values of a line's other parameters. */
static int facet_text(const struct batch *batch, const struct batch_axis *axis, size_t series_by,
		      size_t index, struct buf *text)
{
	text->size = 0;
	buf_append(text, "", 1);
	text->size = 0;
	for (size_t p = 0; p < batch->n_parameters; p++) {
		char value[256];

		if (p == axis->parameter || p == series_by || series_by == SIZE_MAX)
			continue;
		value_text(batch, p, index, value, sizeof(value));
		buf_printf(text, "%s%s", text->size ? ", " : "", value);
	}
	return text->failed ? -ENOMEM : 0;
}

static int make_plan(struct sheet *s, const struct batch_axis *axis, struct plan *plan)
{
	const struct batch *batch = s->batch;
	struct buf text = { 0 };
	int r = 0;

	plan->series_by = choose_series(batch, axis);
	plan->name = calloc(axis->n, sizeof(size_t));
	plan->facet = calloc(axis->n, sizeof(size_t));
	if (!plan->name || !plan->facet)
		return -ENOMEM;
	for (size_t l = 0; r == 0 && l < axis->n; l++) {
		char value[256];

		if (plan->series_by != SIZE_MAX)
			value_text(batch, plan->series_by, axis->lines[l].at[0], value,
				   sizeof(value));
		plan->name[l] = place_in(s->names, &s->n_names,
					 plan->series_by == SIZE_MAX ? axis->lines[l].label
								     : value);
		r = facet_text(batch, axis, plan->series_by, axis->lines[l].at[0], &text);
		if (r == 0)
			plan->facet[l] = place_in(s->facets, &s->n_facets, text.data);
		if (r == 0 && (plan->name[l] == SIZE_MAX || plan->facet[l] == SIZE_MAX))
			r = -ENOMEM;
		plan->lines_left_out += r == 0 && (plan->name[l] >= LINES_SERIES ||
						   plan->facet[l] >= FACETS_MAX);
	}
	buf_release(&text);
	return r;
}

/* efficiency: SIZE_MAX, or the axis whose efficiency is the figure. */
static void add_panel(struct sheet *s, const struct batch_axis *axis, const struct plan *plan,
		      size_t facet, enum batch_metric_id metric, size_t efficiency)
{
	struct lines_panel *panel = &s->panels[s->page.n];
	char *heading = s->headings[s->page.n++];

	batch_metric_heading(metric, heading, sizeof(s->headings[0]));
	if (efficiency != SIZE_MAX)
		snprintf(heading, sizeof(s->headings[0]), "efficiency, %%");
	*panel = (struct lines_panel){ .title = s->n_facets > 1 ? s->facets[facet] : NULL,
				       .x_label = s->batch->parameters[axis->parameter],
				       .y_label = heading,
				       .ticks_at_points = true,
				       .series = s->series + s->n_series,
				       .reference = efficiency == SIZE_MAX ? NAN : 100 };
	for (size_t l = 0; l < axis->n; l++) {
		const struct batch_line *line = &axis->lines[l];
		struct lines_series *series = &s->series[s->n_series];

		if (plan->facet[l] != facet || plan->name[l] >= LINES_SERIES)
			continue;
		*series = (struct lines_series){ .points = s->points + s->n_points,
						 .n = line->n,
						 .name = plan->name[l] };
		for (size_t i = 0; i < line->n; i++) {
			struct lines_point p = point_of(s->batch, axis, line->at[i], metric);

			if (efficiency != SIZE_MAX) {
				struct value pct = s->batch->configurations[line->at[i]]
							   .efficiency[efficiency]
							   .pct;

				p.y = pct.known ? pct.v : NAN;
				p.low = p.high = NAN;
			}
			s->points[s->n_points++] = p;
		}
		s->n_series++;
		panel->n++;
	}
}

static void describe_sheet(struct sheet *s, const struct plan *plan, const char *what)
{
	size_t least = SIZE_MAX, most = 0, used = 0;
	char n[64];

	for (size_t i = 0; i < s->batch->n_configurations; i++) {
		size_t count = s->batch->configurations[i].figures[BATCH_TOKENS_PER_S].n;

		if (!count)
			continue;
		least = count < least ? count : least;
		most = count > most ? count : most;
	}
	if (least < most)
		snprintf(n, sizeof(n), "n = %zu to %zu", least, most);
	else
		snprintf(n, sizeof(n), "n = %zu", most);
	if (most >= BATCH_INTERVAL_MIN)
		used = (size_t)snprintf(s->subtitle, sizeof(s->subtitle), "%s, %s", what, n);
	else
		used = (size_t)snprintf(s->subtitle, sizeof(s->subtitle),
					"%s: no intervals below n = 3",
					most > 1 ? n : "single measurements (n = 1)");
	if (plan && plan->lines_left_out)
		snprintf(s->subtitle + used, sizeof(s->subtitle) - used,
			 "; %zu lines are left out here and are in batch_summary.csv",
			 plan->lines_left_out);
}

/* Throughput, the measured latencies, and the cost. */
static size_t panel_metrics(const struct batch *batch, enum batch_metric_id out[PANELS_MAX])
{
	static const enum batch_metric_id wanted[] = { BATCH_TTFT_P50, BATCH_TPOT_P50,
						       BATCH_E2EL_P50, BATCH_INFERENCE_TIME,
						       BATCH_COST };
	size_t n = 0;

	out[n++] = BATCH_TOKENS_PER_S;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (batch_shows(batch, wanted[i]) &&
		    (wanted[i] != BATCH_INFERENCE_TIME || !batch_shows(batch, BATCH_E2EL_P50)))
			out[n++] = wanted[i];
	return n;
}

static int fill_axis_page(struct sheet *s, size_t index, enum kind kind)
{
	const struct batch_axis *axis = &s->batch->axes[index];
	enum batch_metric_id metrics[PANELS_MAX] = { BATCH_TOKENS_PER_S, s->batch->latency };
	struct plan plan = { 0 };
	size_t facets, n;
	int r = make_plan(s, axis, &plan);

	if (r < 0)
		goto out;
	facets = s->n_facets < FACETS_MAX ? s->n_facets : FACETS_MAX;
	n = kind == PLOT_EFFICIENCY ? 1 : 2;
	if (kind == PLOT_SCALING && s->n_facets == 1)
		n = panel_metrics(s->batch, metrics);
	for (size_t m = 0; m < n; m++)
		for (size_t f = 0; f < facets; f++)
			add_panel(s, axis, &plan, f, metrics[m],
				  kind == PLOT_EFFICIENCY ? index : SIZE_MAX);
	s->page.columns = s->n_facets > 1 ? facets : n > 4 ? 3 : n > 1 ? 2 : 1;
	if (kind == PLOT_EFFICIENCY) {
		s->page.reference = "ideal";
		snprintf(
			s->subtitle, sizeof(s->subtitle),
			"100%% is the tokens/s for each unit of %s at the smallest one that succeeded%s",
			s->batch->parameters[axis->parameter],
			plan.lines_left_out ? "; some lines are left out" : "");
	} else {
		describe_sheet(s, &plan, "mean and its 95% interval");
	}
out:
	free(plan.name);
	free(plan.facet);
	return r;
}

/* "4 / 100": only the values; the subtitle has the names. */
static char *short_label(const struct batch *batch, size_t index)
{
	struct buf text = { 0 };

	for (size_t p = 0; p < batch->n_parameters; p++)
		buf_printf(&text, "%s%s", p ? " / " : "", batch->configurations[index].values[p]);
	if (!batch->n_parameters)
		buf_printf(&text, "%s", batch->configurations[index].label);
	if (text.failed)
		buf_release(&text);
	return text.data;
}

static int add_dots(struct sheet *s, struct lines_series *series, size_t index, bool labelled)
{
	const struct batch_configuration *c = &s->batch->configurations[index];
	enum batch_metric_id latency = s->batch->latency;
	struct lines_point *p = &s->points[s->n_points];

	*p = (struct lines_point){
		.x = c->figures[latency].mean.v / batch_metrics[latency].divisor,
		.y = c->figures[BATCH_TOKENS_PER_S].mean.v,
		.low = NAN,
		.high = NAN,
	};
	if (labelled) {
		p->label = s->labels[s->n_labels] = short_label(s->batch, index);
		if (!p->label)
			return -ENOMEM;
		s->n_labels++;
	}
	s->n_points++;
	series->n++;
	return 0;
}

static int fill_pareto_page(struct sheet *s)
{
	const struct batch *batch = s->batch;
	bool all = batch->n_configurations <= LABELLED_MAX;
	size_t used;
	int r = 0;

	if (place_in(s->names, &s->n_names, "Pareto front") == SIZE_MAX ||
	    place_in(s->names, &s->n_names, "other configurations") == SIZE_MAX)
		return -ENOMEM;
	batch_metric_heading(batch->latency, s->headings[0], sizeof(s->headings[0]));
	s->series[0] = (struct lines_series){ .points = s->points, .name = 0 };
	for (size_t i = 0; r == 0 && i < batch->n_front; i++)
		r = add_dots(s, &s->series[0], batch->front[i], true);
	s->series[1] = (struct lines_series){ .points = s->points + s->n_points,
					      .name = 1,
					      .dots_only = true };
	for (size_t i = 0; r == 0 && i < batch->n_configurations; i++)
		if (!batch->configurations[i].pareto && is_in_scatter(batch, i))
			r = add_dots(s, &s->series[1], i, all);
	s->panels[0] = (struct lines_panel){ .x_label = s->headings[0],
					     .y_label = "tokens/s",
					     .series = s->series,
					     .n = 2,
					     .reference = NAN };
	s->page.n = s->page.columns = 1;
	describe_sheet(s, NULL, "means");
	used = strlen(s->subtitle);
	used += (size_t)snprintf(s->subtitle + used, sizeof(s->subtitle) - used,
				 "; better is up and to the left");
	for (size_t p = 0; p < batch->n_parameters && used < sizeof(s->subtitle); p++)
		used += (size_t)snprintf(s->subtitle + used, sizeof(s->subtitle) - used, "%s%s",
					 p ? " / " : "; labels: ", batch->parameters[p]);
	return r;
}

int batch_plot_draw(const struct batch *batch, size_t i, bool svg, FILE *out, struct err *err)
{
	struct plot_options options = { .svg = svg, .scale = 1, .layer = -1 };
	struct sheet s;
	enum kind kind;
	size_t axis;
	int r;

	if (!find_plot(batch, i, &kind, &axis))
		return err_set(err, -EINVAL, "there is no such plot.");
	r = sheet_init(&s, batch);
	if (r < 0)
		return err_sys(err, r, "cannot draw");
	batch_plot_title(batch, i, s.title, sizeof(s.title));
	r = kind == PLOT_PARETO ? fill_pareto_page(&s) : fill_axis_page(&s, axis, kind);
	s.page.names = (const char *const *)s.names;
	s.page.n_names = s.n_names;
	r = r < 0 ? err_sys(err, r, "cannot draw '%s'", s.title)
		  : plot_lines_draw(&s.page, &options, out, err);
	sheet_release(&s);
	return r;
}
