/* SPDX-License-Identifier: Apache-2.0
 *
 * What calls into libraries did on the device: kernels whose launch lies inside of a call on its thread belong to the
 * innermost such call. Pure, any thread.
 */
#ifndef SUBJECTS_DEVICE_INSIDE_H
#define SUBJECTS_DEVICE_INSIDE_H

#include <stddef.h>
#include <stdint.h>

struct attribution;
struct call_row;

/* row_of: of each row of run->library_call the row of rows[n] that it is in. Sets their device figures. 0 or -errno. */
int device_inside(const struct attribution *at, const uint32_t *row_of, struct call_row *rows,
		  size_t n);

#endif
