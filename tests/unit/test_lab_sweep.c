/* SPDX-License-Identifier: Apache-2.0
 *
 * Sweeps: the points of a plan, the journal, and points that end in every way. The program that a
 * point runs is a script here; tests/cli/test_sweep.py has the real one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "child.h"
#include "lab/launcher.h"

static struct experiment base_of(const char *key, const char *value)
{
	struct experiment base;
	struct err err = { "" };

	assert_int_equal(experiment_init(&base), 0);
	assert_int_equal(experiment_set(&base, key, value, &err), 0);
	assert_int_equal(experiment_set(&base, "output_dir", directory, &err), 0);
	assert_int_equal(experiment_set(&base, "experiment_name", "s", &err), 0);
	return base;
}

static struct sweep planned(const char *key, const char *value)
{
	struct experiment base = base_of(key, value);
	struct err err = { "" };
	struct sweep sweep;

	if (sweep_plan(&sweep, &base, &err) < 0)
		fail_msg("%s: %s", value, err.message);
	experiment_release(&base);
	return sweep;
}

static void refused(const char *text, const char *words)
{
	struct experiment base = base_of("parameter_sweep", text);
	struct err err = { "" };
	struct sweep sweep;

	assert_true(sweep_plan(&sweep, &base, &err) < 0);
	if (!strstr(err.message, words))
		fail_msg("no '%s' in '%s'", words, err.message);
	experiment_release(&base);
}

static void presets_have_their_points(void **state)
{
	static const struct {
		const char *name, *first, *last;
		size_t n;
	} presets[] = {
		{ "quick", "batch_size 1, max_tokens 50", "batch_size 2, max_tokens 100", 4 },
		{ "comprehensive", "batch_size 1, max_tokens 50, temperature 0.1",
		  "batch_size 8, max_tokens 500, temperature 1", 64 },
		{ "scaling", "batch_size 1, tensor_parallel_size 1",
		  "batch_size 16, tensor_parallel_size 4", 15 },
	};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct sweep sweep = planned("preset", presets[i].name);

		assert_int_equal(sweep.n, presets[i].n);
		assert_string_equal(sweep.points[0].label, presets[i].first);
		assert_string_equal(sweep.points[sweep.n - 1].label, presets[i].last);
		sweep_release(&sweep);
	}
}

static void first_parameter_changes_slowest(void **state)
{
	struct sweep sweep = planned("parameter_sweep",
				     " max_tokens : 7, 5 ; prompt:a\\,b\\;c,d e;seed:3");
	struct experiment experiment;
	struct err err = { "" };

	(void)state;
	assert_int_equal(sweep.n, 4);
	assert_string_equal(sweep.points[0].label, "max_tokens 7, prompt a,b;c, seed 3");
	assert_string_equal(sweep.points[1].label, "max_tokens 7, prompt d e, seed 3");
	assert_string_equal(sweep.points[2].label, "max_tokens 5, prompt a,b;c, seed 3");
	assert_string_equal(sweep.points[1].name, "002-max_tokens=7-prompt=d-e-seed=3");
	assert_int_equal(sweep_experiment(&sweep, 2, &experiment, &err), 0);
	assert_int_equal(experiment.max_tokens, 5);
	assert_string_equal(experiment.prompt, "a,b;c");
	assert_null(experiment.parameter_sweep);
	experiment_release(&experiment);
	/* What sweep.yaml says is the same sweep. */
	assert_string_equal(sweep.base.parameter_sweep,
			    "max_tokens:7,5;prompt:a\\,b\\;c,d e;seed:3");
	sweep_release(&sweep);
}

