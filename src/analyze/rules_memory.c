/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about memory. See rules.h.
 */
#include "analyze/rules.h"

#define SOON_STEPS 10000 /* out of memory within as many steps is critical */

/* Memory that the device has left by the driver's last word, over all who use it; -1: not known. */
static double free_bytes(const struct run *run, const struct findings *f,
			 const struct memory_device *d)
{
	double total = 0, used = -1;

	if (d->device < 0)
		return -1;
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.shard[i] == d->shard &&
		    run->device.device[i] == (uint32_t)d->device)
			total = (double)run->device.memory_bytes[i];
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
