/* SPDX-License-Identifier: Apache-2.0
 *
 * A foreign file goes the way of every run: it is imported into a run directory, which is loaded. The
 * directory is a temporary one, gone before anything is shown; a child sees to that should this
 * process end on the way, however it does. Main thread.
 */
#include "cmd/runs/foreign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files/input_file.h"
#include "cmd/runs/run_files.h"
#include "ingest/ingest.h"
#include "trace/format.h"

/* A single shard may be given for its run. */
static bool is_shard(const char *path)
{
	char magic[sizeof(SHARD_MAGIC) - 1];
	FILE *file = input_stream(path, NULL);
	bool shard = file && fread(magic, sizeof(magic), 1, file) == 1 &&
		     !memcmp(magic, SHARD_MAGIC, sizeof(magic));

	if (file)
		fclose(file);
	return shard;
}

/* "PyTorch (Kineto) trace, Nsight Systems export, …". */
static const char *formats(void)
{
	static char text[512];
	size_t at = 0;

	for (size_t i = 0; ingest_importers[i] && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
				       i == 0			 ? ""
				       : ingest_importers[i + 1] ? ", "
								 : " or ",
				       ingest_importers[i]->title);
	return text;
}

/* What people have beside what is read. Here, where nothing has recognised the content, names count,
 * too. */
static const struct {
	const char *magic, *ending;
	const char *message;
} relatives[] = {
	{ NULL, ".nsys-rep",
	  "an Nsight Systems report; export it with 'nsys export --type sqlite' and read that" },
	{ NULL, ".qdrep",
	  "an Nsight Systems report; export it with 'nsys export --type sqlite' and read that" },
	{ "NVR", ".ncu-rep",
	  "an Nsight Compute report; print it with 'ncu --import FILE --csv --page raw' and read "
	  "that" },
	{ "PK\003\004", NULL,
	  "a ZIP archive, as torch.save writes; if it contains a trace, unpack it first" },
	{ "\xfd"
	  "7zXZ",
	  NULL, "compressed with xz; unpack it first" },
	{ "\x28\xb5\x2f\xfd", NULL, "compressed with zstd; unpack it first" },
	{ "BZh", NULL, "compressed with bzip2; unpack it first" },
};

static const char *relative(const char *path)
{
	const char *ending = strrchr(path, '.');
	char head[8] = "";
	FILE *file = input_stream(path, NULL);
	size_t n = file ? fread(head, 1, sizeof(head) - 1, file) : 0;
	bool empty = file && feof(file) && n == 0;

	if (file)
		fclose(file);
	if (empty)
		return "an empty file";
	for (size_t i = 0; i < sizeof(relatives) / sizeof(relatives[0]); i++)
		if ((relatives[i].magic && n >= strlen(relatives[i].magic) &&
		     !memcmp(head, relatives[i].magic, strlen(relatives[i].magic))) ||
		    (relatives[i].ending && ending && !strcmp(ending, relatives[i].ending)))
			return relatives[i].message;
	return NULL;
}

void foreign_refuse(const char *path, struct err *err)
{
	const char *message = relative(path);

	if (message)
		err_set(err, -EBADMSG, "%s: %s", path, message);
	else
		err_set(err, -EBADMSG, "%s: neither a run nor a %s", path, formats());
}

int foreign_is(const char *path, struct err *err)
{
	const struct importer *importer;
	int r = is_shard(path) ? 0 : ingest_recognise(path, &importer, err);

	if (r == 0 && !is_shard(path))
		foreign_refuse(path, err);
	return r;
}

/* A child that makes the directory, and removes it when this process ends its half of the socket or is
 * gone. The directory is never there without it. */
struct tmpdir_reaper {
	pid_t pid;
	int socket;
	char *directory;
};

static void take_care(int socket, char *directory)
{
	int code;
	char byte;

	setsid(); /* what the terminal sends to stop the command is not for it */
	code = mkdtemp(directory) ? 0 : errno;
	if (code || send(socket, directory, strlen(directory), MSG_NOSIGNAL) < 0) {
		if (code)
			send(socket, &code, sizeof(code), MSG_NOSIGNAL);
		else
			rmdir(directory);
		_exit(1);
	}
	while (recv(socket, &byte, 1, 0) < 0 && errno == EINTR)
		;
	run_files_remove(directory, true);
	_exit(0);
}

static void tmpdir_reaper_end(struct tmpdir_reaper *reaper)
{
	if (reaper->socket >= 0)
		close(reaper->socket);
	while (reaper->pid > 0 && waitpid(reaper->pid, NULL, 0) < 0 && errno == EINTR)
		;
	free(reaper->directory);
}

/* The child's answer: the name of the directory, or an errno. 0 or -errno. */
static int tmpdir_reaper_answer(struct tmpdir_reaper *reaper)
{
	size_t length = strlen(reaper->directory);
	ssize_t n;
	int code;

	do {
		n = recv(reaper->socket, reaper->directory, length, 0);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)length)
		return 0;
	if (n != sizeof(code))
		return -ECHILD;
	memcpy(&code, reaper->directory, sizeof(code));
	return -code;
}

static int start_child(struct tmpdir_reaper *reaper)
{
	int ends[2], r;

	/* Packets: an answer comes whole. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	reaper->socket = ends[0];
	reaper->pid = fork();
	if (reaper->pid == 0) {
		close(ends[0]);
		take_care(ends[1], reaper->directory);
	}
	r = reaper->pid < 0 ? -errno : 0;
	close(ends[1]);
	return r < 0 ? r : tmpdir_reaper_answer(reaper);
}

static int tmpdir_reaper_start(struct tmpdir_reaper *reaper, struct err *err)
{
	const char *root = getenv("TMPDIR");
	int r;

	if (!root || !*root)
		root = "/tmp";
	*reaper = (struct tmpdir_reaper){ .pid = -1, .socket = -1 };
	if (asprintf(&reaper->directory, "%s/moescope-import-XXXXXX", root) < 0)
		return err_sys(err, -ENOMEM, "cannot import");
	r = start_child(reaper);
	if (r < 0) {
		err_sys(err, r,
			"%s: cannot create a directory for the import; set TMPDIR to another "
			"place",
			root);
		tmpdir_reaper_end(reaper);
	}
	return r;
}

/* The run is called as the file is. */
static int rename_run(struct run *run, const char *path)
{
	const char *last = strrchr(path, '/');
	char *name = strdup(last && last[1] ? last + 1 : path), *copy = strdup(path);

	if (!name || !copy) {
		free(name);
		free(copy);
		return -ENOMEM;
	}
	free(run->info.name);
	free(run->info.path);
	run->info.name = name;
	run->info.path = copy;
	return 0;
}

int foreign_load(const char *path, const struct run_want *want, struct run **ret_run,
		 struct err *err)
{
	struct tmpdir_reaper reaper;
	struct run *run = NULL;
	int r = tmpdir_reaper_start(&reaper, err);

	if (r < 0)
		return r;
	r = ingest_run(path, want->kinds, reaper.directory, err);
	if (r == 0)
		r = run_load(reaper.directory, want, &run, err);
	if (r == 0 && rename_run(run, path) < 0)
		r = err_sys(err, -ENOMEM, "%s: cannot load", path);
	tmpdir_reaper_end(&reaper);
	if (r < 0) {
		run_free(run);
		return r;
	}
	*ret_run = run;
	return 0;
}
