/* SPDX-License-Identifier: Apache-2.0
 *
 * slurm: a job array, one task per point. Points that need different resources are in different
 * arrays. The state of tasks comes from squeue, and from sacct once squeue has forgotten them; as
 * with every launcher, a point's summary.json says how it went. One thread.
 *
 * Job names contain the sweep's id. So a killed sweep finds its tasks again when it is resumed,
 * including those submitted but not recorded yet, and waits for them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/whole_file.h"
#include "base/text/shell_word.h"
#include "lab/launcher.h"
#include "lab/point.h"
#include "lab/shared/process.h"

#define SECOND INT64_C(1000000000)
#define POLL_MAX_NS (8 * SECOND) /* while nothing changes; a quarter of a second at first */
#define POLL_MIN_NS (SECOND / 4)
#define CANCEL_NS (60 * SECOND)
#define PATIENCE 4 /* polls until a task's files must be visible here */

struct slurm_task {
	char job[64], state[32], nodes[256];
	size_t point;
};

struct cluster {
	struct sweep *sweep;
	const struct lab_tools *tools;
	const struct sweep_watch *watch;
	struct process_signals signals;
	struct slurm_task *tasks; /* as squeue has them now */
	size_t n_tasks, capacity;
	unsigned char *missing; /* per point: polls since it disappeared */
	bool *seen_running;
	bool complained; /* squeue failed last time */
	bool has_gpus;	 /* that can be asked for */
	char name[64];
	struct err *err;
};

static int no_memory(struct cluster *cluster)
{
	return err_set(cluster->err, -ENOMEM, "no memory.");
}

static void say_first_line(char *text)
{
	text[strcspn(text, "\n")] = '\0';
}

static bool state_in(const char *state, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(state, *list) == 0)
			return true;
	return false;
}

static bool is_live(const char *state)
{
	static const char *const live[] = { "PENDING",	   "RUNNING",	    "SUSPENDED",
					    "CONFIGURING", "COMPLETING",    "STAGE_OUT",
					    "SIGNALING",   "REQUEUED",	    "REQUEUE_HOLD",
					    "RESIZING",	   "STOPPED",	    "SPECIAL_EXIT",
					    "REQUEUE_FED", "RESV_DEL_HOLD", NULL };

	return state_in(state, live);
}

static bool node_has_died(const char *state)
{
	return state_in(state, (const char *const[]){ "NODE_FAIL", "BOOT_FAIL", NULL });
}

/* "JOB|INDEX|STATE|NODES" */
static int take_task(struct cluster *cluster, char *line)
{
	char *fields[4], *end;
	struct slurm_task *task;
	long index;

	for (int i = 0; i < 4; i++) {
		fields[i] = strsep(&line, "|");
		if (!fields[i])
			return 0;
	}
	index = strtol(fields[1], &end, 10);
	if (end == fields[1] || *end || index < 1 || index > (long)cluster->sweep->n)
		return 0;
	if (array_grow(&cluster->tasks, &cluster->capacity, cluster->n_tasks + 1,
		       sizeof(*cluster->tasks)) < 0)
		return no_memory(cluster);
	task = &cluster->tasks[cluster->n_tasks++];
	*task = (struct slurm_task){ .point = (size_t)index - 1 };
	snprintf(task->job, sizeof(task->job), "%s", fields[0]);
	snprintf(task->state, sizeof(task->state), "%s", fields[2]);
	snprintf(task->nodes, sizeof(task->nodes), "%s", fields[3]);
	return 0;
}

/* 1: squeue did not answer, and that has been said; the old list stays. */
static int look_at_queue(struct cluster *cluster)
{
	char name[80];
	char *argv[] = { (char *)"squeue",
			 (char *)"--noheader",
			 (char *)"--array",
			 (char *)"--states=all",
			 name,
			 (char *)"--format=%F|%K|%T|%N",
			 NULL };
	struct buf output = { 0 };
	char *rest, *line;
	int status, r;

	snprintf(name, sizeof(name), "--name=%s", cluster->name);
	r = process_capture(argv, &output, &status, cluster->err);
	if (r < 0)
		return r;
	if (status != 0) {
		say_first_line(output.data);
		if (!cluster->complained && cluster->watch->said) {
			char sentence[400];

			snprintf(sentence, sizeof(sentence),
				 "squeue does not answer (%.300s); asking again.", output.data);
			cluster->watch->said(cluster->watch->arg, sentence);
		}
		cluster->complained = true;
		buf_release(&output);
		return 1;
	}
	cluster->complained = false;
	cluster->n_tasks = 0;
	rest = output.data;
	while (r == 0 && (line = strsep(&rest, "\n")))
		r = take_task(cluster, line);
	buf_release(&output);
	return r;
}

