/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of parameters, and YAML in and out of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "failing_alloc.h"
#include "lab/shared/experiment.h"

struct fixture {
	struct experiment e;
	struct err err;
	char path[64];
};

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	int fd;

	strcpy(f->path, "/tmp/test-lab-experiment-XXXXXX");
	fd = mkstemp(f->path);
	close(fd);
	*state = f;
	return experiment_init(&f->e);
}

static int end(void **state)
{
	struct fixture *f = *state;

	experiment_release(&f->e);
	unlink(f->path);
	free(f);
	return 0;
}

/* Of a map; NULL: it has no such name. */
static const char *texts_value(const struct texts *map, const char *name)
{
	for (size_t i = 0; i + 1 < map->n; i += 2)
		if (strcmp(map->v[i], name) == 0)
			return map->v[i + 1];
	return NULL;
}

static void test_defaults(void **state)
{
	struct fixture *f = *state;

	assert_string_equal(f->e.engine, "builtin");
	assert_string_equal(f->e.prompt, "Hello, how are you?");
	assert_int_equal(f->e.max_tokens, 100);
	assert_int_equal(f->e.batch_size, 1);
	assert_int_equal(f->e.tensor_parallel_size, 1);
	assert_true(f->e.temperature == 0.7);
	assert_int_equal(f->e.profile_mode, PROFILE_INFERENCE_ONLY);
	assert_true(f->e.rescale);
	assert_null(f->e.model);
	assert_string_equal(texts_value(&f->e.counter_options, "launch_count"), "10");
	assert_string_equal(texts_value(&f->e.counter_options, "kernel_count"), "100");
	assert_string_equal(texts_value(&f->e.counter_options, "set"), "full");
	for (size_t i = 0; parameters[i].key; i++)
		assert_false(f->e.given[i]);
}

/* Keys are unique, have a line of help, and a place of their own in the structure. */
static void test_table(void **state)
{
	(void)state;
	for (const struct parameter *p = parameters; p->key; p++) {
		assert_ptr_equal(parameter_find(p->key), p);
		assert_non_null(p->help);
		assert_int_not_equal(p->help[strlen(p->help) - 1], '.');
		for (const struct parameter *q = parameters; q < p; q++)
			assert_int_not_equal(p->offset, q->offset);
	}
	for (const char *const *alias = parameter_aliases; *alias; alias += 2)
		assert_string_equal(parameter_find(alias[0])->key, alias[1]);
}

static void refuses(struct fixture *f, const char *key, const char *value, const char *says)
{
	assert_true(experiment_set(&f->e, key, value, &f->err) < 0);
	if (!strstr(f->err.message, says))
		fail_msg("'%s' is not in: %s", says, f->err.message);
}

static void test_set(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(experiment_set(&f->e, "max_tokens", "7", &f->err), 0);
	assert_int_equal(f->e.max_tokens, 7);
	assert_true(experiment_given(&f->e, parameter_find("max_tokens")));
	assert_int_equal(experiment_set(&f->e, "profile_mode", "nsys_ncu", &f->err), 0);
	assert_int_equal(f->e.profile_mode, PROFILE_FULL);
	assert_int_equal(experiment_set(&f->e, "profile_mode", "nsys", &f->err), 0);
	assert_int_equal(f->e.profile_mode, PROFILE_TRACE);
	assert_int_equal(experiment_set(&f->e, "rescale", "no", &f->err), 0);
	assert_false(f->e.rescale);
	assert_int_equal(experiment_set(&f->e, "ncu_options", "kernel_name=gemm", &f->err), 0);
	assert_int_equal(f->e.counter_options.n, 8); /* and what it has by default */
	assert_string_equal(texts_value(&f->e.counter_options, "set"), "full");
	assert_int_equal(experiment_set(&f->e, "ncu_options", "set=basic", &f->err), 0);
	assert_int_equal(f->e.counter_options.n, 6);
	assert_string_equal(texts_value(&f->e.counter_options, "set"), "basic");
	refuses(f, "max_tokens", "0", "'max_tokens' cannot be 0; it must be from 1 to 1000000000.");
	refuses(f, "max_tokens", "1.5", "'max_tokens' needs a whole number, not '1.5'.");
	refuses(f, "max_tokens", "99999999999999999999", "whole number");
	refuses(f, "temperature", "nan", "'temperature' needs a number, not 'nan'.");
	refuses(f, "profile_mode", "tracee", "did you mean 'trace'");
	refuses(f, "dialect", "vlm", "did you mean 'vllm'");
	refuses(f, "rescale", "maybe", "true or false");
	refuses(f, "environment", "NAME", "'environment' needs NAME=VALUE, not 'NAME'.");
	refuses(f, "batchsize", "1", "there is no 'batchsize'; did you mean 'batch_size'?");
	refuses(f, "prompt", "\xFF", "not UTF-8");
	assert_int_equal(f->e.max_tokens, 7); /* as it was */
}

