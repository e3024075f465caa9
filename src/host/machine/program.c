/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a program and of others; see program.h.
 */
#include "host/machine/program.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/small_file.h"
#include "host/machine/proc_text.h"
#include "host/peer/peer.h"

#define PROCESSES_MOST 256 /* of the program, at a time */
#define THREADS_MOST 1024  /* of a process */
#define SWITCHES_EVERY 4   /* looks: these are dear, and threads are many */
#define ACTIVE_SHARE 20	   /* a thread that ran for one of so many parts of a look is active */
#define OTHER_SHARE 20	   /* likewise, of a processor, for the name of one of others */
#define SMALL_OTHERS "many small ones"
#define GLANCES_MOST 8	   /* processes at a time */
#define RESIDENT_SHARE 100 /* of its memory: less is no change */
#define NAME_SIZE 32

struct thread {
	pid_t id;
	bool seen;
	struct peer_times times;
	int64_t voluntary, involuntary;
};

struct process {
	pid_t pid;
	bool seen;
	char name[16]; /* its number */
	struct thread *threads;
	size_t n, capacity;
	int64_t looked_ns;
	int64_t resident_pages, resident_ns,
		resident_seen_ns; /* as written, when, and last seen so */
	/* Sums over threads, also those that have ended. */
	int64_t ready_ns, looks, blocked_looks, voluntary, involuntary;
};

/* A process of others at the last look at them. */
struct other {
	pid_t pid;
	int64_t cpu_ns;
};

/* Of all processes of others with one name, since the first look. */
struct other_sum {
	char name[NAME_SIZE];
	int64_t cpu_ns;
};

struct program {
	pid_t pid;
	unsigned int turn, seed;
	size_t glanced; /* processes so far */
	struct process *processes;
	size_t n, capacity;
	struct other *others; /* by pid */
	size_t n_others, others_capacity;
	struct other_sum *sums;
	size_t n_sums, sums_capacity;
	int64_t others_ns; /* when they were looked at last; 0: never */
};

struct program *program_new(pid_t pid)
{
	struct program *p = calloc(1, sizeof(*p));

	if (p)
		*p = (struct program){ .pid = pid, .seed = (unsigned int)pid };
	return p;
}

void program_free(struct program *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n; i++)
		free(p->processes[i].threads);
	free(p->processes);
	free(p->others);
	free(p->sums);
	free(p);
}

/* /proc/PID/stat behind the name, which may hold anything: STATE PPID ...; and the name. */
enum {
	STAT_MINOR = 6, /* index of a number, the parent being 0 */
	STAT_MAJOR = 8,
	STAT_USER = 10,
	STAT_SYSTEM = 11,
	STAT_THREADS = 16,
	STAT_RESIDENT = 20,
	STAT_NUMBERS
};

static bool read_stat(const char *path, char *ret_name, char *ret_state, int64_t *ret_numbers)
{
	char text[1024], *open, *close;

	if (small_file_text(path, text, sizeof(text)) <= 0)
		return false;
	open = strchr(text, '(');
	close = strrchr(text, ')');
	if (!open || !close || close < open || strlen(close) < 4)
		return false;
	*close = '\0';
	snprintf(ret_name, NAME_SIZE, "%s", open + 1);
	*ret_state = close[2];
	return proc_numbers(close + 3, ret_numbers, STAT_NUMBERS) == STAT_NUMBERS;
}

static bool read_process(pid_t pid, char *ret_name, int64_t *ret_numbers)
{
	char path[32], state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	return read_stat(path, ret_name, &state, ret_numbers);
}

/* ---- a process of the program */

static struct thread *thread_of(struct process *process, pid_t id)
{
	for (size_t i = 0; i < process->n; i++)
		if (process->threads[i].id == id)
			return &process->threads[i];
	if (array_grow(&process->threads, &process->capacity, process->n + 1,
		       sizeof(struct thread)) < 0)
		return NULL;
	process->threads[process->n] = (struct thread){ .id = id };
	return &process->threads[process->n++];
}

static bool read_times(pid_t pid, pid_t id, struct peer_times *ret)
{
	int fd = peer_thread_open(pid, id, PEER_TIMES), r = -1;

	if (fd >= 0) {
		r = peer_thread_times(fd, ret);
		close(fd);
	}
	return r == 0;
}

