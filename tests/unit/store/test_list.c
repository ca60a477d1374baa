/*
 * Listing against a flat model: whatever the tree, the query and the memory, pages must be what
 * sorting all keys and cutting would give.
 *
 * The random cases print their seed when they fail; RAILGATE_TEST_SEED sets it, and
 * RAILGATE_TEST_CASES how many trees are tried. (Not settings of the gateway.)
 */
#include "test.h"

#include "base/assert.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/random.h"
#include "listing_double.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUCKET RG_SPAN_LITERAL("bucket")

static uint64_t seed;
static uint64_t state;
static char directory[256];

/* Says what is needed to see it again. */
#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            print_error("seed %llu: ", (unsigned long long)seed);                                  \
            print_error(__VA_ARGS__);                                                              \
            print_error("\n");                                                                     \
            fail_msg("%s", #condition);                                                            \
        }                                                                                          \
    } while (0)

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1d;
}

static size_t below(size_t limit)
{
    return (size_t)(next_random() >> 20) % limit;
}

static bool chance(size_t percent)
{
    return below(100) < percent;
}

/* ---- A tree, on disk and in memory ---- */

enum kind { FILE_NODE, DIRECTORY_NODE, LINK_NODE, OTHER_NODE };

struct node {
    char name[256];
    enum kind kind;
    bool explicit_object;
    struct node *target; /* of a link */
    struct node *parent;
    struct node **children;
    size_t count;
};

static struct node *add_node(struct node *parent, const char *name, enum kind kind)
{
    for (size_t i = 0; i < parent->count; i++) {
        if (strcmp(parent->children[i]->name, name) == 0) {
            return NULL;
        }
    }
    struct node *node = calloc(1, sizeof(*node));
    parent->children = reallocarray(parent->children, parent->count + 1, sizeof(node));
    RG_ASSERT(node && parent->children);
    RG_ASSERT(strlen(name) < sizeof(node->name));
    strcpy(node->name, name);
    node->kind = kind;
    node->parent = parent;
    parent->children[parent->count++] = node;
    return node;
}

static void free_node(struct node *node)
{
    for (size_t i = 0; i < node->count; i++) {
        free_node(node->children[i]);
    }
    free(node->children);
    free(node);
}

static void path_of(const struct node *node, char *path)
{
    path[0] = '\0';
    if (node->parent) {
        path_of(node->parent, path);
        strcat(strcat(path, "/"), node->name);
    } else {
        strcpy(path, directory);
    }
}

static void make_link(const struct node *node, const char *path)
{
    char to[8192] = "";
    for (const struct node *up = node->parent; up->parent; up = up->parent) {
        strcat(to, "../");
    }
    char full[8192];
    path_of(node->target, full);
    strcat(to, strlen(full) > strlen(directory) ? full + strlen(directory) + 1 : ".");
    assert_int_equal(symlink(to, path), 0);
}

static void make_node(const struct node *node)
{
    char path[8192];
    path_of(node, path);
    int fd = -1;
    switch (node->kind) {
    case FILE_NODE:
        fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, (off_t)strlen(node->name)), 0);
        close(fd);
        break;
    case DIRECTORY_NODE:
        if (node->parent) {
            assert_int_equal(mkdir(path, 0755), 0);
            assert_int_equal(chmod(path, node->explicit_object ? 01755 : 0755), 0);
        }
        break;
    case LINK_NODE:
        make_link(node, path);
        break;
    case OTHER_NODE:
        assert_int_equal(mkfifo(path, 0644), 0);
        break;
    }
    for (size_t i = 0; i < node->count; i++) {
        make_node(node->children[i]);
    }
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return ftw->level == 0 ? 0 : remove(path);
}

static void clear_directory(void)
{
    assert_int_equal(nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
}

/* ---- Random trees ---- */

static void random_name(char *name)
{
    static const char letters[] = "ab-./0\x01\xff\x80z ";
    static const char *const stems[] = {"a", "common-prefix-", "common-prefix-of-some-length-0000"};
    do {
        strcpy(name, chance(35) ? stems[below(3)] : "");
        for (size_t len = 1 + below(4); len > 0; len--) {
            char letter = letters[below(sizeof(letters) - 1)];
            size_t end = strlen(name);
            name[end] = letter == '/' ? 'b' : letter;
            name[end + 1] = '\0';
        }
    } while (strcmp(name, ".") == 0 || strcmp(name, "..") == 0);
}

/* Some names of the same directory with a changed end: neighbours in the order. */
static void neighbour_name(const struct node *parent, char *name)
{
    random_name(name);
    if (parent->count == 0 || chance(50)) {
        return;
    }
    static const char *const ends[] = {"-", ".", "0", "\x01", "\xff", "/"};
    strcpy(name, parent->children[below(parent->count)]->name);
    name[below(strlen(name)) + 1] = '\0';
    strcat(name, chance(50) ? "" : ends[below(5)]);
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > 200) {
        random_name(name);
    }
}

