/* SPDX-License-Identifier: Apache-2.0
 *
 * Short kernel names; see kernel_name.h.
 */
#include "device/sheets/kernel_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ANONYMOUS "(anonymous namespace)::"
#define UNNAMED "<unnamed>::" /* the same in exports of Nsight */

/* A piece of a name: [at, end). */
struct piece {
	const char *at, *end;
};

/* Past the bracket that closes the one at the beginning, or at the end of a name that was cut. What
 * is in round brackets may compare: "<(a>b), c>". */
static const char *past_bracket(struct piece text, char open, char close)
{
	int depth = 0;

	while (text.at < text.end) {
		char c = *text.at;

		if (c == '(' && open != '(') {
			text.at = past_bracket(text, '(', ')');
			continue;
		}
		text.at++;
		if (c == open)
			depth++;
		else if (c == close && --depth == 0)
			break;
	}
	return text.at;
}

static bool starts_with(struct piece text, const char *start)
{
	size_t length = strlen(start);

	return (size_t)(text.end - text.at) >= length && !memcmp(text.at, start, length);
}

static bool ends_with(const char *text, size_t n, const char *end)
{
	size_t length = strlen(end);

	return n >= length && !memcmp(text + n - length, end, length);
}

/* Kernels that only run what a template argument says, and which one: the number, or the first that
 * is a type. */
#define FIRST_TYPE (-1)
static const struct {
	const char *name;
	int argument;
} wrappers[] = {
	{ "cutlass::device_kernel", FIRST_TYPE },
	{ "cutlass::Kernel", FIRST_TYPE },
	{ "cutlass::Kernel2", FIRST_TYPE },
	{ "enable_3x_kernel_for_sm9x", FIRST_TYPE },
	{ "enable_3x_kernel_for_sm10", FIRST_TYPE },
	{ "enable_sm80_to_sm89", FIRST_TYPE },
	{ "enable_sm90", FIRST_TYPE },
	{ "enable_sm90_only", FIRST_TYPE },
	{ "enable_sm90_or_later", FIRST_TYPE },
	{ "enable_sm100_only", FIRST_TYPE },
	{ "ck_tile::kentry", FIRST_TYPE },
	{ "elementwise_kernel", FIRST_TYPE },
	{ "elementwise_kernel_manual_unroll", FIRST_TYPE },
	{ "elementwise_kernel_with_index", 1 },
	{ "unrolled_elementwise_kernel", FIRST_TYPE },
	{ "unrolled_elementwise_kernel_for_multi_outputs", FIRST_TYPE },
	{ "vectorized_elementwise_kernel", FIRST_TYPE },
	{ "vectorized_templated_elementwise_kernel", FIRST_TYPE },
	{ "gpu_kernel_impl", FIRST_TYPE },
	{ "gpu_kernel_impl_nocast", FIRST_TYPE },
	{ "AUnaryFunctor", 3 },
	{ "BUnaryFunctor", 3 },
	{ "BinaryFunctor", 3 },
	{ "multi_tensor_apply_kernel", 1 },
	{ "native::reduce_kernel", FIRST_TYPE },
	{ "native::ReduceOp", 1 },
	{ "func_wrapper_t", 1 },
	{ "_kernel_agent", FIRST_TYPE },
};

static bool is_wrapper(const char *function, size_t n, int *ret_argument)
{
	for (size_t i = 0; i < sizeof(wrappers) / sizeof(wrappers[0]); i++) {
		size_t length = strlen(wrappers[i].name);

		if (ends_with(function, n, wrappers[i].name) &&
		    (n == length || function[n - length - 1] == ':')) {
			*ret_argument = wrappers[i].argument;
			return true;
		}
	}
	return false;
}

/* "16", "(cuda::Kind)1", "-1" */
static bool is_literal(struct piece text)
{
	return text.at == text.end || strchr("0123456789-", *text.at) ||
	       (*text.at == '(' && !starts_with(text, ANONYMOUS));
}

/* The argument of "<a, b<c>, d>"; empty: there is none. Some write ';' for ','. */
static struct piece argument_of(struct piece arguments, int number)
{
	struct piece text = { arguments.at + 1, arguments.end };

	for (int i = 0; text.at < text.end; i++) {
		struct piece one;

		while (text.at < text.end && *text.at == ' ')
			text.at++;
		one = (struct piece){ text.at, text.at };
		while (one.end < text.end && !strchr(",;>", *one.end)) {
			struct piece rest = { one.end, text.end };

			one.end = *one.end == '<'   ? past_bracket(rest, '<', '>')
				  : *one.end == '(' ? past_bracket(rest, '(', ')')
				  : *one.end == '{' ? past_bracket(rest, '{', '}')
				  : *one.end == '[' ? past_bracket(rest, '[', ']')
						    : one.end + 1;
		}
		if (number == FIRST_TYPE ? !is_literal(one) : i == number) {
			while (one.end > one.at && one.end[-1] == ' ')
				one.end--;
			return one;
		}
		if (one.end == text.end || *one.end == '>')
			break;
		text.at = one.end + 1;
	}
	return (struct piece){ arguments.end, arguments.end };
}