static void bad_lists_are_refused(void **state)
{
	struct experiment base = base_of("preset", "quick");
	struct err err = { "" };
	struct sweep sweep;

	(void)state;
	refused("batchsize:1,2", "did you mean 'batch_size'?");
	refused("batch_size:1,two", "two");
	refused("batch_size:1,0", "batch_size");
	refused("batch_size:1,,2", "an empty value");
	refused("batch_size", "write batch_size:1,2,4");
	refused("temperature:0.5,0.50", "'temperature' has 0.5 twice");
	refused("batch_size:1;batch_size:2", "occurs twice");
	refused("output_dir:a,b", "the same for all points");
	refused("seed:1,2;engine:bulitin", "did you mean 'builtin'?");
	refused("engine:builtin,command", "point 2 (engine command)");
	assert_int_equal(experiment_set(&base, "parameter_sweep", "seed:1", &err), 0);
	assert_true(sweep_plan(&sweep, &base, &err) < 0);
	assert_non_null(strstr(err.message, "not both"));
	experiment_release(&base);
	base = base_of("seed", "1");
	assert_true(sweep_plan(&sweep, &base, &err) < 0);
	assert_non_null(strstr(err.message, "--parameter-sweep"));
	experiment_release(&base);
}

static char *in_sweep(const char *name)
{
	char *folder = path_in(directory, "s"), *path = path_in(folder, name);

	free(folder);
	return path;
}

static void add_to(const char *name, const char *text)
{
	char *path = in_sweep(name);
	FILE *file = fopen(path, "a");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	free(path);
}

static int opened(struct sweep *sweep, struct err *err)
{
	char *path = path_in(directory, "s");
	int r = sweep_open(sweep, path, NULL, err);

	free(path);
	return r;
}

static void journal_survives(void **state)
{
	struct sweep sweep = planned("parameter_sweep", "batch_size:1,2,3,4"), again;
	struct err err = { "" };

	(void)state;
	assert_int_equal(sweep_create(&sweep, &err), 0);
	assert_int_equal(sweep_started(&sweep, 0, &err), 0);
	assert_int_equal(sweep_ended(&sweep, 0, SWEEP_FAILED, "It \"broke\".", &err), 0);
	assert_int_equal(sweep_started(&sweep, 1, &err), 0);
	assert_int_equal(sweep_submitted(&sweep, 2, "77", &err), 0);
	assert_int_equal(sweep_node_died(&sweep, 2, "n1", &err), 0);
	assert_int_equal(sweep_submitted(&sweep, 2, "78", &err), 0);
	/* One process at a time. */
	assert_int_equal(opened(&again, &err), -EBUSY);
	assert_non_null(strstr(err.message, "another process"));
	sweep_release(&sweep);

	add_to("journal.jsonl", "{\"time\":\"2026-01-31T14:03:07Z\",\"event\":\"end\",\"poi");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(opened(&again, &err), 0);
		assert_int_equal(again.points[0].state, SWEEP_FAILED);
		assert_string_equal(again.points[0].error, "It \"broke\".");
		assert_int_equal(again.points[1].state, SWEEP_UNDER_WAY);
		assert_int_equal(again.points[2].state, SWEEP_UNDER_WAY);
		assert_string_equal(again.points[2].job, "78");
		assert_string_equal(again.points[2].dead_node, "n1");
		assert_int_equal(again.points[3].state, SWEEP_WAITING);
		/* Lines that come after the torn one are whole. */
		assert_int_equal(sweep_started(&again, 1, &err), 0);
		sweep_release(&again);
	}
	add_to("journal.jsonl", "{\"event\":\"end\",\"point\":9,\"status\":\"success\"}\n");
	assert_true(opened(&again, &err) < 0);
	assert_non_null(strstr(err.message, "journal.jsonl line 10"));
}

static void second_death_of_a_node_is_a_failure(void **state)
{
	struct sweep sweep = planned("parameter_sweep", "batch_size:1");
	struct err err = { "" };

	(void)state;
	assert_int_equal(sweep_create(&sweep, &err), 0);
	assert_int_equal(sweep_submitted(&sweep, 0, "1", &err), 0);
	assert_int_equal(sweep_node_died(&sweep, 0, "n1", &err), 0);
	assert_int_equal(sweep.points[0].state, SWEEP_WAITING);
	assert_int_equal(sweep_submitted(&sweep, 0, "2", &err), 0);
	assert_int_equal(sweep_node_died(&sweep, 0, "n2", &err), 0);
	assert_int_equal(sweep.points[0].state, SWEEP_FAILED);
	assert_non_null(strstr(sweep.points[0].error, "n1, then n2"));
	sweep_release(&sweep);
}

