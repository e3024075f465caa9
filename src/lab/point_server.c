/* SPDX-License-Identifier: Apache-2.0
 *
 * A point whose engine is a server: started here, or already running. Our client sends the load
 * (load.h); the server is then asked to end, as a person at its terminal would.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/load/load.h"
#include "lab/point.h"

#define READY_S 1800.0 /* large models take long to load */
#define GRACE_S 20.0   /* for a server to write what it recorded */

/* A currently free port. */
static int free_port(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = -EADDRNOTAVAIL;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, length) == 0 &&
	    getsockname(fd, (struct sockaddr *)&address, &length) == 0)
		port = ntohs(address.sin_port);
	close(fd);
	return port;
}

struct service {
	struct point *point;
	struct child child;
};

static bool serves(void *arg)
{
	struct service *service = arg;

	return child_alive(&service->child) && !*service->point->stop;
}

/* Starts it and waits until it answers; *ret_load_ns: what that took. */
static int start_server(struct service *service, struct experiment *live, int64_t *ret_load_ns,
			struct err *err)
{
	struct point *point = service->point;
	struct argv program = { NULL, 0, 0 };
	int64_t begin_ns = clock_monotonic_ns();
	double wait_s = point->deadline_ns ? (double)(point->deadline_ns - begin_ns) * 1e-9
					   : READY_S;
	int port = free_port(), r;
	char url[64];

	if (port < 0)
		return err_sys(err, port, "no port is free");
	snprintf(url, sizeof(url), "http://127.0.0.1:%d", port);
	r = experiment_set(live, "url", url, err);
	if (r == 0)
		r = point->engine->server(live, point->tools, point->directory, port, &program,
					  err);
	if (r == 0)
		r = point_start(point, &program, &service->child, err);
	argv_release(&program);
	if (r == 0)
		r = load_wait_ready(url, point->engine->ready_path, wait_s, serves, service, err);
	*ret_load_ns = clock_monotonic_ns() - begin_ns;
	return r;
}

static int append_one(struct requests *to, const struct requests *from,
		      const struct request *request)
{
	struct request *copy = requests_add(to);
	size_t first_piece, first_empty;
	int r = copy ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	first_piece = copy->first_piece;
	first_empty = copy->first_empty;
	*copy = *request;
	copy->first_piece = first_piece;
	copy->first_empty = first_empty;
	copy->pieces = copy->empties = 0;
	copy->error = request->error ? strdup(request->error) : NULL;
	for (size_t i = 0; i < request->pieces && r == 0; i++)
		r = requests_piece(to, from->pieces_ns[request->first_piece + i]);
	for (size_t i = 0; i < request->empties && r == 0; i++)
		r = requests_empty(to, from->empties_ns[request->first_empty + i]);
	return r;
}

/* A further repeat. The measured part goes on to its end. */
static int append_repeat(struct requests *to, struct requests *from)
{
	int r = 0;

	for (size_t i = 0; i < from->n && r == 0; i++)
		r = append_one(to, from, &from->v[i]);
	to->end_ns = from->end_ns;
	to->over_saturated |= from->over_saturated;
	return r;
}

static int send_load(struct point *point, struct experiment *live, struct err *err)
{
	struct requests *all = &point->requests;
	int r = 0;

	for (int64_t i = 0; i < live->repeats && r == 0 && !*point->stop; i++) {
		struct requests one = { 0 };

		r = load_run(live, point->stop, &one, err);
		if (r < 0)
			break;
		if (i == 0) {
			*all = one;
			point->measured = true;
			live->warmup = 0; /* already warm */
			continue;
		}
		r = append_repeat(all, &one);
		if (r < 0)
			err_set(err, r, "no memory.");
		requests_release(&one);
	}
	return r;
}

static void save_requests(struct point *point)
{
	char *path = point_path(point, POINT_REQUESTS);
	struct err err = { "" };

	if (path && requests_write(&point->requests, path, &err) < 0)
		point_note(point, "%s", err.message);
	free(path);
}

/* What went wrong, if anything; the server may have died meanwhile. */
static void judge_service(struct service *service, int r, const struct err *err)
{
	struct point *point = service->point;
	char verdict[VERDICT_MAX] = "", message[600];

	if (child_alarmed() || (r == -ETIMEDOUT && point->deadline_ns)) {
		point_fail(point, POINT_TIMEOUT, "not finished within the time limit of %g s.",
			   point->experiment->time_limit_s);
		return;
	}
	if (*point->stop) {
		point_fail(point, POINT_FAILED, "interrupted.");
		return;
	}
	if (service->child.pid && !child_alive(&service->child)) {
		child_verdict(&service->child, verdict, sizeof(verdict));
		point_last_message(point, message, sizeof(message));
		point_fail(point, POINT_FAILED, "the server %s; its last words: %s",
			   verdict[0] ? verdict : "ended by itself", message);
		return;
	}
	if (r < 0)
		point_fail(point, POINT_FAILED, "%s", err->message);
}

void point_serve(struct point *point, struct experiment *live)
{
	static const int politely[] = { SIGINT, SIGTERM, 0 };
	struct service service = { .point = point };
	struct err err = { "" };
	int64_t load_ns = -1;
	int r = 0;

	if (point->deadline_ns)
		child_alarm(point->deadline_ns);
	if (point->engine->server)
		r = start_server(&service, live, &load_ns, &err);
	if (r == 0) {
		bool recording = point_record_begin(point, live->url);

		r = send_load(point, live, &err);
		if (recording && child_alive(&service.child))
			point_record_end(point, live->url);
	}
	child_alarm(0);
	judge_service(&service, r, &err);
	child_end(&service.child, politely, GRACE_S);
	point_record_collect(point);
	point->peak_rss_bytes = service.child.peak_rss_bytes;
	if (point->measured) {
		point->requests.load_ns = load_ns;
		save_requests(point);
	} else {
		err_set(&point->unmeasured, -ENODATA, "no load was sent");
	}
}
