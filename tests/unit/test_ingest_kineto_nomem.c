/* SPDX-License-Identifier: Apache-2.0
 *
 * A Kineto trace into the real intake while one allocation after the other fails: -ENOMEM and a
 * sentence, or a run that is whole; nothing is left behind (the sanitizer looks).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "failing_alloc.h"
#include "ingest/kineto/kineto.h"
#include "ingest/shared/intake.h"
#include "ingest/shared/json_scan.h"

static const char trace[] =
	"{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"GPU\"}],"
	"\"moescope\":{\"command\":\"a\",\"processes\":[{\"rank\":0,\"pid\":5,\"trace_pid\":5,"
	"\"first_device_pid\":4000000000},{\"rank\":1,\"pid\":6,\"trace_pid\":6,"
	"\"first_device_pid\":4000001024}]},\"distributedInfo\":{\"rank\":0,\"pg_config\":[1]},"
	"\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"nccl\\u00e9\",\"pid\":4000001024,"
	"\"tid\":7,\"ts\":1,\"dur\":2,\"args\":{\"grid\":[1,1,1]}},"
	"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":5,\"tid\":5,\"ts\":1,\"dur\":2,"
	"\"args\":{\"Input Dims\":[[1,2]],\"Call stack\":\"a;b\"}},"
	"{\"ph\":\"C\",\"name\":\"c\",\"pid\":5,\"ts\":1,\"args\":{\"x\":1}},"
	"{\"ph\":\"s\",\"cat\":\"fwdbwd\",\"id\":1,\"pid\":6,\"tid\":1,\"ts\":1},"
	"{\"ph\":\"f\",\"cat\":\"fwdbwd\",\"id\":1,\"pid\":6,\"tid\":1,\"ts\":2},"
	"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"r\",\"pid\":6,\"tid\":1,\"ts\":1,"
	"\"dur\":1,\"args\":{\"moescope\":{\"layer\":3}}},"
	"{\"ph\":\"i\",\"cat\":\"moescope\",\"name\":\"mark\",\"pid\":6,\"ts\":1,"
	"\"args\":{\"record\":\"mark\",\"text\":\"t\"}}]}";

static void test_failing_allocations(void **state)
{
	struct kineto_choices choices = { scan_best(), 100, 1 };
	char path[64];
	struct ingest_file file = { .path = path,
				    .bytes = sizeof(trace) - 1,
				    .head = trace,
				    .head_bytes = sizeof(trace) - 1 };
	int fd = memfd_create("trace", 0), r = -ENOMEM;
	long n;

	(void)state;
	assert_int_equal(write(fd, trace, sizeof(trace) - 1), sizeof(trace) - 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (n = 0; r < 0; n++) {
		struct err err = { "" };
		struct intake *intake;

		assert_int_equal(intake_new(~UINT64_C(0), &intake), 0);
		countdown = n;
		r = kineto_read(&file, intake, &choices, &err);
		if (countdown >= 0) /* none failed */
			assert_int_equal(r, 0);
		else if (r < 0)
			assert_int_equal(r, -ENOMEM);
		else
			r = -ENOMEM; /* it did without; go on */
		countdown = -1;
		intake_free(intake);
	}
	assert_true(n > 50);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_failing_allocations) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
