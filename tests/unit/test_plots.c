/* SPDX-License-Identifier: Apache-2.0
 *
 * Every plot of every run built by hand, in both formats and themes; odd runs and names; failures.
 * MOESCOPE_PLOT_DIR=DIR writes the pictures there as well, to look at them.
 */
#include "fake_comm.h"
#include "plot_pictures.h"

static struct run *empty_run(void)
{
	return fake_run_new();
}

/* More of everything than a picture has room for. */
static struct run *large_run(void)
{
	struct run *run = fake_run_new();
	static uint32_t load[256];
	int64_t at = 0;

	fake_shard(run, 1, 4243);
	for (int64_t step = 0; step < 5000; step++) {
		int64_t took = 8 * MS + (step * 7919 % 1000) * 1000 +
			       (step % 977 == 5 ? 9 * MS : 0);

		fake_step(run, step, at, at + took, 1000);
		fake_add_step(run, 1,
			      &(struct row_step){ .step = step,
						  .start_ns = at,
						  .duration_ns = took - 1000,
						  .recorded = 1 });
		at += took;
	}
	for (int32_t layer = 0; layer < 61; layer++) {
		for (uint32_t e = 0; e < 256; e++)
			load[e] = (e * 2654435761u >> 20) % 90 + (e % 17 == 0 ? 200 : 0);
		load[7] = load[250] = 0;
		load[8] += (uint32_t)(8 - (load[0] % 8));
		for (uint64_t sum = 1; sum % 8;) {
			sum = 0;
			for (uint32_t e = 0; e < 256; e++)
				sum += load[e];
			load[9] += sum % 8 ? 1 : 0;
		}
		fake_routing(run, 3, 40 * MS, layer, 8, 256, load);
	}
	for (int i = 0; i < 40; i++) {
		char name[300];

		snprintf(name, sizeof(name),
			 "void при<%d>::größe_名前_kernel<float, 128, &lambda_%d, "
			 "cutlass::gemm::kernel::default_gemm_universal>(unsigned long, a%d)",
			 i, i, i);
		fake_kernel(run, name, i * 10 * MS, i * 10 * MS + (40 - i) * MS / 8,
			    (uint64_t)i + 1);
		fake_call(run, i % 2 ? "cudaLaunchKernel" : name, i * 10 * MS - 20000, i * 10 * MS,
			  (uint64_t)i + 1);
	}
	fake_kernel(run, "broken_\xff\xfe_kernel\x01", 500 * MS, 600 * MS, 77);
	fake_span(run, 0, at);
	free(run->info.name);
	run->info.name = strdup("a run <with> a name & more");
	return run;
}

/* What a reader must find on the plot, of runs in the order of the table below. */
/* A thread in main, half of it importing a module that goes 200 levels deep; another that only waits. */
static struct run *sampled_run(void)
{
	enum { DEPTH = 200 };
	struct run *run = fake_run_new();

	fake_span(run, 0, 2000000000);
	for (uint32_t i = 1; i <= DEPTH + 3; i++)
		fake_add_stack(
			run, 0,
			&(struct row_stack){
				.id = i,
				.parent = i - 1,
				.name = fake_string(run, i == 1	  ? "main (a.py:1)"
							 : i == 2 ? "_find_and_load (<frozen "
								    "importlib._bootstrap>:1349)"
							 : i == 3 ? "<module> (b.py:1)"
								  : "deeper (b.py:7)") });
	for (uint32_t i = 0; i < 100; i++)
		fake_add_stack_sample(run, 0,
				      &(struct row_stack_sample){ .start_ns = 10000000 * (int64_t)i,
								  .duration_ns = 20000000,
								  .thread = 7,
								  .stack = i % 2 ? 1 : DEPTH + 3,
								  .cpu_ns = 10000000,
								  .samples = 1 });
	fake_add_stack_sample(
		run, 0,
		&(struct row_stack_sample){
			.duration_ns = 1000000000, .thread = 8, .stack = 1, .samples = 100 });
	return run;
}

