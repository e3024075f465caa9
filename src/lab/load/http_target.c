/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a server is; see http_target.h.
 */
#include "lab/load/http_target.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/load/http_stream.h"

#define SETTLE_NS 2000000000 /* for an address that does not even refuse */

void http_target_release(struct http_target *target)
{
	free(target->authority);
	free(target->base);
	memset(target, 0, sizeof(*target));
}

static int bad_url(const char *url, struct err *err)
{
	return err_set(err, -EINVAL,
		       "'%.200s' is not a server's URL; write http://HOST:PORT, such as "
		       "http://127.0.0.1:8000.",
		       url);
}

/* Cuts the authority: HOST, HOST:PORT or [ADDRESS]:PORT. */
static bool split_authority(char *authority, char **ret_host, const char **ret_port)
{
	char *end, *host = authority;

	*ret_port = "80";
	if (*authority == '[') {
		end = strchr(++host, ']');
		if (!end)
			return false;
		*end++ = '\0';
	} else {
		end = host + strcspn(host, ":");
	}
	if (*end == ':') {
		*end++ = '\0';
		if (!*end || end[strspn(end, "0123456789")] || strlen(end) > 5)
			return false;
		*ret_port = end;
	} else if (*end) {
		return false;
	}
	*ret_host = host;
	return *host != '\0';
}

static int resolve(struct http_target *target, const char *host, const char *port, struct err *err)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	int r = getaddrinfo(host, port, &hints, &found);

	if (r != 0)
		return err_set(err, -EHOSTUNREACH, "host '%s' of the url cannot be found: %s.",
			       host, gai_strerror(r));
	for (const struct addrinfo *a = found; a && target->n_addresses < HTTP_ADDRESSES;
	     a = a->ai_next) {
		memcpy(&target->addresses[target->n_addresses], a->ai_addr, a->ai_addrlen);
		target->sizes[target->n_addresses++] = a->ai_addrlen;
	}
	freeaddrinfo(found);
	return 0;
}

int http_target_init(struct http_target *target, const char *url, struct err *err)
{
	struct http_target made = { 0 };
	const char *rest, *port = NULL;
	char *host = NULL, *copy;
	size_t n;
	int r;

	if (strncasecmp(url, "https://", 8) == 0)
		return err_set(err, -EPROTONOSUPPORT,
			       "'%.200s': only http:// is spoken here; let a proxy on this machine "
			       "speak TLS, for example 'socat TCP-LISTEN:8443,fork,reuseaddr "
			       "OPENSSL:HOST:443', and give its http:// address.",
			       url);
	if (strncasecmp(url, "http://", 7) != 0 || strpbrk(url, " \t\r\n?#@"))
		return bad_url(url, err);
	rest = url + 7;
	n = strcspn(rest, "/");
	made.authority = strndup(rest, n);
	made.base = strdup(rest + n);
	copy = strndup(rest, n);
	if (!made.authority || !made.base || !copy) {
		r = err_set(err, -ENOMEM, "not enough memory for a url.");
		goto out;
	}
	n = strlen(made.base);
	while (n && made.base[n - 1] == '/')
		made.base[--n] = '\0';
	if (n >= 3 && strcmp(made.base + n - 3, "/v1") == 0)
		made.base[n - 3] = '\0';
	r = split_authority(copy, &host, &port) ? resolve(&made, host, port, err)
						: bad_url(url, err);
out:
	free(copy);
	if (r < 0)
		http_target_release(&made);
	else
		*target = made;
	return r;
}

static int connect_to(const struct http_target *target, size_t i)
{
	int fd = socket(target->addresses[i].ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			0);
	int one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, (const struct sockaddr *)&target->addresses[i], target->sizes[i]) < 0 &&
	    errno != EINPROGRESS) {
		int r = -errno;

		close(fd);
		return r;
	}
	return fd;
}

int http_target_connect(const struct http_target *target)
{
	return connect_to(target, 0);
}

static void keep_body(void *arg, const char *data, size_t length)
{
	struct buf *body = arg;

	if (body)
		buf_append(body, data, length);
}

static int wait_for(int fd, short events, int64_t until_ns)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = events };
		int64_t left = until_ns - clock_monotonic_ns();
		int r;

		if (left <= 0)
			return -ETIMEDOUT;
		r = poll(&p, 1, (int)(left / 1000000 < 60000 ? left / 1000000 + 1 : 60000));
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

void http_target_settle(struct http_target *target)
{
	for (size_t i = 0; target->n_addresses > 1 && i < target->n_addresses; i++) {
		int fd = connect_to(target, i), code = 0;
		socklen_t size = sizeof(code);

		if (fd < 0)
			continue;
		if (wait_for(fd, POLLOUT, clock_monotonic_ns() + SETTLE_NS) == 0 &&
		    getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code == 0) {
			target->addresses[0] = target->addresses[i];
			target->sizes[0] = target->sizes[i];
			target->n_addresses = 1;
		}
		close(fd);
	}
}

static int send_all(int fd, const struct buf *out, int64_t until_ns)
{
	size_t at = 0;

	while (at < out->size) {
		ssize_t n = send(fd, out->data + at, out->size - at, MSG_NOSIGNAL);

		if (n >= 0) {
			at += (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		n = wait_for(fd, POLLOUT, until_ns);
		if (n < 0)
			return (int)n;
	}
	return 0;
}

static int receive_answer(int fd, struct http_answer *answer, int64_t until_ns, struct err *err)
{
	char bytes[8192];
	size_t used;
	int r = 0;

	while (r == 0 && answer->state != HTTP_DONE) {
		ssize_t n;

		r = wait_for(fd, POLLIN, until_ns);
		if (r < 0)
			return r;
		n = recv(fd, bytes, sizeof(bytes), 0);
		if (n > 0)
			r = http_answer_feed(answer, bytes, (size_t)n, &used, err);
		else if (n == 0)
			r = http_answer_end(answer, err);
		else if (errno != EAGAIN && errno != EINTR)
			r = -errno;
	}
	return r;
}

int http_target_get(struct http_target *target, const char *path, const char *api_key,
		    double timeout_s, struct buf *ret_body, struct err *err)
{
	int64_t until_ns = clock_monotonic_ns() + (int64_t)(timeout_s * 1e9);
	struct err inner = { "" };
	struct http_answer answer;
	struct buf out = { 0 };
	int fd, r;

	http_target_settle(target);
	http_answer_init(&answer, keep_body, ret_body);
	buf_printf(&out, "GET %s%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", target->base,
		   path, target->authority);
	if (api_key)
		buf_printf(&out, "Authorization: Bearer %s\r\n", api_key);
	buf_append(&out, "\r\n", 2);
	fd = http_target_connect(target);
	r = out.failed ? -ENOMEM : fd;
	if (r >= 0)
		r = wait_for(fd, POLLOUT, until_ns);
	if (r >= 0)
		r = send_all(fd, &out, until_ns);
	if (r >= 0)
		r = receive_answer(fd, &answer, until_ns, &inner);
	if (fd >= 0)
		close(fd);
	if (r >= 0)
		r = answer.status;
	else if (inner.message[0])
		err_set(err, r, "http://%s%s%s: %s", target->authority, target->base, path,
			inner.message);
	else
		err_sys(err, r, "http://%s%s%s does not answer", target->authority, target->base,
			path);
	http_answer_release(&answer);
	buf_release(&out);
	return r;
}
