/* SPDX-License-Identifier: Apache-2.0
 *
 * A sheet: a document that is not about one run. It is read from what it is about, in every form.
 */
#ifndef DOCUMENTS_SHEET_H
#define DOCUMENTS_SHEET_H

#include "subjects/pages/page.h"

struct sheet {
	const struct field_set
		*fields;	      /* for JSON; its part is "compare" in "moescope/compare/1" */
	const struct field_set *rows; /* one table, for CSV */
	void (*page)(const void *about, struct page *page);
};

/* All of them, up to NULL: the schema lists them. */
extern const struct sheet *const sheets[];

#endif
