/* SPDX-License-Identifier: Apache-2.0
 *
 * The server: who may ask, what is refused before anything is computed, and how replies are sent; see
 * http.h. Callbacks run on the one thread of libmicrohttpd.
 */
#include "surfaces/http/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "surfaces/html/page_files.h"
#include "surfaces/http/events.h"
#include "surfaces/http/routes.h"
#include "surfaces/http/sql_desk.h"

#define CONNECTIONS 1000
#define CONNECTION_BYTES (16 << 10) /* for headers */
#define SILENT_S 15		    /* that a connection may be, unless it waits for us */
#define COOKIE "moescope_token"

struct http_server {
	struct http_options options;
	char *token;
	bool loopback;
	struct routes routes;
	struct sql_desk desk;
	struct replies *replies;
	struct events *events;
	struct MHD_Daemon *daemon;
	uint16_t port;
};

/* A request from its first line to its last byte. */
struct exchange {
	struct http_server *server;
	struct MHD_Connection *connection;
	char *target;
	struct reply_waiter waiter;
	const struct reply *reply; /* that it has waited for */
	bool ready, has_body;
};

static const char *const headers[][2] = {
	{ "Content-Security-Policy",
	  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
	  "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'" },
	{ "X-Content-Type-Options", "nosniff" },
	{ "X-Frame-Options", "DENY" },
	{ "Referrer-Policy", "no-referrer" },
	{ "Cross-Origin-Opener-Policy", "same-origin" },
	{ "Cross-Origin-Resource-Policy", "same-origin" },
	{ "Cache-Control", "no-store" },
};

/* Takes over the response. */
static enum MHD_Result send_response(struct exchange *exchange, int status, const char *type,
				     struct MHD_Response *response)
{
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		MHD_add_response_header(response, headers[i][0], headers[i][1]);
	MHD_add_response_header(response, "Content-Type", type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	if (status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	result = MHD_queue_response(exchange->connection, (unsigned int)status, response);
	MHD_destroy_response(response);
	return result;
}

static void release_reply(void *reply)
{
	reply_release(reply);
}

/* Takes over the hold on the reply. */
static enum MHD_Result send_reply(struct exchange *exchange, const struct reply *reply)
{
	struct MHD_Response *response;

	response = MHD_create_response_from_buffer_with_free_callback_cls(
		reply->size, reply->body ? reply->body : "", release_reply, (void *)reply);
	if (!response)
		reply_release(reply);
	return send_response(exchange, reply->status, reply->type, response);
}

static enum MHD_Result refuse(struct exchange *exchange, int status, const char *sentence)
{
	struct reply reply = error_reply(status, sentence);

	return send_response(
		exchange, status, reply.type,
		MHD_create_response_from_buffer(reply.size, reply.body, MHD_RESPMEM_MUST_FREE));
}

/* In a time that does not tell where they differ. */
static bool is_same_secret(const char *a, const char *b)
{
	size_t length = strlen(b);
	unsigned char differs = strlen(a) != length;

	for (size_t i = 0; i < length; i++)
		differs |= (unsigned char)(a[i % (strlen(a) + 1)] ^ b[i]);
	return !differs;
}

static const char *header(struct exchange *exchange, const char *name)
{
	return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

static bool has_token(struct exchange *exchange)
{
	const char *token = exchange->server->token, *given = header(exchange, "Authorization");
	const char *cookie = MHD_lookup_connection_value(exchange->connection, MHD_COOKIE_KIND,
							 COOKIE);

	if (!token)
		return true;
	if (given && !strncasecmp(given, "Bearer ", 7) && is_same_secret(given + 7, token))
		return true;
	return cookie && is_same_secret(cookie, token);
}

/* A page of another site that has its own name resolve to 127.0.0.1 must not read runs through the
 * user's browser. */
static bool is_for_us(struct exchange *exchange)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *host = header(exchange, "Host");

	if (!exchange->server->loopback || exchange->server->token)
		return true;
	for (size_t i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);

		if (!strncasecmp(host, names[i], length) && (!host[length] || host[length] == ':'))
			return true;
	}
	return false;
}

static void wait_for_reply(struct reply_waiter *waiter)
{
	struct exchange *exchange =
		(struct exchange *)((char *)waiter - offsetof(struct exchange, waiter));

	MHD_suspend_connection(exchange->connection);
}

static void reply_is_ready(struct reply_waiter *waiter, const struct reply *reply)
{
	struct exchange *exchange =
		(struct exchange *)((char *)waiter - offsetof(struct exchange, waiter));

	exchange->reply = reply;
	exchange->ready = true;
	MHD_resume_connection(exchange->connection);
}

static enum MHD_Result send_waited_for(struct exchange *exchange)
{
	const struct reply *reply = exchange->reply;

