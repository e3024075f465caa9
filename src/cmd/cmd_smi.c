/* SPDX-License-Identifier: Apache-2.0
 *
 * moescope smi: readings of the devices as nvidia-smi's CSV, now or from a recorded run. Main
 * thread.
 *
 * Lines are written as they are made. SIGINT and SIGTERM end the command after the line that is
 * being written; a second one ends it at once, should the reader of a pipe be stuck.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/format.h"
#include "cmd/options/command.h"
#include "cmd/runs/run_find.h"
#include "cmd/smi/smi.h"
#include "cmd/terminal/output.h"

struct values {
	const char *columns, *interval, *devices, *output; /* NULL: not given */
	uint64_t count;
	bool no_units, no_header, help_columns;
	const char *query, *format, *loop; /* as nvidia-smi has them */
};

static const struct option_desc own[] = {
	{ .name = "columns",
	  .short_name = 'c',
	  .kind = OPTION_STRING,
	  .metavar = "NAMES",
	  .help = "the columns, by their nvidia-smi --query-gpu names, separated by commas",
	  .default_text = "timestamp, name, utilization.gpu, utilization.memory, memory.used, "
			  "memory.free, temperature.gpu",
	  .offset = offsetof(struct values, columns) },
	{ .name = "help-columns",
	  .kind = OPTION_FLAG,
	  .help = "list all columns",
	  .offset = offsetof(struct values, help_columns) },
	{ .name = "interval",
	  .kind = OPTION_STRING,
	  .metavar = "TIME",
	  .help = "time between two lines for a device, such as 1s or 500ms",
	  .default_text = "1s",
	  .offset = offsetof(struct values, interval) },
	{ .name = "count",
	  .short_name = 'n',
	  .kind = OPTION_UINT,
	  .metavar = "N",
	  .min = 1,
	  .max = 1e15,
	  .help = "stop after N lines per device",
	  .default_text = "no limit",
	  .offset = offsetof(struct values, count) },
	{ .name = "device",
	  .short_name = 'd',
	  .kind = OPTION_STRING,
	  .metavar = "LIST",
	  .help = "only these devices: numbers or UUIDs, separated by commas",
	  .default_text = "all",
	  .offset = offsetof(struct values, devices) },
	{ .name = "no-units",
	  .kind = OPTION_FLAG,
	  .help = "print values without units",
	  .offset = offsetof(struct values, no_units) },
	{ .name = "no-header",
	  .kind = OPTION_FLAG,
	  .help = "omit the header line",
	  .offset = offsetof(struct values, no_header) },
	{ .name = "output",
	  .short_name = 'o',
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "write to this file; - is standard output",
	  .default_text = "-",
	  .offset = offsetof(struct values, output),
	  .completion = COMPLETE_FILE },
	{ .name = "query-gpu",
	  .kind = OPTION_STRING,
	  .metavar = "NAMES",
	  .help = "same as --columns; without --loop, --interval or --count, one line per device",
	  .offset = offsetof(struct values, query) },
	{ .name = "format",
	  .kind = OPTION_STRING,
	  .metavar = "WORDS",
	  .help = "csv, optionally followed by noheader and nounits, separated by commas",
	  .default_text = "csv",
	  .offset = offsetof(struct values, format) },
	{ .name = "loop",
	  .short_name = 'l',
	  .kind = OPTION_STRING,
	  .metavar = "TIME",
	  .help = "same as --interval",
	  .offset = offsetof(struct values, loop) },
	{ .name = "id",
	  .short_name = 'i',
	  .kind = OPTION_STRING,
	  .metavar = "LIST",
	  .help = "same as --device",
	  .offset = offsetof(struct values, devices) },
	{ .name = "filename",
	  .short_name = 'f',
	  .kind = OPTION_STRING,
	  .metavar = "FILE",
	  .help = "same as --output",
	  .offset = offsetof(struct values, output),
	  .completion = COMPLETE_FILE },
	{ 0 },
};

static const struct option_group groups[] = { { own, 0 }, { NULL, 0 } };

static const struct example examples[] = {
	{ "moescope smi", "One line per second and device, until Ctrl-C." },
	{ "moescope smi --query-gpu=name,memory.used --format=csv,noheader -l 1",
	  "With nvidia-smi's options." },
	{ "moescope smi -c timestamp,index,power.draw -n 50 --interval 100ms -o gpu.csv",
	  "Five seconds of power, into a file." },
	{ "moescope smi a.mscope", "The same lines from the readings of a recorded run." },
	{ NULL, NULL },
};

/* Where lines go. */
struct sink {
	int fd;
	const char *name;
};

static int stop_fd = -1;

