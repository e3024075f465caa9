/* SPDX-License-Identifier: Apache-2.0
 *
 * What the numbers above subjects mean, and all definitions by group; see metrics.h.
 */
#include "cmd/definitions/metrics.h"

#include <stdbool.h>
#include <string.h>

#define COVERED_STEPS "Mean over the steps that device records cover wholly, and over the ranks."
#define TWO_SIDES "derived from the figures of both sides"

static const struct metric verdict[] = {
	{ "gain_pct", "%",
	  "est.: the time that a verdict is about, as a share of the time of the steps (without "
	  "steps, of the devices' windows), that is won if its assumption holds.",
	  "estimated from measured times",
	  "From 20 on the verdict is critical, from 5 on a warning, else a note." },
	{ "gpu_starved", "%",
	  "idle time of the devices by what they wait for: launches (the cause launch, and gaps of at "
	  "most 50 us of the cause host), data (a thread that makes a tenth of the calls or more is "
	  "in a range of phase data), synchronisation (also blocking copies of less than 64 KiB), and "
	  "the rest of the host.",
	  FROM_DEVICE ", of calls and ranges",
	  "Of the steady part, only what records cover; means over the devices.",
	  .keys = "idle_data_pct idle_host_in_long_gaps_pct idle_sync_pct "
		  "idle_launch_or_in_short_gaps_pct idle_queued_pct idle_unknown_pct" },
	{ "steady_part", "ns",
	  "what verdicts about devices judge: from the first step that is not longer than 1.5 medians "
	  "and than nine in ten of the later ones to the last step; without steps, what is left when "
	  "time with at most 5% of the kernels' time and long gaps is cut off at both ends, and long "
	  "gaps are taken out in which code was loaded or a graph made (up to 8), or after which a "
	  "recorded program runs a kernel for the first time.",
	  FROM_DEVICE ", of calls and steps",
	  "A long gap is a 256th of the window or more. Less than 10% or 50 ms is not cut. The verdict "
	  "slow-start says what was left out; with chosen steps nothing is.",
	  .keys = "judged_ns aside_ns preparing_code_ns" },
	{ "copies_alone_pct", "%",
	  "time in which a device only copies, or is idle and waits on a copy.", FROM_DEVICE,
	  "The gain is at most the time of kernels that the copies could hide behind, unless most "
	  "of them are pageable." },
	{ "clock_throttled", "%",
	  "est.: (1 - mean SM clock / the device's maximum) * share of the time with kernels, where "
	  "samples of a working device name the power or thermal limit.",
	  "NVML samples in the time of the steps",
	  "Assumes that kernels take longer by as much as the clock is lower." },
};

static const struct metric_group verdict_metrics = { "verdicts", METRICS(verdict) };

static const struct metric comparison[] = {
	{ "run_time", "ns",
	  "from the first to the last device record, call, range or operation of a process, mean "
	  "over the processes.",
	  "derived from all records",
	  "compare shows it where a run has no steps, and so whole runs are compared." },
	{ "call_ns", "ns",
	  "mean device time of one execution (of operations: self time), tested over all "
	  "executions: call_baseline_ns, call_pct, call_low_pct, call_high_pct, call_p, "
	  "call_verdict.",
	  TWO_SIDES,
	  "Executions of one run: what differs from run to run is not in the interval. A name "
	  "whose executions have different sizes varies by that.",
	  .keys = "call_baseline_ns call_pct call_low_pct call_high_pct call_p "
		  "call_verdict" },
	{ "step_time_mean", "ns", "mean of the step times.", "derived from the step times",
	  "compare shows it beside step_time, which is there the median: a few slow steps move "
	  "the mean alone." },
	{ "phase_time", "ns", "wall time of a phase in a step, mean over the steps.",
	  "measured by the ranges that name a phase" },
	{ "gpu_busy_pct", "%", "gpu_busy of a step over its time, mean over the devices.",
	  FROM_DEVICE, COVERED_STEPS },
	{ "idle_time", "ns", "gpu_idle of a step by cause, mean over the devices.", FROM_DEVICE,
	  COVERED_STEPS " A gap is cut where the step begins and ends." },
	{ "kernel_count", "kernels", "kernels launched in a step.", FROM_DEVICE, COVERED_STEPS },
	{ "api_time", "ns", "time in recorded CUDA calls that began in a step.", FROM_DEVICE,
	  COVERED_STEPS " Sum over the threads." },
	{ "copy_time", "ns", "device time of the copies launched in a step.", FROM_DEVICE,
	  COVERED_STEPS },
	{ "copy_bytes", "bytes", "bytes of the copies launched in a step.", FROM_DEVICE,
	  COVERED_STEPS },
	{ "difference", "as the metric",
	  "value - baseline; difference_pct is 100 * difference / baseline.", TWO_SIDES,
	  "Percent are n/a where the baseline is 0, their interval where it may be.",
	  .keys = "difference_pct" },
	{ "interval", "as the metric, %",
	  "95% confidence interval of the difference (difference_low, difference_high, low_pct, "
	  "high_pct) or of the value (value_low, value_high): over runs by Welch's t where both "
	  "sides have 3 or more, else over steps. Of means by Welch's t with the effective number "
	  "of steps, of medians by bootstrap with a fixed seed.",
	  TWO_SIDES,
	  "n steps count as n / (1 + 2 r1 / (1 - phi)), r1 and phi from their autocorrelation at "
	  "lags 1 and 2. Over steps it leaves out what differs from run to run.",
	  .keys = "difference_low difference_high low_pct high_pct value_low value_high" },
	{ "p", "0..1",
	  "probability of a difference as large by chance alone: Welch's t test with the effective "
	  "number of steps, for medians on the ranks of all figures. p_adjusted is that of "
	  "Benjamini and Hochberg over the rows of one metric, or all kernels or operations.",
	  TWO_SIDES, "n/a where neither side varies at all.", .keys = "p_adjusted" },
	{ "visible", "as the metric, %",
	  "the smallest difference that would have been found 4 times in 5; visible_pct is at "
	  "least 0.5.",
	  TWO_SIDES, "What is noise may still be a difference smaller than this.",
	  .keys = "visible_pct" },
	{ "verdict", "word",
	  "better or worse (faster, slower): the interval leaves out 0, p_adjusted is at most 0.05 "
	  "and the difference is more than 0.5%. Else noise. same: nothing differs or varies. "
	  "untested: too few figures.",
	  TWO_SIDES },
	{ "explains_pct", "%",
	  "100 * difference of the row's time a step / difference of step_time_mean; of whole "
	  "runs difference of the row's time / difference of kernel_time.",
	  TWO_SIDES,
	  "n/a when the step times differ by noise only. Kernels and threads that run side by side "
	  "add up to more than 100." },
};

