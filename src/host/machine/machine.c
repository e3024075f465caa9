/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine does; see machine.h. Files of /proc and /sys are read whole and at once.
 */
#include "host/machine/machine.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/small_file.h"
#include "host/machine/proc_text.h"

#define TEXT_MOST (512 << 10) /* /proc/stat of a thousand processors */
#define SLOW_NS INT64_C(5000000000)
#define SECTOR 512
#define NAME_MOST 64

static void cannot(struct readings *r, const char *what)
{
	char words[160];

	snprintf(words, sizeof(words), "%s cannot be read here", what);
	readings_fact(r, what, words);
}

/* The whole file, until the next one is read; NULL, and the run says so. */
static char *read_whole(const struct machine *m, struct readings *r, const char *path)
{
	if (m->text && small_file_text(path, m->text, TEXT_MOST) > 0)
		return m->text;
	cannot(r, path);
	return NULL;
}

/* ---- processors */

/* "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ..." in ticks; guests are in user. */
static void put_times(const struct machine *m, struct readings *r, const char *line)
{
	enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, TIMES };
	bool all = line[3] == ' ';
	enum host_place place = all ? HOST_MACHINE : HOST_PROCESSOR;
	int64_t t[TIMES];
	char name[16] = "";

	if (!all)
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(line + 3, " "), line + 3);
	if (proc_numbers(line + strcspn(line, " "), t, TIMES) < TIMES)
		return;
	readings_put(r, place, name, HOST_USER_NS, (t[USER] + t[NICE]) * m->tick_ns);
	readings_put(r, place, name, HOST_SYSTEM_NS,
		     (t[SYSTEM] + t[IRQ] + t[SOFTIRQ]) * m->tick_ns);
	readings_put(r, place, name, HOST_IOWAIT_NS, t[IOWAIT] * m->tick_ns);
	readings_put(r, place, name, HOST_STEAL_NS, t[STEAL] * m->tick_ns);
	if (all)
		readings_put(r, place, name, HOST_IDLE_NS, t[IDLE] * m->tick_ns);
}

static void look_at_processors(const struct machine *m, struct readings *r)
{
	char *text = read_whole(m, r, "/proc/stat"), *at = text, *line;
	int64_t number, cpus = 0;

	if (!text)
		return;
	while ((line = proc_line(&at)) && strncmp(line, "cpu", 3) == 0) {
		cpus += line[3] != ' ';
		put_times(m, r, line);
	}
	if (cpus)
		readings_put(r, HOST_MACHINE, "", HOST_CPUS, cpus);
	if (proc_number(at, "procs_running", &number))
		readings_put(r, HOST_MACHINE, "", HOST_RUNNABLE, number);
	if (proc_number(at, "procs_blocked", &number))
		readings_put(r, HOST_MACHINE, "", HOST_BLOCKED, number);
}

/* x86 says it in one file; elsewhere each processor has its own. */
static void look_at_clocks(const struct machine *m, struct readings *r)
{
	char *text = read_whole(m, r, "/proc/cpuinfo"), *at = text, *line, name[16] = "", path[96];
	bool found = false;
	int64_t khz;

	while (text && (line = proc_line(&at))) {
		const char *value = strchr(line, ':');

		if (!value)
			continue;
		if (strncmp(line, "processor", 9) == 0)
			snprintf(name, sizeof(name), "%ld", strtol(value + 1, NULL, 10));
		if (strncmp(line, "cpu MHz", 7) != 0)
			continue;
		found = true;
		readings_put(r, HOST_PROCESSOR, name, HOST_KHZ,
			     (int64_t)(strtod(value + 1, NULL) * 1000));
	}
	for (int i = 0; !found && i < 4096; i++) {
		snprintf(path, sizeof(path),
			 "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
		snprintf(name, sizeof(name), "%d", i);
		if (!proc_file_number(path, &khz)) {
			if (!i)
				cannot(r, "the processors' clock");
			break;
		}
		readings_put(r, HOST_PROCESSOR, name, HOST_KHZ, khz);
	}
}

/* ---- pressure and memory */

static void look_at_pressure(struct readings *r)
{
	static const struct {
		const char *path;
		enum host_metric some, full; /* 0: does not matter */
	} files[] = {
		{ "/proc/pressure/cpu", HOST_CPU_PRESSURE_NS, 0 },
		{ "/proc/pressure/io", HOST_IO_PRESSURE_NS, HOST_IO_FULL_NS },
		{ "/proc/pressure/memory", HOST_MEMORY_PRESSURE_NS, HOST_MEMORY_FULL_NS },
	};
	char text[512];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		const char *words[] = { "some", "full" };

		if (small_file_text(files[i].path, text, sizeof(text)) <= 0) {
			cannot(r, files[i].path);
			continue;
		}
		for (int w = 0; w < 2; w++) {
			const char *line = proc_after(text, words[w]);
			const char *total = line ? strstr(line, "total=") : NULL;
			enum host_metric metric = w ? files[i].full : files[i].some;

			if (total && metric)
				readings_put(r, HOST_MACHINE, "", metric,
					     strtoll(total + 6, NULL, 10) * 1000);
		}
	}
}

