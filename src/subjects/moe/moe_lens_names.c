/* SPDX-License-Identifier: Apache-2.0
 *
 * What names of ranges, operations and kernels tell of a mixture of experts; see moe_lens.h. Which part
 * a range is stands in kernel_patterns.c. Pure, one thread. Each name is looked at once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/demangle.h"
#include "device/sheets/kernel_class.h"
#include "subjects/moe/moe_lens_inside.h"

/* Not a letter: names are written with dots, slashes, underscores and brackets. */
#define NO_LETTER "(^|[^a-zA-Z])"
#define NO_MORE "($|[^a-zA-Z])"

enum about { PASS, KERNEL_PASS, PRECISION, ALL_TO_ALL, MOE_KERNEL };

/* The first of a sort that matches counts. */
static const struct {
	enum about about;
	uint8_t value;
	bool cased;
	const char *pattern;
} words[] = {
	{ PASS, MOE_WEIGHT, true,
	  "\\(W\\)|[wW]grad|weight_?[gG]rad|WeightBackward|backward_dw|" NO_LETTER "dw" NO_MORE },
	{ PASS, MOE_BACKWARD, true,
	  "\\(B\\)|autograd::engine::|Backward[0-9]*$|[dD]grad|" NO_LETTER
	  "([bB]ackward|bwd)" NO_MORE },
	{ PASS, MOE_FORWARD, true, "\\(F\\)|" NO_LETTER "([fF]orward|fwd)" NO_MORE },
	{ KERNEL_PASS, MOE_WEIGHT, false, "wgrad" },
	{ KERNEL_PASS, MOE_BACKWARD, false, "bwd|backward|dgrad" },
	{ KERNEL_PASS, MOE_FORWARD, false, "fwd|forward" },
	{ PRECISION, 1, false, "fp4|e2m1|mxf4" },
	{ PRECISION, 2, false, "fp8|e4m3|e5m2|_f8" },
	{ PRECISION, 3, false, "bf16|bfloat16" },
	{ PRECISION, 4, false, "fp16|half|f16" },
	{ ALL_TO_ALL, 1, false, "all_?to_?all" },
	{ MOE_KERNEL, 1, false, NO_LETTER "moe" NO_MORE "|expert" },
};
#define N_WORDS (sizeof(words) / sizeof(words[0]))

const char *moe_precision_name(unsigned int precision)
{
	static const char *const names[MOE_PRECISIONS] = { NULL, "FP4", "FP8", "BF16", "FP16" };

	return names[precision];
}

/* `otherwise` when nothing of the sort matches. */
static uint8_t match(const struct moe_names *names, enum about about, const char *text,
		     uint8_t otherwise)
{
	for (size_t i = 0; i < N_WORDS; i++)
		if (words[i].about == about && !regexec(&names->regexes[i], text, 0, NULL, 0))
			return words[i].value;
	return otherwise;
}

/* The number in "layers.12.mlp" and "layer_12". */
static int32_t layer_in_path(const char *text)
{
	const char *at = strstr(text, "layer");
	char *end;
	long number;

	if (!at)
		return MOE_NO_LAYER;
	at += strlen("layer");
	at += *at == 's';
	if (!strchr("._ [/", *at) || at[1] < '0' || at[1] > '9')
		return MOE_NO_LAYER;
	number = strtol(at + 1, &end, 10);
	return number < 100000 ? (int32_t)number : MOE_NO_LAYER;
}

int moe_names_init(struct moe_names *names, const struct run *run,
		   const struct kernel_classes *classes)
{
	*names = (struct moe_names){ .run = run, .classes = classes };
	names->regexes = calloc(N_WORDS, sizeof(*names->regexes));
	for (size_t i = 0; names->regexes && i < N_WORDS; i++) {
		if (!regcomp(&names->regexes[i], words[i].pattern,
			     REG_EXTENDED | REG_NOSUB | (words[i].cased ? 0 : REG_ICASE)))
			continue;
		while (i-- > 0)
			regfree(&names->regexes[i]);
		free(names->regexes);
		names->regexes = NULL;
	}
	return names->regexes ? 0 : -ENOMEM;
}

