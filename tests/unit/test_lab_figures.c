/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of an experiment by hand, the line of engine `command`, and programs under a time limit.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/engines/engine.h"
#include "lab/serving/figures.h"
#include "lab/shared/child.h"

#define MS INT64_C(1000000)

static void add(struct requests *requests, int64_t sent_ms, int64_t end_ms, int64_t tokens,
		enum request_end end)
{
	struct request *request = requests_add(requests);

	assert_non_null(request);
	request->sent_ns = sent_ms * MS;
	request->end_ns = end_ms * MS;
	request->end = end;
	request->prompt_tokens = 5;
	request->output_tokens = tokens;
}

static void close_to(double got, double wanted)
{
	if (!(fabs(got - wanted) < 1e-9 * fabs(wanted)))
		fail_msg("%.12g is not %.12g", got, wanted);
}

/* Two repeats of two requests with a pause between them, which counts nowhere. */
static void test_repeats(void **state)
{
	struct requests requests = { 0 };
	struct experiment e;
	struct figures f;

	(void)state;
	assert_int_equal(experiment_init(&e), 0);
	e.repeats = 2;
	add(&requests, 0, 900, 1000, REQUEST_OK);
	requests.v[0].warmup = true;
	add(&requests, 1000, 1100, 10, REQUEST_OK);
	add(&requests, 1000, 1200, 20, REQUEST_OK);
	add(&requests, 5000, 5300, 10, REQUEST_OK);
	add(&requests, 5000, 5100, 0, REQUEST_FAILED);
	assert_int_equal(figures_compute(&e, &requests, &f), 0);
	assert_int_equal(f.n, 2);
	close_to(f.repeats[0].time_s, 0.2);
	assert_int_equal(f.repeats[0].tokens, 30);
	close_to(f.repeats[1].time_s, 0.3);
	assert_int_equal(f.repeats[1].tokens, 10);
	assert_int_equal(f.repeats[1].ok, 1);
	close_to(f.time_s, 0.25);
	close_to(f.tokens_per_s, 40 / 0.5);
	assert_int_equal(f.output_tokens, 40);
	assert_int_equal(f.prompt_tokens, 15);
	assert_null(f.reason);
	figures_release(&f);
	/* What does not divide is one. */
	e.repeats = 3;
	assert_int_equal(figures_compute(&e, &requests, &f), 0);
	assert_null(f.repeats);
	close_to(f.time_s, 4.3);
	close_to(f.tokens_per_s, 40 / 4.3);
	e.task = TASK_TRAINING;
	e.repeats = 1;
	assert_int_equal(figures_compute(&e, &requests, &f), 0);
	close_to(f.tokens_per_s, 15 / 4.3);
	figures_release(&f);
	requests_release(&requests);
	experiment_release(&e);
}

static void test_unknown(void **state)
{
	struct requests requests = { 0 };
	struct experiment e;
	struct figures f;

	(void)state;
	assert_int_equal(experiment_init(&e), 0);
	assert_int_equal(figures_compute(&e, &requests, &f), 0);
	assert_string_equal(f.reason, "no request was measured");
	assert_true(isnan(f.tokens_per_s) && isnan(f.time_s));
	add(&requests, 0, 100, -1, REQUEST_OK);
	assert_int_equal(figures_compute(&e, &requests, &f), 0);
	assert_string_equal(f.reason, "the program did not count tokens");
	assert_true(isnan(f.tokens_per_s));
	close_to(f.time_s, 0.1);
	assert_int_equal(f.output_tokens, -1);
	figures_release(&f);
	requests.v[0].end = REQUEST_FAILED;
	assert_int_equal(figures_compute(&e, &requests, &f), 0);
	assert_string_equal(f.reason, "no request succeeded");
	assert_true(isnan(f.tokens_per_s));
	figures_release(&f);
	requests_release(&requests);
	experiment_release(&e);
}

static void test_command_line(void **state)
{
	static const struct {
		const char *command, *line, *says;
	} cases[] = {
		{ "./x --batch {batch_size} -t {temperature}", "./x --batch 1 -t 0.7", NULL },
		{ "echo {prompt}", "echo 'it'\\''s $HOME'", NULL },
		{ "echo {{{batch_size}}} {{}}", "echo {1} {}", NULL },
		{ "x {server_args} {environment} {model}", "x a 'b c' N='v w' ''", NULL },
		{ "awk '{{print $1}}'", "awk '{print $1}'", NULL },
		{ "x {batchsize}", NULL, "did you mean {batch_size}?" },
		{ "x {qqqqqqqqqqqqqqqqqq}", NULL, "--list-parameters" },
		{ "x {batch_size", NULL, "has no '}'" },
		{ "x {}", NULL, "not a parameter" },
	};
	struct err err = { "" };
	struct experiment e;

	(void)state;
	assert_int_equal(experiment_init(&e), 0);
	assert_int_equal(experiment_set(&e, "prompt", "it's $HOME", &err), 0);
	assert_int_equal(experiment_set(&e, "server_args", "a 'b c'", &err), 0);
	assert_int_equal(experiment_set(&e, "environment", "'N=v w'", &err), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *line = NULL;
		int r;

		assert_int_equal(experiment_set(&e, "command", cases[i].command, &err), 0);
		r = command_expand(&e, &line, &err);
		if (cases[i].line) {
			assert_int_equal(r, 0);
			assert_string_equal(line, cases[i].line);
			free(line);
		} else {
			assert_true(r < 0);
			if (!strstr(err.message, cases[i].says))
				fail_msg("'%s' is not in: %s", cases[i].says, err.message);
		}
	}
	experiment_release(&e);
}

