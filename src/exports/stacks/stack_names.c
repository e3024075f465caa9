/* SPDX-License-Identifier: Apache-2.0
 *
 * What the exports for viewers call things; see stacks.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text/demangle.h"
#include "exports/stacks/stacks.h"

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
	case STACK_LIBRARY_CALL:
		return run->library_call.name[ref->row];
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

	/* Of several names the last one counts. */
	for (size_t i = thread->n; i-- > 0;)
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

void stack_labels_init(struct stack_labels *labels, const struct run *run)
{
	*labels = (struct stack_labels){ .run = run };
}

void stack_labels_release(struct stack_labels *labels)
{
	interned_release(&labels->texts);
	free(labels->of_string);
	free(labels->of_launch);
	*labels = (struct stack_labels){ 0 };
}

static int intern_label(struct stack_labels *labels, const char *text, uint32_t *ret_label)
{
	if (!*text)
		text = "(no name)";
	*ret_label = interned_id(&labels->texts, text, strlen(text));
	return *ret_label ? 0 : -ENOMEM;
}

static int label_kernel(struct stack_labels *labels, const char *name, uint32_t *ret_label)
{
	char *text;
	int r = demangled(name, &text);

	if (r == 0) {
		r = intern_label(labels, text, ret_label);
		free(text);
	}
	return r;
}

static int make_room(uint32_t **array, size_t *capacity, size_t index)
{
	size_t old = *capacity;

	if (index < old)
		return 0;
	if (array_grow(array, capacity, index + 1, sizeof(**array)) < 0)
		return -ENOMEM;
	memset(*array + old, 0, (*capacity - old) * sizeof(**array));
	return 0;
}

int stack_label(struct stack_labels *labels, const struct stack_ref *ref, uint32_t *ret_label)
{
	const struct run *run = labels->run;
	bool kernel = ref->kind == STACK_KERNEL;
	uint32_t id = kernel ? run->kernel.launch[ref->row] : stack_name(run, ref);
	uint32_t *known;
	char name[64];
	int r;

	if (!kernel && !id) {
		stack_row_name(run, ref, name, sizeof(name));
		return intern_label(labels, name, ret_label);
	}
	r = kernel ? make_room(&labels->of_launch, &labels->launch_capacity, id)
		   : make_room(&labels->of_string, &labels->string_capacity, id);
	if (r < 0)
		return r;
	known = kernel ? &labels->of_launch[id] : &labels->of_string[id];
	if (!*known && kernel)
		r = label_kernel(labels, run_string(run, run_launch(run, id).name), known);
	else if (!*known)
		r = intern_label(labels, run_string(run, id), known);
	*ret_label = *known;
	return r;
}
