/* SPDX-License-Identifier: Apache-2.0
 *
 * See stress.h. The loads run under `moescope run` in processes of their own, so what breaks is one
 * of them and is seen in how it ends. All mixes run side by side: contention for the GPU and a heap
 * full of rubbish is where switching has broken programs before. One thread.
 */
#include "cmd/doctor/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/text/json_read.h"
#include "cmd/recording/installed.h"
#include "cmd/runs/run_files.h"
#include "cmd/terminal/progress.h"
#include "device/driver/proof.h"
#include "tables/tables.h"

#define MIX_SECONDS 150
#define END_SECONDS 30 /* to end by itself; then it hangs */
#define POLL_NS 200000000
#define ROUNDS 3	  /* of each price, alternating */
#define MEMORY_SHIFTS 200 /* so many that what the first of them takes does not matter */

enum { MIXES = 4 };

/* What the program does while gears are shifted. */
static const struct mix {
	const char *name;
	const char *arguments[12];
} mixes[MIXES] = {
	{ "4 threads of launches and copies", { "--eager", "4", "--copies" } },
	{ "a thread with graphs, recaptured",
	  { "--graphs", "1", "--nodes", "200", "--recapture", "50" } },
	{ "the same next to 3 threads of launches",
	  { "--graphs", "1", "--eager", "3", "--copies", "--nodes", "200", "--recapture", "50" } },
	{ "2 threads with graphs",
	  { "--graphs", "2", "--eager", "1", "--nodes", "200", "--recapture", "50" } },
};

/* Of one run of the load. */
struct outcome {
	int status; /* of wait */
	uint64_t shifts;
	uint64_t launches, replays, nodes, wrong;
	double seconds;
	int64_t lost_bytes; /* of device memory, while it ran */
	uint32_t cupti;
	char message[256]; /* what it complained about first, empty: nothing */
};

/* One process of the load, with files of its own. */
struct trial {
	char run[544], out[544];
	pid_t pid;	 /* 0: it has ended */
	uint64_t shifts; /* to do; 0: it ends by itself */
	bool told;	 /* to end */
	struct outcome outcome;
};

struct place {
	char folder[512];
	char *moescope, *load;
};

static void take_count(const struct json_node *root, const char *key, uint64_t *ret_value)
{
	*ret_value = (uint64_t)json_get_int(root, key, 0);
}

/* The last figures that it printed, and the first of what it said otherwise. */
static void read_output(const char *path, struct outcome *outcome)
{
	char line[1024], last[1024] = "";
	struct json_node *root = NULL;
	const struct json_node *seconds;
	FILE *f = fopen(path, "re");

	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = 0;
		if (*line == '{')
			snprintf(last, sizeof(last), "%s", line);
		else if (*line && !outcome->message[0])
			snprintf(outcome->message, sizeof(outcome->message), "%.250s", line);
	}
	fclose(f);
	if (!*last || json_parse("load", last, strlen(last), &root, NULL) < 0)
		return;
	take_count(root, "launches", &outcome->launches);
	take_count(root, "replays", &outcome->replays);
	take_count(root, "nodes", &outcome->nodes);
	take_count(root, "wrong", &outcome->wrong);
	outcome->lost_bytes = json_get_int(root, "free_bytes_before", 0) -
			      json_get_int(root, "free_bytes_after", 0);
	seconds = json_get(root, "seconds");
	outcome->seconds = seconds && seconds->text ? strtod(seconds->text, NULL) : 0;
	json_node_free(root);
}

static uint64_t count_shifts(const char *path, uint32_t *ret_cupti)
{
	struct run_want want = { .kinds = WANT(GEAR) | WANT(FACT) };
	struct run *run;
	uint64_t shifts;

	if (run_load(path, &want, &run, NULL) < 0)
		return 0;
	shifts = run->gear.n;
	for (size_t i = 0; i < run->fact.n; i++) {
		const char *text = run_string(run, run->fact.value[i]);
		const char *version = strstr(text, "CUPTI API version ");

		if (version)
			*ret_cupti = (uint32_t)strtoul(version + strlen("CUPTI API version "), NULL,
						       10);
	}
	run_free(run);
	return shifts;
}

