/* SPDX-License-Identifier: Apache-2.0
 *
 * What may stand behind the '?' of a view: how its rows are ordered and cut, and the parameters of its
 * section (subjects/answers/parameters.h), as the options of its command have them.
 */
#ifndef SURFACES_HTTP_PARAMETERS_H
#define SURFACES_HTTP_PARAMETERS_H

#include "subjects/pages/section.h"
#include "surfaces/http/target.h"
#include "surfaces/views/views.h"

struct http_parameter {
	const char *name; /* NULL: there are no more */
	const char *help;
	const struct question_parameter *of; /* NULL: of all views */
};

/* The i-th of a view. */
struct http_parameter view_parameter_at(const struct section *section, size_t i);
/* Takes the text of `limit`. 0 or -EINVAL. */
int parameter_limit(const char *text, struct view_options *options, struct err *err);
/* Writes all pairs of the target into the options, which point into it. 0 or -EINVAL. */
int view_parameters_take(const struct section *section, const struct target *target,
			 struct view_options *options, struct err *err);

#endif
