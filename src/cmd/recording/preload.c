/* SPDX-License-Identifier: Apache-2.0
 *
 * LD_PRELOAD of the program; see preload.h. Before it is started, one thread.
 */
#include "cmd/recording/preload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/nearest.h"
#include "cmd/recording/installed.h"

#define VARIABLE "LD_PRELOAD"
#define SEPARATORS ": " /* as the loader has them; there is no way to write them in a name */
#define LIBRARY "libmoescope-calls-"

const char *const call_words[] = { "osrt", "cublas", "cudnn", "nccl", NULL };

static int find_word(const char *word, size_t length, unsigned int *calls, struct err *err)
{
	char text[32];
	struct nearest nearest;

	if (length == 3 && !strncmp(word, "all", length)) {
		for (int i = 0; call_words[i]; i++)
			*calls |= 1u << i;
		return 0;
	}
	snprintf(text, sizeof(text), "%.*s", (int)(length < 31 ? length : 31), word);
	nearest = nearest_to(text);
	for (int i = 0; call_words[i]; i++) {
		if (!strcmp(call_words[i], text)) {
			*calls |= 1u << i;
			return 0;
		}
		nearest_offer(&nearest, call_words[i]);
	}
	if (nearest.best)
		return err_set(err, -EINVAL, "'--calls' knows no '%s'; did you mean '%s'?", text,
			       nearest.best);
	return err_set(err, -EINVAL,
		       "'--calls' takes a list of osrt, cublas, cudnn and nccl, or all, not '%s'.",
		       text);
}

int calls_parse(const char *list, unsigned int *ret_calls, struct err *err)
{
	unsigned int calls = 0;
	int r = 0;

	for (; r == 0; list++) {
		size_t length = strcspn(list, ",");

		r = find_word(list, length, &calls, err);
		list += length;
		if (!*list)
			break;
	}
	if (r == 0)
		*ret_calls = calls;
	return r;
}

/* What was there, without libraries of ours. */
static void take_given(const char *given, struct buf *to)
{
	while (given && *given) {
		size_t length = strcspn(given, SEPARATORS);
		const char *name = memrchr(given, '/', length);
		const char *base = name ? name + 1 : given;

		if (length && strncmp(base, LIBRARY, strlen(LIBRARY)) != 0)
			buf_printf(to, "%s%.*s", to->size ? ":" : "", (int)length, given);
		given += length;
		given += strspn(given, SEPARATORS);
	}
}

static int add_library(const char *word, struct buf *to, struct err *err)
{
	char name[64];
	char *path;
	int r = 0;

	snprintf(name, sizeof(name), LIBRARY "%s.so", word);
	path = installed_library(name);
	if (!path)
		r = err_set(err, -ENOENT, "%s is not beside moescope; install it again.", name);
	else if (strpbrk(path, SEPARATORS))
		r = err_set(
			err, -EINVAL,
			"the path '%s' has a blank or a colon, which the loader cannot take; install "
			"moescope elsewhere.",
			path);
	else
		buf_printf(to, "%s%s", to->size ? ":" : "", path);
	free(path);
	return r;
}

static int set_variable(const struct buf *text)
{
	if (text->failed)
		return -ENOMEM;
	if (!text->size)
		return unsetenv(VARIABLE) < 0 ? -errno : 0;
	return setenv(VARIABLE, text->data, 1) < 0 ? -errno : 0;
}

int preload_calls(unsigned int calls, struct err *err)
{
	const char *given = getenv(VARIABLE);
	struct buf text = { 0 };
	size_t without;
	int r = 0, set;

	if (!given && !calls)
		return 0;
	take_given(given, &text);
	without = text.size;
	for (int i = 0; r == 0 && call_words[i]; i++)
		if (calls >> i & 1)
			r = add_library(call_words[i], &text, err);
	if (r < 0 && !text.failed) {
		text.size = without;
		if (text.data)
			text.data[without] = '\0';
	}
	set = set_variable(&text);
	if (set < 0)
		r = err_sys(err, set, "cannot set %s", VARIABLE);
	buf_release(&text);
	return r;
}
