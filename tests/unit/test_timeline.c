/* SPDX-License-Identifier: Apache-2.0
 *
 * The index of a timeline: its lanes against the records they are made of, its answers against a plain
 * recount of the lanes, and files that are stale, cut or damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "table_rows.h"
#include "timeline/lod_index.h"
#include "trace/shard.h"

#define NAMES 40
#define LONG_NS INT64_C(6000000000) /* more than the 32 bits of a duration */

static char *directory;
static struct rng rng;

static int set_up(void **state)
{
	(void)state;
	directory = temporary_directory();
	rng = (struct rng){ 17 };
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_directory(directory);
	return 0;
}

struct shard {
	struct shard_writer *writer;
	struct encoder encoder;
	uint32_t launches[NAMES];
	char *path;
};

static void append(struct shard *shard, enum record_kind kind, const void *row)
{
	assert_int_equal(encoder_append(&shard->encoder, kind, row), 0);
}

static void open_shard(struct shard *shard, const char *name, uint32_t rank)
{
	shard->path = path_in(directory, name);
	encoder_init(&shard->encoder, 1, 1, 0);
	assert_int_equal(shard_create(shard->path, rank, 0, &shard->writer, NULL), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		char text[32];

		snprintf(text, sizeof(text), "Kernel %02u", i);
		append(shard, RECORD_STRING,
		       &(struct row_string){
			       .id = i + 1, .length = (uint32_t)strlen(text), .text = text });
		shard->launches[i] = encoder_launch(&shard->encoder,
						    &(struct row_launch){ .name = i + 1 });
	}
}

static void close_shard(struct shard *shard)
{
	assert_int_equal(encoder_finish(&shard->encoder), 0);
	assert_int_equal(shard_write(shard->writer, &shard->encoder), 0);
	assert_int_equal(shard_close(shard->writer, &shard->encoder), 0);
	encoder_release(&shard->encoder);
	free(shard->path);
}

static void add_kernel(struct shard *shard, uint32_t stream, int64_t start_ns, int64_t duration_ns)
{
	append(shard, RECORD_KERNEL,
	       &(struct row_kernel){ .launch = shard->launches[rng_below(&rng, NAMES)],
				     .start_ns = start_ns,
				     .duration_ns = duration_ns,
				     .stream = stream });
}

static void add_call(struct shard *shard, int64_t start_ns, int64_t duration_ns)
{
	append(shard, RECORD_API,
	       &(struct row_api){ .name = 1 + (uint32_t)rng_below(&rng, NAMES),
				  .start_ns = start_ns,
				  .duration_ns = duration_ns,
				  .thread = 5 });
}

/* Kernels back to back, with gaps of all sizes, bursts, moments and some that are very long. */
static void add_kernels(struct shard *shard, uint32_t stream, size_t n)
{
	int64_t at_ns = 1000;

	for (size_t i = 0; i < n; i++) {
		int64_t duration_ns = (int64_t)rng_below(&rng, rng_below(&rng, 3) ? 50 : 5000);

		if (rng_below(&rng, n) == 0)
			duration_ns += LONG_NS;
		at_ns += rng_below(&rng, 3) ? 0 : (int64_t)rng_below(&rng, 100);
		at_ns += rng_below(&rng, 100) ? 0 : (int64_t)rng_below(&rng, 1000000);
		add_kernel(shard, stream, at_ns, duration_ns);
		at_ns += duration_ns;
	}
}

/* Calls inside each other, which come by their ends, and others that come much too late. */
static void add_calls(struct shard *shard, size_t n)
{
	int64_t at_ns = 2000;

	for (size_t i = 0; i < n; i++, at_ns += 1000) {
		add_call(shard, at_ns + 100, 100);
		add_call(shard, at_ns + 300, 50);
		add_call(shard, at_ns, 500);
		if (i > 20 && rng_below(&rng, 50) == 0)
			add_call(shard, 10000 + (int64_t)rng_below(&rng, (uint64_t)at_ns - 10000),
				 400);
	}
}

static void make_run(size_t kernels, size_t calls)
{
	struct shard shard;

	open_shard(&shard, "0-1.mst", 0);
	add_kernels(&shard, 7, kernels);
	add_kernels(&shard, 8, kernels / 100);
	add_calls(&shard, calls);
	append(&shard, RECORD_KERNEL, &(struct row_kernel){ .start_ns = 5, .untimed = 1 });
	close_shard(&shard);
	open_shard(&shard, "1-2.mst", 1);
	add_kernels(&shard, 7, 17);
	close_shard(&shard);
}

