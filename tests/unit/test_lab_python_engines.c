/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines that live in Python: what they start, what they refuse and with which words.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lab/engines/engine.h"
#include "lab/engines/python_engine.h"

static char folder[] = "/tmp/moescope-engines-XXXXXX";

static void write_program(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0755), 0);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	static const char *const names[] = { "vllm", "python", "lacking", "broken",
					     "inference_script.py" };
	char path[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	return rmdir(folder);
}

static void set(struct experiment *e, const char *key, const char *value)
{
	struct err err;

	assert_int_equal(experiment_set(e, key, value, &err), 0);
}

static struct experiment make(const char *engine, const char *model)
{
	struct experiment e;

	assert_int_equal(experiment_init(&e), 0);
	set(&e, "engine", engine);
	if (model)
		set(&e, "model", model);
	return e;
}

/* The words with a space between them. */
static void assert_words(struct argv *argv, const char *expected)
{
	char all[2048] = "";

	for (size_t i = 0; i < argv->n; i++) {
		size_t used = strlen(all);

		snprintf(all + used, sizeof(all) - used, "%s%s", i ? " " : "", argv->v[i]);
	}
	assert_string_equal(all, expected);
	assert_null(argv->v[argv->n]);
	argv_release(argv);
}

static void vllm_server(void **state)
{
	struct experiment e = make("vllm", "org/model");
	struct lab_tools tools = { 0 };
	struct argv argv = { 0 };
	struct err err;

	(void)state;
	set(&e, "tensor_parallel_size", "4");
	set(&e, "seed", "7");
	set(&e, "server_args", "--max-model-len 4096");
	assert_int_equal(engine_vllm.server(&e, &tools, "/d", 8123, &argv, &err), 0);
	assert_words(&argv, "vllm serve org/model --served-model-name org/model --host 127.0.0.1 "
			    "--port 8123 --tensor-parallel-size 4 --seed 7 --max-model-len 4096");
	set(&e, "pipeline_parallel_size", "2");
	set(&e, "data_parallel_size", "3");
	set(&e, "server_args", "");
	assert_int_equal(engine_vllm.server(&e, &tools, "/d", 8123, &argv, &err), 0);
	assert_words(&argv, "vllm serve org/model --served-model-name org/model --host 127.0.0.1 "
			    "--port 8123 --tensor-parallel-size 4 --pipeline-parallel-size 2 "
			    "--data-parallel-size 3 --seed 7");
	set(&e, "model_path", "/models/here");
	assert_int_equal(engine_vllm.server(&e, &tools, "/d", 1, &argv, &err), 0);
	assert_string_equal(argv.v[2], "/models/here");
	assert_string_equal(argv.v[4], "org/model");
	argv_release(&argv);
	assert_string_equal(engine_vllm.ready_path, "/health");
	experiment_release(&e);
}

static void sglang_server(void **state)
{
	struct experiment e = make("sglang", "org/model");
	struct lab_tools tools = { .python = "/opt/python" };
	struct argv argv = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(engine_sglang.server(&e, &tools, "/d", 8123, &argv, &err), 0);
	assert_words(&argv,
		     "/opt/python -m sglang.launch_server --model-path org/model "
		     "--served-model-name org/model --host 127.0.0.1 --port 8123 --tp-size 1 "
		     "--random-seed 0");
	set(&e, "pipeline_parallel_size", "2");
	set(&e, "data_parallel_size", "3");
	assert_int_equal(engine_sglang.server(&e, &tools, "/d", 8123, &argv, &err), 0);
	assert_words(&argv,
		     "/opt/python -m sglang.launch_server --model-path org/model "
		     "--served-model-name org/model --host 127.0.0.1 --port 8123 --tp-size 1 "
		     "--pp-size 2 --dp-size 3 --random-seed 0");
	set(&e, "pipeline_parallel_size", "1");
	set(&e, "data_parallel_size", "1");
	set(&e, "profile_mode", "trace");
	assert_int_equal(engine_sglang.server(&e, &tools, "/d", 8123, &argv, &err), 0);
	assert_string_equal(argv.v[argv.n - 4], "--expert-distribution-recorder-mode");
	assert_string_equal(argv.v[argv.n - 3], "stat");
	assert_string_equal(argv.v[argv.n - 2], "--expert-distribution-recorder-buffer-size");
	assert_string_equal(argv.v[argv.n - 1], "-1");
	assert_string_equal(argv.v[1], "SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR=/d");
	argv_release(&argv);
	experiment_release(&e);
}

