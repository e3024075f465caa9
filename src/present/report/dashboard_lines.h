/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of the dashboard that show one figure for the whole run (subjects/overview/overview.h), and how its
 * lines begin.
 */
#ifndef PRESENT_DASHBOARD_LINES_H
#define PRESENT_DASHBOARD_LINES_H

#include "present/frame/scene.h"
#include "subjects/overview/overview.h"

void dashboard_label(const struct scene *scene, const char *text, FILE *out);
/* "n/a (REASON)" and the end of the line. */
void dashboard_absent(const struct scene *scene, const char *reason, FILE *out);

/* One or two lines each. */
void dashboard_memory(const struct scene *scene, const struct overview *o, FILE *out);
void dashboard_device(const struct scene *scene, const struct overview *o, FILE *out);
/* Three lines; none without routing. */
void dashboard_experts(const struct scene *scene, const struct overview *o, FILE *out);

#endif
