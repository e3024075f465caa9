/* SPDX-License-Identifier: Apache-2.0
 *
 * What the report and the table of memory show of devices, as text and as JSON.
 */
#ifndef PRESENT_DEVICE_TEXT_H
#define PRESENT_DEVICE_TEXT_H

#include "present/frame/scene.h"

/* Busy and idle time of the devices with their causes, and what the driver says of them. */
void device_text_timeline(const struct scene *scene, FILE *out);
/* "other processes on gpu 0: …", a line a process. */
void device_text_processes(const struct scene *scene, FILE *out);
/* What collecting device records cost, when it was done and when not. */
void device_text_cost(const struct scene *scene, FILE *out);

#endif