static void test_words(void **state)
{
	struct fixture *f = *state;
	char *text;

	assert_int_equal(experiment_set(&f->e, "gpus", "0,1 ,3", &f->err), 0);
	assert_int_equal(f->e.gpus.n, 3);
	assert_string_equal(f->e.gpus.v[2], "3");
	assert_int_equal(experiment_set(&f->e, "server_args",
					"--json '{\"a\": [1, 2]}' --x=\\  \"\" \"a \\\" b\"",
					&f->err),
			 0);
	assert_int_equal(f->e.server_args.n, 5);
	assert_string_equal(f->e.server_args.v[1], "{\"a\": [1, 2]}");
	assert_string_equal(f->e.server_args.v[2], "--x= ");
	assert_string_equal(f->e.server_args.v[3], "");
	assert_string_equal(f->e.server_args.v[4], "a \" b");
	text = experiment_get(&f->e, parameter_find("server_args"));
	assert_int_equal(experiment_set(&f->e, "server_args", text, &f->err), 0);
	free(text);
	assert_int_equal(f->e.server_args.n, 5);
	assert_string_equal(f->e.server_args.v[1], "{\"a\": [1, 2]}");
	assert_string_equal(f->e.server_args.v[3], "");
	assert_int_equal(experiment_set(&f->e, "environment", "A=1 \"B=x y\" C= A=2", &f->err), 0);
	assert_int_equal(f->e.environment.n, 6);
	assert_string_equal(texts_value(&f->e.environment, "A"), "2");
	assert_string_equal(texts_value(&f->e.environment, "B"), "x y");
	assert_string_equal(texts_value(&f->e.environment, "C"), "");
}

static void test_model_name(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(experiment_complete(&f->e), 0);
	assert_string_equal(f->e.model_name, "tinymoe");
	assert_int_equal(experiment_set(&f->e, "model", "org/Name-7B", &f->err), 0);
	assert_int_equal(experiment_complete(&f->e), 0);
	assert_string_equal(f->e.model_name, "Name-7B");
	assert_int_equal(experiment_set(&f->e, "model_path", "/models/Qwen2.5-72B/", &f->err), 0);
	assert_int_equal(experiment_complete(&f->e), 0);
	assert_string_equal(f->e.model_name, "Qwen2.5-72B");
	assert_int_equal(experiment_set(&f->e, "model_name", "mine", &f->err), 0);
	assert_int_equal(experiment_complete(&f->e), 0);
	assert_string_equal(f->e.model_name, "mine");
}

