/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of styled text; see frame.h.
 */
#include "surfaces/top/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"

int lines_take(struct lines *lines, char *text)
{
	size_t n = 0, size = strlen(text), at = 0;

	for (const char *c = text; *c; c++)
		n += *c == '\n';
	*lines = (struct lines){ .text = text, .starts = malloc((n + 1) * sizeof(size_t)) };
	if (!lines->starts) {
		lines_release(lines);
		return -ENOMEM;
	}
	for (size_t i = 0; i <= n; i++) {
		const char *end = at < size ? strchr(text + at, '\n') : NULL;

		lines->starts[i] = at;
		at = end ? (size_t)(end - text) + 1 : size;
	}
	lines->n = (int)n;
	return 0;
}

void lines_release(struct lines *lines)
{
	free(lines->text);
	free(lines->starts);
	*lines = (struct lines){ 0 };
}

size_t lines_at(const struct lines *lines, int line, const char **ret_text)
{
	*ret_text = lines->text + lines->starts[line];
	return lines->starts[line + 1] - lines->starts[line] - 1;
}

/* Takes the sequences of text_style_on and text_style_off. */
static void take_style(struct styled *styled)
{
	while (styled->at < styled->end && *styled->at == '\033') {
		const char *end = memchr(styled->at, 'm', (size_t)(styled->end - styled->at));
		size_t size = end ? (size_t)(end - styled->at) + 1
				  : (size_t)(styled->end - styled->at);

		styled->style = TEXT_PLAIN;
		for (int s = TEXT_BOLD; s <= TEXT_CYAN; s++) {
			const char *on = text_style_on((enum text_style)s, true);

			if (strlen(on) == size && !memcmp(on, styled->at, size))
				styled->style = (enum text_style)s;
		}
		styled->at += size;
	}
}

bool styled_next(struct styled *styled, const char **ret_bytes, size_t *ret_size, int *ret_columns)
{
	uint32_t point;
	int valid;

	take_style(styled);
	if (styled->at == styled->end)
		return false;
	*ret_bytes = styled->at;
	*ret_size = utf8_decode(styled->at, (size_t)(styled->end - styled->at), &point, &valid);
	*ret_columns = utf8_point_width(point);
	styled->at += *ret_size;
	return true;
}

void frame_put(struct buf *frame, const char *text, size_t size, int columns)
{
	struct styled styled = { text, text + size, TEXT_PLAIN };
	enum text_style open = TEXT_PLAIN;
	const char *bytes;
	size_t n;
	int width;

	while (styled_next(&styled, &bytes, &n, &width) && width <= columns) {
		if (styled.style != open)
			buf_printf(frame, "%s%s", text_style_off(open, true),
				   text_style_on(styled.style, true));
		open = styled.style;
		buf_append(frame, bytes, n);
		columns -= width;
	}
	buf_printf(frame, "%s%*s", text_style_off(open, true), columns > 0 ? columns : 0, "");
}
