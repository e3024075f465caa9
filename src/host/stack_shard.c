/* SPDX-License-Identifier: Apache-2.0
 *
 * A shard with stacks of another process; see stack_shard.h.
 */
#include "host/stack_shard.h"

#include "base/clock.h"

int stack_shard_open(struct stack_shard *s, const char *path, pid_t pid, uint32_t rank,
		     int64_t now_ns)
{
	struct shard_origin origin = { .rank = rank,
				       .pid = (uint32_t)pid,
				       .monotonic_ns = now_ns,
				       .realtime_ns = clock_realtime_ns() };
	int r;

	*s = (struct stack_shard){ 0 };
	boot_read(&origin.boot);
	r = shard_create_from(path, &origin, &s->writer, NULL);
	if (r == 0)
		encoder_init(&s->encoder, 1, 1, 0);
	return r;
}

static void note(struct stack_shard *s, int r)
{
	if (r < 0 && s->trouble == 0)
		s->trouble = r;
}

void stack_shard_append(struct stack_shard *s, enum record_kind kind, const void *row)
{
	note(s, encoder_append(&s->encoder, kind, row));
}

uint32_t stack_shard_node(struct stack_shard *s, uint32_t parent, const char *name)
{
	return stack_tree_node(&s->tree, parent, stack_tree_name(&s->tree, name));
}

void stack_shard_fact(struct stack_shard *s, const char *key, const char *value)
{
	struct row_fact row = { .key = stack_tree_name(&s->tree, key),
				.value = stack_tree_name(&s->tree, value) };

	stack_shard_append(s, RECORD_FACT, &row);
}

/* Dictionaries first: whoever reads a sample knows its stack. */
void stack_shard_write(struct stack_shard *s)
{
	int r;

	for (; s->written_names < s->tree.names.n; s->written_names++) {
		struct row_string row = { .id = (uint32_t)s->written_names + 1,
					  .length =
						  (uint32_t)s->tree.names.lengths[s->written_names],
					  .text = s->tree.names.keys[s->written_names] };

		stack_shard_append(s, RECORD_STRING, &row);
	}
	for (; s->written_nodes < s->tree.n; s->written_nodes++) {
		const struct stack_node *node = &s->tree.nodes[s->written_nodes];
		struct row_stack row = { .id = (uint32_t)s->written_nodes + 1,
					 .parent = node->parent,
					 .name = node->name };

		stack_shard_append(s, RECORD_STACK, &row);
	}
	r = encoder_finish(&s->encoder);
	if (r == 0)
		r = shard_write(s->writer, &s->encoder);
	note(s, r);
}

int stack_shard_close(struct stack_shard *s)
{
	stack_shard_write(s);
	note(s, shard_close(s->writer, &s->encoder));
	encoder_release(&s->encoder);
	stack_tree_release(&s->tree);
	return s->trouble;
}
