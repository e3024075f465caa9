/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about what the devices wait for, over the time of the steps (device_use.h). See rules.h.
 */
#include "subjects/api/api_calls.h"
#include "subjects/comm/comm.h"
#include "subjects/device/device_use.h"
#include "subjects/kernels/kernels.h"
#include "subjects/transfers/transfers.h"
#include "verdicts/rules.h"

#include <string.h>

#define SPEAK_PCT 5.0 /* of the time; less is not worth a line */
#define BUSY_PCT 80.0
#define MOST_IDLE_PCT 50.0
#define MOST 0.5 /* of the copies, for a word about them */
#define STAGED_SHARE 0.25
#define LIMITED_PCT 10.0
#define CLOCK_LOSS 0.03
#define LOCKED_LOSS 0.10 /* without a limit: clocks that somebody has set, not a moment of boost */
#define DRAM_PCT 60.0	 /* of the peak, on average: few programs do more */

static double pct(const struct device_use *use, double ns)
{
	return 100 * ns / use->window_ns;
}

/* What the shares are of: 'Devices' in a report has those of the whole run. */
static const char *time_of(const struct device_use *use)
{
	return use->cut		     ? "the steady part"
	       : use->starting_steps ? "the steady steps"
	       : use->of_steps	     ? "the time of the steps"
				     : "the time";
}

static bool judged(const struct device_use *use)
{
	return use->devices && !use->no_steady;
}

/* The time in question, if it is worth a word. */
static bool speaks(const struct answers *a, double ns)
{
	return judged(answer_device_use(a)) && pct(answer_device_use(a), ns) >= SPEAK_PCT;
}

static void busy_evidence(struct verdict *v, const struct device_use *use, const char *key,
			  double ns)
{
	rule_evidence(v, key, EVIDENCE_PCT, pct(use, ns));
	rule_evidence(v, "busy_pct", EVIDENCE_PCT, pct(use, use->busy_ns));
}

/* Time of the window per step and device. */
static void per_step(struct verdict *v, const struct answers *a, const char *key, double ns)
{
	if (answer_device_use(a)->step_ns > 0 && answer_device_use(a)->window_ns > 0)
		rule_evidence(v, key, EVIDENCE_NS,
			      ns / answer_device_use(a)->window_ns * answer_device_use(a)->step_ns);
}

/* Programs on one device take turns: then it is not told who waits for whom. */
static void others_evidence(struct verdict *v, const struct device_use *use)
{
	if (use->others)
		rule_evidence(v, "other_processes", EVIDENCE_COUNT, (double)use->others);
}

bool rule_gpu_starved_data(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);

	if (!speaks(a, use->data_ns))
		return false;
	TITLE(v, "the GPU waits for data %.0f%% of %s", pct(use, use->data_ns), time_of(use));
	busy_evidence(v, use, "idle_data_pct", use->data_ns);
	per_step(v, a, "idle_per_step_ns", use->data_ns);
	rule_when_span(run, v, "the longest wait for data", "kernels", &use->longest_data);
	rule_gain(v, pct(use, use->data_ns), "each batch is ready when the GPU needs it");
	ADVICE(v, "Load ahead in workers (DataLoader num_workers, prefetch_factor), pinned and "
		  "non_blocking; move decoding and tokenising out of the loop or into a cache.");
	return true;
}

/* Stacks are taken by the profiler on the host, at every operation. */
static bool took_stacks(const struct run *run)
{
	for (size_t i = 0; i < run->op.n; i++)
		if (run->op.stack[i])
			return true;
	return false;
}

bool rule_gpu_starved_host(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);

	if (!speaks(a, use->host_ns))
		return false;
	/* Only what the host does most of the time binds the run to it. */
	TITLE(v, "the GPU waits for the host %.0f%% of %s%s", pct(use, use->host_ns), time_of(use),
	      use->others ? ", and other processes use it too"
	      : use->host_ns + use->launch_ns > use->window_ns / 2 ? ": the run is CPU-bound"
								   : "");
	busy_evidence(v, use, "idle_host_in_long_gaps_pct", use->host_ns);
	per_step(v, a, "idle_per_step_ns", use->host_ns);
	rule_when_span(run, v, "the longest wait for the host", "kernels",
		       &use->longest_idle[IDLE_HOST]);
	others_evidence(v, use);
	rule_gain(v, pct(use, use->host_ns), "the host always has the next launch queued");
	if (use->others)
		ADVICE(v, "Measure it alone on the device first: other processes there also delay "
			  "the host. Then move host code out of the step: logging, metrics, "
			  "Python loops.");
	else if (took_stacks(run))
		ADVICE(v, "Measure it without stacks first (with_stack=False): taking them costs "
			  "host time too. Then move host code out of the step: logging, metrics, "
			  "Python loops; a larger batch hides more of it.");
	else
		ADVICE(v,
		       "Move host code out of the step: logging, metrics, Python loops, data work "
		       "without a range of phase data. 'moescope ops' shows the host's time; a "
		       "larger batch hides more of it.");
	return true;
}

