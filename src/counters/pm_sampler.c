/* SPDX-License-Identifier: Apache-2.0
 *
 * PM sampling of a device; see pm_sampler.h.
 */
#include "counters/pm_sampler.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "counters/api.h"

#define BUFFER_BYTES                                                                               \
	((size_t)64 << 20) /* on the way from the device: seconds at the shortest interval */
/* Decoded at a time. A sample takes 31 KB of their image, which is filled anew for each drain: 43 ms for 4096 on an
 * H200's host. */
#define SAMPLES 256

struct pm_sampler {
	int device;
	uint8_t *available, *data;
	size_t data_size;
	struct chip *chip;
	struct timed_counter counters[TIMED_COUNTERS_MOST];
	const char *metrics[TIMED_COUNTERS_MOST];
	size_t n;
	struct chip_plan plan;
	CUpti_PmSampling_Object *object;
	bool runs;
	int64_t asked_ns;		   /* when it was started */
	int64_t offset_least, offset_most; /* from the device's clock to ours */
	bool clock_known;
	int64_t first_end_ns; /* of the first sample, which began long before it was asked for */
};

static int read_available(struct pm_sampler *s, struct err *err)
{
	CUpti_PmSampling_GetCounterAvailability_Params params =
		CUPTI_PARAMS(PmSampling_GetCounterAvailability, .deviceIndex = (size_t)s->device);
	CUptiResult result = counter_api.cuptiPmSamplingGetCounterAvailability(&params);

	if (result == CUPTI_SUCCESS) {
		s->available = malloc(params.counterAvailabilityImageSize);
		if (!s->available)
			return err_sys(err, -ENOMEM, "counters");
		params.pCounterAvailabilityImage = s->available;
		result = counter_api.cuptiPmSamplingGetCounterAvailability(&params);
	}
	return counter_error(err, result, "the counters of the GPU cannot be read");
}

static int choose(struct pm_sampler *s, struct err *err)
{
	CUpti_Device_GetChipName_Params params = CUPTI_PARAMS(Device_GetChipName,
							      .deviceIndex = (size_t)s->device);
	int r = counter_error(err, counter_api.cuptiDeviceGetChipName(&params),
			      "the GPU does not say which chip it has");

	if (r == 0)
		r = read_available(s, err);
	if (r == 0)
		r = chip_open(&s->chip, params.pChipName, CHIP_OVER_TIME, s->available, err);
	if (r == 0)
		r = timed_counters_choose(s->chip, s->counters, &s->n, err);
	for (size_t i = 0; i < s->n; i++)
		s->metrics[i] = s->counters[i].metric;
	return r < 0 ? r : chip_plan_make(s->chip, s->metrics, s->n, &s->plan, err);
}

static int enable(struct pm_sampler *s, int64_t interval_ns, struct err *err)
{
	CUpti_PmSampling_Enable_Params enable = CUPTI_PARAMS(PmSampling_Enable,
							     .deviceIndex = (size_t)s->device);
	CUpti_PmSampling_SetConfig_Params config = CUPTI_PARAMS(
		PmSampling_SetConfig, .configSize = s->plan.image_size, .pConfig = s->plan.image,
		.hardwareBufferSize = BUFFER_BYTES, .samplingInterval = (uint64_t)interval_ns,
		.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL,
		.hwBufferAppendMode = CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST);
	CUptiResult result = counter_api.cuptiPmSamplingEnable(&enable);

	if (result == CUPTI_SUCCESS) {
		s->object = config.pPmSamplingObject = enable.pPmSamplingObject;
		result = counter_api.cuptiPmSamplingSetConfig(&config);
	}
	/* GA100 and Turing count cycles of a clock that varies; samples have their own times anyway. */
	if (s->object && result != CUPTI_SUCCESS) {
		config.triggerMode = CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL;
		result = counter_api.cuptiPmSamplingSetConfig(&config);
	}
	return counter_error(err, result, "the counters of the GPU cannot be taken");
}

static int empty_data(struct pm_sampler *s, struct err *err)
{
	CUpti_PmSampling_CounterDataImage_Initialize_Params params =
		CUPTI_PARAMS(PmSampling_CounterDataImage_Initialize, .pPmSamplingObject = s->object,
			     .counterDataSize = s->data_size, .pCounterData = s->data);

	return counter_error(err, counter_api.cuptiPmSamplingCounterDataImageInitialize(&params),
			     "counters cannot be decoded");
}

static int make_data(struct pm_sampler *s, struct err *err)
{
	CUpti_PmSampling_GetCounterDataSize_Params params =
		CUPTI_PARAMS(PmSampling_GetCounterDataSize, .pPmSamplingObject = s->object,
			     .pMetricNames = s->metrics, .numMetrics = s->n, .maxSamples = SAMPLES);
	int r = counter_error(err, counter_api.cuptiPmSamplingGetCounterDataSize(&params),
			      "counters cannot be decoded");

	if (r < 0)
		return r;
	s->data_size = params.counterDataSize;
	s->data = malloc(s->data_size);
	return s->data ? empty_data(s, err) : err_sys(err, -ENOMEM, "counters");
}

int pm_sampler_open(struct pm_sampler **ret_sampler, int device, int64_t interval_ns,
		    struct err *err)
{
	struct pm_sampler *s = calloc(1, sizeof(*s));
	CUpti_PmSampling_Start_Params start = CUPTI_PARAMS(PmSampling_Start);
	int r = s ? 0 : err_sys(err, -ENOMEM, "counters");

