/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the load client share: load.c decides what is sent when and keeps the
 * results, load_stream.c talks to the server. One thread.
 */
#ifndef LAB_LOAD_INSIDE_H
#define LAB_LOAD_INSIDE_H

#include <sys/queue.h>

#include "lab/load/arrivals.h"
#include "lab/load/http_stream.h"
#include "lab/load/http_target.h"
#include "lab/load/lengths.h"
#include "lab/load/load.h"
#include "lab/load/saturation.h"

#define READ_BYTES ((size_t)256 << 10)
#define TEXTS_KEPT 4		   /* requests whose text is kept */
#define TEXT_MAX ((size_t)1 << 20) /* bytes of each */

struct times {
	int64_t *v;
	size_t n, capacity;
};

/* A connection and the request on it, if any. */
struct stream {
	struct load *load;
	int fd; /* -1: none */
	bool reused, wants_write;
	/* the request */
	size_t index;
	bool warmup, cancels;
	int64_t due_ns, sent_ns;
	struct buf out;
	size_t out_at;
	int write_code; /* errno of a write that failed; 0: none */
	struct http_answer answer;
	int64_t now_ns; /* of the last read */
	struct times pieces, empties;
	int64_t prompt_tokens, output_tokens;
	bool has_usage, done, finished, out_of_memory;
	char error[512]; /* empty: none */
	struct buf text;
	TAILQ_ENTRY(stream) link;   /* in flight by sent_ns, or free */
	TAILQ_ENTRY(stream) cancel; /* also by sent_ns */
};
TAILQ_HEAD(streams, stream);

/* A request prepared in advance, so that it leaves at once. */
struct ready {
	struct buf out;
	bool made, cancels;
};

struct load {
	const struct experiment *experiment;
	const volatile bool *stop;
	struct http_target target;
	char *model;
	struct arrivals arrivals;
	struct lengths prompts, outputs;
	bool has_prompts, has_outputs;
	struct sampler lengths_sampler, prompt_sampler, cancel_sampler;
	struct buf prompt, body; /* buffers for one */
	struct ready ready;
	int epoll_fd, timer_fd;
	int64_t armed_ns; /* the timer; 0: not armed */
	int64_t awake_ns; /* before a request is due */
	char *read_buffer;
	struct streams under_way, cancelling, idle, unused; /* idle ones have a connection */
	size_t n_under_way, most_under_way;		    /* most: 0 for no limit */
	/* the current part: warm-up or measurement */
	bool warmup;
	size_t n, next;
	const int64_t *due_ns;
	int64_t start_ns;
	struct saturation saturation;
	bool watch_saturation, over_saturated;
	struct requests requests;
	int failed; /* -errno that ends everything */
	struct err *err;
};

/* Sends what is ready on a kept or new connection; the request is then in flight, or has ended. */
void stream_start(struct stream *stream);
/* Handles an epoll event. */
void stream_event(struct stream *stream, uint32_t events);
/* Closes the connection and ends the request, if there is one. */
void stream_give_up(struct stream *stream, enum request_end end, const char *error);
void stream_close(struct stream *stream);

/* Called by streams: the request has ended; the answer is complete or `error` is set. */
void load_ended(struct stream *stream, enum request_end end);
/* A connection without a request has ended. */
void load_idle_closed(struct stream *stream);
void load_first_piece(struct stream *stream);

#endif
