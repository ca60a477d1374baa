/*
 * A store on a directory of its own, for tests: on the file system below $TMPDIR, or on XFS in a
 * loop file. Short forms of the store's calls that fail the test when the call fails.
 */
#ifndef RG_TESTS_STORE_TREE_H
#define RG_TESTS_STORE_TREE_H

#include "store/store.h"

#include "test.h"

struct tree {
    char *base; /* removed at the end, with all in it */
    char *root;
    bool mounted;
    struct rg_settings settings;
    struct rg_store *store;
    struct rg_buf summary;
};

#define BUCKET RG_SPAN_LITERAL("bucket")

/* What the command line asked for. `filesystem`: "local" (below $TMPDIR), "memory" (/dev/shm), or
 * "xfs" or "ext4" in a loop file. */
extern const char *tree_filesystem;
extern const char *tree_mask;

/* False (with a reason on standard error) when this machine cannot have that file system. */
bool tree_make(struct tree *tree, const char *filesystem, unsigned megabytes);
void tree_set(struct tree *tree, enum rg_setting_id id, const char *text);
void tree_open(struct tree *tree); /* and makes BUCKET */
void tree_close(struct tree *tree);
void tree_remove(struct tree *tree);

/* A pass over all buckets, as a gateway makes it. */
int tree_sweep(struct tree *tree, struct rg_error *err);

/* cmocka set-up and tear-down with the file system and mask of the command line. */
int tree_setup(void **state);
int tree_teardown(void **state);
int tree_main(int argc, char **argv);

struct span text(const char *words);
void meta_for(struct rg_meta *meta, struct span bytes); /* its MD5 as ETag; free it */

/* Return the call's result. */
int try_put(struct tree *tree, const char *key, struct span bytes, const struct rg_meta *meta,
            const struct rg_conditions *conditions, struct rg_error *err);
int try_get(struct tree *tree, const char *key, struct rg_buf *bytes, struct rg_object_info *info,
            struct rg_error *err);
int try_delete(struct tree *tree, const char *key, struct rg_error *err);

void put(struct tree *tree, const char *key, const char *words);
void expect(struct tree *tree, const char *key, const char *words);
void expect_absent(struct tree *tree, const char *key);
struct rg_object_info info_of(struct tree *tree, const char *key); /* free it */

/* Paths below the bucket, for playing another program. */
char *path_of(struct tree *tree, const char *relative); /* static buffers, four in turn */
void write_file(struct tree *tree, const char *relative, const char *words);
bool path_exists(struct tree *tree, const char *relative);
size_t count_entries(struct tree *tree, const char *relative); /* 0 when absent */

/* Checks that nothing is left in .railgate/tmp, uploads and sidecar. */
void expect_no_leftovers(struct tree *tree, size_t sidecars);

#endif
