/* SPDX-License-Identifier: Apache-2.0
 *
 * The report: every analysis, then its text or its JSON.
 */
#include <errno.h>

#include "present/frame/whole_views.h"

int view_report(const struct run *run, const struct present_options *options, FILE *out,
		struct err *err)
{
	struct findings findings;
	struct verdicts verdicts;
	struct answers answers = { &findings };
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
	r = scene_analyze(run, options, FIND_ALL | FIND_COUNTERS, &findings, err);
	if (r < 0)
		return r;
	r = verdicts_analyze(run, &findings, &verdicts);
	if (r >= 0) {
		r = options->json ? report_json(&scene, &verdicts, out, err)
				  : report_text(&scene, &verdicts, out);
		verdicts_release(&verdicts);
	}
	findings_release(&findings);
	if (r == -ENOMEM)
		err_sys(err, r, "cannot make the report of '%s'", run->info.name);
	return r;
}
