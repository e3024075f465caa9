/* SPDX-License-Identifier: Apache-2.0
 *
 * A shard about another process with stacks of its functions: names and stacks become numbers, which are written
 * before what refers to them. One thread.
 */
#ifndef HOST_STACKS_STACK_SHARD_H
#define HOST_STACKS_STACK_SHARD_H

#include <stdint.h>
#include <sys/types.h>

#include "host/stacks/stack_tree.h"
#include "trace/outside_shard.h"

struct stack_shard {
	struct stack_tree tree;
	size_t written_nodes;
	struct outside_shard shard;
};

/* path: of the file, which must not exist. now_ns: when the process was first seen. 0 or -errno. */
int stack_shard_open(struct stack_shard *s, const char *path, pid_t pid, uint32_t rank,
		     int64_t now_ns);
/* 0, or -errno: the first trouble there was. */
int stack_shard_close(struct stack_shard *s);

/* The stack `parent` (0: none) with one more function; 0: no memory. */
uint32_t stack_shard_node(struct stack_shard *s, uint32_t parent, const char *name);
void stack_shard_append(struct stack_shard *s, enum record_kind kind, const void *row);
void stack_shard_fact(struct stack_shard *s, const char *key, const char *value);
/* To the file. */
void stack_shard_write(struct stack_shard *s);

#endif
