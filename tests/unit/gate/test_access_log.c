#include "gate/access_log.h"
#include "base/log.h"
#include "test.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/rg-test-access-XXXXXX";

static struct rg_access_record sample_record(void)
{
    return (struct rg_access_record){
        .owner = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be",
        .bucket = "photos",
        .time = {.tv_sec = 1549411238},
        .remote_ip = "192.0.2.3",
        .requester = "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be",
        .request_id = "3E57427F33A59F07",
        .operation = "REST.GET.OBJECT",
        .key = "2019/a b+\303\251.jpg",
        .method = "GET",
        .path = RG_SPAN_LITERAL("/photos/2019/a%20b%2B%C3%A9.jpg"),
        .query = RG_SPAN_LITERAL("x-id=GetObject"),
        .version = "HTTP/1.1",
        .status = 200,
        .bytes_sent = 113,
        .object_size = 113,
        .total_ms = 7,
        .turnaround_ms = 3,
        .user_agent = RG_SPAN_LITERAL("S3Console/0.4"),
        .signature_version = "SigV4",
        .cipher_suite = "TLS_AES_256_GCM_SHA384",
        .auth_type = "AuthHeader",
        .host = RG_SPAN_LITERAL("localhost:9000"),
        .tls_version = "TLSv1.3",
    };
}

static void assert_form(const struct rg_access_record *record, const char *line)
{
    RG_BUF(text, 65536);
    rg_access_log_format(record, &text);
    assert_string_equal(rg_buf_text(&text), line);
}

static void test_form(void **state)
{
    (void)state;
    struct rg_access_record record = sample_record();
    assert_form(
        &record,
        "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be photos "
        "[06/Feb/2019:00:00:38 +0000] 192.0.2.3 "
        "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be 3E57427F33A59F07 "
        "REST.GET.OBJECT 2019/a%20b%2B%C3%A9.jpg "
        "\"GET /photos/2019/a%20b%2B%C3%A9.jpg?x-id=GetObject HTTP/1.1\" 200 - 113 113 7 3 \"-\" "
        "\"S3Console/0.4\" - - SigV4 TLS_AES_256_GCM_SHA384 AuthHeader localhost:9000 TLSv1.3 - "
        "-\n");
}

/* Nothing that a client sends makes a second line, or another field. */
static void test_hostile_texts(void **state)
{
    (void)state;
    struct rg_access_record record = {
        .time = {.tv_sec = 0},
        .operation = "Unknown",
        .key = "a\nb \"c\"",
        .method = "GET",
        .path = RG_SPAN_LITERAL("/\"x\n\\"),
        .version = "HTTP/1.1",
        .bytes_sent = -1,
        .object_size = -1,
        .total_ms = 0,
        .turnaround_ms = -1,
        .referer = RG_SPAN_LITERAL("a\" 200\\\n"),
        .user_agent = RG_SPAN_LITERAL("\377"),
        .host = RG_SPAN_LITERAL("a b"),
    };
    assert_form(&record, "- - [01/Jan/1970:00:00:00 +0000] - - - Unknown a%0Ab%20%22c%22 "
                         "\"GET /%22x%0A\\ HTTP/1.1\" - - - - 0 - \"a\\x22 200\\x5c\\x0a\" "
                         "\"\\xff\" - - - - - a%20b - - -\n");
}

static size_t count_lines(const char *path)
{
    rg_autofclose FILE *file = fopen(path, "r");
    size_t count = 0;
    char line[4096];
    while (file && fgets(line, sizeof line, file)) {
        count++;
    }
    return count;
}

