/* SPDX-License-Identifier: Apache-2.0
 *
 * Native stacks of a forked child that spins in known functions, and names for addresses against what the
 * loader says. Rings that no kernel would write are made by hand, so the source itself is included.
 */
#include "host/stacks/native.c" /* NOLINT(bugprone-suspicious-include) */

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/read_at.h"
#include "host/stacks/symbols.h"

#define PATIENCE_NS (60 * INT64_C(1000000000))
#define NOINLINE __attribute__((noinline))

/* What the child runs. Nothing is in a tail position, so that every caller keeps its frame. */

static volatile uint64_t sink;
static volatile bool stop; /* never; a function that cannot return needs no frame of its caller */

static NOINLINE void inner(void)
{
	while (!stop)
		sink++;
}

static NOINLINE void middle(void)
{
	inner();
	sink++;
}

static NOINLINE void *outer(void *arg)
{
	middle();
	sink++;
	return arg;
}

static NOINLINE void heavy(void)
{
	for (int i = 0; i < 300000; i++)
		sink++;
}

static NOINLINE void light(void)
{
	for (int i = 0; i < 100000; i++)
		sink++;
}

static void mangled(void) __asm__("_ZN5space4spinEi");
static NOINLINE void mangled(void)
{
	sink++;
}

static int to_child[2], to_parent[2];

static void tell(const int *pipe, pid_t word)
{
	if (write(pipe[1], &word, sizeof(word)) != sizeof(word))
		_exit(1);
}

static pid_t hear(const int *pipe)
{
	pid_t word = 0;

	return read(pipe[0], &word, sizeof(word)) == sizeof(word) ? word : -1;
}

static void start(void *(*routine)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, routine, arg) != 0)
		_exit(1);
}

static pid_t child_of(void (*scenario)(void))
{
	pid_t pid;

	fflush(NULL);
	assert_int_equal(pipe(to_child), 0);
	assert_int_equal(pipe(to_parent), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		scenario();
		_exit(0);
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 2; i++) {
		close(to_child[i]);
		close(to_parent[i]);
	}
}

static struct native *open_or_skip(pid_t pid, unsigned int hz)
{
	struct native *n = NULL;
	char why[512] = "";
	int r = native_open(&n, pid, hz, why, sizeof(why));

	if (r < 0) {
		printf("skipped: %s\n", why);
		end_child(pid);
		assert_true(r == -EACCES || r == -EPERM || r == -ENOSYS || r == -ENOENT);
		skip();
	}
	assert_string_equal(why, "");
	return n;
}

static bool is(struct symbols *symbols, uint64_t ip, const char *name)
{
	const char *text = symbols_name(symbols, ip);

	return !strncmp(text, name, strlen(name)) && !strncmp(text + strlen(name), " (", 2);
}

struct seen {
	struct symbols *symbols;
	pid_t pid, wanted; /* wanted: count samples of this process only; 0: of all */
	size_t n, in_order, in_heavy, in_light, wrong_time;
	size_t in_main, in_others; /* by thread */
};

static void see(void *arg, const struct native_sample *sample)
{
	static const char *const names[] = { "inner", "middle", "outer" };
	struct seen *seen = arg;
	size_t at = 0;

	if (seen->wanted && sample->pid != (uint32_t)seen->wanted)
		return;
	if (sample->moment != NATIVE_RUNS)
		return;
	seen->n++;
	seen->wrong_time += sample->time_ns > clock_monotonic_ns();
	if (sample->thread == (uint32_t)seen->pid)
		seen->in_main++;
	else
		seen->in_others++;
	for (size_t i = 0; i < sample->n && at < 3; i++) {
		if (is(seen->symbols, sample->ips[i] - (i > 0), names[at]))
			at++;
		else if (at)
			break;
	}
	seen->in_order += at == 3;
	seen->in_heavy += sample->n && is(seen->symbols, sample->ips[0], "heavy");
	seen->in_light += sample->n && is(seen->symbols, sample->ips[0], "light");
}

