/* SPDX-License-Identifier: Apache-2.0
 *
 * A run on a described GPU, built by hand: launches with their resources, operations with FLOPs and
 * bytes, an allocator in segments of the driver, readings of the device, requests with phases.
 */
#ifndef TESTS_FAKE_H200_H
#define TESTS_FAKE_H200_H

#include "fake_run.h"

struct run *fake_h200_run(void);

#endif