static struct lod *made(void)
{
	struct err err = { "" };
	struct lod *lod = NULL;

	if (lod_make(directory, NULL, &lod, &err) < 0)
		fail_msg("%s", err.message);
	return lod;
}

static bool is_text(struct lod_text text, const char *wanted)
{
	return text.length == strlen(wanted) && !memcmp(text.text, wanted, text.length);
}

static void check_lane(const struct lod *t, const struct lod_file_lane *lane)
{
	for (uint64_t i = lane->first; i + 1 < lane->first + lane->n; i++) {
		assert_true(index_end(t, i) <= t->starts[i + 1]);
		assert_true(t->name_ids[i] < t->n_names);
	}
}

static void test_lanes(void **state)
{
	struct lod_facts facts;
	struct lod *t;
	uint64_t events = 0;

	(void)state;
	make_run(5000, 3000);
	t = made();
	facts = lod_facts(t);
	assert_int_equal(facts.left_out, 1);
	assert_true(facts.lanes > 6);
	for (size_t i = 0; i < facts.lanes; i++) {
		struct lod_lane lane = lod_lane(t, i);
		bool last = i == facts.lanes - 1, call = i >= 2 && !last;

		assert_true(is_text(lane.title, call	 ? "thread 5"
						: i == 1 ? "GPU 0 stream 8"
							 : "GPU 0 stream 7"));
		assert_true(is_text(lane.group, last ? "rank 1" : "rank 0"));
		assert_int_equal(lane.rank, last);
		assert_int_equal(lane.depth, call ? i - 2 : 0);
		assert_int_equal(lane.kind, call ? LOD_API : LOD_KERNELS);
		check_lane(t, &t->lanes[i]);
		events += lane.events;
	}
	assert_int_equal(facts.events, events);
	/* What encloses is above what is inside. */
	assert_int_equal(t->lanes[0].n, 5000);
	assert_int_equal(t->durations[t->lanes[2].first], 500);
	assert_int_equal(t->durations[t->lanes[3].first], 100);
	lod_close(t);
}

/* Every time of the kernels, from the tables. */
static void test_events_are_those_of_the_records(void **state)
{
	struct run_want want = { .kinds = WANT(KERNEL) };
	struct err err = { "" };
	const struct lod_file_lane *lane;
	struct run *run;
	struct lod *t;
	size_t i = 0;

	(void)state;
	make_run(5000, 10);
	t = made();
	lane = &t->lanes[0];
	assert_int_equal(run_load(directory, &want, &run, &err), 0);
	for (uint64_t e = lane->first; e < lane->first + lane->n; e++, i++) {
		const char *name = run_string(run, run_kernel_name(run, i));

		assert_int_equal(run->kernel.stream[i], 7);
		assert_int_equal((int64_t)t->starts[e] + lod_facts(t).origin_ns,
				 run->kernel.start_ns[i]);
		assert_int_equal(index_duration(t, e), run->kernel.duration_ns[i]);
		assert_true(is_text(lod_name(t, t->name_ids[e]), name));
	}
	run_free(run);
	lod_close(t);
}

static bool is_in(const struct lod *t, uint64_t event, const struct lod_part *part)
{
	int64_t start = (int64_t)t->starts[event], end = (int64_t)index_end(t, event);

	return start < part->to && (end > part->from || start >= part->from);
}

/* The boxes of a lane, one event after the other. */
static void check_boxes(const struct lod *t, size_t l, const struct lod_part *part, uint32_t width)
{
	const struct lod_file_lane *lane = &t->lanes[l];
	struct lod_boxes boxes = { 0 };
	uint64_t event = lane->first, end = lane->first + lane->n;
	const uint64_t span = (uint64_t)(part->to - part->from);
	unsigned int in_column = 0;
	uint64_t column = UINT64_MAX;

	assert_int_equal(lod_boxes(t, l, part, width, &boxes), 0);
	while (event < end && !is_in(t, event, part))
		event++;
	for (size_t b = 0; b < boxes.n; b++) {
		const struct lod_box *box = &boxes.of[b];
		uint32_t longest = 0;
		uint64_t its_column;
		bool named = false;

		assert_true(box->merged > 0 && box->merged <= end - event);
		assert_int_equal(box->start, (int64_t)t->starts[event] - part->from);
		for (uint64_t i = 0; i < box->merged; i++) {
			/* Those of more than 32 bits are all the same here. */
			uint32_t duration = t->durations[event + i];

			assert_true(is_in(t, event + i, part));
			longest = duration > longest ? duration : longest;
		}
		for (uint64_t i = 0; i < box->merged; i++)
			named |= t->durations[event + i] == longest &&
				 t->name_ids[event + i] == box->name;
		assert_true(named);
		event += box->merged;
		assert_int_equal(box->duration,
				 index_end(t, event - 1) - t->starts[event - box->merged]);
		assert_true(box->merged == 1 || box->duration * width <= span);
		if (box->start < 0)
			continue;
		its_column = (uint64_t)box->start * width / span;
		in_column = its_column == column ? in_column + 1 : 1;
		column = its_column;
		assert_true(in_column <= 2);
	}
	assert_true(event == end || !is_in(t, event, part));
	free(boxes.of);
}

