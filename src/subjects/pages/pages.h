/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages of subjects, for documents. A page that is not a section's is a part of the report; it begins
 * with its title, and is empty where there is nothing to tell.
 */
#ifndef SUBJECTS_PAGES_H
#define SUBJECTS_PAGES_H

#include "subjects/pages/section.h"

page_function steps_report, slow_steps_report, ops_report, stacks_report, heap_report, calls_report,
	host_report, spans_report, devices_report, kernels_report, transfers_report, comm_report,
	counters_report, kernel_limits_report, stalls_report, hardware_report, efficiency_report,
	moe_report, routing_report, memory_report, inference_report, overhead_report;

/* Pieces that pages share. */

/* The phases of the steps, for as long as the page lives. */
struct stack steps_phases(const struct scene *scene, struct page *page);
/* Other processes on the devices, a line each. */
page_function device_process_lines;
/* Why steps were slow: up to `limit` of them, the slowest first. */
void slow_steps_page(const struct scene *scene, size_t limit, struct page *page);
/* What uneven routing costs. */
page_function imbalance_tax_page;

#endif
