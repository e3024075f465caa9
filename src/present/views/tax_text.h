/* SPDX-License-Identifier: Apache-2.0
 *
 * What uneven routing costs, as text and as JSON.
 */
#ifndef PRESENT_TAX_TEXT_H
#define PRESENT_TAX_TEXT_H

#include "present/frame/scene.h"

int tax_text(const struct scene *scene, FILE *out);

#endif
