/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of the source of kernels; see lines.h.
 */
#include "exact/lines.h"

#include <elf.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "counters/api.h"

/* Of the program's memory. */
#define CUBINS_MOST 1024
#define BYTES_MOST ((size_t)64 << 20)
#define FOUND_MOST ((size_t)1 << 18)

/* Never freed: whoever has found one may still read it. */
struct cubin {
	uint64_t module;
	void *bytes;
	size_t size;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cubin cubins[CUBINS_MOST];
static size_t n_cubins, n_bytes;
static uint64_t left_out;

/* Instructions that were asked for, with their lines. Of the one caller. */
static struct found {
	uint64_t module, offset;
	moescope_name kernel;
	struct source_line line;
} * found;
static size_t n_found, found_capacity;
static struct hash_map found_by_place;

static bool has_section(const uint8_t *cubin, size_t size, const char *name)
{
	Elf64_Ehdr elf;
	Elf64_Shdr names, section;
	size_t length = strlen(name) + 1;

	if (size < sizeof(elf))
		return false;
	memcpy(&elf, cubin, sizeof(elf));
	if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_shentsize != sizeof(section) || elf.e_shstrndx >= elf.e_shnum ||
	    elf.e_shoff > size || (size - elf.e_shoff) / sizeof(section) < elf.e_shnum)
		return false;
	memcpy(&names, cubin + elf.e_shoff + elf.e_shstrndx * sizeof(names), sizeof(names));
	if (names.sh_offset > size || names.sh_size > size - names.sh_offset)
		return false;
	for (size_t i = 0; i < elf.e_shnum; i++) {
		memcpy(&section, cubin + elf.e_shoff + i * sizeof(section), sizeof(section));
		if (section.sh_name < names.sh_size && names.sh_size - section.sh_name >= length &&
		    !memcmp(cubin + names.sh_offset + section.sh_name, name, length))
			return section.sh_size > 0;
	}
	return false;
}

void lines_keep(const void *cubin, size_t size)
{
	CUpti_GetCubinCrcParams crc = { .size = CUpti_GetCubinCrcParamsSize,
					.cubin = cubin,
					.cubinSize = size };
	void *bytes = NULL;
	bool known = false, room;

	if (!cubin || !has_section(cubin, size, ".debug_line") ||
	    counter_api.cuptiGetCubinCrc(&crc) != CUPTI_SUCCESS)
		return;
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_cubins && !known; i++)
		known = cubins[i].module == crc.cubinCrc;
	room = n_cubins < CUBINS_MOST && size <= BYTES_MOST - n_bytes;
	if (!known && room)
		bytes = malloc(size);
	if (bytes) {
		memcpy(bytes, cubin, size);
		cubins[n_cubins++] = (struct cubin){ crc.cubinCrc, bytes, size };
		n_bytes += size;
	} else if (!known) {
		left_out++;
	}
	pthread_mutex_unlock(&lock);
}

uint64_t lines_left_out(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = left_out;
	pthread_mutex_unlock(&lock);
	return n;
}

static struct cubin cubin_of(uint64_t module)
{
	struct cubin cubin = { .bytes = NULL };

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_cubins; i++)
		if (cubins[i].module == module)
			cubin = cubins[i];
	pthread_mutex_unlock(&lock);
	return cubin;
}

static struct source_line ask(const struct cubin *cubin, const char *kernel, uint64_t offset)
{
	CUpti_GetSassToSourceCorrelationParams params = {
		.size = CUpti_GetSassToSourceCorrelationParamsSize,
		.cubin = cubin->bytes,
		.cubinSize = cubin->size,
		.functionName = kernel,
		.pcOffset = offset
	};
	struct source_line line = { 0 };
	char path[4096];

	if (counter_api.cuptiGetSassToSourceCorrelation(&params) == CUPTI_SUCCESS &&
	    params.fileName && *params.fileName && params.lineNumber) {
		bool bare = !params.dirName || !*params.dirName || params.fileName[0] == '/';

		snprintf(path, sizeof(path), "%s%s%s", bare ? "" : params.dirName, bare ? "" : "/",
			 params.fileName);
		line.file = moescope_intern(path);
		line.line = params.lineNumber;
	}
	free(params.fileName);
	free(params.dirName);
	return line;
}

struct source_line lines_of(uint64_t module, const char *kernel, moescope_name name,
			    uint64_t offset)
{
	uint32_t hash = (uint32_t)hash_mix(hash_mix(hash_mix(0, module), offset), name), number;
	struct hash_walk walk = hash_map_walk(&found_by_place, hash);
	struct source_line line = { 0 };
	struct cubin cubin;

	while ((number = hash_map_next(&found_by_place, &walk))) {
		const struct found *at = &found[number - 1];

		if (at->module == module && at->offset == offset && at->kernel == name)
			return at->line;
	}
	cubin = cubin_of(module);
	if (cubin.bytes)
		line = ask(&cubin, kernel, offset);
	/* Without room it is asked again. */
	if (n_found < FOUND_MOST &&
	    array_grow(&found, &found_capacity, n_found + 1, sizeof(*found)) == 0 &&
	    hash_map_add(&found_by_place, hash, (uint32_t)n_found + 1) == 0)
		found[n_found++] = (struct found){ module, offset, name, line };
	return line;
}
