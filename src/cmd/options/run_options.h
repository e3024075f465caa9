/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of options of `run` that have a form of their own, checked and made canonical. Pure; the
 * message says what is wrong.
 */
#ifndef CMD_RUN_OPTIONS_H
#define CMD_RUN_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* "wait=5,warmup=2" and a sample number into
 * "skip_first=0,wait=5,warmup=2,active=1,repeat=0,sample=1". text NULL: every step. */
int schedule_canonical(const char *text, uint64_t sample, char *out, size_t size, struct err *err);

/* "1%", "0.5" or "off" into percent; 0: off. */
int budget_parse(const char *text, double *ret_pct, struct err *err);

/* "128MB", "1GB" or a number of MB (of 2^20 bytes) into MB. */
int allowance_parse(const char *text, uint64_t *ret_mb, struct err *err);

/* "10us" into nanoseconds, from 0 to a second. */
int threshold_parse(const char *text, uint64_t *ret_ns, struct err *err);

/* A POSIX extended regular expression, and a list of ranks such as "0,2-3". */
int regex_check(const char *option, const char *text, struct err *err);
int ranks_check(const char *text, struct err *err);

#endif
