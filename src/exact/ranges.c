/* SPDX-License-Identifier: Apache-2.0
 *
 * The range profiler; see ranges.h. What belongs to a context is made when its first kernel is to be counted: by then
 * the driver is initialised, which it is not when the library is loaded.
 */
#include "exact/ranges.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "counters/api.h"
#include "counters/chip.h"
#include "counters/sets.h"

#define CONTEXTS_MOST 16

static struct group {
	const char *metrics[EXACT_METRICS_MOST];
	size_t n, passes;      /* as planned */
	struct chip_plan plan; /* once the chip is known */
} groups[RANGES_GROUPS_MOST];
static size_t n_groups;
static struct chip *chip;

static struct ranged {
	CUcontext context;		    /* NULL: ended */
	CUpti_RangeProfiler_Object *object; /* of the group; NULL: none */
	size_t group, most;		    /* kernels that it has room for */
	uint8_t *data;
	size_t size, room;
} contexts[CONTEXTS_MOST];

static struct ranged *now; /* that is being counted, or was last */
static struct ranges_time took;

/* On an H200 room for a kernel takes 0.9 ms, once; a start and a stop 14 and 41 ms, besides 0.03 ms a kernel. */
#define ROOM_US 900.0
#define START_STOP_US 55000.0
#define RANGES_LEAST 512

size_t ranges_for(uint64_t kernels)
{
	double best = sqrt((double)kernels * START_STOP_US / ROOM_US);

	return best < RANGES_LEAST ? RANGES_LEAST : best < RANGES_MOST ? (size_t)best : RANGES_MOST;
}

int ranges_plan(const char *text, struct err *err)
{
	static char *copy; /* stays: the names are in it */
	char *rest = NULL;

	copy = strdup(text);
	if (!copy)
		return err_sys(err, -ENOMEM, "counters");
	for (char *one = strtok_r(copy, ";", &rest); one; one = strtok_r(NULL, ";", &rest)) {
		struct group *group = &groups[n_groups];
		char *inner = NULL;

		if (n_groups == RANGES_GROUPS_MOST)
			return err_set(err, -E2BIG, "too many groups of metrics");
		group->passes = 1;
		if (strchr(one, ' ')) {
			group->passes = strtoul(one, &one, 10);
			one++;
		}
		for (char *metric = strtok_r(one, ",", &inner);
		     metric && group->n < EXACT_METRICS_MOST; metric = strtok_r(NULL, ",", &inner))
			group->metrics[group->n++] = metric;
		n_groups += group->n > 0;
	}
	return n_groups && groups[0].passes == 1
		       ? 0
		       : err_set(err, -EINVAL, "no metrics are named that one pass can count");
}

size_t ranges_groups(void)
{
	return n_groups;
}

size_t ranges_passes(size_t group)
{
	return groups[group].passes;
}

const char **ranges_metrics(size_t group, size_t *ret_n)
{
	*ret_n = groups[group].n;
	return groups[group].metrics;
}

/* Groups were made for the machine's first GPU. A single pass of several would count a part of the metrics. */
static int plan_group(struct group *group, struct err *err)
{
	int r = chip_plan_make(chip, group->metrics, group->n, &group->plan, err);

	if (r == 0 && group->plan.passes > 1 && group->passes == 1)
		r = err_set(
			err, -ENOTSUP,
			"%s, the chip of the GPU that is used, needs several passes for metrics "
			"that the first GPU counts in one; leave others out by "
			"CUDA_VISIBLE_DEVICES",
			chip_name(chip));
	return r;
}

/* The chip of the first context is that of all: what another lacks cannot be counted there. */
static int plan_for(CUcontext context, struct err *err)
{
	CUpti_Device_GetChipName_Params params = CUPTI_PARAMS(Device_GetChipName);
	uint32_t device = 0;
	int r = counter_error(err, counter_api.cuptiGetDeviceId(context, &device),
			      "the GPU of a context is not known");

	params.deviceIndex = device;
	if (r == 0)
		r = counter_error(err, counter_api.cuptiDeviceGetChipName(&params),
				  "the GPU does not say which chip it has");
	if (r == 0 && chip)
		return strcmp(chip_name(chip), params.pChipName)
			       ? err_set(err, -EBUSY, "another chip")
			       : 0;
	if (r == 0)
		r = chip_open(&chip, params.pChipName, CHIP_EXACT, NULL, err);
	for (size_t g = 0; r == 0 && g < n_groups; g++)
		r = plan_group(&groups[g], err);
	return r;
}

