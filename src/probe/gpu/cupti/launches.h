/* SPDX-License-Identifier: Apache-2.0
 *
 * Launch configurations: each is recorded once per session and then referred to by number.
 */
#ifndef PROBE_GPU_CUPTI_LAUNCHES_H
#define PROBE_GPU_CUPTI_LAUNCHES_H

#include "trace/records.h"

/* The id of a configuration (its id field is ignored), recorded if new; 0: no memory. One caller at
 * a time. */
uint32_t launch_id(const struct row_launch *launch);

#endif
