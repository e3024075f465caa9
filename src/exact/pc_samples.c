/* SPDX-License-Identifier: Apache-2.0
 *
 * PC sampling; see pc_samples.h.
 *
 * Threads: the program's, in CUPTI's callbacks of contexts and modules, and one of ours, which fetches. The lock is held
 * while samples are fetched, so a thread of the program may hold one of CUPTI's while it wants ours, and our thread the
 * other way round: the program's never wait for it longer than PATIENCE_MS.
 */
#include "exact/pc_samples.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "counters/api.h"
#include "exact/lines.h"
#include "exact/patience.h"
#include "moescope.h"
#include "probe/core/name_filter.h"
#include "probe/gpu/launch_metrics.h"

#define CONTEXTS_MOST 64
#define REASONS_MOST 96	  /* of one GPU */
#define NUMBERS_MOST 1024 /* CUPTI counts them as it likes */
#define PCS_MOST 4096	  /* in a fetch */
#define FETCHES_MOST 256  /* in a row */
#define EVERY_MS 200	  /* CUPTI's own thread decodes ten times a second */
#define PATIENCE_MS 1000
#define MODULE_PATIENCE_MS 50
/* CUPTI fills arrays of structures whose size it alone decides, as it did with 12.4: a newer one than those that were
 * compared (12.9 to 13.4) could write beyond ours. */
#define VERSION_MOST 130499
#define ROWS 64
/* CUPTI would take 512 MiB of the GPU's memory. */
#define DEVICE_BYTES ((size_t)64 << 20)
#define HOST_BYTES ((size_t)4 << 20)
/* A sample of each SM every 2^PERIOD cycles. CUPTI would take 2^11 of an H200, and its buffer be full most of the time, so
 * that kernels have no shares; with 2^15 it never was, and 2^17 are two million samples a second. */
#define PERIOD 17

#define PC_PARAMS(Name, ...)                                                                       \
	{                                                                                          \
		.size = CUpti_PCSampling##Name##ParamsSize, ##__VA_ARGS__                          \
	}

enum { FREE, TAKEN, SAMPLED, GONE };

