/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection of the load client: connecting, writing, reading, and what the events of an answer
 * say. A piece is timestamped right after the read that delivered it. One thread.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/load/completion.h"
#include "lab/load/load_inside.h"

void stream_close(struct stream *stream)
{
	if (stream->fd >= 0)
		close(stream->fd); /* also leaves the epoll */
	stream->fd = -1;
	stream->wants_write = false;
}

void stream_give_up(struct stream *stream, enum request_end end, const char *error)
{
	if (error && !stream->error[0])
		snprintf(stream->error, sizeof(stream->error), "%s", error);
	stream->answer.keep_alive = false;
	stream->now_ns = clock_monotonic_ns();
	load_ended(stream, end);
}

static void fail_errno(struct stream *stream, const char *what, int code)
{
	char message[256];

	snprintf(message, sizeof(message), "%s: %s.", what, strerror(code));
	stream_give_up(stream, REQUEST_FAILED, message);
}

static bool watch_socket(struct stream *stream, int operation, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = stream };

	if (epoll_ctl(stream->load->epoll_fd, operation, stream->fd, &event) == 0)
		return true;
	fail_errno(stream, "the connection cannot be watched", errno);
	return false;
}

static void write_out(struct stream *stream)
{
	while (stream->out_at < stream->out.size) {
		ssize_t n = send(stream->fd, stream->out.data + stream->out_at,
				 stream->out.size - stream->out_at, MSG_NOSIGNAL);

		if (n >= 0) {
			stream->out_at += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN) {
			if (!stream->wants_write)
				stream->wants_write = watch_socket(stream, EPOLL_CTL_MOD,
								   EPOLLIN | EPOLLOUT);
			return;
		}
		/* The following read shows whether there is an answer anyway, or whether to
		 * retry. */
		stream->write_code = errno;
		stream->out_at = stream->out.size;
	}
	if (stream->wants_write && watch_socket(stream, EPOLL_CTL_MOD, EPOLLIN))
		stream->wants_write = false;
}

static void connect_and_write(struct stream *stream)
{
	int fd = http_target_connect(&stream->load->target);

	stream->reused = false;
	stream->fd = fd < 0 ? -1 : fd;
	if (fd == -EMFILE)
		stream_give_up(stream, REQUEST_FAILED,
			       "too many connections for the limit on open files; raise it with "
			       "'ulimit -n', or give a concurrency.");
	else if (fd < 0)
		fail_errno(stream, "the server cannot be reached", -fd);
	else if (watch_socket(stream, EPOLL_CTL_ADD, EPOLLIN))
		write_out(stream);
}

void stream_start(struct stream *stream)
{
	stream->sent_ns = clock_monotonic_ns();
	stream->now_ns = stream->sent_ns;
	stream->reused = stream->fd >= 0;
	if (stream->reused)
		write_out(stream);
	else
		connect_and_write(stream);
}

static int note_time(struct times *times, int64_t at_ns)
{
	if (array_grow(&times->v, &times->capacity, times->n + 1, sizeof(*times->v)) < 0)
		return -ENOMEM;
	times->v[times->n++] = at_ns;
	return 0;
}

static void take_event(void *arg, const char *data, size_t length)
{
	struct stream *stream = arg;
	bool keep = stream->index < TEXTS_KEPT && !stream->warmup && stream->text.size < TEXT_MAX;
	struct completion_event event;

	if (stream->answer.status != 200) {
		int n = snprintf(stream->error, sizeof(stream->error),
				 "the server answered with status %d%s", stream->answer.status,
				 length ? ": " : ".");

		completion_error_message(data, length, stream->error + n,
					 sizeof(stream->error) - (size_t)n);
		return;
	}
	if (completion_read(data, length, &event, keep ? &stream->text : NULL) < 0 &&
	    !stream->error[0])
		snprintf(stream->error, sizeof(stream->error), "the server sent an error: %s",
			 event.error);
	stream->done |= event.done || !stream->answer.event_stream;
	stream->finished |= event.finished;
	if (event.has_usage) {
		stream->has_usage = true;
		stream->prompt_tokens = event.prompt_tokens;
		stream->output_tokens = event.output_tokens;
	}
	if (!event.has_choice)
		return;
	if (note_time(event.has_text ? &stream->pieces : &stream->empties, stream->now_ns) < 0)
		stream->out_of_memory = true;
	else if (event.has_text && stream->pieces.n == 1)
		load_first_piece(stream);
}

/* The answer is complete. A stream that ends with its connection may have been cut, so that it needs
 * a word of its own for its end. */
static void answer_ended(struct stream *stream)
{
	if (!stream->error[0] && stream->answer.until_end && !stream->done && !stream->finished)
		snprintf(stream->error, sizeof(stream->error),
			 "the server closed the connection before [DONE].");
	load_ended(stream, stream->error[0] ? REQUEST_FAILED : REQUEST_OK);
}

/* A kept connection may end just when it is used again; nothing of the request has been answered, so
 * it is sent once more, on a new one. */
static bool retry_request(struct stream *stream)
{
	if (!stream->reused || stream->answer.status || stream->answer.frame.size)
		return false;
	stream_close(stream);
	stream->out_at = 0;
	stream->write_code = 0;
	connect_and_write(stream);
	return true;
}

static void read_in(struct stream *stream)
{
	struct load *load = stream->load;
	ssize_t n = recv(stream->fd, load->read_buffer, READ_BYTES, 0);
	int code = errno;
	struct err err = { "" };
	size_t used = 0;
	int r;

	stream->answer.event = take_event;
	stream->answer.arg = stream;
	if (n < 0 && (code == EAGAIN || code == EINTR))
		return;
	stream->now_ns = clock_monotonic_ns();
	if (n <= 0 && retry_request(stream))
		return;
	if (n == 0 && stream->write_code && !stream->answer.status) {
		n = -1;
		code = stream->write_code;
	}
	if (n < 0) {
		fail_errno(stream,
			   stream->answer.status
				   ? "the connection broke in the middle of the answer"
				   : "the server cannot be reached",
			   code);
		return;
	}
	if (n == 0)
		r = http_answer_end(&stream->answer, &err);
	else
		r = http_answer_feed(&stream->answer, load->read_buffer, (size_t)n, &used, &err);
	if (r == -ENOMEM || stream->out_of_memory) {
		load->failed = err_set(load->err, -ENOMEM, "not enough memory for the answers.");
	} else if (r < 0) {
		stream_give_up(stream, REQUEST_FAILED, err.message);
	} else if (stream->answer.state == HTTP_DONE) {
		stream->answer.keep_alive &= n > 0 && used == (size_t)n &&
					     stream->out_at == stream->out.size &&
					     !stream->write_code;
		answer_ended(stream);
	}
}

void stream_event(struct stream *stream, uint32_t events)
{
	if (stream->fd < 0)
		return;
	if (stream->sent_ns < 0) { /* no request on it: the server has closed it */
		load_idle_closed(stream);
		return;
	}
	if (stream->wants_write && (events & EPOLLOUT))
		write_out(stream);
	if (stream->fd >= 0 && stream->sent_ns >= 0 && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		read_in(stream);
}
