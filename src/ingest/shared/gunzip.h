/* SPDX-License-Identifier: Apache-2.0
 *
 * A gzip file as the bytes in it, one member after the other. Untrusted input. One thread at a time.
 */
#ifndef INGEST_GUNZIP_H
#define INGEST_GUNZIP_H

#include <stddef.h>
#include <sys/types.h>

struct gunzip;

/* Reads from fd, which stays the caller's. -ENOTSUP: built without zlib. */
int gunzip_new(int fd, struct gunzip **ret_gunzip);
void gunzip_free(struct gunzip *gunzip);

/* Up to `size` bytes; 0 at the end. -EBADMSG: the data is damaged here or ends too early (all bytes
 * before were given), or another -errno of read(). */
ssize_t gunzip_read(struct gunzip *gunzip, char *to, size_t size);

#endif
