/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the pickle reader share; see pickle.h.
 */
#ifndef INGEST_PICKLE_INSIDE_H
#define INGEST_PICKLE_INSIDE_H

#include "ingest/torch_memory/pickle.h"

#define PICKLE_PROTOCOL 5 /* the newest that is known */

struct pickle_arena *pickle_arena_new(void);
/* Memory that lives as long as the pickle; 8-aligned, not cleared. NULL: there is none. */
void *pickle_memory(struct pickle_arena *arena, size_t bytes);

/* Where opcodes have their argument. */
enum pickle_form {
	FORM_NONE,
	FORM_U1,
	FORM_U2,
	FORM_I4,
	FORM_U4,
	FORM_U8,
	FORM_F8, /* big-endian */
	FORM_LINE,
	FORM_COUNTED1, /* as many bytes as the number before them says */
	FORM_COUNTED4,
	FORM_COUNTED4_SIGNED,
	FORM_COUNTED8,
};

/* What opcodes do with values of their type. */
enum pickle_action {
	DO_NOTHING,
	DO_REFUSE, /* it imports or calls something, or asks the program for an object */
	DO_PROTOCOL,
	DO_STOP,
	DO_MARK,
	DO_POP,
	DO_POP_MARK,
	DO_DUPLICATE,
	DO_LINE, /* a value that is written as text */
	DO_NUMBER,
	DO_TRUE,
	DO_LONG,
	DO_TEXT,
	DO_EMPTY,  /* a new box */
	DO_MARKED, /* one of what lies above the mark */
	DO_TUPLE,
	DO_ADD, /* to the box below */
	DO_ADD_MARKED,
	DO_GET,
	DO_PUT,
	DO_MEMOIZE,
	DO_MEMO_LINE,
};

struct pickle_opcode {
	const char *name; /* as Python's pickletools names it; NULL: there is none */
	uint8_t form;	  /* enum pickle_form */
	uint8_t action;	  /* enum pickle_action */
	uint8_t type;	  /* enum pickle_type */
};

extern const struct pickle_opcode pickle_opcodes[256];

/* Texts of protocols 0 and 1, and integers as bytes. NULL or the damage in words; *ret_value is
 * untouched then. */
const char *pickle_line_integer(const char *line, size_t length, struct pickle_value *ret_value);
const char *pickle_line_real(const char *line, size_t length, struct pickle_value *ret_value);
const char *pickle_line_index(const char *line, size_t length, uint64_t *ret_index);
void pickle_long(const unsigned char *bytes, size_t n, struct pickle_value *ret_value);
/* A quoted text with backslashes. */
const char *pickle_line_quoted(struct pickle_arena *arena, const char *line, size_t length,
			       struct pickle_value *ret_value);
/* Latin-1 with \u and \U. */
const char *pickle_line_unicode(struct pickle_arena *arena, const char *line, size_t length,
				struct pickle_value *ret_value);
extern const char pickle_no_memory[]; /* given by these for want of memory */

#endif
