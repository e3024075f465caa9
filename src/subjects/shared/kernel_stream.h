/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of a run one by one, with the place they come from, in the order of the file. Nothing
 * grows with their number but the look-ups of attribution.h. Pure but for the cursor: one thread at
 * a time per stream.
 */
#ifndef SUBJECTS_KERNEL_STREAM_H
#define SUBJECTS_KERNEL_STREAM_H

#include "device/sheets/kernel_class.h"
#include "subjects/shared/attribution.h"

struct kernel_event {
	int64_t realtime_ns; /* start since 1970; of an untimed kernel its delivery */
	int64_t duration_ns; /* 0 and untimed: not known */
	bool untimed;
	const char *name, *class; /* demangled; live as long as the stream */
	int32_t layer, expert;	  /* -1: no range around its launch names one */
};

struct kernel_stream {
	const struct run *run;
	struct selection sel;
	size_t next;
	bool all; /* nothing is left out */
	struct attribution at;
	struct kernel_classes *classes;
	struct kernel_label *labels; /* by string id */
	size_t n_labels;
};

int kernel_stream_init(struct kernel_stream *stream, const struct run *run,
		       const struct selection *sel);
void kernel_stream_release(struct kernel_stream *stream);
/* 1: *ret_event is set; 0: no more; or -errno. */
int kernel_stream_next(struct kernel_stream *stream, struct kernel_event *ret_event);

#endif
