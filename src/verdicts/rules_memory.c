/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about memory. See rules.h.
 */
#include "base/text/format.h"
#include "subjects/heap/heap_use.h"
#include "subjects/memory/device_memory.h"
#include "subjects/memory/memory.h"
#include "verdicts/rules.h"

#define SOON_STEPS 10000 /* out of memory within as many steps is critical */

/* Memory that the device has left by the driver's last word, over all who use it; -1: not known. */
static double free_bytes(const struct run *run, const struct answers *a,
			 const struct memory_device *d)
{
	double total = 0, used = -1;

	if (d->device < 0)
		return -1;
	for (size_t i = 0; i < run->device.n; i++)
		if (run->device.shard[i] == d->shard &&
		    run->device.device[i] == (uint32_t)d->device)
			total = (double)run->device.memory_bytes[i];
	for (size_t i = 0; i < answer_device_memory(a)->n_used; i++)
		if (answer_device_memory(a)->used[i].shard == d->shard &&
		    answer_device_memory(a)->used[i].device == (uint32_t)d->device)
			used = answer_device_memory(a)->used[i].last_bytes;
	return total > 0 && used >= 0 && used <= total ? total - used : -1;
}

bool rule_memory_leak(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct memory_leak *worst = NULL;
	double left = -1, steps = -1;
	size_t n = 0;

	for (size_t i = 0; i < answer_memory(a)->n; i++) {
		const struct memory_device *d = &answer_memory(a)->devices[i];

		n += d->n_leaks;
		if (!d->n_leaks || (worst && d->leaks[0].bytes_per_step <= worst->bytes_per_step))
			continue;
		worst = &d->leaks[0];
		left = free_bytes(run, a, d);
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
	else if (worst->site)
		TITLE(v, "memory allocated at '%.60s' grows with every step",
		      run_string(run, worst->site));
	else
		TITLE(v, "memory grows with every step; where it is allocated is unknown");
	rule_evidence(v, "bytes_per_step", EVIDENCE_BYTES, worst->bytes_per_step);
	rule_evidence(v, "live_bytes", EVIDENCE_BYTES, (double)worst->last_bytes);
	rule_evidence(v, "grew_steps", EVIDENCE_COUNT, worst->grew_steps);
	rule_evidence(v, "suspect_sites", EVIDENCE_COUNT, (double)n);
	if (left >= 0)
		rule_evidence(v, "device_free_bytes", EVIDENCE_BYTES, left);
	v->gain_pct = value_absent("a leak costs memory, not time");
	ADVICE(v,
	       "Something keeps what it allocates in each step: a loss accumulated with its graph "
	       "(use .item() or .detach()), history lists, unbounded caches.");
	return true;
}

#define PRESSURE_PCT 90
#define FRAGMENTED_PCT 30
#define WASTED_PCT 5 /* of the device */
#define WASTED_OF_POOL_PCT 10
#define WASTED_AT_END_PCT 50
#define WASTED_AT_END_BYTES 1e9
#define OUTSIDE_PCT 15

/* The moment of a peak. */
static void when_peak(struct verdict *v, const char *what, int64_t time_ns, uint32_t rank,
		      double device)
{
	v->when =
		(struct verdict_when){ what, "kernels", time_ns, time_ns, rank, value_of(device) };
}

bool rule_memory_pressure(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_used *worst = NULL;

	(void)run;
	for (size_t i = 0; i < answer_device_memory(a)->n_used; i++) {
		const struct device_used *used = &answer_device_memory(a)->used[i];

		if (used->peak_pct.known && used->peak_pct.v > PRESSURE_PCT &&
		    (!worst || used->peak_pct.v > worst->peak_pct.v))
			worst = used;
	}
	if (!worst)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "gpu %u of rank %u was nearly full", worst->device, worst->rank);
	when_peak(v, "the most in use on the device", worst->peak_ns, worst->rank, worst->device);
	rule_evidence(v, "peak_device_used_pct", EVIDENCE_PCT, worst->peak_pct.v);
	rule_evidence(v, "headroom_bytes", EVIDENCE_BYTES, worst->headroom_bytes.v);
	rule_evidence(v, "device_total_bytes", EVIDENCE_BYTES, worst->total_bytes.v);
	ADVICE(v,
	       "A longer sequence or a less balanced batch exceeds it. See what was live at the peak "
	       "('moescope memory'); recompute activations, shard the optimizer, or use a "
	       "smaller batch.");
	return true;
}

/* A pool of free memory in pieces. */
struct pieces {
	const struct memory_device *d;
	bool at_peak; /* else at the end */
	double pct, free_bytes, wasted_bytes;
};

/* Free bytes that no request as large as the largest hole and a bit can have. */
static struct pieces pieces_of(const struct memory_device *d, bool at_peak)
{
	struct pieces p = { .d = d, .at_peak = at_peak };

	if (at_peak && d->fragmentation_at_peak_pct.known) {
		p.pct = d->fragmentation_at_peak_pct.v;
		p.free_bytes = d->free_at_peak_bytes.v;
		p.wasted_bytes = p.free_bytes - d->largest_free_at_peak_bytes.v;
	} else if (!at_peak && d->fragmentation_pct.known && d->cache_slack_pct.known) {
		p.pct = d->fragmentation_pct.v;
		p.free_bytes = d->cache_slack_pct.v / 100 * d->reserved_bytes.v;
		p.wasted_bytes = p.pct / 100 * p.free_bytes;
	}
	return p;
}

