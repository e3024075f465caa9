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
#include "device/sheets/kernel_patterns.h"

/* Namespaces of the libraries of expert parallelism, also as compilers write them. */
#define EP                                                                                         \
	"(deep_?ep|(^|::)ep::|[0-9]ep[0-9]+(internode|intranode|cuda|layout)|internode_ll|"        \
	"hybrid_ep|pplx|mori::|moe_?a2a|a2a_(dispatch|combine)|moe_?all_?to_?all|moecomm)"

/* clang-format off */
const struct kernel_pattern kernel_patterns[] = {
	/* Between devices; not what stays on one of them. */
	{ "permute", IN_FUNCTION, "deepep_.*(permut|reorder)" },
	{ "notify", IN_FUNCTION, EP ".*(notify|barrier|clean|sync|sanitize|prepare)" },
	{ "dispatch", IN_FUNCTION, EP ".*dispatch|(^|::)ep_?dispatch" },
	{ "combine", IN_FUNCTION, EP ".*combine|(^|::)ep_?combine" },
	{ "collective", IN_FUNCTION,
	  EP "|nccl|rccl|nvshmem|rocshmem|mscclpp|userbuffers|multimem_|symm_mem|all_?reduce|"
	  "all_?gather|reduce_?scatter|all_?to_?all|cross_device|lamport|a2a_|quick_?reduce" },

	/* What torch.compile generates: the kind comes first, then the operations that it was made
	 * of or that its input comes from, so that a word like attention tells nothing. */
	{ "attention", IN_FUNCTION, "^triton_tem_.*(flex|attention)" },
	{ "gemm", IN_FUNCTION, "^triton_(tem_|mm|bmm|gemm|.*_dot_fusion)" },
	{ "normalisation", IN_FUNCTION,
	  "^triton_(red|per)_fused.*(norm|softmax|rsqrt|var_mean)|^triton_softmax" },
	{ "reduction", IN_FUNCTION, "^triton_(red|per|spl)_" },
	{ "copy", IN_FUNCTION,
	  "^triton_poi_fused(_+(to_copy|clone|cat|view|unsafe_view|transpose|permute|slice|"
	  "split|stack|unsqueeze|constant_pad_nd|as_strided))+_[0-9]+" },
	{ "elementwise", IN_FUNCTION, "^triton_(poi|for)_" },

	/* The cache of keys and values, before words like flash and rope tell something else. */
	{ "elementwise", IN_FUNCTION, "(^|[^p])rope|rotary" },
	{ "copy", IN_FUNCTION,
	  "(reshape|concat)_and_cache|(store|set|write|copy|gather|append|swap|"
	  "concat).*(kv_?(cache|buffer)|kvmla|kv_blocks|mlak)|reshape_cache" },
	{ "permute", IN_FUNCTION, "kv_indices|page_?(table|indices)|block_table" },
	{ "quantisation", IN_FUNCTION, "sage_?quant|into_ue8m0" },
	{ "attention", IN_FUNCTION,
	  "flash([^i]|$)|fmha|sdpa|attention|attn|(^|[^a-z])mha|sage_?fwd|(prefill|"
	  "decode)(with|plan)|withkvcache|kvcachekernel|merge_?state|sparse_(decode|fwd)|(^|"
	  "[^a-z])mla([^a-z]|$)|mla_?(reduce|decode|kernel|fwd)|mqa_logits|^_?(fwd_kernel|"
	  "fwd_grouped_kernel|bwd_kernel|bwd_preprocess)(_stage|_d[kqv]|_fused|_split|_causal|"
	  "_alibi|_unified|$)|^_fwd_(none_)?diag|compute_dot_do_o|convert_dq_to|"
	  /* linear attention and state-space layers */
	  "selective_?(scan|state)|chunk_(scan|state|cumsum|local|scaled|gated|delta)|"
	  "chunk_[a-z0-9_]*(fwd|bwd)|state_passing|bmm_chunk|causal_conv1d|mamba|delta_rule|"
	  "recompute_w_u|solve_tril|merge_16x16|wkv[0-9]|retention|fused_recurrent|"
	  "lightning_indexer|prepare_wy|(^|_)(kda|gdn|gdr|ssd|ssm)_|parallel_[a-z0-9_]*(fwd|"
	  "bwd)|segsum" },

	/* Mixture of experts. */
	{ "permute", IN_FUNCTION,
	  "finalize_?(moe|matmul)|moe.*finalize|expand_?input|expand_to_fused|(pre|"
	  "post)_reorder|ep_(gather|scatter)|src2dst|fill_gateup|moe_?(un)?permut" },
	{ "reduction", IN_FUNCTION, "moe_?sum|moe_.*mul_sum" },
	{ "reduction", IN_FUNCTION,
	  "sampling|(^|[^np])sample|gumbel|top_?k_?top_?p|top_?p|rejection|penalt" },
	{ "routing", IN_FUNCTION,
	  "top_?k|moe_?align|moe_?sort|sort_?expert|expert_?sort|moe_?gat|moe_?fused_?gate|"
	  "router|routing|bitmatrix|expt_data|expert_?(prefix|first|offset|map|count)|"
	  "count.*expert|fused_mapping|group_indices|row_id_map|chunk_sort" },
	{ "elementwise", IN_FUNCTION,
	  "moe.*activation|silu_?(and_)?mul|act_and_mul|gated_act|do_?activation|(^|::|"
	  "cuda)_*(swiglu|geglu)" },
	{ "transpose", IN_FUNCTION, "(^|::)transpose(_kernel)?$" },
	{ "grouped_gemm", IN_NAME,
	  "group_?problem_?shape|ptr_array_tma|gemmtype\\)[12356]|moeflatmm" },
	{ "grouped_gemm", IN_FUNCTION,
	  "^bmm_.*dynb|matmul_ogs|[mk]_grouped|group(ed)?_?(gemm|mm)([^:]|$)|fused_moe|"
	  "moe_fused|moe.*gemm|moe_?fc|fmoe|computestrides|fill_tensormaps|moe_stage|mega_?moe|"
	  "moe[12]_|moe_kernel|moe_wna16|marlin_moe|moe_mmk|gemm.*_grouped" },

	/* Products, convolutions too; not the library fbgemm, most of which is embeddings. */
	{ "fft", IN_FUNCTION, "fft|(^|[^a-z])[sd]pradix|bluestein|postprocessc2c" },
	{ "transpose", IN_FUNCTION,
	  "(nchw|nhwc|cnhw)2?to?(folded)?(nchw|nhwc|cnhw)|nchw2cnhw|cnhw2nchw|reformat|"
	  "batched_?transpose|transpose_readwrite|(^|::)transpose|flip_filter|addpadding|"
	  "tensor_?transform" },
	{ "gemm", IN_FUNCTION, "norm_gemm" },
	{ "normalisation", IN_FUNCTION,
	  "[a-z0-9_]norm(2d)?(_?(fwd|bwd|kernel|add|forward|backward|quant|grad|spatial|stat|"
	  "calc|coll|trans|elem|impl|fused|warp|cuda)|[^a-z]|$)|layer_?norm|rms_?norm|"
	  "group_?norm|batch_?norm|(^|::)bn_?(fw|bw)|soft_?max|gamma_?beta|row_?wise_?moments|"
	  "welford|compute(backward)?fusedparams|computeinternalgradients|(^|::)ln_(fwd|bwd)|"
	  "cucomputegradinput" },
	{ "gemm", IN_FUNCTION,
	  "(^|_)cijk_|(^|[^b])gemm([^:]|$)|(^|[^f])bgemm|gemv|nvjet|splitk|matmul|flatmm|_mm_|"
	  "scaled_mm|xmma_(fprop|dgrad|wgrad|gemm)|cask_?cudnn|scudnn|convol|conv[0-9_]|"
	  "_conv([^e]|$)|asmconv|convuni|im2d?2?col|winograd|wgrad|dgrad|depthwise|lora_|bgmv|"
	  "sgmv|^bmm_|marlin|machete|gemlite|bitblas|llmm|wvsplit|epilogue::impl" },
	{ "quantisation", IN_FUNCTION,
	  "quanti[sz]|_quant|quant_|dequant|cast_?(to_fp|back|and_transpose|transpose|mx)|"
	  "(token|channel|block|tensor)_cast|qparam|to_h?fp8|fp8.*to_float|cvt_.*fp[48]|"
	  "amax_kernel|_amax|nvfp4|mx_?fp[48]|ue8m0|scaling_|update_scale|input_scale|zeroamax|"
	  "block_scaled|scale_inv|cast_fp8" },

	/* The rest by what it does. */
	{ "reduction", IN_FUNCTION,
	  "device_?scan|_scan|scan_state|scankernel|cumsum|cumprod|nll|cross_?entropy|(max|avg|"
	  "average)_?pool|pooling|loss" },
	{ "elementwise", IN_FUNCTION,
	  "searchsorted|arange|upsample|interpolate|distribution|random|curand|philox|"
	  "tri[ul]_tri[ul]|tri[ul]_indices" },
	{ "routing", IN_FUNCTION, "sort|histogram|bincount" },
	{ "permute", IN_FUNCTION,
	  "permut|scatter|gather|index|indic|embedding|shuffle|bucketize|take|nonzero|getitem|"
	  "[_e]select|select_|partition|compact|unique" },
	{ "transpose", IN_FUNCTION, "transpose" },
	{ "copy", IN_FUNCTION,
	  "copy|cat_?array|memcpy|subtensoropwithcast|converttensor|(^|_)(slice|concatenate|"
	  "pad|concat|clone)_?(fusion|kernel|[0-9])|padding|chunk_cat|split_with_sizes" },
	{ "reduction", IN_FUNCTION,
	  "reduc|logsumexp|arg_?max|arg_?min|sum_functor|meanops|normtwoops|maxnan|minnan|"
	  "^cupy_(sum|prod|mean|amax|amin|max|min|nan|any|all|count)|dot_kernel|l2norm" },
	{ "elementwise", IN_FUNCTION,
	  "elementwise|pointwise|multi_tensor|silu|gelu|relu|sigmoid|swiglu|geglu|adam|dropout|"
	  "(^|[^e])fill|memset|functor|_fusion|^fusion|^wrapped_|^cupy_|eigenmetakernel|"
	  "parallelfor|par_ranged|parallel_for|for_each|transform_kernel|axpy|scal_kernel|"
	  "scalepacked|subtensorop|op[1-5]dtensor|tensorop|(^|_)(vec(tor)?_?)?add(_kernel)?$|"
	  "autocast|act_kernel|activation|gated_(forward|backward)|unary|bias" },

	/* Nothing in the function's name: what it is made of. */
	{ "attention", IN_NAME, "flash_?att|fmha|sdpa|attention" },
	{ "reduction", IN_NAME,
	  "trampoline_kernel.*(scan|reduce)(_by_key)?_impl|reduce_kernel|reduceop" },
	{ "routing", IN_NAME,
	  "trampoline_kernel.*(sort|histogram|sort_block|onesweep)[a-z_]*_impl" },
	{ "permute", IN_NAME, "trampoline_kernel.*(partition|select)_impl" },
	{ "elementwise", IN_NAME,
	  "trampoline_kernel.*transform_impl|elementwise|pointwise|multi_tensor" },
	{ "gemm", IN_NAME, "(^|[^b])gemm|cutlass|cublas|xmma" },
	{ "other", IN_NAME, ".*" },
};
/* clang-format on */
const size_t n_kernel_patterns = sizeof(kernel_patterns) / sizeof(kernel_patterns[0]);

