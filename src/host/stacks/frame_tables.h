/* SPDX-License-Identifier: Apache-2.0
 *
 * What an ELF file's tables for exceptions (.eh_frame_hdr, .eh_frame) say of an instruction: where its caller's
 * registers are. Files are untrusted and may shrink while they are read: they are read by pread, and what is taken from them is
 * bounded, whatever they say. On x86-64. Any thread.
 */
#ifndef HOST_STACKS_FRAME_TABLES_H
#define HOST_STACKS_FRAME_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/stacks/unwind.h"

#define FRAME_TABLES_LOADS 16

struct frame_tables {
	uint64_t base;	   /* address of .eh_frame_hdr, from which its table counts */
	uint64_t table_at; /* in the file */
	size_t n;	   /* functions; 0: there is no table */
	struct {
		uint64_t address, bytes, at; /* at: in the file */
	} loads[FRAME_TABLES_LOADS];
	size_t n_loads;
};

enum frame_saved { SAVED_NOWHERE, SAVED_UNDEFINED, SAVED_AT_CFA };

/* How to get from a function to its caller, at one instruction. */
struct frame_rule {
	bool known, signal; /* signal: its caller was interrupted, it has not called */
	uint8_t cfa_register;
	int32_t cfa_offset;
	struct {
		uint8_t how; /* enum frame_saved; SAVED_NOWHERE: it has the same value */
		int32_t offset;
	} registers[UNWIND_REGISTERS];
};

void frame_tables_read(struct frame_tables *tables, int fd);
/* address: as the file counts. */
struct frame_rule frame_tables_rule(const struct frame_tables *tables, int fd, uint64_t address);

#endif
