/* SPDX-License-Identifier: Apache-2.0
 *
 * The governor decides when device records are collected, so that collecting them costs the program
 * no more than its budget. It only decides; gears.c acts. No clock, no CUPTI, no lock: only the GPU
 * thread uses it, and tests feed it by hand.
 *
 * Gears: always (attached), windows (attached now and then, detached in between), counts (no more
 * device records). While attached it knows how many kernels came and what one costs, and from that
 * what attaching costs; if the program marks its steps, it compares steps with and without records
 * instead. A window also costs switching time and a little device memory that CUPTI never returns;
 * an allowance limits that for the whole run.
 */
#ifndef PROBE_GPU_GOVERNOR_H
#define PROBE_GPU_GOVERNOR_H

#include <stdbool.h>
#include <stdint.h>

/* As in the gear records. */
enum gear { GEAR_NONE, GEAR_COUNTS, GEAR_WINDOWS, GEAR_ALWAYS, GEAR_YIELDED };

/* What attaching costs, measured on this machine (`doctor --stress`) or on the reference
 * machine. */
struct governor_prices {
	double launch_ns; /* a kernel launched by the host, including calls and copies around it */
	double node_ns;	  /* a kernel of a CUDA graph */
	double call_ns;	  /* a traced call, apart from what it launches */
	double rest_ns;	  /* a launch while CUPTI is attached and records nothing */
	uint64_t attach_bytes; /* device memory for attaching first */
	uint64_t window_bytes; /* device memory that each later window leaves behind */
};

struct governor_limits {
	double budget;		  /* fraction of wall time; 0: no limit, always attached */
	uint64_t allowance_bytes; /* of device memory */
	bool may_detach;	  /* detaching is proved safe on this CUPTI and driver */
	bool sparse;		  /* a dozen windows per run, not hundreds */
	bool rests;		  /* between windows CUPTI stays attached */
	unsigned int shifts; /* for tests of the transitions: this many windows, back to back */
};

/* Sums since the process started. */
struct governor_counts {
	uint64_t launches, nodes, calls;
};

enum governor_order { GOVERNOR_KEEP, GOVERNOR_ATTACH, GOVERNOR_DETACH };

#define GOVERNOR_STEPS 32 /* of each kind that are compared */

struct governor {
	struct governor_limits limits;
	struct governor_prices prices;
	enum gear gear;
	bool attached;
	const char *why; /* of the last shift */
	double cost;	 /* slowdown while attached, fraction; negative: unknown so far */
	bool cost_by_steps;
	double rest_cost; /* estimated slowdown between windows, at the last window's launch rate */
	int64_t start_ns;
	int64_t since_ns;  /* when it was attached or detached */
	int64_t switch_ns; /* time for the last attach and detach together */
	int64_t window_ns, gap_ns;
	int64_t paid_ns; /* the part of a gap needed to pay */
	double rarer;	 /* how much longer than necessary a gap is, to save device memory */
	double debt_ns;	 /* cost of collecting beyond what the time so far pays for */
	uint64_t windows;
	int64_t window_since_ns; /* when the last one began, and the counts then */
	struct governor_counts window_counts;
	uint64_t host_bytes; /* that windows have left behind; the caller counts them */
	int64_t look_ns;     /* when it counts next */
	int64_t looked_ns;   /* time of the counts below */
	struct governor_counts looked;
	double steps[2][GOVERNOR_STEPS]; /* without records: ns; with: multiples of those */
	unsigned int n_steps[2];
};

/* Set g->prices before the first attach. */
void governor_start(struct governor *g, const struct governor_limits *limits, int64_t now_ns);

/* A step of the program ended; with: attached from start to end. */
void governor_step(struct governor *g, bool with, int64_t duration_ns);

/* The next question will count: the counts should be fresh. */
bool governor_is_due(const struct governor *g, int64_t now_ns);
/* What to do now. ret_wait_ns: when to ask again at the latest. */
enum governor_order governor_ask(struct governor *g, int64_t now_ns,
				 const struct governor_counts *counts, int64_t *ret_wait_ns);
/* How long to wait for a good moment to detach, given what recording costs meanwhile. */
int64_t governor_patience_ns(const struct governor *g);
/* It is done, and took that long. */
void governor_attached(struct governor *g, int64_t now_ns, int64_t took_ns,
		       const struct governor_counts *counts);
void governor_detached(struct governor *g, int64_t now_ns, int64_t took_ns,
		       const struct governor_counts *counts);
/* It could not be done and will not be. */
void governor_cannot_detach(struct governor *g, const char *why);
/* As far as known, the budget holds without ever detaching. */
bool governor_may_stay(const struct governor *g);

/* False if the device memory allowance has no room for another attach: then the gear is counts, and
 * why says so. */
bool governor_may_attach(struct governor *g);
uint64_t governor_device_bytes(const struct governor *g);

#endif
