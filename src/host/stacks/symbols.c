/* SPDX-License-Identifier: Apache-2.0
 *
 * See symbols.h. ELF files are read by pread, never mapped: a file may be truncated at any time. Symbol
 * tables become a sorted array of numbers; names stay in the file, which is kept open, until they are asked
 * for, since those of one CUDA library fill hundreds of megabytes.
 */
#include "host/stacks/symbols.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "base/hash_map.h"
#include "base/interned.h"
#include "base/read_at.h"
#include "base/small_file.h"
#include "base/text/demangle.h"

#define TABLE_BYTES ((uint64_t)512 << 20) /* larger tables are skipped */
#define NAME_BYTES 4096
#define LOADS 32
#define SECTIONS ((uint64_t)1 << 20)
#define NOTES_BYTES 65536
#define NOTES 16 /* segments with notes that are looked at */
#define BUILD_ID_BYTES 64
#define LOOK_BACK 64 /* symbols before the nearest one that may enclose it */
#define REFRESH_NS 10000000
#define REFRESH_PARTS                                                                              \
	200 /* of the time, one for reading maps again for addresses that must be in one */
#define JIT_READ_NS 1000000000
#define JIT_PARTS 20 /* of the time, one for reading the perf map again */
#define REREADS 16   /* of the maps in a row, before they wait for their turn */
#define VAIN 64	     /* addresses that are in none, remembered for so long: */
#define VAIN_NS INT64_C(10000000000)

#if __BYTE_ORDER == __LITTLE_ENDIAN
#define HOST_DATA ELFDATA2LSB
#else
#define HOST_DATA ELFDATA2MSB
#endif

struct symbol {
	uint64_t start, size;
	uint32_t name; /* offset in the file's string table, or in the text of a perf map */
	uint32_t text; /* id of what symbols_name says; 0: not asked for yet */
};

struct table {
	struct symbol *symbols; /* by start, later ones of the same start last */
	size_t n, capacity;
};

struct file {
	uint64_t device, inode; /* as the maps say */
	char *path, *base;	/* without " (deleted)" */
	bool deleted, tried;
	int fd;
	Elf64_Phdr loads[LOADS]; /* those with code */
	size_t n_loads;
	struct table table;
	uint64_t names, names_size; /* where in the file */
	char build_id[2 * BUILD_ID_BYTES + 1];
};

struct map {
	uint64_t start, end, offset;
	size_t file; /* from 1; 0: anonymous memory */
};

struct symbols {
	pid_t pid;
	struct map *maps; /* with code, by address */
	size_t n_maps, maps_capacity;
	struct file **files;
	size_t n_files, files_capacity;
	int64_t maps_read_ns, maps_took_ns;
	unsigned int rereads;
	struct {
		uint64_t ip;
		int64_t until_ns; /* it is in no map */
	} vain[VAIN];
	struct table jit;
	char *jit_text;
	int64_t jit_read_ns, jit_took_ns; /* 0: never */
	char jit_path[64];
	struct interned texts;
};

static bool read_exactly(int fd, void *to, size_t size, uint64_t offset)
{
	return offset <= INT64_MAX && read_at(fd, to, size, offset) == (ssize_t)size;
}

/* By start, and of one start in the order of the file. */
static int by_start(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return CMP(x->start, y->start) ?: CMP(x->name, y->name);
}

/* The last at or below an address that holds it. */
static struct symbol *table_find(const struct table *table, uint64_t at)
{
	size_t low = 0, high = table->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (table->symbols[middle].start <= at)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t i = low; i > 0 && low - i < LOOK_BACK; i--) {
		struct symbol *symbol = &table->symbols[i - 1];

		if (at - symbol->start < symbol->size)
			return symbol;
	}
	return NULL;
}

