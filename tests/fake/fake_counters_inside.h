/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the scripted CUPTI that counts (fake_counters.c) have of each other.
 */
#ifndef TESTS_FAKE_COUNTERS_INSIDE_H
#define TESTS_FAKE_COUNTERS_INSIDE_H

#include <cuda.h>
#include <cupti.h>

#define EXPORTED __attribute__((visibility("default")))

/* Whether MOESCOPE_FAKE_COUNTERS says so. */
int fake_is(const char *what);
/* Calls the subscriber. */
void fake_tell_resource(CUpti_CallbackId id, CUcontext context, void *what);

#endif
