/* SPDX-License-Identifier: Apache-2.0
 *
 * PyTorch (Kineto) traces, and other Chrome traces: blocks of the file on several threads.
 *
 * Where a block begins in the text is known only when all before it is read. It is guessed: blocks are
 * cut where an event seems to begin, and each thread reads its block as if that were so. Then, one
 * block after the other, the guess is compared with where the block before came to. If it was wrong,
 * what the block gave is thrown away, and it is read again together with the rest of the one before.
 * So the result is that of one thread from the beginning, whatever the file holds.
 *
 * Whoever needs a block reads the next one from the file, or decompresses it, while others parse.
 */
#include "ingest/kineto/kineto.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "ingest/importers.h"
#include "ingest/kineto/kineto_inside.h"
#include "ingest/shared/blocks.h"
#include "ingest/shared/intake.h"

#define BLOCK_BYTES ((size_t)1 << 20)
#define REST_MOST ((size_t)64 << 20) /* no event is longer */
/* Times of Chrome traces count from anywhere; those above are nanoseconds since 1970. */
#define SINCE_1970_NS INT64_C(1000000000000000000)

struct shared {
	const struct kineto_choices *choices;
	struct intake *intake;
	struct device_map devices;
	bool survey; /* only to know the devices */
	bool bare;
	bool own;		/* whether moescope wrote it, by its first bytes: a guess, too */
	struct reader *readers; /* one a thread */
	struct lane_numbers *lanes;
	struct intake_process **processes; /* of the lanes */
	size_t n_lanes;

	pthread_mutex_t reading; /* held over the next two */
	struct blocks *blocks;
	uint64_t next; /* number of the next block */

	pthread_mutex_t lock; /* the next two */
	pthread_cond_t turned;
	uint64_t settled; /* blocks below this number are done */
	int failed;

	/* Where the last settled block came to; only of the thread whose turn it is. */
	struct text_state state;
	struct block rest; /* of it, not read yet */
	struct knowledge known;
	struct first_memory *firsts;
	size_t n_firsts, firsts_capacity;
	struct buf about;
};

static bool wants_any(const struct intake *intake, const enum record_kind *kinds)
{
	for (; *kinds; kinds++)
		if (intake_wants(intake, *kinds))
			return true;
	return false;
}

static const enum record_kind rows_of_class[N_CLASSES][4] = {
	[CLASS_KERNEL] = { RECORD_KERNEL, RECORD_COLLECTIVE },
	[CLASS_COPY] = { RECORD_COPY },
	[CLASS_SET] = { RECORD_SET },
	[CLASS_RUNTIME] = { RECORD_API },
	[CLASS_DRIVER] = { RECORD_API },
	/* And steps: but not so many events are read for those alone. */
	[CLASS_OP] = { RECORD_OP, RECORD_COLLECTIVE },
	[CLASS_OLD_OP] = { RECORD_OP, RECORD_STEP, RECORD_COLLECTIVE },
	[CLASS_ANNOTATION] = { RECORD_RANGE, RECORD_STEP, RECORD_COLLECTIVE },
	[CLASS_GPU_ANNOTATION] = { RECORD_SPAN, RECORD_STEP },
	[CLASS_FRAME] = { RECORD_FRAME },
	[CLASS_INSTANT] = { RECORD_MEMORY, RECORD_SAMPLE, RECORD_MARK },
	[CLASS_SYNC] = { RECORD_SYNC },
	[CLASS_OVERHEAD] = { RECORD_SPAN },
	[CLASS_ARROW] = { RECORD_FLOW },
	[CLASS_UNKNOWN] = { RECORD_STEP },
};

