/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and places in files that a process has mapped, and in the perf map of its JIT. So that this map is one of
 * ours, the source itself is included. For find_symbols, which looks into a real memory map, the file is mapped here.
 * An input:
 *   2 bytes   length of the text of maps
 *   2 bytes   length of the perf map
 *   the text of maps; a file that it calls F is the ELF file
 *   the perf map
 *   the ELF file
 */
#include "host/stacks/symbols.c" /* NOLINT(bugprone-suspicious-include) */

#include "fuzz.h"
#include "host/peer/find_symbol.h"

#define NOBODY 0x7ffffffe /* more than any kernel gives out */
#define ADDRESSES 0x3000  /* from 0x1000 on, asked for in steps */
#define STEP 0x40

static char folder[] = "/dev/shm/moescope-fuzz-XXXXXX";
static char elf_path[64], jit_path[64];

static void remove_files(void)
{
	unlink(elf_path);
	unlink(jit_path);
	rmdir(folder);
}

static void die(const char *what)
{
	perror(what);
	abort();
}

static void set_up(void)
{
	static bool ready;

	if (ready)
		return;
	ready = true;
	if (!mkdtemp(folder))
		die(folder);
	snprintf(elf_path, sizeof(elf_path), "%s/libfuzzed.so", folder);
	snprintf(jit_path, sizeof(jit_path), "%s/perf.map", folder);
	atexit(remove_files);
}

static void put_file(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		die(path);
	close(fd);
}

/* Lines with the path of the ELF file for F. */
static char *maps_text(const uint8_t *text, size_t size)
{
	char *out = malloc(size + 64 * (strlen(elf_path) + 1)), *to = out;

	if (!out)
		die("maps");
	for (size_t i = 0, files = 0; i < size; i++) {
		if (text[i] == 'F' && files++ < 64)
			to = stpcpy(to, elf_path);
		else if (text[i] != '/') /* no file but these */
			*to++ = (char)text[i];
	}
	*to = '\0';
	return out;
}

static void ask(struct symbols *s)
{
	const char *path, *build_id;
	struct symbols_place place;

	for (uint64_t at = 0x1000; at < 0x1000 + ADDRESSES; at += STEP) {
		if (!strlen(symbols_name(s, at)))
			abort();
		symbols_build_id(s, at);
		if (symbols_place(s, at, &place) && !symbols_file(s, place.file, &path, &build_id))
			abort();
	}
	for (size_t i = 0; symbols_file(s, i, &path, &build_id); i++)
		if (build_id && strlen(build_id) > 128)
			abort();
}

static void look_for(void)
{
	struct found_symbol wanted[] = { { .name = "_PyRuntime" }, { .name = "two" } };
	int fd = open(elf_path, O_RDONLY | O_CLOEXEC);
	void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	char path[64] = "";

	if (fd < 0 || at == MAP_FAILED)
		die(elf_path);
	close(fd);
	if (find_symbols(getpid(), "fuzzed", wanted, 2, path, sizeof(path)) == 0 &&
	    strcmp(path, elf_path) != 0)
		abort();
	munmap(at, 4096);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t maps_size, jit_size;
	struct symbols *s;
	char *maps;

	if (size < 4)
		return 0;
	set_up();
	maps_size = data[0] | data[1] << 8;
	jit_size = data[2] | data[3] << 8;
	data += 4;
	size -= 4;
	maps_size = maps_size < size ? maps_size : size;
	jit_size = jit_size < size - maps_size ? jit_size : size - maps_size;
	maps = maps_text(data, maps_size);
	put_file(jit_path, data + maps_size, jit_size);
	put_file(elf_path, data + maps_size + jit_size, size - maps_size - jit_size);
	s = symbols_open(NOBODY);
	if (!s)
		die("symbols");
	strcpy(s->jit_path, jit_path);
	symbols_learn(s, maps);
	ask(s);
	symbols_close(s);
	look_for();
	free(maps);
	return 0;
}
