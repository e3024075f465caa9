/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be asked, as an OpenAPI document, made from the list of sections.
 */
#ifndef SURFACES_HTTP_OPENAPI_H
#define SURFACES_HTTP_OPENAPI_H

#include <stdio.h>

#include "base/err.h"

/* options: struct http_options. 0 or -errno. */
int openapi_print(const void *options, FILE *out, struct err *err);

#endif
