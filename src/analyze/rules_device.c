/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about what the devices wait for, over the time of the steps (device_use.h). See rules.h.
 */
#include "analyze/rules.h"

#include <string.h>

#define SPEAK_PCT 5.0 /* of the time; less is not worth a line */
#define BUSY_PCT 80.0
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

/* The time in question, if it is worth a word. */
static bool speaks(const struct findings *f, double ns)
{
	return f->use.devices && pct(&f->use, ns) >= SPEAK_PCT;
}

static void busy_evidence(struct verdict *v, const struct device_use *use, const char *key,
			  double ns)
{
	rule_evidence(v, key, EVIDENCE_PCT, pct(use, ns));
	rule_evidence(v, "busy_pct", EVIDENCE_PCT, pct(use, use->busy_ns));
}

/* Time of the window per step and device. */
static void per_step(struct verdict *v, const struct findings *f, const char *key, double ns)
{
	if (f->use.of_steps && f->steps.all.n && f->use.window_ns > 0)
		rule_evidence(v, key, EVIDENCE_NS, ns / f->use.window_ns * f->steps.all.mean);
}

bool rule_gpu_starved_data(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_use *use = &f->use;

	(void)run;
	if (!speaks(f, use->data_ns))
		return false;
	TITLE(v, "the GPU waits for data %.0f%% of the time", pct(use, use->data_ns));
	busy_evidence(v, use, "idle_data_pct", use->data_ns);
	per_step(v, f, "idle_per_step_ns", use->data_ns);
	rule_gain(v, pct(use, use->data_ns), "each batch is ready when the GPU needs it");
	ADVICE(v, "Load ahead in workers (DataLoader num_workers, prefetch_factor), pinned and "
		  "non_blocking; move decoding and tokenising out of the loop or into a cache.");
	return true;
}

bool rule_gpu_starved_host(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_use *use = &f->use;

	(void)run;
	if (!speaks(f, use->host_ns))
		return false;
	TITLE(v, "the GPU waits for the host %.0f%% of the time: the run is CPU-bound",
	      pct(use, use->host_ns));
	busy_evidence(v, use, "idle_host_in_long_gaps_pct", use->host_ns);
	per_step(v, f, "idle_per_step_ns", use->host_ns);
	rule_gain(v, pct(use, use->host_ns), "the host always has the next launch queued");
	ADVICE(v, "Take host code out of the step: logging, metrics, Python loops, data work "
		  "without a range of phase data. 'moescope ops' has the host's time; a larger "
		  "batch gives it more to hide behind.");
	return true;
}

bool rule_gpu_starved_sync(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_use *use = &f->use;
	uint64_t syncs = 0;

	if (!speaks(f, use->sync_ns))
		return false;
	for (size_t i = 0; i < f->api.n; i++)
		if (strstr(run_string(run, f->api.rows[i].name), "Synchronize"))
			syncs += f->api.rows[i].count;
	TITLE(v, "the GPU idles %.0f%% of the time after synchronisations", pct(use, use->sync_ns));
	busy_evidence(v, use, "idle_sync_pct", use->sync_ns);
	per_step(v, f, "idle_per_step_ns", use->sync_ns);
	if (syncs)
		rule_evidence(v, "synchronisations", EVIDENCE_COUNT, (double)syncs);
	rule_gain(v, pct(use, use->sync_ns), "the host runs ahead and never drains the queue");
	ADVICE(v, "Synchronise less: .item(), .cpu(), print of a tensor, nonzero and masks each "
		  "wait for all queued work. Keep the loss on the device and read it every N "
		  "steps.");
	return true;
}

static void launch_evidence(struct verdict *v, const struct run *run, const struct findings *f)
{
	uint64_t calls = 0, timed = f->kernels.count - f->kernels.untimed;
	double time_ns = 0;

	for (size_t i = 0; i < f->api.n; i++) {
		if (!strstr(run_string(run, f->api.rows[i].name), "Launch"))
			continue;
		calls += f->api.rows[i].count;
		time_ns += (double)f->api.rows[i].time_ns;
	}
	if (timed)
		rule_evidence(v, "kernel_mean_ns", EVIDENCE_NS,
			      (double)f->kernels.time_ns / (double)timed);
	if (calls)
		rule_evidence(v, "launch_call_mean_ns", EVIDENCE_NS, time_ns / (double)calls);
	rule_evidence(v, "gaps_under_50_us", EVIDENCE_COUNT, (double)f->use.short_gaps);
}

bool rule_gpu_starved_launch(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_use *use = &f->use;

	if (!speaks(f, use->launch_ns))
		return false;
	TITLE(v, "the GPU waits for kernel launches %.0f%% of the time", pct(use, use->launch_ns));
	busy_evidence(v, use, "idle_launch_or_in_short_gaps_pct", use->launch_ns);
	launch_evidence(v, run, f);
	rule_gain(v, pct(use, use->launch_ns), "kernels follow one another without a gap");
	ADVICE(v, "Kernels are shorter than the code that launches them: CUDA graphs or "
		  "torch.compile (mode reduce-overhead), fused operations, foreach and fused "
		  "optimizers, a larger batch.");
	return true;
}

