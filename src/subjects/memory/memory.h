/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as the program's own allocator reported it: allocations and frees replayed in order of
 * time, per process and device. Memory the program does not report is not in it. An allocator that
 * tells its total with each event is believed, so that what lived before the first one counts.
 */
#ifndef SUBJECTS_MEMORY_H
#define SUBJECTS_MEMORY_H

#include "base/text/format.h"
#include "subjects/numbers/value.h"
#include "subjects/shared/selection.h"

#define MEMORY_USES 8 /* enum moescope_memory_use; values beyond count as other */
#define MEMORY_LEAK_STEPS 10

struct memory_point {
	int64_t time_ns;
	uint64_t live_bytes;	     /* the largest in its part of the time */
	struct value reserved_bytes; /* held from the driver at that moment */
};

/* Live blocks that one place in the program allocated: at the peak, or at a moment that was asked for. */
struct memory_site {
	uint32_t site;	       /* string id */
	int32_t layer, expert; /* of the range at the allocation; -1: none names one */
	uint8_t phase, use;    /* phase 0: none */
	uint64_t bytes, count;
	int64_t oldest_ns, youngest_ns; /* age then */
	double share_pct;		/* of all live bytes then */
};

struct memory_block {
	struct memory_site of; /* it alone */
	uint64_t address;
};

/* What was live at a moment. Of several events at that very moment the one that leaves the most counts, as in the
 * points; else what the last one before it left. The bytes of the uses, of the sites and of the blocks each add up,
 * with before_bytes, to live_bytes. */
struct memory_then {
	const char *absent; /* why nothing is told; NULL: it is */
	int64_t time_ns;
	uint64_t live_bytes;
	struct value before_bytes; /* live before the first record, and still then */
	uint64_t use[MEMORY_USES];
	double use_pct[MEMORY_USES];
	struct memory_site *sites; /* by bytes, largest first */
	size_t n_sites;
	struct memory_block *blocks; /* likewise */
	size_t n_blocks;
};

/* What was allocated inside the ranges of a layer or an expert. */
struct memory_part {
	int32_t layer, expert;		       /* -1: none */
	uint64_t allocations, allocated_bytes; /* all of them, freed or not */
	uint64_t at_peak_bytes;		       /* live at the peak of the device */
	uint64_t peak_use[MEMORY_USES];	       /* the same by use */
};

struct memory_leak {
	uint32_t site; /* string id */
	uint64_t first_bytes,
		last_bytes;	 /* live at the ends of the first and last step looked at */
	unsigned int grew_steps; /* of MEMORY_LEAK_STEPS */
	double bytes_per_step;
};

struct memory_device {
	uint16_t shard;
	uint32_t rank;
	int32_t device; /* -1: the host */
	uint64_t allocations, frees;
	uint64_t unmatched_frees; /* frees of addresses never seen allocated, and not of before */
	uint64_t replaced;	  /* allocations at a live address: its free was not recorded */
	/* Live before the first record, by the allocator's totals; what of it was live at the peak, and
	 * what was freed since. These bytes are in live and peak, not in the uses and sites. */
	struct value before_bytes, before_at_peak_bytes, before_freed_bytes;
	uint64_t live_bytes, live_allocations; /* at the end; of the blocks with an allocation */
	uint64_t allocated_bytes;	       /* sum of all allocations */
	uint64_t peak_bytes;
	int64_t peak_ns; /* when the peak was first reached */
	uint64_t use_at_peak[MEMORY_USES], use_at_end[MEMORY_USES];
	uint64_t peak_use[MEMORY_USES]; /* the largest of each use, at its own time */
	unsigned int
		order_at_peak[MEMORY_USES]; /* uses by their bytes at the peak, largest first */
	struct memory_point *points;
	size_t n_points;
	struct value leaks_known;  /* v: number of suspects */
	struct memory_leak *leaks; /* by growth, largest first */
	size_t n_leaks;
	/* At the last record, and the largest. */
	struct value reserved_bytes, peak_reserved_bytes;
	struct value segments;	      /* of the driver's memory that make up reserved_bytes */
	struct value cache_slack_pct; /* (reserved - allocated) / reserved at the last record */
	/* 1 - largest free block / free bytes in the segments, at the last record and the peak. */
	struct value fragmentation_pct, fragmentation_at_peak_pct;
	struct value free_at_peak_bytes, largest_free_at_peak_bytes;
	struct memory_site *sites; /* live at the peak, by bytes, largest first */
	size_t n_sites;
	struct memory_part *parts; /* by layer, then expert */
	size_t n_parts;
	struct memory_then then; /* see memory_analyze_at */
	/* The allocator's own account (readings by these names): at the last one, and the largest of
	 * the peaks. What it calls allocated may be rounded up; requested is what was asked for. */
	struct value account_allocated_bytes, account_reserved_bytes;
	struct value account_peak_allocated_bytes, account_peak_reserved_bytes,
		account_peak_requested_bytes;
	/* From the samples of the device; see memory_join. */
	struct value device_used_bytes, device_total_bytes;
	struct value headroom_bytes; /* device total - the most that was ever in use */
	struct value oom_steps; /* est.: steps until it is full, if leak suspects grow as before */
};

struct memory {
	struct memory_device *devices; /* by shard, then device */
	size_t n;
};

/* max_points: of each series; 0: 512. Selections do not apply: a replay needs the beginning. */
int memory_analyze(const struct run *run, size_t max_points, struct memory *ret_memory);
/* And what was live at a moment since the start of the run; of one that was not given nothing. */
int memory_analyze_at(const struct run *run, size_t max_points, struct given_moment at,
		      struct memory *ret_memory);
/* Adds what the devices themselves say. */
struct device_memory;
void memory_join(struct memory *memory, const struct device_memory *devices);
void memory_release(struct memory *memory);

/* Its fields; see memory_fields.c. A moment that was asked for is a part of the rows. */
enum memory_form { MEMORY_PLAIN = 1 << 0, MEMORY_AT = 1 << 1 };
struct field_set;
extern const struct field_set memory_fields, memory_total;

#endif
