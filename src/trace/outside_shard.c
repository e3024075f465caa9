/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards from outside; see outside_shard.h.
 */
#include "trace/outside_shard.h"

#include <string.h>

#include "base/clock.h"

int outside_shard_open(struct outside_shard *s, const char *path, struct shard_origin origin,
		       struct interned *names)
{
	int r;

	*s = (struct outside_shard){ .names = names };
	if (!origin.monotonic_ns)
		origin.monotonic_ns = clock_monotonic_ns();
	origin.realtime_ns = clock_realtime_ns();
	boot_read(&origin.boot);
	r = shard_create_from(path, &origin, &s->writer, NULL);
	if (r == 0)
		encoder_init(&s->encoder, 1, 1, 0);
	return r;
}

static void note(struct outside_shard *s, int r)
{
	if (r < 0 && s->trouble == 0)
		s->trouble = r;
}

uint32_t outside_shard_name(struct outside_shard *s, const char *text)
{
	return *text ? interned_id(s->names, text, strlen(text)) : 0;
}

void outside_shard_append(struct outside_shard *s, enum record_kind kind, const void *row)
{
	note(s, encoder_append(&s->encoder, kind, row));
}

void outside_shard_fact(struct outside_shard *s, const char *key, const char *value)
{
	struct row_fact row = { .key = outside_shard_name(s, key),
				.value = outside_shard_name(s, value) };

	outside_shard_append(s, RECORD_FACT, &row);
}

void outside_shard_append_names(struct outside_shard *s)
{
	for (; s->written_names < s->names->n; s->written_names++) {
		struct row_string row = { .id = (uint32_t)s->written_names + 1,
					  .length = (uint32_t)s->names->lengths[s->written_names],
					  .text = s->names->keys[s->written_names] };

		outside_shard_append(s, RECORD_STRING, &row);
	}
}

void outside_shard_write(struct outside_shard *s)
{
	int r;

	outside_shard_append_names(s);
	r = encoder_finish(&s->encoder);
	note(s, r == 0 ? shard_write(s->writer, &s->encoder) : r);
}

int outside_shard_close(struct outside_shard *s)
{
	outside_shard_write(s);
	note(s, shard_close(s->writer, &s->encoder));
	encoder_release(&s->encoder);
	return s->trouble;
}
