/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of an event of a Kineto trace. A value of another type than it should have is left out.
 */
#include "ingest/kineto/kineto_inside.h"

#include <string.h>

/* By the length of their names, so that few are compared. */
static enum arg arg_of(const char *p, size_t length)
{
#define IS(text, arg)                                                                              \
	if (!memcmp(p, text, sizeof(text) - 1))                                                    \
	return arg
	switch (length) {
	case 3:
		IS("Seq", ARG_SEQUENCE);
		break;
	case 4:
		IS("grid", ARG_GRID);
		IS("Addr", ARG_ADDRESS);
		IS("name", ARG_NAME);
		break;
	case 5:
		IS("block", ARG_BLOCK);
		IS("bytes", ARG_BYTES);
		IS("Bytes", ARG_BYTES);
		IS("dtype", ARG_TYPE);
		IS("flops", ARG_FLOPS);
		IS("Flops", ARG_FLOPS);
		break;
	case 6:
		IS("device", ARG_DEVICE);
		IS("stream", ARG_STREAM);
		IS("labels", ARG_LABELS);
		break;
	case 7:
		IS("context", ARG_CONTEXT);
		break;
	case 8:
		IS("graph id", ARG_GRAPH);
		IS("toDevice", ARG_TO_DEVICE);
		IS("moescope", ARG_EXTRA);
		break;
	case 9:
		IS("Device Id", ARG_DEVICE);
		break;
	case 10:
		IS("Input Dims", ARG_DIMS);
		IS("Input dims", ARG_DIMS);
		IS("Input type", ARG_INPUT_TYPE);
		IS("Call stack", ARG_STACK);
		IS("Group size", ARG_GROUP_SIZE);
		IS("fromDevice", ARG_FROM_DEVICE);
		break;
	case 11:
		IS("correlation", ARG_CORRELATION);
		IS("Device Type", ARG_DEVICE_TYPE);
		break;
	case 13:
		IS("shared memory", ARG_SHARED);
		IS("graph node id", ARG_GRAPH_NODE);
		IS("In msg nelems", ARG_IN_ELEMENTS);
		break;
	case 14:
		IS("Total Reserved", ARG_RESERVED);
		IS("Out msg nelems", ARG_OUT_ELEMENTS);
		break;
	case 15:
		IS("Total Allocated", ARG_ALLOCATED);
		IS("Collective name", ARG_COLLECTIVE);
		IS("Concrete Inputs", ARG_CONCRETE);
		break;
	case 18:
		IS("Process Group Name", ARG_GROUP);
		break;
	case 20:
		IS("registers per thread", ARG_REGISTERS);
		break;
	default:
		break;
	}
	return ARG_NONE;
#undef IS
}

/* [x, y, z]; fewer or more numbers, or others, are no triple. */
static bool read_triple(struct reader *r, const char *p, const char *end, uint32_t *ret)
{
	uint64_t value[3];

	for (int i = 0; i < 3; i++) {
		p = skip_blanks(p + 1); /* after '[' or ',' */
		p = value_whole(r, p, &value[i]);
		if (!p || value[i] > UINT32_MAX)
			return false;
		p = skip_blanks(p);
		if (p >= end || *p != (i < 2 ? ',' : ']'))
			return false;
	}
	for (int i = 0; i < 3; i++)
		ret[i] = (uint32_t)value[i];
	return true;
}

static struct text *text_arg(struct args *args, enum arg arg)
{
	switch (arg) {
	case ARG_COLLECTIVE:
		return &args->collective;
	case ARG_TYPE:
		return &args->type;
	case ARG_GROUP:
		return &args->group;
	case ARG_STACK:
		return &args->stack;
	case ARG_NAME:
		return &args->name;
	default:
		return &args->labels;
	}
}

static struct extent *extent_arg(struct args *args, enum arg arg)
{
	switch (arg) {
	case ARG_DIMS:
		return &args->dims;
	case ARG_CONCRETE:
		return &args->concrete;
	case ARG_INPUT_TYPE:
		return &args->input_type;
	default:
		return &args->extra;
	}
}

/* p: at a value that is a number, maybe in quotes. */
static bool is_number(const char *p)
{
	p += *p == '"';
	p += *p == '-';
	return *p >= '0' && *p <= '9';
}

static const char *read_arg(struct reader *r, const char *p, enum arg arg, struct args *args)
{
	const char *at = p;
	bool has = false;

	if (arg == ARG_NONE || (arg < ARG_N_NUMBERS && !is_number(p)))
		return value_skip(r, p);
	if (arg < ARG_N_NUMBERS) {
		p = value_whole(r, p, &args->number[arg]);
		has = p != NULL;
		if (!p && r->why) /* such as "12 or so": no number, but a value */
			p = value_skip(r, at);
	} else if (arg == ARG_GRID || arg == ARG_BLOCK) {
		p = value_skip(r, p);
		has = p && *at == '[' &&
		      read_triple(r, at, p, arg == ARG_GRID ? args->grid : args->block);
	} else if (arg >= ARG_DIMS) {
		p = value_skip(r, p);
		*extent_arg(args, arg) = (struct extent){ at, p };
		has = p != NULL;
	} else if (*p == '"') {
		p = value_text(r, p, text_arg(args, arg));
		has = true;
	} else {
		p = value_skip(r, p);
	}
	args->has |= has ? UINT64_C(1) << arg : 0;
	return p;
}

const char *args_read(struct reader *r, const char *p, struct args *args)
{
	args->has = 0;
	p = skip_blanks(p + 1);
	if (*p == '}')
		return p + 1;
	for (;;) {
		struct text key;

		p = value_short(r, p, &key);
		if (!p)
			return NULL;
		p = skip_blanks(p);
		if (*p != ':')
			return value_bad(r, p, "no colon after a key");
		p = read_arg(r, skip_blanks(p + 1), arg_of(key.at, key.length), args);
		if (!p)
			return NULL;
		p = skip_blanks(p);
		if (*p == '}')
			return p + 1;
		if (*p != ',')
			return value_bad(r, p, "no comma between two members");
		p = skip_blanks(p + 1);
	}
}