/* Drains until a count has come. */
static void await(struct native *n, struct seen *seen, const size_t *count, size_t least)
{
	int64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;

	while (*count < least) {
		native_drain(n, see, seen);
		assert_true(clock_monotonic_ns() < deadline_ns);
		sched_yield();
	}
}

static void two_threads(void)
{
	start(outer, NULL);
	tell(to_parent, 1);
	outer(NULL);
}

static void chains(void **state)
{
	pid_t pid = child_of(two_threads);
	struct seen seen = { .pid = pid };
	struct native *n;

	(void)state;
	assert_int_equal(hear(to_parent), 1);
	n = open_or_skip(pid, 1000);
	seen.symbols = symbols_open(pid);
	await(n, &seen, &seen.in_main, 200);
	await(n, &seen, &seen.in_others, 200);
	printf("chains: %zu of %zu whole, %zu + %zu by thread, %" PRIu64 " lost\n", seen.in_order,
	       seen.n, seen.in_main, seen.in_others, native_lost(n));
	/* In its first instructions a function has no frame yet, and its caller is left out. */
	assert_true(seen.in_order * 10 >= seen.n * 9);
	assert_int_equal(seen.wrong_time, 0);
	native_close(n);
	symbols_close(seen.symbols);
	end_child(pid);
}

static NOINLINE void read_and_return(void)
{
	hear(to_child);
	sink++;
}

static void wait_when_told(void)
{
	for (;;)
		read_and_return();
}

struct left {
	struct symbols *symbols;
	size_t here, elsewhere;
};

static void see_left(void *arg, const struct native_sample *sample)
{
	struct left *left = arg;
	bool here = false;

	if (sample->moment == NATIVE_RUNS)
		return;
	for (size_t i = 0; i < sample->n; i++)
		here |= is(left->symbols, sample->ips[i] - (i > 0), "read_and_return");
	*(here ? &left->here : &left->elsewhere) += 1;
}

/* A thread that waits has the stack that it began to wait with. */
static void leaving(void **state)
{
	int64_t deadline_ns = clock_monotonic_ns() + PATIENCE_NS;
	pid_t pid = child_of(wait_when_told);
	struct native *n = open_or_skip(pid, 100);
	struct left left = { .symbols = symbols_open(pid) };

	(void)state;
	while (native_has_leaves(n) && left.here < 20) {
		tell(to_child, 1);
		native_drain(n, see_left, &left);
		assert_true(clock_monotonic_ns() < deadline_ns);
		sched_yield();
	}
	printf("leaving: %zu as they began to wait, %zu elsewhere\n", left.here, left.elsewhere);
	symbols_close(left.symbols);
	end_child(pid);
	native_close(n);
	if (!left.here) {
		printf("skipped: this user gets no stacks of threads that leave their CPU\n");
		skip();
	}
}

static void three_to_one(void)
{
	for (;;) {
		heavy();
		light();
	}
}

static void shares(void **state)
{
	pid_t pid = child_of(three_to_one);
	struct seen seen = { .pid = pid };
	struct native *n = open_or_skip(pid, 2000);
	double pct;

	(void)state;
	seen.symbols = symbols_open(pid);
	await(n, &seen, &seen.n, 2000);
	pct = 100.0 * (double)seen.in_heavy / (double)(seen.in_heavy + seen.in_light);
	printf("shares: heavy %.1f%% of %zu samples, %zu in neither\n", pct, seen.n,
	       seen.n - seen.in_heavy - seen.in_light);
	assert_true(pct > 65 && pct < 85);
	assert_true((seen.in_heavy + seen.in_light) * 10 >= seen.n * 9);
	native_close(n);
	symbols_close(seen.symbols);
	end_child(pid);
}

static void thread_when_told(void)
{
	hear(to_child);
	start(outer, NULL);
	hear(to_child); /* for ever */
}

static void later_thread(void **state)
{
	pid_t pid = child_of(thread_when_told);
	struct seen seen = { .pid = pid };
	struct native *n = open_or_skip(pid, 1000);

	(void)state;
	seen.symbols = symbols_open(pid);
	tell(to_child, 1);
	await(n, &seen, &seen.in_others, 50);
	assert_true(seen.in_order > 0);
	native_close(n);
	symbols_close(seen.symbols);
	end_child(pid);
}

