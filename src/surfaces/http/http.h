/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs over HTTP, read-only: every view as JSON, a stream that says when a run has grown, and metrics.
 * One thread talks to the network and never computes; a few others answer. docs/serve.md describes the
 * requests.
 */
#ifndef SURFACES_HTTP_H
#define SURFACES_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "tables/tables.h"

struct http_options {
	const char *path;    /* a run, or a directory of runs; nothing beside it is ever read */
	const char *address; /* to listen on: an IPv4 or IPv6 address */
	uint16_t port;	     /* 0: any that is free */
	const char *token;   /* that requests must carry; NULL: none */
	bool metrics;	     /* answer /metrics */
	bool nothing_else;   /* but that */
	int socket;	     /* of http_bind, which the server closes; 0: none */
	/* Loads a run, or says in one sentence why not. Any thread. */
	int (*load)(const char *path, const struct run_want *want, struct run **ret_run,
		    struct err *err);
};

struct http_server;

/* Takes the address and the port before there is anything to serve: the socket, or -errno with a
 * sentence. */
int http_bind(const struct http_options *options, struct err *err);
/* Listens when it returns. -errno with a sentence. */
int http_open(const struct http_options *options, struct http_server **ret_server, struct err *err);
uint16_t http_port(const struct http_server *server);
/* Ends all connections. NULL is fine. */
void http_close(struct http_server *server);

#endif
