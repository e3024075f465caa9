/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for exceptions; see frame_tables.h. A function's entry (FDE) has a program that says, from its first instruction on, how
 * to find the caller's frame (CFA) and what is saved in it; what several have in common is in another entry (CIE). DWARF 5,
 * section 6.4, and the Linux Standard Base for what differs in .eh_frame. Rules that need expressions are not known: they are
 * for signal handlers and the PLT.
 */
#include "host/stacks/frame_tables.h"

#include <elf.h>
#include <string.h>

#include "base/read_at.h"

#define SEGMENTS_MOST 256
#define HEADER_BYTES 20	       /* of .eh_frame_hdr, before its table, at most */
#define ENTRY_MOST (32u << 10) /* bytes; larger ones are not read */
#define COMMON_MOST 1024
#define ROWS_MOST 16	    /* that a program may put aside at a time */
#define EXTENDED UINT32_MAX /* length of an entry of 4 GiB */

/* How a pointer is written: its form, and what it counts from. */
enum { FORM_ABSOLUTE = 0, FORM_U4 = 3, FORM_U8 = 4, FORM_S4 = 11, FORM_S8 = 12, FORM_BITS = 15 };
enum { FROM_ZERO = 0, FROM_HERE = 0x10, FROM_HEADER = 0x30, FROM_BITS = 0xf0 };

enum {
	/* With their first operand in the lower bits. */
	CFA_ADVANCE = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0,
	CFA_ADVANCE_1 = 2,
	CFA_ADVANCE_2,
	CFA_ADVANCE_4,
	CFA_OFFSET_EXTENDED,
	CFA_RESTORE_EXTENDED,
	CFA_UNDEFINED,
	CFA_SAME_VALUE,
	CFA_REGISTER,
	CFA_REMEMBER,
	CFA_RECALL,
	CFA_DEFINE,
	CFA_DEFINE_REGISTER,
	CFA_DEFINE_OFFSET,
	CFA_DEFINE_EXPRESSION,
	CFA_EXPRESSION,
	CFA_OFFSET_SIGNED,
	CFA_DEFINE_SIGNED,
	CFA_DEFINE_OFFSET_SIGNED,
	CFA_VALUE_OFFSET,
	CFA_VALUE_OFFSET_SIGNED,
	CFA_VALUE_EXPRESSION,
	CFA_ARGUMENTS = 0x2e,
	CFA_OFFSET_NEGATIVE
};

/* Bytes that are taken one after the other. bad: they have ended too early, or make no sense. */
struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

struct common {
	struct cursor program;
	uint64_t code_unit, data_unit; /* data_unit: signed, and so are products with it */
	uint8_t pointer;	       /* how it is written where a function begins */
	bool has_data, signal;
};

static bool read_exactly(int fd, void *to, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && read_at(fd, to, size, offset) == (ssize_t)size;
}

static const uint8_t *take(struct cursor *c, uint64_t bytes)
{
	const uint8_t *at = c->at;

	if (c->bad || bytes > (uint64_t)(c->end - at)) {
		c->bad = true;
		return NULL;
	}
	c->at += bytes;
	return at;
}

static uint64_t take_number(struct cursor *c, unsigned int bytes)
{
	const uint8_t *at = take(c, bytes);
	uint64_t number = 0;

	if (at)
		memcpy(&number, at, bytes);
	return number;
}

static uint8_t take_byte(struct cursor *c)
{
	return (uint8_t)take_number(c, 1);
}

/* A number in as many bytes as it needs, LEB128. */
static uint64_t take_leb(struct cursor *c, bool is_signed)
{
	uint64_t number = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = take_byte(c);
		if (shift >= 64)
			c->bad = true;
		if (c->bad)
			return 0;
		number |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && byte & 0x40 && shift < 64)
		number |= UINT64_MAX << shift;
	return number;
}

static uint64_t take_u(struct cursor *c)
{
	return take_leb(c, false);
}

static uint64_t take_s(struct cursor *c)
{
	return take_leb(c, true);
}

/* A pointer as written, without what it counts from. */
static uint64_t take_pointer(struct cursor *c, uint8_t form)
{
	switch (form & FORM_BITS) {
	case FORM_ABSOLUTE:
	case FORM_U8:
	case FORM_S8:
		return take_number(c, 8);
	case FORM_U4:
		return take_number(c, 4);
	case FORM_S4:
		return (uint64_t)(int64_t)(int32_t)take_number(c, 4);
	default:
		c->bad = true;
		return 0;
	}
}