/* In the child. */
static void set_environment(const struct trial *trial)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, trial->shifts / 2 + 1);
	setenv("MOESCOPE_SHIFTS", number, 1);
	/* What is not proved yet is to be tried all the same. */
	setenv("MOESCOPE_TRUST", "1", 1);
	unsetenv("MOESCOPE_STAY_ATTACHED");
	/* Freed memory is overwritten, so that who still uses it fails; by glibc's two names. */
	setenv("GLIBC_TUNABLES", "glibc.malloc.perturb=165", 0);
	setenv("MALLOC_PERTURB_", "165", 0);
}

/* Starts the load, under the profiler when `under` names a budget. */
static void start_trial(const struct place *place, struct trial *trial,
			const char *const *arguments, const char *under)
{
	char *argv[32], seconds[16];
	size_t n = 0;
	pid_t pid;
	int out;

	snprintf(seconds, sizeof(seconds), "%d", trial->shifts ? MIX_SECONDS : 2);
	if (under) {
		char *const words[] = { place->moescope, "run", "-q",	    "--force", "--budget",
					(char *)under,	 "-o",	trial->run, "--" };

		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			argv[n++] = words[i];
	}
	argv[n++] = place->load;
	for (size_t i = 0; arguments[i]; i++)
		argv[n++] = (char *)arguments[i];
	argv[n++] = "--seconds";
	argv[n++] = seconds;
	argv[n] = NULL;
	pid = fork();
	if (pid < 0) {
		snprintf(trial->outcome.message, sizeof(trial->outcome.message),
			 "cannot start a process: %s", strerror(errno));
		trial->outcome.status = W_EXITCODE(127, 0);
		return;
	}
	trial->pid = pid;
	if (pid > 0)
		return;
	/* A group of its own, to be killed with the load if it hangs; it ends when we do. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (trial->shifts)
		set_environment(trial);
	out = open(trial->out, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (out >= 0) {
		dup2(out, STDOUT_FILENO);
		dup2(out, STDERR_FILENO);
	}
	execv(argv[0], argv);
	_exit(127);
}

/* False when it has ended. One that has shifted often enough is told to. */
static bool look_at_trial(struct trial *trial, int64_t end_ns)
{
	struct outcome *outcome = &trial->outcome;

	if (!trial->pid)
		return false;
	if (waitpid(trial->pid, &outcome->status, WNOHANG) != 0) {
		trial->pid = 0;
		return false;
	}
	if (trial->shifts && !trial->told &&
	    count_shifts(trial->run, &outcome->cupti) >= trial->shifts) {
		trial->told = true;
		kill(trial->pid, SIGTERM); /* it checks its results and ends */
	}
	if (clock_monotonic_ns() < end_ns)
		return true;
	kill(-trial->pid, SIGKILL);
	waitpid(trial->pid, &outcome->status, 0);
	trial->pid = 0;
	snprintf(outcome->message, sizeof(outcome->message), "it was still running after %d s",
		 MIX_SECONDS + END_SECONDS);
	return false;
}

/* Until all have ended, or time is up. */
static void watch_trials(struct trial *trials, int n)
{
	const struct timespec pause = { .tv_nsec = POLL_NS };
	int64_t end_ns = clock_monotonic_ns() + (MIX_SECONDS + END_SECONDS) * INT64_C(1000000000);
	int running;

	do {
		nanosleep(&pause, NULL);
		running = 0;
		for (int i = 0; i < n; i++)
			running += look_at_trial(&trials[i], end_ns);
	} while (running);
	for (int i = 0; i < n; i++) {
		struct outcome *outcome = &trials[i].outcome;

		read_output(trials[i].out, outcome);
		if (trials[i].shifts)
			outcome->shifts = count_shifts(trials[i].run, &outcome->cupti);
	}
}

static void trial_init(struct trial *trial, const struct place *place, int number, uint64_t shifts)
{
	*trial = (struct trial){ .shifts = shifts };
	snprintf(trial->run, sizeof(trial->run), "%s/%d.mscope", place->folder, number);
	snprintf(trial->out, sizeof(trial->out), "%s/%d.out", place->folder, number);
}

static void trial_release(struct trial *trial)
{
	run_files_remove(trial->run, true);
	unlink(trial->out);
}

/* One load alone. */
static struct outcome run_alone(const struct place *place, const char *const *arguments,
				const char *under, uint64_t shifts)
{
	struct trial trial;

	trial_init(&trial, place, 0, shifts);
	start_trial(place, &trial, arguments, under);
	watch_trials(&trial, 1);
	trial_release(&trial);
	return trial.outcome;
}

static bool ended_well(const struct outcome *outcome)
{
	return WIFEXITED(outcome->status) && WEXITSTATUS(outcome->status) == 0 && !outcome->wrong &&
	       outcome->launches + outcome->replays > 0;
}

static void tell_failure(struct check *check, const char *name, const struct outcome *outcome)
{
	char how[64];

	if (WIFSIGNALED(outcome->status))
		snprintf(how, sizeof(how), "signal %d", WTERMSIG(outcome->status));
	else
		snprintf(how, sizeof(how), "status %d", WEXITSTATUS(outcome->status));
	if (!outcome->shifts) {
		check_found(check, CHECK_FAILED, "the load could not run: %s",
			    outcome->message[0] ? outcome->message : how);
		check_fix(check, "see the lines about the GPU and CUPTI above");
		return;
	}
	check_found(check, CHECK_FAILED, "%s: after %llu shifts the program ended with %s: %s",
		    name, (unsigned long long)outcome->shifts, how,
		    outcome->message[0] ? outcome->message : "no reason given");
	check_fix(check,
		  "use 'run --budget off' or '--level counts' for programs of this kind here");
}

static bool tell_mix(struct checks *checks, const struct mix *mix, const struct trial *trial,
		     struct proof_line *proof)
{
	struct check *check = checks_add(checks, "stress");
	const struct outcome *outcome = &trial->outcome;
	uint64_t kernels = outcome->launches + outcome->replays * outcome->nodes;

	check_number(check, "shifts", (double)outcome->shifts);
	if (!ended_well(outcome)) {
		tell_failure(check, mix->name, outcome);
		return false;
	}
	if (outcome->shifts < trial->shifts) {
		check_found(check, CHECK_NOTE,
			    "%s: only %" PRIu64 " of %" PRIu64
			    " shifts before it ended, every result right",
			    mix->name, outcome->shifts, trial->shifts);
		return false;
	}
	check_found(check, CHECK_OK,
		    "%s: %" PRIu64 " shifts, %" PRIu64 " kernels, every result right", mix->name,
		    outcome->shifts, kernels);
	if (outcome->cupti)
		proof->cupti = outcome->cupti;
	return true;
}

/* All mixes at once. False when one of them fails. */
static bool stress_mixes(struct checks *checks, const struct place *place, uint64_t shifts,
			 struct proof_line *proof)
{
	struct trial trials[MIXES];
	bool good = true;

	progress_begin("4 loads side by side");
	for (int i = 0; i < MIXES; i++) {
		trial_init(&trials[i], place, i, shifts / MIXES);
		start_trial(place, &trials[i], mixes[i].arguments, "1%");
	}
	watch_trials(trials, MIXES);
	progress_end();
	for (int i = 0; i < MIXES; i++) {
		good &= tell_mix(checks, &mixes[i], &trials[i], proof);
		/* What keeps one from running keeps the others, too. */
		if (!ended_well(&trials[i].outcome) && !trials[i].outcome.shifts)
			break;
	}
	for (int i = 0; i < MIXES; i++)
		trial_release(&trials[i]);
	return good;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Nanoseconds that a complete trace adds to a kernel: the median of alternating pairs; negative
 * when the load could not run. */
static double price_of_kernel(const struct place *place, const char *const *arguments)
{
	double added[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		double ns[2];

		for (int j = 0; j < 2; j++) {
			int with = i % 2 ? !j : j;
			struct outcome o;
			uint64_t kernels;

			o = run_alone(place, arguments, with ? "off" : NULL, 0);
			if (!ended_well(&o))
				return -1;
			kernels = o.launches + o.replays * o.nodes;
			ns[with] = o.seconds * 1e9 / (double)kernels;
		}
		added[i] = ns[1] - ns[0];
	}
	qsort(added, ROUNDS, sizeof(added[0]), by_size);
	return added[ROUNDS / 2];
}

/* Bytes of device memory that a window leaves behind, or 0 when the load could not run. What is
 * free is that of the whole device, so this too is measured alone. */
static uint64_t window_bytes(const struct place *place)
{
	struct outcome o = run_alone(place, mixes[0].arguments, "1%", MEMORY_SHIFTS);
	int64_t bytes;

	if (!ended_well(&o) || o.shifts < MEMORY_SHIFTS)
		return 0;
	bytes = o.lost_bytes / (int64_t)(o.shifts / 2);
	return bytes > 0 ? (uint64_t)bytes : 1;
}

static void measure_prices(struct checks *checks, const struct place *place,
			   struct proof_line *proof)
{
	static const char *const launches[] = { "--eager", "1", NULL };
	static const char *const nodes[] = { "--graphs", "1", NULL };
	struct check *check = checks_add(checks, "cost");

	progress_begin("what a complete trace adds");
	proof->launch_ns = price_of_kernel(place, launches);
	proof->node_ns = price_of_kernel(place, nodes);
	proof->window_bytes = window_bytes(place);
	progress_end();
	if (proof->launch_ns <= 0 || proof->node_ns <= 0 || !proof->window_bytes) {
		check_found(check, CHECK_NOTE, "the cost of attaching could not be measured");
		return;
	}
	check_found(
		check, CHECK_OK,
		"a complete trace adds %.0f ns to a tiny kernel launched by the host, %.0f ns to "
		"one of a graph; each window leaves %llu bytes of device memory behind",
		proof->launch_ns, proof->node_ns, (unsigned long long)proof->window_bytes);
	check_number(check, "launch_ns", proof->launch_ns);
}

static void remember_proof(struct checks *checks, struct proof_line *proof)
{
	struct check *check = checks_add(checks, "proof");
	char path[512];
	int r;

	driver_version(proof->driver, sizeof(proof->driver));
	if (!proof->driver[0] || !proof->cupti) {
		check_found(check, CHECK_NOTE,
			    "not kept: the version of the driver or of CUPTI is unknown");
		return;
	}
	r = proof_append(proof, path, sizeof(path));
	if (r < 0) {
		check_found(check, CHECK_NOTE, "not kept: cannot write the file: %s", strerror(-r));
		check_fix(check, "set MOESCOPE_CACHE to a writable folder");
		return;
	}
	check_found(check, CHECK_OK, "kept for CUPTI %u and driver %s in %s", proof->cupti,
		    proof->driver, path);
}

void doctor_stress(struct checks *checks, uint64_t shifts)
{
	const char *tmp = getenv("TMPDIR");
	struct place place = { 0 };
	struct proof_line proof = { .graphs = true };
	bool good;

	snprintf(place.folder, sizeof(place.folder), "%s/moescope-stress-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	place.moescope = installed_program("moescope");
	place.load = installed_program("moescope-load");
	if (!place.moescope || !place.load || !mkdtemp(place.folder)) {
		check_found(
			checks_add(checks, "stress"), CHECK_FAILED,
			"moescope-load is not next to moescope, or TMPDIR is not writable; build "
			"with the CUDA headers (make deps)");
		goto out;
	}
	good = stress_mixes(checks, &place, shifts, &proof);
	if (good)
		measure_prices(checks, &place, &proof);
	if (good && proof.launch_ns > 0 && proof.node_ns > 0 && proof.window_bytes)
		remember_proof(checks, &proof);
	rmdir(place.folder);
out:
	free(place.moescope);
	free(place.load);
}
