/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests of what runs inside a program: each scenario in a forked process of its own, in a
 * directory of its own, whose run the test then loads. A scenario checks what only it can see (CHECK
 * ends it with status 1). Include after cmocka.h, once per program.
 */
#ifndef TESTS_CHILD_H
#define TESTS_CHILD_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "table_rows.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static char *directory; /* of the test that runs; scenarios run in it */

static inline int set_up(void **state)
{
	(void)state;
	directory = temporary_directory();
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	remove_directory(directory);
	return 0;
}

static void (*prepare)(void); /* of every scenario, before it runs */

/* Runs a scenario in a process of its own; its exit status, or -signal. */
static inline int in_child(void (*scenario)(void))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(600);
		CHECK(chdir(directory) == 0);
		if (prepare)
			prepare();
		scenario();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline struct run *load_run(const char *name)
{
	char *path = path_in(directory, name);
	struct run *run = load(path);

	free(path);
	return run;
}

/* The run that a scenario left in "run.mscope". */
static inline struct run *run_of(void (*scenario)(void))
{
	assert_int_equal(in_child(scenario), 0);
	return load_run("run.mscope");
}

#endif