static const struct slurm_task *task_of(const struct cluster *cluster, size_t point, bool live)
{
	const char *job = cluster->sweep->points[point].job;

	for (size_t i = 0; i < cluster->n_tasks; i++) {
		const struct slurm_task *task = &cluster->tasks[i];

		if (task->point == point &&
		    (live ? is_live(task->state) : strcmp(task->job, job) == 0))
			return task;
	}
	return NULL;
}

/* What accounting remembers about a task that squeue has forgotten. False: nothing. */
static bool ask_accounting(struct cluster *cluster, size_t point, struct slurm_task *ret_task)
{
	char job[100];
	char *argv[] = { (char *)"sacct",
			 (char *)"--noheader",
			 (char *)"--allocations",
			 (char *)"--parsable2",
			 job,
			 (char *)"--format=State,NodeList",
			 NULL };
	struct buf output = { 0 };
	int status;
	char *state;

	snprintf(job, sizeof(job), "--jobs=%s_%zu", cluster->sweep->points[point].job, point + 1);
	if (process_capture(argv, &output, &status, NULL) < 0)
		return false;
	say_first_line(output.data);
	state = strchr(output.data, '|');
	if (status == 0 && state) {
		*ret_task = (struct slurm_task){ .point = point };
		snprintf(ret_task->nodes, sizeof(ret_task->nodes), "%s", state + 1);
		output.data[strcspn(output.data, " |")] = '\0'; /* "CANCELLED by 0" */
		snprintf(ret_task->state, sizeof(ret_task->state), "%s", output.data);
	}
	buf_release(&output);
	return status == 0 && state;
}

/* What every task runs. Its log is where other launchers put theirs. */
static int write_script(struct cluster *cluster, char **ret_path)
{
	char *path = sweep_path(cluster->sweep, "slurm.sh");
	struct buf text = { 0 };
	int r;

	if (!path)
		return no_memory(cluster);
	buf_printf(&text, "#!/bin/sh\n# One task of a sweep; moescope sweep submits it.\nqueue=");
	shell_quote(&text, cluster->sweep->directory);
	buf_printf(&text, "/queue/$SLURM_ARRAY_TASK_ID\nexec >\"$queue.log\" 2>&1\n"
			  "if [ -e \"$queue.note\" ]; then " POINT_NOTE "=$(cat \"$queue.note\"); "
			  "export " POINT_NOTE "; fi\nexec ");
	shell_quote(&text, cluster->tools->moescope);
	buf_printf(&text, " bench --config \"$queue.yaml\"\n");
	r = text.failed ? no_memory(cluster)
			: whole_file_text(path, text.data, text.size, cluster->err);
	buf_release(&text);
	if (r == 0)
		*ret_path = path;
	else
		free(path);
	return r;
}

static bool asks_for_gpus(const struct texts *args)
{
	for (size_t i = 0; i < args->n; i++)
		if (strstr(args->v[i], "gpu") || strncmp(args->v[i], "--gres", 6) == 0)
			return true;
	return false;
}

/* A cluster that does not count its GPUs rejects jobs that request some. */
static int look_for_gpus(struct cluster *cluster)
{
	char *argv[] = { (char *)"sinfo", (char *)"--noheader", (char *)"--format=%G", NULL };
	struct buf output = { 0 };
	int status, r = process_capture(argv, &output, &status, cluster->err);

	if (r < 0)
		return r;
	cluster->has_gpus = status == 0 && strstr(output.data, "gpu");
	buf_release(&output);
	return 0;
}

/* The options of sbatch that say what a point needs. */
static int request_resources(const struct cluster *cluster, size_t point, struct argv *argv)
{
	struct err *err = cluster->err;
	struct experiment e;
	int r = sweep_experiment(cluster->sweep, point, &e, err);

	if (r < 0)
		return r;
	r = argv_add(argv, "--nodes=%lld", (long long)e.nodes);
	if (r == 0)
		r = argv_add(argv, "--ntasks-per-node=%lld", (long long)e.processes);
	if (r == 0 && cluster->has_gpus && launcher_gpus(&e) > 0 &&
	    !asks_for_gpus(&e.launcher_args))
		r = argv_add(argv, "--gpus-per-node=%lld", (long long)launcher_gpus(&e));
	/* In minutes, and later than bench's own limit. */
	if (r == 0 && e.time_limit_s > 0)
		r = argv_add(argv, "--time=%.0f", e.time_limit_s / 60 + 2);
	for (size_t i = 0; r == 0 && i < e.launcher_args.n; i++)
		r = argv_add(argv, "%s", e.launcher_args.v[i]);
	experiment_release(&e);
	return r < 0 ? err_set(err, r, "no memory.") : 0;
}