static int find(CUcontext context, struct ranged **ret_ranged, struct err *err)
{
	struct ranged *place = NULL;
	int r;

	*ret_ranged = NULL;
	for (size_t i = 0; i < CONTEXTS_MOST; i++) {
		if (contexts[i].context == context) {
			*ret_ranged = &contexts[i];
			return 0;
		}
		if (!contexts[i].context && !place)
			place = &contexts[i];
	}
	if (!place)
		return err_set(err, -EBUSY, "too many contexts");
	r = plan_for(context, err);
	if (r < 0)
		return r;
	/* The memory of one that has ended serves the next. */
	*place = (struct ranged){ .context = context, .data = place->data, .room = place->room };
	*ret_ranged = place;
	return 0;
}

static void disable(struct ranged *ranged)
{
	CUpti_RangeProfiler_Disable_Params params =
		CUPTI_PARAMS(RangeProfiler_Disable, .pRangeProfilerObject = ranged->object);

	if (ranged->object)
		counter_api.cuptiRangeProfilerDisable(&params);
	ranged->object = NULL;
}

/* An object that is given the metrics of another group counts nothing but the time from then on, and says nothing
 * (CUPTI 13.0): each group has a new one, and so has each that wants more room. */
static int enable(struct ranged *ranged, size_t group, size_t most, struct err *err)
{
	CUpti_RangeProfiler_Enable_Params params = CUPTI_PARAMS(RangeProfiler_Enable,
								.ctx = ranged->context);
	int r;

	if (ranged->object && ranged->group == group && ranged->most >= most)
		return 0;
	disable(ranged);
	r = counter_error(err, counter_api.cuptiRangeProfilerEnable(&params),
			  "the counters of the GPU cannot be taken");
	if (r < 0)
		return r;
	ranged->object = params.pRangeProfilerObject;
	ranged->group = group;
	ranged->most = most;
	ranged->size = 0;
	return 0;
}

static int make_room(struct ranged *ranged, struct err *err)
{
	CUpti_RangeProfiler_GetCounterDataSize_Params params = CUPTI_PARAMS(
		RangeProfiler_GetCounterDataSize, .pRangeProfilerObject = ranged->object,
		.pMetricNames = groups[ranged->group].metrics,
		.numMetrics = groups[ranged->group].n, .maxNumOfRanges = ranged->most,
		.maxNumRangeTreeNodes = ranged->most);
	int r;

	if (ranged->size)
		return 0;
	r = counter_error(err, counter_api.cuptiRangeProfilerGetCounterDataSize(&params),
			  "counters cannot be read");
	if (r == 0 && params.counterDataSize > ranged->room) {
		uint8_t *data = realloc(ranged->data, params.counterDataSize);

		if (!data)
			return err_sys(err, -ENOMEM, "counters");
		ranged->data = data;
		ranged->room = params.counterDataSize;
	}
	if (r == 0)
		ranged->size = params.counterDataSize;
	return r;
}

static int empty_data(const struct ranged *ranged, struct err *err)
{
	CUpti_RangeProfiler_CounterDataImage_Initialize_Params params = CUPTI_PARAMS(
		RangeProfiler_CounterDataImage_Initialize, .pRangeProfilerObject = ranged->object,
		.counterDataSize = ranged->size, .pCounterData = ranged->data);

	return counter_error(err, counter_api.cuptiRangeProfilerCounterDataImageInitialize(&params),
			     "counters cannot be read");
}

