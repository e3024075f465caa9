/* SPDX-License-Identifier: Apache-2.0
 *
 * See cuda.h.
 */
#include "load/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cuda cuda;

int cuda_open(void)
{
	const struct {
		const char *name;
		void *function;
	} functions[] = {
#define FUNCTION(name) { #name, &cuda.name },
		CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION
	};
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		fprintf(stderr, "moescope-load: no NVIDIA driver: %s\n", dlerror());
		return -1;
	}
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *symbol = dlsym(library, functions[i].name);

		if (!symbol) {
			fprintf(stderr,
				"moescope-load: the NVIDIA driver has no %s; it is too old.\n",
				functions[i].name);
			return -1;
		}
		memcpy(functions[i].function, &symbol, sizeof(symbol));
	}
	return 0;
}

void cuda_check(CUresult result, const char *call)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	if (!cuda.cuGetErrorName || cuda.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
		name = "an unknown error";
	fprintf(stderr, "moescope-load: %s: %s\n", call, name);
	/* Other threads are inside the driver: its destructors would wait for them. */
	_exit(3);
}
