/* SPDX-License-Identifier: Apache-2.0
 *
 * Built in place of GPU collection where the CUDA headers were not there.
 */
#include "probe/gpu.h"

_Atomic uint64_t gpu_dropped, gpu_unknown;

void gpu_start(void)
{
}

void gpu_join(void)
{
}

void gpu_stop(void)
{
}

void gpu_after_fork(void)
{
}
