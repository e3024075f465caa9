/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people: three significant digits and a unit. Pure functions that return their text
 * by value, so that several fit in one printf: format_ns(x).text. Any thread.
 *
 * All units are decimal: 1 kB is 1000 bytes, 1 GB is 10^9 bytes, 1 M is 10^6.
 */
#ifndef BASE_FORMAT_H
#define BASE_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct format {
	char text[32];
};

struct format format_ns(double ns);	       /* "412 ns" "12.3 ms" "1.24 s" "3m 05s" "2h 07m" */
struct format format_bytes(double bytes);      /* "512 B" "1.24 GB" */
struct format format_count(double count);      /* "812" "3.40 M" "1.20 G" */
struct format format_rate(double per_second);  /* "12.3 k/s" */
struct format format_flops(double per_second); /* "12.3 GFLOP/s" */
struct format format_pct(double pct);	       /* "0.04%" "3.1%" "42%" */
struct format format_ratio(double value);      /* "0.0312" "1.07" "12.3" */

/* UTC "2026-01-31 14:03:07 UTC" from nanoseconds since 1970. */
struct format format_date(int64_t realtime_ns);

/* A moment since some beginning, or none. */
struct given_moment {
	bool given;
	int64_t ns;
};

/* The way back, of a moment: "1.5s", "800ms", "20us", "7ns", "2": seconds where there is no unit. False: the text is
 * none. */
bool moment_parse(const char *text, struct given_moment *ret_moment);

/* The way back, of an interval: "1s", "500ms", "2": seconds where there is no unit. 0, or -EINVAL with a sentence. */
int interval_parse(const char *text, int64_t *ret_ns, struct err *err);

#endif
