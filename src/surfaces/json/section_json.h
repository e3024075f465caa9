/* SPDX-License-Identifier: Apache-2.0
 *
 * Sections and documents as JSON: one object with the head of the run, then the table or the parts.
 */
#ifndef SURFACES_SECTION_JSON_H
#define SURFACES_SECTION_JSON_H

#include <stdio.h>

#include "subjects/pages/section.h"

/* grid: of a table; own: what a document has made of the answers. 0 or -errno. */
int section_json(const struct section *section, const struct scene *scene, const struct grid *grid,
		 const void *own, FILE *out);

#endif
