/* A worker that costs next to nothing to start, so that the agent is what is measured.
 *
 *   worker idle      sleep until SIGTERM
 *   worker fail      the same, but on the first start the rank BENCH_FAIL_RANK exits with 1
 *                    after BENCH_FAIL_AFTER_MS
 *   worker crash     the same as fail, but SIGTERM kills it, as it does an ordinary program
 *   worker lines     write BENCH_LINES lines of 100 bytes to standard output, pausing for
 *                    BENCH_PAUSE_US after every 400
 *
 * A worker that was stopped ends BENCH_LINGER_MS later (0): on a few cores the ends of the first
 * would keep the last from hearing their signal.
 *
 * Each writes time stamps (CLOCK_MONOTONIC) to the named pipe BENCH_STAMPS, a line at a time:
 * what, number of the start, local rank, pid, nanoseconds. A line is shorter than PIPE_BUF, so
 * the workers' lines do not mix.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int stamps = -1, start_number, rank;

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void report(const char *what, long long value) {
    char line[128];
    int size = snprintf(line, sizeof line, "%s %d %d %d %lld\n", what, start_number, rank, (int)getpid(), value);
    if (write(stamps, line, size) != size) _exit(98);
}

static long number(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}

/* Sleep for so long, or for ever (negative). SIGTERM is blocked and taken here, which spares a
 * handler and its rules; its stamp is taken before anything else. */
static void wait_for_stop(long milliseconds) {
    sigset_t stop;
    struct timespec limit = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    if (sigtimedwait(&stop, NULL, milliseconds < 0 ? NULL : &limit) == SIGTERM) {
        long long when = now();
        report("stopped", when);
        usleep(number("BENCH_LINGER_MS", 0) * 1000);
        _exit(128 + SIGTERM);
    }
}

static void write_lines(long count, long pause) {
    char line[101];
    memset(line, '~', 99);
    line[99] = '\n';
    for (long i = 0; i < count; i++) {
        char head[64];
        snprintf(head, sizeof head, "w%02d %010ld ", rank, i);
        memcpy(line, head, 15);
        fwrite(line, 1, 100, stdout); /* the C library's own blocks: they end inside lines */
        if (pause && i % 400 == 399) usleep(pause);
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    long long started = now();
    const char *mode = argc > 1 ? argv[1] : "idle";
    int crashes = strcmp(mode, "crash") == 0, fails = crashes || strcmp(mode, "fail") == 0;
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTERM);
    if (strcmp(mode, "lines") != 0 && !crashes) sigprocmask(SIG_BLOCK, &stop, NULL);
    stamps = open(getenv("BENCH_STAMPS") ? getenv("BENCH_STAMPS") : "/dev/stderr", O_WRONLY | O_CLOEXEC);
    start_number = number("TORCHELASTIC_RESTART_COUNT", 0);
    rank = number("LOCAL_RANK", 0);
    report("running", started);
    if (strcmp(mode, "lines") == 0) {
        struct rusage used;
        write_lines(number("BENCH_LINES", 1000), number("BENCH_PAUSE_US", 0));
        getrusage(RUSAGE_SELF, &used);
        report("used", (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL +
                           (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL);
        return 0;
    }
    if (fails && start_number == 0 && rank == number("BENCH_FAIL_RANK", 0)) {
        wait_for_stop(number("BENCH_FAIL_AFTER_MS", 500));
        report("failed", now());
        _exit(1);
    }
    for (;;) wait_for_stop(-1);
}