bool rule_gpu_starved_sync(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);
	uint64_t syncs = 0, copies = 0;

	if (!speaks(a, use->sync_ns))
		return false;
	for (size_t i = 0; i < answer_api_calls(a)->n; i++) {
		const char *name = run_string(run, answer_api_calls(a)->rows[i].name);

		syncs += strstr(name, "Synchronize") ? answer_api_calls(a)->rows[i].count : 0;
		copies += strstr(name, "Memcpy") && !strstr(name, "Async")
				  ? answer_api_calls(a)->rows[i].count
				  : 0;
	}
	TITLE(v, "the GPU idles %.0f%% of %s after synchronisations", pct(use, use->sync_ns),
	      time_of(use));
	busy_evidence(v, use, "idle_sync_pct", use->sync_ns);
	per_step(v, a, "idle_per_step_ns", use->sync_ns);
	rule_when_span(run, v, "the longest gap after a synchronisation", "kernels",
		       &use->longest_idle[IDLE_SYNC]);
	if (syncs)
		rule_evidence(v, "synchronisations", EVIDENCE_COUNT, (double)syncs);
	if (copies)
		rule_evidence(v, "blocking_copies", EVIDENCE_COUNT, (double)copies);
	rule_gain(v, pct(use, use->sync_ns), "the host runs ahead and never drains the queue");
	ADVICE(v, "Synchronise less: .item(), .cpu(), print of a tensor, nonzero and masks each "
		  "wait for all queued work, and so does a blocking copy of a few bytes. Keep the "
		  "loss on the device and read it every N steps.");
	return true;
}

/* Kernels of the run, and the calls that launched them. A call that captures launches nothing. */
struct launched {
	uint64_t graphs; /* calls */
	/* Mean of the kernels, median of the most frequent call: the first calls load code. 0: not
	 * known. */
	double kernel_ns, call_ns;
};

static struct launched launched(const struct run *run, const struct answers *a)
{
	uint64_t timed = answer_kernels(a)->count - answer_kernels(a)->untimed;
	struct launched l = { 0 };
	uint64_t most = 0;

	for (size_t i = 0; i < answer_api_calls(a)->n; i++) {
		const struct api_row *row = &answer_api_calls(a)->rows[i];
		const char *name = run_string(run, row->name);

		if (!strstr(name, "Launch") || !row->launches)
			continue;
		l.graphs += strstr(name, "GraphLaunch") ? row->launches : 0;
		if (row->launches <= most)
			continue;
		most = row->launches;
		l.call_ns = row->summary.p50;
	}
	l.kernel_ns = timed ? (double)answer_kernels(a)->time_ns / (double)timed : 0;
	return l;
}

static void launch_advice(const struct answers *a, const struct launched *l, struct verdict *v)
{
	if (l->graphs && answer_kernels(a)->count > 2 * l->graphs)
		ADVICE(v,
		       "It already launches graphs: put more into one graph, launch the next one "
		       "before the last has ended, and move host code out from between them.");
	else if (l->call_ns > 0 && l->kernel_ns > 0 && l->kernel_ns < l->call_ns)
		ADVICE(v, "Kernels are shorter than the calls that launch them: CUDA graphs or "
			  "torch.compile (mode reduce-overhead), fused operations, foreach and "
			  "fused optimizers, a larger batch.");
	else
		ADVICE(v, "Each kernel is launched only after the last one has ended: let the host "
			  "run ahead (no reads of results in between), or reduce its work per "
			  "kernel: CUDA graphs, torch.compile (mode reduce-overhead), fused "
			  "operations, a larger batch.");
}

