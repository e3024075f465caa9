/* SPDX-License-Identifier: Apache-2.0
 *
 * C++ symbols as their source has them. Any thread.
 */
#ifndef BASE_DEMANGLE_H
#define BASE_DEMANGLE_H

/* "at::add(int)" of "_ZN2at3addEi"; a copy of a name that is no such symbol, or one of more than
 * 32 KiB, of a text of more than 128 KiB (a few bytes can mean any length), or nested or listed more
 * than a thousand times. -ENOMEM. *ret_text: free() it. */
int demangled(const char *name, char **ret_text);

#endif
