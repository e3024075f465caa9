/* SPDX-License-Identifier: Apache-2.0
 *
 * Other CUPTI clients: a probe in miniature (it attaches, detaches at arrives(), attaches again at
 * leaves()) shares a scripted libcupti with a second client. Each test in a process of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake_cupti_clients.h"
#include "probe/gpu/clients/client_buffers.h"
#include "probe/gpu/clients/client_names.h"
#include "probe/gpu/clients/clients.h"
#include "second_client.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)
#define OK(call) CHECK((call) == CUPTI_SUCCESS)
#define SECOND_NS 1000000000LL
#define KERNELS CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
#define COPIES CUPTI_ACTIVITY_KIND_MEMCPY
#define SETS CUPTI_ACTIVITY_KIND_MEMSET

static void *library;
static const struct fake_clients *cupti;
static const struct second_client *client;

/* The probe in miniature. */
static struct {
	__typeof__(cuptiSubscribe) *subscribe;
	__typeof__(cuptiUnsubscribe) *unsubscribe;
	__typeof__(cuptiActivityRegisterCallbacks) *register_callbacks;
	__typeof__(cuptiActivityEnable) *enable;
	__typeof__(cuptiActivityDisable) *disable;
	__typeof__(cuptiActivityFlushAll) *flush;
} api;
static CUpti_SubscriberHandle handle;
static atomic_bool attached;
static atomic_size_t received, arrivals, departures;
static char arrived[96];

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	*buffer = malloc(4096);
	*size = *buffer ? 4096 : 0;
	*max_records = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			       size_t valid)
{
	if (clients_deliver(context, stream, buffer, size, valid))
		return;
	atomic_fetch_add(&received, valid);
	free(buffer);
}

static void CUPTIAPI callback(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			      const void *data)
{
	(void)userdata;
	(void)domain;
	(void)id;
	(void)data;
}

static void attach(void)
{
	CHECK(!atomic_exchange(&attached, true));
	if (!clients_hold_subscription())
		OK(api.subscribe(&handle, callback, NULL));
	OK(api.register_callbacks(requested, completed));
	OK(api.enable(SETS));
	OK(api.enable(KERNELS));
}

static void detach(void)
{
	CHECK(atomic_exchange(&attached, false));
	OK(api.disable(SETS));
	OK(api.disable(KERNELS));
	OK(api.flush(1));
	if (!clients_hold_subscription())
		OK(api.unsubscribe(handle));
}

static void arrives(const char *name)
{
	detach();
	atomic_fetch_add(&arrivals, 1);
	snprintf(arrived, sizeof(arrived), "%s", name);
	errno = EIO;
}

static void leaves(void)
{
	atomic_fetch_add(&departures, 1);
	attach();
}

static bool records(void)
{
	return atomic_load(&attached);
}

static const struct clients_hooks hooks = { arrives, leaves, records, completed };

static void load(const char *client_path)
{
	const struct {
		const char *name;
		void *to;
	} symbols[] = { { "cuptiSubscribe", &api.subscribe },
			{ "cuptiUnsubscribe", &api.unsubscribe },
			{ "cuptiActivityRegisterCallbacks", &api.register_callbacks },
			{ "cuptiActivityEnable", &api.enable },
			{ "cuptiActivityDisable", &api.disable },
			{ "cuptiActivityFlushAll", &api.flush } };
	void *second;

	/* Lazily: its calls of its own functions are bound when they are redirected already. */
	library = dlopen(FAKE_CLIENTS_GNU_PATH, RTLD_LAZY | RTLD_LOCAL);
	CHECK(library);
	cupti = dlsym(library, "fake_clients");
	CHECK(cupti);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *address = dlsym(library, symbols[i].name);

		CHECK(address);
		memcpy(symbols[i].to, &address, sizeof(address));
	}
	second = dlopen(client_path, RTLD_LAZY | RTLD_LOCAL);
	CHECK(second);
	client = dlsym(second, "second_client");
	CHECK(client);
}

/* The probe records, and a client is in the process. */
static void begin_with(const char *client_path)
{
	load(client_path);
	CHECK(clients_watch(library, &hooks) == 0);
	attach();
}

static void begin(void)
{
	begin_with(CLIENT_NOW_PATH);
}

