/* Files: uploads and downloads through staging, resumed ones, progress and cancelling. */
#include "common.h"

#include "client/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (17 * MEBI + 123)

int __real_flock(int fd, int operation);
int __real_close(int fd);
int __wrap_flock(int fd, int operation);
int __wrap_close(int fd);

/* The linker hands these calls of the client to the functions here (--wrap). */
static const char *put_in_place_from; /* before the next lock: renamed, as by another download */
static const char *put_in_place_to;
static int flock_errno; /* 0: none */
static int close_errno; /* of descriptors of regular files; 0: none */

int __wrap_flock(int fd, int operation)
{
    if (put_in_place_from) {
        assert_int_equal(rename(put_in_place_from, put_in_place_to), 0);
        put_in_place_from = NULL;
    }
    if (flock_errno) {
        errno = flock_errno;
        return -1;
    }
    return __real_flock(fd, operation);
}

int __wrap_close(int fd)
{
    struct stat facts;
    bool fails = close_errno && fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    int rc = __real_close(fd);
    if (fails) {
        errno = close_errno;
        return -1;
    }
    return rc;
}

static char directory[64];
static char file[128];
static char other[128];

static void write_file(const char *path, const char *bytes, size_t size)
{
    FILE *stream = fopen(path, "wb");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    fclose(stream);
}

/* malloc'ed; NULL when there is no such file. */
static char *read_file(const char *path, size_t *ret_size)
{
    FILE *stream = fopen(path, "rb");
    if (!stream) {
        return NULL;
    }
    char *bytes = malloc(64 * MEBI);
    *ret_size = fread(bytes, 1, 64 * MEBI, stream);
    fclose(stream);
    return bytes;
}

static int set_up_as(void **state, enum rg_path_choice path)
{
    struct bench *bench = bench_new(0);
    struct rg_client_options options = bench_options(bench);
    options.path = path;
    bench->s3->rdma = FAKE_RDMA_SERVE;
    bench_open(bench, &options);
    bench->buffer = malloc(SIZE);
    fill(bench->buffer, SIZE, 3);
    snprintf(directory, sizeof directory, "/tmp/rg-file-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/file", directory);
    snprintf(other, sizeof other, "%s/other", directory);
    write_file(file, bench->buffer, SIZE);
    *state = bench;
    return 0;
}

static int set_up(void **state)
{
    return set_up_as(state, RG_PATH_HTTP_ONLY);
}

static int set_up_rdma(void **state)
{
    return set_up_as(state, RG_PATH_RDMA_ONLY);
}

