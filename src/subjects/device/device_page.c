/* SPDX-License-Identifier: Apache-2.0
 *
 * What the report and the page of memory tell of devices: busy and idle time with its causes, what the
 * driver says of them, and who else uses them.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "device/sheets/clock_reasons.h"
#include "subjects/device/device_state.h"
#include "subjects/device/timeline.h"
#include "subjects/pages/pages.h"

#define PROCESS_LINES 8 /* of a device */

static void idle_line(const struct timeline_device *d, struct page *page)
{
	if (d->idle_ns <= 0)
		return;
	page_words(page, 4, 6, "idle because of");
	for (int c = 0, n = 0; c < IDLE_CAUSES; c++)
		if (d->idle_by_cause[c] > 0)
			page_put(
				page, "%s %s %s", n++ ? "," : ":",
				idle_cause_name((enum idle_cause)c),
				format_pct(100.0 * (double)d->idle_by_cause[c] / (double)d->idle_ns)
					.text);
}

static void timeline_lines(const struct timeline_device *d, struct page *page)
{
	page_line(page, 2, "rank %u, gpu %u: busy %s (%s), idle %s", d->rank, d->device,
		  format_ns((double)d->busy_ns).text, format_pct(d->busy_pct).text,
		  format_ns((double)d->idle_ns).text);
	idle_line(d, page);
	page_line(page, 4, "kernels %s, copies %s, sets %s", format_ns((double)d->kernel_ns).text,
		  format_ns((double)d->copy_ns).text, format_ns((double)d->set_ns).text);
	if (d->overlap_pct.known)
		page_line(page, 4, "%s of the copy time overlaps kernels",
			  format_pct(d->overlap_pct.v).text);
}

static void reasons_line(const struct device_state *d, struct page *page)
{
	int n = 0;

	for (unsigned int bit = 0; bit < CLOCK_REASONS; bit++) {
		const char *words = clock_reason_words(bit);

		if (!d->reasons[bit])
			continue;
		if (n++)
			page_put(page, ", ");
		else
			page_words(page, 4, 6, "clocks reduced by: ");
		if (words)
			page_put(page, "%s", words);
		else
			page_put(page, "reason bit %u", bit);
		page_put(page, " %s",
			 format_pct(100.0 * (double)d->reasons[bit] / (double)d->reason_samples)
				 .text);
	}
	if (n)
		page_put(page, " of samples");
}

/* What stands before the next reading, whose line begins with the first. */
static const char *joint(const struct device_state *d, size_t *readings, struct page *page)
{
	if ((*readings)++)
		return "; ";
	page_words(page, 2, 4, "rank %u, gpu %u: ", d->rank, d->device);
	return "";
}

static void state_lines(const struct device_state *d, struct page *page)
{
	const struct metric_summary *m = d->metrics;
	size_t n = 0;

	if (m[METRIC_POWER].samples)
		page_put(page, "%spower mean %.0f W, peak %.0f W", joint(d, &n, page),
			 m[METRIC_POWER].mean, m[METRIC_POWER].max);
	if (m[METRIC_CLOCK_SM].samples)
		page_put(page, "%sclock mean %.0f MHz, lowest %.0f MHz", joint(d, &n, page),
			 m[METRIC_CLOCK_SM].mean, m[METRIC_CLOCK_SM].min);
	if (m[METRIC_CLOCK_MEMORY].samples)
		page_put(page, "%smemory clock mean %.0f MHz", joint(d, &n, page),
			 m[METRIC_CLOCK_MEMORY].mean);
	if (m[METRIC_TEMPERATURE].samples)
		page_put(page, "%stemperature peak %.0f C", joint(d, &n, page),
			 m[METRIC_TEMPERATURE].max);
	reasons_line(d, page);
}

void device_process_lines(const struct scene *scene, struct page *page)
{
	const struct device_states *states = answer_device_states(scene->answers);

	for (size_t i = 0, of_device = 0; i < states->n_others; i++) {
		const struct other_process *p = &states->others[i];

		of_device = i && p[-1].device == p->device ? of_device + 1 : 0;
		if (of_device == PROCESS_LINES)
			page_line(page, 2, "... more on gpu %u: moescope memory --json", p->device);
		if (of_device >= PROCESS_LINES)
			continue;
		page_words(page, 2, 4, "other process on gpu %u: %u %s, ", p->device, p->pid,
			   p->name ? run_string(scene->run, p->name) : "(name unknown)");
		if (p->bytes_known)
			page_put(page, "%.0f MiB", (double)p->peak_bytes / 1048576.0);
		else
			page_put(page, "memory unknown");
		page_put(page, "%s", p->graphics ? " (graphics)" : "");
	}
}

/* Only a run with device records has it, or one with samples of devices. */
void devices_report(const struct scene *scene, struct page *page)
{
	const struct timeline *t = answer_timeline(scene->answers);
	const struct device_states *states = answer_device_states(scene->answers);

	if (!scene_has_device(scene->run) && !states->n && !states->n_others)
		return;
	page_title(page, "Devices");
	page_sampled(scene, "", page);
	for (size_t i = 0; i < t->n; i++)
		timeline_lines(&t->devices[i], page);
	if (!t->n)
		page_line(page, 2, "n/a: no device record of this run or window was timed");
	if (t->untimed)
		page_line(page, 2, "without times: %" PRIu64 " device records, in no duration",
			  t->untimed);
	for (size_t i = 0; i < states->n; i++)
		state_lines(&states->devices[i], page);
	device_process_lines(scene, page);
}
