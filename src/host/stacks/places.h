/* SPDX-License-Identifier: Apache-2.0
 *
 * Native functions by address, remembered: a program is in the same places again and again. One thread.
 */
#ifndef HOST_STACKS_PLACES_H
#define HOST_STACKS_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/hash_map.h"
#include "host/stacks/joined_stack.h"
#include "host/stacks/stack_tree.h"

struct place {
	uint64_t ip;
	struct join_native function;
	int64_t until_ns; /* ask again then; 0: never */
};

struct places {
	struct symbols *symbols;   /* NULL: no memory */
	struct unwinder *unwinder; /* NULL: none is to be had */
	struct place *known;
	size_t n, capacity;
	struct hash_map by_ip;
};

void places_open(struct places *places, pid_t pid);
void places_close(struct places *places);
/* With its name in the tree. sure: there is code for certain, perhaps of a library that has just come. */
struct join_native places_find(struct places *places, struct stack_tree *tree, uint64_t ip,
			       bool sure);

#endif
