/* SPDX-License-Identifier: Apache-2.0
 *
 * A training run on one GPU with a late data loader, uneven routing, clocks at the power limit and
 * one slow step, built by hand.
 *
 * 20 steps of 10 ms, each at its begin + …:
 *
 *   0..2.98     data, on the thread that launches
 *   2.99, 3..5  launch and kernel "attn_fwd"
 *   4, 5..9     launch and kernel "grouped_gemm", in layer 0
 *   4.1, 9..10  launch and kernel "adam"
 *
 * Step 13 takes 15 ms: 3 ms more of data, of which 2 ms in cudaMalloc, and 2 ms more of
 * grouped_gemm, at 1200 MHz in place of 1500. Experts of layer 0 have loads of 40, 20, 10 and 10.
 */
#ifndef TESTS_FAKE_SLOW_H
#define TESTS_FAKE_SLOW_H

#include "fake_run.h"

struct run *fake_slow_run(void);

#endif
