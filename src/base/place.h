/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a file that is to appear whole goes. Renaming would put it in the place of a link, of a pipe
 * that somebody reads, or, for root, of a device of the machine. Any thread.
 */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H

#include <stdbool.h>

/* What links lead to; free() it. *ret_stream: a device, pipe or socket is there, which can only be
 * written to. 0 or -errno. */
int place_find(const char *path, char **ret_place, bool *ret_stream);

#endif
