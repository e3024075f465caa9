/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-calls-cudnn.so: executions of cuDNN. What a plan of its graphs computes cannot be read from the plan: they
 * have a time, and no sizes. Any thread of the program.
 */
#include "calls/device_call.h"

#define NOT_INITIALIZED 1 /* CUDNN_STATUS_NOT_INITIALIZED */

/* CALL(name, parameters, arguments) */
/* clang-format off */
#define CONVOLUTION \
	(void *handle, const void *alpha, void *a_layout, const void *a, void *b_layout, const void *b, void *convolution, \
	 int algorithm, void *workspace, size_t workspace_bytes, const void *beta, void *c_layout, void *c)
#define CONVOLVES \
	(handle, alpha, a_layout, a, b_layout, b, convolution, algorithm, workspace, workspace_bytes, beta, c_layout, c)
#define CUDNN_CALLS(CALL) \
	CALL(cudnnBackendExecute, (void *handle, void *plan, void *variants), (handle, plan, variants)) \
	CALL(cudnnConvolutionForward, CONVOLUTION, CONVOLVES) \
	CALL(cudnnConvolutionBackwardData, CONVOLUTION, CONVOLVES) \
	CALL(cudnnConvolutionBackwardFilter, CONVOLUTION, CONVOLVES) \
	CALL(cudnnRNNForward, \
	     (void *handle, void *rnn, int mode, const int32_t *lengths, void *x_layout, const void *x, void *y_layout, \
	      void *y, void *h_layout, const void *hx, void *hy, void *c_layout, const void *cx, void *cy, \
	      size_t weight_bytes, const void *weights, size_t work_bytes, void *work, size_t reserve_bytes, void *reserve), \
	     (handle, rnn, mode, lengths, x_layout, x, y_layout, y, h_layout, hx, hy, c_layout, cx, cy, weight_bytes, \
	      weights, work_bytes, work, reserve_bytes, reserve))
/* clang-format on */

enum {
#define CALL(name, ...) WRAPPED_##name,
	CUDNN_CALLS(CALL)
#undef CALL
		N_WRAPPED
};

static struct wrapped wrapped[N_WRAPPED] = {
#define CALL(name, ...) { #name, NULL, CALLS_NO_FUNCTION },
	CUDNN_CALLS(CALL)
#undef CALL
};

/* Since version 9 it is several libraries: libcudnn.so, libcudnn_graph.so and so on. */
static void *find_cudnn(const char *name)
{
	return loaded_find("libcudnn", name);
}

#define CALL(name, parameters, arguments)                                                          \
	DEVICE_CALL(name, find_cudnn, NOT_INITIALIZED, parameters, arguments, .peer = -1)
CUDNN_CALLS(CALL)

__attribute__((constructor)) static void register_all(void)
{
	wrapped_register(wrapped, N_WRAPPED, "cudnn");
}
