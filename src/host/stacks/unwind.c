/* SPDX-License-Identifier: Apache-2.0
 *
 * Native stacks without frame pointers; see unwind.h. What the tables say about an instruction is remembered, because
 * a program is in the same places again and again.
 */
#include "host/stacks/unwind.h"

#include <asm/perf_regs.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "host/peer/peer.h"
#include "host/stacks/frame_tables.h"
#include "host/stacks/symbols.h"

#define RULES_MOST 65536 /* then it begins again */
#define PAGE 4096
#define PAGES 16 /* of a stack, at a time */

struct rule {
	uint64_t ip;
	struct frame_rule rule;
};

/* What a file has; there is no more of it if it could not be opened. */
struct tables {
	bool tried;
	struct frame_tables tables;
};

struct unwinder {
	pid_t pid;
	struct symbols *symbols;
	struct tables *files; /* by the symbols' numbers of files */
	size_t n_files, files_capacity;
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
	free(u->files);
	hash_map_release(&u->by_ip);
	free(u->rules);
	free(u);
}

static const struct frame_tables *tables_of(struct unwinder *u, const struct symbols_place *place)
{
	struct tables *file;

	if (array_grow(&u->files, &u->files_capacity, place->file + 1, sizeof(*u->files)) < 0)
		return NULL;
	for (; u->n_files <= place->file; u->n_files++)
		u->files[u->n_files] = (struct tables){ 0 };
	file = &u->files[place->file];
	if (!file->tried && place->fd >= 0)
		frame_tables_read(&file->tables, place->fd);
	file->tried = true;
	return &file->tables;
}

static struct frame_rule read_rule(struct unwinder *u, uint64_t ip)
{
	const struct frame_rule unknown = { 0 };
	const struct frame_tables *tables;
	struct symbols_place place;

	if (!symbols_place(u->symbols, ip, &place) || place.fd < 0)
		return unknown;
	tables = tables_of(u, &place);
	return tables ? frame_tables_rule(tables, place.fd, place.address) : unknown;
}

static struct frame_rule find_rule(struct unwinder *u, uint64_t ip)
{
	uint32_t hash = hash_word(ip), found;
	struct hash_walk walk = hash_map_walk(&u->by_ip, hash);
	struct rule rule = { .ip = ip };

	while ((found = hash_map_next(&u->by_ip, &walk)))
		if (u->rules[found - 1].ip == ip)
			return u->rules[found - 1].rule;
	rule.rule = read_rule(u, ip);
	if (u->n == RULES_MOST) {
		hash_map_release(&u->by_ip);
		u->n = 0;
	}
	/* Without memory it is read again. */
	if (array_grow(&u->rules, &u->capacity, u->n + 1, sizeof(rule)) == 0 &&
	    hash_map_add(&u->by_ip, hash, (uint32_t)u->n + 1) == 0)
		u->rules[u->n++] = rule;
	return rule.rule;
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
static bool step(struct unwinder *u, const struct frame_rule *rule, uint64_t *registers,
		 uint32_t *valid)
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
		struct frame_rule rule = find_rule(u, now[UNWIND_IP] - called);

		ips[n++] = now[UNWIND_IP];
		if (!rule.known || !step(u, &rule, now, &valid))
			break;
		called = !rule.signal;
	}
	return n;
}
