/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-exact.so: what `run --counters SET|METRIC,...` has the driver load in place of libmoescope.so, which it is
 * linked with. Kernels are counted where the program launches them, and there are no other records of the GPU: neither
 * goes with the other. Nothing of this is in a process that is not counted.
 *
 * Threads: the program's, in CUPTI's callbacks around its launches. A launch that is counted holds the lock from its
 * begin to its end. Who waits longer than PATIENCE_MS for it goes on, and counting ends for good: a kernel may be waiting
 * for what that thread is about to launch. Before a window begins no such kernel runs, and whoever went on would launch
 * beside CUPTI's change of counters: there they wait longer.
 *
 * Not counted: kernels that talk to other GPUs or ranks (they would wait for those that are not running), graphs, and
 * whatever is launched while a stream is captured.
 */
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "counters/api.h"
#include "counters/sets.h"
#include "device/sheets/kernel_class.h"
#include "exact/pc_samples.h"
#include "exact/ranges.h"
#include "moescope.h"
#include "probe/core/name_filter.h"
#include "probe/core/open_ranges.h"
#include "probe/gpu/launch_metrics.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATIENCE_MS 1000
/* So often, while the metrics of another group are set, in 0.3 s and more: no counted kernel runs then. */
#define CHANGE_PATIENCES 10
#define KERNELS_MOST 4096
#define RANGES_DEEP 64 /* that are looked at around a launch */

enum call_use { LAUNCH, LAUNCH_WITH_CONFIG, GRAPH, CAPTURE_BEGINS, CAPTURE_ENDS };
static const struct {
	CUpti_CallbackId id;
	enum call_use use;
} calls[] = {
#define CALL(name, use)                                                                            \
	{                                                                                          \
		CUPTI_DRIVER_TRACE_CBID_##name, use                                                \
	}
	CALL(cuLaunchKernel, LAUNCH),
	CALL(cuLaunchKernel_ptsz, LAUNCH),
	CALL(cuLaunchCooperativeKernel, LAUNCH),
	CALL(cuLaunchCooperativeKernel_ptsz, LAUNCH),
	CALL(cuLaunchKernelEx, LAUNCH_WITH_CONFIG),
	CALL(cuLaunchKernelEx_ptsz, LAUNCH_WITH_CONFIG),
	CALL(cuLaunchCooperativeKernelMultiDevice, GRAPH),
	CALL(cuGraphLaunch, GRAPH),
	CALL(cuGraphLaunch_ptsz, GRAPH),
	CALL(cuStreamBeginCapture, CAPTURE_BEGINS),
	CALL(cuStreamBeginCapture_ptsz, CAPTURE_BEGINS),
	CALL(cuStreamBeginCapture_v2, CAPTURE_BEGINS),
	CALL(cuStreamBeginCapture_v2_ptsz, CAPTURE_BEGINS),
	CALL(cuStreamBeginCaptureToGraph, CAPTURE_BEGINS),
	CALL(cuStreamBeginCaptureToGraph_ptsz, CAPTURE_BEGINS),
	CALL(cuStreamEndCapture, CAPTURE_ENDS),
	CALL(cuStreamEndCapture_ptsz, CAPTURE_ENDS),
#undef CALL
};

/* A kernel by its name: whether it is counted, and what is to be counted next of it. */
struct kernel {
	moescope_name name;
	bool wanted, talks;
	uint8_t next_group; /* after the last it was counted with */
};

