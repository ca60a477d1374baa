/*
 * railgate reference: the manual's pages that come out of tables. `./dev docs` writes them to
 * docs/.
 */
#include "cli/cli.h"

#include "base/settings.h"
#include "diag/reference.h"
#include "gate/metrics.h"
#include "s3/route.h"

#include <string.h>

#define PAGE_BYTES_MAX (4 << 20)

static const char *const retry_words[] = {
    [RG_RETRY_NEVER] = "never",
    [RG_RETRY_LATER] = "later",
    [RG_RETRY_CHANGED] = "once the state changed",
    [RG_RETRY_GONE] = "no one is left to retry",
};

static void add_settings(struct rg_buf *out)
{
    rg_buf_add_text(
        out, "# Settings\n\n"
             "A setting is given as an option (`--name VALUE`), in the environment, or in the file "
             "that\n`--config` names (`name = value` a line, `#` starts a comment). An option "
             "outranks the\nenvironment, the environment the file. Unknown names, wrong case and "
             "values out of range stop\nthe start with exit status 2 and one line that names the "
             "setting. `railgate config` prints the\nvalues in effect. Bytes are a number, or one "
             "with K, M, G or T behind it (1,024 and its powers; also\n`4k` or `4KiB`); a time is "
             "seconds, or a number with ms, s, m, h or d.\n");
    rg_settings_reference(out);
}

static void add_errors(struct rg_buf *out)
{
    rg_buf_add_text(out, "# Errors\n\n"
                         "What the gateway answers when it refuses a request. *Retry* says when "
                         "the same request may\nsucceed.\n\n"
                         "| S3 code | HTTP | retry | name in logs and metrics | sentence |\n"
                         "|---|---|---|---|---|\n");
    for (int i = RG_OK + 1; i < RG_CODE_COUNT; i++) {
        enum rg_code code = (enum rg_code)i;
        rg_buf_addf(out, "| %s | %d | %s | `%s` | %s |\n", rg_code_s3_name(code),
                    rg_code_http_status(code), retry_words[rg_code_retry(code)], rg_code_name(code),
                    rg_code_sentence(code));
    }
}

static const char *const level_paths[] = {
    [RG_LEVEL_SERVICE] = "/",
    [RG_LEVEL_BUCKET] = "/BUCKET",
    [RG_LEVEL_OBJECT] = "/BUCKET/KEY",
};

/* One table: the operations whose answer is of this kind. */
static void add_operations_answered(enum rg_answer answer, struct rg_buf *out)
{
    const char *column = answer == RG_ANSWER_FAILURE ? " error |" : "";
    rg_buf_addf(out, "| operation | request |%s\n|---|---|%s\n", column, column[0] ? "---|" : "");
    for (int i = RG_OP_UNKNOWN + 1; i < RG_OPERATION_COUNT; i++) {
        const struct rg_operation_info *info = rg_operation_info((enum rg_operation)i);
        if (info->answer != answer) {
            continue;
        }
        rg_buf_addf(out, "| %s | `%s %s%s%s`%s |", info->name, info->method,
                    level_paths[info->level], info->subresource[0] ? "?" : "", info->subresource,
                    info->by_copy_source ? " with `x-amz-copy-source`" : "");
        if (answer == RG_ANSWER_FAILURE) {
            rg_buf_addf(out, " %s |", rg_code_s3_name(info->failure));
        }
        rg_buf_add_char(out, '\n');
    }
}

static void add_operations(struct rg_buf *out)
{
    rg_buf_add_text(out, "# Operations\n\nEvery request that S3 has, and what it gets here.\n\n"
                         "## Implemented\n\n");
    add_operations_answered(RG_ANSWER_VERB, out);
    rg_buf_add_text(out, "\n## Answered with the document of a bucket where this was never "
                         "configured\n\n");
    add_operations_answered(RG_ANSWER_DEFAULT, out);
    rg_buf_add_text(out, "\n## Removing what is never there: 204\n\n");
    add_operations_answered(RG_ANSWER_EMPTY, out);
    rg_buf_add_text(out, "\n## Answered with an error\n\n");
    add_operations_answered(RG_ANSWER_FAILURE, out);
}

static const struct {
    const char *name;
    void (*add)(struct rg_buf *out);
} pages[] = {
    {"settings", add_settings},           {"errors", add_errors},
    {"operations", add_operations},       {"metrics", rg_metrics_reference},
    {"messages", rg_catalogue_reference},
};

void rg_cli_reference_help(struct rg_buf *out)
{
    rg_buf_add_text(out, "\nPages:");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(pages); i++) {
        rg_buf_addf(out, " %s", pages[i].name);
    }
    rg_buf_add_text(out, "\n");
}

int rg_cli_reference(int argc, const char **argv)
{
    if (argc != 1) {
        return rg_cli_fail_usage("reference", "name one page");
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(pages); i++) {
        if (strcmp(argv[0], pages[i].name) == 0) {
            RG_BUF(text, PAGE_BYTES_MAX);
            pages[i].add(&text);
            return rg_cli_print(&text);
        }
    }
    return rg_cli_fail_usage("reference", "no page is called \"%.100s\"", argv[0]);
}
