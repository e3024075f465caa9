/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a server listens and who may ask: what `serve` and `run --metrics` share. Any but a loopback address
 * has a token.
 */
#ifndef CMD_LISTENING_H
#define CMD_LISTENING_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define LOOPBACK "127.0.0.1"

struct listening {
	char address[64];
	uint16_t port;
	char token[130]; /* "": none */
};

/* "9100", "0.0.0.0:9100" or "[::1]:9100". 0 or -EINVAL with a sentence. */
int listening_parse(const char *option, const char *text, struct listening *ret_listening,
		    struct err *err);
/* The token that was given, or where others can reach the address a random one. -EINVAL with a sentence, or
 * -EIO. */
int listening_guard(struct listening *listening, const char *token, struct err *err);
/* "http://127.0.0.1:9100". port: that was taken. */
void listening_url(const struct listening *listening, uint16_t port, char *ret_url, size_t size);

#endif
