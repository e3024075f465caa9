/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes and short forms of real kernel names: those of bench/data/h200-launches.csv (two
 * training steps of a Mixtral-shaped model on an H200; names cut at 80 characters, with ';' for
 * ',') with the class that each must have, some that programs of other kinds run, and the list of
 * data/kernel-names.tsv, from many vendors and libraries.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/demangle.h"
#include "device/sheets/kernel_class.h"
#include "device/sheets/kernel_name.h"

static const struct {
	const char *class, *name;
} real[] = {
	{ "gemm",
	  "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_4gemm6" },
	{ "attention",
	  "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x64_1x4" },
	{ "attention",
	  "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64_4x1" },
	{ "gemm", "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN" },
	{ "gemm", "nvjet_sm90_tst_128x64_64x8_1x2_h_bz_splitK_NNT" },
	{ "gemm", "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT" },
	{ "gemm", "nvjet_sm90_tst_32x64_64x16_2x1_v_bz_NTN" },
	{ "gemm", "nvjet_sm90_tst_32x64_64x16_4x1_v_bz_NTN" },
	{ "gemm", "nvjet_sm90_tst_32x64_64x16_4x2_h_bz_NTN" },
	{ "gemm", "nvjet_sm90_tst_64x48_64x15_2x4_h_bz_TNT" },
	{ "gemm", "nvjet_sm90_tst_64x64_64x13_2x1_v_bz_NNT" },
	{ "gemm", "nvjet_sm90_tst_64x64_64x13_2x1_v_bz_TNT" },
	{ "gemm", "nvjet_sm90_tst_8x64_64x16_1x4_h_bz_TNN" },
	{ "elementwise",
	  "void (anonymous namespace)::elementwise_kernel_with_index<int; at::native::arang" },
	{ "permute",
	  "void (anonymous namespace)::indexing_backward_kernel<c10::BFloat16; 4>(long cons" },
	{ "permute",
	  "void (anonymous namespace)::indexing_backward_kernel<float; 4>(long const*; long" },
	{ "permute",
	  "void (anonymous namespace)::indexing_backward_kernel_stride_1<float>(long const*" },
	{ "normalisation",
	  "void (anonymous namespace)::softmax_warp_backward<float; float; float; 3; false;" },
	{ "normalisation",
	  "void (anonymous namespace)::softmax_warp_forward<float; float; float; 3; false; " },
	{ "grouped_gemm",
	  "void at::cuda::detail::prepare_grouped_gemm_data<cutlass::bfloat16_t; cutlass::b" },
	{ "routing",
	  "void at::cuda::kernelHistogram1D<int; int; long; 1; 2; -1; (at::cuda::CUDAHistog" },
	{ "routing",
	  "void at::cuda::kernelHistogram1D<long; long; long; 1; 2; -1; (at::cuda::CUDAHist" },
	{ "copy",
	  "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymo" },
	{ "copy",
	  "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<at::nativ" },
	{ "normalisation",
	  "void at::native::(anonymous namespace)::cunn_SoftMaxBackwardSmem<4; float; float" },
	{ "normalisation",
	  "void at::native::(anonymous namespace)::cunn_SoftMaxForwardReg<float; float; flo" },
	{ "permute",
	  "void at::native::(anonymous namespace)::embedding_backward_feature_kernel<c10::B" },
	{ "elementwise",
	  "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(a" },
	{ "reduction",
	  "void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<" },
	{ "reduction",
	  "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<f" },
	{ "permute",
	  "void at::native::_scatter_gather_elementwise_kernel<128; 8; at::native::_cuda_sc" },
	{ "routing",
	  "void at::native::bitonicSortKVInPlace<2; -1; 16; 16; float; long; at::native::GT" },
	{ "elementwise",
	  "void at::native::elementwise_kernel<128; 2; at::native::gpu_kernel_impl_nocast<a" },
	{ "elementwise",
	  "void at::native::elementwise_kernel<128; 4; at::native::gpu_kernel_impl<at::nati" },
	{ "elementwise",
	  "void at::native::elementwise_kernel<128; 4; at::native::gpu_kernel_impl_nocast<a" },
	{ "permute",
	  "void at::native::index_elementwise_kernel<128; 4; at::native::gpu_index_kernel<a" },
	{ "routing",
	  "void at::native::radixSortKVInPlace<-2; -1; 64; 32; long; long; unsigned int>(at" },
	{ "reduction",
	  "void at::native::reduce_kernel<128; 4; at::native::ReduceOp<c10::BFloat16; at::n" },
	{ "reduction",
	  "void at::native::reduce_kernel<128; 4; at::native::ReduceOp<float; at::native::f" },
	{ "reduction",
	  "void at::native::reduce_kernel<512; 1; at::native::ReduceOp<float; at::native::M" },
	{ "reduction",
	  "void at::native::reduce_kernel<512; 1; at::native::ReduceOp<float; at::native::f" },
	{ "reduction",
	  "void at::native::reduce_kernel<512; 1; at::native::ReduceOp<long; at::native::fu" },
	{ "routing",
	  "void at::native::sbtopk::gatherTopK<float; unsigned int; 2; false>(at::cuda::det" },
	{ "elementwise",
	  "void at::native::unrolled_elementwise_kernel<at::native::BinaryFunctor<float; fl" },
	{ "copy",
	  "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<2; at::native::(anonymous namespa" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<2; at::native::AUnaryFunctor<long" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<2; at::native::BUnaryFunctor<long" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<2; at::native::CUDAFunctorOnSelf_" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<2; at::native::FillFunctor<long>;" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::(anonymous namespa" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::AUnaryFunctor<floa" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::BinaryFunctor<floa" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::CUDAFunctorOnSelf_" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::CUDAFunctor_add<fl" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::FillFunctor<float>" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::FillFunctor<int>; " },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::compare_scalar_ker" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::cos_kernel_cuda(at" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::neg_kernel_cuda(at" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::rsqrt_kernel_cuda(" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<4; at::native::sin_kernel_cuda(at" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<8; at::native::BinaryFunctor<c10:" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<8; at::native::CUDAFunctor_add<c1" },
	{ "elementwise",
	  "void at::native::vectorized_elementwise_kernel<8; at::native::FillFunctor<c10::B" },
	{ "copy",
	  "void at::native::vectorized_elementwise_kernel<8; at::native::bfloat16_copy_kern" },
	{ "permute",
	  "void at::native::vectorized_gather_kernel<16; long>(char*; char*; long*; int; lo" },
	{ "routing",
	  "void at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortSingleTileKernel<at" },
	{ "reduction",
	  "void at_cuda_detail::cub::detail::scan::DeviceScanInitKernel<at_cuda_detail::cub" },
	{ "reduction",
	  "void at_cuda_detail::cub::detail::scan::DeviceScanKernel<at_cuda_detail::cub::de" },
	{ "gemm",
	  "void cublasLt::splitKreduce_kernel<32; 16; int; float; __nv_bfloat16; float; __n" },
	{ "attention",
	  "void cudnn::fusion::compute_dot_do_o_specialized<true; 64>(void const*; void con" },
	{ "attention",
	  "void cudnn::fusion::convert_dq_to_16bits<true>(void const*; void*; unsigned int;" },
	{ "attention",
	  "void cudnn::fusion::fmha_reduce_head<true>(void const*; void*; unsigned int; uns" },
	{ "gemm",
	  "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(cutlass_80_sim" },
};
#define N_REAL (sizeof(real) / sizeof(real[0]))

/* Whole names, mangled or not, of what the file above does not have. */
static const struct {
	const char *class, *name;
} others[] = {
	{ "grouped_gemm",
	  "void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm9x<cutlass::gemm::"
	  "kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<cute::tuple<int, int, int> >, "
	  "cutlass::gemm::collective::CollectiveMma<> > > >()" },
	{ "grouped_gemm", "fused_moe_kernel" },
	{ "attention",
	  "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsEEv16Flash_fwd_params" },
	{ "attention", "paged_attention_v2_kernel" },
	{ "combine", "void dpsk::ep::internode::combine<false, 8>(int4*, float*)" },
	{ "dispatch", "2ep9internode8dispatch" },
	{ "notify", "void dpsk::ep::internode::cached_notify<false>(int, int, int)" },
	{ "notify", "void dpsk::ep::internode::notify_dispatch<false, 8>(int const*, long*)" },
	{ "dispatch", "void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*)" },
	{ "collective",
	  "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)" },
	{ "routing", "void vllm::moe::topkGatingSoftmax<8, 64, 4, 16, int>(float const*)" },
	{ "routing", "void vllm::moe::moe_align_block_size_kernel<int>(int*)" },
	{ "normalisation", "void vllm::rms_norm_kernel<c10::BFloat16>(c10::BFloat16*)" },
	{ "normalisation", "triton_red_fused_native_layer_norm_3" },
	{ "reduction", "triton_red_fused_sum_7" },
	{ "elementwise", "triton_poi_fused_silu_2" },
	{ "elementwise", "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)" },
	{ "permute", "void moe_permute_kernel<float>(float*)" },
	{ "gemm", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn" },
	{ "gemm", "bgemm" },
	{ "gemm", "gemm" },
	/* A library's name is not what its kernels do. */
	{ "permute", "void fbgemm_gpu::permute_2D_data_kernel<false, int>(int, int)" },
	{ "permute",
	  "void split_embedding_codegen_forward_unweighted_kernel<c10::Half>(fbgemm_gpu::"
	  "FixedDivisor)" },
	{ "quantisation", "void at::native::vectorized_elementwise_kernel<4, fbgemm_gpu::"
			  "_hfp8_to_float_gpu(at::Tensor const&, long, long)>(int)" },
	{ "gemm", "void fbgemm_gpu::device_like<cutlass::gemm::GemmShape<1, 2, 3> >()" },
	/* Convolutions have what they end with in their names. */
	{ "gemm", "volta_scudnn_128x64_relu_medium_nn_v1" },
	{ "gemm", "volta_scudnn_128x64_stridedB_interior_nn_v1" },
	{ "gemm", "void implicit_convolve_sgemm<float, float, 128>(int)" },
	{ "gemm", "void cudnn::detail::dgrad_engine<float, 512>(int)" },
	{ "gemm", "void cudnn::cnn::wgrad_alg0_engine<float, 128>(int)" },
	{ "gemm", "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)" },
	{ "normalisation", "void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512>(float)" },
	{ "other", "my_kernel" },
	{ "other", "" },
};

static struct kernel_classes *classes_of(const char *path)
{
	struct kernel_classes *classes;
	struct err err = { "" };

	if (kernel_classes_new(path, &classes, &err) < 0)
		fail_msg("%s", err.message);
	return classes;
}

static void assert_class(const struct kernel_classes *classes, const char *name, const char *class)
{
	if (strcmp(kernel_class_of(classes, name), class) != 0)
		fail_msg("%s: %s, not %s", name, kernel_class_of(classes, name), class);
}

static void test_real_names(void **state)
{
	struct kernel_classes *classes = classes_of(NULL);

	(void)state;
	for (size_t i = 0; i < N_REAL; i++)
		assert_class(classes, real[i].name, real[i].class);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		assert_class(classes, others[i].name, others[i].class);
	kernel_classes_free(classes);
}

static void test_names_of_many_vendors(void **state)
{
	FILE *file = fopen(MOESCOPE_DATA_DIR "/kernel-names.tsv", "r");
	struct kernel_classes *classes = classes_of(NULL);
	size_t size = 0, n = 0, wrong = 0;
	char *line = NULL;

	(void)state;
	assert_non_null(file);
	while (getline(&line, &size, file) > 0) {
		char *source, *name, *text;

		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#')
			continue;
		source = strchr(line, '\t');
		assert_non_null(source);
		*source++ = '\0';
		name = strchr(source, '\t');
		assert_non_null(name);
		*name++ = '\0';
		assert_int_equal(demangled(name, &text), 0);
		if (strcmp(kernel_class_of(classes, text), line) != 0) {
			print_error("%s: %s, not %s\n", text, kernel_class_of(classes, text), line);
			wrong++;
		}
		free(text);
		n++;
	}
	assert_int_equal(wrong, 0);
	assert_true(n >= 300);
	free(line);
	fclose(file);
	kernel_classes_free(classes);
}

/* No name of the file is missing above. */
static void test_the_list_is_whole(void **state)
{
	FILE *file = fopen(MOESCOPE_BENCH_DIR "/data/h200-launches.csv", "r");
	size_t size = 0, n = 0;
	char *line = NULL;

	(void)state;
	assert_non_null(file);
	while (getline(&line, &size, file) > 0) {
		size_t found = 0;

		if (line[0] == '#')
			continue;
		for (int i = 0; i < 8; i++)
			*strrchr(line, ',') = '\0';
		while (found < N_REAL && strcmp(real[found].name, line) != 0)
			found++;
		if (found == N_REAL)
			fail_msg("no class is given for %s", line);
		n++;
	}
	assert_int_equal(n, 133);
	free(line);
	fclose(file);
}

static char *file_of(const char *text)
{
	char *path = strdup("/tmp/moescope-classes-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	return path;
}

static void test_own_classes_come_first(void **state)
{
	char *path =
		file_of("# mine\n\nfused\t^my_(fused|other)_\nother\tnvjet\ngemm\tmy_kernel\r\n");
	struct kernel_classes *classes = classes_of(path);
	const char *gemm = kernel_class_of(classes, "my_kernel");

	(void)state;
	assert_class(classes, "my_fused_gemm", "fused");
	assert_class(classes, "nvjet_sm90", "other");
	assert_string_equal(gemm, "gemm");
	/* One address for a class, wherever its rules are from. */
	assert_ptr_equal(gemm, kernel_class_of(classes, "cutlass_80_simt_sgemm"));
	assert_ptr_equal(kernel_class_of(classes, "nvjet_sm90"), kernel_class_of(classes, "xyz"));
	kernel_classes_free(classes);
	unlink(path);
	free(path);
}

static void test_which_communicate(void **state)
{
	static const char *const yes[] = { "collective", "dispatch", "combine", "notify" };
	static const char *const no[] = { "gemm", "grouped_gemm", "permute", "copy", "other", "" };

	(void)state;
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		assert_true(kernel_class_communicates(yes[i]));
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(kernel_class_communicates(no[i]));
}

static void test_ranges_that_tell(void **state)
{
	static const struct {
		const char *class, *range, *wanted; /* NULL: the range says nothing */
	} cases[] = {
		{ "gemm", "attn(F)", "attention" },
		{ "grouped_gemm", "attn(F)", "attention" },
		{ "other", "nn.Module: LlamaAttention_3", "attention" },
		{ "gemm", "aten::_scaled_dot_product_attention_math", "attention" },
		{ "gemm", "mla", "attention" },
		{ "gemm", "normlayer", NULL },
		{ "gemm", "attention_mask", NULL },
		{ "elementwise", "self_attn", NULL },
		{ "quantisation", "self_attn", NULL },
		{ "normalisation", "attention", NULL },
		{ "gemm", "mlp.router", "routing" },
		{ "gemm", "block_sparse_moe.gate", "routing" },
		{ "gemm", "mlp.gate_proj", NULL },
		{ "gemm", "mlp.gate_up_proj", NULL },
		{ "gemm", "mlp.experts", "grouped_gemm" },
		{ "gemm", "expert 3", "grouped_gemm" },
		{ "other", "experts", NULL },
		{ "gemm", "shared_expert", NULL },
		{ "gemm", "mlp", NULL },
		{ "gemm", "", NULL },
	};
	struct kernel_classes *classes = classes_of(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *class = kernel_class_in_range(
			classes, cases[i].class, kernel_class_range(classes, cases[i].range));

		if (!class != !cases[i].wanted || (class && strcmp(class, cases[i].wanted) != 0))
			fail_msg("%s in %s: %s", cases[i].class, cases[i].range,
				 class ? class : "-");
		/* The address of a class is that of the table. */
		if (class && !strcmp(class, "attention"))
			assert_ptr_equal(class, kernel_class_of(classes, "flash_fwd_kernel"));
	}
	kernel_classes_free(classes);
}

/* The same words tell the class of kernels in a range and its part of a mixture of experts. */
static void test_parts_of_ranges(void **state)
{
	static const struct {
		const char *range;
		enum moe_part part;
		bool certain, decides;
	} cases[] = {
		{ "mlp.routing", MOE_ROUTER, true, true },
		{ "block_sparse_moe.gate", MOE_ROUTER, true, true },
		{ "vllm::topk_softmax", MOE_ROUTER, true, true },
		{ "mlp.gate_proj", MOE_EXPERTS, false, false },
		{ "mlp.experts", MOE_EXPERTS, true, true },
		{ "FusedMoE", MOE_EXPERTS, true, false },
		{ "shared_experts", MOE_SHARED, true, false },
		{ "token dispatch(F)", MOE_DISPATCH, true, false },
		{ "dispatcher", MOE_PARTS, false, false },
		{ "combine(B)", MOE_COMBINE, true, false },
		{ "self_attn", MOE_ATTENTION, false, true },
		{ "attention_mask", MOE_PARTS, false, false },
		{ "aten::mm", MOE_PARTS, false, false },
	};
	struct kernel_classes *classes = classes_of(NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rule = kernel_class_range(classes, cases[i].range);
		bool certain;
		enum moe_part part = kernel_class_range_part(rule, &certain);

		if (part != cases[i].part || certain != cases[i].certain ||
		    kernel_class_range_decides(rule) != cases[i].decides)
			fail_msg("%s: rule %d, part %d", cases[i].range, rule, (int)part);
	}
	kernel_classes_free(classes);
}

static void test_bad_files(void **state)
{
	static const struct {
		const char *text, *words;
	} bad[] = {
		{ "a\tb\nno tab here\n", "line 2 of" },
		{ "\tpattern\n", "line 1 of" },
		{ "class\t\n", "line 1 of" },
		{ "class\t(open\n", "not a regular expression" },
	};
	struct kernel_classes *classes;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char *path = file_of(bad[i].text);

		err.message[0] = '\0';
		assert_int_equal(kernel_classes_new(path, &classes, &err), -EINVAL);
		assert_non_null(strstr(err.message, bad[i].words));
		assert_non_null(strstr(err.message, path));
		unlink(path);
		free(path);
	}
	assert_int_equal(kernel_classes_new("/nonexistent/classes", &classes, &err), -ENOENT);
	assert_non_null(strstr(err.message, "/nonexistent/classes"));
	assert_int_equal(kernel_classes_new("/", &classes, &err), -EISDIR);
}

static void test_short_names(void **state)
{
	static const struct {
		const char *name, *wanted;
	} cases[] = {
		{ "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*)",
		  "at::native::vectorized_gather_kernel" },
		{ "void at::native::(anonymous namespace)::cat<A<(B)1, C<2> > >(int)",
		  "at::native::cat" },
		{ "nvjet_sm90_tst_128x256", "nvjet_sm90_tst_128x256" },
		{ "kernel(int, float)", "kernel" },
		{ "unsigned int f<int>()", "f" },
		{ "void g<A>::operator()(int) const", "g::operator()" },
		{ "void outer<T>::{lambda(int)#1}::run(int)", "outer::{lambda(int)#1}::run" },
		{ "void cut<float; at::nat", "cut" },
		/* What a wrapper runs. */
		{ "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, 7, cublas<(a)1> >(X)",
		  "internal::gemvx::kernel" },
		{ "std::enable_if<((4>=3) && (sizeof (T1)<8)), void>::type ns::f<int>(int)",
		  "ns::f" },
		{ "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(int)",
		  "cutlass_80_simt_sgemm_128x32_8x5_nn_align1" },
		{ "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<A, B> > >(C)",
		  "flash::FlashAttnFwdSm90" },
		{ "void ck_tile::kentry<256, 1, ck_tile::FmhaBwd<ck_tile::P<1> >, int>(int)",
		  "ck_tile::FmhaBwd" },
		{ "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, "
		  "float, at::native::binary_internal::MulFunctor<float> >, at::detail::Array<char*, 2> >"
		  "(int)",
		  "at::native::binary_internal::MulFunctor" },
		{ "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::"
		  "direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::"
		  "{lambda(float)#1}>(at::TensorIteratorBase&)::{lambda(int)#1}>(int)",
		  "at::native::direct_copy_kernel_cuda" },
		{ "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, at::native::"
		  "func_wrapper_t<float, at::native::sum_functor<float, float, float>::operator ()(at::"
		  "TensorIterator &)::[lambda(float, float) (instance 1)]>, unsigned int, float, (int)4>>(T3)",
		  "at::native::sum_functor::operator()" },
		{ "void <unnamed>::softmax_warp_forward<float, (int)7>(float *)",
		  "softmax_warp_forward" },
		{ "void at::native::elementwise_kernel<1>", "at::native::elementwise_kernel" },
		/* Still mangled. */
		{ "_ZN7cutlass13device_kernelIN2at4cudaEEvNT_6ParamsE", "at::cuda" },
		{ "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_4gemm6kernel13"
		  "GemmUniversalINS5_17GroupProblemShapeI",
		  "cutlass::gemm::kernel::GemmUniversal" },
		{ "_ZN7ck_tile6kentryILi1ENS_16MoeSortingKernelI", "ck_tile::MoeSortingKernel" },
		{ "_Z4gemmPfS_", "gemm" },
		{ "_ZN12_GLOBAL__N_15innerIiEEv", "inner" },
		{ "_Z1a1b1c1d1e1f1g1h", "a::b::c::d::e::f::g::h" },
		{ "_ZN99short", "_ZN99short" },
		{ "_ZN", "_ZN" },
		{ "<>", "<>" },
		{ "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text;

		assert_int_equal(kernel_short_name(cases[i].name, &text), 0);
		assert_string_equal(text, cases[i].wanted);
		free(text);
	}
}

static void assert_name(const char *name, const char *wanted)
{
	char *text;

	assert_int_equal(demangled(name, &text), 0);
	assert_string_equal(text, wanted);
	free(text);
}

/* With types of 16 bits are names of aiter's trace.json in ROCm/aiter and of TraceLens' SGLang traces
 * of an MI300X. */
static void test_demangling(void **state)
{
	(void)state;
	assert_name("plain_kernel", "plain_kernel");
	assert_name("_Znonsense", "_Znonsense");
	assert_name("_Z1fIDF16", "_Z1fIDF16");
	assert_name("_ZN2ns6kernelIiEEvPT_", "void ns::kernel<int>(int*)");
	assert_name(
		"_Z28kn_fmla_fwd_splictkv_combineI19FlashMlaKernelTraitILi576ELi512ELi16ELi64E"
		"Li4EELi96EDF16_Ev17FlashMlaFwdParams",
		"void kn_fmla_fwd_splictkv_combine<FlashMlaKernelTrait<576, 512, 16, 64, 4>, 96, "
		"_Float16>(FlashMlaFwdParams)");
	assert_name(
		"_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_"
		"PT_PfS4_S4_S4_diiiiiiib",
		"void aiter::add_rmsnorm_quant_kernel<std::bfloat16_t, std::bfloat16_t, 256, 16, "
		"false, false, true, 1>(std::bfloat16_t*, std::bfloat16_t*, float*, "
		"std::bfloat16_t*, std::bfloat16_t*, std::bfloat16_t*, double, int, int, int, "
		"int, int, int, int, bool)");
}

/* As those of CUTLASS are: templates of more than the 1,024 characters that C++ runtimes read. */
static void test_demangling_long_names(void **state)
{
	static const size_t counts[] = { 1, 100, 150, 500, 1000, 1500, 5000 };

	(void)state;
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		char *name, *wanted;
		size_t name_size, wanted_size;
		FILE *mangled = open_memstream(&name, &name_size);
		FILE *plain = open_memstream(&wanted, &wanted_size);

		fputs("_Z6kernelI", mangled);
		fputs("void kernel<", plain);
		for (size_t i = 0; i < counts[c]; i++) {
			fprintf(mangled, "Li%zuE", i);
			fprintf(plain, "%s%zu", i ? ", " : "", i);
		}
		fputs("Evv", mangled);
		fputs(">()", plain);
		assert_int_equal(fclose(mangled), 0);
		assert_int_equal(fclose(plain), 0);
		assert_name(name, counts[c] <= 1000 ? wanted : name);
		free(name);
		free(wanted);
	}
}

/* Made to take all memory, all time or all of the stack: they stay as they are. */
static void test_demangling_hostile_names(void **state)
{
	static const char *const deep[] = {
		"_Z1f", "F", "_Z1fIX", "ng", "_Z1f", "P", "_Z1fI", "J"
	};
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[40000];

	(void)state;
	/* One level is a symbol: the others are refused for what they mean, not for how they are written. */
	assert_name("_Z1f1aIiiES_IS0_S0_E", "f(a<int, int>, a<a<int, int>, a<int, int> >)");
	for (int levels = 20; levels <= 1000; levels += 70) {
		size_t n = (size_t)snprintf(name, sizeof(name), "_Z1f1aIiiE");

		/* Each is made of the one before, twice: S0_<S0_, S0_>, S1_<S1_, S1_>, … */
		for (int i = 0; i < levels; i++) {
			char number[] = { digits[i / 36], digits[i % 36], '\0' };
			const char *last = number + (i < 36);

			n += (size_t)snprintf(name + n, sizeof(name) - n, "S_IS%s_S%s_E", last,
					      last);
		}
		assert_name(name, name);
	}
	for (size_t i = 0; i < sizeof(deep) / sizeof(deep[0]); i += 2)
		for (size_t length = 900; length < sizeof(name) - 8; length += 1900) {
			size_t n = (size_t)snprintf(name, sizeof(name), "%s", deep[i]);

			while (n < length)
				n += (size_t)snprintf(name + n, sizeof(name) - n, "%s",
						      deep[i + 1]);
			assert_name(name, name);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_real_names),
		cmocka_unit_test(test_names_of_many_vendors),
		cmocka_unit_test(test_the_list_is_whole),
		cmocka_unit_test(test_own_classes_come_first),
		cmocka_unit_test(test_which_communicate),
		cmocka_unit_test(test_ranges_that_tell),
		cmocka_unit_test(test_parts_of_ranges),
		cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_short_names),
		cmocka_unit_test(test_demangling),
		cmocka_unit_test(test_demangling_long_names),
		cmocka_unit_test(test_demangling_hostile_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
