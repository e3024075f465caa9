/* SPDX-License-Identifier: Apache-2.0
 *
 * Run directories; see rundir.h. run.json is always replaced whole (temporary file, rename), so a
 * reader never sees half of one.
 */
#include "trace/rundir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/files/input_file.h"
#include "base/small_file.h"
#include "base/files/whole_file.h"
#include "base/text/json_read.h"
#include "base/text/json_write.h"
#include "base/text/shell_word.h"
#include "base/version.h"
#include "trace/run_lock.h"
#include "trace/shard.h"

#define COMMAND_BYTES (64u << 10)      /* of a command, quoted; in JSON a byte takes up to six */
#define NOTES_BYTES (64u << 10)	       /* of notes about shards */
#define RUN_JSON_MAX ((size_t)1 << 20) /* bytes */

/* As many whole words as fit, then how many do not: readers limit the size of run.json. */
static char *command_text(const struct rundir_meta *meta)
{
	struct buf out = { 0 };
	size_t left_out = 0;
	int i;

	for (i = 0; i < meta->argc; i++) {
		size_t before = out.size;

		if (i)
			buf_append(&out, " ", 1);
		shell_word(&out, meta->argv[i]);
		if (out.size > COMMAND_BYTES && !out.failed) {
			out.size = before;
			break;
		}
	}
	for (int j = i; j < meta->argc; j++)
		left_out += strlen(meta->argv[j]);
	if (i < meta->argc)
		buf_printf(&out, "%s(and %d argument%s more, %zu bytes)", i ? " " : "",
			   meta->argc - i, meta->argc - i == 1 ? "" : "s", left_out);
	buf_append(&out, "", 1);
	if (out.failed) {
		buf_release(&out);
		return NULL;
	}
	return out.data;
}

static char *cpu_name(void)
{
	char name[512];

	if (small_file_value("/proc/cpuinfo", "model name", name, sizeof(name)))
		return strdup(name);
#if defined(__aarch64__)
	return strdup("AArch64 processor");
#else
	return strdup("unknown processor");
#endif
}

static int write_run_file(const char *path, const char *text, struct err *err)
{
	size_t left = strlen(text);
	char *temporary = NULL;
	int fd = open_beside(path, 0644, &temporary), r = fd < 0 ? fd : 0;
	struct rlimit limit;

	/* We may be in the program: it must not get the signal for our file. */
	if (r == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && left > limit.rlim_cur)
		r = -EFBIG;
	while (r == 0 && left) {
		ssize_t n = write(fd, text, left);

		if (n < 0 && errno != EINTR)
			r = -errno;
		if (n > 0) {
			text += n;
			left -= (size_t)n;
		}
	}
	if (fd >= 0 && close(fd) < 0 && r == 0)
		r = -errno;
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0) {
		err_sys(err, r, "%s: cannot write", path);
		if (fd >= 0)
			unlink(temporary);
	}
	free(temporary);
	return r;
}

static void put_string(struct json *json, const char *key, const char *value)
{
	json_key(json, key);
	json_string(json, value);
}

static void put_int(struct json *json, const char *key, int64_t value)
{
	json_key(json, key);
	json_int(json, value);
}

static int write_info(const char *path, const struct rundir_info *info, struct err *err)
{
	struct json json;
	char *file = NULL, *text = NULL;
	int r;

	json_init_buffer(&json, 2);
	json_object(&json);
	put_int(&json, "format", RUNDIR_FORMAT);
	put_string(&json, "version", info->version);
	if (*info->source)
		put_string(&json, "source", info->source);
	put_string(&json, "command", info->command);
	put_string(&json, "status", info->status);
	if (!strcmp(info->status, "exited"))
		put_int(&json, "exit_status", info->exit_status);
	if (!strcmp(info->status, "killed"))
		put_int(&json, "signal", info->signal);
	put_int(&json, "started_realtime_ns", info->started_realtime_ns);
	if (info->duration_known)
		put_int(&json, "duration_ns", info->duration_ns);
	put_string(&json, "host", info->host);
	put_string(&json, "cpu", info->cpu);
	put_int(&json, "cpus", info->cpus);
	put_string(&json, "level", info->level);
	put_string(&json, "schedule", info->schedule);
	if (info->budget_known) {
		json_key(&json, "budget_pct");
		if (info->budget_pct > 0)
			json_double(&json, info->budget_pct);
		else
			json_null(&json);
	}
	if (*info->kernel)
		put_string(&json, "kernel", info->kernel);
	if (*info->ranks)
		put_string(&json, "ranks", info->ranks);
	put_string(&json, "notes", info->notes);
	json_object_end(&json);
	r = json_finish(&json, &text);
	if (r == 0 && asprintf(&file, "%s/run.json", path) < 0)
		r = -ENOMEM;
	if (r == 0)
		r = write_run_file(file, text, err);
	else
		err_sys(err, r, "%s: cannot write run.json", path);
	free(file);
	free(text);
	return r;
}

