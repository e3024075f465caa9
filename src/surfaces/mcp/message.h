/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of JSON-RPC 2.0: a request taken apart, and the answer to it.
 */
#ifndef SURFACES_MCP_MESSAGE_H
#define SURFACES_MCP_MESSAGE_H

#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "surfaces/mcp/mcp.h"

enum rpc_error {
	RPC_NOT_JSON = -32700,
	RPC_INVALID = -32600,
	RPC_NO_METHOD = -32601,
	RPC_BAD_PARAMS = -32602,
	RPC_VERSION = -32022, /* of the Model Context Protocol: a version that is not spoken here */
};

struct request {
	const struct json_node *id; /* a text or number; NULL: not known */
	const char *method;
	const struct json_node *params; /* an object; NULL: none */
	struct json *reply;
	bool stateless; /* of the versions in which each request says its version */
};

/* The result, or the error, as an object that is open until the end. */
void reply_begin(const struct request *request);
void reply_begin_error(const struct request *request, enum rpc_error code, const char *message);
void reply_end(const struct request *request);
/* A whole error. */
void reply_error(const struct request *request, enum rpc_error code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Answers a request by its method. */
void request_answer(const struct mcp_host *host, struct request *request);

#endif
