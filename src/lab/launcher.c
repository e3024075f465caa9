/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of launchers and what they share.
 */
#include "lab/launcher.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct launcher *const launchers[] = { &launcher_local, &launcher_torchrun, &launcher_mpirun,
					     &launcher_slurm, NULL };

const struct launcher *launcher_find(const char *name)
{
	for (size_t i = 0; launchers[i]; i++)
		if (strcmp(launchers[i]->name, name) == 0)
			return launchers[i];
	return NULL;
}

static bool in_path(const char *program)
{
	const char *path = getenv("PATH");
	char file[4096];

	while (path && *path) {
		size_t length = strcspn(path, ":");

		snprintf(file, sizeof(file), "%.*s/%s", (int)length, path, program);
		if (length && access(file, X_OK) == 0)
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}

int launcher_check(const struct launcher *launcher, struct err *err)
{
	for (size_t i = 0; launcher->programs && launcher->programs[i]; i++)
		if (!in_path(launcher->programs[i]))
			return err_set(
				err, -ENOENT,
				"launcher '%s' needs '%s', which is not in PATH; '%s' installs it.",
				launcher->name, launcher->programs[i], launcher->install);
	return 0;
}

int64_t launcher_gpus(const struct experiment *experiment)
{
	const struct engine *engine = engine_find(experiment->engine);
	int64_t nodes = experiment->nodes, share;

	if (!engine || !engine->gpus)
		return 0;
	share = (experiment_parallel(experiment) + nodes - 1) / nodes;
	return share > experiment->processes ? share : experiment->processes;
}

/* Launchers pass ranks in variables of their own. */
static int only_first_writes(struct argv *argv)
{
	return argv_add_all(
		argv, "sh", "-c",
		"rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${RANK:-${SLURM_PROCID:-0}}}}; "
		"if [ \"$rank\" != 0 ]; then " DRIVER_REQUESTS "=\"$" DRIVER_REQUESTS
		".rank-$rank\"; export " DRIVER_REQUESTS "; fi; exec \"$@\"",
		"sh", NULL);
}

int launcher_prefix(const struct experiment *experiment, struct argv *argv, struct err *err)
{
	const struct launcher *launcher = launcher_find(experiment->launcher ? experiment->launcher
									     : "local");
	size_t before = argv->n;
	int r;

	if (!launcher)
		return err_set(err, -EINVAL, "there is no launcher '%s'.", experiment->launcher);
	r = launcher_check(launcher, err);
	if (r < 0 || !launcher->prefix)
		return r;
	r = launcher->prefix(experiment, argv, err);
	if (r == 0 && argv->n > before)
		r = only_first_writes(argv);
	return r == -ENOMEM ? err_set(err, r, "no memory.") : r;
}

int launcher_run(struct sweep *sweep, const struct lab_tools *tools,
		 const struct sweep_watch *watch, int *ret_signal, struct err *err)
{
	const struct launcher *launcher = launcher_find(sweep->base.launcher ? sweep->base.launcher
									     : "local");
	int r;

	if (!launcher)
		return err_set(err, -EINVAL, "there is no launcher '%s'.", sweep->base.launcher);
	r = launcher_check(launcher, err);
	if (r == 0 && chdir(sweep->cwd) < 0)
		r = err_sys(err, -errno, "cannot change to %s, where the sweep was started",
			    sweep->cwd);
	if (r < 0)
		return r;
	return (launcher->run ? launcher : &launcher_local)
		->run(sweep, tools, watch, ret_signal, err);
}
