/* SPDX-License-Identifier: Apache-2.0
 *
 * See events.h. A stream with nothing to say is suspended, and the thread that looks at the runs
 * resumes it. The lock is held for all of it.
 */
#include "surfaces/http/events.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "surfaces/http/library.h"

#define LOOK_S 1
#define ALIVE_S 15 /* without news: a comment, so that a dead connection is noticed */

struct stream {
	struct events *events;
	struct stream *next;
	char *path;
	struct MHD_Connection *connection;
	uint64_t signature;
	int silent_s;
	bool suspended, gone;
	char text[64];	     /* to be sent */
	size_t sent, length; /* of it */
};

struct events {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	struct stream *streams;
	bool stopped;
};

static void say(struct stream *stream, const char *text)
{
	/* What has not been read yet says the same. */
	if (stream->sent < stream->length)
		return;
	stream->length = (size_t)snprintf(stream->text, sizeof(stream->text), "%s", text);
	stream->sent = 0;
	stream->silent_s = 0;
}

static void resume(struct stream *stream)
{
	if (!stream->suspended)
		return;
	stream->suspended = false;
	MHD_resume_connection(stream->connection);
}

static ssize_t read_stream(void *cls, uint64_t at, char *out, size_t size)
{
	struct stream *stream = cls;
	bool waits;
	size_t n;

	(void)at;
	pthread_mutex_lock(&stream->events->lock);
	n = stream->length - stream->sent;
	if (n > size)
		n = size;
	memcpy(out, stream->text + stream->sent, n);
	stream->sent += n;
	waits = !n && !stream->events->stopped && !stream->gone;
	if (waits) {
		MHD_suspend_connection(stream->connection);
		stream->suspended = true;
	}
	pthread_mutex_unlock(&stream->events->lock);
	return n || waits ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static void free_stream(void *cls)
{
	struct stream *stream = cls, **at;

	pthread_mutex_lock(&stream->events->lock);
	for (at = &stream->events->streams; *at != stream; at = &(*at)->next)
		;
	*at = stream->next;
	pthread_mutex_unlock(&stream->events->lock);
	free(stream->path);
	free(stream);
}

struct MHD_Response *events_response(struct events *events, char *path,
				     struct MHD_Connection *connection)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	struct MHD_Response *response = NULL;
	bool growing = false;

	if (stream)
		response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, sizeof(stream->text),
							     read_stream, stream, free_stream);
	if (!response) {
		free(stream);
		free(path);
		return NULL;
	}
	stream->events = events;
	stream->path = path;
	stream->connection = connection;
	stream->signature = library_signature(path, &growing);
	say(stream, "retry: 2000\nevent: changed\ndata: {}\n\n");
	pthread_mutex_lock(&events->lock);
	stream->next = events->streams;
	events->streams = stream;
	pthread_mutex_unlock(&events->lock);
	return response;
}

static void look(struct stream *stream, uint64_t signature)
{
	if (!signature) {
		say(stream, "event: gone\ndata: {}\n\n");
		stream->gone = true;
	} else if (signature != stream->signature) {
		stream->signature = signature;
		say(stream, "event: changed\ndata: {}\n\n");
	} else if (++stream->silent_s >= ALIVE_S) {
		say(stream, ": still here\n\n");
	}
	if (stream->sent < stream->length || stream->gone)
		resume(stream);
}

/* Streams of one run follow each other in the list more often than not. */
static void look_at_all(struct events *events)
{
	const char *path = NULL;
	uint64_t signature = 0;
	bool growing = false;

	for (struct stream *stream = events->streams; stream; stream = stream->next) {
		if (!path || strcmp(path, stream->path) != 0) {
			path = stream->path;
			signature = library_signature(path, &growing);
		}
		look(stream, signature);
	}
}

static void *watch(void *arg)
{
	struct events *events = arg;
	struct timespec until;

	pthread_mutex_lock(&events->lock);
	clock_gettime(CLOCK_MONOTONIC, &until);
	while (!events->stopped) {
		until.tv_sec += LOOK_S;
		while (!events->stopped &&
		       pthread_cond_timedwait(&events->wake, &events->lock, &until) == 0)
			;
		if (!events->stopped)
			look_at_all(events);
	}
	pthread_mutex_unlock(&events->lock);
	return NULL;
}

struct events *events_new(void)
{
	struct events *events = calloc(1, sizeof(*events));
	pthread_condattr_t clock;

	if (!events)
		return NULL;
	pthread_mutex_init(&events->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&events->wake, &clock);
	pthread_condattr_destroy(&clock);
	if (pthread_create(&events->thread, NULL, watch, events) == 0)
		return events;
	events_free(events);
	return NULL;
}

void events_stop(struct events *events)
{
	pthread_mutex_lock(&events->lock);
	events->stopped = true;
	pthread_cond_signal(&events->wake);
	for (struct stream *stream = events->streams; stream; stream = stream->next)
		resume(stream);
	pthread_mutex_unlock(&events->lock);
	pthread_join(events->thread, NULL);
}

void events_free(struct events *events)
{
	pthread_cond_destroy(&events->wake);
	pthread_mutex_destroy(&events->lock);
	free(events);
}
