/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine under the program as a subject; see subject.h.
 */
#include "subjects/answers/subject.h"
#include "subjects/host/host.h"
#include "subjects/host/host_phases.h"

static int compute_host(const struct material *m, void *answer)
{
	return host_analyze(m->run, answer);
}

SUBJECT_RELEASE(host)

const struct subject subject_host = {
	.id = SUBJECT_ID_host,
	.name = "host",
	.size = sizeof(struct host),
	.length = 10,
	.kinds = WANT(HOST_SAMPLE) | WANT(FACT) | WANT(DEVICE),
	.compute = compute_host,
	.release = release_host,
};

static int compute_host_phases(const struct material *m, void *answer)
{
	return host_phases_analyze(m->run, answer);
}

SUBJECT_RELEASE(host_phases)

const struct subject subject_host_phases = {
	.id = SUBJECT_ID_host_phases,
	.name = "host_phases",
	.size = sizeof(struct host_phases),
	.length = 10,
	.kinds = WANT(HOST_SAMPLE) | WANT(RANGE),
	.compute = compute_host_phases,
	.release = release_host_phases,
};