struct launched {
	struct row_launch launch;
	uint32_t context, number;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t process;
static _Atomic bool ended; /* nothing is counted any more */
static _Atomic bool gave_up;
static _Atomic bool changing; /* the lock is held to begin a window */
static _Atomic uint64_t to_skip, capturing;
static _Atomic uint64_t graphs, talking, in_captures, elsewhere, nameless;
static __thread bool holds __attribute__((tls_model("initial-exec")));

/* With the lock. */
static struct kernel kernels[KERNELS_MOST];
static size_t n_kernels;
static struct kernel_classes *classes;
static uint64_t left_to_count, counted, unmatched, valueless;
static uint32_t numbered; /* launches that were to be counted */
static bool begun;
static struct name_filter chosen_kernels = KERNEL_FILTER, chosen_ranges = RANGE_FILTER;
static int64_t chosen_layer = -1, chosen_expert = -1; /* -1: all */
static bool by_kernel, by_place; /* what is counted is chosen by that; set at the begin */
static size_t window_most;	 /* launches in one */
static size_t turns;		 /* that groups have taken */
static size_t turn_left;	 /* launches of the present one */
static _Atomic bool window_open; /* changed with the lock */
static struct {
	CUcontext context;
	size_t group;
	uint32_t device;
	struct launched launches[RANGES_MOST];
	size_t n;
} window;
static moescope_name units[RANGES_GROUPS_MOST][EXACT_METRICS_MOST],
	names[RANGES_GROUPS_MOST][EXACT_METRICS_MOST];

/* Not in a forked child: CUPTI would hang there. */
static bool hold(void)
{
	struct timespec until;
	int tries = 0;

	if (getpid() != process)
		return false;
	do {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += PATIENCE_MS / 1000;
		if (pthread_mutex_timedlock(&lock, &until) == 0)
			return true;
	} while (++tries < CHANGE_PATIENCES && atomic_load(&changing));
	atomic_store(&gave_up, true);
	atomic_store(&ended, true);
	return false;
}

static void stop_for_good(const struct err *err)
{
	if (!atomic_exchange(&ended, true))
		moescope_info("counters of kernels", err->message);
}

/* ---- windows: some launches in a row, counted together */

static const char *unit_of(const char *metric)
{
	if (strstr(metric, "pct"))
		return "%";
	if (strstr(metric, "time_duration"))
		return "ns";
	if (strstr(metric, "per_second"))
		return strstr(metric, "bytes") ? "byte/s" : "1/s";
	return strstr(metric, "bytes") && !strstr(metric, "per_") ? "byte" : "";
}

static void record(size_t i, const double *values)
{
	struct launched *launched = &window.launches[i];
	struct row_metric rows[EXACT_METRICS_MOST];
	size_t n, kept = 0;

	ranges_metrics(window.group, &n);
	counted++;
	for (size_t m = 0; m < n; m++)
		if (isfinite(values[m]))
			rows[kept++] = (struct row_metric){ .profile = launched->number,
							    .device = window.device,
							    .context = launched->context,
							    .name = names[window.group][m],
							    .unit = units[window.group][m],
							    .value = values[m] };
	valueless += n - kept;
	moescope_launch_metrics(&launched->launch, rows, kept);
}

static void close_window(void)
{
	double values[EXACT_METRICS_MOST];
	struct err err = { "" };
	size_t n = 0;
	int r;

	if (!atomic_load(&window_open))
		return;
	atomic_store(&window_open, false);
	left_to_count -= window.n < left_to_count ? window.n : left_to_count;
	r = ranges_stop(&n, &err);
	/* The driver has kernels of its own: then nobody knows which is which. */
	if (r == 0 && n != window.n)
		unmatched += window.n;
	for (size_t i = 0; r == 0 && n == window.n && i < n; i++) {
		r = ranges_values(i, values, &err);
		if (r == 0)
			record(i, values);
	}
	if (r < 0)
		stop_for_good(&err);
}

/* Several groups take turns, since changing them takes long. A turn begins with the next group of its first kernel. Turns
 * grow, so that short programs have them all, too. */
static size_t group_for(const struct kernel *kernel)
{
	size_t round = turns / ranges_groups();

	if (turn_left)
		return window.group;
	turn_left = round < 6 ? (size_t)1 << round : RANGES_MOST;
	turns++;
	return kernel->next_group;
}

static bool open_window(const CUpti_CallbackData *data, size_t group)
{
	struct err err = { "" };
	int r = begun ? 0 : counter_api_begin_exact(&err);

	if (r == 0) {
		begun = true;
		atomic_store(&changing, true);
		r = ranges_start(data->context, group, &err);
		atomic_store(&changing, false);
	}
	if (r == -EBUSY)
		atomic_fetch_add(&elsewhere, 1);
	else if (r < 0)
		stop_for_good(&err);
	if (r < 0)
		return false;
	atomic_store(&window_open, true);
	window.context = data->context;
	window.group = group;
	window.n = 0;
	window.device = 0;
	counter_api.cuptiGetDeviceId(data->context, &window.device);
	return true;
}

/* ---- launches */

static struct kernel *kernel_of(const char *symbol)
{
	moescope_name name = moescope_intern(symbol);
	const char *class;