static void read_build_id(struct file *file, const Elf64_Phdr *segment)
{
	size_t size = segment->p_filesz < NOTES_BYTES ? segment->p_filesz : NOTES_BYTES, at = 0;
	size_t align = segment->p_align == 8 ? 8 : 4;
	char *notes = malloc(size);
	Elf64_Nhdr note;

	if (!notes || !read_exactly(file->fd, notes, size, segment->p_offset))
		size = 0;
	while (size - at >= sizeof(note)) {
		size_t name = at + sizeof(note), content, end;

		memcpy(&note, notes + at, sizeof(note));
		content = (name + note.n_namesz + align - 1) / align * align;
		end = content + note.n_descsz;
		if (note.n_namesz > size || note.n_descsz > size || end > size)
			break;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(notes + name, "GNU", 4) && note.n_descsz <= BUILD_ID_BYTES) {
			for (size_t i = 0; i < note.n_descsz; i++)
				sprintf(file->build_id + 2 * i, "%02x",
					(unsigned char)notes[content + i]);
			break;
		}
		at = (end + align - 1) / align * align;
		if (at > size)
			break;
	}
	free(notes);
}

static void read_segments(struct file *file, const Elf64_Ehdr *elf)
{
	Elf64_Phdr segment;
	size_t notes = 0;

	if (elf->e_phentsize != sizeof(segment))
		return;
	for (size_t i = 0; i < elf->e_phnum; i++) {
		if (!read_exactly(file->fd, &segment, sizeof(segment),
				  elf->e_phoff + i * sizeof(segment)))
			return;
		if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && file->n_loads < LOADS)
			file->loads[file->n_loads++] = segment;
		if (segment.p_type == PT_NOTE && !file->build_id[0] && notes++ < NOTES)
			read_build_id(file, &segment);
	}
}

static bool is_function(const Elf64_Sym *symbol)
{
	unsigned int type = ELF64_ST_TYPE(symbol->st_info);

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF &&
	       symbol->st_value && symbol->st_name;
}

static bool read_section(const struct file *file, const Elf64_Ehdr *elf, uint64_t number,
			 Elf64_Shdr *ret_section)
{
	return elf->e_shoff <= INT64_MAX &&
	       read_exactly(file->fd, ret_section, sizeof(*ret_section),
			    elf->e_shoff + number * sizeof(*ret_section));
}

/* Symbols without size, as assembly has, end where the next begins or their section ends: else _init would
 * have all that is called through the PLT. Until they are sorted, `text` marks them and `size` goes up to
 * the section's end. */
static void end_sizeless(struct table *table)
{
	uint64_t next = UINT64_MAX; /* start of the next that begins elsewhere */

	for (size_t i = table->n; i-- > 0;) {
		struct symbol *symbol = &table->symbols[i];

		if (i + 1 < table->n && symbol[1].start != symbol->start)
			next = symbol[1].start;
		if (symbol->text && symbol->size > next - symbol->start)
			symbol->size = next - symbol->start;
		symbol->text = 0;
	}
}

static void read_table(struct file *file, const Elf64_Ehdr *elf, const Elf64_Shdr *section)
{
	Elf64_Sym part[1024];
	uint64_t left = section->sh_size / sizeof(*part), offset = section->sh_offset;
	Elf64_Shdr home = { 0 };
	uint32_t home_number = SHN_UNDEF;

	while (left) {
		size_t n = left < 1024 ? left : 1024;

		if (!read_exactly(file->fd, part, n * sizeof(*part), offset))
			break;
		for (size_t i = 0; i < n; i++) {
			struct symbol symbol = { part[i].st_value, part[i].st_size, part[i].st_name,
						 part[i].st_size == 0 };

			if (!is_function(&part[i]))
				continue;
			if (symbol.text && part[i].st_shndx != home_number) {
				home_number = part[i].st_shndx;
				if (!read_section(file, elf, home_number, &home))
					home.sh_size = 0;
			}
			if (symbol.text && symbol.start - home.sh_addr < home.sh_size)
				symbol.size = home.sh_size - (symbol.start - home.sh_addr);
			if (array_grow(&file->table.symbols, &file->table.capacity,
				       file->table.n + 1, sizeof(symbol)) < 0)
				return;
			file->table.symbols[file->table.n++] = symbol;
		}
		left -= n;
		offset += n * sizeof(*part);
	}
	if (file->table.n)
		qsort(file->table.symbols, file->table.n, sizeof(struct symbol), by_start);
	end_sizeless(&file->table);
}

