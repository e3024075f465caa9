/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process of the program could not record, and has left in a file of the run directory, one sentence
 * per line: python/moescope/auto writes one where it has no library to tell it to.
 */
#ifndef CMD_RUN_NOTES_H
#define CMD_RUN_NOTES_H

#include <stdbool.h>

#include "base/buf.h"

bool run_note_is_file(const char *name);

/* Each sentence of all processes once, and removes their files. */
void run_notes_take(const char *run, struct buf *notes);

#endif
