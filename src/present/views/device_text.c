/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices as text; see device_text.h.
 */
#include "present/views/device_text.h"

#include <inttypes.h>
#include <stdarg.h>

#include "base/text/format.h"
#include "device/sheets/clock_reasons.h"
#include "subjects/device/device_state.h"
#include "subjects/device/timeline.h"
#include "subjects/overhead/overhead.h"
#include "subjects/shared/coverage.h"

#define GEAR_LINES 8	/* of a program that shifts all the time the JSON has the rest */
#define PROCESS_LINES 8 /* of a device */

struct line {
	char text[512];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void put(struct line *line, const char *format, ...)
{
	va_list args;
	int n;

	if (line->length >= sizeof(line->text))
		return;
	va_start(args, format);
	n = vsnprintf(line->text + line->length, sizeof(line->text) - line->length, format, args);
	va_end(args);
	if (n > 0)
		line->length += (size_t)n;
}

/* Ends the line: at `indent`, what does not fit two columns deeper. */
static void print(const struct scene *scene, const struct line *line, size_t indent, FILE *out)
{
	fprintf(out, "%*s", (int)indent, "");
	text_wrap(out, line->text, (size_t)scene_layout(scene, 0).width, indent, indent + 2);
}

static void idle_line(const struct scene *scene, const struct timeline_device *d, FILE *out)
{
	struct line line = { 0 };

	put(&line, "idle because of");
	for (int c = 0, n = 0; c < IDLE_CAUSES; c++)
		if (d->idle_by_cause[c] > 0)
			put(&line, "%s %s %s", n++ ? "," : ":", idle_cause_name((enum idle_cause)c),
			    format_pct(100.0 * (double)d->idle_by_cause[c] / (double)d->idle_ns)
				    .text);
	if (d->idle_ns > 0)
		print(scene, &line, 4, out);
}

static void reasons_line(const struct scene *scene, const struct device_state *d, FILE *out)
{
	struct line line = { 0 };
	int n = 0;

	for (unsigned int bit = 0; bit < CLOCK_REASONS; bit++) {
		const char *words = clock_reason_words(bit);
		char unknown[24];

		if (!d->reasons[bit])
			continue;
		snprintf(unknown, sizeof(unknown), "reason bit %u", bit);
		put(&line, "%s%s %s", n++ ? ", " : "clocks held down by: ", words ? words : unknown,
		    format_pct(100.0 * (double)d->reasons[bit] / (double)d->reason_samples).text);
	}
	if (!n)
		return;
	put(&line, " of samples");
	print(scene, &line, 4, out);
}

static void state_line(const struct scene *scene, const struct device_state *d, FILE *out)
{
	const struct metric_summary *m = d->metrics;
	struct line line = { 0 };

	put(&line, "rank %u, gpu %u:", d->rank, d->device);
	if (m[METRIC_POWER].samples)
		put(&line, " power mean %.0f W, peak %.0f W;", m[METRIC_POWER].mean,
		    m[METRIC_POWER].max);
	if (m[METRIC_CLOCK_SM].samples)
		put(&line, " clock mean %.0f MHz, lowest %.0f MHz;", m[METRIC_CLOCK_SM].mean,
		    m[METRIC_CLOCK_SM].min);
	if (m[METRIC_CLOCK_MEMORY].samples)
		put(&line, " memory clock mean %.0f MHz;", m[METRIC_CLOCK_MEMORY].mean);
	if (m[METRIC_TEMPERATURE].samples)
		put(&line, " temperature peak %.0f C;", m[METRIC_TEMPERATURE].max);
	if (line.length && line.length < sizeof(line.text) && line.text[line.length - 1] == ';') {
		line.text[line.length - 1] = '\0';
		print(scene, &line, 2, out);
	}
	reasons_line(scene, d, out);
}

void device_text_timeline(const struct scene *scene, FILE *out)
{
	const struct timeline *t = answer_timeline(scene->answers);
	const struct device_states *states = answer_device_states(scene->answers);

	scene_sampled(scene, "", out);
	for (size_t i = 0; i < t->n; i++) {
		const struct timeline_device *d = &t->devices[i];

		fprintf(out, "  rank %u, gpu %u: busy %s (%s), idle %s\n", d->rank, d->device,
			format_ns((double)d->busy_ns).text, format_pct(d->busy_pct).text,
			format_ns((double)d->idle_ns).text);
		idle_line(scene, d, out);
		fprintf(out, "    kernels %s, copies %s, sets %s",
			format_ns((double)d->kernel_ns).text, format_ns((double)d->copy_ns).text,
			format_ns((double)d->set_ns).text);
		if (d->overlap_pct.known)
			fprintf(out, "\n    %s of the copy time beside kernels",
				format_pct(d->overlap_pct.v).text);
		fputc('\n', out);
	}
	if (!t->n)
		fputs("  n/a: no device record of this run or window was timed\n", out);
	if (t->untimed)
		fprintf(out, "  without times: %" PRIu64 " device records, in no duration\n",
			t->untimed);
	for (size_t i = 0; i < states->n; i++)
		state_line(scene, &states->devices[i], out);
	device_text_processes(scene, out);
}

void device_text_processes(const struct scene *scene, FILE *out)
{
	const struct device_states *states = answer_device_states(scene->answers);

	for (size_t i = 0, of_device = 0; i < states->n_others; i++) {
		const struct other_process *p = &states->others[i];
		struct line line = { 0 };

		of_device = i && p[-1].device == p->device ? of_device + 1 : 0;
		if (of_device == PROCESS_LINES)
			fprintf(out, "  ... more on gpu %u: moescope memory --json\n", p->device);
		if (of_device >= PROCESS_LINES)
			continue;
		put(&line, "other process on gpu %u: %u %s, ", p->device, p->pid,
		    p->name ? run_string(scene->run, p->name) : "(name not known)");
		if (p->bytes_known)
			put(&line, "%.0f MiB", (double)p->peak_bytes / 1048576.0);
		else
			put(&line, "memory not told");
		put(&line, "%s", p->graphics ? " (graphics)" : "");
		print(scene, &line, 2, out);
	}
}

static void gear_lines(const struct scene *scene, FILE *out)
{
	const struct coverage *c = answer_coverage(scene->answers);
	size_t n = 0;

	for (size_t i = 0; i < c->n_changes; i++) {
		const struct level_change *change = &c->changes[i];
		struct line line = { 0 };

		if (!change->gear_changed || n++ >= GEAR_LINES)
			continue;
		put(&line, "rank %u at %s: gear %s", scene->run->shards[change->shard].rank,
		    format_ns((double)(change->time_ns - scene->run->start_ns)).text,
		    gear_name(change->gear));
		if (change->cost_pct.known)
			put(&line, ", cost while collecting %s",
			    format_pct(change->cost_pct.v).text);
		if (change->why)
			put(&line, ": %s", run_string(scene->run, change->why));
		print(scene, &line, 2, out);
	}
	if (n > GEAR_LINES)
		fprintf(out, "  ... %zu more changes of gear: moescope report --json\n",
			n - GEAR_LINES);
}

void device_text_cost(const struct scene *scene, FILE *out)
{
	const struct coverage *c = answer_coverage(scene->answers);
	const struct overhead *o = answer_overhead(scene->answers);
	const struct run_info *info = &scene->run->info;
	struct line line = { 0 };
	int64_t yielded_ns = 0;

	if (info->budget_known && info->budget_pct > 0)
		fprintf(out, "  budget: %s of wall time\n", format_pct(info->budget_pct).text);
	else if (info->budget_known)
		fprintf(out, "  budget: off, everything is recorded\n");
	if (o->device_account_pct.known) {
		put(&line,
		    "device records, by account: %s of the time (CUPTI %s, translating %s, calls "
		    "held %s, attaching and detaching %s); CPU time, not slowdown",
		    format_pct(o->device_account_pct.v).text, format_ns((double)o->cupti_ns).text,
		    format_ns((double)o->translate_ns).text, format_ns((double)o->held_ns).text,
		    format_ns((double)o->switch_ns).text);
		print(scene, &line, 2, out);
	}
	if (!c->n_changes)
		return;
	if (c->governed_pct.known)
		fprintf(out,
			"  device records, by the governor: est. %s of wall time (cost while\n"
			"    collecting, times the share of the time)\n",
			format_pct(c->governed_pct.v).text);
	else
		fprintf(out, "  device records, by the governor: n/a\n    (%s)\n",
			c->governed_pct.reason);
	fprintf(out, "  collected in %zu window%s, %s of the run; device memory for it est. %s\n",
		c->n_windows, c->n_windows == 1 ? "" : "s",
		c->coverage_pct.known ? format_pct(c->coverage_pct.v).text : "n/a",
		format_bytes(c->device_bytes.v).text);
	for (size_t i = 0; i < c->n_yields; i++)
		yielded_ns += c->yields[i].end_ns - c->yields[i].start_ns;
	if (c->n_yields)
		fprintf(out, "  yielded to another client: %zu time%s, %s\n", c->n_yields,
			c->n_yields == 1 ? "" : "s", format_ns((double)yielded_ns).text);
	gear_lines(scene, out);
}