static void grow_tree(struct node *parent, unsigned depth, size_t *budget)
{
    size_t wanted = below(depth == 0 ? 24 : 9);
    for (size_t i = 0; i<wanted && * budget> 0; i++) {
        char name[256];
        neighbour_name(parent, name);
        bool is_directory = depth < 5 && chance(40);
        struct node *node = add_node(parent, name, is_directory ? DIRECTORY_NODE : FILE_NODE);
        if (!node) {
            continue;
        }
        (*budget)--;
        if (is_directory) {
            node->explicit_object = chance(30);
            grow_tree(node, depth + 1, budget);
        }
    }
    if (chance(10)) {
        add_node(parent, "fifo", OTHER_NODE);
    }
    if (chance(10)) {
        add_node(parent, ".railgate-tmp-00", FILE_NODE);
    }
}

static struct node *random_node(struct node *node)
{
    while (node->count > 0 && !chance(25)) {
        node = node->children[below(node->count)];
    }
    return node;
}

static struct node *random_directory(struct node *root)
{
    struct node *node = random_node(root);
    return node->kind == DIRECTORY_NODE ? node : node->parent;
}

static struct node *random_tree(void)
{
    struct node *root = calloc(1, sizeof(*root));
    RG_ASSERT(root);
    root->kind = DIRECTORY_NODE;
    size_t budget = 70;
    grow_tree(root, 0, &budget);
    for (size_t links = chance(40) ? below(6) : 0; links > 0; links--) {
        struct node *target = random_node(root);
        struct node *parent = random_directory(root);
        char name[256];
        neighbour_name(parent, name);
        struct node *link = target->kind == LINK_NODE ? NULL : add_node(parent, name, LINK_NODE);
        if (link) {
            link->target = target;
        }
    }
    if (chance(30)) {
        static const char *const kept[] = {".railgate", ".sgwtmp"};
        struct node *node = add_node(root, kept[below(2)], DIRECTORY_NODE);
        if (node) {
            add_node(node, "hidden", FILE_NODE);
        }
    }
    return root;
}

/* ---- The flat model ---- */

struct text {
    char *text;
    bool is_prefix;
    bool is_directory; /* stands for a directory, which may be no object */
};

struct texts {
    struct text *items;
    size_t count;
    size_t room;
};

static void add_text(struct texts *texts, const char *text, size_t len, bool is_prefix,
                     bool is_directory)
{
    if (texts->count == texts->room) {
        texts->room = RG_MAX(texts->room * 2, 64u);
        texts->items = reallocarray(texts->items, texts->room, sizeof(struct text));
        RG_ASSERT(texts->items);
    }
    texts->items[texts->count++] = (struct text){strndup(text, len), is_prefix, is_directory};
}

static void free_texts(struct texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->items[i].text);
    }
    free(texts->items);
    *texts = (struct texts){.items = NULL};
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const struct text *)a)->text, ((const struct text *)b)->text);
}

static bool is_above(const struct node *candidate, const struct node *node)
{
    for (; node; node = node->parent) {
        if (node == candidate) {
            return true;
        }
    }
    return false;
}

/* All keys below a directory, and all directories. */
static void flatten(const struct node *node, const char *key, bool linked, struct texts *keys)
{
    for (size_t i = 0; i < node->count; i++) {
        const struct node *child = node->children[i];
        bool top = key[0] == '\0';
        if (rg_posix_name_hidden(rg_span_text(child->name), top)) {
            continue;
        }
        char below_key[8192];
        snprintf(below_key, sizeof(below_key), "%s%s", key, child->name);
        const struct node *real = child->kind == LINK_NODE ? child->target : child;
        if (real->kind == FILE_NODE) {
            add_text(keys, below_key, strlen(below_key), false, false);
            continue;
        }
        bool by_link = child->kind == LINK_NODE;
        if (real->kind != DIRECTORY_NODE || (by_link && (linked || is_above(real, node)))) {
            continue;
        }
        strcat(below_key, "/");
        add_text(keys, below_key, strlen(below_key), false, true);
        if (real->explicit_object) {
            add_text(keys, below_key, strlen(below_key), false, false);
        }
        flatten(real, below_key, linked || by_link, keys);
    }
}

