/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exports for viewers call things; see stacks.h.
 */
#include <inttypes.h>
#include <stdio.h>

#include "present/stacks.h"

uint32_t stack_name(const struct run *run, const struct stack_ref *ref)
{
	switch ((enum stack_kind)ref->kind) {
	case STACK_FRAME:
		return run->frame.name[ref->row];
	case STACK_RANGE:
		return run_site(run, run->range.site[ref->row]).name;
	case STACK_OP:
		return run_site(run, run->op.site[ref->row]).name;
	case STACK_API:
		return run->api.name[ref->row];
	case STACK_OS_CALL:
		return run->os_call.name[ref->row];
	case STACK_MARK:
		return run->mark.text[ref->row];
	case STACK_PAYLOAD:
		return run->payload.name[ref->row];
	case STACK_FLOW_BEGIN:
	case STACK_FLOW_END:
		return run->flow.name[ref->row];
	case STACK_COLLECTIVE:
		return run->collective.name[ref->row];
	case STACK_KERNEL:
		return run_launch(run, run->kernel.launch[ref->row]).name;
	case STACK_SPAN:
		return run->span.name[ref->row];
	default:
		return 0;
	}
}

static const char *copy_name(unsigned int kind)
{
	switch (kind) {
	case 1:
		return "copy host to device";
	case 2:
		return "copy device to host";
	case 8:
		return "copy device to device";
	case 9:
		return "copy host to host";
	case 10:
		return "copy peer to peer";
	default:
		return "copy";
	}
}

static const char *wait_name(unsigned int type)
{
	static const char *const names[] = { "wait", "wait for an event",
					     "stream waits for an event", "wait for a stream",
					     "wait for a context" };

	return names[type < sizeof(names) / sizeof(names[0]) ? type : 0];
}

void stack_row_name(const struct run *run, const struct stack_ref *ref, char *out, size_t size)
{
	switch ((enum stack_kind)ref->kind) {
	case STACK_COPY:
		snprintf(out, size, "%s", copy_name(run->copy.kind[ref->row]));
		break;
	case STACK_SET:
		snprintf(out, size, "set");
		break;
	case STACK_STEP:
		snprintf(out, size, "step %" PRId64, run->step.step[ref->row]);
		break;
	case STACK_SYNC:
		snprintf(out, size, "%s", wait_name(run->sync.type[ref->row]));
		break;
	default:
		snprintf(out, size, "(no name)");
	}
}

static const char *thread_name(const struct run *run, const struct stack_track *track)
{
	const struct table_thread *thread = &run->thread;

	for (size_t i = 0; i < thread->n; i++)
		if (thread->shard[i] == track->shard && thread->thread[i] == track->id)
			return run_string(run, thread->name[i]);
	return "";
}

void stack_track_name(const struct run *run, const struct stack_track *track, char *out,
		      size_t size)
{
	const char *name;

	switch (track->family) {
	case STACK_FAMILY_STEPS:
		snprintf(out, size, "steps");
		break;
	case STACK_FAMILY_THREAD:
		name = thread_name(run, track);
		snprintf(out, size, "%s%sthread %u", name, *name ? ", " : "", track->id);
		break;
	case STACK_FAMILY_STREAM:
		snprintf(out, size, "GPU %u stream %u", track->device, track->id);
		break;
	case STACK_FAMILY_SPANS:
		snprintf(out, size, "spans");
		break;
	case STACK_FAMILY_WAITS:
		snprintf(out, size, "waits");
		break;
	}
}
