/* SPDX-License-Identifier: Apache-2.0
 *
 * What the panels of the live view show, for programs: one document, whose parts are those of the report.
 */
#include "documents/panels.h"
#include "subjects/answers/subject.h"
#include "subjects/device/device_fields.h"
#include "subjects/overhead/overhead.h"
#include "verdicts/verdicts_page.h"

static const struct document_part parts[] = {
	{ .fields = &verdicts_fields, .own = true },
	{ .section = &section_steps },
	{ .section = &section_routing },
	{ .section = &section_memory },
	{ .section = &section_ops },
	{ .section = &section_kernels, .absent = no_device },
	{ .fields = &device_fields },
	{ .fields = &overhead_fields },
	{ 0 },
};

/* For people there are the panels. */
static const struct document top = {
	.kinds = WANT_ALL,
	.ask = report_ask,
	.make = report_make,
	.release = report_release,
	.parts = parts,
};

const struct section section_top = {
	.name = "top",
	.reads = subjects_all,
	.document = &top,
};
