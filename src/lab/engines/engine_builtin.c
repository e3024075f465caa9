/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine `builtin`: tinymoe, the embedded model. Works on any machine.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "lab/engines/engine.h"

static const char *checkpoint(const struct experiment *e)
{
	return e->model_path ? e->model_path : e->model;
}

static int check_builtin(const struct experiment *e, const struct lab_tools *tools, struct err *err)
{
	const char *path = checkpoint(e);

	if (!tools->tinymoe)
		return err_set(err, -ENOENT,
			       "tinymoe is not next to moescope; install moescope as a whole.");
	if (path && strcmp(path, "tinymoe") != 0 && access(path, R_OK) < 0)
		return err_sys(
			err, -ENOENT,
			"the model '%s' does not exist; engine builtin loads checkpoints that "
			"'tinymoe --save FILE' writes, and without a model its own",
			path);
	if (e->max_tokens > INT32_MAX || e->batch_size > 1 << 20)
		return err_set(err, -EINVAL,
			       "engine builtin generates up to %d tokens of up to %d sequences.",
			       INT32_MAX, 1 << 20);
	if (e->task == TASK_TRAINING && (double)e->steps * (double)e->repeats > 1e9)
		return err_set(err, -EINVAL, "steps times repeats is more than a billion.");
	if (experiment_parallel_by(e))
		return err_set(err, -EINVAL, "engine builtin runs on the CPU; %s must be 1.",
			       experiment_parallel_by(e));
	return 0;
}

static int add_number(struct argv *argv, const char *option, int64_t value)
{
	int r = argv_add(argv, "--%s", option);

	return r < 0 ? r : argv_add(argv, "%lld", (long long)value);
}

static int add_training(const struct experiment *e, struct argv *argv)
{
	int r = add_number(argv, "steps", e->steps * e->repeats + e->warmup);

	return r < 0 ? r : add_number(argv, "batch", e->batch_size);
}

static int add_generation(const struct experiment *e, struct argv *argv)
{
	const struct {
		const char *option;
		int64_t value;
	} numbers[] = { { "steps", 0 },
			{ "generate", e->max_tokens },
			{ "sequences", e->batch_size },
			{ "repeats", e->repeats } };
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(numbers) / sizeof(*numbers); i++)
		r = add_number(argv, numbers[i].option, numbers[i].value);
	if (r == 0)
		r = argv_add(argv, "--temperature=%.17g", e->temperature);
	return r < 0 ? r : argv_add_all(argv, "--prompt", e->prompt ? e->prompt : "", NULL);
}

static int drive_builtin(const struct experiment *e, const struct lab_tools *tools,
			 const char *directory, struct argv *argv, struct err *err)
{
	const char *path = checkpoint(e);
	int r = argv_add_all(argv, tools->tinymoe, NULL);

	(void)directory; /* $MOESCOPE_BENCH_REQUESTS says where to write */
	if (r == 0)
		r = add_number(argv, "seed", e->seed);
	if (r == 0)
		r = add_number(argv, "warmup", e->warmup);
	if (r == 0 && path && strcmp(path, "tinymoe") != 0)
		r = argv_add_all(argv, "--load", path, NULL);
	if (r == 0 && e->threads)
		r = add_number(argv, "threads", e->threads);
	if (r == 0)
		r = e->task == TASK_TRAINING ? add_training(e, argv) : add_generation(e, argv);
	for (size_t i = 0; r == 0 && i < e->server_args.n; i++)
		r = argv_add(argv, "%s", e->server_args.v[i]);
	return r < 0 ? err_set(err, r, "no memory.") : 0;
}

const struct engine engine_builtin = {
	.name = "builtin",
	.summary = "tinymoe, the embedded model, on the CPU of this machine",
	.trains = true,
	.check = check_builtin,
	.driver = drive_builtin,
};
