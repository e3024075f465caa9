/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-calls-osrt.so: calls into the operating system, by the functions of the C library (osrt_table.h). What the C
 * library calls inside itself is not seen, only its caller.
 *
 * Any thread, any moment: before constructors, in signal handlers, under the locks of an allocator.
 */
/* The headers would call open64 what is defined as open. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calls/osrt_table.h"
#include "calls/wrapped.h"

enum {
#define NAME(name) WRAPPED_##name,
#define CALL(type, name, ...) NAME(name)
	OS_CALLS(CALL) OTHER_CALLS(NAME)
#undef CALL
#undef NAME
		N_WRAPPED
};

static struct wrapped wrapped[N_WRAPPED] = {
#define NAME(name) { #name, NULL, CALLS_NO_FUNCTION },
#define CALL(type, name, ...) NAME(name)
	OS_CALLS(CALL) OTHER_CALLS(NAME)
#undef CALL
#undef NAME
};

/* Conditions have two versions; without a name for it, older C libraries find the older one. */
static void *find_next(const char *name)
{
	void *found = NULL;

#if defined(__x86_64__)
	if (!strncmp(name, "pthread_cond_", strlen("pthread_cond_")))
		found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
#endif
	return found ? found : dlsym(RTLD_NEXT, name);
}

static int call_missing(void)
{
	errno = ENOSYS;
	return -1;
}

