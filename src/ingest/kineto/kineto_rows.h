/* SPDX-License-Identifier: Apache-2.0
 *
 * What the makers of rows out of events share.
 */
#ifndef INGEST_KINETO_ROWS_H
#define INGEST_KINETO_ROWS_H

#include <errno.h>
#include <string.h>

#include "ingest/kineto/kineto_inside.h"

static inline bool is_text(struct text text, const char *is)
{
	return text.length == strlen(is) && !memcmp(text.at, is, text.length);
}

static inline bool begins_with(struct text text, const char *with)
{
	size_t length = strlen(with);

	return text.length >= length && !memcmp(text.at, with, length);
}

static inline bool has_arg(const struct args *args, enum arg arg)
{
	return args->has >> arg & 1;
}

static inline uint64_t number(const struct args *args, enum arg arg, uint64_t otherwise)
{
	return has_arg(args, arg) ? args->number[arg] : otherwise;
}

static inline uint32_t number32(const struct args *args, enum arg arg, uint32_t otherwise)
{
	uint64_t value = number(args, arg, otherwise);

	return value <= UINT32_MAX ? (uint32_t)value : otherwise;
}

static inline uint32_t thread_of(const struct event *e)
{
	return e->has & EVENT_THREAD ? (uint32_t)e->thread : 0;
}

/* Events of devices have the device for a process and the stream for a thread, where they say no
 * more. */
static inline uint32_t device_of(struct reader *r, const struct event *e, const struct args *args)
{
	uint32_t number = number32(args, ARG_DEVICE,
				   e->has & EVENT_PROCESS ? (uint32_t)e->process : 0);

	r->known.worked |= number < DEVICES_MAPPED ? UINT64_C(1) << number : 0;
	return device_number(r->devices, number);
}

static inline uint32_t stream_of(const struct event *e, const struct args *args)
{
	return number32(args, ARG_STREAM, thread_of(e));
}

static inline void event_damaged(struct reader *r, const struct event *e, const char *what)
{
	part_damaged(r->part, r->offset + (uint64_t)(e->begin - r->begin), what);
}

/* In traces of moescope's own, what Kineto has no argument for. */
static inline void fill_extra(struct reader *r, const struct event *e, const struct args *args,
			      enum record_kind kind, void *row)
{
	if (has_arg(args, ARG_EXTRA) &&
	    kineto_extra(r->part, kind, row, args->extra.at,
			 (size_t)(args->extra.end - args->extra.at)) == -EBADMSG)
		event_damaged(r, e, "columns of moescope that cannot be read");
}

/* kineto_gpu.c: work of a device. */
void add_kernel(struct reader *r, const struct event *e, const struct args *args);
void add_copy(struct reader *r, const struct event *e, const struct args *args);
void add_set(struct reader *r, const struct event *e, const struct args *args);

#endif
