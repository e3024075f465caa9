/* SPDX-License-Identifier: Apache-2.0
 *
 * Sees every use of memory that CUPTI has freed: soak.py --watch-frees preloads it.
 *
 * What libcupti and the driver allocate, and any library on moescope's GPU thread, lies at the end of pages of its
 * own with a guard page behind. A free takes the pages away for good. The first use after that, or
 * beyond the end, is written to $WATCH_FREES with the calls that led there, to the allocation and to
 * the free; the page is then given back and the program goes on as if nothing had been freed.
 *
 * It wants vm.max_map_count of millions, and does not end what it watches.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
#define REGION_BYTES (UINT64_C(512) << 30)
#define ALIGNMENT 16
#define CHAIN 20
#define STACK_WORDS 400
#define TOLD_MOST 100 /* uses that a process writes down */
#define NAME_TRIES 50 /* a thread may get its name after its first allocations */

/* glibc's own, under the names that nobody replaces. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *memory);

int watch_frees(void);

struct block {
	uint64_t address, bytes, pages; /* pages 0: not the first page of a block */
	pid_t made_by, freed_by;	/* threads */
	uintptr_t made_at[CHAIN], freed_at[CHAIN];
};

static uint8_t *region;
static struct block *blocks; /* one for each page */
static _Atomic uint64_t pages_used;
static _Atomic int told;
static struct {
	uintptr_t start, end;
} modules[2]; /* code of libcupti and of libcuda */
static int log_fd = -1;

/* By frame pointers, which CUPTI has. */
static void follow(uintptr_t *chain, uintptr_t frame, uintptr_t stack)
{
	memset(chain, 0, CHAIN * sizeof(*chain));
	for (int i = 0; i < CHAIN && frame >= stack && frame < stack + (1 << 20) && frame % 8 == 0;
	     i++) {
		const uintptr_t *saved = (const uintptr_t *)frame;

		chain[i] = saved[1];
		if (saved[0] <= frame)
			break;
		frame = saved[0];
	}
}

static bool watched(const void *memory)
{
	return region && (const uint8_t *)memory >= region &&
	       (const uint8_t *)memory < region + REGION_BYTES;
}

static struct block *block_of(const void *memory)
{
	uint64_t page = (uint64_t)((const uint8_t *)memory - region) / PAGE;

	while (page && !blocks[page].pages)
		page--;
	return page ? &blocks[page] : NULL;
}

