/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of the operating system that are recorded: those that wait or move data, with the names that programs
 * link to.
 *
 * CALL(type, name, parameters, arguments, bytes, descriptor, missing)
 *   bytes       that it has moved, from `result`; NOTHING
 *   descriptor  that it is about; NO_FD. It must still be open after the call.
 *   missing     what it returns where the C library does not have it: FAILS (-1 and errno), ERROR (a number)
 *
 * Not here, as their wrappers are more than a call: open and openat (osrt_calls.c), pthread_mutex_lock, pthread_create.
 */
#ifndef CALLS_OSRT_TABLE_H
#define CALLS_OSRT_TABLE_H

#define NOTHING -1
#define NO_FD -1
#define MOVED (int64_t) result
#define FAILS call_missing()
#define ERROR ENOSYS

/* clang-format off */
#define DATA_CALLS(CALL) \
	CALL(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n), MOVED, fd, FAILS) \
	CALL(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n), MOVED, fd, FAILS) \
	CALL(ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at), MOVED, fd, FAILS) \
	CALL(ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at), MOVED, fd, FAILS) \
	CALL(ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at), MOVED, fd, FAILS) \
	CALL(ssize_t, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at), MOVED, fd, FAILS) \
	CALL(ssize_t, readv, (int fd, const struct iovec *to, int n), (fd, to, n), MOVED, fd, FAILS) \
	CALL(ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n), MOVED, fd, FAILS) \
	CALL(ssize_t, preadv, (int fd, const struct iovec *to, int n, off_t at), (fd, to, n, at), MOVED, fd, FAILS) \
	CALL(ssize_t, pwritev, (int fd, const struct iovec *from, int n, off_t at), (fd, from, n, at), MOVED, fd, FAILS) \
	CALL(ssize_t, preadv64, (int fd, const struct iovec *to, int n, off64_t at), (fd, to, n, at), MOVED, fd, FAILS) \
	CALL(ssize_t, pwritev64, (int fd, const struct iovec *from, int n, off64_t at), (fd, from, n, at), MOVED, fd, \
	     FAILS) \
	CALL(ssize_t, sendfile, (int to, int from, off_t *at, size_t n), (to, from, at, n), MOVED, to, FAILS) \
	CALL(ssize_t, sendfile64, (int to, int from, off64_t *at, size_t n), (to, from, at, n), MOVED, to, FAILS) \
	CALL(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), MOVED, fd, FAILS) \
	CALL(ssize_t, recvfrom, (int fd, void *to, size_t n, int flags, struct sockaddr *who, socklen_t *length), \
	     (fd, to, n, flags, who, length), MOVED, fd, FAILS) \
	CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), MOVED, fd, FAILS) \
	CALL(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags), MOVED, fd, FAILS) \
	CALL(ssize_t, sendto, (int fd, const void *from, size_t n, int flags, const struct sockaddr *who, \
			       socklen_t length), (fd, from, n, flags, who, length), MOVED, fd, FAILS) \
	CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), MOVED, fd, \
	     FAILS) \
	CALL(size_t, fread, (void *to, size_t size, size_t n, FILE *from), (to, size, n, from), \
	     (int64_t)(result * size), NO_FD, (size_t)0) \
	CALL(size_t, fwrite, (const void *from, size_t size, size_t n, FILE *to), (from, size, n, to), \
	     (int64_t)(result * size), NO_FD, (size_t)0)

