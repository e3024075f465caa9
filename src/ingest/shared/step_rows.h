/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps that a foreign trace tells by the names of its ranges.
 */
#ifndef INGEST_STEP_ROWS_H
#define INGEST_STEP_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/records.h"

/* The number of a step whose name gives none: steps_settle() counts them. */
#define STEP_NOT_NUMBERED (-1)

/* Whether a range of that name is a step, and what the name tells of it: number, stage, batch, tokens
 * and source; the rest of the row is left as it is. The forms:
 *
 *   ProfilerStep#12                                    torch.profiler
 *   execute_new_2_cached_30                            vLLM until 0.11
 *   execute_context_3(1024)_generation_5(5)            vLLM
 *   execute_8192_context_9(sq8155sk8430...)_generation_37(sq37...)   vLLM and SGLang, in detail
 *   execute_diffusion_1_256x256                        vLLM, images
 *   step[EXTEND bs=2 toks=4096], step[DECODE bs=16]    SGLang
 *   prefill[bs=2 tok=16384 ...], decode[bs=128 tok=128 p=2 d=126], eager_decode[...]   ATOM
 *
 * Pure. */
bool step_of_name(const char *name, size_t length, struct row_step *row);

/* Puts the n steps of a process in order, one after the other, and numbers those without a number. How
 * many remain; *ret_again: left out, since another thread tells the same step for longer. */
size_t steps_settle(struct row_step *steps, size_t n, size_t *ret_again);

#endif
