/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of a server in any bytes and any cut: events or a sentence, and the same events however the
 * bytes are cut. The first byte says how.
 */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "fuzz.h"
#include "lab/load/completion.h"
#include "lab/load/http_stream.h"

struct seen {
	uint32_t checksum;
	size_t n;
	struct buf text;
};

static void take(void *arg, const char *data, size_t length)
{
	struct completion_event event;
	struct seen *seen = arg;
	char words[64];

	seen->n++;
	seen->checksum = crc32c(seen->checksum, data, length);
	if (completion_read(data, length, &event, &seen->text) < 0 && !event.error[0])
		abort();
	if (event.has_text && !event.has_choice)
		abort();
	completion_error_message(data, length, words, sizeof(words));
	if (strlen(words) >= sizeof(words))
		abort();
}

/* Parts of `step` bytes, each in memory of its own. 0, or -errno with a sentence. */
static int feed(const uint8_t *data, size_t size, size_t step, struct seen *seen)
{
	struct http_answer answer;
	struct err err = { "" };
	size_t at = 0, used;
	int r = 0;

	memset(seen, 0, sizeof(*seen));
	http_answer_init(&answer, take, seen);
	while (r == 0 && at < size && answer.state != HTTP_DONE) {
		size_t n = size - at < step ? size - at : step;
		char *part = malloc(n);

		if (!part)
			abort();
		memcpy(part, data + at, n);
		r = http_answer_feed(&answer, part, n, &used, &err);
		free(part);
		if (used > n || (r == 0 && used < n && answer.state != HTTP_DONE))
			abort();
		at += used;
	}
	if (r == 0)
		r = http_answer_end(&answer, &err);
	if (r < 0 && !err.message[0])
		abort();
	http_answer_release(&answer);
	buf_release(&seen->text);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole, cut;
	int r;

	if (size == 0)
		return 0;
	r = feed(data + 1, size - 1, size, &whole);
	if (feed(data + 1, size - 1, 1 + data[0] % 16, &cut) != r || cut.n != whole.n ||
	    cut.checksum != whole.checksum)
		abort();
	return 0;
}
