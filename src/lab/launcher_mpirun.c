/* SPDX-License-Identifier: Apache-2.0
 *
 * mpirun: each point's driver in several MPI processes, as Open MPI starts them.
 */
#include <errno.h>

#include "lab/launcher.h"

static int prefix_mpirun(const struct experiment *experiment, struct argv *argv, struct err *err)
{
	int r = argv_add_all(argv, "mpirun", "-n", NULL);

	(void)err;
	if (r == 0)
		r = argv_add(argv, "%lld", (long long)experiment->nodes * experiment->processes);
	if (r == 0 && experiment->nodes > 1) {
		r = argv_add(argv, "--map-by=ppr:%lld:node", (long long)experiment->processes);
		/* Ranks on other machines get only the variables that are named. */
		if (r == 0)
			r = argv_add_all(argv, "-x", DRIVER_REQUESTS, "-x", DRIVER_CONFIG, NULL);
	}
	for (size_t i = 0; r == 0 && i < experiment->launcher_args.n; i++)
		r = argv_add(argv, "%s", experiment->launcher_args.v[i]);
	return r;
}

const struct launcher launcher_mpirun = {
	.name = "mpirun",
	.summary = "here, with each point's program in MPI processes",
	.programs = (const char *const[]){ "mpirun", NULL },
	.install = "apt-get install openmpi-bin",
	.prefix = prefix_mpirun,
};
