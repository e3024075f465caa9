/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that the kernel, or whoever stands in for it in a container, has of processes, groups and waits. So that files
 * can be answered from the input, the sources themselves are included. An input is texts, each of which ends with a
 * zero byte: the first is a system call, the second the place that it waits in, the third a link of a descriptor, and
 * then come the files in the order in which they are read. Memory of the process is the input, too.
 */
#define small_file_text small_file_text_fuzzed
#define peer_read peer_read_fuzzed
#include "host/machine/limits.c"    /* NOLINT(bugprone-suspicious-include) */
#include "host/machine/proc_text.c" /* NOLINT(bugprone-suspicious-include) */
#include "host/stacks/waits.c"	    /* NOLINT(bugprone-suspicious-include) */

#include "fuzz.h"

static struct {
	const char *all, *next, *end;
} input;

static const char *next_text(void)
{
	const char *text = input.next;

	input.next += strlen(text);
	input.next += input.next < input.end;
	return text;
}

ssize_t small_file_text_fuzzed(const char *path, char *text, size_t size)
{
	if (!path[0])
		abort();
	snprintf(text, size, "%s", next_text());
	return (ssize_t)strlen(text);
}

bool peer_read_fuzzed(pid_t pid, uint64_t from, void *to, size_t bytes)
{
	size_t size = (size_t)(input.end - input.all);

	(void)pid;
	if (from > size || bytes > size - from)
		return false;
	memcpy(to, input.all + from, bytes);
	return true;
}

void readings_put(struct readings *r, enum host_place place, const char *name,
		  enum host_metric metric, int64_t value)
{
	(void)r, (void)place, (void)name, (void)metric, (void)value;
}

void readings_fact(struct readings *r, const char *key, const char *value)
{
	(void)r;
	if (!key[0] || !value[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct waits *waits = waits_open(0x7ffffffe);
	struct limits limits;
	const char *call, *place;
	char *copy = malloc(size + 1);

	if (!copy || !waits)
		abort();
	memcpy(copy, data, size);
	copy[size] = '\0';
	input.all = input.next = copy;
	input.end = copy + size;
	call = next_text();
	place = next_text();
	waits_told(waits, call, place, 0x5000);
	(void)instruction_of(call);
	link_cause(waits, next_text());
	proc_list(place, NULL, NULL);
	limits_find(&limits, NULL, 1);
	for (int i = 0; i < 2; i++) {
		strcpy(limits.cpu, "/cpu");
		strcpy(limits.memory, "/memory");
		limits.cpu_is_v2 = limits.memory_is_v2 = i;
		limits_look(&limits, NULL);
	}
	waits_close(waits);
	free(copy);
	return 0;
}
