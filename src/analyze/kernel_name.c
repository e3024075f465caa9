/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel names for people; see kernel_name.h.
 */
#include "analyze/kernel_name.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ANONYMOUS "(anonymous namespace)::"

void demangler_init(struct demangler *demangler)
{
	*demangler =
		(struct demangler){ .library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL) };
	if (!demangler->library)
		return;
	*(void **)&demangler->demangle = dlsym(demangler->library, "__cxa_demangle");
}

void demangler_release(struct demangler *demangler)
{
	if (demangler->library)
		dlclose(demangler->library);
	*demangler = (struct demangler){ 0 };
}

int demangler_name(const struct demangler *demangler, const char *name, char **ret_name)
{
	char *text = NULL;
	int status = 0;

	if (demangler->demangle && !strncmp(name, "_Z", 2))
		text = demangler->demangle(name, NULL, NULL, &status);
	if (!text)
		text = strdup(name);
	if (!text)
		return -ENOMEM;
	*ret_name = text;
	return 0;
}

/* Past the bracket that closes the one at `at`, or at the end of a name that was cut. */
static const char *past_bracket(const char *at, char open, char close)
{
	int depth = 0;

	for (; *at; at++) {
		if (*at == open)
			depth++;
		else if (*at == close && --depth == 0)
			return at + 1;
	}
	return at;
}

static int ends_with(const char *text, size_t n, const char *end)
{
	size_t length = strlen(end);

	return n >= length && !memcmp(text + n - length, end, length);
}

/* Of a name that nobody could demangle (C++ runtimes give up on the longest ones) the function with
 * its namespaces, which come first: "_ZN7cutlass13device_kernelI…" is cutlass::device_kernel. False:
 * it is no such name. */
static bool mangled_function(const char *name, char *out)
{
	size_t n = 0;

	if (strncmp(name, "_Z", 2) != 0)
		return false;
	name += 2 + (name[2] == 'N');
	while (*name >= '1' && *name <= '9') {
		char *part;
		unsigned long length = strtoul(name, &part, 10);

		if (length > strlen(part))
			return false;
		if (strncmp(part, "_GLOBAL__N", strlen("_GLOBAL__N")) != 0) {
			if (n) {
				memcpy(out + n, "::", 2);
				n += 2;
			}
			memcpy(out + n, part, length);
			n += length;
		}
		name = part + length;
	}
	out[n] = '\0';
	return n > 0;
}

int kernel_short_name(const char *name, char **ret_short)
{
	char *out = malloc(2 * strlen(name) + 1); /* "1a1b1c" becomes a::b::c */
	const char *at = name;
	size_t n = 0;

	if (!out)
		return -ENOMEM;
	if (mangled_function(name, out)) {
		*ret_short = out;
		return 0;
	}
	while (*at) {
		if (!strncmp(at, ANONYMOUS, strlen(ANONYMOUS))) {
			at += strlen(ANONYMOUS);
		} else if (*at == '(' && ends_with(out, n, "operator") && at[1] == ')') {
			out[n++] = *at++;
			out[n++] = *at++;
		} else if (*at == '(') {
			break;
		} else if (*at == '<') {
			at = past_bracket(at, '<', '>');
		} else if (*at == '{') {
			const char *end = past_bracket(at, '{', '}');

			memcpy(out + n, at, (size_t)(end - at));
			n += (size_t)(end - at);
			at = end;
		} else if (*at == ' ') {
			n = 0; /* what came before was the return type */
			at++;
		} else {
			out[n++] = *at++;
		}
	}
	if (n)
		out[n] = '\0';
	else
		strcpy(out, name);
	*ret_short = out;
	return 0;
}
