/* SPDX-License-Identifier: Apache-2.0
 *
 * LD_PRELOAD of the program; see preload.h. Before it is started, one thread.
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

#include "base/buf.h"
#include "base/read_at.h"
#include "base/text/nearest.h"
#include "cmd/recording/installed.h"
#include "cmd/recording/launch.h"

#define VARIABLE "LD_PRELOAD"
#define SEPARATORS ": " /* as the loader has them; there is no way to quote them */
#define LIBRARY "libmoescope-"
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

int preload_check(const char *program, struct err *err)
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

/* ---- which */

/* By their bits: the word of an option, and how the library is called. */
static const struct {
	const char *word, *library;
} libraries[] = { { NULL, "heap" },
		  { "osrt", "calls-osrt" },
		  { "cublas", "calls-cublas" },
		  { "cudnn", "calls-cudnn" },
		  { "nccl", "calls-nccl" } };
#define COUNT (sizeof(libraries) / sizeof(libraries[0]))

static int find_word(const char *word, size_t length, unsigned int *calls, struct err *err)
{
	char text[32];
	struct nearest nearest;

	snprintf(text, sizeof(text), "%.*s", (int)(length < 31 ? length : 31), word);
	if (!strcmp(text, "all")) {
		*calls |= PRELOAD_CALLS;
		return 0;
	}
	nearest = nearest_to(text);
	for (size_t i = 0; i < COUNT; i++) {
		if (!libraries[i].word)
			continue;
		if (!strcmp(libraries[i].word, text)) {
			*calls |= 1u << i;
			return 0;
		}
		nearest_offer(&nearest, libraries[i].word);
	}
	if (nearest.best)
		return err_set(err, -EINVAL, "'--calls' knows no '%s'; did you mean '%s'?", text,
			       nearest.best);
	return err_set(err, -EINVAL,
		       "'--calls' takes a list of osrt, cublas, cudnn and nccl, or all, not '%s'.",
		       text);
}

int preload_parse_calls(const char *list, unsigned int *ret_calls, struct err *err)
{
	unsigned int calls = 0;
	int r = 0;

	for (; r == 0; list++) {
		size_t length = strcspn(list, ",");

		r = find_word(list, length, &calls, err);
		list += length;
		if (!*list)
			break;
	}
	if (r == 0)
		*ret_calls = calls;
	return r;
}

/* ---- the variable */

static int add_library(const char *name, struct buf *to, struct err *err)
{
	char file[64];
	char *path;
	int r = 0;

	snprintf(file, sizeof(file), LIBRARY "%s.so", name);
	path = installed_library(file);
	if (!path)
		r = err_set(err, -ENOENT, "%s is not next to moescope; install it again.", file);
	else if (strpbrk(path, SEPARATORS))
		r = err_set(err, -EINVAL,
			    "'%s' has a space or a colon in its path, which " VARIABLE
			    " cannot have; install moescope elsewhere.",
			    path);
	else
		buf_printf(to, "%s%s", to->size ? ":" : "", path);
	free(path);
	return r;
}

/* What was there, without libraries of ours. True: there were some of these. */
static bool take_given(const char *given, struct buf *to)
{
	bool ours = false;

	while (given && *given) {
		size_t length = strcspn(given, SEPARATORS);
		const char *slash = memrchr(given, '/', length);
		const char *base = slash ? slash + 1 : given;

		if (length && strncmp(base, LIBRARY, strlen(LIBRARY)) == 0)
			ours = true;
		else if (length)
			buf_printf(to, "%s%.*s", to->size ? ":" : "", (int)length, given);
		given += length;
		given += strspn(given, SEPARATORS);
	}
	return ours;
}

static int set_variable(const struct buf *text)
{
	if (text->failed)
		return -ENOMEM;
	if (!text->size)
		return unsetenv(VARIABLE) < 0 ? -errno : 0;
	return setenv(VARIABLE, text->data, 1) < 0 ? -errno : 0;
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
		return -ENOMEM;
	r = setenv("ASAN_OPTIONS", value, 1) < 0 ? -errno : 0;
	free(value);
	return r;
}

int preload_set(unsigned int wanted, struct err *err)
{
	const char *given = getenv(VARIABLE);
	struct buf text = { 0 };
	int r = 0, set = 0;
	bool ours;

	for (size_t i = 0; r == 0 && i < COUNT; i++)
		if (wanted >> i & 1)
			r = add_library(libraries[i].library, &text, err);
	if (r < 0) {
		buf_release(&text);
		text = (struct buf){ 0 };
		wanted = 0;
	}
	ours = take_given(given, &text);
	/* What others have there is left as it is. */
	if (wanted || ours)
		set = set_variable(&text);
	if (set == 0 && wanted)
		set = spare_sanitizers();
	buf_release(&text);
	return set < 0 ? err_sys(err, set, "cannot set " VARIABLE) : r;
}
