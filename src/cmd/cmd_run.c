/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope run: a program under the profiler, with its own exit status.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text/format.h"
#include "cmd/options/common_options.h"
#include "cmd/options/listening.h"
#include "cmd/options/run_options.h"
#include "cmd/recording/counters.h"
#include "cmd/recording/counting.h"
#include "cmd/recording/preload.h"
#include "cmd/recording/watched.h"
#include "cmd/runs/run_files.h"
#include "cmd/runs/run_find.h"
#include "cmd/terminal/output.h"
#include "host/heap.h"
#include "host/stacks/sampler.h"
#include "surfaces/http/http.h"
#include "surfaces/top/screen.h"
#include "trace/heap_file.h"
#include "trace/ring.h"

struct values {
	const char *output, *schedule, *budget, *kernel, *ranks, *allowance, *metrics, *token,
		*interval, *counters, *counters_interval, *calls, *longer_than, *range;
	bool force, quiet, top, stacks, no_auto;
	int level; /* index into level_choices */
	uint64_t sample, overhead_check, ring_kb, stacks_rate, heap_kb, launch_skip, launch_count;
	int64_t layer, expert;
	int replay; /* index into replay_choices */
	bool stays, no_host, heap;
};

static const char *const level_choices[] = { "counts", "steps", "trace", "full", NULL };
enum { LEVEL_TRACE = 2 };
static const char *const replay_choices[] = { "none", "kernel", NULL };
enum { REPLAY_KERNEL = 1 };
#define SCREEN_NS INT64_C(500000000)

