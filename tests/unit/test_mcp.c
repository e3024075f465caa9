/* SPDX-License-Identifier: Apache-2.0
 *
 * The server of the Model Context Protocol on runs built by hand: every tool answers in one line of JSON that is
 * short enough, and when an allocation fails it says so or ends, and does not crash or leak.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"
#include "failing_alloc.h"
#include "fake_h200.h"
#include "fake_run.h"
#include "kept_regex.h"
#include "surfaces/mcp/tool.h"

/* Of runs that were not loaded from a file. */
uint64_t run_rows(const struct run *run, enum record_kind kind)
{
	return kind == RECORD_STEP ? run->step.n : 0;
}

static int list_runs(void *context, struct mcp_runs *ret_runs, struct err *err)
{
	static char name[] = "a.mscope", file[] = "b.json";
	static const struct mcp_run runs[] = { { name, NULL }, { file, "a trace" } };

	(void)context;
	(void)err;
	*ret_runs = (struct mcp_runs){ runs, 2, true };
	return 0;
}

static int find_run(void *context, const char *given, char **ret_name, struct err *err)
{
	(void)context;
	(void)err;
	*ret_name = strdup(given ? given : "a.mscope");
	return *ret_name ? 0 : -ENOMEM;
}

/* There is one run, which stays. */
static int load_run(void *context, const char *name, const struct run_want *want, bool always_steps,
		    struct run **ret_run, struct err *err)
{
	(void)want;
	(void)always_steps;
	if (!strcmp(name, "none"))
		return err_set(err, -ENOENT, "no run");
	*ret_run = context;
	return 0;
}

static void keep_run(struct run *run)
{
	(void)run;
}

static int options(void *context, const char *command, const struct mcp_word *words, size_t n,
		   struct view_options *ret_options, struct err *err)
{
	(void)context;
	(void)command;
	(void)err;
	*ret_options = (struct view_options){ .question = QUESTION_ALL };
	for (size_t i = 0; i < n; i++)
		if (!strcmp(words[i].name, "sort"))
			ret_options->sort = words[i].value;
		else
			ret_options->limit = (size_t)atoi(words[i].value);
	return 0;
}

static int explain(void *context, const char *word, FILE *out, struct err *err)
{
	(void)context;
	(void)err;
	for (int i = 0; i < 2000; i++)
		fprintf(out, "%s line %d\n", word, i);
	return 0;
}

static struct mcp_host host_of(struct run *run)
{
	return (struct mcp_host){ .version = "1",
				  .context = run,
				  .list = list_runs,
				  .find = find_run,
				  .load = load_run,
				  .release = keep_run,
				  .options = options,
				  .explain = explain };
}

/* What the tool `name` answers, as text that the caller frees; *ret_failed: that it failed. NULL: the server has
 * no memory. */
static char *ask(const struct mcp_host *host, const char *name, const char *arguments,
		 bool *ret_failed)
{
	const struct json_node *result;
	struct json_node *root = NULL;
	char message[300], *answer = NULL, *text;
	size_t size;
	FILE *out = open_memstream(&answer, &size);
	long left;
	int r;

	snprintf(message, sizeof(message),
		 "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
		 "\"%s\",\"arguments\":{%s}}}",
		 name, arguments);
	r = mcp_answer(host, message, strlen(message), out);
	left = countdown;
	countdown = -1; /* what follows is the test's own */
	fclose(out);
	if (r >= 0)
		assert_int_equal(json_parse("answer", answer, size, &root, NULL), 0);
	free(answer);
	result = json_get(root, "result");
	if (r >= 0 && !result)
		assert_non_null(json_get(root, "error"));
	text = result ? strdup(json_get_string(json_get(result, "content")->child, "text", ""))
		      : NULL;
	*ret_failed = result && json_get(result, "isError")->type == JSON_TRUE;
	json_node_free(root);
	countdown = left;
	return text;
}

static const struct {
	const char *tool, *arguments;
} questions[] = {
	{ "runs", "" },
	{ "verdicts", "" },
	{ "explain", "\"name\":\"x\"" },
	{ "table", "\"table\":\"steps\",\"sort\":\"time_ns\"" },
	{ "table", "\"table\":\"routing\"" },
	{ "table", "\"table\":\"kernels\",\"limit\":2" },
};

#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static void test_answers_are_short(void **state)
{
	struct run *runs[] = { fake_training_run(), fake_h200_run() };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct mcp_host host = host_of(runs[i]);
		bool failed;

		for (size_t q = 0; q < QUESTIONS; q++) {
			char *text = ask(&host, questions[q].tool, questions[q].arguments, &failed);

			assert_non_null(text);
			assert_false(failed);
			assert_true(*text && strlen(text) <= ANSWER_BYTES);
			free(text);
		}
		fake_run_free(runs[i]);
	}
}

static void test_cut_text_says_so(void **state)
{
	struct mcp_host host = host_of(NULL);
	bool failed;
	char *text = ask(&host, "explain", "\"name\":\"x\"", &failed);

	(void)state;
	assert_true(strlen(text) <= ANSWER_BYTES && strlen(text) > ANSWER_BYTES * 9 / 10);
	assert_non_null(strstr(text, "more lines are left out"));
	free(text);
}

static void test_failures_are_answers(void **state)
{
	struct mcp_host host = host_of(NULL);
	bool failed;
	char *text = ask(&host, "verdicts", "\"run\":\"none\"", &failed);

	(void)state;
	assert_true(failed);
	assert_string_equal(text, "no run.");
	free(text);
}

static void test_without_memory(void **state)
{
	struct run *run = fake_training_run();
	struct mcp_host host = host_of(run);

	(void)state;
	for (size_t q = 0; q < QUESTIONS; q++) {
		bool reached = true, failed;
		long n = 0;

		for (; reached; n++) {
			char *text;

			countdown = n;
			text = ask(&host, questions[q].tool, questions[q].arguments, &failed);
			reached = countdown < 0;
			countdown = -1;
			assert_true(reached || (text && !failed));
			free(text);
		}
		assert_true(n > 20);
	}
	fake_run_free(run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_are_short),
		cmocka_unit_test(test_cut_text_says_so),
		cmocka_unit_test(test_failures_are_answers),
		cmocka_unit_test(test_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
