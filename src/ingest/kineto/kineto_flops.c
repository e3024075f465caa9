/* SPDX-License-Identifier: Apache-2.0
 *
 * Floating-point operations of PyTorch's operators, from the shapes of their inputs: matrix products,
 * convolutions and attention, as torch.utils.flop_counter has them. A multiplication with its addition
 * counts as two; attention counts the whole square, also where a mask leaves out half of it.
 *
 * Where a convolution has groups, its gradient counts the products within them only, unlike there.
 *
 * Operators call each other, and several of a chain may be in the table: nest.c lets the innermost
 * count. Shapes that do not fit, or do not say it all (sequences of different lengths in one tensor),
 * leave it unknown.
 */
#include "ingest/kineto/kineto_inside.h"

#include <string.h>

#define INPUTS 11 /* that formulas look at */
#define DIMS 8

struct shape {
	int n; /* below 0: no tensor with such a shape */
	uint64_t d[DIMS];
};

struct inputs {
	struct shape of[INPUTS];
	size_t n;
	struct extent concrete; /* at NULL: not told */
};

typedef bool (*formula)(const struct inputs *in, size_t first, uint64_t *ret_flops);

static bool times(uint64_t *product, uint64_t factor)
{
	return !__builtin_mul_overflow(*product, factor, product);
}

static bool all_of(const struct shape *shape, int from, uint64_t *product)
{
	for (int i = from; i < shape->n; i++)
		if (!times(product, shape->d[i]))
			return false;
	return true;
}

static bool is_tensor(const struct inputs *in, size_t i, int n)
{
	return i < in->n && in->of[i].n == n;
}

/* [..., m, k] by [..., k, n] */
static bool product(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	const struct shape *a = &in->of[first], *b = a + 1;

	*ret_flops = 2;
	return first + 1 < in->n && (a->n == 2 || a->n == 3) && a->n == b->n &&
	       a->d[a->n - 1] == b->d[b->n - 2] && (a->n == 2 || a->d[0] == b->d[0]) &&
	       all_of(a, 0, ret_flops) && times(ret_flops, b->d[b->n - 1]);
}

/* [m, k] by [k] */
static bool vector(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	*ret_flops = 2;
	return is_tensor(in, first, 2) && is_tensor(in, first + 1, 1) &&
	       in->of[first].d[1] == in->of[first + 1].d[0] && all_of(&in->of[first], 0, ret_flops);
}

/* [..., k] by [n, k], transposed */
static bool linear(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	const struct shape *a = &in->of[first];

	*ret_flops = 2;
	return is_tensor(in, first + 1, 2) && a->n >= 1 && a->d[a->n - 1] == a[1].d[1] &&
	       all_of(a, 0, ret_flops) && times(ret_flops, a[1].d[0]);
}

/* Groups of rows, of columns or of the inner dimension, by their ends: each row meets one matrix. */
static bool grouped(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	const struct shape *a = &in->of[first], *b = a + 1;

	*ret_flops = 2;
	return first + 1 < in->n && (a->n == 2 || a->n == 3) && (b->n == 2 || b->n == 3) &&
	       a->d[a->n - 1] == b->d[b->n - 2] && all_of(a, a->n == 3 && b->n == 2, ret_flops) &&
	       times(ret_flops, b->d[b->n - 1]);
}

/* heads: the dimension of them; the other of 1 and 2 is that of the tokens. */
static bool attention(const struct inputs *in, size_t first, int heads, uint64_t of_key,
		      uint64_t of_value, uint64_t *ret_flops)
{
	const struct shape *q = &in->of[first], *k = q + 1, *v = q + 2;
	int tokens = 3 - heads;
	uint64_t width;

	if (!is_tensor(in, first, 4) || !is_tensor(in, first + 1, 4) ||
	    !is_tensor(in, first + 2, 4) || q->d[0] != k->d[0] || q->d[3] != k->d[3] ||
	    k->d[tokens] != v->d[tokens] || q->d[3] > UINT32_MAX || v->d[3] > UINT32_MAX)
		return false;
	width = of_key * q->d[3] + of_value * v->d[3];
	*ret_flops = 2;
	return times(ret_flops, q->d[0]) && times(ret_flops, q->d[heads]) &&
	       times(ret_flops, q->d[tokens]) && times(ret_flops, k->d[tokens]) &&
	       times(ret_flops, width);
}

