/*
 * Finding, ordering and opening inputs. Everything that can be read becomes a struct rg_stream;
 * its first bytes decide whether it is an archive, a log, or neither.
 */
#include "diag/source.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/checked.h"
#include "base/clock.h"

#include "diag/content.h"
#include "diag/live.h"
#include "diag/paths.h"
#include "diag/utf16.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define HEAD_BYTES     4096
#define DEPTH_MAX      3 /* archives in archives */
#define WALK_DEPTH_MAX 32
#define PATH_BYTES_MAX 4096
#define ARCHIVE_BLOCK  (64 << 10)
#define LIVE_TIMEOUT_S 60
#define PROGRESS_BYTES (8 << 20)

enum item_kind { ITEM_FILE, ITEM_STDIN, ITEM_RING, ITEM_JOURNAL };

struct item {
    enum item_kind kind;
    char *path;
    bool named;      /* by the user; else found in a directory */
    rg_node_id node; /* by a sos tree; 0: by the path */
    uint32_t family;
    uint32_t order;    /* of the family */
    uint32_t sequence; /* of adding */
    int64_t rank;
};

struct rg_inputs {
    struct rg_desk *desk;
    struct rg_inputs_options options;
    rg_node_id node; /* --node */
    struct item *items;
    size_t count;
    size_t room;
    struct rg_interned *families;
    struct rg_lines *lines[DEPTH_MAX + 1];
    struct rg_problem problems[RG_PROBLEMS_MAX];
    size_t problem_count;
    uint64_t problems_left_out;
    bool unreadable;
    bool broke_off; /* the member read last: its archive is broken, which was noted */
    uint64_t read_count;
    uint64_t done;
    uint64_t reported;
    uint64_t total;
};

/* ---- Problems ---- */

static void free_problem(struct rg_problem *problem)
{
    free(problem->source);
    free(problem->sentence[RG_ENGLISH]);
    free(problem->sentence[RG_KOREAN]);
}

static void note_problem(struct rg_inputs *inputs, enum rg_problem_kind kind, const char *source,
                         const char *english, const char *korean)
{
    inputs->unreadable = inputs->unreadable || kind == RG_PROBLEM_UNREADABLE;
    if (inputs->problem_count == RG_PROBLEMS_MAX) {
        inputs->problems_left_out++;
        return;
    }
    struct rg_problem problem = {
        .kind = kind, .source = strdup(source), .sentence = {strdup(english), strdup(korean)}};
    if (!problem.source || !problem.sentence[RG_ENGLISH] || !problem.sentence[RG_KOREAN]) {
        free_problem(&problem);
        inputs->problems_left_out++;
        return;
    }
    inputs->problems[inputs->problem_count++] = problem;
}

/* What the system or a library said of a failure, in its own words. */
static void note_failure(struct rg_inputs *inputs, enum rg_problem_kind kind, const char *source,
                         const char *message)
{
    RG_BUF(korean, 1024);
    rg_buf_addf(&korean, "읽을 수 없음(%s)", message);
    note_problem(inputs, kind, source, message, rg_buf_text(&korean));
}

const struct rg_problem *rg_inputs_problems(const struct rg_inputs *inputs, size_t *ret_count,
                                            uint64_t *ret_left_out)
{
    *ret_count = inputs->problem_count;
    *ret_left_out = inputs->problems_left_out;
    return inputs->problems;
}

bool rg_inputs_unreadable(const struct rg_inputs *inputs)
{
    return inputs->unreadable;
}

uint64_t rg_inputs_read_count(const struct rg_inputs *inputs)
{
    return inputs->read_count;
}

/* ---- Making and freeing ---- */

void rg_inputs_free(struct rg_inputs *inputs)
{
    if (!inputs) {
        return;
    }
    for (size_t i = 0; i < inputs->count; i++) {
        free(inputs->items[i].path);
    }
    for (size_t i = 0; i < inputs->problem_count; i++) {
        free_problem(&inputs->problems[i]);
    }
    for (size_t i = 0; i <= DEPTH_MAX; i++) {
        rg_lines_free(inputs->lines[i]);
    }
    rg_interned_free(inputs->families);
    free(inputs->items);
    free(inputs);
}

