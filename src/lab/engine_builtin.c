/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine `builtin`: tinymoe, the embedded model. Works on any machine.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lab/engine.h"

static const char *checkpoint(const struct experiment *e)
{
	return e->model_path ? e->model_path : e->model;
}

static int check(const struct experiment *e, const struct lab_tools *tools, struct err *err)
{
	const char *path = checkpoint(e);

	if (!tools->tinymoe)
		return err_set(err, -ENOENT,
			       "tinymoe is not beside moescope; install moescope as a whole.");
	if (path && strcmp(path, "tinymoe") != 0 && access(path, R_OK) < 0)
		return err_sys(err, -ENOENT,
			       "the model '%s' is not there; engine builtin loads checkpoints that "
			       "'tinymoe --save FILE' writes, and without a model its own",
			       path);
	if (e->max_tokens > INT32_MAX || e->batch_size > 1 << 20)
		return err_set(err, -EINVAL,
			       "engine builtin generates up to %d tokens of up to %d sequences.",
			       INT32_MAX, 1 << 20);
	if (e->task == TASK_TRAINING && (double)e->steps * (double)e->repeats > 1e9)
		return err_set(err, -EINVAL, "steps times repeats is more than a billion.");
	if (e->tensor_parallel_size != 1)
		return err_set(err, -EINVAL,
			       "engine builtin runs on the CPU; tensor_parallel_size must be 1.");
	return 0;
}

static int driver(const struct experiment *e, const struct lab_tools *tools, const char *directory,
		  struct argv *argv, struct err *err)
{
	const char *path = checkpoint(e);
	int64_t steps = e->steps * e->repeats + e->warmup;
	int r = argv_add(argv, "%s", tools->tinymoe);

	r |= argv_add(argv, "--requests");
	r |= argv_add(argv, "%s/requests.jsonl", directory);
	r |= argv_add(argv, "--seed") | argv_add(argv, "%lld", (long long)e->seed);
	r |= argv_add(argv, "--warmup") | argv_add(argv, "%lld", (long long)e->warmup);
	if (path && strcmp(path, "tinymoe") != 0)
		r |= argv_add(argv, "--load") | argv_add(argv, "%s", path);
	if (e->threads)
		r |= argv_add(argv, "--threads") | argv_add(argv, "%lld", (long long)e->threads);
	r |= argv_add(argv, "--steps");
	if (e->task == TASK_TRAINING) {
		r |= argv_add(argv, "%lld", (long long)steps);
		r |= argv_add(argv, "--batch") | argv_add(argv, "%lld", (long long)e->batch_size);
	} else {
		r |= argv_add(argv, "0");
		r |= argv_add(argv, "--generate") |
		     argv_add(argv, "%lld", (long long)e->max_tokens);
		r |= argv_add(argv, "--sequences") |
		     argv_add(argv, "%lld", (long long)e->batch_size);
		r |= argv_add(argv, "--repeats") | argv_add(argv, "%lld", (long long)e->repeats);
		r |= argv_add(argv, "--temperature") | argv_add(argv, "%.17g", e->temperature);
		r |= argv_add(argv, "--prompt") | argv_add(argv, "%s", e->prompt ? e->prompt : "");
	}
	for (size_t i = 0; i < e->server_args.n; i++)
		r |= argv_add(argv, "%s", e->server_args.v[i]);
	return r ? err_set(err, -ENOMEM, "no memory.") : 0;
}

const struct engine engine_builtin = {
	.name = "builtin",
	.summary = "tinymoe, the embedded model, on the CPU of this machine",
	.trains = true,
	.check = check,
	.driver = driver,
};
