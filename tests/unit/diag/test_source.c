/*
 * Files, directories, archives, sos reports, rotated files; and that what cannot be read is said
 * and keeps nothing else from being read.
 */
#include "test.h"

#include "collect.h"
#include "diag/paths.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/railgate-source-XXXXXX";

static int make_root(void **state)
{
    return mkdtemp(root) ? 0 : -1;
}

static void remove_tree(const char *path)
{
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory))) {
        char child[4096];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
        if (unlink(child) < 0) {
            remove_tree(child);
        }
    }
    if (directory) {
        closedir(directory);
    }
    rmdir(path);
}

static int remove_root(void **state)
{
    remove_tree(root);
    return 0;
}

static const char *in_root(const char *name)
{
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

static void make_parents(const char *path)
{
    char copy[4096];
    snprintf(copy, sizeof(copy), "%s", path);
    for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(copy, 0755);
        *slash = '/';
    }
}

static const char *write_bytes(const char *name, const void *bytes, size_t len)
{
    const char *path = in_root(name);
    make_parents(path);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char *write_file(const char *name, const char *text)
{
    return write_bytes(name, text, strlen(text));
}

/* ---- Archives ---- */

struct member {
    const char *path;
    struct span bytes;
};

enum packing { PACK_TAR, PACK_ZIP, PACK_RAW };

static size_t pack(enum packing packing, int filter, const struct member *members, size_t count,
                   char *bytes, size_t room)
{
    struct archive *archive = archive_write_new();
    size_t used = 0;
    if (packing == PACK_TAR) {
        archive_write_set_format_pax_restricted(archive);
    } else if (packing == PACK_ZIP) {
        archive_write_set_format_zip(archive);
    } else {
        archive_write_set_format_raw(archive);
    }
    assert_int_equal(archive_write_add_filter(archive, filter), ARCHIVE_OK);
    assert_int_equal(archive_write_open_memory(archive, bytes, room, &used), ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *entry = archive_entry_new();
        archive_entry_set_pathname(entry, members[i].path);
        archive_entry_set_size(entry, (la_int64_t)members[i].bytes.len);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_mtime(entry, 1795978800, 0);
        assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
        assert_int_equal(archive_write_data(archive, members[i].bytes.ptr, members[i].bytes.len),
                         members[i].bytes.len);
        archive_entry_free(entry);
    }
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    return used;
}

static char packed[4 << 20];

/* ---- Running ---- */

struct run {
    struct collector *all;
    struct rg_inputs *inputs;
};

static struct run begin(const char *node)
{
    struct run run = {.all = collector_new()};
    struct rg_inputs_options options = {.node = node};
    assert_int_equal(rg_inputs_new(&run.all->desk, &options, &run.inputs, NULL), 0);
    return run;
}

static void add(struct run *run, const char *path)
{
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_inputs_add(run->inputs, path, &err), 0);
}

static void read_all(struct run *run)
{
    struct rg_error err = RG_ERROR_INIT;
    assert_int_equal(rg_inputs_read(run->inputs, &err), 0);
}

static void end(struct run *run)
{
    rg_inputs_free(run->inputs);
    collector_free(run->all);
}

static size_t problem_count(const struct run *run)
{
    size_t count;
    uint64_t left_out;
    rg_inputs_problems(run->inputs, &count, &left_out);
    assert_int_equal(left_out, 0);
    return count;
}

static const struct rg_problem *problem(const struct run *run, size_t i)
{
    size_t count;
    uint64_t left_out;
    const struct rg_problem *problems = rg_inputs_problems(run->inputs, &count, &left_out);
    assert_true(i < count);
    return &problems[i];
}

static const char *source_of(const struct run *run, size_t i)
{
    return rg_interned_text(run->all->desk.sources, run->all->items[i].record.source).ptr;
}

/* ---- Tests ---- */

static void a_file(void **state)
{
    const char *path = write_file("one/gpu01.log", "[    1.000000] text\n");
    struct run run = begin(NULL);
    add(&run, path);
    read_all(&run);
    assert_int_equal(run.all->count, 1);
    assert_node(run.all, 0, "gpu01");
    assert_string_equal(source_of(&run, 0), path);
    assert_int_equal(problem_count(&run), 0);
    assert_false(rg_inputs_unreadable(run.inputs));
    end(&run);
}

static void a_node_that_is_given(void **state)
{
    const char *path = write_file("two/gpu01.log", "[    1.000000] text\n"
                                                   "Nov 29 14:30:11 oss1 kernel: text\n");
    struct run run = begin("gpu99");
    add(&run, path);
    read_all(&run);
    assert_node(run.all, 0, "gpu99");
    assert_node(run.all, 1, "oss1");
    end(&run);
}

