/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for Python packages and for programs. Starts a child and waits for it; any thread.
 */
#include "lab/engines/python_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Prints the packages that cannot be found. Packages are not imported: torch alone would take
 * seconds. A parent package that fails to import counts as missing. */
static const char question[] =
	"import importlib.util as u, sys\n"
	"def there(name):\n"
	"    try:\n"
	"        return u.find_spec(name) is not None\n"
	"    except Exception:\n"
	"        return False\n"
	"print(' '.join(n for n in sys.argv[1].split(',') if not there(n)))\n";

/* Its standard output; status as of waitpid. */
static int ask_python(char *const *argv, char *out, size_t size, int *ret_status, struct err *err)
{
	posix_spawn_file_actions_t actions;
	size_t used = 0;
	ssize_t n;
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(err, -errno, "cannot list the packages of %s", argv[0]);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	while (r == 0 &&
	       ((n = read(ends[0], out + used, size - 1 - used)) > 0 || (n < 0 && errno == EINTR)))
		used += n > 0 ? (size_t)n : 0;
	close(ends[0]);
	out[used] = '\0';
	if (r != 0)
		return err_sys(err, -r, "%s cannot be started; set MOESCOPE_PYTHON to a Python",
			       argv[0]);
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return err_sys(err, -errno, "cannot wait for %s", argv[0]);
	return 0;
}

int python_packages_check(const char *python, const char *engine, const char *packages,
			  struct err *err)
{
	const char *name = python ? python : "python3";
	char *argv[] = { (char *)name, "-c", (char *)question, (char *)packages, NULL };
	char missing[256];
	int status, r;

	r = ask_python(argv, missing, sizeof(missing), &status, err);
	if (r < 0)
		return r;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(
			err, -ENOENT,
			"engine %s needs a Python, and '%s -c' fails; set MOESCOPE_PYTHON to "
			"one that works.",
			engine, name);
	missing[strcspn(missing, "\n")] = '\0';
	if (!missing[0])
		return 0;
	return err_set(err, -ENOENT,
		       "engine %s needs what %s does not have: %s; install it with '%s -m pip "
		       "install %s', or set MOESCOPE_PYTHON to a Python that has it.",
		       engine, name, missing, name, missing);
}

bool path_find(const char *program, char *out, size_t size)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t length = strcspn(path, ":");
		int n = snprintf(out, size, "%.*s%s%s", (int)length, path, length ? "/" : "./",
				 program);

		if (n > 0 && (size_t)n < size && access(out, X_OK) == 0)
			return true;
		path += length + (path[length] == ':');
	}
	return false;
}
