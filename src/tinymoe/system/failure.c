/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats the sentence of a failure. Any thread; no state.
 */
#include "tinymoe/system/failure.h"

#include <stdarg.h>
#include <stdio.h>

int failure_set(struct failure *failure, int error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(failure->text, sizeof(failure->text), format, args);
	va_end(args);
	return -error;
}
