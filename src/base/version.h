/* SPDX-License-Identifier: Apache-2.0
 *
 * The version as text, from the numbers in the public header.
 */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#include "moescope.h"

#define VERSION_WORD(x) #x
#define VERSION_JOIN(a, b, c) VERSION_WORD(a) "." VERSION_WORD(b) "." VERSION_WORD(c)
#define VERSION_TEXT                                                                               \
	VERSION_JOIN(MOESCOPE_VERSION_MAJOR, MOESCOPE_VERSION_MINOR, MOESCOPE_VERSION_PATCH)

#endif
