/* SPDX-License-Identifier: Apache-2.0
 *
 * See attached.h.
 */
#include "cmd/recording/attached.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Abstract: it begins with a NUL and is in no file system. */
static socklen_t make_name(struct sockaddr_un *name, const char *purpose, pid_t pid)
{
	int n;

	*name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "moescope-%s-%d", purpose,
		     (int)pid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int attached_listen(const char *purpose, pid_t pid)
{
	struct sockaddr_un name;
	socklen_t bytes = make_name(&name, purpose, pid);
	int fd = open_socket(), r;

	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&name, bytes) == 0 && listen(fd, 1) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int attached_accept(int fd, pid_t only)
{
	int asker = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	struct ucred who = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(who);

	if (asker < 0)
		return -1;
	if (getsockopt(asker, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 &&
	    (only ? who.pid == only : who.uid == geteuid() || who.uid == 0))
		return asker;
	close(asker);
	return -1;
}

int attached_ask(const char *purpose, pid_t pid)
{
	struct sockaddr_un name;
	socklen_t bytes = make_name(&name, purpose, pid);
	int fd = open_socket(), r;

	if (fd < 0)
		return fd;
	if (connect(fd, (struct sockaddr *)&name, bytes) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}
