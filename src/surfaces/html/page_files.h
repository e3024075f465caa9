/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of the web page, which are part of the program: "index.html", "page.css" and, where the build
 * had esbuild, "page.js".
 */
#ifndef SURFACES_PAGE_FILES_H
#define SURFACES_PAGE_FILES_H

#include <stddef.h>

struct page_file {
	const char *name;
	const char *type;
	const unsigned char *data;
	size_t size;
};

extern const struct page_file page_files[]; /* up to a NULL name; made by tools/embed.py */

#define NO_PAGE "this moescope was built without its web page; install esbuild and build it again."

/* NULL: there is none. */
const struct page_file *page_file_find(const char *name);

#endif