void rundir_info_release(struct rundir_info *info)
{
	free(info->source);
	free(info->command);
	free(info->status);
	free(info->host);
	free(info->cpu);
	free(info->version);
	free(info->level);
	free(info->schedule);
	free(info->kernel);
	free(info->ranks);
	free(info->notes);
	*info = (struct rundir_info){ 0 };
}

static bool info_complete(const struct rundir_info *info)
{
	return info->source && info->command && info->status && info->host && info->cpu &&
	       info->version && info->level && info->schedule && info->kernel && info->ranks &&
	       info->notes;
}

static int fill_info(struct rundir_info *info, const struct rundir_meta *meta)
{
	char host[256] = "";

	gethostname(host, sizeof(host) - 1);
	*info = (struct rundir_info){
		.source = strdup(""),
		.command = command_text(meta),
		.status = strdup("running"),
		.host = strdup(host),
		.cpu = cpu_name(),
		.version = strdup(VERSION_TEXT),
		.level = strdup(meta->level ? meta->level : "trace"),
		.schedule = strdup(meta->schedule ? meta->schedule : ""),
		.kernel = strdup(meta->kernel ? meta->kernel : ""),
		.ranks = strdup(meta->ranks ? meta->ranks : ""),
		.notes = strdup(meta->notes ? meta->notes : ""),
		.budget_pct = meta->budget_pct,
		.budget_known = meta->budget_known,
		.cpus = (int)sysconf(_SC_NPROCESSORS_ONLN),
		.started_realtime_ns = clock_realtime_ns(),
	};
	return info_complete(info) ? 0 : -ENOMEM;
}

char *rundir_default_name(void)
{
	time_t now = time(NULL);
	struct tm tm;
	char stamp[32], *name;

	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	return asprintf(&name, "moescope-%s-%d%s", stamp, (int)getpid(), RUNDIR_SUFFIX) < 0 ? NULL
											    : name;
}

static bool is_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	bool empty = dir != NULL;

	while (empty && (entry = readdir(dir)))
		empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
			!strcmp(entry->d_name, RUN_LOCK_FILE);
	if (dir)
		closedir(dir);
	return empty;
}

static int make_run_directory(const char *path, bool *ret_made, struct err *err)
{
	int r;

	*ret_made = mkdir(path, 0755) == 0;
	r = *ret_made ? 0 : -errno;
	if (*ret_made || (r == -EEXIST && is_empty(path)))
		return 0;
	if (r == -EEXIST)
		return err_set(err, -EEXIST,
			       "%s: exists already and is not an empty directory; choose another "
			       "name with -o",
			       path);
	return err_sys(err, r, "%s: cannot make the run directory", path);
}

int rundir_create_from(const char *path, const struct rundir_info *info, char **ret_path,
		       struct err *err)
{
	char *full = NULL;
	bool made = false;
	int r = make_run_directory(path, &made, err);

	if (r < 0)
		return r;
	full = realpath(path, NULL);
	r = full ? write_info(full, info, err) : err_sys(err, -errno, "%s", path);
	if (r < 0) {
		if (made)
			rmdir(path);
		free(full);
		return r;
	}
	*ret_path = full;
	return 0;
}

int rundir_update(const char *path, const struct rundir_info *info, struct err *err)
{
	return write_info(path, info, err);
}

int rundir_create(const char *path, const struct rundir_meta *meta, char **ret_path,
		  struct err *err)
{
	struct rundir_info info = { 0 };
	int r = fill_info(&info, meta);

