/*
 * The report as one page of HTML that needs nothing else: no script, no font, no network.
 */
#include "host/report.h"

#include <string.h>

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    ":root{color-scheme:light dark;--line:#8884;--ok:#287d3c;--warn:#a66300;--fail:#c22;"
    "--skip:#777}\n"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}\n"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin:2rem 0 .3rem}\n"
    "details{border-top:1px solid var(--line);padding:.4rem 0}\n"
    "summary{cursor:pointer;display:grid;grid-template-columns:4rem 9rem 1fr;gap:.5rem}\n"
    ".v{font-weight:600;text-transform:uppercase}.ok{color:var(--ok)}.warn{color:var(--warn)}"
    ".fail{color:var(--fail)}.skip{color:var(--skip)}\n"
    ".f{margin:.4rem 0 .8rem 4.5rem}.f p{margin:.2rem 0}\n"
    "dl{display:grid;grid-template-columns:5rem 1fr;gap:0 .5rem;margin:.2rem 0}"
    "dt{color:var(--skip)}dd{margin:0;overflow-wrap:anywhere}\n"
    "pre{margin:.2rem 0;padding:.5rem;border:1px solid var(--line);border-radius:4px;"
    "overflow-x:auto;white-space:pre-wrap}\n"
    "</style>\n";

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* A word that becomes part of the markup. */
static const char *class_of(const json_t *object)
{
    static const char *const words[] = {"ok", "warn", "fail"};
    const char *verdict = text_of(object, "verdict");
    for (size_t i = 0; i < RG_ARRAY_LENGTH(words); i++) {
        if (strcmp(verdict, words[i]) == 0) {
            return words[i];
        }
    }
    return "skip";
}

static void add_row(struct rg_buf *out, const char *label, const char *text)
{
    if (text[0]) {
        rg_buf_addf(out, "<dt>%s</dt><dd>", label);
        rg_buf_add_html(out, text);
        rg_buf_add_text(out, "</dd>");
    }
}

static void add_finding(struct rg_buf *out, const json_t *finding)
{
    const char *subject = text_of(finding, "subject");
    const char *verdict = class_of(finding);
    const char *remedy = text_of(finding, "remedy");
    rg_buf_addf(out, "<div class=\"f\"><p><span class=\"v %s\">%s</span> ", verdict, verdict);
    if (subject[0]) {
        rg_buf_add_text(out, "<b>");
        rg_buf_add_html(out, subject);
        rg_buf_add_text(out, "</b>: ");
    }
    rg_buf_add_html(out, text_of(finding, "summary"));
    rg_buf_add_text(out, "</p><dl>");
    add_row(out, "value", text_of(finding, "value"));
    add_row(out, "read at", text_of(finding, "where"));
    rg_buf_add_text(out, "</dl>");
    if (remedy[0]) {
        rg_buf_add_text(out, "<pre>");
        rg_buf_add_html(out, remedy);
        rg_buf_add_text(out, "</pre>");
    }
    rg_buf_add_text(out, "</div>\n");
}

static void add_check(struct rg_buf *out, const json_t *check)
{
    const char *verdict = class_of(check);
    bool is_open = strcmp(verdict, "warn") == 0 || strcmp(verdict, "fail") == 0;
    const char *id = text_of(check, "id");
    const struct rg_check *known = rg_check_find(id);
    rg_buf_addf(out, "<details%s><summary><span class=\"v %s\">%s</span><code>",
                is_open ? " open" : "", verdict, verdict);
    rg_buf_add_html(out, id);
    rg_buf_add_text(out, "</code><span>");
    rg_buf_add_html(out, text_of(check, "title"));
    rg_buf_add_text(out, "</span></summary>\n");
    size_t index;
    const json_t *finding;
    json_array_foreach(json_object_get(check, "findings"), index, finding)
    {
        add_finding(out, finding);
    }
    if (known) {
        rg_buf_add_text(out, "<div class=\"f\"><p>");
        rg_buf_add_html(out, known->why);
        rg_buf_add_text(out, "</p></div>\n");
    }
    rg_buf_add_text(out, "</details>\n");
}

