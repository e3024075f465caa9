/* SPDX-License-Identifier: Apache-2.0
 *
 * local: points run on this machine, in order. A GPU runs one point at a time, so points run in
 * parallel only if each has its own GPUs; without GPUs they run one at a time, because two would
 * measure each other. One thread.
 *
 * A point is a process group. SIGTERM ends it, so that it can end its own program and write what it
 * knows; SIGKILL follows if it does not.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/driver/gpu_devices.h"
#include "lab/launcher.h"
#include "lab/shared/child.h"
#include "lab/shared/process.h"

#define SECOND INT64_C(1000000000)
#define GRACE_S 20.0 /* from SIGTERM to SIGKILL */
/* bench enforces the limit itself; this is for one that does not end. */
#define LATE_NS (60 * SECOND)

static const int end_signals[] = { SIGTERM, 0 };

struct slot {
	struct child child; /* pid 0: the slot is free */
	size_t point;
	int64_t deadline_ns; /* INT64_MAX: none */
	bool late;	     /* its time was up */
	bool alone;	     /* it has no GPUs, so nothing may run alongside */
};

struct pool {
	struct sweep *sweep;
	const struct lab_tools *tools;
	const struct sweep_watch *watch;
	struct process_signals signals;
	struct texts gpus;
	size_t *user; /* of each GPU: its slot number, from 1; 0: free */
	struct slot *slots;
	size_t n_slots, running;
	struct err *err;
};

static int add_number(struct texts *texts, size_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%zu", number);
	return texts_add(texts, text);
}

/* Those of the configuration, of CUDA_VISIBLE_DEVICES, or all. */
static int find_gpus(struct pool *pool)
{
	const struct texts *given = &pool->sweep->base.gpus;
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct gpu_devices devices;
	int r = 0;

	for (size_t i = 0; r == 0 && i < given->n; i++)
		r = texts_add(&pool->gpus, given->v[i]);
	if (r < 0 || given->n)
		return r;
	if (visible) {
		char *copy = strdup(visible), *rest = NULL;

		for (char *word = copy ? strtok_r(copy, ", ", &rest) : NULL; word && r == 0;
		     word = strtok_r(NULL, ", ", &rest))
			r = texts_add(&pool->gpus, word);
		free(copy);
		return copy ? r : -ENOMEM;
	}
	if (gpu_devices_open(&devices, NULL) < 0)
		return 0; /* no driver, no GPUs */
	for (size_t i = 0; r == 0 && i < devices.n; i++)
		r = add_number(&pool->gpus, devices.device[i].index);
	return r;
}

/* How many GPUs a point takes, or -errno. */
static int64_t gpus_needed(const struct pool *pool, size_t point)
{
	struct experiment experiment;
	int64_t n;
	int r = sweep_experiment(pool->sweep, point, &experiment, pool->err);

	if (r < 0)
		return r;
	n = pool->gpus.n ? launcher_gpus(&experiment) : 0;
	/* Processes may share a GPU, unless the model itself needs more. */
	if (n > (int64_t)pool->gpus.n && experiment_parallel(&experiment) <= (int64_t)pool->gpus.n)
		n = (int64_t)pool->gpus.n;
	experiment_release(&experiment);
	return n;
}

static size_t free_gpus(const struct pool *pool)
{
	size_t n = 0;

	for (size_t i = 0; i < pool->gpus.n; i++)
		n += pool->user[i] == 0;
	return n;
}

/* "0,3", and marks those GPUs as used. */
static char *take_gpus(struct pool *pool, size_t place, int64_t n)
{
	struct buf list = { 0 };

	for (size_t i = 0; i < pool->gpus.n && n > 0; i++) {
		if (pool->user[i])
			continue;
		pool->user[i] = place + 1;
		buf_printf(&list, "%s%s", list.size ? "," : "", pool->gpus.v[i]);
		n--;
	}
	buf_append(&list, "", 1);
	if (!list.failed)
		return list.data;
	buf_release(&list);
	return NULL;
}

static void give_back(struct pool *pool, size_t place)
{
	for (size_t i = 0; i < pool->gpus.n; i++)
		if (pool->user[i] == place + 1)
			pool->user[i] = 0;
	pool->slots[place] = (struct slot){ 0 };
	pool->running--;
}

static int open_log(const struct sweep *sweep, size_t point, struct err *err)
{
	char *path = sweep_path(sweep, "queue/%zu.log", point + 1);
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;

	if (!path)
		fd = err_set(err, -ENOMEM, "no memory.");
	else if (fd < 0)
		fd = err_sys(err, -errno, "%s: cannot open", path);
	free(path);
	return fd;
}