/* ---- the file */

static bool in_file(const struct frame_tables *t, uint64_t address, uint64_t *ret_at)
{
	for (size_t i = 0; i < t->n_loads; i++)
		if (address - t->loads[i].address < t->loads[i].bytes) {
			*ret_at = address - t->loads[i].address + t->loads[i].at;
			return true;
		}
	return false;
}

/* Only with a table in order, as linkers write it: without one a file had to be read from beginning to end. */
static void read_header(struct frame_tables *t, int fd, const Elf64_Phdr *segment)
{
	uint8_t bytes[HEADER_BYTES], pointer, count, table;
	struct cursor c = { bytes, bytes + sizeof(bytes), false };
	uint64_t n, room;

	if (segment->p_filesz < sizeof(bytes) ||
	    !read_exactly(fd, bytes, sizeof(bytes), segment->p_offset) || take_byte(&c) != 1)
		return;
	pointer = take_byte(&c);
	count = take_byte(&c);
	table = take_byte(&c);
	if (count != FORM_U4 || table != (FROM_HEADER | FORM_S4))
		return;
	take_pointer(&c, pointer);
	n = take_number(&c, 4);
	if (c.bad)
		return;
	t->base = segment->p_vaddr;
	t->table_at = segment->p_offset + (uint64_t)(c.at - bytes);
	room = (segment->p_filesz - (uint64_t)(c.at - bytes)) / 8;
	t->n = n < room ? n : room;
}

void frame_tables_read(struct frame_tables *t, int fd)
{
	Elf64_Phdr segment;
	Elf64_Ehdr elf;

	*t = (struct frame_tables){ 0 };
	if (!read_exactly(fd, &elf, sizeof(elf), 0) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB ||
	    elf.e_machine != EM_X86_64 || elf.e_phentsize != sizeof(segment))
		return;
	for (size_t i = 0; i < elf.e_phnum && i < SEGMENTS_MOST; i++) {
		if (!read_exactly(fd, &segment, sizeof(segment), elf.e_phoff + i * sizeof(segment)))
			return;
		if (segment.p_type == PT_GNU_EH_FRAME)
			read_header(t, fd, &segment);
		if (segment.p_type != PT_LOAD || t->n_loads == FRAME_TABLES_LOADS)
			continue;
		t->loads[t->n_loads].address = segment.p_vaddr;
		t->loads[t->n_loads].bytes = segment.p_filesz;
		t->loads[t->n_loads++].at = segment.p_offset;
	}
}

/* The address of the entry of the last function that begins at or before this. */
static bool find_entry(const struct frame_tables *t, int fd, uint64_t address, uint64_t *ret_entry)
{
	size_t low = 0, high = t->n;
	int32_t row[2];

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (!read_exactly(fd, row, sizeof(row), t->table_at + middle * sizeof(row)))
			return false;
		if (t->base + (uint64_t)(int64_t)row[0] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || !read_exactly(fd, row, sizeof(row), t->table_at + (low - 1) * sizeof(row)))
		return false;
	*ret_entry = t->base + (uint64_t)(int64_t)row[1];
	return true;
}

/* What comes behind its length. */
static bool read_entry(const struct frame_tables *t, int fd, uint64_t address, uint8_t *bytes,
		       size_t most, struct cursor *ret_entry)
{
	uint32_t length;
	uint64_t at;

	if (!in_file(t, address, &at) || !read_exactly(fd, &length, sizeof(length), at) ||
	    length > most || !read_exactly(fd, bytes, length, at + sizeof(length)))
		return false;
	*ret_entry = (struct cursor){ bytes, bytes + length, false };
	return true;
}

/* ---- entries */

/* What the letters announce is in the data behind them. */
static void take_augmentation(struct cursor *c, const char *letters, struct common *common)
{
	for (; *letters && !c->bad; letters++) {
		switch (*letters) {
		case 'R':
			common->pointer = take_byte(c);
			break;
		case 'P':
			take_pointer(c, take_byte(c));
			break;
		case 'L':
			take_byte(c);
			break;
		case 'S':
			common->signal = true;
			break;
		default: /* what is still to come is skipped, but may mean anything */
			c->bad = true;
		}
	}
}

