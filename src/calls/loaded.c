/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of loaded libraries; see loaded.h. Any thread.
 */
#include "calls/loaded.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct search {
	const char *prefix;
	int skip; /* so many that match */
	char path[PATH_MAX];
};

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
	struct search *search = data;
	const char *name = strrchr(info->dlpi_name, '/');

	(void)size;
	name = name ? name + 1 : info->dlpi_name;
	if (strncmp(name, search->prefix, strlen(search->prefix)) != 0 || search->skip-- > 0)
		return 0;
	snprintf(search->path, sizeof(search->path), "%s", info->dlpi_name);
	return 1;
}

void *loaded_find(const char *prefix, const char *name)
{
	struct search search = { .prefix = prefix };
	void *found = NULL;

	for (int i = 0; !found; i++) {
		void *library;

		search.skip = i;
		if (!dl_iterate_phdr(look_at, &search))
			break;
		library = dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD);
		found = library ? dlsym(library, name) : NULL;
		/* The function is kept, and so must its library be. */
		if (library && !found)
			dlclose(library);
	}
	return found ? found : dlsym(RTLD_NEXT, name);
}
