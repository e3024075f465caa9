/* SPDX-License-Identifier: Apache-2.0
 *
 * The program's streams, and whether what was launched into them has ended. Asking never waits for the GPU, so that a
 * kernel which waits for another rank, or for what the program is about to do, keeps nobody. The caller's lock is held
 * around every call; not while a stream is captured, which asking would break.
 */
#ifndef EXACT_STREAMS_H
#define EXACT_STREAMS_H

#include <cuda.h>
#include <stdbool.h>

/* A stream as it is given to a call, and to one for the streams of threads (…_ptsz), where 0 is another. */
CUstream stream_named(CUstream stream, bool of_threads);

void streams_add(CUcontext context, CUstream stream);
void streams_forget(CUstream stream);
void streams_forget_context(CUcontext context);

/* Something went into it that may wait for other GPUs, ranks or the host. */
void streams_mark(CUcontext context, CUstream stream);
/* Whether all that was marked in the context has ended. */
bool streams_marked_ended(CUcontext context);
/* Whether the context has nothing to do at all: its streams and the calling thread's, which is the one that it is
 * current for. */
bool streams_all_ended(CUcontext context);

#endif
