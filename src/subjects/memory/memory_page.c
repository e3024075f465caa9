/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of memory by process and device: live, peak, what it is made of, over time.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/text/format.h"
#include "subjects/device/device_state.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"
#include "subjects/pages/pages.h"

#define POOL_LINES 8
#define SITE_LINES 5
#define THEN_LINES 10
#define PART_LINES 16
#define LEAK_LINES 5
#define IN_JSON ": moescope memory --json"

/* Live bytes over time: the largest of each column's points. */
static size_t live_heights(const struct series *series, size_t columns, unsigned int top,
			   unsigned char *ret_heights)
{
	const struct memory_device *d = series->of;
	int64_t first = series->run->start_ns, span = series->run->end_ns - first;
	uint64_t before = 0;
	size_t point = 0;

	for (size_t c = 0; c < columns && span > 0; c++) {
		int64_t end = first + (int64_t)((double)span * (double)(c + 1) / (double)columns);
		uint64_t largest = before;

		while (point < d->n_points && d->points[point].time_ns <= end) {
			before = d->points[point++].live_bytes;
			largest = before > largest ? before : largest;
		}
		/* Sums of a hostile file may have wrapped: no more than the peak. */
		ret_heights[c] =
			(unsigned char)(!d->peak_bytes ? 0
					: largest > d->peak_bytes
						? top
						: top * (double)largest / (double)d->peak_bytes +
							  0.5);
	}
	return span > 0 ? columns : 0;
}

static void pool_lines(const struct device_memory *m, struct page *page)
{
	for (size_t i = 0; i < m->n_pools && i < POOL_LINES; i++) {
		const struct memory_pool *pool = &m->pools[i];

		page_line(page, 2, "rank %u, gpu %u, pool: holds %s (peak %s)%s", pool->rank,
			  pool->device, format_bytes((double)pool->bytes).text,
			  format_bytes((double)pool->peak_bytes).text,
			  pool->destroyed ? ", destroyed" : "");
		page_line(page, 4, "allocated %s (peak %s), keeps %s, trimmed %" PRIu64 " times",
			  format_bytes((double)pool->used_bytes).text,
			  format_bytes((double)pool->peak_used_bytes).text,
			  format_bytes((double)pool->release_bytes).text, pool->trims);
	}
	page_rest(page, 2, m->n_pools, POOL_LINES, " pools" IN_JSON);
}

/* What the driver handed out and the devices say is in use; nothing without such records. */
static void driver_lines(const struct device_memory *m, struct page *page)
{
	for (size_t i = 0; i < m->n_driver; i++) {
		const struct driver_memory *d = &m->driver[i];

		page_line(page, 2, "rank %u, gpu %u, %s memory of the driver: peak %s, live %s",
			  d->rank, d->device, d->memory, format_bytes((double)d->peak_bytes).text,
			  format_bytes((double)d->live_bytes).text);
		page_line(page, 4, "allocations %" PRIu64 ", frees %" PRIu64, d->allocations,
			  d->frees);
		if (d->unmatched_frees)
			page_put(page, ", frees without their allocation: %" PRIu64,
				 d->unmatched_frees);
	}
	for (size_t i = 0; i < m->n_used; i++) {
		const struct device_used *used = &m->used[i];

		page_line(page, 2, "rank %u, gpu %u, in use on the whole device: peak %s, last %s",
			  used->rank, used->device, format_bytes(used->peak_bytes).text,
			  format_bytes(used->last_bytes).text);
		if (used->headroom_bytes.known)
			page_line(page, 4, "%s of %s left at the peak (%s used)",
				  format_bytes(used->headroom_bytes.v).text,
				  format_bytes(used->total_bytes.v).text,
				  format_pct(used->peak_pct.v).text);
		if (used->outside_bytes.known)
			page_line(page, 4, "%s of the peak is outside the driver's allocations",
				  format_bytes(used->outside_bytes.v).text);
	}
	pool_lines(m, page);
}

static void format_place(char *out, size_t size, int32_t layer, int32_t expert, unsigned int phase)
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

static void site_line(const struct scene *scene, const struct memory_site *s, struct page *page)
{
	char bytes[48], rest[256], where[80];

	format_place(where, sizeof(where), s->layer, s->expert, s->phase);
	snprintf(bytes, sizeof(bytes), "%9s  ", format_bytes((double)s->bytes).text);
	snprintf(rest, sizeof(rest), "%s%s%s, %" PRIu64 " block%s, oldest %s",
		 where[0] ? where + 2 : "", where[0] ? ", " : "", memory_use_name(s->use), s->count,
		 s->count == 1 ? "" : "s", format_ns((double)s->oldest_ns).text);
	page_named(page, 6, 19, bytes, s->site ? run_string(scene->run, s->site) : "(no name)",
		   rest);
}

static void site_lines(const struct scene *scene, const struct memory_device *d, struct page *page)
{
	if (d->n_sites)
		page_line(page, 4, "live at the peak");
	for (size_t i = 0; i < d->n_sites && i < SITE_LINES; i++)
		site_line(scene, &d->sites[i], page);
	page_rest(page, 6, d->n_sites, SITE_LINES, IN_JSON);
}