	if (r < 0)
		err_sys(err, r, "%s: cannot make the run directory", path);
	else
		r = rundir_create_from(path, &info, ret_path, err);
	rundir_info_release(&info);
	return r;
}

static char *join_notes(const char *a, const char *b)
{
	char *joined;

	if (!b || !*b)
		return strdup(a);
	return asprintf(&joined, "%s%s%s", a, *a ? "\n" : "", b) < 0 ? NULL : joined;
}

static void seal_shards(const char *path, struct buf *notes)
{
	struct err err = { "" };
	char **shards;
	size_t n, more = 0;

	if (rundir_shards(path, &shards, &n, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		bool failed = shard_seal(shards[i], &err) < 0;

		if (failed && notes->size < NOTES_BYTES)
			buf_printf(notes, "%s%s", notes->size ? "\n" : "", err.message);
		else
			more += failed;
		free(shards[i]);
	}
	free(shards);
	if (more)
		buf_printf(notes, "\n%zu shards more could not be completed", more);
}

int rundir_finish(const char *path, const struct rundir_end *end, struct err *err)
{
	struct buf notes = { 0 };
	struct rundir_info info;
	char *joined;
	int r;

	seal_shards(path, &notes);
	r = rundir_read(path, &info, err);
	if (r < 0) {
		buf_release(&notes);
		return r;
	}
	if (end->notes)
		buf_printf(&notes, "%s%s", notes.size ? "\n" : "", end->notes);
	joined = join_notes(info.notes, notes.failed ? NULL : notes.data);
	buf_release(&notes);
	if (joined) {
		free(info.notes);
		info.notes = joined;
	}
	free(info.status);
	info.status = strdup(end->status ? end->status : end->exited ? "exited" : "killed");
	info.exit_status = end->exit_status;
	info.signal = end->signal;
	info.duration_ns = end->duration_ns;
	info.duration_known = true;
	r = info.status ? write_info(path, &info, err) : err_sys(err, -ENOMEM, "%s", path);
	rundir_info_release(&info);
	return r;
}

/* A killed process records no end: "running" holds only while somebody writes the run, or if that
 * is unknown. */
static const char *true_status(const char *path, const char *noted)
{
	return !strcmp(noted, "running") && run_writer(path) == RUN_WRITER_GONE ? "abandoned"
										: noted;
}

/* True if valid; null is off. */
static bool read_budget(const struct json_node *node, double *ret_pct)
{
	double pct = 0;

	if (!node || (node->type != JSON_NUMBER && node->type != JSON_NULL))
		return false;
	if (node->type == JSON_NUMBER) {
		/* The program we are in may have set a locale with a decimal comma. */
		locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);

		pct = plain ? strtod_l(node->text, NULL, plain) : 0;
		if (plain)
			freelocale(plain);
		if (!(pct > 0 && pct <= 100))
			return false;
	}
	*ret_pct = pct;
	return true;
}

int rundir_read(const char *path, struct rundir_info *ret_info, struct err *err)
{
	struct rundir_info info;
	struct json_node *root = NULL;
	char *file, *text = NULL;
	size_t length = 0;
	int r;

	if (asprintf(&file, "%s/run.json", path) < 0)
		return err_sys(err, -ENOMEM, "%s", path);
	r = input_text(file, RUN_JSON_MAX, &text, &length, err);
	if (r == 0)
		r = json_parse(file, text, length, &root, err);
	if (r == 0 && json_get_int(root, "format", 0) > RUNDIR_FORMAT)
		r = err_set(err, -EPROTONOSUPPORT,
			    "%s: made by a newer moescope (%s); use that version or a newer one",
			    file, json_get_string(root, "version", "?"));
	if (r < 0)
		goto out;
	info = (struct rundir_info){
		.source = strdup(json_get_string(root, "source", "")),
		.command = strdup(json_get_string(root, "command", "")),
		.status = strdup(true_status(path, json_get_string(root, "status", "unknown"))),
		.host = strdup(json_get_string(root, "host", "")),
		.cpu = strdup(json_get_string(root, "cpu", "")),
		.version = strdup(json_get_string(root, "version", "")),
		.level = strdup(json_get_string(root, "level", "")),
		.schedule = strdup(json_get_string(root, "schedule", "")),
		.kernel = strdup(json_get_string(root, "kernel", "")),
		.ranks = strdup(json_get_string(root, "ranks", "")),
		.notes = strdup(json_get_string(root, "notes", "")),
		.cpus = (int)json_get_int(root, "cpus", 0),
		.exit_status = (int)json_get_int(root, "exit_status", 0),
		.signal = (int)json_get_int(root, "signal", 0),
		.started_realtime_ns = json_get_int(root, "started_realtime_ns", 0),
		.duration_ns = json_get_int(root, "duration_ns", 0),
		.duration_known = json_get(root, "duration_ns") != NULL,
	};
	info.budget_known = read_budget(json_get(root, "budget_pct"), &info.budget_pct);
	if (info_complete(&info)) {
		*ret_info = info;
	} else {
		rundir_info_release(&info);
		r = err_sys(err, -ENOMEM, "%s: cannot read", file);
	}
out:
	json_node_free(root);
	free(text);
	free(file);
	return r;
}