static void a_directory_with_rotated_files(void **state)
{
    write_file("rot/messages", "Nov 29 14:30:11 oss1 kernel: d\n");
    write_file("rot/messages-20261115", "Nov 14 14:30:11 oss1 kernel: b\n");
    write_file("rot/messages-20261101", "Oct 29 14:30:11 oss1 kernel: a\n");
    write_file("rot/messages-20261122", "Nov 21 14:30:11 oss1 kernel: c\n");
    write_file("rot/sub/kern.log", "Nov 29 14:30:11 oss1 kernel: g\n");
    write_file("rot/sub/kern.log.1", "Nov 28 14:30:11 oss1 kernel: f\n");
    write_file("rot/sub/kern.log.10", "Nov 1 14:30:11 oss1 kernel: e\n");
    write_file("rot/.hidden", "Nov 29 14:30:11 oss1 kernel: x\n");
    struct run run = begin(NULL);
    add(&run, in_root("rot/"));
    read_all(&run);
    assert_int_equal(run.all->count, 7);
    for (size_t i = 0; i < 7; i++) {
        char letter[2] = {(char)('a' + i), '\0'};
        assert_text(run.all, i, letter);
    }
    end(&run);
}

static void rotated_files_by_name(void **state)
{
    /* As a shell's glob orders them. */
    struct run run = begin(NULL);
    add(&run, in_root("rot/messages"));
    add(&run, in_root("rot/sub/kern.log"));
    add(&run, in_root("rot/messages-20261101"));
    read_all(&run);
    assert_text(run.all, 0, "a");
    assert_text(run.all, 1, "d");
    assert_text(run.all, 2, "g");
    end(&run);
}

static void files_in_the_order_of_their_names(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct run run = begin(NULL);
        add(&run, in_root(i ? "rot/messages" : "rot/sub/kern.log"));
        add(&run, in_root(i ? "rot/sub/kern.log" : "rot/messages"));
        read_all(&run);
        assert_text(run.all, 0, "d");
        assert_text(run.all, 1, "g");
        end(&run);
    }
}

static void rotation_is(const char *name, const char *stem, int64_t *rank)
{
    struct span found = rg_rotation_of(rg_span_text(name), rank);
    assert_true(rg_span_is(found, stem));
}

static void ranks_of_rotation(void **state)
{
    int64_t bare, one, two, old, dated, later;
    rotation_is("messages", "messages", &bare);
    rotation_is("messages.1", "messages", &one);
    rotation_is("messages.2.gz", "messages", &two);
    rotation_is("messages.old", "messages", &old);
    rotation_is("messages-20261101.xz", "messages", &dated);
    rotation_is("messages-2026-11-02", "messages", &later);
    assert_true(dated < later && later < two && two < one && one < bare && old < bare);
    rotation_is("dmesg.gpu01", "dmesg.gpu01", &bare);
    rotation_is("gpu-20269999", "gpu-20269999", &bare);
    rotation_is("", "", &bare);
    rotation_is(".1", ".1", &bare);
}

static void compressed_files(void **state)
{
    static const int filters[] = {ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_BZIP2,
                                  ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_LZ4};
    struct member member = {"x", rg_span_text("[    1.000000] text\n[    2.000000] more\n")};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(filters); i++) {
        size_t len = pack(PACK_RAW, filters[i], &member, 1, packed, sizeof(packed));
        struct run run = begin(NULL);
        add(&run, write_bytes("packed/gpu01.dmesg.gz", packed, len));
        read_all(&run);
        assert_int_equal(run.all->count, 2);
        assert_node(run.all, 0, "gpu01");
        assert_int_equal(problem_count(&run), 0);
        end(&run);
    }
}

static void archives_and_archives_in_them(void **state)
{
    struct member raw = {"x", rg_span_text("Nov 20 14:30:11 oss1 kernel: deep\n")};
    static char inner[65536];
    size_t inner_len = pack(PACK_RAW, ARCHIVE_FILTER_GZIP, &raw, 1, inner, sizeof(inner));
    struct member members[] = {
        {"logs/gpu01/dmesg", rg_span_text("[    1.000000] one\n")},
        {"logs/gpu02.log", rg_span_text("[    1.000000] two\n")},
        {"logs/messages.1.gz", rg_span(inner, inner_len)},
    };
    for (enum packing packing = PACK_TAR; packing <= PACK_ZIP; packing++) {
        int filter = packing == PACK_TAR ? ARCHIVE_FILTER_XZ : ARCHIVE_FILTER_NONE;
        size_t len = pack(packing, filter, members, 3, packed, sizeof(packed));
        const char *path = write_bytes("packed/bundle", packed, len);
        struct run run = begin(NULL);
        add(&run, path);
        read_all(&run);
        assert_int_equal(problem_count(&run), 0);
        assert_int_equal(run.all->count, 3);
        assert_node(run.all, 0, "gpu01");
        assert_node(run.all, 1, "gpu02");
        assert_node(run.all, 2, "oss1");
        assert_text(run.all, 2, "deep");
        char expected[4096];
        snprintf(expected, sizeof(expected), "%s:logs/gpu01/dmesg", path);
        assert_string_equal(source_of(&run, 0), expected);
        /* The year is by the member's time, 2026. */
        assert_stamp(run.all, 2, RG_STAMP_LOCAL, INT64_C(1795185011) * 1000000);
        end(&run);
    }
}

