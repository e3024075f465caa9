/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the python3 of PATH as `run` would, and asks it what it has; see doctor_python.h. Main thread.
 */
#include "cmd/doctor/doctor_python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "cmd/recording/installed.h"
#include "lab/shared/process.h"

/* What is behind this is the answer; sitecustomize files may print before. */
#define ANSWER "moescope asks: "

/* Its version, whether it waits for torch, and the version of torch, which is not imported. */
static const char look[] = "import sys\n"
			   "waits = any(type(one).__name__ == '_Torch' for one in sys.meta_path)\n"
			   "try:\n"
			   "    from importlib.metadata import version\n"
			   "    torch = version('torch')\n"
			   "except Exception:\n"
			   "    torch = '-'\n"
			   "print('\\n" ANSWER
			   "%d.%d' % sys.version_info[:2], 'waits' if waits else 'no', torch)\n";

struct python {
	int major, minor;
	char waits[8], torch[64];
};

/* 0, or -ENOENT when there is no python3, -EIO when it does not answer. */
static int ask_python(const char *folder, struct python *ret_python)
{
	struct buf output = { 0 };
	char *path = NULL,
	     *argv[] = { "env", "MOESCOPE_AUTO=1", NULL, "python3", "-c", (char *)look, NULL };
	const char *answer;
	int status = 0, r;

	if (asprintf(&path, "PYTHONPATH=%s", folder) < 0)
		return -ENOMEM;
	argv[2] = path;
	r = process_capture(argv, &output, &status, NULL);
	free(path);
	answer = r == 0 ? strstr(output.data, ANSWER) : NULL;
	if (r == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 127)
		r = -ENOENT;
	else if (r == 0 &&
		 (!answer || sscanf(answer + strlen(ANSWER), "%d.%d %7s %63s", &ret_python->major,
				    &ret_python->minor, ret_python->waits, ret_python->torch) != 4))
		r = -EIO;
	buf_release(&output);
	return r;
}

static void tell_python(struct check *check, const struct python *python)
{
	if (python->waits[0] != 'w' || (python->major == 3 && python->minor < 9)) {
		check_found(
			check, CHECK_NOTE,
			"steps are not found automatically: the python3 in PATH (%d.%d) does not read "
			"PYTHONPATH, or is older than 3.9",
			python->major, python->minor);
		check_fix(check, "Use Python 3.9 or newer, without -I, -E and -S.");
	} else if (python->torch[0] == '-') {
		check_found(
			check, CHECK_OK,
			"the python3 in PATH (%d.%d) has none; steps are found in programs that have it",
			python->major, python->minor);
	} else {
		check_found(
			check, CHECK_OK,
			"torch %s in the python3 in PATH (%d.%d): 'run' finds steps and phases automatically",
			python->torch, python->major, python->minor);
	}
}

void check_pytorch(struct check *check)
{
	char *folder = installed_auto_path();
	struct python python;
	int r = folder ? ask_python(folder, &python) : 0;

	if (!folder) {
		check_found(
			check, CHECK_NOTE,
			"steps are not found automatically: the Python package is not next to this program");
		check_fix(check,
			  "Install it with 'pip install .', or moescope with 'make install'.");
	} else if (r == -ENOENT) {
		check_found(check, CHECK_OK, "there is no python3 in PATH");
	} else if (r < 0) {
		check_found(check, CHECK_NOTE, "unknown: the python3 in PATH does not work");
		check_fix(check, "See what 'python3 -c \"\"' says.");
	} else {
		tell_python(check, &python);
	}
	free(folder);
}
