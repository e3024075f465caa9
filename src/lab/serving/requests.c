/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing lists of requests and of their pieces; see requests.h.
 */
#include "lab/serving/requests.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

void requests_release(struct requests *requests)
{
	for (size_t i = 0; i < requests->n; i++)
		free(requests->v[i].error);
	free(requests->v);
	free(requests->pieces_ns);
	free(requests->empties_ns);
	free(requests->text);
	memset(requests, 0, sizeof(*requests));
}

struct request *requests_add(struct requests *requests)
{
	struct request *request;

	if (array_grow(&requests->v, &requests->capacity, requests->n + 1, sizeof(*request)) < 0)
		return NULL;
	request = &requests->v[requests->n++];
	*request = (struct request){ .due_ns = -1,
				     .sent_ns = -1,
				     .end_ns = -1,
				     .end = REQUEST_UNFINISHED,
				     .prompt_tokens = -1,
				     .output_tokens = -1,
				     .first_piece = requests->n_pieces,
				     .first_empty = requests->n_empties };
	return request;
}

static int append_time(int64_t **times, size_t *n, size_t *capacity, int64_t at_ns)
{
	if (array_grow(times, capacity, *n + 1, sizeof(**times)) < 0)
		return -ENOMEM;
	(*times)[(*n)++] = at_ns;
	return 0;
}

int requests_piece(struct requests *requests, int64_t at_ns)
{
	int r = append_time(&requests->pieces_ns, &requests->n_pieces, &requests->pieces_capacity,
			    at_ns);

	if (r == 0)
		requests->v[requests->n - 1].pieces++;
	return r;
}

int requests_empty(struct requests *requests, int64_t at_ns)
{
	int r = append_time(&requests->empties_ns, &requests->n_empties,
			    &requests->empties_capacity, at_ns);

	if (r == 0)
		requests->v[requests->n - 1].empties++;
	return r;
}

const int64_t *request_pieces(const struct requests *requests, const struct request *request)
{
	return request->pieces ? requests->pieces_ns + request->first_piece : NULL;
}

const int64_t *request_empties(const struct requests *requests, const struct request *request)
{
	return request->empties ? requests->empties_ns + request->first_empty : NULL;
}
