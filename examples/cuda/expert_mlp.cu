/* SPDX-License-Identifier: Apache-2.0
 *
 * One expert of a mixture of experts: 512 -> 2048 -> GELU -> 512, at batches 1, 8, 32 and 128, with
 * the copies around it: host and device, pinned and pageable, synchronous and asynchronous, and
 * between two GPUs if there are two. NVTX ranges name each part.
 *
 * Everything is checked: every copied byte is compared with its expected pattern (on the device
 * after a copy to it, on the host after a copy from it), and the expert's output with the same sum
 * on the CPU in double. A mismatch ends the program with one sentence and status 1.
 *
 * The last line is one JSON object: how often and how many bytes were copied, by kind, and how many
 * kernels were launched in each range, to compare with a profiler's output.
 */
#include <algorithm>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <vector>

#include "common.cuh"

#define HIDDEN 512
#define INNER 2048
#define THREADS 256
static const int batches[] = { 1, 8, 32, 128 };

static struct {
	size_t copy_bytes;
	int repeat;
} options = { 16u << 20, 20 };

enum copy_kind { H2D_PINNED, H2D_PAGEABLE, D2H_PINNED, D2H_PAGEABLE, D2D, PEER, COPY_KINDS };
static const char *const copy_names[COPY_KINDS] = {
	"HtoD pinned", "HtoD pageable", "DtoH pinned", "DtoH pageable", "DtoD device", "PtoP device"
};
static uint64_t copy_bytes[COPY_KINDS], copy_count[COPY_KINDS];

enum kernel_range { LINEAR1, GELU, LINEAR2, VERIFY, FILL, KERNEL_RANGES };
static const char *const range_names[KERNEL_RANGES] = { "Linear1_Computation", "GeLU_Activation",
							"Linear2_Computation", "Verification",
							"Pattern_Fill" };
static uint64_t range_kernels[KERNEL_RANGES];

/* The byte of a seed's pattern at a place. */
__host__ __device__ static inline unsigned char pattern(uint64_t i, uint64_t seed)
{
	uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xBF58476D1CE4E5B9ull;

	return (unsigned char)((x ^ (x >> 29)) >> 17);
}

__global__ void fill_pattern(unsigned char *to, uint64_t n, uint64_t seed)
{
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	if (i < n)
		to[i] = pattern(i, seed);
}

__global__ void count_wrong(const unsigned char *from, uint64_t n, uint64_t seed,
			    unsigned long long *wrong)
{
	uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;

	if (i < n && from[i] != pattern(i, seed))
		atomicAdd(wrong, 1ull);
}

/* out[b][o] = bias[o] + sum of in[b][i] * weight[i][o]; neighbouring threads read neighbouring
 * weights. */
__global__ void linear(const float *in, const float *weight, const float *bias, float *out,
		       int n_in, int n_out)
{
	int o = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	const float *row = in + (size_t)blockIdx.y * (size_t)n_in;
	float sum;

	if (o >= n_out)
		return;
	sum = bias[o];
	for (int i = 0; i < n_in; i++)
		sum += row[i] * weight[(size_t)i * (size_t)n_out + (size_t)o];
	out[(size_t)blockIdx.y * (size_t)n_out + (size_t)o] = sum;
}

__global__ void gelu(float *x, int n)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < n)
		x[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}

struct expert {
	std::vector<float> w1, b1, w2, b2;
	float *dw1, *db1, *dw2, *db2;
};

static unsigned int blocks(uint64_t n)
{
	return (unsigned int)((n + THREADS - 1) / THREADS);
}

/* Every copy of this program goes through here and is counted. */
static void copy(enum copy_kind kind, void *to, const void *from, size_t n, bool async,
		 cudaStream_t stream)
{
	enum cudaMemcpyKind direction = kind <= H2D_PAGEABLE   ? cudaMemcpyHostToDevice
					: kind <= D2H_PAGEABLE ? cudaMemcpyDeviceToHost
							       : cudaMemcpyDeviceToDevice;

	if (async)
		CHECK(cudaMemcpyAsync(to, from, n, direction, stream));
	else
		CHECK(cudaMemcpy(to, from, n, direction));
	copy_bytes[kind] += n;
	copy_count[kind]++;
}

[[noreturn]] static void wrong_bytes(const char *what, uint64_t n, size_t of)
{
	fprintf(stderr, "expert_mlp: %s: %" PRIu64 " of %zu bytes are wrong.\n", what, n, of);
	exit(1);
}