/* The first table of this type; false: there is none, or one without functions. */
static bool read_symbols(struct file *file, const Elf64_Ehdr *elf, uint32_t type)
{
	Elf64_Shdr section, names;
	uint64_t n = elf->e_shnum;

	if (elf->e_shentsize != sizeof(section) || !elf->e_shoff)
		return false;
	if (!n && read_section(file, elf, 0, &section)) /* more than fit the header */
		n = section.sh_size <= SECTIONS ? section.sh_size : 0;
	for (uint64_t i = 0; i < n; i++) {
		if (!read_section(file, elf, i, &section))
			return false;
		if (section.sh_type == type)
			break;
		if (i + 1 == n)
			return false;
	}
	if (!n || section.sh_entsize != sizeof(Elf64_Sym) || section.sh_size > TABLE_BYTES ||
	    section.sh_link >= n || !read_section(file, elf, section.sh_link, &names) ||
	    names.sh_type != SHT_STRTAB || names.sh_size > TABLE_BYTES)
		return false;
	file->names = names.sh_offset;
	file->names_size = names.sh_size;
	read_table(file, elf, &section);
	return file->table.n > 0;
}

static int open_regular(const char *path, uint64_t inode, int flags)
{
	/* Not to wait for the writer of what is a pipe today. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (!inode || st.st_ino == inode))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* A path that still names the file does so in the process's own root. In all other places another file
 * may have taken its path, which its inode tells; file systems in layers only disagree on devices. */
static int open_mapped(const struct symbols *s, const struct file *file, const struct map *map)
{
	char path[PATH_MAX + 64];
	int fd = -1;

	if (!file->deleted) {
		snprintf(path, sizeof(path), "/proc/%d/root%s", (int)s->pid, file->path);
		fd = open_regular(path, 0, 0);
	}
	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)s->pid,
			 map->start, map->end);
		fd = open_regular(path, file->inode, 0);
	}
	if (fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/exe", (int)s->pid);
		fd = open_regular(path, file->inode, 0);
	}
	return fd < 0 ? open_regular(file->path, file->inode, 0) : fd;
}

/* The kernel gives all programs the same one, so ours will do, as a file. */
static int open_vdso(void)
{
	uintptr_t at = (uintptr_t)getauxval(AT_SYSINFO_EHDR);
	const Elf64_Ehdr *elf = (const void *)at; /* NOLINT(performance-no-int-to-ptr) */
	int fd = elf ? memfd_create("vdso", MFD_CLOEXEC) : -1;
	size_t size = elf ? elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize : 0;

	if (fd >= 0 && write(fd, elf, size) != (ssize_t)size) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void file_load(const struct symbols *s, struct file *file, const struct map *map)
{
	Elf64_Ehdr elf;

	if (file->tried)
		return;
	file->tried = true;
	if (file->path[0] == '/')
		file->fd = open_mapped(s, file, map);
	else if (!strcmp(file->path, "[vdso]"))
		file->fd = open_vdso();
	if (file->fd < 0 || !read_exactly(file->fd, &elf, sizeof(elf), 0) ||
	    memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 || elf.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.e_ident[EI_DATA] != HOST_DATA)
		return;
	read_segments(file, &elf);
	if (!read_symbols(file, &elf, SHT_SYMTAB))
		read_symbols(file, &elf, SHT_DYNSYM);
}

static void file_free(struct file *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	free(file->table.symbols);
	free(file->path);
	free(file);
}

/* Its number, from 1; 0: no memory. */
static size_t file_number(struct symbols *s, uint64_t device, uint64_t inode, const char *path)
{
	static const char gone[] = " (deleted)";
	size_t length = strlen(path);
	bool deleted = length > strlen(gone) && !strcmp(path + length - strlen(gone), gone);
	struct file *file;

	if (deleted)
		length -= strlen(gone);
	for (size_t i = 0; i < s->n_files; i++) {
		file = s->files[i];
		if (file->device == device && file->inode == inode &&
		    !strncmp(file->path, path, length) && !file->path[length]) {
			file->deleted = deleted;
			return i + 1;
		}
	}
	file = calloc(1, sizeof(*file));
	if (file)
		*file = (struct file){ .device = device,
				       .inode = inode,
				       .deleted = deleted,
				       .fd = -1,
				       .path = strndup(path, length) };
	if (!file || !file->path ||
	    array_grow(&s->files, &s->files_capacity, s->n_files + 1, sizeof(*s->files)) < 0) {
		file_free(file);
		return 0;
	}
	file->base = strrchr(file->path, '/') ? strrchr(file->path, '/') + 1 : file->path;
	s->files[s->n_files++] = file;
	return s->n_files;
}

/* A line of maps, if it is of code. The line is changed. */
static bool parse_map(struct symbols *s, char *line, struct map *ret_map)
{
	uint64_t major, minor, inode;
	struct map map = { 0 };
	char permissions[5] = "";
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx64 ":%" SCNx64 " %" SCNu64 " %n",
		   &map.start, &map.end, permissions, &map.offset, &major, &minor, &inode,
		   &at) != 7 ||
	    strlen(permissions) < 3 || permissions[2] != 'x')
		return false;
	if (at && line[at])
		map.file = file_number(s, major << 32 | minor, inode, line + at);
	*ret_map = map;
	return true;
}