static void put_share(struct value value, struct page *page)
{
	if (value.known)
		page_put(page, "%s", format_pct(value.v).text);
	else
		page_put(page, "n/a (%s)", value.reason);
}

/* What the allocator says of itself: a peak, where it keeps one, and the last. */
static void account_line(const struct memory_device *d, struct page *page)
{
	struct value peak = d->account_peak_allocated_bytes, last = d->account_allocated_bytes;

	/* Told with each event it is what the figures above are made of. */
	if (d->before_bytes.known || (!peak.known && !last.known))
		return;
	page_line(page, 4, "by its own account: allocated ");
	if (peak.known)
		page_put(page, "peak %s, ", format_bytes(peak.v).text);
	page_put(page, "last %s", last.known ? format_bytes(last.v).text : "n/a");
	if (d->account_peak_reserved_bytes.known)
		page_put(page, "; reserved peak %s",
			 format_bytes(d->account_peak_reserved_bytes.v).text);
	else if (d->account_reserved_bytes.known)
		page_put(page, "; reserved last %s",
			 format_bytes(d->account_reserved_bytes.v).text);
}

/* What the allocator holds from the driver; nothing for the host, which has no driver. */
static void held_lines(const struct memory_device *d, struct page *page)
{
	if (d->device < 0)
		return;
	if (!d->reserved_bytes.known) {
		page_words(page, 4, 6, "reserved: n/a (%s)", d->reserved_bytes.reason);
	} else {
		page_line(page, 4, "reserved: peak %s, last %s",
			  format_bytes(d->peak_reserved_bytes.v).text,
			  format_bytes(d->reserved_bytes.v).text);
		if (d->segments.known)
			page_put(page, " in %.0f segment%s", d->segments.v,
				 d->segments.v == 1 ? "" : "s");
		page_put(page, ", slack ");
		put_share(d->cache_slack_pct, page);
		page_line(page, 4, "fragmentation at the peak: ");
		put_share(d->fragmentation_at_peak_pct, page);
		if (d->fragmentation_at_peak_pct.known)
			page_put(page, " of %s free, largest block %s",
				 format_bytes(d->free_at_peak_bytes.v).text,
				 format_bytes(d->largest_free_at_peak_bytes.v).text);
	}
	account_line(d, page);
	if (d->oom_steps.known)
		page_line(page, 4, "est. full in %s steps, if the leak suspects grow as before",
			  format_count(d->oom_steps.v).text);
}

/* What each layer and expert allocated; nothing when no range names one. */
static void part_lines(const struct memory_device *d, struct page *page)
{
	if (d->n_parts)
		page_line(page, 4, "allocated inside ranges of");
	for (size_t i = 0; i < d->n_parts && i < PART_LINES; i++) {
		const struct memory_part *p = &d->parts[i];
		char where[80];

		format_place(where, sizeof(where), p->layer, p->expert, 0);
		page_line(page, 6, "%-24s %9s at the peak, %9s in all", where + 2,
			  format_bytes((double)p->at_peak_bytes).text,
			  format_bytes((double)p->allocated_bytes).text);
	}
	page_rest(page, 6, d->n_parts, PART_LINES, IN_JSON);
}

static void component(uint64_t all_bytes, const char *name, double bytes, struct page *page)
{
	double share = all_bytes ? bytes / (double)all_bytes : 0;

	page_line(page, 4, "%-14s %9s %6s  ", name, format_bytes(bytes).text,
		  format_pct(100 * share).text);
	page_bar(page, share, TONE_PLAIN, 44);
}

/* What the peak is made of: by use, and what was there when the records began. */
static void components(const struct memory_device *d, struct page *page)
{
	if (d->before_at_peak_bytes.known && d->before_at_peak_bytes.v > 0)
		component(d->peak_bytes, "before", d->before_at_peak_bytes.v, page);
	for (size_t i = 0; i < MEMORY_USES; i++) {
		unsigned int u = d->order_at_peak[i];

		if (d->use_at_peak[u])
			component(d->peak_bytes, memory_use_name(u), (double)d->use_at_peak[u],
				  page);
	}
	if (d->before_bytes.known)
		page_line(page, 4, "before the trace: %s live, %s of it freed since",
			  format_bytes(d->before_bytes.v).text,
			  format_bytes(d->before_freed_bytes.v).text);
}

static void device_name(const struct memory_device *d, struct page *page)
{
	if (d->device < 0)
		page_line(page, 2, "rank %u, host", d->rank);
	else
		page_line(page, 2, "rank %u, device %d", d->rank, d->device);
}