static void look_at_memory(struct readings *r)
{
	static const struct {
		const char *key;
		enum host_metric metric;
	} events[] = {
		{ "pswpin", HOST_SWAP_IN_BYTES },
		{ "pswpout", HOST_SWAP_OUT_BYTES },
		{ "pgmajfault", HOST_MAJOR_FAULTS },
	};
	char text[16384];
	int64_t total, number, page = sysconf(_SC_PAGESIZE);

	if (small_file_text("/proc/meminfo", text, sizeof(text)) <= 0) {
		cannot(r, "/proc/meminfo");
	} else {
		if (proc_number(text, "MemTotal", &number))
			readings_put(r, HOST_MACHINE, "", HOST_MEMORY_BYTES, number * 1024);
		if (proc_number(text, "MemAvailable", &number))
			readings_put(r, HOST_MACHINE, "", HOST_AVAILABLE_BYTES, number * 1024);
		if (proc_number(text, "SwapTotal", &total) &&
		    proc_number(text, "SwapFree", &number))
			readings_put(r, HOST_MACHINE, "", HOST_SWAP_USED_BYTES,
				     (total - number) * 1024);
	}
	if (small_file_text("/proc/vmstat", text, sizeof(text)) <= 0) {
		cannot(r, "/proc/vmstat");
		return;
	}
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (proc_number(text, events[i].key, &number))
			readings_put(r, HOST_MACHINE, "", events[i].metric,
				     events[i].metric == HOST_MAJOR_FAULTS ? number
									   : number * page);
}

/* ---- disks and networks */

/* Whole disks: a part is in its whole, a loop and what is made of disks are in those. */
static bool is_disk(const char *name)
{
	char path[NAME_MOST + 32];

	if (strncmp(name, "loop", 4) == 0 || strncmp(name, "ram", 3) == 0 ||
	    strncmp(name, "dm-", 3) == 0 || strncmp(name, "md", 2) == 0)
		return false;
	snprintf(path, sizeof(path), "/sys/block/%s", name);
	return access(path, F_OK) == 0;
}

/* "MAJOR MINOR NAME READS MERGED SECTORS MS WRITES MERGED SECTORS MS IN_FLIGHT BUSY_MS ..." */
static void look_at_disks(const struct machine *m, struct readings *r)
{
	enum { READ_SECTORS = 2, WRITTEN_SECTORS = 6, BUSY_MS = 9, NUMBERS };
	char *text = read_whole(m, r, "/proc/diskstats"), *at = text, *line;

	while (text && (line = proc_line(&at))) {
		char name[NAME_MOST];
		int64_t n[NUMBERS];
		int end = 0;

		if (sscanf(line, "%*d %*d %63s%n", name, &end) != 1 ||
		    proc_numbers(line + end, n, NUMBERS) < NUMBERS)
			continue;
		if ((!n[READ_SECTORS] && !n[WRITTEN_SECTORS]) || !is_disk(name))
			continue;
		readings_put(r, HOST_DISK, name, HOST_READ_BYTES, n[READ_SECTORS] * SECTOR);
		readings_put(r, HOST_DISK, name, HOST_WRITTEN_BYTES, n[WRITTEN_SECTORS] * SECTOR);
		readings_put(r, HOST_DISK, name, HOST_BUSY_NS, n[BUSY_MS] * 1000000);
	}
}

/* "NAME: BYTES PACKETS 6 more, BYTES ..." */
static void look_at_networks(const struct machine *m, struct readings *r, bool slow)
{
	enum { RECEIVED = 0, SENT = 8, NUMBERS };
	char *text = read_whole(m, r, "/proc/net/dev"), *at = text, *line;

	while (text && (line = proc_line(&at))) {
		char *colon = strchr(line, ':'), *name = line + strspn(line, " "), path[128];
		int64_t n[NUMBERS], megabits;

		if (!colon)
			continue;
		*colon = '\0';
		if (proc_numbers(colon + 1, n, NUMBERS) < NUMBERS || strlen(name) >= NAME_MOST ||
		    (!n[RECEIVED] && !n[SENT]))
			continue;
		readings_put(r, HOST_NETWORK, name, HOST_RECEIVED_BYTES, n[RECEIVED]);
		readings_put(r, HOST_NETWORK, name, HOST_SENT_BYTES, n[SENT]);
		snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
		if (slow && proc_file_number(path, &megabits) && megabits > 0)
			readings_put(r, HOST_NETWORK, name, HOST_LINK_BYTES_PER_S,
				     megabits * 125000);
	}
}

