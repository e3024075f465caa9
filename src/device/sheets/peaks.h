/* SPDX-License-Identifier: Apache-2.0
 *
 * The most that a machine can do: arithmetic by data type, memory and copies. `doctor --calibrate`
 * measures it and leaves a line for each device in a file of the user's cache ("peaks"); analyses
 * take it from there. Untrusted input.
 *
 * A line: "moescope-peaks 1", words "key=value" in any order (unknown keys are ignored, a missing
 * one was not measured), and last "name=" with the rest of the line. Of several lines of one device
 * the last counts, key by key.
 */
#ifndef DEVICE_PEAKS_H
#define DEVICE_PEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum peak_dtype { PEAK_FP64, PEAK_FP32, PEAK_TF32, PEAK_BF16, PEAK_FP16, PEAK_FP8, PEAK_DTYPES };

const char *peak_dtype_name(enum peak_dtype dtype); /* "fp64" … */

/* 0 in a number: not known. */
struct peaks {
	char name[128]; /* as the driver says it, or the model name of the processor */
	double cpu;	/* 1: a processor with `cores` threads at work; 0: a GPU */
	double cores;
	double memory_bytes; /* of a GPU: cards of one name differ in it */
	double flops_per_s[PEAK_DTYPES];
	double memory_bytes_per_s; /* read and written together */
	double copy_bytes_per_s;   /* bytes copied within the device's memory */
	double htod_pinned_bytes_per_s, dtoh_pinned_bytes_per_s;
	double htod_pageable_bytes_per_s, dtoh_pageable_bytes_per_s;
	double clock_mhz; /* of the multiprocessors, while it measured */
};

struct peaks_file {
	struct peaks *rows;
	size_t n;
};

/* A file that is not there has no rows. 0 or -errno. */
int peaks_read(const char *path, struct peaks_file *ret_file);
void peaks_release(struct peaks_file *file);
/* Appends one line. */
int peaks_append(const char *path, const struct peaks *peaks);

/* NULL: not measured. memory_bytes: within 5%, since drivers keep some for themselves. */
const struct peaks *peaks_find_gpu(const struct peaks_file *file, const char *name,
				   double memory_bytes);
const struct peaks *peaks_find_cpu(const struct peaks_file *file, const char *name, double cores);

/* Sets the figure of that key, as in the file; false: there is none, or the value is none that a
 * machine can have. */
bool peaks_set(struct peaks *peaks, const char *key, double value);

#endif