	exchange->reply = NULL;
	return reply ? send_reply(exchange, reply)
		     : refuse(exchange, 503,
			      "too much is being asked at once, or the server ends; try again.");
}

/* "/?token=…": the browser gets it as a cookie, and an address without it. */
static enum MHD_Result greet(struct exchange *exchange, const char *given)
{
	struct MHD_Response *response;
	char cookie[256];

	if (!exchange->server->token || !is_same_secret(given, exchange->server->token))
		return refuse(exchange, MHD_HTTP_UNAUTHORIZED, "this token is not the server's.");
	response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
	if (!response)
		return MHD_NO;
	snprintf(cookie, sizeof(cookie), COOKIE "=%s; HttpOnly; SameSite=Strict; Path=/",
		 exchange->server->token);
	MHD_add_response_header(response, "Set-Cookie", cookie);
	MHD_add_response_header(response, "Location", "/");
	return send_response(exchange, MHD_HTTP_SEE_OTHER, "text/plain", response);
}

static enum MHD_Result follow(struct exchange *exchange, char *path)
{
	return send_response(exchange, MHD_HTTP_OK, "text/event-stream",
			     events_response(exchange->server->events, path, exchange->connection));
}

static enum MHD_Result answer(struct exchange *exchange, const char *method)
{
	struct http_server *server = exchange->server;
	struct err err = { "" };
	const struct page_file *file;
	const struct reply *reply;
	struct target target;
	int status;
	char *path;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return refuse(exchange, MHD_HTTP_METHOD_NOT_ALLOWED,
			      "only GET and HEAD work here.");
	if (exchange->has_body)
		return refuse(exchange, 400, "a request has no body here.");
	if (!is_for_us(exchange))
		return refuse(exchange, 421, "this server answers to localhost alone.");
	if (target_parse(exchange->target, &target, &err) < 0)
		return refuse(exchange, 400, err.message);
	if (!server->options.nothing_else && !target.n_segments && target_value(&target, "token"))
		return greet(exchange, target_value(&target, "token"));
	if (!has_token(exchange))
		return refuse(exchange, MHD_HTTP_UNAUTHORIZED,
			      "this server wants its token: open the address that it printed.");
	if (server->options.nothing_else && !routes_are_metrics(&server->routes, &target))
		return refuse(exchange, MHD_HTTP_NOT_FOUND,
			      "only /metrics is here; 'moescope serve' shows the run.");
	if (!target.n_segments && !page_file_find("page.js"))
		return refuse(exchange, MHD_HTTP_NOT_IMPLEMENTED, NO_PAGE);
	file = target.n_segments > 1
		       ? NULL
		       : page_file_find(target.n_segments ? target.segments[0] : "index.html");
	if (file)
		return send_response(exchange, MHD_HTTP_OK, file->type,
				     MHD_create_response_from_buffer(file->size, (void *)file->data,
								     MHD_RESPMEM_PERSISTENT));
	path = routes_followed(&server->routes, &target, &status, &err);
	if (path)
		return follow(exchange, path);
	if (status)
		return refuse(exchange, status, err.message);
	reply = replies_ask(server->replies, exchange->target, &exchange->waiter);
	return reply ? send_reply(exchange, reply) : MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **state)
{
	struct exchange *exchange = *state;

	(void)url;
	(void)version;
	(void)upload;
	if (!exchange)
		return MHD_NO;
	if (!exchange->connection) { /* the headers are there; what follows decides */
		exchange->connection = connection;
		exchange->server = cls;
		return MHD_YES;
	}
	if (*upload_size) {
		exchange->has_body = true;
		*upload_size = 0;
		return MHD_YES;
	}
	return exchange->ready ? send_waited_for(exchange) : answer(exchange, method);
}

/* The address as it came, before libmicrohttpd decodes it. */
static void *on_first_line(void *cls, const char *uri, struct MHD_Connection *connection)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	(void)cls;
	(void)connection;
	if (!exchange)
		return NULL;
	exchange->waiter.wait = wait_for_reply;
	exchange->waiter.ready = reply_is_ready;
	exchange->target = strdup(uri);
	if (exchange->target)
		return exchange;
	free(exchange);
	return NULL;
}

static void on_end(void *cls, struct MHD_Connection *connection, void **state,
		   enum MHD_RequestTerminationCode how)
{
	struct exchange *exchange = *state;

	(void)cls;
	(void)connection;
	(void)how;
	if (!exchange)
		return;
	reply_release(exchange->reply);
	free(exchange->target);
	free(exchange);
	*state = NULL;
}