#define FILE_CALLS(CALL) \
	CALL(int, close, (int fd), (fd), NOTHING, NO_FD, FAILS) \
	CALL(int, fsync, (int fd), (fd), NOTHING, fd, FAILS) \
	CALL(int, fdatasync, (int fd), (fd), NOTHING, fd, FAILS) \
	CALL(FILE *, fopen, (const char *path, const char *mode), (path, mode), NOTHING, NO_FD, (FILE *)NULL) \
	CALL(FILE *, fopen64, (const char *path, const char *mode), (path, mode), NOTHING, NO_FD, (FILE *)NULL) \
	CALL(int, fclose, (FILE *file), (file), NOTHING, NO_FD, FAILS) \
	CALL(int, fflush, (FILE *file), (file), NOTHING, NO_FD, FAILS) \
	CALL(int, accept, (int fd, struct sockaddr *who, socklen_t *length), (fd, who, length), NOTHING, fd, FAILS) \
	CALL(int, accept4, (int fd, struct sockaddr *who, socklen_t *length, int flags), (fd, who, length, flags), \
	     NOTHING, fd, FAILS) \
	CALL(int, connect, (int fd, const struct sockaddr *who, socklen_t length), (fd, who, length), NOTHING, fd, \
	     FAILS)

#define WAIT_CALLS(CALL) \
	CALL(int, poll, (struct pollfd *fds, nfds_t n, int ms), (fds, n, ms), NOTHING, NO_FD, FAILS) \
	CALL(int, ppoll, (struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask), \
	     (fds, n, time, mask), NOTHING, NO_FD, FAILS) \
	CALL(int, select, (int n, fd_set *in, fd_set *out, fd_set *other, struct timeval *time), \
	     (n, in, out, other, time), NOTHING, NO_FD, FAILS) \
	CALL(int, pselect, (int n, fd_set *in, fd_set *out, fd_set *other, const struct timespec *time, \
			    const sigset_t *mask), (n, in, out, other, time, mask), NOTHING, NO_FD, FAILS) \
	CALL(int, epoll_wait, (int fd, struct epoll_event *to, int n, int ms), (fd, to, n, ms), NOTHING, NO_FD, FAILS) \
	CALL(int, epoll_pwait, (int fd, struct epoll_event *to, int n, int ms, const sigset_t *mask), \
	     (fd, to, n, ms, mask), NOTHING, NO_FD, FAILS) \
	CALL(int, nanosleep, (const struct timespec *time, struct timespec *rest), (time, rest), NOTHING, NO_FD, FAILS) \
	CALL(int, clock_nanosleep, (clockid_t clock, int flags, const struct timespec *time, struct timespec *rest), \
	     (clock, flags, time, rest), NOTHING, NO_FD, ERROR) \
	CALL(int, usleep, (useconds_t us), (us), NOTHING, NO_FD, FAILS) \
	CALL(unsigned int, sleep, (unsigned int s), (s), NOTHING, NO_FD, s) \
	CALL(pid_t, wait, (int *status), (status), NOTHING, NO_FD, FAILS) \
	CALL(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options), NOTHING, NO_FD, FAILS) \
	CALL(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *use), (pid, status, options, use), \
	     NOTHING, NO_FD, FAILS) \
	CALL(int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options), (type, id, info, options), NOTHING, \
	     NO_FD, FAILS) \
	CALL(int, sigwait, (const sigset_t *set, int *sig), (set, sig), NOTHING, NO_FD, ERROR) \
	CALL(int, sigtimedwait, (const sigset_t *set, siginfo_t *info, const struct timespec *time), \
	     (set, info, time), NOTHING, NO_FD, FAILS) \
	CALL(int, sched_yield, (void), (), NOTHING, NO_FD, FAILS)

