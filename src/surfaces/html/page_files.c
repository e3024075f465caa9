/* SPDX-License-Identifier: Apache-2.0
 *
 * See page_files.h.
 */
#include "surfaces/html/page_files.h"

#include <string.h>

const struct page_file *page_file_find(const char *name)
{
	for (const struct page_file *file = page_files; file->name; file++)
		if (!strcmp(file->name, name))
			return file;
	return NULL;
}