/* Much of the device; where its size is not known, of what the allocator holds. At the end free
 * memory is as it should be, unless it is most of the pool. */
static bool matters(const struct pieces *p)
{
	struct value total = p->d->device_total_bytes;
	double held = p->at_peak ? p->d->peak_reserved_bytes.v : p->d->reserved_bytes.v;

	if (p->pct <= FRAGMENTED_PCT)
		return false;
	if (!p->at_peak && p->wasted_bytes <= WASTED_AT_END_PCT / 100.0 * held)
		return false;
	if (total.known)
		return p->wasted_bytes > WASTED_PCT / 100.0 * total.v;
	return p->wasted_bytes > WASTED_OF_POOL_PCT / 100.0 * held &&
	       (p->at_peak || p->wasted_bytes > WASTED_AT_END_BYTES);
}

bool rule_fragmentation(const struct run *run, const struct answers *a, struct verdict *v)
{
	struct pieces worst = { 0 };

	(void)run;
	/* What is in pieces at the peak counts for more than what is left at the end. */
	for (int at_peak = 1; at_peak >= 0 && !worst.d; at_peak--)
		for (size_t i = 0; i < answer_memory(a)->n; i++) {
			struct pieces p = pieces_of(&answer_memory(a)->devices[i], at_peak);

			if (matters(&p) && (!worst.d || p.wasted_bytes > worst.wasted_bytes))
				worst = p;
		}
	if (!worst.d)
		return false;
	v->severity = worst.at_peak ? SEVERITY_WARNING : SEVERITY_NOTE;
	TITLE(v, "free memory of gpu %d is fragmented%s", worst.d->device,
	      worst.at_peak ? "" : " at the end");
	if (worst.at_peak)
		when_peak(v, "the peak of live memory", worst.d->peak_ns, worst.d->rank,
			  worst.d->device);
	rule_evidence(v, worst.at_peak ? "fragmentation_at_peak_pct" : "fragmentation_pct",
		      EVIDENCE_PCT, worst.pct);
	rule_evidence(v, worst.at_peak ? "free_at_peak_bytes" : "free_bytes", EVIDENCE_BYTES,
		      worst.free_bytes);
	rule_evidence(v, worst.at_peak ? "largest_free_at_peak_bytes" : "largest_free_bytes",
		      EVIDENCE_BYTES, worst.free_bytes - worst.wasted_bytes);
	rule_evidence(v, "wasted_bytes", EVIDENCE_BYTES, worst.wasted_bytes);
	ADVICE(v,
	       "Large requests fail although enough is free. With PyTorch set "
	       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; keep shapes the same from step "
	       "to step; allocate long-lived data first.");
	return true;
}

bool rule_outside_allocator(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct device_used *worst = NULL;

	(void)run;
	for (size_t i = 0; i < answer_device_memory(a)->n_used; i++) {
		const struct device_used *used = &answer_device_memory(a)->used[i];

		if (!used->outside_bytes.known || !used->total_bytes.known ||
		    used->outside_bytes.v <= OUTSIDE_PCT / 100.0 * used->total_bytes.v)
			continue;
		if (!worst || used->outside_bytes.v > worst->outside_bytes.v)
			worst = used;
	}
	if (!worst)
		return false;
	v->severity = SEVERITY_NOTE;
	TITLE(v, "much of the memory in use on gpu %u was not allocated by rank %u", worst->device,
	      worst->rank);
	when_peak(v, "the most in use on the device", worst->peak_ns, worst->rank, worst->device);
	rule_evidence(v, "outside_allocator_bytes", EVIDENCE_BYTES, worst->outside_bytes.v);
	rule_evidence(v, "driver_at_peak_bytes", EVIDENCE_BYTES, worst->driver_at_peak_bytes.v);
	rule_evidence(v, "peak_device_used_bytes", EVIDENCE_BYTES, worst->peak_bytes);
	ADVICE(v,
	       "Other processes, contexts, libraries, virtual memory (expandable segments) or what "
	       "was allocated before recording began. 'moescope memory' lists the other "
	       "processes.");
	return true;
}

#define LEAK_BYTES 4e6
#define LEAK_SHARE 0.05 /* of the most that was live */

/* Growth that start-up explains is none: see heap_growth.h. */
bool rule_heap_leak(const struct run *run, const struct answers *a, struct verdict *v)
{
	const struct heap_use *use = answer_heap_use(a);
	const struct heap_row *row = use->leak < use->n ? &use->rows[use->leak] : NULL;

	(void)run;
	if (!row || row->grown.v < LEAK_BYTES || row->grown.v < LEAK_SHARE * (double)use->all.peak)
		return false;
	v->severity = SEVERITY_WARNING;
	TITLE(v, "host memory grows by %s a minute at %.100s",
	      format_bytes(row->growth.v * 60).text, row->text);
	rule_evidence(v, "growth_bytes_per_s", EVIDENCE_BYTES, row->growth.v);
	rule_evidence(v, "grown_bytes", EVIDENCE_BYTES, row->grown.v);
	rule_evidence(v, "peak_bytes", EVIDENCE_BYTES, (double)row->self.peak);
	rule_evidence(v, "samples", EVIDENCE_COUNT, (double)row->samples);
	v->gain_pct = value_absent("a leak costs memory, not time");
	ADVICE(v,
	       "What is allocated there is never freed: an unbounded list, dictionary or cache that the "
	       "stack fills, or a leak in C code. 'moescope heap' shows the whole stack.");
	return true;
}
