/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as cells of comma-separated values. Pure, any thread.
 *
 * Names come from files, and spreadsheets take a cell that begins with one of =+-@, a tab or a
 * carriage return for a formula: those get a ' in front, unless they are numbers. Control characters
 * are replaced by '?' as on a terminal, but for tabs and line ends, which are quoted.
 */
#ifndef BASE_CSV_WRITE_H
#define BASE_CSV_WRITE_H

#include <stdio.h>

void csv_write_text(const char *text, FILE *out);

#endif
