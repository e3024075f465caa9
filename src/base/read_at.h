/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading at an offset, in as many pieces as the kernel gives. Any thread, and inside the profiled
 * process, too.
 */
#ifndef BASE_READ_AT_H
#define BASE_READ_AT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Up to `most` bytes; fewer only at the end of the file. Their number, or -errno. */
ssize_t read_at(int fd, void *to, size_t most, uint64_t offset);

#endif