/* The function of a demangled name into `out`; its template arguments, empty without any. */
static size_t function_of(struct piece name, char *out, struct piece *ret_arguments)
{
	const char *at = name.at, *end;
	size_t n = 0;

	*ret_arguments = (struct piece){ name.end, name.end };
	while (at < name.end) {
		struct piece rest = { at, name.end };

		if (starts_with(rest, ANONYMOUS)) {
			at += strlen(ANONYMOUS);
		} else if (starts_with(rest, UNNAMED)) {
			at += strlen(UNNAMED);
		} else if (starts_with(rest, "()") && ends_with(out, n, "operator")) {
			out[n++] = *at++;
			out[n++] = *at++;
		} else if (*at == '(') {
			break;
		} else if (*at == '<') {
			*ret_arguments = (struct piece){ at, past_bracket(rest, '<', '>') };
			at = ret_arguments->end;
		} else if (*at == '{' || *at == '[') {
			end = *at == '{' ? past_bracket(rest, '{', '}')
					 : past_bracket(rest, '[', ']');
			memcpy(out + n, at, (size_t)(end - at));
			n += (size_t)(end - at);
			at = end;
		} else if (starts_with(rest, " ()") && ends_with(out, n, "operator")) {
			at++;
		} else if (*at == ' ') {
			n = 0; /* what came before was the return type */
			at++;
		} else {
			/* The arguments were those of a class around the function. */
			*ret_arguments = (struct piece){ name.end, name.end };
			out[n++] = *at++;
		}
	}
	return n;
}

/* "7cutlass13device_kernel" is cutlass::device_kernel. */
static size_t mangled_path(struct piece *name, char *out)
{
	size_t n = 0;

	while (name->at < name->end && *name->at >= '1' && *name->at <= '9') {
		char *part;
		unsigned long length = strtoul(name->at, &part, 10);

		if (length > (size_t)(name->end - part))
			return 0;
		if (strncmp(part, "_GLOBAL__N", strlen("_GLOBAL__N")) != 0) {
			if (n) {
				memcpy(out + n, "::", 2);
				n += 2;
			}
			memcpy(out + n, part, length);
			n += length;
		}
		name->at = part + length;
	}
	return n;
}

static const char *past(struct piece name, char letter)
{
	const char *found = memchr(name.at, letter, (size_t)(name.end - name.at));

	return found ? found + 1 : name.at;
}

/* Of a name that nobody could demangle (C++ runtimes give up on the longest ones) the function with
 * its namespaces, which come first. 0: it is no such name. Arguments are followed as far as they are
 * plain: numbers "Li4E", and names that begin with one of before, "NS_4gemm6kernel…": "S_" is the
 * outermost namespace of the function. */
static size_t mangled_function(struct piece name, char *out)
{
	struct piece root;
	size_t n, inner, before;
	int argument;

	if (!starts_with(name, "_Z"))
		return 0;
	name.at += 2;
	name.at += starts_with(name, "N");
	root.at = name.at + strspn(name.at, "0123456789");
	n = mangled_path(&name, out);
	out[n] = '\0';
	root.end = root.at + strcspn(out, ":");
	if (strncmp(out, root.at, (size_t)(root.end - root.at)) != 0)
		root.end = root.at; /* an unnamed one */
	while (n && starts_with(name, "I") && is_wrapper(out, n, &argument) &&
	       argument == FIRST_TYPE) {
		name.at++;
		while (starts_with(name, "L") && past(name, 'E') > name.at)
			name.at = past(name, 'E');
		name.at += starts_with(name, "N");
		before = 0;
		if (starts_with(name, "S_") && root.end > root.at) {
			before = (size_t)(root.end - root.at);
			memcpy(out + n, root.at, before);
			memcpy(out + n + before, "::", 2);
			before += 2;
		}
		if (starts_with(name, "S"))
			name.at = past(name, '_');
		inner = mangled_path(&name, out + n + before);
		if (!inner)
			break;
		memmove(out, out + n, before + inner);
		n = before + inner;
	}
	return n;
}

int kernel_short_name(const char *name, char **ret_short)
{
	/* "1a1b1c" becomes a::b::c; room for a wrapper and what it runs. */
	char *out = malloc(4 * strlen(name) + 2);
	struct piece text = { name, name + strlen(name) }, arguments;
	int argument, depth = 0;
	size_t n;

	if (!out)
		return -ENOMEM;
	n = mangled_function(text, out);
	if (!n) {
		n = function_of(text, out, &arguments);
		while (n && depth++ < 8 && is_wrapper(out, n, &argument)) {
			char *inner = out + n;
			struct piece what = argument_of(arguments, argument);
			size_t length = function_of(what, inner, &arguments);

			if (!length)
				break;
			memmove(out, inner, length);
			n = length;
		}
	}
	if (n)
		out[n] = '\0';
	else
		strcpy(out, name);
	*ret_short = out;
	return 0;
}
