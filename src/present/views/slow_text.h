/* SPDX-License-Identifier: Apache-2.0
 *
 * Why steps were slow, as text and as JSON.
 */
#ifndef PRESENT_SLOW_TEXT_H
#define PRESENT_SLOW_TEXT_H

#include "present/frame/scene.h"

/* Up to `limit` slow steps, the slowest first; nothing when there are none. */
void slow_text(const struct scene *scene, size_t limit, FILE *out);

#endif