static void child_when_told(void)
{
	pid_t pid;

	hear(to_child);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		outer(NULL);
	}
	tell(to_parent, pid);
	hear(to_child);
}

static void grandchild(void **state)
{
	pid_t pid = child_of(child_when_told);
	struct seen seen = { .pid = pid };
	struct native *n = open_or_skip(pid, 1000);

	(void)state;
	tell(to_child, 1);
	seen.wanted = hear(to_parent);
	assert_true(seen.wanted > 0 && seen.wanted != pid);
	seen.symbols = symbols_open(seen.wanted);
	await(n, &seen, &seen.in_order, 50);
	native_close(n);
	symbols_close(seen.symbols);
	end_child(pid);
}

static void exec_when_told(void)
{
	hear(to_child);
	execl("/proc/self/exe", "test_host_native", "spin", NULL);
}

/* As `moescope run` does it: all is opened before there is a program. */
static void before_exec(void **state)
{
	pid_t pid = child_of(exec_when_told);
	struct seen seen = { .pid = pid };
	struct native *n = open_or_skip(pid, 1000);

	(void)state;
	seen.symbols = symbols_open(pid);
	tell(to_child, 1);
	await(n, &seen, &seen.in_order, 50);
	native_close(n);
	symbols_close(seen.symbols);
	end_child(pid);
}

#define CHAIN 64

static void *next_thread(void *left)
{
	if (left)
		start(next_thread, (char *)left - 1);
	return outer(NULL);
}

static void thread_chain(void)
{
	tell(to_parent, 1);
	next_thread((void *)(uintptr_t)CHAIN);
}

static int64_t cpu_ns(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &time), 0);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* At 1000 a second, over the next ones: samples for every one that was asked for. */
static double rate_once(struct native *n, struct seen *seen)
{
	size_t before;
	int64_t begin_ns;

	await(n, seen, &seen->n, seen->n + 100);
	before = seen->n;
	begin_ns = cpu_ns(seen->pid);
	await(n, seen, &seen->n, before + 1000);
	return (double)(seen->n - before) / ((double)(cpu_ns(seen->pid) - begin_ns) * 1e-6);
}

/* A busy kernel may leave samples out for a while: what is wrong is wrong each time. */
static double rate(struct native *n, struct seen *seen, double low, double high)
{
	double found = 0;

	for (int i = 0; i < 5 && !(found > low && found < high); i++)
		found = rate_once(n, seen);
	return found;
}

/* Threads begin while they are being opened: none is missed, and none counts twice. */
static void threads_meanwhile(void **state)
{
	pid_t pid = child_of(thread_chain);
	struct seen seen = { .pid = pid };
	struct native *n;
	double per_asked;

	(void)state;
	assert_int_equal(hear(to_parent), 1);
	n = open_or_skip(pid, 1000);
	seen.symbols = symbols_open(pid);
	per_asked = rate(n, &seen, 0.7, 1.3);
	printf("threads meanwhile: %zu opened, doubles %s, %.2f samples for one asked for\n",
	       n->n_threads, n->doubled ? "possible" : "impossible", per_asked);
	assert_true(per_asked > 0.7 && per_asked < 1.3);
	native_close(n);
	symbols_close(seen.symbols);
	end_child(pid);
}

static void *tell_and_spin(void *arg)
{
	tell(to_parent, (pid_t)syscall(SYS_gettid));
	return outer(arg);
}

static void spin_when_told(void)
{
	hear(to_child);
	start(tell_and_spin, NULL);
	hear(to_child);
}

/* A thread that inherits and is opened as well, as in a race, but each time. */
static void opened_twice(void **state)
{
	pid_t pid = child_of(spin_when_told);
	struct seen seen = { .pid = pid };
	struct native *n;
	double twice, once;

	(void)state;
	native_close(open_or_skip(pid, 1000));
	n = calloc(1, sizeof(*n));
	n->hz = 1000;
	assert_int_equal(list_cpus(n), 0);
	assert_true(thread_open(n, pid) > 0);
	tell(to_child, 1);
	assert_true(thread_open(n, hear(to_parent)) > 0);
	seen.symbols = symbols_open(pid);
	twice = rate(n, &seen, 1.4, 3);
	n->doubled = true;
	once = rate(n, &seen, 0.7, 1.3);
	printf("opened twice: %.2f samples for one asked for, %.2f of them count\n", twice, once);
	assert_true(twice > 1.4);
	assert_true(once > 0.7 && once < 1.3);
	native_close(n);
	symbols_close(seen.symbols);
	end_child(pid);
}

