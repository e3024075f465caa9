/* SPDX-License-Identifier: Apache-2.0
 *
 * The walk over loaded ELF modules; see imports.h. Runs on the thread that starts collection and on
 * the GPU thread, inside dl_iterate_phdr, so that no module is unloaded meanwhile.
 *
 * Invariants: nothing outside a segment of the module is read; a slot is stored only if it holds
 * exactly the expected address; a page gets back the protection it had.
 */
#include "probe/gpu/clients/imports.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#define SUPPORTED 1
#define IS_FUNCTION_SLOT(type)                                                                     \
	((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define SUPPORTED 1
#define IS_FUNCTION_SLOT(type)                                                                     \
	((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#else
#define SUPPORTED 0
#define IS_FUNCTION_SLOT(type) ((void)(type), false)
#endif

/* To AddressSanitizer the gaps between a module's variables are not memory; slots may be there. */
#define NOT_ASAN __attribute__((no_sanitize("address")))

struct module {
	uintptr_t base, start, end;
	const Elf64_Phdr *headers;
	size_t n;
};

struct tables {
	const Elf64_Rela *rela, *plt;
	size_t rela_bytes, plt_bytes, n_relative;
	const Elf64_Sym *symbols;
	const char *strings;
	size_t strings_bytes;
	const uint32_t *hash, *gnu_hash;
};

struct walk {
	const struct import *imports;
	size_t n;
	bool restore;
	uintptr_t page_bytes;
	unsigned long long adds;
	int changed, error;
	bool again; /* a module was being loaded */
};

/* dlpi_adds at the last complete walk; 0: walk. */
static unsigned long long walked;

static void *pointer(uintptr_t address)
{
	return (void *)address; // NOLINT(performance-no-int-to-ptr): ELF has only numbers
}

static bool module_open(struct module *m, const struct dl_phdr_info *info)
{
	*m = (struct module){ .base = info->dlpi_addr,
			      .start = UINTPTR_MAX,
			      .headers = info->dlpi_phdr,
			      .n = info->dlpi_phnum };
	for (size_t i = 0; i < m->n; i++) {
		uintptr_t at = m->base + m->headers[i].p_vaddr;

		if (m->headers[i].p_type != PT_LOAD)
			continue;
		m->start = at < m->start ? at : m->start;
		at += m->headers[i].p_memsz;
		m->end = at > m->end ? at : m->end;
	}
	return m->start < m->end;
}

/* The segment that contains all these bytes, or NULL. */
static const Elf64_Phdr *segment_of(const struct module *m, uintptr_t at, size_t bytes)
{
	for (size_t i = 0; i < m->n; i++) {
		const Elf64_Phdr *header = &m->headers[i];
		uintptr_t start = m->base + header->p_vaddr;

		if (header->p_type == PT_LOAD && (header->p_flags & PF_R) && at >= start &&
		    at - start <= header->p_memsz && bytes <= header->p_memsz - (at - start))
			return header;
	}
	return NULL;
}

static bool readable(const struct module *m, const void *at, size_t bytes)
{
	return segment_of(m, (uintptr_t)at, bytes) != NULL;
}

/* glibc makes the addresses of a dynamic section absolute in place, but not for every module and
 * architecture; other C libraries never do. */
static const void *dynamic_pointer(const struct module *m, Elf64_Addr value)
{
	return pointer(value >= m->start && value < m->end ? value : m->base + value);
}

static void tables_entry(struct tables *t, const struct module *m, const Elf64_Dyn *entry)
{
	const void *at = dynamic_pointer(m, entry->d_un.d_ptr);

	switch (entry->d_tag) {
	case DT_RELA:
		t->rela = at;
		break;
	case DT_RELASZ:
		t->rela_bytes = entry->d_un.d_val;
		break;
	case DT_RELACOUNT:
		t->n_relative = entry->d_un.d_val;
		break;
	case DT_JMPREL:
		t->plt = at;
		break;
	case DT_PLTRELSZ:
		t->plt_bytes = entry->d_un.d_val;
		break;
	case DT_SYMTAB:
		t->symbols = at;
		break;
	case DT_STRTAB:
		t->strings = at;
		break;
	case DT_STRSZ:
		t->strings_bytes = entry->d_un.d_val;
		break;
	case DT_HASH:
		t->hash = at;
		break;
	case DT_GNU_HASH:
		t->gnu_hash = at;
		break;
	default:
		break;
	}
}

/* False: a module without symbols. */
static bool tables_open(struct tables *t, const struct module *m)
{
	const Elf64_Dyn *entry = NULL;
	size_t left = 0;

	*t = (struct tables){ 0 };
	for (size_t i = 0; i < m->n && !entry; i++)
		if (m->headers[i].p_type == PT_DYNAMIC) {
			entry = pointer(m->base + m->headers[i].p_vaddr);
			left = m->headers[i].p_memsz / sizeof(*entry);
		}
	if (!entry || !readable(m, entry, left * sizeof(*entry)))
		return false;
	for (; left && entry->d_tag != DT_NULL; left--, entry++)
		tables_entry(t, m, entry);
	if (t->rela && !readable(m, t->rela, t->rela_bytes))
		t->rela = NULL;
	if (t->plt && !readable(m, t->plt, t->plt_bytes))
		t->plt = NULL;
	return t->symbols && t->strings && readable(m, t->strings, t->strings_bytes);
}

static bool symbol_is(const struct tables *t, const Elf64_Sym *symbol, const char *name)
{
	size_t bytes = strlen(name) + 1;

	return symbol->st_name < t->strings_bytes && bytes <= t->strings_bytes - symbol->st_name &&
	       memcmp(t->strings + symbol->st_name, name, bytes) == 0;
}

/* The page's protection according to the kernel; -errno without /proc. */
static int protection_of(uintptr_t at, int *ret_protection)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), error = -ENOENT;
	char chunk[4096], line[64]; /* addresses and protection come first in a line */
	size_t in_line = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (error == -ENOENT && (n = read(fd, chunk, sizeof(chunk))) > 0)
		for (ssize_t i = 0; i < n; i++) {
			unsigned long start, end;
			char mode[5];

			if (chunk[i] != '\n') {
				if (in_line < sizeof(line) - 1)
					line[in_line++] = chunk[i];
				continue;
			}
			line[in_line] = 0;
			in_line = 0;
			if (sscanf(line, "%lx-%lx %4s", &start, &end, mode) != 3 || at < start ||
			    at >= end)
				continue;
			*ret_protection = (mode[0] == 'r' ? PROT_READ : 0) |
					  (mode[1] == 'w' ? PROT_WRITE : 0) |
					  (mode[2] == 'x' ? PROT_EXEC : 0);
			error = 0;
			break;
		}
	close(fd);
	return error;
}

/* Read-only once the module is relocated: until then the linker still writes there, and making the
 * page read-only under its hands would kill the program. */
static bool in_relro(const struct module *m, uintptr_t page, uintptr_t page_bytes)
{
	for (size_t i = 0; i < m->n; i++) {
		uintptr_t start = m->base + m->headers[i].p_vaddr;

		if (m->headers[i].p_type == PT_GNU_RELRO && page + page_bytes > start &&
		    page < start + m->headers[i].p_memsz)
			return true;
	}
	return false;
}

static void exchange(struct walk *walk, uintptr_t *slot, uintptr_t from, uintptr_t to)
{
	if (__atomic_compare_exchange_n(slot, &from, to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		walk->changed++;
}

/* An aligned word never crosses a page. */
static void store(struct walk *walk, const struct module *m, uintptr_t *slot, uintptr_t from,
		  uintptr_t to)
{
	uintptr_t page = (uintptr_t)slot & ~(walk->page_bytes - 1);
	const Elf64_Phdr *segment = segment_of(m, (uintptr_t)slot, sizeof(*slot));
	bool relro = in_relro(m, page, walk->page_bytes);
	int protection = 0, error;

	if (!segment)
		return;
	if (!relro && (segment->p_flags & PF_W)) {
		exchange(walk, slot, from, to);
		return;
	}
	error = protection_of(page, &protection);
	if (!error && (protection & PROT_WRITE)) {
		walk->again = true;
		return;
	}
	if (!error && mprotect(pointer(page), walk->page_bytes, protection | PROT_WRITE) != 0)
		error = -errno;
	if (!error) {
		exchange(walk, slot, from, to);
		if (mprotect(pointer(page), walk->page_bytes, protection) != 0)
			error = -errno;
	}
	if (error)
		walk->error = error;
}

static uintptr_t wanted(const struct walk *walk, size_t i)
{
	return (uintptr_t)(walk->restore ? walk->imports[i].replacement
					 : walk->imports[i].original);
}

static uintptr_t given(const struct walk *walk, size_t i)
{
	return (uintptr_t)(walk->restore ? walk->imports[i].original
					 : walk->imports[i].replacement);
}

/* Compare the slot's value before its name: hardly one of millions of relocations remains, and the
 * pages with the names stay untouched. It also leaves other copies of the library alone. */
NOT_ASAN static void walk_slot(struct walk *walk, const struct module *m, const struct tables *t,
			       const Elf64_Rela *rela)
{
	uintptr_t at = m->base + rela->r_offset, value;
	const Elf64_Sym *symbol = t->symbols + ELF64_R_SYM(rela->r_info);

	if (!IS_FUNCTION_SLOT(ELF64_R_TYPE(rela->r_info)) || at % sizeof(value) ||
	    !segment_of(m, at, sizeof(value)))
		return;
	value = __atomic_load_n((uintptr_t *)pointer(at), __ATOMIC_RELAXED);
	for (size_t i = 0; i < walk->n; i++)
		if (value == wanted(walk, i)) {
			if (readable(m, symbol, sizeof(*symbol)) &&
			    symbol_is(t, symbol, walk->imports[i].symbol))
				store(walk, m, pointer(at), value, given(walk, i));
			return;
		}
}

static void walk_slots(struct walk *walk, const struct module *m, const struct tables *t)
{
	if (t->rela)
		for (size_t i = t->n_relative; i < t->rela_bytes / sizeof(*t->rela); i++)
			walk_slot(walk, m, t, &t->rela[i]);
	if (t->plt)
		for (size_t i = 0; i < t->plt_bytes / sizeof(*t->plt); i++)
			walk_slot(walk, m, t, &t->plt[i]);
}

/* The GNU hash table has no count: the last chain ends with the last symbol. */
static size_t gnu_count(const struct module *m, const uint32_t *table)
{
	const uint32_t *buckets, *chains;
	uint32_t last = 0;

	if (!readable(m, table, 4 * sizeof(*table)))
		return 0;
	buckets = table + 4 + (size_t)table[2] * (sizeof(Elf64_Addr) / sizeof(*table));
	if (!readable(m, buckets, (size_t)table[0] * sizeof(*table)))
		return 0;
	chains = buckets + table[0];
	for (uint32_t i = 0; i < table[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	if (last < table[1])
		return table[1]; /* nothing is defined */
	while (readable(m, &chains[last - table[1]], sizeof(*table)) &&
	       !(chains[last - table[1]] & 1))
		last++;
	return (size_t)last + 1;
}

static size_t symbol_count(const struct module *m, const struct tables *t)
{
	if (t->hash && readable(m, t->hash, 2 * sizeof(*t->hash)))
		return t->hash[1];
	return t->gnu_hash ? gnu_count(m, t->gnu_hash) : 0;
}

/* The library's own table: an address there is relative to its base, modulo the address space. */
static void walk_symbols(struct walk *walk, const struct module *m, const struct tables *t)
{
	size_t n = symbol_count(m, t);

	for (size_t k = 0; k < n && readable(m, &t->symbols[k], sizeof(*t->symbols)); k++) {
		const Elf64_Sym *symbol = &t->symbols[k];

		if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
			continue;
		for (size_t i = 0; i < walk->n; i++)
			if (m->base + symbol->st_value == wanted(walk, i) &&
			    symbol_is(t, symbol, walk->imports[i].symbol)) {
				store(walk, m, (uintptr_t *)&symbol->st_value, symbol->st_value,
				      given(walk, i) - m->base);
				break;
			}
	}
}

static bool inside(const struct module *m, const void *address)
{
	return (uintptr_t)address >= m->start && (uintptr_t)address < m->end;
}

static int walk_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk *walk = arg;
	struct module m;
	struct tables t;

	if (size >= offsetof(struct dl_phdr_info, dlpi_subs)) {
		walk->adds = info->dlpi_adds;
		if (!walk->restore && walked && walk->adds == walked)
			return 1; /* nothing new */
	}
	if (!module_open(&m, info) || inside(&m, walk->imports[0].replacement) ||
	    !tables_open(&t, &m))
		return 0;
	if (inside(&m, walk->imports[0].original))
		walk_symbols(walk, &m, &t);
	else
		walk_slots(walk, &m, &t);
	return 0;
}

static int walk_all(const struct import *imports, size_t n, bool restore)
{
	struct walk walk = { .imports = imports,
			     .n = n,
			     .restore = restore,
			     .page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE) };

	if (!SUPPORTED)
		return -ENOTSUP;
	if (!n)
		return 0;
	dl_iterate_phdr(walk_module, &walk);
	walked = restore || walk.again || walk.error ? 0 : walk.adds;
	return walk.error ? walk.error : walk.changed;
}

int imports_redirect(const struct import *imports, size_t n)
{
	return walk_all(imports, n, false);
}

int imports_restore(const struct import *imports, size_t n)
{
	return walk_all(imports, n, true);
}

struct walk_in {
	const void *address;
	struct walk walk;
};

static int walk_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct walk_in *in = arg;
	struct module m;
	struct tables t;

	(void)size;
	if (!module_open(&m, info) || !inside(&m, in->address))
		return 0;
	if (tables_open(&t, &m))
		walk_slots(&in->walk, &m, &t);
	return 1;
}

int imports_redirect_in(const void *address, const struct import *import)
{
	struct walk_in in = { .address = address,
			      .walk = { .imports = import,
					.n = 1,
					.page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE) } };

	if (!SUPPORTED)
		return -ENOTSUP;
	dl_iterate_phdr(walk_one, &in);
	return in.walk.error ? in.walk.error : in.walk.changed;
}

struct bound {
	const void *address, *but;
	const char *symbol;
	void *found;
};

NOT_ASAN static void find_bound(struct bound *bound, const struct module *m, const struct tables *t,
				const Elf64_Rela *rela)
{
	uintptr_t at = m->base + rela->r_offset;
	const Elf64_Sym *symbol = t->symbols + ELF64_R_SYM(rela->r_info);
	void *value;

	if (bound->found || !IS_FUNCTION_SLOT(ELF64_R_TYPE(rela->r_info)) || at % sizeof(at) ||
	    !segment_of(m, at, sizeof(at)) || !readable(m, symbol, sizeof(*symbol)) ||
	    !symbol_is(t, symbol, bound->symbol))
		return;
	value = pointer(__atomic_load_n((uintptr_t *)pointer(at), __ATOMIC_RELAXED));
	if (value && value != bound->but && !inside(m, value))
		bound->found = value;
}

static int find_bound_in(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct bound *bound = arg;
	struct module m;
	struct tables t;

	(void)size;
	if (!module_open(&m, info) || !inside(&m, bound->address))
		return 0;
	if (!tables_open(&t, &m))
		return 1;
	if (t.plt)
		for (size_t i = 0; i < t.plt_bytes / sizeof(*t.plt); i++)
			find_bound(bound, &m, &t, &t.plt[i]);
	if (t.rela)
		for (size_t i = t.n_relative; i < t.rela_bytes / sizeof(*t.rela); i++)
			find_bound(bound, &m, &t, &t.rela[i]);
	return 1;
}

void *imports_bound_in(const void *address, const char *symbol, const void *but)
{
	struct bound bound = { .address = address, .but = but, .symbol = symbol };

	if (SUPPORTED)
		dl_iterate_phdr(find_bound_in, &bound);
	return bound.found;
}

struct search {
	const void *address;
	struct module found;
};

static int search_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;

	(void)size;
	return module_open(&search->found, info) && inside(&search->found, search->address);
}

int imports_module_of(const void *address, uintptr_t *ret_start, uintptr_t *ret_end)
{
	struct search search = { .address = address };

	if (dl_iterate_phdr(search_module, &search) == 0)
		return -ENOENT;
	*ret_start = search.found.start;
	*ret_end = search.found.end;
	return 0;
}