static const struct expected {
	const char *plot;
	const char *texts[7]; /* training, GPU, windows, empty, large, comm, sampled */
} expected[] = {
	{ "memory",
	  { ">peak 10.6 MB<", "(gpu 0)<", NULL, ">no data: no allocations in this run" } },
	{ "steps",
	  { ">12 steps, median", ">3 steps, median", ">10 steps, median", ">no data: no steps" } },
	{ "kernels",
	  { "no device records", ">device time, ", "sampled: 3 windows", "no device records" } },
	{ "api",
	  { "no device records", ">time in calls, ", "sampled: 3 windows", "no device records" } },
	{ "experts",
	  { ">Expert utilisation, layer 1 (the most uneven)<", "no routing records",
	    "no routing records", "no routing records" } },
	{ "heatmap",
	  { ">load / mean<", "no routing records", "no routing records", "no routing records" } },
	{ "k_histogram",
	  { ">1536<", "no routing records", "no routing records", "no routing records" } },
	{ "flops",
	  { ">routers<", "no routing records", "no routing records", "no routing records" } },
	{ "latency",
	  { ">step time, ms<", ">step time, ", ">step time, ms<", "no routing records" } },
	{ "timeline",
	  { ">backward<", ">gpu 0 kernels<", "grey: no device records", ">no data: no steps", NULL,
	    ">gpu 1 rank 1 communication<" } },
	{ "speed_of_light",
	  { "no counters of kernels", "no counters of kernels", "no counters of kernels",
	    "no counters of kernels" } },
	{ "roofline",
	  { NULL, ">no data: no kernel belongs", ">no data: no kernel belongs",
	    ">no data: no operation reported" } },
	{ "flame",
	  { "no stacks in this run", NULL, NULL, "no stacks in this run", NULL, NULL,
	    ">1.00 s on a processor, 100 looks; the deepest 165 of 203 levels are not drawn<" } },
	{ "heap", { "no samples of allocations", NULL, NULL, "no samples of allocations" } },
	{ "flame", { [6] = ">main (a.py:1)<" } },
	{ "flame", { [6] = ">b.py<" } }, /* a module; what imports it is left out */
};

static void check_svg(const struct picture *p, const char *name, size_t run)
{
	assert_memory_equal(p->data, "<?xml", 5);
	assert_string_equal(p->data + p->size - 7, "</svg>\n");
	assert_null(strstr(p->data, "nan"));
	assert_null(strstr(p->data, "inf\""));
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
		const char *text = expected[i].texts[run];

		if (strcmp(expected[i].plot, name) == 0 && text && !strstr(p->data, text))
			fail_msg("no '%s' in plot %s of run %zu", text, name, run);
	}
}

static void test_every_plot_of_every_run(void **state)
{
	static const struct {
		const char *name;
		struct run *(*make)(void);
	} runs[] = {
		{ "training", fake_training_run },
		{ "gpu", fake_gpu_run },
		{ "windows", fake_windows_run },
		{ "empty", empty_run },
		{ "large", large_run },
		{ "comm", fake_comm_run },
		{ "sampled", sampled_run },
	};

	(void)state;
	for (size_t r = 0; r < sizeof(runs) / sizeof(runs[0]); r++) {
		struct run *run = runs[r].make();

		for (size_t i = 0; plots[i].name; i++) {
			for (int form = 0; form < 4; form++) {
				bool svg = form & 1, dark = form & 2;
				struct picture p = draw(run, plots[i].name, svg, dark);

				keep(&p, runs[r].name, plots[i].name, svg, dark);
				if (svg)
					check_svg(&p, plots[i].name, r);
				else
					check_png(&p, plots[i].name, dark);
				free(p.data);
			}
		}
		fake_run_free(run);
	}
}

/* Readings that are no numbers, times that run backwards: drawn as far as they make sense. */
static void test_nonsense_makes_no_nonsense(void **state)
{
	struct run *run = fake_run_new();
	const double values[] = { NAN, 3e9, INFINITY, -INFINITY };

	(void)state;
	for (int i = 0; i < 4; i++)
		fake_add_sample(
			run, 0,
			&(struct row_sample){ .time_ns = i * MS,
					      .metric = fake_string(run, "memory_used_bytes"),
					      .value = values[i] });
	fake_step(run, INT64_MAX, 5 * MS, 5 * MS, 0);
	fake_step(run, INT64_MIN, 4 * MS, 3 * MS, 0);
	fake_kernel(run, "", 9 * MS, 7 * MS, 1);
	fake_call(run, "", 9 * MS, 7 * MS, 1);
	fake_span(run, 10 * MS, 2 * MS);
	for (size_t i = 0; plots[i].name; i++) {
		struct picture svg = draw(run, plots[i].name, true, false);

		assert_null(strstr(svg.data, "nan"));
		assert_null(strstr(svg.data, "inf"));
		free(svg.data);
		free(draw(run, plots[i].name, false, false).data);
	}
	fake_run_free(run);
}

/* Names come from the program: whatever they hold, the page stays a page. */
static void test_names_of_all_sorts(void **state)
{
	struct run *run = large_run();
	struct picture svg = draw(run, "kernels", true, false);

	(void)state;
	assert_non_null(strstr(svg.data, ">broken_??_kernel <"));
	assert_non_null(strstr(svg.data, "größe_名前_kernel"));
	assert_non_null(strstr(svg.data, "a run &lt;with&gt; a name &amp; more"));
	assert_non_null(strstr(svg.data, ">31 others<"));
	for (size_t i = 0; i < svg.size; i++)
		assert_true((unsigned char)svg.data[i] >= 0x20 || svg.data[i] == '\n');
	free(svg.data);
	fake_run_free(run);
}