struct query {
    char prefix[600];
    char delimiter[8];
    char after[1200];
    bool after_is_prefix;
};

static void model(const struct texts *keys, const struct query *query, struct texts *page)
{
    for (size_t i = 0; i < keys->count; i++) {
        const struct text *key = &keys->items[i];
        size_t prefix_len = strlen(query->prefix);
        if (strncmp(key->text, query->prefix, prefix_len) != 0) {
            continue;
        }
        const char *at =
            query->delimiter[0] ? strstr(key->text + prefix_len, query->delimiter) : NULL;
        size_t len = at ? (size_t)(at - key->text) + strlen(query->delimiter) : strlen(key->text);
        bool shown_empty = at && strcmp(query->delimiter, "/") == 0;
        if (key->is_directory && !shown_empty) {
            continue;
        }
        add_text(page, key->text, len, at != NULL, false);
    }
    if (page->count > 0) {
        qsort(page->items, page->count, sizeof(struct text), compare_texts);
    }
    size_t kept = 0;
    for (size_t i = 0; i < page->count; i++) {
        struct text text = page->items[i];
        bool again = kept > 0 && strcmp(page->items[kept - 1].text, text.text) == 0;
        bool before =
            query->after[0] && (strcmp(text.text, query->after) <= 0 ||
                                (query->after_is_prefix &&
                                 strncmp(text.text, query->after, strlen(query->after)) == 0));
        if (again || before) {
            free(text.text);
        } else {
            page->items[kept++] = text;
        }
    }
    page->count = kept;
}

/* ---- Asking, and comparing ---- */

static void show(const char *label, const char *text)
{
    print_error("%s \"", label);
    for (; *text; text++) {
        print_error(*text >= ' ' && *text <= '~' ? "%c" : "\\x%02x", (unsigned char)*text);
    }
    print_error("\"\n");
}

static void show_case(const struct query *query, size_t max, const struct texts *expected,
                      const struct rg_list_page *page)
{
    print_error("seed %llu max %zu after_is_prefix %d\n", (unsigned long long)seed, max,
                query->after_is_prefix);
    show("prefix", query->prefix);
    show("delimiter", query->delimiter);
    show("after", query->after);
    for (size_t i = 0; i < expected->count && i <= max; i++) {
        show(expected->items[i].is_prefix ? "expected prefix" : "expected key",
             expected->items[i].text);
    }
    for (size_t i = 0; i < page->count; i++) {
        show(page->entries[i].is_prefix ? "got prefix" : "got key", page->entries[i].key);
    }
}

static bool same_page(const struct texts *expected, size_t max, const struct rg_list_page *page)
{
    size_t count = RG_MIN(max, expected->count);
    if (page->count != count || page->truncated != (max > 0 && expected->count > max)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const struct rg_list_entry *entry = &page->entries[i];
        if (strcmp(entry->key, expected->items[i].text) != 0 ||
            entry->is_prefix != expected->items[i].is_prefix) {
            return false;
        }
    }
    return true;
}

static int ask(struct rg_posix *posix, const struct query *query, size_t max, bool want_meta,
               struct rg_list_page *ret_page, struct rg_error *err)
{
    struct rg_list_query list = {
        .prefix = rg_span_text(query->prefix),
        .delimiter = rg_span_text(query->delimiter),
        .after = rg_span_text(query->after),
        .after_is_prefix = query->after_is_prefix,
        .max = max,
        .want_meta = want_meta,
    };
    return rg_posix_list(&posix->store, BUCKET, &list, ret_page, err);
}

static void compare_page(struct rg_posix *posix, const struct texts *keys,
                         const struct query *query, size_t max, struct rg_list_page *ret_page)
{
    struct texts expected = {.items = NULL};
    model(keys, query, &expected);
    struct rg_error err = RG_ERROR_INIT;
    int rc = ask(posix, query, max, chance(50), ret_page, &err);
    CHECK(rc == 0, "%s", err.message);
    if (!same_page(&expected, max, ret_page)) {
        show_case(query, max, &expected, ret_page);
        fail_msg("a page differs from the model");
    }
    free_texts(&expected);
}

/* Page after page, by the last thing returned. */
static void compare_walk(struct rg_posix *posix, const struct texts *keys, struct query query,
                         size_t max)
{
    for (bool more = max > 0; more;) {
        struct rg_list_page page;
        compare_page(posix, keys, &query, max, &page);
        more = page.truncated;
        if (more) {
            const struct rg_list_entry *last = &page.entries[page.count - 1];
            strcpy(query.after, last->key);
            /* Version 1 of the operation does not say what its marker was. */
            query.after_is_prefix = last->is_prefix && (query.delimiter[0] == '\0' || chance(50));
        }
        rg_list_page_free(&page);
    }
}

