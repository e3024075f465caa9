/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch (Kineto) traces: what rows each event becomes, in which order of keys and cut into which
 * blocks it may come, and what is left of files that are damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "kineto_text.h"

static void assert_lines(const char *text, uint64_t kinds, const char *expected)
{
	char *lines = lines_of(text, kinds, NULL);

	assert_string_equal(lines, expected);
	free(lines);
}

/* One event alone. */
static void assert_event(const char *event, const char *expected)
{
	char *text, *lines, *rest;

	assert_true(asprintf(&text, "{\"traceEvents\": [\n  %s\n  ]}", event) > 0);
	lines = lines_of(text, ALL_KINDS, NULL);
	rest = strstr(lines, "process rank");
	assert_non_null(rest);
	*rest = 0;
	assert_string_equal(lines, expected);
	free(lines);
	free(text);
}

static void test_kernels(void **state)
{
	(void)state;
	assert_event(
		"{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void k<4>(float*)\", "
		"\"pid\": 0, \"tid\": 7,\n    \"ts\": 3846407584989.722, \"dur\": 8.129,\n"
		"    \"args\": {\n      \"External id\": 1541,\"queued\": 0, \"device\": 1, "
		"\"context\": 1, \"stream\": 27, \"correlation\": 18786, "
		"\"registers per thread\": 16, \"shared memory\": 4096, "
		"\"blocks per SM\": 62.060608, \"grid\": [8192, 2, 1], \"block\": [128, 1, 1], "
		"\"graph id\": 5, \"graph node id\": 21474836481\n    }\n  }",
		"kernel launch='void k<4>(float*) <8192,2,1> <128,1,1> 16 registers 0+4096 "
		"bytes' start_ns=3846407584989722 duration_ns=8129 stream=27 device=1 "
		"correlation=18786 context=1 graph=5 graph_node=21474836481\n");
	/* 2021: other names, times in whole microseconds, threads as texts, no device in args. */
	assert_event("{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":3,"
		     "\"tid\":\"stream 7\",\"ts\":1623142623531625,\"dur\":2,\"args\":{}}",
		     "kernel launch='k <0,0,0> <0,0,0> 0 registers 0+0 bytes' "
		     "start_ns=1623142623531625000 duration_ns=2000 stream=7 device=3\n");
	/* No arguments at all; no triple of numbers. */
	assert_event("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2}",
		     "kernel launch='k <0,0,0> <0,0,0> 0 registers 0+0 bytes' start_ns=1000 "
		     "duration_ns=2000\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2,"
		     "\"args\":{\"grid\":[1,2],\"block\":[1,2,3,4],\"registers per thread\":null,"
		     "\"shared memory\":\"a lot\",\"correlation\":\"12\"}}",
		     "kernel launch='k <0,0,0> <0,0,0> 0 registers 0+0 bytes' start_ns=1000 "
		     "duration_ns=2000 correlation=12\n");
}

static void test_collectives(void **state)
{
	(void)state;
	assert_event(
		"{\"ph\":\"X\",\"cat\":\"kernel\","
		"\"name\":\"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(a)\",\"pid\":0,\"tid\":20,"
		"\"ts\":5,\"dur\":1,\"args\":{\"Collective name\":\"allreduce\","
		"\"In msg nelems\":2049000,\"Out msg nelems\":2049001,\"Group size\":8,"
		"\"dtype\":\"BFloat16\",\"Process Group Name\":\"0\",\"Seq\":3,"
		"\"device\":0,\"stream\":20,\"correlation\":4,"
		"\"Comms Id\":18446744073709551615}}",
		"kernel launch='ncclDevKernel_AllReduce_Sum_bf16_RING_LL(a) <0,0,0> <0,0,0> 0 "
		"registers 0+0 bytes' start_ns=5000 duration_ns=1000 stream=20 correlation=4\n"
		"collective name='allreduce' start_ns=5000 duration_ns=1000 stream=20 "
		"correlation=4 group='0' sequence=3 sequence_known=1 group_size=8 "
		"type='BFloat16' in_elements=2049000 out_elements=2049001\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"kernel\","
		     "\"name\":\"NCCLKernel_SendRecv\",\"ts\":5,\"dur\":1}",
		     "kernel launch='NCCLKernel_SendRecv <0,0,0> <0,0,0> 0 registers 0+0 bytes' "
		     "start_ns=5000 duration_ns=1000\n"
		     "collective name='nccl' start_ns=5000 duration_ns=1000\n");
	assert_event(
		"{\"ph\":\"X\",\"cat\":\"kernel\","
		"\"name\":\"ncclKernel_SendRecv_RING_SIMPLE(x)\",\"ts\":5,\"dur\":1}",
		"kernel launch='ncclKernel_SendRecv_RING_SIMPLE(x) <0,0,0> <0,0,0> 0 registers "
		"0+0 bytes' start_ns=5000 duration_ns=1000\n"
		"collective name='sendrecv' start_ns=5000 duration_ns=1000\n");
}