static bool same_words(const struct argv *a, const struct argv *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->v[i], b->v[i]) != 0)
			return false;
	return true;
}

/* "1-4,7": the waiting points that need the same as the first of them; they are marked in `taken`.
 * NULL with *ret_r 0: none waits. */
static char *choose_points(struct cluster *cluster, bool *taken, struct argv *needs, int *ret_r)
{
	struct sweep *sweep = cluster->sweep;
	struct buf list = { 0 };
	size_t last = SIZE_MAX;
	bool range = false;

	*ret_r = 0;
	for (size_t i = 0; i < sweep->n && *ret_r == 0; i++) {
		struct argv own = { NULL, 0, 0 };

		if (sweep->points[i].state != SWEEP_WAITING)
			continue;
		*ret_r = request_resources(cluster, i, last == SIZE_MAX ? needs : &own);
		if (*ret_r == 0 && (last == SIZE_MAX || same_words(needs, &own))) {
			taken[i] = true;
			if (last != SIZE_MAX && i == last + 1) {
				range = true;
			} else {
				if (range)
					buf_printf(&list, "-%zu", last + 1);
				buf_printf(&list, "%s%zu", list.size ? "," : "", i + 1);
				range = false;
			}
			last = i;
		}
		argv_release(&own);
	}
	if (range)
		buf_printf(&list, "-%zu", last + 1);
	if (last == SIZE_MAX)
		return NULL;
	buf_append(&list, "", 1);
	if (list.failed && *ret_r == 0)
		*ret_r = no_memory(cluster);
	if (*ret_r == 0)
		return list.data;
	buf_release(&list);
	return NULL;
}

static int submit_array(struct cluster *cluster, const char *script, const char *list,
			const struct argv *needs, char *job, size_t size)
{
	struct argv argv = { NULL, 0, 0 };
	struct buf output = { 0 };
	/* We do the retries, so that they are counted. */
	int status, r = argv_add_all(&argv, "sbatch", "--parsable", "--no-requeue",
				     "--output=/dev/null", NULL);

	if (r == 0)
		r = argv_add(&argv, "--job-name=%s", cluster->name);
	if (r == 0)
		r = argv_add(&argv, "--array=%s", list);
	if (r == 0)
		r = argv_add(&argv, "--chdir=%s", cluster->sweep->cwd);
	for (size_t i = 0; r == 0 && i < needs->n; i++)
		r = argv_add(&argv, "%s", needs->v[i]);
	if (r == 0)
		r = argv_add(&argv, "%s", script);
	r = r < 0 ? no_memory(cluster) : process_capture(argv.v, &output, &status, cluster->err);
	argv_release(&argv);
	if (r < 0)
		return r;
	if (status != 0) {
		say_first_line(output.data);
		r = err_set(cluster->err, -EIO, "sbatch rejected the sweep's jobs: %.700s.",
			    output.data);
	} else {
		/* "JOB" or "JOB;CLUSTER", after anything else sbatch prints. */
		char *last = output.data;

		for (char *line = strtok(output.data, "\n"); line; line = strtok(NULL, "\n"))
			last = line;
		snprintf(job, size, "%.*s", (int)strcspn(last, ";"), last);
	}
	buf_release(&output);
	return r;
}

static int submit_waiting(struct cluster *cluster)
{
	bool *taken = calloc(cluster->sweep->n, sizeof(*taken));
	char *script = NULL, *list;
	int r = taken ? write_script(cluster, &script) : no_memory(cluster);

	while (r == 0) {
		struct argv needs = { NULL, 0, 0 };
		char job[64] = "";

		memset(taken, 0, cluster->sweep->n * sizeof(*taken));
		list = choose_points(cluster, taken, &needs, &r);
		if (list)
			r = submit_array(cluster, script, list, &needs, job, sizeof(job));
		for (size_t i = 0; r == 0 && i < cluster->sweep->n; i++) {
			if (!taken[i])
				continue;
			cluster->missing[i] = 0;
			cluster->seen_running[i] = false;
			r = sweep_submitted(cluster->sweep, i, job, cluster->err);
		}
		argv_release(&needs);
		free(list);
		if (!list)
			break;
	}
	free(script);
	free(taken);
	return r;
}

