/* SPDX-License-Identifier: Apache-2.0
 *
 * The answer to one HTTP/1.1 request; see http_stream.h.
 */
#include "lab/load/http_stream.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

void http_answer_init(struct http_answer *answer,
		      void (*event)(void *arg, const char *data, size_t length), void *arg)
{
	memset(answer, 0, sizeof(*answer));
	answer->event = event;
	answer->arg = arg;
}

void http_answer_release(struct http_answer *answer)
{
	buf_release(&answer->frame);
	buf_release(&answer->line);
	buf_release(&answer->body);
	buf_release(&answer->event_data);
}

void http_answer_reset(struct http_answer *answer)
{
	struct http_answer fresh = { .event = answer->event,
				     .arg = answer->arg,
				     .frame = answer->frame,
				     .line = answer->line,
				     .body = answer->body,
				     .event_data = answer->event_data };

	fresh.frame.size = fresh.line.size = fresh.body.size = fresh.event_data.size = 0;
	*answer = fresh;
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "not enough memory for an answer of the server.");
}

/* Server-sent events. */

static int event_end(struct http_answer *answer, struct err *err)
{
	struct buf *data = &answer->event_data;

	if (data->failed)
		return no_memory(err);
	if (answer->data_seen)
		answer->event(answer->arg, data->data ? data->data : "", data->size);
	answer->data_seen = false;
	data->size = 0;
	return 0;
}

/* Fields other than data (event, id, retry) and comments are irrelevant to the measurement. */
static int event_line(struct http_answer *answer, const char *line, size_t n, struct err *err)
{
	struct buf *data = &answer->event_data;

	if (n == 0)
		return event_end(answer, err);
	if (n < 4 || memcmp(line, "data", 4) != 0 || (n > 4 && line[4] != ':'))
		return 0;
	line += n > 4 ? 5 : 4;
	n -= n > 4 ? 5 : 4;
	if (n && *line == ' ') {
		line++;
		n--;
	}
	if (data->size + n >= HTTP_TEXT_MAX)
		return err_set(err, -EPROTO, "the server sent an event of more than %zu MiB.",
			       HTTP_TEXT_MAX >> 20);
	if (answer->data_seen)
		buf_append(data, "\n", 1);
	buf_append(data, line, n);
	answer->data_seen = true;
	return 0;
}

/* Lines of events end with CR, LF or both, and may be split anywhere. */
static int take_events(struct http_answer *answer, const char *bytes, size_t n, struct err *err)
{
	struct buf *line = &answer->line;
	int r = 0;

	while (n && r == 0) {
		size_t length;

		if (answer->after_cr && *bytes == '\n') {
			bytes++;
			n--;
			answer->after_cr = false;
			continue;
		}
		answer->after_cr = false;
		for (length = 0; length < n && bytes[length] != '\n' && bytes[length] != '\r';)
			length++;
		if (line->size + length > HTTP_TEXT_MAX)
			return err_set(err, -EPROTO, "the server sent a line of more than %zu MiB.",
				       HTTP_TEXT_MAX >> 20);
		if (length == n || line->size) {
			buf_append(line, bytes, length);
			if (line->failed)
				return no_memory(err);
		}
		if (length == n)
			return 0;
		answer->after_cr = bytes[length] == '\r';
		r = line->size ? event_line(answer, line->data, line->size, err)
			       : event_line(answer, bytes, length, err);
		line->size = 0;
		bytes += length + 1;
		n -= length + 1;
	}
	return r;
}

static int take_body(struct http_answer *answer, const char *bytes, size_t n, struct err *err)
{
	if (answer->event_stream)
		return take_events(answer, bytes, n, err);
	if (answer->body.size + n > HTTP_TEXT_MAX)
		return err_set(err, -EPROTO, "the server sent a body of more than %zu MiB.",
			       HTTP_TEXT_MAX >> 20);
	buf_append(&answer->body, bytes, n);
	return answer->body.failed ? no_memory(err) : 0;
}

