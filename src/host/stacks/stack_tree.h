/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of a process as a tree: a stack is its innermost function and the stack around it. Numbers are those
 * of the records, from 1; 0: none, or no memory. One thread.
 */
#ifndef HOST_STACKS_STACK_TREE_H
#define HOST_STACKS_STACK_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash_map.h"
#include "base/interned.h"

struct stack_node {
	uint32_t parent, name;
};

struct stack_tree {
	struct stack_node *nodes; /* index number - 1 */
	size_t n, capacity;
	struct hash_map by_node;
	struct interned names;
};

uint32_t stack_tree_name(struct stack_tree *tree, const char *text);
/* The stack of a function that `parent` has called. */
uint32_t stack_tree_node(struct stack_tree *tree, uint32_t parent, uint32_t name);
void stack_tree_release(struct stack_tree *tree);

#endif
