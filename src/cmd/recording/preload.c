/* SPDX-License-Identifier: Apache-2.0
 *
 * The library for allocations; see preload.h. Main thread.
 */
#include "cmd/recording/preload.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/read_at.h"
#include "cmd/recording/installed.h"
#include "cmd/recording/launch.h"

#define LIBRARY "libmoescope-heap.so"
#define SEPARATORS ": " /* in LD_PRELOAD; there is no way to quote them */
#define SEGMENTS_MOST 256
#define DYNAMIC_MOST 4096

/* Allocators of sanitizers: those of gcc end a program in which they are not the first library. */
static const char *const sanitizers[] = { "libasan.so",	       "libhwasan.so",
					  "libtsan.so",	       "liblsan.so",
					  "libclang_rt.asan",  "libclang_rt.tsan",
					  "libclang_rt.hwasan" };

struct program_file {
	int fd;
	Elf64_Phdr segments[SEGMENTS_MOST];
	size_t n;
};

static bool read_exactly(int fd, void *to, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && read_at(fd, to, size, offset) == (ssize_t)size;
}

static const Elf64_Phdr *segment_of(const struct program_file *file, uint32_t type)
{
	for (size_t i = 0; i < file->n; i++)
		if (file->segments[i].p_type == type)
			return &file->segments[i];
	return NULL;
}

/* Where an address is in the file; UINT64_MAX: nowhere. */
static uint64_t offset_of(const struct program_file *file, uint64_t address)
{
	for (size_t i = 0; i < file->n; i++) {
		const Elf64_Phdr *s = &file->segments[i];

		if (s->p_type == PT_LOAD && address - s->p_vaddr < s->p_filesz)
			return address - s->p_vaddr + s->p_offset;
	}
	return UINT64_MAX;
}

/* The sanitizer that a program is linked with, or NULL. */
static const char *sanitizer_of(const struct program_file *file)
{
	const Elf64_Phdr *segment = segment_of(file, PT_DYNAMIC);
	static Elf64_Dyn dynamic[DYNAMIC_MOST];
	size_t n = segment ? segment->p_filesz / sizeof(*dynamic) : 0;
	uint64_t names = 0;
	char name[64];

	n = n < DYNAMIC_MOST ? n : DYNAMIC_MOST;
	if (!n || !read_exactly(file->fd, dynamic, n * sizeof(*dynamic), segment->p_offset))
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (dynamic[i].d_tag == DT_STRTAB)
			names = offset_of(file, dynamic[i].d_un.d_ptr);
	for (size_t i = 0; i < n && names; i++) {
		ssize_t got;

		if (dynamic[i].d_tag != DT_NEEDED)
			continue;
		got = read_at(file->fd, name, sizeof(name) - 1, names + dynamic[i].d_un.d_val);
		name[got > 0 ? got : 0] = '\0';
		for (size_t k = 0; k < sizeof(sanitizers) / sizeof(sanitizers[0]); k++)
			if (strncmp(name, sanitizers[k], strlen(sanitizers[k])) == 0)
				return sanitizers[k];
	}
	return NULL;
}

/* False: it is no ELF file of this kind of machine, as a script. */
static bool read_file(struct program_file *file)
{
	Elf64_Ehdr elf;

	if (!read_exactly(file->fd, &elf, sizeof(elf), 0) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_phentsize != sizeof(*file->segments) || elf.e_phnum > SEGMENTS_MOST)
		return false;
	file->n = elf.e_phnum;
	return read_exactly(file->fd, file->segments, file->n * sizeof(*file->segments),
			    elf.e_phoff);
}

static int check_file(const char *program, struct err *err)
{
	struct program_file file = { .n = 0 };
	const char *sanitizer = NULL;
	char path[PATH_MAX];
	bool is_static = false;

	if (program_find(program, path) < 0)
		return 0;
	file.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (file.fd < 0)
		return 0; /* it may be run but not read: nobody knows */
	if (read_file(&file)) {
		is_static = !segment_of(&file, PT_INTERP);
		sanitizer = sanitizer_of(&file);
	}
	close(file.fd);
	if (is_static)
		return err_set(err, -ENOTSUP,
			       "'%s' is linked statically, so nothing can be loaded into it.",
			       program);
	if (sanitizer)
		return err_set(
			err, -ENOTSUP,
			"'%s' has the allocator of a sanitizer (%s), which must be the first "
			"library; build it without.",
			program, sanitizer);
	return 0;
}

int preload_check(const char *program, struct err *err)
{
	char *library = installed_library(LIBRARY);
	bool can_be_named = library && !strpbrk(library, SEPARATORS);
	int r = 0;

	if (!library)
		r = err_set(err, -ENOENT, LIBRARY " is not beside moescope; install it again.");
	else if (!can_be_named)
		r = err_set(
			err, -ENOTSUP,
			"'%s' has a space or a colon in its path, which LD_PRELOAD cannot have; "
			"install moescope elsewhere.",
			library);
	free(library);
	return r < 0 ? r : check_file(program, err);
}

static bool is_library(const char *entry, size_t length)
{
	size_t name = strlen(LIBRARY);

	return length >= name && strncmp(entry + length - name, LIBRARY, name) == 0 &&
	       (length == name || entry[length - name - 1] == '/');
}

/* A program with AddressSanitizer that the program starts ends at once if its library is not the first, unless it is told
 * that this is meant. It works as before: its allocator is behind ours. */
static int spare_sanitizers(void)
{
	static const char words[] = "verify_asan_link_order=0";
	const char *given = getenv("ASAN_OPTIONS");
	char *value;
	int r;

	if (given && strstr(given, words))
		return 0;
	if (asprintf(&value, "%s%s%s", given ? given : "", given && *given ? ":" : "", words) < 0)
		return -1;
	r = setenv("ASAN_OPTIONS", value, 1);
	free(value);
	return r;
}

int preload_set(bool wanted)
{
	const char *given = getenv("LD_PRELOAD");
	char *library = wanted ? installed_library(LIBRARY) : NULL;
	char *value = calloc(1, (library ? strlen(library) : 0) + (given ? strlen(given) : 0) + 2);
	bool had = false;
	int r;

	if (!value) {
		free(library);
		return -1;
	}
	if (library)
		strcat(value, library); // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
	while (given && *given) {
		size_t length = strcspn(given, SEPARATORS);

		if (length && is_library(given, length))
			had = true;
		else if (length)
			sprintf(value + strlen(value), "%s%.*s", *value ? ":" : "", (int)length,
				given);
		given += length + (given[length] != '\0');
	}
	/* What others have there is left as it is. */
	if (!library && !had)
		r = 0;
	else
		r = *value ? setenv("LD_PRELOAD", value, 1) : unsetenv("LD_PRELOAD");
	if (r == 0 && library)
		r = spare_sanitizers();
	free(value);
	free(library);
	return r;
}