/* An event without the empty line after it counts: the stream has ended well. */
static int body_end(struct http_answer *answer, struct err *err)
{
	int r = 0;

	answer->state = HTTP_DONE;
	if (answer->event_stream) {
		if (answer->line.size)
			r = event_line(answer, answer->line.data, answer->line.size, err);
		answer->line.size = 0;
		return r < 0 ? r : event_end(answer, err);
	}
	answer->event(answer->arg, answer->body.data ? answer->body.data : "", answer->body.size);
	return 0;
}

/* The head. */

static int take_status(struct http_answer *answer, const char *line, size_t n, struct err *err)
{
	if (n < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ' ||
	    strspn(line + 9, "0123456789") < 3)
		return err_set(err, -EPROTO,
			       "the server does not speak HTTP/1.1: its answer begins with '%.*s'.",
			       (int)(n < 40 ? n : 40), line);
	answer->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
	answer->keep_alive = line[7] != '0';
	answer->state = HTTP_HEADER;
	return 0;
}

static bool has_word(const char *text, const char *word)
{
	return strcasestr(text, word) != NULL;
}

static int take_length(struct http_answer *answer, const char *value, struct err *err)
{
	uint64_t length = 0;
	size_t digits = strspn(value, "0123456789");

	if (digits == 0 || digits > 15 || value[digits])
		return err_set(err, -EPROTO, "the server sent the Content-Length '%.40s'.", value);
	for (size_t i = 0; i < digits; i++)
		length = length * 10 + (uint64_t)(value[i] - '0');
	if (answer->have_length && answer->left != length)
		return err_set(err, -EPROTO, "the server sent two different Content-Lengths.");
	answer->have_length = true;
	answer->left = length;
	return 0;
}

/* line is NUL-terminated. */
static int take_header(struct http_answer *answer, char *line, struct err *err)
{
	char *value = strchr(line, ':');
	size_t n;

	if (++answer->headers > HTTP_HEADERS_MAX)
		return err_set(err, -EPROTO, "the server sent more than %d header lines.",
			       HTTP_HEADERS_MAX);
	if (!value)
		return err_set(err, -EPROTO, "the server sent the header line '%.40s'.", line);
	*value++ = '\0';
	value += strspn(value, " \t");
	n = strlen(value);
	while (n && (value[n - 1] == ' ' || value[n - 1] == '\t'))
		value[--n] = '\0';
	if (strcasecmp(line, "content-length") == 0)
		return take_length(answer, value, err);
	if (strcasecmp(line, "transfer-encoding") == 0)
		answer->chunked = has_word(value, "chunked");
	else if (strcasecmp(line, "content-type") == 0)
		answer->event_stream = has_word(value, "text/event-stream");
	else if (strcasecmp(line, "connection") == 0 && has_word(value, "close"))
		answer->keep_alive = false;
	else if (strcasecmp(line, "connection") == 0 && has_word(value, "keep-alive"))
		answer->keep_alive = true;
	return 0;
}

static int head_end(struct http_answer *answer, struct err *err)
{
	if (answer->status < 200) { /* 100 Continue: the answer follows */
		unsigned int headers = answer->headers;

		http_answer_reset(answer);
		answer->headers = headers + 1;
		if (headers >= HTTP_HEADERS_MAX)
			return err_set(err, -EPROTO, "the server sent 1xx answers without end.");
		return 0;
	}
	if (answer->status == 204 || answer->status == 304)
		return body_end(answer, err);
	if (answer->chunked) {
		answer->state = HTTP_CHUNK_SIZE;
		return 0;
	}
	answer->state = HTTP_BODY;
	if (!answer->have_length) {
		answer->until_end = true;
		answer->keep_alive = false;
	} else if (answer->left == 0) {
		return body_end(answer, err);
	}
	return 0;
}

