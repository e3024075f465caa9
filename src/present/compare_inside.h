/* SPDX-License-Identifier: Apache-2.0
 *
 * What the text and the data of a comparison share.
 */
#ifndef PRESENT_COMPARE_INSIDE_H
#define PRESENT_COMPARE_INSIDE_H

#include "present/compare.h"
#include "present/grid.h"

/* Kernels, or operations and ranges, of one pair, in the order asked for; items are struct
 * compare_row. */
int compare_grid_rows(const struct compare_scene *scene, const struct compare_pair *pair, bool host,
		      struct grid *ret_grid, struct err *err);

int compare_text(const struct compare_scene *scene, FILE *out, struct err *err);
void compare_text_notes(const struct compare_scene *scene, FILE *out);
const char *compare_result_name(enum condition_result result);

#endif
