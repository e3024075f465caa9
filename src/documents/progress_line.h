/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest state of a run in one line of text, where there is no screen for panels.
 */
#ifndef DOCUMENTS_PROGRESS_LINE_H
#define DOCUMENTS_PROGRESS_LINE_H

#include <stddef.h>

#include "tables/tables.h"

/* Kinds of records that it is made of. */
#define PROGRESS_KINDS (WANT(STEP) | WANT(COUNTER) | WANT(ROUTING))

/* Writes "step 40  loss 3.512  …" about the steps from row `first` on into out, "" if there is none
 * yet. Unknown values are left out. 0 or -ENOMEM. */
int progress_line(const struct run *run, size_t first, char *out, size_t size);

#endif
