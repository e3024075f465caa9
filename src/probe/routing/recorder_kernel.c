/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's kernels: the PTX that nvcc made when the library was built, if there was one and
 * the driver accepts it, otherwise the source, compiled by libnvrtc. Called when a recorder is
 * opened, on the program's thread; compiled code is kept for the process.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "probe/routing/recorder_inside.h"

/* NVRTC declared by hand: not every build has its header. */
typedef struct nvrtc_program *nvrtc_program;
static struct {
	int (*nvrtcCreateProgram)(nvrtc_program *program, const char *source, const char *name,
				  int n_headers, const char *const *headers,
				  const char *const *names);
	int (*nvrtcDestroyProgram)(nvrtc_program *program);
	int (*nvrtcCompileProgram)(nvrtc_program program, int n, const char *const *options);
	int (*nvrtcGetProgramLogSize)(nvrtc_program program, size_t *size);
	int (*nvrtcGetProgramLog)(nvrtc_program program, char *log);
	int (*nvrtcGetPTXSize)(nvrtc_program program, size_t *size);
	int (*nvrtcGetPTX)(nvrtc_program program, char *ptx);
	int (*nvrtcGetCUBINSize)(nvrtc_program program, size_t *size);
	int (*nvrtcGetCUBIN)(nvrtc_program program, char *cubin);
	int (*nvrtcGetNumSupportedArchs)(int *n);
	int (*nvrtcGetSupportedArchs)(int *archs);
} nvrtc;

PROBE_LOCK(lock); /* of all below, and of NVRTC */
static bool have_nvrtc;
static int compiled_for; /* the capability of `compiled`, 0: none */
static char *compiled;

static const char *const nvrtc_names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
					   "libnvrtc.so", NULL };

/* Python packages keep it where the loader does not look: next to the CUDA runtime that the program
 * has loaded (CUDA 13), or in its own package next to that one (CUDA 11 and 12). */
static void *open_beside_runtime(void)
{
	static const char *const runtimes[] = { "libcudart.so.13", "libcudart.so.12",
						"libcudart.so.11.0" };
	static const char *const folders[] = { "", "../../cuda_nvrtc/lib/" };
	char folder[PATH_MAX], path[PATH_MAX + 64];

	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++) {
		void *runtime = dlopen(runtimes[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD), *library;
		char *slash;

		if (!runtime)
			continue;
		dynlib_path(runtime, folder, sizeof(folder));
		dlclose(runtime);
		slash = strrchr(folder, '/');
		if (!slash)
			continue;
		slash[1] = '\0';
		for (size_t f = 0; f < sizeof(folders) / sizeof(folders[0]); f++) {
			snprintf(path, sizeof(path), "%s%s%s", folder, folders[f], nvrtc_names[i]);
			library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (library)
				return library;
		}
	}
	return NULL;
}

static int open_nvrtc(struct err *err)
{
	const char *given = getenv("MOESCOPE_NVRTC");
	const struct dynlib_symbol symbols[] = {
		{ "nvrtcCreateProgram", &nvrtc.nvrtcCreateProgram },
		{ "nvrtcDestroyProgram", &nvrtc.nvrtcDestroyProgram },
		{ "nvrtcCompileProgram", &nvrtc.nvrtcCompileProgram },
		{ "nvrtcGetProgramLogSize", &nvrtc.nvrtcGetProgramLogSize },
		{ "nvrtcGetProgramLog", &nvrtc.nvrtcGetProgramLog },
		{ "nvrtcGetPTXSize", &nvrtc.nvrtcGetPTXSize },
		{ "nvrtcGetPTX", &nvrtc.nvrtcGetPTX },
		{ "nvrtcGetCUBINSize", &nvrtc.nvrtcGetCUBINSize },
		{ "nvrtcGetCUBIN", &nvrtc.nvrtcGetCUBIN },
		{ "nvrtcGetNumSupportedArchs", &nvrtc.nvrtcGetNumSupportedArchs },
		{ "nvrtcGetSupportedArchs", &nvrtc.nvrtcGetSupportedArchs },
	};
	void *library;

	if (have_nvrtc)
		return 0;
	library = dynlib_open(nvrtc_names, "MOESCOPE_NVRTC");
	if (!library && (!given || !*given))
		library = open_beside_runtime();
	if (!library)
		return err_set(
			err, -ENOTSUP,
			"compiling the recorder's kernel needs libnvrtc: install it (pip install "
			"nvidia-cuda-nvrtc), or set MOESCOPE_NVRTC to its path");
	if (dynlib_symbols(library, symbols, sizeof(symbols) / sizeof(symbols[0])) != 0)
		return err_set(err, -ENOTSUP,
			       "this libnvrtc is too old to compile the recorder's kernel: set "
			       "MOESCOPE_NVRTC to one of CUDA 11.2 or newer");
	have_nvrtc = true;
	return 0;
}

/* The device's own architecture as machine code, which no driver has to translate; for a device
 * newer than the compiler the newest before it, as PTX. 0: none fits. */