static void test_copies_and_sets(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"X\",\"cat\":\"gpu_memcpy\","
		     "\"name\":\"Memcpy HtoD (Pinned -> Device)\",\"pid\":0,\"tid\":7,\"ts\":1,"
		     "\"dur\":0.736,\"args\":{\"device\":2,\"context\":1,\"stream\":7,"
		     "\"correlation\":9,\"bytes\":131072,\"memory bandwidth (GB/s)\":78.7}}",
		     "copy start_ns=1000 duration_ns=736 bytes=131072 kind=1 source_memory=2 "
		     "target_memory=3 device=2 stream=7 correlation=9 source_device=2 "
		     "target_device=2 asynchronous=255 context=1\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"Memcpy\","
		     "\"name\":\"Memcpy PtoP (Device -> Device)\",\"ts\":1,\"dur\":1,"
		     "\"args\":{\"device\":0,\"fromDevice\":0,\"toDevice\":3}}",
		     "copy start_ns=1000 duration_ns=1000 bytes=18446744073709551615 kind=10 "
		     "source_memory=3 target_memory=3 target_device=3 asynchronous=255\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"gpu_memset\",\"name\":\"Memset (Device)\",\"ts\":1,"
		     "\"dur\":1,\"pid\":0,\"tid\":7,\"args\":{\"bytes\":16}}",
		     "set start_ns=1000 duration_ns=1000 bytes=16 memory=3 stream=7\n");
}

static void test_calls_and_waits(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\","
		     "\"pid\":461,\"tid\":506,\"ts\":1.5,\"dur\":45.15,"
		     "\"args\":{\"cbid\":211,\"correlation\":18786}}",
		     "api name='cudaLaunchKernel' start_ns=1500 duration_ns=45150 thread=506 "
		     "correlation=18786 status=4294967295\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"cuda_driver\",\"name\":\"cuLaunchKernelEx\","
		     "\"pid\":461,\"tid\":506,\"ts\":1,\"dur\":1,\"args\":{\"correlation\":7}}",
		     "api name='cuLaunchKernelEx' start_ns=1000 duration_ns=1000 thread=506 "
		     "correlation=7 driver=1 status=4294967295\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"cuda_sync\",\"name\":\"Stream Wait Event\","
		     "\"pid\":0,\"tid\":20,\"ts\":1,\"dur\":1,\"args\":{\"stream\":20,"
		     "\"correlation\":7,\"context\":1}}",
		     "sync start_ns=1000 duration_ns=1000 type=2 context=1 stream=20 "
		     "correlation=7\n");
}

