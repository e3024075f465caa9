/* SPDX-License-Identifier: Apache-2.0
 *
 * A run whose device records were collected in windows, with a CUDA graph, built by hand.
 *
 * One process, 0 to 100 ms, ten steps of 10 ms. Records are collected 5..20, 40..60 and 80..90 ms;
 * 70..80 is yielded. A graph of two nodes is captured in step 1, inside "capture", node 101 in
 * block 0 and node 102 in block 1; its instances 201 and 202 are made outside all ranges. Each of
 * the steps 4, 5 and 8, at their begin + …:
 *
 *   1 ms        cudaGraphLaunch, 5 us, inside "decode" (0.9 to 2.9 ms)
 *   1.02..3.02  kernel of node 201
 *   3.02..6.02  kernel of node 202
 *   2..6.03     cudaStreamSynchronize
 *   8 ms        cudaLaunchKernel, 5 us, outside all ranges
 *   8.02..9.02  its kernel
 *
 * Steps 0 and 1 have one such eager kernel at begin + 7 ms.
 */
#ifndef TESTS_FAKE_WINDOWS_H
#define TESTS_FAKE_WINDOWS_H

#include "fake_run.h"

struct run *fake_windows_run(void);

#endif
