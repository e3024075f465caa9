/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines that one screen of a run is made of, for the dashboard and for the panels of the live view:
 * a label, then figures, or n/a with the reason.
 */
#ifndef DOCUMENTS_DASHBOARD_LINES_H
#define DOCUMENTS_DASHBOARD_LINES_H

#include "base/text/format.h"
#include "subjects/overview/overview.h"
#include "subjects/pages/section.h"

/* Steps that a screen is about: for times, and for routing. */
#define RECENT_STEPS 50
#define RECENT_ROUTING 20
/* The last steps of a run, unless a window was asked for. run: NULL before it is loaded. */
void dashboard_recent(const struct run *run, int64_t steps, struct selection *sel);

/* "the last 41.0 s" if older records were let go (struct run_gone), with something before it; else "" and
 * false. */
bool dashboard_window(const struct run *run, const char *before, struct format *ret_text);

void dashboard_label(const char *text, struct page *page);
/* The same of a line of parts. */
void dashboard_parts(const char *label, struct page *page);
/* "n/a (REASON)" after a label. */
void dashboard_absent(const char *reason, struct page *page);

/* Which run this is, how far it is and how it stands; an empty line. */
void dashboard_head(const struct run *run, const char *status, struct page *page);
void dashboard_loss(const struct run *run, struct page *page);
/* Reads steps. */
void dashboard_speed(const struct scene *scene, struct page *page);
/* A line for each of the first layers. */
void dashboard_layers(const struct routing *routing, size_t limit, struct page *page);
/* What the profiler costs and has lost. Reads overhead. routing: for its self-check; NULL: without. */
void dashboard_cost(const struct scene *scene, const struct routing *routing, struct page *page);

/* One or two lines each. */
void dashboard_memory(const struct overview *o, struct page *page);
void dashboard_device(const struct run *run, const struct overview *o, struct page *page);
/* Three lines; none without routing. */
void dashboard_experts(const struct overview *o, struct page *page);

#endif
