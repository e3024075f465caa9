/* SPDX-License-Identifier: Apache-2.0
 *
 * The load client: what is sent when, time limits, and the results; see load.h. A kernel timer
 * wakes it for the next thing due; the next request is prepared in advance.
 *
 * A request leaves when it is due, and an answer is timestamped when it arrives, only if the client
 * runs at that moment. On a busy machine it does not: so it runs before other processes if allowed,
 * and is awake a little before each request.
 */
#include "lab/load/load.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/json_read.h"
#include "lab/load/completion.h"
#include "lab/load/load_inside.h"

#define EVENTS_AT_ONCE 64      /* limits how long a due request waits */
#define HEARTBEAT_NS 100000000 /* how often `stop` is checked */
#define ANSWER_TIMEOUT_S 10    /* for a small request */
#define AWAKE_NS 200000	       /* before a request is due; longer than a wake-up takes */
#define AWAKE_SHARE 0.1	       /* of the time between two requests, at most */

/* Requests. */

/* Lengths follow the order of the requests, so a seed determines them whatever the server does. */
static int make_ready(struct load *load)
{
	const struct experiment *e = load->experiment;
	const struct arrivals *a = load->warmup ? &(struct arrivals){ 0 } : &load->arrivals;
	int64_t words = -1, tokens = e->max_tokens;
	struct buf *out = &load->ready.out;

	if (load->ready.made || load->next >= load->n)
		return 0;
	if (load->has_prompts)
		words = lengths_draw(&load->prompts, &load->lengths_sampler);
	if (load->has_outputs)
		tokens = lengths_draw(&load->outputs, &load->lengths_sampler);
	if (a->prompt_tokens && a->prompt_tokens[load->next] > 0)
		words = a->prompt_tokens[load->next];
	if (a->output_tokens && a->output_tokens[load->next] > 0)
		tokens = a->output_tokens[load->next];
	out->size = load->prompt.size = load->body.size = 0;
	if (words > 0)
		prompt_append(&load->prompt, &load->prompt_sampler, words);
	else
		buf_append(&load->prompt, e->prompt ? e->prompt : "",
			   e->prompt ? strlen(e->prompt) : 0);
	buf_append(&load->prompt, "", 1);
	if (load->prompt.failed ||
	    completion_body(&load->body, e, load->model, load->prompt.data, tokens) < 0)
		return -ENOMEM;
	buf_printf(out, "POST %s/v1/%s HTTP/1.1\r\nHost: %s\r\n", load->target.base,
		   e->endpoint == ENDPOINT_CHAT ? "chat/completions" : "completions",
		   load->target.authority);
	buf_printf(out, "Accept: text/event-stream\r\nContent-Type: application/json\r\n");
	if (e->api_key)
		buf_printf(out, "Authorization: Bearer %s\r\n", e->api_key);
	/* Some servers (llama.cpp's) accept only a UUID. */
	buf_printf(out, "X-Request-Id: 6d6f6573-%04x-4000-8000-%012zx\r\n", load->warmup,
		   load->next);
	buf_printf(out, "Content-Length: %zu\r\n\r\n", load->body.size);
	buf_append(out, load->body.data, load->body.size);
	load->ready.cancels = !load->warmup && e->cancel_pct > 0 &&
			      sample_uniform(&load->cancel_sampler) * 100 < e->cancel_pct;
	load->ready.made = true;
	return out->failed ? -ENOMEM : 0;
}

static struct stream *take_stream(struct load *load)
{
	struct streams *from = TAILQ_EMPTY(&load->idle) ? &load->unused : &load->idle;
	struct stream *stream = TAILQ_FIRST(from);

	if (stream) {
		TAILQ_REMOVE(from, stream, link);
		return stream;
	}
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return NULL;
	stream->load = load;
	stream->fd = -1;
	http_answer_init(&stream->answer, NULL, NULL);
	return stream;
}

