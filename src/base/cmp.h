/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons for qsort: one key after the other, as in
 *
 *	return CMP(x->rank, y->rank) ?: CMP(y->time_ns, x->time_ns);
 *
 * by rank, and of one rank the longest first.
 */
#ifndef BASE_CMP_H
#define BASE_CMP_H

/* -1, 0 or 1. */
#define CMP(a, b) (((a) > (b)) - ((a) < (b)))

#endif
