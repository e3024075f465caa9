/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of sheets: a new one is one line here.
 */
#include "documents/comparison.h"

const struct sheet *const sheets[] = { &comparison_sheet, NULL };