static int start_one(struct load *load)
{
	struct stream *stream = take_stream(load);
	struct buf out;

	if (!stream || make_ready(load) < 0)
		return err_set(load->err, -ENOMEM, "not enough memory for the requests.");
	out = stream->out;
	stream->out = load->ready.out;
	load->ready.out = out;
	load->ready.made = false;
	stream->index = load->next;
	stream->warmup = load->warmup;
	stream->cancels = load->ready.cancels;
	stream->due_ns = load->due_ns ? load->start_ns + load->due_ns[load->next] : -1;
	stream->out_at = stream->pieces.n = stream->empties.n = stream->text.size = 0;
	stream->prompt_tokens = stream->output_tokens = -1;
	stream->has_usage = stream->done = stream->finished = false;
	stream->error[0] = '\0';
	stream->write_code = 0;
	http_answer_reset(&stream->answer);
	load->next++;
	load->n_under_way++;
	TAILQ_INSERT_TAIL(&load->under_way, stream, link);
	if (stream->cancels)
		TAILQ_INSERT_TAIL(&load->cancelling, stream, cancel);
	stream_start(stream);
	if (load->watch_saturation &&
	    saturation_sent(&load->saturation, (double)(stream->now_ns - load->start_ns) * 1e-9,
			    load->n_under_way) < 0)
		return err_set(load->err, -ENOMEM, "not enough memory for the requests.");
	return make_ready(load) < 0
		       ? err_set(load->err, -ENOMEM, "not enough memory for the requests.")
		       : 0;
}

static bool has_place(const struct load *load)
{
	return load->next < load->n &&
	       (!load->most_under_way || load->n_under_way < load->most_under_way);
}

static int start_due(struct load *load)
{
	int r = 0;

	while (r == 0 && has_place(load) &&
	       (!load->due_ns || load->start_ns + load->due_ns[load->next] <= clock_monotonic_ns()))
		r = start_one(load);
	return r;
}

/* Results. */

static int keep_text(struct requests *requests, const struct buf *text)
{
	size_t before = requests->text ? strlen(requests->text) : 0;
	char *grown = realloc(requests->text, before + text->size + 2);

	if (!grown)
		return -ENOMEM;
	requests->text = grown;
	if (before)
		grown[before++] = '\n';
	memcpy(grown + before, text->data, text->size);
	grown[before + text->size] = '\0';
	return 0;
}

static int keep_request(struct load *load, const struct stream *stream, enum request_end end)
{
	struct requests *all = &load->requests;
	struct request *request = requests_add(all);

	if (!request)
		return -ENOMEM;
	request->due_ns = stream->due_ns;
	request->sent_ns = stream->sent_ns;
	request->end_ns = stream->now_ns;
	request->end = end;
	request->warmup = stream->warmup;
	request->server_counts = stream->has_usage;
	request->prompt_tokens = stream->prompt_tokens;
	request->output_tokens = stream->output_tokens;
	for (size_t i = 0; i < stream->pieces.n; i++)
		if (requests_piece(all, stream->pieces.v[i]) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < stream->empties.n; i++)
		if (requests_empty(all, stream->empties.v[i]) < 0)
			return -ENOMEM;
	if (stream->error[0]) {
		request->error = strdup(stream->error);
		if (!request->error)
			return -ENOMEM;
	}
	return stream->text.size && memchr(stream->text.data, '\0', stream->text.size) == NULL
		       ? keep_text(all, &stream->text)
		       : 0;
}

void load_ended(struct stream *stream, enum request_end end)
{
	struct load *load = stream->load;

	if (keep_request(load, stream, end) < 0)
		load->failed = err_set(load->err, -ENOMEM, "not enough memory for the results.");
	if (load->watch_saturation && end == REQUEST_OK)
		saturation_ended(&load->saturation,
				 (double)(stream->now_ns - stream->sent_ns) * 1e-9);
	if (stream->cancels)
		TAILQ_REMOVE(&load->cancelling, stream, cancel);
	TAILQ_REMOVE(&load->under_way, stream, link);
	load->n_under_way--;
	stream->sent_ns = -1;
	if (!stream->answer.keep_alive)
		stream_close(stream);
	/* The most recently used one is least likely to be closed by the server. */
	if (stream->fd >= 0)
		TAILQ_INSERT_HEAD(&load->idle, stream, link);
	else
		TAILQ_INSERT_HEAD(&load->unused, stream, link);
}

void load_idle_closed(struct stream *stream)
{
	TAILQ_REMOVE(&stream->load->idle, stream, link);
	stream_close(stream);
	TAILQ_INSERT_HEAD(&stream->load->unused, stream, link);
}

void load_first_piece(struct stream *stream)
{
	struct load *load = stream->load;

	if (load->watch_saturation &&
	    saturation_first_token(&load->saturation,
				   (double)(stream->now_ns - load->start_ns) * 1e-9,
				   (double)(stream->now_ns - stream->sent_ns) * 1e-9) < 0)
		stream->out_of_memory = true;
}

/* Time. */