static void test_reopening(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_access_log *log;
    char path[64];
    char moved[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/log", dir);
    snprintf(moved, sizeof moved, "%s/log.1", dir);
    assert_int_equal(rg_access_log_open(path, &log, &err), 0);
    struct rg_access_record record = sample_record();
    rg_access_log_write(log, &record);
    rg_access_log_write(log, &record);
    assert_int_equal(rename(path, moved), 0);
    rg_access_log_write(log, &record);
    assert_int_equal(rg_access_log_reopen(log, &err), 0);
    rg_access_log_write(log, &record);
    assert_int_equal(count_lines(moved), 3);
    assert_int_equal(count_lines(path), 1);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    /* The directory is gone: the old file stays in use. */
    unlink(path);
    unlink(moved);
    rmdir(dir);
    assert_int_equal(rg_access_log_reopen(log, &err), -RG_SETTING);
    rg_access_log_write(log, &record);
    assert_int_equal(rg_access_log_failures(log), 0);
    rg_access_log_close(log);
    assert_int_equal(rg_access_log_open(path, &log, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, path));
}

/* A full disk loses lines, and says so once. */
static void test_full_disk(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_access_log *log;
    FILE *lines = tmpfile();
    assert_non_null(lines);
    rg_log_setup(fileno(lines), RG_LOG_HUMAN, RG_LOG_INFO);
    assert_int_equal(rg_access_log_open("/dev/full", &log, &err), 0);
    struct rg_access_record record = sample_record();
    for (int i = 0; i < 5; i++) {
        rg_access_log_write(log, &record);
    }
    assert_int_equal(rg_access_log_failures(log), 5);
    rg_access_log_close(log);
    rg_log_setup(STDERR_FILENO, RG_LOG_HUMAN, RG_LOG_INFO);
    char text[1024] = "";
    rewind(lines);
    size_t len = fread(text, 1, sizeof text - 1, lines);
    text[len] = '\0';
    assert_non_null(strstr(text, "access log lines are being lost"));
    assert_non_null(strstr(text, "No space left"));
    assert_ptr_equal(strchr(text, '\n'), text + len - 1);
    fclose(lines);
}

/* A pipe without a reader is refused, one that is not read loses lines: neither holds up anybody.
 */
static void test_pipes(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_access_log *log;
    struct rg_access_record record = sample_record();
    char own[] = "/tmp/rg-test-access-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(own));
    snprintf(path, sizeof path, "%s/pipe", own);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(rg_access_log_open(path, &log, &err), -RG_SETTING);
    assert_non_null(strstr(err.message, path));

    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_int_equal(rg_access_log_open(path, &log, &err), 0);
    int written = 0;
    for (; rg_access_log_failures(log) < 3; written++) {
        assert_in_range(written, 0, 1000000);
        rg_access_log_write(log, &record);
    }
    char bytes[4096];
    while (read(reader, bytes, sizeof bytes) > 0) {
    }
    rg_access_log_write(log, &record);
    assert_int_equal(rg_access_log_failures(log), 3);
    ssize_t len = read(reader, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(bytes[len - 1], '\n');
    close(reader);
    rg_access_log_close(log);
    unlink(path);
    rmdir(own);
}

/* ---- Lines longer than what a pipe takes at once ---- */

#define LONG_LINES  40u
#define LONG_AGENT  9000u
#define LONG_ROUNDS 20u

struct slow_reader {
    int fd;
    char *bytes;
    size_t len;
    _Atomic bool over; /* nothing more is written */
};

/* Begins when the pipe is as good as full. */
static void *read_slowly(void *argument)
{
    struct slow_reader *reader = argument;
    int waiting = 0;
    while (waiting < 60000 && !atomic_load(&reader->over)) {
        assert_int_equal(ioctl(reader->fd, FIONREAD, &waiting), 0);
        usleep(1000);
    }
    for (;;) {
        bool over = atomic_load(&reader->over);
        ssize_t len = read(reader->fd, reader->bytes + reader->len, LONG_AGENT);
        if (len > 0) {
            reader->len += (size_t)len;
        } else if (over) {
            return NULL;
        } else {
            usleep(1000);
        }
    }
}

static unsigned count_whole(const char *bytes, size_t len, struct span line)
{
    unsigned count = 0;
    for (const char *at = bytes, *end; (end = memchr(at, '\n', len - (size_t)(at - bytes)));
         at = end + 1) {
        count += (size_t)(end + 1 - at) == line.len && memcmp(at, line.ptr, line.len) == 0;
    }
    return count;
}

/* One that is lost spoils no other; and none is while the pipe is read. */
static void test_long_lines_in_a_pipe(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    struct rg_access_log *log;
    struct rg_access_record record = sample_record();
    char *agent = malloc(LONG_AGENT);
    struct slow_reader reader = {.bytes = malloc(LONG_LINES * 2 * LONG_AGENT)};
    assert_non_null(agent);
    assert_non_null(reader.bytes);
    memset(agent, 'u', LONG_AGENT);
    record.user_agent = rg_span(agent, LONG_AGENT);
    RG_BUF(line, 4 * LONG_AGENT);
    rg_access_log_format(&record, &line);
    assert_true(rg_buf_ok(&line));
    char own[] = "/tmp/rg-test-access-XXXXXX";
    char path[64];
    assert_non_null(mkdtemp(own));
    snprintf(path, sizeof path, "%s/pipe", own);
    assert_int_equal(mkfifo(path, 0600), 0);
    reader.fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader.fd >= 0);
    assert_int_equal(rg_access_log_open(path, &log, &err), 0);
    /* Nobody reads. */
    for (unsigned i = 0; i < LONG_LINES; i++) {
        rg_access_log_write(log, &record);
    }
    uint64_t lost = rg_access_log_failures(log);
    assert_in_range(lost, 1, LONG_LINES - 1);
    atomic_store(&reader.over, true);
    read_slowly(&reader);
    rg_access_log_write(log, &record);
    read_slowly(&reader);
    assert_int_equal(rg_access_log_failures(log), lost);
    assert_int_equal(count_whole(reader.bytes, reader.len, rg_buf_span(&line)),
                     LONG_LINES + 1 - lost);
    /* Somebody does, if late: as many rounds as it takes on a machine where that is too late. */
    uint64_t lost_now = 1;
    for (unsigned round = 0; round < LONG_ROUNDS && lost_now; round++) {
        pthread_t thread;
        reader.len = 0;
        atomic_store(&reader.over, false);
        lost = rg_access_log_failures(log);
        assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
        for (unsigned i = 0; i < LONG_LINES; i++) {
            rg_access_log_write(log, &record);
        }
        atomic_store(&reader.over, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        lost_now = rg_access_log_failures(log) - lost;
        assert_int_equal(count_whole(reader.bytes, reader.len, rg_buf_span(&line)),
                         LONG_LINES - lost_now);
    }
    assert_int_equal(lost_now, 0);
    close(reader.fd);
    rg_access_log_close(log);
    unlink(path);
    rmdir(own);
    free(reader.bytes);
    free(agent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),      cmocka_unit_test(test_hostile_texts),
        cmocka_unit_test(test_reopening), cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_pipes),     cmocka_unit_test(test_long_lines_in_a_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