__attribute__((noinline)) static void *watched_alloc(size_t bytes, size_t alignment)
{
	uint64_t rounded = bytes ? (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
	uint64_t pages, first;
	uint8_t *start;
	struct block *block;

	if (alignment < ALIGNMENT)
		alignment = ALIGNMENT;
	pages = (rounded + alignment - ALIGNMENT + PAGE - 1) / PAGE;
	first = atomic_fetch_add(&pages_used, pages + 1);
	start = region + first * PAGE;
	if ((first + pages + 1) * PAGE > REGION_BYTES ||
	    mprotect(start, pages * PAGE, PROT_READ | PROT_WRITE) != 0) {
		errno = ENOMEM;
		return NULL;
	}
	block = &blocks[first];
	block->address = ((uintptr_t)start + pages * PAGE - rounded) & ~(alignment - 1);
	block->bytes = bytes;
	block->made_by = (pid_t)syscall(SYS_gettid);
	follow(block->made_at, (uintptr_t)__builtin_frame_address(1),
	       (uintptr_t)__builtin_frame_address(0));
	block->pages = pages;
	return (void *)block->address;
}

__attribute__((noinline)) static void watched_free(void *memory)
{
	struct block *block = block_of(memory);

	block->freed_by = (pid_t)syscall(SYS_gettid);
	follow(block->freed_at, (uintptr_t)__builtin_frame_address(1),
	       (uintptr_t)__builtin_frame_address(0));
	mprotect(region + (uint64_t)(block - blocks) * PAGE, block->pages * PAGE, PROT_NONE);
}

static bool wanted(const void *caller)
{
	static __thread int asked;
	static __thread bool gpu_thread;
	char name[16] = "";

	if (!modules[0].start)
		return false;
	for (int i = 0; i < 2; i++)
		if ((uintptr_t)caller >= modules[i].start && (uintptr_t)caller < modules[i].end)
			return true;
	if (!gpu_thread && asked < NAME_TRIES) {
		asked++;
		prctl(PR_GET_NAME, name);
		gpu_thread = !strcmp(name, "moescope-gpu");
	}
	return gpu_thread;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t bytes)
{
	return wanted(CALLER) ? watched_alloc(bytes, 0) : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes)
{
	return wanted(CALLER) ? watched_alloc(n * bytes, 0) : __libc_calloc(n, bytes);
}

void free(void *memory)
{
	if (watched(memory))
		watched_free(memory);
	else
		__libc_free(memory);
}

void *realloc(void *memory, size_t bytes)
{
	void *moved;

	if (!watched(memory))
		return !memory && wanted(CALLER) ? watched_alloc(bytes, 0)
						 : __libc_realloc(memory, bytes);
	moved = watched_alloc(bytes, 0);
	if (moved) {
		uint64_t was = block_of(memory)->bytes;

		memcpy(moved, memory, was < bytes ? was : bytes);
		watched_free(memory);
	}
	return moved;
}

void *memalign(size_t alignment, size_t bytes)
{
	return wanted(CALLER) ? watched_alloc(bytes, alignment) : __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return wanted(CALLER) ? watched_alloc(bytes, alignment) : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **ret_memory, size_t alignment, size_t bytes)
{
	*ret_memory = wanted(CALLER) ? watched_alloc(bytes, alignment)
				     : __libc_memalign(alignment, bytes);
	return *ret_memory ? 0 : ENOMEM;
}

static void tell_chain(FILE *out, const char *what, const uintptr_t *chain)
{
	Dl_info info;

	fprintf(out, "  %s", what);
	for (int i = 0; i < CHAIN && chain[i]; i++) {
		const char *name = dladdr((void *)chain[i], &info) ? strrchr(info.dli_fname, '/')
								   : NULL;

		if (name)
			fprintf(out, " %s+%#lx", name + 1, chain[i] - (uintptr_t)info.dli_fbase);
		else
			fprintf(out, " %#lx", chain[i]);
	}
	fputc('\n', out);
}

/* What may be return addresses: the driver has no frame pointers. */
static void tell_stack(FILE *out, const uintptr_t *stack)
{
	uintptr_t found[CHAIN] = { 0 };
	Dl_info info;

	for (int i = 0, n = 0; i < STACK_WORDS && n < CHAIN; i++)
		if (stack[i] > PAGE && dladdr((void *)stack[i], &info) &&
		    strstr(info.dli_fname, "/lib") && !strstr(info.dli_fname, "/libc.so"))
			found[n++] = stack[i];
	tell_chain(out, "stack", found);
}

static void tell(const ucontext_t *context, uintptr_t at, const struct block *block)
{
	const greg_t *registers = context->uc_mcontext.gregs;
	bool writes = registers[REG_ERR] & 2;
	uintptr_t chain[CHAIN];
	char text[8192];
	FILE *out = fmemopen(text, sizeof(text), "w");

	if (!out)
		return;
	fprintf(out, "process %d thread %ld %s byte %ld of %lu, made by %d, %s by %d\n", getpid(),
		syscall(SYS_gettid), writes ? "writes" : "reads", (long)(at - block->address),
		block->bytes, block->made_by, block->freed_by ? "freed" : "not freed",
		block->freed_by);
	chain[0] = (uintptr_t)registers[REG_RIP];
	chain[1] = 0;
	tell_chain(out, "instruction", chain);
	follow(chain, (uintptr_t)registers[REG_RBP], (uintptr_t)registers[REG_RSP]);
	tell_chain(out, "called by", chain);
	tell_stack(out, (const uintptr_t *)registers[REG_RSP]);
	tell_chain(out, "made by", block->made_at);
	tell_chain(out, "freed by", block->freed_at);
	fclose(out);
	if (write(log_fd, text, strlen(text)) < 0)
		_exit(125);
}

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	struct block *block = watched(info->si_addr) ? block_of(info->si_addr) : NULL;

	if (!block) {
		signal(signal_number, SIG_DFL); /* the program's own: it comes again */
		return;
	}
	if (told++ < TOLD_MOST)
		tell(context, at, block);
	mprotect((void *)(at & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

static int find_modules(struct dl_phdr_info *module, size_t size, void *arg)
{
	static const char *const names[] = { "libcupti.so", "libcuda.so" };

	(void)size;
	(void)arg;
	for (int name = 0; name < 2; name++)
		for (int i = 0; strstr(module->dlpi_name, names[name]) && i < module->dlpi_phnum;
		     i++)
			if (module->dlpi_phdr[i].p_flags & PF_X) {
				modules[name].start = module->dlpi_addr +
						      module->dlpi_phdr[i].p_vaddr;
				modules[name].end = modules[name].start +
						    module->dlpi_phdr[i].p_memsz;
			}
	return 0;
}

/* When the libraries are loaded, before CUDA starts. 0, or -1: nothing will be seen. */
int watch_frees(void)
{
	const struct sigaction action = { .sa_sigaction = on_fault,
					  .sa_flags = SA_SIGINFO | SA_NODEFER };
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	const char *path = getenv("WATCH_FREES");
	void *table = mmap(NULL, REGION_BYTES / PAGE * sizeof(*blocks), PROT_READ | PROT_WRITE,
			   flags, -1, 0);
	void *memory = mmap(NULL, REGION_BYTES, PROT_NONE, flags, -1, 0);

	log_fd = path ? open(path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600) : -1;
	if (log_fd < 0 || table == MAP_FAILED || memory == MAP_FAILED ||
	    sigaction(SIGSEGV, &action, NULL) != 0)
		return -1;
	pages_used = 1;
	blocks = table;
	region = memory;
	dl_iterate_phdr(find_modules, NULL);
	return modules[0].start ? 0 : -1;
}
