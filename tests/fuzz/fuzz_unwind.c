/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks without frame pointers, by the tables of a hostile ELF file and a hostile stack. So that the stack can be
 * answered from the input, the source itself is included. An input:
 *   17 words  the registers; the file's code is mapped from 0x1000 to 0x9000, the stack begins at 0x10000
 *   2 bytes   length of the stack in words
 *   the stack
 *   the ELF file
 */
#define peer_read peer_read_fuzzed
#include "host/stacks/unwind.c" /* NOLINT(bugprone-suspicious-include) */

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"

#define NOBODY 0x7ffffffe
#define STACK 0x10000
#define DEPTH 64

static struct {
	const uint8_t *bytes;
	size_t size;
} stack;

/* A page, of which the input may have a part. */
bool peer_read_fuzzed(pid_t pid, uint64_t from, void *to, size_t bytes)
{
	uint64_t at = from - STACK;

	(void)pid;
	if (at >= stack.size)
		return false;
	memset(to, 0, bytes);
	memcpy(to, stack.bytes + at, stack.size - at < bytes ? stack.size - at : bytes);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t registers[UNWIND_REGISTERS], ips[DEPTH];
	struct symbols *symbols;
	struct unwinder *u;
	uint16_t words;
	char maps[80];
	size_t n;
	int fd;

	if (size < sizeof(registers) + sizeof(words))
		return 0;
	memcpy(registers, data, sizeof(registers));
	memcpy(&words, data + sizeof(registers), sizeof(words));
	data += sizeof(registers) + sizeof(words);
	size -= sizeof(registers) + sizeof(words);
	stack.bytes = data;
	stack.size = words * 8u < size ? words * 8u : size;
	fd = memfd_create("unwind", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data + stack.size, size - stack.size) < 0)
		abort();
	snprintf(maps, sizeof(maps), "1000-9000 r-xp 0 0:0 0 /proc/self/fd/%d\n", fd);
	symbols = symbols_open(NOBODY);
	u = unwinder_open(NOBODY, symbols);
	if (!u)
		abort();
	symbols_learn(symbols, maps);
	for (int look = 0; look < 2; look++) { /* rules are remembered */
		n = unwind(u, registers, ips, DEPTH);
		if (!n || n > DEPTH || ips[0] != registers[UNWIND_IP])
			abort();
	}
	unwinder_close(u);
	symbols_close(symbols);
	close(fd);
	return 0;
}