static void too_many_archives_in_each_other(void **state)
{
    static char level[2][65536];
    struct member member = {"x.log", rg_span_text("[    1.000000] text\n")};
    size_t len = 0;
    for (int i = 0; i < 6; i++) {
        len = pack(PACK_TAR, ARCHIVE_FILTER_GZIP, &member, 1, level[i % 2], sizeof(level[0]));
        member = (struct member){"y.tar.gz", rg_span(level[i % 2], len)};
    }
    struct run run = begin(NULL);
    add(&run, write_bytes("packed/deep.tar.gz", member.bytes.ptr, len));
    read_all(&run);
    assert_int_equal(run.all->count, 0);
    assert_int_equal(problem_count(&run), 2);
    assert_int_equal(problem(&run, 0)->kind, RG_PROBLEM_SKIPPED);
    /* The user named it, and it gave nothing. */
    assert_int_equal(problem(&run, 1)->kind, RG_PROBLEM_UNREADABLE);
    assert_true(rg_inputs_unreadable(run.inputs));
    end(&run);
}

static void truncated_archives(void **state)
{
    static char noise[300000];
    unsigned seed = 7;
    for (size_t i = 0; i < sizeof(noise); i++) {
        seed = seed * 1103515245u + 12345u;
        noise[i] = i % 80 == 79 ? '\n' : (char)('a' + (seed >> 16) % 26);
    }
    struct member members[] = {
        {"gpu01.log", rg_span_text("[    1.000000] before\n")},
        {"gpu02.log", rg_span(noise, sizeof(noise))},
    };
    size_t len = pack(PACK_TAR, ARCHIVE_FILTER_GZIP, members, 2, packed, sizeof(packed));
    struct run run = begin(NULL);
    add(&run, write_bytes("packed/cut.tar.gz", packed, len / 2));
    add(&run, write_file("then/gpu03.log", "[    1.000000] after\n"));
    read_all(&run);
    assert_text(run.all, 0, "before");
    assert_text(run.all, run.all->count - 1, "after");
    assert_int_equal(problem_count(&run), 1);
    assert_int_equal(problem(&run, 0)->kind, RG_PROBLEM_PARTIAL);
    assert_false(rg_inputs_unreadable(run.inputs));
    end(&run);
}

static void a_sos_report(void **state)
{
    write_file("sos/sosreport-x/sos_commands/host/hostname", "oss7.example.org\n");
    write_file("sos/sosreport-x/sos_commands/kernel/dmesg", "[    1.000000] ring\n");
    write_file("sos/sosreport-x/sos_commands/kernel/lsmod", "lustre 1 0\n");
    write_file("sos/sosreport-x/sos_commands/logs/journalctl_--no-pager",
               "Nov 29 14:30:11 oss7 kernel: journal\n");
    write_file("sos/sosreport-x/var/log/messages-20261101", "Oct 29 14:30:11 oss7 kernel: old\n");
    write_file("sos/sosreport-x/var/log/messages", "Nov 29 14:30:11 oss7 kernel: new\n");
    write_file("sos/sosreport-x/etc/passwd", "Lustre: not a log\n");
    struct run run = begin(NULL);
    add(&run, in_root("sos"));
    read_all(&run);
    assert_int_equal(run.all->count, 4);
    assert_text(run.all, 0, "ring");
    assert_text(run.all, 1, "journal");
    assert_text(run.all, 2, "old");
    assert_text(run.all, 3, "new");
    for (size_t i = 0; i < 4; i++) {
        assert_node(run.all, i, "oss7.example.org");
    }
    end(&run);
}

