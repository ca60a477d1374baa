/*
 * main(): finds the subcommand, answers --help and --version. It knows nothing of what a command
 * does.
 */
#include "cli/cli.h"

#include "base/span.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name;
    const char *usage;
    const char *summary;
    int (*run)(int argc, const char **argv);
    void (*help)(struct rg_buf *out);
};

#define RG_COMMAND(name, usage, summary)                                                           \
    {#name, usage, summary, rg_cli_##name, rg_cli_##name##_help},
static const struct command commands[] = {
#include "cli/commands.tbl"
};
#undef RG_COMMAND

#define HELP_BYTES_MAX (1 << 20)

const char *rg_cli_version(void)
{
    return "railgate " RG_VERSION;
}

int rg_cli_fail(const struct rg_error *err)
{
    fprintf(stderr, "railgate: %s\n", err->message);
    return err->code == RG_SETTING ? RG_EXIT_USAGE : RG_EXIT_FAILED;
}

int rg_cli_fail_usage(const char *command, const char *format, ...)
{
    RG_BUF(line, 4096);
    va_list args;
    va_start(args, format);
    rg_buf_addv(&line, format, args);
    va_end(args);
    fprintf(stderr, "railgate %s: %s (see railgate help %s)\n", command, rg_buf_text(&line),
            command);
    return RG_EXIT_USAGE;
}

int rg_cli_print(const struct rg_buf *text)
{
    if (!rg_buf_ok(text)) {
        fputs("railgate: out of memory\n", stderr);
        return RG_EXIT_FAILED;
    }
    struct span whole = rg_buf_span(text);
    if (fwrite(whole.ptr, 1, whole.len, stdout) != whole.len || fflush(stdout) != 0) {
        fprintf(stderr, "railgate: cannot write to standard output: %s\n", strerror(errno));
        return RG_EXIT_FAILED;
    }
    return RG_EXIT_OK;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < RG_ARRAY_LENGTH(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static void add_overview(struct rg_buf *out)
{
    rg_buf_add_text(out, "usage: railgate COMMAND [words]\n\n");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(commands); i++) {
        rg_buf_addf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    rg_buf_add_text(
        out,
        "\nObjects are s3://BUCKET/KEY. The gateway is http://127.0.0.1:9000, or what --endpoint "
        "or\n"
        "AWS_ENDPOINT_URL says; keys are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or those of\n"
        "~/.aws/credentials.\n"
        "`railgate help COMMAND` tells more; `railgate --version` prints the version.\n");
}

static int print_overview(void)
{
    RG_BUF(text, HELP_BYTES_MAX);
    add_overview(&text);
    return rg_cli_print(&text);
}

static int print_help(const struct command *command)
{
    RG_BUF(text, HELP_BYTES_MAX);
    rg_buf_addf(&text, "usage: railgate %s %s\n\n%s\n", command->name, command->usage,
                command->summary);
    command->help(&text);
    return rg_cli_print(&text);
}

static int fail_unknown_command(const char *name)
{
    fprintf(stderr, "railgate: no command is called \"%.100s\" (see railgate --help)\n", name);
    return RG_EXIT_USAGE;
}

static int run_help(int argc, const char **argv)
{
    if (argc == 0) {
        return print_overview();
    }
    const struct command *command = find_command(argv[0]);
    return command ? print_help(command) : fail_unknown_command(argv[0]);
}

static int print_version(void)
{
    RG_BUF(text, 256);
    rg_buf_addf(&text, "%s\n", rg_cli_version());
    return rg_cli_print(&text);
}

static bool asks_for_help(int argc, const char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    const char **words = (const char **)argv;
    if (argc < 2) {
        RG_BUF(text, HELP_BYTES_MAX);
        add_overview(&text);
        fputs(rg_buf_text(&text), stderr);
        return RG_EXIT_USAGE;
    }
    const char *name = words[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return run_help(argc - 2, words + 2);
    }
    if (strcmp(name, "--version") == 0) {
        return print_version();
    }
    const struct command *command = find_command(name);
    if (!command) {
        return fail_unknown_command(name);
    }
    if (asks_for_help(argc - 2, words + 2)) {
        return print_help(command);
    }
    return command->run(argc - 2, words + 2);
}
