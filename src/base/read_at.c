/* SPDX-License-Identifier: Apache-2.0
 *
 * See read_at.h.
 */
#include "base/read_at.h"

#include <errno.h>
#include <unistd.h>

ssize_t read_at(int fd, void *to, size_t most, uint64_t offset)
{
	size_t got = 0;

	while (got < most) {
		ssize_t n = pread(fd, (char *)to + got, most - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}
