/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits of control groups; see limits.h. A group is a folder, and its limits hold for those in it: so
 * the folders up to the mount are asked, too.
 */
#include "host/machine/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"
#include "host/machine/proc_text.h"

#define TEXT_MOST 65536
#define NO_LIMIT (INT64_C(1) << 60) /* version 1 says so with a number near 2^63 */

/* Where a controller is mounted ("cpu", "memory"; NULL: version 2), and the folder of the process in it. */
struct group {
	char mount[PATH_MAX];
	char folder[PATH_MAX];
	bool v2;
};

static bool has_word(const char *list, const char *word, char end)
{
	size_t length = strlen(word);

	for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',') {
		size_t n = strcspn(at, ",");
		const char *stop = memchr(at, end, n);

		if (stop)
			n = (size_t)(stop - at);
		if (n == length && strncmp(at, word, n) == 0)
			return true;
		if (stop)
			return false;
	}
	return false;
}

/* "36 35 98:0 ROOT MOUNT OPTIONS - TYPE SOURCE SUPER" */
static bool find_mount(char *mounts, const char *controller, char *ret_root, char *ret_mount)
{
	char *at = mounts, *line;

	while ((line = proc_line(&at))) {
		char *dash = strstr(line, " - "), type[32], super[512] = "";
		bool fits;

		if (!dash || sscanf(dash, " - %31s %*s %511s", type, super) < 1)
			fits = false;
		else if (controller)
			fits = strcmp(type, "cgroup") == 0 && has_word(super, controller, '\n');
		else
			fits = strcmp(type, "cgroup2") == 0;
		if (fits && sscanf(line, "%*d %*d %*s %4095s %4095s", ret_root, ret_mount) == 2)
			return true;
	}
	return false;
}

/* "4:memory:/a/b", "0::/a/b"; the path, or NULL. */
static const char *find_path(char *groups, const char *controller)
{
	char *at = groups, *line;

	while ((line = proc_line(&at))) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (path && (controller ? has_word(list + 1, controller, ':') : path == list + 1))
			return path + 1;
	}
	return NULL;
}

static bool read_copy(const char *path, char *text)
{
	return small_file_text(path, text, TEXT_MOST) > 0;
}

static bool find_group(pid_t pid, const char *controller, struct group *ret)
{
	char *text = malloc(TEXT_MOST), root[PATH_MAX], path[32];
	const char *in;
	bool found = false;

	*ret = (struct group){ .v2 = !controller };
	if (text && read_copy("/proc/self/mountinfo", text) &&
	    find_mount(text, controller, root, ret->mount)) {
		snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
		in = read_copy(path, text) ? find_path(text, controller) : NULL;
		/* A container sees a part of the tree: the mount's root is what it begins with. */
		if (in && strcmp(root, "/") != 0 && strncmp(in, root, strlen(root)) == 0)
			in += strlen(root);
		found = in && snprintf(ret->folder, sizeof(ret->folder), "%s%s", ret->mount,
				       strcmp(in, "/") == 0 ? "" : in) < PATH_MAX;
		if (found && access(ret->folder, F_OK) < 0)
			snprintf(ret->folder, sizeof(ret->folder), "%s", ret->mount);
	}
	free(text);
	return found;
}

static bool file_number(const char *folder, const char *name, int64_t *ret_number)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return proc_file_number(path, ret_number);
}

/* In thousandths of a processor. */
static bool quota_of(const char *folder, bool v2, int64_t *ret_millicpus)
{
	char path[PATH_MAX + 64], text[64];
	int64_t n[2];

	if (v2) {
		snprintf(path, sizeof(path), "%s/cpu.max", folder);
		if (small_file_text(path, text, sizeof(text)) <= 0 || proc_numbers(text, n, 2) < 2)
			return false;
	} else if (!file_number(folder, "cpu.cfs_quota_us", &n[0]) ||
		   !file_number(folder, "cpu.cfs_period_us", &n[1])) {
		return false;
	}
	if (n[0] <= 0 || n[1] <= 0 || n[0] > INT64_MAX / 1000)
		return false;
	*ret_millicpus = n[0] * 1000 / n[1];
	return true;
}

static bool memory_limit_of(const char *folder, bool v2, int64_t *ret_bytes)
{
	return file_number(folder, v2 ? "memory.max" : "memory.limit_in_bytes", ret_bytes) &&
	       *ret_bytes < NO_LIMIT;
}

