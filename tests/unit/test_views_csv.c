/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of report --csv: names and columns that users of other profilers know, values of runs
 * built by hand against files in tests/golden, and what no run may bring out of step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "exports/csv/kernel_comparison.h"
#include "fake_counters.h"
#include "fake_windows.h"
#include "golden.h"
#include "json_check.h"
#include "surfaces/views/document_view.h"

static struct document_view *book_of(const struct run *run)
{
	struct view_options options = { .question = QUESTION_ALL };
	struct document_view *book = malloc(sizeof(*book));
	struct err err = { "" };

	assert_non_null(book);
	assert_int_equal(document_view_open(book, &document_book, run, &options, &err), 0);
	return book;
}

static void book_free(struct document_view *book)
{
	document_view_close(book);
	free(book);
}

/* The file whose name begins so; free() it. */
static char *file_of(const struct document_view *book, const char *begin, char *name, size_t size)
{
	for (size_t i = 0; i < document_view_files(book); i++) {
		struct err err = { "" };
		char *text = NULL;
		size_t length;
		FILE *out;

		document_view_file_name(book, i, name, size);
		if (strncmp(name, begin, strlen(begin)) != 0)
			continue;
		out = open_memstream(&text, &length);
		assert_int_equal(document_view_write(book, i, out, &err), 0);
		fclose(out);
		return text;
	}
	fail_msg("no file %s", begin);
	return NULL;
}

static void check_golden(struct run *run, const char *which, const char *const *files)
{
	struct document_view *book = book_of(run);

	for (; *files; files++) {
		char name[128], golden[160];
		char *text = file_of(book, *files, name, sizeof(name));

		print_message("%s %s\n", which, name);
		if (strstr(name, ".json"))
			assert_true(json_check(text));
		snprintf(golden, sizeof(golden), "csv-%s-%s", which, name);
		golden_compare(golden, text);
		free(text);
	}
	book_free(book);
	fake_run_free(run);
}

static void test_values(void **state)
{
	static const char *const gpu[] = { "kernel_stats",
					   "profiler_report",
					   "nsys_summary",
					   "cuda_api_summary",
					   "nsys_metrics",
					   "timeline",
					   NULL };
	static const char *const training[] = { "memory_stats", "expert_routing", "profiler_report",
						"nsys_metrics", NULL };

	static const char *const limits[] = { "ncu_metrics", "ncu_summary", NULL };

	(void)state;
	check_golden(fake_limits_run(), "limits", limits);
	check_golden(fake_gpu_run(), "gpu", gpu);
	check_golden(fake_training_run(), "training", training);
}

/* What scripts of other profilers' users open and read. */
static void test_names_and_columns(void **state)
{
	static const struct {
		const char *name, *header;
	} files[] = {
		{ "memory_stats_20260131_140307.csv",
		  "timestamp,allocated_mb,reserved_mb,peak_mb,fragmentation_percent" },
		{ "kernel_stats_20260131_140307.csv",
		  "timestamp,kernel_name,execution_time_ms,occupancy_percent,"
		  "memory_bandwidth_gbps,expert_id,operation_type" },
		{ "expert_routing_20260131_140307.csv",
		  "timestamp,token_count,active_experts,load_balance_score" },
		{ "profiler_report_20260131_140307.json", "{" },
		{ "nsys_summary.csv", "Kernel Name,Time %,Total Time (ns)" },
		{ "ncu_metrics.json", "{" },
		{ "ncu_summary.csv", "Kernel Name,Time %,Total Time (ns)," },
		{ "routing_steps.csv",
		  "step,flops_total,flops_router,flops_expert,active_experts,k_avg,latency_ms,"
		  "router_conf,memory_mb,timestamp,device,layer" },
		{ "kernels.csv", "name," },
		{ "ops.csv", "name," },
		{ "api.csv", "name," },
		{ "steps.csv", "step," },
		{ "transfers.csv", "kind," },
		{ "comm.csv", "name,transport," },
		{ "moe.csv", "part,pass,count," },
		{ "memory.csv", "rank," },
		{ "routing.csv", "layer," },
		{ "timeline.csv", "rank," },
		{ "verdicts.csv", "id,severity," },
	};
	struct run *run = fake_training_run();
	struct document_view *book = book_of(run);

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		char name[128];
		char *text = file_of(book, files[i].name, name, sizeof(name));

		assert_string_equal(name, files[i].name);
		if (strncmp(text, files[i].header, strlen(files[i].header)) != 0)
			fail_msg("%s begins with %.120s", name, text);
		free(text);
	}
	book_free(book);
	fake_run_free(run);
}

/* Cells of a line: commas outside quotes, and one. Quoted text may hold line breaks. */
static const char *count_cells(const char *line, size_t *ret_cells)
{
	bool quoted = false;

	*ret_cells = 1;
	for (; *line && (quoted || *line != '\n'); line++) {
		if (*line == '"')
			quoted = !quoted;
		*ret_cells += *line == ',' && !quoted;
	}
	assert_false(quoted);
	return *line ? line + 1 : line;
}

/* Every file of every run: as many cells in each row as in the first, no NaN, and every column of it
 * in columns.csv. */
