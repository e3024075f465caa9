/* SPDX-License-Identifier: Apache-2.0
 *
 * See phase_name.h. Whole names alone: "flash_attn_backward" is a function, not a phase.
 */
#include "ingest/shared/phase_name.h"

#include <string.h>
#include <strings.h>

#include "ingest/shared/step_rows.h"
#include "moescope.h"

static const struct {
	const char *name;
	uint8_t phase;
} names[] = {
	{ "forward", MOESCOPE_FORWARD },	  { "forward_pass", MOESCOPE_FORWARD },
	{ "forward pass", MOESCOPE_FORWARD },	  { "backward", MOESCOPE_BACKWARD },
	{ "backward_pass", MOESCOPE_BACKWARD },	  { "backward pass", MOESCOPE_BACKWARD },
	{ "optimizer", MOESCOPE_OPTIMIZER },	  { "optimizer_step", MOESCOPE_OPTIMIZER },
	{ "optimizer step", MOESCOPE_OPTIMIZER }, { "data_load", MOESCOPE_DATA },
	{ "data_loading", MOESCOPE_DATA },	  { "data loading", MOESCOPE_DATA },
	{ "prefill", MOESCOPE_PREFILL },	  { "decode", MOESCOPE_DECODE },
};

static int is_frame(char c)
{
	return c == '#' || c == ' ' || c == '*' || c == '=' || c == '-';
}

uint8_t phase_of_name(const char *name)
{
	struct row_step step = { 0 };
	size_t length;

	/* As PyTorch's optimizers and loaders name themselves. */
	if (!strncmp(name, "Optimizer.step#", 15))
		return MOESCOPE_OPTIMIZER;
	if (!strncmp(name, "enumerate(DataLoader)#", 22))
		return MOESCOPE_DATA;
	if (step_of_name(name, strlen(name), &step))
		return step.stage == STEP_PREFILL  ? MOESCOPE_PREFILL
		       : step.stage == STEP_DECODE ? MOESCOPE_DECODE
						   : MOESCOPE_PHASE_NONE;
	while (is_frame(*name))
		name++;
	length = strlen(name);
	while (length && is_frame(name[length - 1]))
		length--;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i].name) == length && !strncasecmp(names[i].name, name, length))
			return names[i].phase;
	return MOESCOPE_PHASE_NONE;
}