static void add_group(struct rg_buf *out, const json_t *report, enum rg_group group)
{
    bool begun = false;
    size_t index;
    const json_t *check;
    json_array_foreach(json_object_get(report, "checks"), index, check)
    {
        if (strcmp(text_of(check, "group"), rg_group_name(group)) != 0) {
            continue;
        }
        if (!begun) {
            rg_buf_add_text(out, "<h2>");
            rg_buf_add_html(out, rg_group_title(group));
            rg_buf_add_text(out, "</h2>\n");
            begun = true;
        }
        add_check(out, check);
    }
}

static void add_title(struct rg_buf *out, const json_t *report)
{
    const json_t *counts = json_object_get(report, "counts");
    const char *verdict = class_of(report);
    rg_buf_add_text(out, "<title>railgate doctor: ");
    rg_buf_add_html(out, text_of(report, "host"));
    rg_buf_addf(out, "</title></head><body>\n<h1><span class=\"v %s\">%s</span> ", verdict,
                verdict);
    rg_buf_add_html(out, text_of(report, "host"));
    rg_buf_add_text(out, " for ");
    rg_buf_add_html(out, text_of(report, "profile"));
    rg_buf_add_text(out, "</h1>\n<p>");
    rg_buf_add_html(out, text_of(report, "time"));
    rg_buf_add_text(out, ", ");
    rg_buf_add_html(out, text_of(report, "os"));
    rg_buf_add_text(out, ", Linux ");
    rg_buf_add_html(out, text_of(report, "kernel"));
    static const char *const names[] = {"ok", "warn", "fail", "skip"};
    for (size_t i = 0; i < RG_ARRAY_LENGTH(names); i++) {
        rg_buf_addf(out, ", <span class=\"%s\">%lld %s</span>", names[i],
                    (long long)json_integer_value(json_object_get(counts, names[i])), names[i]);
    }
    rg_buf_add_text(out, "</p>\n");
}

/* Each text of a list between the two words. */
static void add_each(struct rg_buf *out, const json_t *list, const char *before, const char *after)
{
    size_t index;
    const json_t *item;
    json_array_foreach(list, index, item)
    {
        rg_buf_add_text(out, before);
        rg_buf_add_html(out, json_is_string(item) ? json_string_value(item) : "");
        rg_buf_add_text(out, after);
    }
}

static void add_unjudged(struct rg_buf *out, const json_t *report)
{
    const json_t *unjudged = json_object_get(report, "unjudged");
    size_t index;
    const json_t *item;
    if (!json_is_object(unjudged)) {
        return;
    }
    rg_buf_add_text(out, "<p class=\"warn\">The role stands on what could not be judged:");
    json_array_foreach(json_object_get(unjudged, "checks"), index, item)
    {
        rg_buf_add_text(out, index ? ", " : " ");
        rg_buf_add_html(out, json_is_string(item) ? json_string_value(item) : "");
    }
    rg_buf_add_text(out, ".");
    add_each(out, json_object_get(unjudged, "hidden"), "<br>", "");
    rg_buf_add_text(out, "</p>\n<pre>");
    rg_buf_add_html(out, text_of(unjudged, "remedy"));
    rg_buf_add_text(out, "</pre>\n");
}

void rg_report_html(const json_t *report, struct rg_buf *out)
{
    rg_buf_add_text(out, head);
    add_title(out, report);
    add_each(out, json_object_get(report, "hung"), "<p class=\"fail\">Reading ",
             " hangs in the kernel; it was left out.</p>\n");
    add_each(out, json_object_get(report, "cut"), "<p class=\"warn\">There are more ",
             " than are looked at: some were left out.</p>\n");
    add_unjudged(out, report);
    if (json_is_true(json_object_get(report, "nothing_judged"))) {
        rg_buf_add_text(out, "<p class=\"warn\">Nothing was judged: no check could read what it "
                             "needs.</p>\n");
    }
    for (int group = 0; group < RG_GROUP_COUNT; group++) {
        add_group(out, report, (enum rg_group)group);
    }
    rg_buf_add_text(out, "</body></html>\n");
}
