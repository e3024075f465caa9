/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of JSON text; see chrome_emit.h.
 */
#include "exports/chrome/chrome_emit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/text/json_write.h"
#include "base/text/utf8.h"
#include "exports/chrome/chrome_gzip.h"

#define TEN(d) d "0" d "1" d "2" d "3" d "4" d "5" d "6" d "7" d "8" d "9"
const char emit_pairs[201] = TEN("0") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5") TEN("6") TEN("7")
	TEN("8") TEN("9");

int emit_init(struct emitter *out, FILE *file, bool gzip)
{
	int r = 0;

	*out = (struct emitter){ .file = file, .block = malloc(GZIP_BLOCK) };
	if (!out->block)
		return -ENOMEM;
	out->at = out->block;
	out->end = out->block + GZIP_BLOCK;
	if (gzip)
		r = gzip_out_new(file, &out->gzip);
	if (r < 0)
		free(out->block);
	return r;
}

/* Gives the block away. */
static void emit_flush(struct emitter *out)
{
	size_t n = (size_t)(out->at - out->block);

	errno = 0;
	if (out->failed || !n)
		;
	else if (out->gzip)
		out->failed = gzip_out_write(out->gzip, out->block, n);
	else if (fwrite(out->block, 1, n, out->file) != n)
		out->failed = errno ? -errno : -EIO;
	out->at = out->block;
}

int emit_finish(struct emitter *out, int r)
{
	emit_flush(out);
	r = r < 0 ? r : out->failed;
	if (r == 0 && out->gzip)
		r = gzip_out_finish(out->gzip);
	gzip_out_free(out->gzip);
	free(out->block);
	*out = (struct emitter){ 0 };
	return r;
}

void emit_long(struct emitter *out, const char *bytes, size_t n)
{
	while (n) {
		size_t room = (size_t)(out->end - out->at), part = n < room ? n : room;

		memcpy(out->at, bytes, part);
		out->at += part;
		bytes += part;
		n -= part;
		if (n)
			emit_flush(out);
	}
}

void buf_escaped(struct buf *buf, const char *text)
{
	size_t length = strlen(text), plain = 0;

	buf_append(buf, "\"", 1);
	for (size_t at = 0; at < length;) {
		unsigned char c = (unsigned char)text[at];
		uint32_t point = c;
		int valid = 1;
		size_t took = c < 0x80 ? 1 : utf8_decode(text + at, length - at, &point, &valid);

		if (c != '"' && c != '\\' && valid &&
		    (c - 0x20u < 0x5f || utf8_is_harmless(point))) {
			at += took;
			continue;
		}
		buf_append(buf, text + plain, at - plain);
		if (!valid)
			buf_append(buf, "\xef\xbf\xbd", 3);
		else if (c == '"' || c == '\\')
			buf_append(buf, c == '"' ? "\\\"" : "\\\\", 2);
		else
			buf_printf(buf, "\\u%04x", (unsigned int)point);
		at += took;
		plain = at;
	}
	buf_append(buf, text + plain, length - plain);
	buf_append(buf, "\"", 1);
}

void emit_string(struct emitter *out, const char *text)
{
	struct buf buf = { 0 };

	buf_escaped(&buf, text);
	if (buf.failed && !out->failed)
		out->failed = -ENOMEM;
	if (!buf.failed)
		emit_bytes(out, buf.data, buf.size);
	buf_release(&buf);
}

void emit_double(struct emitter *out, double value)
{
	char text[40];

	if (!isfinite(value)) {
		EMIT(out, "null");
		return;
	}
	json_format_double(text, sizeof(text), value);
	emit_text(out, text);
}