/* Half a second without a call of the other's, or as many seconds as said. */
static void settle(int seconds)
{
	clients_settle(clock_monotonic_ns() + seconds * SECOND_NS);
}

/* n bytes of work, all delivered; how many of them the probe got. */
static size_t probe_gets(size_t n)
{
	size_t before = atomic_load(&received);

	cupti->work(n);
	OK(api.flush(0));
	return atomic_load(&received) - before;
}

static void assert_in_child(void (*scenario)(void))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(600);
		scenario();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#define TEST(name)                                                                                 \
	static void name##_scenario(void);                                                         \
	static void name(void **state)                                                             \
	{                                                                                          \
		(void)state;                                                                       \
		assert_in_child(name##_scenario);                                                  \
	}                                                                                          \
	static void name##_scenario(void)

static void kineto_session(bool registers, size_t session)
{
	size_t before = client->received();

	OK(client->kineto_start(registers));
	CHECK(atomic_load(&arrivals) == session && !atomic_load(&attached) && clients_active());
	cupti->work(20);
	settle(60); /* it records: however quiet, it stays */
	CHECK(clients_active());
	OK(client->kineto_stop());
	settle(1); /* its records are not fetched yet */
	CHECK(clients_active() && atomic_load(&departures) == session - 1);
	OK(client->kineto_fetch());
	CHECK(client->received() == before + 20 && client->unknown() == 0);
	settle(0); /* it may go on at once */
	CHECK(clients_active());
	settle(1);
	CHECK(!clients_active() && atomic_load(&attached) && atomic_load(&departures) == session);
	CHECK(probe_gets(7) == 7);
}

static void kineto(const char *path)
{
	begin_with(path);
	CHECK(probe_gets(10) == 10);
	OK(client->kineto_init());
	CHECK(atomic_load(&arrivals) == 1 && clients_hold_subscription());
	kineto_session(true, 1);
	CHECK(clients_clock() == client->clock);
	/* Subscribed for ever: the probe records without. */
	CHECK(clients_hold_subscription() && cupti->subscribed());
	kineto_session(false, 2); /* with the callbacks of the first time */
	kineto_session(true, 3);
	CHECK(atomic_load(&received) == 10 + 3 * 7 && client->received() == 60);
}

TEST(yields_to_kineto_bound_at_load)
{
	kineto(CLIENT_NOW_PATH);
	CHECK(!strcmp(arrived, "libsecond_client_now.so"));
}

TEST(yields_to_kineto_bound_lazily)
{
	kineto(CLIENT_LAZY_PATH);
}

TEST(yields_to_kineto_by_dlsym)
{
	kineto(CLIENT_DLSYM_PATH);
	CHECK(!strcmp(arrived, "libsecond_client_dlsym.so"));
}

static void proton(const char *path)
{
	begin_with(path);
	for (size_t session = 1; session <= 3; session++) {
		unsigned int calls = cupti->calls();

		OK(client->proton_start());
		CHECK(cupti->calls() == calls + 4 + 3); /* the probe's detach, its own */
		CHECK(atomic_load(&arrivals) == session && clients_hold_subscription());
		cupti->work(30);
		OK(client->proton_stop());
		CHECK(client->received() == 30 * session && client->unknown() == 0);
		CHECK(atomic_load(&departures) == session - 1);
		settle(1);
		CHECK(atomic_load(&departures) == session && !clients_hold_subscription());
		CHECK(cupti->subscribed() && probe_gets(5) == 5);
	}
}

TEST(yields_to_proton_by_dlsym)
{
	proton(CLIENT_DLSYM_PATH);
}

TEST(yields_to_proton_bound_at_load)
{
	proton(CLIENT_NOW_PATH);
}

TEST(protects_what_the_probe_records)
{
	unsigned int calls;

	begin();
	cupti->work(3);
	calls = cupti->calls();
	/* It disables and flushes what it does not have. */
	OK(client->disable(KERNELS));
	OK(client->disable_context(NULL, KERNELS));
	OK(client->flush());
	CHECK(cupti->calls() == calls && cupti->enabled(KERNELS));
	CHECK(!clients_active() && atomic_load(&arrivals) == 0 && atomic_load(&received) == 0);
	CHECK(probe_gets(4) == 7);
}

/* It began before it was watched, and the probe could not attach beside it. What it disables then
 * must be off: it frees its buffers. */
TEST(passes_on_what_an_earlier_client_disables)
{
	load(CLIENT_NOW_PATH);
	OK(client->kineto_init());
	OK(client->kineto_start(true));
	cupti->work(20);
	CHECK(clients_watch(library, &hooks) == 0 && !clients_active());
	CHECK(api.subscribe(&handle, callback, NULL) != CUPTI_SUCCESS);
	OK(client->kineto_stop());
	CHECK(!cupti->enabled(KERNELS) && !cupti->enabled(COPIES));
	OK(client->kineto_fetch());
	CHECK(client->received() == 20 && client->unknown() == 0 && atomic_load(&received) == 0);
}

TEST(returns_a_late_buffer_to_its_owner)
{
	begin();
	OK(client->kineto_init());
	OK(client->kineto_start(true));
	cupti->work(20);
	OK(client->kineto_stop());
	settle(9);
	CHECK(clients_active());
	settle(11); /* it does not seem to want them */
	CHECK(!clients_active() && atomic_load(&attached));
	/* It does: CUPTI returns the buffer to the probe's callbacks. */
	OK(client->kineto_fetch());
	CHECK(client->received() == 20 && client->unknown() == 0 && atomic_load(&received) == 0);
	CHECK(probe_gets(6) == 6);
}

TEST(waits_for_buffers_after_unsubscribe)
{
	begin();
	OK(client->kineto_init());
	OK(client->kineto_start(true));
	cupti->work(20);
	OK(client->kineto_stop());
	OK(client->unsubscribe());
	settle(1);
	CHECK(clients_active());
	OK(client->kineto_fetch());
	settle(1);
	CHECK(!clients_active() && client->received() == 20);
}

TEST(takes_back_a_buffer_of_the_probe)
{
	uint8_t *buffer = malloc(4096);

	begin();
	OK(client->kineto_init());
	OK(client->kineto_start(true));
	/* One that CUPTI had kept: back through the client's callbacks. */
	cupti->work(20);
	client_buffers_completed(NULL, 0, buffer, 4096, 11);
	CHECK(atomic_load(&received) == 11 && client->unknown() == 0 && client->received() == 0);
}

TEST(yields_before_a_finalize)
{
	begin();
	OK(client->finalize());
	CHECK(atomic_load(&arrivals) == 1 && clients_active());
	settle(1);
	CHECK(atomic_load(&departures) == 1 && cupti->subscribed() && probe_gets(5) == 5);
}

TEST(counts_contexts_and_kinds)
{
	CUcontext one = (CUcontext)&hooks, two = (CUcontext)&api;

	begin();
	OK(client->enable_context(one, KERNELS));
	OK(client->enable_context(two, KERNELS));
	OK(client->enable_context(two, KERNELS));
	OK(client->enable(COPIES));
	OK(client->disable_context(one, KERNELS));
	OK(client->disable(COPIES));
	OK(client->flush());
	settle(60);
	CHECK(clients_active());
	OK(client->disable_context(two, KERNELS));
	OK(client->flush());
	settle(1);
	CHECK(!clients_active());
	/* What was refused is not held. */
	CHECK(client->enable((CUpti_ActivityKind)9999) == CUPTI_ERROR_INVALID_KIND);
	CHECK(clients_active());
	settle(1);
	CHECK(!clients_active() && atomic_load(&departures) == 2);
}

TEST(frees_the_subscription_when_idle)
{
	begin();
	OK(client->kineto_init());
	settle(1);
	CHECK(!clients_active() && clients_hold_subscription() && atomic_load(&attached));
	OK(client->unsubscribe());
	CHECK(!clients_active() && !clients_hold_subscription() && !cupti->subscribed());
}

TEST(forgets_what_the_probe_finalized)
{
	begin();
	OK(client->kineto_init());
	OK(client->kineto_start(true));
	OK(client->kineto_stop());
	settle(1); /* no buffer is out, but records may still come */
	CHECK(clients_active());
	settle(11);
	CHECK(!clients_active() && clients_hold_subscription() && clients_clock());
	clients_after_finalize();
	CHECK(!clients_hold_subscription() && !clients_clock());
}

TEST(keeps_errno)
{
	begin();
	errno = ERANGE;
	OK(client->disable(SETS)); /* not passed on */
	CHECK(errno == ERANGE);
	OK(client->enable(KERNELS));
	CHECK(atomic_load(&arrivals) == 1 && cupti->errno_found() == ERANGE);
	CHECK(errno == EDOM); /* what the call left, not what came after */
	clients_unwatch();
	CHECK(errno == EDOM);
}

TEST(puts_calls_back)
{
	void *original;

	load(CLIENT_NOW_PATH);
	original = dlsym(library, "cuptiActivityDisable");
	CHECK(clients_watch(library, &hooks) == 0);
	CHECK(client->disable_slot() != original);
	clients_unwatch();
	CHECK(client->disable_slot() == original);
	CHECK(dlsym(library, "cuptiActivityDisable") == original);
	attach();
	OK(client->disable(KERNELS));
	CHECK(!cupti->enabled(KERNELS)); /* passed on as it came */
	/* And again. */
	CHECK(clients_watch(library, &hooks) == 0);
	CHECK(client->disable_slot() != original);
	OK(client->enable(COPIES));
	CHECK(atomic_load(&arrivals) == 1 && cupti->enabled(COPIES));
}

TEST(remembers_a_client_across_sessions)
{
	begin();
	OK(client->enable(KERNELS));
	clients_unwatch();
	CHECK(clients_watch(library, &hooks) == 0);
	CHECK(clients_active()); /* this session does not attach */
	clients_unwatch();
	OK(client->disable(KERNELS));
	OK(client->flush());
	settle(1);
	CHECK(!clients_active() && atomic_load(&departures) == 0); /* nobody to tell */
	clients_unwatch();
	CHECK(client->disable_slot() == dlsym(library, "cuptiActivityDisable"));
}

TEST(obeys_the_environment)
{
	void *slot;

	load(CLIENT_NOW_PATH);
	slot = client->disable_slot();
	setenv("MOESCOPE_SHARE", "off", 1);
	CHECK(clients_watch(library, &hooks) == -ECANCELED);
	CHECK(client->disable_slot() == slot && dlsym(library, "cuptiActivityDisable") == slot);
	clients_unwatch();
	unsetenv("MOESCOPE_SHARE");
	CHECK(clients_watch(library, &hooks) == 0);
	CHECK(client->disable_slot() != slot);
}

TEST(wants_the_functions_of_cupti)
{
	void *other = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

	CHECK(other && clients_watch(other, &hooks) == -ENOENT);
	clients_unwatch();
	clients_settle(clock_monotonic_ns());
	CHECK(!clients_active());
}

TEST(only_passes_on_after_fork)
{
	pid_t pid;
	int status;

	begin();
	OK(client->enable(COPIES));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		clients_after_fork();
		CHECK(!clients_active());
		OK(client->disable(COPIES));
		OK(client->enable(COPIES));
		CHECK(atomic_load(&arrivals) == 1 && cupti->enabled(COPIES) && !clients_active());
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(clients_active());
}

TEST(names_the_holder)
{
	__typeof__(cuptiSubscribe_v2) *subscribe;
	CUpti_SubscriberParams params = { .structSize = sizeof(params),
					  .subscriberName = "somebody" };
	void *address;
	char name[96];

	load(CLIENT_NOW_PATH);
	address = dlsym(library, "cuptiSubscribe_v2");
	memcpy(&subscribe, &address, sizeof(subscribe));
	CHECK(clients_watch(library, &hooks) == 0);
	CHECK(clients_name_holder(name, sizeof(name)) == -ENOENT);
	CHECK(!strcmp(name, "another profiler") && !cupti->subscribed());
	/* Not through the wrappers: one that was there before. */
	OK(subscribe(&handle, callback, NULL, &params));
	CHECK(clients_name_holder(name, sizeof(name)) == 0);
	CHECK(!strcmp(name, "CUPTI for somebody"));
	OK(api.unsubscribe(handle));
	attach();
	OK(client->kineto_init());
	CHECK(clients_name_holder(name, sizeof(name)) == 0);
	CHECK(!strcmp(name, "libsecond_client_now.so"));
}

/* A second thread of the other calls while the probe is still detaching. */
static atomic_int second_tid;

static void *second_thread(void *arg)
{
	(void)arg;
	atomic_store(&second_tid, gettid());
	OK(client->enable(COPIES));
	return NULL;
}

static bool sleeps(int tid)
{
	char path[64], text[512] = "";
	const char *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "r");
	CHECK(file && fgets(text, sizeof(text), file));
	fclose(file);
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

static pthread_t second;

static void arrives_slowly(const char *name)
{
	CHECK(pthread_create(&second, NULL, second_thread, NULL) == 0);
	while (!atomic_load(&second_tid) || !sleeps(atomic_load(&second_tid)))
		CHECK(!cupti->enabled(COPIES));
	CHECK(!cupti->enabled(COPIES));
	arrives(name);
}

static const struct clients_hooks slow_hooks = { arrives_slowly, leaves, records, completed };

TEST(holds_other_threads_until_the_probe_is_gone)
{
	load(CLIENT_NOW_PATH);
	CHECK(clients_watch(library, &slow_hooks) == 0);
	attach();
	OK(client->enable(KERNELS));
	CHECK(pthread_join(second, NULL) == 0);
	CHECK(atomic_load(&arrivals) == 1 && cupti->enabled(COPIES) && cupti->enabled(KERNELS));
}

/* Threads of the other start and stop as they like while the probe's thread settles. attach() and
 * detach() check that the hooks alternate. */
static atomic_bool stop_settling;

static void *other_thread(void *arg)
{
	CUpti_ActivityKind kind = *(const CUpti_ActivityKind *)arg;

	for (int i = 0; i < 2000; i++) {
		OK(client->enable(kind));
		CHECK(clients_active());
		OK(client->disable(kind));
		OK(client->flush());
	}
	return NULL;
}

static void *settling_thread(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop_settling))
		settle(1);
	return NULL;
}

