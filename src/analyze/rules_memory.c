/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about memory. See rules.h.
 */
#include "analyze/rules.h"

bool rule_memory_leak(const struct run *run, const struct findings *f, struct verdict *v)
{
	const struct memory_leak *worst = NULL;
	size_t n = 0;

	for (size_t i = 0; i < f->memory.n; i++) {
		const struct memory_device *d = &f->memory.devices[i];

		n += d->n_leaks;
		if (d->n_leaks && (!worst || d->leaks[0].bytes_per_step > worst->bytes_per_step))
			worst = &d->leaks[0];
	}
	if (!worst)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "memory allocated at '%.60s' grows with every step",
	      worst->site ? run_string(run, worst->site) : "(no name)");
	rule_evidence(v, "bytes_per_step", EVIDENCE_BYTES, worst->bytes_per_step);
	rule_evidence(v, "live_bytes", EVIDENCE_BYTES, (double)worst->last_bytes);
	rule_evidence(v, "grew_steps", EVIDENCE_COUNT, worst->grew_steps);
	rule_evidence(v, "suspect_sites", EVIDENCE_COUNT, (double)n);
	ADVICE(v, "Something keeps what it allocates in each step: history lists, graphs held by "
		  "a loss value, caches without a limit.");
	return true;
}