	for (size_t i = 0; i < n_kernels; i++)
		if (kernels[i].name == name)
			return &kernels[i];
	if (!name || n_kernels == KERNELS_MOST)
		return NULL;
	class = classes ? kernel_class_of(classes, symbol) : NULL;
	kernels[n_kernels] = (struct kernel){
		.name = name,
		.wanted = name_filter_keeps(&chosen_kernels, name, symbol),
		.talks = !class || !strcmp(class, "collective") || !strcmp(class, "dispatch") ||
			 !strcmp(class, "combine") || !strcmp(class, "notify"),
	};
	return &kernels[n_kernels++];
}

/* Whether the launching thread is in a range that was chosen. */
static bool place_is_chosen(void)
{
	struct open_range open[RANGES_DEEP];
	size_t n;

	if (!by_place)
		return true;
	n = moescope_open_ranges(open, RANGES_DEEP);
	/* The innermost has the layer and the expert of those around it. */
	if (!n || (chosen_layer >= 0 && open[0].layer != chosen_layer) ||
	    (chosen_expert >= 0 && open[0].expert != chosen_expert))
		return false;
	for (size_t i = 0; i < n; i++)
		if (name_filter_keeps(&chosen_ranges, open[i].name,
				      moescope_name_text(open[i].name)))
			return true;
	return false;
}

static void read_params(enum call_use use, const void *given, struct row_launch *launch)
{
	/* Those of the per-thread streams and of cooperative launches begin alike. */
	const cuLaunchKernel_params *plain = given;
	const cuLaunchKernelEx_params *extended = given;
	const CUlaunchConfig *config = use == LAUNCH_WITH_CONFIG ? extended->config : NULL;

	launch->grid_x = config ? config->gridDimX : plain->gridDimX;
	launch->grid_y = config ? config->gridDimY : plain->gridDimY;
	launch->grid_z = config ? config->gridDimZ : plain->gridDimZ;
	launch->block_x = config ? config->blockDimX : plain->blockDimX;
	launch->block_y = config ? config->blockDimY : plain->blockDimY;
	launch->block_z = config ? config->blockDimZ : plain->blockDimZ;
	launch->dynamic_shared_bytes = config ? config->sharedMemBytes : plain->sharedMemBytes;
}

static void add_launch(const CUpti_CallbackData *data, const struct kernel *kernel,
		       enum call_use use)
{
	struct launched *launched = &window.launches[window.n++];