static void random_text(const struct texts *keys, char *text, size_t room)
{
    text[0] = '\0';
    if (chance(40) && keys->count > 0) {
        const char *key = keys->items[below(keys->count)].text;
        size_t len = RG_MIN(strlen(key), room - 8);
        len = chance(60) ? below(len + 1) : len;
        memcpy(text, key, len);
        text[len] = '\0';
    }
    if (chance(30)) {
        char name[256];
        random_name(name);
        name[3] = '\0';
        strcat(text, name);
    }
}

static void random_query(const struct texts *keys, struct query *query)
{
    static const char *const delimiters[] = {"/", "-", "a", ".", "/b", "b/", "0", "\xff", "//"};
    memset(query, 0, sizeof(*query));
    if (chance(60)) {
        random_text(keys, query->prefix, sizeof(query->prefix));
    }
    if (chance(70)) {
        strcpy(query->delimiter, chance(50) ? "/" : delimiters[below(9)]);
    }
    if (chance(40)) {
        random_text(keys, query->after, sizeof(query->after));
        query->after_is_prefix = query->after[0] && chance(20);
    }
}

/* Adds and removes some files, for what was kept to be wrong afterwards. */
static void change_tree(struct node *root)
{
    for (size_t changes = 1 + below(3); changes > 0; changes--) {
        struct node *parent = random_directory(root);
        struct node *victim = parent->count > 0 ? parent->children[below(parent->count)] : NULL;
        if (victim && victim->kind == FILE_NODE && chance(50)) {
            char path[8192];
            path_of(victim, path);
            assert_int_equal(unlink(path), 0);
            victim->kind = OTHER_NODE; /* what links to it dangles */
            continue;
        }
        char name[256];
        neighbour_name(parent, name);
        struct node *node = add_node(parent, name, FILE_NODE);
        if (node) {
            make_node(node);
        }
    }
}

struct mode {
    size_t memory;
    enum double_times times;
    bool ignore_types;
    int64_t tick_ns;
};

static const struct mode modes[] = {
    {64 << 20, DOUBLE_LOCAL, false, 0},
    {64 << 20, DOUBLE_LOCAL, false, 10000000},
    {64 << 20, DOUBLE_REMOTE, false, 10000000},
    {64 << 20, DOUBLE_COARSE, false, 1000000000000},
    {64 << 20, DOUBLE_LOCAL, true, 0},
    {8192, DOUBLE_LOCAL, false, 0}, /* a few directories fit */
    {1500, DOUBLE_COARSE, true, 0}, /* hardly one */
    {0, DOUBLE_LOCAL, false, 0},    /* none */
};

static void try_tree(const struct mode *mode)
{
    struct node *root = random_tree();
    make_node(root);
    struct rg_posix posix;
    double_open(&posix, directory, mode->memory, mode->times);
    atomic_store(&double_tick_ns, mode->tick_ns);
    if (mode->ignore_types) {
        rg_snapshots_ignore_types(rg_posix_listing_snapshots(posix.listing));
    }
    for (size_t round = 0; round < 4; round++) {
        struct texts keys = {.items = NULL};
        flatten(root, "", false, &keys);
        for (size_t i = 0; i < 8; i++) {
            struct query query;
            random_query(&keys, &query);
            compare_walk(&posix, &keys, query, chance(20) ? 1000 : below(6));
        }
        free_texts(&keys);
        change_tree(root);
    }
    atomic_store(&double_tick_ns, 0);
    double_close(&posix);
    free_node(root);
    clear_directory();
}

static void test_pages_equal_the_flat_model(void **unused)
{
    const char *cases = getenv("RAILGATE_TEST_CASES");
    const char *given = getenv("RAILGATE_TEST_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : rg_random_u64() >> 1;
    size_t count = cases ? strtoull(cases, NULL, 10) : 64;
    for (size_t i = 0; i < count; i++) {
        seed = first + i;
        state = seed * 0x9e3779b97f4a7c15 | 1;
        try_tree(&modes[seed % RG_ARRAY_LENGTH(modes)]);
    }
}

/* ---- Known cases ---- */

static void make_file(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_CREAT | O_WRONLY, 0644);
    assert_true(fd >= 0);
    close(fd);
}

static void make_directory(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    assert_int_equal(mkdir(path, 0755), 0);
}