static const struct metric_group comparison_metrics = { "comparison", METRICS(comparison) };

static const struct metric experiment[] = {
	{ "inference_time", "s",
	  "of a repeat: its last answer - its first request; mean over the repeats.",
	  "measured by the engine or the load client", "Loading and warm-up do not count." },
	{ "tokens_per_second", "1/s",
	  "tokens generated by all repeats / sum of their times; training: tokens trained on.",
	  "measured by the engine or the load client", "Never from max_tokens." },
	{ "estimated_bytes", "bytes",
	  "weights + keys and values of the batch + activations + gradients and moments, from the "
	  "sizes in the model's configuration, on one GPU.",
	  "derived from config.json",
	  "Activations are a rough bound; a token of the prompt is taken to be a byte." },
	{ "measured_to_estimated", "ratio",
	  "measured_peak_bytes / estimated_bytes; measured by the trace, else the largest resident "
	  "set of a process.",
	  "derived from the trace or the kernel's account",
	  "A resident set holds libraries, too." },
	{ "throughput_per_gpu", "1/s",
	  "tokens_per_second / GPUs; GPUs = tensor_parallel_size * pipeline_parallel_size * "
	  "data_parallel_size, or nodes * processes where a launcher starts more processes than that.",
	  "derived from tokens_per_second",
	  "A process counts as a GPU, also where several share one.",
	  .keys = "tokens_per_second_per_gpu" },
	{ "request_latency", "ms",
	  "median (p50) and 99th percentile (p99) over the requests of an experiment of TTFT (time to "
	  "first token), TPOT (time per output token), ITL (inter-token latency) and E2EL (end to "
	  "end).",
	  "measured per request and piece",
	  "Each word as the experiment's dialect defines it; its formula is in the JSON.",
	  .keys = "ttft_p50_ms ttft_p99_ms tpot_p50_ms tpot_p99_ms itl_p50_ms itl_p99_ms "
		  "e2el_p50_ms e2el_p99_ms" },
	{ "peak_memory", "bytes", "largest memory use measured in an experiment.",
	  "the trace's allocations, or the largest process's resident set",
	  "metrics.json says which of the two.", .keys = "peak_memory_bytes" },
	{ "token_cost", "the price's currency",
	  "of a million output tokens: price_per_hour / 3600 / tokens_per_second * 1,000,000.",
	  "derived from tokens_per_second", "n/a without price_per_hour, and of training.",
	  .keys = "cost_per_million_output_tokens" },
	{ "scaling_efficiency", "%",
	  "100 * (tokens_per_second / value) / the same of the smallest value of the parameter that "
	  "succeeded while the others stay.",
	  "derived from tokens_per_second", "100 is linear scaling.", .keys = "efficiency_pct" },
	{ "scaling_exponent", "ratio",
	  "b of metric = c * parameter^b by least squares through the logarithms; r2 is the share of "
	  "the variance that this explains.",
	  "derived from three configurations or more that differ in one parameter",
	  "A fit through what was measured, not a forecast.", .keys = "exponent r2" },
	{ "pareto", "configurations",
	  "those that no other one beats in both tokens_per_second and latency (TPOT p50, else E2EL "
	  "p50, else inference_time).",
	  "derived from the means", "By the means alone: neighbours may differ by noise." },
};

static const struct metric_group experiment_metrics = { "experiments", METRICS(experiment) };

const struct metric_group *const metric_groups[] = {
	&routing_metrics,
	&timeline_metrics,
	&counters_metrics,
	&comm_metrics,
	&work_metrics,
	&steps_metrics,
	&inference_metrics,
	&memory_metrics,
	&verdict_metrics,
	&overhead_metrics,
	&comparison_metrics,
	&experiment_metrics,
	NULL,
};

static bool has_word(const char *words, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = words; at && *at; at += strspn(at, " ")) {
		size_t n = strcspn(at, " ");

		if (n == length && !memcmp(at, word, n))
			return true;
		at += n;
	}
	return false;
}

const struct metric *metric_find(const char *name, const struct metric_group **ret_group)
{
	for (const struct metric_group *const *g = metric_groups; *g; g++) {
		for (size_t i = 0; i < (*g)->n; i++) {
			const struct metric *metric = &(*g)->metrics[i];

			if (!strcmp(metric->name, name) || has_word(metric->keys, name)) {
				if (ret_group)
					*ret_group = *g;
				return metric;
			}
		}
	}
	return NULL;
}
