/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts for people and for programs.
 */
#ifndef VERDICTS_PAGE_H
#define VERDICTS_PAGE_H

#include "subjects/pages/section.h"
#include "verdicts/verdicts.h"

void verdicts_page(const struct scene *scene, const struct verdicts *verdicts, struct page *page);
enum tone verdict_tone(const struct verdict *verdict);
/* Read from a struct verdicts. */
extern const struct field_set verdicts_fields;
/* Likewise, as a table: a column for each figure. */
extern const struct field_set verdict_rows;

#endif