static struct lod_part random_part(const struct lod *t)
{
	int64_t end = (int64_t)lod_facts(t).end_ns;
	int64_t from = (int64_t)rng_below(&rng, (uint64_t)end + 2000) - 1000;
	int64_t span = 1 + (int64_t)(rng_next(&rng) >> (12 + rng_below(&rng, 50)));

	switch (rng_below(&rng, 4)) {
	case 0: /* all of it, and beyond */
		return (struct lod_part){ -1000, end + 1000 };
	case 1: /* from an event on */
		from = (int64_t)t->starts[rng_below(&rng, t->header.n_events)];
		break;
	default:
		break;
	}
	return (struct lod_part){ from, from + span };
}

static void test_boxes(void **state)
{
	struct lod *t;

	(void)state;
	make_run(20000, 3000);
	t = made();
	for (int i = 0; i < 1500; i++) {
		struct lod_part part = random_part(t);
		uint32_t width = 1 + (uint32_t)rng_below(&rng, rng_below(&rng, 2) ? 8192 : 20);

		check_boxes(t, rng_below(&rng, t->n_lanes), &part, width);
	}
	lod_close(t);
}

/* What is drawn of all the time costs by columns. */
static void test_few_boxes(void **state)
{
	struct lod_part part = { 0, 0 };
	struct lod_boxes boxes = { 0 };
	struct lod *t;

	(void)state;
	make_run(20000, 3000);
	t = made();
	part.to = (int64_t)lod_facts(t).end_ns + 1;
	assert_int_equal(lod_boxes(t, 0, &part, 10, &boxes), 0);
	assert_in_range(boxes.n, 1, 20);
	free(boxes.of);
	lod_close(t);
}

static struct lod_sum plain_sum(const struct lod *t, size_t l, const struct lod_part *part,
				struct lod_sum *by_name)
{
	const struct lod_file_lane *lane = &t->lanes[l];
	struct lod_sum sum = { 0 };

	for (uint64_t e = lane->first; e < lane->first + lane->n; e++) {
		int64_t start = (int64_t)t->starts[e], end = (int64_t)index_end(t, e);

		if (!is_in(t, e, part))
			continue;
		start = start < part->from ? part->from : start;
		end = end > part->to ? part->to : end;
		sum.events++;
		sum.busy += (uint64_t)(end - start);
		by_name[t->name_ids[e]].events++;
		by_name[t->name_ids[e]].busy += (uint64_t)(end - start);
	}
	return sum;
}

static void check_sums(const struct lod *t, const struct lod_part *part)
{
	size_t *lanes = calloc(t->n_lanes, sizeof(*lanes)), n;
	struct lod_sum *wanted = calloc(t->n_names, sizeof(*wanted));
	struct lod_name_sum *sums;

	for (size_t l = 0; l < t->n_lanes; l++) {
		struct lod_sum plain = plain_sum(t, l, part, wanted), sum = lod_sum(t, l, part);

		lanes[l] = l;
		assert_int_equal(sum.events, plain.events);
		assert_int_equal(sum.busy, plain.busy);
	}
	assert_int_equal(lod_sum_names(t, lanes, t->n_lanes, part, SIZE_MAX, &sums, &n), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(sums[i].sum.events, wanted[sums[i].name].events);
		assert_int_equal(sums[i].sum.busy, wanted[sums[i].name].busy);
		assert_true(i == 0 || sums[i].sum.busy <= sums[i - 1].sum.busy);
		wanted[sums[i].name].events = 0;
	}
	for (size_t i = 0; i < t->n_names; i++)
		assert_int_equal(wanted[i].events, 0);
	free(sums);
	free(lanes);
	free(wanted);
}