static int task_ended(struct cluster *cluster, size_t point, enum sweep_state state,
		      const char *why)
{
	int r = sweep_ended(cluster->sweep, point, state, why, cluster->err);

	if (r == 0 && cluster->watch->ended)
		cluster->watch->ended(cluster->watch->arg, cluster->sweep, point);
	return r;
}

static int node_died(struct cluster *cluster, size_t point, const char *node)
{
	struct sweep_point *p = &cluster->sweep->points[point];
	bool second = p->dead_node != NULL;
	char sentence[700];
	int r = sweep_node_died(cluster->sweep, point, node, cluster->err);

	if (r < 0)
		return r;
	if (second) {
		if (cluster->watch->ended)
			cluster->watch->ended(cluster->watch->arg, cluster->sweep, point);
		return 0;
	}
	snprintf(sentence, sizeof(sentence), "node %s died during point %zu (%.300s); retrying it.",
		 node, point + 1, p->label);
	if (cluster->watch->said)
		cluster->watch->said(cluster->watch->arg, sentence);
	return 0;
}

/* A task that is over. 1: its files may not have arrived here yet. */
static int settle_task(struct cluster *cluster, size_t point, const struct slurm_task *task)
{
	enum sweep_state state = strcmp(task->state, "TIMEOUT") == 0 ? SWEEP_TIMEOUT : SWEEP_FAILED;
	char *error, why[640];
	double duration;
	enum sweep_state found = sweep_point_result(cluster->sweep, point, &error, &duration);

	free(error);
	if (node_has_died(task->state) && found != SWEEP_SUCCESS)
		return node_died(cluster, point, task->nodes);
	if (found == SWEEP_WAITING && ++cluster->missing[point] < PATIENCE)
		return 1;
	snprintf(why, sizeof(why),
		 "Slurm ended task %s_%zu with %s%s%.200s and it left no summary.json.",
		 cluster->sweep->points[point].job, point + 1, task->state,
		 *task->nodes ? " on " : "", task->nodes);
	return task_ended(cluster, point, state, why);
}

/* squeue does not have it. */
static int settle_forgotten(struct cluster *cluster, size_t point)
{
	struct slurm_task task = { .state = "an unknown state", .point = point };
	char *error;
	double duration;
	enum sweep_state found = sweep_point_result(cluster->sweep, point, &error, &duration);

	free(error);
	if (found == SWEEP_WAITING && ++cluster->missing[point] < PATIENCE)
		return 1; /* also a job that was just submitted */
	if (found == SWEEP_WAITING && ask_accounting(cluster, point, &task) && is_live(task.state))
		return 0;
	return settle_task(cluster, point, &task);
}

/* 1: something has changed. */
static int follow_tasks(struct cluster *cluster)
{
	bool changed = false;
	int r = look_at_queue(cluster);

	if (r != 0)
		return r < 0 ? r : 0;
	for (size_t i = 0; i < cluster->sweep->n; i++) {
		const struct slurm_task *task;

		if (cluster->sweep->points[i].state != SWEEP_UNDER_WAY)
			continue;
		task = task_of(cluster, i, false);
		if (task && strcmp(task->state, "RUNNING") == 0 && !cluster->seen_running[i]) {
			cluster->seen_running[i] = changed = true;
			if (cluster->watch->started)
				cluster->watch->started(cluster->watch->arg, cluster->sweep, i,
							task->nodes);
		}
		if (task && is_live(task->state))
			continue;
		r = task ? settle_task(cluster, i, task) : settle_forgotten(cluster, i);
		if (r < 0)
			return r;
		changed = true; /* or about to */
	}
	return changed;
}

/* Takes over tasks of a killed attempt, and repeats the rest of it. */
static int find_again(struct cluster *cluster)
{
	int r;

	/* Without an answer a task could run twice. */
	while ((r = look_at_queue(cluster)) == 1) {
		int signal = process_signals_wait(&cluster->signals, POLL_MAX_NS);

		if (signal && signal != SIGCHLD)
			return err_set(cluster->err, -EIO,
				       "squeue did not answer, so nothing was done.");
	}
	for (size_t i = 0; r == 0 && i < cluster->sweep->n; i++) {
		struct sweep_point *p = &cluster->sweep->points[i];
		const struct slurm_task *task = task_of(cluster, i, true);

		if (p->state != SWEEP_WAITING && p->state != SWEEP_UNDER_WAY)
			continue;
		if (task && strcmp(task->job, p->job) != 0)
			r = sweep_submitted(cluster->sweep, i, task->job, cluster->err);
		else if (!task && p->state == SWEEP_UNDER_WAY) {
			task = task_of(cluster, i, false);
			if (!task || !node_has_died(task->state))
				r = sweep_recover(cluster->sweep, i, cluster->err);
		}
	}
	return r;
}