static int tear_down(void **state)
{
    char command[160];
    bench_free(*state);
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static unsigned names_in_directory(void)
{
    unsigned count = 0;
    DIR *dir = opendir(directory);
    for (struct dirent *entry; (entry = readdir(dir));) {
        count += entry->d_name[0] != '.' || strstr(entry->d_name, "railgate") != NULL;
    }
    closedir(dir);
    return count;
}

static int put_file(struct bench *bench, const struct rg_file_options *options)
{
    return rg_put_file(bench->client, "b", "k", file, options, &bench->result, &bench->failure);
}

static int get_file(struct bench *bench, const struct rg_file_options *options)
{
    return rg_get_file(bench->client, "b", "k", other, options, &bench->result, &bench->failure);
}

static void check_stored(struct bench *bench, size_t size)
{
    struct fake_object *object = fake_s3_find(bench->s3, "b/k");
    assert_non_null(object);
    assert_int_equal(object->bytes.len, size);
    assert_memory_equal(object->bytes.data, bench->buffer, size);
}

static void check_file(struct bench *bench, const char *path, size_t size)
{
    size_t found;
    char *bytes = read_file(path, &found);
    assert_non_null(bytes);
    assert_int_equal(found, size);
    assert_memory_equal(bytes, bench->buffer, size);
    free(bytes);
}

static void test_both_ways(void **state)
{
    struct bench *bench = *state;
    static const size_t sizes[] = {0, 1, 5 << 20, (5 << 20) + 1, SIZE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        write_file(file, bench->buffer, sizes[i]);
        assert_ok(bench, put_file(bench, NULL));
        check_stored(bench, sizes[i]);
        assert_true(bench->result.verified);
        assert_ok(bench, get_file(bench, NULL));
        check_file(bench, other, sizes[i]);
        assert_true(bench->result.verified);
        assert_int_equal(bench->result.object_size, sizes[i]);
        assert_int_equal(names_in_directory(), 2); /* nothing beside them */
    }
}

static void test_by_rdma(void **state)
{
    struct bench *bench = *state;
    assert_ok(bench, put_file(bench, NULL));
    check_stored(bench, SIZE);
    assert_true(bench->result.used_rdma);
    assert_ok(bench, get_file(bench, NULL));
    check_file(bench, other, SIZE);
    assert_true(bench->result.used_rdma);
    assert_string_equal(bench->result.path, "rdma:ofi:fake");
}

static void test_content_type(void **state)
{
    struct bench *bench = *state;
    struct rg_file_options options = {.content_type = "text/plain"};
    write_file(file, "hello", 5);
    assert_ok(bench, put_file(bench, &options));
    assert_string_equal(fake_s3_find(bench->s3, "b/k")->type, "text/plain");
}

static void test_bad_files(void **state)
{
    struct bench *bench = *state;
    struct rg_failure *failure = &bench->failure;
    assert_fails(bench, RG_STATUS_FILE,
                 rg_put_file(bench->client, "b", "k", "/nonexistent/x", NULL, NULL, failure));
    assert_int_equal(failure->os_errno, ENOENT);
    assert_fails(bench, RG_STATUS_FILE,
                 rg_put_file(bench->client, "b", "k", directory, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_FILE,
                 rg_put_file(bench->client, "b", "k", "/dev/null", NULL, NULL, failure));
    fake_s3_add(bench->s3, "b/k", "hello", 5);
    assert_fails(bench, RG_STATUS_FILE,
                 rg_get_file(bench->client, "b", "k", directory, NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_FILE,
                 rg_get_file(bench->client, "b", "k", "/nonexistent/x", NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_FILE,
                 rg_get_file(bench->client, "b", "k", "/tmp/", NULL, NULL, failure));
    assert_fails(bench, RG_STATUS_NOT_FOUND,
                 rg_get_file(bench->client, "b", "none", other, NULL, NULL, failure));
    assert_int_equal(access(other, F_OK), -1);
    assert_fails(bench, RG_STATUS_USAGE,
                 rg_get_file(bench->client, "b", "k", NULL, NULL, NULL, failure));
}

static void test_replaces(void **state)
{
    struct bench *bench = *state;
    struct stat facts;
    char target[160];
    fake_s3_add(bench->s3, "b/k", "hello", 5);
    write_file(other, "old and longer", 14);
    assert_int_equal(chmod(other, 0604), 0);
    assert_ok(bench, get_file(bench, NULL));
    assert_int_equal(stat(other, &facts), 0);
    assert_int_equal(facts.st_size, 5);
    assert_int_equal(facts.st_mode & 0777, 0604);
    /* A link is replaced, what it points to is left alone. */
    snprintf(target, sizeof target, "%s/target", directory);
    write_file(target, "mine", 4);
    assert_int_equal(unlink(other), 0);
    assert_int_equal(symlink(target, other), 0);
    assert_ok(bench, get_file(bench, NULL));
    assert_int_equal(lstat(other, &facts), 0);
    assert_true(S_ISREG(facts.st_mode));
    assert_int_equal(stat(target, &facts), 0);
    assert_int_equal(facts.st_size, 4);
}

static void test_long_name(void **state)
{
    struct bench *bench = *state;
    char name[256];
    char path[400];
    memset(name, 'n', 255);
    name[255] = '\0';
    snprintf(path, sizeof path, "%s/%s", directory, name);
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    assert_ok(bench, rg_get_file(bench->client, "b", "k", path, NULL, NULL, &bench->failure));
    check_file(bench, path, SIZE);
}

static void test_failure_leaves_old(void **state)
{
    struct bench *bench = *state;
    write_file(other, "old", 3);
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    fake_s3_find(bench->s3, "b/k")->bytes.data[SIZE - 1] ^= 1;
    assert_fails(bench, RG_STATUS_INTEGRITY, get_file(bench, NULL));
    struct stat facts;
    assert_int_equal(stat(other, &facts), 0);
    assert_int_equal(facts.st_size, 3);
    assert_int_equal(names_in_directory(), 2);
}

static void test_changes_under_way(void **state)
{
    struct bench *bench = *state;
    /* Another version takes the object's place after it was looked at. */
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    fake_s3_fault(bench->s3,
                  (struct fake_fault){
                      .method = "GET", .times = 1, .status = 412, .code = "PreconditionFailed"});
    assert_fails(bench, RG_STATUS_PRECONDITION, get_file(bench, NULL));
    assert_int_equal(names_in_directory(), 1);
}

/* ---- Progress ---- */

struct watch {
    uint64_t last;
    uint64_t total;
    unsigned calls;
    uint64_t stop_at;
    const char *append; /* a file that grows meanwhile */
};

static bool watch_progress(void *context, uint64_t done, uint64_t total)
{
    struct watch *watch = context;
    watch->last = done;
    watch->total = total;
    watch->calls++;
    if (watch->append && watch->calls == 1) {
        FILE *stream = fopen(watch->append, "ab");
        fputc('x', stream);
        fclose(stream);
    }
    return !watch->stop_at || done < watch->stop_at;
}

static void test_progress(void **state)
{
    struct bench *bench = *state;
    struct watch watch = {.calls = 0};
    struct rg_file_options options = {.progress = watch_progress, .context = &watch};
    fake_s3_fault(bench->s3, (struct fake_fault){.method = "PUT",
                                                 .part = "partNumber=2",
                                                 .times = 1,
                                                 .after = true,
                                                 .how = TEST_HANG_UP});
    assert_ok(bench, put_file(bench, &options));
    assert_true(watch.last == SIZE && watch.total == SIZE && watch.calls > 3);
    fake_s3_fault(bench->s3,
                  (struct fake_fault){.method = "GET", .times = 1, .how = TEST_CUT_BODY});
    watch = (struct watch){.calls = 0};
    assert_ok(bench, get_file(bench, &options));
    assert_true(watch.last == SIZE && watch.total == SIZE && watch.calls > 3);
}

static void test_cancel(void **state)
{
    struct bench *bench = *state;
    struct watch watch = {.stop_at = 6 * MEBI};
    struct rg_file_options options = {.progress = watch_progress, .context = &watch};
    assert_fails(bench, RG_STATUS_CANCELLED, put_file(bench, &options));
    assert_null(fake_s3_find(bench->s3, "b/k"));
    assert_int_equal(fake_s3_open_uploads(bench->s3), 0);
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    watch = (struct watch){.stop_at = 6 * MEBI};
    assert_fails(bench, RG_STATUS_CANCELLED, get_file(bench, &options));
    assert_int_equal(names_in_directory(), 1);
    watch = (struct watch){.stop_at = 1};
    write_file(file, "hello", 5);
    assert_fails(bench, RG_STATUS_CANCELLED, put_file(bench, &options));
}

static void test_file_grows(void **state)
{
    struct bench *bench = *state;
    struct watch watch = {.append = file};
    struct rg_file_options options = {.progress = watch_progress, .context = &watch};
    assert_fails(bench, RG_STATUS_FILE, put_file(bench, &options));
    assert_non_null(strstr(bench->failure.message, "changed while it was read"));
    assert_null(fake_s3_find(bench->s3, "b/k"));
}

/* ---- Uploads that are gone on with ---- */

static const struct rg_file_options resume = {.resume = true};

/* Lets an upload die with parts 1, 2 and 4 there. */
static void break_upload(struct bench *bench)
{
    fake_s3_fault(
        bench->s3,
        (struct fake_fault){
            .method = "PUT", .part = "partNumber=3", .times = 1, .status = 403, .code = "Stop"});
    struct rg_client_options options = bench_options(bench);
    options.path = RG_PATH_HTTP_ONLY;
    options.parallel = 4;
    bench_reopen(bench, &options);
    assert_fails(bench, RG_STATUS_REFUSED, put_file(bench, &resume));
    assert_int_equal(fake_s3_open_uploads(bench->s3), 1);
    assert_null(fake_s3_find(bench->s3, "b/k"));
}

static void test_resume_put(void **state)
{
    struct bench *bench = *state;
    break_upload(bench);
    unsigned before = bench->s3->parts;
    assert_true(before >= 1 && before < 4);
    assert_ok(bench, put_file(bench, &resume));
    check_stored(bench, SIZE);
    assert_int_equal(bench->s3->parts, 4); /* each part once */
    assert_true(bench->result.verified);
    assert_int_equal(fake_s3_open_uploads(bench->s3), 0);
    assert_true(bench->result.bytes < SIZE);
    assert_int_equal(bench->result.object_size, SIZE);
}

static void test_resume_put_by_md5(void **state)
{
    struct bench *bench = *state;
    bench->s3->no_checksums = true;
    break_upload(bench);
    assert_ok(bench, put_file(bench, &resume));
    check_stored(bench, SIZE);
    assert_int_equal(bench->s3->parts, 4);
}

static void test_resume_put_of_another_file(void **state)
{
    struct bench *bench = *state;
    break_upload(bench);
    unsigned before = bench->s3->parts;
    fill(bench->buffer, SIZE, 77);
    write_file(file, bench->buffer, SIZE);
    assert_ok(bench, put_file(bench, &resume));
    check_stored(bench, SIZE);
    assert_int_equal(bench->s3->parts, before + 4); /* nothing of the other is kept */
}

static void test_resume_put_of_a_shorter_file(void **state)
{
    struct bench *bench = *state;
    break_upload(bench);
    write_file(file, bench->buffer, 11 * MEBI);
    assert_ok(bench, put_file(bench, &resume));
    check_stored(bench, 11 * MEBI);
}

static void test_resume_put_with_another_part_size(void **state)
{
    struct bench *bench = *state;
    break_upload(bench);
    struct rg_client_options options = bench_options(bench);
    options.path = RG_PATH_HTTP_ONLY;
    options.part_size = 8 * MEBI;
    bench_reopen(bench, &options);
    assert_ok(bench, put_file(bench, &resume));
    check_stored(bench, SIZE);
    assert_int_equal(bench->s3->parts, 4); /* the earlier one's part size goes on */
}

static void test_resume_put_without_listing(void **state)
{
    struct bench *bench = *state;
    break_upload(bench);
    fake_s3_fault(
        bench->s3,
        (struct fake_fault){
            .method = "GET", .part = "uploads", .times = 1, .status = 403, .code = "AccessDenied"});
    assert_ok(bench, put_file(bench, &resume)); /* begins anew */
    check_stored(bench, SIZE);
}

/* ---- Downloads that are gone on with ---- */

static void break_download(struct bench *bench)
{
    struct rg_client_options options = bench_options(bench);
    options.path = RG_PATH_HTTP_ONLY;
    options.parallel = 1;
    bench_reopen(bench, &options);
    struct watch watch = {.stop_at = 11 * MEBI};
    struct rg_file_options stop = {.resume = true, .progress = watch_progress, .context = &watch};
    assert_fails(bench, RG_STATUS_CANCELLED, get_file(bench, &stop));
    assert_int_equal(access(other, F_OK), -1);
    assert_int_equal(names_in_directory(), 3);
}

static void test_resume_get(void **state)
{
    struct bench *bench = *state;
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    break_download(bench);
    unsigned before = bench->s3->gets;
    assert_ok(bench, get_file(bench, &resume));
    check_file(bench, other, SIZE);
    assert_true(bench->result.verified);
    assert_int_equal(bench->s3->gets, before + 2); /* two parts were there */
    assert_true(bench->result.bytes < SIZE);
    assert_int_equal(names_in_directory(), 2);
}

static void test_resume_get_of_another_version(void **state)
{
    struct bench *bench = *state;
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    break_download(bench);
    fill(bench->buffer, SIZE, 99);
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    unsigned before = bench->s3->gets;
    assert_ok(bench, get_file(bench, &resume));
    check_file(bench, other, SIZE);
    assert_int_equal(bench->s3->gets, before + 4);
}

static void test_resume_get_of_damaged_part(void **state)
{
    struct bench *bench = *state;
    char path[160];
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    break_download(bench);
    snprintf(path, sizeof path, "%s/.other.railgate-part", directory);
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "x", 1, 17), 1);
    close(fd);
    unsigned before = bench->s3->gets;
    assert_ok(bench, get_file(bench, &resume));
    check_file(bench, other, SIZE);
    assert_int_equal(bench->s3->gets, before + 3);
}

static void test_resume_get_with_strange_records(void **state)
{
    struct bench *bench = *state;
    char path[160];
    static const char *const records[] = {"", "railgate download 1\n", "x", "\n\n\n"};
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    snprintf(path, sizeof path, "%s/.other.railgate-done", directory);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        break_download(bench);
        write_file(path, records[i], strlen(records[i]));
        unsigned before = bench->s3->gets;
        assert_ok(bench, get_file(bench, &resume));
        check_file(bench, other, SIZE);
        assert_int_equal(bench->s3->gets, before + 4);
        assert_int_equal(unlink(other), 0);
    }
    /* Lines that are none end what is believed. */
    break_download(bench);
    FILE *stream = fopen(path, "a");
    fputs("done 3 00000000000000zz\ndone 99 0000000000000000\ndone 2 00", stream);
    fclose(stream);
    assert_ok(bench, get_file(bench, &resume));
    check_file(bench, other, SIZE);
}

static void test_two_downloads(void **state)
{
    struct bench *bench = *state;
    char path[160];
    fake_s3_add(bench->s3, "b/k", "hello", 5);
    snprintf(path, sizeof path, "%s/.other.railgate-part", directory);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_fails(bench, RG_STATUS_FILE, get_file(bench, NULL));
    assert_non_null(strstr(bench->failure.message, "Another download"));
    close(fd);
    assert_ok(bench, get_file(bench, NULL)); /* one that nobody holds is used again */
}

/* File systems that have no locks, and one whose locks are out of order. */
static void test_locks_that_fail(void **state)
{
    struct bench *bench = *state;
    static const int none[] = {ENOSYS, EOPNOTSUPP};
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(none); i++) {
        flock_errno = none[i];
        int rc = get_file(bench, NULL);
        flock_errno = 0;
        assert_ok(bench, rc);
        check_file(bench, other, SIZE);
        assert_int_equal(unlink(other), 0);
    }
    flock_errno = ENOLCK;
    int rc = get_file(bench, NULL);
    flock_errno = 0;
    assert_fails(bench, RG_STATUS_FILE, rc);
    assert_int_equal(bench->failure.os_errno, ENOLCK);
    assert_null(strstr(bench->failure.message, "Another download"));
    assert_non_null(strstr(bench->failure.message, "cannot be locked"));
}