static int64_t in_ns(double seconds)
{
	return (int64_t)fmin(seconds * 1e9, 4e18);
}

/* Ends what has been in flight for too long. */
static void end_late(struct load *load, int64_t now_ns)
{
	const struct experiment *e = load->experiment;
	struct stream *stream;

	while ((stream = TAILQ_FIRST(&load->cancelling)) &&
	       now_ns - stream->sent_ns >= in_ns(e->cancel_after_s))
		stream_give_up(stream, REQUEST_CANCELLED, NULL);
	while (e->request_timeout_s > 0 && (stream = TAILQ_FIRST(&load->under_way)) &&
	       now_ns - stream->sent_ns >= in_ns(e->request_timeout_s)) {
		char message[96];

		snprintf(message, sizeof(message), "no complete answer within %g s.",
			 e->request_timeout_s);
		stream_give_up(stream, REQUEST_TIMEOUT, message);
	}
}

/* How long to busy-wait before a request is due. Not with a single CPU: the server needs it. */
static int64_t awake_before(const struct arrivals *arrivals)
{
	cpu_set_t cpus;
	double gap_ns;

	if (!arrivals->due_ns || arrivals->n < 2 || sched_getaffinity(0, sizeof(cpus), &cpus) < 0 ||
	    CPU_COUNT(&cpus) < 2)
		return 0;
	gap_ns = (double)(arrivals->due_ns[arrivals->n - 1] - arrivals->due_ns[0]) /
		 (double)(arrivals->n - 1);
	return (int64_t)fmin(AWAKE_NS, gap_ns * AWAKE_SHARE);
}

/* The next request is almost due. */
static bool stays_awake(const struct load *load)
{
	return load->due_ns && load->awake_ns && has_place(load) &&
	       load->start_ns + load->due_ns[load->next] - clock_monotonic_ns() <= load->awake_ns;
}

static int64_t next_wake(const struct load *load, int64_t now_ns)
{
	const struct experiment *e = load->experiment;
	const struct stream *stream;
	int64_t wake = now_ns + HEARTBEAT_NS, at;

	if (load->due_ns && has_place(load)) {
		at = load->start_ns + load->due_ns[load->next] - load->awake_ns;
		wake = at < wake ? at : wake;
	}
	stream = TAILQ_FIRST(&load->cancelling);
	if (stream && stream->sent_ns + in_ns(e->cancel_after_s) < wake)
		wake = stream->sent_ns + in_ns(e->cancel_after_s);
	stream = TAILQ_FIRST(&load->under_way);
	if (stream && e->request_timeout_s > 0 &&
	    stream->sent_ns < wake - in_ns(e->request_timeout_s))
		wake = stream->sent_ns + in_ns(e->request_timeout_s);
	return wake;
}

static int arm_timer(struct load *load, int64_t at_ns)
{
	struct itimerspec when = { .it_value = { at_ns / 1000000000, at_ns % 1000000000 } };

	if (at_ns == load->armed_ns)
		return 0;
	load->armed_ns = at_ns;
	if (timerfd_settime(load->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0)
		return err_sys(load->err, -errno, "the timer cannot be set");
	return 0;
}

static int wait_and_read(struct load *load)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	uint64_t expirations;
	int n = epoll_wait(load->epoll_fd, events, EVENTS_AT_ONCE, stays_awake(load) ? 0 : -1);

	if (n < 0)
		return errno == EINTR ? 0 : err_sys(load->err, -errno, "epoll_wait failed");
	for (int i = 0; i < n && load->failed == 0; i++) {
		if (events[i].data.ptr)
			stream_event(events[i].data.ptr, events[i].events);
		else if (read(load->timer_fd, &expirations, sizeof(expirations)) > 0)
			load->armed_ns = 0;
	}
	return load->failed;
}

static void end_all(struct load *load)
{
	struct stream *stream;

	load->next = load->n;
	while ((stream = TAILQ_FIRST(&load->under_way)))
		stream_give_up(stream, REQUEST_CANCELLED, NULL);
}

