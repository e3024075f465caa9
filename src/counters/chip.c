/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics and passes; see chip.h.
 */
#include "counters/chip.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "counters/api.h"

struct chip {
	char *name;
	enum chip_use use;
	const uint8_t *available;
	CUpti_Profiler_Host_Object *host; /* for questions; plans have their own */
};

static int host_open(const struct chip *chip, CUpti_Profiler_Host_Object **ret_host,
		     struct err *err)
{
	CUpti_Profiler_Host_Initialize_Params params = CUPTI_PARAMS(
		Profiler_Host_Initialize,
		.profilerType = chip->use == CHIP_EXACT ? CUPTI_PROFILER_TYPE_RANGE_PROFILER
							: CUPTI_PROFILER_TYPE_PM_SAMPLING,
		.pChipName = chip->name, .pCounterAvailabilityImage = chip->available);
	int r = counter_error(err, counter_api.cuptiProfilerHostInitialize(&params),
			      "the metrics of this GPU's chip cannot be read");

	*ret_host = r == 0 ? params.pHostObject : NULL;
	return r;
}

static void host_close(CUpti_Profiler_Host_Object *host)
{
	CUpti_Profiler_Host_Deinitialize_Params params = CUPTI_PARAMS(Profiler_Host_Deinitialize,
								      .pHostObject = host);

	if (host)
		counter_api.cuptiProfilerHostDeinitialize(&params);
}

int chip_open(struct chip **ret_chip, const char *name, enum chip_use use, const uint8_t *available,
	      struct err *err)
{
	struct chip *chip = calloc(1, sizeof(*chip));
	int r;

	if (!chip || !(chip->name = strdup(name))) {
		free(chip);
		return err_sys(err, -ENOMEM, "counters");
	}
	chip->use = use;
	chip->available = available;
	r = host_open(chip, &chip->host, err);
	if (r < 0) {
		chip_close(chip);
		return r;
	}
	*ret_chip = chip;
	return 0;
}

void chip_close(struct chip *chip)
{
	if (!chip)
		return;
	host_close(chip->host);
	free(chip->name);
	free(chip);
}

const char *chip_name(const struct chip *chip)
{
	return chip->name;
}

/* Without what follows the first dot behind a prefix such as TPC.TriageCompute. */
static size_t base_length(const char *metric)
{
	const char *counter = strstr(metric, "__"), *dot = strchr(counter ? counter : metric, '.');

	return dot ? (size_t)(dot - metric) : strlen(metric);
}

/* Asks for the base metrics of every type, until one is wanted no more. */
typedef bool metric_fn(void *context, CUpti_MetricType type, const char *name);

static void each_metric(const struct chip *chip, metric_fn *fn, void *context)
{
	for (int type = 0; type < CUPTI_METRIC_TYPE__COUNT; type++) {
		CUpti_Profiler_Host_GetBaseMetrics_Params params =
			CUPTI_PARAMS(Profiler_Host_GetBaseMetrics, .pHostObject = chip->host,
				     .metricType = (CUpti_MetricType)type);

		if (counter_api.cuptiProfilerHostGetBaseMetrics(&params) != CUPTI_SUCCESS)
			continue;
		for (size_t i = 0; i < params.numMetrics; i++)
			if (!fn(context, params.metricType, params.ppMetricNames[i]))
				return;
	}
}

struct search {
	const char *metric;
	size_t length;
	CUpti_MetricType type;
	bool found;
};

static bool is_it(void *context, CUpti_MetricType type, const char *name)
{
	struct search *search = context;

	search->found = strlen(name) == search->length &&
			!strncmp(name, search->metric, search->length);
	search->type = type;
	return !search->found;
}

bool chip_has(const struct chip *chip, const char *metric)
{
	struct search search = { .metric = metric, .length = base_length(metric) };
	CUpti_Profiler_Host_GetSubMetrics_Params params;
	const char *rest = metric + search.length;

	each_metric(chip, is_it, &search);
	if (!search.found || !*rest)
		return false;
	params = CUPTI_PARAMS(Profiler_Host_GetSubMetrics, .pHostObject = chip->host,
			      .metricType = search.type, .pMetricName = metric);
	if (counter_api.cuptiProfilerHostGetSubMetrics(&params) != CUPTI_SUCCESS)
		return false;
	for (size_t i = 0; i < params.numOfSubmetrics; i++)
		if (!strcmp(params.ppSubMetrics[i], rest) ||
		    (params.ppSubMetrics[i][0] != '.' && !strcmp(params.ppSubMetrics[i], rest + 1)))
			return true;
	return false;
}

