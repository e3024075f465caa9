/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of fake_counters.c that samples instructions, as it is told to by fake_sample, in contexts that fake_context
 * has made. Line n of /src/KERNEL.cu has the instruction at 16 n; a cubin's checksum is its size.
 */
#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_counters_inside.h"

#define SAMPLES_MOST 100000
static const char *const reasons[] = {
	"smsp__pcsamp_warps_issue_stalled_long_scoreboard",
	"smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued",
	"smsp__pcsamp_warps_issue_stalled_selected", "smsp__pcsamp_warps_issue_stalled_barrier"
};
#define N_REASONS (sizeof(reasons) / sizeof(reasons[0]))
#define NUMBER_OF(reason) (7 + 3 * (reason)) /* not from 0, with gaps */

static pthread_mutex_t samples_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	CUcontext context;
	char kernel[64];
	uint64_t module, offset;
	uint32_t reason, samples;
} samples[SAMPLES_MOST];
static size_t n_samples;
static uint64_t samples_dropped;
static _Atomic int fetches, disables;
static CUpti_PCSamplingData *at_end[8]; /* where the rest of a context goes */
#define AT_END(context) at_end[(size_t)(context) % 8]

EXPORTED void fake_context(size_t context, int begins);
EXPORTED void fake_module(size_t context, const void *cubin, size_t size, int begins);
EXPORTED void fake_sample(size_t context, const char *kernel, uint64_t module, uint64_t offset,
			  int reason, uint32_t n);
EXPORTED void fake_dropped(uint64_t n);
/* How often samples were asked for. */
EXPORTED int fake_fetches(void);
/* How often sampling was ended. */
EXPORTED int fake_disables(void);

static void put_aside(CUcontext context, bool ends);

void fake_context(size_t context, int begins)
{
	fake_tell_resource(begins ? CUPTI_CBID_RESOURCE_CONTEXT_CREATED
				  : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
			   (CUcontext)context, NULL);
}

void fake_module(size_t context, const void *cubin, size_t size, int begins)
{
	CUpti_ModuleResourceData module = { .cubinSize = size, .pCubin = cubin };
	static _Atomic bool gone[8]; /* a module has been unloaded from the context */

	/* What was not fetched by then is put aside. */
	if (begins && atomic_exchange(&gone[context % 8], false))
		put_aside((CUcontext)context, false);
	if (!begins)
		atomic_store(&gone[context % 8], true);
	fake_tell_resource(begins ? CUPTI_CBID_RESOURCE_MODULE_LOADED
				  : CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING,
			   (CUcontext)context, &module);
}

void fake_sample(size_t context, const char *kernel, uint64_t module, uint64_t offset, int reason,
		 uint32_t n)
{
	pthread_mutex_lock(&samples_lock);
	if (n_samples < SAMPLES_MOST) {
		samples[n_samples].context = (CUcontext)context;
		strncpy(samples[n_samples].kernel, kernel, sizeof(samples[0].kernel) - 1);
		samples[n_samples].module = module;
		samples[n_samples].offset = offset;
		samples[n_samples].reason = (uint32_t)NUMBER_OF(reason);
		samples[n_samples++].samples = n;
	}
	pthread_mutex_unlock(&samples_lock);
}

void fake_dropped(uint64_t n)
{
	pthread_mutex_lock(&samples_lock);
	samples_dropped += n;
	pthread_mutex_unlock(&samples_lock);
}

int fake_fetches(void)
{
	return atomic_load(&fetches);
}

int fake_disables(void)
{
	return atomic_load(&disables);
}

