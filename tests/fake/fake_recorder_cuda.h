/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test drives the scripted driver of the recorder with: reached by dlopen of the path in
 * MOESCOPE_CUDA, symbol `fake_recorder_cuda`. At first a context is current in every thread.
 */
#ifndef FAKE_RECORDER_CUDA_H
#define FAKE_RECORDER_CUDA_H

#include <cuda.h>
#include <stdbool.h>

struct fake_recorder_cuda {
	/* Whether the calling thread has a context; another context than the recorder's. */
	void (*set_context)(bool has);
	void (*other_context)(void);
	/* The call fails from now on; NULL: none does. "*": every call, as after the driver's end. */
	void (*fail_call)(const char *call, CUresult result);
	/* While held, what was put on a stream is not done. */
	void (*hold)(bool held);
	/* Launches are kept instead of run, and run by each replay. */
	void (*capture)(bool on);
	void (*replay)(void);
	/* Launches are kept until somebody waits for the whole context. */
	void (*defer)(void);
	/* Objects not given back, and calls and launches so far. */
	unsigned int (*live)(void);
	unsigned int (*calls)(void);
	unsigned int (*launches)(void);
	/* A stream that the program made was waited for. */
	bool (*waited_for_program)(void);
	/* Waits until events have been asked for n times more; false after 100 seconds. */
	bool (*wait_queries)(unsigned int n);
};

#endif