static void test_program(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":2,"
		     "\"ts\":10,\"dur\":5,\"args\":{\"Input Dims\":[[1024, 8192], [], [4]],"
		     "\"Call stack\":\"b.py(2): g;a.py(1): f\",\"flops\":77}}",
		     "op site='aten::mm' start_ns=10000 duration_ns=5000 thread=2 "
		     "shape='[1024,8192]x[4]' flops=77 unknown=2 stack='a.py(1): f;b.py(2): g'\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"aten::mm\",\"pid\":1,"
		     "\"tid\":\"25738\",\"ts\":10,\"dur\":5,\"args\":{\"Input dims\":[[], []]}}",
		     "op site='aten::mm' start_ns=10000 duration_ns=5000 thread=25738 unknown=3\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"forward\",\"pid\":1,"
		     "\"tid\":2,\"ts\":10,\"dur\":5}",
		     "range site='forward' start_ns=10000 duration_ns=5000 thread=2\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#12\","
		     "\"pid\":1,\"tid\":2,\"ts\":10,\"dur\":5}",
		     "step step=12 start_ns=10000 duration_ns=5000 recorded=1\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"ProfilerStep#0\",\"pid\":1,"
		     "\"tid\":2,\"ts\":10,\"dur\":5}",
		     "step start_ns=10000 duration_ns=5000 recorded=1\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#x\","
		     "\"ts\":10,\"dur\":5}",
		     "range site='ProfilerStep#x' start_ns=10000 duration_ns=5000\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"gpu_user_annotation\",\"name\":\"forward\",\"pid\":0,"
		     "\"tid\":7,\"ts\":10,\"dur\":5,\"args\":{\"External id\":1}}",
		     "span name='forward' start_ns=10000 duration_ns=5000 thread=7 end_thread=7 "
		     "domain='gpu'\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"overhead\",\"name\":\"Buffer Flush\",\"pid\":-1,"
		     "\"tid\":0,\"ts\":10,\"dur\":5}",
		     "span name='Buffer Flush' start_ns=10000 duration_ns=5000 "
		     "domain='overhead'\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":\"a.py(22): <module>\","
		     "\"pid\":1,\"tid\":2,\"ts\":10,\"dur\":5}",
		     "frame name='a.py(22): <module>' start_ns=10000 duration_ns=5000 thread=2\n");
	assert_event("{\"ph\":\"i\",\"s\":\"t\",\"name\":\"here\",\"tid\":2,\"ts\":10}",
		     "mark time_ns=10000 text='here' thread=2\n");
	assert_event("{\"ph\":\"C\",\"name\":\"load\",\"ts\":10,\"args\":{\"value\":1.5,"
		     "\"used\":2}}",
		     "counter time_ns=10000 name='load' value=1.5\n"
		     "counter time_ns=10000 name='load used' value=2\n");
	assert_event("{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":461,\"tid\":506,\"ts\":1,"
		     "\"args\":{\"name\":\"thread 506 (python3)\"}},"
		     "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":7,\"ts\":1,"
		     "\"args\":{\"name\":\"stream 7 \"}}",
		     "thread thread=506 name='thread 506 (python3)'\n");
}

static void test_memory(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\","
		     "\"name\":\"[memory]\",\"pid\":461,\"tid\":506,\"ts\":10,\"args\":{"
		     "\"Total Reserved\":717225984,\"Total Allocated\":657308672,"
		     "\"Bytes\":33554432,\"Device Id\":0,\"Device Type\":1,"
		     "\"Addr\":139985466425344}},"
		     "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\","
		     "\"name\":\"[memory]\",\"pid\":461,\"tid\":506,\"ts\":11,\"args\":{"
		     "\"Bytes\":-33554432,\"Device Id\":-1,\"Device Type\":0,\"Addr\":64}}",
		     "memory time_ns=10000 address=139985466425344 bytes=33554432 thread=506\n"
		     "sample time_ns=10000 metric='allocated_bytes' value=6.57309e+08\n"
		     "sample time_ns=10000 metric='reserved_bytes' value=7.17226e+08\n"
		     "memory time_ns=11000 event=1 address=64 bytes=33554432 device=-1 "
		     "thread=506\n"
		     "memory time_ns=10000 event=4 bytes=623754240\n");
	/* 2021: no address. */
	assert_event("{\"ph\":\"i\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":1,\"tid\":1,\"ts\":1,"
		     "\"args\":{\"Device Type\":0,\"Device Id\":-1,\"Bytes\":4}}",
		     "note: " TEXT_PATH
		     ": 1 events of its allocator have no address and are left out\n");
}

/* The bit 128 is for those who put operations into each other. */
static void test_flops(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"ts\":1,\"dur\":1,"
		     "\"args\":{\"Input Dims\":[ [5, 6] , [6,7]]}},"
		     "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"ts\":2,\"dur\":1,"
		     "\"args\":{\"Input Dims\":[[5, 6], [6, 7]],\"flops\":0}},"
		     "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"ts\":3,\"dur\":1,"
		     "\"args\":{\"Input Dims\":[[5, 6], null]}}",
		     "op site='aten::mm' start_ns=1000 duration_ns=1000 shape='[5,6]x[6,7]' "
		     "flops=420 unknown=130\n"
		     "op site='aten::mm' start_ns=2000 duration_ns=1000 shape='[5,6]x[6,7]' "
		     "unknown=2\n"
		     "op site='aten::mm' start_ns=3000 duration_ns=1000 shape='[5,6]' unknown=3\n");
}

