/* SPDX-License-Identifier: Apache-2.0
 *
 * Files held inside the profiled program; see held.h.
 */
#include "base/files/held.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#define UNSHARE_TABLE 2u /* CLOSE_RANGE_UNSHARE, which older headers lack */

#define FIRST_OWN 3	/* what is written to the standard numbers is never meant for us */
#define HIGHEST 4096	/* the table of a process has room for its highest number */
#define FROM_HIGHEST 16 /* room for a few descriptors below the limit */
#define FEW 64		/* a program with a limit below this may need all of them */

/* The thread with a table of its own. No thread-local variable: the first use of one may take the
 * loader's lock, which whoever starts the thread may hold. */
static _Atomic pid_t table_owner;

static pid_t this_thread(void)
{
	return (pid_t)syscall(SYS_gettid);
}

bool held_own_table(void)
{
#ifdef __SANITIZE_THREAD__
	return false; /* it takes equal numbers of two tables for one file */
#endif
	if (syscall(SYS_close_range, 0u, ~0u, UNSHARE_TABLE) < 0)
		return false;
	atomic_store(&table_owner, this_thread());
	return true;
}

bool held_private_table(void)
{
#ifdef __SANITIZE_THREAD__
	return true; /* as above; a test's program does not mind */
#endif
	return syscall(SYS_close_range, 0u, ~0u, UNSHARE_TABLE) == 0 || unshare(CLONE_FILES) == 0;
}

void held_own_table_ends(void)
{
	if (atomic_load(&table_owner) == this_thread())
		atomic_store(&table_owner, 0);
}

bool held_numbers_to_spare(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= FEW;
}

static int highest_wanted(void)
{
	struct rlimit limit;
	rlim_t highest = HIGHEST;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < highest)
		highest = limit.rlim_cur;
	return highest > FROM_HIGHEST + FIRST_OWN ? (int)highest - FROM_HIGHEST : FIRST_OWN;
}

/* The same file at the wanted number or above, or as near to it as there is room. */
static int moved(int fd, int wanted)
{
	for (; fd<wanted; wanted = wanted / 2> FIRST_OWN ? wanted / 2 : FIRST_OWN) {
		int to = fcntl(fd, F_DUPFD_CLOEXEC, wanted), r = -errno;

		if (to >= 0 || wanted == FIRST_OWN) {
			close(fd);
			return to >= 0 ? to : r;
		}
	}
	return fd;
}

int held_open(struct held_file *held, const char *path, int flags, mode_t mode)
{
	int fd = open(path, flags | O_CLOEXEC, mode);

	return fd < 0 ? -errno : held_take(held, fd);
}

int held_take(struct held_file *held, int fd)
{
	pid_t thread = this_thread();
	bool own = atomic_load(&table_owner) == thread;
	struct stat st;

	fd = moved(fd, own ? FIRST_OWN : highest_wanted());
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	*held = (struct held_file){
		.fd = fd, .owner = own ? thread : 0, .device = st.st_dev, .inode = st.st_ino
	};
	return 0;
}

static bool is_file(const struct held_file *held, const struct stat *st)
{
	return st->st_dev == held->device && st->st_ino == held->inode;
}

int held_check(const struct held_file *held)
{
	struct stat st;

	if (held->fd < 0 || (held->owner && held->owner != this_thread()) ||
	    fstat(held->fd, &st) < 0 || !is_file(held, &st))
		return -EBADF;
	return (uint64_t)st.st_size < held->bytes ? -ESTALE : 0;
}

/* Whether the file is there and may have so many bytes. */
static int check_growth(const struct held_file *held, uint64_t bytes)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    bytes > limit.rlim_cur)
		return -EFBIG;
	return held_check(held);
}

static void has_bytes(struct held_file *held, uint64_t bytes)
{
	if (held->bytes < bytes)
		held->bytes = bytes;
}

static int write_all(const struct held_file *held, const char *data, size_t bytes, uint64_t offset)
{
	while (bytes) {
		ssize_t n = pwrite(held->fd, data, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		data += n;
		bytes -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int held_write(struct held_file *held, const void *data, size_t bytes, uint64_t offset)
{
	int r = check_growth(held, offset + bytes);

	if (r == 0)
		r = write_all(held, data, bytes, offset);
	if (r == 0)
		has_bytes(held, offset + bytes);
	return r;
}

int held_allocate(struct held_file *held, uint64_t offset, uint64_t bytes)
{
	static const char zeros[16384];
	int r = check_growth(held, offset + bytes);

	if (r < 0)
		return r;
	if (fallocate(held->fd, 0, (off_t)offset, (off_t)bytes) < 0) {
		if (errno != EOPNOTSUPP && errno != ENOSYS)
			return -errno;
		for (uint64_t done = 0; done < bytes && r == 0; done += sizeof(zeros)) {
			uint64_t part = bytes - done < sizeof(zeros) ? bytes - done : sizeof(zeros);

			r = write_all(held, zeros, part, offset + done);
		}
	}
	if (r == 0)
		has_bytes(held, offset + bytes);
	return r;
}

int held_truncate(struct held_file *held, uint64_t bytes)
{
	int r = bytes <= held->bytes ? held_check(held) : -EINVAL;

	if (r < 0)
		return r;
	if (ftruncate(held->fd, (off_t)bytes) < 0)
		return -errno;
	held->bytes = bytes;
	return 0;
}

void *held_map(const struct held_file *held, uint64_t offset, uint64_t bytes)
{
	void *at;

	if (held_check(held) < 0)
		return NULL;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, held->fd, (off_t)offset);
	return at == MAP_FAILED ? NULL : at;
}

void held_close(struct held_file *held)
{
	struct stat st;

	if (held->fd >= 0 && (!held->owner || held->owner == this_thread()) &&
	    fstat(held->fd, &st) == 0 && is_file(held, &st))
		close(held->fd);
	held->fd = -1;
}
