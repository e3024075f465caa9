/* SPDX-License-Identifier: Apache-2.0
 *
 * One experiment from its parameters to its folder: what was run, how it ended, what was measured.
 * A sweep runs each of its points as a process that does this once. Main thread.
 */
#ifndef LAB_POINT_H
#define LAB_POINT_H

#include "lab/engines/engine.h"
#include "lab/estimate.h"
#include "lab/shared/child.h"

enum point_status { POINT_SUCCESS, POINT_FAILED, POINT_TIMEOUT, POINT_STATUSES };
extern const char *const point_status_names[POINT_STATUSES];

/* Names in an experiment's folder. */
#define POINT_CONFIG "config.yaml"
#define POINT_LOG "experiment.log"
#define POINT_SUMMARY "summary.json"
#define POINT_METRICS "metrics.json"
#define POINT_REQUESTS "requests.jsonl"
#define POINT_GPUS "gpu_info.json"
#define POINT_TEXT "generated_output.txt"
#define POINT_COMMAND "command.sh"
#define POINT_TRACE "trace.mscope"

/* Variable with a note on this attempt, set by whatever started it. */
#define POINT_NOTE "MOESCOPE_BENCH_NOTE"

struct point {
	const struct experiment *experiment;
	const struct engine *engine;
	const struct lab_tools *tools;
	const volatile bool *stop;
	char *name, *directory; /* the directory is absolute */
	int log_fd;
	int64_t start_ns, end_ns, deadline_ns; /* monotonic; deadline 0: none */
	int64_t start_realtime_ns;
	enum point_status status;
	struct err error; /* why not success */
	struct requests requests;
	bool measured;		  /* requests holds what was measured */
	struct err unmeasured;	  /* why not */
	uint64_t peak_rss_bytes;  /* 0: nothing ran */
	double trace_peak_bytes;  /* as reported by the program's allocators; -1: unknown */
	struct err trace_unknown; /* why not */
	struct estimate estimate;
	struct err unestimated; /* why not; empty: it was */
	bool recorded;		/* the server's recorder has written its file */
	struct texts notes;	/* for people: what was left out, and why */
};

/* Runs it. ret_point is filled however the program ended; -errno with a sentence only if there is
 * nowhere to write (-EEXIST: the folder already has results, and `replace` is false). stop: set by
 * a signal handler; the program is then ended and the point has failed. */
int point_run(const struct experiment *experiment, const struct lab_tools *tools, bool replace,
	      const volatile bool *stop, struct point *ret_point, struct err *err);
void point_release(struct point *point);

/* "MODEL_MODE_KINDyyyymmdd_hhmmss", suitable for a folder. */
void point_default_name(const struct experiment *experiment, const char *kind, char *out,
			size_t size);
/* Creates it with its parents; fine if it exists. */
int make_directories(const char *path, struct err *err);

/* For the parts of a point's run. */
void point_note(struct point *point, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *point_path(const struct point *point, const char *name); /* NULL: no memory */
/* Starts the driver or server, under the profiler if requested. */
int point_start(struct point *point, const struct argv *program, struct child *child,
		struct err *err);
void point_fail(struct point *point, enum point_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* The server: start, wait, load, stop. Sets status and error, and `live`'s url. */
void point_serve(struct point *point, struct experiment *live);
/* The recorder of the server's engine, around the load: asked to start (false: there is none, or it
 * fails), asked to stop, and once the server has ended its file is read. Failures are noted. */
bool point_record_begin(struct point *point, const char *url);
void point_record_end(struct point *point, const char *url);
void point_record_collect(struct point *point);
/* The program's last lines in the log, on one line; "" when there are none. */
void point_last_message(const struct point *point, char *out, size_t size);

#endif
