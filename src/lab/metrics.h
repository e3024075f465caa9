/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.json: what was measured of an experiment. A figure that is not known is null, with its
 * reason beside it.
 */
#ifndef LAB_METRICS_H
#define LAB_METRICS_H

#include "base/text/json_write.h"
#include "lab/point.h"

/* 0 or -ENOMEM. */
int metrics_write(const struct point *point, struct json *json);

#endif