/* ---- nodes of memory */

static void look_at_nodes(const struct machine *m, struct readings *r)
{
	static const struct {
		const char *word;
		enum host_metric metric;
	} memory[] = { { "MemTotal:", HOST_MEMORY_BYTES }, { "MemFree:", HOST_FREE_BYTES } };
	char text[4096], path[96], name[24];
	int64_t number;

	for (size_t node = 0; node < m->nodes; node++) {
		snprintf(name, sizeof(name), "%zu", node);
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%zu/meminfo", node);
		small_file_text(path, text, sizeof(text));
		for (size_t i = 0; i < 2; i++) {
			const char *at = strstr(text, memory[i].word);

			if (at && proc_numbers(at + strlen(memory[i].word), &number, 1))
				readings_put(r, HOST_NODE, name, memory[i].metric, number * 1024);
		}
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%zu/numastat", node);
		small_file_text(path, text, sizeof(text));
		if (proc_number(text, "other_node", &number))
			readings_put(r, HOST_NODE, name, HOST_FOREIGN_PAGES, number);
	}
}

struct node_fill {
	struct machine *m;
	size_t node, capacity;
};

static void take_processor(void *arg, unsigned int cpu)
{
	struct node_fill *fill = arg;
	struct machine *m = fill->m;

	if (array_grow(&m->node_of, &fill->capacity, cpu + 1, sizeof(*m->node_of)) < 0)
		return;
	while (m->n_node_of <= cpu)
		m->node_of[m->n_node_of++] = 0;
	m->node_of[cpu] |= UINT64_C(1) << fill->node;
}

/* Which node a GPU is at, by its UUID: its driver has a folder for each, named as on the bus. */
static void tell_gpus(struct readings *r)
{
	DIR *dir = opendir("/proc/driver/nvidia/gpus");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char path[NAME_MAX + 64], text[2048], key[128], value[32];
		const char *uuid;
		int64_t node;

		snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information",
			 entry->d_name);
		if (entry->d_name[0] == '.' || small_file_text(path, text, sizeof(text)) <= 0)
			continue;
		uuid = proc_after(text, "GPU UUID");
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", entry->d_name);
		if (!uuid || !proc_file_number(path, &node) || node < 0)
			continue;
		snprintf(key, sizeof(key), "node of %.*s", (int)strcspn(uuid, " \t\n"), uuid);
		snprintf(value, sizeof(value), "%d", (int)node);
		readings_fact(r, key, value);
	}
	if (dir)
		closedir(dir);
}

void machine_init(struct machine *m, struct readings *r)
{
	struct node_fill fill = { .m = m };
	char path[96], text[4096];

	*m = (struct machine){ .tick_ns = INT64_C(1000000000) / sysconf(_SC_CLK_TCK),
			       .text = malloc(TEXT_MOST) };
	for (; m->nodes < MACHINE_NODES_MOST; m->nodes++) {
		fill.node = m->nodes;
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%zu/cpulist", m->nodes);
		if (small_file_text(path, text, sizeof(text)) < 0)
			break;
		proc_list(text, take_processor, &fill);
	}
	if (!m->nodes)
		cannot(r, "/sys/devices/system/node");
	else
		tell_gpus(r);
}

void machine_release(struct machine *m)
{
	free(m->node_of);
	free(m->text);
}

struct node_mask {
	const struct machine *m;
	uint64_t mask;
};

static void add_node(void *arg, unsigned int cpu)
{
	struct node_mask *nodes = arg;

	if (cpu < nodes->m->n_node_of)
		nodes->mask |= nodes->m->node_of[cpu];
}

uint64_t machine_nodes(const struct machine *m, const char *cpus)
{
	struct node_mask nodes = { .m = m };

	proc_list(cpus, add_node, &nodes);
	return nodes.mask;
}

void machine_look(struct machine *m, struct readings *r, int64_t now_ns)
{
	bool slow = !m->slow_ns || now_ns - m->slow_ns >= SLOW_NS;

	look_at_processors(m, r);
	look_at_pressure(r);
	look_at_memory(r);
	look_at_disks(m, r);
	look_at_networks(m, r, slow);
	if (!slow)
		return;
	m->slow_ns = now_ns;
	look_at_clocks(m, r);
	look_at_nodes(m, r);
}
