/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of sections, which views and SQL are made of: a new one is one file and one line here.
 */
#include <string.h>

#include "present/frame/scene.h"

const struct section *const sections[] = {
	&section_kernels,	&section_ops,
	&section_api,		&section_transfers,
	&section_comm,		&section_moe,
	&section_steps,		&section_routing,
	&section_routing_steps, &section_routing_experts,
	&section_memory,	&section_efficiency,
	&section_counters,	&section_report,
	&section_dashboard,	NULL,
};

const struct section *section_find(const char *name)
{
	for (const struct section *const *s = sections; *s; s++)
		if (!strcmp((*s)->name, name))
			return *s;
	return NULL;
}