/* The keys of one page, joined by spaces, "..." behind when more follow. */
static const char *page_text(struct rg_posix *posix, const char *prefix, const char *delimiter,
                             const char *after, size_t max)
{
    static char text[4096];
    struct query query = {.after_is_prefix = false};
    strcpy(query.prefix, prefix);
    strcpy(query.delimiter, delimiter);
    strcpy(query.after, after);
    struct rg_list_page page;
    struct rg_error err = RG_ERROR_INIT;
    if (ask(posix, &query, max, true, &page, &err) < 0) {
        snprintf(text, sizeof(text), "%s", rg_code_name(err.code));
        return text;
    }
    text[0] = '\0';
    for (size_t i = 0; i < page.count; i++) {
        strcat(strcat(text, i > 0 ? " " : ""), page.entries[i].key);
    }
    strcat(text, page.truncated ? "..." : "");
    rg_list_page_free(&page);
    return text;
}

static void test_known_trees(void **unused)
{
    make_directory("a");
    make_directory("empty");
    make_directory("nested");
    make_directory("nested/.sgwtmp");
    make_file("a-b");
    make_file("a.txt");
    make_file("a/x");
    make_file("a/y");
    make_file("a0");
    make_file("nested/.sgwtmp/z");
    make_file("nested/.railgate-tmp-1");
    struct rg_posix posix;
    double_open(&posix, directory, 1 << 20, DOUBLE_LOCAL);

    assert_string_equal(page_text(&posix, "", "", "", 100),
                        "a-b a.txt a/x a/y a0 nested/.sgwtmp/z");
    assert_string_equal(page_text(&posix, "", "/", "", 100), "a-b a.txt a/ a0 empty/ nested/");
    assert_string_equal(page_text(&posix, "", "/", "a/", 100), "a0 empty/ nested/");
    assert_string_equal(page_text(&posix, "", "/", "a/x", 100), "a0 empty/ nested/");
    assert_string_equal(page_text(&posix, "", "", "a/x", 100), "a/y a0 nested/.sgwtmp/z");
    assert_string_equal(page_text(&posix, "", "", "", 0), "");
    assert_string_equal(page_text(&posix, "", "", "", 3), "a-b a.txt a/x...");
    assert_string_equal(page_text(&posix, "a/", "", "", 2), "a/x a/y");
    assert_string_equal(page_text(&posix, "empty/", "", "", 2), "");
    assert_string_equal(page_text(&posix, "a", "/", "", 100), "a-b a.txt a/ a0");
    assert_string_equal(page_text(&posix, "", "-", "", 100),
                        "a- a.txt a/x a/y a0 nested/.sgwtmp/z");
    /* Prefixes that a kernel would tidy up, or that lead to what is hidden, are those of no key. */
    assert_string_equal(page_text(&posix, "a//", "", "", 100), "");
    assert_string_equal(page_text(&posix, "/", "", "", 100), "");
    assert_string_equal(page_text(&posix, "./", "", "", 100), "");
    assert_string_equal(page_text(&posix, "a/../", "", "", 100), "");
    assert_string_equal(page_text(&posix, "../", "", "", 100), "");
    assert_string_equal(page_text(&posix, "nested/.railgate-tmp", "", "", 100), "");
    assert_string_equal(page_text(&posix, "a.txt/", "", "", 100), "");
    assert_string_equal(page_text(&posix, "zz", "", "", 100), "");
    assert_string_equal(page_text(&posix, "a", "", "b", 100), "");

    double_close(&posix);
    clear_directory();
}

/* Deeper than descriptors are kept open, deeper than a key can be, and more than one page of it. */
static void test_deep_trees(void **unused)
{
    char cwd[4096];
    assert_non_null(getcwd(cwd, sizeof(cwd)));
    assert_int_equal(chdir(directory), 0);
    for (size_t depth = 0; depth < 530; depth++) {
        int fd = open("z", O_CREAT | O_WRONLY, 0644);
        assert_true(fd >= 0);
        close(fd);
        assert_int_equal(mkdir("a", 0755), 0);
        assert_int_equal(chdir("a"), 0);
    }
    assert_int_equal(chdir(cwd), 0);

    const size_t memory[] = {1 << 20, 0};
    for (size_t i = 0; i < 2; i++) {
        struct rg_posix posix;
        double_open(&posix, directory, memory[i], DOUBLE_COARSE);
        size_t keys = 0;
        struct query query = {.after_is_prefix = false};
        for (bool more = true; more;) {
            struct rg_list_page page;
            assert_int_equal(ask(&posix, &query, 100, false, &page, NULL), 0);
            for (size_t k = 0; k < page.count; k++, keys++) {
                /* The deepest first: "a/.../z" sorts before "z". */
                assert_int_equal(strlen(page.entries[k].key), 1023 - 2 * keys);
                strcpy(query.after, page.entries[k].key);
            }
            more = page.truncated;
            rg_list_page_free(&page);
        }
        assert_int_equal(keys, 512);
        struct rg_store_counters counters;
        rg_posix_listing_counters(posix.listing, &counters);
        assert_true(counters.listing_too_long > 0);
        double_close(&posix);
    }
    clear_directory();
}