int rg_inputs_new(struct rg_desk *desk, const struct rg_inputs_options *options,
                  struct rg_inputs **ret_inputs, struct rg_error *err)
{
    struct rg_inputs *inputs = calloc(1, sizeof(*inputs));
    if (!inputs) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    inputs->desk = desk;
    inputs->options = *options;
    int rc = rg_interned_new(RG_SOURCES_MAX, &inputs->families, err);
    if (rc < 0) {
        rg_inputs_free(inputs);
        return rc;
    }
    if (options->node) {
        inputs->node = rg_nodes_add(desk->nodes, rg_span_text(options->node));
    }
    *ret_inputs = inputs;
    return 0;
}

static uint32_t family_of(struct rg_inputs *inputs, struct span path, int64_t *ret_rank)
{
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    struct span directory = rg_span_head(path, slash ? (size_t)(slash - path.ptr) + 1 : 0);
    struct span stem = rg_rotation_of(rg_span_skip(path, directory.len), ret_rank);
    RG_BUF(key, PATH_BYTES_MAX);
    rg_buf_add_span(&key, directory);
    rg_buf_add_span(&key, stem);
    return rg_interned_add(inputs->families, rg_buf_span(&key));
}

/* ---- Collecting ---- */

static int add_item(struct rg_inputs *inputs, struct item item, struct rg_error *err)
{
    if (inputs->count >= RG_SOURCES_MAX) {
        return rg_failf(err, RG_LIMIT, "more than %d files", RG_SOURCES_MAX);
    }
    if (inputs->count == inputs->room) {
        size_t room = inputs->room == 0 ? 16 : inputs->room * 2;
        struct item *grown = realloc(inputs->items, room * sizeof(*grown));
        if (!grown) {
            return rg_fail(err, RG_OUT_OF_MEMORY);
        }
        inputs->items = grown;
        inputs->room = room;
    }
    item.sequence = (uint32_t)inputs->count;
    inputs->items[inputs->count++] = item;
    return 0;
}

static int add_file(struct rg_inputs *inputs, const char *path, bool named, rg_node_id node,
                    struct rg_error *err)
{
    int64_t rank = RG_RANK_BARE;
    uint32_t family = family_of(inputs, rg_span_text(path), &rank);
    rg_autofree char *copy = strdup(path);
    if (!copy) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    struct item item = {.kind = ITEM_FILE,
                        .path = copy,
                        .named = named,
                        .node = node,
                        .family = family,
                        .rank = rank};
    int rc = add_item(inputs, item, err);
    if (rc == 0) {
        (void)RG_TAKE(copy);
    }
    return rc;
}

