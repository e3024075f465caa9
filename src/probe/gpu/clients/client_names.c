/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of other profilers; see client_names.h. Any thread.
 */
#include "probe/gpu/clients/client_names.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct known {
	const char *file, *name;
};

/* By the start of the file name. */
static const struct known callers[] = {
	{ "libtorch", "torch.profiler" },	 { "libkineto", "torch.profiler" },
	{ "libproton", "Triton Proton" },	 { "libtensorflow", "TensorFlow's profiler" },
	{ "xla_cuda_plugin", "JAX's profiler" }, { "xla_extension", "JAX's profiler" },
};

/* Libraries that NVIDIA's tools load into the programs they start. */
static const struct known tools[] = {
	{ "libToolsInjection", "Nsight Systems" },
	{ "libcuda-injection", "Nsight Compute" },
	{ "libsanitizer-collection", "compute-sanitizer" },
	{ "libInterceptorInjectionTarget", "compute-sanitizer or Nsight Compute" },
	{ "libTreeLauncherTargetInjection", "an NVIDIA tool" },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *look_up(const struct known *table, size_t n, const char *file)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(file, table[i].file, strlen(table[i].file)) == 0)
			return table[i].name;
	return NULL;
}

void client_name_at(const void *address, char *name, size_t size)
{
	const char *file = "", *known;
	Dl_info info;

	if (dladdr(address, &info) != 0 && info.dli_fname)
		file = file_of(info.dli_fname);
	known = look_up(callers, COUNT(callers), file);
	if (known)
		snprintf(name, size, "%s (%s)", known, file);
	else
		snprintf(name, size, "%s", *file ? file : "another profiler");
}

static void CUPTIAPI no_callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
				 const void *data)
{
	(void)userdata;
	(void)domain;
	(void)id;
	(void)data;
}

int client_name_asked(__typeof__(cuptiSubscribe_v2) *subscribe,
		      __typeof__(cuptiUnsubscribe) *unsubscribe, char *name, size_t size)
{
	char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
	CUpti_SubscriberParams params = { .structSize = CUpti_SubscriberParams_STRUCT_SIZE,
					  .subscriberName = "moescope",
					  .oldSubscriberName = holder,
					  .oldSubscriberSize = CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN };
	CUpti_SubscriberHandle handle = NULL;
	CUptiResult result;

	if (!subscribe || !unsubscribe)
		return -ENOENT;
	result = subscribe(&handle, no_callback, NULL, &params);
	if (result == CUPTI_SUCCESS)
		unsubscribe(handle); /* the holder has just left */
	if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED || !*holder)
		return -ENOENT;
	snprintf(name, size, "%s", holder);
	return 0;
}

struct search {
	const char *found;
};

static int search_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *search = arg;

	(void)size;
	search->found = look_up(tools, COUNT(tools), file_of(info->dlpi_name));
	return search->found != NULL;
}

int client_name_loaded(char *name, size_t size)
{
	struct search search = { NULL };

	dl_iterate_phdr(search_module, &search);
	if (!search.found)
		return -ENOENT;
	snprintf(name, size, "%s", search.found);
	return 0;
}
