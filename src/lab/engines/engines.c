/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of engines, and the argument vectors they fill.
 */
#include "lab/engines/engine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* clang-format off */
const struct engine *const engines[] = {
	&engine_builtin,
	&engine_command,
	&engine_openai,
	&engine_transformers,
	&engine_vllm,
	&engine_sglang,
	NULL,
};
/* clang-format on */

const struct engine *engine_find(const char *name)
{
	for (size_t i = 0; engines[i]; i++)
		if (strcmp(engines[i]->name, name) == 0)
			return engines[i];
	return NULL;
}

int argv_add(struct argv *argv, const char *format, ...)
{
	va_list args;
	char *text;
	int n;

	if (array_grow(&argv->v, &argv->capacity, argv->n + 2, sizeof(*argv->v)) < 0)
		return -ENOMEM;
	va_start(args, format);
	n = vasprintf(&text, format, args);
	va_end(args);
	if (n < 0)
		return -ENOMEM;
	argv->v[argv->n++] = text;
	argv->v[argv->n] = NULL;
	return 0;
}

int argv_add_all(struct argv *argv, ...)
{
	const char *word;
	va_list args;
	int r = 0;

	va_start(args, argv);
	while (r == 0 && (word = va_arg(args, const char *)))
		r = argv_add(argv, "%s", word);
	va_end(args);
	return r;
}

void argv_release(struct argv *argv)
{
	for (size_t i = 0; i < argv->n; i++)
		free(argv->v[i]);
	free(argv->v);
	*argv = (struct argv){ NULL, 0, 0 };
}