/* From the group of the process up to the mount: the folder with the smallest limit, or "". */
static void find_tightest(const struct group *group,
			  bool (*limit_of)(const char *folder, bool v2, int64_t *ret_limit),
			  char *ret_folder)
{
	char folder[PATH_MAX], *slash;
	size_t mount = strlen(group->mount);
	int64_t least = INT64_MAX, limit;

	ret_folder[0] = '\0';
	snprintf(folder, sizeof(folder), "%s", group->folder);
	do {
		if (limit_of(folder, group->v2, &limit) && limit < least) {
			least = limit;
			memcpy(ret_folder, folder, strlen(folder) + 1);
		}
		slash = strrchr(folder, '/');
		if (!slash || strlen(folder) <= mount)
			break;
		*slash = '\0';
	} while (strlen(folder) >= mount);
}

void limits_find(struct limits *limits, struct readings *r, pid_t pid)
{
	struct group group;

	limits->cpu[0] = limits->memory[0] = '\0';
	/* Both versions may be there; a controller is in one of them. */
	for (int v2 = 0; v2 < 2; v2++) {
		if (!limits->cpu[0] && find_group(pid, v2 ? NULL : "cpu", &group)) {
			find_tightest(&group, quota_of, limits->cpu);
			limits->cpu_is_v2 = v2;
		}
		if (!limits->memory[0] && find_group(pid, v2 ? NULL : "memory", &group)) {
			find_tightest(&group, memory_limit_of, limits->memory);
			limits->memory_is_v2 = v2;
		}
	}
	readings_fact(r, "cgroup",
		      limits->cpu[0] && limits->memory[0] ? "limits processors and memory"
		      : limits->cpu[0]			  ? "limits processors"
		      : limits->memory[0]		  ? "limits memory"
							  : "no limit was found");
}

static void put(struct readings *r, enum host_metric metric, int64_t value)
{
	readings_put(r, HOST_CGROUP, "", metric, value);
}

static void look_at_cpu(const char *folder, bool v2, struct readings *r)
{
	char path[PATH_MAX + 64], text[2048];
	int64_t number;

	if (quota_of(folder, v2, &number))
		put(r, HOST_QUOTA_MILLICPUS, number);
	snprintf(path, sizeof(path), "%s/cpu.stat", folder);
	if (small_file_text(path, text, sizeof(text)) <= 0)
		return;
	if (proc_number(text, "nr_periods", &number))
		put(r, HOST_PERIODS, number);
	if (proc_number(text, "nr_throttled", &number))
		put(r, HOST_THROTTLED_PERIODS, number);
	if (v2 ? proc_number(text, "throttled_usec", &number)
	       : proc_number(text, "throttled_time", &number))
		put(r, HOST_THROTTLED_NS, v2 ? number * 1000 : number);
}

/* Pages of files that nobody has used for a while are given up at once: they are no use of memory. */
static void look_at_memory(const char *folder, bool v2, struct readings *r)
{
	char path[PATH_MAX + 64], text[8192];
	int64_t used, number;

	if (memory_limit_of(folder, v2, &number))
		put(r, HOST_LIMIT_BYTES, number);
	snprintf(path, sizeof(path), "%s/memory.stat", folder);
	if (file_number(folder, v2 ? "memory.current" : "memory.usage_in_bytes", &used) &&
	    small_file_text(path, text, sizeof(text)) > 0 &&
	    proc_number(text, v2 ? "inactive_file" : "total_inactive_file", &number) && number >= 0)
		put(r, HOST_USED_BYTES, used > number ? used - number : 0);
	snprintf(path, sizeof(path), "%s/%s", folder, v2 ? "memory.events" : "memory.oom_control");
	if (small_file_text(path, text, sizeof(text)) <= 0)
		return;
	if (v2 ? proc_number(text, "max", &number) : file_number(folder, "memory.failcnt", &number))
		put(r, HOST_LIMIT_HITS, number);
	if (proc_number(text, "oom_kill", &number))
		put(r, HOST_OOM_KILLS, number);
}

void limits_look(const struct limits *limits, struct readings *r)
{
	if (limits->cpu[0])
		look_at_cpu(limits->cpu, limits->cpu_is_v2, r);
	if (limits->memory[0])
		look_at_memory(limits->memory, limits->memory_is_v2, r);
}
