/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under a program; see watch.h.
 */
#include "host/machine/watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/wake.h"
#include "host/machine/limits.h"
#include "host/machine/machine.h"
#include "host/machine/program.h"

#define MS INT64_C(1000000)
#define LOOK_NS (250 * MS) /* from look to look, at least */
#define LOOK_MOST_NS (5000 * MS)
#define FIRST_LOOKS 4 /* closer to each other: a program may be short */
#define FIRST_NS (50 * MS)
#define OTHERS_NS (2000 * MS) /* from look to look at other processes, at least */
#define OTHERS_FIRST_NS (500 * MS)
#define SHARE 3000     /* of a processor for looks, and as much for those at others */
#define LIMITS_EVERY 8 /* looks */
#define WRITE_NS (2000 * MS)
#define GLANCE_NS (25 * MS) /* from glance to glance, at least */
#define GLANCE_SHARE 5000   /* of a processor for them */

struct watch {
	pthread_t thread;
	struct wake wake;
	_Atomic bool ends;
	pid_t pid;
	struct readings *readings;
	struct machine machine;
	struct limits limits;
	struct program *program;
	int64_t looks, cost_ns; /* cost: of a look, a running mean */
	int64_t others_ns, others_wait_ns, written_ns;
};

/* Others are as many as they are: how often they are looked at is told apart. */
static void look_at_others(struct watch *w, int64_t now_ns)
{
	int64_t cost_ns = clock_thread_cpu_ns();

	program_look_at_others(w->program, &w->machine, w->readings, now_ns);
	cost_ns = (clock_thread_cpu_ns() - cost_ns) * SHARE;
	w->others_wait_ns = !w->others_ns	  ? OTHERS_FIRST_NS
			    : cost_ns > OTHERS_NS ? cost_ns
						  : OTHERS_NS;
	w->others_ns = now_ns;
}

static void look(struct watch *w)
{
	int64_t now_ns = clock_monotonic_ns(), cost_ns = clock_thread_cpu_ns();

	readings_at(w->readings, now_ns);
	if (w->looks % LIMITS_EVERY == 0)
		limits_find(&w->limits, w->readings, w->pid);
	readings_put(w->readings, HOST_MACHINE, "", HOST_LOOKS, ++w->looks);
	program_look(w->program, &w->machine, w->readings, now_ns);
	machine_look(&w->machine, w->readings, now_ns);
	limits_look(&w->limits, w->readings);
	readings_put(w->readings, HOST_MACHINE, "", HOST_OWN_NS, clock_thread_cpu_ns());
	if (now_ns - w->written_ns >= WRITE_NS) {
		w->written_ns = now_ns;
		readings_write(w->readings);
	}
	cost_ns = clock_thread_cpu_ns() - cost_ns;
	w->cost_ns = w->looks == 1 ? cost_ns : (3 * w->cost_ns + cost_ns) / 4;
	if (now_ns - w->others_ns >= w->others_wait_ns)
		look_at_others(w, now_ns);
}

static int64_t wait_of(const struct watch *w)
{
	int64_t wait_ns = w->cost_ns * SHARE;

	if (w->looks <= FIRST_LOOKS)
		return FIRST_NS;
	return wait_ns < LOOK_NS ? LOOK_NS : wait_ns > LOOK_MOST_NS ? LOOK_MOST_NS : wait_ns;
}

/* Until the next look, or the end. */
static void glance(struct watch *w, int64_t until_ns)
{
	int64_t wait_ns = GLANCE_NS, left_ns;

	while (!w->ends && (left_ns = until_ns - clock_monotonic_ns()) > 0) {
		int64_t before_ns, now_ns;

		if (wake_wait(&w->wake, (int)((left_ns < wait_ns ? left_ns : wait_ns) / MS) + 1))
			continue;
		before_ns = clock_thread_cpu_ns();
		now_ns = clock_monotonic_ns();
		readings_at(w->readings, now_ns);
		program_glance(w->program, w->readings, now_ns);
		wait_ns = (clock_thread_cpu_ns() - before_ns) * GLANCE_SHARE;
		wait_ns = wait_ns < GLANCE_NS ? GLANCE_NS : wait_ns;
	}
}

static void *watch_machine(void *arg)
{
	struct watch *w = arg;

	while (!w->ends) {
		look(w);
		glance(w, clock_monotonic_ns() + wait_of(w));
	}
	look(w); /* up to the end */
	return NULL;
}

static void watch_free(struct watch *w)
{
	program_free(w->program);
	machine_release(&w->machine);
	free(w);
}

int watch_start(struct watch **ret_watch, const char *run, pid_t pid, struct err *err)
{
	struct watch *w = calloc(1, sizeof(*w));
	sigset_t all, before;
	int r;

	if (!w || !(w->program = program_new(pid))) {
		free(w);
		return err_sys(err, -ENOMEM, "host: cannot start");
	}
	w->pid = pid;
	r = readings_open(&w->readings, run, pid, err);
	if (r < 0) {
		watch_free(w);
		return r;
	}
	machine_init(&w->machine, w->readings);
	w->written_ns = clock_monotonic_ns();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&w->thread, NULL, watch_machine, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r < 0) {
		readings_close(w->readings, NULL);
		watch_free(w);
		return err_sys(err, r, "host: cannot start a thread");
	}
	*ret_watch = w;
	return 0;
}

int watch_stop(struct watch *w, struct err *err)
{
	int r;

	if (!w)
		return 0;
	w->ends = true;
	wake_up(&w->wake);
	pthread_join(w->thread, NULL);
	r = readings_close(w->readings, err);
	watch_free(w);
	return r;
}