static const struct option_desc own[] = {
	RUN_OUTPUT_OPTION(struct values, output, "DIR", "moescope-DATE-TIME-PID.mscope"),
	FORCE_OPTION(struct values, force),
	{ .name = "level",
	  .short_name = 'l',
	  .kind = OPTION_CHOICE,
	  .metavar = "LEVEL",
	  .choices = level_choices,
	  .help = "how much to record: counts (steps, routing counts, counters), steps (plus "
		  "phases, tokens, memory), trace (plus every range and operation) or full (plus "
		  "the experts of every token)",
	  .default_text = "trace",
	  .offset = offsetof(struct values, level) },
	{ .name = "schedule",
	  .kind = OPTION_STRING,
	  .metavar = "SPEC",
	  .help = "which steps to record, as in skip_first=10,wait=5,warmup=2,active=3,repeat=1; "
		  "repeat=0 repeats forever",
	  .default_text = "all",
	  .offset = offsetof(struct values, schedule) },
	{ .name = "sample",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1e9,
	  .help = "record only every N-th of the chosen steps",
	  .default_text = "1",
	  .offset = offsetof(struct values, sample) },
	{ .name = "budget",
	  .kind = OPTION_STRING,
	  .metavar = "PERCENT",
	  .help = "overhead limit for recording GPU work, in percent of wall time, as in 0.5%; "
		  "off records everything at any cost",
	  .default_text = "1%",
	  .offset = offsetof(struct values, budget) },
	{ .name = "stay-attached",
	  .kind = OPTION_FLAG,
	  .help = "do not detach from CUPTI between windows: nothing is finalised inside the "
		  "program, but each kernel launch takes up to 1.8 µs longer",
	  .offset = offsetof(struct values, stays) },
	{ .name = "memory-allowance",
	  .kind = OPTION_STRING,
	  .metavar = "SIZE",
	  .help = "GPU memory that recording may use, as in 128MB or 1GB",
	  .default_text = "128MB",
	  .offset = offsetof(struct values, allowance) },
	{ .name = "kernel",
	  .kind = OPTION_STRING,
	  .metavar = "REGEX",
	  .help = "record only kernels whose mangled name matches this extended regular "
		  "expression; so write 'gemm' rather than '^gemm'",
	  .default_text = "all",
	  .offset = offsetof(struct values, kernel) },
	{ .name = "ranks",
	  .kind = OPTION_STRING,
	  .metavar = "LIST",
	  .help = "record only processes with these ranks, as in 0,2-3, according to the "
		  "variables that torchrun, Open MPI, PMI and Slurm set; a process without one "
		  "is rank 0",
	  .default_text = "all",
	  .offset = offsetof(struct values, ranks) },
	{ .name = "overhead-check",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 0,
	  .max = 1e6,
	  .help = "measure the profiler's overhead: N pairs of steps, alternately recorded and "
		  "not",
	  .default_text = "0",
	  .offset = offsetof(struct values, overhead_check) },
	{ .name = "ring-kb",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = RING_MIN_BYTES >> 10,
	  .max = RING_MAX_BYTES >> 10,
	  .help = "buffer size per thread in KiB, from 64 to 65536, rounded up to a power of two",
	  .default_text = "1024",
	  .offset = offsetof(struct values, ring_kb) },
	{ .name = "no-auto",
	  .kind = OPTION_FLAG,
	  .help = "do not find steps, phases and operations in PyTorch programs",
	  .offset = offsetof(struct values, no_auto) },
	{ .name = "stacks",
	  .kind = OPTION_FLAG,
	  .help = "sample the stacks of the program's threads from outside, for 'moescope stacks': Python and "
		  "native functions, running and waiting; the program is never stopped",
	  .offset = offsetof(struct values, stacks) },
	{ .name = "stacks-rate",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = SAMPLER_HZ_MOST,
	  .help = "with --stacks: samples per second, at most; fewer if sampling takes more than 1% of a "
		  "processor",
	  .default_text = "100",
	  .offset = offsetof(struct values, stacks_rate) },
	{ .name = "heap",
	  .kind = OPTION_FLAG,
	  .help = "sample the program's allocations of host memory, for 'moescope heap': which stacks hold it, "
		  "and which never free it; loads a library into the program",
	  .offset = offsetof(struct values, heap) },
	{ .name = "heap-kb",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1 << 20,
	  .help = "with --heap: average KiB allocated between two samples; grows if there are more than 2000 "
		  "samples a second",
	  .default_text = "512",
	  .offset = offsetof(struct values, heap_kb) },
	{ .name = "calls",
	  .kind = OPTION_STRING,
	  .metavar = "LIST",
	  .help = "record calls into libraries, for 'moescope calls': osrt (C library functions that wait or "
		  "move data), cublas, cudnn, nccl, as in osrt,nccl, or all; in every process of the program, "
		  "through preloaded libraries (LD_PRELOAD)",
	  .default_text = "none",
	  .offset = offsetof(struct values, calls) },
	{ .name = "calls-longer-than",
	  .kind = OPTION_STRING,
	  .metavar = "TIME",
	  .help = "with --calls osrt: only count shorter calls and sum their times, without a record each",
	  .default_text = "10us",
	  .offset = offsetof(struct values, longer_than) },
	{ .name = "no-host",
	  .kind = OPTION_FLAG,
	  .help = "do not record what the machine and the program's processes do, for 'moescope host'; that "
		  "takes at most 0.1% of a processor",
	  .offset = offsetof(struct values, no_host) },
	{ .name = "counters",
	  .kind = OPTION_STRING,
	  .metavar = "WHAT",
	  .help = "read the GPUs' hardware counters. From outside the program: timeline (all the time) or "
		  "recorder (only the last ten seconds before a slow step or a 'moescope mark'). For individual "
		  "kernels, which are then counted and not timed: basic, memory, compute, tensor, stalls, "
		  "full, or metrics such as dram__bytes_read.sum, with commas. By sampling instructions while "
		  "kernels run normally: pc (where warps wait, and why). The last two are experimental and need "
		  "MOESCOPE_TRUST=1",
	  .default_text = "none",
	  .offset = offsetof(struct values, counters) },
	{ .name = "counters-interval",
	  .kind = OPTION_STRING,
	  .metavar = "TIME",
	  .help = "with --counters timeline or recorder: time between samples, such as 200us or 10ms",
	  .default_text = "1ms",
	  .offset = offsetof(struct values, counters_interval) },
	{ .name = "launch-skip",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 0,
	  .max = 1e12,
	  .help = "with --counters of kernels: skip the first N launches among those that --kernel, --range, "
		  "--layer and --expert select",
	  .default_text = "0",
	  .offset = offsetof(struct values, launch_skip) },
	{ .name = "launch-count",
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1e12,
	  .help = "with --counters of kernels: count this many launches; they run one at a time",
	  .default_text = "1000",
	  .offset = offsetof(struct values, launch_count) },
	{ .name = "replay",
	  .kind = OPTION_CHOICE,
	  .metavar = "HOW",
	  .choices = replay_choices,
	  .help = "with --counters of kernels: how to handle metrics that need several passes. none: leave them "
		  "out. kernel: CUPTI runs a kernel once per pass and restores the GPU's memory in between; if "
		  "that fails, the program's data may be wrong. Kernels that may communicate with the host, "
		  "another GPU or another rank are not replayed",
	  .default_text = "none",
	  .offset = offsetof(struct values, replay) },
	{ .name = "range",
	  .kind = OPTION_STRING,
	  .metavar = "REGEX",
	  .help = "with --counters of kernels: only launches inside a range (NVTX, moescope) of the same thread "
		  "whose name matches this extended regular expression",
	  .default_text = "all",
	  .offset = offsetof(struct values, range) },
	{ .name = "layer",
	  .kind = OPTION_INT,
	  .metavar = "N",
	  .min = 0,
	  .max = INT32_MAX,
	  .help = "with --counters of kernels: only launches inside ranges of this layer, counted from 0",
	  .default_text = "all",
	  .offset = offsetof(struct values, layer) },
	{ .name = "expert",
	  .kind = OPTION_INT,
	  .metavar = "N",
	  .min = 0,
	  .max = INT32_MAX,
	  .help = "with --counters of kernels: only launches inside ranges of this expert, counted from 0",
	  .default_text = "all",
	  .offset = offsetof(struct values, expert) },
	{ .name = "top",
	  .kind = OPTION_FLAG,
	  .help = "show the run on the terminal while it grows, as 'moescope top' does; the "
		  "program's output goes to program.log in the run directory, and it reads "
		  "nothing from the terminal",
	  .offset = offsetof(struct values, top) },
	INTERVAL_OPTION(struct values, interval, "with --top: ", "500ms"),
	{ .name = "metrics",
	  .kind = OPTION_STRING,
	  .metavar = "[ADDRESS:]PORT",
	  .help = "answer /metrics in the OpenMetrics format, about this run, until the program ends; "
		  "port 0 takes a free one, and any but a loopback address needs a token",
	  .offset = offsetof(struct values, metrics) },
	{ .name = "token",
	  .kind = OPTION_STRING,
	  .metavar = "WORD",
	  .help = "with --metrics: answer only requests with this token",
	  .default_text = "a random one where others can reach the address, else none",
	  .offset = offsetof(struct values, token) },
	{ .name = "quiet",
	  .short_name = 'q',
	  .kind = OPTION_FLAG,
	  .help = "print nothing at the end on success",
	  .offset = offsetof(struct values, quiet) },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope run -- ./train --epochs 1", "Record a program, then 'moescope report'." },
	{ "moescope run -- python3 train.py",
	  "Steps, phases and operations of a PyTorch program, without a changed line." },
	{ "moescope run -o slow.mscope --level full -- ./train",
	  "A named run, with the experts of every token." },
	{ "moescope run --schedule wait=50,warmup=2,active=10,repeat=3 -- ./train",
	  "Three windows of ten steps out of a long run." },
	{ "moescope run --budget off --kernel 'gemm|flash' -- python train.py",
	  "Every call of some kernels, at any cost." },
	{ "moescope run --calls osrt,cublas -- python train.py",
	  "Calls that wait or move data, and matrix products with their sizes." },
	{ "moescope run --counters recorder -- python train.py",
	  "Hardware counters of the last ten seconds before each slow step." },
	{ "moescope run --top -- python train.py", "Watch it as it runs." },
	{ "moescope run --metrics 9100 -- python train.py",
	  "Prometheus follows it at http://127.0.0.1:9100/metrics." },
	{ "moescope run --ranks 0,7 -- torchrun --nproc-per-node 8 train.py",
	  "Two of eight processes; the others run untouched." },
	{ NULL, NULL },
};

