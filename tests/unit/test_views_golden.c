/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of a run built by hand against files in tests/golden, byte for byte.
 * MOESCOPE_UPDATE_GOLDEN=1 writes the files instead; look at the difference before keeping it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "exports/exports.h"
#include "fake_comm.h"
#include "fake_counters.h"
#include "fake_h200.h"
#include "fake_slow.h"
#include "fake_windows.h"
#include "golden.h"
#include "json_check.h"
#include "subjects/kernels/kernels.h"
#include "surfaces/views/views.h"

enum form { TEXT, ASCII, WIDE, JSON, CSV, MARKDOWN };

enum which { TRAINING, GPU, WINDOWS, SLOW, H200, COMM, COUNTERS, LIMITS };

static struct run *make_run(enum which which)
{
	return which == TRAINING   ? fake_training_run()
	       : which == GPU	   ? fake_gpu_run()
	       : which == SLOW	   ? fake_slow_run()
	       : which == H200	   ? fake_h200_run()
	       : which == COMM	   ? fake_comm_run()
	       : which == COUNTERS ? fake_counters_run()
	       : which == LIMITS   ? fake_limits_run()
				   : fake_windows_run();
}

static char *rendered(const char *view, enum form form, int layer, enum which which, int kernels_by)
{
	struct view_options options = { .width = form == WIDE ? 120 : 80,
					.utf8 = form != ASCII,
					.json = form == JSON,
					.csv = form == CSV,
					.markdown = form == MARKDOWN,
					.question = QUESTION_ALL };
	struct run *run = make_run(which);
	struct err err = { "" };
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int r;

	options.question.sel.layer = layer;
	options.question.kernels_by = kernels_by;
	r = strcmp(view, "chrome") ? section_render(section_find(view), run, &options, out, &err)
				   : export_chrome(run, out, &err);

	assert_int_equal(r, 0);
	assert_string_equal(err.message, "");
	fclose(out);
	fake_run_free(run);
	return text;
}

