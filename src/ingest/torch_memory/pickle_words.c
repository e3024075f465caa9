/* SPDX-License-Identifier: Apache-2.0
 *
 * The opcodes of pickles, and how protocols 0 and 1 write values as text. Pure, any thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "ingest/torch_memory/pickle_inside.h"

const struct pickle_opcode pickle_opcodes[256] = {
	['('] = { "MARK", FORM_NONE, DO_MARK },
	['.'] = { "STOP", FORM_NONE, DO_STOP },
	['0'] = { "POP", FORM_NONE, DO_POP },
	['1'] = { "POP_MARK", FORM_NONE, DO_POP_MARK },
	['2'] = { "DUP", FORM_NONE, DO_DUPLICATE },
	['F'] = { "FLOAT", FORM_LINE, DO_LINE },
	['I'] = { "INT", FORM_LINE, DO_LINE },
	['J'] = { "BININT", FORM_I4, DO_NUMBER, PICKLE_INT },
	['K'] = { "BININT1", FORM_U1, DO_NUMBER, PICKLE_INT },
	['L'] = { "LONG", FORM_LINE, DO_LINE },
	['M'] = { "BININT2", FORM_U2, DO_NUMBER, PICKLE_INT },
	['N'] = { "NONE", FORM_NONE, DO_NUMBER, PICKLE_NONE },
	['P'] = { "PERSID", FORM_NONE, DO_REFUSE },
	['Q'] = { "BINPERSID", FORM_NONE, DO_REFUSE },
	['R'] = { "REDUCE", FORM_NONE, DO_REFUSE },
	['S'] = { "STRING", FORM_LINE, DO_LINE },
	['T'] = { "BINSTRING", FORM_COUNTED4_SIGNED, DO_TEXT, PICKLE_TEXT },
	['U'] = { "SHORT_BINSTRING", FORM_COUNTED1, DO_TEXT, PICKLE_TEXT },
	['V'] = { "UNICODE", FORM_LINE, DO_LINE },
	['X'] = { "BINUNICODE", FORM_COUNTED4, DO_TEXT, PICKLE_TEXT },
	['a'] = { "APPEND", FORM_NONE, DO_ADD, PICKLE_LIST },
	['b'] = { "BUILD", FORM_NONE, DO_REFUSE },
	['c'] = { "GLOBAL", FORM_NONE, DO_REFUSE },
	['d'] = { "DICT", FORM_NONE, DO_MARKED, PICKLE_DICT },
	['}'] = { "EMPTY_DICT", FORM_NONE, DO_EMPTY, PICKLE_DICT },
	['e'] = { "APPENDS", FORM_NONE, DO_ADD_MARKED, PICKLE_LIST },
	['g'] = { "GET", FORM_LINE, DO_MEMO_LINE },
	['h'] = { "BINGET", FORM_U1, DO_GET },
	['i'] = { "INST", FORM_NONE, DO_REFUSE },
	['j'] = { "LONG_BINGET", FORM_U4, DO_GET },
	['l'] = { "LIST", FORM_NONE, DO_MARKED, PICKLE_LIST },
	[']'] = { "EMPTY_LIST", FORM_NONE, DO_EMPTY, PICKLE_LIST },
	['o'] = { "OBJ", FORM_NONE, DO_REFUSE },
	['p'] = { "PUT", FORM_LINE, DO_MEMO_LINE },
	['q'] = { "BINPUT", FORM_U1, DO_PUT },
	['r'] = { "LONG_BINPUT", FORM_U4, DO_PUT },
	['s'] = { "SETITEM", FORM_NONE, DO_ADD, PICKLE_DICT },
	['t'] = { "TUPLE", FORM_NONE, DO_MARKED, PICKLE_TUPLE },
	[')'] = { "EMPTY_TUPLE", FORM_NONE, DO_EMPTY, PICKLE_TUPLE },
	['u'] = { "SETITEMS", FORM_NONE, DO_ADD_MARKED, PICKLE_DICT },
	['G'] = { "BINFLOAT", FORM_F8, DO_NUMBER, PICKLE_FLOAT },
	[0x80] = { "PROTO", FORM_U1, DO_PROTOCOL },
	[0x81] = { "NEWOBJ", FORM_NONE, DO_REFUSE },
	[0x82] = { "EXT1", FORM_NONE, DO_REFUSE },
	[0x83] = { "EXT2", FORM_NONE, DO_REFUSE },
	[0x84] = { "EXT4", FORM_NONE, DO_REFUSE },
	[0x85] = { "TUPLE1", FORM_NONE, DO_TUPLE, PICKLE_TUPLE },
	[0x86] = { "TUPLE2", FORM_NONE, DO_TUPLE, PICKLE_TUPLE },
	[0x87] = { "TUPLE3", FORM_NONE, DO_TUPLE, PICKLE_TUPLE },
	[0x88] = { "NEWTRUE", FORM_NONE, DO_TRUE, PICKLE_BOOL },
	[0x89] = { "NEWFALSE", FORM_NONE, DO_NUMBER, PICKLE_BOOL },
	[0x8a] = { "LONG1", FORM_COUNTED1, DO_LONG, PICKLE_INT },
	[0x8b] = { "LONG4", FORM_COUNTED4_SIGNED, DO_LONG, PICKLE_INT },
	['B'] = { "BINBYTES", FORM_COUNTED4, DO_TEXT, PICKLE_BYTES },
	['C'] = { "SHORT_BINBYTES", FORM_COUNTED1, DO_TEXT, PICKLE_BYTES },
	[0x8c] = { "SHORT_BINUNICODE", FORM_COUNTED1, DO_TEXT, PICKLE_TEXT },
	[0x8d] = { "BINUNICODE8", FORM_COUNTED8, DO_TEXT, PICKLE_TEXT },
	[0x8e] = { "BINBYTES8", FORM_COUNTED8, DO_TEXT, PICKLE_BYTES },
	[0x8f] = { "EMPTY_SET", FORM_NONE, DO_EMPTY, PICKLE_SET },
	[0x90] = { "ADDITEMS", FORM_NONE, DO_ADD_MARKED, PICKLE_SET },
	[0x91] = { "FROZENSET", FORM_NONE, DO_MARKED, PICKLE_SET },
	[0x92] = { "NEWOBJ_EX", FORM_NONE, DO_REFUSE },
	[0x93] = { "STACK_GLOBAL", FORM_NONE, DO_REFUSE },
	[0x94] = { "MEMOIZE", FORM_NONE, DO_MEMOIZE },
	[0x95] = { "FRAME", FORM_U8, DO_NOTHING },
	[0x96] = { "BYTEARRAY8", FORM_COUNTED8, DO_TEXT, PICKLE_BYTES },
	/* Objects that the program is to bring along. */
	[0x97] = { "NEXT_BUFFER", FORM_NONE, DO_REFUSE },
	[0x98] = { "READONLY_BUFFER", FORM_NONE, DO_REFUSE },
};