#define THREAD_CALLS(CALL) \
	CALL(int, sem_wait, (sem_t *sem), (sem), NOTHING, NO_FD, FAILS) \
	CALL(int, sem_timedwait, (sem_t *sem, const struct timespec *time), (sem, time), NOTHING, NO_FD, FAILS) \
	CALL(int, sem_clockwait, (sem_t *sem, clockid_t clock, const struct timespec *time), (sem, clock, time), \
	     NOTHING, NO_FD, FAILS) \
	CALL(int, pthread_mutex_timedlock, (pthread_mutex_t *mutex, const struct timespec *time), (mutex, time), \
	     NOTHING, NO_FD, ERROR) \
	CALL(int, pthread_rwlock_rdlock, (pthread_rwlock_t *lock), (lock), NOTHING, NO_FD, ERROR) \
	CALL(int, pthread_rwlock_wrlock, (pthread_rwlock_t *lock), (lock), NOTHING, NO_FD, ERROR) \
	CALL(int, pthread_cond_wait, (pthread_cond_t *cond, pthread_mutex_t *mutex), (cond, mutex), NOTHING, NO_FD, \
	     ERROR) \
	CALL(int, pthread_cond_timedwait, (pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *time), \
	     (cond, mutex, time), NOTHING, NO_FD, ERROR) \
	CALL(int, pthread_cond_clockwait, (pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, \
					   const struct timespec *time), (cond, mutex, clock, time), NOTHING, NO_FD, \
	     ERROR) \
	CALL(int, pthread_barrier_wait, (pthread_barrier_t *barrier), (barrier), NOTHING, NO_FD, ERROR) \
	CALL(int, pthread_join, (pthread_t thread, void **result_of), (thread, result_of), NOTHING, NO_FD, ERROR)

/* What compilers call instead with _FORTIFY_SOURCE. They are recorded by the name that the program has written. */
#define CHECKED_CALLS(CALL) \
	CALL(ssize_t, __read_chk, (int fd, void *to, size_t n, size_t room), (fd, to, n, room), MOVED, fd, FAILS) \
	CALL(ssize_t, __pread_chk, (int fd, void *to, size_t n, off_t at, size_t room), (fd, to, n, at, room), MOVED, \
	     fd, FAILS) \
	CALL(ssize_t, __pread64_chk, (int fd, void *to, size_t n, off64_t at, size_t room), (fd, to, n, at, room), \
	     MOVED, fd, FAILS) \
	CALL(ssize_t, __recv_chk, (int fd, void *to, size_t n, size_t room, int flags), (fd, to, n, room, flags), \
	     MOVED, fd, FAILS) \
	CALL(ssize_t, __recvfrom_chk, (int fd, void *to, size_t n, size_t room, int flags, struct sockaddr *who, \
				       socklen_t *length), (fd, to, n, room, flags, who, length), MOVED, fd, FAILS) \
	CALL(int, __poll_chk, (struct pollfd *fds, nfds_t n, int ms, size_t room), (fds, n, ms, room), NOTHING, NO_FD, \
	     FAILS) \
	CALL(int, __ppoll_chk, (struct pollfd *fds, nfds_t n, const struct timespec *time, const sigset_t *mask, \
				size_t room), (fds, n, time, mask, room), NOTHING, NO_FD, FAILS) \
	CALL(size_t, __fread_chk, (void *to, size_t room, size_t size, size_t n, FILE *from), \
	     (to, room, size, n, from), (int64_t)(result * size), NO_FD, (size_t)0) \
	CALL(int, __open_2, (const char *path, int flags), (path, flags), NOTHING, NO_FD, FAILS) \
	CALL(int, __open64_2, (const char *path, int flags), (path, flags), NOTHING, NO_FD, FAILS) \
	CALL(int, __openat_2, (int at, const char *path, int flags), (at, path, flags), NOTHING, NO_FD, FAILS) \
	CALL(int, __openat64_2, (int at, const char *path, int flags), (at, path, flags), NOTHING, NO_FD, FAILS)

#define OS_CALLS(CALL) DATA_CALLS(CALL) FILE_CALLS(CALL) WAIT_CALLS(CALL) THREAD_CALLS(CALL) CHECKED_CALLS(CALL)

/* Those that are written by hand. */
#define OTHER_CALLS(NAME) \
	NAME(open) NAME(open64) NAME(openat) NAME(openat64) NAME(ioctl) NAME(mmap) NAME(mmap64) NAME(munmap) \
	NAME(prctl) NAME(pthread_mutex_lock) NAME(pthread_mutex_trylock) NAME(pthread_create) \
	NAME(pthread_setname_np)
/* clang-format on */

#endif