static void test_arrows(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"f\",\"id\":1,\"pid\":1,\"tid\":5,\"ts\":30,\"cat\":\"fwdbwd\","
		     "\"name\":\"fwdbwd\",\"bp\":\"e\"},"
		     "{\"ph\":\"s\",\"id\":2,\"pid\":1,\"tid\":4,\"ts\":11,\"cat\":\"fwdbwd\","
		     "\"name\":\"fwdbwd\"},"
		     "{\"ph\":\"s\",\"id\":1,\"pid\":1,\"tid\":4,\"ts\":10,\"cat\":\"fwdbwd\","
		     "\"name\":\"fwdbwd\"},"
		     "{\"ph\":\"s\",\"id\":1,\"pid\":1,\"tid\":4,\"ts\":10,\"cat\":\"ac2g\","
		     "\"name\":\"ac2g\"},"
		     "{\"ph\":\"f\",\"id\":1,\"pid\":0,\"tid\":7,\"ts\":12,\"cat\":\"ac2g\","
		     "\"name\":\"ac2g\",\"bp\":\"e\"}",
		     "flow name='fwdbwd' start_ns=10000 duration_ns=20000 thread=4 "
		     "end_thread=5 id=1\n"
		     "note: 1 ends of arrows from forward to backward operations have no other end "
		     "and are left out\n");
}

static void test_unknown_events_are_counted(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"X\",\"cat\":\"mtia_ccp_events\",\"name\":\"a\",\"ts\":1,\"dur\":1},"
		     "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\","
		     "\"pid\":\"Spans\",\"tid\":\"PyTorch Profiler\",\"ts\":1,\"dur\":1},"
		     "{\"ph\":\"B\",\"name\":\"a\",\"ts\":1},"
		     "{\"ph\":\"E\",\"cat\":\"cpu_op\",\"name\":\"a\",\"ts\":1},"
		     "{\"ph\":\"X\",\"cat\":\"caf\\u00e9\",\"name\":\"a\",\"ts\":1,\"dur\":1},"
		     "{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":1}",
		     "unknown: mtia_ccp_events\nunknown: phase B\nunknown: cpu_op of phase E\n"
		     "unknown: caf\xc3\xa9\nunknown: none\n");
}

static void test_top_level(void **state)
{
	(void)state;
	assert_lines(
		"\n{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, "
		"\"name\": \"NVIDIA H200\", \"totalGlobalMem\": 150109880320, "
		"\"computeMajor\": 9, \"computeMinor\": 0, "
		"\"maxThreadsPerMultiprocessor\": 2048, \"regsPerMultiprocessor\": 65536, "
		"\"numSms\": 132, \"sharedMemPerMultiprocessor\": 233472}],\n"
		"\"traceEvents\": [{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":461,"
		"\"tid\":0,\"args\":{\"labels\":\"CPU\"}}], "
		"\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, "
		"\"world_size\": 64, \"pg_config\": [{\"pg_name\": \"0\"}]},\n"
		"\"baseTimeNanoseconds\": 1790857026000000000, \"traceName\": \"a\\u00e9.json\"}",
		ALL_KINDS,
		"fact key='schemaVersion' value='1'\n"
		"device name='NVIDIA H200' memory_bytes=150109880320 multiprocessors=132 "
		"capability=90 threads_per_multiprocessor=2048 "
		"registers_per_multiprocessor=65536 shared_bytes_per_multiprocessor=233472\n"
		"fact key='backend' value='nccl'\n"
		"fact key='rank' value='3'\n"
		"fact key='world_size' value='64'\n"
		"fact key='pg_config' value='[{\"pg_name\": \"0\"}]'\n"
		"fact key='traceName' value='a\xc3\xa9.json'\n"
		"process rank=3 pid=461 shift=1790857026000000000 since 1970\n");
	/* A list of events and nothing else, which may break off. */
	assert_lines(
		"[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":5,\"ts\":0,"
		"\"args\":{\"name\":\"p\"}},"
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":5,\"tid\":5,"
		"\"ts\":1623142623460111,\"dur\":1},\n",
		ALL_KINDS,
		"op site='a' start_ns=1623142623460111000 duration_ns=1000 thread=5 unknown=3\n"
		"process rank=9? pid=5 shift=0 since 1970\n");
	assert_lines("\xef\xbb\xbf{\"traceEvents\":[]}", ALL_KINDS,
		     "process rank=9? pid=0 shift=0\n");
}

