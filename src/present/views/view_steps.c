/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps: their statistics, phases, and one row each.
 */
#include <inttypes.h>

#include "base/text/format.h"
#include "present/frame/scene.h"
#include "present/views/slow_text.h"
#include "subjects/shared/coverage.h"
#include "subjects/steps/device_phases.h"
#include "subjects/steps/slow_steps.h"
#include "subjects/steps/steps.h"

static unsigned int form(const struct scene *scene)
{
	return steps_form(answer_steps(scene->answers));
}

static int text(const struct scene *scene, const struct grid *grid, FILE *out)
{
	const struct steps *s = answer_steps(scene->answers);
	struct text_layout layout = scene_layout(scene, 2);
	size_t limit = scene->options->limit;
	int r;

	if (!grid->n) {
		fputs(run_is_foreign(scene->run)
			      ? "  no steps in this run or window: the imported file marks none, "
				"and no kernels repeat clearly enough\n"
			      : "  no steps in this run or window: the program marks them with "
				"moescope_step()\n",
		      out);
		return 0;
	}
	if (s->all.n)
		fprintf(out, "  %zu steps  mean %s  p50 %s  p95 %s  p99 %s  cv %s\n",
			s->n - s->n_unfinished, format_ns(s->all.mean).text,
			format_ns(s->all.p50).text, format_ns(s->all.p95).text,
			format_ns(s->all.p99).text, format_pct(100 * s->all.cv).text);
	scene_steps_source(scene, 2, out);
	if (s->n_phased) {
		fputs("  ", out);
		scene_phase_bar(scene, layout.width - 4, out);
		scene_phase_legend(scene, 2, out);
	}
	fputc('\n', out);
	r = grid_print(grid, limit, &layout, out);
	scene_more(limit && limit < grid->n ? limit : grid->n, grid->n, out);
	fprintf(out, "  All finished steps count; %zu of them are outliers", s->n_outliers);
	if (s->outlier_limit_ns.known)
		fprintf(out, " (over %s)", format_ns(s->outlier_limit_ns.v).text);
	fputs(".\n", out);
	if (s->n_not_recorded)
		fprintf(out, "  %zu steps were not recorded; only their time is known.\n",
			s->n_not_recorded);
	if (s->n_set_up)
		fputs("  The set-up of the program is in the time of its first step, which is in no "
		      "statistic; moescope_start() where the loop begins leaves it out.\n",
		      out);
	if (s->n_unfinished)
		fprintf(out, "  %zu steps were cut by the end of the process.\n", s->n_unfinished);
	slow_text(scene, SLOW_STEPS, out);
	return r;
}

const struct section section_steps = {
	.name = "steps",
	.sql = "step_times",
	.reads = READS(&subject_steps, &subject_slow_steps, &subject_device_phases,
		       &subject_coverage),
	.device = true,
	.subject = &subject_steps,
	.rows = &steps_fields,
	.form = form,
	.total = &steps_total,
	.text = text,
};
