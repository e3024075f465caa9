/* SPDX-License-Identifier: Apache-2.0
 *
 * How others find the 'moescope attach PID' that goes on: 'moescope detach PID', and the program itself when it is
 * joined by a script. A socket with a name of its own that is no file, so that it is gone with its process, however
 * that ends. Main thread.
 */
#ifndef CMD_ATTACHED_H
#define CMD_ATTACHED_H

#include <sys/types.h>

#define ATTACHED_FOR_DETACH "attach"
#define ATTACHED_FOR_JOIN "join" /* python/moescope/auto/asked.py has it too */

/* A descriptor that is readable when somebody asks, or -errno; -EADDRINUSE: another one is attached. */
int attached_listen(const char *purpose, pid_t pid);
/* Whoever has asked: the process `only`, or, if that is 0, the same user or root. To be closed when all is done. -1:
 * nobody. */
int attached_accept(int fd, pid_t only);
/* Asks: a descriptor that ends when all is done, or -ECONNREFUSED: nobody is attached; or -errno. */
int attached_ask(const char *purpose, pid_t pid);

#endif