#define REAL(name) wrapped_real(&wrapped[WRAPPED_##name], find_next)
#define BEGIN() (moescope_gate_open() ? moescope_calls_begin() : 0)
#define END(name, start, bytes, descriptor)                                                        \
	do {                                                                                       \
		if (start)                                                                         \
			moescope_calls_end_os(wrapped[WRAPPED_##name].function, start, bytes,      \
					      descriptor);                                         \
	} while (0)

#define CALL(type, name, parameters, arguments, bytes, descriptor, missing)                        \
	EXPORT type name parameters;                                                               \
	EXPORT type name parameters                                                                \
	{                                                                                          \
		type(*real) parameters = REAL(name);                                               \
		uint64_t start;                                                                    \
		type result;                                                                       \
                                                                                                   \
		if (!real)                                                                         \
			return missing;                                                            \
		start = BEGIN();                                                                   \
		result = real arguments;                                                           \
		END(name, start, bytes, descriptor);                                               \
		return result;                                                                     \
	}
OS_CALLS(CALL)
#undef CALL

/* ---- with an argument that is not always there */

static bool makes_file(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN(name, parameters, arguments)                                                          \
	EXPORT int name parameters                                                                 \
	{                                                                                          \
		int(*real) parameters = REAL(name);                                                \
		uint64_t start;                                                                    \
		mode_t mode = 0;                                                                   \
		int result;                                                                        \
                                                                                                   \
		if (makes_file(flags)) {                                                           \
			va_list list;                                                              \
                                                                                                   \
			va_start(list, flags);                                                     \
			mode = va_arg(list, mode_t);                                               \
			va_end(list);                                                              \
		}                                                                                  \
		if (!real)                                                                         \
			return call_missing();                                                     \
		start = BEGIN();                                                                   \
		result = real arguments;                                                           \
		END(name, start, NOTHING, result);                                                 \
		return result;                                                                     \
	}
OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
OPEN(openat, (int at, const char *path, int flags, ...), (at, path, flags, mode))
OPEN(openat64, (int at, const char *path, int flags, ...), (at, path, flags, mode))

EXPORT int ioctl(int fd, unsigned long request, ...)
{
	int (*real)(int, unsigned long, ...) = REAL(ioctl);
	uint64_t start;
	va_list list;
	void *arg;
	int result;

	va_start(list, request);
	arg = va_arg(list, void *);
	va_end(list);
	if (!real)
		return call_missing();
	start = BEGIN();
	result = real(fd, request, arg);
	END(ioctl, start, NOTHING, fd);
	return result;
}

/* ---- memory: an allocator may be the first to call, before anything can be looked for */

static void *map_now(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): an address, or -1 */
	return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

static bool is_known(int which)
{
	return atomic_load_explicit(&wrapped[which].real, memory_order_relaxed) != NULL;
}

#define MAP(name, offset_type)                                                                     \
	EXPORT void *name(void *at, size_t n, int protection, int flags, int fd,                   \
			  offset_type offset)                                                      \
	{                                                                                          \
		void *(*real)(void *, size_t, int, int, int, offset_type) = map_now;               \
		uint64_t start;                                                                    \
		void *result;                                                                      \
                                                                                                   \
		if (is_known(WRAPPED_##name))                                                      \
			real = REAL(name);                                                         \
		start = BEGIN();                                                                   \
		result = real(at, n, protection, flags, fd, offset);                               \
		END(name, start, NOTHING, NO_FD);                                                  \
		return result;                                                                     \
	}
MAP(mmap, off_t)
MAP(mmap64, off64_t)

EXPORT int munmap(void *at, size_t n)
{
	int (*real)(void *, size_t) = is_known(WRAPPED_munmap) ? REAL(munmap) : NULL;
	uint64_t start = BEGIN();
	int result = real ? real(at, n) : (int)syscall(SYS_munmap, at, n);

	END(munmap, start, NOTHING, NO_FD);
	return result;
}

/* ---- locks */

/* A free lock is taken without a look at the clock: it costs little, and programs take millions. */
EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	int (*real)(pthread_mutex_t *) = REAL(pthread_mutex_lock);
	int (*try_real)(pthread_mutex_t *) = REAL(pthread_mutex_trylock);
	uint64_t start;
	int result;

	if (!real)
		return ENOSYS;
	if (!moescope_gate_open() || !try_real)
		return real(mutex);
	result = try_real(mutex);
	if (result != EBUSY) {
		moescope_calls_count(wrapped[WRAPPED_pthread_mutex_lock].function);
		return result;
	}
	start = BEGIN();
	result = real(mutex);
	END(pthread_mutex_lock, start, NOTHING, NO_FD);
	return result;
}

/* ---- threads */

/* What a new thread is to do, until it has begun. More than these at once start without us. */
#define STARTS 64
static struct start {
	_Atomic bool taken;
	void *(*function)(void *);
	void *arg;
} starts[STARTS];

static struct start *take_start(void)
{
	for (int i = 0; i < STARTS; i++)
		if (!atomic_exchange_explicit(&starts[i].taken, true, memory_order_acquire))
			return &starts[i];
	return NULL;
}

static void give_start(struct start *start)
{
	atomic_store_explicit(&start->taken, false, memory_order_release);
}

/* Here a thread may allocate: its own functions may be called where it may not. */
static void *begin_thread(void *given)
{
	struct start *start = given;
	void *(*function)(void *) = start->function;
	void *arg = start->arg;

	give_start(start);
	moescope_calls_thread();
	return function(arg);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*function)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		    void *) = REAL(pthread_create);
	struct start *begins;
	uint64_t start;
	int result;

	if (!real)
		return ENOSYS;
	begins = moescope_calls_on() ? take_start() : NULL;
	if (begins) {
		begins->function = function;
		begins->arg = arg;
	}
	start = BEGIN();
	result = real(thread, attributes, begins ? begin_thread : function, begins ? begins : arg);
	END(pthread_create, start, NOTHING, NO_FD);
	if (begins && result)
		give_start(begins);
	return result;
}

/* ---- what would make looking at the clock or at a descriptor the end of the program, and names */

EXPORT int prctl(int option, ...)
{
	int (*real)(int, ...) = REAL(prctl);
	unsigned long args[4];
	va_list list;
	int result;

	va_start(list, option);
	for (int i = 0; i < 4; i++)
		args[i] = va_arg(list, unsigned long);
	va_end(list);
	if (!real)
		return call_missing();
	if (option == PR_SET_SECCOMP || option == PR_SET_TSC)
		moescope_calls_leave();
	result = real(option, args[0], args[1], args[2], args[3]);
	if (option == PR_SET_NAME && result == 0)
		moescope_calls_renamed();
	return result;
}

/* A thread has its ring before it has its name. */
EXPORT int pthread_setname_np(pthread_t thread, const char *name)
{
	int (*real)(pthread_t, const char *) = REAL(pthread_setname_np);
	int result = real ? real(thread, name) : ENOSYS;

	if (result == 0 && pthread_equal(thread, pthread_self()))
		moescope_calls_renamed();
	return result;
}

/* "__pread64_chk" is the program's "pread". */
static void plain_name(const char *name, char *out, size_t size)
{
	static const char *const ends[] = { "_chk", "_2", "64" };
	size_t skip = strncmp(name, "__", 2) ? 0 : 2;
	size_t length = strlen(name + skip);

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		size_t end = strlen(ends[i]);

		if (length > end && !memcmp(name + skip + length - end, ends[i], end))
			length -= end;
	}
	snprintf(out, size, "%.*s", (int)length, name + skip);
}

__attribute__((constructor)) static void find_all(void)
{
	char name[64];

	for (size_t i = 0; i < N_WRAPPED; i++) {
		wrapped_real(&wrapped[i], find_next);
		plain_name(wrapped[i].name, name, sizeof(name));
		wrapped[i].function = moescope_calls_function(NULL, name);
	}
	moescope_calls_thread();
}