/* How often it gave up its processor or had to. */
static void look_at_switches(struct process *process, struct thread *t)
{
	char path[64], text[4096];
	int64_t number;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)process->pid, (int)t->id);
	if (small_file_text(path, text, sizeof(text)) <= 0)
		return;
	if (proc_number(text, "voluntary_ctxt_switches", &number)) {
		process->voluntary += number - t->voluntary;
		t->voluntary = number;
	}
	if (proc_number(text, "nonvoluntary_ctxt_switches", &number)) {
		process->involuntary += number - t->involuntary;
		t->involuntary = number;
	}
}

/* Returns how many threads have run for a while since the last look. */
static int64_t look_at_threads(struct process *process, struct readings *r, unsigned int turn,
			       int64_t passed_ns)
{
	pid_t ids[THREADS_MOST];
	int n = peer_threads(process->pid, ids, THREADS_MOST);
	int64_t active = 0;

	if (n > THREADS_MOST) {
		n = THREADS_MOST;
		readings_fact(r, "threads", "of a process the first 1024 are looked at");
	}
	for (size_t i = 0; i < process->n; i++)
		process->threads[i].seen = false;
	for (int i = 0; i < n; i++) {
		struct thread *t = thread_of(process, ids[i]);
		struct peer_times now;

		if (!t)
			break;
		t->seen = true;
		if (read_times(process->pid, ids[i], &now)) {
			active += now.run_ns - t->times.run_ns > passed_ns / ACTIVE_SHARE;
			process->ready_ns += now.ready_ns - t->times.ready_ns;
			t->times = now;
		}
		if (ids[i] == process->pid ||
		    (unsigned int)i % SWITCHES_EVERY == turn % SWITCHES_EVERY)
			look_at_switches(process, t);
	}
	for (size_t i = process->n; i-- > 0;)
		if (!process->threads[i].seen)
			process->threads[i] = process->threads[--process->n];
	return active;
}

static void put(const struct process *process, struct readings *r, enum host_metric metric,
		int64_t value)
{
	readings_put(r, HOST_PROCESS, process->name, metric, value);
}

static void add_node(void *nodes, unsigned int node)
{
	if (node < MACHINE_NODES_MOST)
		*(uint64_t *)nodes |= UINT64_C(1) << node;
}

/* Glances are many: what differs little from the last is left out, but not when it was seen last. */
static void put_resident(struct process *process, struct readings *r, int64_t pages, int64_t now_ns)
{
	int64_t more = pages - process->resident_pages, page = sysconf(_SC_PAGESIZE);

	if (!pages)
		return; /* it has ended, and nobody has asked how */
	if (process->resident_ns && llabs(more) <= process->resident_pages / RESIDENT_SHARE) {
		process->resident_seen_ns = now_ns;
		return;
	}
	if (process->resident_seen_ns > process->resident_ns)
		readings_held(r, HOST_PROCESS, process->name, HOST_RESIDENT_BYTES,
			      process->resident_pages * page, process->resident_seen_ns);
	process->resident_pages = pages;
	process->resident_ns = process->resident_seen_ns = now_ns;
	put(process, r, HOST_RESIDENT_BYTES, pages * page);
}

/* "Cpus_allowed_list", "Mems_allowed_list" and memory that was swapped out. */
static void look_at_status(const struct process *process, const struct machine *m,
			   struct readings *r)
{
	char path[32], text[8192];
	uint64_t nodes;
	int64_t number;
	const char *list;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)process->pid);
	if (small_file_text(path, text, sizeof(text)) <= 0)
		return;
	if (proc_number(text, "VmSwap", &number))
		put(process, r, HOST_SWAPPED_BYTES, number * 1024);
	list = proc_after(text, "Cpus_allowed_list");
	if (list) {
		put(process, r, HOST_ALLOWED_CPUS, (int64_t)proc_list(list, NULL, NULL));
		nodes = machine_nodes(m, list);
		if (nodes)
			put(process, r, HOST_CPU_NODES, (int64_t)nodes);
	}
	list = proc_after(text, "Mems_allowed_list");
	nodes = 0;
	if (list)
		proc_list(list, add_node, &nodes);
	/* Where nothing forbids it, every node that there could be is allowed. */
	if (m->nodes && m->nodes < MACHINE_NODES_MOST)
		nodes &= (UINT64_C(1) << m->nodes) - 1;
	if (nodes)
		put(process, r, HOST_MEMORY_NODES, (int64_t)nodes);
}