static int choose_arch(int capability, bool *ret_exact)
{
	int n = 0, best = 0, *archs;

	if (nvrtc.nvrtcGetNumSupportedArchs(&n) != 0 || n <= 0)
		return 0;
	archs = calloc((size_t)n, sizeof(*archs));
	if (archs && nvrtc.nvrtcGetSupportedArchs(archs) == 0)
		for (int i = 0; i < n; i++)
			if (archs[i] <= capability && archs[i] > best)
				best = archs[i];
	free(archs);
	*ret_exact = best == capability;
	return best;
}

static int compile_failed(nvrtc_program program, struct err *err)
{
	size_t size = 0;
	char *log = NULL;
	int r;

	if (nvrtc.nvrtcGetProgramLogSize(program, &size) == 0 && size)
		log = calloc(1, size + 1);
	if (log && nvrtc.nvrtcGetProgramLog(program, log) != 0)
		log[0] = '\0';
	r = err_set(err, -ENOTSUP,
		    "libnvrtc cannot compile the recorder's kernel (set MOESCOPE_NVRTC to try "
		    "another): %.700s",
		    log ? log : "no message");
	free(log);
	return r;
}

static int fetch(nvrtc_program program, bool machine_code, char **ret_image, size_t *ret_bytes,
		 struct err *err)
{
	size_t size = 0;
	char *image;
	int r = machine_code ? nvrtc.nvrtcGetCUBINSize(program, &size)
			     : nvrtc.nvrtcGetPTXSize(program, &size);

	if (r != 0 || !size)
		return err_set(err, -ENOTSUP, "libnvrtc returns no code (error %d)", r);
	image = calloc(1, size + 1);
	if (!image)
		return err_set(err, -ENOMEM, "no memory for the recorder's kernel");
	r = machine_code ? nvrtc.nvrtcGetCUBIN(program, image) : nvrtc.nvrtcGetPTX(program, image);
	if (r != 0) {
		free(image);
		return err_set(err, -ENOTSUP, "libnvrtc returns no code (error %d)", r);
	}
	*ret_image = image;
	*ret_bytes = size;
	return 0;
}

static int compile_locked(int capability, char **ret_image, size_t *ret_bytes, struct err *err)
{
	static const char *const header_names[] = { "probe/routing/recorder_layout.h" };
	const char *headers[] = { recorder_layout_text };
	char arch[64];
	const char *options[] = { arch, "--std=c++11" };
	nvrtc_program program;
	bool exact = false;
	int best, r = open_nvrtc(err);

	if (r < 0)
		return r;
	best = choose_arch(capability, &exact);
	if (!best)
		return err_set(err, -ENOTSUP,
			       "this libnvrtc does not support compute capability %d.%d: set "
			       "MOESCOPE_NVRTC to one that does",
			       capability / 10, capability % 10);
	snprintf(arch, sizeof(arch), "--gpu-architecture=%s_%d", exact ? "sm" : "compute", best);
	r = nvrtc.nvrtcCreateProgram(&program, recorder_kernel_text, "recorder.cu", 1, headers,
				     header_names);
	if (r != 0)
		return err_set(err, -ENOTSUP, "libnvrtc takes no program (error %d)", r);
	r = nvrtc.nvrtcCompileProgram(program, 2, options) != 0
		    ? compile_failed(program, err)
		    : fetch(program, exact, ret_image, ret_bytes, err);
	nvrtc.nvrtcDestroyProgram(&program);
	return r;
}

int recorder_kernel_compile(int capability, char **ret_image, size_t *ret_bytes, struct err *err)
{
	int r;

	pthread_mutex_lock(&lock);
	r = compile_locked(capability, ret_image, ret_bytes, err);
	pthread_mutex_unlock(&lock);
	return r;
}

static int load_compiled(int capability, CUmodule *ret_module, struct err *err)
{
	size_t bytes;
	int r = 0;

	pthread_mutex_lock(&lock);
	if (compiled_for != capability) {
		char *image = NULL;

		r = compile_locked(capability, &image, &bytes, err);
		if (r == 0) {
			free(compiled);
			compiled = image;
			compiled_for = capability;
		}
	}
	if (r == 0)
		r = recorder_cuda_check(recorder_cuda.cuModuleLoadData(ret_module, compiled),
					"cuModuleLoadData", err);
	pthread_mutex_unlock(&lock);
	return r;
}

int recorder_kernel_load(CUdevice device, CUmodule *ret_module, struct err *err)
{
	int major = 0, minor = 0;

	/* A driver older than the compiler rejects the PTX; NVRTC may match its age. */
	if (recorder_kernel_ptx[0] &&
	    recorder_cuda.cuModuleLoadData(ret_module, recorder_kernel_ptx) == CUDA_SUCCESS)
		return 0;
	if (recorder_cuda.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
					       device) != CUDA_SUCCESS ||
	    recorder_cuda.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
					       device) != CUDA_SUCCESS)
		return err_set(err, -EIO, "CUDA does not report the device's compute capability");
	return load_compiled(major * 10 + minor, ret_module, err);
}
