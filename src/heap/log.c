/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of samples; see log.h.
 */
#include "heap/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/files/held.h"
#include "base/hash_map.h"

#define NAMES_MOST 100 /* of one number of a process, in one run: it becomes another program */
#define PROBES 32      /* places that a node may be in */
#define FREES_SHARE 4  /* one of so many parts of the ring is for frees alone */
enum { NODE_FREE, NODE_CHANGING, NODE_COMPLETE };

struct heap_header *heap_log;

static char *part(uint64_t offset)
{
	return (char *)heap_log + offset;
}

static int64_t clock_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The file, new, and its place on the disk: a store to a hole on a full one would be a SIGBUS. */
static bool make_file(struct held_file *file, const char *run)
{
	char path[PATH_MAX];

	for (int i = 1; i <= NAMES_MOST; i++) {
		char number[16] = "";
		int r;

		if (i > 1)
			snprintf(number, sizeof(number), "-%d", i);
		if (snprintf(path, sizeof(path), "%s/%d%s" HEAP_SUFFIX, run, (int)getpid(),
			     number) >= (int)sizeof(path))
			return false;
		r = held_open(file, path, O_RDWR | O_CREAT | O_EXCL, 0600);
		if (r == -EEXIST)
			continue;
		if (r < 0)
			return false;
		if (held_allocate(file, 0, HEAP_FILE_BYTES) == 0)
			return true;
		held_close(file);
		unlink(path);
		return false;
	}
	return false;
}

bool log_open(const char *run, uint64_t distance)
{
	struct heap_header *header;
	struct held_file file;

	if (!held_numbers_to_spare() || !make_file(&file, run))
		return false;
	header = held_map(&file, 0, HEAP_FILE_BYTES);
	/* The number is the program's again; the mapping stays. */
	held_close(&file);
	if (!header)
		return false;
	header->pid = (uint32_t)getpid();
	header->monotonic_ns = clock_of(CLOCK_MONOTONIC);
	header->realtime_ns = clock_of(CLOCK_REALTIME);
	atomic_store(&header->distance, distance);
	heap_log = header;
	log_modules();
	/* Last: without it nobody reads the file. */
	atomic_thread_fence(memory_order_release);
	memcpy(header->magic, HEAP_MAGIC, sizeof(header->magic));
	return true;
}

bool log_event(const struct heap_event *event)
{
	uint64_t most = event->kind == HEAP_TAKEN ? HEAP_EVENTS - HEAP_EVENTS / FREES_SHARE
						  : HEAP_EVENTS;
	uint64_t at = atomic_load_explicit(&heap_log->head, memory_order_relaxed);
	struct heap_event *place;

	do {
		if (at - atomic_load_explicit(&heap_log->tail, memory_order_acquire) >= most) {
			atomic_fetch_add_explicit(event->kind == HEAP_TAKEN
							  ? &heap_log->dropped
							  : &heap_log->dropped_frees,
						  1, memory_order_relaxed);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&heap_log->head, &at, at + 1, memory_order_relaxed, memory_order_relaxed));
	place = (struct heap_event *)(void *)part(HEAP_EVENTS_AT) + at % HEAP_EVENTS;
	memcpy((char *)place + sizeof(place->turn), (const char *)event + sizeof(place->turn),
	       sizeof(*place) - sizeof(place->turn));
	atomic_store_explicit(&place->turn, at + 1, memory_order_release);
	return true;
}

uint32_t log_node(uint32_t parent, uint64_t function)
{
	struct heap_node *nodes = (struct heap_node *)(void *)part(HEAP_NODES_AT);
	uint32_t hash = (uint32_t)(hash_mix(hash_mix(parent, function), function >> 32));

	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t at = (hash + i) % HEAP_NODES, is = NODE_FREE;
		struct heap_node *node = &nodes[at];

		/* Whose is being filled may be the same: then there are two, and both are right. */
		if (atomic_load_explicit(&node->state, memory_order_acquire) == NODE_COMPLETE &&
		    node->parent == parent && node->function == function)
			return at + 1;
		if (!atomic_compare_exchange_strong_explicit(&node->state, &is, NODE_CHANGING,
							     memory_order_relaxed,
							     memory_order_relaxed))
			continue;
		node->parent = parent;
		node->function = function;
		atomic_store_explicit(&node->state, NODE_COMPLETE, memory_order_release);
		return at + 1;
	}
	atomic_fetch_add_explicit(&heap_log->shortened, 1, memory_order_relaxed);
	return parent;
}

uint64_t log_text(const char *text)
{
	uint16_t length = (uint16_t)strnlen(text, HEAP_TEXT_MOST);
	uint64_t at = atomic_fetch_add(&heap_log->texts_used, sizeof(length) + length);

	/* In this order: anybody may have written the number. */
	if (at > HEAP_TEXT_BYTES - sizeof(length) - length)
		return 0;
	memcpy(part(HEAP_TEXTS_AT + at), &length, sizeof(length));
	memcpy(part(HEAP_TEXTS_AT + at + sizeof(length)), text, length);
	return HEAP_TEXT_BIT | at;
}

/* A line as in /proc/PID/maps for each part with code. The file's number is not known here. */
static int put_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = info->dlpi_name;
	uint64_t *used = arg, page = (uint64_t)getpagesize();
	char program[PATH_MAX];
	ssize_t n;

	(void)size;
	if (!name[0]) {
		n = readlink("/proc/self/exe", program, sizeof(program) - 1);
		if (n <= 0)
			return 0;
		program[n] = '\0';
		name = program;
	}
	if (name[0] != '/')
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *load = &info->dlpi_phdr[i];
		uint64_t start = (info->dlpi_addr + load->p_vaddr) & ~(page - 1);
		uint64_t end = info->dlpi_addr + load->p_vaddr + load->p_memsz;
		int written;

		if (load->p_type != PT_LOAD || !(load->p_flags & PF_X))
			continue;
		written = snprintf(part(HEAP_MAPS_AT + *used), HEAP_MAPS_BYTES - *used,
				   "%llx-%llx r-xp %llx 0:0 0 %s\n", (unsigned long long)start,
				   (unsigned long long)end,
				   (unsigned long long)(load->p_offset & ~(page - 1)), name);
		if (written < 0 || *used + (uint64_t)written >= HEAP_MAPS_BYTES)
			return 1;
		*used += (uint64_t)written;
	}
	return 0;
}

void log_modules(void)
{
	uint64_t used = 0;

	dl_iterate_phdr(put_module, &used);
}