static void test_sums(void **state)
{
	struct lod *t;

	(void)state;
	make_run(20000, 1000);
	t = made();
	for (int i = 0; i < 100; i++) {
		struct lod_part part = random_part(t);

		check_sums(t, &part);
	}
	check_sums(t, &(struct lod_part){ -10, -5 });
	lod_close(t);
}

static bool plain_find(const struct lod *t, uint32_t name, int64_t after, struct lod_event *ret)
{
	bool found = false;

	for (size_t l = 0; l < t->n_lanes; l++)
		for (uint64_t e = t->lanes[l].first; e < t->lanes[l].first + t->lanes[l].n; e++)
			if (t->name_ids[e] == name && (int64_t)t->starts[e] > after &&
			    (!found || t->starts[e] < ret->start)) {
				*ret = (struct lod_event){ l, t->starts[e], index_duration(t, e) };
				found = true;
			}
	return found;
}

static void test_find(void **state)
{
	struct lod *t;

	(void)state;
	make_run(20000, 1000);
	t = made();
	for (int i = 0; i < 300; i++) {
		int64_t after = (int64_t)rng_below(&rng, lod_facts(t).end_ns + 10) - 5;
		uint32_t name = (uint32_t)rng_below(&rng, t->n_names);
		struct lod_event wanted, event;
		char text[32];

		snprintf(text, sizeof(text), "%.*s", (int)lod_name(t, name).length,
			 lod_name(t, name).text);
		if (!plain_find(t, name, after, &wanted))
			assert_true(plain_find(t, name, -1, &wanted));
		assert_int_equal(lod_name_id(t, text), name);
		assert_true(lod_find(t, name, after, &event));
		assert_int_equal(event.start, wanted.start);
		assert_int_equal(event.duration, wanted.duration);
		assert_int_equal(event.lane, wanted.lane);
	}
	assert_int_equal(lod_name_id(t, "Kernel"), UINT32_MAX);
	assert_false(lod_find(t, UINT32_MAX, 0, &(struct lod_event){ 0 }));
	lod_close(t);
}

static void test_search(void **state)
{
	struct lod_sum *wanted;
	struct lod_found *found;
	struct lod_part all;
	struct lod *t;
	size_t n;

	(void)state;
	make_run(2000, 100);
	t = made();
	all = (struct lod_part){ 0, (int64_t)lod_facts(t).end_ns + 1 };
	wanted = calloc(t->n_names, sizeof(*wanted));
	for (size_t l = 0; l < t->n_lanes; l++)
		plain_sum(t, l, &all, wanted);
	assert_int_equal(lod_search(t, "kERNEL 1", 100, &found, &n), 0);
	assert_int_equal(n, 10);
	for (size_t i = 0; i < n; i++) {
		struct lod_event first;

		assert_int_equal(found[i].sum.events, wanted[found[i].name].events);
		assert_int_equal(found[i].sum.busy, wanted[found[i].name].busy);
		assert_true(i == 0 || found[i].sum.busy <= found[i - 1].sum.busy);
		assert_true(plain_find(t, found[i].name, -1, &first));
		assert_int_equal(found[i].first.start, first.start);
	}
	free(found);
	assert_int_equal(lod_search(t, "kernel", 3, &found, &n), 0);
	assert_int_equal(n, 3);
	free(found);
	assert_int_equal(lod_search(t, "kernel 100", 3, &found, &n), 0);
	assert_int_equal(n, 0);
	free(found);
	free(wanted);
	lod_close(t);
}

/* Events that all overlap: as many rows as there are, and the rest is counted. */
static void test_too_many_at_a_time(void **state)
{
	struct shard shard;
	struct lod *t;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	for (int i = 0; i < LOD_ROWS_MOST + 30; i++)
		add_kernel(&shard, 7, 1000 + i, 1000000);
	close_shard(&shard);
	t = made();
	assert_int_equal(lod_facts(t).lanes, LOD_ROWS_MOST);
	assert_int_equal(lod_facts(t).events, LOD_ROWS_MOST);
	assert_int_equal(lod_facts(t).left_out, 30);
	lod_close(t);
}

static void test_nothing(void **state)
{
	struct shard shard;
	struct lod *t;

	(void)state;
	open_shard(&shard, "0-1.mst", 0);
	close_shard(&shard);
	t = made();
	assert_int_equal(lod_facts(t).lanes, 0);
	assert_int_equal(lod_facts(t).events, 0);
	assert_int_equal(lod_facts(t).end_ns, 0);
	lod_close(t);
}