static const struct values defaults = { .level = LEVEL_TRACE,
					.sample = 1,
					.budget = "1%",
					.allowance = "128MB",
					.stacks_rate = SAMPLER_HZ,
					.heap_kb = HEAP_DISTANCE >> 10,
					.layer = -1,
					.expert = -1 };

static int check_values(const struct values *values, struct record_plan *plan, struct err *err)
{
	int r = budget_parse(values->budget, &plan->budget_pct, err);

	plan->budget_known = r == 0;
	if (r == 0)
		r = allowance_parse(values->allowance, &plan->device_mb, err);
	if (r == 0 && values->kernel)
		r = regex_check("kernel", values->kernel, err);
	if (r == 0 && values->range)
		r = regex_check("range", values->range, err);
	if (r == 0 && values->ranks)
		r = ranks_check(values->ranks, err);
	if (r == 0 && values->token && !values->metrics)
		r = err_set(err, -EINVAL, "'--token' is for '--metrics'.");
	if (r == 0 && values->calls)
		r = preload_parse_calls(values->calls, &plan->preload, err);
	if (r == 0)
		r = threshold_parse(values->longer_than ? values->longer_than : "10us",
				    &plan->calls_ns, err);
	if (r == 0 && values->longer_than && !values->calls)
		r = err_set(err, -EINVAL, "'--calls-longer-than' is for '--calls'; give both.");
	plan->kernel = values->kernel;
	plan->ranks = values->ranks;
	return r;
}