void moe_names_release(struct moe_names *names)
{
	for (size_t i = 0; names->regexes && i < N_WORDS; i++)
		regfree(&names->regexes[i]);
	free(names->regexes);
	free(names->words);
	free(names->kernels);
}

static int look_at_word(const struct moe_names *names, const char *text, struct moe_word *ret_word)
{
	int rule = kernel_class_range(names->classes, text);
	bool certain;

	if (rule < 0 && rule != KERNEL_RANGE_NONE)
		return rule;
	*ret_word = (struct moe_word){
		.looked_at = 1,
		.part = (uint8_t)kernel_class_range_part(rule, &certain),
		.pass = match(names, PASS, text, MOE_PASSES),
		.all_to_all = match(names, ALL_TO_ALL, text, 0),
		.layer = layer_in_path(text),
	};
	ret_word->certain = certain;
	return 0;
}

/* Room for entry `i` of an array that begins as zeros. */
static int make_zeroed_room(void *array, size_t *capacity, size_t i, size_t size)
{
	size_t old = *capacity;
	char *grown;

	if (i < old)
		return 0;
	if (array_grow(array, capacity, i + 1, size) < 0)
		return -ENOMEM;
	memcpy(&grown, array, sizeof(grown));
	memset(grown + old * size, 0, (*capacity - old) * size);
	return 0;
}

int moe_names_word(struct moe_names *names, uint32_t string, struct moe_word *ret_word)
{
	int r = make_zeroed_room(&names->words, &names->words_capacity, string,
				 sizeof(*names->words));

	if (r < 0)
		return r;
	if (!names->words[string].looked_at)
		r = look_at_word(names, run_string(names->run, string), &names->words[string]);
	if (r < 0)
		return r;
	*ret_word = names->words[string];
	return 0;
}

/* decides: the class says more than a wider range around the kernel. */
static struct moe_kernel look_at_kernel(const struct moe_names *names, const char *text,
					const char *class)
{
	static const struct {
		const char *class;
		uint8_t part;
		bool decides, certain;
	} parts[] = {
		{ "attention", MOE_ATTENTION, true, false },
		{ "routing", MOE_ROUTER, true, false },
		{ "grouped_gemm", MOE_EXPERTS, false, true },
		{ "dispatch", MOE_DISPATCH, true, true },
		{ "combine", MOE_COMBINE, true, true },
		{ "notify", MOE_DISPATCH, true, true },
	};
	struct moe_kernel kernel = { .looked_at = 1, .part = MOE_PARTS };

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (strcmp(parts[i].class, class) != 0)
			continue;
		kernel.part = parts[i].part;
		kernel.decides = parts[i].decides;
		kernel.certain = parts[i].certain;
	}
	kernel.moves = kernel_class_communicates(class);
	kernel.expert = kernel.moves && kernel.certain;
	kernel.notify = !strcmp(class, "notify");
	if (kernel.notify && strcasestr(text, "combine"))
		kernel.part = MOE_COMBINE;
	kernel.product = !strcmp(class, "gemm") || !strcmp(class, "grouped_gemm");
	if (kernel.part == MOE_PARTS && !kernel.moves && match(names, MOE_KERNEL, text, 0)) {
		kernel.part = MOE_EXPERTS;
		kernel.certain = true;
	}
	kernel.all_to_all = kernel.moves && match(names, ALL_TO_ALL, text, 0);
	kernel.pass = match(names, KERNEL_PASS, text, MOE_PASSES);
	kernel.precision = match(names, PRECISION, text, 0);
	return kernel;
}

int moe_names_kernel(struct moe_names *names, uint32_t launch, struct moe_kernel *ret_kernel)
{
	const char *class;
	char *text = NULL;
	int r = make_zeroed_room(&names->kernels, &names->kernels_capacity, launch,
				 sizeof(*names->kernels));

	if (r < 0)
		return r;
	if (!names->kernels[launch].looked_at) {
		r = demangled(run_string(names->run, run_launch(names->run, launch).name), &text);
		if (r < 0)
			return r;
		class = kernel_class_of(names->classes, text);
		if (class)
			names->kernels[launch] = look_at_kernel(names, text, class);
		free(text);
		if (!class)
			return -ENOMEM;
	}
	*ret_kernel = names->kernels[launch];
	return 0;
}