EXPORTED CUptiResult cuptiGetVersion(uint32_t *version)
{
	*version = fake_is("newer") ? 999999 : CUPTI_API_VERSION;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	*id = (uint32_t)(size_t)context;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPCSamplingEnable(CUpti_PCSamplingEnableParams *params)
{
	(void)params;
	return fake_is("denied") ? CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
	       : fake_is("held") ? CUPTI_ERROR_INVALID_OPERATION
				 : CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPCSamplingGetNumStallReasons(CUpti_PCSamplingGetNumStallReasonsParams *params)
{
	*params->numStallReasons = N_REASONS;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPCSamplingGetStallReasons(CUpti_PCSamplingGetStallReasonsParams *params)
{
	for (size_t i = 0; i < params->numStallReasons; i++) {
		params->stallReasonIndex[i] = (uint32_t)NUMBER_OF(i);
		snprintf(params->stallReasons[i], CUPTI_STALL_REASON_STRING_SIZE, "%s", reasons[i]);
	}
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult
cuptiPCSamplingSetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *params)
{
	bool given;

	pthread_mutex_lock(&samples_lock);
	for (size_t i = 0; i < params->numAttributes; i++)
		if (params->pPCSamplingConfigurationInfo[i].attributeType ==
		    CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER)
			AT_END(params->ctx) =
				params->pPCSamplingConfigurationInfo[i]
					.attributeData.samplingDataBufferData.samplingDataBuffer;
	given = AT_END(params->ctx) != NULL;
	pthread_mutex_unlock(&samples_lock);
	return given ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORTED CUptiResult
cuptiPCSamplingGetConfigurationAttribute(CUpti_PCSamplingConfigurationInfoParams *params)
{
	params->pPCSamplingConfigurationInfo[0].attributeData.samplingPeriodData.samplingPeriod =
		14;
	return CUPTI_SUCCESS;
}

/* As CUPTI's, it lives on. */
static char *shared_name(const char *kernel)
{
	static char names[64][sizeof(samples[0].kernel)];
	size_t i = 0;

	while (i < 63 && names[i][0] && strcmp(names[i], kernel) != 0)
		i++;
	if (!names[i][0])
		strcpy(names[i], kernel);
	return names[i];
}

/* With the lock: at most `most` of a context, and how many are left. */
static void hand_out(CUcontext context, CUpti_PCSamplingData *data, size_t most)
{
	size_t kept = 0;

	for (size_t i = 0; i < n_samples; i++) {
		CUpti_PCSamplingPCData *pc = &data->pPcData[data->totalNumPcs];

		if (samples[i].context != context || data->totalNumPcs == most) {
			data->remainingNumPcs += samples[i].context == context;
			samples[kept++] = samples[i];
			continue;
		}
		pc->cubinCrc = samples[i].module;
		pc->pcOffset = samples[i].offset;
		pc->functionName = shared_name(samples[i].kernel);
		pc->stallReasonCount = 1;
		pc->stallReason[0].pcSamplingStallReasonIndex = samples[i].reason;
		pc->stallReason[0].samples = samples[i].samples;
		/* Those of "not issued" are among the others. */
		data->totalSamples += samples[i].reason == NUMBER_OF(1) ? 0 : samples[i].samples;
		data->totalNumPcs++;
	}
	n_samples = kept;
	data->totalSamples += samples_dropped;
	data->droppedSamples = samples_dropped;
	samples_dropped = 0;
}

/* Into the buffer of a context, if it has one. */
static void put_aside(CUcontext context, bool ends)
{
	pthread_mutex_lock(&samples_lock);
	if (AT_END(context))
		hand_out(context, AT_END(context), AT_END(context)->collectNumPcs);
	if (ends)
		AT_END(context) = NULL;
	pthread_mutex_unlock(&samples_lock);
}

/* A few only, so that one call is not enough. */
EXPORTED CUptiResult cuptiPCSamplingGetData(CUpti_PCSamplingGetDataParams *params)
{
	atomic_fetch_add(&fetches, 1);
	if (fake_is("broken"))
		return CUPTI_ERROR_UNKNOWN;
	pthread_mutex_lock(&samples_lock);
	hand_out(params->ctx, params->pcSamplingData, 100);
	pthread_mutex_unlock(&samples_lock);
	return fake_is("full") ? CUPTI_ERROR_OUT_OF_MEMORY : CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiPCSamplingDisable(CUpti_PCSamplingDisableParams *params)
{
	put_aside(params->ctx, true);
	atomic_fetch_add(&disables, 1);
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetCubinCrc(CUpti_GetCubinCrcParams *params)
{
	params->cubinCrc = params->cubinSize;
	return CUPTI_SUCCESS;
}

EXPORTED CUptiResult cuptiGetSassToSourceCorrelation(CUpti_GetSassToSourceCorrelationParams *params)
{
	char file[80];

	snprintf(file, sizeof(file), "%s.cu", params->functionName);
	params->lineNumber = (uint32_t)params->pcOffset / 16;
	params->fileName = strdup(file);
	params->dirName = strdup("/src");
	return CUPTI_SUCCESS;
}
