/*
 * The report on a terminal: one line a check, or with everything.
 */
#include "host/report.h"

#include <string.h>

#define INDENT "        "

struct look {
    const char *word;
    const char *colour;
};

static struct look look_of(const char *verdict)
{
    static const struct {
        const char *verdict;
        struct look look;
    } looks[] = {
        {"ok", {"ok  ", "\033[32m"}},
        {"warn", {"WARN", "\033[33m"}},
        {"fail", {"FAIL", "\033[1;31m"}},
        {"skip", {"skip", "\033[2m"}},
    };
    for (size_t i = 0; i < RG_ARRAY_LENGTH(looks); i++) {
        if (strcmp(verdict, looks[i].verdict) == 0) {
            return looks[i].look;
        }
    }
    return looks[3].look;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void add_verdict(const char *verdict, const struct rg_report_style *style,
                        struct rg_buf *out)
{
    struct look look = look_of(verdict);
    rg_buf_addf(out, "%s%s%s", style->colour ? look.colour : "", look.word,
                style->colour ? "\033[0m" : "");
}

static void add_lines(const char *label, const char *text, struct rg_buf *out)
{
    struct span rest = rg_span_text(text);
    while (text[0] && rest.ptr) {
        struct span line = rg_span_cut(&rest, '\n');
        rg_buf_addf(out, INDENT "%-8s %.*s\n", label, RG_SPAN_ARG(line));
        label = "";
    }
}

static void add_sentence(const json_t *finding, struct rg_buf *out)
{
    const char *subject = text_of(finding, "subject");
    rg_buf_addf(out, "%s%s%s", subject, subject[0] ? ": " : "", text_of(finding, "summary"));
}

static void add_finding(const json_t *finding, const struct rg_report_style *style,
                        struct rg_buf *out)
{
    rg_buf_add_text(out, "    ");
    add_verdict(text_of(finding, "verdict"), style, out);
    rg_buf_add_char(out, ' ');
    add_sentence(finding, out);
    rg_buf_add_char(out, '\n');
    add_lines("value", text_of(finding, "value"), out);
    add_lines("read at", text_of(finding, "where"), out);
    add_lines("mend", text_of(finding, "remedy"), out);
}

/* The finding that a single line tells of: the first of the worst. */
static void add_worst(const json_t *check, struct rg_buf *out)
{
    const char *verdict = text_of(check, "verdict");
    const json_t *worst = NULL;
    size_t same = 0;
    size_t index;
    const json_t *finding;
    json_array_foreach(json_object_get(check, "findings"), index, finding)
    {
        if (strcmp(text_of(finding, "verdict"), verdict) == 0) {
            worst = worst ? worst : finding;
            same++;
        }
    }
    if (strcmp(verdict, "ok") == 0) {
        rg_buf_add_text(out, text_of(check, "title"));
        return;
    }
    add_sentence(worst, out);
    if (same > 1) {
        rg_buf_addf(out, " (and %zu more)", same - 1);
    }
}

static void add_check(const json_t *check, const struct rg_report_style *style, struct rg_buf *out)
{
    rg_buf_add_text(out, "  ");
    add_verdict(text_of(check, "verdict"), style, out);
    rg_buf_addf(out, "  %-13s ", text_of(check, "id"));
    if (!style->verbose) {
        add_worst(check, out);
        rg_buf_add_char(out, '\n');
        return;
    }
    rg_buf_addf(out, "%s\n", text_of(check, "title"));
    size_t index;
    const json_t *finding;
    json_array_foreach(json_object_get(check, "findings"), index, finding)
    {
        add_finding(finding, style, out);
    }
}

static bool is_shown(const json_t *check, const struct rg_report_style *style)
{
    return style->verbose || strcmp(text_of(check, "verdict"), "skip") != 0;
}

static void add_group(const json_t *report, enum rg_group group,
                      const struct rg_report_style *style, struct rg_buf *out)
{
    bool begun = false;
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), index, check)
    {
        if (strcmp(text_of(check, "group"), rg_group_name(group)) != 0 || !is_shown(check, style)) {
            continue;
        }
        if (!begun) {
            rg_buf_addf(out, "%s%s%s\n", style->colour ? "\033[1m" : "", rg_group_title(group),
                        style->colour ? "\033[0m" : "");
            begun = true;
        }
        add_check(check, style, out);
    }
}

