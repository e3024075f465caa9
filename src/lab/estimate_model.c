/* SPDX-License-Identifier: Apache-2.0
 *
 * Finding the configuration of an experiment's model, for estimate.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/input_file.h"
#include "base/read_at.h"
#include "lab/estimate.h"
#include "lab/shared/child.h"

enum { CONFIG_BYTES_MAX = 4 << 20 };

/* All of a small file; free() it. */
static int read_all(int fd, const char *what, char **ret_text, size_t *ret_length, struct err *err)
{
	struct stat st;
	ssize_t length;
	char *text;

	if (fstat(fd, &st) < 0)
		return err_sys(err, -errno, "cannot read %s", what);
	if (st.st_size > CONFIG_BYTES_MAX)
		return err_set(err, -EFBIG, "%s is too large for a configuration.", what);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_sys(err, -ENOMEM, "cannot read %s", what);
	length = read_at(fd, text, (size_t)st.st_size, 0);
	if (length < 0) {
		free(text);
		return err_sys(err, (int)length, "cannot read %s", what);
	}
	*ret_text = text;
	*ret_length = (size_t)length;
	return 0;
}

/* tinymoe's description of the model it would run. */
static int describe_builtin(const struct experiment *e, const struct lab_tools *tools, int fd,
			    struct err *err)
{
	struct argv argv = { NULL, 0, 0 };
	struct child child = { .pid = 0 };
	int r = engine_builtin.driver(e, tools, "", &argv, err);

	if (r == 0 && argv_add(&argv, "--describe") < 0)
		r = err_set(err, -ENOMEM, "no memory.");
	if (r == 0)
		r = child_start(&child, argv.v, &e->environment, fd, err);
	if (r == 0) {
		child_wait(&child, 0, NULL);
		child_end(&child, (const int[]){ 0 }, 0);
		if (child.status)
			r = err_set(err, -EINVAL, "tinymoe refuses this configuration.");
	}
	argv_release(&argv);
	return r;
}

int estimate_model(const struct experiment *e, const struct lab_tools *tools,
		   struct estimate *ret_estimate, struct err *err)
{
	const char *model = e->model_path ? e->model_path : e->model;
	bool builtin = strcmp(e->engine, "builtin") == 0;
	char *path = NULL, *text = NULL;
	size_t length = 0;
	int fd, r;

	if (!builtin && !model)
		return err_set(err, -ENOENT, "no model was given, so its sizes are unknown");
	if (asprintf(&path, "%s/config.json", builtin ? "tinymoe" : model) < 0)
		return err_set(err, -ENOMEM, "no memory.");
	if (builtin) {
		fd = memfd_create("description", MFD_CLOEXEC);
		r = fd < 0 ? err_sys(err, -errno, "cannot ask tinymoe")
			   : describe_builtin(e, tools, fd, err);
	} else {
		fd = input_open(path, err);
		r = fd;
	}
	if (r >= 0)
		r = read_all(fd, path, &text, &length, err);
	if (fd >= 0)
		close(fd);
	if (r >= 0)
		r = estimate_from(path, text, length, e, ret_estimate, err);
	free(text);
	free(path);
	return r;
}
