/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels communicate, by their name; see comm.h. Pure, any thread.
 *
 * Each launch is looked at once: there are a few hundred of them in a run of millions of kernels.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/demangle.h"
#include "device/sheets/kernel_class.h"
#include "device/sheets/kernel_name.h"
#include "subjects/comm/comm_names.h"

/* In this order: names of expert-parallel kernels hold those of what they are built on. Also as the
 * compiler writes namespaces: what was cut cannot be demangled. */
static const struct {
	const char *text;
	enum comm_transport transport;
} words[] = {
	{ "nccl", COMM_NCCL },
	{ "deep_ep", COMM_EXPERT },
	{ "::ep::", COMM_EXPERT },
	{ "2ep9internode", COMM_EXPERT },
	{ "2ep9intranode", COMM_EXPERT },
	{ "2ep4cuda", COMM_EXPERT },
	{ "pplx::", COMM_EXPERT },
	{ "moeAllToAll", COMM_EXPERT },
	{ "moe_all_to_all", COMM_EXPERT },
	{ "nvshmem", COMM_NVSHMEM },
};

const char *comm_transport_name(enum comm_transport transport)
{
	static const char *const names[] = { "nccl", "expert", "nvshmem", "other", "host" };

	return names[transport];
}

static int transport_of(const struct comm_names *names, const char *name, uint8_t *ret_transport)
{
	const char *class;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasestr(name, words[i].text)) {
			*ret_transport = (uint8_t)words[i].transport;
			return 0;
		}
	class = kernel_class_of(names->classes, name);
	if (!class)
		return -ENOMEM;
	*ret_transport = !kernel_class_communicates(class)  ? COMM_NONE
			 : strcmp(class, "collective") != 0 ? COMM_EXPERT
							    : COMM_OTHER;
	return 0;
}

void comm_names_init(struct comm_names *names, const struct run *run,
		     const struct kernel_classes *classes)
{
	*names = (struct comm_names){ .run = run, .classes = classes };
}

void comm_names_release(struct comm_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->texts[i]);
	free(names->texts);
	free(names->launches);
}

/* The number of a text; kernels have few. */
static int add_text(struct comm_names *names, const char *text, uint32_t *ret_name)
{
	size_t i = 0;

	while (i < names->n && strcmp(names->texts[i], text) != 0)
		i++;
	if (i == names->n) {
		char *copy = strdup(text);

		if (!copy ||
		    array_grow(&names->texts, &names->capacity, i + 1, sizeof(*names->texts)) < 0) {
			free(copy);
			return -ENOMEM;
		}
		names->texts[names->n++] = copy;
	}
	*ret_name = (uint32_t)i;
	return 0;
}

static int name_launch(struct comm_names *names, uint32_t launch, struct comm_launch *ret)
{
	const char *raw = run_string(names->run, run_launch(names->run, launch).name);
	char *text = NULL, *brief = NULL;
	int r = demangled(raw, &text);

	*ret = (struct comm_launch){ .looked_at = 1 };
	if (r >= 0)
		r = transport_of(names, text, &ret->transport);
	if (r >= 0 && ret->transport != COMM_NONE)
		r = kernel_short_name(text, &brief);
	if (brief)
		r = add_text(names, brief, &ret->name);
	free(text);
	free(brief);
	return r;
}

int comm_names_launch(struct comm_names *names, uint32_t launch, struct comm_launch *ret_launch)
{
	int r = 0;

	if (launch >= names->launches_capacity) {
		size_t old = names->launches_capacity;

		if (array_grow(&names->launches, &names->launches_capacity, (size_t)launch + 1,
			       sizeof(*names->launches)) < 0)
			return -ENOMEM;
		memset(names->launches + old, 0,
		       (names->launches_capacity - old) * sizeof(*names->launches));
	}
	if (!names->launches[launch].looked_at) {
		struct comm_launch found;

		r = name_launch(names, launch, &found);
		if (r >= 0)
			names->launches[launch] = found;
	}
	*ret_launch = names->launches[launch];
	return r;
}