/* What libmicrohttpd says of broken requests is no news for the user. */
static void on_log(void *cls, const char *format, va_list args)
{
	(void)cls;
	(void)format;
	(void)args;
}

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int parse_address(const struct http_options *options, union address *ret, bool *ret_loopback,
			 struct err *err)
{
	*ret = (union address){ 0 };
	if (inet_pton(AF_INET, options->address, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(options->port);
		*ret_loopback = ntohl(ret->v4.sin_addr.s_addr) >> 24 == 127;
		return 0;
	}
	if (inet_pton(AF_INET6, options->address, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons(options->port);
		*ret_loopback = IN6_IS_ADDR_LOOPBACK(&ret->v6.sin6_addr);
		return 0;
	}
	return err_set(
		err, -EINVAL,
		"'%s' is not an address to listen on; use 127.0.0.1, 0.0.0.0, ::1 or another "
		"address of this machine.",
		options->address);
}

int http_bind(const struct http_options *options, struct err *err)
{
	const int yes = 1;
	union address address;
	bool loopback = false;
	int fd, r = parse_address(options, &address, &loopback, err);

	if (r == 0 && !loopback && !options->token)
		r = err_set(err, -EACCES,
			    "others could reach %s: give them a token with '--token', or listen on "
			    "127.0.0.1.",
			    options->address);
	if (r < 0)
		return r;
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(err, -errno, "cannot listen on %s", options->address);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (address.any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (bind(fd, &address.any, sizeof(address)) == 0 && listen(fd, SOMAXCONN) == 0)
		return fd;
	r = err_sys(err, -errno, "cannot listen on %s port %u", options->address, options->port);
	close(fd);
	return r;
}

/* The daemon closes the socket. */
static int start_daemon(struct http_server *server, struct err *err)
{
	union address address = { 0 };
	socklen_t size = sizeof(address);
	int fd = server->options.socket;

	if (getsockname(fd, &address.any, &size) < 0)
		return err_sys(err, -errno, "cannot listen on %s", server->options.address);
	server->port = ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port
							       : address.v4.sin_port);
	server->daemon = MHD_start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
			(address.any.sa_family == AF_INET6 ? MHD_USE_IPv6 : 0),
		0, NULL, NULL, on_request, server, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, on_first_line, server,
		MHD_OPTION_NOTIFY_COMPLETED, on_end, server, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)CONNECTIONS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SILENT_S,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	if (server->daemon)
		return 0;
	server->options.socket = 0; /* closed already */
	return err_sys(err, errno ? -errno : -EIO, "cannot listen on %s port %u",
		       server->options.address, server->port);
}

static void timeline_is_ready(void *context)
{
	const struct http_server *server = context;

	replies_retry(server->replies);
}

static int start(struct http_server *server, struct err *err)
{
	struct reply_maker maker = { routes_make, routes_signature, &server->routes };

	if (server->options.token && !(server->token = strdup(server->options.token)))
		return err_set(err, -ENOMEM, "no memory for the server.");
	server->replies = replies_new(&maker);
	server->events = events_new();
	if (server->replies)
		server->routes.timelines = timelines_new(timeline_is_ready, server);
	if (!server->routes.timelines || !server->events)
		return err_set(err, -ENOMEM, "no memory or threads for the server.");
	return start_daemon(server, err);
}

int http_open(const struct http_options *options, struct http_server **ret_server, struct err *err)
{
	struct http_server *server = calloc(1, sizeof(*server));
	union address address;
	int r;

	if (!server)
		return err_set(err, -ENOMEM, "no memory for the server.");
	server->options = *options;
	server->routes.options = &server->options;
	server->routes.desk = &server->desk;
	sql_desk_init(&server->desk);
	r = library_open(&server->routes.library, options->path, err);
	if (r == 0)
		r = parse_address(options, &address, &server->loopback, err);
	if (r == 0 && !options->socket)
		r = server->options.socket = http_bind(options, err);
	if (r >= 0)
		r = start(server, err);
	if (r == 0)
		*ret_server = server;
	else
		http_close(server);
	return r;
}

uint16_t http_port(const struct http_server *server)
{
	return server->port;
}

/* Suspended connections are resumed before the daemon stops, and answered by nobody after. */
void http_close(struct http_server *server)
{
	if (!server)
		return;
	sql_desk_close(&server->desk);
	if (server->routes.timelines)
		timelines_stop(server->routes.timelines);
	if (server->replies)
		replies_stop(server->replies);
	if (server->events)
		events_stop(server->events);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	else if (server->options.socket > 0)
		close(server->options.socket);
	if (server->replies)
		replies_free(server->replies);
	if (server->events)
		events_free(server->events);
	timelines_free(server->routes.timelines);
	library_close(&server->routes.library);
	sql_desk_release(&server->desk);
	free(server->token);
	free(server);
}