static void a_sos_report_in_an_archive(void **state)
{
    struct member members[] = {
        {"sosreport-oss7-2026-11-29-abcdefg/sos_commands/kernel/dmesg",
         rg_span_text("[    1.000000] ring\n")},
        {"sosreport-oss7-2026-11-29-abcdefg/etc/passwd", rg_span_text("Lustre: no log\n")},
        {"sosreport-oss7-2026-11-29-abcdefg/var/crash/127.0.0.1-2026/vmcore-dmesg.txt",
         rg_span_text("[    2.000000] crash\n")},
    };
    size_t len = pack(PACK_TAR, ARCHIVE_FILTER_XZ, members, 3, packed, sizeof(packed));
    struct run run = begin(NULL);
    add(&run, write_bytes("packed/sosreport.tar.xz", packed, len));
    read_all(&run);
    assert_int_equal(run.all->count, 2);
    assert_node(run.all, 0, "oss7");
    assert_text(run.all, 1, "crash");
    end(&run);
}

static void what_cannot_be_read_is_said(void **state)
{
    static const char journal[] = "LPKSHHRH\0\0\0\0";
    static const char binary[] = "\x7f"
                                 "ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0>\0\1\0\0\0";
    struct run run = begin(NULL);
    add(&run, in_root("is/not/there"));
    add(&run, write_bytes("bin/system.journal", journal, sizeof(journal)));
    add(&run, write_bytes("bin/elf", binary, sizeof(binary)));
    add(&run, write_file("empty/gpu01.log", ""));
    add(&run, write_file("after/gpu03.log", "[    1.000000] after\n"));
    read_all(&run);
    assert_int_equal(run.all->count, 1);
    assert_text(run.all, 0, "after");
    assert_int_equal(problem_count(&run), 3);
    assert_true(rg_inputs_unreadable(run.inputs));
    assert_non_null(strstr(problem(&run, 1)->sentence[RG_ENGLISH], "journalctl --file"));
    end(&run);

    /* Found on the way, they are no fault of the user's. */
    run = begin(NULL);
    add(&run, in_root("bin"));
    read_all(&run);
    assert_int_equal(problem_count(&run), 2);
    assert_int_equal(problem(&run, 0)->kind, RG_PROBLEM_SKIPPED);
    assert_false(rg_inputs_unreadable(run.inputs));
    end(&run);
}

static void an_empty_directory(void **state)
{
    mkdir(in_root("nothing"), 0755);
    struct run run = begin(NULL);
    add(&run, in_root("nothing"));
    read_all(&run);
    assert_true(rg_inputs_unreadable(run.inputs));
    end(&run);
}

static void links_are_not_followed(void **state)
{
    write_file("linked/gpu01.log", "[    1.000000] text\n");
    assert_int_equal(symlink(in_root("linked"), in_root("linked/loop")), 0);
    assert_int_equal(symlink("/dev/zero", in_root("linked/zero")), 0);
    struct run run = begin(NULL);
    add(&run, in_root("linked"));
    read_all(&run);
    assert_int_equal(run.all->count, 1);
    end(&run);
}

static void a_pipe(void **state)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "[    1.000000] text\n", 20), 20);
    close(ends[1]);
    char path[64];
    snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
    struct run run = begin("gpu01");
    add(&run, path);
    read_all(&run);
    assert_int_equal(run.all->count, 1);
    assert_node(run.all, 0, "gpu01");
    end(&run);
    close(ends[0]);
}

/* The kept logs: one file a node, the same through dmesg -T beside it. */
static void logs_of_known_failures(void **state)
{
    struct run run = begin(NULL);
    add(&run, RG_CASES "/lustre/28-client-eth0-down.client.log");
    add(&run, RG_CASES "/lustre/28-client-eth0-down.client.ctime.log");
    read_all(&run);
    assert_int_equal(problem_count(&run), 0);
    assert_true(run.all->count > 20);
    size_t half = run.all->count / 2;
    assert_int_equal(run.all->count, 2 * half);
    for (size_t i = 0; i < half; i++) {
        assert_node(run.all, i, "28-client-eth0-down.client");
        assert_node(run.all, half + i, "28-client-eth0-down.client");
        assert_text(run.all, half + i, run.all->items[i].text);
        assert_int_equal(run.all->items[i].record.stamp.kind, RG_STAMP_LOCAL);
        assert_int_equal(run.all->items[half + i].record.stamp.kind, RG_STAMP_BOOT);
    }
    end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file),
        cmocka_unit_test(a_node_that_is_given),
        cmocka_unit_test(a_directory_with_rotated_files),
        cmocka_unit_test(rotated_files_by_name),
        cmocka_unit_test(files_in_the_order_of_their_names),
        cmocka_unit_test(ranks_of_rotation),
        cmocka_unit_test(compressed_files),
        cmocka_unit_test(archives_and_archives_in_them),
        cmocka_unit_test(too_many_archives_in_each_other),
        cmocka_unit_test(truncated_archives),
        cmocka_unit_test(a_sos_report),
        cmocka_unit_test(a_sos_report_in_an_archive),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(an_empty_directory),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(a_pipe),
        cmocka_unit_test(logs_of_known_failures),
    };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
