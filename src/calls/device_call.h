/* SPDX-License-Identifier: Apache-2.0
 *
 * The body of a wrapper of a library that works on the device. The types of the library's own headers are numbers and
 * addresses here: a build needs none of them.
 */
#ifndef CALLS_DEVICE_CALL_H
#define CALLS_DEVICE_CALL_H

#include "calls/loaded.h"
#include "calls/wrapped.h"

/* What a library calls the types of its numbers. */
struct number_type {
	int number;
	const char *text;
	moescope_name name; /* of the text, once it is interned */
};

static inline void types_register(struct number_type *types, size_t n)
{
	for (size_t i = 0; i < n; i++)
		types[i].name = moescope_intern(types[i].text);
}

static inline moescope_name type_name(const struct number_type *types, size_t n, int number)
{
	for (size_t i = 0; i < n; i++)
		if (types[i].number == number)
			return types[i].name;
	return 0;
}

/* These are not called where a thread must not allocate. */
static inline uint64_t device_call_begin(void)
{
	if (!moescope_gate_open())
		return 0;
	moescope_calls_thread();
	return moescope_calls_begin();
}

/* The sizes are made after the call and only if it is recorded. */
#define DEVICE_CALL(name, find, missing, parameters, arguments, ...)                               \
	EXPORT int name parameters;                                                                \
	EXPORT int name parameters                                                                 \
	{                                                                                          \
		int(*real) parameters = wrapped_real(&wrapped[WRAPPED_##name], find);              \
		uint64_t start;                                                                    \
		int result;                                                                        \
                                                                                                   \
		if (!real)                                                                         \
			return missing;                                                            \
		start = device_call_begin();                                                       \
		result = real arguments;                                                           \
		if (start) {                                                                       \
			struct call_sizes sizes = { .status = (uint32_t)result, __VA_ARGS__ };     \
                                                                                                   \
			moescope_calls_end(wrapped[WRAPPED_##name].function, start, &sizes);       \
		}                                                                                  \
		return result;                                                                     \
	}

#endif
