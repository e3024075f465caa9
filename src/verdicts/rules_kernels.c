/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules about the kernel that takes the most time, by its hardware counters (kernel_limits.h). See rules.h.
 *
 * They are notes without a gain: counters say what a kernel waits for, not how short it could be.
 */
#include <stdio.h>
#include <string.h>

#include "subjects/counters/kernel_limits.h"
#include "subjects/device/device_use.h"
#include "verdicts/rules.h"

#define MUCH_PCT 20.0 /* of the time; below it the kernel is not what makes the run slow */
#define DRAM_PCT 60.0 /* of the peak: then bandwidth-bound says it of all kernels */
#define NAME_MOST 60

/* What the rules found: the kernel, how much of the time it takes, and its name for a title. */
struct heavy {
	const struct kernel_limit_row *row;
	double time_pct;
	char name[NAME_MOST + 1];
};

static void cut_name(const char *name, char *out)
{
	size_t length = strlen(name);

	if (length > NAME_MOST) {
		length = NAME_MOST - 2;
		/* Not inside a character. */
		while (length && ((unsigned char)name[length] & 0xc0) == 0x80)
			length--;
	}
	snprintf(out, NAME_MOST + 1, "%.*s%s", (int)length, name, name[length] ? ".." : "");
}

/* The one with the most time of those that this bounds. */
static bool find_heavy(const struct answers *a, enum kernel_bound bound, struct heavy *ret_heavy)
{
	const struct kernel_limits *limits = answer_kernel_limits(a);
	const struct device_use *use = answer_device_use(a);

	if (!use->devices || use->no_steady || !(use->window_ns > 0))
		return false;
	for (size_t i = 0; i < limits->n; i++) {
		const struct kernel_limit_row *row = &limits->rows[i];

		if (row->bound != bound || !row->share_pct.known)
			continue;
		ret_heavy->row = row;
		ret_heavy->time_pct = row->share_pct.v * use->kernel_ns / use->window_ns;
		cut_name(row->short_name, ret_heavy->name);
		return ret_heavy->time_pct >= MUCH_PCT;
	}
	return false;
}

static void heavy_evidence(struct verdict *v, const char *key, struct value value)
{
	if (value.known)
		rule_evidence(v, key, EVIDENCE_PCT, value.v);
}

static void heavy_note(struct verdict *v, const struct heavy *heavy, const char *no_gain)
{
	v->severity = SEVERITY_NOTE;
	v->gain_pct = value_absent(no_gain);
	rule_evidence(v, "time_pct", EVIDENCE_PCT, heavy->time_pct);
}

static void latency_advice(struct verdict *v, const struct kernel_limit_row *row)
{
	bool few = row->achieved_occupancy_pct.known &&
		   row->achieved_occupancy_pct.v < FEW_WARPS_PCT;
	bool fit = row->theoretical_occupancy_pct.known &&
		   row->theoretical_occupancy_pct.v >= 2 * FEW_WARPS_PCT;

	if (few && fit)
		ADVICE(v,
		       "More warps fit than ran: blocks of very different length, or a last wave "
		       "that is nearly empty. Smaller blocks or tiles, or a larger batch, keep "
		       "more of them resident.");
	else if (few)
		ADVICE(v,
		       "Few warps hide little waiting%s%s: fewer registers or less shared memory "
		       "per block (smaller tiles), or more independent work per thread and earlier "
		       "loads (async copies, pipelining).",
		       row->occupancy_limiter ? "; they are limited by " : "",
		       row->occupancy_limiter ? row->occupancy_limiter : "");
	else
		ADVICE(v,
		       "Its warps wait for one another or for data: earlier and coalesced loads, "
		       "data reused in shared memory, fewer barriers. Fusing it with its "
		       "neighbours saves the round trip through memory.");
}

bool rule_kernel_latency(const struct run *run, const struct answers *a, struct verdict *v)
{
	struct heavy heavy;

	(void)run;
	if (!find_heavy(a, BOUND_LATENCY, &heavy))
		return false;
	TITLE(v,
	      "a kernel that takes %.0f%% of the time waits, and uses no part of the GPU well: %s",
	      heavy.time_pct, heavy.name);
	heavy_note(v, &heavy, "how much of the waiting can be hidden is unknown");
	heavy_evidence(v, "achieved_occupancy_pct", heavy.row->achieved_occupancy_pct);
	heavy_evidence(v, "theoretical_occupancy_pct", heavy.row->theoretical_occupancy_pct);
	heavy_evidence(v, "dram_pct", heavy.row->dram_pct);
	heavy_evidence(v, "sm_pct", heavy.row->sm_pct);
	heavy_evidence(v, "stall_pct", heavy.row->stall_pct);
	latency_advice(v, heavy.row);
	return true;
}

bool rule_kernel_small_grid(const struct run *run, const struct answers *a, struct verdict *v)
{
	struct heavy heavy;

	(void)run;
	if (!find_heavy(a, BOUND_SMALL, &heavy))
		return false;
	TITLE(v, "a kernel that takes %.0f%% of the time does not fill the GPU: %s", heavy.time_pct,
	      heavy.name);
	heavy_note(v, &heavy, "what more blocks would win is not known");
	rule_evidence(v, "waves", EVIDENCE_NUMBER, heavy.row->waves.v);
	heavy_evidence(v, "sm_active_pct", heavy.row->sm_active_pct);
	ADVICE(v,
	       "It has fewer blocks than the GPU can run at once: a larger batch, smaller tiles, "
	       "a split of the long dimension (split-k), or concurrent kernels on another "
	       "stream.");
	return true;
}

bool rule_kernel_memory_bound(const struct run *run, const struct answers *a, struct verdict *v)
{
	struct value average = answer_device_use(a)->dram_pct;
	struct heavy heavy;

	(void)run;
	if ((average.known && average.v >= DRAM_PCT) || !find_heavy(a, BOUND_MEMORY, &heavy))
		return false;
	TITLE(v, "memory bandwidth bounds a kernel that takes %.0f%% of the time: %s",
	      heavy.time_pct, heavy.name);
	heavy_note(v, &heavy, "depends on which reads and writes can be saved");
	heavy_evidence(v, "dram_pct", heavy.row->dram_pct);
	heavy_evidence(v, "l2_hit_pct", heavy.row->l2_hit_pct);
	if (heavy.row->dram_bytes.known)
		rule_evidence(v, "dram_bytes", EVIDENCE_BYTES, heavy.row->dram_bytes.v);
	ADVICE(v,
	       "It cannot become faster moving the same bytes: fuse it with what comes before or "
	       "after, use smaller types for weights and cache, or a larger batch that reuses "
	       "them.");
	return true;
}
