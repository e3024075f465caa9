/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads wait for, by texts as the kernel writes them about this process's own descriptors and memory;
 * links of devices that are not here are made up, so the source itself is included.
 */
#include "host/stacks/waits.c" /* NOLINT(bugprone-suspicious-include) */

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <cmocka.h>

static struct waits *waits;

static int begin(void **state)
{
	(void)state;
	waits = waits_open(getpid());
	return waits ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	waits_close(waits);
	return 0;
}

/* The cause of a call with these arguments, without a place. */
static enum wait_cause cause_of(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	char text[200];

	snprintf(text, sizeof(text), "%ld 0x%llx 0x%llx 0x%llx 0x%llx 0x0 0x0 0x7ffc0 0x7f60\n",
		 number, (unsigned long long)a, (unsigned long long)b, (unsigned long long)c,
		 (unsigned long long)d);
	return waits_told(waits, text, "", 0x5000);
}

static enum wait_cause cause_of_reading(int fd)
{
	return cause_of(SYS_read, (uint64_t)fd, 0, 0, 0);
}

static void test_calls(void **state)
{
	(void)state;
	assert_int_equal(cause_of(SYS_nanosleep, 0, 0, 0, 0), WAIT_SLEEP);
	assert_int_equal(cause_of(SYS_clock_nanosleep, 0, 0, 0, 0), WAIT_SLEEP);
	assert_int_equal(cause_of(SYS_wait4, 0, 0, 0, 0), WAIT_CHILD);
	assert_int_equal(cause_of(SYS_openat, 0, 0, 0, 0), WAIT_FILE);
	assert_int_equal(cause_of(SYS_epoll_pwait, 0, 0, 0, 0), WAIT_POLL);
	assert_int_equal(cause_of(999999, 0, 0, 0, 0), WAIT_UNKNOWN);
}

/* Only a word of the lock at 0x5000 is Python's. */
static void test_global_lock(void **state)
{
	(void)state;
	assert_int_equal(cause_of(SYS_futex, 0x4fff, 0, 0, 0), WAIT_LOCK);
	assert_int_equal(cause_of(SYS_futex, 0x5000, 0, 0, 0), WAIT_GIL);
	assert_int_equal(cause_of(SYS_futex, 0x5000 + PYTHON_GIL_BYTES - 4, 0, 0, 0), WAIT_GIL);
	assert_int_equal(cause_of(SYS_futex, 0x5000 + PYTHON_GIL_BYTES, 0, 0, 0), WAIT_LOCK);
	assert_int_equal(waits_told(waits, "202 0x10 0x0 0x0 0x0 0x0 0x0 0x1 0x2", "", 0),
			 SYS_futex == 202 ? WAIT_LOCK : WAIT_UNKNOWN);
}

