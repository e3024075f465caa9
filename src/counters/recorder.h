/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of counters on their way into a shard of the run: all of them, or those of the last seconds when somebody
 * asks for them. One thread.
 */
#ifndef COUNTERS_RECORDER_H
#define COUNTERS_RECORDER_H

#include "counters/pm_sampler.h"

struct recorder;

/* keep_ns: how far back samples are kept; 0: everything is written. 0, or -errno with a sentence. */
int recorder_open(struct recorder **ret_recorder, const char *run, int64_t keep_ns,
		  struct err *err);

/* A device, and who samples it: for recorder_sample. */
struct recorder_device;
struct recorder_device *recorder_add(struct recorder *recorder, uint32_t device, const char *name,
				     const char *uuid, const struct pm_sampler *sampler);
/* A pm_sample_fn with a recorder_device as its context. */
void recorder_sample(void *device, const struct pm_sample *sample);

/* How far the time of a sample that was written may be from the true one; below 0: none was written. */
int64_t recorder_clock_error(const struct recorder *recorder);
/* What the run is to say. */
void recorder_fact(struct recorder *recorder, const char *key, const char *value);
/* A mark, now. */
void recorder_mark(struct recorder *recorder, const char *text);
/* To the file: the samples that are kept, each once. */
void recorder_write(struct recorder *recorder);
/* What is not written is lost. 0, or -errno with the first trouble there was. */
int recorder_close(struct recorder *recorder, struct err *err);

#endif
