/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of JSON about what was measured. Main thread.
 */
#include "tinymoe/system/notes.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "tinymoe/system/failure.h"

int64_t notes_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int notes_open(struct notes *notes, const char *path, int64_t load_ns, struct failure *failure)
{
	notes->stream = fopen(path, "we");
	if (!notes->stream)
		return failure_set(failure, errno, "cannot write %s: %s", path, strerror(errno));
	notes->path = path;
	fprintf(notes->stream, "{\"schema\":\"moescope/requests/1\",\"load_ns\":%lld}\n",
		(long long)load_ns);
	fflush(notes->stream);
	return 0;
}

void notes_add(struct notes *notes, const struct note *note)
{
	FILE *out = notes->stream;

	if (!out)
		return;
	fprintf(out,
		"{\"due_ns\":null,\"sent_ns\":%lld,\"end_ns\":%lld,\"end\":\"ok\",\"warmup\":%s,"
		"\"server_counts\":true,\"prompt_tokens\":%zu,\"output_tokens\":%zu,\"pieces_ns\":[",
		(long long)note->sent_ns, (long long)note->end_ns, note->warmup ? "true" : "false",
		note->prompt_tokens, note->output_tokens);
	for (size_t i = 0; note->pieces_ns && i < note->output_tokens; i++)
		fprintf(out, "%s%lld", i ? "," : "", (long long)note->pieces_ns[i]);
	fputs("],\"error\":null}\n", out);
	fflush(out);
}

void put_byte(uint8_t byte, FILE *out)
{
	if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 127)
		fprintf(out, "\\x%02x", byte);
	else
		putc(byte, out);
}

/* Single bytes above ASCII are not UTF-8, which JSON requires: they are shown like control
 * bytes. */
void notes_text(struct notes *notes, const uint8_t *bytes, size_t n)
{
	FILE *out = notes->stream;

	if (!out)
		return;
	fputs("{\"text\":\"", out);
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] == '\n' || bytes[i] == '\t')
			fputs(bytes[i] == '\n' ? "\\n" : "\\t", out);
		else if (bytes[i] < ' ' || bytes[i] >= 127)
			fprintf(out, "\\\\x%02x", bytes[i]);
		else
			fprintf(out, bytes[i] == '"' || bytes[i] == '\\' ? "\\%c" : "%c", bytes[i]);
	}
	fputs("\"}\n", out);
}

int notes_close(struct notes *notes, struct failure *failure)
{
	int failed;

	if (!notes->stream)
		return 0;
	failed = ferror(notes->stream);
	failed |= fclose(notes->stream) != 0;
	notes->stream = NULL;
	if (failed)
		return failure_set(failure, EIO, "cannot write %s: is the disk full?", notes->path);
	return 0;
}