static void *last_tells(void *left)
{
	if (left)
		start(last_tells, (char *)left - 1);
	else
		tell(to_parent, 1);
	hear(to_child);
	return NULL;
}

static void idle_threads(void)
{
	last_tells((void *)(uintptr_t)CHAIN);
}

/* In a process of its own, which cannot have its limit back. */
static int open_with_few_files(pid_t pid, rlim_t soft, rlim_t hard, const char *expected)
{
	pid_t opener = fork();
	int status;

	assert_true(opener >= 0);
	if (opener == 0) {
		struct rlimit limit = { soft, hard }, after;
		struct native *n = NULL;
		char why[512] = "";
		int r;

		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			_exit(2);
		r = native_open(&n, pid, 100, why, sizeof(why));
		native_close(n);
		getrlimit(RLIMIT_NOFILE, &after);
		_exit(r == 0 && after.rlim_cur == soft && strstr(why, expected) &&
				      (!why[0] == !expected[0])
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(opener, &status, 0), opener);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void few_files(void **state)
{
	pid_t pid = child_of(idle_threads);
	rlim_t few = 20 + 8 * (rlim_t)sysconf(_SC_NPROCESSORS_CONF);
	struct rlimit limit;

	(void)state;
	assert_int_equal(hear(to_parent), 1);
	native_close(open_or_skip(pid, 100));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(open_with_few_files(pid, few, few, "threads are not sampled"), 0);
	if (limit.rlim_max > 20 + (CHAIN + 2) * (rlim_t)sysconf(_SC_NPROCESSORS_CONF))
		assert_int_equal(open_with_few_files(pid, few, limit.rlim_max, ""), 0);
	end_child(pid);
}

/* Rings by hand. */

#define HAND_BYTES 4096

struct hand {
	struct perf_event_mmap_page page;
	char data[HAND_BYTES];
};

static void put(struct hand *hand, uint32_t type, size_t size, const void *body, size_t body_size)
{
	struct perf_event_header header = { .type = type, .size = (uint16_t)size };
	char record[HAND_BYTES] = { 0 };

	memcpy(record, &header, sizeof(header));
	if (body_size)
		memcpy(record + sizeof(header), body, body_size);
	for (size_t i = 0; i < sizeof(header) + body_size; i++)
		hand->data[(hand->page.data_head + i) % HAND_BYTES] = record[i];
	hand->page.data_head += size;
}

static void put_sample(struct hand *hand, uint32_t tid, uint64_t time_ns, uint64_t id,
		       uint64_t n_ips)
{
	struct sample_head head = {
		.pid = 7, .tid = tid, .time_ns = time_ns, .id = id, .n_ips = n_ips
	};
	uint64_t ips[] = { (uint64_t)PERF_CONTEXT_USER, 1, 2, 3 };
	char body[sizeof(head) - sizeof(head.header) + sizeof(ips)];

	memcpy(body, &head.pid, sizeof(body) - sizeof(ips));
	memcpy(body + sizeof(body) - sizeof(ips), ips, sizeof(ips));
	put(hand, PERF_RECORD_SAMPLE, sizeof(head.header) + sizeof(body), body, sizeof(body));
}

static void count_ips(void *arg, const struct native_sample *sample)
{
	size_t *n = arg;

	assert_int_equal(sample->pid, 7);
	assert_int_equal(sample->n, 3);
	assert_true(sample->ips[0] == 1 && sample->ips[2] == 3);
	(*n)++;
}

static void rings(void **state)
{
	struct hand *hand = calloc(1, sizeof(*hand));
	struct ring ring = {
		.fd = -1, .page = &hand->page, .data = hand->data, .size = HAND_BYTES
	};
	struct native *n = calloc(1, sizeof(*n));
	size_t count = 0;

	(void)state;
	n->rings = &ring;
	n->n_rings = 1;
	for (int i = 0; i < 1000; i++) { /* 88 bytes a turn: wraps at every multiple of 8 */
		put(hand, 0xdead, 16, NULL, 0);
		put_sample(hand, 5, 1, 1, 4);
		native_drain(n, count_ips, &count);
		assert_true(hand->page.data_tail == hand->page.data_head);
	}
	assert_int_equal(count, 1000);
	put(hand, PERF_RECORD_LOST, 24, (uint64_t[]){ 1, 42 }, 16);
	put(hand, PERF_RECORD_LOST, 16, (uint64_t[]){ 1 }, 8); /* cut */
	put_sample(hand, 5, 1, 1, 5);			       /* more addresses than bytes */
	put_sample(hand, 5, 1, 1, UINT64_MAX);
	put(hand, PERF_RECORD_SAMPLE, 8, NULL, 0);
	put_sample(hand, 5, 1, 1, 4);
	native_drain(n, count_ips, &count);
	assert_int_equal(count, 1001);
	assert_int_equal(native_lost(n), 42);
	/* Sizes that cannot be: what follows is skipped, and the ring goes on afterwards. */
	put(hand, PERF_RECORD_SAMPLE, 0, NULL, 0);
	hand->page.data_head += 64;
	native_drain(n, count_ips, &count);
	put(hand, PERF_RECORD_SAMPLE, 65528, NULL, 0);
	hand->page.data_head -= 65528 - 64;
	native_drain(n, count_ips, &count);
	hand->page.data_head += 10 * (uint64_t)HAND_BYTES;
	native_drain(n, count_ips, &count);
	put_sample(hand, 5, 1, 1, 4);
	native_drain(n, count_ips, &count);
	assert_int_equal(count, 1002);
	free(n);
	free(hand);
}

/* Thread 20 was opened (event 200) and inherits from thread 10 (event 100), and so does thread 30, of 20. */
static void doubles(void **state)
{
	struct hand *hand = calloc(1, sizeof(*hand));
	struct ring ring = {
		.fd = -1, .page = &hand->page, .data = hand->data, .size = HAND_BYTES
	};
	struct event events[] = { { -1, 1, 100, OCCASION_CLOCK }, { -1, 2, 200, OCCASION_CLOCK } };
	struct exit_record gone = { .pid = 7, .tid = 20, .time_ns = 5 };
	struct native *n = calloc(1, sizeof(*n));
	size_t count = 0;

	(void)state;
	*n = (struct native){
		.rings = &ring, .n_rings = 1, .events = events, .n_events = 2, .doubled = true
	};
	for (uint32_t i = 1; i <= 2; i++) {
		assert_int_equal(thread_add(n, 10 * i, i), i);
		assert_int_equal(hash_map_add(&n->events_by_id, hash_word(100 * i), i), 0);
	}
	for (uint64_t time_ns = 1; time_ns <= 3; time_ns++) {
		put_sample(hand, 10, time_ns, 100, 4);
		put_sample(hand, 20, time_ns, 100, 4); /* left out */
		put_sample(hand, 20, time_ns, 200, 4);
		put_sample(hand, 30, time_ns, 200, 4);
		put_sample(hand, 30, time_ns, 100, 4); /* left out */
	}
	native_drain(n, count_ips, &count);
	assert_int_equal(count, 9);
	/* 20 ends, and another thread, started by 10, has its number. */
	put(hand, PERF_RECORD_EXIT, sizeof(gone), &gone.pid, sizeof(gone) - sizeof(gone.header));
	put_sample(hand, 20, 4, 100, 4); /* left out */
	put_sample(hand, 20, 6, 100, 4);
	put_sample(hand, 20, 7, 100, 4);
	native_drain(n, count_ips, &count);
	assert_int_equal(count, 11);
	hash_map_release(&n->events_by_id);
	hash_map_release(&n->threads_by_tid);
	free(n->threads);
	free(n);
	free(hand);
}

/* Symbols: of this process, whose loader knows the truth. */

/* 0: there is no vdso. */
static uint64_t vdso_clock(void)
{
	const char *const clocks[] = { "__vdso_clock_gettime", "__kernel_clock_gettime" };
	void *vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *at = NULL;

	for (size_t i = 0; i < 2 && !at; i++)
		at = vdso ? dlsym(vdso, clocks[i]) : NULL;
	return (uintptr_t)at;
}

static void names(void **state)
{
	static const char *const functions[] = { "malloc", "qsort",  "getenv",
						 "fopen",  "printf", "strtol" };
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
	struct symbols *s = symbols_open(getpid());

	(void)state;
	assert_non_null(libc);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		uintptr_t at = (uintptr_t)dlsym(libc, functions[i]);
		const char *text = symbols_name(s, at + 1);
		char file[PATH_MAX], name[256], expected[PATH_MAX];
		Dl_info info;

		assert_true(dladdr((void *)at, &info) != 0 && realpath(info.dli_fname, file));
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text, " "), text);
		snprintf(expected, sizeof(expected), "%s (%s)", name, strrchr(file, '/') + 1);
		assert_string_equal(text, expected);
		/* An alias is as true. */
		assert_true(!strcmp(name, info.dli_sname) || (uintptr_t)dlsym(libc, name) == at);
		assert_ptr_equal(symbols_name(s, at + 1), text);
	}
	assert_string_equal(symbols_name(s, (uintptr_t)inner), "inner (test_host_native)");
	assert_string_equal(symbols_name(s, 16), "[unknown]");
	for (int i = 0; i < 100; i++)
		assert_string_equal(symbols_name(s, UINT64_MAX - (uint64_t)i), "[unknown]");
	assert_null(symbols_build_id(s, 16));
	if (vdso_clock())
		assert_non_null(strstr(symbols_name(s, vdso_clock()), "clock_gettime ([vdso])"));
	assert_true(
		is(s, (uintptr_t)mangled,
		   dlopen("libstdc++.so.6", RTLD_LAZY) ? "space::spin(int)" : "_ZN5space4spinEi"));
	mangled();
	dlclose(libc);
	symbols_close(s);
	symbols_close(NULL);
}

