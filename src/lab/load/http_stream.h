/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to one HTTP/1.1 request, read from bytes split anywhere: head, body by length, in
 * chunks or up to the end of the connection, and server-sent events inside it. Untrusted input. One
 * thread; nothing here touches a socket.
 */
#ifndef LAB_HTTP_STREAM_H
#define LAB_HTTP_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HTTP_LINE_MAX ((size_t)64 << 10)
#define HTTP_HEADERS_MAX 256
#define HTTP_TEXT_MAX ((size_t)16 << 20) /* of one event, or of a body without events */

enum http_state {
	HTTP_STATUS_LINE,
	HTTP_HEADER,
	HTTP_BODY, /* by length, or to the end of the connection */
	HTTP_CHUNK_SIZE,
	HTTP_CHUNK,
	HTTP_CHUNK_END,
	HTTP_TRAILER,
	HTTP_DONE
};

struct http_answer {
	/* The data of an event, and at the end the whole body of an answer that is not an event
	 * stream. Not NUL-terminated. */
	void (*event)(void *arg, const char *data, size_t length);
	void *arg;
	enum http_state state;
	int status;	   /* 0: unknown so far */
	bool event_stream; /* Content-Type: text/event-stream */
	bool keep_alive;   /* the connection can take another request */
	bool chunked, until_end;
	bool have_length;
	bool data_seen; /* of the current event; an empty one is an event too */
	bool after_cr;	/* in a line of events: a following line feed belongs to it */
	unsigned int headers;
	uint64_t left;	  /* of the body or the chunk */
	struct buf frame; /* a partial line of the head or the chunk framing */
	struct buf line;  /* the same of events */
	struct buf body;  /* without events */
	struct buf event_data;
};

void http_answer_init(struct http_answer *answer,
		      void (*event)(void *arg, const char *data, size_t length), void *arg);
void http_answer_release(struct http_answer *answer);
/* For the connection's next answer; keeps the memory. */
void http_answer_reset(struct http_answer *answer);
/* Takes n bytes; *ret_used is less if the answer ended before. 0, -EPROTO with a sentence about
 * what the server did, or -ENOMEM. */
int http_answer_feed(struct http_answer *answer, const char *bytes, size_t n, size_t *ret_used,
		     struct err *err);
/* The connection has ended. */
int http_answer_end(struct http_answer *answer, struct err *err);

#endif
