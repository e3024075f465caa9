/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory, device and experts on the dashboard; see dashboard_lines.h.
 */
#include "present/report/dashboard_lines.h"

#include <stdarg.h>
#include <string.h>

#include "base/text/format.h"

#define LABEL "%-10s"
#define SHORTEST_REASON 20 /* columns; less of it says nothing */

void dashboard_label(const struct scene *scene, const char *text, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, " %s" LABEL "%s", text_style_on(TEXT_BOLD, color), text,
		text_style_off(TEXT_BOLD, color));
}

void dashboard_absent(const struct scene *scene, const char *reason, FILE *out)
{
	bool color = scene->options->color;

	fprintf(out, "%sn/a (%s)%s\n", text_style_on(TEXT_DIM, color), reason,
		text_style_off(TEXT_DIM, color));
}

/* A figure above the limit has the word; the last of a figure has every other. */
enum judged { FRAGMENTATION_PCT, CV_EXCESS };
static const struct {
	enum judged figure;
	double above;
	const char *word;
} words[] = {
	{ FRAGMENTATION_PCT, 50, "high" }, { FRAGMENTATION_PCT, 20, "medium" },
	{ FRAGMENTATION_PCT, 0, "low" },   { CV_EXCESS, 0.3, "poor" },
	{ CV_EXCESS, 0.1, "fair" },	   { CV_EXCESS, 0, "good" },
};

static const char *word_of(enum judged figure, double value)
{
	const char *word = "";

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].figure != figure)
			continue;
		word = words[i].word;
		if (value > words[i].above)
			break;
	}
	return word;
}

/* A line in the making; what does not fit is left out from the first part that does not. */
struct line {
	char text[512];
	size_t width, at;
	bool full;
};

static void put(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct line *line, const char *format, ...)
{
	char part[256];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(part, sizeof(part), format, args);
	va_end(args);
	if (line->full || line->at + (size_t)n > line->width || (size_t)n >= sizeof(part)) {
		line->full = true;
		return;
	}
	memcpy(line->text + line->at, part, (size_t)n + 1);
	line->at += (size_t)n;
}

static struct line line_begin(const struct scene *scene)
{
	size_t width = (size_t)scene_layout(scene, 0).width - 12;

	return (struct line){ .width = width < 511 ? width : 511 };
}

/* "12%" or "n/a"; the first reason is kept for the end of the line. */
static const char *known(struct value value, struct format text, struct format *out,
			 const char **reason)
{
	*out = text;
	if (!value.known) {
		snprintf(out->text, sizeof(out->text), "n/a");
		if (!*reason)
			*reason = value.reason;
	}
	return out->text;
}

static void end_line(const struct scene *scene, const char *title, struct line *line,
		     const char *reason, FILE *out)
{
	size_t room = line->width - line->at, length = reason ? strlen(reason) : 0;

	dashboard_label(scene, title, out);
	fputs(line->text, out);
	/* Reasons are ours, and plain ASCII. */
	if (reason && length + 3 <= room)
		fprintf(out, " (%s)", reason);
	else if (reason && room >= SHORTEST_REASON)
		fprintf(out, " (%.*s...)", (int)room - 6, reason);
	fputc('\n', out);
}

static void composition(const struct memory_device *d, struct line *line)
{
	for (size_t j = 0, n = 0; j < MEMORY_USES; j++) {
		unsigned int u = d->order_at_peak[j];

		if (d->use_at_peak[u])
			put(line, "%s%s %s", n++ ? ", " : "at the peak ", memory_use_name(u),
			    format_bytes((double)d->use_at_peak[u]).text);
	}
}

