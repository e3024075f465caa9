/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a shard file; docs/format.md describes the same in prose. Little-endian throughout.
 *
 *   header page | chunk | chunk | … | index chunk | trailer
 *
 * A chunk is a header, one column entry after another, and the columns' planes. The index and the
 * trailer exist only after a clean close, and no reader needs them.
 */
#ifndef TRACE_FORMAT_H
#define TRACE_FORMAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARD_MAGIC "MSCOPE\r\n"
#define SHARD_MAJOR 1 /* a reader rejects a newer one */
#define SHARD_MINOR 1 /* a reader accepts a newer one */
#define SHARD_HEADER_BYTES 4096
/* No time, duration, step number or clock shift is larger, so differences and sums of two fit 64
 * bits: 73 years around the zero of a clock, and the year 2043 since 1970. */
#define SHARD_TIME_MAX (INT64_C(1) << 61)
static inline bool time_is_sane(int64_t ns)
{
	return ns >= -SHARD_TIME_MAX && ns <= SHARD_TIME_MAX;
}
/* Nor is the total duration of one kind of record, so the totals of three fit. */
#define SHARD_TIME_SUM_MAX (UINT64_C(1) << 61)

/* Why records were dropped; indexes of the counters in the header page and in each ring. */
enum drop_reason {
	DROP_RING_FULL,
	DROP_NO_MEMORY,
	DROP_TOO_DEEP,
	DROP_UNBALANCED,
	DROP_TOO_LARGE,
	DROP_NAMES,
	DROP_UNWRITTEN,
	DROP_DEVICE,	      /* by CUPTI */
	DROP_DEVICE_UNKNOWN,  /* records of a kind that was not requested */
	DROP_FOREIGN_DAMAGED, /* unreadable events of an imported file */
	DROP_FOREIGN_UNKNOWN, /* events of an unknown kind in an imported file */
	DROP_IN_SIGNAL,	      /* calls in a signal handler inside another call */
	DROP_IN_CHILD,	      /* calls of forked children that record nothing */
	DROP_NO_CLOCK,	      /* calls of a thread that may not read the time-stamp counter */
	DROP_DAMAGED,	      /* buffers whose records made no sense from some point on */
	DROP_REASONS
};
#define DROP_SLOTS 16

#define SHARD_OPEN 0   /* being written, or the process was killed */
#define SHARD_CLEAN 1  /* closed cleanly */
#define SHARD_SEALED 2 /* the process was killed; its buffers have since been taken in */

/* The first 64 bytes are written once; `live` is rewritten in place with every flush, so it is
 * right after SIGKILL and on a full disk. Zero means "none" for every counter. What follows `live`
 * is also written once. */
struct shard_header {
	char magic[8];
	uint16_t major, minor;
	uint32_t header_bytes;
	uint32_t pid, rank;
	int64_t monotonic_ns, realtime_ns; /* one moment on both clocks, at start */
	uint64_t start_ticks;
	int64_t shift_ns; /* added to all times of the shard; set by imports */
	uint32_t reserved;
	uint32_t crc; /* CRC-32C of the 60 bytes before */
	struct {
		_Atomic uint64_t closed; /* SHARD_OPEN, SHARD_CLEAN or SHARD_SEALED */
		_Atomic int64_t alive_ns;
		_Atomic uint64_t dropped[DROP_SLOTS];
		_Atomic uint64_t write_errors;
		_Atomic uint64_t recorded;
		_Atomic uint64_t drain_cpu_ns;
		_Atomic uint64_t unfinished; /* ranges and steps cut by the end */
		_Atomic uint64_t salvaged;   /* records taken from the buffers afterwards */
		_Atomic uint64_t file_bytes; /* after the last whole flush; shorter: cut */
	} live;
	/* Which boot of which machine: all its processes share one CLOCK_MONOTONIC. */
	char boot_id[16];	/* all 0: unknown */
	int64_t boot_offset_ns; /* monotonic_ns minus the machine's, in a time namespace */
	uint32_t boot_reserved;
	uint32_t boot_crc; /* CRC-32C of the 28 bytes before */
};

#define SHARD_BOOT_BYTES 28 /* that boot_crc covers */

#define CHUNK_MAGIC 0x4843534du /* "MSCH" */
#define CHUNK_CHECKPOINT 0xfff0 /* positions of the rings; see ring.h */
#define CHUNK_INDEX 0xfff1
#define CHUNK_MAX_PAYLOAD (64u << 20)
#define CHUNK_MAX_RECORDS (1u << 16)
#define CHUNK_MAX_VALUES (1u << 24) /* of a list column */
#define CHUNK_MAX_COLUMNS 64

struct chunk_header {
	uint32_t magic;
	uint16_t kind, n_columns;
	uint32_t payload_bytes;
	uint32_t n_records;
	int64_t time_min_ns, time_max_ns; /* both 0: the kind has no time */
	uint64_t sequence;		  /* of the chunk in its shard, from 0 */
	uint32_t reserved[4];
	uint32_t payload_crc;
	uint32_t header_crc; /* CRC-32C of the 60 bytes before */
};

/* Followed by `width` plane entries of 4 bytes: mode in the top two bits, stored bytes below. */
struct column_entry {
	uint8_t id;
	uint8_t coding;
	uint8_t width; /* planes: bytes per value; 0: every value equals base */
	uint8_t reserved;
	uint32_t n_values; /* n_records, except for lists and bytes */
	int64_t base;
};

#define PLANE_RAW 0u
#define PLANE_CONSTANT 1u /* one byte stored */
#define PLANE_ZSTD 2u
#define PLANE_ENTRY(mode, bytes) ((mode) << 30 | (bytes))
#define PLANE_MODE(entry) ((entry) >> 30)
#define PLANE_BYTES(entry) ((entry)&0x3fffffffu)

struct index_entry {
	uint64_t offset;
	uint32_t n_records, payload_bytes;
	int64_t time_min_ns, time_max_ns;
	uint16_t kind, reserved[3];
};

struct checkpoint_entry {
	uint32_t ring;
	uint32_t reserved;
	uint64_t position;
};

#define TRAILER_MAGIC 0x454d5344u /* "DSME" */
struct shard_trailer {
	uint64_t index_offset;
	uint64_t reserved;
	uint32_t magic;
	uint32_t crc; /* CRC-32C of the 20 bytes before */
};

_Static_assert(sizeof(struct shard_header) <= SHARD_HEADER_BYTES, "header fits its page");
_Static_assert(offsetof(struct shard_header, boot_crc) - offsetof(struct shard_header, boot_id) ==
		       SHARD_BOOT_BYTES,
	       "what boot_crc covers");
_Static_assert(sizeof(struct chunk_header) == 64, "chunk header is 64 bytes");
_Static_assert(sizeof(struct column_entry) == 16, "column entry is 16 bytes");
_Static_assert(sizeof(struct index_entry) == 40, "index entry is 40 bytes");
_Static_assert(sizeof(struct shard_trailer) == 24, "trailer is 24 bytes");
_Static_assert(sizeof(struct checkpoint_entry) == 16, "checkpoint entry is 16 bytes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");

#endif
