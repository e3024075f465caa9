/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that the profiler keeps open inside the program that it profiles. A descriptor number is
 * not proof of a file there: programs close what they have not opened (closefrom), put their own
 * files on numbers of their choice (dup2), and reuse what became free.
 *
 * So the thread that holds files has a descriptor table of its own (held_own_table), which nobody
 * else in the process sees, and which no child inherits. Where the kernel has none to give (before
 * 5.9, or forbidden), the descriptors are at high numbers of the table that all share. In both
 * cases device and inode are compared before each use, and so is the size, since a file that
 * somebody cut must not be written behind its end. Nothing here grows a file beyond RLIMIT_FSIZE,
 * because the kernel would send a SIGXFSZ.
 */
#ifndef BASE_HELD_H
#define BASE_HELD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct held_file {
	int fd;	     /* -1: none */
	pid_t owner; /* the thread in whose own table it is; 0: in the table of the process */
	uint64_t device, inode;
	uint64_t bytes; /* that we have put there */
};

/* Gives the calling thread an empty descriptor table, without the standard ones; the program's
 * files are not touched. False: not possible here. The thread says so when it ends. */
bool held_own_table(void);
void held_own_table_ends(void);
/* The same for a thread that lives for a moment and holds nothing. Where the kernel cannot give an
 * empty table, a copy, which keeps the program's files open until the thread ends. */
bool held_private_table(void);
/* Whether the table that all share has numbers to spare for us. */
bool held_numbers_to_spare(void);

/* As open(2), with O_CLOEXEC. 0 or -errno. */
int held_open(struct held_file *held, const char *path, int flags, mode_t mode);
/* A file that is open already; closed on failure. */
int held_take(struct held_file *held, int fd);
/* -EBADF: the descriptor is not our file any more. -ESTALE: the file was cut. */
int held_check(const struct held_file *held);
int held_write(struct held_file *held, const void *data, size_t bytes, uint64_t offset);
/* Disk space for a part of the file; zeros, where nothing was. */
int held_allocate(struct held_file *held, uint64_t offset, uint64_t bytes);
/* To at most the bytes that we have put there. */
int held_truncate(struct held_file *held, uint64_t bytes);
/* Shared, readable and writable. NULL: it cannot be mapped. */
void *held_map(const struct held_file *held, uint64_t offset, uint64_t bytes);
/* Closes the descriptor if it is still the file, and the caller's to close: a forked child has a
 * copy of the process's table, but none of a thread's own. */
void held_close(struct held_file *held);

#endif