static void check_on_host(const char *what, const unsigned char *data, size_t n, uint64_t seed)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < n; i++)
		wrong += data[i] != pattern(i, seed);
	if (wrong)
		wrong_bytes(what, wrong, n);
}

static void fill_on_device(unsigned char *data, size_t n, uint64_t seed)
{
	scoped_range range("Pattern_Fill");

	fill_pattern<<<blocks(n), THREADS>>>(data, n, seed);
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	range_kernels[FILL]++;
}

/* On the current device. */
static void check_on_device(const char *what, const unsigned char *data, size_t n, uint64_t seed)
{
	unsigned long long *wrong, *seen;
	scoped_range range("Verification");

	CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
	CHECK(cudaMallocHost(&seen, sizeof(*seen)));
	CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
	count_wrong<<<blocks(n), THREADS>>>(data, n, seed, wrong);
	CHECK(cudaGetLastError());
	range_kernels[VERIFY]++;
	copy(D2H_PINNED, seen, wrong, sizeof(*wrong), false, 0);
	if (*seen)
		wrong_bytes(what, *seen, n);
	CHECK(cudaFreeHost(seen));
	CHECK(cudaFree(wrong));
}

/* There and back through one kind of host memory, with one way of copying. */
static void host_copies(bool pinned, bool async, uint64_t seed)
{
	const size_t n = options.copy_bytes;
	char what[64];
	unsigned char *host, *device;
	cudaStream_t stream;

	snprintf(what, sizeof(what), "copies, %s memory, %s", pinned ? "pinned" : "pageable",
		 async ? "asynchronous" : "synchronous");
	CHECK(cudaStreamCreate(&stream));
	RANGE_PUSH("Memory_Allocation");
	if (pinned)
		CHECK(cudaMallocHost(&host, n));
	else
		host = (unsigned char *)malloc(n);
	if (!host) {
		fprintf(stderr, "expert_mlp: no memory for %zu bytes.\n", n);
		exit(1);
	}
	CHECK(cudaMalloc(&device, n));
	RANGE_POP();

	for (size_t i = 0; i < n; i++)
		host[i] = pattern(i, seed);
	RANGE_PUSH("Host_to_Device_Transfer");
	copy(pinned ? H2D_PINNED : H2D_PAGEABLE, device, host, n, async, stream);
	CHECK(cudaStreamSynchronize(stream));
	RANGE_POP();
	check_on_device(what, device, n, seed);

	fill_on_device(device, n, seed + 1);
	memset(host, 0, n);
	RANGE_PUSH("Device_to_Host_Transfer");
	copy(pinned ? D2H_PINNED : D2H_PAGEABLE, host, device, n, async, stream);
	CHECK(cudaStreamSynchronize(stream));
	RANGE_POP();
	check_on_host(what, host, n, seed + 1);

	CHECK(cudaFree(device));
	if (pinned)
		CHECK(cudaFreeHost(host));
	else
		free(host);
	CHECK(cudaStreamDestroy(stream));
	printf("  %-40s ok\n", what);
}

static void peer_copy(int to_device, unsigned char *to, int from_device, const unsigned char *from)
{
	RANGE_PUSH("GPU_to_GPU_Transfer");
	CHECK(cudaMemcpyPeer(to, to_device, from, from_device, options.copy_bytes));
	CHECK(cudaDeviceSynchronize());
	RANGE_POP();
	copy_bytes[PEER] += options.copy_bytes;
	copy_count[PEER]++;
}

/* Between two GPUs if there are two, otherwise within the one. */
static void device_copies(int devices)
{
	const size_t n = options.copy_bytes;
	unsigned char *from, *to;

	CHECK(cudaSetDevice(0));
	CHECK(cudaMalloc(&from, n));
	fill_on_device(from, n, 100);
	if (devices > 1) {
		int direct = 0;

		CHECK(cudaDeviceCanAccessPeer(&direct, 1, 0));
		CHECK(cudaSetDevice(1));
		if (direct)
			CHECK(cudaDeviceEnablePeerAccess(0, 0));
		CHECK(cudaMalloc(&to, n));
		peer_copy(1, to, 0, from);
		check_on_device("copy from GPU 0 to GPU 1", to, n, 100);
		printf("  %-40s ok, %s\n", "copy from GPU 0 to GPU 1",
		       direct ? "directly" : "through the host");
		CHECK(cudaFree(to));
		CHECK(cudaSetDevice(0));
	} else {
		printf("  one GPU here: no copies between GPUs, only inside it\n");
	}
	CHECK(cudaMalloc(&to, n));
	RANGE_PUSH("Device_to_Device_Transfer");
	copy(D2D, to, from, n, true, 0);
	CHECK(cudaDeviceSynchronize());
	RANGE_POP();
	check_on_device("copy inside the GPU", to, n, 100);
	printf("  %-40s ok\n", "copy inside the GPU");
	CHECK(cudaFree(to));
	CHECK(cudaFree(from));
}

