/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that watches the program's threads; see witness.h. The caller waits for a limited time;
 * the thread answers in its own memory and ends by itself.
 */
#include "probe/core/witness.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/held.h"
#include "base/wake.h"
#include "probe/core/life.h"

#define LEFT_CPU_NS INT64_C(1000000) /* leaving a call takes a small part of that */
#define LOOK_AGAIN_NS 100000

/* Owned by the watching thread, from `busy` to its end. */
static struct {
	struct witness_thread threads[WITNESS_THREADS];
	unsigned int n;
	int64_t until_ns;
} question;
static _Atomic bool busy, all_left;
static struct wake answered;

int64_t witness_cpu_ns(uint32_t thread)
{
	/* As in pthread_getcpuclockid, for a thread without a pthread_t. */
	clockid_t clock = (clockid_t)(~thread << 3 | 6);
	struct timespec t;

	return clock_gettime(clock, &t) == 0 ? t.tv_sec * INT64_C(1000000000) + t.tv_nsec : -1;
}

static bool left_by_clock(const struct witness_thread *thread)
{
	int64_t cpu_ns = witness_cpu_ns(thread->id);

	return cpu_ns < 0 || cpu_ns - thread->cpu_ns >= LEFT_CPU_NS;
}

bool witness_left_by_clock(const struct witness_thread *threads, unsigned int n)
{
	unsigned int left = 0;

	while (left < n && left_by_clock(&threads[left]))
		left++;
	return left == n;
}

/* Waiting for something, which nothing on the way out of a call does, or ending. */
static bool sleeps(uint32_t thread)
{
	char path[64], line[512];
	const char *word;
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%u/stat", thread);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, line, sizeof(line) - 1);
	close(fd);
	line[bytes > 0 ? bytes : 0] = 0;
	word = strrchr(line, ')');
	return word && word[1] == ' ' && word[2] && strchr("SZX", word[2]);
}

static bool all_have_left(void)
{
	unsigned int waiting = 0;

	for (unsigned int i = 0; i < question.n; i++)
		if (!left_by_clock(&question.threads[i]) && !sleeps(question.threads[i].id))
			question.threads[waiting++] = question.threads[i];
	question.n = waiting;
	return waiting == 0;
}

static void *look_thread(void *arg)
{
	const struct timespec moment = { .tv_nsec = LOOK_AGAIN_NS };
	bool left = false;

	life_thread_begins("moescope-look");
	if (held_private_table())
		while (!(left = all_have_left()) && clock_monotonic_ns() < question.until_ns)
			nanosleep(&moment, NULL);
	atomic_store(&all_left, left);
	wake_up(&answered);
	life_thread_ends();
	atomic_store(&busy, false);
	return arg;
}

bool witness_left(const struct witness_thread *threads, unsigned int n, int ms)
{
	pthread_t thread;

	if (witness_left_by_clock(threads, n))
		return true;
	if (n > WITNESS_THREADS || atomic_exchange(&busy, true))
		return false;
	memcpy(question.threads, threads, n * sizeof(*threads));
	question.n = n;
	question.until_ns = clock_monotonic_ns() + ms * INT64_C(1000000);
	atomic_store(&all_left, false);
	answered = (struct wake){ 0 };
	if (life_thread_create(&thread, look_thread, NULL) < 0) {
		atomic_store(&busy, false);
		return false;
	}
	pthread_detach(thread);
	return wake_wait(&answered, ms + 1) && atomic_load(&all_left);
}

void witness_after_fork(void)
{
	atomic_store(&busy, false);
}