static void missing_programs(void **state)
{
	struct experiment e = make("vllm", "m");
	char python[PATH_MAX], *path = strdup(getenv("PATH"));
	struct lab_tools tools = { .python = python };
	struct err err;

	(void)state;
	assert_non_null(path);
	setenv("PATH", folder, 1);
	assert_int_equal(engine_vllm.check(&e, &tools, &err), -ENOENT);
	assert_non_null(strstr(err.message, "'pip install vllm'"));
	write_program("vllm", "#!/bin/sh\n");
	assert_int_equal(engine_vllm.check(&e, &tools, &err), 0);
	setenv("PATH", path, 1);
	free(path);

	/* A Python that lacks a package says so; the sentence has the command of that Python. */
	write_program("lacking", "#!/bin/sh\nlast() { echo transformers; }\nlast\n");
	snprintf(python, sizeof(python), "%s/lacking", folder);
	assert_int_equal(engine_transformers.check(&e, &tools, &err), -ENOENT);
	assert_non_null(strstr(err.message, "does not have: transformers"));
	assert_non_null(strstr(err.message, "/lacking -m pip install transformers'"));
	write_program("broken", "#!/bin/sh\nexit 3\n");
	snprintf(python, sizeof(python), "%s/broken", folder);
	assert_int_equal(engine_sglang.check(&e, &tools, &err), -ENOENT);
	assert_non_null(strstr(err.message, "MOESCOPE_PYTHON"));
	snprintf(python, sizeof(python), "%s/nowhere", folder);
	assert_int_equal(engine_sglang.check(&e, &tools, &err), -ENOENT);
	assert_non_null(strstr(err.message, "nowhere"));
	write_program("python", "#!/bin/sh\necho\n");
	snprintf(python, sizeof(python), "%s/python", folder);
	assert_int_equal(engine_sglang.check(&e, &tools, &err), 0);
	assert_int_equal(engine_transformers.check(&e, &tools, &err), 0);
	experiment_release(&e);
}

/* The question itself, to a real Python: json is there, the other is not. */
static void asks_python(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(python_packages_check(NULL, "x", "json,os", &err), 0);
	assert_int_equal(python_packages_check(NULL, "x", "json,no_such.thing,none", &err),
			 -ENOENT);
	assert_non_null(strstr(err.message, "does not have: no_such.thing none;"));
}

static void refusals(void **state)
{
	struct lab_tools tools = { 0 };
	struct err err;
	struct experiment e = make("transformers", NULL);

	(void)state;
	assert_int_equal(engine_transformers.check(&e, &tools, &err), -EINVAL);
	assert_non_null(strstr(err.message, "mixtral-tiny"));
	assert_int_equal(engine_vllm.check(&e, &tools, &err), -EINVAL);
	assert_int_equal(engine_sglang.check(&e, &tools, &err), -EINVAL);
	set(&e, "model", "mixtral-tiny");
	set(&e, "tensor_parallel_size", "2");
	assert_int_equal(engine_transformers.check(&e, &tools, &err), -EINVAL);
	assert_non_null(strstr(err.message, "tensor_parallel_size must be 1"));
	set(&e, "tensor_parallel_size", "1");
	set(&e, "output_tokens", "20");
	assert_int_equal(engine_transformers.check(&e, &tools, &err), -EINVAL);
	experiment_release(&e);
}

static void driver_writes_its_script(void **state)
{
	struct experiment e = make("transformers", "mixtral-tiny");
	struct lab_tools tools = { .python = "/opt/python" };
	char path[PATH_MAX], text[64];
	struct argv argv = { 0 };
	struct err err;
	FILE *file;
	long size;

	(void)state;
	set(&e, "server_args", "--device cpu");
	assert_int_equal(engine_transformers.driver(&e, &tools, folder, &argv, &err), 0);
	snprintf(path, sizeof(path), "/opt/python %s/inference_script.py --device cpu", folder);
	assert_words(&argv, path);
	snprintf(path, sizeof(path), "%s/inference_script.py", folder);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	assert_string_equal(text, "# SPDX-License-Identifier: Apache-2.0\n");
	fseek(file, 0, SEEK_END);
	size = ftell(file);
	fclose(file);
	assert_int_equal((size_t)size, strlen(transformers_driver_text));
	assert_true(engine_transformers.driver(&e, &tools, "/nowhere", &argv, &err) < 0);
	assert_non_null(strstr(err.message, "/nowhere/inference_script.py"));
	argv_release(&argv);
	experiment_release(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vllm_server),	    cmocka_unit_test(sglang_server),
		cmocka_unit_test(missing_programs), cmocka_unit_test(asks_python),
		cmocka_unit_test(refusals),	    cmocka_unit_test(driver_writes_its_script),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
