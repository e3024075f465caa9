/* SPDX-License-Identifier: Apache-2.0
 *
 * Native functions by address; see places.h.
 */
#include "host/stacks/places.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "host/stacks/symbols.h"
#include "host/stacks/unwind.h"

#define PLACES_MOST 65536 /* then it begins again: libraries come and go */
#define UNKNOWN_NS INT64_C(1000000000)
#define UNKNOWN_SURE_NS (UNKNOWN_NS / 100)

void places_open(struct places *p, pid_t pid)
{
	*p = (struct places){ .symbols = symbols_open(pid) };
	p->unwinder = unwinder_open(pid, p->symbols);
}

void places_close(struct places *p)
{
	unwinder_close(p->unwinder);
	symbols_close(p->symbols);
	hash_map_release(&p->by_ip);
	free(p->known);
	*p = (struct places){ 0 };
}

struct join_native places_find(struct places *p, struct stack_tree *tree, uint64_t ip, bool sure)
{
	uint32_t hash = hash_word(ip), found;
	struct hash_walk walk = hash_map_walk(&p->by_ip, hash);
	struct place new = { .ip = ip }, *place = NULL;
	const char *label = "[unknown]";

	while ((found = hash_map_next(&p->by_ip, &walk)))
		if (p->known[found - 1].ip == ip) {
			if (!p->known[found - 1].until_ns ||
			    p->known[found - 1].until_ns > clock_monotonic_ns())
				return p->known[found - 1].function;
			place = &p->known[found - 1];
		}
	if (p->symbols)
		label = symbols_name(p->symbols, ip);
	if (p->symbols && sure && label[0] == '[') {
		symbols_refresh(p->symbols);
		label = symbols_name(p->symbols, ip);
	}
	new.function = (struct join_native){ stack_tree_name(tree, label), join_kind_of(label) };
	/* Chains without frame pointers have many addresses that are none; yet a map may come. */
	if (label[0] == '[')
		new.until_ns = clock_monotonic_ns() + (sure ? UNKNOWN_SURE_NS : UNKNOWN_NS);
	if (place) {
		*place = new;
		return new.function;
	}
	if (p->n == PLACES_MOST) {
		hash_map_release(&p->by_ip);
		p->n = 0;
	}
	/* Without memory it is asked for again. */
	if (array_grow(&p->known, &p->capacity, p->n + 1, sizeof(new)) == 0 &&
	    hash_map_add(&p->by_ip, hash, (uint32_t)p->n + 1) == 0)
		p->known[p->n++] = new;
	return new.function;
}
