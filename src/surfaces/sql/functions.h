/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the analyses of a run, as functions.c keeps them.
 */
#ifndef SURFACES_FUNCTIONS_H
#define SURFACES_FUNCTIONS_H

#define FUNCTIONS_MAX 32

struct function_rows;

/* Frees the rows of all functions: FUNCTIONS_MAX of them, each may be NULL. */
void functions_release(struct function_rows **rows);

#endif
