/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions behind every number that moescope shows.
 */
#ifndef CMD_METRICS_H
#define CMD_METRICS_H

#include "subjects/meanings/meanings.h"

/* In the order to show, up to NULL. */
extern const struct metric_group *const metric_groups[];

/* A metric by its name, or by a key under which JSON and CSV show it; NULL when there is none.
 * ret_group may be NULL. */
const struct metric *metric_find(const char *name, const struct metric_group **ret_group);

#endif
