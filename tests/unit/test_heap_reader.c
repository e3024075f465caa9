/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of samples, as libmoescope-heap.so leaves them, into shards: what is complete, what is not, and what nobody could
 * have written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "heap/gap.h"
#include "host/heap.h"
#include "tables/tables.h"
#include "trace/heap_file.h"

static char *file; /* of samples, in memory */
static char folder[64];

static struct heap_header *header(void)
{
	return (struct heap_header *)(void *)file;
}

static void fresh_file(void)
{
	memset(file, 0, HEAP_FILE_BYTES);
	memcpy(header()->magic, HEAP_MAGIC, 8);
	header()->pid = (uint32_t)getpid();
	header()->distance = 1000;
}

static void event(uint64_t number, uint32_t kind, uint64_t sample, uint64_t size, uint32_t node)
{
	struct heap_event *e = (struct heap_event *)(void *)(file + HEAP_EVENTS_AT) +
			       number % HEAP_EVENTS;

	*e = (struct heap_event){ .time_ns = 1000 + (int64_t)number,
				  .sample = sample,
				  .size = size,
				  .distance = 1000,
				  .kind = kind,
				  .thread = 5,
				  .node = node };
	e->turn = number + 1;
	header()->head = number + 1;
}

static void node(uint32_t place, uint32_t parent, uint64_t function)
{
	struct heap_node *n = (struct heap_node *)(void *)(file + HEAP_NODES_AT) + place;

	n->parent = parent;
	n->function = function;
	n->state = 2;
}

static uint64_t text(uint64_t at, const char *words)
{
	uint16_t length = (uint16_t)strlen(words);

	memcpy(file + HEAP_TEXTS_AT + at, &length, 2);
	memcpy(file + HEAP_TEXTS_AT + at + 2, words, length);
	return HEAP_TEXT_BIT | at;
}

/* The run that the reader makes of it; NULL: no shard. */
static struct run *read_file(struct heap_end *end)
{
	struct heap *heap = NULL;
	struct run *run = NULL;
	struct err err = { "" };
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/77.heap", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, file, HEAP_FILE_BYTES), HEAP_FILE_BYTES);
	close(fd);
	assert_int_equal(heap_start(&heap, folder, &err), 0);
	assert_int_equal(heap_stop(heap, end, &err), 0);
	assert_int_equal(access(path, F_OK), -1); /* it is not needed any more */
	snprintf(path, sizeof(path), "%s/0-77-heap.mst", folder);
	if (access(path, F_OK) == 0) {
		assert_int_equal(run_load(path, NULL, &run, &err), 0);
		unlink(path);
	}
	return run;
}

static void test_complete(void **state)
{
	struct heap_end end;
	struct run *run;

	(void)state;
	fresh_file();
	node(3, 0, text(0, "main (a.py:1)"));
	node(9, 4, text(100, "inner (a.py:5)"));
	event(0, HEAP_TAKEN, 1, 100000, 10);
	event(1, HEAP_TAKEN, 2, 10, 4);
	event(2, HEAP_FREED, 1, 0, 0);
	event(3, HEAP_FREED, 88, 0, 0); /* of a sample that was dropped */
	event(4, HEAP_TAKEN, 3, 10, 4);
	/* This one was never complete: what comes after it is. */
	event(5, HEAP_TAKEN, 4, 10, 4);
	((struct heap_event *)(void *)(file + HEAP_EVENTS_AT))[4].turn = 0;
	header()->dropped = 12;
	run = read_file(&end);
	assert_non_null(run);
	assert_int_equal(end.processes, 1);
	assert_int_equal(end.samples, 3);
	assert_int_equal(run->shards[0].role, ROLE_HEAP);
	assert_int_equal(run->heap_sample.n, 4);
	assert_int_equal(run->heap_sample.bytes[0], 100000);
	/* 10 / (1 - exp(-0.01)) */
	assert_int_equal(run->heap_sample.bytes[1], 1005);
	assert_int_equal(run->heap_sample.event[2], HEAP_SAMPLE_FREED);
	assert_int_equal(run->heap_sample.bytes[2], 100000);
	assert_int_equal(run->heap_sample.held_ns[2], 2);
	assert_int_equal(run->heap_sample.stack[2], run->heap_sample.stack[0]);
	assert_int_equal(run->stack.n, 2);
	assert_string_equal(run_string(run, run->stack.name[1]), "inner (a.py:5)");
	assert_int_equal(run->stack.parent[1], run->stack.id[0]);
	assert_non_null(strstr(run_fact(run, "heap"), "12 samples were dropped"));
	run_free(run);
}