static int reader_init(struct reader *r, struct shared *shared)
{
	int result;

	*r = (struct reader){ .scan = shared->choices->scan,
			      .intake = shared->intake,
			      .devices = &shared->devices };
	for (int i = 0; i < N_CLASSES; i++)
		r->wanted[i] = wants_any(shared->intake, rows_of_class[i]);
	if (shared->survey)
		r->wanted[CLASS_KERNEL] = r->wanted[CLASS_COPY] = r->wanted[CLASS_SET] =
			r->wanted[CLASS_INSTANT] = true;
	r->wanted[CLASS_RECORD] = true; /* of any kind */
	r->wanted[CLASS_WHOLE] = true;	/* the zero of times must not depend on what is wanted */
	r->wants_counter = intake_wants(shared->intake, RECORD_COUNTER);
	r->lanes = calloc(shared->n_lanes, sizeof(*r->lanes));
	result = r->lanes ? 0 : -ENOMEM;
	for (size_t i = 0; result == 0 && i < shared->n_lanes; i++) {
		r->n_lanes++; /* also of one that is half there */
		result = lane_init(&r->lanes[i], shared->processes[i], &shared->lanes[i]);
	}
	return result;
}

static void reader_release(struct reader *r)
{
	for (size_t i = 0; i < r->n_lanes; i++)
		lane_release(&r->lanes[i]);
	free(r->lanes);
	free(r->arrows);
	told_cut(r, 0);
	free(r->told);
	free(r->firsts);
	buf_release(&r->scratch);
	buf_release(&r->about);
}

/* Reads a block from that state on. The bytes that are left. */
static size_t read_block(struct reader *r, const struct block *block, struct text_state *state)
{
	const char *to;

	r->known = (struct knowledge){ 0 };
	r->n_firsts = 0;
	r->about.size = 0;
	lane_choose(r, 0);
	r->begin = block->data;
	r->end = block->data + block->size;
	r->offset = block->offset;
	r->own = state->own;
	to = text_read(r, state);
	state->own = r->own;
	return (size_t)(r->end - to);
}

static void merge_knowledge(struct knowledge *known, const struct knowledge *more)
{
	if (more->process_known && !known->process_known) {
		known->process_known = true;
		known->process = more->process;
	}
	if (more->label_known && !known->label_known) {
		known->label_known = true;
		known->label = more->label;
	}
	if (more->rank_known) {
		known->rank_known = true;
		known->rank = more->rank;
	}
	if (more->base_known) {
		known->base_known = true;
		known->base_ns = more->base_ns;
	}
	if (more->any_time && !known->any_time) {
		known->any_time = true;
		known->first_ns = more->first_ns;
	}
	if (more->began_known && (!known->began_known || more->began_ns < known->began_ns)) {
		known->began_known = true;
		known->began_ns = more->began_ns;
	}
	known->has_events |= more->has_events;
	known->has_kernels |= more->has_kernels;
	known->has_backend_ranges |= more->has_backend_ranges;
	known->without_address += more->without_address;
	known->worked |= more->worked;
	known->allocated |= more->allocated;
}

/* The block before did not end where an event begins: once more, with the rest of it. */
static int read_again(struct shared *shared, struct reader *r, struct block *block,
		      struct text_state *state, size_t *ret_left)
{
	struct block *rest = &shared->rest;
	size_t size = rest->size + block->size;
	int result = block_reserve(block, size);

	if (result < 0)
		return result;
	memmove(block->data + rest->size, block->data, block->size);
	if (rest->size) {
		memcpy(block->data, rest->data, rest->size);
		block->offset = rest->offset;
	}
	block_end(block, size);
	lanes_discard(r);
	*state = shared->state;
	*ret_left = read_block(r, block, state);
	return 0;
}

/* In turn: compares with what was guessed. left: bytes of the block that were not read. */
static int settle_block(struct shared *shared, struct reader *r, uint64_t number,
			struct block *block, struct text_state *state, size_t left)
{
	int result = 0;

	if (number && (shared->state.place != PLACE_EVENTS || shared->rest.size ||
		       shared->state.bare != shared->bare || shared->state.own != shared->own)) {
		r->n_arrows = r->settled_arrows;
		told_cut(r, r->settled_told);
		result = read_again(shared, r, block, state, &left);
		if (result < 0)
			return result;
	}
	if (left > REST_MOST) {
		part_damaged(r->part, block->offset + block->size - left,
			     "more than 64 MiB that have no end");
		state->place = state->place == PLACE_EVENTS ? PLACE_LOST : PLACE_LOST_TOP;
		left = 0;
	}
	result = left ? block_reserve(&shared->rest, left) : 0;
	if (result < 0)
		return result;
	if (left)
		memcpy(shared->rest.data, block->data + block->size - left, left);
	shared->rest.size = left;
	shared->rest.offset = block->offset + block->size - left;
	shared->state = *state;
	merge_knowledge(&shared->known, &r->known);
	if (shared->survey)
		lanes_discard(r);
	for (size_t i = 0; result == 0 && i < r->n_firsts; i++)
		result = firsts_note(&shared->firsts, &shared->n_firsts, &shared->firsts_capacity,
				     &r->firsts[i]);
	if (result < 0)
		return result;
	if (r->about.size) {
		shared->about.size = 0;
		buf_append(&shared->about, r->about.data, r->about.size);
	}
	return shared->about.failed ? -ENOMEM : lanes_failed(r);
}

