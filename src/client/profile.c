/*
 * The files of profiles that AWS tools share. Pure: text in, settings out.
 */
#include "client/config.h"

#include "base/attr.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

struct line {
    struct span section; /* without brackets, trimmed */
    struct span parent;  /* key that an indented line belongs to; empty: none */
    struct span key;
    struct span value;
};

struct reader {
    struct span rest;
    unsigned number;
    struct span section;
    struct span parent; /* the last key, when its value was empty */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* A comment within a value begins behind white space: "#" may stand in a value. */
static struct span without_comment(struct span value)
{
    for (size_t i = 1; i < value.len; i++) {
        if ((value.ptr[i] == '#' || value.ptr[i] == ';') && is_blank(value.ptr[i - 1])) {
            return rg_span_trim(rg_span_head(value, i));
        }
    }
    return value;
}

static struct span next_text_line(struct reader *reader)
{
    struct span text = rg_span_cut(&reader->rest, '\n');
    reader->number++;
    return text.len && text.ptr[text.len - 1] == '\r' ? rg_span_head(text, text.len - 1) : text;
}

static int fail_line(const struct reader *reader, const char *why, struct rg_error *err)
{
    return rg_failf(err, RG_PARSE, "line %u %s", reader->number, why);
}

static int begin_section(struct reader *reader, struct span text, struct rg_error *err)
{
    ptrdiff_t end = rg_span_find(text, ']');
    if (end < 0) {
        return fail_line(reader, "begins a section and lacks its \"]\"", err);
    }
    reader->section = rg_span_trim(rg_span(text.ptr + 1, (size_t)end - 1));
    reader->parent = RG_SPAN_EMPTY;
    return 0;
}

static int read_setting(struct reader *reader, struct span text, struct span raw,
                        struct line *ret_line, struct rg_error *err)
{
    ptrdiff_t equals = rg_span_find(text, '=');
    if (equals <= 0) {
        return fail_line(reader, "is neither a section nor \"name = value\"", err);
    }
    bool is_indented = is_blank(raw.ptr[0]) && reader->parent.len > 0;
    *ret_line = (struct line){
        .section = reader->section,
        .parent = is_indented ? reader->parent : RG_SPAN_EMPTY,
        .key = rg_span_trim(rg_span_head(text, (size_t)equals)),
        .value = without_comment(rg_span_trim(rg_span_skip(text, (size_t)equals + 1))),
    };
    if (!is_indented) {
        reader->parent = ret_line->value.len ? RG_SPAN_EMPTY : ret_line->key;
    }
    return 1;
}

/* 1: *ret_line is set; 0: the end. */
static int read_line(struct reader *reader, struct line *ret_line, struct rg_error *err)
{
    while (reader->rest.ptr) {
        struct span raw = next_text_line(reader);
        struct span text = rg_span_trim(raw);
        if (text.len == 0 || text.ptr[0] == '#' || text.ptr[0] == ';') {
            continue;
        }
        if (text.ptr[0] != '[') {
            return read_setting(reader, text, raw, ret_line, err);
        }
        int rc = begin_section(reader, text, err);
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}

/* ---- Profiles ---- */

/* "profile NAME" with any white space between. */
static bool is_section(struct span section, const char *word, const char *name)
{
    size_t len = strlen(word);
    if (section.len <= len || memcmp(section.ptr, word, len) != 0 || !is_blank(section.ptr[len])) {
        return false;
    }
    return rg_span_is(rg_span_trim(rg_span_skip(section, len)), name);
}

static bool is_profile(struct span section, bool is_config, const char *name)
{
    if (!is_config) {
        return rg_span_is(section, name);
    }
    return is_section(section, "profile", name) ||
           (strcmp(name, "default") == 0 && rg_span_is(section, "default"));
}

static int keep(char **field, struct span value, struct rg_error *err)
{
    if (*field || value.len == 0) {
        return 0;
    }
    *field = rg_span_dup(value);
    return *field ? 0 : rg_fail(err, RG_OUT_OF_MEMORY);
}

static const char *const elsewhere_keys[] = {"credential_process",      "role_arn",
                                             "web_identity_token_file", "sso_session",
                                             "sso_start_url",           "credential_source"};

static char **field_of(struct rg_profile *profile, const struct line *line)
{
    static const struct {
        const char *key;
        size_t offset;
    } fields[] = {
        {"aws_access_key_id", offsetof(struct rg_profile, access_key)},
        {"aws_secret_access_key", offsetof(struct rg_profile, secret_key)},
        {"aws_session_token", offsetof(struct rg_profile, session_token)},
        {"region", offsetof(struct rg_profile, region)},
        {"endpoint_url", offsetof(struct rg_profile, endpoint_url)},
        {"ca_bundle", offsetof(struct rg_profile, ca_bundle)},
    };
    if (line->parent.len) {
        bool is_style = rg_span_is(line->parent, "s3") && rg_span_is(line->key, "addressing_style");
        return is_style ? &profile->addressing_style : NULL;
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(fields); i++) {
        if (rg_span_is_nocase(line->key, fields[i].key)) {
            return (char **)((char *)profile + fields[i].offset);
        }
    }
    return NULL;
}

static int keep_setting(struct rg_profile *profile, const struct line *line, char **services,
                        struct rg_error *err)
{
    if (line->parent.len == 0 && rg_span_is(line->key, "services")) {
        return keep(services, line->value, err);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(elsewhere_keys) && !line->parent.len; i++) {
        if (rg_span_is(line->key, elsewhere_keys[i])) {
            return keep(&profile->elsewhere, line->key, err);
        }
    }
    char **field = field_of(profile, line);
    return field ? keep(field, line->value, err) : 0;
}

static int read_profile(struct span text, bool is_config, const char *name,
                        struct rg_profile *profile, char **services, struct rg_error *err)
{
    struct reader reader = {.rest = text};
    struct line line;
    int rc;
    while ((rc = read_line(&reader, &line, err)) > 0) {
        if (!is_profile(line.section, is_config, name)) {
            continue;
        }
        profile->found = true;
        rc = keep_setting(profile, &line, services, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rc;
}

static int read_services(struct span text, const char *services, struct rg_profile *profile,
                         struct rg_error *err)
{
    struct reader reader = {.rest = text};
    struct line line;
    int rc;
    while ((rc = read_line(&reader, &line, err)) > 0) {
        if (!is_section(line.section, "services", services) || !rg_span_is(line.parent, "s3") ||
            !rg_span_is(line.key, "endpoint_url")) {
            continue;
        }
        rc = keep(&profile->s3_endpoint_url, line.value, err);
        if (rc < 0) {
            return rc;
        }
    }
    return rc;
}

int rg_profile_read(struct span text, bool is_config, const char *name, struct rg_profile *profile,
                    struct rg_error *err)
{
    rg_autofree char *services = NULL;
    int rc = read_profile(text, is_config, name, profile, &services, err);
    if (rc < 0 || !services) {
        return rc;
    }
    return read_services(text, services, profile, err);
}

void rg_profile_free(struct rg_profile *profile)
{
    free(profile->access_key);
    if (profile->secret_key) {
        explicit_bzero(profile->secret_key, strlen(profile->secret_key));
    }
    free(profile->secret_key);
    free(profile->session_token);
    free(profile->region);
    free(profile->endpoint_url);
    free(profile->s3_endpoint_url);
    free(profile->ca_bundle);
    free(profile->addressing_style);
    free(profile->elsewhere);
    memset(profile, 0, sizeof *profile);
}