/* Sends n requests, at times after now or as slots become free, and waits for their ends. */
static int run_part(struct load *load, bool warmup, size_t n, const int64_t *due_ns)
{
	const volatile bool *stop = load->stop;
	int r = 0;

	load->warmup = warmup;
	load->n = n;
	load->next = 0;
	load->due_ns = due_ns;
	load->ready.made = false;
	if (make_ready(load) < 0)
		return err_set(load->err, -ENOMEM, "not enough memory for the requests.");
	load->start_ns = clock_monotonic_ns();
	while (r == 0) {
		int64_t now_ns;

		if (stop && *stop)
			end_all(load);
		r = start_due(load);
		now_ns = clock_monotonic_ns();
		end_late(load, now_ns);
		if (load->watch_saturation &&
		    saturation_test(&load->saturation, (double)(now_ns - load->start_ns) * 1e-9)) {
			load->over_saturated = true;
			end_all(load);
		}
		if (r < 0 || load->failed || (load->next >= n && !load->n_under_way))
			break;
		if (load->next < n && !load->n_under_way && !due_ns)
			continue; /* all places failed at once: the next ones */
		r = arm_timer(load, next_wake(load, now_ns));
		if (r == 0)
			r = wait_and_read(load);
	}
	return r < 0 ? r : load->failed;
}

/* Beginning and end. */

struct class
{
	int policy; /* -1: unchanged */
	struct sched_param parameters;
};

/* The lowest real-time class, for this thread and none of its children. Not always allowed; then
 * the reported lateness shows it. */
static struct class go_first(void)
{
	struct class before = { .policy = sched_getscheduler(0) };
	struct sched_param lowest = { .sched_priority = sched_get_priority_min(SCHED_RR) };

	if ((before.policy != SCHED_OTHER && before.policy != SCHED_BATCH) ||
	    sched_getparam(0, &before.parameters) < 0 ||
	    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest) < 0)
		before.policy = -1;
	return before;
}

static void go_back(const struct class *before)
{
	if (before->policy >= 0)
		sched_setscheduler(0, before->policy, &before->parameters);
}

/* Servers want the name of their model; those that list none may do without. */
static int find_model(struct load *load)
{
	const struct experiment *e = load->experiment;
	struct json_node *root = NULL;
	const struct json_node *data;
	struct buf body = { 0 };
	const char *name = e->model;
	int status;

	if (name) {
		load->model = strdup(name);
		return load->model ? 0 : -ENOMEM;
	}
	status = http_target_get(&load->target, "/v1/models", e->api_key, ANSWER_TIMEOUT_S, &body,
				 load->err);
	if (status == 200 && !body.failed &&
	    json_parse("", body.data ? body.data : "", body.size, &root, NULL) == 0) {
		data = json_get(root, "data");
		name = data && data->type == JSON_ARRAY ? json_get_string(data->child, "id", NULL)
							: NULL;
		load->model = name ? strdup(name) : NULL;
		json_node_free(root);
	}
	buf_release(&body);
	return status < 0 ? status : 0;
}

static int check_key(const char *api_key, struct err *err)
{
	if (api_key && api_key[strcspn(api_key, "\r\n")])
		return err_set(err, -EINVAL,
			       "the api_key has a line break in it; give it without.");
	return 0;
}

static int prepare_load(struct load *load)
{
	const struct experiment *e = load->experiment;
	struct epoll_event event = { .events = EPOLLIN };
	int r = check_key(e->api_key, load->err);

	if (r == 0 && !e->url)
		r = err_set(load->err, -EINVAL,
			    "a url of the server is needed, such as "
			    "http://127.0.0.1:8000.");
	if (r == 0)
		r = arrivals_make(e, &load->arrivals, load->err);
	if (r == 0 && e->prompt_tokens) {
		r = lengths_parse(e->prompt_tokens, "prompt_tokens", &load->prompts, load->err);
		load->has_prompts = r == 0;
	}
	if (r == 0 && e->output_tokens) {
		r = lengths_parse(e->output_tokens, "output_tokens", &load->outputs, load->err);
		load->has_outputs = r == 0;
	}
	if (r == 0)
		r = http_target_init(&load->target, e->url, load->err);
	if (r == 0) {
		http_target_settle(&load->target);
		r = find_model(load);
	}
	if (r < 0)
		return r;
	load->read_buffer = malloc(READ_BYTES);
	if (!load->read_buffer)
		return err_set(load->err, -ENOMEM, "not enough memory to read answers.");
	load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	load->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (load->epoll_fd < 0 || load->timer_fd < 0 ||
	    epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, load->timer_fd, &event) < 0)
		return err_sys(load->err, -errno, "the client cannot wait for events");
	sampler_seed(&load->lengths_sampler, e->seed, STREAM_LENGTHS);
	sampler_seed(&load->prompt_sampler, e->seed, STREAM_PROMPTS);
	sampler_seed(&load->cancel_sampler, e->seed, STREAM_CANCELS);
	return 0;
}

