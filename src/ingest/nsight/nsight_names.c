/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings of an Nsight Systems file and what they become; see nsight_inside.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cmp.h"
#include "ingest/nsight/nsight_inside.h"

static int add_string(void *context, int64_t rowid, const struct scan_value *v)
{
	struct ns_strings *s = context;
	int64_t id;

	(void)rowid;
	if (!scan_int(&v[0], &id) || v[1].type != SCAN_TEXT)
		return 0;
	if (array_grow(&s->v, &s->capacity, s->n + 1, sizeof(*s->v)) < 0 ||
	    array_grow(&s->bytes, &s->bytes_capacity, s->size + v[1].length + 1, 1) < 0)
		return -ENOMEM;
	if (v[1].length)
		memcpy(s->bytes + s->size, v[1].text, v[1].length);
	s->v[s->n++] = (struct ns_string){ id, s->size, v[1].length };
	s->size += v[1].length;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct ns_string *x = a, *y = b;

	return CMP(x->id, y->id);
}

int ns_strings_read(struct nsight *ns)
{
	static const char *const columns[] = { "id", "value" };
	struct ns_strings *s = &ns->strings;
	struct scan_table table;
	uint64_t damaged = 0;
	bool sorted = true;
	int r = scan_table_open(&ns->scan, "StringIds", columns, 2, &table);

	if (r <= 0)
		return r;
	for (size_t i = 0; r >= 0 && i < scan_chunks(&table); i++)
		r = scan_chunk(&table, i, add_string, s, &damaged);
	damaged += table.damaged_pages;
	scan_table_close(&table);
	if (damaged)
		intake_note(
			ns->intake,
			"%s: %llu pages or rows of StringIds cannot be read; names are missing.",
			ns->file->path, (unsigned long long)damaged);
	for (size_t i = 1; i < s->n; i++)
		sorted = sorted && s->v[i - 1].id <= s->v[i].id;
	if (!sorted)
		qsort(s->v, s->n, sizeof(*s->v), by_id);
	return r < 0 ? r : 0;
}

const char *ns_string(const struct nsight *ns, int64_t id, size_t *ret_length)
{
	const struct ns_strings *s = &ns->strings;
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->v[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == s->n || s->v[low].id != id)
		return NULL;
	*ret_length = s->v[low].length;
	return s->bytes + s->v[low].offset;
}

#define NVTX_DOMAIN_CREATE 75

static int see_event(void *context, int64_t rowid, const struct scan_value *v)
{
	bool *seen = context;

	(void)rowid;
	*seen = *seen || ns_u32(&v[0]) == NVTX_DOMAIN_CREATE;
	return 0;
}

static const char *const domain_columns[] = { "eventType", "domainId", "text", "textId",
					      "globalTid" };

static int add_domain(void *context, int64_t rowid, const struct scan_value *v)
{
	struct nsight *ns = context;
	const char *text = NULL;
	size_t length = 0;
	struct ns_domain *domain;
	int64_t id, string, global;

	(void)rowid;
	if (ns_u32(&v[0]) != NVTX_DOMAIN_CREATE || !ns_int(&v[1], &id))
		return 0;
	if (v[2].type == SCAN_TEXT) {
		text = v[2].text;
		length = v[2].length;
	} else if (ns_int(&v[3], &string)) {
		text = ns_string(ns, string, &length);
	}
	if (!text || !length)
		return 0;
	if (array_grow(&ns->domains, &ns->domains_capacity, ns->n_domains + 1,
		       sizeof(*ns->domains)) < 0)
		return -ENOMEM;
	domain = &ns->domains[ns->n_domains];
	domain->id = id;
	domain->pid = ns_int(&v[4], &global) ? ns_pid(global) : ns->default_pid;
	domain->name = strndup(text, length);
	if (!domain->name)
		return -ENOMEM;
	ns->n_domains++;
	return 0;
}

/* Creations of domains are rows among the ranges, and ranges need them: the third column of each row
 * says which they are, and only parts of the table that have some are read with the others. */