/* A program in the place of moescope: "STUB bench --config QUEUE/N.yaml". */
static char *write_stub(const char *body)
{
	char *path = path_in(directory, "stub");
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file,
		"#!/bin/sh\n"
		"n=$(basename \"$3\" .yaml)\n"
		"name=$(sed -n 's/^experiment_name: *\"*\\([^\"]*\\)\"*$/\\1/p' \"$3\")\n"
		"d=\"%s/s/points/$name\"\n"
		"finish() { mkdir -p \"$d\"; echo \"{\\\"status\\\":\\\"$1\\\",\\\"error\\\":$2,"
		"\\\"duration_s\\\":1.5}\" >\"$d/t\"; mv \"$d/t\" \"$d/summary.json\"; }\n"
		"echo $n >>\"%s/runs\"\n%s\n",
		directory, directory, body);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0755), 0);
	return path;
}

struct told {
	size_t started, ended;
};

static void count_started(void *arg, const struct sweep *sweep, size_t point, const char *where)
{
	(void)sweep;
	(void)point;
	(void)where;
	((struct told *)arg)->started++;
}

static void count_ended(void *arg, const struct sweep *sweep, size_t point)
{
	(void)sweep;
	(void)point;
	((struct told *)arg)->ended++;
}

static int run_with(struct sweep *sweep, const char *stub, struct told *told, struct err *err)
{
	struct lab_tools tools = { stub, NULL, NULL };
	struct sweep_watch watch = { count_started, count_ended, NULL, told };
	int stopped_by = 0;

	return launcher_run(sweep, &tools, &watch, &stopped_by, err);
}

