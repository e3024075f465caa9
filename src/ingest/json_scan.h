/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the ends of strings and objects in JSON text, at the speed of memory. Nothing here knows what
 * the text means, and nothing is checked: callers that need to know whether it is JSON look at it
 * themselves. Pure, any thread.
 *
 * All ways give the same answers; which one is used is decided once, by what the processor can do.
 */
#ifndef INGEST_JSON_SCAN_H
#define INGEST_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* So many bytes after the end of a text may be read (never used). */
#define SCAN_PAD 64

struct scan {
	const char *name; /* "avx2" */
	/* p: after the quote that begins a string. The quote that ends it, or a place at or after
	 * `end`. *ret_escaped is set when the string holds a backslash, else left alone. */
	const char *(*string_end)(const char *p, const char *end, bool *ret_escaped);
	/* p: inside of `depth` objects, outside of strings. The place after the brace that ends the
	 * outermost of them, or NULL when it does not come before `end`. *ret_control is set when a
	 * string has a control character in it (then it may be none), else left alone. */
	const char *(*object_end)(const char *p, const char *end, unsigned int depth,
				  bool *ret_control);
};

/* The best way for this processor. */
const struct scan *scan_best(void);
/* Way i of those that this processor can go, the portable one first; NULL after the last. */
const struct scan *scan_way(size_t i);

#endif
