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

/* Types of 16 bits that C++ runtimes before GCC 13's do not know: they give up on the names of most
 * kernels for AMD's devices. Types that no kernel has stand for them. */
static const struct {
	const char *code, *name;
	const char *stand_in_code, *stand_in_name;
} late_types[] = {
	{ "DF16_", "_Float16", "Df", "decimal32" },
	{ "DF16b", "std::bfloat16_t", "De", "decimal128" },
};

/* A copy with every `from` made `to`; NULL: no memory. */
static char *replaced(const char *text, const char *from, const char *to)
{
	size_t more = strlen(to) > strlen(from) ? strlen(to) - strlen(from) : 0;
	size_t n = 0, found = 0;
	const char *at;
	char *out;

	for (at = strstr(text, from); at; at = strstr(at + strlen(from), from))
		found++;
	out = malloc(strlen(text) + found * more + 1);
	for (; out && (at = strstr(text, from)); text = at + strlen(from)) {
		memcpy(out + n, text, (size_t)(at - text));
		n += (size_t)(at - text);
		memcpy(out + n, to, strlen(to));
		n += strlen(to);
	}
	if (out)
		strcpy(out + n, text);
	return out;
}

/* text: taken over, may be NULL. */
static char *replace(char *text, const char *from, const char *to)
{
	char *out = text ? replaced(text, from, to) : NULL;

	free(text);
	return out;
}

/* NULL: it has no such type, or cannot be demangled even so. */
static char *with_late_types(const struct demangler *demangler, const char *name)
{
	size_t n = sizeof(late_types) / sizeof(late_types[0]);
	char *symbol, *text;
	int status = 0;

	if (!strstr(name, "DF16") || strstr(name, "decimal"))
		return NULL;
	symbol = strdup(name);
	for (size_t i = 0; i < n; i++)
		symbol = replace(symbol, late_types[i].code, late_types[i].stand_in_code);
	text = symbol ? demangler->demangle(symbol, NULL, NULL, &status) : NULL;
	free(symbol);
	for (size_t i = 0; text && i < n; i++)
		text = replace(text, late_types[i].stand_in_name, late_types[i].name);
	return text;
}

int demangler_name(const struct demangler *demangler, const char *name, char **ret_name)
{
	char *text = NULL;
	int status = 0;

	if (demangler->demangle && !strncmp(name, "_Z", 2)) {
		text = demangler->demangle(name, NULL, NULL, &status);
		if (!text)
			text = with_late_types(demangler, name);
	}
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
