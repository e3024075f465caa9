/* SPDX-License-Identifier: Apache-2.0
 *
 * Measurements for a benchmark: a line per generated sequence or training step, with the time of
 * every token. Lines of JSON as described in docs/experiments.md (requests.jsonl). Written as the
 * work proceeds, so a killed program leaves them.
 */
#ifndef TINYMOE_NOTES_H
#define TINYMOE_NOTES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct failure;

struct notes {
	FILE *stream; /* NULL: nothing is recorded */
	const char *path;
};

struct note {
	int64_t sent_ns, end_ns;
	int warmup;
	size_t prompt_tokens, output_tokens;
	const int64_t *pieces_ns; /* [output_tokens], or NULL */
};

int64_t notes_now_ns(void);
/* load_ns: time to prepare the model. */
int notes_open(struct notes *notes, const char *path, int64_t load_ns, struct failure *failure);
/* notes_close detects failed writes. */
void notes_add(struct notes *notes, const struct note *note);
void notes_text(struct notes *notes, const uint8_t *bytes, size_t n);
/* Also when nothing is open. */
int notes_close(struct notes *notes, struct failure *failure);

/* As it is shown: control bytes from a poorly trained model would disturb a terminal. */
void put_byte(uint8_t byte, FILE *out);

#endif
