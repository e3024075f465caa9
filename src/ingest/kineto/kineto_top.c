/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Kineto trace has at its top level beside the events: the devices, the place of this process
 * among others, the zero of its clock. Small, so a tree is made of it.
 */
#include "ingest/kineto/kineto_inside.h"

#include <errno.h>
#include <string.h>

#include "base/text/json_read.h"
#include "ingest/kineto/kineto_record.h"

#define MEMBER_MOST ((size_t)16 << 20) /* bytes */
#define FACT_MOST 4096

static uint64_t number_of(const struct json_node *node, const char *key)
{
	int64_t value = json_get_int(node, key, 0);

	return value > 0 ? (uint64_t)value : 0;
}

static uint32_t number32_of(const struct json_node *node, const char *key)
{
	uint64_t value = number_of(node, key);

	return value <= UINT32_MAX ? (uint32_t)value : 0;
}

static void add_devices(struct reader *r, const struct json_node *list)
{
	for (const struct json_node *node = list->child; node; node = node->next) {
		struct row_device row = {
			.device = number32_of(node, "id"),
			.name = part_text(r->part, json_get_string(node, "name", "")),
			.memory_bytes = number_of(node, "totalGlobalMem"),
			.multiprocessors = number32_of(node, "numSms"),
			.capability = number32_of(node, "computeMajor") * 10 +
				      number32_of(node, "computeMinor"),
			.threads_per_multiprocessor = number32_of(node,
								  "maxThreadsPerMultiprocessor"),
			.registers_per_multiprocessor = number32_of(node, "regsPerMultiprocessor"),
			.shared_bytes_per_multiprocessor =
				number32_of(node, "sharedMemPerMultiprocessor"),
		};

		if (kineto_extra_node(r->part, RECORD_DEVICE, &row, json_get(node, "moescope")) ==
		    -EBADMSG)
			part_damaged(r->part, r->offset, "a device that cannot be read wholly");
		if (node->type == JSON_OBJECT)
			part_add(r->part, RECORD_DEVICE, &row);
	}
}

static void add_fact(struct reader *r, const char *key, size_t key_length, const char *value,
		     size_t length)
{
	struct row_fact row = { .key = part_string(r->part, key, key_length),
				.value = part_string(r->part, value, length) };

	/* What we have written there ourselves is no news. */
	if (length <= FACT_MOST && !r->own)
		part_add(r->part, RECORD_FACT, &row);
}

/* The scalars in it are facts; of the rank, the process is told. */
static void add_distributed(struct reader *r, const struct json_node *object)
{
	int64_t rank = json_get_int(object, "rank", -1);

	for (const struct json_node *node = object->child; node; node = node->next)
		if (node->text && node->key)
			add_fact(r, node->key, strlen(node->key), node->text, strlen(node->text));
	if (rank >= 0 && rank <= UINT32_MAX && object->type == JSON_OBJECT) {
		r->known.rank_known = true;
		r->known.rank = (uint32_t)rank;
	}
}

static void read_tree(struct reader *r, struct text key, struct extent value)
{
	struct json_node *root = NULL;
	size_t length = (size_t)(value.end - value.at);
	int r_parse;

	if (length > MEMBER_MOST)
		return;
	r_parse = json_parse("the top level", value.at, length, &root, NULL);
	if (r_parse == -ENOMEM)
		r->failed = -ENOMEM;
	if (r_parse < 0) {
		part_damaged(r->part, r->offset + (uint64_t)(value.at - r->begin),
			     "a description of devices or ranks that cannot be read");
		return;
	}
	if (key.length == 16)
		add_devices(r, root);
	else
		add_distributed(r, root);
	json_node_free(root);
}

static bool is_key(struct text key, const char *is)
{
	return key.length == strlen(is) && !memcmp(key.at, is, key.length);
}

/* The list inside of the description of ranks, as it stands. */
static void add_groups(struct reader *r, struct extent value)
{
	static const char key[] = "\"pg_config\"";
	const char *p = memmem(value.at, (size_t)(value.end - value.at), key, sizeof(key) - 1);
	const char *end;

	if (!p)
		return;
	p = skip_blanks(p + sizeof(key) - 1);
	if (*p != ':')
		return;
	p = skip_blanks(p + 1);
	end = value_skip(r, p);
	if (end && end <= value.end)
		add_fact(r, "pg_config", 9, p, (size_t)(end - p));
}

void top_read(struct reader *r, struct text key, struct extent value)
{
	uint64_t base;

	if (is_key(key, "deviceProperties") || is_key(key, "distributedInfo")) {
		read_tree(r, key, value);
		if (key.length == 15)
			add_groups(r, value);
	} else if (is_key(key, "moescope") && *value.at == '{') {
		r->about.size = 0;
		buf_append(&r->about, value.at, (size_t)(value.end - value.at));
		r->own = true;
		r->failed = r->about.failed ? -ENOMEM : r->failed;
	} else if (is_key(key, "baseTimeNanoseconds")) {
		if (!value_whole(r, value.at, &base) || base > TIME_MOST_NS) {
			part_damaged(r->part, r->offset + (uint64_t)(value.at - r->begin),
				     "no number where the zero of the clock should be");
			return;
		}
		r->known.base_known = true;
		r->known.base_ns = (int64_t)base;
	} else if (*value.at == '"') {
		struct text text;
		const char *plain;
		size_t length;

		if (value_text(r, value.at, &text) && (plain = text_plain(r, text, &length)))
			add_fact(r, key.at, key.length, plain, length);
	} else if (*value.at != '[' && *value.at != '{') {
		add_fact(r, key.at, key.length, value.at, (size_t)(value.end - value.at));
	}
}
