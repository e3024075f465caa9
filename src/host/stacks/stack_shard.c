/* SPDX-License-Identifier: Apache-2.0
 *
 * A shard with stacks of another process; see stack_shard.h.
 */
#include "host/stacks/stack_shard.h"

int stack_shard_open(struct stack_shard *s, const char *path, pid_t pid, uint32_t rank,
		     int64_t now_ns)
{
	struct shard_origin origin = { .rank = rank, .pid = (uint32_t)pid, .monotonic_ns = now_ns };

	*s = (struct stack_shard){ 0 };
	return outside_shard_open(&s->shard, path, origin, &s->tree.names);
}

void stack_shard_append(struct stack_shard *s, enum record_kind kind, const void *row)
{
	outside_shard_append(&s->shard, kind, row);
}

uint32_t stack_shard_node(struct stack_shard *s, uint32_t parent, const char *name)
{
	return stack_tree_node(&s->tree, parent, stack_tree_name(&s->tree, name));
}

void stack_shard_fact(struct stack_shard *s, const char *key, const char *value)
{
	outside_shard_fact(&s->shard, key, value);
}

/* Dictionaries first: whoever reads a sample knows its stack. */
static void append_stacks(struct stack_shard *s)
{
	outside_shard_append_names(&s->shard);
	for (; s->written_nodes < s->tree.n; s->written_nodes++) {
		const struct stack_node *node = &s->tree.nodes[s->written_nodes];
		struct row_stack row = { .id = (uint32_t)s->written_nodes + 1,
					 .parent = node->parent,
					 .name = node->name };

		stack_shard_append(s, RECORD_STACK, &row);
	}
}

void stack_shard_write(struct stack_shard *s)
{
	append_stacks(s);
	outside_shard_write(&s->shard);
}

int stack_shard_close(struct stack_shard *s)
{
	int r;

	append_stacks(s);
	r = outside_shard_close(&s->shard);
	stack_tree_release(&s->tree);
	return r;
}
