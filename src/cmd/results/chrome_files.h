/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a Chrome trace: compressed or not by their names, and one for each rank.
 */
#ifndef CMD_CHROME_FILES_H
#define CMD_CHROME_FILES_H

#include <stdbool.h>

#include "tables/tables.h"

/* Whether a trace is compressed. output: what the user named, or NULL; packed: of the format. */
bool chrome_packs(const char *output, bool packed);

/* Writes NAME-rankN.pt.trace.json (.gz when packed) into a directory, which is made when it is not
 * there; directory NULL: the current one. Says what was written. An exit status. */
int chrome_write_ranks(const struct run *run, const char *directory, bool packed);

#endif