static int start(CUcontext context, size_t group, size_t most, struct err *err)
{
	struct ranged *ranged;
	int r = find(context, &ranged, err);

	if (r == 0)
		r = enable(ranged, group, most, err);
	if (r == 0)
		r = make_room(ranged, err);
	if (r == 0)
		r = empty_data(ranged, err);
	if (r == 0) {
		bool replay = groups[group].passes > 1;
		CUpti_RangeProfiler_SetConfig_Params config = CUPTI_PARAMS(
			RangeProfiler_SetConfig, .pRangeProfilerObject = ranged->object,
			.configSize = groups[group].plan.image_size,
			.pConfig = groups[group].plan.image, .counterDataImageSize = ranged->size,
			.pCounterDataImage = ranged->data, .range = CUPTI_AutoRange,
			/* Of one pass nothing is ever replayed. */
			.replayMode = replay ? CUPTI_KernelReplay : CUPTI_UserReplay,
			.maxRangesPerPass = replay ? 1 : ranged->most, .numNestingLevels = 1,
			.minNestingLevel = 1, .passIndex = 0, .targetNestingLevel = 0);

		r = counter_error(err, counter_api.cuptiRangeProfilerSetConfig(&config),
				  "the counters of the GPU cannot be set");
	}
	if (r == 0) {
		CUpti_RangeProfiler_Start_Params params =
			CUPTI_PARAMS(RangeProfiler_Start, .pRangeProfilerObject = ranged->object);

		r = counter_error(err, counter_api.cuptiRangeProfilerStart(&params),
				  "the counters of the GPU cannot be started");
	}
	if (r == 0)
		now = ranged;
	return r;
}

int ranges_start(CUcontext context, size_t group, size_t most, struct err *err)
{
	int64_t begin_ns = clock_monotonic_ns();
	int r = start(context, group, most, err);

	took.starts++;
	took.start_ns += clock_monotonic_ns() - begin_ns;
	return r;
}

int ranges_stop(size_t *ret_n, struct err *err)
{
	int64_t begin_ns = clock_monotonic_ns();
	CUpti_RangeProfiler_Stop_Params stop = CUPTI_PARAMS(RangeProfiler_Stop,
							    .pRangeProfilerObject = now->object);
	CUpti_RangeProfiler_DecodeData_Params decode =
		CUPTI_PARAMS(RangeProfiler_DecodeData, .pRangeProfilerObject = now->object);
	CUpti_RangeProfiler_GetCounterDataInfo_Params info =
		CUPTI_PARAMS(RangeProfiler_GetCounterDataInfo, .pCounterDataImage = now->data,
			     .counterDataImageSize = now->size);
	CUptiResult result = counter_api.cuptiRangeProfilerStop(&stop);

	if (result == CUPTI_SUCCESS)
		result = counter_api.cuptiRangeProfilerDecodeData(&decode);
	if (result == CUPTI_SUCCESS)
		result = counter_api.cuptiRangeProfilerGetCounterDataInfo(&info);
	took.stop_ns += clock_monotonic_ns() - begin_ns;
	*ret_n = result == CUPTI_SUCCESS ? info.numTotalRanges + decode.numOfRangeDropped : 0;
	if (result == CUPTI_SUCCESS && groups[now->group].passes > 1 && !stop.isAllPassSubmitted)
		return err_set(err, -EAGAIN, "not all passes were made");
	return counter_error(err, result, "the counters of the GPU cannot be read");
}

int ranges_values(size_t i, double *values, struct err *err)
{
	int64_t begin_ns = clock_monotonic_ns();
	int r = chip_plan_values(&groups[now->group].plan, now->data, now->size, i, values, err);

	took.values_ns += clock_monotonic_ns() - begin_ns;
	return r;
}

struct ranges_time ranges_time(void)
{
	return took;
}

void ranges_forget(CUcontext context)
{
	for (size_t i = 0; i < CONTEXTS_MOST; i++)
		if (contexts[i].context == context) {
			disable(&contexts[i]);
			contexts[i].context = NULL;
		}
}

void ranges_end(void)
{
	int64_t begin_ns = clock_monotonic_ns();

	for (size_t i = 0; i < CONTEXTS_MOST; i++)
		disable(&contexts[i]);
	took.end_ns += clock_monotonic_ns() - begin_ns;
}
