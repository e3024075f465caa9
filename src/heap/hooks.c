/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-heap.so: the functions that the program's allocations go through when `moescope run --heap` has loaded it in
 * front of all others. Each calls the next one of its name, whosever that is, and counts bytes; the thread that comes
 * to its next sample writes it to the log. Any thread, at any time, also before main and in signal handlers.
 *
 * The program comes first: no result, no errno and no order of its calls changes. What is sampled and how often a
 * program allocates is nothing that it can see.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "heap/frames.h"
#include "heap/gap.h"
#include "heap/log.h"
#include "heap/sampled.h"

#define EXPORTED __attribute__((visibility("default")))
#define RARELY(condition) __builtin_expect(!!(condition), 0)
#define NEVER INT64_MAX / 2 /* bytes to the next sample */

enum { NOT_YET, ON, OFF };
static _Atomic int state = NOT_YET;
static _Atomic uint64_t samples;
static struct sampled sampled;
static pid_t owner;

/* Of each thread. Small: it is in the space that every thread has from its beginning. */
static __thread struct {
	int64_t left; /* bytes to the next sample */
	uint64_t seed, distance;
	uint32_t id;
	bool inside; /* of a sample: a signal handler that allocates meanwhile is not sampled */
} self __attribute__((tls_model("initial-exec")));

/* ---- the functions behind ours */

/* dlsym itself may allocate. That comes from here and is never given back. */
static char early[16384] __attribute__((aligned(16)));
static size_t early_used;

static bool is_early(const void *p)
{
	return (uintptr_t)p - (uintptr_t)early < sizeof(early);
}

static void *early_memory(size_t size)
{
	char *p = early + early_used;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(early) - early_used) {
		errno = ENOMEM;
		return NULL;
	}
	early_used += size;
	return p;
}

static void *first_malloc(size_t size);
static void *first_calloc(size_t n, size_t size);
static void *first_realloc(void *p, size_t size);
static void first_free(void *p);
static int first_posix_memalign(void **p, size_t alignment, size_t size);
static void *first_aligned_alloc(size_t alignment, size_t size);
static void *first_memalign(size_t alignment, size_t size);
static void *first_valloc(size_t size);
static void *first_pvalloc(size_t size);
static void *first_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset);
static int first_munmap(void *p, size_t size);

static struct {
	void *(*malloc)(size_t);
	void *(*calloc)(size_t, size_t);
	void *(*realloc)(void *, size_t);
	void (*free)(void *);
	int (*posix_memalign)(void **, size_t, size_t);
	void *(*aligned_alloc)(size_t, size_t);
	void *(*memalign)(size_t, size_t);
	void *(*valloc)(size_t);
	void *(*pvalloc)(size_t);
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	int (*munmap)(void *, size_t);
} next = { first_malloc,	 first_calloc,	      first_realloc,  first_free,
	   first_posix_memalign, first_aligned_alloc, first_memalign, first_valloc,
	   first_pvalloc,	 first_mmap,	      first_munmap };

