/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule of `run --schedule`: its text taken apart and put together again.
 */
#ifndef CMD_RUN_OPTIONS_H
#define CMD_RUN_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* "wait=5,warmup=2" and a sample number into
 * "skip_first=0,wait=5,warmup=2,active=1,repeat=0,sample=1". text NULL: every step. */
int schedule_canonical(const char *text, uint64_t sample, char *out, size_t size, struct err *err);

#endif
