/* SPDX-License-Identifier: Apache-2.0
 *
 * From the options of a view to the answers that it shows.
 */
#ifndef SURFACES_SCENE_H
#define SURFACES_SCENE_H

#include "documents/document.h"
#include "surfaces/views/views.h"
#include "verdicts/verdicts.h"

/* The question of a section. */
struct asked section_asked(const struct section *section, const struct view_options *options);
/* answers_compute with what the files of the options hold: classes of kernels, measured peaks. */
int scene_compute(const struct run *run, const struct view_options *options, struct asked *asked,
		  size_t n, struct answers *ret_answers, struct err *err);
struct scene scene_of(const struct run *run, const struct view_options *options,
		      const struct answers *answers);

#endif
