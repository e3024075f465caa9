/* SPDX-License-Identifier: Apache-2.0
 *
 * Recording for real, once: what `doctor` believes more than any list of files.
 */
#ifndef CMD_SELFTEST_H
#define CMD_SELFTEST_H

#include "base/err.h"

struct selftest {
	unsigned int ranges; /* recorded and read back equal */
	double ns_per_range; /* begin and end, median over batches */
};

/* Loads the library in a child process, records ranges into a temporary run, reads them back and
 * compares. library: path or plain name. */
int selftest_run(const char *library, struct selftest *ret_result, struct err *err);

#endif
