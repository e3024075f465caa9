/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory as text, for the memory view and the report, and the lists of its JSON.
 */
#ifndef PRESENT_MEMORY_TEXT_H
#define PRESENT_MEMORY_TEXT_H

#include "present/frame/scene.h"
#include "subjects/memory/memory.h"

/* The uses at the peak, live bytes over time, leak suspects and what does not match. */
int memory_text_device(const struct scene *scene, const struct memory_device *device, FILE *out);

/* What each layer and expert allocated; nothing when no range names one. */
void memory_text_parts(const struct scene *scene, const struct memory_device *device, FILE *out);

/* What the driver handed out and the devices say is in use; nothing without such records. */
void memory_text_driver(const struct scene *scene, FILE *out);

#endif