/* Scores and their sum of values. */
static bool attention_heads_first(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	return attention(in, first, 1, 1, 1, ret_flops);
}

/* Inputs behind the value say where sequences of different lengths begin. */
static bool packed(const struct inputs *in, size_t from, size_t to)
{
	for (size_t i = from; i < to && i < in->n; i++)
		if (in->of[i].n)
			return true;
	return false;
}

static bool attention_tokens_first(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	return !packed(in, first + 3, first + 6) && attention(in, first, 2, 1, 1, ret_flops);
}

static bool attention_heads_unpacked(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	return !packed(in, first + 4, first + 6) && attention(in, first, 1, 1, 1, ret_flops);
}

/* The scores once more, and the gradients of scores, values, queries and keys. */
static bool attention_back_heads_first(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	return attention(in, first, 1, 3, 2, ret_flops);
}

static bool attention_back_tokens_first(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	return attention(in, first, 2, 3, 2, ret_flops);
}

/* The i-th of the concrete inputs, as its text stands in the file, without quotes. */
static struct extent concrete(const struct inputs *in, size_t i)
{
	struct extent none = { NULL, NULL };
	const char *p = in->concrete.at, *end = in->concrete.end;

	if (!p || *p != '[')
		return none;
	for (p = skip_blanks(p + 1); p < end && *p == '"'; p = skip_blanks(p)) {
		const char *close = memchr(p + 1, '"', (size_t)(end - p - 1));

		if (!close)
			return none;
		if (!i--)
			return (struct extent){ p + 1, close };
		p = skip_blanks(close + 1);
		if (*p != ',')
			return none;
		p++;
	}
	return none;
}

/* A list of numbers, such as [1, 1]; one number counts for all n. */
static bool numbers(struct extent text, int n, uint64_t *ret)
{
	const char *p = text.at;
	int got = 0;

	if (!p || *p != '[')
		return false;
	for (p++; p < text.end && got < n; p++) {
		if (*p < '0' || *p > '9')
			continue;
		for (ret[got] = 0; p < text.end && *p >= '0' && *p <= '9' && ret[got] < UINT32_MAX;
		     p++)
			ret[got] = ret[got] * 10 + (uint64_t)(*p - '0');
		got++;
	}
	for (int i = got; got == 1 && i < n; i++)
		ret[i] = ret[0];
	return got == 1 || got == n;
}

static bool is_word(struct extent text, const char *word)
{
	return text.at && (size_t)(text.end - text.at) == strlen(word) &&
	       !memcmp(text.at, word, strlen(word));
}

/* Of each place of the side that the filter visits, all of the filter. */
static bool convolved(const struct shape *x, const struct shape *w, const uint64_t *places,
		      uint64_t *ret_flops)
{
	*ret_flops = 2;
	if (!times(ret_flops, x->d[0]) || !all_of(w, 0, ret_flops))
		return false;
	for (int i = 0; i < w->n - 2; i++)
		if (!times(ret_flops, places[i]))
			return false;
	return true;
}

static bool convolution_of(const struct inputs *in, size_t stride_at, size_t padding_at,
			   size_t dilation_at, bool transposed, uint64_t *ret_flops)
{
	const struct shape *x = &in->of[0], *w = &in->of[1];
	uint64_t stride[DIMS], padding[DIMS], dilation[DIMS], places[DIMS];
	int n = w->n - 2;

	if (in->n < 2 || n < 1 || x->n != w->n)
		return false;
	if (transposed)
		return convolved(x, w, x->d + 2, ret_flops);
	if (!numbers(concrete(in, stride_at), n, stride) ||
	    !numbers(concrete(in, padding_at), n, padding) ||
	    !numbers(concrete(in, dilation_at), n, dilation))
		return false;
	for (int i = 0; i < n; i++) {
		uint64_t most = x->d[i + 2] + 2 * padding[i];
		uint64_t filter = w->d[i + 2] ? dilation[i] * (w->d[i + 2] - 1) + 1 : 0;

		if (!stride[i] || !filter || x->d[i + 2] > UINT32_MAX || w->d[i + 2] > UINT16_MAX ||
		    filter > most)
			return false;
		places[i] = (most - filter) / stride[i] + 1;
	}
	return convolved(x, w, places, ret_flops);
}