/* What was live at the moment that was asked for. */
static void then_lines(const struct scene *scene, const struct memory_device *d, struct page *page)
{
	const struct memory_then *then = &d->then;
	double s = (double)scene->question.at.ns / 1e9;

	device_name(d, page);
	if (then->absent) {
		page_put(page, ", at %.12g s: n/a (%s)", s, then->absent);
		return;
	}
	page_put(page, ", at %.12g s: %s in %zu block%s live", s,
		 format_bytes((double)then->live_bytes).text, then->n_blocks,
		 then->n_blocks == 1 ? "" : "s");
	if (then->before_bytes.known && then->before_bytes.v > 0)
		component(then->live_bytes, "before", then->before_bytes.v, page);
	for (unsigned int u = 0; u < MEMORY_USES; u++)
		if (then->use[u])
			component(then->live_bytes, memory_use_name(u), (double)then->use[u], page);
	if (then->n_sites)
		page_line(page, 4, "by place");
	for (size_t i = 0; i < then->n_sites && i < THEN_LINES; i++)
		site_line(scene, &then->sites[i], page);
	page_rest(page, 6, then->n_sites, THEN_LINES, IN_JSON);
	if (then->n_blocks)
		page_line(page, 4, "largest blocks");
	for (size_t i = 0; i < then->n_blocks && i < SITE_LINES; i++)
		site_line(scene, &then->blocks[i].of, page);
	page_rest(page, 6, then->n_blocks, SITE_LINES, IN_JSON);
}

/* The uses at the peak, live bytes over time, leak suspects and what does not match. */
static void memory_device_lines(const struct scene *scene, const struct memory_device *d,
				struct page *page)
{
	device_name(d, page);
	page_put(page, ": peak %s, made of", format_bytes((double)d->peak_bytes).text);
	components(d, page);
	page_line(page, 4, "over time      ");
	page_series(page, (struct series){ scene->run, d, live_heights }, 21);
	site_lines(scene, d, page);
	held_lines(d, page);
	for (size_t i = 0; i < d->n_leaks && i < LEAK_LINES; i++)
		page_words(
			page, 4, 6, "leak suspect: %s grows by %s a step (%u of the last 10 steps)",
			d->leaks[i].site ? run_string(scene->run, d->leaks[i].site) : "(no name)",
			format_bytes(d->leaks[i].bytes_per_step).text, d->leaks[i].grew_steps);
	if (!d->leaks_known.known)
		page_line(page, 4, "leaks: n/a (%s)", d->leaks_known.reason);
	if (d->unmatched_frees || d->replaced)
		page_line(page, 4,
			  "%" PRIu64 " frees without their allocation, %" PRIu64
			  " allocations whose free is missing",
			  d->unmatched_frees, d->replaced);
}

static void memory_page(const struct scene *scene, const struct grid *grid, struct page *page)
{
	const struct device_memory *m = answer_device_memory(scene->answers);

	if (!grid->n && !m->n_driver && !m->n_used && !m->n_pools &&
	    !answer_device_states(scene->answers)->n_others) {
		page_line(page, 2,
			  "no allocations in this run: the program reports them with "
			  "moescope_alloc()");
		return;
	}
	if (grid->n)
		page_table(page, grid, scene->limit, NULL);
	for (size_t i = 0; i < grid->n; i++) {
		page_empty_line(page);
		if (scene->question.at.given) {
			then_lines(scene, grid->rows[i].item, page);
			continue;
		}
		memory_device_lines(scene, grid->rows[i].item, page);
		part_lines(grid->rows[i].item, page);
	}
	if (scene->question.at.given)
		return;
	driver_lines(m, page);
	device_process_lines(scene, page);
}

void memory_report(const struct scene *scene, struct page *page)
{
	const struct memory *m = answer_memory(scene->answers);

	page_title(page, "Memory, as the program reported it");
	if (!m->n)
		page_line(page, 2, "n/a: no allocations were recorded");
	for (size_t i = 0; i < m->n; i++)
		memory_device_lines(scene, &m->devices[i], page);
	driver_lines(answer_device_memory(scene->answers), page);
}

static const struct question_parameter ask_at = {
	.name = "at",
	.kind = ASK_MOMENT,
	.metavar = "TIME",
	.help = "what was live at this moment of the run: 1.5s, 800ms, 20us, 7ns",
	.default_text = "the peak",
	.offset = offsetof(struct question, at),
};

static unsigned int memory_form(const struct scene *scene)
{
	return scene->question.at.given ? MEMORY_AT : MEMORY_PLAIN;
}

const struct section section_memory = {
	.name = "memory",
	.sql = "memory_peaks",
	.reads = READS(&subject_memory, &subject_device_memory, &subject_device_states),
	.subject = &subject_memory,
	.rows = &memory_fields,
	.total = &memory_total,
	.form = memory_form,
	.page = memory_page,
	.command = {
		.place = 110,
		.summary = "live and peak memory by use",
		.description = "Live and peak bytes of each device as seen by the program's "
			       "allocator, what they were used for, and suspected leaks.",
		.examples = EXAMPLES({ "moescope memory", "The newest run here." },
				     { "moescope memory a.mscope --json",
				       "Peaks, composition and the series over time." },
				     { "moescope memory a.mscope --at 1.5s",
				       "What was live 1.5 s after the start of the run." }),
		.parameters = PARAMETERS(&ask_at),
	},
};