static char *text_of(const char *path)
{
	static char text[8192];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void points_end_in_every_way(void **state)
{
	char *stub = write_stub(
		"case $n in\n"
		"1) finish success null;;\n"
		"2) finish failed '\"no model\"';;\n"
		"3) echo last words; exit 3;;\n"
		"4) kill -9 $$;;\n"
		"5) mkdir -p \"$d\"; echo '{\"status\": \"succ' >\"$d/summary.json\";;\n"
		"6) finish timeout '\"late\"';;\n"
		"7) finish success null;;\n"
		"esac");
	struct sweep sweep = planned("parameter_sweep", "batch_size:1,2,3,4,5,6,7");
	static const enum sweep_state wanted[] = { SWEEP_SUCCESS, SWEEP_FAILED, SWEEP_FAILED,
						   SWEEP_FAILED,  SWEEP_FAILED, SWEEP_TIMEOUT,
						   SWEEP_SUCCESS };
	struct told told = { 0, 0 };
	struct err err = { "" };
	char *path;

	(void)state;
	assert_int_equal(sweep_create(&sweep, &err), 0);
	if (run_with(&sweep, stub, &told, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < 7; i++)
		assert_int_equal(sweep.points[i].state, wanted[i]);
	assert_int_equal(told.started, 7);
	assert_int_equal(told.ended, 7);
	assert_string_equal(sweep.points[1].error, "no model");
	assert_non_null(strstr(sweep.points[2].error, "failed with status 3"));
	assert_non_null(strstr(sweep.points[3].error, "killed"));
	/* What a process could not say itself is written for it. */
	path = in_sweep("points/003-batch_size=3/summary.json");
	assert_non_null(strstr(text_of(path), "\"status\": \"failed\""));
	assert_non_null(strstr(text_of(path), "\"batch_size\": 3"));
	free(path);
	path = in_sweep("points/003-batch_size=3/experiment.log");
	assert_string_equal(text_of(path), "last words\n");
	free(path);
	sweep_release(&sweep);

	/* All of it is known again, and --retry-failed does those five again. */
	free(stub);
	stub = write_stub("finish success null");
	assert_int_equal(opened(&sweep, &err), 0);
	assert_int_equal(sweep_retry_failed(&sweep, &err), 5);
	told = (struct told){ 0, 0 };
	assert_int_equal(run_with(&sweep, stub, &told, &err), 0);
	assert_int_equal(told.ended, 5);
	assert_int_equal(sweep_count(&sweep, SWEEP_SUCCESS), 7);
	sweep_release(&sweep);
	path = path_in(directory, "runs");
	assert_string_equal(text_of(path), "1\n2\n3\n4\n5\n6\n7\n2\n3\n4\n5\n6\n");
	free(path);
	path = in_sweep("set-aside/002-batch_size=2.1/summary.json");
	assert_non_null(strstr(text_of(path), "no model"));
	free(path);
	free(stub);
}

static void wait_for_text(const char *name, const char *text)
{
	char *path = path_in(directory, name);

	for (int i = 0; i < 3000 && !strstr(text_of(path), text); i++)
		usleep(10000);
	assert_non_null(strstr(text_of(path), text));
	free(path);
}

static void killed_sweep_is_resumed(void **state)
{
	/* Point 2 hangs in the first attempt and ignores that it is asked to end, for a while. */
	char *stub = write_stub(
		"if [ $n = 2 ] && ! [ -e \"$d.once\" ]; then\n"
		"  mkdir -p \"$d\"; echo half >\"$d/half\"; : >\"$d.once\"\n"
		"  trap 'sleep 1; echo gone >>\"${d%/s/*}/gone\"; exit 1' TERM\n"
		"  echo hanging >>\"${d%/s/*}/hangs\"; while :; do sleep 0.1; done\nfi\n"
		"[ -e \"${d%/s/*}/gone\" ] && echo after >>\"${d%/s/*}/gone\"\n"
		"finish success null");
	struct sweep sweep = planned("parameter_sweep", "batch_size:1,2,3");
	struct told told = { 0, 0 };
	struct err err = { "" };
	int status;
	char *path;
	pid_t pid;

	(void)state;
	assert_int_equal(sweep_create(&sweep, &err), 0);
	pid = fork();
	if (pid == 0)
		_exit(run_with(&sweep, stub, &told, &err) == 0 ? 0 : 1);
	sweep_release(&sweep);
	wait_for_text("hangs", "hanging");
	assert_int_equal(opened(&sweep, &err), -EBUSY);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));

	/* Not before the orphan has ended: two would measure each other. */
	if (opened(&sweep, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(run_with(&sweep, stub, &told, &err), 0);
	assert_int_equal(sweep_count(&sweep, SWEEP_SUCCESS), 3);
	assert_int_equal(told.started, 2);
	sweep_release(&sweep);
	path = path_in(directory, "runs");
	assert_string_equal(text_of(path), "1\n2\n2\n3\n");
	free(path);
	path = path_in(directory, "gone");
	assert_string_equal(text_of(path), "gone\nafter\nafter\n");
	free(path);
	path = in_sweep("set-aside/002-batch_size=2.1/half");
	assert_string_equal(text_of(path), "half\n");
	free(path);
	free(stub);
}

static void gpus_are_dealt_out(void **state)
{
	/* Each point notes its GPUs and waits until its neighbour has begun, so they ran together. */
	char *stub = write_stub(
		"echo \"$n $CUDA_VISIBLE_DEVICES\" >>\"${d%/s/*}/gpus\"\n"
		"case $n in 1|2) i=0; while [ $(wc -l <\"${d%/s/*}/gpus\") -lt 2 ] && "
		"[ $i -lt 300 ]; do sleep 0.1; i=$((i+1)); done;; esac\n"
		"finish success null");
	struct sweep sweep = planned("parameter_sweep", "tensor_parallel_size:1,2,3,4;seed:1,2");
	struct told told = { 0, 0 };
	struct err err = { "" };
	char *path;

	(void)state;
	assert_int_equal(experiment_set(&sweep.base, "engine", "command", &err), 0);
	assert_int_equal(experiment_set(&sweep.base, "command", "true", &err), 0);
	assert_int_equal(experiment_set(&sweep.base, "gpus", "4 5 7", &err), 0);
	assert_int_equal(sweep_create(&sweep, &err), 0);
	if (run_with(&sweep, stub, &told, &err) < 0)
		fail_msg("%s", err.message);
	assert_int_equal(sweep_count(&sweep, SWEEP_SUCCESS), 6);
	assert_non_null(strstr(sweep.points[6].error, "needs 4 GPUs, and the sweep has 3"));
	sweep_release(&sweep);
	path = path_in(directory, "gpus");
	assert_non_null(strstr(text_of(path), "1 4\n"));
	assert_non_null(strstr(text_of(path), "2 5\n"));
	assert_non_null(strstr(text_of(path), "5 4,5,7\n6 4,5,7\n"));
	free(path);
	free(stub);
}

static void launchers_stand_before_the_driver(void **state)
{
	static const struct {
		const char *launcher, *args;
		int processes, nodes;
		const char *words; /* up to the shell that numbers the ranks */
	} cases[] = {
		{ "local", "", 4, 1, "" },
		{ "mpirun", "--oversubscribe", 4, 1, "mpirun -n 4 --oversubscribe sh -c" },
		{ "mpirun", "", 2, 3,
		  "mpirun -n 6 --map-by=ppr:2:node -x MOESCOPE_BENCH_REQUESTS -x "
		  "MOESCOPE_BENCH_CONFIG sh -c" },
		{ "torchrun", "", 2, 1,
		  "torchrun --standalone --nnodes=1 --nproc-per-node=2 --no-python sh -c" },
		{ "slurm", "", 1, 1, "" },
		{ "slurm", "--exclusive", 2, 2, "srun --ntasks=4 sh -c" },
	};
	const char *programs[] = { "mpirun", "torchrun", "sbatch", "squeue", "scancel", "sinfo" };
	char *before = strdup(getenv("PATH"));

	(void)state;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		char *path = path_in(directory, programs[i]);
		int fd = open(path, O_CREAT | O_WRONLY, 0755);

		assert_true(fd >= 0);
		close(fd);
		free(path);
	}
	setenv("PATH", directory, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct experiment e = base_of("launcher", cases[i].launcher);
		struct argv argv = { NULL, 0, 0 };
		struct err err = { "" };
		char words[512] = "";

		e.processes = cases[i].processes;
		e.nodes = cases[i].nodes;
		assert_int_equal(experiment_set(&e, "launcher_args", cases[i].args, &err), 0);
		assert_int_equal(launcher_prefix(&e, &argv, &err), 0);
		for (size_t w = 0; w + 2 < argv.n; w++)
			sprintf(words + strlen(words), "%s%s", w ? " " : "", argv.v[w]);
		assert_string_equal(words, cases[i].words);
		argv_release(&argv);
		experiment_release(&e);
	}
	setenv("PATH", "/nonexistent", 1);
	for (size_t i = 1; launchers[i]; i++) {
		struct err err = { "" };

		assert_int_equal(launcher_check(launchers[i], &err), -ENOENT);
		assert_non_null(strstr(err.message, launchers[i]->install));
	}
	setenv("PATH", before, 1);
	free(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(presets_have_their_points, set_up, tear_down),
		cmocka_unit_test_setup_teardown(first_parameter_changes_slowest, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bad_lists_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(journal_survives, set_up, tear_down),
		cmocka_unit_test_setup_teardown(second_death_of_a_node_is_a_failure, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(points_end_in_every_way, set_up, tear_down),
		cmocka_unit_test_setup_teardown(killed_sweep_is_resumed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(gpus_are_dealt_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(launchers_stand_before_the_driver, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