static void test_golden(void **state)
{
	static const struct {
		const char *file, *view;
		enum form form;
		int layer;
		enum which which;
		int kernels_by;
	} cases[] = {
		{ "report.txt", "report", TEXT, -1, TRAINING, 0 },
		{ "report-ascii.txt", "report", ASCII, -1, TRAINING, 0 },
		{ "report-120.txt", "report", WIDE, -1, TRAINING, 0 },
		{ "report.json", "report", JSON, -1, TRAINING, 0 },
		{ "report.md", "report", MARKDOWN, -1, TRAINING, 0 },
		{ "dashboard.txt", "dashboard", TEXT, -1, TRAINING, 0 },
		{ "dashboard-ascii.txt", "dashboard", ASCII, -1, TRAINING, 0 },
		{ "dashboard-gpu.txt", "dashboard", TEXT, -1, GPU, 0 },
		{ "dashboard-windows.txt", "dashboard", WIDE, -1, WINDOWS, 0 },
		{ "ops.txt", "ops", TEXT, -1, TRAINING, 0 },
		{ "ops.json", "ops", JSON, -1, TRAINING, 0 },
		{ "ops.csv", "ops", CSV, -1, TRAINING, 0 },
		{ "steps.txt", "steps", TEXT, -1, TRAINING, 0 },
		{ "steps.json", "steps", JSON, -1, TRAINING, 0 },
		{ "requests.txt", "requests", TEXT, -1, TRAINING, 0 },
		{ "requests.json", "requests", JSON, -1, TRAINING, 0 },
		{ "requests.csv", "requests", CSV, -1, TRAINING, 0 },
		{ "requests.md", "requests", MARKDOWN, -1, TRAINING, 0 },
		{ "requests-h200.txt", "requests", TEXT, -1, H200, 0 },
		{ "requests-none.txt", "requests", TEXT, -1, GPU, 0 },
		{ "routing.txt", "routing", TEXT, -1, TRAINING, 0 },
		{ "routing-layer.txt", "routing", TEXT, 1, TRAINING, 0 },
		{ "routing-layer.json", "routing", JSON, 1, TRAINING, 0 },
		{ "routing-layer-0.txt", "routing", WIDE, 0, TRAINING, 0 },
		{ "routing-steps.txt", "routing-steps", TEXT, 1, TRAINING, 0 },
		{ "routing-steps.csv", "routing-steps", CSV, -1, TRAINING, 0 },
		{ "routing-experts.csv", "routing-experts", CSV, 0, TRAINING, 0 },
		{ "routing-pairs.txt", "routing-pairs", TEXT, -1, TRAINING, 0 },
		{ "routing-pairs.csv", "routing-pairs", CSV, -1, TRAINING, 0 },
		{ "routing-k.csv", "routing-k", CSV, -1, TRAINING, 0 },
		{ "memory.txt", "memory", TEXT, -1, TRAINING, 0 },
		{ "memory.json", "memory", JSON, -1, TRAINING, 0 },
		{ "chrome.json", "chrome", JSON, -1, TRAINING, 0 },
		{ "kernels-none.txt", "kernels", TEXT, -1, TRAINING, 0 },
		{ "kernels-none.json", "kernels", JSON, -1, TRAINING, 0 },
		{ "kernels.txt", "kernels", TEXT, -1, GPU, KERNELS_BY_NAME },
		{ "kernels.json", "kernels", JSON, -1, GPU, KERNELS_BY_NAME },
		{ "kernels.md", "kernels", MARKDOWN, -1, GPU, KERNELS_BY_NAME },
		{ "kernels.csv", "kernels", CSV, -1, GPU, KERNELS_BY_NAME },
		{ "kernels-range.txt", "kernels", TEXT, -1, GPU, KERNELS_BY_RANGE },
		{ "kernels-range.json", "kernels", JSON, -1, GPU, KERNELS_BY_RANGE },
		{ "kernels-expert.json", "kernels", JSON, -1, GPU, KERNELS_BY_EXPERT },
		{ "kernels-stream.txt", "kernels", TEXT, 1, GPU, KERNELS_BY_STREAM },
		{ "api.txt", "api", TEXT, -1, GPU, 0 },
		{ "api.json", "api", JSON, -1, GPU, 0 },
		{ "transfers.txt", "transfers", TEXT, -1, GPU, 0 },
		{ "transfers.json", "transfers", JSON, -1, GPU, 0 },
		{ "counters.txt", "counters", WIDE, -1, COUNTERS, 0 },
		{ "report-counters.txt", "report", TEXT, -1, COUNTERS, 0 },
		{ "counters.json", "counters", JSON, -1, COUNTERS, 0 },
		{ "counters.csv", "counters", CSV, -1, COUNTERS, 0 },
		{ "counters-none.txt", "counters", TEXT, -1, GPU, 0 },
		{ "counters-kernels.txt", "counters-kernels", TEXT, -1, LIMITS, 0 },
		{ "counters-kernels.json", "counters-kernels", JSON, -1, LIMITS, 0 },
		{ "counters-kernels.csv", "counters-kernels", CSV, -1, LIMITS, 0 },
		{ "counters-kernels-none.txt", "counters-kernels", TEXT, -1, GPU, 0 },
		{ "counters-stalls.txt", "counters-stalls", TEXT, -1, LIMITS, 0 },
		{ "counters-stalls.json", "counters-stalls", JSON, -1, LIMITS, 0 },
		{ "counters-lines.txt", "counters-lines", TEXT, -1, LIMITS, 0 },
		{ "counters-lines.json", "counters-lines", JSON, -1, LIMITS, 0 },
		{ "counters-lines.csv", "counters-lines", CSV, -1, LIMITS, 0 },
		{ "counters-lines-none.txt", "counters-lines", TEXT, -1, GPU, 0 },
		{ "report-limits.txt", "report", TEXT, -1, LIMITS, 0 },
		{ "comm.txt", "comm", TEXT, -1, COMM, 0 },
		{ "comm.json", "comm", JSON, -1, COMM, 0 },
		{ "comm.csv", "comm", CSV, -1, COMM, 0 },
		{ "moe.txt", "moe", TEXT, -1, COMM, 0 },
		{ "moe.json", "moe", JSON, -1, COMM, 0 },
		{ "moe.csv", "moe", CSV, -1, COMM, 0 },
		{ "moe-none.txt", "moe", TEXT, -1, GPU, 0 },
		{ "comm-none.txt", "comm", TEXT, -1, GPU, 0 },
		{ "report-comm.txt", "report", TEXT, -1, COMM, 0 },
		{ "efficiency.txt", "efficiency", TEXT, -1, TRAINING, 0 },
		{ "efficiency.json", "efficiency", JSON, -1, TRAINING, 0 },
		{ "efficiency-gpu.txt", "efficiency", TEXT, -1, GPU, 0 },
		{ "efficiency-gpu.json", "efficiency", JSON, -1, GPU, 0 },
		{ "efficiency-h200.txt", "efficiency", TEXT, -1, H200, 0 },
		{ "efficiency-h200.json", "efficiency", JSON, -1, H200, 0 },
		{ "memory-h200.txt", "memory", TEXT, -1, H200, 0 },
		{ "memory-h200.json", "memory", JSON, -1, H200, 0 },
		{ "kernels-h200.txt", "kernels", TEXT, -1, H200, KERNELS_BY_NAME },
		{ "report-h200.txt", "report", TEXT, -1, H200, 0 },
		{ "memory-gpu.txt", "memory", TEXT, -1, GPU, 0 },
		{ "memory-gpu.json", "memory", JSON, -1, GPU, 0 },
		{ "report-gpu.txt", "report", TEXT, -1, GPU, 0 },
		{ "report-gpu.json", "report", JSON, -1, GPU, 0 },
		{ "ops-gpu.txt", "ops", TEXT, -1, GPU, 0 },
		{ "ops-gpu.csv", "ops", CSV, -1, GPU, 0 },
		{ "report-windows.txt", "report", TEXT, -1, WINDOWS, 0 },
		{ "report-windows.json", "report", JSON, -1, WINDOWS, 0 },
		{ "kernels-windows.txt", "kernels", TEXT, -1, WINDOWS, KERNELS_BY_RANGE },
		{ "kernels-step.txt", "kernels", TEXT, -1, WINDOWS, KERNELS_BY_STEP },
		{ "kernels-step.json", "kernels", JSON, -1, WINDOWS, KERNELS_BY_STEP },
		{ "kernels-graph.txt", "kernels", TEXT, -1, WINDOWS, KERNELS_BY_GRAPH },
		{ "steps-windows.txt", "steps", TEXT, -1, WINDOWS, 0 },
		{ "memory-windows.txt", "memory", TEXT, -1, WINDOWS, 0 },
		{ "report-slow.txt", "report", TEXT, -1, SLOW, 0 },
		{ "report-slow.json", "report", JSON, -1, SLOW, 0 },
		{ "steps-slow.txt", "steps", TEXT, -1, SLOW, 0 },
		{ "routing-slow.txt", "routing", TEXT, -1, SLOW, 0 },
		{ "memory-windows.json", "memory", JSON, -1, WINDOWS, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = rendered(cases[i].view, cases[i].form, cases[i].layer, cases[i].which,
				      cases[i].kernels_by);

		print_message("%s\n", cases[i].file);
		if (cases[i].form == JSON)
			assert_true(json_check(text));
		golden_compare(cases[i].file, text);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
