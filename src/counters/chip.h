/* SPDX-License-Identifier: Apache-2.0
 *
 * The metrics that a chip can count, and in how many passes: libcupti's host side, which needs the chip's name
 * (GH100) and no GPU. One thread.
 */
#ifndef COUNTERS_CHIP_H
#define COUNTERS_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum chip_use {
	CHIP_EXACT,	/* ranges and kernels, replayed when one pass is not enough */
	CHIP_OVER_TIME, /* samples at fixed intervals: one pass */
};

struct chip;

/* available: what this device has of the chip's counters, or NULL: all. It is kept, not copied.
 * 0, or -errno with a sentence. */
int chip_open(struct chip **ret_chip, const char *name, enum chip_use use, const uint8_t *available,
	      struct err *err);
void chip_close(struct chip *chip);
const char *chip_name(const struct chip *chip);

/* A whole name, as in dram__bytes_read.sum. */
bool chip_has(const struct chip *chip, const char *metric);
/* The name of the chip's metric that is spelt most like this one; "" when none is near. Both with and without
 * what follows the first dot. */
void chip_nearest(const struct chip *chip, const char *metric, char *name, size_t size);

/* Each base metric that begins with `prefix`, such as dram__bytes_read. */
typedef void chip_metric(void *context, const char *name);
void chip_each_metric(const struct chip *chip, const char *prefix, chip_metric *tell,
		      void *context);

/* Metrics that are counted together. */
struct chip_plan {
	struct CUpti_Profiler_Host_Object *host;
	const char **metrics; /* not copied */
	size_t n;
	uint8_t *image;
	size_t image_size, passes;
};
/* 0, or -errno with a sentence; every metric must be one that the chip has. */
int chip_plan_make(const struct chip *chip, const char **metrics, size_t n,
		   struct chip_plan *ret_plan, struct err *err);
void chip_plan_release(struct chip_plan *plan);
/* The values of range or sample number `index`, in the order of the metrics; NaN: not counted. */
int chip_plan_values(const struct chip_plan *plan, const uint8_t *data, size_t size, size_t index,
		     double *values, struct err *err);

#endif