static void put_file(const char *path)
{
	char making[140];
	int fd;

	snprintf(making, sizeof(making), "%s/making", folder);
	fd = open(making, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_int_equal(write(fd, file, HEAP_FILE_BYTES), HEAP_FILE_BYTES);
	close(fd);
	assert_int_equal(rename(making, path), 0);
}

/* A program that has called exec: the name is free while the first file is still in use, and is taken again. */
static void test_same_name(void **state)
{
	char path[128], event_room[512];
	struct heap *heap = NULL;
	struct err err = { "" };
	struct heap_end end;
	struct run *run;
	int watch = inotify_init1(IN_CLOEXEC);

	(void)state;
	fresh_file();
	event(0, HEAP_TAKEN, 1, 10, 0);
	snprintf(path, sizeof(path), "%s/77.heap", folder);
	put_file(path);
	assert_true(inotify_add_watch(watch, folder, IN_DELETE) >= 0);
	assert_int_equal(heap_start(&heap, folder, &err), 0);
	assert_true(read(watch, event_room, sizeof(event_room)) > 0);
	close(watch);
	put_file(path);
	assert_int_equal(heap_stop(heap, &end, &err), 0);
	assert_int_equal(end.processes, 2);
	assert_int_equal(access(path, F_OK), -1);
	for (int i = 1; i <= 2; i++) {
		snprintf(path, sizeof(path), "%s/0-77%s-heap.mst", folder, i == 1 ? "" : "-2");
		assert_int_equal(run_load(path, NULL, &run, &err), 0);
		assert_int_equal(run->heap_sample.n, 1);
		run_free(run);
		unlink(path);
	}
}

/* Stacks that are their own callers have each function once. */
static void test_circle(void **state)
{
	struct heap_end end;
	struct run *run;

	(void)state;
	fresh_file();
	node(3, 10, text(0, "first"));
	node(9, 4, text(100, "second"));
	node(20, 21, text(200, "alone"));
	event(0, HEAP_TAKEN, 1, 10, 10);
	event(1, HEAP_TAKEN, 2, 10, 4);
	event(2, HEAP_TAKEN, 3, 10, 21);
	run = read_file(&end);
	assert_non_null(run);
	assert_int_equal(run->heap_sample.n, 3);
	assert_int_equal(run->stack.n, 3);
	run_free(run);
}

/* A program can write anything into its own memory. */
static void test_damaged(void **state)
{
	struct heap_end end;
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 40; i++) {
		struct run *run;

		fresh_file();
		for (uint64_t k = 0; k < 200; k++)
			event(k, (uint32_t)(gap_random(&seed) % 4), gap_random(&seed) % 50,
			      gap_random(&seed), (uint32_t)gap_random(&seed) % (2 * HEAP_NODES));
		for (uint32_t k = 0; k < HEAP_NODES; k++)
			node(k, (uint32_t)gap_random(&seed) % (HEAP_NODES + 9),
			     gap_random(&seed) >> (i % 2 ? 0 : 40));
		for (size_t k = 0; i % 3 == 0 && k < 1000; k++)
			file[64 + gap_random(&seed) % (HEAP_FILE_BYTES - 64)] =
				(char)gap_random(&seed);
		if (i % 5 == 4)
			header()->head = gap_random(&seed);
		run = read_file(&end);
		run_free(run);
	}
	/* Circles of stacks. */
	fresh_file();
	node(0, 2, text(0, "a"));
	node(1, 1, text(10, "b"));
	event(0, HEAP_TAKEN, 1, 10, 1);
	run_free(read_file(&end));
	assert_int_equal(end.samples, 1);
	/* None of ours. */
	memset(file, 0, 8);
	assert_null(read_file(&end));
	assert_int_equal(end.processes, 0);
}

static int set_up(void **state)
{
	(void)state;
	file = malloc(HEAP_FILE_BYTES);
	snprintf(folder, sizeof(folder), "/tmp/moescope-heap-XXXXXX");
	return file && mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	free(file);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_complete),
		cmocka_unit_test(test_same_name),
		cmocka_unit_test(test_circle),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