/* 1: a block; 0: no more. */
static int take_block(struct shared *shared, struct block *block, uint64_t *ret_number)
{
	int result;

	pthread_mutex_lock(&shared->reading);
	result = blocks_next(shared->blocks, block);
	*ret_number = shared->next;
	shared->next += result == 1;
	pthread_mutex_unlock(&shared->reading);
	return result;
}

static int wait_for_turn(struct shared *shared, uint64_t number)
{
	int failed;

	pthread_mutex_lock(&shared->lock);
	while (shared->settled != number && !shared->failed)
		pthread_cond_wait(&shared->turned, &shared->lock);
	failed = shared->failed;
	pthread_mutex_unlock(&shared->lock);
	return failed;
}

static void end_turn(struct shared *shared, int result)
{
	pthread_mutex_lock(&shared->lock);
	shared->settled++;
	if (result < 0 && !shared->failed)
		shared->failed = result;
	pthread_cond_broadcast(&shared->turned);
	pthread_mutex_unlock(&shared->lock);
}

static int work_on_block(void *context, size_t i, unsigned int worker)
{
	struct shared *shared = context;
	struct reader *r = &shared->readers[worker];
	struct block block = { 0 };
	uint64_t number;
	int result;

	(void)i;
	while ((result = take_block(shared, &block, &number)) == 1) {
		struct text_state state = { number ? PLACE_EVENTS : PLACE_START, shared->bare,
					    number && shared->own };
		size_t left = 0;

		r->settled_arrows = r->n_arrows;
		r->settled_told = r->n_told;
		result = lanes_turn(r, number);
		if (result == 0)
			left = read_block(r, &block, &state);
		if (wait_for_turn(shared, number) < 0)
			break;
		if (result == 0)
			result = settle_block(shared, r, number, &block, &state, left);
		end_turn(shared, result);
		if (result < 0)
			break;
	}
	if (result < 0)
		end_turn(shared, result);
	block_release(&block);
	return result < 0 ? result : 0;
}

/* Both ends of an arrow may be anywhere. */
static int add_arrows(struct shared *shared, unsigned int workers)
{
	struct reader *r = &shared->readers[0];
	size_t n = r->n_arrows;

	for (unsigned int w = 1; w < workers; w++) {
		struct reader *other = &shared->readers[w];

		if (!other->n_arrows)
			continue;
		if (array_grow(&r->arrows, &r->arrows_capacity, n + other->n_arrows,
			       sizeof(*r->arrows)) < 0)
			return -ENOMEM;
		memcpy(r->arrows + n, other->arrows, other->n_arrows * sizeof(*r->arrows));
		n += other->n_arrows;
	}
	rows_add_arrows(r, r->arrows, n);
	return 0;
}

/* What is known of each process at the end. */
static int describe_processes(struct shared *shared)
{
	const struct knowledge *known = &shared->known;
	int result = 0;

	for (size_t i = 0; i < shared->n_lanes; i++) {
		struct intake_process *process = shared->processes[i];

		process->shift_ns = known->base_known ? known->base_ns : 0;
		process->wall_clock = known->base_known ||
				      (known->any_time && known->first_ns >= SINCE_1970_NS);
		process->rank_known |= shared->n_lanes > 1;
		process->lived = known->began_known;
		process->from_ns = known->began_ns;
		process->to_ns = INT64_MIN;
	}
	if (shared->n_lanes == 1) {
		struct intake_process *process = shared->processes[0];

		process->pid = known->label_known ? known->label : known->process;
		if (known->rank_known) {
			process->rank = known->rank;
			process->rank_known = true;
		}
	}
	if (shared->about.size)
		result = kineto_about(shared->intake, shared->processes, shared->n_lanes,
				      shared->about.data, shared->about.size);
	if (result == -EBADMSG)
		intake_note(shared->intake, "What it says of its run cannot be read.");
	return result == -ENOMEM ? result : 0;
}

