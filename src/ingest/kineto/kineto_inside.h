/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of the reader of PyTorch (Kineto) traces:
 *
 *   kineto.c        blocks of the file on several threads, in order
 *   kineto_text.c   one block: the top level, and where the events and their ends are
 *   kineto_event.c  one event
 *   kineto_args.c   its arguments
 *   kineto_rows.c   what rows it becomes; kineto_gpu.c those of devices
 *   kineto_lanes.c  which process it belongs to
 *   kineto_devices.c what the number of its device means
 *   kineto_flops.c  the arithmetic of an operator
 *   kineto_memory.c those of its allocator
 *   kineto_value.c  numbers and strings
 *   kineto_record.c what only traces that moescope made have
 *
 * A struct reader belongs to one thread.
 */
#ifndef INGEST_KINETO_INSIDE_H
#define INGEST_KINETO_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "ingest/ingest.h"
#include "ingest/kineto/kineto_record.h"
#include "ingest/shared/intake.h"
#include "ingest/shared/json_scan.h"

/* What an event is about, by its category (and, where there is none, by its phase or name). */
enum event_class {
	CLASS_NONE, /* not told yet */
	CLASS_KERNEL,
	CLASS_COPY,
	CLASS_SET,
	CLASS_RUNTIME,
	CLASS_DRIVER,
	CLASS_OP,
	CLASS_OLD_OP, /* of 2021: annotations and steps, too */
	CLASS_ANNOTATION,
	CLASS_GPU_ANNOTATION,
	CLASS_FRAME,
	CLASS_INSTANT,
	CLASS_SYNC,
	CLASS_OVERHEAD,
	CLASS_ARROW,  /* from a forward operation to its backward one */
	CLASS_LINK,   /* from a call to its kernel: they have correlations */
	CLASS_RECORD, /* a record of moescope */
	CLASS_WHOLE,  /* the recording as a whole */
	CLASS_UNKNOWN,
	N_CLASSES
};

/* A JSON string as it stands in the file, without its quotes; at NULL: none. */
struct text {
	const char *at;
	uint32_t length;
	bool escaped;
};

/* A JSON value as it stands in the file. */
struct extent {
	const char *at, *end;
};

enum {
	EVENT_TIME = 1,
	EVENT_DURATION = 2,
	EVENT_PROCESS = 4,
	EVENT_THREAD = 8,
	EVENT_ID = 16,
};

/* No event lasts for 104 days; times, with the zero of the clock added, and differences of them fit into
 * 64 bits, as do sums of a thousand durations. */
#define DURATION_MOST_NS (INT64_C(1) << 53)
#define TIME_MOST_NS (INT64_MAX / 2 - DURATION_MOST_NS)

struct event {
	char phase;
	uint8_t class; /* enum event_class */
	uint8_t has;   /* EVENT_* */
	const char *begin;
	struct text category, name;
	int64_t time_ns, duration_ns;
	int64_t process, thread; /* of texts: the number that they end with */
	uint64_t id;
	struct extent args;
};

enum arg {
	ARG_NONE,
	/* whole numbers */
	ARG_DEVICE,
	ARG_STREAM,
	ARG_CONTEXT,
	ARG_CORRELATION,
	ARG_REGISTERS,
	ARG_SHARED,
	ARG_BYTES,
	ARG_GRAPH,
	ARG_GRAPH_NODE,
	ARG_FROM_DEVICE,
	ARG_TO_DEVICE,
	ARG_FLOPS,
	ARG_ADDRESS,
	ARG_DEVICE_TYPE,
	ARG_ALLOCATED,
	ARG_RESERVED,
	ARG_IN_ELEMENTS,
	ARG_OUT_ELEMENTS,
	ARG_GROUP_SIZE,
	ARG_SEQUENCE,
	ARG_N_NUMBERS,
	/* three of them */
	ARG_GRID = ARG_N_NUMBERS,
	ARG_BLOCK,
	/* texts */
	ARG_COLLECTIVE,
	ARG_TYPE,
	ARG_GROUP,
	ARG_STACK,
	ARG_NAME,
	ARG_LABELS,
	/* as they stand */
	ARG_DIMS,
	ARG_CONCRETE,
	ARG_INPUT_TYPE,
	ARG_EXTRA, /* of moescope's own traces: columns that Kineto has no place for */
};

struct args {
	uint64_t has;			/* bit of each enum arg */
	uint64_t number[ARG_N_NUMBERS]; /* of negative ones two's complement */
	uint32_t grid[3], block[3];
	struct text collective, type, group, stack, name, labels;
	struct extent dims, concrete, input_type, extra;
};