int ns_domains_read(struct nsight *ns, uint64_t *damaged)
{
	struct scan_table kinds, table;
	uint64_t again = 0;
	int r = scan_table_open(&ns->scan, "NVTX_EVENTS", domain_columns, 1, &kinds);

	if (r <= 0)
		return r;
	r = scan_table_open(&ns->scan, "NVTX_EVENTS", domain_columns, 5, &table);
	for (size_t i = 0; r > 0 && kinds.has[0] && i < scan_chunks(&kinds); i++) {
		bool seen = false;

		r = scan_chunk(&kinds, i, see_event, &seen, damaged);
		if (r >= 0 && seen)
			r = scan_chunk(&table, i, add_domain, ns, &again);
		r = r < 0 ? r : 1;
	}
	scan_table_close(&kinds);
	scan_table_close(&table);
	return r < 0 ? r : 0;
}

const char *ns_domain_name(const struct nsight *ns, uint32_t pid, int64_t id)
{
	for (size_t i = 0; i < ns->n_domains; i++)
		if (ns->domains[i].id == id && ns->domains[i].pid == pid)
			return ns->domains[i].name;
	return NULL;
}

void ns_names_release(struct nsight *ns)
{
	for (size_t i = 0; i < ns->n_domains; i++)
		free(ns->domains[i].name);
	free(ns->domains);
	free(ns->strings.v);
	free(ns->strings.bytes);
}

void ns_map_release(struct ns_map *map)
{
	hash_map_release(&map->map);
	free(map->v);
}

uint32_t ns_map_get(const struct ns_map *map, int64_t key)
{
	struct hash_walk walk = hash_map_walk(&map->map, hash_word((uint64_t)key));
	uint32_t number;

	while ((number = hash_map_next(&map->map, &walk)))
		if (map->v[number - 1].key == key)
			return map->v[number - 1].value;
	return 0;
}

int ns_map_add(struct ns_map *map, int64_t key, uint32_t value)
{
	int r = array_grow(&map->v, &map->capacity, map->n + 1, sizeof(*map->v));

	if (r == 0)
		r = hash_map_add(&map->map, hash_word((uint64_t)key), (uint32_t)map->n + 1);
	if (r < 0)
		return r;
	map->v[map->n].key = key;
	map->v[map->n++].value = value;
	return 0;
}

/* "cudaMemcpy_v3020" is cudaMemcpy to everybody else, as the probe has it. */
static size_t call_length(const char *text, size_t length)
{
	for (size_t i = 1; i + 2 < length; i++)
		if (text[i] == '_' && text[i + 1] == 'v' && text[i + 2] >= '0' &&
		    text[i + 2] <= '9')
			return i;
	return length;
}

size_t ns_range_length(const char *text, size_t length)
{
	static const char *const tails[] = { ", op_id = ", ", seq = " };
	const char *comma = length ? memchr(text, ',', length) : NULL;

	for (; comma; comma = memchr(comma + 1, ',', length - (size_t)(comma + 1 - text))) {
		size_t left = length - (size_t)(comma - text);

		for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
			size_t n = strlen(tails[i]);

			if (comma > text && left > n && !memcmp(comma, tails[i], n) &&
			    comma[n] >= '0' && comma[n] <= '9')
				return (size_t)(comma - text);
		}
	}
	return length;
}

static uint32_t make_name(struct ns_worker *worker, struct ns_seat *seat, const char *text,
			  size_t length, enum ns_use use)
{
	uint32_t id;

	switch (use) {
	case NS_CALL:
		id = part_string(seat->part, text, call_length(text, length));
		/* cuLaunchKernel, not cudaLaunchKernel; more than 2^31 names do not exist. */
		return 2 * id +
		       (length > 2 && !memcmp(text, "cu", 2) && text[2] >= 'A' && text[2] <= 'Z');
	case NS_RANGE: {
		size_t kept = ns_range_length(text, length);

		worker->op_ids += kept != length;
		id = part_string(seat->part, text, kept);
		return id ? part_site(seat->part, id) : 0;
	}
	default:
		return part_string(seat->part, text, length);
	}
}

uint32_t ns_name(struct ns_worker *worker, struct ns_seat *seat, int64_t id, enum ns_use use)
{
	const char *text;
	size_t length;
	int64_t key;
	uint32_t value;

	if (id < 0 || id > INT64_MAX / 8)
		return 0;
	key = (id + 1) * 4 + use;
	value = ns_map_get(&seat->names, key);
	if (value)
		return value;
	text = ns_string(worker->ns, id, &length);
	if (!text || !length)
		return 0;
	value = make_name(worker, seat, text, length, use);
	/* Not kept without memory: it is only looked up again. */
	if (value)
		ns_map_add(&seat->names, key, value);
	return value;
}
