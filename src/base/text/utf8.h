/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading UTF-8 that may be broken, and writing it. Pure functions, any thread.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT 0xFFFDu

/* Decodes one code point from text[0..length), length > 0. Returns the bytes it took. A byte that
 * begins nothing valid (overlong, surrogate, above U+10FFFF, cut) is taken alone and gives
 * UTF8_REPLACEMENT. *ret_valid says which it was: a literal U+FFFD is valid. */
size_t utf8_decode(const char *text, size_t length, uint32_t *ret_point, int *ret_valid);

/* Writes a code point up to U+10FFFF, at most four bytes; returns how many. Surrogates are written,
 * too: broken names of other programs stay what they were. */
size_t utf8_encode(uint32_t point, char *to);

/* False for what does something to a terminal or a reader in place of being seen: control characters
 * (C0, DEL, C1), marks that change the direction of text, line and paragraph separators. Names come
 * from files: nothing else of them goes to a terminal. */
int utf8_is_harmless(uint32_t point);

/* Puts '?' in place of all others, and of broken bytes. */
void utf8_make_harmless(char *text);

/* Columns that a code point takes on a terminal: 0 for combining marks and control characters,
 * 2 for East Asian wide ranges and emoji, else 1. */
int utf8_point_width(uint32_t point);

/* Columns of a whole NUL-terminated text. */
size_t utf8_width(const char *text);

#endif