/* (input, weight, bias, stride, padding, dilation, transposed, ...) */
static bool convolution(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	struct extent transposed = concrete(in, first + 6);

	return (is_word(transposed, "True") || is_word(transposed, "False")) &&
	       convolution_of(in, first + 3, first + 4, first + 5, is_word(transposed, "True"),
			      ret_flops);
}

/* (input, weight, padding, stride, dilation, ...) of a library */
static bool convolution_library(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	return convolution_of(in, first + 1, first, first + 2, false, ret_flops);
}

/* (gradient, input, weight, bias sizes, stride, padding, dilation, transposed, output padding, groups,
 * mask): as much as forwards for each of the gradients of input and weight that is asked for. */
static bool convolution_back(const struct inputs *in, size_t first, uint64_t *ret_flops)
{
	struct extent transposed = concrete(in, first + 7), mask = concrete(in, first + 10);
	const struct shape *gradient = &in->of[0], *x = &in->of[1], *w = &in->of[2];
	uint64_t asked = 0;

	if (in->n < 3 || w->n < 3 || x->n != w->n || gradient->n != w->n || !mask.at ||
	    *mask.at != '[' || !(is_word(transposed, "True") || is_word(transposed, "False")))
		return false;
	for (const char *p = mask.at + 1; p < mask.end && *p != ']'; p++) {
		asked += *p == 'T';
		if (*p == ',' && memchr(mask.at, ',', (size_t)(p - mask.at)))
			break; /* the third is the bias */
	}
	return convolved(x, w, is_word(transposed, "True") ? x->d + 2 : gradient->d + 2,
			 ret_flops) &&
	       times(ret_flops, asked);
}

static const struct {
	const char *name;
	formula formula;
	uint8_t first; /* of the inputs that the formula is about */
} operators[] = {
	{ "aten::mm", product, 0 },
	{ "aten::addmm", product, 1 },
	{ "aten::addmm_", product, 1 },
	{ "aten::_addmm_activation", product, 1 },
	{ "aten::bmm", product, 0 },
	{ "aten::baddbmm", product, 1 },
	{ "aten::baddbmm_", product, 1 },
	{ "aten::addbmm", product, 1 },
	{ "aten::addbmm_", product, 1 },
	{ "aten::_scaled_mm", product, 0 },
	{ "aten::mv", vector, 0 },
	{ "aten::addmv", vector, 1 },
	{ "aten::addmv_", vector, 1 },
	{ "aten::linear", linear, 0 },
	{ "aten::_grouped_mm", grouped, 0 },
	{ "aten::_scaled_grouped_mm", grouped, 0 },
	{ "aten::_scaled_dot_product_flash_attention", attention_heads_first, 0 },
	{ "aten::_scaled_dot_product_flash_attention_for_cpu", attention_heads_first, 0 },
	{ "aten::_scaled_dot_product_efficient_attention", attention_heads_first, 0 },
	{ "aten::_scaled_dot_product_cudnn_attention", attention_heads_first, 0 },
	{ "aten::_scaled_dot_product_fused_attention_overrideable", attention_heads_first, 0 },
	{ "aten::_flash_attention_forward", attention_tokens_first, 0 },
	{ "aten::_efficient_attention_forward", attention_tokens_first, 0 },
	{ "aten::_cudnn_attention_forward", attention_heads_unpacked, 0 },
	{ "flash_attn::_flash_attn_forward", attention_tokens_first, 0 },
	{ "aten::_scaled_dot_product_flash_attention_backward", attention_back_heads_first, 1 },
	{ "aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_back_heads_first,
	  1 },
	{ "aten::_scaled_dot_product_efficient_attention_backward", attention_back_heads_first, 1 },
	{ "aten::_scaled_dot_product_cudnn_attention_backward", attention_back_heads_first, 1 },
	{ "aten::_scaled_dot_product_fused_attention_overrideable_backward",
	  attention_back_heads_first, 1 },
	{ "aten::_flash_attention_backward", attention_back_tokens_first, 1 },
	{ "aten::_efficient_attention_backward", attention_back_tokens_first, 1 },
	{ "aten::_cudnn_attention_backward", attention_back_heads_first, 1 },
	{ "flash_attn::_flash_attn_backward", attention_back_tokens_first, 1 },
	{ "aten::convolution", convolution, 0 },
	{ "aten::_convolution", convolution, 0 },
	{ "aten::cudnn_convolution", convolution_library, 2 },
	{ "aten::miopen_convolution", convolution_library, 3 },
	{ "aten::mkldnn_convolution", convolution_library, 3 },
	{ "aten::convolution_backward", convolution_back, 0 },
};

