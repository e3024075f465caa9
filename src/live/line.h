/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest state of a run in one line of text.
 */
#ifndef LIVE_LINE_H
#define LIVE_LINE_H

#include <stddef.h>

#include "tables/tables.h"

/* Writes "step 40  loss 3.512  …" about the steps from row `first` on into out, "" if there is none
 * yet. Unknown values are left out. 0 or -ENOMEM. */
int live_line(const struct run *run, size_t first, char *out, size_t size);

#endif
