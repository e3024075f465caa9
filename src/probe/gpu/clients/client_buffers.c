/* SPDX-License-Identifier: Apache-2.0
 *
 * The other client's buffers; see client_buffers.h.
 */
#include "probe/gpu/clients/client_buffers.h"

#include <pthread.h>
#include <stdlib.h>

#include "probe/core/locks.h"

struct owned {
	uint8_t *buffer;
	CUpti_BuffersCallbackCompleteFunc complete;
};

PROBE_LOCK(lock);
static CUpti_BuffersCallbackRequestFunc on_request;
static CUpti_BuffersCallbackCompleteFunc on_complete, on_probe;
/* A client has a few dozen buffers of megabytes: a list is enough. */
static struct owned *owned;
static size_t n_owned, space;
static size_t unlisted; /* the other's, but there was no memory to list them */

static void note_owner(uint8_t *buffer, CUpti_BuffersCallbackCompleteFunc complete)
{
	if (n_owned == space) {
		size_t more = space ? 2 * space : 64;
		struct owned *grown = realloc(owned, more * sizeof(*grown));

		if (!grown) {
			unlisted++;
			return;
		}
		owned = grown;
		space = more;
	}
	owned[n_owned++] = (struct owned){ buffer, complete };
}

void CUPTIAPI client_buffers_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	CUpti_BuffersCallbackRequestFunc request;
	CUpti_BuffersCallbackCompleteFunc complete;

	pthread_mutex_lock(&lock);
	request = on_request;
	complete = on_complete;
	pthread_mutex_unlock(&lock);
	*buffer = NULL;
	*size = *max_records = 0;
	if (!request)
		return; /* CUPTI drops the records and counts them */
	request(buffer, size, max_records);
	pthread_mutex_lock(&lock);
	if (*buffer)
		note_owner(*buffer, complete);
	pthread_mutex_unlock(&lock);
}

/* The callback that a buffer belongs to, or NULL if it is not the other's. */
static CUpti_BuffersCallbackCompleteFunc take_owner(const uint8_t *buffer)
{
	CUpti_BuffersCallbackCompleteFunc complete = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_owned; i++)
		if (owned[i].buffer == buffer) {
			complete = owned[i].complete;
			owned[i] = owned[--n_owned];
			break;
		}
	pthread_mutex_unlock(&lock);
	return complete;
}

/* An unlisted buffer that comes through the other's callbacks is the probe's, unless some of the
 * other's could not be listed. */
static CUpti_BuffersCallbackCompleteFunc take_unlisted(void)
{
	CUpti_BuffersCallbackCompleteFunc complete;

	pthread_mutex_lock(&lock);
	complete = unlisted || !on_probe ? on_complete : on_probe;
	unlisted -= unlisted > 0;
	pthread_mutex_unlock(&lock);
	return complete;
}

void CUPTIAPI client_buffers_completed(CUcontext context, uint32_t stream, uint8_t *buffer,
				       size_t size, size_t valid)
{
	CUpti_BuffersCallbackCompleteFunc complete = take_owner(buffer);

	if (!complete)
		complete = take_unlisted();
	if (complete)
		complete(context, stream, buffer, size, valid);
}

bool client_buffers_deliver(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			    size_t valid)
{
	CUpti_BuffersCallbackCompleteFunc complete = take_owner(buffer);

	if (complete)
		complete(context, stream, buffer, size, valid);
	return complete != NULL;
}

void client_buffers_use(CUpti_BuffersCallbackRequestFunc request,
			CUpti_BuffersCallbackCompleteFunc complete)
{
	pthread_mutex_lock(&lock);
	on_request = request;
	on_complete = complete;
	pthread_mutex_unlock(&lock);
}

bool client_buffers_in_use(void)
{
	bool in_use;

	pthread_mutex_lock(&lock);
	in_use = on_request != NULL;
	pthread_mutex_unlock(&lock);
	return in_use;
}

void client_buffers_probe(CUpti_BuffersCallbackCompleteFunc complete)
{
	pthread_mutex_lock(&lock);
	on_probe = complete;
	pthread_mutex_unlock(&lock);
}

size_t client_buffers_out(void)
{
	size_t n;

	pthread_mutex_lock(&lock);
	n = n_owned + unlisted;
	pthread_mutex_unlock(&lock);
	return n;
}

void client_buffers_forget(void)
{
	pthread_mutex_lock(&lock);
	n_owned = unlisted = 0;
	pthread_mutex_unlock(&lock);
}

void client_buffers_after_fork(void)
{
	n_owned = unlisted = 0;
}
