/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of the profiler's own cost mean.
 */
#include "subjects/meanings/meanings.h"

static const struct metric overhead[] = {
	{ "overhead_pct", "%",
	  "median difference of neighbouring steps recorded and not recorded / median time of the "
	  "steps not recorded, with a 95% interval.",
	  "measured in the run itself (run --overhead-check)", "n/a with fewer than 8 pairs.",
	  .keys = "measured_pct measured_low_pct measured_high_pct on_median_ns "
		  "off_median_ns pairs" },
	{ "drain_cpu_ns", "ns", "CPU time of the profiler's own thread inside the program.",
	  "measured", "On a machine with idle cores it costs the program nothing.",
	  .keys = "own_cpu_ns own_cpu_pct" },
	{ "device_account_pct", "%",
	  "CUPTI's own overhead + translating records + holding calls + attaching and detaching, "
	  "over the time of the processes.",
	  "measured by the probe and CUPTI", "An account of CPU time, not a slowdown.",
	  .keys = "cupti_ns translate_ns held_ns switch_ns device_account" },
	{ "device_estimate_pct", "%",
	  "cost while collecting device records, weighted by the share of the time in which they "
	  "were collected.",
	  "estimated by the governor from its own measurements",
	  "An estimate (est.); overhead_pct of an overhead check is better evidence." },
	{ "loss", "records",
	  "everything dropped, cut off, damaged or not understood, each cause counted apart.",
	  "counted where it happens", "All zero: nothing was lost. Shown first in every report.",
	  .keys = "unfinished" },
};

const struct metric_group overhead_metrics = { "overhead and loss", METRICS(overhead) };
