/* SPDX-License-Identifier: Apache-2.0
 *
 * How 'moescope detach PID' finds the 'moescope attach PID' that goes on elsewhere: a socket with a name of its own
 * that is no file, so that it is gone with its process, however that ends. Main thread.
 */
#ifndef CMD_ATTACHED_H
#define CMD_ATTACHED_H

#include <sys/types.h>

/* A descriptor that is readable when somebody asks to end, or -errno; -EADDRINUSE: another one is attached. */
int attached_listen(pid_t pid);
/* Whoever has asked, if it is the same user or root: to be closed when all is done. -1: nobody. */
int attached_accept(int fd);
/* Asks: a descriptor that ends when all is done, or -ECONNREFUSED: nobody is attached; or -errno. */
int attached_ask(pid_t pid);

#endif
