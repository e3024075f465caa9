/* SPDX-License-Identifier: Apache-2.0
 *
 * In place of the server in builds without libmicrohttpd.
 */
#include <errno.h>

#include "surfaces/http/http.h"

int http_bind(const struct http_options *options, struct err *err)
{
	return http_open(options, NULL, err);
}

int http_open(const struct http_options *options, struct http_server **ret_server, struct err *err)
{
	(void)options;
	(void)ret_server;
	return err_set(err, -ENOSYS,
		       "this moescope was built without its web server; install libmicrohttpd-dev "
		       "and build it again.");
}

uint16_t http_port(const struct http_server *server)
{
	(void)server;
	return 0;
}

void http_close(struct http_server *server)
{
	(void)server;
}
