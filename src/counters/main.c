/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope-counters: hardware counters of the machine's GPUs, for `moescope run --counters` and `moescope
 * doctor`. A program of its own: it loads the driver and CUPTI, and whatever happens in them happens to neither
 * moescope nor the program that is looked at.
 *
 *   chip NAME                 what a chip can count over time, and how many passes each exact set takes
 *   devices                   the same for the GPUs of this machine
 *   plan WORDS [NAME]         what is counted of each kernel (exact_plan.h) on the first GPU, or on that chip
 *   replay WORDS [NAME]       the same, if kernels may run several times
 *   sample RUN NS KEEP_NS     samples of all GPUs every NS nanoseconds into a shard of RUN, until the standard input
 *                             ends; with KEEP_NS only those of that last time, at each line that comes in, each mark
 *                             that is set in RUN and each slow step
 *
 * One line for each thing that it has to say: "ready", or "error: " and a sentence. Exit 0, 1 for trouble, 2 for
 * wrong use.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "counters/api.h"
#include "counters/exact_plan.h"
#include "counters/recorder.h"
#include "counters/step_watch.h"
#include "device/driver/gpu_devices.h"
#include "trace/rundir.h"

#define DRAIN_MS 50 /* from look to look at what the devices have counted */
#define STEPS_MS 10 /* and at the steps of the program */
#define MS INT64_C(1000000)
#define WRITE_NS INT64_C(1000000000)

static int print_sets(const char *chip_name, struct err *err)
{
	struct timed_counter timed[TIMED_COUNTERS_MOST];
	struct chip *chip = NULL;
	size_t n = 0;
	int r = chip_open(&chip, chip_name, CHIP_OVER_TIME, NULL, err);

	if (r == 0)
		r = timed_counters_choose(chip, timed, &n, err);
	chip_close(chip);
	chip = NULL;
	for (size_t i = 0; i < n; i++)
		printf("over time %s %s\n", timed[i].name, timed[i].metric);
	if (r == 0)
		r = chip_open(&chip, chip_name, CHIP_EXACT, NULL, err);
	for (size_t s = 0; r == 0 && exact_set_name(s); s++) {
		const char *metrics[EXACT_METRICS_MOST];
		int group[EXACT_METRICS_MOST], groups;
		size_t counted = 0;

		n = exact_set(chip, exact_set_name(s), metrics);
		r = groups = exact_groups(chip, metrics, n, group, err);
		for (size_t i = 0; r > 0 && i < n; i++)
			counted += group[i] != EXACT_NO_GROUP;
		if (r >= 0)
			printf("set %s metrics %zu of %zu passes %d\n", exact_set_name(s), counted,
			       n, groups);
		r = r < 0 ? r : 0;
	}
	chip_close(chip);
	return r;
}

static int print_devices(struct err *err)
{
	int n = 0, r = counter_api_open_devices(err);

	if (r == 0 && counter_api.cuDeviceGetCount(&n) != CUDA_SUCCESS)
		n = 0;
	for (int i = 0; r == 0 && i < n; i++) {
		CUpti_Device_GetChipName_Params params = CUPTI_PARAMS(Device_GetChipName,
								      .deviceIndex = (size_t)i);

		r = counter_error(err, counter_api.cuptiDeviceGetChipName(&params),
				  "the GPU does not say which chip it has");
		if (r == 0) {
			printf("device %d %s\n", i, params.pChipName);
			r = print_sets(params.pChipName, err);
		}
	}
	return r;
}

static int plan(const char *words, const char *chip_name, bool replay, struct err *err)
{
	CUpti_Device_GetChipName_Params params = CUPTI_PARAMS(Device_GetChipName, .deviceIndex = 0);
	int r = exact_plan_check(words, err);

	if (r == 0)
		r = chip_name ? counter_api_open(err) : counter_api_open_devices(err);
	if (r == 0 && !chip_name) {
		r = counter_error(err, counter_api.cuptiDeviceGetChipName(&params),
				  "the GPU does not say which chip it has");
		chip_name = params.pChipName;
	}
	if (r == 0 && !strcmp(words, EXACT_PC)) {
		r = counter_api_open_exact(err);
		if (r == 0)
			printf("group %s\n", EXACT_PC);
		return r;
	}
	return r < 0 ? r : exact_plan_print(chip_name, words, replay, err);
}

/* The devices that are sampled. */
struct watched {
	struct pm_sampler *sampler[GPU_DEVICES_MAX];
	struct recorder_device *device[GPU_DEVICES_MAX];
	int n;
	bool lost;
};

static void uuid_text(int device, char *text, size_t size)
{
	CUuuid uuid;
	const unsigned char *b = (const unsigned char *)uuid.bytes;

	text[0] = '\0';
	if (counter_api.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
		snprintf(text, size,
			 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
			 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
			 b[12], b[13], b[14], b[15]);
}

/* Devices are numbered as nvidia-smi does, which is how other readings of them are. */
static int add_device(struct watched *watched, struct recorder *recorder, int device,
		      int64_t interval_ns, struct err *err)
{
	static struct gpu_devices all;
	static bool asked;
	const struct gpu_device *found;
	char name[96] = "", uuid[64];
	bool mig = false;
	int r;

	if (!asked && gpu_devices_open(&all, NULL) < 0)
		all.n = 0;
	asked = true;
	r = pm_sampler_open(&watched->sampler[watched->n], device, interval_ns, err);
	if (r < 0)
		return r;
	uuid_text(device, uuid, sizeof(uuid));
	counter_api.cuDeviceGetName(name, sizeof(name), device);
	found = gpu_devices_find(&all, uuid, &mig);
	watched->device[watched->n] = recorder_add(recorder,
						   found ? found->index : (uint32_t)device, name,
						   uuid, watched->sampler[watched->n]);
	watched->n++;
	return 0;
}

static int drain(struct watched *watched, struct err *err)
{
	int r = 0;

	for (int i = 0; r == 0 && i < watched->n; i++) {
		bool lost;

		r = pm_sampler_drain(watched->sampler[i], recorder_sample, watched->device[i],
				     &lost, err);
		watched->lost = watched->lost || lost;
	}
	return r;
}

/* What has come into the run since: buffers of new processes, and marks; whether there were any of these. */
static bool look_at_files(int fd, struct step_watch *steps)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	ssize_t n = read(fd, events, sizeof(events));
	bool marked = false;

	for (ssize_t at = 0; at + (ssize_t)sizeof(struct inotify_event) <= n;) {
		const struct inotify_event *event = (const void *)(events + at);

		if (event->len && steps)
			step_watch_file(steps, event->name);
		marked = marked || (event->len && strstr(event->name, RUNDIR_MARK));
		at += (ssize_t)sizeof(*event) + event->len;
	}
	return marked;
}

/* Until the input ends. */
static int follow(struct watched *watched, struct recorder *recorder, int64_t keep_ns, int files,
		  struct step_watch *steps, struct err *err)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = files, .events = POLLIN } };
	int64_t written_ns = clock_monotonic_ns(), drained_ns = written_ns;
	bool ends = false;
	int r = 0;

	while (r == 0 && !ends) {
		bool keep = false;
		char line[256];

		if (poll(fds, 2, steps ? STEPS_MS : DRAIN_MS) > 0 && fds[0].revents) {
			ends = read(STDIN_FILENO, line, sizeof(line)) <= 0;
			keep = !ends;
		}
		if (fds[1].revents && look_at_files(files, steps))
			keep = true;
		if (steps && step_watch_look(steps, line, sizeof(line))) {
			recorder_mark(recorder, line);
			keep = true;
		}
		if (!keep && !ends && clock_monotonic_ns() - drained_ns < DRAIN_MS * MS)
			continue;
		drained_ns = clock_monotonic_ns();
		r = drain(watched, err);
		if (keep || (!keep_ns && drained_ns - written_ns >= WRITE_NS)) {
			recorder_write(recorder);
			written_ns = clock_monotonic_ns();
		}
	}
	return r;
}

static void tell_facts(const struct watched *watched, struct recorder *recorder,
		       int64_t interval_ns, int64_t keep_ns)
{
	char text[240];
	int n = snprintf(text, sizeof(text), "asked for every %g ms, by PM sampling; ",
			 (double)interval_ns / 1e6);

	if (recorder_clock_error(recorder) < 0)
		snprintf(
			text + n, sizeof(text) - (size_t)n, "no sample was kept%s",
			keep_ns ? ": no step was slow, and nobody asked for them by 'moescope mark'"
				: "");
	else
		snprintf(text + n, sizeof(text) - (size_t)n, "times of samples are within %.3f ms",
			 (double)recorder_clock_error(recorder) / 1e6);
	recorder_fact(recorder, "counters over time", text);
	if (watched->lost)
		recorder_fact(recorder, "counters lost", "the device had no room for some samples");
}

static int sample(const char *run, int64_t interval_ns, int64_t keep_ns, struct err *err)
{
	struct recorder *recorder = NULL;
	struct watched watched = { 0 };
	struct step_watch *steps = keep_ns ? step_watch_new(run) : NULL;
	int n = 0, closed, files = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	int r = counter_api_open_devices(err);

	if (files >= 0)
		inotify_add_watch(files, run, IN_CREATE | IN_MOVED_TO);
	if (r == 0)
		r = recorder_open(&recorder, run, keep_ns, err);
	if (r < 0) {
		step_watch_free(steps);
		return r;
	}
	if (counter_api.cuDeviceGetCount(&n) != CUDA_SUCCESS || !n)
		r = err_set(err, -ENODEV, "there is no GPU whose counters could be read");
	for (int i = 0; r == 0 && i < n && i < GPU_DEVICES_MAX; i++)
		r = add_device(&watched, recorder, i, interval_ns, err);
	if (r == 0) {
		printf("ready\n");
		fflush(stdout);
		r = follow(&watched, recorder, keep_ns, files, steps, err);
	}
	if (!keep_ns)
		recorder_write(recorder);
	tell_facts(&watched, recorder, interval_ns, keep_ns);
	for (int i = 0; i < watched.n; i++)
		pm_sampler_close(watched.sampler[i]);
	step_watch_free(steps);
	closed = recorder_close(recorder, r == 0 ? err : &(struct err){ "" });
	return r < 0 ? r : closed;
}

int main(int argc, char **argv)
{
	struct err err = { "" };
	int r;

	/* The end of the input is the end; keys are for the program. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "chip")) {
		r = counter_api_open(&err);
		r = r < 0 ? r : print_sets(argv[2], &err);
	} else if (argc == 2 && !strcmp(argv[1], "devices")) {
		r = print_devices(&err);
	} else if ((argc == 3 || argc == 4) &&
		   (!strcmp(argv[1], "plan") || !strcmp(argv[1], "replay"))) {
		r = plan(argv[2], argv[3], !strcmp(argv[1], "replay"), &err);
	} else if (argc == 5 && !strcmp(argv[1], "sample")) {
		r = sample(argv[2], strtoll(argv[3], NULL, 10), strtoll(argv[4], NULL, 10), &err);
	} else {
		fprintf(stderr,
			"usage: moescope-counters chip NAME | devices | plan|replay WORDS [NAME] | sample RUN NS KEEP_NS\n");
		return 2;
	}
	if (r < 0)
		printf("error: %s\n", err.message);
	fflush(stdout);
	/* The driver's destructors have been seen to hang; nothing of ours is left to do. */
	_exit(r < 0);
}