	turn_left -= turn_left > 0;
	*launched = (struct launched){ .launch.name = kernel->name,
				       .context = data->contextUid,
				       .number = ++numbered };
	read_params(use, data->functionParams, &launched->launch);
	moescope_launch_begins(&launched->launch, launched->number);
}

/* What must not come between the launches of a window. */
static void come_between(void)
{
	if (!hold())
		return;
	close_window();
	pthread_mutex_unlock(&lock);
}

/* Skipped launches cost no lock. True: this one counts. */
static bool skipped_all(void)
{
	uint64_t left = atomic_load(&to_skip);

	while (left)
		if (atomic_compare_exchange_weak(&to_skip, &left, left - 1))
			return false;
	return true;
}

static void launch_begins(const CUpti_CallbackData *data, enum call_use use)
{
	struct kernel *kernel;
	bool chosen;

	if ((__atomic_load_n(&moescope_gate, __ATOMIC_RELAXED) & 0xff) < MOESCOPE_TRACE ||
	    !data->symbolName) {
		if (atomic_load(&window_open))
			come_between();
		return;
	}
	if (atomic_load(&capturing)) {
		atomic_fetch_add(&in_captures, 1);
		return;
	}
	if (!by_kernel && !by_place && !skipped_all())
		return;
	if (!hold())
		return;
	holds = true;
	kernel = atomic_load(&ended) ? NULL : kernel_of(data->symbolName);
	if (!kernel && !atomic_load(&ended))
		atomic_fetch_add(&nameless, 1);
	chosen = kernel && kernel->wanted && place_is_chosen();
	if (chosen && kernel->talks)
		atomic_fetch_add(&talking, 1);
	if (!chosen || kernel->talks || ((by_kernel || by_place) && !skipped_all())) {
		close_window();
		return;
	}
	if (atomic_load(&window_open) && window.context != data->context) {
		atomic_fetch_add(&elsewhere, 1);
		return;
	}
	if (!atomic_load(&window_open) && !open_window(data, group_for(kernel)))
		return;
	kernel->next_group = (uint8_t)((window.group + 1) % ranges_groups());
	add_launch(data, kernel, use);
}

static void launch_ends(const CUpti_CallbackData *data)
{
	const CUresult *result = data->functionReturnValue;

	if (!holds)
		return;
	holds = false;
	/* It never ran: there is no range of it. */
	if (atomic_load(&window_open) && window.n && window.context == data->context && result &&
	    *result != CUDA_SUCCESS)
		window.n--;
	if (atomic_load(&window_open) && (window.n >= window_most || window.n >= left_to_count ||
					  (ranges_groups() > 1 && !turn_left)))
		close_window();
	if (!left_to_count)
		atomic_store(&ended, true);
	if (atomic_load(&ended)) /* also if somebody has given up waiting */
		close_window();
	pthread_mutex_unlock(&lock);
}

static void use_call(enum call_use use, const CUpti_CallbackData *data)
{
	bool begins = data->callbackSite == CUPTI_API_ENTER;
	const CUresult *result = data->functionReturnValue;
	bool failed = !begins && result && *result != CUDA_SUCCESS;

	if (use == GRAPH && begins)
		atomic_fetch_add(&graphs, 1);
	if (use == CAPTURE_BEGINS && begins)
		atomic_fetch_add(&capturing, 1);
	if ((use == GRAPH || use == CAPTURE_BEGINS) && begins)
		come_between();
	if (((use == CAPTURE_ENDS && !begins) || (use == CAPTURE_BEGINS && failed)) &&
	    atomic_load(&capturing))
		atomic_fetch_sub(&capturing, 1);
	if (use != LAUNCH && use != LAUNCH_WITH_CONFIG)
		return;
	if (begins)
		launch_begins(data, use);
	else
		launch_ends(data);
}

static void context_ends(CUcontext context)
{
	if (!hold())
		return;
	if (atomic_load(&window_open) && window.context == context)
		close_window();
	ranges_forget(context);
	pthread_mutex_unlock(&lock);
}

static void CUPTIAPI called_back(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *given)
{
	int saved = errno;

	(void)user;
	if (domain == CUPTI_CB_DOMAIN_RESOURCE) {
		if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING && !atomic_load(&ended))
			context_ends(((const CUpti_ResourceData *)given)->context);
	} else if (!atomic_load(&ended) || holds) {
		for (size_t i = 0; i < COUNT(calls); i++)
			if (calls[i].id == id)
				use_call(calls[i].use, given);
	}
	errno = saved;
}

/* ---- begin and end */

