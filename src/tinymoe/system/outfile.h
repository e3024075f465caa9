/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that appears under its name only when complete: written next to it, synced, renamed.
 */
#ifndef TINYMOE_OUTFILE_H
#define TINYMOE_OUTFILE_H

#include <stdio.h>

struct failure;

struct outfile {
	FILE *stream;
	char *path, *temporary;
};

int outfile_open(struct outfile *file, const char *path, struct failure *failure);

/* Checks now whether outfile_open could work later: before hours of work, not after. */
int outfile_probe(const char *path, struct failure *failure);

/* Makes it appear, or removes what was written. */
int outfile_commit(struct outfile *file, struct failure *failure);

/* Removes what was written; fine on a file that is not open. */
void outfile_abandon(struct outfile *file);

#endif