static struct child run(const char *line, enum child_event wanted, double limit_s)
{
	char *argv[] = { "/bin/sh", "-c", (char *)line, NULL };
	static const int politely[] = { SIGTERM, 0 };
	struct texts none = { NULL, 0 };
	struct child child;
	struct err err = { "" };
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

	assert_int_equal(child_start(&child, argv, &none, fd, &err), 0);
	assert_int_equal(child_wait(&child, clock_monotonic_ns() + (int64_t)(limit_s * 1e9), NULL),
			 wanted);
	child_end(&child, politely, 0.2);
	assert_true(child.ended);
	close(fd);
	return child;
}

static void test_children(void **state)
{
	struct child child = run("exit 0", CHILD_ENDED, 60);
	char text[VERDICT_MAX];

	(void)state;
	child_verdict(&child, text, sizeof(text));
	assert_string_equal(text, "");
	assert_true(child.peak_rss_bytes > 0);
	child = run("exit 3", CHILD_ENDED, 60);
	child_verdict(&child, text, sizeof(text));
	assert_string_equal(text, "failed with status 3");
	child = run("kill -SEGV $$", CHILD_ENDED, 60);
	child_verdict(&child, text, sizeof(text));
	assert_string_equal(text, "was ended by signal 11 (Segmentation fault)");
	/* A shell that lived through its program says so with its status. */
	child = run("sh -c 'kill -ABRT $$'; exit $?", CHILD_ENDED, 60);
	child_verdict(&child, text, sizeof(text));
	assert_string_equal(text, "was ended by signal 6 (Aborted)");
}

/* Who sent SIGKILL is told by the kernel's counts of what it killed for lack of memory. */
static void test_killed(void **state)
{
	static const struct {
		struct oom_kills before, after;
		const char *line, *words;
	} cases[] = {
		{ { 3, 7 }, { 4, 8 }, "kill -KILL $$", "was killed by the kernel: the machine or" },
		{ { -1, 7 }, { -1, 8 }, "kill -KILL $$", "while the kernel killed for lack" },
		{ { 3, 7 }, { 3, 8 }, "kill -KILL $$", "while the kernel killed for lack" },
		{ { 3, 7 },
		  { 3, 7 },
		  "kill -KILL $$",
		  "by a guard, not by the kernel for lack of memory" },
		{ { -1, -1 }, { -1, -1 }, "kill -KILL $$", "as the kernel does when memory is" },
		/* A process of the program was killed, and the program ended by itself. */
		{ { 3, 7 },
		  { 4, 8 },
		  "sh -c 'kill -KILL $$'; exit $?",
		  "was killed by the kernel" },
		{ { 3, 7 }, { 4, 8 }, "exit 1", "failed with status 1 while the kernel killed" },
		{ { 3, 7 }, { 4, 8 }, "kill -ABRT $$", "(Aborted) while the kernel killed" },
		{ { 3, 7 },
		  { 3, 8 },
		  "exit 1",
		  "status 1 while the kernel killed for lack of memory on" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct child child = run(cases[i].line, CHILD_ENDED, 60);
		char text[VERDICT_MAX];

		/* The machine counts, and its count only grows. */
		assert_true(child.before.machine >= 0);
		assert_true(child.after.machine >= child.before.machine);
		child.before = cases[i].before;
		child.after = cases[i].after;
		child_verdict(&child, text, sizeof(text));
		if (!strstr(text, cases[i].words))
			print_message("%zu: %s\n", i, text);
		assert_non_null(strstr(text, cases[i].words));
		assert_true(strlen(text) + 1 < VERDICT_MAX);
	}
}

/* One that ignores the polite signal, with a child of its own that does so too. */
static void test_stubborn(void **state)
{
	struct child child = run("trap '' TERM; sleep 600 & wait; sleep 600", CHILD_TIMEOUT, 0.2);

	(void)state;
	assert_true(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL);
	/* Nobody of the group is left; a zombie that nobody has buried yet may be. */
	for (int i = 0; i < 2000 && kill(-child.pid, 0) == 0; i++)
		usleep(1000);
	assert_int_equal(kill(-child.pid, 0), -1);
}

static void test_missing_program(void **state)
{
	char *argv[] = { "/nowhere/program", NULL };
	struct texts none = { NULL, 0 };
	struct child child;
	struct err err = { "" };

	(void)state;
	assert_true(child_start(&child, argv, &none, STDERR_FILENO, &err) < 0);
	assert_string_equal(err.message,
			    "cannot start '/nowhere/program': No such file or directory");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_repeats),		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_command_line),	cmocka_unit_test(test_children),
		cmocka_unit_test(test_killed),		cmocka_unit_test(test_stubborn),
		cmocka_unit_test(test_missing_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
