/* SPDX-License-Identifier: Apache-2.0
 *
 * Other profilers: only one may have CUPTI in a process, and the hardware counters of a device.
 * Main thread.
 */
#include "cmd/doctor/doctor_profilers.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/small_file.h"
#include "cmd/recording/installed.h"

/* How the names of their processes begin. */
static const struct {
	const char *prefix;
	bool counters; /* holds hardware counters of the device for all */
} tools[] = {
	{ "nsys", false },	   { "nsight-sys", false },   { "ncu", true },
	{ "nvprof", false },	   { "nv-hostengine", true }, { "dcgm", true },
	{ "nvperf-agent", false },
};

struct sentence {
	char text[400];
};

static void add_clause(struct sentence *sentence, const char *message)
{
	size_t used = strlen(sentence->text);

	snprintf(sentence->text + used, sizeof(sentence->text) - used, "%s%s", used ? ", " : "",
		 message);
}

/* What `run` would find in the way: it leaves a variable that another tool has set to that tool. */
static bool look_environment(struct sentence *found)
{
	static const char *const names[] = { "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH" };
	char *own = installed_library("libmoescope.so");
	bool any = false;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *given = getenv(names[i]);
		char message[160];

		if (!given || !*given || (own && strcmp(given, own) == 0))
			continue;
		snprintf(message, sizeof(message), "%s is set to '%.100s'", names[i], given);
		add_clause(found, message);
		any = true;
	}
	free(own);
	return any;
}

static bool process_name(const char *pid, char *name, size_t size)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s/comm", proc_root(), pid);
	return small_file_line(path, name, size);
}

static void look_processes(struct sentence *found, bool *ret_any, bool *ret_counters)
{
	DIR *dir = opendir(proc_root());
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		char name[64] = "", message[128];

		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
		    !process_name(entry->d_name, name, sizeof(name)))
			continue;
		for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]); i++) {
			if (strncmp(name, tools[i].prefix, strlen(tools[i].prefix)) != 0)
				continue;
			snprintf(message, sizeof(message), "%s is running as process %.20s", name,
				 entry->d_name);
			add_clause(found, message);
			*ret_any = true;
			*ret_counters |= tools[i].counters;
			break;
		}
	}
	if (dir)
		closedir(dir);
}

void doctor_look_profilers(struct checks *checks)
{
	struct check *check = checks_add(checks, "profilers");
	bool set, running = false, counters = false;
	struct sentence found = { "" };

	set = look_environment(&found);
	look_processes(&found, &running, &counters);
	if (!set && !running) {
		check_found(check, CHECK_OK, "no other profiler in the environment or running");
		return;
	}
	check_found(check, CHECK_NOTE, "%s", found.text);
	check_fix(
		check, "%s%s%s%s%s",
		set ? "Unset the variables: 'run' leaves them to the other tool, and then records "
		      "no GPU work."
		    : "",
		set && running ? " " : "",
		running ? "Only one profiler can record a program at a time: do not start it "
			  "under nsys or ncu."
			: "",
		counters ? " " : "",
		counters ? "To free the hardware counters of DCGM: dcgmi profmod --pause" : "");
}
