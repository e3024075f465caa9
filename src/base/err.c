/* SPDX-License-Identifier: Apache-2.0
 *
 * Building error sentences; no state, any thread.
 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	vsnprintf(err->message, sizeof(err->message), format, args);
	va_end(args);
	return code;
}

int err_sys(struct err *err, int code, const char *format, ...)
{
	va_list args;
	int n;

	if (!err)
		return code;
	va_start(args, format);
	n = vsnprintf(err->message, sizeof(err->message), format, args);
	va_end(args);
	if (n >= 0 && (size_t)n < sizeof(err->message))
		snprintf(err->message + n, sizeof(err->message) - (size_t)n, ": %s",
			 strerror(-code));
	return code;
}