TEST(stands_many_threads)
{
	static const CUpti_ActivityKind kinds[] = { KERNELS, COPIES, SETS,
						    CUPTI_ACTIVITY_KIND_DRIVER };
	pthread_t threads[4], settling;

	begin();
	CHECK(pthread_create(&settling, NULL, settling_thread, NULL) == 0);
	for (size_t i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, other_thread, (void *)&kinds[i]) == 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&stop_settling, true);
	pthread_join(settling, NULL);
	settle(1);
	CHECK(!clients_active() && atomic_load(&attached));
	CHECK(atomic_load(&arrivals) > 0 && atomic_load(&arrivals) == atomic_load(&departures));
	CHECK(probe_gets(9) == 9 && cupti->enabled(SETS) && !cupti->enabled(COPIES));
}

static void names_known_files(void **state)
{
	char name[96];
	int local;

	(void)state;
	client_name_at((void *)dlsym, name, sizeof(name));
	assert_string_equal(name, "libc.so.6");
	client_name_at(&local, name, sizeof(name));
	assert_string_equal(name, "another profiler");
	assert_int_equal(client_name_loaded(name, sizeof(name)), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(yields_to_kineto_bound_at_load),
		cmocka_unit_test(yields_to_kineto_bound_lazily),
		cmocka_unit_test(yields_to_kineto_by_dlsym),
		cmocka_unit_test(yields_to_proton_by_dlsym),
		cmocka_unit_test(yields_to_proton_bound_at_load),
		cmocka_unit_test(protects_what_the_probe_records),
		cmocka_unit_test(passes_on_what_an_earlier_client_disables),
		cmocka_unit_test(returns_a_late_buffer_to_its_owner),
		cmocka_unit_test(waits_for_buffers_after_unsubscribe),
		cmocka_unit_test(takes_back_a_buffer_of_the_probe),
		cmocka_unit_test(yields_before_a_finalize),
		cmocka_unit_test(counts_contexts_and_kinds),
		cmocka_unit_test(frees_the_subscription_when_idle),
		cmocka_unit_test(forgets_what_the_probe_finalized),
		cmocka_unit_test(keeps_errno),
		cmocka_unit_test(puts_calls_back),
		cmocka_unit_test(remembers_a_client_across_sessions),
		cmocka_unit_test(obeys_the_environment),
		cmocka_unit_test(wants_the_functions_of_cupti),
		cmocka_unit_test(only_passes_on_after_fork),
		cmocka_unit_test(names_the_holder),
		cmocka_unit_test(holds_other_threads_until_the_probe_is_gone),
		cmocka_unit_test(stands_many_threads),
		cmocka_unit_test(names_known_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