#define TURNS 9
#define LAYERS 6

/* A loop without marks: a kernel, layers of five, a kernel; 40 us between the turns. */
static int64_t add_loop(struct shard *shard, int64_t *begins)
{
	int64_t at_ns = 1000;

	for (int turn = 0; turn < TURNS; turn++) {
		begins[turn] = at_ns += 40000;
		for (uint32_t i = 0; i < 2 + 5 * LAYERS; i++) {
			uint32_t name = !i ? 0 : i == 1 + 5 * LAYERS ? 6 : 1 + (i - 1) % 5;

			append(shard, RECORD_KERNEL,
			       &(struct row_kernel){ .launch = shard->launches[name],
						     .start_ns = at_ns,
						     .duration_ns = 3000,
						     .stream = 7 });
			at_ns += 3500;
		}
	}
	return at_ns;
}

static void test_found_steps(void **state)
{
	int64_t begins[TURNS], end_ns;
	struct shard shard;
	struct lod *t;

	(void)state;
	open_shard(&shard, "0-1.mst", 3);
	end_ns = add_loop(&shard, begins);
	close_shard(&shard);
	t = made();
	assert_int_equal(lod_facts(t).steps, LOD_STEPS_FOUND);
	assert_int_equal(lod_facts(t).lanes, 2);
	assert_true(is_text(lod_lane(t, 0).title, "steps found by repetition"));
	assert_int_equal(lod_lane(t, 0).kind, LOD_STEPS);
	assert_int_equal(lod_lane(t, 0).rank, 3);
	assert_int_equal(lod_lane(t, 0).events, TURNS - 1);
	for (size_t i = 0; i + 1 < TURNS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "step %zu", i);
		assert_int_equal((int64_t)t->starts[i] + lod_facts(t).origin_ns, begins[i]);
		assert_int_equal(t->durations[i], begins[i + 1] - begins[i]);
		assert_true(is_text(lod_name(t, t->name_ids[i]), name));
	}
	lod_close(t);

	/* What the program marks is not looked for. */
	open_shard(&shard, "0-2.mst", 3);
	append(&shard, RECORD_STEP,
	       &(struct row_step){
		       .step = 1, .start_ns = 1000, .duration_ns = end_ns, .recorded = 1 });
	close_shard(&shard);
	t = made();
	assert_int_equal(lod_facts(t).steps, LOD_STEPS_TOLD);
	assert_int_equal(lod_facts(t).lanes, 2);
	lod_close(t);
}

static void test_no_steps_found(void **state)
{
	struct lod *t;

	(void)state;
	make_run(100, 10);
	t = made();
	assert_int_equal(lod_facts(t).steps, LOD_STEPS_NOT_FOUND);
	lod_close(t);
}

static void test_stale(void **state)
{
	struct err err = { "" };
	struct shard shard;
	struct lod *t;

	(void)state;
	make_run(100, 10);
	assert_int_equal(lod_open(directory, &t, &err), -ENOENT);
	lod_close(made());
	assert_int_equal(lod_open(directory, &t, &err), 0);
	assert_true(lod_is_fresh(t, directory));
	open_shard(&shard, "2-3.mst", 2);
	add_kernels(&shard, 7, 10);
	close_shard(&shard);
	assert_false(lod_is_fresh(t, directory));
	lod_close(t);
	assert_int_equal(lod_open(directory, &t, &err), -ESTALE);
	lod_close(made());
	assert_int_equal(lod_open(directory, &t, &err), 0);
	lod_close(t);
}

static void test_stopped(void **state)
{
	_Atomic bool stop = true;
	struct err err = { "" };
	struct lod *t;
	char *path = path_in(directory, LOD_FILE);

	(void)state;
	make_run(100, 10);
	assert_int_equal(lod_make(directory, &stop, &t, &err), -ECANCELED);
	assert_int_equal(access(path, F_OK), -1);
	free(path);
}

