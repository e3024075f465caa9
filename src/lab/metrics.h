/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.json: the measurements of an experiment. An unknown figure is null, with its reason next
 * to it.
 */
#ifndef LAB_METRICS_H
#define LAB_METRICS_H

#include "base/text/json_write.h"
#include "lab/point.h"

/* 0 or -ENOMEM. */
int metrics_write(const struct point *point, struct json *json);

#endif
