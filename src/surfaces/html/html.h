/* SPDX-License-Identifier: Apache-2.0
 *
 * The web page of one run as one file, with its data inside: it can be mailed, and needs no network.
 */
#ifndef SURFACES_HTML_H
#define SURFACES_HTML_H

#include "surfaces/views/views.h"

/* What a run must be loaded with. */
struct run_want html_want(const struct view_options *options);
/* Tables have as many rows as keep the file small; the page says how many are left out. 0 or -errno with a
 * sentence. */
int html_print(const struct run *run, const struct view_options *options, FILE *out,
	       struct err *err);

#endif