static void free_streams(struct streams *streams)
{
	struct stream *stream;

	while ((stream = TAILQ_FIRST(streams))) {
		TAILQ_REMOVE(streams, stream, link);
		stream_close(stream);
		http_answer_release(&stream->answer);
		buf_release(&stream->out);
		buf_release(&stream->text);
		free(stream->pieces.v);
		free(stream->empties.v);
		free(stream);
	}
}

static void release_load(struct load *load)
{
	free_streams(&load->under_way);
	free_streams(&load->idle);
	free_streams(&load->unused);
	if (load->epoll_fd >= 0)
		close(load->epoll_fd);
	if (load->timer_fd >= 0)
		close(load->timer_fd);
	free(load->read_buffer);
	free(load->model);
	http_target_release(&load->target);
	arrivals_release(&load->arrivals);
	lengths_release(&load->prompts);
	lengths_release(&load->outputs);
	saturation_release(&load->saturation);
	buf_release(&load->prompt);
	buf_release(&load->body);
	buf_release(&load->ready.out);
}

/* Without a concurrency: one request at a time, or as many as a clock makes arrive. */
static int run_parts(struct load *load)
{
	const struct experiment *e = load->experiment;
	int r = 0;

	load->most_under_way = e->concurrency ? (size_t)e->concurrency : 1;
	if (e->warmup > 0)
		r = run_part(load, true, (size_t)e->warmup, NULL);
	if (r < 0)
		return r;
	if (load->arrivals.due_ns)
		load->most_under_way = (size_t)e->concurrency;
	load->watch_saturation = e->stop_over_saturated && load->arrivals.due_ns;
	load->awake_ns = awake_before(&load->arrivals);
	r = run_part(load, false, load->arrivals.n, load->arrivals.due_ns);
	load->requests.start_ns = load->start_ns;
	load->requests.end_ns = clock_monotonic_ns();
	load->requests.over_saturated = load->over_saturated;
	load->requests.load_ns = -1;
	return r;
}

int load_run(const struct experiment *experiment, const volatile bool *stop,
	     struct requests *ret_requests, struct err *err)
{
	struct load load = {
		.experiment = experiment, .stop = stop, .epoll_fd = -1, .timer_fd = -1, .err = err
	};
	struct rlimit before, raised;
	bool limits = getrlimit(RLIMIT_NOFILE, &before) == 0;
	int r;

	TAILQ_INIT(&load.under_way);
	TAILQ_INIT(&load.cancelling);
	TAILQ_INIT(&load.idle);
	TAILQ_INIT(&load.unused);
	if (limits) { /* one connection per request in flight */
		raised = before;
		raised.rlim_cur = raised.rlim_max;
		limits = setrlimit(RLIMIT_NOFILE, &raised) == 0;
	}
	r = prepare_load(&load);
	if (r == 0) {
		struct class other = go_first();

		r = run_parts(&load);
		go_back(&other);
	}
	release_load(&load);
	if (limits)
		setrlimit(RLIMIT_NOFILE, &before);
	if (r < 0) {
		requests_release(&load.requests);
		return r;
	}
	*ret_requests = load.requests;
	return 0;
}

int load_wait_ready(const char *url, const char *path, double timeout_s, bool (*alive)(void *),
		    void *arg, struct err *err)
{
	int64_t until_ns = clock_monotonic_ns() + in_ns(timeout_s);
	const struct timespec pause = { .tv_nsec = 50000000 };
	struct http_target target;
	struct err last = { "" };
	int r = http_target_init(&target, url, err);

	if (r < 0)
		return r;
	for (;;) {
		double left_s = (double)(until_ns - clock_monotonic_ns()) * 1e-9;

		r = left_s > 0 ? http_target_get(&target, path, NULL, fmin(left_s, 5), NULL, &last)
			       : -ETIMEDOUT;
		if (r == 200 || left_s <= 0 || (alive && !alive(arg)))
			break;
		if (r > 0)
			err_set(&last, -EAGAIN, "%s answers with status %d", path, r);
		nanosleep(&pause, NULL);
	}
	http_target_release(&target);
	if (r == 200)
		return 0;
	if (alive && !alive(arg))
		return err_set(err, -ECHILD, "the server ended before it was ready.");
	return err_set(err, -ETIMEDOUT, "the server was not ready within %g s: %s.", timeout_s,
		       last.message[0] ? last.message : "it did not answer");
}