/* Another download ends between our opening of the partial file and our locking of it: what is open
 * is now the whole file, and not one byte of it may be touched. */
static void test_put_in_place_meanwhile(void **state)
{
    struct bench *bench = *state;
    char path[160];
    char third[160];
    fake_s3_add(bench->s3, "b/k", "hello", 5);
    snprintf(path, sizeof path, "%s/.other.railgate-part", directory);
    snprintf(third, sizeof third, "%s/third", directory);
    write_file(path, bench->buffer, 100);
    put_in_place_from = path;
    put_in_place_to = third;
    assert_ok(bench, get_file(bench, NULL));
    assert_null(put_in_place_from);
    check_file(bench, third, 100);
    size_t size = 0;
    char *bytes = read_file(other, &size);
    assert_true(size == 5 && memcmp(bytes, "hello", 5) == 0);
    free(bytes);
}

/* Network file systems speak of a full disk when a file is closed. */
static void test_close_fails(void **state)
{
    struct bench *bench = *state;
    write_file(other, "old", 3);
    fake_s3_add(bench->s3, "b/k", bench->buffer, SIZE);
    close_errno = EDQUOT;
    int rc = get_file(bench, NULL);
    close_errno = 0;
    assert_int_equal(rc, -RG_STATUS_FILE);
    assert_int_equal(bench->failure.os_errno, EDQUOT);
    size_t size = 0;
    char *bytes = read_file(other, &size);
    assert_true(size == 3 && memcmp(bytes, "old", 3) == 0);
    free(bytes);
    assert_int_equal(names_in_directory(), 2);
    assert_ok(bench, get_file(bench, NULL));
    check_file(bench, other, SIZE);
}

