/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers of steps and of requests mean.
 */
#include "subjects/meanings/meanings.h"

static const struct metric steps[] = {
	{ "step_time", "ns",
	  "end - begin of a step: mean, p50, p95, p99, min, max and coefficient of variation.",
	  "measured",
	  "Percentiles interpolate linearly between order statistics; deviations are population. A "
	  "first step that began when the library was loaded has set-up in it and is left out.",
	  .keys = "step_time_ns time_ns" },
	{ "step_source", "word",
	  "who marked the steps: the program; the name of a range (vLLM's execute_*, SGLang's "
	  "step[...], ATOM's prefill[...] and decode[...]), which also gives stage, batch and "
	  "tokens; or nobody, and they were found by repetition of a kernel (found_by).",
	  "names of ranges; estimated where by repetition",
	  "By repetition (est.): kernels that come once in each turn of the outermost loop of a "
	  "stream, four times or more; only where weights are changed in a turn or it is made of "
	  "layers. The last turn is left out, for its end is unknown.",
	  .keys = "source found_by stage batch" },
	{ "step_cv", "ratio", "population standard deviation of the step times / their mean.",
	  "derived from the step times", "Above 0.1 the steps vary more than they usually do." },
	{ "step_outlier", "yes or no",
	  "a step much longer than the others; the limit is shown with the steps.",
	  "derived from the step times", "Outliers count in every mean: they are only named.",
	  .keys = "outlier outliers outlier_limit_ns" },
	{ "phase_share_pct", "%",
	  "share of the step's time inside forward, backward, optimizer and data ranges; "
	  "'other' is the rest.",
	  "derived from ranges that name a phase; where one lies in another, from the innermost",
	  "Usual: forward 35-40, backward 40-45, optimizer below 15, data below 10.",
	  .keys = "forward_ns backward_ns optimizer_ns data_ns phases" },
	{ "device_phases", "ns",
	  "time of the devices in steps by phase: each moment from a step's begin to the end of its "
	  "last work belongs to the phase in which the work that runs, or the work that comes next, "
	  "was launched.",
	  "derived from device records, calls and ranges, over up to 64 steps, evenly spread",
	  "What CUDA events around the phases show. The host's phases say little of it: it runs "
	  "ahead of its devices." },
	{ "tokens_per_s", "1/s", "tokens of the steps / their time.",
	  "derived from the tokens the program gives with each step",
	  "n/a when the program gives none; never from a configured batch size." },
	{ "slow_step", "ns",
	  "extra time of an outlier: its time less the mean of up to 16 usual steps, nearest to the "
	  "median; by what the device did (kernels, copies without kernels, idle by cause) and by "
	  "phase, each less its mean in the usual steps.",
	  "derived from the steps, device records and ranges",
	  "The parts of the device add up to the extra time; n/a where records do not cover it.",
	  .keys = "allocation_ns gap_at_ns slow usual gap_ns" },
};

const struct metric_group steps_metrics = { "steps", METRICS(steps) };

static const struct metric inference[] = {
	{ "ttft", "ns", "time to first token: first token - begin of the request.",
	  "measured per token", "Never includes loading the model.", .keys = "ttft_ns" },
	{ "tpot", "ns",
	  "time per output token: (last token - first token) / (tokens - 1) of a request.",
	  "derived from per-token times", "n/a for requests of one token.", .keys = "tpot_ns" },
	{ "itl", "ns", "inter-token latency: time between consecutive tokens of a request.",
	  "measured per token", .keys = "itl_ns" },
	{ "request_tokens_per_s", "1/s",
	  "tokens produced / time from the begin of the request to its last token.",
	  "derived from per-token times", "Never from max_tokens." },
	{ "prefill", "ns",
	  "time in which at least one request is between its begin and its first token; tokens/s "
	  "are prompt tokens over it.",
	  "derived from per-token times",
	  "Waiting in a queue counts: range_ns and device_ns say what was worked." },
	{ "decode", "ns",
	  "time in which at least one request is between its first and its last token; tokens/s "
	  "are tokens after the first over it.",
	  "derived from per-token times", "Never from max_tokens." },
};

const struct metric_group inference_metrics = { "inference", METRICS(inference) };