static void assert_time(const char *us, int64_t ns)
{
	char event[256], expected[128];

	snprintf(event, sizeof(event), "{\"ph\":\"i\",\"name\":\"m\",\"ts\":%s}", us);
	snprintf(expected, sizeof(expected), "mark%s%.0lld text='m'\n", ns ? " time_ns=" : "",
		 (long long)ns);
	assert_event(event, expected);
}

static void test_numbers(void **state)
{
	(void)state;
	assert_time("1712195495519689.123", INT64_C(1712195495519689123));
	assert_time("1712195495519689.0", INT64_C(1712195495519689000));
	assert_time("1712195495519689", INT64_C(1712195495519689000));
	assert_time("\"123.5\"", 123500);
	assert_time("0.0004", 0);
	assert_time("0.0005", 1);
	assert_time("-1.25", -1250);
	assert_time("1.5e3", 1500000);
	assert_time("1.712195495519689123E15", INT64_C(1712195495519689123));
	assert_time("15e-1", 1500);
	assert_time("0.12345678901234567890123", 123);
	/* Behind the zero of the clock, and with a duration, times must fit into 64 bits still. */
	assert_time("4602678819172646.911", INT64_C(4602678819172646911));
	assert_time("-4602678819172646.911", -INT64_C(4602678819172646911));
	assert_event("{\"ph\":\"i\",\"name\":\"m\",\"ts\":4602678819172646.912}",
		     "damaged at 20: a time that is out of range\n");
	assert_event("{\"ph\":\"i\",\"name\":\"m\",\"ts\":9223372036854775.808}",
		     "damaged at 20: a time that is out of range\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,"
		     "\"dur\":9007199254740.993}",
		     "damaged at 20: a time that is out of range\n");
	assert_event("{\"ph\":\"C\",\"name\":\"c\",\"ts\":-9e15,\"args\":{\"a\":1}}",
		     "damaged at 20: a time that is out of range\n");
	assert_event("{\"ph\":\"i\",\"name\":\"m\",\"ts\":1e400}",
		     "damaged at 20: a time that is out of range\n");
	assert_event("{\"ph\":\"i\",\"name\":\"m\",\"ts\":\"soon\"}",
		     "damaged at 20: no number where one should be\n");
	/* Ids beyond int64 are ids. */
	assert_event("{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"a\",\"ts\":1,\"dur\":1,"
		     "\"args\":{\"correlation\":18446744073709551615}}",
		     "api name='a' start_ns=1000 duration_ns=1000 "
		     "correlation=18446744073709551615 status=4294967295\n");
}

static void test_strings(void **state)
{
	(void)state;
	assert_event(
		"{\"ph\":\"i\",\"name\":\"a\\n\\\"b\\\" \\u00e9\\ud83d\\ude00\\/\\\\\",\"ts\":1}",
		"mark time_ns=1000 text='a\n\"b\" \xc3\xa9\xf0\x9f\x98\x80/\\'\n");
	/* Half a pair, and no hexadecimal number. */
	assert_event("{\"ph\":\"i\",\"name\":\"\\ud83d \\u00g0\",\"ts\":1}",
		     "mark time_ns=1000 text='\xef\xbf\xbd \xef\xbf\xbd"
		     "00g0'\n");
	/* Control characters as they are. */
	assert_event("{\"ph\":\"i\",\"name\":\"a\nb\",\"ts\":1}",
		     "mark time_ns=1000 text='a\nb'\n");
}

