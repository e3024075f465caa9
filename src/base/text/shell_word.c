/* SPDX-License-Identifier: Apache-2.0
 *
 * See shell_word.h.
 */
#include "base/text/shell_word.h"

#include <string.h>

void shell_quote(struct buf *out, const char *text)
{
	buf_append(out, "'", 1);
	while (*text) {
		size_t plain = strcspn(text, "'");

		buf_append(out, text, plain);
		text += plain;
		if (*text) {
			buf_append(out, "'\\''", 4);
			text++;
		}
	}
	buf_append(out, "'", 1);
}

void shell_word(struct buf *out, const char *text)
{
	static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789_-+=./,:@%";

	if (*text && !text[strspn(text, harmless)])
		buf_append(out, text, strlen(text));
	else
		shell_quote(out, text);
}
