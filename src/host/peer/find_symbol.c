/* SPDX-License-Identifier: Apache-2.0
 *
 * Where something of another process is in its memory; see find_symbol.h.
 */
#include "host/peer/find_symbol.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/read_at.h"

#define TABLE_BYTES ((uint64_t)64 << 20)

static bool read_exactly(int fd, void *to, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && read_at(fd, to, size, offset) == (ssize_t)size;
}

/* The whole of a section, with a NUL behind it; NULL: it cannot be had. */
static char *read_section(int fd, const Elf64_Shdr *section)
{
	char *bytes = section->sh_size <= TABLE_BYTES ? malloc(section->sh_size + 1) : NULL;

	if (bytes && read_exactly(fd, bytes, section->sh_size, section->sh_offset)) {
		bytes[section->sh_size] = '\0';
		return bytes;
	}
	free(bytes);
	return NULL;
}

/* The address at which the file wants its first segment: symbols count from there. */
static uint64_t first_address(int fd, const Elf64_Ehdr *elf)
{
	Elf64_Phdr segment;

	for (size_t i = 0; i < elf->e_phnum && elf->e_phentsize == sizeof(segment); i++)
		if (read_exactly(fd, &segment, sizeof(segment),
				 elf->e_phoff + i * sizeof(segment)) &&
		    segment.p_type == PT_LOAD)
			return segment.p_vaddr &
			       ~(uint64_t)(segment.p_align ? segment.p_align - 1 : 0);
	return 0;
}

static void look_up(const char *table, size_t table_bytes, const char *names, size_t names_bytes,
		    uint64_t bias, struct found_symbol *symbols, size_t n)
{
	Elf64_Sym symbol;

	for (size_t at = 0; at + sizeof(symbol) <= table_bytes; at += sizeof(symbol)) {
		memcpy(&symbol, table + at, sizeof(symbol));
		if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= names_bytes)
			continue;
		for (size_t i = 0; i < n; i++)
			if (!symbols[i].at &&
			    strcmp(names + symbol.st_name, symbols[i].name) == 0) {
				symbols[i].at = symbol.st_value + bias;
				symbols[i].bytes = symbol.st_size;
			}
	}
}

static void look_in_table(int fd, const Elf64_Ehdr *elf, const Elf64_Shdr *section, uint64_t bias,
			  struct found_symbol *symbols, size_t n)
{
	Elf64_Shdr strings;
	char *table, *names = NULL;

	if (section->sh_link >= elf->e_shnum ||
	    !read_exactly(fd, &strings, sizeof(strings),
			  elf->e_shoff + section->sh_link * sizeof(strings)))
		return;
	table = read_section(fd, section);
	if (table)
		names = read_section(fd, &strings);
	if (names)
		look_up(table, section->sh_size, names, strings.sh_size, bias, symbols, n);
	free(table);
	free(names);
}

/* start: where its first bytes are mapped. A file has one table of each type; others are not looked at. */
static void look_in_file(int fd, uint64_t start, struct found_symbol *symbols, size_t n)
{
	bool seen[2] = { false, false };
	Elf64_Shdr section;
	Elf64_Ehdr elf;

	if (!read_exactly(fd, &elf, sizeof(elf), 0) || memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_shentsize != sizeof(section))
		return;
	for (uint64_t i = 0; i < elf.e_shnum && !symbols[0].at; i++) {
		if (!read_exactly(fd, &section, sizeof(section), elf.e_shoff + i * sizeof(section)))
			return;
		if ((section.sh_type != SHT_DYNSYM && section.sh_type != SHT_SYMTAB) ||
		    seen[section.sh_type == SHT_SYMTAB])
			continue;
		seen[section.sh_type == SHT_SYMTAB] = true;
		look_in_table(fd, &elf, &section, start - first_address(fd, &elf), symbols, n);
	}
}

static int open_file(pid_t pid, const char *file)
{
	char path[PATH_MAX + 32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/root%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd < 0 ? open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : fd;
}

int find_symbols(pid_t pid, const char *prefix, struct found_symbol *symbols, size_t n, char *path,
		 size_t size)
{
	char name[32], line[PATH_MAX + 128];
	FILE *maps;

	for (size_t i = 0; i < n; i++)
		symbols[i].at = 0;
	snprintf(name, sizeof(name), "/proc/%d/maps", (int)pid);
	maps = fopen(name, "re");
	if (!maps)
		return -errno;
	while (!symbols[0].at && fgets(line, sizeof(line), maps)) {
		char *file = strchr(line, '/'), *base;
		uint64_t start, offset;
		int fd;

		if (!file || sscanf(line, "%" SCNx64 "-%*x %*s %" SCNx64, &start, &offset) != 2 ||
		    offset != 0)
			continue;
		file[strcspn(file, "\n")] = '\0';
		base = strrchr(file, '/') + 1;
		/* Not "libtorch_python.so", whose tables are large. */
		if (strncmp(base, "lib", 3) == 0)
			base += 3;
		if (strncmp(base, prefix, strlen(prefix)) != 0)
			continue;
		fd = open_file(pid, file);
		if (fd < 0)
			continue;
		look_in_file(fd, start, symbols, n);
		close(fd);
		snprintf(path, size, "%s", file);
	}
	fclose(maps);
	return symbols[0].at ? 0 : -ENOENT;
}
