/* SPDX-License-Identifier: Apache-2.0
 *
 * The number type of the model: float, or double with -DTINYMOE_DOUBLE, so that the tests check the
 * gradients of the same sources against finite differences.
 *
 * Mathematics on `real` goes through <tgmath.h>, which picks expf or exp by the type.
 */
#ifndef TINYMOE_REAL_H
#define TINYMOE_REAL_H

#ifdef TINYMOE_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