bool rule_gpu_starved_launch(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);
	struct launched l;

	if (!speaks(a, use->launch_ns))
		return false;
	l = launched(run, a);
	TITLE(v, "the GPU waits for kernel launches %.0f%% of %s%s", pct(use, use->launch_ns),
	      time_of(use), use->others ? ", and other processes use it too" : "");
	busy_evidence(v, use, "idle_launch_or_in_short_gaps_pct", use->launch_ns);
	rule_when_span(run, v, "the longest wait for a launch", "kernels",
		       &use->longest_idle[IDLE_LAUNCH]);
	if (l.kernel_ns > 0)
		rule_evidence(v, "kernel_mean_ns", EVIDENCE_NS, l.kernel_ns);
	if (l.call_ns > 0)
		rule_evidence(v, "launch_call_p50_ns", EVIDENCE_NS, l.call_ns);
	rule_evidence(v, "gaps_under_50_us", EVIDENCE_COUNT, (double)use->short_gaps);
	others_evidence(v, use);
	rule_gain(v, pct(use, use->launch_ns), "kernels follow one another without a gap");
	launch_advice(a, &l, v);
	return true;
}

static void transfer_advice(const struct answers *a, struct verdict *v, bool pageable)
{
	const struct device_use *use = answer_device_use(a);

	if ((double)answer_transfers(a)->staged_bytes >
	    STAGED_SHARE * (double)answer_transfers(a)->bytes)
		ADVICE(v, "Copies between devices are staged through the host: enable peer access "
			  "or use NCCL, which copies directly.");
	else if ((double)use->small_copies > MOST * (double)use->copies)
		ADVICE(v,
		       "Most copies are below 64 KiB, where fixed costs dominate: pack them into "
		       "one buffer, or keep the values on the device%s.",
		       pageable ? "; use pinned memory" : "");
	else if (pageable)
		ADVICE(v, "Pageable memory is copied twice and blocks the host: allocate it pinned "
			  "(pin_memory) and copy with non_blocking=True on a separate stream, "
			  "one step ahead.");
	else
		ADVICE(v, "Copy on a separate stream while kernels run, one step ahead; copy "
			  "less or in a smaller type.");
}

bool rule_transfer_bound(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);
	double alone = use->copy_alone_ns + use->copy_wait_ns;
	double hidden = alone, compute = use->busy_ns - use->copy_alone_ns;
	bool pageable = (double)use->pageable_ns > MOST * (double)use->copy_ns;

	/* Copies between devices are seen by both: a device may wait without a copy of its own. */
	if (!speaks(a, alone))
		return false;
	/* Copies can hide behind kernels only as far as there are kernels. Pageable ones become so
	 * much faster, too, that nearly all of their time is won. */
	if (!pageable && hidden > compute)
		hidden = compute;
	TITLE(v, "copies hold up the GPU %.0f%% of %s%s", pct(use, alone), time_of(use),
	      pageable ? ", most of them pageable" : "");
	busy_evidence(v, use, "copies_alone_pct", alone);
	rule_when_span(run, v, "the longest copy", "copies", &use->longest_copy);
	if (use->copy_ns > 0) {
		rule_evidence(v, "pageable_pct", EVIDENCE_PCT,
			      100.0 * (double)use->pageable_ns / (double)use->copy_ns);
		rule_evidence(v, "small_pct", EVIDENCE_PCT,
			      100.0 * (double)use->small_copies / (double)use->copies);
		rule_evidence(v, "copied_bytes", EVIDENCE_BYTES, (double)use->copy_bytes);
	}
	rule_gain(v, pct(use, hidden),
		  pageable ? "copies from pinned memory overlap kernels"
			   : "copies overlap kernels");
	transfer_advice(a, v, pageable);
	return true;
}

bool rule_clock_throttled(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_clock *clock = &answer_device_use(a)->clock;
	bool limited, thermal;
	double loss;

	(void)run;
	if (!answer_device_use(a)->devices || !clock->samples || clock->max_mhz <= 0 ||
	    !clock->limited_pct.known)
		return false;
	limited = clock->limited_pct.v >= LIMITED_PCT;
	loss = 1 - clock->mean_mhz / clock->max_mhz;
	if (loss < (limited ? CLOCK_LOSS : LOCKED_LOSS))
		return false;
	thermal = clock->thermal_pct.v > clock->power_pct.v;
	if (limited)
		TITLE(v, "the clocks are reduced by the %s: %.0f of %.0f MHz",
		      thermal ? "temperature" : "power limit", clock->mean_mhz, clock->max_mhz);
	else
		TITLE(v, "the clocks stay at %.0f of %.0f MHz although no limit is active",
		      clock->mean_mhz, clock->max_mhz);
	rule_evidence(v, "clock_sm_mean_mhz", EVIDENCE_MHZ, clock->mean_mhz);
	rule_evidence(v, "clock_sm_max_mhz", EVIDENCE_MHZ, clock->max_mhz);
	rule_evidence(v, "limited_samples_pct", EVIDENCE_PCT, clock->limited_pct.v);
	rule_evidence(v, "samples", EVIDENCE_COUNT, (double)clock->samples);
	rule_gain(v, loss * pct(answer_device_use(a), answer_device_use(a)->kernel_ns),
		  "kernel time shrinks in proportion to the clock");
	if (!limited)
		ADVICE(v, "Somebody has lowered them, perhaps for comparable measurements: "
			  "'nvidia-smi -rgc' resets them (as an administrator).");
	else if (thermal)
		ADVICE(v, "Cool the device: airflow, other work in the same box, dust. Compare "
			  "runs only at the same temperature.");
	else
		ADVICE(v, "The power limit sets the pace ('nvidia-smi -q -d POWER' shows it; an "
			  "administrator may raise it). Less data movement and lower precision "
			  "need less power. Compare runs only under the same limit.");
	return true;
}