static void on_signal(int number)
{
	const uint64_t one = 1;
	int saved = errno;
	ssize_t n = write(stop_fd, &one, sizeof(one));

	(void)n; /* an eventfd of ours with room */
	(void)number;
	errno = saved;
}

/* So that a wait ends at once, whatever moment the signal comes at. */
static int catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop_fd < 0)
		return fail("no file descriptor available: %s; raise the limit (ulimit -n).",
			    strerror(errno));
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	return EXIT_OK;
}

/* Whether the time came, and not a signal. */
static bool wait_until(int64_t time_ns)
{
	struct pollfd stop = { .fd = stop_fd, .events = POLLIN };

	for (;;) {
		int64_t left = time_ns - clock_monotonic_ns();
		struct timespec timeout = { left > 0 ? left / 1000000000 : 0,
					    left > 0 ? left % 1000000000 : 0 };

		if (ppoll(&stop, 1, &timeout, NULL) > 0)
			return false;
		if (clock_monotonic_ns() >= time_ns)
			return true;
	}
}

/* 0; -EPIPE: nobody reads any more, which is how such a stream usually ends; another -errno after
 * saying it. */
static int write_lines(const struct sink *sink, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t n = write(sink->fd, text, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			int code = errno;

			if (code != EPIPE)
				fail("cannot write to %s: %s.", sink->name, strerror(code));
			return -code;
		}
		text += n;
		size -= (size_t)n;
	}
	return 0;
}

static void print_round(const struct gpu_devices *devices, const struct smi_plan *plan, FILE *out)
{
	uint64_t wanted = smi_format_readings(&plan->format);

	for (size_t i = 0; i < devices->n; i++) {
		const struct gpu_device *d = &devices->device[i];
		struct smi_line line = { .realtime_ns = clock_realtime_ns(),
					 .index = d->index,
					 .name = d->name,
					 .uuid = d->uuid,
					 .bus_id = d->bus_id,
					 .driver = devices->driver,
					 .mig = d->mig };

		if (!smi_devices_have(plan->devices, d->index, d->uuid))
			continue;
		gpu_device_read(d, wanted, &line.values);
		smi_print_line(&plan->format, &line, out);
	}
}

/* One round of lines, whole or not at all. */
static int round_of_lines(const struct gpu_devices *devices, const struct smi_plan *plan,
			  bool header, const struct sink *sink)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int r;

	if (!out) {
		fail("no memory for the output.");
		return -ENOMEM;
	}
	if (header)
		smi_print_header(&plan->format, out);
	print_round(devices, plan, out);
	if (fclose(out) != 0) {
		fail("no memory for the output.");
		r = -ENOMEM;
	} else {
		r = write_lines(sink, text, size);
	}
	free(text);
	return r;
}

static int follow(const struct gpu_devices *devices, const struct smi_plan *plan,
		  const struct sink *sink)
{
	int64_t next_ns = clock_monotonic_ns();
	int r = 0;

	for (uint64_t i = 0; r == 0 && (!plan->count || i < plan->count); i++) {
		int64_t late;

		if (i > 0 && !wait_until(next_ns))
			break;
		r = round_of_lines(devices, plan, plan->header && i == 0, sink);
		/* What could not be kept is left out, so that the rest stays at its times. */
		late = clock_monotonic_ns() - next_ns;
		next_ns += (late / plan->interval_ns + 1) * plan->interval_ns;
	}
	return r < 0 && r != -EPIPE ? EXIT_FAILED : EXIT_OK;
}

static bool any_wanted(const struct gpu_devices *devices, const char *list)
{
	for (size_t i = 0; i < devices->n; i++)
		if (smi_devices_have(list, devices->device[i].index, devices->device[i].uuid))
			return true;
	return false;
}

