/* Read what an agent shows of `worker lines` and count what became of the lines.
 *
 *   check_lines WORKERS LINES_PER_WORKER < output
 *
 * A good line is a prefix in brackets (or none) and the 100 bytes of the worker. Any other line
 * with the filler in it is broken; lines without it are the agent's own words. Lost and doubled
 * lines are found by their numbers. In C, since it must not slow the agent that it reads from.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAYLOAD = 99, HEAD = 15, BLOCK = 1 << 20, LONGEST = 1 << 16 };

static long workers, lines, good, broken, doubled, other;
static unsigned char *seen;
static char filler[PAYLOAD - HEAD];

static int is_prefix(const char *text, long size) {
    if (size == 0) return 1;
    if (text[0] != '[' || memchr(text + 1, '[', size - 1)) return 0;
    if (text[size - 1] == ' ') size--;
    return text[size - 1] == ':' && !memchr(text, '~', size);
}

/* The index of a whole line, else -1. */
static long identify(const char *text, long size) {
    const char *payload = text + size - PAYLOAD;
    char head[HEAD + 1] = {0};
    int worker, used = 0;
    long index;
    if (size < PAYLOAD || memcmp(payload + HEAD, filler, sizeof filler) != 0) return -1;
    memcpy(head, payload, HEAD);
    if (sscanf(head, "w%2d %10ld %n", &worker, &index, &used) != 2 || used != HEAD) return -1;
    if (worker < 0 || worker >= workers || index < 0 || index >= lines) return -1;
    return is_prefix(text, size - PAYLOAD) ? worker * lines + index : -1;
}

static void count(const char *text, long size) {
    long index = identify(text, size);
    if (index >= 0) {
        if (seen[index]++) doubled++;
        else good++;
    } else if (memchr(text, '~', size)) broken++;
    else other++;
}

int main(int argc, char **argv) {
    static char block[LONGEST + BLOCK];
    long kept = 0, got;
    if (argc != 3) return 2;
    workers = atol(argv[1]);
    lines = atol(argv[2]);
    seen = calloc(workers * lines, 1);
    memset(filler, '~', sizeof filler);
    while ((got = read(0, block + kept, BLOCK)) > 0) {
        char *line = block, *end = block + kept + got, *stop;
        while ((stop = memchr(line, '\n', end - line))) {
            count(line, stop - line);
            line = stop + 1;
        }
        kept = end - line;
        if (kept > LONGEST) { /* no line is that long: drop the piece */
            broken++;
            kept = 0;
        }
        memmove(block, line, kept);
    }
    if (kept) count(block, kept);
    printf("{\"good\": %ld, \"broken\": %ld, \"lost\": %ld, \"doubled\": %ld, \"other\": %ld}\n",
           good, broken, workers * lines - good, doubled, other);
    return got < 0;
}
