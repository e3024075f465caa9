/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring what a machine can do at most, for `moescope doctor --calibrate`. Each figure is one
 * line of JSON on stdout, so that what was measured before a fault is kept:
 *   {"device":"gpu 0","name":"…","memory_bytes":N,"key":"bf16_flops_per_s","value":X,
 *    "low":X,"high":X,"repeats":N}
 * or {"device":…,"key":…,"absent":"why"}.
 */
#ifndef LOAD_CALIBRATE_H
#define LOAD_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#define REPEATS 7
#define SAMPLE_S 0.05 /* how long one repeat should take at least */

struct device {
	char label[16]; /* "cpu", "gpu 0" */
	char name[128];
	double memory_bytes, cores;
};

double now_s(void);

/* Prints the median of n rates and their range. */
void tell(const struct device *device, const char *key, double *rates, int n);
void tell_one(const struct device *device, const char *key, double value);
void tell_absent(const struct device *device, const char *key, const char *why);

void calibrate_cpu(void);
void calibrate_gpus(void);

/* calibrate_gemm.c: matrix products of every data type on the current device. clock: called while
 * they run. */
void calibrate_gemm(const struct device *device, void (*clock)(void));

#endif