static bool parse_common(struct cursor c, struct common *ret_common)
{
	struct common common = { 0 };
	struct cursor data;
	const char *letters;
	uint64_t version, id = take_number(&c, 4), length;

	version = take_byte(&c);
	letters = (const char *)c.at;
	while (take_byte(&c)) /* until the text ends; also when the entry does */
		;
	common.code_unit = take_u(&c);
	common.data_unit = take_s(&c);
	if ((version == 1 ? take_byte(&c) : take_u(&c)) != UNWIND_IP || id ||
	    (version != 1 && version != 3) || c.bad)
		return false;
	if (letters[0] == 'z') {
		common.has_data = true;
		length = take_u(&c);
		data = c;
		if (!take(&c, length))
			return false;
		data.end = c.at;
		take_augmentation(&data, letters + 1, &common);
		if (data.bad)
			return false;
	} else if (letters[0]) {
		return false;
	}
	common.program = c;
	*ret_common = common;
	return true;
}

/* ---- their programs */

static void set_how(struct frame_rule *rule, uint64_t number, enum frame_saved how)
{
	if (number < UNWIND_REGISTERS)
		rule->registers[number].how = (uint8_t)how;
}

static void set_saved(struct frame_rule *rule, uint64_t number, uint64_t offset)
{
	if (number >= UNWIND_REGISTERS)
		return;
	rule->registers[number].offset = (int32_t)(uint32_t)offset;
	rule->registers[number].how = (int64_t)offset == rule->registers[number].offset
					      ? SAVED_AT_CFA
					      : SAVED_UNDEFINED;
}

static void define(struct frame_rule *rule, uint64_t number, uint64_t offset)
{
	rule->cfa_register = (uint8_t)number;
	rule->cfa_offset = (int32_t)(uint32_t)offset;
	rule->known = number < UNWIND_IP && (int64_t)offset == rule->cfa_offset;
}

static void restore(struct frame_rule *rule, uint64_t number, const struct frame_rule *first)
{
	if (number < UNWIND_REGISTERS)
		rule->registers[number] = first->registers[number];
}

/* Of those that say how one register is found. False: it is another. */
static bool run_register(struct cursor *c, uint8_t operation, const struct common *common,
			 struct frame_rule *rule, const struct frame_rule *first)
{
	uint64_t number;

	switch (operation) {
	case CFA_OFFSET_EXTENDED:
		number = take_u(c);
		set_saved(rule, number, take_u(c) * common->data_unit);
		return true;
	case CFA_OFFSET_SIGNED:
		number = take_u(c);
		set_saved(rule, number, take_s(c) * common->data_unit);
		return true;
	case CFA_OFFSET_NEGATIVE:
		number = take_u(c);
		set_saved(rule, number, -(take_u(c) * common->data_unit));
		return true;
	case CFA_RESTORE_EXTENDED:
		restore(rule, take_u(c), first);
		return true;
	case CFA_SAME_VALUE:
		set_how(rule, take_u(c), SAVED_NOWHERE);
		return true;
	case CFA_UNDEFINED:
		set_how(rule, take_u(c), SAVED_UNDEFINED);
		return true;
	case CFA_REGISTER:
	case CFA_VALUE_OFFSET:
	case CFA_VALUE_OFFSET_SIGNED:
		set_how(rule, take_u(c), SAVED_UNDEFINED);
		take_u(c);
		return true;
	case CFA_EXPRESSION:
	case CFA_VALUE_EXPRESSION:
		set_how(rule, take_u(c), SAVED_UNDEFINED);
		take(c, take_u(c));
		return true;
	default:
		return false;
	}
}

/* Of those that say how the frame is found. */
static bool run_frame(struct cursor *c, uint8_t operation, const struct common *common,
		      struct frame_rule *rule)
{
	uint64_t number;

