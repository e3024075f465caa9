/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as text; see memory_text.h.
 */
#include "present/memory_text.h"

#include <inttypes.h>

#include "base/format.h"

#define POOL_LINES 8

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
		level = d->peak_bytes ? (int)(7.0 * (double)largest / (double)d->peak_bytes + 0.5)
				      : 0;
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
	const struct device_memory *m = &scene->f->device_memory;

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
	for (size_t i = 0; i < m->n_used; i++)
		fprintf(out, "  rank %u, gpu %u, in use on the whole device: peak %s, last %s\n",
			m->used[i].rank, m->used[i].device,
			format_bytes(m->used[i].peak_bytes).text,
			format_bytes(m->used[i].last_bytes).text);
	pools(m, out);
}

int memory_text_device(const struct scene *scene, const struct memory_device *d, FILE *out)
{
	struct text_layout layout = scene_layout(scene, 2);
	int bar = layout.width - 44;

	if (d->device < 0)
		fprintf(out, "  rank %u, host", d->rank);
	else
		fprintf(out, "  rank %u, device %d", d->rank, d->device);
	fprintf(out, ": peak %s, made of\n", format_bytes((double)d->peak_bytes).text);
	for (size_t i = 0; i < MEMORY_USES; i++) {
		unsigned int u = d->order_at_peak[i];
		double share = d->peak_bytes ? (double)d->use_at_peak[u] / (double)d->peak_bytes
					     : 0;

		if (!d->use_at_peak[u])
			continue;
		fprintf(out, "    %-14s %9s %6s  ", memory_use_name(u),
			format_bytes((double)d->use_at_peak[u]).text, format_pct(100 * share).text);
		scene_bar(scene, share, bar, out);
		fputc('\n', out);
	}
	fputs("    over time      ", out);
	timeline(scene, d, layout.width - 21, out);
	fputc('\n', out);
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
