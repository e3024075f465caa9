/* SPDX-License-Identifier: Apache-2.0
 *
 * json_parse on arbitrary bytes: a tree or a sentence, and every node of a tree can be read.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"
#include "fuzz.h"

static size_t walk(const struct json_node *node)
{
	size_t n = 0;

	for (; node; node = node->next) {
		n += node->text ? strlen(node->text) : 0;
		n += node->key ? strlen(node->key) : 0;
		if ((node->type == JSON_STRING || node->type == JSON_NUMBER) !=
		    (node->text != NULL))
			abort();
		n += walk(node->child) + 1;
	}
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { "" };
	struct json_node *root = NULL;
	char *text = malloc(size ? size : 1); /* exact: a byte too far is seen */
	int r;

	if (!text)
		abort();
	memcpy(text, data, size);
	r = json_parse("input", text, size, &root, &err);
	if (r < 0 && (!err.message[0] || root))
		abort();
	if (r == 0 && !walk(root))
		abort();
	if (r == 0) {
		json_get_string(root, "command", "");
		json_get_int(root, "format", 0);
		json_node_free(root);
	}
	free(text);
	return 0;
}