	switch (operation) {
	case CFA_DEFINE:
		number = take_u(c);
		define(rule, number, take_u(c));
		return true;
	case CFA_DEFINE_SIGNED:
		number = take_u(c);
		define(rule, number, take_s(c) * common->data_unit);
		return true;
	case CFA_DEFINE_REGISTER:
		define(rule, take_u(c), (uint64_t)(int64_t)rule->cfa_offset);
		return true;
	case CFA_DEFINE_OFFSET:
		define(rule, rule->cfa_register, take_u(c));
		return true;
	case CFA_DEFINE_OFFSET_SIGNED:
		define(rule, rule->cfa_register, take_s(c) * common->data_unit);
		return true;
	case CFA_DEFINE_EXPRESSION:
		take(c, take_u(c));
		rule->known = false;
		return true;
	default:
		return false;
	}
}

/* Up to the instruction that is `left` bytes from where the program begins. False: it makes no sense. */
static bool run(struct cursor c, const struct common *common, uint64_t left,
		struct frame_rule *rule, const struct frame_rule *first)
{
	struct frame_rule aside[ROWS_MOST];
	size_t n_aside = 0;

	while (c.at < c.end && !c.bad) {
		uint8_t operation = take_byte(&c), low = operation & 0x3f;
		uint64_t advance = 0;

		switch (operation & 0xc0 ? operation & 0xc0 : operation) {
		case CFA_OFFSET:
			set_saved(rule, low, take_u(&c) * common->data_unit);
			break;
		case CFA_RESTORE:
			restore(rule, low, first);
			break;
		case CFA_ADVANCE:
			advance = low;
			break;
		case CFA_ADVANCE_1:
		case CFA_ADVANCE_2:
		case CFA_ADVANCE_4:
			advance = take_number(&c, 1u << (operation - CFA_ADVANCE_1));
			break;
		case CFA_REMEMBER:
			if (n_aside == ROWS_MOST)
				return false;
			aside[n_aside++] = *rule;
			break;
		case CFA_RECALL:
			if (!n_aside)
				return false;
			*rule = aside[--n_aside];
			break;
		case CFA_ARGUMENTS:
			take_u(&c);
			break;
		case CFA_NOP:
			break;
		default:
			if (!run_register(&c, operation, common, rule, first) &&
			    !run_frame(&c, operation, common, rule))
				return false;
		}
		if (__builtin_mul_overflow(advance, common->code_unit, &advance) || advance > left)
			return !c.bad;
		left -= advance;
	}
	return !c.bad;
}

/* What a function may not change without saying so; all others are free to be used. */
static struct frame_rule rule_of_callers(void)
{
	static const uint8_t kept[] = { 3, 6, 12, 13, 14, 15 }; /* rbx, rbp, r12 to r15 */
	struct frame_rule rule = { 0 };

	for (int i = 0; i < UNWIND_REGISTERS; i++)
		rule.registers[i].how = SAVED_UNDEFINED;
	for (size_t i = 0; i < sizeof(kept); i++)
		rule.registers[kept[i]].how = SAVED_NOWHERE;
	return rule;
}

struct frame_rule frame_tables_rule(const struct frame_tables *t, int fd, uint64_t address)
{
	const struct frame_rule unknown = { 0 };
	struct frame_rule rule = rule_of_callers(), first;
	uint8_t bytes[ENTRY_MOST], common_bytes[COMMON_MOST];
	uint64_t entry, start, end;
	struct common common;
	struct cursor c, of_all;
	uint32_t back;

	if (!find_entry(t, fd, address, &entry) ||
	    !read_entry(t, fd, entry, bytes, sizeof(bytes), &c))
		return unknown;
	/* How far it is back from here to what it has in common with others. */
	back = (uint32_t)take_number(&c, 4);
	if (c.bad || !back ||
	    !read_entry(t, fd, entry + 4 - back, common_bytes, sizeof(common_bytes), &of_all) ||
	    !parse_common(of_all, &common))
		return unknown;
	start = take_pointer(&c, common.pointer);
	if ((common.pointer & FROM_BITS) == FROM_HERE)
		start += entry + 8;
	else if ((common.pointer & FROM_BITS) != FROM_ZERO)
		return unknown;
	end = start + take_pointer(&c, common.pointer & FORM_BITS);
	if (common.has_data)
		take(&c, take_u(&c));
	if (c.bad || address < start || address >= end ||
	    !run(common.program, &common, UINT64_MAX, &rule, &rule))
		return unknown;
	first = rule;
	if (!run(c, &common, address - start, &rule, &first))
		return unknown;
	rule.signal = common.signal;
	return rule;
}
