/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of kernels; see kernel_class.h.
 *
 * The order carries the meaning: names of templates hold the names of everything they are made
 * of, so the telling words come before the common ones. Patterns avoid "::", so that they hold
 * for mangled names too.
 */
#include "analyze/kernel_class.h"

#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static const struct {
	const char *class, *pattern;
} builtin[] = {
	{ "collective", "nccl|rccl|nvshmem|deep_ep|::ep::|[0-9]ep[0-9](internode|intranode|"
			"cuda)|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|"
			"cross_device_reduce" },
	{ "attention", "flash|fmha|sdpa|attention|attn|mha_|compute_dot_do_o|convert_dq_to" },
	{ "routing", "top_?k|moe_align|expert_sort|sort_?expert|moe_?gating|router|routing" },
	{ "grouped_gemm", "group_?problem_?shape|group(ed)?_?(gemm|mm)|fused_moe|moe_?gemm|"
			  "moe_?fc|ptr_array_tma" },
	/* Not the library fbgemm, most of which is embeddings. Convolutions are matrix products. */
	{ "gemm", "(^|[^b])gemm|(^|[^f])bgemm|gemv|nvjet|cutlass|cublas|xmma|splitk|matmul|"
		  "scudnn|convolve|winograd|[wd]grad_(alg|engine)" },
	{ "normalisation", "layer_?norm|rms_?norm|group_?norm|batch_?norm|bn_(fw|bw)|soft_?max" },
	{ "routing", "sort|histogram|bincount" },
	{ "reduction", "device_?scan|_scan_|cumsum|nll_loss|cross_entropy" },
	{ "copy", "copy_kern|cat_?array|memcpy" },
	{ "elementwise", "elementwise_kernel_with_index" },
	{ "permute", "permut|transpose|scatter|gather|index|embedding|shuffle" },
	{ "reduction", "reduc|argmax|argmin|triton_(red|per)_" },
	{ "elementwise",
	  "elementwise|pointwise|multi_tensor|triton_poi_|act_and_mul|silu|gelu|relu|"
	  "rotary|rope_|_rope|adam|dropout|fill|arange|distribution" },
	{ "copy", "copy" },
	{ "other", ".*" },
};

struct rule {
	const char *class;
	char *owned; /* a class of the file; NULL: `class` is in `builtin` or of an earlier rule */
	bool compiled;
	regex_t regex;
};

struct kernel_classes {
	struct rule *rules;
	size_t n, capacity;
};

/* Rules of one class share its text, so that classes can be told apart by their address. */
static const char *known_class(const struct kernel_classes *classes, const char *class)
{
	for (size_t i = 0; i < classes->n; i++)
		if (!strcmp(classes->rules[i].class, class))
			return classes->rules[i].class;
	return NULL;
}

/* The message of regcomp in `message`; 0, -ENOMEM or -EINVAL. */
static int add_rule(struct kernel_classes *classes, const char *class, const char *pattern,
		    bool copied, char *message, size_t size)
{
	const char *known = known_class(classes, class);
	struct rule *rule;
	int code;

	if (array_grow(&classes->rules, &classes->capacity, classes->n + 1, sizeof(*rule)) < 0)
		return -ENOMEM;
	rule = &classes->rules[classes->n];
	*rule = (struct rule){ .class = known ? known : class };
	if (!known && copied) {
		rule->owned = strdup(class);
		if (!rule->owned)
			return -ENOMEM;
		rule->class = rule->owned;
	}
	classes->n++;
	code = regcomp(&rule->regex, pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
	if (code == REG_ESPACE)
		return -ENOMEM;
	if (code) {
		regerror(code, NULL, message, size);
		return -EINVAL;
	}
	rule->compiled = true;
	return 0;
}

static int add_line(struct kernel_classes *classes, char *line, const char *path,
		    unsigned int number, struct err *err)
{
	char *tab = strchr(line, '\t');
	char message[160];
	int r;

	line[strcspn(line, "\r\n")] = '\0';
	if (!line[0] || line[0] == '#')
		return 0;
	if (!tab || tab == line || !tab[1])
		return err_set(err, -EINVAL,
			       "line %u of '%s' is not a class, a tab and a pattern; write for "
			       "example 'attention<TAB>my_flash'",
			       number, path);
	*tab = '\0';
	r = add_rule(classes, line, tab + 1, true, message, sizeof(message));
	if (r == -EINVAL)
		return err_set(err, r,
			       "line %u of '%s' has a pattern that is no regular "
			       "expression: %s",
			       number, path, message);
	return r < 0 ? err_sys(err, r, "cannot keep the classes of '%s'", path) : 0;
}

static int add_file(struct kernel_classes *classes, const char *path, struct err *err)
{
	FILE *file = fopen(path, "re");
	unsigned int number = 0;
	char *line = NULL;
	size_t size = 0;
	int r = 0;

	if (!file)
		return err_sys(err, -errno, "cannot open the classes file '%s'", path);
	errno = 0;
	while (r >= 0 && getline(&line, &size, file) >= 0)
		r = add_line(classes, line, path, ++number, err);
	if (r >= 0 && (ferror(file) || !feof(file)))
		r = err_sys(err, errno ? -errno : -EIO, "cannot read the classes file '%s'", path);
	free(line);
	fclose(file);
	return r;
}

int kernel_classes_new(const char *path, struct kernel_classes **ret_classes, struct err *err)
{
	struct kernel_classes *classes = calloc(1, sizeof(*classes));
	char message[160];
	int r = 0;

	if (!classes)
		return err_sys(err, -ENOMEM, "cannot keep the classes of kernels");
	if (path)
		r = add_file(classes, path, err);
	for (size_t i = 0; r >= 0 && i < sizeof(builtin) / sizeof(builtin[0]); i++) {
		r = add_rule(classes, builtin[i].class, builtin[i].pattern, false, message,
			     sizeof(message));
		if (r < 0)
			err_sys(err, r, "cannot keep the classes of kernels");
	}
	if (r < 0) {
		kernel_classes_free(classes);
		return r;
	}
	*ret_classes = classes;
	return 0;
}

void kernel_classes_free(struct kernel_classes *classes)
{
	if (!classes)
		return;
	for (size_t i = 0; i < classes->n; i++) {
		free(classes->rules[i].owned);
		if (classes->rules[i].compiled)
			regfree(&classes->rules[i].regex);
	}
	free(classes->rules);
	free(classes);
}

const char *kernel_class_of(const struct kernel_classes *classes, const char *name)
{
	for (size_t i = 0; i < classes->n; i++)
		if (!regexec(&classes->rules[i].regex, name, 0, NULL, 0))
			return classes->rules[i].class;
	return "other";
}