static int gpu_variables(const char *gpus, struct texts *ret_texts)
{
	int r;

	if (!*gpus)
		return 0;
	r = texts_add(ret_texts, "CUDA_VISIBLE_DEVICES");
	if (r == 0)
		r = texts_add(ret_texts, gpus);
	/* Numbers here are NVML's, which follow the bus order. */
	if (r == 0 && !getenv("CUDA_DEVICE_ORDER")) {
		r = texts_add(ret_texts, "CUDA_DEVICE_ORDER");
		if (r == 0)
			r = texts_add(ret_texts, "PCI_BUS_ID");
	}
	return r;
}

static int start_bench(struct pool *pool, struct slot *slot, const char *gpus)
{
	char *config = sweep_path(pool->sweep, "queue/%zu.yaml", slot->point + 1);
	char *argv[] = { (char *)pool->tools->moescope, (char *)"bench", (char *)"--config", config,
			 NULL };
	struct texts environment = { NULL, 0 };
	int fd, r = config ? gpu_variables(gpus, &environment) : -ENOMEM;

	if (r < 0) {
		err_set(pool->err, r, "no memory.");
	} else {
		fd = r = open_log(pool->sweep, slot->point, pool->err);
		if (r >= 0) {
			r = child_start(&slot->child, argv, &environment, fd, pool->err);
			close(fd);
		}
	}
	texts_release(&environment);
	free(config);
	return r;
}

static int64_t limit_of(const struct sweep *sweep, size_t point)
{
	struct experiment experiment;
	double limit_s;

	if (sweep_experiment(sweep, point, &experiment, NULL) < 0)
		return INT64_MAX;
	limit_s = experiment.time_limit_s;
	experiment_release(&experiment);
	return limit_s > 0 ? clock_monotonic_ns() + (int64_t)(limit_s * 1e9) + LATE_NS : INT64_MAX;
}

static int start_point(struct pool *pool, size_t point, int64_t gpus)
{
	size_t place = 0;
	struct slot *slot;
	char *list;
	int r;

	while (pool->slots[place].child.pid)
		place++;
	slot = &pool->slots[place];
	list = take_gpus(pool, place, gpus);
	if (!list)
		return err_set(pool->err, -ENOMEM, "no memory.");
	*slot = (struct slot){ .point = point,
			       .deadline_ns = limit_of(pool->sweep, point),
			       .alone = gpus == 0 };
	pool->running++;
	r = sweep_started(pool->sweep, point, pool->err);
	if (r == 0)
		r = start_bench(pool, slot, list);
	if (r < 0)
		give_back(pool, place);
	else if (pool->watch->started)
		pool->watch->started(pool->watch->arg, pool->sweep, point, list);
	free(list);
	return r;
}

static int point_ended(struct pool *pool, size_t point, enum sweep_state state, const char *why)
{
	int r = sweep_ended(pool->sweep, point, state, why, pool->err);

	if (r == 0 && pool->watch->ended)
		pool->watch->ended(pool->watch->arg, pool->sweep, point);
	return r;
}

static bool has_room(const struct pool *pool, int64_t gpus)
{
	for (size_t i = 0; i < pool->n_slots; i++)
		if (pool->slots[i].child.pid && pool->slots[i].alone)
			return false;
	return gpus == 0 ? pool->running == 0 : gpus <= (int64_t)free_gpus(pool);
}

