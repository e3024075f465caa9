/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs that allocate, for test_heap.py: with known sites and sums, and in the ways in which an allocator is
 * hardest to stand in for. usage: heap-program MODE [NUMBER]. What they print does not depend on addresses.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A function of its own, by its name. */
#ifdef __clang__
#define SITE __attribute__((noinline)) static
#else
#define SITE __attribute__((noipa)) static
#endif
#define ROUNDS 1000

static uint64_t sum;

/* So that nothing is left out, and nothing is the last call of its function. */
static void *use(void *p)
{
	__asm__ volatile("" : "+r"(p) : : "memory");
	if (p)
		sum++;
	return p;
}

SITE void *site_small(void)
{
	return use(malloc(64));
}

SITE void *site_medium(void)
{
	return use(calloc(10, 1000));
}

SITE void *site_large(void)
{
	void *p = NULL;

	return use(posix_memalign(&p, 64, 1 << 20) == 0 ? p : NULL);
}

SITE void *site_grown(void)
{
	return use(realloc(use(malloc(1000)), 30000));
}

SITE void *site_aligned(void)
{
	return use(aligned_alloc(4096, 8192));
}

/* What it allocated, and what of that it keeps: every second one. */
static int truth(int rounds)
{
	static const struct {
		const char *name;
		void *(*take)(void);
		uint64_t bytes, times;
	} sites[] = { { "site_small", site_small, 64, 1000 },
		      { "site_medium", site_medium, 10000, 10 },
		      { "site_large", site_large, 1 << 20, 1 },
		      { "site_grown", site_grown, 31000, 4 },
		      { "site_aligned", site_aligned, 8192, 5 } };

	for (int round = 0; round < rounds; round++, usleep(2000))
		for (size_t s = 0; s < 5; s++)
			for (uint64_t i = 0; i < sites[s].times; i++) {
				void *p = sites[s].take();

				if ((i + (uint64_t)round) % 2)
					free(p);
			}
	for (size_t s = 0; s < 5; s++)
		printf("%s %" PRIu64 "\n", sites[s].name,
		       (uint64_t)rounds * sites[s].times * sites[s].bytes);
	return 0;
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

SITE void *forgotten(void)
{
	return use(malloc(100000));
}

SITE void *cached(int i)
{
	static void *cache[64];

	free(cache[i % 64]);
	cache[i % 64] = use(malloc(300000));
	return cache[i % 64];
}

SITE void start_up(void)
{
	for (int i = 0; i < 200; i++)
		use(malloc(200000));
}

/* One leak among a cache, start-up and memory that is freed at once. */
static int leak(int tenths)
{
	double begin = now_s();
	int i = 0;

	start_up();
	for (; now_s() < begin + tenths / 10.0; i++) {
		forgotten();
		cached(i);
		free(use(malloc(150000)));
		usleep(3000);
	}
	puts("done");
	return 0;
}

/* ---- threads: what one allocates another frees */

static void *_Atomic shelf[4096];

static void *shelve(void *arg)
{
	uint32_t seed = *(const uint32_t *)arg * 2654435761u + 1;

	for (int i = 0; i < 20000; i++) {
		seed = seed * 1664525u + 1013904223u;
		size_t size = 16 + (seed >> 8) % (i % 50 ? 2000 : 300000);
		unsigned char *p = malloc(size);

		p[0] = p[size - 1] = (unsigned char)size;
		free(atomic_exchange(&shelf[seed >> 20], p));
	}
	return NULL;
}

static int threads(int n)
{
	pthread_t ids[256];
	uint32_t numbers[256];
	pthread_attr_t attr;
	int started = 0;

	/* As small as a thread may be with room for malloc itself. */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 32768);
	for (; started < n; started++) {
		numbers[started] = (uint32_t)started + 1;
		if (pthread_create(&ids[started], &attr, shelve, &numbers[started]) != 0)
			break;
	}
	for (int i = 0; i < started; i++)
		pthread_join(ids[i], NULL);
	for (int i = 0; i < 4096; i++)
		free(shelf[i]);
	printf("%d threads\n", started);
	return 0;
}