#define NO_LETTER "(^|[^a-z])"
#define NO_MORE "($|[^a-z])"

const struct range_pattern range_patterns[N_RANGE_PATTERNS] = {
	{ MOE_SHARED, true, "shared_?expert", NULL, NULL, { NULL } },
	{ MOE_DISPATCH,
	  true,
	  "^(moe[._ -]*)?dispatch($|[^e])|(token|expert|moe|fused|deep_?ep)[^/]*dispatch($|[^e])",
	  NULL,
	  NULL,
	  { NULL } },
	{ MOE_COMBINE,
	  true,
	  "^(moe[._ -]*)?combine|(token|expert|moe|fused|deep_?ep)[^/]*combine",
	  NULL,
	  NULL,
	  { NULL } },
	{ MOE_ROUTER,
	  true,
	  "router|routing|gating|moe[._:]*gate($|[^a-z_])|(^|[^a-z_])gate($|[^a-z_])|"
	  "top_?k_?(softmax|sigmoid|gat|rout)|grouped_topk|moe_?align|moe_fused_gate|noaux_tc",
	  NULL,
	  "routing",
	  { "gemm", "other" } },
	{ MOE_EXPERTS, true, NO_LETTER "experts?" NO_MORE, "shared", "grouped_gemm", { "gemm" } },
	{ MOE_EXPERTS,
	  true,
	  "expert|group(ed)?_?(gemm|mm|mlp)|fused_?moe|sparse_?moe|" NO_LETTER "moe" NO_MORE
	  "|moe_?(mlp|ffn|forward|gemm|layer|block)",
	  NULL,
	  NULL,
	  { NULL } },
	{ MOE_ATTENTION,
	  false,
	  "attn|attention|" NO_LETTER "mla" NO_MORE,
	  "mask",
	  "attention",
	  { "gemm", "grouped_gemm", "other" } },
	{ MOE_EXPERTS, false, NO_LETTER "(mlp|ffn|feed_?forward)" NO_MORE, NULL, NULL, { NULL } },
};
