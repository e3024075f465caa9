/* SPDX-License-Identifier: Apache-2.0
 *
 * The field "sampled" of everything that has figures from device records: what of the run they cover.
 */
#ifndef SUBJECTS_COVERAGE_FIELDS_H
#define SUBJECTS_COVERAGE_FIELDS_H

#include "subjects/shared/fields.h"

extern const struct field_group coverage_sampled;
const void *coverage_of(const struct field_row *at);
const char *coverage_not_sampled(const struct field_row *at);

#define FIELD_SAMPLED                                                                              \
	{                                                                                          \
		"sampled", .from = coverage_of, .of = &coverage_sampled,                           \
			   .absent = coverage_not_sampled,                                         \
			   .meaning = "null: device records cover the whole run, or there are "    \
				      "none"                                                       \
	}

#endif