	if (r < 0)
		return r;
	s->device = device;
	r = choose(s, err);
	if (r == 0)
		r = enable(s, interval_ns, err);
	if (r == 0)
		r = make_data(s, err);
	if (r == 0) {
		start.pPmSamplingObject = s->object;
		s->asked_ns = clock_monotonic_ns();
		r = counter_error(err, counter_api.cuptiPmSamplingStart(&start),
				  "the counters of the GPU cannot be started");
	}
	if (r < 0) {
		pm_sampler_close(s);
		return r;
	}
	s->runs = true;
	*ret_sampler = s;
	return 0;
}

void pm_sampler_close(struct pm_sampler *s)
{
	CUpti_PmSampling_Stop_Params stop = CUPTI_PARAMS(PmSampling_Stop);
	CUpti_PmSampling_Disable_Params disable = CUPTI_PARAMS(PmSampling_Disable);

	if (!s)
		return;
	stop.pPmSamplingObject = disable.pPmSamplingObject = s->object;
	if (s->runs)
		counter_api.cuptiPmSamplingStop(&stop);
	if (s->object)
		counter_api.cuptiPmSamplingDisable(&disable);
	chip_plan_release(&s->plan);
	chip_close(s->chip);
	free(s->available);
	free(s->data);
	free(s);
}

const struct timed_counter *pm_sampler_counters(const struct pm_sampler *s, size_t *ret_n)
{
	*ret_n = s->n;
	return s->counters;
}

static int sample_times(const struct pm_sampler *s, size_t i, int64_t *ret_start, int64_t *ret_end,
			struct err *err)
{
	CUpti_PmSampling_CounterData_GetSampleInfo_Params params =
		CUPTI_PARAMS(PmSampling_CounterData_GetSampleInfo, .pPmSamplingObject = s->object,
			     .pCounterDataImage = s->data, .counterDataImageSize = s->data_size,
			     .sampleIndex = i);
	int r = counter_error(err, counter_api.cuptiPmSamplingCounterDataGetSampleInfo(&params),
			      "counters have no times");

	*ret_start = (int64_t)params.startTimestamp;
	*ret_end = (int64_t)params.endTimestamp;
	return r;
}

/* Before the samples of a drain are told: the last of them has ended by now, and none has before sampling was
 * asked for. */
static int bound_clock(struct pm_sampler *s, size_t n, int64_t now_ns, struct err *err)
{
	int64_t start, end;
	int r = 0;

	if (!s->clock_known) {
		r = sample_times(s, 0, &start, &s->first_end_ns, err);
		if (r < 0)
			return r;
		s->offset_least = s->asked_ns - s->first_end_ns;
		s->offset_most = INT64_MAX;
		s->clock_known = true;
	}
	r = sample_times(s, n - 1, &start, &end, err);
	if (r == 0 && now_ns - end < s->offset_most)
		s->offset_most = now_ns - end;
	/* The device's clock may drift, too: what was once a bound is then none. */
	if (s->offset_most < s->offset_least)
		s->offset_least = s->offset_most;
	return r;
}

static void to_our_units(const struct pm_sampler *s, double seconds, double *values)
{
	bool idle = values[0] == 0; /* sm_active_pct */

	for (size_t i = 0; i < s->n; i++) {
		if (s->counters[i].rate && idle)
			values[i] = NAN;
		if (s->counters[i].scale > 0)
			values[i] *= s->counters[i].scale;
		if (s->counters[i].sum)
			values[i] /= seconds;
	}
}

static int tell(struct pm_sampler *s, size_t n, pm_sample_fn *fn, void *context, struct err *err)
{
	double values[TIMED_COUNTERS_MOST] = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct pm_sample sample = { .values = values };

		r = sample_times(s, i, &sample.start_ns, &sample.end_ns, err);
		if (r == 0)
			r = chip_plan_values(&s->plan, s->data, s->data_size, i, values, err);
		if (r < 0)
			break;
		if (sample.end_ns == s->first_end_ns)
			continue;
		to_our_units(s, (double)(sample.end_ns - sample.start_ns) / 1e9, values);
		fn(context, &sample);
	}
	return r;
}

int pm_sampler_drain(struct pm_sampler *s, pm_sample_fn *fn, void *context, bool *ret_lost,
		     struct err *err)
{
	CUpti_PmSampling_DecodeData_Params decode;
	int r = 0;

	*ret_lost = false;
	do {
		CUpti_PmSampling_GetCounterDataInfo_Params info =
			CUPTI_PARAMS(PmSampling_GetCounterDataInfo, .pCounterDataImage = s->data,
				     .counterDataImageSize = s->data_size);
		CUptiResult result;

		decode = CUPTI_PARAMS(PmSampling_DecodeData, .pPmSamplingObject = s->object,
				      .pCounterDataImage = s->data,
				      .counterDataImageSize = s->data_size);
		result = counter_api.cuptiPmSamplingDecodeData(&decode);
		*ret_lost = *ret_lost || decode.overflow || result == CUPTI_ERROR_OUT_OF_MEMORY;
		if (result != CUPTI_ERROR_OUT_OF_MEMORY)
			r = counter_error(err, result, "counters cannot be decoded");
		if (r == 0)
			r = counter_error(err, counter_api.cuptiPmSamplingGetCounterDataInfo(&info),
					  "counters cannot be decoded");
		if (r < 0 || !info.numCompletedSamples)
			break;
		r = bound_clock(s, info.numCompletedSamples, clock_monotonic_ns(), err);
		if (r == 0)
			r = tell(s, info.numCompletedSamples, fn, context, err);
		if (r == 0)
			r = empty_data(s, err);
	} while (r == 0 &&
		 decode.decodeStopReason == CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL);
	return r;
}

int64_t pm_sampler_offset(const struct pm_sampler *s, int64_t *ret_error_ns)
{
	int64_t between = s->clock_known ? s->offset_most - s->offset_least : 0;

	*ret_error_ns = (between + 1) / 2;
	return s->clock_known ? s->offset_least + between / 2 : 0;
}
