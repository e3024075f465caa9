/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces of the report.
 */
#ifndef PRESENT_WHOLE_VIEWS_H
#define PRESENT_WHOLE_VIEWS_H

#include "present/frame/present.h"
#include "present/frame/scene.h"

/* Requests of an inference run, the longest to their first token first. 0 or -ENOMEM. */
int requests_grid(const struct scene *scene, struct grid *ret_grid);

/* The report's two forms. */
int report_text(const struct scene *scene, const struct verdicts *verdicts, FILE *out);
int report_json(const struct scene *scene, const struct verdicts *verdicts, FILE *out,
		struct err *err);

#endif
