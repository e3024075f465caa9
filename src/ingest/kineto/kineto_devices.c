/* SPDX-License-Identifier: Apache-2.0
 *
 * One number for a device. roctracer numbers devices as agents of the machine, among which are its
 * processors: the kernels of the first GPU are on 1 or 2, while its allocator and its properties call
 * it 0. Which agent is which device is told nowhere. With one device there is no question; else the
 * agents that worked and the devices that allocated are matched by their order, which takes a look at
 * the whole file before it is read.
 */
#include "ingest/kineto/kineto_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"

static const char properties[] = "\"deviceProperties\"";

/* The devices at the head of the file, before its events; 0: none. */
static int properties_read(const struct ingest_file *file, const struct scan *scan,
			   uint64_t *ret_devices)
{
	const char *p = memmem(file->head, file->head_bytes, properties, sizeof(properties) - 1);
	struct reader r = { .scan = scan };
	struct json_node *root = NULL;
	const char *end = NULL;
	int result = 0;
	char *copy;

	*ret_devices = 0;
	if (!p)
		return 0;
	copy = calloc(1,
		      file->head_bytes + SCAN_PAD); /* values are read up to that after the end */
	if (!copy)
		return -ENOMEM;
	memcpy(copy, file->head, file->head_bytes);
	r.end = copy + file->head_bytes;
	p = skip_blanks(copy + (p - file->head) + sizeof(properties) - 1);
	if (*p == ':') {
		p = skip_blanks(p + 1);
		end = value_skip(&r, p);
	}
	if (end)
		result = json_parse("deviceProperties", p, (size_t)(end - p), &root, NULL);
	for (const struct json_node *node = root ? root->child : NULL; node; node = node->next) {
		int64_t id = json_get_int(node, "id", -1);

		if (id >= 0 && id < DEVICES_MAPPED)
			*ret_devices |= UINT64_C(1) << id;
	}
	json_node_free(root);
	free(copy);
	return result == -ENOMEM ? result : 0;
}

static bool by_agents(const struct ingest_file *file)
{
	static const char key[] = "\"roctracer_version\"", events[] = "\"traceEvents\"";
	const char *p = memmem(file->head, file->head_bytes, key, sizeof(key) - 1);
	const char *stop = memmem(file->head, file->head_bytes, events, sizeof(events) - 1);

	return p && (!stop || p < stop);
}

int devices_find(const struct ingest_file *file, const struct scan *scan,
		 struct device_map *ret_map)
{
	*ret_map = (struct device_map){ 0 };
	if (!by_agents(file))
		return 0;
	ret_map->by_agents = true;
	return properties_read(file, scan, &ret_map->properties);
}

static uint32_t nth_bit(uint64_t bits, unsigned int n)
{
	while (n--)
		bits &= bits - 1;
	return (uint32_t)__builtin_ctzll(bits);
}

bool devices_match(struct device_map *map, uint64_t worked, uint64_t allocated)
{
	uint64_t to = allocated ? allocated : map->properties;
	int n = __builtin_popcountll(worked);

	if (n != __builtin_popcountll(to))
		return !n;
	map->n = n ? 64 - (unsigned int)__builtin_clzll(worked) : 0;
	for (unsigned int i = 0, at = 0; i < map->n; i++)
		map->to[i] = worked >> i & 1 ? nth_bit(to, at++) : i;
	return true;
}

uint32_t device_number(const struct device_map *map, uint32_t number)
{
	if (map->by_agents && __builtin_popcountll(map->properties) == 1)
		return nth_bit(map->properties, 0);
	return number < map->n ? map->to[number] : number;
}