static void look_at_io(const struct process *process, struct readings *r)
{
	char path[32], text[512];
	int64_t number;

	snprintf(path, sizeof(path), "/proc/%d/io", (int)process->pid);
	if (small_file_text(path, text, sizeof(text)) <= 0) {
		readings_fact(r, "process io", "/proc/PID/io cannot be read here");
		return;
	}
	if (proc_number(text, "read_bytes", &number))
		put(process, r, HOST_READ_BYTES, number);
	if (proc_number(text, "write_bytes", &number))
		put(process, r, HOST_WRITTEN_BYTES, number);
}

static bool is_python(pid_t pid)
{
	char path[32], target[512], *name;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	name = strrchr(target, '/');
	return strncmp(name ? name + 1 : target, "python", 6) == 0;
}

static void look_at_process(struct program *p, struct process *process, const struct machine *m,
			    struct readings *r, int64_t now_ns)
{
	int64_t n[STAT_NUMBERS], active;
	char name[NAME_SIZE], key[32];

	if (!read_process(process->pid, name, n))
		return;
	snprintf(key, sizeof(key), "process %s", process->name);
	readings_fact(r, key, name);
	put(process, r, HOST_USER_NS, n[STAT_USER] * m->tick_ns);
	put(process, r, HOST_SYSTEM_NS, n[STAT_SYSTEM] * m->tick_ns);
	put(process, r, HOST_MINOR_FAULTS, n[STAT_MINOR]);
	put(process, r, HOST_MAJOR_FAULTS, n[STAT_MAJOR]);
	put(process, r, HOST_THREADS, n[STAT_THREADS]);
	put_resident(process, r, n[STAT_RESIDENT], now_ns);
	active = look_at_threads(process, r, p->turn, now_ns - process->looked_ns);
	if (process->looked_ns)
		put(process, r, HOST_ACTIVE_THREADS, active);
	process->looked_ns = now_ns;
	put(process, r, HOST_READY_NS, process->ready_ns);
	put(process, r, HOST_THREAD_LOOKS, process->looks);
	put(process, r, HOST_BLOCKED_LOOKS, process->blocked_looks);
	put(process, r, HOST_VOLUNTARY_SWITCHES, process->voluntary);
	put(process, r, HOST_INVOLUNTARY_SWITCHES, process->involuntary);
	put(process, r, HOST_PYTHON, is_python(process->pid));
	look_at_status(process, m, r);
	look_at_io(process, r);
}

static struct process *process_of(struct program *p, pid_t pid)
{
	struct process *process;

	for (size_t i = 0; i < p->n; i++)
		if (p->processes[i].pid == pid)
			return &p->processes[i];
	if (p->n == PROCESSES_MOST ||
	    array_grow(&p->processes, &p->capacity, p->n + 1, sizeof(*p->processes)) < 0)
		return NULL;
	process = &p->processes[p->n++];
	*process = (struct process){ .pid = pid };
	snprintf(process->name, sizeof(process->name), "%d", (int)pid);
	return process;
}

static void find_processes(struct program *p, struct readings *r, pid_t pid, int depth)
{
	pid_t children[PROCESSES_MOST];
	int n = peer_children(pid, children, PROCESSES_MOST);
	struct process *process;

	if (n < 0 || depth > 16)
		return;
	process = process_of(p, pid);
	if (process)
		process->seen = true;
	else
		readings_fact(r, "processes", "256 at a time are looked at");
	for (int i = 0; i < n && i < PROCESSES_MOST; i++)
		find_processes(p, r, children[i], depth + 1);
}

