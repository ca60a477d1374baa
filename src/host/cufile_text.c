/*
 * cufile.json. See cufile_text.h.
 */
#include "host/cufile_text.h"

#include "base/attr.h"
#include "host/json.h"
#include "host/words.h"

#include <stdio.h>
#include <string.h>

#define FILE_MAX ((size_t)1 << 20)

/* Where the string that begins at `at` ends: behind its quotation mark, or at the end of all. */
static size_t string_end(struct span text, size_t at)
{
    for (at++; at < text.len; at++) {
        if (text.ptr[at] == '\\') {
            at++;
        } else if (text.ptr[at] == '"') {
            return at + 1;
        }
    }
    return text.len;
}

/* Where the comment that begins at `at` ends; its newlines are kept, so that lines can be named. */
static size_t comment_end(struct span text, size_t at, struct rg_buf *out)
{
    bool is_line = text.ptr[at + 1] == '/';
    for (at += 2; at < text.len; at++) {
        if (text.ptr[at] == '\n') {
            if (is_line) {
                return at;
            }
            rg_buf_add_char(out, '\n');
        } else if (!is_line && text.ptr[at] == '*' && at + 1 < text.len &&
                   text.ptr[at + 1] == '/') {
            return at + 2;
        }
    }
    return text.len;
}

void rg_cufile_uncomment(struct span text, struct rg_buf *out)
{
    for (size_t at = 0; at < text.len;) {
        size_t end = at + 1;
        if (text.ptr[at] == '"') {
            end = string_end(text, at);
        } else if (text.ptr[at] == '/' && end < text.len &&
                   (text.ptr[end] == '/' || text.ptr[end] == '*')) {
            rg_buf_add_char(out, ' ');
            at = comment_end(text, at, out);
            continue;
        }
        rg_buf_add(out, text.ptr + at, end - at);
        at = end;
    }
}

static bool take_flag(const json_t *properties, const char *name, enum rg_cufile_flag *ret_flag,
                      struct rg_cufile *cufile)
{
    const json_t *value = json_object_get(properties, name);
    if (value && !json_is_boolean(value)) {
        snprintf(cufile->problem, sizeof cufile->problem, "%s is neither true nor false", name);
        return false;
    }
    *ret_flag = !value ? RG_CUFILE_UNSAID : json_is_true(value) ? RG_CUFILE_TRUE : RG_CUFILE_FALSE;
    return true;
}

static bool take_addresses(const json_t *properties, struct rg_cufile *cufile)
{
    const json_t *list = json_object_get(properties, "rdma_dev_addr_list");
    size_t index;
    const json_t *item;
    if (list && !json_is_array(list)) {
        snprintf(cufile->problem, sizeof cufile->problem, "rdma_dev_addr_list is no list");
        return false;
    }
    cufile->has_addresses = list != NULL;
    json_array_foreach(list, index, item)
    {
        const char *text = json_string_value(item);
        if (!text || cufile->address_count == RG_CUFILE_ADDRESSES_MAX ||
            !rg_words_copy(cufile->addresses[cufile->address_count], RG_CUFILE_TEXT_MAX + 1,
                           rg_span_trim(rg_span_text(text)))) {
            cufile->cut = true;
            continue;
        }
        cufile->address_count++;
    }
    return true;
}

bool rg_cufile_parse(struct span text, struct rg_cufile *ret_cufile)
{
    RG_BUF(plain, FILE_MAX);
    json_error_t error;
    *ret_cufile = (struct rg_cufile){0};
    rg_cufile_uncomment(text, &plain);
    struct span bytes = rg_buf_span(&plain);
    RG_CLEANUP(rg_host_json_free)
    json_t *document = rg_buf_ok(&plain) ? json_loadb(bytes.ptr, bytes.len, 0, &error) : NULL;
    if (!json_is_object(document)) {
        if (document || !rg_buf_ok(&plain)) {
            snprintf(ret_cufile->problem, sizeof ret_cufile->problem, "it is no JSON object");
        } else {
            snprintf(ret_cufile->problem, sizeof ret_cufile->problem, "line %d: %.100s", error.line,
                     error.text);
        }
        return false;
    }
    const json_t *properties = json_object_get(document, "properties");
    if (properties && !json_is_object(properties)) {
        snprintf(ret_cufile->problem, sizeof ret_cufile->problem, "properties is no object");
        return false;
    }
    const char *peer = json_string_value(json_object_get(properties, "rdma_peer_type"));
    if (peer) {
        rg_words_copy(ret_cufile->peer_type, sizeof ret_cufile->peer_type, rg_span_text(peer));
    }
    return take_flag(properties, "allow_compat_mode", &ret_cufile->allow_compat, ret_cufile) &&
           take_flag(properties, "force_compat_mode", &ret_cufile->force_compat, ret_cufile) &&
           take_addresses(properties, ret_cufile);
}
