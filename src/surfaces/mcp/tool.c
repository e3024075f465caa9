/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that stay short; see tool.h.
 */
#include "surfaces/mcp/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h"
#include "surfaces/json/fields_json.h"

#define LISTING_END 120 /* bytes: how a list ends */
#define CELL_BYTES 160

void listing_begin(struct listing *listing)
{
	json_init_buffer(&listing->json, 0);
	listing->shown = listing->left_out = 0;
	json_object(&listing->json);
}

void listing_add(struct listing *listing, struct json *item)
{
	struct json *json = &listing->json;
	char *text = NULL;
	int r = json_finish(item, &text);

	if (r < 0 && !json->failed)
		json->failed = r;
	if (r < 0)
		return;
	if (listing->left_out || json->length + strlen(text) + LISTING_END > ANSWER_BYTES) {
		listing->left_out++;
	} else {
		json_raw(json, text);
		listing->shown++;
	}
	free(text);
}

int listing_end(struct listing *listing, size_t offset, FILE *out)
{
	struct json *json = &listing->json;
	char *text = NULL;
	int r;

	json_array_end(json);
	if (listing->left_out) {
		json_key(json, "left_out");
		json_uint(json, listing->left_out);
		json_key(json, "next");
		json_object(json);
		json_key(json, "offset");
		json_uint(json, offset + listing->shown);
		json_object_end(json);
	}
	json_object_end(json);
	r = json_finish(json, &text);
	if (r >= 0)
		fputs(text, out);
	free(text);
	return r;
}

void json_clipped(struct json *json, const char *text, size_t most)
{
	size_t length = strlen(text), at = 0;
	char clipped[512];

	if (length <= most) {
		json_string(json, text);
		return;
	}
	while (at < most) {
		uint32_t point;
		int valid;
		size_t n = utf8_decode(text + at, length - at, &point, &valid);

		if (at + n > most)
			break;
		at += n;
	}
	snprintf(clipped, sizeof(clipped), "%.*s…", (int)at, text);
	json_string(json, clipped);
}

/* Five digits of a measurement; counts and numbers of things as they are. */
void json_brief_cell(struct json *json, const struct cell *cell)
{
	char text[32];

	if (cell->kind == CELL_TEXT) {
		json_clipped(json, cell->s, CELL_BYTES);
	} else if (cell->kind == CELL_REAL) {
		snprintf(text, sizeof(text), "%.5g", cell->d);
		json_double(json, strtod(text, NULL));
	} else {
		grid_json_plain(json, cell);
	}
}

size_t text_fitted(const char *text, size_t room, FILE *out)
{
	size_t left_out = 0;

	while (*text) {
		size_t length = strcspn(text, "\n");

		length += text[length] == '\n';
		if (left_out || length > room) {
			left_out++;
		} else {
			fwrite(text, 1, length, out);
			room -= length;
		}
		text += length;
	}
	return left_out;
}
