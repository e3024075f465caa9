/* SPDX-License-Identifier: Apache-2.0
 *
 * The report: every subject, then its text or its JSON.
 */
#include <errno.h>

#include "present/frame/whole_views.h"

static size_t ask(const struct run *run, const struct present_options *options,
		  struct asked *ret_asked)
{
	(void)run;
	*ret_asked = section_asked(&section_report, options);
	ret_asked->question.no_launches = true;
	return 1;
}

static int render(const struct run *run, const struct present_options *options, FILE *out,
		  struct err *err)
{
	struct asked asked;
	struct verdicts verdicts;
	struct answers answers;
	struct scene scene = { run, options, &answers };
	int r;

	if (options->csv)
		return err_set(err, -EINVAL,
			       "the report is not one table; ask for kernels, ops, api, steps, "
			       "routing, transfers, memory or efficiency as CSV");
	if (options->sort)
		return err_set(
			err, -EINVAL,
			"the report cannot be sorted; ask for kernels, ops, api, steps, routing, "
			"transfers, memory or efficiency");
	ask(run, options, &asked);
	r = scene_compute(run, options, &asked, 1, &answers, err);
	if (r < 0)
		return r;
	r = verdicts_analyze(run, &answers, &verdicts);
	if (r >= 0) {
		r = options->json ? report_json(&scene, &verdicts, out, err)
				  : report_text(&scene, &verdicts, out);
		verdicts_release(&verdicts);
	}
	answers_release(&answers);
	if (r == -ENOMEM)
		err_sys(err, r, "cannot make the report of '%s'", run->info.name);
	return r;
}

/* It reads every subject: its sections and the rules of its verdicts declare what each of them does. */
const struct section section_report = {
	.name = "report",
	.reads = subjects_all,
	.routed_tokens = true,
	.kinds = WANT_ALL,
	.ask = ask,
	.render = render,
};
