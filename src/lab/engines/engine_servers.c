/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines `vllm` and `sglang`: their servers, started for one experiment on a loopback port and
 * queried by the load client. server_args come last, so they override what is set here.
 */
#include <errno.h>
#include <string.h>

#include "lab/engines/engine.h"
#include "lab/engines/python_engine.h"

static const char *model_of(const struct experiment *e)
{
	return e->model_path ? e->model_path : e->model;
}

/* The model name that the client requests. */
static const char *served_name(const struct experiment *e)
{
	return e->model ? e->model : e->model_name ? e->model_name : e->model_path;
}

static int check_model(const struct experiment *e, const char *engine, struct err *err)
{
	if (model_of(e))
		return 0;
	return err_set(err, -EINVAL,
		       "engine %s needs a model: its folder, or its name at the Hugging Face Hub.",
		       engine);
}

static int add_number(struct argv *argv, const char *option, int64_t value)
{
	int r = argv_add(argv, "%s", option);

	return r ? r : argv_add(argv, "%lld", (long long)value);
}

static int finish_arguments(const struct experiment *e, struct argv *argv, int r, struct err *err)
{
	for (size_t i = 0; i < e->server_args.n; i++)
		r |= argv_add(argv, "%s", e->server_args.v[i]);
	return r ? err_set(err, -ENOMEM, "no memory.") : 0;
}

static int check_vllm(const struct experiment *e, const struct lab_tools *tools, struct err *err)
{
	char path[4096];
	int r = check_model(e, "vllm", err);

	(void)tools;
	if (r < 0 || path_find("vllm", path, sizeof(path)))
		return r;
	return err_set(err, -ENOENT,
		       "engine vllm needs the program 'vllm', which is not on the PATH; install it "
		       "with 'pip install vllm'.");
}

static int serve_vllm(const struct experiment *e, const struct lab_tools *tools,
		      const char *directory, int port, struct argv *argv, struct err *err)
{
	int r = argv_add(argv, "vllm");

	(void)tools;
	(void)directory;
	r |= argv_add_all(argv, "serve", model_of(e), "--served-model-name", served_name(e), NULL);
	r |= argv_add_all(argv, "--host", "127.0.0.1", NULL);
	r |= add_number(argv, "--port", port);
	r |= add_number(argv, "--tensor-parallel-size", e->tensor_parallel_size);
	if (e->pipeline_parallel_size != 1)
		r |= add_number(argv, "--pipeline-parallel-size", e->pipeline_parallel_size);
	if (e->data_parallel_size != 1)
		r |= add_number(argv, "--data-parallel-size", e->data_parallel_size);
	r |= add_number(argv, "--seed", e->seed);
	return finish_arguments(e, argv, r, err);
}

static int check_sglang(const struct experiment *e, const struct lab_tools *tools, struct err *err)
{
	int r = check_model(e, "sglang", err);

	return r < 0 ? r : python_packages_check(tools->python, "sglang", "sglang", err);
}

static const char *python_of(const struct lab_tools *tools)
{
	return tools->python ? tools->python : "python3";
}

/* SGLang counts the tokens of every expert and layer on the device. Not in a run that only
 * measures: counting costs time. */
static bool records_experts(const struct experiment *e)
{
	return e->profile_mode != PROFILE_INFERENCE_ONLY;
}

static int serve_sglang(const struct experiment *e, const struct lab_tools *tools,
			const char *directory, int port, struct argv *argv, struct err *err)
{
	int r = 0;

	if (records_experts(e)) {
		r |= argv_add(argv, "env");
		r |= argv_add(argv, "SGLANG_EXPERT_DISTRIBUTION_RECORDER_DIR=%s", directory);
	}
	r |= argv_add(argv, "%s", python_of(tools));
	r |= argv_add_all(argv, "-m", "sglang.launch_server", "--model-path", model_of(e), NULL);
	r |= argv_add_all(argv, "--served-model-name", served_name(e), NULL);
	r |= argv_add_all(argv, "--host", "127.0.0.1", NULL);
	r |= add_number(argv, "--port", port);
	r |= add_number(argv, "--tp-size", e->tensor_parallel_size);
	if (e->pipeline_parallel_size != 1)
		r |= add_number(argv, "--pp-size", e->pipeline_parallel_size);
	if (e->data_parallel_size != 1)
		r |= add_number(argv, "--dp-size", e->data_parallel_size);
	r |= add_number(argv, "--random-seed", e->seed);
	if (records_experts(e)) {
		r |= argv_add_all(argv, "--expert-distribution-recorder-mode", "stat", NULL);
		/* All forward passes; without it only the last thousand are counted. */
		r |= argv_add_all(argv, "--expert-distribution-recorder-buffer-size", "-1", NULL);
	}
	return finish_arguments(e, argv, r, err);
}

static int collect_sglang(const struct lab_tools *tools, const char *directory, struct argv *argv,
			  struct err *err)
{
	int r = argv_add(argv, "%s", python_of(tools));

	r |= argv_add_all(argv, "-c", sglang_experts_text, directory, NULL);
	r |= argv_add(argv, "%s/" EXPERTS_FILE, directory);
	return r ? err_set(err, -ENOMEM, "no memory") : 0;
}

static const char *const sglang_begin[] = { "/start_expert_distribution_record", NULL };
static const char *const sglang_end[] = { "/stop_expert_distribution_record",
					  "/dump_expert_distribution_record", NULL };
static const struct engine_recorder sglang_recorder = {
	.wanted = records_experts,
	.begin = sglang_begin,
	.end = sglang_end,
	.collect = collect_sglang,
};

const struct engine engine_vllm = {
	.name = "vllm",
	.summary = "vLLM's server, started for the experiment",
	.gpus = true,
	.check = check_vllm,
	.server = serve_vllm,
	.ready_path = "/health",
};

const struct engine engine_sglang = {
	.name = "sglang",
	.summary = "SGLang's server, started for the experiment; its expert recorder is read",
	.gpus = true,
	.check = check_sglang,
	.server = serve_sglang,
	.ready_path = "/health",
	.recorder = &sglang_recorder,
};
