/* SPDX-License-Identifier: Apache-2.0
 *
 * Bars and heat strips in text, with block characters or plain ASCII; see scene.h.
 */
#include <inttypes.h>
#include <math.h>

#include "base/text/format.h"
#include "moescope.h"
#include "present/frame/scene.h"
#include "subjects/steps/steps.h"

void scene_bar(const struct scene *scene, double share, int width, FILE *out)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	int units;

	if (!(share > 0))
		return;
	if (!scene->options->utf8) {
		for (int i = 0; i < (int)lround(fmin(share, 1) * width); i++)
			fputc('#', out);
		return;
	}
	units = (int)lround(fmin(share, 1) * width * 8);
	for (int i = 0; i < units / 8; i++)
		fputs("█", out);
	fputs(eighths[units % 8], out);
}

void scene_heat(const struct scene *scene, double load_to_mean, FILE *out)
{
	static const char *const heights[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char letters[] = " .:-=+*%@";
	bool color = scene->options->color;
	enum text_style style = load_to_mean > 1.5   ? TEXT_RED
				: load_to_mean < 0.5 ? TEXT_YELLOW
						     : TEXT_GREEN;
	/* Height 4 of 8 is the mean, 8 is twice it or more; only zero is empty. */
	int level = load_to_mean <= 0 ? 0 : (int)lround(load_to_mean * 4);

	level = load_to_mean > 0 && level < 1 ? 1 : level > 8 ? 8 : level;
	fputs(text_style_on(style, color), out);
	if (scene->options->utf8)
		fputs(level ? heights[level] : "·", out);
	else
		fputc(level ? letters[level] : '_', out);
	fputs(text_style_off(style, color), out);
}

int scene_heat_strip(const struct scene *scene, const uint64_t *n, uint32_t experts, double mean,
		     int width, FILE *out)
{
	uint32_t per_column = (experts + (uint32_t)width - 1) / (uint32_t)width;
	int used = 0;

	for (uint32_t e = 0; e < experts; e += per_column) {
		uint64_t largest = 0;

		for (uint32_t i = e; i < experts && i < e + per_column; i++)
			largest = n[i] > largest ? n[i] : largest;
		scene_heat(scene, mean > 0 ? (double)largest / mean : 0, out);
		used++;
	}
	return used;
}

/* Order and characters of the phases in a bar; the rest is other. */
static const struct phase_mark {
	unsigned int phase;
	const char *block;
	char letter;
	enum text_style style;
} marks[] = {
	{ MOESCOPE_DATA, "░", 'D', TEXT_YELLOW },
	{ MOESCOPE_FORWARD, "█", 'F', TEXT_GREEN },
	{ MOESCOPE_BACKWARD, "▓", 'B', TEXT_CYAN },
	{ MOESCOPE_RECOMPUTE, "▚", 'R', TEXT_CYAN },
	{ MOESCOPE_OPTIMIZER, "▒", 'O', TEXT_PLAIN },
	{ MOESCOPE_PREFILL, "▙", 'P', TEXT_GREEN },
	{ MOESCOPE_DECODE, "▞", 'd', TEXT_CYAN },
	{ MOESCOPE_EVALUATION, "▤", 'E', TEXT_PLAIN },
	{ 0, "·", '.', TEXT_DIM },
};

#define N_MARKS (sizeof(marks) / sizeof(marks[0]))

static void put_mark(const struct scene *scene, const struct phase_mark *mark, FILE *out)
{
	if (scene->options->utf8)
		fputs(mark->block, out);
	else
		fputc(mark->letter, out);
}

void scene_phase_bar(const struct scene *scene, int width, FILE *out)
{
	const struct steps *s = answer_steps(scene->answers);
	bool color = scene->options->color;
	double done = 0;
	int column = 0;

	for (size_t i = 0; s->n_phased && i < N_MARKS; i++) {
		int end;

		done += s->phase_pct[marks[i].phase].v;
		end = (int)lround(done / 100 * width);
		fputs(text_style_on(marks[i].style, color), out);
		for (; column < end; column++)
			put_mark(scene, &marks[i], out);
		fputs(text_style_off(marks[i].style, color), out);
	}
	fputc('\n', out);
}

void scene_phase_legend(const struct scene *scene, int indent, FILE *out)
{
	const struct steps *s = answer_steps(scene->answers);
	int width = scene_layout(scene, 0).width, column = indent;
	bool color = scene->options->color;

	fprintf(out, "%*s", indent, "");
	for (size_t i = 0; s->n_phased && i < N_MARKS; i++) {
		double pct = s->phase_pct[marks[i].phase].v;
		char words[48];
		int n;

		if (marks[i].phase && s->phase_ns[marks[i].phase] <= 0)
			continue;
		n = snprintf(words, sizeof(words), " %s %.*f%%",
			     marks[i].phase ? phase_name(marks[i].phase) : "other",
			     fabs(pct) < 9.95 ? 1 : 0, pct);
		if (column > indent && column + 3 + n > width) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		}
		fputs(column > indent ? "  " : "", out);
		column += (column > indent ? 2 : 0) + 1 + n;
		fputs(text_style_on(marks[i].style, color), out);
		put_mark(scene, &marks[i], out);
		fprintf(out, "%s%s", text_style_off(marks[i].style, color), words);
	}
	fputc('\n', out);
}