static void tell(void)
{
	char text[400];
	int n = snprintf(text, sizeof(text), "%llu launches counted", (unsigned long long)counted);
	const struct {
		uint64_t number;
		const char *what;
	} others[] = {
		{ atomic_load(&talking), "of communication" },
		{ atomic_load(&graphs), "of graphs" },
		{ atomic_load(&in_captures), "into graphs" },
		{ atomic_load(&elsewhere), "on other GPUs meanwhile" },
		{ unmatched, "beside kernels of the driver" },
		{ atomic_load(&nameless), "for want of room for their names" },
	};

	for (size_t i = 0; i < COUNT(others); i++)
		if (others[i].number && n < (int)sizeof(text))
			n += snprintf(text + n, sizeof(text) - (size_t)n, "; not counted: %llu %s",
				      (unsigned long long)others[i].number, others[i].what);
	if (valueless && n < (int)sizeof(text))
		n += snprintf(text + n, sizeof(text) - (size_t)n,
			      "; %llu metrics of them have no value",
			      (unsigned long long)valueless);
	if (atomic_load(&gave_up) && n < (int)sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n,
			 "; ended early: a launch waited too long for another");
	moescope_info("kernels counted", text);
}

static void at_exit(void)
{
	if (!hold())
		return;
	atomic_store(&ended, true);
	close_window();
	tell();
	pthread_mutex_unlock(&lock);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static int subscribe(struct err *err)
{
	CUpti_SubscriberHandle subscriber;
	CUptiResult result = counter_api.cuptiSubscribe(&subscriber, called_back, NULL);

	for (size_t i = 0; result == CUPTI_SUCCESS && i < COUNT(calls); i++)
		result = counter_api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
							 calls[i].id);
	if (result == CUPTI_SUCCESS)
		result = counter_api.cuptiEnableCallback(
			1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
			CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
	return counter_error(err, result, "launches cannot be followed");
}

static int begin(struct err *err)
{
	int r = ranges_plan(getenv("MOESCOPE_EXACT"), err);

	process = getpid();
	if (r == 0)
		r = counter_api_open_exact(err);
	if (r == 0)
		r = kernel_classes_new(NULL, &classes, err);
	if (r < 0)
		return r;
	name_filter_start(&chosen_kernels);
	name_filter_start(&chosen_ranges);
	chosen_layer = (int64_t)number_of("MOESCOPE_LAUNCH_LAYER", UINT64_MAX);
	chosen_expert = (int64_t)number_of("MOESCOPE_LAUNCH_EXPERT", UINT64_MAX);
	by_kernel = chosen_kernels.filtering;
	by_place = chosen_ranges.filtering || chosen_layer >= 0 || chosen_expert >= 0;
	/* Between kernels that match are others. */
	window_most = by_kernel ? 1 : RANGES_MOST;
	atomic_store(&to_skip, number_of("MOESCOPE_LAUNCH_SKIP", 0));
	left_to_count = number_of("MOESCOPE_LAUNCH_COUNT", 0);
	for (size_t g = 0; g < ranges_groups(); g++) {
		size_t n;
		const char **metrics = ranges_metrics(g, &n);

		for (size_t m = 0; m < n; m++) {
			names[g][m] = moescope_intern(metrics[m]);
			units[g][m] = *unit_of(metrics[m]) ? moescope_intern(unit_of(metrics[m]))
							   : 0;
		}
	}
	return subscribe(err);
}

MOESCOPE_API int InitializeInjection(void);

int InitializeInjection(void)
{
	void *symbol = dlsym(RTLD_NEXT, "InitializeInjection");
	int (*probe)(void);
	const char *what = getenv("MOESCOPE_EXACT");
	struct err err = { "" };

	if (symbol) {
		memcpy(&probe, &symbol, sizeof(probe));
		probe();
	}
	/* Ends before the session does, whose end was registered earlier. */
	if (what && !strcmp(what, EXACT_PC)) {
		if (pc_samples_begin() == 0)
			atexit(pc_samples_end);
	} else if (what && begin(&err) < 0) {
		stop_for_good(&err);
	} else if (what) {
		atexit(at_exit);
	}
	return 1;
}
