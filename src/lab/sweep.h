/* SPDX-License-Identifier: Apache-2.0
 *
 * A sweep: the product of parameter lists, one point per combination, and how each point ended.
 *
 * The order of the points: the first parameter changes slowest, the last one fastest, values in the
 * given order. The directory of a sweep:
 *
 *   sweep.yaml      the configuration, with the lists expanded
 *   journal.jsonl   what happened, one event per line (sweep_journal.c)
 *   sweep.lock      held by the one process that works on it
 *   points.lock     held by that process and by the points it started, as long as one of them lives
 *   queue/N.yaml    configuration of point N; N.log: what its process printed outside its own log;
 *                   N.note: a note for its results
 *   points/NAME/    the experiment directories
 *   set-aside/      leftovers of repeated points
 *
 * One thread.
 */
#ifndef LAB_SWEEP_H
#define LAB_SWEEP_H

#include "base/err.h"
#include "lab/shared/experiment.h"

#define SWEEP_SCHEMA "moescope/sweep/1"
#define SWEEP_POINTS_MAX 100000

enum sweep_state {
	SWEEP_WAITING,
	SWEEP_UNDER_WAY,
	SWEEP_SUCCESS,
	SWEEP_FAILED,
	SWEEP_TIMEOUT,
	SWEEP_STATES
};
extern const char *const sweep_state_names[SWEEP_STATES];

struct sweep_point {
	char *name;  /* "003-batch_size=2-max_tokens=100", its folder in points/ */
	char *label; /* "batch_size 2, max_tokens 100" */
	enum sweep_state state;
	char *error;	   /* why it failed, one sentence; NULL: it did not, or unknown */
	char *dead_node;   /* lost in the first attempt; NULL: none */
	double duration_s; /* NaN: unknown */
	int64_t start_ns;  /* monotonic, when it was started or submitted last */
	char job[64];	   /* of a batch system, "" before it is submitted */
};

struct sweep_axis {
	const struct parameter *parameter;
	struct texts values;
};

struct sweep {
	struct experiment base;
	struct sweep_axis *axes;
	size_t n_axes;
	struct sweep_point *points;
	size_t n;
	char *directory; /* absolute; NULL: not on disk yet */
	char *cwd;	 /* where points run, so that relative paths work after a resume */
	char id[24];	 /* names its jobs in a batch system */
	int lock_fd, points_fd, journal_fd;
};

/* All points of an experiment with a preset or a parameter_sweep, each checked. */
int sweep_plan(struct sweep *ret_sweep, const struct experiment *base, struct err *err);
void sweep_release(struct sweep *sweep);
/* The configuration of one point. Outside a directory output_dir stays as it is. */
int sweep_experiment(const struct sweep *sweep, size_t point, struct experiment *ret_experiment,
		     struct err *err);

/* Creates the directory of a planned sweep and locks it. */
int sweep_create(struct sweep *sweep, struct err *err);
/* Locks the directory of a started sweep. -EBUSY: another process works on it. waiting (may be
 * NULL) is called once if programs of the last attempt are still ending. */
int sweep_open(struct sweep *ret_sweep, const char *directory, void (*waiting)(void),
	       struct err *err);
/* Failed and timed-out points wait again. Returns how many, or -errno. */
int sweep_retry_failed(struct sweep *sweep, struct err *err);

/* Each records the event on disk before it returns. */
/* A point was in flight when the sweep was cut off, and nothing of it still runs: it counts if it
 * succeeded and waits again otherwise. */
int sweep_recover(struct sweep *sweep, size_t point, struct err *err);
int sweep_started(struct sweep *sweep, size_t point, struct err *err);
int sweep_submitted(struct sweep *sweep, size_t point, const char *job, struct err *err);
/* A point's node died: it waits again, or has failed if that was the second time. */
int sweep_node_died(struct sweep *sweep, size_t point, const char *node, struct err *err);
/* The point's process has ended. Its summary.json says how it went; if there is none, it failed,
 * and one with `state` and `why` is written. */
int sweep_ended(struct sweep *sweep, size_t point, enum sweep_state state, const char *why,
		struct err *err);

/* "DIRECTORY/FOLDER/NAME" and the like; NULL: no memory. */
char *sweep_path(const struct sweep *sweep, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
size_t sweep_count(const struct sweep *sweep, enum sweep_state state);

/* What the point's summary.json says; SWEEP_WAITING: there is none, or an incomplete one. */
enum sweep_state sweep_point_result(const struct sweep *sweep, size_t point, char **ret_error,
				    double *ret_duration_s);
/* Moves a point's leftovers out of the way. 0 also if there are none. */
int sweep_point_set_aside(const struct sweep *sweep, size_t point, struct err *err);
/* A note for the results of the next attempt; NULL: none. */
int sweep_point_note(const struct sweep *sweep, size_t point, const char *text, struct err *err);
/* A summary.json for a point whose process left none, and its log. */
int sweep_point_write_failure(const struct sweep *sweep, size_t point, enum sweep_state state,
			      const char *why, struct err *err);

#endif
