/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for the addresses of another process, from its memory map, the ELF files in it and the perf map of
 * its JIT. All of these are untrusted. A file is read when the first address in it is asked for. One thread.
 */
#ifndef HOST_STACKS_SYMBOLS_H
#define HOST_STACKS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct symbols;

/* Reads the memory map, so that names can be had when the process has ended. NULL: no memory. */
struct symbols *symbols_open(pid_t pid);

/* "malloc (libc.so.6)"; "0x1234 (libfoo.so)" where there is no symbol, with the address that addr2line takes;
 * "name ([jit])" from a perf map, "0x7f0012345678 ([anon])" where that has none; "[unknown]" for an address in no
 * map. The string lives as long as the symbols. Maps are read again when an address is in none that
 * is known. */
const char *symbols_name(struct symbols *s, uint64_t ip);

/* Reads the maps again, if that was not done just now: for an address that is certain to be in one, unlike those that
 * chains without frame pointers have. */
void symbols_refresh(struct symbols *s);

/* The build id of the file an address lies in, as hex, or NULL. Lives as long as the symbols. */
const char *symbols_build_id(struct symbols *s, uint64_t ip);

/* The file that an address lies in, and where: as its own tables count. fd is that of the symbols, below 0: it could
 * not be opened. False: in none. */
struct symbols_place {
	size_t file; /* number, as for symbols_file */
	int fd;
	uint64_t address;
};
bool symbols_place(struct symbols *s, uint64_t ip, struct symbols_place *ret_place);

/* The files that names were asked for in, by number from 0; false: there are no more. ret_path is NULL for one that was
 * mapped only, ret_build_id for one without. Both live as long as the symbols. */
bool symbols_file(const struct symbols *s, size_t number, const char **ret_path,
		  const char **ret_build_id);
/* Maps that the process itself has written down, as lines of /proc/PID/maps; what is known of a place already
 * stays. For a process that ended before its maps were read. */
void symbols_learn(struct symbols *s, char *lines);

void symbols_close(struct symbols *s);

#endif
