/* SPDX-License-Identifier: Apache-2.0
 *
 * See native.h. Events that are inherited can only be read through a ring of one CPU, so there is an event
 * per thread and CPU, and a ring per CPU that all events of that CPU write to.
 *
 * A thread that begins while events are being opened may inherit some and then be found in /proc as well.
 * It is opened nevertheless, since nothing tells the two cases apart, and its samples come twice. Each carries
 * the id of the event that was opened, so those of all but the last opened can be left out again.
 */
#include "host/stacks/native.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/hash_map.h"
#include "base/small_file.h"
#include "host/stacks/unwind.h"

/* With its first page what the kernel lets every user lock (kernel.perf_event_mlock_kb). */
#define RING_BYTES ((size_t)512 << 10)
#define RECORD_BYTES 65536	    /* a record's size has 16 bits */
#define LEAVE_HZ 4000		    /* of a CPU; more would slow down the program */
#define LEAVE_NS INT64_C(100000000) /* over such a time */
#define PAUSE_NS INT64_C(1000000000)
#define PAUSE_MOST_NS (16 * PAUSE_NS)
#define ROUNDS 64 /* of listing threads; a program may start them faster than we look */

struct ring {
	int cpu, fd; /* fd: of the event that owns it, -1: none yet */
	struct perf_event_mmap_page *page;
	const char *data;
	size_t size;	 /* of data, a power of two */
	uint64_t leaves; /* samples of these, lately */
};

/* What the kernel takes a stack at. */
enum occasion { OCCASION_CLOCK, OCCASION_LEAVE, N_OCCASIONS };

struct event {
	int fd;
	uint32_t owner; /* number of the thread it was opened for, from 1 */
	uint64_t id;
	enum occasion occasion;
};

struct thread {
	uint32_t tid, owner; /* owner: the last opened of those whose events sample it */
	int64_t exited_ns;   /* 0: runs. Its number may come again afterwards */
};

struct native {
	unsigned int hz;
	struct ring *rings;
	size_t n_rings;
	struct event *events;
	size_t n_events, events_capacity;
	struct hash_map events_by_id;
	struct thread *threads; /* first those that were opened, in this order */
	size_t n_threads, threads_capacity;
	struct hash_map threads_by_tid;
	bool doubled;	   /* some samples may come twice */
	bool leaves;	   /* stacks of threads that leave their CPU are to be had */
	int64_t leaves_ns; /* since when, without a gap; INT64_MAX: not now */
	int64_t counted_ns,
		pause_ns; /* since when they are counted, and how long the next gap is */
	bool raised;
	struct rlimit before;
	uint64_t lost;
	union {
		char bytes[RECORD_BYTES];
		uint64_t words[RECORD_BYTES / 8];
	} record;
};

/* The fixed part of a sample, in the order of perf_event_open(2). */
struct sample_head {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t time_ns, id, n_ips;
};

struct exit_record {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time_ns;
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

static struct thread *thread_find(const struct native *n, uint32_t tid)
{
	struct hash_walk walk = hash_map_walk(&n->threads_by_tid, hash_word(tid));
	uint32_t number;