static int finish_kineto(struct shared *shared, const struct ingest_file *file,
			 unsigned int workers, struct err *err)
{
	struct reader *r = &shared->readers[0];
	const char *fault;
	uint64_t offset;
	int result;

	if (!shared->known.has_events)
		return err_set(err, -EBADMSG, "%s: there is no list of events (traceEvents) in it",
			       file->path);
	result = lanes_turn(r, shared->next);
	if (result < 0)
		return err_sys(err, result, "%s", file->path);
	fault = blocks_fault(shared->blocks, &offset);
	if (fault)
		part_damaged(r->part, offset, fault);
	r->begin = r->end = "";
	if (shared->rest.size) {
		r->begin = shared->rest.data;
		r->end = r->begin + shared->rest.size;
	}
	r->offset = shared->rest.offset;
	text_finish(r, &shared->state);
	result = add_arrows(shared, workers);
	/* Kernels and the ranges of backends tell the same collectives, and their true time. */
	for (unsigned int w = 0;
	     w < workers && !shared->known.has_kernels && !shared->known.has_backend_ranges; w++)
		rows_add_told(r, shared->readers[w].told, shared->readers[w].n_told);
	rows_add_firsts(r, shared->firsts, shared->n_firsts);
	if (result == 0)
		result = describe_processes(shared);
	if (shared->known.without_address)
		intake_note(shared->intake,
			    "%s: %llu events of its allocator have no address and are left out",
			    file->path, (unsigned long long)shared->known.without_address);
	if (result == 0)
		result = lanes_failed(r);
	return result < 0 ? err_sys(err, result, "%s", file->path) : 0;
}

/* A process without numbers is the one of all events. */
static int find_processes(struct shared *shared, const struct ingest_file *file)
{
	int result = lanes_find(file, shared->choices->scan, &shared->lanes, &shared->n_lanes);

	if (result < 0)
		return result;
	if (shared->n_lanes <= 1) {
		free(shared->lanes);
		shared->lanes = calloc(1, sizeof(*shared->lanes));
		if (!shared->lanes)
			return -ENOMEM;
		shared->lanes[0].rank = file->rank_hint;
		shared->n_lanes = 1;
	}
	shared->processes = calloc(shared->n_lanes, sizeof(struct intake_process *));
	for (size_t i = 0; shared->processes && i < shared->n_lanes; i++) {
		shared->processes[i] = intake_process(shared->intake, shared->lanes[i].rank,
						      shared->lanes[i].pid);
		if (!shared->processes[i])
			return -ENOMEM;
	}
	return shared->processes ? 0 : -ENOMEM;
}

static bool begins_with_list(const struct ingest_file *file)
{
	const char *p = file->head, *end = p + file->head_bytes;

	if (file->head_bytes >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end && (unsigned char)*p <= ' ')
		p++;
	return p < end && *p == '[';
}

static bool head_has(const struct ingest_file *file, const char *text)
{
	return memmem(file->head, file->head_bytes, text, strlen(text)) != NULL;
}

/* By its mark; without one, by the first character. */
static bool is_utf16(const struct ingest_file *file)
{
	static const char begins[][2] = { "\xff\xfe", "\xfe\xff", "{", "[", "\0{", "\0[" };

	for (size_t i = 0; file->head_bytes >= 2 && i < sizeof(begins) / 2; i++)
		if (!memcmp(file->head, begins[i], 2))
			return true;
	return false;
}

static void shared_release(struct shared *shared)
{
	for (unsigned int w = 0; shared->readers && w < shared->choices->workers; w++)
		reader_release(&shared->readers[w]);
	free(shared->readers);
	free(shared->lanes);
	free(shared->processes);
	free(shared->firsts);
	buf_release(&shared->about);
	block_release(&shared->rest);
	blocks_close(shared->blocks);
}

