/* SPDX-License-Identifier: Apache-2.0
 *
 * OpenAI's completion API as JSON: the body of a request, and the content of an answer's event.
 * Untrusted input. Pure functions, any thread.
 */
#ifndef LAB_COMPLETION_H
#define LAB_COMPLETION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "lab/shared/experiment.h"

struct completion_event {
	bool done;	 /* data: [DONE] */
	bool has_choice; /* a part of the answer, with or without text */
	bool has_text;	 /* a piece: text, reasoning or a tool call */
	bool finished;	 /* a finish_reason */
	bool has_usage;	 /* the counts are present */
	int64_t prompt_tokens, output_tokens;
	char error[256]; /* the server's message; empty: none */
};

/* Appends text to `text` (NULL: not wanted). -EPROTO: not what the API sends; the event's error
 * says so. */
int completion_read(const char *data, size_t length, struct completion_event *ret_event,
		    struct buf *text);
/* The words of an error's body, one line, cut to a sentence. */
void completion_error_message(const char *body, size_t length, char *out, size_t size);
/* Appends the body of a request. 0 or -ENOMEM. */
int completion_body(struct buf *buf, const struct experiment *experiment, const char *model,
		    const char *prompt, int64_t max_tokens);

#endif
