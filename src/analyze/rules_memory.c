/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about memory. See rules.h.
 */
#include "analyze/rules.h"

#define SOON_STEPS 10000 /* out of memory within as many steps is critical */
#define NEAR_FULL_PCT 95.0
#define FRAGMENTED_PCT 50.0
#define SLACK_SHARE 0.2 /* of what is reserved: free pieces that are worth having whole */

/* What the device of a process has in all; 0: it does not tell. */
static double total_bytes(const struct run *run, uint16_t shard, uint32_t device)
{
	double total = 0;

	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.shard[i] == shard && run->device.device[i] == device)
			total = (double)run->device.memory_bytes[i];
	return total;
}

/* Memory that the device has left by the driver's last word, over all who use it; -1: not known. */
static double free_bytes(const struct run *run, const struct findings *f,
			 const struct memory_device *d)
{
	double total, used = -1;

	if (d->device < 0)
		return -1;
	total = total_bytes(run, d->shard, (uint32_t)d->device);
	for (size_t i = 0; i < f->device_memory.n_used; i++)
		if (f->device_memory.used[i].shard == d->shard &&
		    f->device_memory.used[i].device == (uint32_t)d->device)
			used = f->device_memory.used[i].last_bytes;
	return total > 0 && used >= 0 && used <= total ? total - used : -1;
}

bool rule_memory_leak(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct memory_leak *worst = NULL;
	double left = -1, steps = -1;
	size_t n = 0;

	for (size_t i = 0; i < f->memory.n; i++) {
		const struct memory_device *d = &f->memory.devices[i];

		n += d->n_leaks;
		if (!d->n_leaks || (worst && d->leaks[0].bytes_per_step <= worst->bytes_per_step))
			continue;
		worst = &d->leaks[0];
		left = free_bytes(run, f, d);
	}
	if (!worst)
		return false;
	if (left >= 0 && worst->bytes_per_step > 0)
		steps = left / worst->bytes_per_step;
	v->severity = steps >= 0 && steps < SOON_STEPS ? SEVERITY_CRITICAL : SEVERITY_WARNING;
	if (v->severity == SEVERITY_CRITICAL)
		TITLE(v,
		      "memory of '%.60s' grows with every step: out of memory in est. %.0f steps",
		      worst->site ? run_string(run, worst->site) : "(no name)", steps);
	else
		TITLE(v, "memory allocated at '%.60s' grows with every step",
		      worst->site ? run_string(run, worst->site) : "(no name)");
	rule_evidence(v, "bytes_per_step", EVIDENCE_BYTES, worst->bytes_per_step);
	rule_evidence(v, "live_bytes", EVIDENCE_BYTES, (double)worst->last_bytes);
	rule_evidence(v, "grew_steps", EVIDENCE_COUNT, worst->grew_steps);
	rule_evidence(v, "suspect_sites", EVIDENCE_COUNT, (double)n);
	if (left >= 0)
		rule_evidence(v, "device_free_bytes", EVIDENCE_BYTES, left);
	v->gain_pct = value_absent("a leak costs memory, not time");
	ADVICE(v, "Something keeps what it allocates in each step: a loss added up with its graph "
		  "(use .item() or .detach()), history lists, caches without a limit.");
	return true;
}

bool rule_memory_pressure(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct device_used *fullest = NULL;
	double most = 0, of = 0;

	for (size_t i = 0; i < f->device_memory.n_used; i++) {
		const struct device_used *used = &f->device_memory.used[i];
		double total = total_bytes(run, used->shard, used->device);

		if (total <= 0 || used->peak_bytes > total || used->peak_bytes / total <= most)
			continue;
		most = used->peak_bytes / total;
		of = total;
		fullest = used;
	}
	if (!fullest)
		return false;
	rule_evidence(v, "peak_pct", EVIDENCE_PCT, 100 * most);
	rule_evidence(v, "peak_used_bytes", EVIDENCE_BYTES, fullest->peak_bytes);
	rule_evidence(v, "device_bytes", EVIDENCE_BYTES, of);
	v->gain_pct = value_absent("a matter of memory, not of time");
	if (100 * most < NEAR_FULL_PCT) {
		v->severity = SEVERITY_OK;
		TITLE(v, "device memory: at most %.0f%% of gpu %u is in use", 100 * most,
		      fullest->device);
		ADVICE(v, "Nothing to do.");
		return true;
	}
	v->severity = SEVERITY_WARNING;
	TITLE(v, "device memory is nearly full: %.0f%% of gpu %u at the peak", 100 * most,
	      fullest->device);
	ADVICE(v, "A longer sequence or another process may end the run. Smaller batches, "
		  "recomputed activations, sharded optimizer state; 'moescope memory' has what "
		  "it is made of.");
	return true;
}

bool rule_memory_fragmented(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct memory_device *worst = NULL;
	double slack;

	(void)run;
	for (size_t i = 0; i < f->memory.n; i++) {
		const struct memory_device *d = &f->memory.devices[i];

		if (!d->fragmentation_pct.known || d->fragmentation_pct.v < FRAGMENTED_PCT ||
		    !d->reserved_bytes.known ||
		    d->reserved_bytes.v * (1 - SLACK_SHARE) < (double)d->live_bytes)
			continue;
		if (!worst || d->fragmentation_pct.v > worst->fragmentation_pct.v)
			worst = d;
	}
	if (!worst)
		return false;
	slack = worst->reserved_bytes.v - (double)worst->live_bytes;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "free memory of gpu %d is in pieces: the largest is %.0f%% of it", worst->device,
	      100 - worst->fragmentation_pct.v);
	rule_evidence(v, "fragmentation_pct", EVIDENCE_PCT, worst->fragmentation_pct.v);
	rule_evidence(v, "slack_bytes", EVIDENCE_BYTES, slack);
	v->gain_pct = value_absent("a matter of memory, not of time");
	ADVICE(v, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or allocate large and "
		  "long-lived tensors first and keep shapes the same.");
	return true;
}
