/* SPDX-License-Identifier: Apache-2.0
 *
 * An example of a command, for its help and its manual.
 */
#ifndef BASE_EXAMPLE_H
#define BASE_EXAMPLE_H

struct example {
	const char *line; /* what one types; NULL ends a list */
	const char *what; /* one sentence: what one gets */
};

#endif