static void test_descriptors(void **state)
{
	int pipes[2], pair[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int event = eventfd(0, EFD_CLOEXEC), net = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
	    set = epoll_create1(EPOLL_CLOEXEC);
	int device = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_int_equal(cause_of_reading(pipes[0]), WAIT_PIPE);
	assert_int_equal(cause_of_reading(event), WAIT_PIPE);
	assert_int_equal(cause_of_reading(timer), WAIT_SLEEP);
	assert_int_equal(cause_of_reading(set), WAIT_POLL);
	assert_int_equal(cause_of_reading(file), WAIT_FILE);
	assert_int_equal(cause_of_reading(device), WAIT_OTHER);
	assert_int_equal(cause_of_reading(-1), WAIT_UNKNOWN);
	for (int again = 0; again < 2; again++) { /* then as remembered */
		assert_int_equal(cause_of_reading(pair[0]), WAIT_PIPE);
		assert_int_equal(cause_of_reading(net), WAIT_NETWORK);
	}
	assert_int_equal(cause_of(SYS_recvfrom, (uint64_t)pair[1], 0, 0, 0), WAIT_PIPE);
	for (int i = 0; i < 2; i++) {
		close(pipes[i]);
		close(pair[i]);
	}
	close(file);
	close(event);
	close(net);
	close(timer);
	close(set);
	close(device);
}

static void test_links(void **state)
{
	(void)state;
	assert_int_equal(link_cause(waits, "/dev/nvidia0"), WAIT_CUDA);
	assert_int_equal(link_cause(waits, "/dev/nvidia-uvm"), WAIT_CUDA);
	assert_int_equal(link_cause(waits, "/dev/pts/3"), WAIT_OTHER);
	assert_int_equal(link_cause(waits, "/dev/shm/batch"), WAIT_FILE);
	assert_int_equal(link_cause(waits, "/data/shard (deleted)"), WAIT_FILE);
	assert_int_equal(link_cause(waits, "anon_inode:[pidfd]"), WAIT_CHILD);
	assert_int_equal(link_cause(waits, "anon_inode:inotify"), WAIT_OTHER);
}

static enum wait_cause polled(struct pollfd *fds, size_t n)
{
	return cause_of(SYS_ppoll, (uint64_t)(uintptr_t)fds, n, 0, 0);
}

static void test_polls(void **state)
{
	int pipes[2], net = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pollfd fds[WATCHED_MOST + 1];
	fd_set read_set, write_set;

	(void)state;
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	for (int i = 0; i <= WATCHED_MOST; i++)
		fds[i] = (struct pollfd){ .fd = i == 1 ? -1 : pipes[0] };
	assert_int_equal(polled(fds, 0), WAIT_SLEEP);
	assert_int_equal(polled(fds, 3), WAIT_PIPE); /* one that is left out does not count */
	assert_int_equal(polled(fds, WATCHED_MOST + 1), WAIT_POLL);
	fds[1].fd = net;
	assert_int_equal(polled(fds, 3), WAIT_POLL); /* whatever comes last */
	assert_int_equal(polled(fds + 1, 1), WAIT_NETWORK);
	assert_int_equal(cause_of(SYS_ppoll, 16, 1, 0, 0), WAIT_POLL); /* not its memory */

	FD_ZERO(&read_set);
	FD_ZERO(&write_set);
	FD_SET(pipes[0], &read_set);
	assert_int_equal(cause_of(SYS_pselect6, 0, 0, 0, 0), WAIT_SLEEP);
	assert_int_equal(cause_of(SYS_pselect6, (uint64_t)pipes[0] + 1,
				  (uint64_t)(uintptr_t)&read_set, 0, 0),
			 WAIT_PIPE);
	FD_SET(net, &write_set);
	assert_int_equal(cause_of(SYS_pselect6, (uint64_t)(pipes[1] > net ? pipes[1] : net) + 1,
				  (uint64_t)(uintptr_t)&read_set, (uint64_t)(uintptr_t)&write_set,
				  0),
			 WAIT_POLL);
	close(pipes[0]);
	close(pipes[1]);
	close(net);
}

static void test_places(void **state)
{
	static const struct {
		const char *call, *place;
		enum wait_cause cause;
	} cases[] = {
		{ "running\n", "", WAIT_ENDED },
		{ "", "", WAIT_UNKNOWN },
		{ "", "0", WAIT_UNKNOWN },
		{ "", "futex_wait_queue", WAIT_LOCK },
		{ "", "hrtimer_nanosleep", WAIT_SLEEP },
		{ "", "anon_pipe_read", WAIT_PIPE },
		{ "", "unix_stream_read_generic", WAIT_PIPE },
		{ "", "ep_poll", WAIT_POLL },
		{ "", "do_wait", WAIT_CHILD },
		{ "", "inet_csk_accept", WAIT_NETWORK },
		{ "", "some_new_function", WAIT_OTHER },
		{ "-1 0x7ffc 0x7f60\n", "folio_wait_bit_common", WAIT_FILE }, /* a page of memory */
		{ "-1 0x7ffc 0x7f60\n", "", WAIT_UNKNOWN },
		{ "nonsense", "do_wait", WAIT_CHILD },
	};
	char open_call[64];

	(void)state;
	for (size_t i = 0; i < N_OF(cases); i++)
		assert_int_equal(waits_told(waits, cases[i].call, cases[i].place, 0),
				 cases[i].cause);
	snprintf(open_call, sizeof(open_call), "%d 0x0 0x0 0x0 0x0 0x0 0x0 0x1 0x2",
		 (int)SYS_openat);
	assert_int_equal(waits_told(waits, open_call, "wait_for_partner", 0), WAIT_PIPE);
	assert_int_equal(waits_told(waits, open_call, "d_alloc_parallel", 0), WAIT_FILE);
}

/* More sockets than are remembered. */
static void test_many_sockets(void **state)
{
	(void)state;
	for (uint64_t inode = 1; inode <= SOCKETS_MOST + 10; inode++)
		assert_int_equal(socket_cause(waits, UINT64_MAX - inode), WAIT_NETWORK);
	assert_true(waits->n <= SOCKETS_MOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),	     cmocka_unit_test(test_global_lock),
		cmocka_unit_test(test_descriptors),  cmocka_unit_test(test_links),
		cmocka_unit_test(test_polls),	     cmocka_unit_test(test_places),
		cmocka_unit_test(test_many_sockets),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