struct sampled {
	_Atomic int state;
	_Atomic(CUcontext) context; /* looked at by others while it changes */
	uint32_t device, id;
	moescope_name reasons[NUMBERS_MOST]; /* by CUPTI's number */
	CUpti_PCSamplingData *last;	     /* what CUPTI had not handed out when it ended */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t process;
static _Atomic bool ended, thread_runs, process_ends;
static struct sampled contexts[CONTEXTS_MOST];

/* With the lock. */
static struct name_filter chosen_kernels = KERNEL_FILTER;
static CUpti_PCSamplingData *fetched;
static uint64_t taken, lost, of_driver, times_full;
static bool sums_told;			      /* nothing is recorded any more */
static _Atomic uint32_t period;		      /* a sample every 2^period cycles */
static _Atomic uint64_t too_many, unfinished; /* contexts */

static void stop_for_good(const struct err *err)
{
	if (!atomic_exchange(&ended, true))
		moescope_info("samples of instructions", err->message);
}

static bool hold(int64_t patience_ms)
{
	return lock_within(&lock, patience_ms);
}

/* One piece of memory: free() it. */
static CUpti_PCSamplingData *buffer_new(size_t pcs)
{
	size_t size = sizeof(CUpti_PCSamplingData) +
		      pcs * (sizeof(CUpti_PCSamplingPCData) +
			     REASONS_MOST * sizeof(CUpti_PCSamplingStallReason));
	CUpti_PCSamplingData *data = calloc(1, size);
	CUpti_PCSamplingStallReason *reasons;

	if (!data)
		return NULL;
	data->size = sizeof(*data);
	data->collectNumPcs = pcs;
	data->pPcData = (void *)(data + 1);
	reasons = (void *)(data->pPcData + pcs);
	for (size_t i = 0; i < pcs; i++) {
		data->pPcData[i].size = sizeof(data->pPcData[i]);
		data->pPcData[i].stallReason = reasons + i * REASONS_MOST;
	}
	return data;
}

/* ---- records */

static struct {
	struct row_pc_sample rows[ROWS];
	size_t n;
} batch;

static void flush_batch(void)
{
	moescope_pc_samples(batch.rows, batch.n);
	batch.n = 0;
}

static void add(const struct row_pc_sample *row)
{
	if (!row->samples)
		return;
	batch.rows[batch.n++] = *row;
	if (batch.n == ROWS)
		flush_batch();
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void record_pc(const struct sampled *sampled, const CUpti_PCSamplingPCData *pc,
		      struct row_pc_sample row)
{
	struct source_line line;

	row.kernel = pc->functionName ? moescope_intern(pc->functionName) : 0;
	if (row.kernel && !name_filter_keeps(&chosen_kernels, row.kernel, pc->functionName))
		return;
	if (row.kernel) {
		line = lines_of(pc->cubinCrc, pc->functionName, row.kernel, pc->pcOffset);
		row.module = pc->cubinCrc;
		row.offset = pc->pcOffset;
		row.file = line.file;
		row.line = line.line;
	}
	for (size_t i = 0; i < pc->stallReasonCount && i < REASONS_MOST; i++) {
		struct row_pc_sample one = row;
		uint32_t reason = pc->stallReason[i].pcSamplingStallReasonIndex;

		one.reason = reason < NUMBERS_MOST ? sampled->reasons[reason] : 0;
		one.samples = pc->stallReason[i].samples;
		if (!one.kernel || !one.reason) {
			one.kernel = 0;
			one.reason = moescope_intern("unnamed");
		}
		add(&one);
	}
}

static void record(const struct sampled *sampled, const CUpti_PCSamplingData *data)
{
	struct row_pc_sample row = { .time_ns = now_ns(),
				     .device = sampled->device,
				     .context = sampled->id };
	size_t n = data->totalNumPcs < data->collectNumPcs ? data->totalNumPcs
							   : data->collectNumPcs;

	/* Names of functions belong to CUPTI's other records, too: they are not freed. */
	for (size_t i = 0; i < n; i++)
		record_pc(sampled, &data->pPcData[i], row);
	taken += data->totalSamples;
	lost += data->droppedSamples;
	of_driver += data->nonUsrKernelsTotalSamples;
	times_full += data->hardwareBufferFull != 0;
	row.reason = moescope_intern("dropped");
	row.samples = data->droppedSamples;
	add(&row);
	row.reason = moescope_intern("driver");
	row.samples = data->nonUsrKernelsTotalSamples;
	add(&row);
	flush_batch();
}

static void forget(CUpti_PCSamplingData *data)
{
	data->totalNumPcs = data->remainingNumPcs = 0;
	data->totalSamples = data->droppedSamples = data->nonUsrKernelsTotalSamples = 0;
	data->hardwareBufferFull = 0;
}

/* With the lock. GetData does not wait for the device. */
static void fetch(const struct sampled *sampled)
{
	CUpti_PCSamplingGetDataParams params = PC_PARAMS(GetData, .ctx = sampled->context,
							 .pcSamplingData = fetched);

	for (int i = 0; i < FETCHES_MOST; i++) {
		CUptiResult result;
		struct err err = { "" };

		forget(fetched);
		result = counter_api.cuptiPCSamplingGetData(&params);
		/* Its buffer on the device was full: that is told, and it goes on. */
		if (result != CUPTI_SUCCESS && result != CUPTI_ERROR_OUT_OF_MEMORY) {
			counter_error(&err, result,
				      result == CUPTI_ERROR_UNKNOWN
					      ? "samples of instructions cannot be read, as when "
						"another process takes them on this GPU"
					      : "samples of instructions cannot be read");
			stop_for_good(&err);
			return;
		}
		if (result != CUPTI_SUCCESS)
			fetched->hardwareBufferFull = 1;
		record(sampled, fetched);
		if (!fetched->remainingNumPcs)
			return;
	}
}

/* What CUPTI has put aside itself, when a module was loaded after another had gone, or when sampling ended. */
static void take_last(const struct sampled *sampled)
{
	record(sampled, sampled->last);
	forget(sampled->last);
}

static void fetch_all(void)
{
	for (size_t i = 0; i < CONTEXTS_MOST; i++)
		if (atomic_load(&contexts[i].state) == SAMPLED && !atomic_load(&ended))
			fetch(&contexts[i]);
}

static void let_go_of_all(void);

/* Threads of CUPTI go on after it has told that it cannot sample, and programs have died in them. */
static void fetch_now_and_then(void)
{
	struct timespec pause = { .tv_nsec = EVERY_MS * 1000000L };

	while (!atomic_load(&ended)) {
		nanosleep(&pause, NULL);
		if (pthread_mutex_lock(&lock) != 0)
			return;
		fetch_all();
		pthread_mutex_unlock(&lock);
	}
	if (pthread_mutex_lock(&lock) != 0)
		return;
	if (!atomic_load(&process_ends))
		let_go_of_all();
	pthread_mutex_unlock(&lock);
}

/* ---- contexts */

static struct sampled *find(CUcontext context)
{
	for (size_t i = 0; i < CONTEXTS_MOST; i++)
		if (atomic_load(&contexts[i].state) == SAMPLED && contexts[i].context == context)
			return &contexts[i];
	return NULL;
}

/* The same with the lock: it, or the program, may have ended while this waited. */
static struct sampled *find_and_hold(CUcontext context, int64_t patience_ms)
{
	struct sampled *sampled = find(context);

	if (!sampled || !hold(patience_ms))
		return NULL;
	sampled = sums_told ? NULL : find(context);
	if (!sampled)
		pthread_mutex_unlock(&lock);
	return sampled;
}

static struct sampled *take(void)
{
	for (size_t i = 0; i < CONTEXTS_MOST; i++) {
		int free_one = FREE;

		if (atomic_compare_exchange_strong(&contexts[i].state, &free_one, TAKEN))
			return &contexts[i];
	}
	return NULL;
}

static int name_reasons(struct sampled *sampled, struct err *err)
{
	size_t n = 0;
	CUpti_PCSamplingGetNumStallReasonsParams count =
		PC_PARAMS(GetNumStallReasons, .ctx = sampled->context, .numStallReasons = &n);
	CUptiResult result = counter_api.cuptiPCSamplingGetNumStallReasons(&count);
	char texts[REASONS_MOST][CUPTI_STALL_REASON_STRING_SIZE], *pointers[REASONS_MOST];
	uint32_t numbers[REASONS_MOST];
	CUpti_PCSamplingGetStallReasonsParams names =
		PC_PARAMS(GetStallReasons, .ctx = sampled->context, .stallReasonIndex = numbers,
			  .stallReasons = pointers);

	if (result == CUPTI_SUCCESS && n > REASONS_MOST)
		return err_set(err, -E2BIG,
			       "this GPU knows %zu reasons for which warps wait; %d are expected",
			       n, REASONS_MOST);
	for (size_t i = 0; i < n; i++)
		pointers[i] = texts[i];
	names.numStallReasons = n;
	if (result == CUPTI_SUCCESS)
		result = counter_api.cuptiPCSamplingGetStallReasons(&names);
	for (size_t i = 0; result == CUPTI_SUCCESS && i < n; i++)
		if (numbers[i] < NUMBERS_MOST)
			sampled->reasons[numbers[i]] = moescope_intern(texts[i]);
	return counter_error(err, result, "the reasons for which warps wait cannot be read");
}

static int configure(struct sampled *sampled, struct err *err)
{
#define ATTRIBUTE(NAME) .attributeType = CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_##NAME
	CUpti_PCSamplingConfigurationInfo set[] = {
		{ ATTRIBUTE(COLLECTION_MODE),
		  .attributeData.collectionModeData.collectionMode =
			  CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS },
		{ ATTRIBUTE(HARDWARE_BUFFER_SIZE),
		  .attributeData.hardwareBufferSizeData.hardwareBufferSize = DEVICE_BYTES },
		{ ATTRIBUTE(SCRATCH_BUFFER_SIZE),
		  .attributeData.scratchBufferSizeData.scratchBufferSize = HOST_BYTES },
		{ ATTRIBUTE(SAMPLING_DATA_BUFFER),
		  .attributeData.samplingDataBufferData.samplingDataBuffer = sampled->last },
		{ ATTRIBUTE(SAMPLING_PERIOD),
		  .attributeData.samplingPeriodData.samplingPeriod = PERIOD },
	};
	CUpti_PCSamplingConfigurationInfo get = { ATTRIBUTE(SAMPLING_PERIOD) };
#undef ATTRIBUTE
	CUpti_PCSamplingConfigurationInfoParams params = PC_PARAMS(
		ConfigurationInfo, .ctx = sampled->context,
		.numAttributes = sizeof(set) / sizeof(set[0]), .pPCSamplingConfigurationInfo = set);
	CUptiResult result = counter_api.cuptiPCSamplingSetConfigurationAttribute(&params);

	params.numAttributes = 1;
	params.pPCSamplingConfigurationInfo = &get;
	if (result == CUPTI_SUCCESS &&
	    counter_api.cuptiPCSamplingGetConfigurationAttribute(&params) == CUPTI_SUCCESS)
		atomic_store(&period, get.attributeData.samplingPeriodData.samplingPeriod);
	return counter_error(err, result, "PC sampling cannot be set up");
}

/* What CUPTI writes into is freed only if it has let go of it. */
static void let_go(struct sampled *sampled)
{
	CUpti_PCSamplingDisableParams params = PC_PARAMS(Disable, .ctx = sampled->context);

	if (counter_api.cuptiPCSamplingDisable(&params) != CUPTI_SUCCESS)
		return;
	take_last(sampled);
	free(sampled->last);
}

static void let_go_of_all(void)
{
	for (size_t i = 0; i < CONTEXTS_MOST; i++)
		if (atomic_load(&contexts[i].state) == SAMPLED) {
			let_go(&contexts[i]);
			atomic_store(&contexts[i].state, FREE);
		}
}

static int enable(struct sampled *sampled, struct err *err)
{
	CUpti_PCSamplingEnableParams params = PC_PARAMS(Enable, .ctx = sampled->context);
	int r;

	sampled->last = buffer_new(PCS_MOST);
	if (!sampled->last)
		return err_sys(err, -ENOMEM, "PC sampling");
	r = counter_error(err, counter_api.cuptiPCSamplingEnable(&params),
			  "this GPU's instructions cannot be sampled");
	if (r < 0) {
		free(sampled->last);
		return r;
	}
	r = name_reasons(sampled, err);
	if (r == 0)
		r = configure(sampled, err);
	if (r < 0 && hold(PATIENCE_MS)) {
		let_go(sampled);
		pthread_mutex_unlock(&lock);
	}
	return r;
}

/* It has nothing to do before there is a context. */
static int run_thread(struct err *err)
{
	int r = atomic_exchange(&thread_runs, true) ? 0 : moescope_own_thread(fetch_now_and_then);

	return r < 0 ? err_sys(err, r, "a thread for PC sampling") : 0;
}

/* Nobody else knows of it yet: no lock. */
static void context_begins(CUcontext context)
{
	struct sampled *sampled = take();
	struct err err = { "" };
	int r;

	if (!sampled) {
		atomic_fetch_add(&too_many, 1);
		return;
	}
	sampled->context = context;
	sampled->device = sampled->id = 0;
	counter_api.cuptiGetDeviceId(context, &sampled->device);
	counter_api.cuptiGetContextId(context, &sampled->id);
	r = run_thread(&err);
	if (r == 0)
		r = enable(sampled, &err);
	if (r < 0)
		stop_for_good(&err);
	atomic_store(&sampled->state, r < 0 ? FREE : SAMPLED);
}

/* With the lock. */
static void finish(struct sampled *sampled)
{
	/* What CUPTI has put aside is read once it has let go: another thread may be loading a module. */
	if (!atomic_load(&ended))
		fetch(sampled);
	let_go(sampled);
	atomic_store(&sampled->state, FREE);
}

static void context_ends(CUcontext context)
{
	struct sampled *sampled = find_and_hold(context, PATIENCE_MS);

	if (sampled) {
		finish(sampled);
		pthread_mutex_unlock(&lock);
	} else if ((sampled = find(context))) {
		atomic_store(&sampled->state, GONE);
		atomic_fetch_add(&unfinished, 1);
	}
}

/* The instructions of a module have addresses that the next one may get. */
static void module_changes(CUcontext context, bool begins)
{
	struct sampled *sampled = find_and_hold(context, MODULE_PATIENCE_MS);

	if (!sampled)
		return;
	if (begins)
		take_last(sampled);
	else
		fetch(sampled);
	pthread_mutex_unlock(&lock);
}

static void CUPTIAPI called_back(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *given)
{
	const CUpti_ResourceData *data = given;
	const CUpti_ModuleResourceData *module = data->resourceDescriptor;
	int saved = errno;

	(void)user;
	/* Not in a forked child: CUPTI would hang there. */
	if (domain != CUPTI_CB_DOMAIN_RESOURCE || getpid() != process)
		return;
	if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING)
		context_ends(data->context);
	if (atomic_load(&ended)) {
		errno = saved;
		return;
	}
	if (id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED)
		context_begins(data->context);
	else if (id == CUPTI_CBID_RESOURCE_MODULE_LOADED)
		module_changes(data->context, true);
	else if (id == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING)
		module_changes(data->context, false);
	if (id == CUPTI_CBID_RESOURCE_MODULE_LOADED && module)
		lines_keep(module->pCubin, module->cubinSize);
	errno = saved;
}

/* ---- begin and end */

static int begin(struct err *err)
{
	static const CUpti_CallbackId wanted[] = { CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
						   CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
						   CUPTI_CBID_RESOURCE_MODULE_LOADED,
						   CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING };
	CUpti_SubscriberHandle subscriber;
	CUptiResult result;
	uint32_t version = 0;
	int r = counter_api_open_exact(err);

	process = getpid();
	if (r < 0)
		return r;
	if (counter_api.cuptiGetVersion(&version) != CUPTI_SUCCESS || version > VERSION_MOST)
		return err_set(
			err, -ENOSYS,
			"libcupti %u is newer than any that PC sampling was built for (up to %d): set "
			"MOESCOPE_CUPTI to that of CUDA 13.4 or older",
			version, VERSION_MOST);
	fetched = buffer_new(PCS_MOST);
	if (!fetched)
		return err_sys(err, -ENOMEM, "PC sampling");
	name_filter_start(&chosen_kernels);
	result = counter_api.cuptiSubscribe(&subscriber, called_back, NULL);
	for (size_t i = 0; result == CUPTI_SUCCESS && i < sizeof(wanted) / sizeof(wanted[0]); i++)
		result = counter_api.cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE,
							 wanted[i]);
	return counter_error(err, result, "contexts cannot be followed");
}