static int by_entry_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_shard(const char *name)
{
	size_t length = strlen(name);

	return length > 4 && !strcmp(name + length - 4, ".mst");
}

int rundir_shards(const char *path, char ***ret_paths, size_t *ret_n, struct err *err)
{
	DIR *dir = opendir(path);
	char **paths = NULL;
	size_t n = 0, capacity = 0;
	struct dirent *entry;
	int r = 0;

	if (!dir)
		return err_sys(err, -errno, "%s: cannot open the run directory", path);
	while (r == 0 && (entry = readdir(dir))) {
		if (!is_shard(entry->d_name))
			continue;
		r = array_grow(&paths, &capacity, n + 1, sizeof(paths[0]));
		if (r == 0 && asprintf(&paths[n], "%s/%s", path, entry->d_name) < 0)
			r = -ENOMEM;
		n += r == 0;
	}
	closedir(dir);
	if (r < 0) {
		while (n > 0)
			free(paths[--n]);
		free(paths);
		return err_sys(err, r, "%s: cannot list", path);
	}
	if (n)
		qsort(paths, n, sizeof(paths[0]), by_entry_name);
	*ret_paths = paths;
	*ret_n = n;
	return 0;
}

static bool ends_in(const char *name, const char *end)
{
	size_t a = strlen(name), b = strlen(end);

	return a >= b && !strcmp(name + a - b, end);
}

/* Of which the figures of a run are made, but for the timeline's index: a link in its place is never
 * followed. */
static bool is_of_run(const char *name)
{
	return !strcmp(name, "run.json") || is_shard(name) || ends_in(name, ".ring");
}

static bool look_for_run(const char *path, struct timespec *ret_changed)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool run = false, strange = false;
	struct dirent *entry;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!strange && (entry = readdir(dir))) {
		struct stat st;

		if (!is_of_run(entry->d_name) ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		strange = !S_ISREG(st.st_mode);
		run |= is_shard(entry->d_name);
		if (!strcmp(entry->d_name, "run.json")) {
			*ret_changed = st.st_mtim;
			run = true;
		}
	}
	closedir(dir);
	return run && !strange;
}

bool rundir_is_run(const char *path)
{
	struct timespec changed;

	return look_for_run(path, &changed);
}

struct search {
	const char *root;
	rundir_visitor *visit;
	void *context;
	size_t *left;
};

static int look_in(const struct search *search, const char *below);

static int look_at(const struct search *search, const char *name)
{
	struct rundir_found found = { .name = name };
	struct stat st;
	char *path;
	int r = 0;

	if (asprintf(&path, "%s/%s", search->root, name) < 0)
		return -ENOMEM;
	found.path = path;
	if (lstat(path, &st) == 0 && (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode))) {
		found.changed = st.st_mtim;
		found.is_run = S_ISDIR(st.st_mode) && look_for_run(path, &found.changed);
		found.is_folder = S_ISDIR(st.st_mode) && !found.is_run;
		r = search->visit(&found, search->context);
		if (r > 0)
			r = found.is_folder ? look_in(search, name) : 0;
	}
	free(path);
	return r;
}