static int compare_build_id(struct dl_phdr_info *info, size_t size, void *symbols)
{
	(void)size;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uint32_t *note = (const void *)(info->dlpi_addr + segment->p_vaddr);
		char hex[129] = "";

		if (segment->p_type != PT_NOTE || segment->p_align == 8 ||
		    note[2] != NT_GNU_BUILD_ID || !strstr(info->dlpi_name, "libc.so"))
			continue;
		for (size_t b = 0; b < note[1] && b < 64; b++)
			sprintf(hex + 2 * b, "%02x", ((const unsigned char *)note)[16 + b]);
		for (size_t l = 0; l < info->dlpi_phnum; l++)
			if (info->dlpi_phdr[l].p_type == PT_LOAD &&
			    (info->dlpi_phdr[l].p_flags & PF_X))
				assert_string_equal(
					symbols_build_id(symbols,
							 info->dlpi_addr +
								 info->dlpi_phdr[l].p_vaddr),
					hex);
		return 1;
	}
	return 0;
}

static void build_ids(void **state)
{
	struct symbols *s = symbols_open(getpid());

	(void)state;
	assert_int_equal(dl_iterate_phdr(compare_build_id, s), 1);
	symbols_close(s);
}

/* A copy of this program, mapped as a whole. */
struct copy {
	char path[64], *bytes;
	int fd;
	size_t size;
	uint64_t at, inner; /* at: where it is mapped */
};