static void check_whole(struct run *run)
{
	struct document_view *book = book_of(run);
	char columns_name[128];
	char *columns = file_of(book, "columns.csv", columns_name, sizeof(columns_name));

	for (size_t i = 0; i < document_view_files(book); i++) {
		char name[128], listed[320];
		char *text, *header, *key, *rest;
		const char *at;
		size_t cells, other;

		document_view_file_name(book, i, name, sizeof(name));
		text = file_of(book, name, name, sizeof(name));
		assert_null(strstr(text, "nan"));
		if (strstr(name, ".json")) {
			assert_true(json_check(text));
			free(text);
			continue;
		}
		at = count_cells(text, &cells);
		while (*at) {
			at = count_cells(at, &other);
			assert_int_equal(other, cells);
		}
		header = strndup(text, strcspn(text, "\n"));
		for (key = strtok_r(header, ",", &rest); key; key = strtok_r(NULL, ",", &rest)) {
			snprintf(listed, sizeof(listed), "\n%s,%s,", name,
				 strncmp(key, "expert_", 7) || strspn(key + 7, "0123456789") == 0
					 ? key
					 : "expert_N");
			if (strcmp(name, "columns.csv") != 0 && !strstr(columns, listed))
				fail_msg("columns.csv does not have%s", listed);
		}
		free(header);
		free(text);
	}
	free(columns);
	book_free(book);
	fake_run_free(run);
}

static void test_whole(void **state)
{
	struct run *bad = fake_run_new();

	(void)state;
	check_whole(fake_run_new());
	check_whole(fake_training_run());
	check_whole(fake_gpu_run());
	check_whole(fake_windows_run());
	/* Names that would break a line, times before 1970, a kernel in two places. */
	bad->shards[0].realtime_offset_ns = -5000000000;
	fake_kernel(bad, "a \"b\", c\nd", 100, 200, 1);
	fake_kernel(bad, "", 100, -1, 0);
	fake_step(bad, 0, 0, 0, 0);
	fake_routing(bad, 0, 1, 0, 1, 2, (const uint32_t[]){ 0, 0 });
	check_whole(bad);
}

static void test_stamp_is_local_time(void **state)
{
	struct run *run = fake_gpu_run();
	struct document_view *book;
	char name[128];

	(void)state;
	setenv("TZ", "EST5", 1);
	tzset();
	book = book_of(run);
	document_view_file_name(book, 0, name, sizeof(name));
	assert_string_equal(name, "memory_stats_20260131_090307.csv");
	book_free(book);
	setenv("TZ", "UTC0", 1);
	tzset();
	/* Without a start, that of the process; without one, a word. */
	run->info.started_realtime_ns = 0;
	run->shards[0].start_ns = 0;
	run->shards[0].realtime_offset_ns = INT64_C(86400000000000);
	book = book_of(run);
	document_view_file_name(book, 0, name, sizeof(name));
	assert_string_equal(name, "memory_stats_19700102_000000.csv");
	book_free(book);
	run->shards[0].realtime_offset_ns = 0;
	book = book_of(run);
	document_view_file_name(book, 0, name, sizeof(name));
	assert_string_equal(name, "memory_stats_unknown.csv");
	book_free(book);
	fake_run_free(run);
}

static void test_comparison(void **state)
{
	struct kernel_comparison *c = kernel_comparison_new();
	struct run *runs[] = { fake_run_new(), fake_run_new(), fake_run_new() };
	char *text = NULL;
	size_t size;
	FILE *out;

	(void)state;
	fake_kernel(runs[0], "a", 0, 100, 1);
	fake_kernel(runs[0], "b", 100, 150, 2);
	fake_kernel(runs[1], "a", 0, 150, 1);
	fake_kernel(runs[1], "a", 200, 250, 2);
	fake_kernel(runs[1], "c, d", 300, -1, 3);
	/* The third has no device records: empty, not zero. */
	for (int i = 0; i < 3; i++) {
		struct document_view *book = book_of(runs[i]);

		assert_int_equal(kernel_comparison_add(c,
						       i == 0	? "x"
						       : i == 1 ? "y"
								: "z",
						       runs[i], answer_kernels(book->answers)),
				 0);
		book_free(book);
		fake_run_free(runs[i]);
	}
	out = open_memstream(&text, &size);
	kernel_comparison_write(c, out);
	fclose(out);
	assert_string_equal(text, "Kernel Name,x Instances,x Total Time (ns),x Avg (ns),"
				  "y Instances,y Total Time (ns),y Avg (ns),y Avg change %,"
				  "z Instances,z Total Time (ns),z Avg (ns),z Avg change %\n"
				  "a,1,100,100,2,200,100,0,,,,\n"
				  "b,1,50,50,0,0,,,,,,\n"
				  "\"c, d\",0,0,,1,,,,,,,\n");
	free(text);
	kernel_comparison_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),	   cmocka_unit_test(test_names_and_columns),
		cmocka_unit_test(test_whole),	   cmocka_unit_test(test_stamp_is_local_time),
		cmocka_unit_test(test_comparison),
	};

	setenv("TZ", "UTC0", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
