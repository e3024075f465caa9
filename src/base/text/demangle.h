/* SPDX-License-Identifier: Apache-2.0
 *
 * C++ symbols as their source has them. Any thread.
 */
#ifndef BASE_DEMANGLE_H
#define BASE_DEMANGLE_H

/* "at::add(int)" of "_ZN2at3addEi". NULL: it is no such symbol, its text would be longer than
 * 128 KiB (a few bytes can mean any length), or there was no memory. free() it. */
char *demangled(const char *symbol);

#endif
