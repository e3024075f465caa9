/* SPDX-License-Identifier: Apache-2.0
 *
 * torchrun: each point's driver in several processes of PyTorch's elastic launch.
 */
#include <errno.h>
#include <string.h>

#include "lab/launcher.h"

static bool has_rendezvous(const struct texts *args)
{
	for (size_t i = 0; i < args->n; i++)
		if (strncmp(args->v[i], "--rdzv", 6) == 0 ||
		    strncmp(args->v[i], "--master", 8) == 0)
			return true;
	return false;
}

static int prefix_torchrun(const struct experiment *experiment, struct argv *argv, struct err *err)
{
	bool meets = has_rendezvous(&experiment->launcher_args);
	int r;

	if (experiment->nodes > 1 && !meets)
		return err_set(
			err, -EINVAL,
			"torchrun on several machines needs a place to meet: give "
			"--rdzv-backend=c10d --rdzv-endpoint=HOST:PORT in launcher_args, or use "
			"launcher 'slurm'.");
	r = argv_add(argv, "torchrun");
	if (r == 0 && !meets)
		r = argv_add(argv, "--standalone"); /* a separate port for each point */
	if (r == 0)
		r = argv_add(argv, "--nnodes=%lld", (long long)experiment->nodes);
	if (r == 0)
		r = argv_add(argv, "--nproc-per-node=%lld", (long long)experiment->processes);
	for (size_t i = 0; r == 0 && i < experiment->launcher_args.n; i++)
		r = argv_add(argv, "%s", experiment->launcher_args.v[i]);
	return r < 0 ? r : argv_add(argv, "--no-python");
}

const struct launcher launcher_torchrun = {
	.name = "torchrun",
	.summary = "here, with each point's program in PyTorch processes",
	.programs = (const char *const[]){ "torchrun", NULL },
	.install = "pip install torch",
	.prefix = prefix_torchrun,
};