void dashboard_memory(const struct scene *scene, const struct overview *o, FILE *out)
{
	const struct memory_device *d = o->memory;
	struct line line = line_begin(scene);
	struct format text;
	const char *reason = NULL;

	if (!o->peak_bytes.known) {
		dashboard_label(scene, "Memory", out);
		dashboard_absent(scene, o->peak_bytes.reason, out);
		return;
	}
	put(&line, "peak %s / %s", format_bytes(o->peak_bytes.v).text,
	    known(o->total_bytes, format_bytes(o->total_bytes.v), &text, &reason));
	if (o->total_bytes.known && o->total_bytes.v > 0)
		put(&line, " (%s)", format_pct(100 * o->peak_bytes.v / o->total_bytes.v).text);
	if (o->peak_by_driver)
		put(&line, ", by the driver");
	else
		put(&line, ", live %s", format_bytes((double)d->live_bytes).text);
	put(&line, ", fragmentation ");
	if (d && d->fragmentation_pct.known)
		put(&line, "%s (%s)", format_pct(d->fragmentation_pct.v).text,
		    word_of(FRAGMENTATION_PCT, d->fragmentation_pct.v));
	else
		put(&line, "n/a");
	end_line(scene, d && d->device < 0 && !o->peak_by_driver ? "Memory" : "GPU mem", &line,
		 !d			       ? "the program reports no allocations"
		 : !d->fragmentation_pct.known ? d->fragmentation_pct.reason
					       : NULL,
		 out);
	if (d && !o->peak_by_driver) {
		line = line_begin(scene);
		composition(d, &line);
		end_line(scene, "", &line, NULL, out);
	}
}

void dashboard_device(const struct scene *scene, const struct overview *o, FILE *out)
{
	struct line line = line_begin(scene);
	struct format text;
	const char *reason = NULL;

	if (!scene_has_device(scene->run)) {
		dashboard_label(scene, "GPU", out);
		dashboard_absent(scene, "no device records in this run", out);
		return;
	}
	put(&line, "busy %s", known(o->busy_pct, format_pct(o->busy_pct.v), &text, &reason));
	put(&line, "; on average attention %s",
	    known(o->attention_ns, format_ns(o->attention_ns.v), &text, &reason));
	put(&line, ", %s %s", o->expert_by_class ? "grouped GEMM" : "experts",
	    known(o->expert_ns, format_ns(o->expert_ns.v), &text, &reason));
	end_line(scene, "Kernels", &line, reason, out);
	line = line_begin(scene);
	reason = NULL;
	put(&line, "memory %s", known(o->dram_pct, format_pct(o->dram_pct.v), &text, &reason));
	put(&line, ", PCIe %s", known(o->pcie_pct, format_pct(o->pcie_pct.v), &text, &reason));
	end_line(scene, "Bandwidth", &line, reason, out);
}

static struct format expert_share(const struct overview *o, uint32_t e)
{
	struct format text;

	snprintf(text.text, sizeof(text.text), "%.1f%%",
		 100 * (double)o->n[e] / (double)o->load.total);
	return text;
}

static struct format expert_weights(const struct overview *o, uint32_t e)
{
	struct format none = { "n/a" };

	return o->expert_bytes[e].known ? format_bytes(o->expert_bytes[e].v) : none;
}

/* As many experts as fit, with dots for the others. */
static void put_experts(struct line *line, const struct overview *o,
			struct format (*text)(const struct overview *o, uint32_t e))
{
	static const char more[] = " ...";

	line->width -= sizeof(more) - 1;
	for (uint32_t e = 0; e < o->experts && !line->full; e++)
		put(line, "%s%s", e ? ", " : "", text(o, e).text);
	line->width += sizeof(more) - 1;
	if (line->full) {
		line->full = false;
		put(line, "%s", more);
	}
}

static bool weights_alike(const struct overview *o)
{
	for (uint32_t e = 0; e < o->experts; e++)
		if (o->expert_bytes[e].known != o->expert_bytes[0].known ||
		    o->expert_bytes[e].v != o->expert_bytes[0].v)
			return false;
	return true;
}

/* Experts by their number, over all layers. */
void dashboard_experts(const struct scene *scene, const struct overview *o, FILE *out)
{
	struct line line = line_begin(scene);

	if (!o->load.known)
		return;
	put_experts(&line, o, expert_share);
	end_line(scene, "Use", &line, NULL, out);
	line = line_begin(scene);
	if (!weights_alike(o))
		put_experts(&line, o, expert_weights);
	else
		put(&line, "%s%s", expert_weights(o, 0).text,
		    o->expert_bytes[0].known ? " each" : "");
	end_line(scene, "Weights", &line, o->expert_bytes[0].reason, out);
	line = line_begin(scene);
	if (o->cv_excess.known)
		put(&line, "%s (cv beyond chance %s); ", word_of(CV_EXCESS, o->cv_excess.v),
		    format_ratio(o->cv_excess.v).text);
	put(&line, "legacy: score %s, efficiency %s", format_ratio(o->load.cv).text,
	    format_pct(routing_legacy_efficiency(o->load.cv)).text);
	end_line(scene, "Balance", &line, NULL, out);
}