/* Prepares the terminal for a view beside the program: the descriptor of the file for the program's
 * output, or -1 with a word. The program comes first: without a view it runs as it would anyway. */
static int open_view(const struct recording *recording)
{
	const char *why = screen_unavailable();
	int fd, null;

	if (!why && !terminal_look().cursor)
		why = "standard output is not a terminal that can be drawn on";
	if (!why && !screen_is_ours())
		why = "this job is in the background";
	if (!why && !recording->path)
		why = "there is no run to show";
	fd = why ? -1 : program_log_open(recording);
	if (!why && fd < 0)
		why = strerror(-fd);
	if (why) {
		say("'--top' is left out: %s.", why);
		return -1;
	}
	/* Keys are for the view; a program that waits for one would take them from it. */
	null = isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		close(null);
	}
	return fd;
}

/* Metrics of the run, over HTTP. */
struct metrics {
	struct listening listening;
	struct http_options options;
	struct http_server *server; /* NULL: there is none */
};

/* Takes the port, before anything is touched. EXIT_OK, or the status to exit with after a word. */
static int take_port(struct metrics *metrics, const struct invocation *inv)
{
	const struct values *values = inv->values;
	struct listening *listening = &metrics->listening;
	struct err err = { "" };
	int r;

	if (!values->metrics)
		return EXIT_OK;
	r = listening_parse("--metrics", values->metrics, listening, &err);
	if (r == 0)
		r = listening_guard(listening, values->token, &err);
	if (r == -EINVAL)
		return usage_error(inv->command, "%s", err.message);
	metrics->options = (struct http_options){
		.address = listening->address,
		.port = listening->port,
		.token = listening->token[0] ? listening->token : NULL,
		.metrics = true,
		.nothing_else = true,
		.load = run_load_quietly,
	};
	if (r == 0)
		r = metrics->options.socket = http_bind(&metrics->options, &err);
	return r < 0 ? fail("%s", err.message) : EXIT_OK;
}

