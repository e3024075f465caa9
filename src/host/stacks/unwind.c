/* SPDX-License-Identifier: Apache-2.0
 *
 * Native stacks without frame pointers; see unwind.h. libdw reads the tables; what it says about an instruction
 * is remembered, because a program is in the same places again and again and libdw takes its time.
 */
#include "host/stacks/unwind.h"

#include <asm/perf_regs.h>
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "host/peer/peer.h"
#include "host/stacks/symbols.h"

#define RULES_MOST 65536 /* then it begins again */
#define PAGE 4096
#define PAGES 16 /* of a stack, at a time */
#define FILES_MOST 4096

enum saved { SAVED_NOWHERE, SAVED_UNDEFINED, SAVED_AT_CFA };

/* How to get from a function to its caller, at one instruction. */
struct rule {
	uint64_t ip;
	bool known, signal; /* signal: its caller was interrupted, it has not called */
	uint8_t cfa_register;
	int32_t cfa_offset;
	struct {
		uint8_t how; /* enum saved; SAVED_NOWHERE: it has the same value */
		int32_t offset;
	} registers[UNWIND_REGISTERS];
};

struct tables {
	bool tried;
	Elf *elf;
	Dwarf_CFI *cfi;
};

struct unwinder {
	pid_t pid;
	struct symbols *symbols;
	struct tables files[FILES_MOST]; /* by the symbols' numbers of files */
	struct rule *rules;
	size_t n, capacity;
	struct hash_map by_ip;
	uint64_t page_at[PAGES]; /* of what was read of the stack; 0: nothing */
	uint64_t pages[PAGES][PAGE / 8];
};

/* The kernel's numbers of DWARF's registers. */
static const uint8_t kernel_number[UNWIND_REGISTERS] = {
	PERF_REG_X86_AX,  PERF_REG_X86_DX,  PERF_REG_X86_CX,  PERF_REG_X86_BX,	PERF_REG_X86_SI,
	PERF_REG_X86_DI,  PERF_REG_X86_BP,  PERF_REG_X86_SP,  PERF_REG_X86_R8,	PERF_REG_X86_R9,
	PERF_REG_X86_R10, PERF_REG_X86_R11, PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14,
	PERF_REG_X86_R15, PERF_REG_X86_IP,
};

uint64_t unwind_kernel_mask(void)
{
	uint64_t mask = 0;

	for (int i = 0; i < UNWIND_REGISTERS; i++)
		mask |= UINT64_C(1) << kernel_number[i];
	return mask;
}

void unwind_take(const uint64_t *taken, uint64_t registers[UNWIND_REGISTERS])
{
	uint64_t mask = unwind_kernel_mask();

	for (int i = 0; i < UNWIND_REGISTERS; i++)
		registers[i] =
			taken[__builtin_popcountll(mask & ((UINT64_C(1) << kernel_number[i]) - 1))];
}

struct unwinder *unwinder_open(pid_t pid, struct symbols *symbols)
{
	struct unwinder *u = symbols ? calloc(1, sizeof(*u)) : NULL;

	elf_version(EV_CURRENT);
	if (u) {
		u->pid = pid;
		u->symbols = symbols;
	}
	return u;
}

void unwinder_close(struct unwinder *u)
{
	if (!u)
		return;
	for (size_t i = 0; i < FILES_MOST; i++) {
		if (u->files[i].cfi)
			dwarf_cfi_end(u->files[i].cfi);
		if (u->files[i].elf)
			elf_end(u->files[i].elf);
	}
	hash_map_release(&u->by_ip);
	free(u->rules);
	free(u);
}

/* By read, not by a mapping: a file may be truncated at any time. */
static Dwarf_CFI *tables_of(struct unwinder *u, const struct symbols_place *place)
{
	struct tables *file;

	if (place->file >= FILES_MOST)
		return NULL;
	file = &u->files[place->file];
	if (!file->tried) {
		file->tried = true;
		file->elf = place->fd >= 0 ? elf_begin(place->fd, ELF_C_READ, NULL) : NULL;
		file->cfi = file->elf ? dwarf_getcfi_elf(file->elf) : NULL;
	}
	return file->cfi;
}

static bool read_cfa(Dwarf_Frame *frame, struct rule *rule)
{
	Dwarf_Op *ops;
	size_t n;
	int64_t offset;

	if (dwarf_frame_cfa(frame, &ops, &n) != 0 || n != 1)
		return false;
	if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		rule->cfa_register = (uint8_t)(ops[0].atom - DW_OP_breg0);
		offset = (int64_t)ops[0].number;
	} else if (ops[0].atom == DW_OP_bregx && ops[0].number < UNWIND_REGISTERS) {
		rule->cfa_register = (uint8_t)ops[0].number;
		offset = (int64_t)ops[0].number2;
	} else {
		return false;
	}
	rule->cfa_offset = (int32_t)offset;
	return rule->cfa_register < UNWIND_IP && offset == rule->cfa_offset;
}