static int open_sink(const char *output, struct sink *ret_sink)
{
	if (!output || strcmp(output, "-") == 0) {
		*ret_sink = (struct sink){ STDOUT_FILENO, "standard output" };
		return EXIT_OK;
	}
	*ret_sink = (struct sink){ open(output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
				   output };
	if (ret_sink->fd < 0)
		return fail("cannot write '%s': %s; choose another place with --output.", output,
			    strerror(errno));
	return EXIT_OK;
}

static int close_sink(const struct sink *sink, int r)
{
	if (sink->fd != STDOUT_FILENO && close(sink->fd) < 0 && r == EXIT_OK)
		return fail("cannot write to %s: %s.", sink->name, strerror(errno));
	return r;
}

static int show_devices(const struct smi_plan *plan, const char *output)
{
	static struct gpu_devices devices;
	struct err err = { "" };
	struct sink sink;
	int r = gpu_devices_open(&devices, &err);

	if (r < 0)
		return fail("%s", err.message);
	if (devices.n == 0)
		return fail("the driver shows no GPU; start containers with --gpus all, "
			    "elsewhere see 'nvidia-smi -L'.");
	if (!any_wanted(&devices, plan->devices))
		return fail("no device '%s'; 'moescope smi -c index,uuid,name -n 1' lists them.",
			    plan->devices);
	r = catch_signals();
	if (r == EXIT_OK)
		r = open_sink(output, &sink);
	if (r == EXIT_OK)
		r = close_sink(&sink, follow(&devices, plan, &sink));
	return r;
}

static int show_run(const char *given, const struct smi_plan *plan, const char *output)
{
	struct err err = { "" };
	struct sink sink;
	struct run *run;
	char *text = NULL;
	size_t size = 0;
	FILE *out;
	int r = run_open(given, WANT(SAMPLE) | WANT(DEVICE) | WANT(FACT), &run);

	if (r != EXIT_OK)
		return r;
	out = open_memstream(&text, &size);
	r = out ? smi_from_run(run, plan, out, &err) : -ENOMEM;
	if (out && fclose(out) != 0 && r == 0)
		r = -ENOMEM;
	run_free(run);
	if (r < 0) {
		r = fail("%s", err.message[0] ? err.message : strerror(-r));
	} else {
		r = open_sink(output, &sink);
		if (r == EXIT_OK) {
			int w = write_lines(&sink, text, size);

			r = close_sink(&sink, w < 0 && w != -EPIPE ? EXIT_FAILED : EXIT_OK);
		}
	}
	free(text);
	return r;
}

/* nvidia-smi's --format. */
static int parse_format(const char *words, struct smi_plan *plan, struct err *err)
{
	bool csv = false;

	for (;;) {
		size_t length = strcspn(words, ",");

		if (length == 3 && strncmp(words, "csv", length) == 0)
			csv = true;
		else if (length == 8 && strncmp(words, "noheader", length) == 0)
			plan->header = false;
		else if (length == 7 && strncmp(words, "nounits", length) == 0)
			plan->format.units = false;
		else
			return err_set(err, -EINVAL,
				       "'--format' has no '%.*s'; it takes csv, noheader and "
				       "nounits.",
				       (int)length, words);
		if (!words[length])
			break;
		words += length + 1;
	}
	return csv ? 0 : err_set(err, -EINVAL, "'--format' needs csv, the only format.");
}

static int make_plan(const struct values *v, struct smi_plan *ret_plan, struct err *err)
{
	const char *names = v->query ? v->query : v->columns ? v->columns : SMI_DEFAULT_COLUMNS;
	const char *interval = v->loop ? v->loop : v->interval ? v->interval : "1s";
	struct smi_plan plan = { .count = v->count, .devices = v->devices };
	int r;

	if (v->query && v->columns)
		return err_set(err, -EINVAL,
			       "'--query-gpu' and '--columns' are the same; give one.");
	if (v->loop && v->interval)
		return err_set(err, -EINVAL, "'--loop' and '--interval' are the same; give one.");
	r = smi_format_parse(names, &plan.format, err);
	if (r == 0)
		r = interval_parse(interval, &plan.interval_ns, err);
	plan.format.units = !v->no_units;
	plan.header = !v->no_header;
	if (r == 0 && v->format)
		r = parse_format(v->format, &plan, err);
	if (r == 0 && v->query && !v->loop && !v->interval && !v->count)
		plan.once = true;
	if (r == 0)
		*ret_plan = plan;
	return r;
}

static int run_smi(struct invocation *inv)
{
	const struct values *values = inv->values;
	struct smi_plan plan = { .interval_ns = 1000000000 };
	struct err err = { "" };

	if (values->help_columns) {
		smi_print_columns(inv->out->file);
		return EXIT_OK;
	}
	if (make_plan(values, &plan, &err) < 0)
		return usage_error(inv->command, "%s", err.message);
	signal(SIGPIPE, SIG_IGN);
	if (inv->n_args)
		return show_run(inv->args[0], &plan, values->output);
	if (plan.once)
		plan.count = 1;
	return show_devices(&plan, values->output);
}

const struct command cmd_smi = {
	.name = "smi",
	.purpose = PURPOSE_EXPORT,
	.summary = "device readings as CSV, in nvidia-smi's format",
	.words = "[RUN]",
	.description =
		"Prints one line per second and device, as 'nvidia-smi --query-gpu=... "
		"--format=csv -l 1' does, and accepts its options. Values that a device does not "
		"report are [N/A]. With RUN the lines come from the readings of a recorded run: "
		"devices have the program's numbers, and a line has the last readings of its "
		"interval. Ends at SIGINT or SIGTERM, or when its reader goes away.",
	.groups = groups,
	.examples = examples,
	.values_size = sizeof(struct values),
	.max_args = 1,
	.completion = COMPLETE_RUN,
	.run = run_smi,
};
