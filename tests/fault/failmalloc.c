/* SPDX-License-Identifier: Apache-2.0
 *
 * LD_PRELOAD library: fails allocations that libmoescope.so asks for, and nobody else's.
 *
 *   FAIL_AT=n     the n-th call (from 1) fails
 *   FAIL_FROM=n   the n-th and every later one fail
 *   FAIL_COUNT=f  at exit, write into the file f how many calls there were and how many failed
 *
 * Counted are malloc, calloc, realloc, reallocarray, posix_memalign, strdup, strndup, asprintf
 * and mmap, by the return address of the call.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

static void *(*real_malloc)(size_t);
static void (*real_free)(void *);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void *(*real_reallocarray)(void *, size_t, size_t);
static int (*real_posix_memalign)(void **, size_t, size_t);
static char *(*real_strdup)(const char *);
static char *(*real_strndup)(const char *, size_t);
static int (*real_vasprintf)(char **, const char *, va_list);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);

static _Atomic unsigned long calls, failed;
static unsigned long fail_at, fail_from;
static _Atomic int ready;

/* dlsym may itself allocate before the real functions are known. */
static char early[65536];
static size_t early_used;

static void *early_alloc(size_t size)
{
	void *at = early + early_used;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(early) - early_used)
		return NULL;
	early_used += size;
	return at;
}

static int is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof(early);
}

static void find(void *to, const char *name)
{
	void *symbol = dlsym(RTLD_NEXT, name);

	memcpy(to, &symbol, sizeof(symbol));
}

static void find_all(void)
{
	static _Atomic int finding;

	if (atomic_exchange(&finding, 1))
		return;
	find(&real_free, "free");
	find(&real_calloc, "calloc");
	find(&real_realloc, "realloc");
	find(&real_reallocarray, "reallocarray");
	find(&real_posix_memalign, "posix_memalign");
	find(&real_strdup, "strdup");
	find(&real_strndup, "strndup");
	find(&real_vasprintf, "vasprintf");
	find(&real_mmap, "mmap");
	find(&real_malloc, "malloc");
	fail_at = getenv("FAIL_AT") ? strtoul(getenv("FAIL_AT"), NULL, 10) : 0;
	fail_from = getenv("FAIL_FROM") ? strtoul(getenv("FAIL_FROM"), NULL, 10) : 0;
	atomic_store(&ready, 1);
}

static int from_library(const void *address)
{
	Dl_info info;

	return dladdr(address, &info) && info.dli_fname &&
	       strstr(info.dli_fname, "libmoescope.so") != NULL;
}

/* Whether this call, made from `address`, is to fail. */
static int fails(const void *address)
{
	static __thread int inside; /* dladdr may allocate */
	unsigned long n;
	int mine;

	if (!atomic_load(&ready))
		find_all();
	if (inside || !(fail_at || fail_from || getenv("FAIL_COUNT")))
		return 0;
	inside = 1;
	mine = from_library(address);
	inside = 0;
	if (!mine)
		return 0;
	n = atomic_fetch_add(&calls, 1) + 1;
	if ((fail_at && n == fail_at) || (fail_from && n >= fail_from)) {
		atomic_fetch_add(&failed, 1);
		errno = ENOMEM;
		return 1;
	}
	return 0;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

void *malloc(size_t size)
{
	if (fails(CALLER))
		return NULL;
	return real_malloc ? real_malloc(size) : early_alloc(size);
}

void free(void *p)
{
	if (!is_early(p) && real_free)
		real_free(p);
}

void *calloc(size_t n, size_t size)
{
	if (fails(CALLER))
		return NULL;
	return real_calloc ? real_calloc(n, size) : early_alloc(n * size);
}

void *realloc(void *old, size_t size)
{
	if (fails(CALLER))
		return NULL;
	if (is_early(old) || !real_realloc) {
		void *fresh = malloc(size);

		if (fresh && old)
			memcpy(fresh, old, size);
		return fresh;
	}
	return real_realloc(old, size);
}

void *reallocarray(void *old, size_t n, size_t size)
{
	return fails(CALLER) ? NULL : real_reallocarray(old, n, size);
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
	return fails(CALLER) ? ENOMEM : real_posix_memalign(to, alignment, size);
}

char *strdup(const char *text)
{
	return fails(CALLER) ? NULL : real_strdup(text);
}

char *strndup(const char *text, size_t n)
{
	return fails(CALLER) ? NULL : real_strndup(text, n);
}

int asprintf(char **to, const char *format, ...)
{
	va_list args;
	int n;

	if (fails(CALLER))
		return -1;
	va_start(args, format);
	n = real_vasprintf(to, format, args);
	va_end(args);
	return n;
}

/* What a fortified build calls. */
int __asprintf_chk(char **to, int flag, const char *format, ...);
int __asprintf_chk(char **to, int flag, const char *format, ...)
{
	va_list args;
	int n;

	(void)flag;
	if (fails(CALLER))
		return -1;
	va_start(args, format);
	n = real_vasprintf(to, format, args);
	va_end(args);
	return n;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	if (fails(CALLER))
		return MAP_FAILED;
	if (!real_mmap)
		find(&real_mmap, "mmap");
	return real_mmap(at, size, protection, flags, fd, offset);
}

__attribute__((destructor)) static void tell(void)
{
	const char *path = getenv("FAIL_COUNT");
	FILE *f = path ? fopen(path, "w") : NULL;

	if (f) {
		fprintf(f, "%lu %lu\n", atomic_load(&calls), atomic_load(&failed));
		fclose(f);
	}
}