/* What an event is worth that is known only when all are read. */
struct arrow {
	uint64_t id;
	int64_t time_ns;
	uint32_t thread;
	uint32_t lane;
	bool end;
};

/* A collective that only PyTorch's own account of it tells (record_param_comms): whether a range or
 * kernels tell it too is known only when all are read. */
struct told {
	struct row_collective row; /* but for its texts */
	uint32_t lane;
	char *texts; /* name, group and type, each with its zero; "": not told */
};

/* The first event of a device's allocator, by its time. */
struct first_memory {
	int64_t time_ns;
	int64_t before_bytes; /* what was live before it, by its total */
	uint32_t device, lane;
};

/* A string of the file that was met before, with its id. */
struct cached {
	uint64_t hash;
	char *bytes; /* as they stand in the file */
	uint32_t length, id;
	uint32_t site;	 /* with that name alone; 0: not asked for yet */
	uint32_t turned; /* of a stack: the outermost call first; 0: not asked for yet */
	bool has_nccl;
	uint8_t arithmetic;   /* of kineto_flops.c; 0: none */
	bool host_collective; /* gloo:all_reduce and the like */
	bool tells_collective;
};
#define CACHED_TEXTS 4096
#define CACHED_LAUNCHES 1024

struct cached_launch {
	struct row_launch launch;
	uint32_t id;
};

/* What numbers of processes in the file are a process of the run. */
struct lane_numbers {
	uint32_t rank, pid;
	int64_t trace_pid, first_device; /* below 0: there are none */
};

/* A process of the run as one thread sees it: ids are the process's. */
struct lane {
	struct intake_part *part;
	struct lane_numbers numbers;
	struct cached *texts;
	struct cached_launch *launches;
	uint32_t gpu_domain, overhead_domain, allocated_metric, reserved_metric;
};

#define DEVICES_MAPPED 64

/* What the numbers of devices in kernels, copies and sets mean. Zeros: what they say. */
struct device_map {
	bool by_agents;	     /* they count the processors of the machine too */
	uint64_t properties; /* bit of each device at the head of the file */
	unsigned int n;
	uint32_t to[DEVICES_MAPPED]; /* of the numbers below n */
};

/* What a block adds to the knowledge about the whole file. */
struct knowledge {
	bool process_known, label_known, rank_known, base_known, any_time, began_known;
	uint32_t process; /* of the first event on a CPU */
	uint32_t label;	  /* process that is said to be the CPU's */
	uint32_t rank;
	int64_t base_ns, first_ns;
	int64_t began_ns; /* the recording, by its own account */
	uint64_t without_address;
	uint64_t worked, allocated; /* bit of each device, as its events number it */
	bool has_events;	    /* the list of events was found */
	bool has_kernels, has_backend_ranges;
};

struct reader {
	const struct scan *scan;
	struct intake *intake;
	const struct device_map *devices;
	struct lane *lanes; /* one at least */
	size_t n_lanes;
	struct lane *lane; /* that of the event, and its part */
	struct intake_part *part;
	bool wanted[N_CLASSES];
	bool wants_counter;

	/* the text */
	const char *end;
	uint64_t offset; /* in the file, of `begin` */
	const char *begin;
	const char
		*why; /* the last event or value could not be read; NULL: it goes on after `end` */