static int take_chunk_size(struct http_answer *answer, const char *line, struct err *err)
{
	static const char hex[] = "0123456789abcdef";
	size_t digits = strspn(line, "0123456789abcdefABCDEF");

	if (digits == 0 || digits > 12 || (line[digits] && !strchr("; \t", line[digits])))
		return err_set(err, -EPROTO, "the server sent the chunk size '%.40s'.", line);
	answer->left = 0;
	for (size_t i = 0; i < digits; i++)
		answer->left = answer->left * 16 + (uint64_t)(strchr(hex, line[i] | 0x20) - hex);
	answer->state = answer->left ? HTTP_CHUNK : HTTP_TRAILER;
	return 0;
}

/* One whole line of the head or of the chunk framing. */
static int take_frame_line(struct http_answer *answer, char *line, size_t n, struct err *err)
{
	switch (answer->state) {
	case HTTP_STATUS_LINE:
		return take_status(answer, line, n, err);
	case HTTP_HEADER:
		return n ? take_header(answer, line, err) : head_end(answer, err);
	case HTTP_CHUNK_SIZE:
		return take_chunk_size(answer, line, err);
	case HTTP_CHUNK_END:
		answer->state = HTTP_CHUNK_SIZE;
		return n ? err_set(err, -EPROTO, "the server sent a chunk longer than its size.")
			 : 0;
	case HTTP_TRAILER:
		if (++answer->headers > HTTP_HEADERS_MAX)
			return err_set(err, -EPROTO, "the server sent more than %d header lines.",
				       HTTP_HEADERS_MAX);
		return n ? 0 : body_end(answer, err);
	default:
		return 0;
	}
}

static int take_frame(struct http_answer *answer, const char *bytes, size_t n, size_t *ret_used,
		      struct err *err)
{
	const char *end = memchr(bytes, '\n', n);
	size_t length = end ? (size_t)(end - bytes) : n;
	struct buf *line = &answer->frame;

	if (line->size + length > HTTP_LINE_MAX)
		return err_set(err, -EPROTO, "the server sent a header line of more than %zu KiB.",
			       HTTP_LINE_MAX >> 10);
	buf_append(line, bytes, length);
	*ret_used = length + (end != NULL);
	if (line->failed)
		return no_memory(err);
	if (!end)
		return 0;
	if (line->size && line->data[line->size - 1] == '\r')
		line->size--;
	if (line->size && memchr(line->data, '\0', line->size))
		return err_set(err, -EPROTO, "the server sent a zero byte in a header line.");
	length = line->size;
	buf_append(line, "", 1);
	if (line->failed)
		return no_memory(err);
	line->size = 0;
	return take_frame_line(answer, line->data, length, err);
}

int http_answer_feed(struct http_answer *answer, const char *bytes, size_t n, size_t *ret_used,
		     struct err *err)
{
	size_t at = 0;
	int r = 0;

	while (at < n && answer->state != HTTP_DONE && r == 0) {
		size_t used = n - at;

		if (answer->state != HTTP_BODY && answer->state != HTTP_CHUNK) {
			r = take_frame(answer, bytes + at, n - at, &used, err);
			at += used;
			continue;
		}
		if (!answer->until_end && used > answer->left)
			used = (size_t)answer->left;
		r = take_body(answer, bytes + at, used, err);
		at += used;
		if (answer->until_end || r < 0)
			continue;
		answer->left -= used;
		if (answer->left == 0 && answer->state == HTTP_CHUNK)
			answer->state = HTTP_CHUNK_END;
		else if (answer->left == 0)
			r = body_end(answer, err);
	}
	*ret_used = at;
	return r;
}

int http_answer_end(struct http_answer *answer, struct err *err)
{
	if (answer->state == HTTP_DONE)
		return 0;
	if (answer->state == HTTP_BODY && answer->until_end)
		return body_end(answer, err);
	if (answer->state == HTTP_STATUS_LINE)
		return err_set(err, -EPIPE, "the server closed the connection without an answer.");
	return err_set(err, -EPIPE,
		       "the server closed the connection in the middle of its answer.");
}
