/* SPDX-License-Identifier: Apache-2.0
 *
 * libmoescope-calls-nccl.so: collectives of NCCL as the host starts them, with their elements, type, other side and
 * communicator. Any thread of the program.
 */
#include "calls/device_call.h"

#define INTERNAL_ERROR 3 /* ncclInternalError */

/* ncclDataType_t, as nccl.h numbers them. */
static struct number_type types[] = {
	{ 0, "int8", 0 },  { 1, "uint8", 0 },  { 2, "int32", 0 },     { 3, "uint32", 0 },
	{ 4, "int64", 0 }, { 5, "uint64", 0 }, { 6, "fp16", 0 },      { 7, "fp32", 0 },
	{ 8, "fp64", 0 },  { 9, "bf16", 0 },   { 10, "fp8_e4m3", 0 }, { 11, "fp8_e5m2", 0 },
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

/* It is passed by value. */
struct unique_id {
	char bytes[128];
};

/* clang-format off */
#define BETWEEN .type = type_name(types, N_TYPES, type), .elements = n, .communicator = (uintptr_t)comm, .peer = peer
#define AMONG_ALL .type = type_name(types, N_TYPES, type), .elements = n, .communicator = (uintptr_t)comm, .peer = -1
#define OF_COMM .communicator = (uintptr_t)comm, .peer = -1
#define MADE .communicator = comm && !result ? (uintptr_t)*comm : 0, .peer = -1
#define NO_SIZES .peer = -1

/* CALL(name, parameters, arguments, sizes) */
#define NCCL_CALLS(CALL) \
	CALL(ncclAllReduce, (const void *from, void *to, size_t n, int type, int op, void *comm, void *stream), \
	     (from, to, n, type, op, comm, stream), AMONG_ALL) \
	CALL(ncclBroadcast, (const void *from, void *to, size_t n, int type, int peer, void *comm, void *stream), \
	     (from, to, n, type, peer, comm, stream), BETWEEN) \
	CALL(ncclBcast, (void *data, size_t n, int type, int peer, void *comm, void *stream), \
	     (data, n, type, peer, comm, stream), BETWEEN) \
	CALL(ncclReduce, (const void *from, void *to, size_t n, int type, int op, int peer, void *comm, void *stream), \
	     (from, to, n, type, op, peer, comm, stream), BETWEEN) \
	CALL(ncclAllGather, (const void *from, void *to, size_t n, int type, void *comm, void *stream), \
	     (from, to, n, type, comm, stream), AMONG_ALL) \
	CALL(ncclReduceScatter, (const void *from, void *to, size_t n, int type, int op, void *comm, void *stream), \
	     (from, to, n, type, op, comm, stream), AMONG_ALL) \
	CALL(ncclAlltoAll, (const void *from, void *to, size_t n, int type, void *comm, void *stream), \
	     (from, to, n, type, comm, stream), AMONG_ALL) \
	CALL(ncclGather, (const void *from, void *to, size_t n, int type, int peer, void *comm, void *stream), \
	     (from, to, n, type, peer, comm, stream), BETWEEN) \
	CALL(ncclScatter, (const void *from, void *to, size_t n, int type, int peer, void *comm, void *stream), \
	     (from, to, n, type, peer, comm, stream), BETWEEN) \
	CALL(ncclSend, (const void *from, size_t n, int type, int peer, void *comm, void *stream), \
	     (from, n, type, peer, comm, stream), BETWEEN) \
	CALL(ncclRecv, (void *to, size_t n, int type, int peer, void *comm, void *stream), \
	     (to, n, type, peer, comm, stream), BETWEEN) \
	CALL(ncclGroupStart, (void), (), NO_SIZES) \
	CALL(ncclGroupEnd, (void), (), NO_SIZES) \
	CALL(ncclCommInitRank, (void **comm, int ranks, struct unique_id id, int rank), (comm, ranks, id, rank), MADE) \
	CALL(ncclCommInitRankConfig, (void **comm, int ranks, struct unique_id id, int rank, void *config), \
	     (comm, ranks, id, rank, config), MADE) \
	CALL(ncclCommInitAll, (void **comm, int devices, const int *list), (comm, devices, list), MADE) \
	CALL(ncclCommSplit, (void *parent, int color, int key, void **comm, void *config), \
	     (parent, color, key, comm, config), MADE) \
	CALL(ncclCommFinalize, (void *comm), (comm), OF_COMM) \
	CALL(ncclCommDestroy, (void *comm), (comm), OF_COMM) \
	CALL(ncclCommAbort, (void *comm), (comm), OF_COMM)
/* clang-format on */

enum {
#define CALL(name, ...) WRAPPED_##name,
	NCCL_CALLS(CALL)
#undef CALL
		N_WRAPPED
};

static struct wrapped wrapped[N_WRAPPED] = {
#define CALL(name, ...) { #name, NULL, CALLS_NO_FUNCTION },
	NCCL_CALLS(CALL)
#undef CALL
};

static void *find_nccl(const char *name)
{
	return loaded_find("libnccl.so", name);
}

#define CALL(name, parameters, arguments, ...)                                                     \
	DEVICE_CALL(name, find_nccl, INTERNAL_ERROR, parameters, arguments, __VA_ARGS__)
NCCL_CALLS(CALL)

__attribute__((constructor)) static void register_all(void)
{
	types_register(types, N_TYPES);
	wrapped_register(wrapped, N_WRAPPED, "nccl");
}
