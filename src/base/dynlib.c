/* SPDX-License-Identifier: Apache-2.0
 *
 * dlopen and dlsym; see dynlib.h. Any thread.
 */
#include "base/dynlib.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *dynlib_open(const char *const *names, const char *variable)
{
	const char *given = variable ? getenv(variable) : NULL;
	void *library = NULL;

	if (given && *given)
		return dlopen(given, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !library && names[i]; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
	for (size_t i = 0; !library && names[i]; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

size_t dynlib_symbols(void *library, const struct dynlib_symbol *symbols, size_t n)
{
	size_t missing = 0;

	for (size_t i = 0; i < n; i++) {
		void *address = dlsym(library, symbols[i].name);

		missing += address == NULL;
		memcpy(symbols[i].to, &address, sizeof(address));
	}
	return missing;
}

void dynlib_path(void *library, char *path, size_t size)
{
	struct link_map *map = NULL;
	char *real = NULL;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name)
		real = realpath(map->l_name, NULL);
	snprintf(path, size, "%s", real ? real : map && map->l_name ? map->l_name : "");
	free(real);
}
