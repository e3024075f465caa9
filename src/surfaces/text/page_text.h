/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages as text of any width, with block characters or plain ASCII.
 */
#ifndef SURFACES_PAGE_TEXT_H
#define SURFACES_PAGE_TEXT_H

#include <stdio.h>

#include "base/text/text_table.h"
#include "subjects/pages/page.h"

/* 0, or the error of the page, of which nothing is printed then, or -ENOMEM. */
int page_print(const struct page *page, const struct text_layout *layout, FILE *out);

#endif