	while ((number = hash_map_next(&n->threads_by_tid, &walk)))
		if (n->threads[number - 1].tid == tid)
			return &n->threads[number - 1];
	return NULL;
}

/* Its number, from 1; 0: no memory. */
static uint32_t thread_add(struct native *n, uint32_t tid, uint32_t owner)
{
	uint32_t number = (uint32_t)n->n_threads + 1;

	if (array_grow(&n->threads, &n->threads_capacity, number, sizeof(*n->threads)) < 0 ||
	    hash_map_add(&n->threads_by_tid, hash_word(tid), number) < 0)
		return 0;
	n->threads[n->n_threads++] = (struct thread){ .tid = tid, .owner = owner };
	return number;
}

static int event_add(struct native *n, int fd, uint32_t owner, enum occasion occasion)
{
	struct event event = { .fd = fd, .owner = owner, .occasion = occasion };

	if (ioctl(fd, PERF_EVENT_IOC_ID, &event.id) < 0)
		return -errno;
	if (array_grow(&n->events, &n->events_capacity, n->n_events + 1, sizeof(event)) < 0 ||
	    hash_map_add(&n->events_by_id, hash_word(event.id), (uint32_t)n->n_events + 1) < 0)
		return -ENOMEM;
	n->events[n->n_events++] = event;
	return 0;
}

static long setting(const char *name)
{
	char path[128], line[32];

	snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
	return small_file_line(path, line, sizeof(line)) ? strtol(line, NULL, 10) : -1;
}

static int perf_open(enum occasion occasion, unsigned int hz, pid_t tid, int cpu)
{
	bool leave = occasion == OCCASION_LEAVE;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, /* virtual machines have no hardware events */
		.config = leave ? PERF_COUNT_SW_CONTEXT_SWITCHES : PERF_COUNT_SW_CPU_CLOCK,
		.size = sizeof(attr),
		.freq = !leave,
		.sample_freq = leave ? 1 : hz, /* each time that it leaves */
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
			       PERF_SAMPLE_CALLCHAIN,
		.sample_regs_user = leave ? unwind_kernel_mask() : 0,
		.exclude_kernel = !leave, /* which is where a thread leaves */
		.exclude_hv = 1,
		.exclude_callchain_kernel = 1,
		.inherit = 1,
		.task = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	long fd;

	if (attr.sample_regs_user)
		attr.sample_type |= PERF_SAMPLE_REGS_USER;
	fd = syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/* A smaller ring is better than none where the limit on locked memory is low. */
static int ring_map(struct ring *ring, int fd)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = RING_BYTES > page ? RING_BYTES : page;

	for (; size >= page; size /= 2) {
		void *at = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (at != MAP_FAILED) {
			*ring = (struct ring){ ring->cpu, fd, at, (char *)at + page, size };
			return 0;
		}
		if (errno != EPERM && errno != ENOMEM)
			break;
	}
	return errno == EPERM ? -ENOBUFS : -errno; /* EPERM is kept for opening */
}

/* The soft limit is often 1024, for the sake of select(); the hard one is far higher. */
static bool raise_limit(struct native *n)
{
	struct rlimit limit;

	if (n->raised || getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
		return false;
	n->before = limit;
	limit.rlim_cur = limit.rlim_max;
	n->raised = setrlimit(RLIMIT_NOFILE, &limit) == 0;
	return n->raised;
}

static int open_on(struct native *n, enum occasion occasion, pid_t tid, uint32_t owner,
		   struct ring *ring)
{
	int r, fd = perf_open(occasion, n->hz, tid, ring->cpu);

	if (fd == -EMFILE && raise_limit(n))
		fd = perf_open(occasion, n->hz, tid, ring->cpu);
	if (fd < 0)
		return fd;
	r = event_add(n, fd, owner, occasion);
	if (r < 0) {
		close(fd);
		return r;
	}
	if (ring->fd < 0)
		return ring_map(ring, fd);
	return ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fd) < 0 ? -errno : 0;
}

/* On all CPUs or on none. The number of CPUs that have it, or -errno. */
static int occasion_open(struct native *n, enum occasion occasion, pid_t tid, uint32_t owner)
{
	size_t first = n->n_events, i;
	int r = 0;

	for (i = 0; i < n->n_rings && r >= 0; i++) {
		r = open_on(n, occasion, tid, owner, &n->rings[i]);
		if (r == -ENODEV) /* that CPU is off */
			r = 0;
	}
	if (r == 0)
		return (int)(n->n_events - first);
	/* An event that owns a ring stays, since those of other threads will write to it. */
	for (i = n->n_events; i-- > first;) {
		size_t ring = 0;

		while (ring < n->n_rings && n->rings[ring].fd != n->events[i].fd)
			ring++;
		if (ring == n->n_rings) {
			close(n->events[i].fd);
			n->events[i].fd = -1;
		}
	}
	return r;
}

static int thread_open(struct native *n, pid_t tid)
{
	uint32_t owner = thread_add(n, (uint32_t)tid, (uint32_t)n->n_threads + 1);
	int r = owner ? occasion_open(n, OCCASION_CLOCK, tid, owner) : -ENOMEM;

	/* Not for everybody (kernel.perf_event_paranoid): nothing depends on it. */
	if (r > 0 && n->leaves)
		n->leaves = occasion_open(n, OCCASION_LEAVE, tid, owner) > 0;
	return r;
}

/* The threads that are not known yet; their number, or -errno. */
static ssize_t list_new(const struct native *n, pid_t pid, pid_t **ret_tids)
{
	char path[64];
	pid_t *tids = NULL;
	size_t count = 0, capacity = 0;
	struct dirent *entry;
	DIR *dir;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	while (r == 0 && (entry = readdir(dir))) {
		long tid = strtol(entry->d_name, NULL, 10);

		if (tid <= 0 || thread_find(n, (uint32_t)tid))
			continue;
		r = array_grow(&tids, &capacity, count + 1, sizeof(*tids));
		if (r == 0)
			tids[count++] = (pid_t)tid;
	}
	closedir(dir);
	if (r < 0) {
		free(tids);
		return r;
	}
	*ret_tids = tids;
	return (ssize_t)count;
}

/* A round opens what the one before did not know. `ret_missed`: threads without an event, for lack of
 * descriptors. */
static int open_threads(struct native *n, pid_t pid, size_t *ret_missed)
{
	size_t missed = 0, opened = 0;

	for (int round = 0; round < ROUNDS; round++) {
		pid_t *tids = NULL;
		ssize_t count = list_new(n, pid, &tids);
		int r = count < 0 && (round == 0 || count != -ESRCH) ? (int)count : 0;

		n->doubled |= round > 0 && count > 0;
		for (ssize_t i = 0; i < count && r == 0; i++) {
			r = missed ? -EMFILE : thread_open(n, tids[i]);
			opened += r > 0;
			missed += r == -EMFILE && opened;
			if (r > 0 || r == -ESRCH || missed)
				r = 0;
		}
		free(tids);
		if (r < 0)
			return r;
		if (count <= 0 || missed)
			break;
	}
	*ret_missed = missed;
	return opened ? 0 : -ESRCH;
}

/* Those that may ever be there: one that is off is left out when opening, which says so. */
static int list_cpus(struct native *n)
{
	char text[4096], *at = text;
	size_t capacity = 0;

	if (!small_file_line("/sys/devices/system/cpu/possible", text, sizeof(text)))
		snprintf(text, sizeof(text), "0-%ld", sysconf(_SC_NPROCESSORS_CONF) - 1);
	while (*at >= '0' && *at <= '9') {
		long first = strtol(at, &at, 10),
		     last = *at == '-' ? strtol(at + 1, &at, 10) : first;

		for (long cpu = first; cpu <= last && cpu < 65536; cpu++) {
			if (array_grow(&n->rings, &capacity, n->n_rings + 1, sizeof(*n->rings)) < 0)
				return -ENOMEM;
			n->rings[n->n_rings++] = (struct ring){ .cpu = (int)cpu, .fd = -1 };
		}
		at += *at == ',';
	}
	return n->n_rings ? 0 : -ENODEV;
}

static void explain(int r, pid_t pid, unsigned int hz, char *why, size_t size)
{
	char seccomp[32];
	bool filtered = small_file_value("/proc/self/status", "Seccomp", seccomp,
					 sizeof(seccomp)) &&
			seccomp[0] == '2';
	long paranoid = setting("perf_event_paranoid"),
	     most = setting("perf_event_max_sample_rate");

	if ((r == -EACCES || r == -EPERM) && paranoid > 2)
		snprintf(
			why, size,
			"kernel.perf_event_paranoid is %ld, which keeps users from sampling: set it to 2 "
			"(sysctl kernel.perf_event_paranoid=2), or give moescope CAP_PERFMON",
			paranoid);
	else if ((r == -EACCES || r == -EPERM || r == -ENOSYS) && filtered)
		snprintf(
			why, size,
			"a seccomp filter, as containers have, refuses perf_event_open: allow it in the "
			"container's profile, or give the container CAP_PERFMON");
	else if (r == -EACCES || r == -EPERM)
		snprintf(
			why, size,
			"process %d may not be sampled by this user: run moescope as its user, or give "
			"moescope CAP_PERFMON and CAP_SYS_PTRACE",
			(int)pid);
	else if (r == -ENOSYS || r == -ENOENT || r == -EOPNOTSUPP)
		snprintf(why, size, "this kernel has no perf events");
	else if (r == -EINVAL && most >= 0 && hz > (unsigned long)most)
		snprintf(
			why, size,
			"%u samples a second are more than kernel.perf_event_max_sample_rate (%ld) "
			"allows: ask for fewer, or raise it",
			hz, most);
	else if (r == -EMFILE)
		snprintf(
			why, size,
			"sampling needs an open file per thread and CPU, more than the limit allows: raise "
			"it (ulimit -n)");
	else if (r == -ENOBUFS)
		snprintf(why, size,
			 "no memory may be locked for the samples: raise the limit (ulimit -l) or "
			 "kernel.perf_event_mlock_kb");
	else if (r == -ESRCH)
		snprintf(why, size, "process %d has ended", (int)pid);
	else
		snprintf(why, size, "perf_event_open: %s", strerror(-r));
}

int native_open(struct native **ret, pid_t pid, unsigned int hz, char *why, size_t size)
{
	struct native *n = hz ? calloc(1, sizeof(*n)) : NULL;
	size_t missed = 0;
	int r = hz ? -ENOMEM : -EINVAL;

	if (n) {
		n->hz = hz;
		n->leaves = true;
		r = list_cpus(n);
	}
	if (n && r == 0)
		r = open_threads(n, pid, &missed);
	if (r < 0) {
		explain(r, pid, hz, why, size);
		native_close(n);
		return r;
	}
	snprintf(why, size, "%s", "");
	n->leaves = n->leaves && !missed;
	if (missed)
		snprintf(
			why, size,
			"%zu threads are not sampled: the limit on open files allows no more, one is "
			"needed per thread and CPU (ulimit -n)",
			missed);
	*ret = n;
	return 0;
}

static const struct event *event_find(const struct native *n, uint64_t id)
{
	struct hash_walk walk = hash_map_walk(&n->events_by_id, hash_word(id));
	uint32_t number;

	while ((number = hash_map_next(&n->events_by_id, &walk)))
		if (n->events[number - 1].id == id)
			return &n->events[number - 1];
	return NULL;
}

/* Whether this is the one of a thread's events that counts. Without memory: all do. */
static bool counts(struct native *n, const struct sample_head *head, const struct event *event)
{
	struct thread *thread = thread_find(n, head->tid);
	uint32_t owner = event ? event->owner : 0;

	if (!thread) {
		thread_add(n, head->tid, owner);
		return true;
	}
	if (thread->exited_ns && (int64_t)head->time_ns > thread->exited_ns)
		*thread = (struct thread){ .tid = head->tid };
	if (owner < thread->owner)
		return false;
	thread->owner = owner;
	return true;
}

static void take_sample(struct native *n, struct ring *ring, size_t size, native_fn *fn, void *arg)
{
	struct sample_head head;
	uint64_t *ips = &n->record.words[sizeof(head) / 8];
	const struct event *event;
	enum native_moment moment = NATIVE_RUNS;
	const uint64_t *registers = NULL;
	size_t kept = 0, after;

	if (size < sizeof(head))
		return;
	memcpy(&head, n->record.bytes, sizeof(head));
	event = event_find(n, head.id);
	if (head.n_ips > (size - sizeof(head)) / 8 || (n->doubled && !counts(n, &head, event)))
		return;
	/* Behind the addresses: of which kind they are, then the registers. */
	after = sizeof(head) / 8 + head.n_ips;
	if (event && event->occasion == OCCASION_LEAVE &&
	    size / 8 >= after + 1 + (size_t)__builtin_popcountll(unwind_kernel_mask()) &&
	    n->record.words[after] == PERF_SAMPLE_REGS_ABI_64)
		registers = &n->record.words[after + 1];
	if (event && event->occasion == OCCASION_LEAVE) {
		moment = NATIVE_LEFT;
		ring->leaves++;
	}
	for (size_t i = 0; i < head.n_ips; i++)
		if (ips[i] < (uint64_t)PERF_CONTEXT_MAX) /* else a mark of what follows */
			ips[kept++] = ips[i];
	fn(arg, &(struct native_sample){ (int64_t)head.time_ns, head.pid, head.tid, moment, ips,
					 kept, registers });
}

static void take_record(struct native *n, struct ring *ring, const struct perf_event_header *header,
			native_fn *fn, void *arg)
{
	struct lost_record lost;
	struct exit_record gone;
	struct thread *thread;

	if (header->type == PERF_RECORD_SAMPLE) {
		take_sample(n, ring, header->size, fn, arg);
	} else if (header->type == PERF_RECORD_LOST && header->size >= sizeof(lost)) {
		memcpy(&lost, n->record.bytes, sizeof(lost));
		n->lost += lost.lost;
	} else if (header->type == PERF_RECORD_EXIT && header->size >= sizeof(gone) && n->doubled) {
		memcpy(&gone, n->record.bytes, sizeof(gone));
		thread = thread_find(n, gone.tid);
		if (thread)
			thread->exited_ns = (int64_t)gone.time_ns;
	}
}

static void copy_out(const struct ring *ring, uint64_t at, void *to, size_t size)
{
	size_t start = at & (ring->size - 1), before_end = ring->size - start;
	size_t first = size < before_end ? size : before_end;

	memcpy(to, ring->data + start, first);
	memcpy((char *)to + first, ring->data, size - first);
}

static void ring_drain(struct native *n, struct ring *ring, native_fn *fn, void *arg)
{
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = ring->page->data_tail;

	while (head - tail >= sizeof(struct perf_event_header) && head - tail <= ring->size) {
		struct perf_event_header header;

		copy_out(ring, tail, &header, sizeof(header));
		if (header.size < sizeof(header) || header.size > head - tail)
			break;
		copy_out(ring, tail, n->record.bytes, header.size);
		take_record(n, ring, &header, fn, arg);
		tail += header.size;
	}
	/* After a record that cannot be, nothing says where the next one begins. */
	__atomic_store_n(&ring->page->data_tail, head, __ATOMIC_RELEASE);
}

void native_drain(struct native *n, native_fn *fn, void *arg)
{
	for (size_t i = 0; i < n->n_rings; i++)
		if (n->rings[i].page)
			ring_drain(n, &n->rings[i], fn, arg);
}

static void switch_leaves(struct native *n, bool on)
{
	for (size_t i = 0; i < n->n_events; i++)
		if (n->events[i].fd >= 0 && n->events[i].occasion == OCCASION_LEAVE)
			ioctl(n->events[i].fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE,
			      0);
}

/* Whether threads of one CPU leave it so often that to take their stacks would cost the program something. */
static bool leaves_too_often(const struct native *n, int64_t passed_ns)
{
	uint64_t most = LEAVE_HZ * (uint64_t)(passed_ns > LEAVE_NS ? passed_ns : LEAVE_NS) /
			UINT64_C(1000000000);

	for (size_t i = 0; i < n->n_rings; i++)
		if (n->rings[i].leaves > most)
			return true;
	return false;
}

int64_t native_leaves_since(struct native *n, int64_t now_ns)
{
	int64_t passed_ns = now_ns - n->counted_ns;

	if (!n->leaves)
		return INT64_MAX;
	if (n->leaves_ns == INT64_MAX && passed_ns >= n->pause_ns) {
		switch_leaves(n, true);
		n->leaves_ns = now_ns;
	} else if (n->leaves_ns != INT64_MAX && leaves_too_often(n, passed_ns)) {
		switch_leaves(n, false);
		n->leaves_ns = INT64_MAX;
		n->pause_ns = n->pause_ns ? 2 * n->pause_ns : PAUSE_NS;
		if (n->pause_ns > PAUSE_MOST_NS)
			n->pause_ns = PAUSE_MOST_NS;
	} else if (n->leaves_ns == INT64_MAX || passed_ns < LEAVE_NS) {
		return n->leaves_ns;
	} else if (now_ns - n->leaves_ns > PAUSE_MOST_NS) {
		n->pause_ns = 0;
	}
	n->counted_ns = now_ns;
	for (size_t i = 0; i < n->n_rings; i++)
		n->rings[i].leaves = 0;
	return n->leaves_ns;
}

void native_drain_cpu(struct native *n, int cpu, native_fn *fn, void *arg)
{
	for (size_t i = 0; i < n->n_rings; i++)
		if (n->rings[i].cpu == cpu && n->rings[i].page)
			ring_drain(n, &n->rings[i], fn, arg);
}

bool native_has_leaves(const struct native *n)
{
	return n->leaves;
}

uint64_t native_lost(const struct native *n)
{
	return n->lost;
}

void native_close(struct native *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->n_rings; i++)
		if (n->rings[i].page)
			munmap(n->rings[i].page,
			       (size_t)(n->rings[i].data - (char *)n->rings[i].page) +
				       n->rings[i].size);
	for (size_t i = 0; i < n->n_events; i++)
		if (n->events[i].fd >= 0)
			close(n->events[i].fd);
	if (n->raised)
		setrlimit(RLIMIT_NOFILE, &n->before);
	hash_map_release(&n->events_by_id);
	hash_map_release(&n->threads_by_tid);
	free(n->rings);
	free(n->events);
	free(n->threads);
	free(n);
}
