/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of NVTX calls; see nvtx_text.h.
 */
#include "probe/gpu/nvtx/nvtx_text.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "probe/core/probe.h"

PROBE_LOCK(domains_lock);
static struct nvtx_domain *domains;

/* One character; *wide moves past it. Surrogate pairs, from text that was once UTF-16, are one
 * character; a lone surrogate is none. */
static uint32_t decode(const wchar_t **wide)
{
	uint32_t c = (uint32_t)(*wide)[0], low = (uint32_t)(*wide)[1];

	*wide += 1;
	if (c >= 0xd800 && c < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
		*wide += 1;
		return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	return c >= 0x110000 || (c >= 0xd800 && c < 0xe000) ? 0xfffd : c;
}

const char *nvtx_narrow(const wchar_t *wide, char *to, size_t size)
{
	size_t n = 0;

	while (wide && *wide && n + 4 < size)
		n += utf8_encode(decode(&wide), to + n);
	to[n] = 0;
	return to;
}

/* Copies what fits, without a partial character at the end. */
static void copy_cut(char *to, size_t size, const char *text)
{
	size_t n = strnlen(text, size);

	if (n == size) {
		n--;
		while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--;
	}
	memcpy(to, text, n);
	to[n] = 0;
}

const char *nvtx_text(const struct nvtx_message *message, char *scratch)
{
	const char *text = NULL;

	switch (message->type) {
	case NVTX_MESSAGE_TYPE_ASCII:
		text = message->value.ascii;
		break;
	case NVTX_MESSAGE_TYPE_UNICODE:
		text = nvtx_narrow(message->value.unicode, scratch, NVTX_TEXT_MAX);
		break;
	case NVTX_MESSAGE_TYPE_REGISTERED:
		text = (const char *)message->value.registered;
		break;
	default:
		break;
	}
	return text && *text ? text : "(no name)";
}

const char *nvtx_full_name(const struct nvtx_domain *domain, const char *text, char *scratch)
{
	size_t n;

	if (!domain || !domain->name[0])
		return text;
	n = strlen(domain->name);
	memcpy(scratch, domain->name, n);
	scratch[n++] = '/';
	copy_cut(scratch + n, NVTX_TEXT_MAX - n, text);
	return scratch;
}

struct nvtx_domain *nvtx_domain_named(const char *name)
{
	struct nvtx_domain *domain;
	char cut[sizeof(domain->name)];
	moescope_name id;

	copy_cut(cut, sizeof(cut), name);
	id = moescope_intern(cut);
	if (!probe_lock(&domains_lock))
		return NULL;
	for (domain = domains; domain && strcmp(domain->name, cut) != 0;)
		domain = domain->next;
	if (!domain && (domain = calloc(1, sizeof(*domain)))) {
		memcpy(domain->name, cut, sizeof(cut));
		domain->name_id = id;
		domain->next = domains;
		domains = domain;
	}
	probe_unlock(&domains_lock);
	return domain;
}

nvtxStringHandle_t nvtx_register(const char *text)
{
	return (nvtxStringHandle_t)strdup(text ? text : "");
}