static void test_events_that_cannot_be_read(void **state)
{
	(void)state;
	assert_event("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":-2}",
		     "damaged at 20: a duration below zero\n");
	assert_event("{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1}",
		     "damaged at 20: an event without its time or duration\n");
	assert_event("{\"name\":\"k\"}", "damaged at 20: an event without its phase\n");
	assert_event("{\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":1}",
		     "damaged at 20: an event without its phase\n");
	/* Quotes that are not escaped: one, and a pair of them. The events around are read. */
	assert_event("{\"ph\":\"i\",\"name\":\"a\",\"ts\":1},\n"
		     "{\"ph\":\"i\",\"name\":\"b\" b\",\"ts\":2,\"args\":{}},\n"
		     "{\"ph\":\"i\",\"name\":\"c\",\"ts\":3},\n"
		     "{\"ph\":\"i\",\"name\":\"d\"d\" d\",\"ts\":4,\"args\":{}},\n"
		     "{\"ph\":\"i\",\"name\":\"e\",\"ts\":5}",
		     "mark time_ns=1000 text='a'\nmark time_ns=3000 text='c'\n"
		     "mark time_ns=5000 text='e'\n"
		     "damaged at 50: no comma between two members\n"
		     "damaged at 123: no comma between two members\n");
	/* Things that are no events: values, and what is none. */
	assert_event("{\"ph\":\"i\",\"name\":\"a\",\"ts\":1}, null, {\"ph\":\"i\",\"name\":\"b\","
		     "\"ts\":2},[{\"ph\":\"i\"}],{\"ph\":\"i\",\"name\":\"c\",\"ts\":3}",
		     "mark time_ns=1000 text='a'\nmark time_ns=2000 text='b'\n"
		     "mark time_ns=3000 text='c'\n"
		     "damaged at 50: something that is not an event\n"
		     "damaged at 85: something that is not an event\n");
	assert_event("{\"ph\":\"i\",\"name\":\"a\",\"ts\":1} x y, {\"ph\":\"i\",\"name\":\"b\","
		     "\"ts\":2},{\"ph\":\"i\",\"name\":\"c\",\"ts\":3}",
		     "mark time_ns=1000 text='a'\nmark time_ns=3000 text='c'\n"
		     "damaged at 49: something that is not an event\n");
}

/* What is skipped is not looked at, but a quote too many in it must not hide what follows. */
static void test_skipped_events_hide_nothing(void **state)
{
	static const char *const breaks[] = { "", "\n" };

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *text, *lines, *more = calloc(1, 40000);

		for (int k = 0; k < 300; k++)
			sprintf(more + strlen(more),
				"%s,{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2}",
				breaks[i]);
		assert_true(asprintf(&text,
				     "{\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\","
				     "\"name\":\"a\"a\",\"ts\":1,\"dur\":1,\"args\":{}}%s]}",
				     more) > 0);
		lines = lines_of(text, UINT64_C(1) << RECORD_KERNEL, NULL);
		for (int k = 0; k < 300; k++) {
			char *at = strstr(lines, "kernel launch='k ");

			assert_non_null(at);
			*at = 'x';
		}
		assert_non_null(strstr(lines, "damaged at 16: no comma between two values\n"));
		free(lines);
		free(text);
		free(more);
	}
}

static void test_only_what_is_wanted_is_read(void **state)
{
	(void)state;
	assert_lines(
		"{\"traceEvents\":["
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"}{\\\"\",\"ts\":1,\"dur\":1,"
		"\"args\":{\"a\":{\"b\":[{}]}}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2},"
		"{\"ph\":\"s\",\"id\":1,\"cat\":\"fwdbwd\",\"ts\":1},"
		"{\"ph\":\"C\",\"cat\":\"of its own\",\"name\":\"c\",\"ts\":1,\"args\":{\"a\":1}},"
		"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#1\",\"ts\":1,"
		"\"dur\":2}]}",
		UINT64_C(1) << RECORD_KERNEL,
		"kernel launch='k <0,0,0> <0,0,0> 0 registers 0+0 bytes' start_ns=1000 "
		"duration_ns=2000\nprocess rank=9? pid=0 shift=0\n");
}