	struct knowledge known;
	struct arrow *arrows;
	size_t n_arrows, arrows_capacity;
	struct told *told;
	size_t n_told, told_capacity;
	size_t settled_arrows, settled_told; /* of the blocks before the one at hand */
	struct first_memory *firsts;	     /* of the block at hand */
	size_t n_firsts, firsts_capacity;
	struct buf scratch;
	struct buf about; /* what moescope's own traces say of the run */
	bool own;	  /* it is such a trace */
	int failed;	  /* -ENOMEM */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Blanks, and what should not be there but does no harm; a zero ends the text. */
ALWAYS_INLINE const char *skip_blanks(const char *p)
{
	while ((unsigned char)(*p - 1) < ' ')
		p++;
	return p;
}

/* kineto_value.c: each reads a value at p and returns the place after it, or NULL: r->why. */
const char *value_skip(struct reader *r, const char *p);
const char *value_text(struct reader *r, const char *p, struct text *ret_text);
/* Microseconds as nanoseconds, exactly. */
const char *value_time(struct reader *r, const char *p, int64_t *ret_ns);
const char *value_whole(struct reader *r, const char *p, uint64_t *ret_value);
/* A number, or a text that ends with one; *ret_known false: there is none. */
const char *value_label(struct reader *r, const char *p, int64_t *ret_value, bool *ret_known);
/* What the file says, or NULL when it ends here. */
const char *value_bad(struct reader *r, const char *p, const char *why);
/* The string itself; valid until the next call. NULL without memory. */
const char *text_plain(struct reader *r, struct text text, size_t *ret_length);
uint32_t text_id(struct reader *r, struct text text);
/* Its entry, until the next call; NULL for no bytes and without memory. */
struct cached *text_entry(struct reader *r, struct text text);

/* As value_text, quick for short strings. */
ALWAYS_INLINE const char *value_short(struct reader *r, const char *p, struct text *ret_text)
{
	unsigned int n = *p == '"' ? scan_near(p + 1) : SCAN_NEAR;

	if (n == SCAN_NEAR || p[n + 1] != '"')
		return value_text(r, p, ret_text);
	*ret_text = (struct text){ .at = p + 1, .length = n };
	return p + n + 2;
}

/* kineto_lanes.c: the processes that the head of the file tells of; none: there is one. */
int lanes_find(const struct ingest_file *file, const struct scan *scan,
	       struct lane_numbers **ret_lanes, size_t *ret_n);
int lane_init(struct lane *lane, struct intake_process *process,
	      const struct lane_numbers *numbers);
void lane_release(struct lane *lane);
void lane_choose(struct reader *r, size_t i);
void lane_choose_for(struct reader *r, const struct event *event);
/* Of all of them. */
int lanes_turn(struct reader *r, uint64_t order);
void lanes_discard(struct reader *r);
int lanes_failed(const struct reader *r);

/* kineto_devices.c: what the head of the file says of its devices. 0 or -ENOMEM. */
int devices_find(const struct ingest_file *file, const struct scan *scan,
		 struct device_map *ret_map);
/* Fills the map, by the devices that had work and those that had allocations; false: it cannot be
 * told which is which. */
bool devices_match(struct device_map *map, uint64_t worked, uint64_t allocated);
uint32_t device_number(const struct device_map *map, uint32_t number);

/* kineto_event.c: p: at its brace. */
const char *event_read(struct reader *r, const char *p);

/* kineto_args.c */
const char *args_read(struct reader *r, const char *p, struct args *ret_args);

/* kineto_rows.c */
void rows_add(struct reader *r, const struct event *event, const struct args *args);
/* An event of a category that is not known. */
void rows_add_unknown(struct reader *r, const struct event *event);
void rows_add_counters(struct reader *r, const struct event *event);
/* Sorts them. */
void rows_add_arrows(struct reader *r, struct arrow *arrows, size_t n);
/* Collectives that events of the host told of and nothing else did. */
void rows_add_told(struct reader *r, const struct told *told, size_t n);
/* Forgets all but the first n. */
void told_cut(struct reader *r, size_t n);

/* kineto_flops.c: 0: no operator with a formula. */
uint8_t flops_operator(const char *name, size_t length);
/* Of the first input; untouched: it has no shape. */
void flops_elements(struct reader *r, struct extent dims, uint64_t *ret_elements);
/* false: its shapes do not tell. */
bool flops_of(struct reader *r, uint8_t arithmetic, const struct args *args, uint64_t *ret_flops);

/* kineto_memory.c: an event of PyTorch's allocator. */
void rows_add_memory(struct reader *r, const struct event *event, const struct args *args);
/* Keeps what is earlier, of equal times what came first. 0 or -ENOMEM. */
int firsts_note(struct first_memory **firsts, size_t *n, size_t *capacity,
		const struct first_memory *first);
void rows_add_firsts(struct reader *r, const struct first_memory *firsts, size_t n);

/* kineto_text.c */
enum place {
	PLACE_START,
	PLACE_TOP,    /* in the outermost object, before a key or its end */
	PLACE_EVENTS, /* in the list of events, before one or its end */
	PLACE_LOST,   /* somewhere in the list of events */
	PLACE_LOST_TOP,
	PLACE_DONE, /* after the end: blanks */
	PLACE_OVER, /* after something that is not; the rest does not matter */
};

struct text_state {
	enum place place;
	bool bare; /* the file is a list of events and nothing else */
	bool own;  /* it has said that moescope wrote it */
};

/* Reads r->begin to r->end from that state on. The place that it came to: what follows it has to be
 * read again together with more. */
const char *text_read(struct reader *r, struct text_state *state);
/* Where the block may end: before the brace of an event; else size. */
size_t text_cut(const char *data, size_t size);
/* What the file could not be read as, at its end. */
void text_finish(struct reader *r, const struct text_state *state);

#endif