/* Those with code. A process that has ended has none; then the old ones stay. */
static void read_maps(struct symbols *s)
{
	int64_t begin_ns = clock_monotonic_ns();
	char path[64], *line = NULL;
	size_t line_capacity = 0, n = 0, capacity = 0;
	struct map *maps = NULL, map;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)s->pid);
	file = fopen(path, "re");
	while (file && getline(&line, &line_capacity, file) > 0)
		if (parse_map(s, line, &map) &&
		    array_grow(&maps, &capacity, n + 1, sizeof(map)) == 0)
			maps[n++] = map;
	if (file)
		fclose(file);
	free(line);
	if (n) {
		free(s->maps);
		s->maps = maps;
		s->n_maps = n;
		s->maps_capacity = capacity;
	} else {
		free(maps);
	}
	s->maps_read_ns = clock_monotonic_ns();
	s->maps_took_ns = s->maps_read_ns - begin_ns;
}

static const struct map *map_in(const struct symbols *s, uint64_t ip)
{
	size_t low = 0, high = s->n_maps;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->maps[middle].end <= ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->n_maps && s->maps[low].start <= ip ? &s->maps[low] : NULL;
}

static int by_map_start(const void *a, const void *b)
{
	const struct map *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

void symbols_learn(struct symbols *s, char *lines)
{
	size_t known = s->n_maps;
	struct map map;
	char *line;

	while ((line = strsep(&lines, "\n"))) {
		bool is_known = false;

		if (!parse_map(s, line, &map) || map.end <= map.start)
			continue;
		for (size_t i = 0; i < known && !is_known; i++)
			is_known = s->maps[i].start < map.end && map.start < s->maps[i].end;
		if (!is_known &&
		    array_grow(&s->maps, &s->maps_capacity, s->n_maps + 1, sizeof(map)) == 0)
			s->maps[s->n_maps++] = map;
	}
	if (s->n_maps)
		qsort(s->maps, s->n_maps, sizeof(map), by_map_start);
}

/* Chains of code without frame pointers are full of addresses that are none. Looking for them again and again
 * must not take more than a thousandth of the time. */
static const struct map *map_find(struct symbols *s, uint64_t ip)
{
	const struct map *map = map_in(s, ip);
	size_t slot = hash_word(ip) % VAIN;
	int64_t now_ns;
	uint64_t earned;

	if (map)
		return map;
	now_ns = clock_monotonic_ns();
	if (s->vain[slot].ip == ip && now_ns < s->vain[slot].until_ns)
		return NULL;
	earned = (uint64_t)(now_ns - s->maps_read_ns) / (uint64_t)(1000 * s->maps_took_ns + 1);
	if (earned < s->rereads)
		s->rereads -= (unsigned int)earned;
	else
		s->rereads = 0;
	if (s->rereads >= REREADS)
		return NULL;
	s->rereads++;
	read_maps(s);
	map = map_in(s, ip);
	if (!map) {
		s->vain[slot].ip = ip;
		s->vain[slot].until_ns = now_ns + VAIN_NS;
	}
	return map;
}

void symbols_refresh(struct symbols *s)
{
	int64_t since_ns = clock_monotonic_ns() - s->maps_read_ns;

	if (since_ns > REFRESH_NS && since_ns > REFRESH_PARTS * s->maps_took_ns)
		read_maps(s);
}

/* What symbols_name says, as an id. Names come from files: nothing in them may steer a terminal. */
static uint32_t text_id(struct symbols *s, const char *name, const char *where)
{
	char *plain, *text = NULL;
	uint32_t id = 0;

	if (demangled(name, &plain) < 0)
		return 0;
	if (asprintf(&text, "%s (%s)", plain, where) >= 0) {
		for (char *c = text; *c; c++)
			if ((unsigned char)*c < ' ' || *c == 0x7f)
				*c = '?';
		id = interned_id(&s->texts, text, strlen(text));
		free(text);
	}
	free(plain);
	return id;
}

static const char *number_text(struct symbols *s, uint64_t number, const char *where)
{
	char name[32];

	snprintf(name, sizeof(name), "0x%" PRIx64, number);
	return interned_key(&s->texts, text_id(s, name, where));
}

static bool read_name(const struct file *file, const struct symbol *symbol, char *name)
{
	uint64_t left = symbol->name < file->names_size ? file->names_size - symbol->name : 0;
	size_t most = left < NAME_BYTES - 1 ? left : NAME_BYTES - 1;
	ssize_t n = file->names <= INT64_MAX
			    ? read_at(file->fd, name, most, file->names + symbol->name)
			    : 0;

	name[n > 0 ? n : 0] = '\0';
	return name[0] != '\0';
}

/* Of several names of one function the one with the fewest underscores in front: malloc, not __libc_malloc. */
static const char *symbol_text(struct symbols *s, const struct file *file, struct symbol *symbol)
{
	char best[NAME_BYTES] = "", name[NAME_BYTES];

	for (struct symbol *other = symbol; !symbol->text; other--) {
		if (other->start != symbol->start || symbol - other >= LOOK_BACK)
			break;
		if (other->size == symbol->size && read_name(file, other, name) &&
		    (!best[0] || strspn(name, "_") < strspn(best, "_")))
			memcpy(best, name, sizeof(best));
		if (other == file->table.symbols)
			break;
	}
	if (!symbol->text && best[0])
		symbol->text = text_id(s, best, file->base);
	return interned_key(&s->texts, symbol->text);
}

/* "START SIZE name", as JITs write them for perf. */
static void parse_jit(struct table *table, char *text)
{
	char *line, *at, *next = text;

	table->n = 0;
	while ((line = strsep(&next, "\n"))) {
		struct symbol symbol = { .start = strtoull(line, &at, 16) };

		if (at == line || *at != ' ')
			continue;
		line = at;
		symbol.size = strtoull(line, &at, 16);
		if (at == line || *at != ' ' || !at[1] || !symbol.size)
			continue;
		symbol.name = (uint32_t)(at + 1 - text);
		if (array_grow(&table->symbols, &table->capacity, table->n + 1, sizeof(symbol)) < 0)
			break;
		table->symbols[table->n++] = symbol;
	}
	if (table->n)
		qsort(table->symbols, table->n, sizeof(struct symbol), by_start);
}

static void read_jit(struct symbols *s)
{
	int64_t now_ns = clock_monotonic_ns();
	struct stat st;
	ssize_t n = -1;
	char *text = NULL;
	int fd;

	if (s->jit_read_ns && (now_ns - s->jit_read_ns < JIT_READ_NS ||
			       now_ns - s->jit_read_ns < JIT_PARTS * s->jit_took_ns))
		return;
	s->jit_read_ns = now_ns;
	fd = open_regular(s->jit_path, 0, O_NOFOLLOW);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && (uint64_t)st.st_size <= TABLE_BYTES)
		text = malloc((size_t)st.st_size + 1);
	if (text)
		n = read_at(fd, text, (size_t)st.st_size, 0);
	close(fd);
	if (n < 0) {
		free(text);
		return;
	}
	text[n] = '\0';
	/* The last line may still be in the making. */
	while (n > 0 && text[n - 1] != '\n')
		text[--n] = '\0';
	free(s->jit_text);
	s->jit_text = text;
	parse_jit(&s->jit, text);
	s->jit_took_ns = clock_monotonic_ns() - now_ns;
}