const char pickle_no_memory[] = "no memory";

#define NUMBER_LENGTH 64 /* of a number as text that can be kept; longer ones are beyond int64_t */

/* A copy with a NUL behind it; false when it does not fit. */
static bool terminated(const char *line, size_t length, char copy[NUMBER_LENGTH])
{
	if (length >= NUMBER_LENGTH)
		return false;
	memcpy(copy, line, length);
	copy[length] = '\0';
	return true;
}

static bool all_digits(const char *line, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (line[i] < '0' || line[i] > '9')
			return false;
	return length > 0;
}

const char *pickle_line_integer(const char *line, size_t length, struct pickle_value *ret_value)
{
	struct pickle_value value = { .type = PICKLE_INT };
	size_t sign = length && (line[0] == '-' || line[0] == '+');
	char copy[NUMBER_LENGTH];

	if (length && line[length - 1] == 'L')
		length--;
	if (length < sign || !all_digits(line + sign, length - sign))
		return "no integer";
	value.type = terminated(line, length, copy) ? PICKLE_INT : PICKLE_HUGE;
	errno = 0;
	if (value.type == PICKLE_INT)
		value.integer = strtoll(copy, NULL, 10);
	if (value.type == PICKLE_INT && errno == ERANGE) {
		errno = 0;
		value.type = copy[0] == '-' ? PICKLE_HUGE : PICKLE_UINT;
		value.natural = strtoull(copy, NULL, 10);
		if (errno == ERANGE)
			value.type = PICKLE_HUGE;
	}
	/* How protocols 0 and 1 write bool. */
	if (length == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1'))
		value.type = PICKLE_BOOL;
	*ret_value = value;
	return NULL;
}

const char *pickle_line_real(const char *line, size_t length, struct pickle_value *ret_value)
{
	char copy[NUMBER_LENGTH], *end;
	double real;

	if (!length || !terminated(line, length, copy))
		return "no number";
	real = strtod(copy, &end);
	if (end != copy + length)
		return "no number";
	*ret_value = (struct pickle_value){ .type = PICKLE_FLOAT, .real = real };
	return NULL;
}

const char *pickle_line_index(const char *line, size_t length, uint64_t *ret_index)
{
	struct pickle_value value;

	if (!all_digits(line, length) || pickle_line_integer(line, length, &value) ||
	    !pickle_natural(value, ret_index))
		return "no number where the place in the memo should be";
	return NULL;
}

void pickle_long(const unsigned char *bytes, size_t n, struct pickle_value *ret_value)
{
	bool negative = n && bytes[n - 1] & 0x80;
	uint64_t bits = negative ? UINT64_MAX : 0;

	/* Bytes that only repeat the sign. */
	while (n > 1 && bytes[n - 1] == (negative ? 0xff : 0) &&
	       (bool)(bytes[n - 2] & 0x80) == negative)
		n--;
	*ret_value = (struct pickle_value){ .type = PICKLE_INT };
	if (n > 9 || (n == 9 && bytes[8])) {
		ret_value->type = PICKLE_HUGE;
		return;
	}
	if (n == 9) {
		ret_value->type = PICKLE_UINT;
		n = 8;
	}
	for (size_t i = n; i-- > 0;)
		bits = bits << 8 | bytes[i];
	ret_value->natural = bits;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* n hexadecimal digits at text[0..length); -1: there are none. */
static int64_t hex_number(const char *text, size_t length, size_t n)
{
	int64_t number = 0;

	if (length < n)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (hex_digit(text[i]) < 0)
			return -1;
		number = number * 16 + hex_digit(text[i]);
	}
	return number;
}

/* What stands behind a backslash; *at is its place, and is moved on. -1: nothing that there is. */
static int unescaped(const char *line, size_t length, size_t *at)
{
	static const char names[] = "abfnrtv\\'\"", bytes[] = "\a\b\f\n\r\t\v\\'\"";
	const char *name = *at < length ? memchr(names, line[*at], sizeof(names) - 1) : NULL;
	int byte = 0;

	if (name) {
		++*at;
		return (unsigned char)bytes[name - names];
	}
	if (*at < length && line[*at] == 'x') {
		byte = (int)hex_number(line + *at + 1, length - *at - 1, 2);
		*at += 3;
		return byte;
	}
	if (*at >= length || line[*at] < '0' || line[*at] > '7')
		return -1;
	for (size_t n = 0; n < 3 && *at < length && line[*at] >= '0' && line[*at] <= '7'; n++)
		byte = byte * 8 + line[(*at)++] - '0';
	return byte & 0xff;
}

const char *pickle_line_quoted(struct pickle_arena *arena, const char *line, size_t length,
			       struct pickle_value *ret_value)
{
	static const char damage[] = "no quoted text";
	size_t n = 0;
	char *text;

	if (length < 2 || (line[0] != '\'' && line[0] != '"') || line[length - 1] != line[0] ||
	    length > UINT32_MAX)
		return damage;
	line++;
	length -= 2;
	text = pickle_memory(arena, length);
	if (!text)
		return pickle_no_memory;
	for (size_t i = 0; i < length;) {
		int byte = (unsigned char)line[i++];

		if (byte == '\\')
			byte = unescaped(line, length, &i);
		if (byte < 0)
			return damage;
		text[n++] = (char)byte;
	}
	*ret_value =
		(struct pickle_value){ .type = PICKLE_TEXT, .length = (uint32_t)n, .text = text };
	return NULL;
}

const char *pickle_line_unicode(struct pickle_arena *arena, const char *line, size_t length,
				struct pickle_value *ret_value)
{
	size_t n = 0;
	char *text;

	if (length > UINT32_MAX / 2)
		return "a text of more than 2 GiB";
	text = pickle_memory(arena, 2 * length); /* most: each byte above 0x7f becomes two */
	if (!text)
		return pickle_no_memory;
	for (size_t i = 0; i < length;) {
		int64_t point = (unsigned char)line[i++];
		size_t digits = 0;

		if (point == '\\' && i < length)
			digits = line[i] == 'u' ? 4 : line[i] == 'U' ? 8 : 0;
		if (digits) {
			point = hex_number(line + i + 1, length - i - 1, digits);
			i += digits + 1;
		}
		if (point < 0 || point > 0x10ffff)
			return "no Unicode text";
		n += utf8_encode((uint32_t)point, text + n);
	}
	*ret_value =
		(struct pickle_value){ .type = PICKLE_TEXT, .length = (uint32_t)n, .text = text };
	return NULL;
}
