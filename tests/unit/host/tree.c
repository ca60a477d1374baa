#include "tree.h"

#include "test.h"

#include "base/attr.h"
#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 8192
#define AGAIN       "/.railgate/again"

enum kind { KIND_FILE, KIND_LINK, KIND_ERROR, KIND_DIRECTORY };

struct entry {
    char *path; /* absolute */
    char *text; /* content, target or errno's name */
    enum kind kind;
};

struct tree {
    struct entry entries[ENTRIES_MAX];
    size_t count;
    char prefix[512];
    struct rg_host_plan *plan;
};

/* ---- Lines ---- */

static struct entry *find(struct tree *tree, const char *path)
{
    for (size_t i = 0; i < tree->count; i++) {
        if (strcmp(tree->entries[i].path, path) == 0) {
            return &tree->entries[i];
        }
    }
    return NULL;
}

static void set(struct tree *tree, const char *path, enum kind kind, const char *text)
{
    struct entry *entry = find(tree, path);
    if (!entry) {
        assert_true(tree->count < ENTRIES_MAX);
        entry = &tree->entries[tree->count++];
        entry->path = strdup(path);
        entry->text = NULL;
    }
    free(entry->text);
    entry->text = strdup(text);
    entry->kind = kind;
}

static void take_away(struct tree *tree, const char *path)
{
    size_t len = strlen(path);
    size_t kept = 0;
    size_t before = tree->count;
    for (size_t i = 0; i < tree->count; i++) {
        struct entry *entry = &tree->entries[i];
        if (strncmp(entry->path, path, len) == 0 &&
            (entry->path[len] == 0 || entry->path[len] == '/')) {
            free(entry->path);
            free(entry->text);
        } else {
            tree->entries[kept++] = *entry;
        }
    }
    tree->count = kept;
    if (kept == before) {
        fail_msg("%s is not in the tree", path);
    }
}

/* "\n", "\t" and "\\". */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
}

static void take_plan(struct rg_host_plan *plan, const char *word, const char *value)
{
    if (strcmp(word, "profile") == 0) {
        assert_true(rg_profile_parse(value, &plan->profile));
    } else if (strcmp(word, "memory") == 0) {
        plan->pinned_bytes = strtoull(value, NULL, 10);
    } else if (strcmp(word, "unit") == 0) {
        snprintf(plan->unit, sizeof plan->unit, "%s", value);
    } else if (strcmp(word, "root") == 0) {
        snprintf(plan->root, sizeof plan->root, "%s", value);
    } else if (strcmp(word, "config") == 0) {
        snprintf(plan->config, sizeof plan->config, "%s", value);
    } else {
        fail_msg("@%s is not known", word);
    }
}

static void take_file(struct tree *tree, const char *name);

static void take_entry(struct tree *tree, char *line)
{
    char path[1024];
    char *gap = strchr(line, ' ');
    if (!gap) {
        fail_msg("not a line of a tree: %s", line);
        return;
    }
    *gap = 0;
    char *rest = gap + 1;
    snprintf(path, sizeof path, "%s%s%s", line[0] == '/' ? "" : tree->prefix,
             line[0] == '/' || strcmp(tree->prefix, "/") == 0 ? "" : "/", line);
    if (strncmp(rest, "->", 2) == 0) {
        set(tree, path, KIND_LINK, rest + 3);
    } else if (rest[0] == '=') {
        char *content = rest[1] ? rest + 2 : rest + 1;
        unescape(content);
        set(tree, path, KIND_FILE, content);
    } else if (rest[0] == '!') {
        set(tree, path, KIND_ERROR, rest + 1);
    } else if (strcmp(rest, "-") == 0) {
        take_away(tree, path);
    } else if (strcmp(rest, "/") == 0) {
        set(tree, path, KIND_DIRECTORY, "");
    } else {
        fail_msg("not a line of a tree: %s %s", line, rest);
    }
}