/* What downloads keep beside files is no name for one: two would write the same file. */
static void test_names_of_our_own(void **state)
{
    struct bench *bench = *state;
    static const char *const names[] = {".x.railgate-part", ".x.railgate-done", "..railgate-part"};
    static const char *const fine[] = {"x.railgate-part", ".railgate-party", ".x"};
    char path[160];
    fake_s3_add(bench->s3, "b/k", "hello", 5);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        assert_fails(bench, RG_STATUS_FILE,
                     rg_get_file(bench->client, "b", "k", path, NULL, NULL, &bench->failure));
        assert_int_equal(access(path, F_OK), -1);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(fine); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, fine[i]);
        assert_ok(bench, rg_get_file(bench->client, "b", "k", path, NULL, NULL, &bench->failure));
        assert_int_equal(access(path, F_OK), 0);
    }
}

static void test_staging_is_bounded(void **state)
{
    struct bench *bench = *state;
    struct rg_staging_buffer *buffers[4];
    struct rg_staging_buffer *more;
    atomic_bool cancel = false;
    for (int i = 0; i < 4; i++) {
        assert_ok(bench,
                  rg_staging_take(bench->client, 5 * MEBI, &cancel, &buffers[i], &bench->failure));
        assert_true(buffers[i]->room >= 5 * MEBI);
    }
    cancel = true; /* whoever waits for a fifth waits until one is given back, or is cancelled */
    assert_fails(bench, RG_STATUS_CANCELLED,
                 rg_staging_take(bench->client, 1, &cancel, &more, &bench->failure));
    rg_staging_give(bench->client, buffers[0]);
    assert_ok(bench, rg_staging_take(bench->client, 1, NULL, &more, &bench->failure));
    rg_staging_give(bench->client, more);
    for (int i = 1; i < 4; i++) {
        rg_staging_give(bench->client, buffers[i]);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_both_ways),
        cmocka_unit_test_setup_teardown(test_by_rdma, set_up_rdma, tear_down),
        TEST(test_content_type),
        TEST(test_bad_files),
        TEST(test_replaces),
        TEST(test_long_name),
        TEST(test_failure_leaves_old),
        TEST(test_changes_under_way),
        TEST(test_progress),
        TEST(test_cancel),
        TEST(test_file_grows),
        TEST(test_resume_put),
        TEST(test_resume_put_by_md5),
        TEST(test_resume_put_of_another_file),
        TEST(test_resume_put_of_a_shorter_file),
        TEST(test_resume_put_with_another_part_size),
        TEST(test_resume_put_without_listing),
        TEST(test_resume_get),
        TEST(test_resume_get_of_another_version),
        TEST(test_resume_get_of_damaged_part),
        TEST(test_resume_get_with_strange_records),
        TEST(test_two_downloads),
        TEST(test_locks_that_fail),
        TEST(test_put_in_place_meanwhile),
        TEST(test_close_fails),
        TEST(test_names_of_our_own),
        TEST(test_staging_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