/* ---- signals: a handler that maps memory, at any moment, on a small stack of its own */

static volatile sig_atomic_t handled;

static void handler(int number)
{
	int before = errno;
	void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)number;
	if (p != MAP_FAILED)
		munmap(p, 1 << 20);
	errno = before;
	handled++;
}

static int signals(void)
{
	static char small[8192];
	stack_t stack = { .ss_sp = small, .ss_size = sizeof(small) };
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	struct itimerval often = { { 0, 200 }, { 0, 200 } }, never = { 0 };

	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < 2000)
		for (int i = 0; i < 1000; i++) {
			errno = 1234;
			free(use(malloc(400000)));
			if (errno != 1234) {
				printf("errno became %d\n", errno);
				return 1;
			}
		}
	setitimer(ITIMER_REAL, &never, NULL);
	puts("handled");
	return 0;
}

/* ---- children */

SITE pid_t start_program(char **argv)
{
	char *words[] = { argv[0], "truth", "20", NULL };
	pid_t child = vfork();

	if (child == 0) {
		execv("/proc/self/exe", words);
		_exit(126);
	}
	return child;
}

SITE pid_t start_child(int status)
{
	pid_t child = fork();

	for (int k = 0; child == 0 && k < 1000; k++)
		free(use(malloc(100000)));
	if (child == 0)
		_exit(status);
	return child;
}

static int children(char **argv)
{
	int status, bad = 0;

	for (int i = 0; i < 8; i++) {
		pid_t child;

		fflush(stdout);
		child = i % 2 ? start_child(i) : start_program(argv);
		for (int k = 0; k < 1000; k++)
			free(use(malloc(100000)));
		waitpid(child, &status, 0);
		bad += !WIFEXITED(status) || WEXITSTATUS(status) != (i % 2 ? i : 0);
	}
	printf("%d bad\n", bad);
	return bad;
}

/* ---- what a program sees of itself */

static int facts(void)
{
	volatile size_t huge = SIZE_MAX / 2;
	void *p = malloc(huge);

	printf("%d", p == NULL && errno == ENOMEM);
	errno = 0;
	printf(" %d", reallocarray(NULL, huge, 3) == NULL && errno == ENOMEM);
	printf(" %d", posix_memalign(&p, 3, 100) == EINVAL);
	p = realloc(NULL, 100);
	printf(" %d", p && malloc_usable_size(p) >= 100);
	p = realloc(p, 1000000);
	printf(" %d", malloc_usable_size(p) >= 1000000);
	free(p);
	p = valloc(5000);
	printf(" %d", p && (uintptr_t)p % (uintptr_t)getpagesize() == 0);
	free(p);
	p = memalign(256, 700000);
	printf(" %d", p && (uintptr_t)p % 256 == 0);
	free(p);
	free(NULL);
	p = calloc(1000, 1000);
	printf(" %d", p && ((char *)p)[999999] == 0);
	free(p);
	/* The lowest number is the next to be given. */
	printf(" fd %d\n", dup(1));
	return 7;
}

static int killed(void)
{
	for (int i = 0; i < 200; i++)
		forgotten();
	puts("now");
	fflush(stdout);
	kill(getpid(), SIGKILL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int number = argc > 2 ? atoi(argv[2]) : 0;

	if (!strcmp(mode, "truth"))
		return truth(number ? number : ROUNDS);
	if (!strcmp(mode, "leak"))
		return leak(number ? number : 30);
	if (!strcmp(mode, "threads"))
		return threads(number ? number : 200);
	if (!strcmp(mode, "signals"))
		return signals();
	if (!strcmp(mode, "children"))
		return children(argv);
	if (!strcmp(mode, "facts"))
		return facts();
	if (!strcmp(mode, "killed"))
		return killed();
	if (!strcmp(mode, "exit")) {
		for (int i = 0; i < 200; i++)
			forgotten();
		_exit(5);
	}
	fputs("usage: heap-program MODE [NUMBER]\n", stderr);
	return 2;
}