static void take_line(struct tree *tree, char *line)
{
    size_t len = strlen(line);
    if (len == 0 || line[0] == '#') {
        return;
    }
    if (strncmp(line, "include ", 8) == 0) {
        take_file(tree, line + 8);
    } else if (line[0] == '@') {
        char *gap = strchr(line, ' ');
        assert_non_null(gap);
        *gap = 0;
        take_plan(tree->plan, line + 1, gap + 1);
    } else if (line[0] == '[' && line[len - 1] == ']') {
        snprintf(tree->prefix, sizeof tree->prefix, "%.*s", (int)len - 2, line + 1);
    } else {
        take_entry(tree, line);
    }
}

static void take_lines(struct tree *tree, const char *text)
{
    struct span rest = rg_span_text(text);
    snprintf(tree->prefix, sizeof tree->prefix, "/");
    while (rest.ptr) {
        rg_autofree char *line = rg_span_dup(rg_span_cut(&rest, '\n'));
        take_line(tree, line);
    }
}

static void take_file(struct tree *tree, const char *name)
{
    char path[1024];
    RG_BUF(text, 1 << 20);
    const char *directory = getenv("RG_HOST_TREES");
    snprintf(path, sizeof path, "%s/%s", directory ? directory : "tests/host", name);
    rg_autofclose FILE *file = fopen(path, "re");
    if (!file) {
        fail_msg("%s: %s", path, strerror(errno));
        return;
    }
    for (int c; (c = fgetc(file)) != EOF;) {
        rg_buf_add_char(&text, (char)c);
    }
    take_lines(tree, rg_buf_text(&text));
}

/* ---- The second reading ---- */

static bool is_counter(const char *path)
{
    return strncmp(path, AGAIN, strlen(AGAIN)) != 0 &&
           (strstr(path, "/counters/") || strstr(path, "/hw_counters/") ||
            strstr(path, "/carrier_changes") || strstr(path, "/ioctl/ethtool-stats/"));
}

static void repeat_counters(struct tree *tree)
{
    size_t count = tree->count;
    for (size_t i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, AGAIN "%s", tree->entries[i].path);
        if (is_counter(tree->entries[i].path) && !find(tree, path)) {
            set(tree, path, tree->entries[i].kind, tree->entries[i].text);
        }
    }
}

/* ---- Writing ---- */

static int number_of(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {{"EPERM", EPERM},          {"ENOENT", ENOENT}, {"EIO", EIO},
                 {"EACCES", EACCES},        {"EINVAL", EINVAL}, {"ETIMEDOUT", ETIMEDOUT},
                 {"EOPNOTSUPP", EOPNOTSUPP}};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(known); i++) {
        if (strcmp(name, known[i].name) == 0) {
            return known[i].number;
        }
    }
    fail_msg("errno %s is not known", name);
    return 0;
}

static void make_directories(const char *root, const char *path)
{
    char whole[2048];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(whole, sizeof whole, "%s%.*s", root, (int)(slash - path), path);
        if (mkdir(whole, 0755) < 0 && errno != EEXIST) {
            fail_msg("%s: %s", whole, strerror(errno));
        }
    }
}

static void write_file(const char *path, const char *text, const char *mode)
{
    rg_autofclose FILE *file = fopen(path, mode);
    if (!file) {
        fail_msg("%s: %s", path, strerror(errno));
        return;
    }
    fprintf(file, "%s\n", text);
}

static void write_entry(const char *root, const struct entry *entry)
{
    char path[2048];
    snprintf(path, sizeof path, "%s%s", root, entry->path);
    make_directories(root, entry->path);
    if (entry->kind == KIND_DIRECTORY) {
        assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
    } else if (entry->kind == KIND_LINK) {
        if (symlink(entry->text, path) < 0) {
            fail_msg("%s: %s", path, strerror(errno));
        }
    } else if (entry->kind == KIND_FILE) {
        write_file(path, entry->text, "we");
    } else {
        char line[1024];
        char errors[2048];
        /* It stands in its directory all the same. */
        if (!strstr(entry->path, "/.railgate/")) {
            write_file(path, "", "we");
        }
        snprintf(line, sizeof line, "%d %s", number_of(entry->text), entry->path);
        snprintf(errors, sizeof errors, "%s/.railgate/errors", root);
        make_directories(root, "/.railgate/errors");
        write_file(errors, line, "ae");
    }
}

