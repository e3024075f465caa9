/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry points for the CUDA driver and NVTX: CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH
 * name this library, and these functions are called at the first CUDA or NVTX call of the process.
 */
#include "moescope.h"
#include "probe/core/probe.h"
#include "probe/gpu/gpu.h"
#include "probe/gpu/nvtx/nvtx.h"

MOESCOPE_API int InitializeInjection(void);
MOESCOPE_API int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjection(void)
{
	if (probe_control_begin()) {
		session_begin_in_child();
		gpu_start();
		probe_control_end();
	}
	return 1;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
	return nvtx_install(get_table);
}
