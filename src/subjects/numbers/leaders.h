/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread of each process that leads its phases: the one whose ranges name the most different
 * phases, then cover the most time. Other threads may work for it: PyTorch runs backward passes on
 * threads of its own, which know no phase. Pure, any thread.
 */
#ifndef SUBJECTS_LEADERS_H
#define SUBJECTS_LEADERS_H

#include "subjects/numbers/nesting.h"

/* ranges: by process, thread, start. *ret_leaders: a thread for each process, 0: none names a phase;
 * free() it. */
int leaders_find(const struct run *run, const struct nested *ranges, size_t n,
		 uint32_t **ret_leaders);

#endif