static void test_fits(void **state)
{
	static const struct {
		const char *key, *value, *says;
	} cases[] = {
		{ "engine", "command", "needs a command" },
		{ "engine", "openai", "needs the url" },
		{ "arrival", "poisson", "needs a request_rate" },
		{ "arrival", "trace", "arrival_trace" },
		{ "ramp", "linear", "a ramp needs an arrival with a rate" },
		{ "experiment_name", "a/b", "without '/'" },
		{ "experiment_name", "..", "without '/'" },
		{ "engine", "", "'engine' is empty" },
	};
	struct fixture *f = *state;

	assert_int_equal(experiment_check(&f->e, &f->err), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct experiment copy;

		assert_int_equal(experiment_copy(&copy, &f->e), 0);
		assert_int_equal(experiment_set(&copy, cases[i].key, cases[i].value, &f->err), 0);
		assert_true(experiment_check(&copy, &f->err) < 0);
		if (!strstr(f->err.message, cases[i].says))
			fail_msg("'%s' is not in: %s", cases[i].says, f->err.message);
		experiment_release(&copy);
	}
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

#ifdef HAVE_YAML
static void same(const struct experiment *a, const struct experiment *b)
{
	for (const struct parameter *p = parameters; p->key; p++) {
		char *x = experiment_get(a, p), *y = experiment_get(b, p);

		assert_string_equal(x, y);
		free(x);
		free(y);
	}
}

/* Every parameter gets a value that is not its default; texts with everything YAML could trip on. */
static void test_round_trip(void **state)
{
	static const char odd[] = "a: b #c \"q\" 'r' \\ - {x} \t\n \x01\x7F \xC2\x85 \xE2\x80\xA8 "
				  "\xEF\xBB\xBF \xE4\xBD\xA0 \xF0\x9F\x98\x80 ~";
	struct fixture *f = *state;
	struct experiment back;

	for (const struct parameter *p = parameters; p->key; p++) {
		const char *value = p->type == PARAMETER_INT	  ? "3"
				    : p->type == PARAMETER_NUMBER ? "0.1234567890123456789"
				    : p->type == PARAMETER_LIST	  ? "null \"a, b\" ~ 7 \"\""
				    : p->type == PARAMETER_MAP	  ? "X=true Y= Z=\"a: b\""
				    : p->choices		  ? p->choices[1]
				    : p->type == PARAMETER_FLAG
					    ? (strcmp(p->default_text, "true") ? "true" : "false")
					    : odd;

		assert_int_equal(experiment_set(&f->e, p->key, value, &f->err), 0);
	}
	assert_int_equal(experiment_save(&f->e, f->path, &f->err), 0);
	assert_int_equal(experiment_init(&back), 0);
	if (experiment_load(&back, f->path, &f->err) < 0)
		fail_msg("%s", f->err.message);
	assert_string_equal(back.prompt, odd);
	same(&f->e, &back);
	experiment_release(&back);
}

/* An empty text where there is a default stays empty; null is the default. */
static void test_round_trip_none(void **state)
{
	struct fixture *f = *state;
	struct experiment back;

	assert_int_equal(experiment_set(&f->e, "prompt", "", &f->err), 0);
	assert_int_equal(experiment_set(&f->e, "counter_options", "", &f->err), 0);
	assert_int_equal(experiment_save(&f->e, f->path, &f->err), 0);
	assert_int_equal(experiment_init(&back), 0);
	assert_int_equal(experiment_load(&back, f->path, &f->err), 0);
	assert_null(back.prompt);
	assert_int_equal(back.counter_options.n, 6);
	same(&f->e, &back);
	write_file(f->path, "prompt: null\nmax_tokens: ~\n");
	experiment_release(&back);
	assert_int_equal(experiment_init(&back), 0);
	assert_int_equal(experiment_load(&back, f->path, &f->err), 0);
	assert_string_equal(back.prompt, "Hello, how are you?");
	assert_false(experiment_given(&back, parameter_find("prompt")));
	experiment_release(&back);
}

/* The configurations of guide E. */
static void test_guide(void **state)
{
	struct fixture *f = *state;

	write_file(f->path, "# my_experiment.yaml\n"
			    "model_path: \"/home/x/models/DeepSeek-R1-Distill-Llama-70B\"\n"
			    "model_name: \"DeepSeek-R1-Distill-Llama-70B\"\n"
			    "prompt: \"\xE8\xAF\xB7\xE8\xA7\xA3\xE9\x87\x8A\"\n"
			    "max_tokens: 1000\nbatch_size: 2\ntensor_parallel_size: 4\n"
			    "profile_mode: \"nsys_ncu\"\n"
			    "ncu_options:\n  kernel_name: \"your_kernel_name_pattern\"\n"
			    "  metrics: [a, b]\n");
	if (experiment_load(&f->e, f->path, &f->err) < 0)
		fail_msg("%s", f->err.message);
	assert_int_equal(f->e.max_tokens, 1000);
	assert_int_equal(f->e.tensor_parallel_size, 4);
	assert_int_equal(f->e.profile_mode, PROFILE_FULL);
	assert_string_equal(f->e.prompt, "\xE8\xAF\xB7\xE8\xA7\xA3\xE9\x87\x8A");
	assert_string_equal(texts_value(&f->e.counter_options, "kernel_name"),
			    "your_kernel_name_pattern");
	assert_string_equal(texts_value(&f->e.counter_options, "metrics"), "a,b");
}

static void test_bad_files(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "max_tokens: 5\nbatchsize: 2\n",
		  ":2:1: unknown key 'batchsize'; did you mean 'batch_size'?" },
		{ "engine: builtin\nmax_tokens:   many\n",
		  ":2:15: 'max_tokens' needs a whole number, not 'many'." },
		{ "max_tokens: [1, 2]\n", ":1:13: 'max_tokens' is a list; it must be one value." },
		{ "prompt: {a: b}\n", "'prompt' is a map; it must be one value." },
		{ "environment: [A=1]\n", "'environment' is a list; it must be a map." },
		{ "gpus: {a: 1}\n", "'gpus' is a map; it must be a list." },
		{ "environment:\n  A: {b: c}\n", ":2:6: 'A' in 'environment' is a map" },
		{ "seed: 1\nseed: 2\n", ":2:1: 'seed' is already in line 1" },
		{ "trace_options: {}\nnsys_options: {}\n", "is already in line 1" },
		{ "- a\n- b\n", ":1:1: a configuration is lines of 'key: value'." },
		{ "seed: 1\n---\nseed: 2\n", "a second document" },
		{ "prompt: \"open\n", ":2:1: found unexpected end of stream." },
		{ "prompt: \xFF\n", "byte 8" },
		{ "prompt: \"a\\0b\"\n", "NUL" },
		{ "[a]: 1\n", "a key must be plain text" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		write_file(f->path, cases[i].text);
		assert_true(experiment_load(&f->e, f->path, &f->err) < 0);
		assert_non_null(strstr(f->err.message, f->path));
		if (!strstr(f->err.message, cases[i].says))
			fail_msg("'%s' is not in: %s", cases[i].says, f->err.message);
		assert_int_equal(f->e.max_tokens, 100); /* untouched */
	}
	assert_true(experiment_load(&f->e, "/nowhere/x.yaml", &f->err) < 0);
	assert_non_null(strstr(f->err.message, "/nowhere/x.yaml"));
}
#else
static void test_no_yaml(void **state)
{
	struct fixture *f = *state;

	write_file(f->path, "seed: 1\n");
	assert_int_equal(experiment_load(&f->e, f->path, &f->err), -ENOSYS);
	assert_non_null(strstr(f->err.message, "libyaml"));
}
#endif