static bool starts_link(const struct tree *tree, size_t i)
{
    return tree->entries[i].kind == KIND_LINK;
}

char *tree_make(const char *name, const char *changes, struct rg_host_plan *ret_plan)
{
    char file[256];
    struct tree *tree = calloc(1, sizeof *tree);
    char *root = NULL;
    const char *temporary = getenv("TMPDIR");
    assert_non_null(tree);
    assert_true(asprintf(&root, "%s/rg-host-XXXXXX", temporary ? temporary : "/tmp") > 0);
    assert_non_null(mkdtemp(root));
    rg_host_plan_init(ret_plan);
    tree->plan = ret_plan;
    snprintf(file, sizeof file, "%s.tree", name);
    take_file(tree, file);
    take_lines(tree, changes ? changes : "");
    repeat_counters(tree);
    /* Links last: nothing is written through them. */
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < tree->count; i++) {
            if (starts_link(tree, i) == (pass == 1)) {
                write_entry(root, &tree->entries[i]);
            }
        }
    }
    for (size_t i = 0; i < tree->count; i++) {
        free(tree->entries[i].path);
        free(tree->entries[i].text);
    }
    free(tree);
    return root;
}

/* ---- Spoiling ---- */

static unsigned spoil_state;

static unsigned next_random(void)
{
    spoil_state = spoil_state * 1103515245u + 12345u;
    return spoil_state >> 16;
}

static void write_rubbish(const char *path)
{
    static const char *const rubbish[] = {
        "",
        "-9223372036854775809\n",
        "18446744073709551615\n",
        "4294967295",
        "{\"known\": 1}",
        "[]",
        "[[[[[[[[[[[[[[[[[[",
        "{\"known\": true, \"pfc\": 1e99, \"dscp\": []}",
        "\xff\xfe\xfd",
        "0x",
        "{\"libraries\": {}, \"devices\": [{\"name\": 3, \"ports\": {}}, null, \"x\"]}",
        " \n \n",
        "{\"pause\": 3, \"flags\": {\"fw-lldp-agent\": {}}}",
        "%s%n%s%n",
        "../../../../etc/passwd"};
    unsigned which = next_random() % (RG_ARRAY_LENGTH(rubbish) + 2);
    rg_autofclose FILE *file = fopen(path, "we");
    assert_non_null(file);
    if (which < RG_ARRAY_LENGTH(rubbish)) {
        fputs(rubbish[which], file);
        return;
    }
    for (unsigned i = 0; i < 70000; i++) {
        fputc(which == RG_ARRAY_LENGTH(rubbish) ? '7' : (int)(next_random() & 255), file);
    }
}

static int spoil_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st;
    (void)walk;
    if (type == FTW_F && next_random() % 2) {
        write_rubbish(path);
    }
    return 0;
}

void tree_spoil(const char *directory, unsigned seed)
{
    spoil_state = seed;
    assert_int_equal(nftw(directory, spoil_one, 16, FTW_PHYS), 0);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *walk)
{
    (void)st;
    (void)type;
    (void)walk;
    return remove(path);
}

void tree_remove(char *directory)
{
    assert_int_equal(nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
    free(directory);
}

struct rg_host_facts *tree_read(const char *name, const char *changes)
{
    struct rg_host_plan plan;
    struct rg_error err = RG_ERROR_INIT;
    RG_CLEANUP(rg_source_cleanup) struct rg_source *source = NULL;
    struct rg_host_facts *facts = NULL;
    char *directory = tree_make(name, changes, &plan);
    if (rg_source_open(directory, &source, &err) < 0 ||
        rg_host_read(source, &plan, &facts, &err) < 0) {
        fail_msg("%s: %s", name, err.message);
    }
    tree_remove(directory);
    return facts;
}