static void add_summary(const json_t *report, const struct rg_report_style *style,
                        struct rg_buf *out)
{
    const json_t *counts = json_object_get(report, "counts");
    json_int_t ok = json_integer_value(json_object_get(counts, "ok"));
    json_int_t warn = json_integer_value(json_object_get(counts, "warn"));
    json_int_t fail = json_integer_value(json_object_get(counts, "fail"));
    json_int_t skip = json_integer_value(json_object_get(counts, "skip"));
    const char *host = text_of(report, "host");
    rg_buf_addf(out, "\n%s: ", host[0] ? host : "unknown host");
    add_verdict(text_of(report, "verdict"), style, out);
    if (json_is_true(json_object_get(report, "nothing_judged"))) {
        rg_buf_addf(out, " nothing was judged: none of %lld checks could read what it needs%s\n",
                    (long long)skip, style->verbose ? "" : "; -v tells why");
        return;
    }
    const char *profile = text_of(report, "profile");
    rg_buf_addf(out, " for %s; %lld ok, %lld warnings, %lld failures, %lld skipped",
                strcmp(profile, "any") == 0 ? "any role" : profile, (long long)ok, (long long)warn,
                (long long)fail, (long long)skip);
    if (!style->verbose && warn + fail > 0) {
        rg_buf_add_text(out, "; -v shows what was read and the commands that mend it");
    } else if (!style->verbose && skip > 0) {
        rg_buf_add_text(out, "; -v tells why");
    }
    rg_buf_add_char(out, '\n');
}

/* The texts of a list, with something between them. */
static void add_joined(const json_t *list, const char *separator, struct rg_buf *out)
{
    size_t index;
    const json_t *item;
    json_array_foreach(list, index, item)
    {
        const char *text = json_string_value(item);
        rg_buf_addf(out, "%s%s", index ? separator : "", text ? text : "");
    }
}

static void add_unjudged(const json_t *report, const struct rg_report_style *style,
                         struct rg_buf *out)
{
    const json_t *unjudged = json_object_get(report, "unjudged");
    const json_t *hidden = json_object_get(unjudged, "hidden");
    const char *profile = text_of(report, "profile");
    if (!json_is_object(unjudged)) {
        return;
    }
    rg_buf_add_text(out, "  ");
    add_verdict("warn", style, out);
    rg_buf_addf(out, "  %s stands on what could not be judged: ",
                strcmp(profile, "any") == 0 ? "every role" : profile);
    add_joined(json_object_get(unjudged, "checks"), ", ", out);
    rg_buf_add_char(out, '\n');
    if (json_array_size(hidden)) {
        rg_buf_add_text(out, INDENT "hidden   ");
        add_joined(hidden, "\n" INDENT "         ", out);
        rg_buf_add_char(out, '\n');
    }
    add_lines("to see", text_of(unjudged, "remedy"), out);
}

void rg_report_text(const json_t *report, const struct rg_report_style *style, struct rg_buf *out)
{
    for (int group = 0; group < RG_GROUP_COUNT; group++) {
        add_group(report, (enum rg_group)group, style, out);
    }
    size_t index;
    const json_t *path;
    json_array_foreach(json_object_get(report, "hung"), index, path)
    {
        rg_buf_add_text(out, "  ");
        add_verdict("fail", style, out);
        rg_buf_addf(out, "  reading %s hangs in the kernel; it was left out\n",
                    json_string_value(path));
    }
    json_array_foreach(json_object_get(report, "cut"), index, path)
    {
        rg_buf_add_text(out, "  ");
        add_verdict("warn", style, out);
        rg_buf_addf(out, "  there are more %s than are looked at: some were left out\n",
                    json_string_value(path));
    }
    add_unjudged(report, style, out);
    add_summary(report, style, out);
}
