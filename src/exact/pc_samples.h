/* SPDX-License-Identifier: Apache-2.0
 *
 * PC sampling: every so many cycles each scheduler of the GPU says at which instruction one of its warps is, and why it
 * cannot go on. Kernels run as they would, beside each other and in graphs, too.
 */
#ifndef EXACT_PC_SAMPLES_H
#define EXACT_PC_SAMPLES_H

/* In InitializeInjection, before the program has a context. 0, or -errno, and the run has the reason. */
int pc_samples_begin(void);
void pc_samples_end(void);

#endif
