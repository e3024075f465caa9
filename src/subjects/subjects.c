/* SPDX-License-Identifier: Apache-2.0
 *
 * All subjects, for documents that read them all; see subjects.h.
 */
#include <stddef.h>

#include "subjects/subjects.h"

const struct subject *const subjects_all[] = {
#define SUBJECT(name) &subject_##name,
	SUBJECTS(SUBJECT)
#undef SUBJECT
		NULL,
};