#define N_OPERATORS (sizeof(operators) / sizeof(operators[0]))

uint8_t flops_operator(const char *name, size_t length)
{
	_Static_assert(N_OPERATORS < UINT8_MAX, "a number of 8 bits");

	for (size_t i = 0; i < N_OPERATORS; i++)
		if (strlen(operators[i].name) == length && !memcmp(operators[i].name, name, length))
			return (uint8_t)(i + 1);
	return 0;
}

/* p: at the bracket of a list of numbers. NULL: it is something else, and is skipped by the caller. */
static const char *read_shape(const char *p, const char *end, struct shape *ret_shape)
{
	struct shape shape = { 0 };

	p = skip_blanks(p + 1);
	while (p < end && *p >= '0' && *p <= '9' && shape.n < DIMS) {
		uint64_t *d = &shape.d[shape.n++];

		for (*d = 0; *p >= '0' && *p <= '9'; p++)
			if (__builtin_mul_overflow(*d, 10, d) ||
			    __builtin_add_overflow(*d, (uint64_t)(*p - '0'), d))
				return NULL;
		p = skip_blanks(p);
		if (*p == ',')
			p = skip_blanks(p + 1);
	}
	if (p >= end || *p != ']')
		return NULL;
	*ret_shape = shape;
	return p + 1;
}

/* [[1024, 8192], [], [[3], [4]]]: a list of tensors has no shape. */
static bool read_inputs(struct reader *r, struct extent dims, struct inputs *in)
{
	const char *p = dims.at;

	if (*p != '[')
		return false;
	p = skip_blanks(p + 1);
	while (p < dims.end && *p != ']' && in->n < INPUTS) {
		struct shape *shape = &in->of[in->n++];
		const char *next = *p == '[' ? read_shape(p, dims.end, shape) : NULL;

		if (!next) {
			shape->n = -1;
			next = value_skip(r, p);
		}
		if (!next)
			return false;
		p = skip_blanks(next);
		if (*p == ',')
			p = skip_blanks(p + 1);
	}
	return true;
}

bool flops_of(struct reader *r, uint8_t arithmetic, const struct args *args, uint64_t *ret_flops)
{
	struct inputs in = { .n = 0 };
	uint64_t flops;

	if (!arithmetic || !args->dims.at || !args->dims.end)
		return false;
	in.concrete = args->concrete;
	if (!read_inputs(r, args->dims, &in) ||
	    !operators[arithmetic - 1].formula(&in, operators[arithmetic - 1].first, &flops))
		return false;
	*ret_flops = flops;
	return true;
}

void flops_elements(struct reader *r, struct extent dims, uint64_t *ret_elements)
{
	struct inputs in = { .n = 0 };
	uint64_t elements = 1;

	if (dims.end && read_inputs(r, dims, &in) && in.n && in.of[0].n > 0 &&
	    all_of(&in.of[0], 0, &elements))
		*ret_elements = elements;
}