/* Everything once, and the file read back where this build does that. */
static int use_once(struct fixture *f)
{
	struct experiment e, copy;
	char *text;
	int r = experiment_init(&e);

	if (r < 0)
		return r;
	r = experiment_set(&e, "server_args", "a 'b c' d", &f->err);
	if (r == 0)
		r = experiment_set(&e, "environment", "A=1 B=2", &f->err);
	if (r == 0)
		r = experiment_append(&e, parameter_find("environment"), "A", "3");
	if (r == 0)
		r = experiment_complete(&e);
	if (r == 0)
		r = experiment_copy(&copy, &e);
	if (r == 0) {
		text = experiment_get(&copy, parameter_find("environment"));
		r = text ? 0 : -ENOMEM;
		if (text)
			assert_string_equal(text, "A=3 B=2");
		free(text);
		if (r == 0)
			r = experiment_save(&copy, f->path, &f->err);
#ifdef HAVE_YAML
		if (r == 0)
			r = experiment_load(&copy, f->path, &f->err);
#endif
		if (r == 0)
			assert_string_equal(texts_value(&copy.environment, "A"), "3");
		experiment_release(&copy);
	}
	experiment_release(&e);
	return r;
}

/* A failure or the right values, whichever allocation fails; the sanitizers see what stays behind. */
static void test_no_memory(void **state)
{
	long n = 0;

	for (; n < 100000; n++) {
		int r;

		countdown = n;
		r = use_once(*state);
		if (countdown >= 0) {
			countdown = -1;
			assert_int_equal(r, 0);
			break;
		}
	}
	countdown = -1;
	assert_true(n > 100 && n < 100000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(test_defaults),   TEST(test_table),	   TEST(test_set),
		TEST(test_no_memory),  TEST(test_words),	   TEST(test_model_name),
		TEST(test_fits),
#ifdef HAVE_YAML
		TEST(test_round_trip), TEST(test_round_trip_none), TEST(test_guide),
		TEST(test_bad_files),
#else
		TEST(test_no_yaml),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
