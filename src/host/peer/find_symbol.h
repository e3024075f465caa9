/* SPDX-License-Identifier: Apache-2.0
 *
 * Where something of another process is in its memory, by the name that its file exports. Files are
 * untrusted and may shrink while they are read. Any thread.
 */
#ifndef HOST_PEER_FIND_SYMBOL_H
#define HOST_PEER_FIND_SYMBOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct found_symbol {
	const char *name;
	uint64_t at;	/* out; 0: not there */
	uint64_t bytes; /* out */
};

/* Looks in the files mapped into the process whose base name begins with `prefix` or "lib" and that, and stops at the first
 * that has the first of the names. Its path is put into `path`. 0, -ENOENT or -errno. */
int find_symbols(pid_t pid, const char *prefix, struct found_symbol *symbols, size_t n, char *path,
		 size_t size);

#endif