/* At the first call, which is the loader's and long before there are threads. */
static bool find_next(void)
{
	static bool finding;

	if (finding)
		return false;
	finding = true;
#define FIND(name)                                                                                 \
	do {                                                                                       \
		void *found = dlsym(RTLD_NEXT, #name);                                             \
		if (found)                                                                         \
			memcpy(&next.name, &found, sizeof(found));                                 \
	} while (0)
	/* malloc last: until then dlsym's own calls come here. */
	FIND(posix_memalign);
	FIND(aligned_alloc);
	FIND(memalign);
	FIND(valloc);
	FIND(pvalloc);
	FIND(mmap);
	FIND(munmap);
	FIND(free);
	FIND(realloc);
	FIND(calloc);
	FIND(malloc);
#undef FIND
	return true;
}

static void *first_malloc(size_t size)
{
	return find_next() && next.malloc != first_malloc ? next.malloc(size) : early_memory(size);
}

static void *first_calloc(size_t n, size_t size)
{
	if (find_next() && next.calloc != first_calloc)
		return next.calloc(n, size);
	/* Fresh memory of a program is 0. */
	return size && n > sizeof(early) / size ? NULL : early_memory(n * size);
}

static void *first_realloc(void *p, size_t size)
{
	if (find_next() && next.realloc != first_realloc)
		return next.realloc(p, size);
	return p ? NULL : early_memory(size);
}

static void first_free(void *p)
{
	if (find_next() && next.free != first_free)
		next.free(p);
}

static int first_posix_memalign(void **p, size_t alignment, size_t size)
{
	return find_next() && next.posix_memalign != first_posix_memalign
		       ? next.posix_memalign(p, alignment, size)
		       : ENOMEM;
}

#define FIRST_OF(name, declared, given)                                                            \
	static void *first_##name declared                                                         \
	{                                                                                          \
		if (find_next() && next.name != first_##name)                                      \
			return next.name given;                                                    \
		errno = ENOMEM;                                                                    \
		return NULL;                                                                       \
	}
FIRST_OF(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
FIRST_OF(memalign, (size_t alignment, size_t size), (alignment, size))
FIRST_OF(valloc, (size_t size), (size))
FIRST_OF(pvalloc, (size_t size), (size))

/* These need nobody. */
static void *first_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	long p = syscall(SYS_mmap, at, size, prot, flags, fd, offset);

	return (void *)p; // NOLINT(performance-no-int-to-ptr)
}

static int first_munmap(void *p, size_t size)
{
	return (int)syscall(SYS_munmap, p, size);
}

/* ---- samples */

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The log is shared with a forked child, and belongs to its parent. */
static bool is_on(void)
{
	if (state != ON)
		return false;
	if (getpid() != owner) {
		atomic_fetch_add_explicit(&heap_log->children, 1, memory_order_relaxed);
		state = OFF;
	} else if (atomic_load_explicit(&heap_log->closed, memory_order_relaxed)) {
		state = OFF;
	}
	return state == ON;
}

static void next_gap(void)
{
	uint64_t distance = atomic_load_explicit(&heap_log->distance, memory_order_relaxed);

	/* Whatever somebody has written there, the program goes on as fast. */
	self.distance = distance && distance <= HEAP_DISTANCE_MOST ? distance : HEAP_DISTANCE_MOST;
	self.left = gap_draw(&self.seed, self.distance);
}

static void note_freed(uint64_t sample)
{
	struct heap_event event = {
		.kind = HEAP_FREED, .time_ns = now_ns(), .sample = sample, .thread = self.id
	};

	log_event(&event);
}

static void note_taken(void *p, size_t size, const void *frame)
{
	struct heap_event event = { .kind = HEAP_TAKEN,
				    .time_ns = now_ns(),
				    .sample = ++samples,
				    .size = size,
				    .distance = self.distance,
				    .thread = self.id,
				    .node = frames_node(frame) };
	uint64_t before;

	if (!sampled_put(&sampled, p, event.sample, &before)) {
		atomic_fetch_add_explicit(&heap_log->dropped, 1, memory_order_relaxed);
		return;
	}
	if (before)
		note_freed(before);
	if (!log_event(&event))
		sampled_take(&sampled, p);
}

/* A thread has come to its next sample, or has just begun. */
static __attribute__((noinline, cold)) void came_to_sample(void *p, size_t size, const void *frame)
{
	int error = errno;

	if (state == NOT_YET || self.inside) {
		self.left = 0;
	} else if (!is_on()) {
		self.left = NEVER;
	} else {
		self.inside = true;
		if (!self.seed) {
			int64_t behind = self.left;

			self.id = (uint32_t)syscall(SYS_gettid);
			self.seed = (uint64_t)now_ns() ^ (uint64_t)self.id << 40 ^ (uintptr_t)&self;
			next_gap();
			self.left += behind;
		}
		if (self.left < 0) {
			note_taken(p, size, frame);
			next_gap();
		}
		self.inside = false;
	}
	errno = error;
}

static __attribute__((noinline, cold)) uint64_t take_out(void *p)
{
	return state == ON ? sampled_take(&sampled, p) : 0;
}

static __attribute__((noinline, cold)) void was_freed(uint64_t sample)
{
	int error = errno;

	if (is_on())
		note_freed(sample);
	errno = error;
}

/* ---- what the program calls */

#define COUNT(p, size)                                                                             \
	do {                                                                                       \
		if ((p) && RARELY((self.left -= (int64_t)(size)) < 0))                             \
			came_to_sample(p, size, __builtin_frame_address(0));                       \
	} while (0)

/* Before the memory is given back: afterwards its address may be another thread's. */
#define FORGET(p)                                                                                  \
	do {                                                                                       \
		uint64_t sample;                                                                   \
		if (RARELY(sampled_maybe(&sampled, p)) && (sample = take_out(p)))                  \
			was_freed(sample);                                                         \
	} while (0)

EXPORTED void *malloc(size_t size)
{
	void *p = next.malloc(size);

	COUNT(p, size);
	return p;
}

EXPORTED void *calloc(size_t nmemb, size_t size)
{
	void *p = next.calloc(nmemb, size);

	COUNT(p, nmemb * size);
	return p;
}

EXPORTED void free(void *ptr)
{
	FORGET(ptr);
	if (RARELY(is_early(ptr)))
		return;
	next.free(ptr);
}

static void *early_realloc(void *p, size_t size)
{
	size_t left = (size_t)(early + sizeof(early) - (char *)p);
	void *more = next.malloc(size);

	if (more)
		memcpy(more, p, left < size ? left : size);
	return more;
}

static inline __attribute__((always_inline)) void *resized(void *p, size_t size)
{
	uint64_t sample = 0, before;
	void *more;

	if (RARELY(is_early(p)))
		return early_realloc(p, size);
	if (RARELY(sampled_maybe(&sampled, p)))
		sample = take_out(p);
	more = next.realloc(p, size);
	if (RARELY(sample)) {
		if (more || !size)
			was_freed(sample);
		else /* it is where it was */
			sampled_put(&sampled, p, sample, &before);
	}
	COUNT(more, size);
	return more;
}

EXPORTED void *realloc(void *ptr, size_t size)
{
	return resized(ptr, size);
}

EXPORTED void *reallocarray(void *ptr, size_t nmemb, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(nmemb, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return resized(ptr, bytes);
}

EXPORTED int posix_memalign(void **memptr, size_t alignment, size_t size)
{
	int r = next.posix_memalign(memptr, alignment, size);

	if (r == 0)
		COUNT(*memptr, size);
	return r;
}

EXPORTED void *aligned_alloc(size_t alignment, size_t size)
{
	void *p = next.aligned_alloc(alignment, size);

	COUNT(p, size);
	return p;
}

EXPORTED void *memalign(size_t alignment, size_t size)
{
	void *p = next.memalign(alignment, size);

	COUNT(p, size);
	return p;
}

EXPORTED void *valloc(size_t size)
{
	void *p = next.valloc(size);

	COUNT(p, size);
	return p;
}

EXPORTED void *pvalloc(size_t size)
{
	void *p = next.pvalloc(size);

	COUNT(p, size);
	return p;
}

/* ---- memory without an allocator */

/* Python's own allocator of small objects, and others like it, take their blocks so. Not what an allocator behind ours
 * takes: the C library does not come here, and whoever replaces it may. */
static bool counts_maps;

static bool is_private_memory(int prot, int flags)
{
	return counts_maps && (prot & PROT_WRITE) && (flags & MAP_ANONYMOUS) &&
	       (flags & MAP_PRIVATE) && !(flags & (MAP_FIXED | MAP_NORESERVE | MAP_STACK));
}

/* The headers have one name stand for the other. */
void *hooked_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset) __asm__("mmap");

EXPORTED void *hooked_mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *p = next.mmap(at, size, prot, flags, fd, offset);

	if (p != MAP_FAILED && is_private_memory(prot, flags))
		COUNT(p, size);
	return p;
}

EXPORTED __typeof(hooked_mmap) hooked_mmap64 __asm__("mmap64") __attribute__((alias("mmap")));

/* Of a part of it the rest lives on, and so does the sample, unless it is the beginning that goes. */
EXPORTED int munmap(void *addr, size_t len)
{
	uint64_t sample = 0, before;
	int r;

	if (RARELY(sampled_maybe(&sampled, addr)))
		sample = take_out(addr);
	r = next.munmap(addr, len);
	if (RARELY(sample)) {
		if (r == 0)
			was_freed(sample);
		else
			sampled_put(&sampled, addr, sample, &before);
	}
	return r;
}

/* ---- begin and end */

/* A program whose own file has an allocator never comes here. Addresses do not tell: that of malloc may be a place in the
 * program's file that leads here. */
static bool is_called(void)
{
	void *(*take)(size_t);
	void (*give)(void *);
	bool called;

	*(void **)&take = dlsym(RTLD_DEFAULT, "malloc");
	*(void **)&give = dlsym(RTLD_DEFAULT, "free");
	if (!take || !give)
		return false;
	self.left = 2;
	give(take(1));
	called = self.left == 1;
	self.left = 0;
	return called;
}

/* Whether the allocator behind ours is the C library's. */
static bool is_library_next(void)
{
	const void *library = dlsym(RTLD_NEXT, "gnu_get_libc_version");
	Dl_info allocator, here;

	return library && dladdr((void *)next.malloc, &allocator) && dladdr(library, &here) &&
	       allocator.dli_fbase == here.dli_fbase;
}

static __attribute__((constructor)) void begin(void)
{
	const char *run = getenv("MOESCOPE_RUN"), *bytes = getenv("MOESCOPE_HEAP");
	uint64_t distance = bytes ? strtoull(bytes, NULL, 10) : 0;
	int error = errno;

	find_next();
	owner = getpid();
	self.inside = true;
	if (run && distance && is_called() && log_open(run, distance)) {
		frames_prepare();
		counts_maps = is_library_next();
		state = ON;
	} else {
		state = OFF;
	}
	self.inside = false;
	errno = error;
}

/* Libraries that have come since; a program that does not get here is read by moescope while it runs. */
static __attribute__((destructor)) void end(void)
{
	if (is_on())
		log_modules();
}
