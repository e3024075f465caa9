/* SPDX-License-Identifier: Apache-2.0
 *
 * When a program dies by SIGABRT or SIGSEGV, writes where its heap is damaged: soak.py preloads it.
 *
 * Walks glibc's chunks, of the main heap and of each thread's arena, up to the first that does not
 * agree with its neighbour, and shows the words around it: what was written there tells who did. The
 * signal then ends the program as it would have. Nothing is allocated, and no lock is taken.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARENA_BYTES (UINT64_C(64) << 20) /* and their alignment */
#define ARENA_HEAD 0xa00		 /* its first chunk begins before that */
#define MAPS_MOST 20000
#define STACK_WORDS 600
#define STACK_SHOWN 30
#define WORDS_BEFORE 24
#define WORDS_AFTER 32

struct map {
	uintptr_t start, end;
	bool writable;
	char name[40];
};

static struct map maps[MAPS_MOST];
static int n_maps;
static char text[4 << 20], report[1 << 16];
static size_t n_report;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(report + n_report, sizeof(report) - n_report, format, args);
	va_end(args);
	if (n > 0 && n_report + (size_t)n < sizeof(report))
		n_report += (size_t)n;
}

static void add_map(const char *line)
{
	struct map *map = &maps[n_maps];
	char mode[8], path[300] = "";
	const char *name;

	if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %299s", &map->start, &map->end, mode, path) < 3)
		return;
	name = strrchr(path, '/');
	map->writable = mode[0] == 'r' && mode[1] == 'w';
	snprintf(map->name, sizeof(map->name), "%.39s", name ? name + 1 : path);
	/* The kernel shows the heap in parts where these differ in what it knows of them. */
	if (n_maps && map[-1].end == map->start && map->writable && map[-1].writable &&
	    !strcmp(map->name, "[heap]") && !strcmp(map[-1].name, "[heap]"))
		map[-1].end = map->end;
	else
		n_maps++;
}

