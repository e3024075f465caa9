/* SPDX-License-Identifier: Apache-2.0
 *
 * The built-in classes of kernels; see kernel_patterns.h.
 *
 * The order carries the meaning: the telling words come before the common ones, and what a kernel
 * is for (expert parallelism, attention) before what it is built of (products, copies). A step that
 * is fused into another one (a norm that also quantises) counts to that one.
 *
 * Words avoid "::" where they can, so that they hold for mangled names too: runtimes give up on the
 * longest ones, and some traces have them mangled.
 */
#include "analyze/kernel_patterns.h"

/* Namespaces of the libraries of expert parallelism, also as compilers write them. */
#define EP                                                                                         \
	"(deep_?ep|::ep::|[0-9]ep[0-9]+(internode|intranode|cuda|layout)|internode_ll|hybrid_ep|"  \
	"pplx|mori.*moe|moe_?a2a|moe_?all_?to_?all)"

/* clang-format off */
const struct kernel_pattern kernel_patterns[] = {
	/* Communication. */
	{ "notify", IN_FUNCTION, EP ".*(notify|barrier|clean|sync)" },
	{ "dispatch", IN_FUNCTION, EP ".*dispatch|^Ep_?Dispatch" },
	{ "combine", IN_FUNCTION, EP ".*combine|^Ep_?Combine" },
	{ "collective", IN_FUNCTION, EP },
	{ "collective", IN_NAME, "nccl|rccl|nvshmem|rocshmem|mscclpp|all_?reduce|all_?gather|"
				 "reduce_?scatter|all_?to_?all|cross_device_reduce" },
	/* What the layers are made of. */
	{ "attention", IN_NAME, "flash|fmha|sdpa|attention|attn|mha_|compute_dot_do_o|convert_dq_to" },
	{ "routing", IN_NAME, "top_?k|moe_align|expert_sort|sort_?expert|moe_?gating|router|routing" },
	{ "grouped_gemm", IN_NAME, "group_?problem_?shape|group(ed)?_?(gemm|mm)|fused_moe|moe_?gemm|"
				   "moe_?fc|ptr_array_tma" },
	/* Not the library fbgemm, most of which is embeddings. Convolutions are matrix products. */
	{ "gemm", IN_NAME, "(^|[^b])gemm|(^|[^f])bgemm|gemv|nvjet|cutlass|cublas|xmma|splitk|matmul|"
			   "scudnn|convolve|winograd|[wd]grad_(alg|engine)" },
	{ "normalisation", IN_NAME, "layer_?norm|rms_?norm|group_?norm|batch_?norm|bn_(fw|bw)|"
				    "soft_?max" },
	{ "quantisation", IN_FUNCTION, "quanti[sz]|_quant|cast_to_fp8|cast_back|cast_and_transpose" },
	{ "routing", IN_NAME, "sort|histogram|bincount" },
	{ "reduction", IN_NAME, "device_?scan|_scan_|cumsum|nll_loss|cross_entropy" },
	{ "copy", IN_NAME, "copy_kern|cat_?array|memcpy" },
	{ "elementwise", IN_NAME, "elementwise_kernel_with_index" },
	{ "permute", IN_NAME, "permut|transpose|scatter|gather|index|embedding|shuffle" },
	{ "reduction", IN_NAME, "reduc|argmax|argmin|triton_(red|per)_" },
	{ "elementwise", IN_NAME, "elementwise|pointwise|multi_tensor|triton_poi_|act_and_mul|silu|gelu|"
				  "relu|rotary|rope_|_rope|adam|dropout|fill|arange|distribution" },
	{ "copy", IN_NAME, "copy" },
	{ "other", IN_NAME, ".*" },
};
/* clang-format on */
const size_t n_kernel_patterns = sizeof(kernel_patterns) / sizeof(kernel_patterns[0]);