int pc_samples_begin(void)
{
	struct err err = { "" };
	int r = begin(&err);

	if (r < 0)
		stop_for_good(&err);
	return r;
}

static void tell(void)
{
	char text[400];
	uint32_t cycles = atomic_load(&period); /* 0: CUPTI did not say, or there was no context */
	int n = snprintf(text, sizeof(text), "%llu samples", (unsigned long long)taken);
	const struct {
		uint64_t number;
		const char *what;
	} others[] = {
		{ lost, "dropped by the hardware" },
		{ of_driver, "of kernels of the driver" },
		{ times_full, "times the buffer on the device was full" },
		{ lines_left_out(), "modules without lines for want of room" },
		{ atomic_load(&too_many), "contexts not sampled: there were too many" },
		{ atomic_load(&unfinished),
		  "contexts ended before their last samples were fetched" },
	};

	if (cycles)
		n += snprintf(text + n, sizeof(text) - (size_t)n, ", one every 2^%u cycles",
			      cycles);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (others[i].number && n < (int)sizeof(text))
			n += snprintf(text + n, sizeof(text) - (size_t)n, "; %llu %s",
				      (unsigned long long)others[i].number, others[i].what);
	moescope_info("instructions sampled", text);
	sums_told = true;
}

void pc_samples_end(void)
{
	struct err err = { "" };

	if (getpid() != process)
		return;
	atomic_store(&process_ends, true);
	if (!hold(PATIENCE_MS)) {
		err_set(&err, -ETIME, "CUPTI did not hand out the last ones within a second");
		stop_for_good(&err);
		return;
	}
	for (size_t i = 0; i < CONTEXTS_MOST; i++)
		if (atomic_load(&contexts[i].state) == SAMPLED)
			finish(&contexts[i]);
	atomic_store(&ended, true);
	tell();
	pthread_mutex_unlock(&lock);
}