static void copy_open(struct copy *copy)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint64_t base = 0;
	Dl_info info;
	void *at;

	assert_true(from >= 0 && fstat(from, &st) == 0);
	copy->size = (size_t)st.st_size;
	copy->bytes = malloc(copy->size);
	assert_int_equal(read_at(from, copy->bytes, copy->size, 0), copy->size);
	close(from);
	strcpy(copy->path, "/tmp/moescope-copy-XXXXXX");
	copy->fd = mkstemp(copy->path);
	assert_true(copy->fd >= 0);
	assert_int_equal(pwrite(copy->fd, copy->bytes, copy->size, 0), copy->size);
	at = mmap(NULL, copy->size, PROT_READ | PROT_EXEC, MAP_PRIVATE, copy->fd, 0);
	assert_true(at != MAP_FAILED);
	copy->at = (uintptr_t)at;
	/* Its file offset, by the segment that holds it. */
	assert_true(dladdr((void *)(uintptr_t)inner, &info) != 0);
	base = (uintptr_t)info.dli_fbase;
	for (int i = 0; i < ((Elf64_Ehdr *)copy->bytes)->e_phnum; i++) {
		const Elf64_Phdr *load =
			(Elf64_Phdr *)(copy->bytes + ((Elf64_Ehdr *)copy->bytes)->e_phoff) + i;
		uint64_t in = (uintptr_t)inner - base - load->p_vaddr;

		if (load->p_type == PT_LOAD && in < load->p_filesz)
			copy->inner = copy->at + load->p_offset + in;
	}
}

