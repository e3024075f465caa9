/* SPDX-License-Identifier: Apache-2.0
 *
 * Engine `openai`: a running server with OpenAI's completion API.
 */
#include <errno.h>

#include "lab/engines/engine.h"
#include "lab/load/http_target.h"

#define ANSWER_TIMEOUT_S 10

/* Any status will do: what is wanted is that somebody who speaks HTTP is there. */
static int check_openai(const struct experiment *experiment, const struct lab_tools *tools,
			struct err *err)
{
	struct http_target target;
	int r;

	(void)tools;
	if (!experiment->url)
		return err_set(err, -EINVAL,
			       "engine 'openai' needs the url of a running server, such as --url "
			       "http://127.0.0.1:8000.");
	r = http_target_init(&target, experiment->url, err);
	if (r < 0)
		return r;
	r = http_target_get(&target, "/v1/models", NULL, ANSWER_TIMEOUT_S, NULL, err);
	http_target_release(&target);
	return r < 0 ? r : 0;
}

const struct engine engine_openai = {
	.name = "openai",
	.summary = "a running server with OpenAI's API; needs a url",
	.check = check_openai,
};
