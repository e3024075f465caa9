// SPDX-License-Identifier: Apache-2.0
//
// peer-simdjson FILE.json: what simdjson needs for a summary of the kernels of a trace: their number
// and time, in all and by name. On-demand, the file mapped, names as they lie there: nothing is copied
// or converted that is not asked for. Documents of simdjson end at 4 GB.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include <fcntl.h>
#include <simdjson.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ondemand = simdjson::ondemand;

struct sums {
	uint64_t n = 0, ns = 0;
};

// Microseconds with up to three decimals as nanoseconds.
static uint64_t nanoseconds(std::string_view text)
{
	uint64_t value = 0;
	int decimals = -1;

	for (char c : text) {
		if (c == '.') {
			decimals = 0;
			continue;
		}
		if (c < '0' || c > '9' || decimals == 3)
			break;
		value = value * 10 + static_cast<uint64_t>(c - '0');
		if (decimals >= 0)
			decimals++;
	}
	for (int i = decimals < 0 ? 0 : decimals; i < 3; i++)
		value *= 10;
	return value;
}

// The file, and zeros behind it as simdjson wants them: a mapping without a file lies below it.
static simdjson::padded_string_view map(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0) {
		perror(path);
		exit(1);
	}
	size_t bytes = static_cast<size_t>(st.st_size), all = bytes + simdjson::SIMDJSON_PADDING;
	void *room = mmap(nullptr, all, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED || mmap(room, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_POPULATE,
				       fd, 0) == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	return simdjson::padded_string_view(static_cast<const char *>(room), bytes, all);
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: peer-simdjson FILE.json\n");
		return 2;
	}
	std::unordered_map<std::string_view, sums> names;
	sums all;
	ondemand::parser parser;
	try {
		auto document = parser.iterate(map(argv[1]));
		for (auto event : document.get_object().find_field("traceEvents").get_array()) {
			ondemand::object fields = event.get_object();
			ondemand::raw_json_string category;
			if (fields.find_field_unordered("cat").get_raw_json_string().get(category))
				continue;
			if (!(category == "kernel") && !(category == "Kernel"))
				continue;
			std::string_view name =
				fields.find_field_unordered("name").raw_json_token();
			uint64_t ns = nanoseconds(fields.find_field_unordered("dur").raw_json_token());
			sums &of_name = names[name];
			of_name.n++;
			of_name.ns += ns;
			all.n++;
			all.ns += ns;
		}
	} catch (const simdjson::simdjson_error &error) {
		fprintf(stderr, "peer-simdjson: %s: %s\n", argv[1], error.what());
		return 1;
	}
	printf("kernels %llu kernel_ns %llu names %zu\n", static_cast<unsigned long long>(all.n),
	       static_cast<unsigned long long>(all.ns), names.size());
	return 0;
}