static const char *jit_name(struct symbols *s, uint64_t ip)
{
	struct symbol *symbol = table_find(&s->jit, ip);

	if (!symbol) {
		read_jit(s);
		symbol = table_find(&s->jit, ip);
	}
	if (symbol && !symbol->text)
		symbol->text = text_id(s, s->jit_text + symbol->name, "[jit]");
	return symbol ? interned_key(&s->texts, symbol->text) : NULL;
}

static const char *file_name(struct symbols *s, struct file *file, uint64_t offset)
{
	for (size_t i = 0; i < file->n_loads; i++) {
		const Elf64_Phdr *load = &file->loads[i];
		uint64_t address = offset - load->p_offset + load->p_vaddr;
		struct symbol *symbol;
		const char *text;

		if (offset - load->p_offset >= load->p_filesz)
			continue;
		symbol = table_find(&file->table, address);
		text = symbol ? symbol_text(s, file, symbol) : NULL;
		return text ? text : number_text(s, address, file->base);
	}
	return number_text(s, offset, file->base);
}

const char *symbols_name(struct symbols *s, uint64_t ip)
{
	const struct map *map = map_find(s, ip);
	struct file *file = map && map->file ? s->files[map->file - 1] : NULL;
	const char *text = NULL;

	if (!map)
		return "[unknown]";
	if (file)
		file_load(s, file, map);
	/* Some JITs keep code in a memfd, which has a path but is no program. */
	if (!file || !file->n_loads)
		text = jit_name(s, ip);
	if (!text && file)
		text = file_name(s, file, ip - map->start + map->offset);
	else if (!text)
		text = number_text(s, ip, "[anon]");
	return text ? text : "[unknown]";
}

