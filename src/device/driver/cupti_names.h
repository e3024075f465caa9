/* SPDX-License-Identifier: Apache-2.0
 *
 * Where libcupti is looked for, in this order: one list for the probe and for `doctor`.
 */
#ifndef DEVICE_CUPTI_NAMES_H
#define DEVICE_CUPTI_NAMES_H

#define CUPTI_LIBRARY_NAMES                                                                        \
	"libcupti.so.13", "libcupti.so.12", "libcupti.so",                                         \
		"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",                                  \
		"/usr/local/cuda/lib64/libcupti.so"

#endif
