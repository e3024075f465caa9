/* SPDX-License-Identifier: Apache-2.0
 *
 * What a thread of another process waits for: by the system call that it is in and what the descriptors in
 * its arguments are, else by the kernel's function that it sleeps in. Everything is read; no descriptor of
 * the process is opened or copied. One thread for each of struct waits.
 */
#ifndef HOST_STACKS_WAITS_H
#define HOST_STACKS_WAITS_H

#include <stdint.h>
#include <sys/types.h>

#include "trace/records.h"

struct waits;

/* Of a process. NULL: no memory. */
struct waits *waits_open(pid_t pid);
void waits_close(struct waits *waits);

/* fd: of the thread's PEER_CALL (peer.h), below 0: not to be had. gil: where the global lock of the thread's
 * Python is, 0: it has none. WAIT_ENDED: it does not wait. ret_at: the instruction that it waits at, 0: unknown. */
enum wait_cause waits_look(struct waits *waits, pid_t thread, int fd, uint64_t gil,
			   uint64_t *ret_at);

/* The same from the two texts that the kernel has of it: that of .../syscall, and that of .../wchan, either of
 * which may be empty. */
enum wait_cause waits_told(struct waits *waits, const char *call, const char *place, uint64_t gil);

#endif
