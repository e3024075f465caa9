/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine `transformers`: a Python driver, embedded in this program and written into the
 * experiment's directory as inference_script.py. That file says how a batch is measured.
 */
#include <string.h>
#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/files/whole_file.h"
#include "lab/engines/engine.h"
#include "lab/engines/python_engine.h"

static int check_transformers(const struct experiment *e, const struct lab_tools *tools,
			      struct err *err)
{
	if (!e->model_path && !e->model)
		return err_set(
			err, -EINVAL,
			"engine transformers needs a model: a folder, a config.json, a name of "
			"the Hugging Face Hub, or mixtral-tiny, a small one with random "
			"weights.");
	if (experiment_parallel_by(e))
		return err_set(
			err, -EINVAL,
			"engine transformers runs on one GPU; %s must be 1, or choose engine "
			"vllm or sglang.",
			experiment_parallel_by(e));
	if (e->output_tokens)
		return err_set(err, -EINVAL,
			       "engine transformers generates max_tokens; output_tokens is for "
			       "servers.");
	return python_packages_check(tools->python, "transformers", "torch,transformers", err);
}

static int drive_transformers(const struct experiment *e, const struct lab_tools *tools,
			      const char *directory, struct argv *argv, struct err *err)
{
	struct buf path = { 0 };
	int r;

	buf_printf(&path, "%s/inference_script.py", directory);
	if (path.failed)
		return err_set(err, -ENOMEM, "no memory.");
	r = whole_file_text(path.data, transformers_driver_text, strlen(transformers_driver_text),
			    err);
	if (r == 0) {
		r |= argv_add(argv, "%s", tools->python ? tools->python : "python3");
		r |= argv_add(argv, "%s", path.data);
		for (size_t i = 0; i < e->server_args.n; i++)
			r |= argv_add(argv, "%s", e->server_args.v[i]);
		r = r ? err_set(err, -ENOMEM, "no memory.") : 0;
	}
	buf_release(&path);
	return r;
}

const struct engine engine_transformers = {
	.name = "transformers",
	.summary =
		"Hugging Face transformers: a model's folder, or a configuration with random weights",
	.trains = true,
	.gpus = true,
	.check = check_transformers,
	.driver = drive_transformers,
};