/* The first line of the report's "hostname" file, or what its directory is called after. */
static rg_node_id node_of_sos_tree(struct rg_inputs *inputs, const char *root)
{
    RG_BUF(path, PATH_BYTES_MAX);
    rg_buf_addf(&path, "%s/sos_commands/host/hostname", root);
    rg_autoclose int fd = open(rg_buf_text(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        rg_buf_clear(&path);
        rg_buf_addf(&path, "%s/hostname", root);
        fd = open(rg_buf_text(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    char text[256];
    ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text));
    struct span name = rg_span(text, got > 0 ? (size_t)got : 0);
    ptrdiff_t end = rg_span_find(name, '\n');
    name = rg_span_trim(end < 0 ? name : rg_span_head(name, (size_t)end));
    if (!rg_shape_is_host(name)) {
        name = rg_node_name_from_path(rg_span_text(root));
    }
    return rg_nodes_add(inputs->desk->nodes, name);
}

struct tree {
    size_t root_len; /* of the sos report the walk is in; 0: in none */
    rg_node_id node;
};

static int walk(struct rg_inputs *inputs, const char *path, struct tree tree, int depth,
                struct rg_error *err);

static int compare_names(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static bool is_directory(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static int visit(struct rg_inputs *inputs, const char *path, const struct tree *tree, int depth,
                 struct rg_error *err)
{
    struct stat facts;
    if (lstat(path, &facts) < 0) {
        return 0; /* gone meanwhile */
    }
    if (S_ISDIR(facts.st_mode)) {
        return walk(inputs, path, *tree, depth + 1, err);
    }
    if (!S_ISREG(facts.st_mode) || facts.st_size == 0) {
        return 0;
    }
    if (tree->root_len > 0 && !rg_sos_is_log(rg_span_text(path + tree->root_len + 1))) {
        return 0;
    }
    return add_file(inputs, path, false, tree->node, err);
}

/* All regular files below a directory; symbolic links are not followed. */
static int walk(struct rg_inputs *inputs, const char *path, struct tree tree, int depth,
                struct rg_error *err)
{
    if (depth > WALK_DEPTH_MAX) {
        note_problem(inputs, RG_PROBLEM_SKIPPED, path, "too deep: not read",
                     "디렉터리가 너무 깊어 읽지 않음");
        return 0;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, is_visible, compare_names);
    if (count < 0) {
        note_failure(inputs, depth == 0 ? RG_PROBLEM_UNREADABLE : RG_PROBLEM_SKIPPED, path,
                     strerror(errno));
        return 0;
    }
    RG_BUF(child, PATH_BYTES_MAX);
    rg_buf_addf(&child, "%s/sos_commands", path);
    if (tree.root_len == 0 && rg_buf_ok(&child) && is_directory(rg_buf_text(&child))) {
        tree = (struct tree){.root_len = strlen(path), .node = node_of_sos_tree(inputs, path)};
    }
    int rc = 0;
    for (int i = 0; i < count; i++) {
        rg_buf_clear(&child);
        rg_buf_addf(&child, "%s/%s", path, entries[i]->d_name);
        if (rc == 0 && rg_buf_ok(&child)) {
            rc = visit(inputs, rg_buf_text(&child), &tree, depth, err);
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int rg_inputs_add(struct rg_inputs *inputs, const char *path, struct rg_error *err)
{
    if (strcmp(path, "-") == 0) {
        return add_item(inputs, (struct item){.kind = ITEM_STDIN, .named = true}, err);
    }
    if (!is_directory(path)) {
        return add_file(inputs, path, true, 0, err);
    }
    RG_BUF(clean, PATH_BYTES_MAX);
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    rg_buf_add(&clean, path, len);
    if (!rg_buf_ok(&clean)) {
        note_problem(inputs, RG_PROBLEM_UNREADABLE, path, "the name is too long", "이름이 너무 김");
        return 0;
    }
    size_t before = inputs->count;
    int rc = walk(inputs, rg_buf_text(&clean), (struct tree){0}, 0, err);
    if (rc == 0 && inputs->count == before && !inputs->unreadable) {
        note_problem(inputs, RG_PROBLEM_UNREADABLE, path, "no files in this directory",
                     "디렉터리에 파일이 없음");
    }
    return rc;
}

int rg_inputs_add_live(struct rg_inputs *inputs, struct rg_error *err)
{
    int rc = add_item(inputs, (struct item){.kind = ITEM_RING, .named = true}, err);
    return rc < 0 ? rc : add_item(inputs, (struct item){.kind = ITEM_JOURNAL, .named = true}, err);
}

/* ---- Streams ---- */

/* A descriptor, with its first bytes looked at before. */
struct tap {
    struct rg_inputs *inputs;
    struct rg_stream inner;
    bool counted; /* its bytes are progress */
    char head[HEAD_BYTES];
    size_t head_len;
    size_t head_at;
    uint64_t bytes;
};

static void progress(struct rg_inputs *inputs, uint64_t bytes)
{
    inputs->done += bytes;
    if (inputs->options.progress && inputs->done - inputs->reported >= PROGRESS_BYTES) {
        inputs->reported = inputs->done;
        inputs->options.progress(inputs->options.context, inputs->done, inputs->total);
    }
}

static ssize_t read_tap(void *context, char *bytes, size_t room, struct rg_error *err)
{
    struct tap *tap = context;
    if (tap->head_at < tap->head_len) {
        size_t len = RG_MIN(room, tap->head_len - tap->head_at);
        memcpy(bytes, tap->head + tap->head_at, len);
        tap->head_at += len;
        return (ssize_t)len;
    }
    ssize_t got = tap->inner.read(tap->inner.context, bytes, room, err);
    if (got > 0) {
        tap->bytes += (uint64_t)got;
        if (tap->counted) {
            progress(tap->inputs, (uint64_t)got);
        }
    }
    return got;
}

/* Reads the head. Negative when the first read fails. */
static int fill_head(struct tap *tap, struct rg_error *err)
{
    while (tap->head_len < HEAD_BYTES) {
        ssize_t got = tap->inner.read(tap->inner.context, tap->head + tap->head_len,
                                      HEAD_BYTES - tap->head_len, err);
        if (got < 0) {
            return tap->head_len == 0 ? (int)got : 0; /* else the next read fails again */
        }
        if (got == 0) {
            return 0;
        }
        tap->head_len += (size_t)got;
        tap->bytes += (uint64_t)got;
    }
    return 0;
}

static ssize_t read_descriptor(void *context, char *bytes, size_t room, struct rg_error *err)
{
    int fd = *(int *)context;
    for (;;) {
        ssize_t got = read(fd, bytes, room);
        if (got >= 0) {
            return got;
        }
        if (errno != EINTR) {
            return rg_fail_errno(err, RG_STORAGE_FAULT, errno, "cannot be read");
        }
    }
}

/* ---- Reading one stream ---- */

/* What is known of a stream before it is read. */
struct origin {
    const char *name; /* to show: "bundle.tar.gz:var/log/messages" */
    struct span path; /* the part that may name a node */
    bool named;
    rg_node_id node;
    uint32_t family;
    int64_t reference_usec;
    int depth;
};

static int read_stream(struct rg_inputs *inputs, struct tap *tap, const struct origin *origin);

static int64_t now_usec(void)
{
    struct timespec now = rg_clock_wall();
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static struct rg_lines *lines_at(struct rg_inputs *inputs, int depth,
                                 const struct rg_stream *stream)
{
    struct rg_lines **lines = &inputs->lines[depth];
    if (*lines) {
        rg_lines_restart(*lines, stream);
    } else if (rg_lines_new(stream, RG_LINE_BYTES_MAX, lines, NULL) < 0) {
        return NULL;
    }
    return *lines;
}

static rg_node_id node_of(struct rg_inputs *inputs, const struct origin *origin)
{
    if (origin->node != 0) {
        return origin->node;
    }
    if (inputs->node != 0) {
        return inputs->node;
    }
    return rg_nodes_add(inputs->desk->nodes, rg_node_name_from_path(origin->path));
}

/* `date` and `uptime` of a sos report: no log, but when it was taken. True: the stream was such. */
static bool read_collected(struct rg_inputs *inputs, struct tap *tap, const struct origin *origin)
{
    struct span path = rg_span_text(origin->name);
    const char *slash = path.len > 0 ? memrchr(path.ptr, '/', path.len) : NULL;
    struct span name = slash ? rg_span_skip(path, (size_t)(slash - path.ptr) + 1) : path;
    bool date = rg_span_starts(name, RG_SPAN_LITERAL("date"));
    if (!memmem(path.ptr, path.len, "sos_commands/", 13) ||
        (!date && !rg_span_is(name, "uptime")) || !inputs->desk->clocks) {
        return false;
    }
    struct rg_collected collected = {.has_local = false};
    struct span text = rg_span(tap->head, RG_MIN(tap->head_len, (size_t)512));
    if (date ? rg_collected_read_date(text, &collected)
             : rg_collected_read_uptime(text, &collected)) {
        rg_clocks_note_collected(inputs->desk->clocks, node_of(inputs, origin), &collected);
    }
    inputs->read_count++;
    return true;
}

static int read_log(struct rg_inputs *inputs, struct tap *tap, const struct origin *origin)
{
    if (read_collected(inputs, tap, origin)) {
        return 0;
    }
    struct rg_stream stream = {.read = read_tap, .context = tap};
    struct rg_lines *lines = lines_at(inputs, origin->depth, &stream);
    if (!lines) {
        return rg_fail(NULL, RG_OUT_OF_MEMORY);
    }
    struct rg_source_facts facts = {
        .source = rg_interned_add(inputs->desk->sources, rg_span_text(origin->name)),
        .family = origin->family,
        .node = node_of(inputs, origin),
        .reference_usec = origin->reference_usec,
    };
    struct rg_error err = RG_ERROR_INIT;
    inputs->read_count++;
    if (rg_reading_run(inputs->desk, &facts, lines, &err) < 0) {
        RG_BUF(sentence, 1024);
        RG_BUF(korean, 1024);
        rg_buf_addf(&sentence, "broke off: %s; what came before was read", err.message);
        rg_buf_addf(&korean, "중간에 끊김(%s), 그 앞부분은 읽음", err.message);
        note_problem(inputs, RG_PROBLEM_PARTIAL, origin->name, rg_buf_text(&sentence),
                     rg_buf_text(&korean));
        inputs->broke_off = true;
    }
    return 0;
}

/* Libarchive pulls from a stream through this. */
struct feed {
    struct rg_stream stream;
    struct rg_error error;
    char block[ARCHIVE_BLOCK];
};

static la_ssize_t read_feed(struct archive *archive, void *context, const void **ret_bytes)
{
    struct feed *feed = context;
    *ret_bytes = feed->block;
    ssize_t got =
        feed->stream.read(feed->stream.context, feed->block, sizeof(feed->block), &feed->error);
    if (got < 0) {
        archive_set_error(archive, EIO, "%s", feed->error.message);
    }
    return got;
}

static ssize_t read_member(void *context, char *bytes, size_t room, struct rg_error *err)
{
    struct archive *archive = context;
    la_ssize_t got = archive_read_data(archive, bytes, room);
    if (got < 0) {
        const char *reason = archive_error_string(archive);
        return rg_failf(err, RG_PARSE, "damaged or truncated archive (%s)",
                        reason ? reason : "unknown");
    }
    return (ssize_t)got;
}

static void free_archive(struct archive **archive)
{
    if (*archive) {
        archive_read_free(*archive);
    }
}

/* Where a member's path says that it is of a sos report, the path below the report's root. */
static bool find_sos_path(struct span path, struct span *ret_below)
{
    struct span rest = path;
    struct span root = rg_span_cut(&rest, '/');
    if (rest.ptr && (rg_span_starts(root, RG_SPAN_LITERAL("sosreport-")) ||
                     rg_span_starts(root, RG_SPAN_LITERAL("sos-")))) {
        *ret_below = rest;
        return true;
    }
    return false;
}

/* The one member of a file that is only compressed. */
static bool is_lone(struct archive *archive)
{
    return archive_format(archive) == ARCHIVE_FORMAT_RAW;
}

static int read_one_member(struct rg_inputs *inputs, struct archive *archive,
                           struct archive_entry *entry, const struct origin *outer)
{
    const char *path = archive_entry_pathname(entry);
    path = path ? path : "?";
    struct span below;
    if (!is_lone(archive) &&
        (archive_entry_filetype(entry) != AE_IFREG ||
         (find_sos_path(rg_span_text(path), &below) && !rg_sos_is_log(below)))) {
        return 0;
    }
    RG_BUF(name, PATH_BYTES_MAX);
    rg_buf_add_text(&name, outer->name);
    struct origin origin = *outer;
    origin.depth = outer->depth + 1;
    if (!is_lone(archive)) {
        int64_t rank;
        rg_buf_addf(&name, ":%s", path);
        origin.path = rg_span_text(path);
        origin.named = false;
        origin.family = family_of(inputs, rg_buf_span(&name), &rank);
        if (archive_entry_mtime_is_set(entry)) {
            origin.reference_usec = (int64_t)archive_entry_mtime(entry) * 1000000;
        }
    }
    origin.name = rg_buf_text(&name);
    rg_autofree struct tap *tap = calloc(1, sizeof(*tap));
    if (!tap) {
        return rg_fail(NULL, RG_OUT_OF_MEMORY);
    }
    tap->inputs = inputs;
    tap->inner = (struct rg_stream){.read = read_member, .context = archive};
    return read_stream(inputs, tap, &origin);
}

static struct archive *open_archive(struct feed *feed)
{
    struct archive *archive = archive_read_new();
    if (!archive) {
        return NULL;
    }
    archive_read_support_filter_all(archive);
    archive_read_support_format_tar(archive);
    archive_read_support_format_zip_streamable(archive);
    archive_read_support_format_cpio(archive);
    archive_read_support_format_empty(archive);
    archive_read_support_format_raw(archive);
    archive_read_open(archive, feed, NULL, read_feed, NULL); /* failures show at the first header */
    return archive;
}

static int read_members(struct rg_inputs *inputs, struct archive *archive,
                        const struct origin *origin)
{
    for (;;) {
        struct archive_entry *entry;
        int rc = archive_read_next_header(archive, &entry);
        if (rc == ARCHIVE_EOF) {
            return 0;
        }
        if (rc == ARCHIVE_RETRY) {
            continue;
        }
        if (rc < ARCHIVE_WARN && inputs->broke_off) {
            return 0;
        }
        if (rc < ARCHIVE_WARN) {
            RG_BUF(sentence, 1024);
            const char *reason = archive_error_string(archive);
            rg_buf_addf(&sentence, "damaged or truncated archive (%s); what came before was read",
                        reason ? reason : "unknown");
            RG_BUF(korean, 1024);
            rg_buf_addf(&korean, "손상되었거나 잘린 아카이브(%s), 그 앞부분은 읽음",
                        reason ? reason : "-");
            note_problem(inputs, RG_PROBLEM_PARTIAL, origin->name, rg_buf_text(&sentence),
                         rg_buf_text(&korean));
            return 0;
        }
        inputs->broke_off = false;
        rc = read_one_member(inputs, archive, entry, origin);
        if (rc < 0) {
            return rc;
        }
    }
}

static int read_archive(struct rg_inputs *inputs, struct tap *tap, const struct origin *origin)
{
    if (origin->depth >= DEPTH_MAX) {
        note_problem(inputs, RG_PROBLEM_SKIPPED, origin->name,
                     "an archive within too many archives: not read",
                     "아카이브가 너무 여러 겹이어서 읽지 않음");
        return 0;
    }
    rg_autofree struct feed *feed = calloc(1, sizeof(*feed));
    if (!feed) {
        return rg_fail(NULL, RG_OUT_OF_MEMORY);
    }
    feed->stream = (struct rg_stream){.read = read_tap, .context = tap};
    RG_CLEANUP(free_archive) struct archive *archive = open_archive(feed);
    if (!archive) {
        return rg_fail(NULL, RG_OUT_OF_MEMORY);
    }
    uint64_t before = inputs->read_count;
    int rc = read_members(inputs, archive, origin);
    if (rc == 0 && origin->named && inputs->read_count == before) {
        note_problem(inputs, RG_PROBLEM_UNREADABLE, origin->name,
                     "nothing in this archive could be read", "아카이브에서 아무것도 읽을 수 없음");
    }
    return rc;
}

static void note_binary(struct rg_inputs *inputs, const struct origin *origin,
                        enum rg_content content)
{
    bool debug_log = memmem(origin->name, strlen(origin->name), "lustre-log", 10) != NULL;
    const char *sentence = "not a text file: not read";
    const char *korean = "텍스트 파일이 아니어서 읽지 않음";
    if (content == RG_CONTENT_JOURNAL) {
        sentence = "a journal in its binary form: not read; give the output of "
                   "journalctl --file FILE -o export";
        korean = "이진 형식의 journal이어서 읽지 않음; "
                 "journalctl --file FILE -o export 의 출력을 제공하십시오";
    } else if (debug_log) {
        sentence = "a Lustre debug log in its binary form: not read; give the output of "
                   "lctl debug_file FILE";
        korean = "이진 형식의 Lustre debug log여서 읽지 않음; "
                 "lctl debug_file FILE 의 출력을 제공하십시오";
    }
    note_problem(inputs, origin->named ? RG_PROBLEM_UNREADABLE : RG_PROBLEM_SKIPPED, origin->name,
                 sentence, korean);
}

/* Read once more, as UTF-8. */
static int read_utf16(struct rg_inputs *inputs, struct tap *tap, const struct origin *origin)
{
    rg_autofree struct rg_utf16 *utf16 = calloc(1, sizeof(*utf16));
    rg_autofree struct tap *text = calloc(1, sizeof(*text));
    if (!utf16 || !text) {
        return rg_fail(NULL, RG_OUT_OF_MEMORY);
    }
    utf16->inner = (struct rg_stream){.read = read_tap, .context = tap};
    utf16->order = rg_utf16_order_of(rg_span(tap->head, tap->head_len));
    text->inputs = inputs;
    text->inner = rg_utf16_stream(utf16);
    return read_stream(inputs, text, origin);
}

static int read_stream(struct rg_inputs *inputs, struct tap *tap, const struct origin *origin)
{
    struct rg_error err = RG_ERROR_INIT;
    if (fill_head(tap, &err) < 0) {
        note_failure(inputs, origin->named ? RG_PROBLEM_UNREADABLE : RG_PROBLEM_PARTIAL,
                     origin->name, err.message);
        return 0;
    }
    enum rg_content content = rg_content_of(rg_span(tap->head, tap->head_len));
    switch (content) {
    case RG_CONTENT_ARCHIVE:
        return read_archive(inputs, tap, origin);
    case RG_CONTENT_LOG:
        return read_log(inputs, tap, origin);
    case RG_CONTENT_UTF16:
        return read_utf16(inputs, tap, origin);
    case RG_CONTENT_JOURNAL:
    case RG_CONTENT_BINARY:
        note_binary(inputs, origin, content);
        return 0;
    case RG_CONTENT_EMPTY:
        inputs->read_count++;
        return 0;
    }
    return 0;
}

/* ---- Reading items ---- */

static int read_descriptor_item(struct rg_inputs *inputs, const struct item *item, int fd)
{
    struct stat facts;
    bool regular = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode);
    const char *name = item->path ? item->path : "standard input";
    if (regular) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    rg_autofree struct tap *tap = calloc(1, sizeof(*tap));
    if (!tap) {
        return rg_fail(NULL, RG_OUT_OF_MEMORY);
    }
    tap->inputs = inputs;
    tap->inner = (struct rg_stream){.read = read_descriptor, .context = &fd};
    tap->counted = true;
    struct origin origin = {
        .name = name,
        .path = item->path ? rg_span_text(item->path) : RG_SPAN_EMPTY,
        .named = item->named,
        .node = item->node,
        .family = item->family,
        .reference_usec = regular ? (int64_t)facts.st_mtime * 1000000 : now_usec(),
    };
    return read_stream(inputs, tap, &origin);
}

static int read_file_item(struct rg_inputs *inputs, const struct item *item)
{
    rg_autoclose int fd = open(item->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        note_failure(inputs, item->named ? RG_PROBLEM_UNREADABLE : RG_PROBLEM_SKIPPED, item->path,
                     strerror(errno));
        return 0;
    }
    return read_descriptor_item(inputs, item, fd);
}

static int read_live_item(struct rg_inputs *inputs, const struct item *item)
{
    struct rg_error err = RG_ERROR_INIT;
    struct rg_live *live;
    bool ring = item->kind == ITEM_RING;
    const char *name = ring ? "kernel ring" : "journal";
    unsigned timeout_s = inputs->options.live_timeout_s;
    int rc = ring ? rg_live_open_ring(&live, &err)
                  : rg_live_open_journal(timeout_s ? timeout_s : LIVE_TIMEOUT_S, &live, &err);
    if (rc < 0) {
        /* Containers and minimal hosts have no journal; the ring is what --live promises. */
        note_failure(inputs, ring ? RG_PROBLEM_UNREADABLE : RG_PROBLEM_SKIPPED, name, err.message);
        return 0;
    }
    struct utsname host;
    struct rg_stream stream = rg_live_stream(live);
    struct tap tap = {.inputs = inputs, .inner = stream};
    struct origin origin = {
        .name = name,
        .path = RG_SPAN_EMPTY,
        .node =
            uname(&host) == 0 ? rg_nodes_add(inputs->desk->nodes, rg_span_text(host.nodename)) : 0,
        .family = rg_interned_add(inputs->families, rg_span_text(name)),
        .reference_usec = now_usec(),
    };
    /* No look ahead: /dev/kmsg refuses reads into small buffers. */
    rc = read_log(inputs, &tap, &origin);
    if (rg_live_close(live, &err) < 0) {
        note_failure(inputs, RG_PROBLEM_PARTIAL, name, err.message);
    }
    return rc;
}

static int read_item(struct rg_inputs *inputs, const struct item *item)
{
    switch (item->kind) {
    case ITEM_FILE:
        return read_file_item(inputs, item);
    case ITEM_STDIN:
        return read_descriptor_item(inputs, item, STDIN_FILENO);
    case ITEM_RING:
    case ITEM_JOURNAL:
        return read_live_item(inputs, item);
    }
    return 0;
}

/* By the name of the family, oldest first within one; then what has no name, as it was added. */
static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->order != y->order) {
        return x->order < y->order ? -1 : 1;
    }
    if (x->rank != y->rank) {
        return x->rank < y->rank ? -1 : 1;
    }
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

struct family {
    uint32_t id;
    const char *name;
};

static int compare_families(const void *a, const void *b)
{
    const struct family *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* The order in which files are named says nothing, and decides nothing. */
static int order_items(struct rg_inputs *inputs, struct rg_error *err)
{
    uint32_t count = rg_interned_count(inputs->families);
    rg_autofree struct family *families = calloc((size_t)count + 1, sizeof(*families));
    rg_autofree uint32_t *place = calloc((size_t)count + 1, sizeof(*place));
    if (!families || !place) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    for (uint32_t i = 0; i < count; i++) {
        families[i] = (struct family){i + 1, rg_interned_text(inputs->families, i + 1).ptr};
    }
    if (count > 0) {
        qsort(families, count, sizeof(*families), compare_families);
    }
    for (uint32_t i = 0; i < count; i++) {
        place[families[i].id] = i;
    }
    for (size_t i = 0; i < inputs->count; i++) {
        struct item *item = &inputs->items[i];
        item->order = item->family != 0 ? place[item->family] : count + item->sequence;
    }
    if (inputs->count > 0) {
        qsort(inputs->items, inputs->count, sizeof(*inputs->items), compare_items);
    }
    return 0;
}

static uint64_t total_bytes(const struct rg_inputs *inputs)
{
    uint64_t total = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        struct stat facts;
        const struct item *item = &inputs->items[i];
        if (item->kind == ITEM_FILE && stat(item->path, &facts) == 0 && S_ISREG(facts.st_mode)) {
            total += (uint64_t)facts.st_size;
        } else {
            return 0; /* a pipe: not known */
        }
    }
    return total;
}

int rg_inputs_read(struct rg_inputs *inputs, struct rg_error *err)
{
    int rc = order_items(inputs, err);
    inputs->total = total_bytes(inputs);
    for (size_t i = 0; rc == 0 && i < inputs->count; i++) {
        if (read_item(inputs, &inputs->items[i]) < 0) {
            rc = rg_fail(err, RG_OUT_OF_MEMORY);
        }
    }
    return rc;
}