static int look_in(const struct search *search, const char *below)
{
	DIR *dir = NULL;
	struct dirent *entry;
	char *path;
	int r = 0;

	if (asprintf(&path, "%s/%s", search->root, below) < 0)
		return -ENOMEM;
	dir = opendir(path);
	if (!dir && !*below) /* one of its folders may be closed to us, or have gone */
		r = -errno;
	while (dir && r == 0 && *search->left && (entry = readdir(dir))) {
		char *name;

		--*search->left;
		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&name, "%s%s%s", below, *below ? "/" : "", entry->d_name) < 0) {
			r = -ENOMEM;
			break;
		}
		r = look_at(search, name);
		free(name);
	}
	if (dir)
		closedir(dir);
	free(path);
	return r;
}

int rundir_each(const char *root, const char *name, rundir_visitor *visit, void *context,
		size_t *left)
{
	struct search search = { root, visit, context, left };

	return name ? look_at(&search, name) : look_in(&search, "");
}

static const char *const rank_names[] = { "MOESCOPE_RANK", "RANK", "OMPI_COMM_WORLD_RANK",
					  "PMI_RANK", "SLURM_PROCID" };
#define ENVIRONMENT_MOST (256 << 10)
#define RANK_NAMES (sizeof(rank_names) / sizeof(rank_names[0]))

/* The value of a variable in the environment as the kernel has it: texts one after the other. */
static const char *environment_value(const char *text, size_t size, const char *name)
{
	size_t length = strlen(name);

	for (size_t at = 0; at < size; at += strnlen(text + at, size - at) + 1)
		if (strncmp(text + at, name, length) == 0 && text[at + length] == '=')
			return text + at + length + 1;
	return "";
}

uint32_t rundir_rank_of(pid_t pid)
{
	char path[32], *text = malloc(ENVIRONMENT_MOST);
	uint32_t rank = 0;
	ssize_t size = -1;

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	if (text)
		size = small_file_text(path, text, ENVIRONMENT_MOST);
	for (size_t i = RANK_NAMES; size > 0 && i-- > 0;) {
		const char *value = environment_value(text, (size_t)size, rank_names[i]);

		if (*value >= '0' && *value <= '9')
			rank = (uint32_t)strtoul(value, NULL, 10);
	}
	free(text);
	return rank;
}

uint32_t rundir_rank(void)
{
	for (size_t i = 0; i < RANK_NAMES; i++) {
		const char *value = getenv(rank_names[i]);

		if (value && *value >= '0' && *value <= '9')
			return (uint32_t)strtoul(value, NULL, 10);
	}
	return 0;
}

static bool take_number(const char **text, uint32_t *ret_value)
{
	unsigned long value;
	char *end;

	if (**text < '0' || **text > '9')
		return false;
	errno = 0;
	value = strtoul(*text, &end, 10);
	if (errno || value > UINT32_MAX)
		return false;
	*text = end;
	*ret_value = (uint32_t)value;
	return true;
}

int rank_in_list(uint32_t rank, const char *list)
{
	int found = 0;

	for (;; list++) {
		uint32_t first, last;

		if (!take_number(&list, &first))
			return -EINVAL;
		last = first;
		if (*list == '-') {
			list++;
			if (!take_number(&list, &last) || last < first)
				return -EINVAL;
		}
		found |= rank >= first && rank <= last;
		if (!*list)
			return found;
		if (*list != ',')
			return -EINVAL;
	}
}

int rundir_new_shard(const char *path, uint64_t start_ticks, char **ret_shard,
		     struct shard_writer **ret_writer)
{
	uint32_t rank = rundir_rank();
	int r = -EEXIST;

	/* A name may be taken by an earlier session of this process, by the program it was before
	 * an exec, or by a process with the same PID in another container or on another host. */
	for (int n = 1; n < 10000 && r == -EEXIST; n++) {
		char number[16] = "", *name;

		if (n > 1)
			snprintf(number, sizeof(number), "-%d", n);
		if (asprintf(&name, "%s/%u-%d%s.mst", path, rank, (int)getpid(), number) < 0)
			return -ENOMEM;
		r = shard_create(name, rank, start_ticks, ret_writer, NULL);
		if (r == 0)
			*ret_shard = name;
		else
			free(name);
	}
	return r;
}
