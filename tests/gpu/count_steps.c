/* SPDX-License-Identifier: Apache-2.0
 *
 * count_steps PID SIGNAL N: how many instructions the main thread of a process carries out between marks (signals that it
 * sends itself, and that nobody else sees), N times, by library. A line "{"LIBRARY": COUNT, ...}" for each; "ready" before
 * the first. Lets go when its input ends. For gpu/join_check.py.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAPS_MOST 20000
#define NAME_MOST 64

static pid_t pid;
static int mark;

static struct map {
	unsigned long start, end, count;
	char name[NAME_MOST];
} maps[MAPS_MOST];
static size_t n_maps;

static void fail(const char *what)
{
	fprintf(stderr, "count_steps: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void ask(enum __ptrace_request request, long data)
{
	if (ptrace(request, pid, NULL, data) < 0)
		fail("ptrace");
}

/* Until it stops; the signal to pass on, 0: a step has been made. */
static int stop(void)
{
	int status, number;

	if (waitpid(pid, &status, __WALL) < 0 || !WIFSTOPPED(status))
		fail("it ended while it was traced");
	number = WSTOPSIG(status);
	return number == SIGTRAP ? 0 : number;
}

static void to_mark(void)
{
	for (int number = stop(); number != mark; number = stop())
		ask(PTRACE_CONT, number);
}

static void read_maps(void)
{
	char path[64], line[4400];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "r");
	if (!file)
		fail(path);
	for (n_maps = 0; n_maps < MAPS_MOST && fgets(line, sizeof(line), file); n_maps++) {
		struct map *map = &maps[n_maps];
		char name[4096] = "made at run time";
		const char *base;

		if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %4095s", &map->start, &map->end, name) <
		    2)
			break;
		base = strrchr(name, '/');
		snprintf(map->name, sizeof(map->name), "%.63s", base ? base + 1 : name);
		map->count = 0;
	}
	fclose(file);
}

static struct map *find(unsigned long address)
{
	for (size_t low = 0, high = n_maps; low < high;) {
		size_t middle = (low + high) / 2;

		if (address < maps[middle].start)
			high = middle;
		else if (address >= maps[middle].end)
			low = middle + 1;
		else
			return &maps[middle];
	}
	return NULL;
}

static void count_to_mark(void)
{
	struct map *map = NULL;
	int number = 0;

	/* What is mapped meanwhile counts as the place before it. */
	read_maps();
	while (number != mark) {
		unsigned long address;
		struct map *now;

		ask(PTRACE_SINGLESTEP, number);
		number = stop();
		errno = 0;
		address = (unsigned long)ptrace(PTRACE_PEEKUSER, pid,
						offsetof(struct user, regs.rip), NULL);
		if (errno)
			fail("ptrace");
		if (!map || address < map->start || address >= map->end) {
			now = find(address);
			map = now ? now : map;
		}
		if (map)
			map->count++;
	}
}

static void tell(void)
{
	const char *comma = "";

	printf("{");
	for (size_t i = 0; i < n_maps; i++) {
		unsigned long count = maps[i].count;

		if (!count)
			continue;
		for (size_t k = i + 1; k < n_maps; k++)
			if (!strcmp(maps[k].name, maps[i].name)) {
				count += maps[k].count;
				maps[k].count = 0;
			}
		printf("%s\"%s\": %lu", comma, maps[i].name, count);
		comma = ", ";
	}
	printf("}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int n;

	if (argc != 4)
		return 2;
	pid = atoi(argv[1]);
	mark = atoi(argv[2]);
	n = atoi(argv[3]);
	ask(PTRACE_SEIZE, 0);
	printf("ready\n");
	fflush(stdout);
	to_mark();
	for (int i = 0; i < n; i++) {
		if (i) {
			ask(PTRACE_CONT, 0);
			to_mark();
		}
		count_to_mark();
		tell();
	}
	/* Whoever reads this has its say before the program goes on. */
	while (getchar() != EOF)
		;
	ask(PTRACE_DETACH, 0);
	return 0;
}