/* ---- Caching ---- */

static struct rg_snapshots_counters counters_of(struct rg_posix *posix)
{
    struct rg_snapshots_counters counters;
    rg_snapshots_counters(rg_posix_listing_snapshots(posix->listing), &counters);
    return counters;
}

static void pause_ms(unsigned ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000L};
    nanosleep(&pause, NULL);
}

static void test_names_are_read_once(void **unused)
{
    make_file("one");
    pause_ms(50);
    struct rg_posix posix;
    double_open(&posix, directory, 1 << 20, DOUBLE_LOCAL);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(page_text(&posix, "", "", "", 10), "one");
    }
    assert_int_equal(counters_of(&posix).misses, 1);
    assert_int_equal(counters_of(&posix).hits, 4);
    make_file("two");
    assert_string_equal(page_text(&posix, "", "", "", 10), "one two");
    assert_int_equal(counters_of(&posix).misses, 2);
    double_close(&posix);

    /* By another machine's clock it takes a second look. */
    pause_ms(50);
    double_open(&posix, directory, 1 << 20, DOUBLE_REMOTE);
    assert_string_equal(page_text(&posix, "", "", "", 10), "one two");
    pause_ms(50);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(page_text(&posix, "", "", "", 10), "one two");
    }
    assert_int_equal(counters_of(&posix).misses, 2);
    assert_int_equal(counters_of(&posix).unchanged, 1);
    double_close(&posix);

    /* Where times are worth nothing, names are read each time, but sorted only when they differ. */
    atomic_store(&double_tick_ns, INT64_MAX);
    double_open(&posix, directory, 1 << 20, DOUBLE_COARSE);
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(page_text(&posix, "", "", "", 10), "one two");
    }
    assert_int_equal(counters_of(&posix).misses, 5);
    assert_int_equal(counters_of(&posix).unchanged, 4);
    make_file("three");
    assert_string_equal(page_text(&posix, "", "", "", 10), "one three two");
    double_close(&posix);
    atomic_store(&double_tick_ns, 0);
    clear_directory();
}

/* The hash of the names must tell small differences apart, among them a file and a directory whose
 * names differ in the same bits as their types. */
static void test_every_change_of_one_name_shows(void **unused)
{
    struct rg_posix posix;
    double_open(&posix, directory, 1 << 20, DOUBLE_COARSE);
    for (size_t from = 0; from < 24; from++) {
        for (size_t to = 0; to < 24; to++) {
            const size_t both[] = {from, to};
            for (size_t i = 0; i < 2; i++) {
                char path[512];
                char name[8] = {(char)('a' + both[i] / 3), both[i] % 3 == 2 ? '1' : '\0'};
                snprintf(path, sizeof(path), "%s/%s", directory, name);
                bool is_directory = both[i] % 3 == 1;
                if (is_directory) {
                    make_directory(name);
                } else {
                    make_file(name);
                }
                strcat(name, is_directory ? "/" : "");
                assert_string_equal(page_text(&posix, "", "/", "", 10), name);
                assert_int_equal(remove(path), 0);
            }
        }
    }
    double_close(&posix);
}

/*
 * The racily clean directory: a name added in the same tick in which the names were read leaves the
 * change time as it was. With times that move every 10 ms only, nearly every round hits that.
 */
static void test_changes_within_a_tick(void **unused)
{
    const enum double_times times[] = {DOUBLE_LOCAL, DOUBLE_REMOTE};
    for (size_t i = 0; i < 2; i++) {
        struct rg_posix posix;
        double_open(&posix, directory, 1 << 20, times[i]);
        atomic_store(&double_tick_ns, 10000000);
        for (size_t round = 0; round < 400; round++) {
            char path[512];
            snprintf(path, sizeof(path), "%s/key", directory);
            make_file("key");
            assert_string_equal(page_text(&posix, "", "", "", 10), "key");
            assert_int_equal(unlink(path), 0);
            assert_string_equal(page_text(&posix, "", "", "", 10), "");
            if (round % 16 == 0) {
                pause_ms(11);
                assert_string_equal(page_text(&posix, "", "", "", 10), "");
            }
        }
        atomic_store(&double_tick_ns, 0);
        double_close(&posix);
    }
}