/* Whatever is not simply saved in the frame is not known to the caller. */
static void read_register(Dwarf_Frame *frame, int number, struct rule *rule)
{
	Dwarf_Op room[3], *ops;
	size_t n;
	int64_t offset;

	rule->registers[number].how = SAVED_UNDEFINED;
	if (dwarf_frame_register(frame, number, room, &ops, &n) != 0)
		return;
	if (!n && !ops) {
		rule->registers[number].how = SAVED_NOWHERE;
		return;
	}
	if (!n || n > 2 || ops[0].atom != DW_OP_call_frame_cfa ||
	    (n == 2 && ops[1].atom != DW_OP_plus_uconst))
		return;
	offset = n == 2 ? (int64_t)ops[1].number : 0;
	rule->registers[number].offset = (int32_t)offset;
	if (offset == rule->registers[number].offset)
		rule->registers[number].how = SAVED_AT_CFA;
}

static struct rule read_rule(struct unwinder *u, uint64_t ip)
{
	struct rule rule = { .ip = ip };
	struct symbols_place place;
	Dwarf_CFI *cfi = symbols_place(u->symbols, ip, &place) ? tables_of(u, &place) : NULL;
	Dwarf_Frame *frame = NULL;

	if (!cfi || dwarf_cfi_addrframe(cfi, place.address, &frame) != 0)
		return rule;
	rule.known = dwarf_frame_info(frame, NULL, NULL, &rule.signal) == UNWIND_IP &&
		     read_cfa(frame, &rule);
	for (int i = 0; i < UNWIND_REGISTERS && rule.known; i++)
		read_register(frame, i, &rule);
	free(frame);
	return rule;
}

static struct rule find_rule(struct unwinder *u, uint64_t ip)
{
	uint32_t hash = hash_word(ip), found;
	struct hash_walk walk = hash_map_walk(&u->by_ip, hash);
	struct rule rule;

	while ((found = hash_map_next(&u->by_ip, &walk)))
		if (u->rules[found - 1].ip == ip)
			return u->rules[found - 1];
	rule = read_rule(u, ip);
	if (u->n == RULES_MOST) {
		hash_map_release(&u->by_ip);
		u->n = 0;
	}
	/* Without memory it is read again. */
	if (array_grow(&u->rules, &u->capacity, u->n + 1, sizeof(rule)) == 0 &&
	    hash_map_add(&u->by_ip, hash, (uint32_t)u->n + 1) == 0)
		u->rules[u->n++] = rule;
	return rule;
}

/* A word of the stack; pages are read once for a stack. */
static bool read_word(struct unwinder *u, uint64_t at, uint64_t *ret)
{
	uint64_t page = at & ~(uint64_t)(PAGE - 1);
	size_t i = page / PAGE % PAGES;

	if (at % 8)
		return false;
	if (u->page_at[i] != page) {
		u->page_at[i] = 0;
		if (!page || !peer_read(u->pid, page, u->pages[i], PAGE))
			return false;
		u->page_at[i] = page;
	}
	*ret = u->pages[i][at % PAGE / 8];
	return true;
}

/* From a function to its caller. False: that was the outermost, or nobody knows. */
static bool step(struct unwinder *u, const struct rule *rule, uint64_t *registers, uint32_t *valid)
{
	uint64_t before[UNWIND_REGISTERS], cfa;
	uint32_t now = 0;

	if (!(*valid >> rule->cfa_register & 1))
		return false;
	memcpy(before, registers, sizeof(before));
	cfa = before[rule->cfa_register] + (uint64_t)(int64_t)rule->cfa_offset;
	for (int i = 0; i < UNWIND_REGISTERS; i++) {
		if (rule->registers[i].how == SAVED_NOWHERE && i != UNWIND_IP)
			now |= *valid & UINT32_C(1) << i;
		if (rule->registers[i].how != SAVED_AT_CFA)
			continue;
		if (!read_word(u, cfa + (uint64_t)(int64_t)rule->registers[i].offset,
			       &registers[i]))
			return false;
		now |= UINT32_C(1) << i;
	}
	registers[UNWIND_SP] = cfa;
	*valid = now | UINT32_C(1) << UNWIND_SP;
	/* A stack only gets shorter. */
	return (now >> UNWIND_IP & 1) && registers[UNWIND_IP] && cfa > before[UNWIND_SP];
}

size_t unwind(struct unwinder *u, const uint64_t registers[UNWIND_REGISTERS], uint64_t *ips,
	      size_t most)
{
	uint64_t now[UNWIND_REGISTERS];
	uint32_t valid = (UINT32_C(1) << UNWIND_REGISTERS) - 1;
	bool called = false;
	size_t n = 0;

	memcpy(now, registers, sizeof(now));
	memset(u->page_at, 0, sizeof(u->page_at));
	while (n < most) {
		struct rule rule = find_rule(u, now[UNWIND_IP] - called);

		ips[n++] = now[UNWIND_IP];
		if (!rule.known || !step(u, &rule, now, &valid))
			break;
		called = !rule.signal;
	}
	return n;
}
