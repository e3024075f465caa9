/* SPDX-License-Identifier: Apache-2.0
 *
 * An intake that writes down what importers give it, in place of the real one: each row is a line of
 * its columns that are not 0, ids as the texts that they stand for. Tests that link it check importers
 * alone. Any thread, as the real one.
 */
#ifndef FAKE_INTAKE_H
#define FAKE_INTAKE_H

#include <stdint.h>

#include "ingest/shared/intake.h"

struct intake *fake_intake_new(uint64_t kinds);
void fake_intake_free(struct intake *intake);

/* All lines: rows in the order of their turns, then damage, unknown events, notes and what the
 * process is. The caller frees it. */
char *fake_intake_text(struct intake *intake);

#endif