static bool offer(void *context, CUpti_MetricType type, const char *name)
{
	(void)type;
	nearest_offer(context, name);
	return true;
}

void chip_nearest(const struct chip *chip, const char *metric, char *name, size_t size)
{
	char *base = strndup(metric, base_length(metric));
	struct nearest nearest = nearest_to(base ? base : "");

	each_metric(chip, offer, &nearest);
	snprintf(name, size, "%s", nearest.best ? nearest.best : "");
	free(base);
}

struct telling {
	const char *prefix;
	chip_metric *tell;
	void *context;
};

static bool tell_one(void *context, CUpti_MetricType type, const char *name)
{
	struct telling *telling = context;

	(void)type;
	if (!strncmp(name, telling->prefix, strlen(telling->prefix)))
		telling->tell(telling->context, name);
	return true;
}

void chip_each_metric(const struct chip *chip, const char *prefix, chip_metric *tell, void *context)
{
	each_metric(chip, tell_one, &(struct telling){ prefix, tell, context });
}

static int make_image(struct chip_plan *plan, struct err *err)
{
	CUpti_Profiler_Host_GetConfigImageSize_Params measure =
		CUPTI_PARAMS(Profiler_Host_GetConfigImageSize, .pHostObject = plan->host);
	CUpti_Profiler_Host_GetConfigImage_Params get = CUPTI_PARAMS(Profiler_Host_GetConfigImage,
								     .pHostObject = plan->host);
	CUpti_Profiler_Host_GetNumOfPasses_Params passes =
		CUPTI_PARAMS(Profiler_Host_GetNumOfPasses);
	CUptiResult result = counter_api.cuptiProfilerHostGetConfigImageSize(&measure);

	if (result == CUPTI_SUCCESS) {
		plan->image_size = measure.configImageSize;
		plan->image = malloc(plan->image_size);
		if (!plan->image)
			return err_sys(err, -ENOMEM, "counters");
		get.configImageSize = passes.configImageSize = plan->image_size;
		get.pConfigImage = passes.pConfigImage = plan->image;
		result = counter_api.cuptiProfilerHostGetConfigImage(&get);
	}
	if (result == CUPTI_SUCCESS)
		result = counter_api.cuptiProfilerHostGetNumOfPasses(&passes);
	plan->passes = passes.numOfPasses;
	return counter_error(err, result, "these metrics cannot be counted together");
}

int chip_plan_make(const struct chip *chip, const char **metrics, size_t n,
		   struct chip_plan *ret_plan, struct err *err)
{
	CUpti_Profiler_Host_ConfigAddMetrics_Params add = CUPTI_PARAMS(
		Profiler_Host_ConfigAddMetrics, .ppMetricNames = metrics, .numMetrics = n);
	struct chip_plan plan = { .metrics = metrics, .n = n };
	int r = host_open(chip, &plan.host, err);

	if (r == 0) {
		add.pHostObject = plan.host;
		r = counter_error(err, counter_api.cuptiProfilerHostConfigAddMetrics(&add),
				  "these metrics cannot be counted together");
	}
	if (r == 0)
		r = make_image(&plan, err);
	if (r < 0)
		chip_plan_release(&plan);
	*ret_plan = plan;
	return r;
}

void chip_plan_release(struct chip_plan *plan)
{
	host_close(plan->host);
	free(plan->image);
	*plan = (struct chip_plan){ 0 };
}

int chip_plan_values(const struct chip_plan *plan, const uint8_t *data, size_t size, size_t index,
		     double *values, struct err *err)
{
	CUpti_Profiler_Host_EvaluateToGpuValues_Params params = CUPTI_PARAMS(
		Profiler_Host_EvaluateToGpuValues, .pHostObject = plan->host,
		.pCounterDataImage = data, .counterDataImageSize = size, .rangeIndex = index,
		.ppMetricNames = plan->metrics, .numMetrics = plan->n, .pMetricValues = values);

	for (size_t i = 0; i < plan->n; i++)
		values[i] = NAN;
	return counter_error(err, counter_api.cuptiProfilerHostEvaluateToGpuValues(&params),
			     "counters cannot be evaluated");
}