static void test_memory_stays_below_the_ceiling(void **unused)
{
    for (size_t i = 0; i < 50; i++) {
        char name[300];
        snprintf(name, sizeof(name), "d%02zu", i);
        make_directory(name);
        for (size_t k = 0; k < 40; k++) {
            snprintf(name, sizeof(name), "d%02zu/%0150zu", i, k);
            make_file(name);
        }
    }
    /* One directory is about 6 KiB kept, 9 KiB while it is sorted. */
    const size_t ceilings[] = {1000, 5000, 20000, 60000};
    for (size_t i = 0; i < 4; i++) {
        struct rg_posix posix;
        double_open(&posix, directory, ceilings[i], DOUBLE_LOCAL);
        for (size_t pass = 0; pass < 3; pass++) {
            struct query query = {.after_is_prefix = false};
            size_t keys = 0;
            for (bool more = true; more;) {
                struct rg_list_page page;
                assert_int_equal(ask(&posix, &query, 77, false, &page, NULL), 0);
                keys += page.count;
                strcpy(query.after, page.entries[page.count - 1].key);
                more = page.truncated;
                rg_list_page_free(&page);
                assert_true(counters_of(&posix).bytes <= ceilings[i]);
            }
            assert_int_equal(keys, 2000);
        }
        struct rg_snapshots_counters counters = counters_of(&posix);
        assert_int_equal(counters.partials > 0, ceilings[i] < 20000);
        assert_true(ceilings[i] < 20000 || counters.evictions > 0);
        double_close(&posix);
    }
    clear_directory();
}

/* ---- Changes under a walk ---- */

#define STABLE 60

static _Atomic bool stop;
static _Atomic bool spoiled;

static void *change_names(void *posix)
{
    unsigned dice = 12345;
    while (!atomic_load(&stop)) {
        dice = dice * 1103515245 + 12345;
        unsigned which = (dice >> 16) & 31;
        char from[512];
        char to[512];
        snprintf(from, sizeof(from), "%s/d%u/moving-%u", directory, which & 3, which);
        snprintf(to, sizeof(to), "%s/d%u/moving-%u", directory, (which + 1) & 3, which);
        int fd = open(from, O_CREAT | O_WRONLY, 0644);
        if (fd >= 0) {
            close(fd);
        }
        (void)!rename(from, to);
        if (which & 4) {
            (void)!unlink(to);
        }
        snprintf(from, sizeof(from), "%s/d%u/dir", directory, which & 3);
        if (mkdir(from, 0755) < 0) {
            rmdir(from);
        }
    }
    return NULL;
}

/* One complete listing: strictly ascending, and no stable key missing. */
static bool list_completely(struct rg_posix *posix, size_t max)
{
    struct query query = {.after_is_prefix = false};
    size_t stable = 0;
    for (bool more = true; more;) {
        struct rg_list_page page;
        if (ask(posix, &query, max, true, &page, NULL) < 0) {
            return false;
        }
        for (size_t i = 0; i < page.count; i++) {
            bool ascending = strcmp(page.entries[i].key, query.after) > 0;
            if (!ascending) {
                rg_list_page_free(&page);
                return false;
            }
            strcpy(query.after, page.entries[i].key);
            stable += strstr(page.entries[i].key, "stable") != NULL;
        }
        more = page.truncated;
        rg_list_page_free(&page);
    }
    return stable == STABLE;
}

static void *list_again_and_again(void *posix)
{
    for (size_t i = 0; !atomic_load(&stop); i++) {
        if (!list_completely(posix, 3 + i % 20)) {
            atomic_store(&spoiled, true);
        }
    }
    return NULL;
}

static void test_changes_during_a_walk(void **unused)
{
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof(name), "d%zu", i);
        make_directory(name);
        for (size_t k = i; k < STABLE; k += 4) {
            snprintf(name, sizeof(name), "d%zu/%zustable", i, k);
            make_file(name);
        }
    }
    const struct mode tried[] = {
        {1 << 20, DOUBLE_LOCAL, false, 10000000},
        {1 << 20, DOUBLE_COARSE, true, 0},
        {6000, DOUBLE_LOCAL, false, 0},
        {0, DOUBLE_COARSE, false, 0},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(tried); i++) {
        struct rg_posix posix;
        double_open(&posix, directory, tried[i].memory, tried[i].times);
        atomic_store(&double_tick_ns, tried[i].tick_ns);
        if (tried[i].ignore_types) {
            rg_snapshots_ignore_types(rg_posix_listing_snapshots(posix.listing));
        }
        atomic_store(&stop, false);
        pthread_t threads[4];
        assert_int_equal(pthread_create(&threads[0], NULL, change_names, NULL), 0);
        for (size_t k = 1; k < 4; k++) {
            assert_int_equal(pthread_create(&threads[k], NULL, list_again_and_again, &posix), 0);
        }
        pause_ms(400);
        atomic_store(&stop, true);
        for (size_t k = 0; k < 4; k++) {
            assert_int_equal(pthread_join(threads[k], NULL), 0);
        }
        assert_false(atomic_load(&spoiled));
        assert_true(list_completely(&posix, 7));
        atomic_store(&double_tick_ns, 0);
        double_close(&posix);
    }
    clear_directory();
}

