/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process of a run an event belongs to. A trace of PyTorch's has one process; one that moescope
 * made of a run of several says which numbers in it are whose, before the events.
 */
#include "ingest/kineto/kineto_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_read.h"

#define DEVICES 1024 /* process numbers of the devices of one process */
#define LANES_MOST 4096

static bool take_process(const struct json_node *node, struct lane_numbers *ret)
{
	int64_t rank = json_get_int(node, "rank", -1), pid = json_get_int(node, "pid", -1);
	int64_t trace_pid = json_get_int(node, "trace_pid", -1);

	if (rank < 0 || rank > UINT32_MAX || pid < 0 || pid > UINT32_MAX || trace_pid < 0)
		return false;
	*ret = (struct lane_numbers){ .rank = (uint32_t)rank,
				      .pid = (uint32_t)pid,
				      .trace_pid = trace_pid,
				      .first_device = json_get_int(node, "first_device_pid", -1) };
	return true;
}

/* The processes in the description of the run. */
static int read_processes(const struct json_node *root, struct lane_numbers **ret_lanes,
			  size_t *ret_n)
{
	const struct json_node *list = json_get(root, "processes");
	struct lane_numbers *lanes = NULL;
	size_t n = 0, capacity = 0;

	for (const struct json_node *node = list ? list->child : NULL; node; node = node->next) {
		if (array_grow(&lanes, &capacity, n + 1, sizeof(*lanes)) < 0) {
			free(lanes);
			return -ENOMEM;
		}
		if (n == LANES_MOST || !take_process(node, &lanes[n])) {
			n = 0;
			break;
		}
		n++;
	}
	*ret_lanes = lanes;
	*ret_n = n;
	return 0;
}

int lanes_find(const struct ingest_file *file, const struct scan *scan,
	       struct lane_numbers **ret_lanes, size_t *ret_n)
{
	static const char key[] = "\"moescope\":{", events[] = "\"traceEvents\"";
	const char *p = memmem(file->head, file->head_bytes, key, sizeof(key) - 1), *end;
	const char *stop = memmem(file->head, file->head_bytes, events, sizeof(events) - 1);
	struct reader r = { .scan = scan };
	struct json_node *root = NULL;
	int result = 0;
	char *copy;

	*ret_lanes = NULL;
	*ret_n = 0;
	if (!p || (stop && p > stop))
		return 0;
	copy = calloc(1,
		      file->head_bytes + SCAN_PAD); /* values are read up to that after the end */
	if (!copy)
		return -ENOMEM;
	memcpy(copy, file->head, file->head_bytes);
	p = copy + (p - file->head) + sizeof(key) - 2;
	r.end = copy + file->head_bytes;
	end = value_skip(&r, p);
	if (end)
		result = json_parse("moescope", p, (size_t)(end - p), &root, NULL);
	if (root)
		result = read_processes(root, ret_lanes, ret_n);
	json_node_free(root);
	free(copy);
	return result == -ENOMEM ? result : 0;
}

int lane_init(struct lane *lane, struct intake_process *process, const struct lane_numbers *numbers)
{
	*lane = (struct lane){ .numbers = *numbers };
	lane->texts = calloc(CACHED_TEXTS, sizeof(*lane->texts));
	lane->launches = calloc(CACHED_LAUNCHES, sizeof(*lane->launches));
	lane->part = process ? intake_part(process) : NULL;
	return lane->texts && lane->launches && lane->part ? 0 : -ENOMEM;
}

void lane_release(struct lane *lane)
{
	for (size_t i = 0; lane->texts && i < CACHED_TEXTS; i++)
		free(lane->texts[i].bytes);
	free(lane->texts);
	free(lane->launches);
}

void lane_choose(struct reader *r, size_t i)
{
	r->lane = &r->lanes[i];
	r->part = r->lane->part;
}

void lane_choose_for(struct reader *r, const struct event *e)
{
	for (size_t i = 0; r->n_lanes > 1 && i < r->n_lanes; i++) {
		const struct lane_numbers *numbers = &r->lanes[i].numbers;

		if (e->process == numbers->trace_pid ||
		    (numbers->first_device >= 0 && e->process >= numbers->first_device &&
		     e->process - numbers->first_device < DEVICES)) {
			lane_choose(r, i);
			return;
		}
	}
	lane_choose(r, 0);
}

int lanes_turn(struct reader *r, uint64_t order)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < r->n_lanes; i++)
		result = part_turn(r->lanes[i].part, order);
	lane_choose(r, 0);
	return result;
}

void lanes_discard(struct reader *r)
{
	for (size_t i = 0; i < r->n_lanes; i++)
		part_discard(r->lanes[i].part);
}

int lanes_failed(const struct reader *r)
{
	int failed = r->failed;

	for (size_t i = 0; !failed && i < r->n_lanes; i++)
		failed = part_failed(r->lanes[i].part);
	return failed;
}