static std::vector<float> random_values(size_t n, float scale, uint32_t seed)
{
	std::vector<float> values(n);

	for (float &v : values) {
		seed = seed * 1664525u + 1013904223u;
		v = scale * ((float)(seed >> 8) / 8388608.0f - 1.0f);
	}
	return values;
}

static float *upload(const std::vector<float> &values)
{
	float *device;

	CHECK(cudaMalloc(&device, values.size() * sizeof(float)));
	copy(H2D_PAGEABLE, device, values.data(), values.size() * sizeof(float), false, 0);
	return device;
}

static expert expert_new(void)
{
	expert e = {};

	e.w1 = random_values((size_t)HIDDEN * INNER, 0.05f, 1);
	e.b1 = random_values(INNER, 0.1f, 2);
	e.w2 = random_values((size_t)INNER * HIDDEN, 0.05f, 3);
	e.b2 = random_values(HIDDEN, 0.1f, 4);
	e.dw1 = upload(e.w1);
	e.db1 = upload(e.b1);
	e.dw2 = upload(e.w2);
	e.db2 = upload(e.b2);
	return e;
}

static void expert_free(expert *e)
{
	CHECK(cudaFree(e->dw1));
	CHECK(cudaFree(e->db1));
	CHECK(cudaFree(e->dw2));
	CHECK(cudaFree(e->db2));
}

static void forward(const expert *e, const float *in, float *inner, float *out, int batch,
		    cudaStream_t stream)
{
	scoped_range all("Expert_Forward");
	const unsigned int rows = (unsigned int)batch;

	{
		scoped_range range("Linear1_Computation");
		linear<<<dim3(INNER / THREADS, rows), THREADS, 0, stream>>>(in, e->dw1, e->db1,
									    inner, HIDDEN, INNER);
	}
	{
		scoped_range range("GeLU_Activation");
		gelu<<<blocks((uint64_t)batch * INNER), THREADS, 0, stream>>>(inner, batch * INNER);
	}
	{
		scoped_range range("Linear2_Computation");
		linear<<<dim3(HIDDEN / THREADS, rows), THREADS, 0, stream>>>(inner, e->dw2, e->db2,
									     out, INNER, HIDDEN);
	}
	CHECK(cudaGetLastError());
	range_kernels[LINEAR1]++;
	range_kernels[GELU]++;
	range_kernels[LINEAR2]++;
}

/* The largest difference from the same sum in double, relative to the largest value. */
static double error_against_cpu(const expert *e, const float *in, const float *out, int batch)
{
	std::vector<double> inner(INNER), result(HIDDEN);
	double worst = 0, largest = 0;

	for (int b = 0; b < batch; b++) {
		std::copy(e->b1.begin(), e->b1.end(), inner.begin());
		for (int i = 0; i < HIDDEN; i++)
			for (int o = 0; o < INNER; o++)
				inner[o] += (double)in[b * HIDDEN + i] *
					    e->w1[(size_t)i * INNER + o];
		for (double &x : inner)
			x = 0.5 * x * (1.0 + erf(x * M_SQRT1_2));
		std::copy(e->b2.begin(), e->b2.end(), result.begin());
		for (int i = 0; i < INNER; i++)
			for (int o = 0; o < HIDDEN; o++)
				result[o] += inner[i] * e->w2[(size_t)i * HIDDEN + o];
		for (int o = 0; o < HIDDEN; o++) {
			worst = std::max(worst, fabs(result[o] - out[b * HIDDEN + o]));
			largest = std::max(largest, fabs(result[o]));
		}
	}
	return worst / largest;
}

