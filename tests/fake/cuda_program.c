/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that uses CUDA, or does not, for tests of what `moescope run` does with it. It is not
 * linked with anything of moescope's, nor with CUDA: the driver is opened when it is needed, as
 * PyTorch does. Words are obeyed in their order:
 *
 *   cuda=N     the first CUDA call, if there was none, and N kernels
 *   nvtx       ranges of two domains, a span with a payload, by the real NVTX header
 *   fork       goes on in a child; the parent waits for it and ends with its status
 *   fork=N     a child that exits with status N; the program goes on
 *   maps       prints whether the profiler's library is in the process
 *   pid        prints the process's number
 *   exit=N _exit=N kill segv
 */
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void use_cuda(unsigned int n)
{
	void *driver = dlopen(FAKE_DRIVER_PATH, RTLD_NOW | RTLD_LOCAL), *symbol;
	int (*init)(unsigned int);
	void (*launch)(unsigned int);

	if (!driver || !(symbol = dlsym(driver, "cuInit")))
		abort();
	memcpy(&init, &symbol, sizeof(init));
	if (init(0) != 0 || !(symbol = dlsym(driver, "fake_driver_launch")))
		abort();
	memcpy(&launch, &symbol, sizeof(launch));
	launch(n);
}

static void use_nvtx(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
	nvtxEventAttributes_t event = { .version = NVTX_VERSION,
					.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
					.messageType = NVTX_MESSAGE_TYPE_ASCII,
					.message.ascii = "request",
					.payloadType = NVTX_PAYLOAD_TYPE_INT64,
					.payload.llValue = -7 };
	nvtxRangeId_t span;

	nvtxRangePushA("outer");
	span = nvtxDomainRangeStartEx(domain, &event);
	event.payloadType = 0;
	event.message.ascii = "inner";
	nvtxDomainRangePushEx(domain, &event);
	nvtxRangePop();
	nvtxDomainRangePop(domain);
	nvtxDomainRangeEnd(domain, span);
}

static void wait_for(pid_t pid, int *ret_status)
{
	if (pid < 0 || waitpid(pid, ret_status, 0) != pid)
		abort();
}

static void say_whether_mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4096];
	int mapped = 0;

	while (f && fgets(line, sizeof(line), f))
		mapped |= strstr(line, "libmoescope") != NULL;
	if (f)
		fclose(f);
	puts(mapped ? "mapped" : "not mapped");
	fflush(stdout);
}

static void obey(const char *word)
{
	const char *equals = strchr(word, '=');
	int n = equals ? atoi(equals + 1) : 0, status;
	pid_t pid;

	if (!strncmp(word, "cuda=", 5)) {
		use_cuda((unsigned int)n);
	} else if (!strcmp(word, "nvtx")) {
		use_nvtx();
	} else if (!strncmp(word, "fork", 4)) {
		pid = fork();
		if (pid == 0 && equals)
			exit(n);
		if (pid == 0)
			return;
		wait_for(pid, &status);
		if (!equals)
			exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
		if (status != n << 8)
			abort();
	} else if (!strcmp(word, "maps")) {
		say_whether_mapped();
	} else if (!strcmp(word, "pid")) {
		printf("%d\n", (int)getpid());
		fflush(stdout);
	} else if (!strncmp(word, "exit=", 5)) {
		exit(n);
	} else if (!strncmp(word, "_exit=", 6)) {
		_exit(n);
	} else if (!strcmp(word, "kill")) {
		raise(SIGKILL);
	} else if (!strcmp(word, "segv")) {
		raise(SIGSEGV);
	} else {
		fprintf(stderr, "no such word: %s\n", word);
		exit(98);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		obey(argv[i]);
	return 0;
}
