/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX ranges and marks as ranges and marks of ours.
 */
#ifndef PROBE_GPU_NVTX_NVTX_H
#define PROBE_GPU_NVTX_NVTX_H

#include <nvtx3/nvToolsExt.h>

/* 1 if NVTX calls come here from now on, 0 if not. */
int nvtx_install(NvtxGetExportTableFunc_t get_table);

#endif
