#include "tree.h"

#include "base/encode.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const char *tree_filesystem = "local";
const char *tree_mask = "";

static bool run(const char *command)
{
    int status = system(command);
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool mount_loop(struct tree *tree, const char *filesystem, unsigned megabytes)
{
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: mounting a loop file needs root\n");
        return false;
    }
    char command[1024];
    snprintf(command, sizeof command,
             "truncate -s %uM %s/image && mkfs.%s -q %s/image >/dev/null 2>&1 && "
             "mount -o loop %s/image %s",
             megabytes, tree->base, filesystem, tree->base, tree->base, tree->root);
    if (!run(command)) {
        fprintf(stderr, "skipped: no %s in a loop file here\n", filesystem);
        return false;
    }
    tree->mounted = true;
    return true;
}

bool tree_make(struct tree *tree, const char *filesystem, unsigned megabytes)
{
    *tree = (struct tree){.summary = RG_BUF_INIT(4096)};
    const char *tmp = strcmp(filesystem, "memory") == 0 ? "/dev/shm" : getenv("TMPDIR");
    char base[512];
    snprintf(base, sizeof base, "%s/railgate-store-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(base));
    assert_true(asprintf(&tree->root, "%s/root", base) > 0);
    tree->base = strdup(base);
    assert_int_equal(mkdir(tree->root, 0755), 0);
    assert_int_equal(rg_settings_init(&tree->settings, NULL), 0);
    bool in_place = strcmp(filesystem, "local") == 0 || strcmp(filesystem, "memory") == 0;
    if (!in_place && !mount_loop(tree, filesystem, megabytes)) {
        tree_remove(tree);
        return false;
    }
    return true;
}

void tree_set(struct tree *tree, enum rg_setting_id id, const char *words)
{
    struct rg_error err = RG_ERROR_INIT;
    if (rg_settings_set(&tree->settings, id, words, RG_FROM_OPTION, "test", &err)) {
        fail_msg("%s", err.message);
    }
}

void tree_open(struct tree *tree)
{
    struct rg_error err = RG_ERROR_INIT;
    rg_buf_clear(&tree->summary);
    if (rg_store_posix_open(tree->root, &tree->settings, &tree->store, &tree->summary, &err)) {
        fail_msg("%s", err.message);
    }
    int rc = rg_store_bucket_create(tree->store, BUCKET, &err);
    if (rc && rc != -RG_BUCKET_ALREADY_OWNED) {
        fail_msg("%s", err.message);
    }
}

void tree_close(struct tree *tree)
{
    if (tree->store) {
        rg_store_close(tree->store);
        tree->store = NULL;
    }
}

void tree_remove(struct tree *tree)
{
    tree_close(tree);
    if (tree->mounted) {
        umount2(tree->root, MNT_DETACH);
    }
    char command[1024];
    snprintf(command, sizeof command, "rm -rf '%s'", tree->base);
    run(command);
    rg_settings_free(&tree->settings);
    rg_buf_free(&tree->summary);
    free(tree->root);
    free(tree->base);
}

int tree_sweep(struct tree *tree, struct rg_error *err)
{
    rg_autofree struct rg_bucket_info *buckets = NULL;
    size_t count = 0;
    int rc = rg_store_bucket_list(tree->store, &buckets, &count, err);
    rc = rc ? rc : rg_store_sweep(tree->store, RG_SPAN_EMPTY, err);
    for (size_t i = 0; i < count && rc == 0; i++) {
        rc = buckets[i].hangs ? 0 : rg_store_sweep(tree->store, text(buckets[i].name), err);
    }
    return rc;
}

int tree_setup(void **state)
{
    struct tree *tree = calloc(1, sizeof *tree);
    if (!tree_make(tree, tree_filesystem, 320)) {
        free(tree);
        return -1;
    }
    tree_set(tree, RG_SETTING_mask, tree_mask);
    tree_open(tree);
    *state = tree;
    return 0;
}

int tree_teardown(void **state)
{
    tree_remove(*state);
    free(*state);
    return 0;
}

int tree_main(int argc, char **argv)
{
    tree_filesystem = argc > 1 ? argv[1] : "local";
    tree_mask = argc > 2 ? argv[2] : "";
    struct tree tree;
    if (!tree_make(&tree, tree_filesystem, 320)) {
        return 77; /* skipped */
    }
    tree_remove(&tree);
    return 0;
}

struct span text(const char *words)
{
    return rg_span_text(words);
}

void meta_for(struct rg_meta *meta, struct span bytes)
{
    RG_CLEANUP(rg_hasher_free) struct rg_hasher hasher = RG_HASHER_INIT;
    uint8_t md5[16];
    assert_int_equal(rg_hasher_init(&hasher, RG_HASH_MD5 | RG_HASH_CRC64NVME, NULL), 0);
    rg_hasher_update(&hasher, bytes);
    assert_int_equal(rg_hasher_final(&hasher, NULL), 0);
    rg_hasher_md5(&hasher, md5);
    *meta = (struct rg_meta)RG_META_INIT;
    rg_etag_md5(md5, meta->etag);
    meta->etag_is_md5 = true;
    rg_hasher_checksum(&hasher, RG_CHECKSUM_CRC64NVME, &meta->checksum);
}

int try_put(struct tree *tree, const char *key, struct span bytes, const struct rg_meta *own_meta,
            const struct rg_conditions *conditions, struct rg_error *err)
{
    RG_CLEANUP(rg_meta_free) struct rg_meta made = RG_META_INIT;
    if (!own_meta) {
        meta_for(&made, bytes);
    }
    struct rg_writer *writer = NULL;
    int rc = rg_store_put_begin(tree->store, BUCKET, text(key), (int64_t)bytes.len, &writer, err);
    if (rc) {
        return rc;
    }
    rc = rg_store_writer_write(tree->store, writer, bytes.ptr, bytes.len, err);
    if (rc) {
        rg_store_writer_abort(tree->store, writer);
        return rc;
    }
    struct rg_written written;
    return rg_store_put_commit(tree->store, writer, own_meta ? own_meta : &made, conditions,
                               &written, err);
}

int try_get(struct tree *tree, const char *key, struct rg_buf *bytes, struct rg_object_info *info,
            struct rg_error *err)
{
    struct rg_object *object = NULL;
    int rc = rg_store_object_open(tree->store, BUCKET, text(key), &object, err);
    if (rc) {
        return rc;
    }
    const struct rg_object_info *found = rg_store_object_info(tree->store, object);
    if (bytes) {
        char *to = rg_buf_reserve(bytes, found->size + 1);
        assert_non_null(to);
        size_t len = 0;
        rc = rg_store_object_read(tree->store, object, 0, to, found->size + 1, &len, err);
        rg_buf_grew(bytes, len);
    }
    if (rc == 0 && info) {
        *info = *found;
        assert_int_equal(rg_meta_copy(&found->meta, &info->meta, NULL), 0);
    }
    rg_store_object_close(tree->store, object);
    return rc;
}

int try_delete(struct tree *tree, const char *key, struct rg_error *err)
{
    return rg_store_object_delete(tree->store, BUCKET, text(key), NULL, err);
}

void put(struct tree *tree, const char *key, const char *words)
{
    struct rg_error err = RG_ERROR_INIT;
    if (try_put(tree, key, text(words), NULL, NULL, &err)) {
        fail_msg("put %s: %s", key, err.message);
    }
}

void expect(struct tree *tree, const char *key, const char *words)
{
    struct rg_error err = RG_ERROR_INIT;
    RG_BUF(bytes, 64 << 20);
    if (try_get(tree, key, &bytes, NULL, &err)) {
        fail_msg("get %s: %s", key, err.message);
    }
    assert_string_equal(rg_buf_text(&bytes), words);
    assert_int_equal(bytes.len, strlen(words));
}

void expect_absent(struct tree *tree, const char *key)
{
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(try_get(tree, key, NULL, NULL, &err), -RG_NO_SUCH_KEY);
}

struct rg_object_info info_of(struct tree *tree, const char *key)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_object_info info = {.size = 0};
    if (try_get(tree, key, NULL, &info, &err)) {
        fail_msg("head %s: %s", key, err.message);
    }
    return info;
}

char *path_of(struct tree *tree, const char *relative)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/bucket/%s", tree->root, relative);
    return path;
}

void write_file(struct tree *tree, const char *relative, const char *words)
{
    int fd = open(path_of(tree, relative), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, words, strlen(words)), strlen(words));
    close(fd);
}

bool path_exists(struct tree *tree, const char *relative)
{
    struct stat st;
    return lstat(path_of(tree, relative), &st) == 0;
}

size_t count_entries(struct tree *tree, const char *relative)
{
    DIR *dir = opendir(path_of(tree, relative));
    if (!dir) {
        return 0;
    }
    size_t count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return count;
}

void expect_no_leftovers(struct tree *tree, size_t sidecars)
{
    assert_int_equal(count_entries(tree, ".railgate/tmp"), 0);
    assert_int_equal(count_entries(tree, ".railgate/uploads"), 0);
    assert_int_equal(count_entries(tree, ".railgate/sidecar"), sidecars);
}
