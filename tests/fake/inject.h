/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CUDA driver does at the first call: it loads the library that CUDA_INJECTION64_PATH names.
 */
#ifndef TESTS_INJECT_H
#define TESTS_INJECT_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static inline void inject(void)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *library = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
	int (*initialize)(void);

	if (!symbol)
		return;
	memcpy(&initialize, &symbol, sizeof(initialize));
	initialize();
}

#endif