const char *symbols_build_id(struct symbols *s, uint64_t ip)
{
	const struct map *map = map_find(s, ip);

	if (!map || !map->file)
		return NULL;
	file_load(s, s->files[map->file - 1], map);
	return s->files[map->file - 1]->build_id[0] ? s->files[map->file - 1]->build_id : NULL;
}

bool symbols_place(struct symbols *s, uint64_t ip, struct symbols_place *ret_place)
{
	const struct map *map = map_in(s, ip);
	struct file *file = map && map->file ? s->files[map->file - 1] : NULL;
	uint64_t offset;

	if (!file)
		return false;
	file_load(s, file, map);
	offset = ip - map->start + map->offset;
	for (size_t i = 0; i < file->n_loads; i++) {
		const Elf64_Phdr *load = &file->loads[i];

		if (offset - load->p_offset >= load->p_filesz)
			continue;
		*ret_place = (struct symbols_place){ map->file - 1, file->fd,
						     offset - load->p_offset + load->p_vaddr };
		return true;
	}
	return false;
}

bool symbols_file(const struct symbols *s, size_t number, const char **ret_path,
		  const char **ret_build_id)
{
	const struct file *file = number < s->n_files ? s->files[number] : NULL;

	if (!file)
		return false;
	*ret_path = file->tried ? file->path : NULL;
	*ret_build_id = file->build_id[0] ? file->build_id : NULL;
	return true;
}

struct symbols *symbols_open(pid_t pid)
{
	struct symbols *s = calloc(1, sizeof(*s));
	char path[64], pids[256];
	const char *inner;

	if (!s)
		return NULL;
	s->pid = pid;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	small_file_value(path, "NSpid", pids, sizeof(pids));
	/* The last is the one inside all namespaces. */
	inner = strrchr(pids, '\t') ? strrchr(pids, '\t') + 1 : pids;
	snprintf(s->jit_path, sizeof(s->jit_path), "/proc/%d/root/tmp/perf-%d.map", (int)pid,
		 *inner ? atoi(inner) : (int)pid);
	read_maps(s);
	return s;
}

void symbols_close(struct symbols *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_files; i++)
		file_free(s->files[i]);
	free(s->files);
	free(s->maps);
	free(s->jit.symbols);
	free(s->jit_text);
	interned_release(&s->texts);
	free(s);
}