static void run_batch(const expert *e, int batch)
{
	const size_t n = (size_t)batch * HIDDEN;
	std::vector<float> tokens = random_values(n, 1.0f, (uint32_t)batch);
	float *in, *out, *din, *dinner, *dout, ms = 0;
	cudaEvent_t begin, end;
	cudaStream_t stream;
	scoped_range workflow("Complete_MoE_Workflow");
	double error;

	RANGE_PUSH("Memory_Allocation");
	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	CHECK(cudaMallocHost(&in, n * sizeof(float)));
	CHECK(cudaMallocHost(&out, n * sizeof(float)));
	CHECK(cudaMallocAsync(&din, n * sizeof(float), stream));
	CHECK(cudaMallocAsync(&dinner, (size_t)batch * INNER * sizeof(float), stream));
	CHECK(cudaMallocAsync(&dout, n * sizeof(float), stream));
	RANGE_POP();

	std::copy(tokens.begin(), tokens.end(), in);
	RANGE_PUSH("Host_to_Device_Transfer");
	copy(H2D_PINNED, din, in, n * sizeof(float), true, stream);
	RANGE_POP();
	forward(e, din, dinner, dout, batch, stream); /* the first loads the code: not timed */
	CHECK(cudaEventRecord(begin, stream));
	for (int i = 0; i < options.repeat; i++)
		forward(e, din, dinner, dout, batch, stream);
	CHECK(cudaEventRecord(end, stream));
	RANGE_PUSH("Device_to_Host_Transfer");
	copy(D2H_PINNED, out, dout, n * sizeof(float), true, stream);
	CHECK(cudaStreamSynchronize(stream));
	RANGE_POP();
	CHECK(cudaEventElapsedTime(&ms, begin, end));

	error = error_against_cpu(e, in, out, batch);
	if (!(error < 1e-4)) {
		fprintf(stderr,
			"expert_mlp: batch %d: the output differs from the CPU's by %.2g of its "
			"largest value; at most 1e-4 is rounding.\n",
			batch, error);
		exit(1);
	}
	printf("  batch %-4d %8.1f us a forward pass, error %.1e\n", batch,
	       (double)ms * 1e3 / options.repeat, error);
	CHECK(cudaFreeAsync(din, stream));
	CHECK(cudaFreeAsync(dinner, stream));
	CHECK(cudaFreeAsync(dout, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaFreeHost(in));
	CHECK(cudaFreeHost(out));
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
	CHECK(cudaStreamDestroy(stream));
}

static void print_sums(int devices)
{
	printf("{\"devices\":%d,\"copies\":{", devices);
	for (int i = 0; i < COPY_KINDS; i++)
		printf("%s\"%s\":{\"count\":%" PRIu64 ",\"bytes\":%" PRIu64 "}", i ? "," : "",
		       copy_names[i], copy_count[i], copy_bytes[i]);
	printf("},\"kernels\":{");
	for (int i = 0; i < KERNEL_RANGES; i++)
		printf("%s\"%s\":%" PRIu64, i ? "," : "", range_names[i], range_kernels[i]);
	printf("}}\n");
}

static const char usage[] = "usage: expert_mlp [OPTION]...\n"
			    "  --mib N     size of the copies in MiB (16)\n"
			    "  --repeat N  timed forward passes of each batch (20)\n";

static void parse(int argc, char **argv)
{
	static const struct option table[] = { { "mib", 1, NULL, 'm' },
					       { "repeat", 1, NULL, 'r' },
					       { "help", 0, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	int c;

	while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
		switch (c) {
		case 'm':
			options.copy_bytes =
				(size_t)number_option("expert_mlp", "--mib", optarg, 1, 4096) << 20;
			break;
		case 'r':
			options.repeat = (int)number_option("expert_mlp", "--repeat", optarg, 1,
							    1000000);
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "expert_mlp: '%s' is not an option.\n%s", argv[optind], usage);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	int devices = 0;

	parse(argc, argv);
	CHECK(cudaGetDeviceCount(&devices));
	printf("Copies of %zu MiB, every byte compared\n", options.copy_bytes >> 20);
	for (int i = 0; i < 4; i++)
		host_copies(i & 2, i & 1, (uint64_t)(10 + 2 * i));
	device_copies(devices);

	printf("Expert %d -> %d -> %d, against the CPU\n", HIDDEN, INNER, HIDDEN);
	expert e = expert_new();
	for (int batch : batches)
		run_batch(&e, batch);
	expert_free(&e);
	print_sums(devices);
	return 0;
}