void program_look(struct program *p, const struct machine *m, struct readings *r, int64_t now_ns)
{
	for (size_t i = 0; i < p->n; i++)
		p->processes[i].seen = false;
	find_processes(p, r, p->pid, 0);
	for (size_t i = p->n; i-- > 0;) {
		if (p->processes[i].seen) {
			look_at_process(p, &p->processes[i], m, r, now_ns);
			continue;
		}
		free(p->processes[i].threads);
		p->processes[i] = p->processes[--p->n];
	}
	p->turn++;
}

void program_glance(struct program *p, struct readings *r, int64_t now_ns)
{
	size_t n = p->n < GLANCES_MOST ? p->n : GLANCES_MOST;

	for (size_t i = 0; i < n; i++) {
		struct process *process = &p->processes[p->glanced++ % p->n];
		int64_t numbers[STAT_NUMBERS];
		char path[64], name[NAME_SIZE], state;

		if (!process->n)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)process->pid,
			 (int)process->threads[(size_t)rand_r(&p->seed) % process->n].id);
		if (!read_stat(path, name, &state, numbers))
			continue;
		process->looks++;
		process->blocked_looks += state == 'D';
		put_resident(process, r, numbers[STAT_RESIDENT], now_ns);
	}
}

/* ---- others */

static bool is_ours(const struct program *p, pid_t pid)
{
	if (pid == getpid())
		return true;
	for (size_t i = 0; i < p->n; i++)
		if (p->processes[i].pid == pid)
			return true;
	return false;
}

static void add_other(struct program *p, struct readings *r, const char *name, int64_t cpu_ns)
{
	size_t i = 0;

	while (i < p->n_sums && strcmp(p->sums[i].name, name) != 0)
		i++;
	if (i == p->n_sums) {
		if (array_grow(&p->sums, &p->sums_capacity, i + 1, sizeof(*p->sums)) < 0)
			return;
		p->sums[p->n_sums++] = (struct other_sum){ 0 };
		snprintf(p->sums[i].name, NAME_SIZE, "%s", name);
		/* Before it used any: its first reading is where its use begins. */
		readings_put(r, HOST_OTHER, name, HOST_CPU_NS, 0);
	}
	p->sums[i].cpu_ns += cpu_ns;
	readings_put(r, HOST_OTHER, name, HOST_CPU_NS, p->sums[i].cpu_ns);
}

static int by_pid(const void *a, const void *b)
{
	const struct other *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

void program_look_at_others(struct program *p, const struct machine *m, struct readings *r,
			    int64_t now_ns)
{
	int64_t passed_ns = p->others_ns ? now_ns - p->others_ns : 0;
	int64_t small_ns = 0;
	struct other *now = NULL;
	size_t n = 0, capacity = 0;
	DIR *dir = opendir("/proc");
	struct dirent *entry;

	if (!dir) {
		readings_fact(r, "others", "/proc cannot be listed");
		return;
	}
	while ((entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		int64_t numbers[STAT_NUMBERS];
		const struct other *before;
		char name[NAME_SIZE];
		struct other other;

		if (!isdigit((unsigned char)entry->d_name[0]) || is_ours(p, pid) ||
		    !read_process(pid, name, numbers) ||
		    array_grow(&now, &capacity, n + 1, sizeof(*now)) < 0)
			continue;
		other = (struct other){ pid,
					(numbers[STAT_USER] + numbers[STAT_SYSTEM]) * m->tick_ns };
		now[n++] = other;
		before = p->n_others
				 ? bsearch(&other, p->others, p->n_others, sizeof(other), by_pid)
				 : NULL;
		if (before)
			other.cpu_ns -= before->cpu_ns;
		/* One that is new has used all of it since; at the first look nobody knows when. */
		if (passed_ns && other.cpu_ns > passed_ns / OTHER_SHARE)
			add_other(p, r, name, other.cpu_ns);
		else if (passed_ns)
			small_ns += other.cpu_ns;
	}
	closedir(dir);
	/* On a crowded machine each of them gets little. */
	if (small_ns > passed_ns / OTHER_SHARE)
		add_other(p, r, SMALL_OTHERS, small_ns);
	if (n)
		qsort(now, n, sizeof(*now), by_pid);
	free(p->others);
	p->others = now;
	p->n_others = n;
	p->others_ns = now_ns;
}