/* No room is an error, not the end of the process, and leaves nothing behind. */
static void test_no_room(void **state)
{
	struct rlimit limit, small;
	struct err err = { "" };
	struct lod *t;
	char *path = path_in(directory, LOD_FILE);
	int r;

	(void)state;
	make_run(1000, 10);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	for (rlim_t bytes = 0; bytes < 40000; bytes += 4000) {
		small = (struct rlimit){ bytes, limit.rlim_max };
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
		r = lod_make(directory, NULL, &t, &err);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		assert_int_equal(r, -EFBIG);
		assert_true(err.message[0]);
		assert_int_equal(access(path, F_OK), -1);
	}
	lod_close(made());
	assert_int_equal(access(path, F_OK), 0);
	free(path);
}

/* All questions; whatever the answers are, they come. */
static void ask_everything(const struct lod *t)
{
	struct lod_part parts[] = { { 0, 1000 },
				    { -5, (int64_t)lod_facts(t).end_ns + 1 },
				    { -LOD_TIME_MAX, LOD_TIME_MAX } };
	size_t *lanes = calloc(t->n_lanes + 1, sizeof(*lanes)), n;
	struct lod_name_sum *sums;
	struct lod_found *found;
	struct lod_event event;

	for (size_t l = 0; l < t->n_lanes; l++)
		lanes[l] = l;
	for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
		for (size_t l = 0; l < t->n_lanes; l++) {
			struct lod_boxes boxes = { 0 };

			assert_int_equal(lod_boxes(t, l, &parts[p], 700, &boxes), 0);
			free(boxes.of);
			lod_sum(t, l, &parts[p]);
			lod_lane(t, l);
		}
		if (lod_sum_names(t, lanes, t->n_lanes, &parts[p], 9, &sums, &n) == 0)
			free(sums);
	}
	assert_int_equal(lod_search(t, "k", 9, &found, &n), 0);
	free(found);
	lod_find(t, lod_name_id(t, "Kernel 07"), 500, &event);
	free(lanes);
}

/* Bytes that no checksum covers are changed, and answers come all the same; those that one covers are
 * noticed. */
static void test_damage(void **state)
{
	struct err err = { "" };
	char *path = path_in(directory, LOD_FILE), *bytes;
	struct lod_header_at {
		uint64_t from, to;
	} tables;
	struct lod *t;
	struct stat st;
	size_t noticed = 0;
	int fd;

	(void)state;
	make_run(3000, 100);
	t = made();
	tables = (struct lod_header_at){ t->header.sections[LOD_LANES].offset, t->bytes };
	lod_close(t);
	fd = open(path, O_RDWR);
	assert_int_equal(fstat(fd, &st), 0);
	bytes = malloc((size_t)st.st_size);
	assert_int_equal(pread(fd, bytes, (size_t)st.st_size, 0), st.st_size);
	for (int round = 0; round < 400; round++) {
		uint64_t at = rng_below(&rng, (uint64_t)st.st_size);
		char byte = (char)(bytes[at] ^ (1 + rng_below(&rng, 255)));
		bool covered = at < sizeof(struct lod_file_header) || at >= tables.from;

		if (round % 4 == 0)
			at = rng_below(&rng, sizeof(struct lod_file_header)), covered = true;
		if (round % 4 == 0)
			byte = (char)~bytes[at];
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		if (lod_open(directory, &t, &err) == 0) {
			assert_false(covered);
			ask_everything(t);
			lod_close(t);
		} else {
			noticed++;
		}
		assert_int_equal(pwrite(fd, bytes + at, 1, (off_t)at), 1);
	}
	assert_true(noticed >= 100);
	assert_int_equal(ftruncate(fd, st.st_size - 1), 0);
	assert_int_equal(lod_open(directory, &t, &err), -EBADMSG);
	assert_int_equal(ftruncate(fd, 10), 0);
	assert_int_equal(lod_open(directory, &t, &err), -EBADMSG);
	lod_close(made());
	assert_int_equal(lod_open(directory, &t, &err), 0);
	ask_everything(t);
	lod_close(t);
	free(bytes);
	free(path);
	close(fd);
}

/* Somebody cuts the file under a server: nonsense is answered, but the server lives. */
static void test_cut_while_open(void **state)
{
	char *path = path_in(directory, LOD_FILE);
	struct lod *t;

	(void)state;
	make_run(3000, 100);
	t = made();
	assert_int_equal(truncate(path, 0), 0);
	ask_everything(t);
	lod_close(t);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* First: the handler of SIGBUS is set once, and cmocka sets its own before each test. */
		cmocka_unit_test_setup_teardown(test_cut_while_open, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lanes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_events_are_those_of_the_records, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_boxes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_few_boxes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_sums, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_find, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_search, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many_at_a_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_found_steps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_steps_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stale, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
