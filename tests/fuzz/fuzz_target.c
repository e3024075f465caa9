/* SPDX-License-Identifier: Apache-2.0
 *
 * target_parse on arbitrary addresses: what it hands out lies in its own text and holds no byte that
 * could lead out of it.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "surfaces/http/target.h"

static void check_text(const struct target *target, const char *text, const char *also)
{
	if (*text && (text < target->text || text >= target->text + sizeof(target->text)))
		abort();
	for (; *text; text++)
		if ((unsigned char)*text < ' ' && !strchr(also, *text))
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target target;
	char *text = strndup((const char *)data, size);

	if (!text)
		abort();
	if (target_parse(text, &target, NULL) == 0) {
		if (target.n_segments > TARGET_SEGMENTS || target.n_pairs > TARGET_PAIRS)
			abort();
		for (size_t i = 0; i < target.n_segments; i++)
			check_text(&target, target.segments[i], "");
		for (size_t i = 0; i < target.n_pairs; i++) {
			check_text(&target, target.pairs[i].key, "");
			check_text(&target, target.pairs[i].value, "\n\t");
		}
	}
	free(text);
	return 0;
}
