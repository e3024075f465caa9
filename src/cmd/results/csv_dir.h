/* SPDX-License-Identifier: Apache-2.0
 *
 * report --csv: the tables of runs as files in a directory.
 */
#ifndef CMD_CSV_DIR_H
#define CMD_CSV_DIR_H

#include "cmd/results/table.h"

/* One run: its files in `directory`. Several: a directory each in it, and their kernels side by
 * side. Each file appears whole or not at all. EXIT_OK, EXIT_FAILED or EXIT_USAGE. */
int csv_dir_write(struct invocation *inv, const char *directory);

#endif
