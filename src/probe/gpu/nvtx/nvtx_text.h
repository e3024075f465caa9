/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of NVTX calls: messages of every type as UTF-8, registered strings, domains.
 *
 * Threads: any of the program's. Domains and registered strings live as long as the process: NVTX
 * has no call to release strings, and a destroyed domain may have open ranges.
 */
#ifndef PROBE_GPU_NVTX_NVTX_TEXT_H
#define PROBE_GPU_NVTX_NVTX_TEXT_H

#include <nvtx3/nvToolsExt.h>
#include <stddef.h>
#include <stdint.h>

#define NVTX_TEXT_MAX 512 /* longer names are cut, at a whole character */

struct nvtx_domain {
	uint32_t name_id;
	struct nvtx_domain *next;
	char name[64];
};

/* The message of an event as it came; not read until it is recorded. */
struct nvtx_message {
	int32_t type; /* NVTX_MESSAGE_TYPE_* */
	nvtxMessageValue_t value;
};

/* UTF-8, whatever the program's locale. `to` has room for `size` bytes. */
const char *nvtx_narrow(const wchar_t *wide, char *to, size_t size);
/* Never empty; `scratch` has NVTX_TEXT_MAX bytes. */
const char *nvtx_text(const struct nvtx_message *message, char *scratch);
/* "DOMAIN/text", or the text alone in the default domain (NULL). */
const char *nvtx_full_name(const struct nvtx_domain *domain, const char *text, char *scratch);

/* The domain of that name, created if new; NULL without memory. */
struct nvtx_domain *nvtx_domain_named(const char *name);
/* NULL without memory: then its events have no name. */
nvtxStringHandle_t nvtx_register(const char *text);

#endif