static void test_the_same_run_gives_the_same_bytes(void **state)
{
	static const char *const names[] = { "dashboard", "sheet" };

	(void)state;
	for (int form = 0; form < 4; form++) {
		struct run *run = fake_training_run();
		struct picture a = draw(run, names[form / 2], form & 1, false), b;

		free(draw(run, "memory", form & 1, true).data);
		b = draw(run, names[form / 2], form & 1, false);
		assert_int_equal(a.size, b.size);
		assert_memory_equal(a.data, b.data, a.size);
		free(a.data);
		free(b.data);
		fake_run_free(run);
	}
}

/* Look i is at 20 + 10 i milliseconds: 49 before the end of step 1, 50 in step 2. */
static void test_a_flame_graph_of_steps(void **state)
{
	static const struct {
		int64_t first, last;
		const char *there, *not_there;
	} cases[] = {
		{ INT64_MIN, INT64_MAX, ">1.00 s on a processor, 100 looks;", "no data" },
		{ 1, 1, ">490 ms on a processor, 49 looks;", "no data" },
		{ 2, 2, ">500 ms on a processor, 50 looks;", "no data" },
		{ 3, 9, ">no data: no thread that was looked at has run (in the selected steps)<",
		  ">main" },
	};
	struct run *run = sampled_run();

	(void)state;
	fake_step(run, 1, 0, 505000000, 1);
	fake_step(run, 2, 505000000, 1005000000, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct view_options view = everything;
		struct plot_options options = {
			.svg = true, .scale = 1, .layer = -1, .sel = &view.question.sel
		};
		struct answers answers;
		struct err err = { "" };
		char *text = NULL;
		size_t size;
		FILE *out = open_memstream(&text, &size);

		view.question.sel.step_first = cases[i].first;
		view.question.sel.step_last = cases[i].last;
		assert_non_null(out);
		assert_int_equal(plot_compute(run, &view, &answers, NULL), 0);
		assert_int_equal(plot_draw("flame", run, &answers, &options, out, &err), 0);
		fclose(out);
		if (!strstr(text, cases[i].there) || strstr(text, cases[i].not_there))
			fail_msg("case %zu: %s", i, text);
		free(text);
		answers_release(&answers);
	}
	fake_run_free(run);
}

/* A disk that is full is told. */
static void test_a_failed_write_is_told(void **state)
{
	struct run *run = fake_training_run();
	struct answers answers;

	(void)state;
	assert_int_equal(plot_compute(run, &everything, &answers, NULL), 0);
	for (int svg = 0; svg < 2; svg++) {
		struct plot_options options = { .svg = svg, .scale = 1, .layer = -1 };
		FILE *out = fopen("/dev/full", "w");
		struct err err = { "" };

		assert_non_null(out);
		setvbuf(out, NULL, _IONBF, 0);
		assert_int_equal(plot_draw("steps", run, &answers, &options, out, &err), -ENOSPC);
		assert_non_null(strstr(err.message, "cannot draw 'steps'"));
		fclose(out);
	}
	answers_release(&answers);
	fake_run_free(run);
}

/* Every allocation of ours fails once, in turn. Under the sanitizers nothing may leak. */
static void test_no_memory(void **state)
{
	struct run *(*const makes[])(void) = { fake_training_run, fake_windows_run };

	(void)state;
	for (size_t m = 0; m < 2; m++) {
		struct run *run = makes[m]();
		struct answers answers;

		assert_int_equal(plot_compute(run, &everything, &answers, NULL), 0);
		for (size_t i = 0; plots[i].name; i++) {
			struct plot_options options = { .svg = true, .scale = 1, .layer = -1 };
			bool reached = true;

			for (long n = 0; reached; n++) {
				FILE *out = fopen("/dev/null", "w");
				struct err err = { "" };
				int r;

				assert_non_null(out);
				countdown = n;
				r = plot_draw(plots[i].name, run, &answers, &options, out, &err);
				reached = countdown < 0;
				countdown = -1;
				assert_int_equal(r, reached ? -ENOMEM : 0);
				assert_true(!reached || err.message[0]);
				fclose(out);
			}
		}
		answers_release(&answers);
		fake_run_free(run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_plot_of_every_run),
		cmocka_unit_test(test_nonsense_makes_no_nonsense),
		cmocka_unit_test(test_names_of_all_sorts),
		cmocka_unit_test(test_the_same_run_gives_the_same_bytes),
		cmocka_unit_test(test_a_flame_graph_of_steps),
		cmocka_unit_test(test_a_failed_write_is_told),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
