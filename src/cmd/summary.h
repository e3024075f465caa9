/* SPDX-License-Identifier: Apache-2.0
 *
 * The comparison of a directory of experiments, for `summary` and for the end of `sweep`. Main thread.
 */
#ifndef CMD_SUMMARY_H
#define CMD_SUMMARY_H

#include <stdio.h>

#include "cmd/results/table.h"

/* Writes the files into output (NULL: the directory itself), and prints the table, or the JSON that
 * `table` asks for, to out. EXIT_OK, or EXIT_FAILED after saying why. */
int summary_make(const char *directory, const char *output, const struct table_values *table,
		 FILE *out);

#endif