/* Of our own traces any event may be of a kind that is wanted. */
static void test_records_of_moescope(void **state)
{
	static const char text[] =
		"{\"traceEvents\":["
		"{\"ph\":\"C\",\"cat\":\"moescope\",\"record\":\"sample\",\"name\":\"sm_active_pct\","
		"\"ts\":2,\"id\":1,\"args\":{\"value\":7}},"
		"{\"ph\":\"C\",\"name\":\"load\",\"ts\":10,\"args\":{\"value\":1.5}},"
		"{\"ph\":\"i\",\"cat\":\"moescope\",\"name\":\"gear\",\"ts\":3,"
		"\"args\":{\"record\":\"gear\",\"gear\":2,\"why\":\"so\"}},"
		"{\"ph\":\"i\",\"cat\":\"moescope\",\"name\":\"x\",\"ts\":3,"
		"\"args\":{\"record\":\"gear\",\"gear\":\"much\"}},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"ts\":1,\"dur\":2,\"args\":{"
		"\"shared memory\":100,\"moescope\":{\"static_shared_bytes\":30}}}]}";

	(void)state;
	assert_non_null(strstr(text, "\"name\":\"x\""));
	assert_memory_equal(text + 266, strstr(text, "\"name\":\"x\"") - 27, 40);
	assert_lines(text, UINT64_C(1) << RECORD_SAMPLE | UINT64_C(1) << RECORD_GEAR,
		     "sample time_ns=2000 device=1 metric='sm_active_pct' value=7\n"
		     "gear time_ns=3000 gear=2 why='so' cost_pct=0\n"
		     "damaged at 266: a record of moescope that cannot be read\n"
		     "process rank=9? pid=0 shift=0\n");
	assert_lines(text, UINT64_C(1) << RECORD_KERNEL,
		     "kernel launch='k <0,0,0> <0,0,0> 0 registers 30+70 bytes' start_ns=1000 "
		     "duration_ns=2000\n"
		     "damaged at 266: a record of moescope that cannot be read\n"
		     "process rank=9? pid=0 shift=0\n");
}

static void test_files_that_are_none(void **state)
{
	static const struct {
		const char *bytes;
		size_t size;
		const char *words;
	} files[] = {
		{ "{\"a\": 1}", 8, "no list of events" },
		{ "{\"a\": }", 7, "no list of events" },
		{ "hello", 5, "no list of events" },
		{ "", 0, "no list of events" },
		{ "\xff\xfe{\0\"\0", 6, "UTF-16" },
		{ "{\0\"\0", 4, "UTF-16" },
		{ "\0[\0{", 4, "UTF-16" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct err err = { "" };
		char *lines;

		assert_true(read_bytes(files[i].bytes, files[i].size, false, ALL_KINDS, NULL,
				       &lines, &err) < 0);
		assert_non_null(strstr(err.message, files[i].words));
		free(lines);
	}
}

static bool recognised(const char *text)
{
	struct ingest_file file = { .path = "x", .head = text, .head_bytes = strlen(text) };

	return kineto_importer.recognise(&file);
}

static void test_what_is_recognised(void **state)
{
	(void)state;
	assert_true(recognised("\n {\"schemaVersion\": 1, \"traceEvents\": ["));
	assert_true(recognised("{\"deviceProperties\": ["));
	assert_true(recognised("[{\"ph\": \"X\", \"ts\": 1"));
	assert_true(recognised("\xef\xbb\xbf{\"traceEvents\":"));
	assert_false(recognised("{\"schema\": \"moescope/kernels/1\"}"));
	assert_false(recognised("[1, 2]"));
	assert_false(recognised(""));
	assert_false(recognised("\"traceEvents\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_collectives),
		cmocka_unit_test(test_copies_and_sets),
		cmocka_unit_test(test_calls_and_waits),
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_flops),
		cmocka_unit_test(test_arrows),
		cmocka_unit_test(test_unknown_events_are_counted),
		cmocka_unit_test(test_top_level),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_events_that_cannot_be_read),
		cmocka_unit_test(test_skipped_events_hide_nothing),
		cmocka_unit_test(test_only_what_is_wanted_is_read),
		cmocka_unit_test(test_records_of_moescope),
		cmocka_unit_test(test_files_that_are_none),
		cmocka_unit_test(test_what_is_recognised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
