/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing as text, in pieces that the routing view, the report and the dashboard share.
 */
#ifndef PRESENT_ROUTING_TEXT_H
#define PRESENT_ROUTING_TEXT_H

#include "present/frame/scene.h"
#include "subjects/routing/routing.h"

/* In place of a table that would be empty. */
void routing_text_none(const struct scene *scene, FILE *out);
/* One line per layer and phase, in the order of the grid of section_routing. */
int routing_text_table(const struct scene *scene, const struct grid *grid, size_t limit, FILE *out);
/* Layers by experts, one character each. */
void routing_text_heat(const struct scene *scene, FILE *out);
/* Everything about one layer. */
int routing_text_layer(const struct scene *scene, const struct routing_layer *layer, FILE *out);
/* Whether every choice of every token was counted once. */
void routing_text_check(const struct scene *scene, FILE *out);

#endif