/* The program comes first: without a run, or without threads, it runs as it would anyway. Every signal is
 * blocked already, so that none comes to the server's threads. */
static void open_metrics(struct metrics *metrics, const struct recording *recording)
{
	const char *token = metrics->options.token;
	struct err err = { "" };
	char url[128];

	if (!metrics->options.socket)
		return;
	metrics->options.path = recording->path;
	if (!recording->path)
		err_set(&err, -ENOENT, "there is no run to serve.");
	if (!recording->path || http_open(&metrics->options, &metrics->server, &err) < 0) {
		say("'--metrics' is left out: %s", err.message);
		return;
	}
	listening_url(&metrics->listening, http_port(metrics->server), url, sizeof(url));
	say("metrics at %s/metrics%s%s%s", url,
	    token ? ", for requests with 'Authorization: Bearer " : "", token ? token : "",
	    token ? "'" : "");
}

/* Until the program's end, with a view or without. told: how far counting is goes to the terminal meanwhile. */
static void wait_for_end(struct recording *recording, bool view, int64_t interval_ns, bool told)
{
	struct counting_told counting = { 0 };
	enum launch_event event;

	if (view) {
		watch_program(recording, WATCH_SCREEN, interval_ns, "Ctrl-C is for the program.");
		return;
	}
	while ((event = launch_wait(&recording->launch, told ? COUNTING_LOOK_MS : -1)) !=
	       LAUNCH_ENDED) {
		if (event == LAUNCH_STOPPED)
			launch_suspend(&recording->launch);
		if (event == LAUNCH_TIMEOUT)
			told = counting_tell(&counting, recording->path);
	}
}

/* Where the program's output is, and its end if the program has failed. */
static void tell_log(const struct recording *recording, int log_fd, bool quiet)
{
	int status = recording->launch.status;
	bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;

	if (failed)
		program_log_tail(log_fd);
	if (failed || !quiet)
		say("the program's output is in %s/" PROGRAM_LOG ".", recording->name);
	close(log_fd);
}

/* The program comes first: without it the program runs as it would anyway. */
static struct sampler *start_sampler(const struct recording *recording, unsigned int hz)
{
	struct sampler *sampler = NULL;
	struct err err = { "" };

	if (!recording->path)
		return NULL;
	if (sampler_start(&sampler, recording->path, recording->launch.pid, hz, &err) < 0)
		say("'--stacks' is left out: %s", err.message);
	return sampler;
}

/* Likewise. What is wrong is said before the program starts. */
static void start_counters(const struct recording *recording, struct counters *counters,
			   int64_t interval_ns, int64_t keep_ns)
{
	struct err err = { "" };

	if (recording->path &&
	    counters_start(counters, recording->path, interval_ns, keep_ns, &err) < 0)
		say("'--counters' is left out: %s.", err.message);
}

/* Likewise. What cannot have libraries runs without. */
static void choose_libraries(const struct values *values, const char *program,
			     struct record_plan *plan)
{
	struct err err = { "" };

	plan->preload |= values->heap ? PRELOAD_HEAP : 0;
	plan->heap_bytes = values->heap_kb << 10;
	if (!plan->preload || preload_check(program, &err) == 0)
		return;
	say("'--%s' is left out: %s",
	    !values->calls ? "heap"
	    : values->heap ? "heap' and '--calls"
			   : "calls",
	    err.message);
	plan->preload = 0;
}

static void say_left_out(void *context, const char *line)
{
	(void)context;
	say("%s.", line);
}

static uint64_t launches_to_count(const struct values *values)
{
	return values->launch_count ? values->launch_count : COUNTING_LAUNCHES;
}

