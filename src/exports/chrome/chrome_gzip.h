/* SPDX-License-Identifier: Apache-2.0
 *
 * gzip for what is written once from end to end: blocks are compressed by threads of their own
 * while the caller makes the next ones. The file has one member, so that every reader takes it.
 */
#ifndef EXPORTS_CHROME_GZIP_H
#define EXPORTS_CHROME_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define GZIP_BLOCK ((size_t)1 << 20)

struct gzip_out;

/* Whether zlib was built in; without it gzip_out_new gives -ENOTSUP. */
bool gzip_built(void);

int gzip_out_new(FILE *file, struct gzip_out **ret_gzip);
/* At most GZIP_BLOCK bytes, which are the caller's again when it returns. 0 or -errno. */
int gzip_out_write(struct gzip_out *gzip, const void *bytes, size_t size);
/* The end of the file; 0 or the first failure. */
int gzip_out_finish(struct gzip_out *gzip);
/* NULL is fine. Without gzip_out_finish the file is cut. */
void gzip_out_free(struct gzip_out *gzip);

#endif
