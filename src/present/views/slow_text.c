/* SPDX-License-Identifier: Apache-2.0
 *
 * Slow steps as text and JSON; see slow_text.h.
 */
#include "present/views/slow_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "base/text/format.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"

#define PART_SHARE 0.05 /* of the extra time: less is not worth a word in text */
#define PARTS_SHOWN 4

struct words {
	char text[640];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void put(struct words *words, const char *format, ...)
{
	va_list args;
	int n;

	if (words->length >= sizeof(words->text))
		return;
	va_start(args, format);
	n = vsnprintf(words->text + words->length, sizeof(words->text) - words->length, format,
		      args);
	va_end(args);
	words->length += n > 0 ? (size_t)n : 0;
}

/* Ends the line, if it has words. */
static void print(const struct scene *scene, const struct words *words, FILE *out)
{
	if (!words->length)
		return;
	fputs("    ", out);
	text_wrap(out, words->text, (size_t)scene_layout(scene, 0).width, 4, 6);
}

static void kernels_words(struct words *words, const struct slow_step *step)
{
	size_t n = 0;

	while (n < step->n_kernels && step->kernels[n].extra_ns > PART_SHARE * step->extra_ns)
		n++;
	for (size_t k = 0; k < n; k++)
		put(words, "%s%s +%s%s", k ? ", " : " (", step->kernels[k].name,
		    format_ns(step->kernels[k].extra_ns).text, k + 1 == n ? ")" : "");
}

static void parts_words(struct words *words, const struct slow_step *step,
			const struct slow_part *parts, size_t n)
{
	size_t shown = 0;

	for (size_t i = 0; i < n && shown < PARTS_SHOWN; i++) {
		if (parts[i].extra_ns < PART_SHARE * step->extra_ns)
			break;
		put(words, "%s%s +%s", shown++ ? ", " : "", parts[i].name,
		    format_ns(parts[i].extra_ns).text);
		if (parts == step->device && parts[i].name[0] == 'k')
			kernels_words(words, step);
	}
	if (!shown)
		put(words, "no part alone is longer than usual");
}

static void around(const struct scene *scene, const struct slow_step *step, FILE *out)
{
	const struct slow_steps *slow = answer_slow_steps(scene->answers);
	const struct step_row *row = &answer_steps(scene->answers)->rows[step->row];
	struct words words = { 0 };

	if (step->gap_ns.known && step->gap_ns.v > PART_SHARE * step->extra_ns)
		put(&words, "longest gap of the device: %s, %s after the begin",
		    format_ns(step->gap_ns.v).text, format_ns(step->gap_at_ns.v).text);
	if (step->clock_mhz.known && slow->usual_clock_mhz.known &&
	    fabs(step->clock_mhz.v - slow->usual_clock_mhz.v) > 0.02 * slow->usual_clock_mhz.v)
		put(&words, "%sclock %.0f MHz, usually %.0f", words.length ? "; " : "",
		    step->clock_mhz.v, slow->usual_clock_mhz.v);
	if (step->allocation_ns.known && slow->usual_allocation_ns.known &&
	    step->allocation_ns.v - slow->usual_allocation_ns.v > PART_SHARE * step->extra_ns)
		put(&words, "%sallocating (%" PRIu64 " call%s) %s", words.length ? "; " : "",
		    step->allocation_calls, step->allocation_calls == 1 ? "" : "s",
		    format_ns(step->allocation_ns.v).text);
	if (row->tokens.known && slow->usual_tokens.known &&
	    fabs(row->tokens.v - slow->usual_tokens.v) > 0.02 * slow->usual_tokens.v)
		put(&words, "%s%s tokens, usually %s", words.length ? "; " : "",
		    format_count(row->tokens.v).text, format_count(slow->usual_tokens.v).text);
	print(scene, &words, out);
}

void slow_text(const struct scene *scene, size_t limit, FILE *out)
{
	const struct slow_steps *slow = answer_slow_steps(scene->answers);

	if (!slow->n)
		return;
	scene_title(scene, "Slow steps", out);
	for (size_t i = 0; i < slow->n && i < limit; i++) {
		const struct slow_step *step = &slow->steps[i];
		const struct step_row *row = &answer_steps(scene->answers)->rows[step->row];
		struct words words = { 0 };

		fprintf(out, "  step %" PRId64 " of rank %u: %s, that is +%s (usually %s)\n",
			row->step, row->rank, format_ns((double)row->duration_ns).text,
			format_ns(step->extra_ns).text, format_ns(slow->usual_ns.v).text);
		if (step->device_known.known)
			parts_words(&words, step, step->device, step->n_device);
		print(scene, &words, out);
		words = (struct words){ 0 };
		if (step->phases_known.known) {
			put(&words, "by phase: ");
			parts_words(&words, step, step->phases, step->n_phases);
		} else if (!step->device_known.known) {
			put(&words, "why n/a: %s, and %s", step->device_known.reason,
			    step->phases_known.reason);
		}
		print(scene, &words, out);
		around(scene, step, out);
	}
	if (slow->outliers > (slow->n < limit ? slow->n : limit))
		fprintf(out, "  ... %zu slow steps in all: moescope steps --sort time_ns\n",
			slow->outliers);
}