/* Likewise. The caller frees what the plan then points to. */
static char *choose_counters(const struct values *values, struct record_plan *plan)
{
	const char *trust = getenv("MOESCOPE_TRUST");
	struct counting_plan planned = { 0 };
	struct err err = { "" };

	if (!values->counters || counters_over_time(values->counters))
		return NULL;
	if (counters_plan(values->counters, values->replay == REPLAY_KERNEL, &planned, say_left_out,
			  NULL, &err) < 0)
		say("'--counters' is left out: %s.", err.message);
	if (planned.groups && (!trust || !*trust)) {
		say("'--counters %s' is left out: %s; MOESCOPE_TRUST=1 enables it anyway.",
		    values->counters,
		    counters_of_instructions(planned.groups)
			    ? "sampling instructions has ended PyTorch programs, inside libcupti"
			    : "counting individual kernels is not proved harmless, and PyTorch "
			      "programs have hung");
		free(planned.groups);
		planned.groups = NULL;
	}
	if (planned.groups && counters_of_instructions(planned.groups))
		say("instructions are sampled while the program runs, with a buffer of 64 MiB in each GPU's memory; "
		    "large products took 0.7%% longer on an H200, in one pair of runs.");
	else if (planned.groups)
		counting_tell_cost(&planned, launches_to_count(values), values->kernel != NULL);
	plan->exact = planned.groups;
	plan->launch_skip = values->launch_skip;
	plan->launch_count = launches_to_count(values);
	plan->range = values->range;
	plan->layer = values->layer;
	plan->expert = values->expert;
	return planned.groups;
}

static struct heap *start_heap(const struct recording *recording)
{
	struct heap *heap = NULL;
	struct err err = { "" };

	if (recording->path && heap_start(&heap, recording->path, &err) < 0)
		say("'--heap' is left out: %s", err.message);
	return heap;
}

static void end_heap(struct heap *heap, const char *program)
{
	struct heap_end end = { 0 };
	struct err err = { "" };

	if (heap_stop(heap, &end, &err) < 0)
		say("not all allocations are recorded: %s", err.message);
	else if (heap && !end.processes)
		say("no allocations are recorded: no process of '%s' loaded the library; the program may be static "
		    "or setuid or have its own allocator, or the disk of the run directory may be full.",
		    program);
	else if (heap && !end.samples)
		say("no allocations are recorded: the program allocated too little for a sample; "
		    "see --heap-kb.");
}

static int take_interval(const struct values *values, int64_t *ret_ns, struct err *err)
{
	if (!values->interval)
		return 0;
	if (!values->top)
		return err_set(err, -EINVAL,
			       "'--interval' is about the view of '--top'; give both.");
	return watch_interval(values->interval, ret_ns, err);
}

static int take_counters(const struct values *values, int64_t *ret_interval_ns,
			 int64_t *ret_keep_ns, struct err *err)
{
	const char *only = values->launch_skip	  ? "launch-skip"
			   : values->launch_count ? "launch-count"
			   : values->replay	  ? "replay"
			   : values->range	  ? "range"
			   : values->layer >= 0	  ? "layer"
			   : values->expert >= 0  ? "expert"
						  : NULL;

	if (only && (!values->counters || counters_over_time(values->counters) ||
		     counters_of_instructions(values->counters)))
		return err_set(err, -EINVAL,
			       "'--%s' is for '--counters' of kernels, such as basic.", only);
	if (values->counters)
		return counters_parse(values->counters, values->counters_interval, ret_interval_ns,
				      ret_keep_ns, err);
	return values->counters_interval
		       ? err_set(err, -EINVAL, "'--counters-interval' is for '--counters'.")
		       : 0;
}