static void read_maps(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	size_t n = 0;
	ssize_t r;

	while (fd >= 0 && (r = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)r;
	close(fd);
	for (char *line = text, *end; *line && n_maps < MAPS_MOST; line = end + 1) {
		end = strchr(line, '\n');
		if (!end)
			break;
		*end = 0;
		add_map(line);
	}
}

static const struct map *map_of(uintptr_t address)
{
	for (int low = 0, high = n_maps - 1; low <= high;) {
		int middle = (low + high) / 2;

		if (address < maps[middle].start)
			high = middle - 1;
		else if (address >= maps[middle].end)
			low = middle + 1;
		else
			return &maps[middle];
	}
	return NULL;
}

static uintptr_t word_at(uintptr_t address)
{
	return *(const uintptr_t *)address; // NOLINT(performance-no-int-to-ptr)
}

static void say_word(uintptr_t word)
{
	const struct map *map = map_of(word);

	if (map)
		say("%lx(%s+%lx)", word, map->name[0] ? map->name : "anonymous", word - map->start);
	else
		say("%lx", word);
}

/* What may be return addresses. */
static void say_stack(uintptr_t stack)
{
	say("\nstack:");
	for (int i = 0, n = 0; i < STACK_WORDS && n < STACK_SHOWN; i++, stack += sizeof(stack)) {
		const struct map *map;

		if (!map_of(stack))
			break;
		map = map_of(word_at(stack));
		if (map && !map->writable && strstr(map->name, ".so")) {
			say(" %s+%lx", map->name, word_at(stack) - map->start);
			n++;
		}
	}
	say("\n");
}

struct walk {
	uintptr_t bad, before; /* the chunk that is wrong, 0: none; and the one in front of it */
	int chunks;
};

static struct walk walk_chunks(uintptr_t chunk, uintptr_t end)
{
	struct walk walk = { 0 };

	while (chunk + 32 <= end) {
		uintptr_t bytes = word_at(chunk + 8) & ~UINT64_C(7), next = chunk + bytes;

		if (bytes < 32 || bytes % 16 || next > end) {
			walk.bad = chunk;
			return walk;
		}
		walk.before = chunk;
		/* The next one says that this one is free, and how large it is. */
		if (next + 16 <= end && !(word_at(next + 8) & 1) && word_at(next) != bytes) {
			walk.bad = next;
			return walk;
		}
		walk.chunks++;
		chunk = next;
	}
	return walk;
}

static void say_damage(const char *what, const struct walk *walk)
{
	say("%s: %d chunks are well, that at %lx is not; the one before it begins at %lx", what,
	    walk->chunks, walk->bad, walk->before);
	for (int i = -WORDS_BEFORE; i < WORDS_AFTER; i++) {
		uintptr_t at = walk->bad + (uintptr_t)(8L * i);

		if (!map_of(at))
			continue;
		say("%s%+d:", (i + WORDS_BEFORE) % 4 ? " " : "\n  ", i * 8);
		say_word(word_at(at));
	}
	say("\n");
}

/* Where its first chunk begins depends on glibc: the start from which most chunks are well. */
static void look_at_arena(const struct map *map)
{
	uintptr_t bytes = word_at(map->start + 16);
	struct walk best = { .chunks = -1 };

	if (bytes < 4096 || bytes > map->end - map->start)
		return;
	for (uintptr_t at = 32; at < ARENA_HEAD; at += 16) {
		struct walk walk = walk_chunks(map->start + at, map->start + bytes);

		if (!walk.bad && walk.chunks)
			return;
		if (walk.chunks > best.chunks)
			best = walk;
	}
	say_damage("arena of a thread", &best);
}

static void look_at_heaps(void)
{
	for (int i = 0; i < n_maps; i++) {
		const struct map *map = &maps[i];

		if (map->writable && !strcmp(map->name, "[heap]")) {
			struct walk walk = walk_chunks(map->start, map->end);

			if (walk.bad)
				say_damage("heap", &walk);
			else
				say("heap: all %d chunks are well\n", walk.chunks);
		} else if (map->writable && !map->name[0] && map->start % ARENA_BYTES == 0 &&
			   map->end - map->start <= ARENA_BYTES) {
			look_at_arena(map);
		}
	}
}

static void say_registers(const greg_t *registers)
{
	static const struct {
		const char *name;
		int index;
	} all[] = { { "rax", REG_RAX }, { "rbx", REG_RBX }, { "rcx", REG_RCX }, { "rdx", REG_RDX },
		    { "rsi", REG_RSI }, { "rdi", REG_RDI }, { "rbp", REG_RBP }, { "r8", REG_R8 },
		    { "r9", REG_R9 },	{ "r10", REG_R10 }, { "r11", REG_R11 }, { "r12", REG_R12 },
		    { "r13", REG_R13 }, { "r14", REG_R14 }, { "r15", REG_R15 } };

	say("\nregisters:");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		say(" %s ", all[i].name);
		say_word((uintptr_t)registers[all[i].index]);
	}
}

static void tell(void)
{
	if (write(STDERR_FILENO, report, n_report) < 0)
		_exit(125);
	n_report = 0;
}

static void on_death(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;
	char name[17] = "";

	signal(number, SIG_DFL);
	prctl(PR_GET_NAME, name);
	read_maps();
	say("signal %d in thread %ld (%s) of %d, address %p, instruction ", number,
	    syscall(SYS_gettid), name, getpid(), info->si_addr);
	say_word((uintptr_t)registers[REG_RIP]);
	say_registers(registers);
	say_stack((uintptr_t)registers[REG_RSP]);
	tell();
	/* Other threads go on: this may fault itself. */
	look_at_heaps();
	tell();
	raise(number);
}

__attribute__((constructor)) static void watch_for_death(void)
{
	const struct sigaction action = { .sa_sigaction = on_death,
					  .sa_flags = SA_SIGINFO | SA_NODEFER };

	sigaction(SIGABRT, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
}