static void copy_close(struct copy *copy)
{
	munmap((void *)(uintptr_t)copy->at, copy->size);
	close(copy->fd);
	unlink(copy->path);
	free(copy->bytes);
}

static void ask_all(const struct copy *copy)
{
	struct symbols *s = symbols_open(getpid());

	for (size_t i = 0; i < 64; i++) {
		assert_non_null(symbols_name(s, copy->at + i * (copy->size / 64)));
		symbols_build_id(s, copy->at + i * (copy->size / 64));
	}
	assert_non_null(symbols_name(s, copy->inner));
	symbols_close(s);
}

static void check_copy(struct symbols *s, const struct copy *copy, const char *format)
{
	char expected[128];

	snprintf(expected, sizeof(expected), format, strrchr(copy->path, '/') + 1);
	assert_string_equal(symbols_name(s, copy->inner), expected);
}

static void damaged(void **state)
{
	struct copy copy;
	Elf64_Ehdr *elf;
	uint64_t seed = 1;
	struct symbols *s;
	size_t tables;

	(void)state;
	copy_open(&copy);
	elf = (Elf64_Ehdr *)copy.bytes;
	s = symbols_open(getpid());
	check_copy(s, &copy, "inner (%s)");
	symbols_close(s);
	for (size_t i = 0; i < 400; i++) { /* every byte of the headers, then larger steps */
		size_t size = i < 200 ? i : copy.size / 200 * (i - 200);

		assert_int_equal(ftruncate(copy.fd, (off_t)size), 0);
		assert_int_equal(pwrite(copy.fd, copy.bytes, size, 0), size);
		ask_all(&copy);
	}
	tables = elf->e_phnum * sizeof(Elf64_Phdr);
	for (size_t i = 0; i < 600; i++) {
		size_t sizes[] = { sizeof(*elf), tables, elf->e_shnum * sizeof(Elf64_Shdr) };
		size_t starts[] = { 0, elf->e_phoff, elf->e_shoff };

		assert_int_equal(pwrite(copy.fd, copy.bytes, copy.size, 0), copy.size);
		for (int flips = 0; flips < 4; flips++) {
			char byte;

			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			byte = (char)(seed >> 56);
			assert_int_equal(
				pwrite(copy.fd, &byte, 1,
				       (off_t)(starts[i % 3] + (seed >> 20) % sizes[i % 3])),
				1);
		}
		ask_all(&copy);
	}
	copy_close(&copy);
}