static int run_run(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct record_plan plan = {
		.output = values->output,
		.force = values->force,
		.level = level_choices[values->level],
		.overhead_pairs = values->overhead_check,
		.ring_kb = values->ring_kb,
		.stays = values->stays,
		.finds_steps = !values->no_auto,
	};
	struct recording recording = RECORDING_NONE;
	struct metrics metrics = { 0 };
	struct counters counters = { 0 };
	struct err err = { "" };
	int64_t interval_ns = SCREEN_NS, counters_ns = 0, keep_ns = 0;
	struct sampler *sampler;
	struct watch *watch;
	struct heap *heap;
	bool over_time = values->counters && counters_over_time(values->counters);
	char schedule[160], *exact;
	bool counts_launches;
	int status, log_fd = -1;

	if (schedule_canonical(values->schedule, values->sample, schedule, sizeof(schedule), &err) <
		    0 ||
	    check_values(values, &plan, &err) < 0 ||
	    take_interval(values, &interval_ns, &err) < 0 ||
	    take_counters(values, &counters_ns, &keep_ns, &err) < 0)
		return usage_error(inv->command, "%s", err.message);
	if (values->schedule || values->sample > 1)
		plan.schedule = schedule;
	status = take_port(&metrics, inv);
	if (status != EXIT_OK)
		return status;
	if (over_time)
		counters_prepare(&counters);
	exact = choose_counters(values, &plan);
	choose_libraries(values, inv->args[0], &plan);
	status = recording_begin(&recording, &plan, inv->args);
	counts_launches = exact && !counters_of_instructions(exact);
	free(exact);
	if (status == EXIT_OK)
		open_metrics(&metrics, &recording);
	if (status == EXIT_OK && values->top)
		log_fd = open_view(&recording);
	if (status == EXIT_OK && over_time)
		start_counters(&recording, &counters, counters_ns, keep_ns);
	if (status == EXIT_OK)
		status = recording_launch(&recording, inv->args, log_fd);
	if (status != EXIT_OK) {
		counters_stop(&counters, &err);
		http_close(metrics.server);
		recording_release(&recording);
		return status;
	}
	sampler = values->stacks ? start_sampler(&recording, (unsigned int)values->stacks_rate)
				 : NULL;
	watch = values->no_host ? NULL : recording_watch_machine(&recording);
	heap = plan.preload & PRELOAD_HEAP ? start_heap(&recording) : NULL;
	wait_for_end(&recording, log_fd >= 0, interval_ns,
		     counts_launches && !values->quiet && recording.path && isatty(STDERR_FILENO));
	if (counters_stop(&counters, &err) < 0)
		say("not all counters are recorded: %s", err.message);
	end_heap(heap, inv->args[0]);
	recording_end_watch(watch);
	if (sampler_stop(sampler, &err) < 0)
		say("not all stacks are recorded: %s", err.message);
	if (log_fd >= 0)
		tell_log(&recording, log_fd, values->quiet);
	if (recording_end(&recording, inv->args[0]) && !values->quiet)
		say("run in %s; next: moescope report %s", recording.name, recording.name);
	recording_release(&recording);
	launch_die_likewise(&recording.launch);
	/* A reply that is being made must neither be waited for nor see the end of the process from inside. */
	if (metrics.server)
		_exit(launch_exit_status(&recording.launch));
	return launch_exit_status(&recording.launch);
}

const struct command cmd_run = {
	.name = "run",
	.purpose = PURPOSE_RECORD,
	.summary = "profile a program; the exit status is the program's",
	.words = "[--] PROGRAM [ARGUMENT]...",
	.description =
		"Runs a program and records, in a run directory, what it and the processes it "
		"starts do on GPUs (CUDA, NVTX) and report to moescope (see moescope.h), and what "
		"the machine does meanwhile ('moescope host'). In processes that use PyTorch it finds "
		"steps, phases and operations itself, unless the program already profiles itself. "
		"A process that does none of these is not touched. The program keeps its terminal, "
		"signals and exit status; if a signal kills it, moescope dies of the same "
		"signal. If the directory is not writable, the run goes to TMPDIR; failing that "
		"too, the program runs unrecorded.\n"
		"The exit status is 127 if the program cannot be found and 126 if it cannot be "
		"executed; neither leaves a run directory.",
	.groups = groups,
	.examples = examples,
	.defaults = &defaults,
	.values_size = sizeof(struct values),
	.max_args = -1,
	.min_args = 1,
	.args_end_options = true,
	.completion = COMPLETE_PROGRAM,
	.run = run_run,
};