static int cancel_tasks(struct cluster *cluster)
{
	int64_t until = clock_monotonic_ns() + CANCEL_NS;
	char name[80];
	char *argv[] = { (char *)"scancel", name, NULL };
	struct buf output = { 0 };
	int status, r;

	snprintf(name, sizeof(name), "--name=%s", cluster->name);
	r = process_capture(argv, &output, &status, cluster->err);
	if (r == 0 && status != 0) {
		say_first_line(output.data);
		r = err_set(cluster->err, -EIO,
			    "scancel failed (%.300s); 'scancel --name=%s' ends the sweep's jobs.",
			    output.data, cluster->name);
	}
	buf_release(&output);
	while (r == 0) {
		bool live = false;

		r = look_at_queue(cluster);
		for (size_t i = 0; r >= 0 && i < cluster->n_tasks; i++)
			live = live || is_live(cluster->tasks[i].state);
		if (r < 0 || (r == 0 && !live))
			break;
		if (clock_monotonic_ns() > until)
			return err_set(
				cluster->err, -ETIMEDOUT,
				"jobs of the sweep are still there; 'squeue --name=%s' shows "
				"them.",
				cluster->name);
		process_signals_wait(&cluster->signals, POLL_MIN_NS);
		r = 0;
	}
	return r;
}

static int run_all(struct cluster *cluster, int *ret_signal)
{
	const struct sweep *sweep = cluster->sweep;
	int64_t pause = POLL_MIN_NS;
	int r = look_for_gpus(cluster);

	if (r == 0)
		r = find_again(cluster);
	while (r >= 0) {
		int64_t until;
		int signal = 0;

		if (sweep_count(sweep, SWEEP_WAITING) && (r = submit_waiting(cluster)) < 0)
			break;
		if (!sweep_count(sweep, SWEEP_UNDER_WAY))
			return 0;
		until = clock_monotonic_ns() + pause;
		while (clock_monotonic_ns() < until && (signal == 0 || signal == SIGCHLD))
			signal = process_signals_wait(&cluster->signals,
						      until - clock_monotonic_ns());
		if (signal && signal != SIGCHLD) {
			*ret_signal = signal;
			r = cancel_tasks(cluster);
			return r < 0 ? r : -EINTR;
		}
		r = follow_tasks(cluster);
		pause = r == 1 ? POLL_MIN_NS : pause * 2 < POLL_MAX_NS ? pause * 2 : POLL_MAX_NS;
	}
	return r;
}

static int run_slurm(struct sweep *sweep, const struct lab_tools *tools,
		     const struct sweep_watch *watch, int *ret_signal, struct err *err)
{
	struct cluster cluster = { .sweep = sweep, .tools = tools, .watch = watch, .err = err };
	int r;

	snprintf(cluster.name, sizeof(cluster.name), "moescope-%s", sweep->id);
	cluster.missing = calloc(sweep->n, sizeof(*cluster.missing));
	cluster.seen_running = calloc(sweep->n, sizeof(*cluster.seen_running));
	if (!cluster.missing || !cluster.seen_running) {
		r = err_set(err, -ENOMEM, "no memory.");
	} else {
		process_signals_block(&cluster.signals);
		r = run_all(&cluster, ret_signal);
		process_signals_restore(&cluster.signals);
	}
	free(cluster.missing);
	free(cluster.seen_running);
	free(cluster.tasks);
	return r;
}

static int prefix_slurm(const struct experiment *experiment, struct argv *argv, struct err *err)
{
	(void)err;
	if (experiment->nodes * experiment->processes == 1)
		return 0;
	return argv_add(argv, "srun") < 0 ||
			       argv_add(argv, "--ntasks=%lld",
					(long long)experiment->nodes * experiment->processes) < 0
		       ? -ENOMEM
		       : 0;
}

const struct launcher launcher_slurm = {
	.name = "slurm",
	.summary = "a Slurm job array, one task per point",
	.programs = (const char *const[]){ "sbatch", "squeue", "scancel", "sinfo", NULL },
	.install = "apt-get install slurm-client",
	.prefix = prefix_slurm,
	.run = run_slurm,
};
