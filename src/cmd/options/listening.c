/* SPDX-License-Identifier: Apache-2.0
 *
 * See listening.h. Pure, but for the random token.
 */
#include "cmd/options/listening.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int listening_parse(const char *option, const char *text, struct listening *ret_listening,
		    struct err *err)
{
	const char *colon = strrchr(text, ':'), *address = colon ? text : LOOPBACK;
	const char *digits = colon ? colon + 1 : text;
	size_t length = colon ? (size_t)(colon - text) : strlen(LOOPBACK);
	unsigned long port = strtoul(digits, NULL, 10);

	if (length > 1 && address[0] == '[' && address[length - 1] == ']') {
		address++;
		length -= 2;
	} else if (memchr(address, ':', length)) {
		length = 0; /* an IPv6 address without brackets could end anywhere */
	}
	if (!length || length >= sizeof(ret_listening->address) || !digits[0] ||
	    strlen(digits) > 5 || digits[strspn(digits, "0123456789")] || port > UINT16_MAX)
		return err_set(err, -EINVAL,
			       "'%s' needs a port up to 65535, as in 9100, or an address and a "
			       "port, as in 0.0.0.0:9100 or [::1]:9100, not '%s'.",
			       option, text);
	*ret_listening = (struct listening){ .port = (uint16_t)port };
	memcpy(ret_listening->address, address, length);
	return 0;
}

static int make_token(char *ret_token, size_t size)
{
	unsigned char random[16];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(ret_token + 2 * i, size - 2 * i, "%02x", random[i]);
	return 0;
}

/* It becomes a part of an address and of a cookie. */
static bool is_plain_token(const char *token)
{
	return token[0] && strlen(token) <= 128 &&
	       !token[strspn(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789-_")];
}

static bool is_loopback(const char *address)
{
	return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

int listening_guard(struct listening *listening, const char *token, struct err *err)
{
	if (token && !is_plain_token(token))
		return err_set(err, -EINVAL,
			       "'--token' takes letters, digits, '-' and '_', at most 128.");
	listening->token[0] = '\0';
	if (token)
		strcpy(listening->token, token);
	else if (!is_loopback(listening->address) &&
		 make_token(listening->token, sizeof(listening->token)) < 0)
		return err_set(err, -EIO, "cannot make a random token; give one with '--token'.");
	return 0;
}

void listening_url(const struct listening *listening, uint16_t port, char *ret_url, size_t size)
{
	bool v6 = strchr(listening->address, ':') != NULL;

	snprintf(ret_url, size, "http://%s%s%s:%u", v6 ? "[" : "", listening->address,
		 v6 ? "]" : "", port);
}