static void transfer_advice(const struct findings *f, struct verdict *v, bool pageable)
{
	const struct device_use *use = &f->use;

	if ((double)f->transfers.staged_bytes > STAGED_SHARE * (double)f->transfers.bytes)
		ADVICE(v, "Copies between devices go by way of the host: enable peer access or use "
			  "NCCL, so that they go directly.");
	else if ((double)use->small_copies > MOST * (double)use->copies)
		ADVICE(v,
		       "Most copies are below 64 KiB and cost their fixed time: pack them into "
		       "one buffer, or keep the values on the device%s.",
		       pageable ? "; use pinned memory" : "");
	else if (pageable)
		ADVICE(v, "Pageable memory is copied twice and blocks the host: allocate it pinned "
			  "(pin_memory) and copy with non_blocking=True on a stream of its own, "
			  "one step ahead.");
	else
		ADVICE(v, "Copy on a stream of its own while kernels run, one step ahead; copy "
			  "less or in a smaller type.");
}

bool rule_transfer_bound(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_use *use = &f->use;
	double alone = use->copy_alone_ns + use->copy_wait_ns;
	double hidden = alone, compute = use->busy_ns - use->copy_alone_ns;
	bool pageable = (double)use->pageable_ns > MOST * (double)use->copy_ns;

	(void)run;
	/* Copies between devices are seen by both: a device may wait without a copy of its own. */
	if (!speaks(f, alone))
		return false;
	/* Copies can hide behind kernels only as far as there are kernels. */
	if (!pageable && hidden > compute)
		hidden = compute;
	TITLE(v, "copies hold up the GPU %.0f%% of the time%s", pct(use, alone),
	      pageable ? ", most of them pageable" : "");
	busy_evidence(v, use, "copies_alone_pct", alone);
	if (use->copy_ns > 0) {
		rule_evidence(v, "pageable_pct", EVIDENCE_PCT,
			      100.0 * (double)use->pageable_ns / (double)use->copy_ns);
		rule_evidence(v, "small_pct", EVIDENCE_PCT,
			      100.0 * (double)use->small_copies / (double)use->copies);
		rule_evidence(v, "copied_bytes", EVIDENCE_BYTES, (double)use->copy_bytes);
	}
	rule_gain(v, pct(use, hidden),
		  pageable ? "copies from pinned memory run beside kernels"
			   : "copies run beside kernels");
	transfer_advice(f, v, pageable);
	return true;
}

bool rule_clock_throttled(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_clock *clock = &f->use.clock;
	bool limited, thermal;
	double loss;

	(void)run;
	if (!f->use.devices || !clock->samples || clock->max_mhz <= 0 || !clock->limited_pct.known)
		return false;
	limited = clock->limited_pct.v >= LIMITED_PCT;
	loss = 1 - clock->mean_mhz / clock->max_mhz;
	if (loss < (limited ? CLOCK_LOSS : LOCKED_LOSS))
		return false;
	thermal = clock->thermal_pct.v > clock->power_pct.v;
	if (limited)
		TITLE(v, "the clocks are held down by the %s: %.0f of %.0f MHz",
		      thermal ? "temperature" : "power limit", clock->mean_mhz, clock->max_mhz);
	else
		TITLE(v, "the clocks stay at %.0f of %.0f MHz, and no limit is in force",
		      clock->mean_mhz, clock->max_mhz);
	rule_evidence(v, "clock_sm_mean_mhz", EVIDENCE_MHZ, clock->mean_mhz);
	rule_evidence(v, "clock_sm_max_mhz", EVIDENCE_MHZ, clock->max_mhz);
	rule_evidence(v, "limited_samples_pct", EVIDENCE_PCT, clock->limited_pct.v);
	rule_evidence(v, "samples", EVIDENCE_COUNT, (double)clock->samples);
	rule_gain(v, loss * pct(&f->use, f->use.kernel_ns),
		  "kernels take less time by as much as the clock is higher");
	if (!limited)
		ADVICE(v, "Somebody has set them lower, for comparable measurements maybe: "
			  "'nvidia-smi -rgc' gives them free again (as an administrator).");
	else if (thermal)
		ADVICE(v, "Cool the device: airflow, other work in the same box, dust. Compare "
			  "runs only at the same temperature.");
	else
		ADVICE(v, "The power limit sets the pace ('nvidia-smi -q -d POWER' has it; an "
			  "administrator may raise it). Less data movement and lower precision "
			  "need less power. Compare runs only under the same limit.");
	return true;
}

bool rule_bandwidth_bound(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_use *use = &f->use;

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

bool rule_gpu_busy(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_use *use = &f->use;
	double busy;

	(void)run;
	if (!use->devices)
		return false;
	busy = pct(use, use->busy_ns);
	if (busy >= BUSY_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "the GPU is busy %.0f%% of the time%s", busy,
		      use->of_steps ? " of the steps" : "");
		ADVICE(v, "Nothing to do.");
		return true;
	}
	/* What it waits for has verdicts of its own, which name this figure too. */
	if (speaks(f, use->launch_ns) || speaks(f, use->host_ns) || speaks(f, use->data_ns) ||
	    speaks(f, use->sync_ns) || speaks(f, use->copy_wait_ns))
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "the GPU is busy only %.0f%% of the time%s (usual: over 80%%)", busy,
	      use->of_steps ? " of the steps" : "");
	busy_evidence(v, use, "kernels_pct", use->kernel_ns);
	v->gain_pct = value_absent("what it waits for is not known");
	ADVICE(v, "What it waits for was not recorded, or is between queued kernels: 'Devices' "
		  "below has the causes. Larger batches give it longer kernels.");
	return true;
}
