/* SPDX-License-Identifier: Apache-2.0
 *
 * See fake_cupti_clients.h. Threads: any; the lock is not held while callbacks run.
 */
#include "fake_cupti_clients.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CUpti_Subscriber_st {
	char name[64];
	bool used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUpti_Subscriber_st the_subscriber;
static CUpti_BuffersCallbackRequestFunc on_request;
static CUpti_BuffersCallbackCompleteFunc on_complete;
static bool on[CUPTI_ACTIVITY_KIND_COUNT];
static uint8_t *current;
static size_t current_size, current_valid;
static unsigned int n_calls;
static int found;

static void called(void)
{
	pthread_mutex_lock(&lock);
	n_calls++;
	found = errno;
	errno = EDOM;
}

static CUptiResult leave(CUptiResult result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
			      void *userdata, CUpti_SubscriberParams *params)
{
	(void)callback;
	(void)userdata;
	called();
	if (the_subscriber.used) {
		if (params && params->oldSubscriberName)
			snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s",
				 the_subscriber.name);
		return leave(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	}
	the_subscriber.used = true;
	snprintf(the_subscriber.name, sizeof(the_subscriber.name), "%s%.53s",
		 params && params->subscriberName ? "CUPTI for " : "",
		 params && params->subscriberName ? params->subscriberName : "");
	*subscriber = &the_subscriber;
	return leave(CUPTI_SUCCESS);
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
			   void *userdata)
{
	/* As a library may, it uses its own exported functions. */
	return cuptiSubscribe_v2(subscriber, callback, userdata, NULL);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	called();
	if (subscriber != &the_subscriber || !the_subscriber.used)
		return leave(CUPTI_ERROR_INVALID_PARAMETER);
	the_subscriber.used = false;
	return leave(CUPTI_SUCCESS);
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
					   CUpti_BuffersCallbackCompleteFunc complete)
{
	called();
	if (!request || !complete)
		return leave(CUPTI_ERROR_INVALID_PARAMETER);
	on_request = request;
	on_complete = complete;
	return leave(CUPTI_SUCCESS);
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
	called();
	return leave(clock ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *size, void *value)
{
	(void)attribute;
	(void)size;
	(void)value;
	called();
	for (size_t i = 0; i < CUPTI_ACTIVITY_KIND_COUNT; i++)
		if (on[i])
			return leave(CUPTI_ERROR_INVALID_OPERATION);
	return leave(CUPTI_SUCCESS);
}

static CUptiResult set(CUpti_ActivityKind kind, bool to)
{
	called();
	if (kind <= 0 || kind >= CUPTI_ACTIVITY_KIND_COUNT)
		return leave(CUPTI_ERROR_INVALID_KIND);
	on[kind] = to;
	return leave(CUPTI_SUCCESS);
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	return set(kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	return set(kind, false);
}

/* The context does not matter to these tests. */
CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
	(void)context;
	return set(kind, true);
}

CUptiResult cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind)
{
	(void)context;
	return set(kind, false);
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	CUpti_BuffersCallbackCompleteFunc complete;
	size_t size, valid;
	uint8_t *buffer;

	(void)flag;
	called();
	complete = on_complete;
	buffer = current;
	size = current_size;
	valid = current_valid;
	current = NULL;
	current_valid = 0;
	pthread_mutex_unlock(&lock);
	if (buffer && complete)
		complete(NULL, 0, buffer, size, valid);
	errno = EDOM;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiFinalize(void)
{
	called();
	the_subscriber.used = false;
	on_request = NULL;
	on_complete = NULL;
	memset(on, 0, sizeof(on));
	current = NULL;
	current_valid = 0;
	return leave(CUPTI_SUCCESS);
}

static void work(size_t n)
{
	CUpti_BuffersCallbackRequestFunc request;
	size_t size = 0, max_records;
	uint8_t *buffer = NULL;
	bool wanted = false;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CUPTI_ACTIVITY_KIND_COUNT; i++)
		wanted |= on[i];
	request = wanted && !current ? on_request : NULL;
	pthread_mutex_unlock(&lock);
	if (request)
		request(&buffer, &size, &max_records);
	pthread_mutex_lock(&lock);
	if (buffer) {
		current = buffer;
		current_size = size;
	}
	if (wanted && current)
		current_valid += n;
	pthread_mutex_unlock(&lock);
}

static bool enabled(CUpti_ActivityKind kind)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = on[kind];
	pthread_mutex_unlock(&lock);
	return is;
}

static bool subscribed(void)
{
	bool is;

	pthread_mutex_lock(&lock);
	is = the_subscriber.used;
	pthread_mutex_unlock(&lock);
	return is;
}

static unsigned int calls(void)
{
	unsigned int n;

	pthread_mutex_lock(&lock);
	n = n_calls;
	pthread_mutex_unlock(&lock);
	return n;
}

static int errno_found(void)
{
	int value;

	pthread_mutex_lock(&lock);
	value = found;
	pthread_mutex_unlock(&lock);
	return value;
}

extern const struct fake_clients fake_clients;
const struct fake_clients fake_clients = { work, enabled, subscribed, calls, errno_found };
