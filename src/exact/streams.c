/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams of the program; see streams.h.
 */
#include "exact/streams.h"

#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "counters/api.h"

#define STREAMS_MOST 1024

static struct known_stream {
	CUcontext context;
	CUstream stream;
	pid_t thread; /* of CU_STREAM_PER_THREAD, which only that thread can ask about; else 0 */
	bool marked;
} streams[STREAMS_MOST];
static size_t n_streams;
static bool too_many; /* then nobody knows */

CUstream stream_named(CUstream stream, bool of_threads)
{
	if (stream)
		return stream;
	return of_threads ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static pid_t thread_of(CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? (pid_t)syscall(SYS_gettid) : 0;
}

static struct known_stream *find_stream(CUcontext context, CUstream stream)
{
	pid_t thread = thread_of(stream);

	for (size_t i = 0; i < n_streams; i++)
		if (streams[i].context == context && streams[i].stream == stream &&
		    streams[i].thread == thread)
			return &streams[i];
	if (n_streams == STREAMS_MOST) {
		too_many = true;
		return NULL;
	}
	streams[n_streams] =
		(struct known_stream){ .context = context, .stream = stream, .thread = thread };
	return &streams[n_streams++];
}

void streams_add(CUcontext context, CUstream stream)
{
	find_stream(context, stream);
}

void streams_forget(CUstream stream)
{
	for (size_t i = n_streams; i-- > 0;)
		if (streams[i].stream == stream)
			streams[i] = streams[--n_streams];
}

void streams_forget_context(CUcontext context)
{
	for (size_t i = n_streams; i-- > 0;)
		if (streams[i].context == context)
			streams[i] = streams[--n_streams];
}

void streams_mark(CUcontext context, CUstream stream)
{
	struct known_stream *known = find_stream(context, stream);

	if (known)
		known->marked = true;
}

static bool has_ended(CUstream stream)
{
	return counter_api.cuStreamQuery(stream) == CUDA_SUCCESS;
}

bool streams_marked_ended(CUcontext context)
{
	bool ended = !too_many;

	for (size_t i = 0; i < n_streams; i++) {
		struct known_stream *known = &streams[i];

		if (known->context == context && known->marked) {
			known->marked = known->thread != thread_of(known->stream) ||
					!has_ended(known->stream);
			ended = ended && !known->marked;
		}
	}
	return ended;
}

bool streams_all_ended(CUcontext context)
{
	bool ended = !too_many && streams_marked_ended(context) && has_ended(CU_STREAM_LEGACY) &&
		     has_ended(CU_STREAM_PER_THREAD);

	for (size_t i = 0; i < n_streams && ended; i++)
		if (streams[i].context == context && streams[i].thread == 0)
			ended = has_ended(streams[i].stream);
	return ended;
}
