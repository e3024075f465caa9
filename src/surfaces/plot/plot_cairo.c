/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening cairo; see plot_cairo.h.
 */
#include "surfaces/plot/plot_cairo.h"

#include "base/dynlib.h"

const struct cairo_calls *cairo_open(void)
{
	static const char *const names[] = { "libcairo.so.2", NULL };
	static struct cairo_calls calls;
	static enum { UNTRIED, OPEN, MISSING } state;
	const struct dynlib_symbol symbols[] = {
#define CALL(name) { "cairo_" #name, &calls.name },
		CAIRO_CALLS(CALL)
#undef CALL
	};

	if (state == UNTRIED) {
		void *library = dynlib_open(names, "MOESCOPE_CAIRO");
		size_t n = sizeof(symbols) / sizeof(symbols[0]);

		state = library && dynlib_symbols(library, symbols, n) == 0 ? OPEN : MISSING;
	}
	return state == OPEN ? &calls : NULL;
}
