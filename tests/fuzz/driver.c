/*
 * Replays inputs through a fuzz target where there is no libFuzzer: each argument is a file or a
 * directory of files; arguments that begin with '-' are libFuzzer's and are skipped. Finds nothing
 * new by itself.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t replayed;

static void replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size + 1);
    if (!file || !data || fread(data, 1, size, file) != size) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    /* An exact copy, so that a sanitizer sees the first byte read too far. */
    uint8_t *exact = malloc(size);
    if (size) {
        memcpy(exact, data, size);
    }
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    free(data);
    replayed++;
}

static void replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path, (size_t)st.st_size);
        return;
    }
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char child[4096];
        if (entry->d_name[0] != '.' &&
            snprintf(child, sizeof child, "%s/%s", path, entry->d_name) < (int)sizeof child) {
            replay(child);
        }
    }
    if (dir) {
        closedir(dir);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-') {
            replay(argv[i]);
        }
    }
    printf("replayed %zu inputs\n", replayed);
    return replayed ? 0 : 1;
}
