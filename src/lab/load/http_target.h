/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a server is: a URL, resolved once, and small blocking requests to it. One thread.
 */
#ifndef LAB_HTTP_TARGET_H
#define LAB_HTTP_TARGET_H

#include <sys/socket.h>

#include "base/buf.h"
#include "base/err.h"

#define HTTP_ADDRESSES 8

struct http_target {
	char *authority; /* for the Host header: "127.0.0.1:8000" */
	char *base;	 /* path before the API's, without a trailing slash; may be empty */
	/* Addresses of the name. A server may listen on only one of them, as localhost is 127.0.0.1
	 * and ::1; the first is the one in use. */
	struct sockaddr_storage addresses[HTTP_ADDRESSES];
	socklen_t sizes[HTTP_ADDRESSES];
	size_t n_addresses;
};

/* http://HOST[:PORT][/BASE]; a trailing /v1 is removed, because API paths have it. */
int http_target_init(struct http_target *target, const char *url, struct err *err);
void http_target_release(struct http_target *target);
/* Keeps the first address that accepts a connection, once one does. */
void http_target_settle(struct http_target *target);
/* A non-blocking socket, connected or connecting, or -errno. */
int http_target_connect(const struct http_target *target);
/* GET base + path. Returns the status, or -errno with a sentence. ret_body (may be NULL) receives
 * the body; api_key may be NULL. */
int http_target_get(struct http_target *target, const char *path, const char *api_key,
		    double timeout_s, struct buf *ret_body, struct err *err);

#endif