/* Reads all blocks. The caller releases shared in any case. */
static int read_blocks(struct shared *shared, const struct ingest_file *file, struct err *err)
{
	const struct kineto_choices *choices = shared->choices;
	int result = blocks_open(file->path, file->gzip, choices->block_bytes, text_cut,
				 &shared->blocks, err);

	if (result < 0)
		return result;
	result = find_processes(shared, file);
	shared->readers = calloc(choices->workers, sizeof(*shared->readers));
	if (!shared->readers)
		result = -ENOMEM;
	for (unsigned int w = 0; result == 0 && w < choices->workers; w++)
		result = reader_init(&shared->readers[w], shared);
	if (result == 0)
		result = parallel_run(choices->workers, choices->workers, work_on_block, shared);
	return result < 0 ? err_sys(err, result, "%s", file->path) : 0;
}

static struct shared shared_of(const struct ingest_file *file, struct intake *intake,
			       const struct kineto_choices *choices)
{
	return (struct shared){ .choices = choices,
				.intake = intake,
				.bare = begins_with_list(file),
				.own = head_has(file, "\"moescope\""),
				.reading = PTHREAD_MUTEX_INITIALIZER,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.turned = PTHREAD_COND_INITIALIZER };
}

/* Which devices have work and allocations, whatever is asked for: what numbers mean must not depend
 * on that. */
static int survey_devices(const struct ingest_file *file, struct intake *intake,
			  const struct kineto_choices *choices, struct device_map *map,
			  struct err *err)
{
	struct shared shared = shared_of(file, intake, choices);
	int result;

	shared.survey = true;
	result = read_blocks(&shared, file, err);
	if (result == 0 && !devices_match(map, shared.known.worked, shared.known.allocated))
		intake_note(intake,
			    "%s: its kernels name devices by numbers of agents, among which are "
			    "processors; which of its devices they are is unknown",
			    file->path);
	shared_release(&shared);
	return result;
}

int kineto_read(const struct ingest_file *file, struct intake *intake,
		const struct kineto_choices *choices, struct err *err)
{
	struct shared shared = shared_of(file, intake, choices);
	int result;

	if (is_utf16(file))
		return err_set(err, -EILSEQ,
			       "%s is UTF-16, and traces are UTF-8: convert it "
			       "(iconv -f UTF-16 -t UTF-8)",
			       file->path);
	result = devices_find(file, choices->scan, &shared.devices);
	if (result < 0)
		return err_sys(err, result, "%s", file->path);
	if (shared.devices.by_agents && shared.devices.properties & (shared.devices.properties - 1))
		result = survey_devices(file, intake, choices, &shared.devices, err);
	if (result == 0)
		result = read_blocks(&shared, file, err);
	if (result == 0)
		result = finish_kineto(&shared, file, choices->workers, err);
	shared_release(&shared);
	return result;
}

static int read_best(const struct ingest_file *file, struct intake *intake, struct err *err)
{
	size_t blocks = (size_t)(file->bytes / BLOCK_BYTES) * (file->gzip ? 8 : 1) + 1;
	const struct kineto_choices best = { .scan = scan_best(),
					     .block_bytes = BLOCK_BYTES,
					     .workers = parallel_workers(blocks) };

	return kineto_read(file, intake, &best, err);
}

static bool recognise_kineto(const struct ingest_file *file)
{
	const char *p = file->head, *end = p + file->head_bytes;

	if (is_utf16(file))
		return memchr(p, '{', file->head_bytes) || memchr(p, '[', file->head_bytes);
	if (file->head_bytes >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end && (unsigned char)*p <= ' ')
		p++;
	if (p == end)
		return false;
	if (*p == '[')
		return head_has(file, "\"ph\"") &&
		       (head_has(file, "\"ts\"") || head_has(file, "\"pid\""));
	return *p == '{' &&
	       (head_has(file, "\"traceEvents\"") || head_has(file, "\"deviceProperties\"") ||
		head_has(file, "\"distributedInfo\"") || head_has(file, "\"baseTimeNanoseconds\""));
}

const struct importer kineto_importer = {
	.name = "kineto",
	.title = "PyTorch (Kineto) trace",
	.recognise = recognise_kineto,
	.read = read_best,
};
