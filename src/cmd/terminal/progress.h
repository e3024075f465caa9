/* SPDX-License-Identifier: Apache-2.0
 *
 * "moescope: reading NAME (3 s)" on stderr while something takes longer than a second, if stderr
 * is a terminal.
 */
#ifndef CMD_PROGRESS_H
#define CMD_PROGRESS_H

void progress_begin(const char *what);
/* Takes the line away again. */
void progress_end(void);

#endif
