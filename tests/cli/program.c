/* SPDX-License-Identifier: Apache-2.0
 *
 * The program that test_transparent.py runs with and without moescope: program ACTION...
 *
 * Actions are done in their order. As `plain-program` it knows nothing of moescope; as
 * `linked-program` (LINKED) it records through the C API, so that the library is in the process.
 * Descriptor CONTROL_FD is a pipe to the test: what the test must know, and nobody compares.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef LINKED
#include "moescope.h"
#endif

static int control_fd = -1;
static volatile sig_atomic_t counts[128];

static void record(void)
{
#ifdef LINKED
	moescope_step_begin(-1);
	moescope_range_begin(moescope_intern("action"), -1, -1, MOESCOPE_FORWARD);
	moescope_range_end();
	moescope_step_end(1);
#endif
}

static void tell(const char *text, int value)
{
	if (control_fd >= 0)
		dprintf(control_fd, "%s %d\n", text, value);
}

static void count(int sig, siginfo_t *info, void *context)
{
	char line[] = "signal 000\n";
	int saved = errno;
	ssize_t n;

	(void)info;
	(void)context;
	counts[sig]++;
	line[7] = (char)('0' + sig / 100);
	line[8] = (char)('0' + sig / 10 % 10);
	line[9] = (char)('0' + sig % 10);
	n = write(control_fd, line, sizeof(line) - 1);
	(void)n;
	errno = saved;
}

/* Counts signals until SIGRTMAX: those with a smaller number are delivered before it. */
static void count_signals(void)
{
	struct sigaction action = { .sa_sigaction = count, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigset_t all, none;

	sigfillset(&all);
	sigemptyset(&none);
	sigprocmask(SIG_BLOCK, &all, NULL);
	action.sa_mask = all;
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		sigaction(sig, &action, NULL);
	tell("pid", getpid());
	while (!counts[SIGRTMAX])
		sigsuspend(&none);
	for (int sig = 1; sig < SIGRTMAX; sig++)
		if (counts[sig])
			printf("signal %d: %d\n", sig, (int)counts[sig]);
}

static void sum_arguments(int argc, char **argv)
{
	unsigned long sum = 0, bytes = 0;

	for (int i = 1; i < argc; i++)
		for (const char *at = argv[i]; *at; at++, bytes++)
			sum = sum * 31 + (unsigned char)*at;
	printf("%d arguments, %lu bytes, %lx\n", argc - 1, bytes, sum);
}

static void write_file(const char *name)
{
	FILE *f = fopen(name, "wx");

	if (!f || fprintf(f, "content of %s\n", name) < 0 || fclose(f) != 0)
		exit(99);
}

/* The terminal, or whatever standard input is: a line of it. */
static void echo_line(void)
{
	char line[256];

	tell("pid", getpid());
	printf("%s", fgets(line, sizeof(line), stdin) ? line : "no line\n");
}

static void die_by(int sig)
{
	struct rlimit no_core = { 0, 0 };

	setrlimit(RLIMIT_CORE, &no_core);
	signal(sig, SIG_DFL);
	fflush(NULL);
	raise(sig);
}

/* All but SIGBUS, which the library catches for its buffer file and passes on. */
static void list_signals(void)
{
	struct sigaction action;
	sigset_t mask;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		if (sig != SIGBUS && sigaction(sig, NULL, &action) == 0 &&
		    (action.sa_handler != SIG_DFL || sigismember(&mask, sig)))
			printf("signal %d: %s%s\n", sig,
			       action.sa_handler == SIG_IGN ? "ignored" : "usual",
			       sigismember(&mask, sig) ? ", blocked" : "");
}

static void list_descriptors(void)
{
	for (int fd = 0; fd < 64; fd++)
		if (fd != control_fd && fcntl(fd, F_GETFD) >= 0)
			printf("descriptor %d\n", fd);
}

static void act(const char *word, int argc, char **argv)
{
	const char *value = strchr(word, '=') ? strchr(word, '=') + 1 : "";

	if (!strncmp(word, "out=", 4))
		puts(value);
	else if (!strncmp(word, "err=", 4))
		fprintf(stderr, "%s\n", value);
	else if (!strncmp(word, "file=", 5))
		write_file(value);
	else if (!strncmp(word, "exit=", 5))
		exit(atoi(value));
	else if (!strncmp(word, "kill=", 5))
		die_by(atoi(value));
	else if (!strcmp(word, "count"))
		count_signals();
	else if (!strcmp(word, "line"))
		echo_line();
	else if (!strcmp(word, "wait"))
		pause();
	else if (!strcmp(word, "sum"))
		sum_arguments(argc, argv);
	else if (!strcmp(word, "signals"))
		list_signals();
	else if (!strcmp(word, "descriptors"))
		list_descriptors();
	else if (!strcmp(word, "group"))
		setpgid(0, 0);
	else if (!strcmp(word, "record"))
		record();
	else if (!strcmp(word, "end"))
		exit(0);
}

int main(int argc, char **argv)
{
	if (getenv("CONTROL_FD"))
		control_fd = atoi(getenv("CONTROL_FD"));
	for (int i = 1; i < argc; i++)
		act(argv[i], argc, argv);
	return 0;
}