/* ---- Failures ---- */

static size_t open_descriptors(void)
{
    rg_autoclosedir DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    size_t count = 0;
    while (readdir(dir)) {
        count++;
    }
    return count;
}

static void test_each_allocation_may_fail(void **unused)
{
    make_directory("a");
    make_directory("a/b");
    make_file("a/b/x-1");
    make_file("a/b/x-2");
    make_file("c");
    const struct query queries[] = {
        {.delimiter = ""}, {.delimiter = "/", .prefix = "a/"}, {.delimiter = "-", .after = "a"}};
    const size_t counts[] = {3, 1, 2};
    const size_t memory[] = {1 << 20, 0};
    size_t descriptors = open_descriptors();
    for (size_t i = 0; i < 6; i++) {
        bool failed = true;
        for (long nth = 1; failed; nth++) {
            struct rg_posix posix;
            double_open(&posix, directory, memory[i & 1], DOUBLE_LOCAL);
            struct rg_list_page page;
            struct rg_error err = RG_ERROR_INIT;
            atomic_store(&double_failing_allocation, nth);
            int rc = ask(&posix, &queries[i / 2], 10, true, &page, &err);
            failed = atomic_exchange(&double_failing_allocation, 0) <= 0;
            assert_true(rc == 0 || rc == -RG_OUT_OF_MEMORY);
            if (rc == 0) {
                assert_int_equal(page.count, counts[i / 2]);
                assert_false(page.truncated);
                rg_list_page_free(&page);
            }
            assert_true(nth < 1000);
            double_close(&posix);
        }
    }
    assert_int_equal(open_descriptors(), descriptors);
    clear_directory();
}

static void test_unreadable_directories_fail(void **unused)
{
    if (geteuid() == 0 && seteuid(65534) < 0) {
        skip();
    }
    bool was_root = getuid() == 0;
    if (was_root) {
        assert_int_equal(seteuid(0), 0);
    }
    make_directory("closed");
    make_file("closed/x");
    char path[512];
    snprintf(path, sizeof(path), "%s/closed", directory);
    assert_int_equal(chmod(path, 0), 0);
    struct rg_posix posix;
    double_open(&posix, directory, 1 << 20, DOUBLE_LOCAL);
    assert_int_equal(chmod(directory, 0755), 0);
    if (was_root) {
        assert_int_equal(seteuid(65534), 0);
    }
    assert_string_equal(page_text(&posix, "", "", "", 10), "ACCESS_DENIED");
    assert_string_equal(page_text(&posix, "", "/", "", 10), "closed/");
    if (was_root) {
        assert_int_equal(seteuid(0), 0);
    }
    assert_int_equal(chmod(path, 0755), 0);
    double_close(&posix);
    clear_directory();
}

/* Also what a failed test left behind. */
static int clear(void **unused)
{
    atomic_store(&double_tick_ns, 0);
    atomic_store(&double_failing_allocation, 0);
    clear_directory();
    return 0;
}

static int set_up(void **unused)
{
    const char *base = getenv("TMPDIR");
    snprintf(directory, sizeof(directory), "%s/railgate-list-XXXXXX", base ? base : "/tmp");
    return mkdtemp(directory) ? 0 : -1;
}

static int tear_down(void **unused)
{
    clear_directory();
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_known_trees, clear),
        cmocka_unit_test_teardown(test_pages_equal_the_flat_model, clear),
        cmocka_unit_test_teardown(test_deep_trees, clear),
        cmocka_unit_test_teardown(test_names_are_read_once, clear),
        cmocka_unit_test_teardown(test_every_change_of_one_name_shows, clear),
        cmocka_unit_test_teardown(test_changes_within_a_tick, clear),
        cmocka_unit_test_teardown(test_memory_stays_below_the_ceiling, clear),
        cmocka_unit_test_teardown(test_changes_during_a_walk, clear),
        cmocka_unit_test_teardown(test_each_allocation_may_fail, clear),
        cmocka_unit_test_teardown(test_unreadable_directories_fail, clear),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
