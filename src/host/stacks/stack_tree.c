/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of a process as a tree; see stack_tree.h.
 */
#include "host/stacks/stack_tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

uint32_t stack_tree_name(struct stack_tree *tree, const char *text)
{
	return interned_id(&tree->names, text, strlen(text));
}

uint32_t stack_tree_node(struct stack_tree *tree, uint32_t parent, uint32_t name)
{
	uint32_t hash = hash_word((uint64_t)parent << 32 | name), found;
	struct hash_walk walk = hash_map_walk(&tree->by_node, hash);

	while ((found = hash_map_next(&tree->by_node, &walk)))
		if (tree->nodes[found - 1].parent == parent && tree->nodes[found - 1].name == name)
			return found;
	if (!name ||
	    array_grow(&tree->nodes, &tree->capacity, tree->n + 1, sizeof(*tree->nodes)) < 0 ||
	    hash_map_add(&tree->by_node, hash, (uint32_t)tree->n + 1) < 0)
		return 0;
	tree->nodes[tree->n++] = (struct stack_node){ parent, name };
	return (uint32_t)tree->n;
}

void stack_tree_release(struct stack_tree *tree)
{
	hash_map_release(&tree->by_node);
	interned_release(&tree->names);
	free(tree->nodes);
}