bool rule_bandwidth_bound(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);

	(void)run;
	if (!use->devices || !use->dram_pct.known || use->dram_pct.v < DRAM_PCT)
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "memory bandwidth limits the kernels: %.0f%% of the peak on average",
	      use->dram_pct.v);
	rule_evidence(v, "dram_bandwidth_pct", EVIDENCE_PCT, use->dram_pct.v);
	if (use->tensor_pct.known)
		rule_evidence(v, "tensor_active_pct", EVIDENCE_PCT, use->tensor_pct.v);
	busy_evidence(v, use, "kernels_pct", use->kernel_ns);
	v->gain_pct = value_absent("depends on which reads and writes can be saved");
	ADVICE(v, "Move fewer bytes: fuse elementwise operations, smaller types for weights and "
		  "cache, fewer copies and layout changes; a larger batch reuses the weights.");
	return true;
}

/* Idle time that no verdict of its own tells the cause of. */
static double unexplained(const struct answers *a)
{
	const struct device_use *use = answer_device_use(a);
	const double causes[] = { use->launch_ns, use->host_ns, use->data_ns, use->sync_ns };
	double left = use->window_ns - use->busy_ns;

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		left -= speaks(a, causes[i]) ? causes[i] : 0;
	if (speaks(a, use->copy_alone_ns + use->copy_wait_ns))
		left -= use->copy_wait_ns;
	return left;
}

bool rule_gpu_idle(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);
	bool queued = use->queued_ns >= use->unknown_ns;
	double busy, left;

	if (!judged(use))
		return false;
	busy = pct(use, use->busy_ns);
	left = pct(use, unexplained(a));
	if (busy >= BUSY_PCT || left < 100 - BUSY_PCT)
		return false;
	TITLE(v, "the GPU is busy only %.0f%% of %s (usual: over 80%%)", busy, time_of(use));
	busy_evidence(v, use, "kernels_pct", use->kernel_ns);
	rule_evidence(v, "idle_queued_pct", EVIDENCE_PCT, pct(use, use->queued_ns));
	rule_evidence(v, "idle_unknown_pct", EVIDENCE_PCT, pct(use, use->unknown_ns));
	others_evidence(v, use);
	v->severity = left >= MOST_IDLE_PCT ? SEVERITY_CRITICAL : SEVERITY_WARNING;
	v->gain_pct = value_absent("the cause of the waiting is unknown");
	rule_when_span(run, v,
		       queued ? "the longest gap with work queued"
			      : "the longest gap of unknown cause",
		       "kernels", &use->longest_idle[queued ? IDLE_QUEUED : IDLE_UNKNOWN]);
	if (queued)
		ADVICE(v, "Work is queued but does not start: streams and events that wait for one "
			  "another, many small nodes in a graph, other processes on the device. "
			  "Larger batches make kernels longer.");
	else
		ADVICE(v, "The cause was not recorded: record host calls too (CPU activity in "
			  "torch.profiler, --trace=cuda in nsys).");
	return true;
}

bool rule_gpu_busy(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_use *use = answer_device_use(a);
	double busy;

	(void)run;
	if (!judged(use))
		return false;
	busy = pct(use, use->busy_ns);
	/* A device that only copies or communicates is busy and gets nowhere: those have verdicts. */
	if (busy < BUSY_PCT || speaks(a, use->copy_alone_ns + use->copy_wait_ns) ||
	    (answer_comm(a)->exposed_pct.known && answer_comm(a)->exposed_pct.v >= SPEAK_PCT))
		return false;
	v->severity = SEVERITY_OK;
	TITLE(v, "the GPU is busy %.0f%% of %s", busy, time_of(use));
	ADVICE(v, "Its kernels take the time: 'moescope kernels' lists them.");
	return true;
}