static void stripped(void **state)
{
	struct copy copy;
	struct symbols *s;
	Elf64_Ehdr elf;
	Elf64_Shdr *section;
	char expected[64];
	Dl_info info;

	(void)state;
	copy_open(&copy);
	memcpy(&elf, copy.bytes, sizeof(elf));
	assert_true(dladdr((void *)(uintptr_t)inner, &info) != 0);
	snprintf(expected, sizeof(expected), "0x%" PRIx64 " (%%s)",
		 (uintptr_t)inner - (uintptr_t)info.dli_fbase);
	/* Without its table, as strip leaves it; .dynsym does not have it. */
	section = (Elf64_Shdr *)(copy.bytes + elf.e_shoff);
	for (int i = 0; i < elf.e_shnum; i++)
		if (section[i].sh_type == SHT_SYMTAB)
			section[i].sh_type = SHT_PROGBITS;
	assert_int_equal(pwrite(copy.fd, copy.bytes, copy.size, 0), copy.size);
	s = symbols_open(getpid());
	check_copy(s, &copy, expected);
	symbols_close(s);
	/* Without any section. */
	elf.e_shoff = elf.e_shnum = 0;
	assert_int_equal(pwrite(copy.fd, &elf, sizeof(elf), 0), sizeof(elf));
	s = symbols_open(getpid());
	check_copy(s, &copy, expected);
	symbols_close(s);
	copy_close(&copy);
}

/* Mapped after the maps were read, and deleted afterwards. */
static void new_and_deleted(void **state)
{
	struct symbols *s = symbols_open(getpid());
	struct copy copy;
	char path[64];
	int fd;

	(void)state;
	copy_open(&copy);
	check_copy(s, &copy, "inner (%s)");
	symbols_close(s);
	unlink(copy.path);
	snprintf(path, sizeof(path), "/proc/self/map_files/%" PRIx64 "-%" PRIx64, copy.at,
		 (copy.at + copy.size + 4095) / 4096 * 4096);
	fd = open(path, O_RDONLY | O_CLOEXEC); /* takes privilege */
	s = symbols_open(getpid());
	if (fd >= 0)
		check_copy(s, &copy, "inner (%s)");
	else
		printf("deleted files: not tried, %s\n", strerror(errno));
	if (fd >= 0)
		close(fd);
	symbols_close(s);
	copy_close(&copy);
}

static void perf_map(void **state)
{
	char path[64];
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *code = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t at = (uintptr_t)code;
	struct symbols *s = symbols_open(getpid());
	char unnamed[64];
	FILE *file;

	(void)state;
	assert_true(code != MAP_FAILED);
	snprintf(unnamed, sizeof(unnamed), "0x%" PRIx64 " ([anon])", at + 0x90);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	file = fopen(path, "wxe");
	assert_non_null(file);
	fprintf(file, "\nnonsense\n%" PRIx64 "\n%" PRIx64 " 0 nothing\n-1 5 below\n", at, at);
	fprintf(file, "%" PRIx64 " 10 old\n%" PRIx64 " 10 py::step:/a b.py\n", at, at);
	fprintf(file, "%" PRIx64 " 10 bell\a\n%" PRIx64 " 10 cut", at + 0x40, at + 0x90);
	fflush(file);
	assert_string_equal(symbols_name(s, at + 15), "py::step:/a b.py ([jit])");
	assert_string_equal(symbols_name(s, at + 0x4f), "bell? ([jit])");
	assert_string_equal(symbols_name(s, at + 0x90), unnamed);
	fprintf(file, " no more\n");
	fclose(file);
	for (int64_t until_ns = clock_monotonic_ns() + PATIENCE_NS;
	     !strcmp(symbols_name(s, at + 0x90), unnamed);)
		assert_true(clock_monotonic_ns() < until_ns);
	assert_string_equal(symbols_name(s, at + 0x90), "cut no more ([jit])");
	assert_null(symbols_build_id(s, at));
	unlink(path);
	munmap(code, page);
	symbols_close(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(build_ids),
		cmocka_unit_test(damaged),
		cmocka_unit_test(stripped),
		cmocka_unit_test(new_and_deleted),
		cmocka_unit_test(perf_map),
		cmocka_unit_test(rings),
		cmocka_unit_test(doubles),
		cmocka_unit_test(chains),
		cmocka_unit_test(leaving),
		cmocka_unit_test(shares),
		cmocka_unit_test(later_thread),
		cmocka_unit_test(grandchild),
		cmocka_unit_test(before_exec),
		cmocka_unit_test(threads_meanwhile),
		cmocka_unit_test(opened_twice),
		cmocka_unit_test(few_files),
	};

	if (argc == 2 && !strcmp(argv[1], "spin"))
		outer(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
