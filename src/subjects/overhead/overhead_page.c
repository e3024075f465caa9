/* SPDX-License-Identifier: Apache-2.0
 *
 * What profiling cost, and when device records were collected and when not.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "subjects/overhead/overhead.h"
#include "subjects/pages/pages.h"
#include "subjects/shared/coverage.h"

#define GEAR_LINES 8 /* of a program that shifts all the time the JSON has the rest */

static void gear_lines(const struct scene *scene, const struct coverage *c, struct page *page)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_changes; i++) {
		const struct level_change *change = &c->changes[i];

		if (!change->gear_changed || n++ >= GEAR_LINES)
			continue;
		page_words(page, 2, 4, "rank %u at %s: gear %s",
			   scene->run->shards[change->shard].rank,
			   format_ns((double)(change->time_ns - scene->run->start_ns)).text,
			   gear_name(change->gear));
		if (change->cost_pct.known)
			page_put(page, ", cost while collecting %s",
				 format_pct(change->cost_pct.v).text);
		if (change->why)
			page_put(page, ": %s", run_string(scene->run, change->why));
	}
	page_rest(page, 2, n, GEAR_LINES, " changes of gear: moescope report --json");
}

static void governor_lines(const struct scene *scene, const struct coverage *c, struct page *page)
{
	int64_t yielded_ns = 0;

	if (c->governed_pct.known) {
		page_line(page, 2,
			  "device records, by the governor: est. %s of wall time (cost while",
			  format_pct(c->governed_pct.v).text);
		page_line(page, 4, "collecting, times the share of the time)");
	} else {
		page_line(page, 2, "device records, by the governor: n/a");
		page_line(page, 4, "(%s)", c->governed_pct.reason);
	}
	page_line(page, 2, "collected in %zu window%s, %s of the run; device memory for it est. %s",
		  c->n_windows, c->n_windows == 1 ? "" : "s",
		  c->coverage_pct.known ? format_pct(c->coverage_pct.v).text : "n/a",
		  format_bytes(c->device_bytes.v).text);
	for (size_t i = 0; i < c->n_yields; i++)
		yielded_ns += c->yields[i].end_ns - c->yields[i].start_ns;
	if (c->n_yields)
		page_line(page, 2, "yielded to another client: %zu time%s, %s", c->n_yields,
			  c->n_yields == 1 ? "" : "s", format_ns((double)yielded_ns).text);
	gear_lines(scene, c, page);
}

static void overhead_device_lines(const struct scene *scene, struct page *page)
{
	const struct coverage *c = answer_coverage(scene->answers);
	const struct overhead *o = answer_overhead(scene->answers);
	const struct run_info *info = &scene->run->info;

	if (info->budget_known && info->budget_pct > 0)
		page_line(page, 2, "budget: %s of wall time", format_pct(info->budget_pct).text);
	else if (info->budget_known)
		page_line(page, 2, "budget: off, everything is recorded");
	if (o->device_account_pct.known)
		page_words(page, 2, 4,
			   "device records, by account: %s of the time (CUPTI %s, translating %s, "
			   "calls held %s, attaching and detaching %s); CPU time, not slowdown",
			   format_pct(o->device_account_pct.v).text,
			   format_ns((double)o->cupti_ns).text,
			   format_ns((double)o->translate_ns).text,
			   format_ns((double)o->held_ns).text,
			   format_ns((double)o->switch_ns).text);
	if (c->n_changes)
		governor_lines(scene, c, page);
}

void overhead_report(const struct scene *scene, struct page *page)
{
	const struct overhead *o = answer_overhead(scene->answers);
	double file_bytes = 0;

	for (size_t i = 0; i < scene->run->n_shards; i++)
		file_bytes += (double)scene->run->shards[i].file_bytes;
	page_title(page, "What profiling cost");
	if (o->measured_pct.known)
		page_line(page, 2,
			  "on against off: %s of the step time (95%%: %s to %s, %zu pairs)",
			  format_pct(o->measured_pct.v).text, format_pct(o->low_pct.v).text,
			  format_pct(o->high_pct.v).text, o->pairs);
	else
		page_line(page, 2, "on against off: n/a (%s)", o->measured_pct.reason);
	if (o->own_cpu_pct.known)
		page_line(page, 2, "its own thread: %s of one core, %s records, %s on disk",
			  format_pct(o->own_cpu_pct.v).text, format_count((double)o->records).text,
			  format_bytes(file_bytes).text);
	else
		page_line(page, 2, "its own thread: n/a (%s)", o->own_cpu_pct.reason);
	overhead_device_lines(scene, page);
}
