/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in the program its calling thread is, for the library that counts launches (src/exact). Exported, but no part of
 * moescope.h: both come from one build.
 */
#ifndef PROBE_CORE_OPEN_RANGES_H
#define PROBE_CORE_OPEN_RANGES_H

#include <stddef.h>

#include "moescope.h"

/* A range that is open on a thread; layer and expert: its own, or of one around it; -1: none. */
struct open_range {
	moescope_name name;
	int32_t layer, expert;
};

/* Those of the calling thread, the innermost first, at most so many. */
MOESCOPE_API size_t moescope_open_ranges(struct open_range *ranges, size_t most);
/* The text of a name; it stays. "": there is no such name. */
MOESCOPE_API const char *moescope_name_text(moescope_name name);

#endif
