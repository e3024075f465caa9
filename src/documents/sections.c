/* SPDX-License-Identifier: Apache-2.0
 *
 * All sections, those of subjects and documents, which views and SQL are made of; see document.h.
 */
#include "documents/document.h"

const struct section *const sections[] = {
#define SECTION(name) &section_##name,
	SECTIONS(SECTION) SECTION(report) SECTION(dashboard)
#undef SECTION
		NULL,
};
