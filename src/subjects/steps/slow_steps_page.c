/* SPDX-License-Identifier: Apache-2.0
 *
 * Why steps were slow, for people.
 */
#include <inttypes.h>
#include <math.h>

#include "base/text/format.h"
#include "subjects/pages/pages.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"

#define PART_SHARE 0.05 /* of the extra time: less is not worth a word */
#define PARTS_SHOWN 4

static void kernels_words(const struct slow_step *step, struct page *page)
{
	size_t n = 0;

	while (n < step->n_kernels && step->kernels[n].extra_ns > PART_SHARE * step->extra_ns)
		n++;
	for (size_t k = 0; k < n; k++)
		page_put(page, "%s%s +%s%s", k ? ", " : " (", step->kernels[k].name,
			 format_ns(step->kernels[k].extra_ns).text, k + 1 == n ? ")" : "");
}

/* words: at the begin of the line. */
static void parts_line(const struct slow_step *step, const char *words,
		       const struct slow_part *parts, size_t n, struct page *page)
{
	size_t shown = 0;

	page_words(page, 4, 6, "%s", words);
	for (size_t i = 0; i < n && shown < PARTS_SHOWN; i++) {
		if (parts[i].extra_ns < PART_SHARE * step->extra_ns)
			break;
		page_put(page, "%s%s +%s", shown++ ? ", " : "", parts[i].name,
			 format_ns(parts[i].extra_ns).text);
		if (parts == step->device && parts[i].name[0] == 'k')
			kernels_words(step, page);
	}
	if (!shown)
		page_put(page, "no part alone is longer than usual");
}

/* What stands before the next clause, whose line begins with the first. */
static const char *joint(size_t *clauses, struct page *page)
{
	if ((*clauses)++)
		return "; ";
	page_words(page, 4, 6, "%s", "");
	return "";
}

static bool is_unusual(struct value value, struct value usual)
{
	return value.known && usual.known && fabs(value.v - usual.v) > 0.02 * usual.v;
}

static void around(const struct scene *scene, const struct slow_step *step, struct page *page)
{
	const struct slow_steps *slow = answer_slow_steps(scene->answers);
	const struct step_row *row = &answer_steps(scene->answers)->rows[step->row];
	double little = PART_SHARE * step->extra_ns;
	size_t n = 0;

	if (step->gap_ns.known && step->gap_ns.v > little)
		page_put(page, "%slongest gap of the device: %s, %s after the begin",
			 joint(&n, page), format_ns(step->gap_ns.v).text,
			 format_ns(step->gap_at_ns.v).text);
	if (is_unusual(step->clock_mhz, slow->usual_clock_mhz))
		page_put(page, "%sclock %.0f MHz, usually %.0f", joint(&n, page), step->clock_mhz.v,
			 slow->usual_clock_mhz.v);
	if (step->allocation_ns.known && slow->usual_allocation_ns.known &&
	    step->allocation_ns.v - slow->usual_allocation_ns.v > little)
		page_put(page, "%sallocating (%" PRIu64 " call%s) %s", joint(&n, page),
			 step->allocation_calls, step->allocation_calls == 1 ? "" : "s",
			 format_ns(step->allocation_ns.v).text);
	if (is_unusual(row->tokens, slow->usual_tokens))
		page_put(page, "%s%s tokens, usually %s", joint(&n, page),
			 format_count(row->tokens.v).text, format_count(slow->usual_tokens.v).text);
}

void slow_steps_page(const struct scene *scene, size_t limit, struct page *page)
{
	const struct slow_steps *slow = answer_slow_steps(scene->answers);

	if (!slow->n)
		return;
	page_title(page, "Slow steps");
	for (size_t i = 0; i < slow->n && i < limit; i++) {
		const struct slow_step *step = &slow->steps[i];
		const struct step_row *row = &answer_steps(scene->answers)->rows[step->row];

		page_line(page, 2, "step %" PRId64 " of rank %u: %s, that is +%s (usually %s)",
			  row->step, row->rank, format_ns((double)row->duration_ns).text,
			  format_ns(step->extra_ns).text, format_ns(slow->usual_ns.v).text);
		if (step->device_known.known)
			parts_line(step, "", step->device, step->n_device, page);
		if (step->phases_known.known)
			parts_line(step, "by phase: ", step->phases, step->n_phases, page);
		else if (!step->device_known.known)
			page_words(page, 4, 6, "why n/a: %s, and %s", step->device_known.reason,
				   step->phases_known.reason);
		around(scene, step, page);
	}
	if (slow->outliers > (slow->n < limit ? slow->n : limit))
		page_line(page, 2, "... %zu slow steps in all: moescope steps --sort time_ns",
			  slow->outliers);
}
