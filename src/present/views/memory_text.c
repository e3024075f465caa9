/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as text; see memory_text.h.
 */
#include "present/views/memory_text.h"

#include <inttypes.h>
#include <string.h>

#include "base/text/format.h"
#include "subjects/memory/device_memory.h"

#define POOL_LINES 8
#define SITE_LINES 5
#define PART_LINES 16

/* Live bytes over time in `width` columns: the largest of each column's points. */
static void timeline(const struct scene *scene, const struct memory_device *d, int width, FILE *out)
{
	static const char *const heights[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char letters[] = "_.,-=+*#";
	int64_t first = scene->run->start_ns, span = scene->run->end_ns - first;
	uint64_t before = 0;
	size_t point = 0;

	for (int c = 0; c < width && span > 0; c++) {
		int64_t end = first + (int64_t)((double)span * (c + 1) / width);
		uint64_t largest = before;
		int level;

		while (point < d->n_points && d->points[point].time_ns <= end) {
			before = d->points[point++].live_bytes;
			largest = before > largest ? before : largest;
		}
		/* Sums of a hostile file may have wrapped: no more than the peak. */
		level = !d->peak_bytes ? 0
			: largest > d->peak_bytes
				? 7
				: (int)(7.0 * (double)largest / (double)d->peak_bytes + 0.5);
		if (scene->options->utf8)
			fputs(heights[level], out);
		else
			fputc(letters[level], out);
	}
}

static void pools(const struct device_memory *m, FILE *out)
{
	for (size_t i = 0; i < m->n_pools && i < POOL_LINES; i++) {
		const struct memory_pool *pool = &m->pools[i];

		fprintf(out,
			"  rank %u, gpu %u, pool: holds %s (peak %s)%s\n"
			"    handed out %s (peak %s), keeps %s, trimmed %" PRIu64 " times\n",
			pool->rank, pool->device, format_bytes((double)pool->bytes).text,
			format_bytes((double)pool->peak_bytes).text,
			pool->destroyed ? ", destroyed" : "",
			format_bytes((double)pool->used_bytes).text,
			format_bytes((double)pool->peak_used_bytes).text,
			format_bytes((double)pool->release_bytes).text, pool->trims);
	}
	if (m->n_pools > POOL_LINES)
		fprintf(out, "  ... %zu more pools: moescope memory --json\n",
			m->n_pools - POOL_LINES);
}

void memory_text_driver(const struct scene *scene, FILE *out)
{
	const struct device_memory *m = answer_device_memory(scene->answers);

	for (size_t i = 0; i < m->n_driver; i++) {
		const struct driver_memory *d = &m->driver[i];

		fprintf(out,
			"  rank %u, gpu %u, %s memory of the driver: peak %s, live %s\n"
			"    allocations %" PRIu64 ", frees %" PRIu64,
			d->rank, d->device, d->memory, format_bytes((double)d->peak_bytes).text,
			format_bytes((double)d->live_bytes).text, d->allocations, d->frees);
		if (d->unmatched_frees)
			fprintf(out, ", frees without their allocation: %" PRIu64,
				d->unmatched_frees);
		fputc('\n', out);
	}
	for (size_t i = 0; i < m->n_used; i++) {
		const struct device_used *used = &m->used[i];

		fprintf(out, "  rank %u, gpu %u, in use on the whole device: peak %s, last %s\n",
			used->rank, used->device, format_bytes(used->peak_bytes).text,
			format_bytes(used->last_bytes).text);
		if (used->headroom_bytes.known)
			fprintf(out, "    %s of %s left at the peak (%s used)\n",
				format_bytes(used->headroom_bytes.v).text,
				format_bytes(used->total_bytes.v).text,
				format_pct(used->peak_pct.v).text);
		if (used->outside_bytes.known)
			fprintf(out, "    %s of the peak is outside what the driver handed out\n",
				format_bytes(used->outside_bytes.v).text);
	}
	pools(m, out);
}

static void place(char *out, size_t size, int32_t layer, int32_t expert, unsigned int phase)
{
	int n = 0;

	*out = '\0';
	if (layer >= 0)
		n += snprintf(out + n, size - (size_t)n, ", layer %d", layer);
	if (expert >= 0)
		n += snprintf(out + n, size - (size_t)n, ", expert %d", expert);
	if (phase)
		snprintf(out + n, size - (size_t)n, ", %s", phase_name(phase));
}

/* The place, and what is known of its blocks. A path that is longer than a line is shortened on one of
 * its own: its end tells most. */
static void site_text(const struct scene *scene, const char *name, const char *rest, FILE *out)
{
	size_t width = (size_t)scene_layout(scene, 0).width, room = width > 37 ? width - 17 : 20;
	char line[512];

	if (strcspn(name, " ") > room) {
		text_fit(out, name, room, false, scene->options->utf8);
		fputs("\n                   ", out);
		text_wrap(out, rest, width, 19, 19);
		return;
	}
	snprintf(line, sizeof(line), "%s, %s", name, rest);
	text_wrap(out, line, width, 17, 19);
}

static void sites(const struct scene *scene, const struct memory_device *d, FILE *out)
{
	if (d->n_sites)
		fputs("    live at the peak\n", out);
	for (size_t i = 0; i < d->n_sites && i < SITE_LINES; i++) {
		const struct memory_site *s = &d->sites[i];
		char rest[256], where[80];

		place(where, sizeof(where), s->layer, s->expert, s->phase);
		snprintf(rest, sizeof(rest), "%s%s%s, %" PRIu64 " block%s, oldest %s",
			 where[0] ? where + 2 : "", where[0] ? ", " : "", memory_use_name(s->use),
			 s->count, s->count == 1 ? "" : "s", format_ns((double)s->oldest_ns).text);
		fprintf(out, "      %9s  ", format_bytes((double)s->bytes).text);
		site_text(scene, s->site ? run_string(scene->run, s->site) : "(no name)", rest,
			  out);
	}
	if (d->n_sites > SITE_LINES)
		fprintf(out, "      ... %zu more: moescope memory --json\n",
			d->n_sites - SITE_LINES);
}

static void share(FILE *out, struct value value)
{
	if (value.known)
		fputs(format_pct(value.v).text, out);
	else
		fprintf(out, "n/a (%s)", value.reason);
}

/* What the allocator says of itself: a peak, where it keeps one, and the last. */
static void account(const struct memory_device *d, FILE *out)
{
	struct value peak = d->account_peak_allocated_bytes, last = d->account_allocated_bytes;

	/* Told with each event it is what the figures above are made of. */
	if (d->before_bytes.known || (!peak.known && !last.known))
		return;
	fputs("    by its own account: allocated ", out);
	if (peak.known)
		fprintf(out, "peak %s, ", format_bytes(peak.v).text);
	fprintf(out, "last %s", last.known ? format_bytes(last.v).text : "n/a");
	if (d->account_peak_reserved_bytes.known)
		fprintf(out, "; reserved peak %s",
			format_bytes(d->account_peak_reserved_bytes.v).text);
	else if (d->account_reserved_bytes.known)
		fprintf(out, "; reserved last %s", format_bytes(d->account_reserved_bytes.v).text);
	fputc('\n', out);
}

/* What the allocator holds from the driver; nothing for the host, which has no driver. */
static void held(const struct scene *scene, const struct memory_device *d, FILE *out)
{
	char line[256];

	if (d->device < 0)
		return;
	if (!d->reserved_bytes.known) {
		snprintf(line, sizeof(line), "reserved: n/a (%s)", d->reserved_bytes.reason);
		fputs("    ", out);
		text_wrap(out, line, (size_t)scene_layout(scene, 0).width, 4, 6);
	} else {
		fprintf(out, "    reserved: peak %s, last %s",
			format_bytes(d->peak_reserved_bytes.v).text,
			format_bytes(d->reserved_bytes.v).text);
		if (d->segments.known)
			fprintf(out, " in %.0f segment%s", d->segments.v,
				d->segments.v == 1 ? "" : "s");
		fputs(", slack ", out);
		share(out, d->cache_slack_pct);
		fputs("\n    fragmentation at the peak: ", out);
		share(out, d->fragmentation_at_peak_pct);
		if (d->fragmentation_at_peak_pct.known)
			fprintf(out, " of %s free, largest block %s",
				format_bytes(d->free_at_peak_bytes.v).text,
				format_bytes(d->largest_free_at_peak_bytes.v).text);
		fputc('\n', out);
	}
	account(d, out);
	if (d->oom_steps.known)
		fprintf(out, "    est. full in %s steps, if the leak suspects grow as before\n",
			format_count(d->oom_steps.v).text);
}

void memory_text_parts(const struct scene *scene, const struct memory_device *d, FILE *out)
{
	(void)scene;
	if (d->n_parts)
		fputs("    allocated inside ranges of\n", out);
	for (size_t i = 0; i < d->n_parts && i < PART_LINES; i++) {
		const struct memory_part *p = &d->parts[i];
		char where[80];

		place(where, sizeof(where), p->layer, p->expert, 0);
		fprintf(out, "      %-24s %9s at the peak, %9s in all\n", where + 2,
			format_bytes((double)p->at_peak_bytes).text,
			format_bytes((double)p->allocated_bytes).text);
	}
	if (d->n_parts > PART_LINES)
		fprintf(out, "      ... %zu more: moescope memory --json\n",
			d->n_parts - PART_LINES);
}

static void component(const struct scene *scene, const struct memory_device *d, const char *name,
		      double bytes, FILE *out)
{
	double share = d->peak_bytes ? bytes / (double)d->peak_bytes : 0;

	fprintf(out, "    %-14s %9s %6s  ", name, format_bytes(bytes).text,
		format_pct(100 * share).text);
	scene_bar(scene, share, scene_layout(scene, 2).width - 44, out);
	fputc('\n', out);
}

/* What the peak is made of: by use, and what was there when the records began. */
static void components(const struct scene *scene, const struct memory_device *d, FILE *out)
{
	if (d->before_at_peak_bytes.known && d->before_at_peak_bytes.v > 0)
		component(scene, d, "before", d->before_at_peak_bytes.v, out);
	for (size_t i = 0; i < MEMORY_USES; i++) {
		unsigned int u = d->order_at_peak[i];

		if (d->use_at_peak[u])
			component(scene, d, memory_use_name(u), (double)d->use_at_peak[u], out);
	}
	if (d->before_bytes.known)
		fprintf(out, "    before the trace: %s live, %s of it freed since\n",
			format_bytes(d->before_bytes.v).text,
			format_bytes(d->before_freed_bytes.v).text);
}

int memory_text_device(const struct scene *scene, const struct memory_device *d, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);

	if (d->device < 0)
		fprintf(out, "  rank %u, host", d->rank);
	else
		fprintf(out, "  rank %u, device %d", d->rank, d->device);
	fprintf(out, ": peak %s, made of\n", format_bytes((double)d->peak_bytes).text);
	components(scene, d, out);
	fputs("    over time      ", out);
	timeline(scene, d, layout.width - 21, out);
	fputc('\n', out);
	sites(scene, d, out);
	held(scene, d, out);
	for (size_t i = 0; i < d->n_leaks && i < 5; i++) {
		char line[512];

		snprintf(line, sizeof(line),
			 "leak suspect: %s grows by %s a step (%u of the last 10 steps)",
			 d->leaks[i].site ? run_string(scene->run, d->leaks[i].site) : "(no name)",
			 format_bytes(d->leaks[i].bytes_per_step).text, d->leaks[i].grew_steps);
		fputs("    ", out);
		text_wrap(out, line, (size_t)layout.width, 4, 6);
	}
	if (!d->leaks_known.known)
		fprintf(out, "    leaks: n/a (%s)\n", d->leaks_known.reason);
	if (d->unmatched_frees || d->replaced)
		fprintf(out,
			"    %" PRIu64 " frees without their allocation, %" PRIu64
			" allocations whose free is missing\n",
			d->unmatched_frees, d->replaced);
	return 0;
}