/* In order: a point that needs more GPUs than are free waits, and so do those after it. */
static int start_some(struct pool *pool)
{
	for (size_t i = 0; i < pool->sweep->n; i++) {
		char why[160];
		int64_t n;
		int r;

		if (pool->sweep->points[i].state != SWEEP_WAITING)
			continue;
		n = gpus_needed(pool, i);
		if (n < 0)
			return (int)n;
		if (n > (int64_t)pool->gpus.n) {
			snprintf(why, sizeof(why), "It needs %lld GPUs, and the sweep has %zu.",
				 (long long)n, pool->gpus.n);
			r = point_ended(pool, i, SWEEP_FAILED, why);
		} else if (!has_room(pool, n)) {
			return 0;
		} else {
			r = start_point(pool, i, n);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

/* stopping: what has ended now was ended by us, and is done again by a resume. */
static int reap_points(struct pool *pool, bool stopping)
{
	for (size_t place = 0; place < pool->n_slots; place++) {
		struct slot slot = pool->slots[place];
		char verdict[VERDICT_MAX], why[VERDICT_MAX + 64];
		int r;

		if (!slot.child.pid || child_alive(&slot.child))
			continue;
		/* Leftovers in its process group would disturb the next one. */
		child_end(&slot.child, end_signals, 0);
		give_back(pool, place);
		if (stopping)
			continue;
		child_verdict(&slot.child, verdict, sizeof(verdict));
		if (slot.late)
			snprintf(why, sizeof(why), "It did not end within its time limit.");
		else
			snprintf(why, sizeof(why), "moescope bench %s and left no summary.json.",
				 *verdict ? verdict : "ended");
		r = point_ended(pool, slot.point, slot.late ? SWEEP_TIMEOUT : SWEEP_FAILED, why);
		if (r < 0)
			return r;
	}
	return 0;
}

static int64_t next_deadline(const struct pool *pool)
{
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < pool->n_slots; i++)
		if (pool->slots[i].child.pid && pool->slots[i].deadline_ns < next)
			next = pool->slots[i].deadline_ns;
	return next;
}

static void keep_deadlines(struct pool *pool)
{
	for (size_t i = 0; i < pool->n_slots; i++) {
		struct slot *slot = &pool->slots[i];

		if (!slot->child.pid || slot->deadline_ns > clock_monotonic_ns())
			continue;
		slot->late = true;
		slot->deadline_ns = INT64_MAX;
		child_end(&slot->child, end_signals, GRACE_S);
	}
}

/* The signal if it is not a child's, or 0. */
static int wait_for_something(struct pool *pool)
{
	int64_t next = next_deadline(pool), now = clock_monotonic_ns();
	int signal = process_signals_wait(&pool->signals, next == INT64_MAX ? -1
							  : next > now	    ? next - now
									    : 0);

	keep_deadlines(pool);
	return signal == SIGCHLD ? 0 : signal;
}

static int stop_points(struct pool *pool)
{
	int r = reap_points(pool, false); /* those that had ended before count */

	for (size_t i = 0; i < pool->n_slots; i++)
		if (pool->slots[i].child.pid)
			kill(pool->slots[i].child.pid, SIGTERM); /* all at once, then one by one */
	for (size_t i = 0; i < pool->n_slots; i++)
		if (pool->slots[i].child.pid)
			child_wait(&pool->slots[i].child,
				   clock_monotonic_ns() + (int64_t)(GRACE_S * 1e9), NULL);
	for (size_t i = 0; i < pool->n_slots; i++)
		if (pool->slots[i].child.pid)
			child_end(&pool->slots[i].child, end_signals, 0);
	return r < 0 ? r : reap_points(pool, true);
}

static int run_all(struct pool *pool, int *ret_signal)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < pool->sweep->n; i++)
		if (pool->sweep->points[i].state == SWEEP_UNDER_WAY)
			r = sweep_recover(pool->sweep, i, pool->err);
	while (r == 0) {
		int signal;

		r = start_some(pool);
		if (r < 0 || pool->running == 0)
			break;
		signal = wait_for_something(pool);
		if (signal) {
			r = stop_points(pool);
			*ret_signal = signal;
			return r < 0 ? r : -EINTR;
		}
		/* All of them: signals of children that end together are one. */
		r = reap_points(pool, false);
	}
	if (r < 0) {
		/* An event that cannot be recorded has not happened: report the reason, and leave
		 * nothing running. */
		struct err kept = *pool->err;

		stop_points(pool);
		*pool->err = kept;
	}
	return r;
}

static int run_local(struct sweep *sweep, const struct lab_tools *tools,
		     const struct sweep_watch *watch, int *ret_signal, struct err *err)
{
	struct pool pool = { .sweep = sweep, .tools = tools, .watch = watch, .err = err };
	int r = find_gpus(&pool);

	pool.n_slots = pool.gpus.n ? pool.gpus.n : 1;
	pool.user = calloc(pool.n_slots, sizeof(*pool.user));
	pool.slots = calloc(pool.n_slots, sizeof(*pool.slots));
	if (r < 0 || !pool.user || !pool.slots) {
		r = err_set(err, -ENOMEM, "no memory.");
	} else {
		process_signals_block(&pool.signals);
		r = run_all(&pool, ret_signal);
		process_signals_restore(&pool.signals);
	}
	free(pool.slots);
	free(pool.user);
	texts_release(&pool.gpus);
	return r;
}

const struct launcher launcher_local = {
	.name = "local",
	.summary = "here, one point at a time for each GPU",
	.run = run_local,
};
