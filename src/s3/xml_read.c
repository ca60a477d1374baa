/*
 * The XML documents that requests carry. One walk over expat's events serves them all: it keeps the
 * path of the element it is in, below the root, and tells the document of the beginning and the end
 * of every element, and of the text of every element without children. A document knows its paths
 * and nothing else.
 */
#include "s3/xml.h"

#include "s3/date.h"

#include <expat.h>
#include <limits.h>

/* No element of S3 has a longer name. */
#define NAME_BYTES_MAX 64u
#define PATH_BYTES_MAX ((NAME_BYTES_MAX + 1) * RG_XML_DEPTH_MAX)

/* With namespaces on, expat joins URI and local name with this. */
#define NAMESPACE_SEPARATOR '|'

struct reader;

struct document {
    const char *root;
    /* `path` is relative to the root: "Object/Key". A handler ends the walk with stop or malformed.
     */
    void (*start)(struct reader *reader, const char *path);
    void (*text)(struct reader *reader, const char *path, struct span text); /* before end */
    void (*end)(struct reader *reader, const char *path);
};

struct reader {
    XML_Parser parser;
    const struct document *document;
    void *target;
    char path[PATH_BYTES_MAX];
    size_t path_len[RG_XML_DEPTH_MAX + 1]; /* of the path at each depth */
    unsigned depth;
    bool is_leaf; /* nothing but text since the current element began */
    struct rg_buf text;
    int rc;
    struct rg_error *err;
};

static void stop(struct reader *reader, int rc)
{
    if (reader->rc == 0) {
        reader->rc = rc;
    }
    XML_StopParser(reader->parser, XML_FALSE);
}

static void malformed(struct reader *reader, const char *why)
{
    if (reader->rc == 0) {
        reader->rc = rg_failf(reader->err, RG_MALFORMED_XML, "%s %s.",
                              rg_code_sentence(RG_MALFORMED_XML), why);
    }
    XML_StopParser(reader->parser, XML_FALSE);
}

static const char *local_name(const char *name)
{
    const char *separator = strrchr(name, NAMESPACE_SEPARATOR);
    return separator ? separator + 1 : name;
}

static bool push(struct reader *reader, const char *name)
{
    size_t at = reader->path_len[reader->depth];
    size_t len = strlen(name);
    if (reader->depth >= RG_XML_DEPTH_MAX || len > NAME_BYTES_MAX) {
        return false;
    }
    if (reader->depth > 0) { /* the root is not part of the path */
        if (at) {
            reader->path[at++] = '/';
        }
        memcpy(reader->path + at, name, len);
        at += len;
    }
    reader->path[at] = '\0';
    reader->path_len[++reader->depth] = at;
    return true;
}

static void XMLCALL on_start(void *context, const XML_Char *name, const XML_Char **attributes)
{
    struct reader *reader = context;
    (void)attributes;
    if (reader->rc) {
        return;
    }
    name = local_name(name);
    if (reader->depth == 0 && strcmp(name, reader->document->root) != 0) {
        malformed(reader, "Another root element was expected");
        return;
    }
    if (!push(reader, name)) {
        malformed(reader, "It is nested too deeply, or a name is too long");
        return;
    }
    rg_buf_clear(&reader->text);
    reader->is_leaf = true;
    if (reader->depth > 1) {
        reader->document->start(reader, reader->path);
    }
}

static void XMLCALL on_end(void *context, const XML_Char *name)
{
    struct reader *reader = context;
    (void)name;
    if (reader->rc) {
        return;
    }
    if (reader->depth > 1) {
        if (reader->is_leaf) {
            reader->document->text(reader, reader->path, rg_buf_span(&reader->text));
        }
        if (reader->rc == 0) {
            reader->document->end(reader, reader->path);
        }
    }
    reader->is_leaf = false;
    reader->depth--;
    reader->path[reader->path_len[reader->depth]] = '\0';
}

static void XMLCALL on_text(void *context, const XML_Char *text, int len)
{
    struct reader *reader = context;
    if (reader->rc || !reader->is_leaf) {
        return;
    }
    if ((size_t)len > RG_XML_TEXT_MAX - reader->text.len) {
        malformed(reader, "A text is too long");
        return;
    }
    rg_buf_add(&reader->text, text, (size_t)len);
    if (!rg_buf_ok(&reader->text)) {
        stop(reader, rg_fail(reader->err, RG_OUT_OF_MEMORY));
    }
}

/* Definitions of entities could only follow this. */
static void XMLCALL on_doctype(void *context, const XML_Char *name, const XML_Char *system_id,
                               const XML_Char *public_id, int has_internal_subset)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_internal_subset;
    malformed(context, "Document type declarations are not accepted");
}

static int run_parser(struct reader *reader, struct span body)
{
    XML_SetUserData(reader->parser, reader);
    XML_SetElementHandler(reader->parser, on_start, on_end);
    XML_SetCharacterDataHandler(reader->parser, on_text);
    XML_SetStartDoctypeDeclHandler(reader->parser, on_doctype);
    if (XML_Parse(reader->parser, body.ptr, (int)body.len, 1) == XML_STATUS_OK) {
        return reader->rc;
    }
    if (reader->rc) {
        return reader->rc;
    }
    enum XML_Error error = XML_GetErrorCode(reader->parser);
    if (error == XML_ERROR_NO_MEMORY) {
        return rg_fail(reader->err, RG_OUT_OF_MEMORY);
    }
    return rg_failf(
        reader->err, RG_MALFORMED_XML, "%s Line %lu: %s.", rg_code_sentence(RG_MALFORMED_XML),
        (unsigned long)XML_GetCurrentLineNumber(reader->parser), XML_ErrorString(error));
}

static int walk(const struct document *document, struct span body, void *target,
                struct rg_error *err)
{
    if (body.len > INT_MAX) {
        return rg_fail(err, RG_MALFORMED_XML);
    }
    struct reader reader = {
        .document = document,
        .target = target,
        .text = RG_BUF_INIT(RG_XML_TEXT_MAX),
        .err = err,
    };
    /* Through our own calls, so that tests can let expat's allocations fail. */
    const XML_Memory_Handling_Suite memory = {malloc, realloc, free};
    const XML_Char separator[] = {NAMESPACE_SEPARATOR, 0};
    reader.parser = XML_ParserCreate_MM(NULL, &memory, separator);
    if (!reader.parser) {
        return rg_fail(err, RG_OUT_OF_MEMORY);
    }
    int rc = run_parser(&reader, body);
    XML_ParserFree(reader.parser);
    rg_buf_free(&reader.text);
    return rc;
}

/* ---- Values ---- */

/* Keeps a text; an element that comes twice is malformed. */
static void keep_text(struct reader *reader, char **field, struct span text)
{
    if (*field) {
        malformed(reader, "An element comes twice");
        return;
    }
    *field = rg_span_dup(text);
    if (!*field) {
        stop(reader, rg_fail(reader->err, RG_OUT_OF_MEMORY));
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Without the white space that indents a document. */
static struct span trim(struct span text)
{
    while (text.len && is_space(text.ptr[0])) {
        text = rg_span_skip(text, 1);
    }
    while (text.len && is_space(text.ptr[text.len - 1])) {
        text.len--;
    }
    return text;
}

static struct span without_quotes(struct span text)
{
    text = trim(text);
    if (text.len >= 2 && text.ptr[0] == '"' && text.ptr[text.len - 1] == '"') {
        text = rg_span(text.ptr + 1, text.len - 2);
    }
    return text;
}

/* ---- Tag lists: in Tagging and CreateBucketConfiguration ---- */

struct tag_reader {
    struct rg_pairs *tags;
    enum rg_tag_scope scope;
    const char *list; /* path of the element that holds the Tag elements */
    bool seen_list;
    char *key; /* of the tag that is being read */
    char *value;
};

static void tag_reader_free(struct tag_reader *state)
{
    free(state->key);
    free(state->value);
}

/* What stands behind "LIST/"; NULL when the path is not below the list. */
static const char *below_list(const struct tag_reader *state, const char *path)
{
    size_t len = strlen(state->list);
    return strncmp(path, state->list, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

static void tag_start(struct reader *reader, struct tag_reader *state, const char *path)
{
    if (strcmp(path, state->list) == 0) {
        if (state->seen_list) {
            malformed(reader, "An element comes twice");
        }
        state->seen_list = true;
    }
}

static void tag_text(struct reader *reader, struct tag_reader *state, const char *path,
                     struct span text)
{
    const char *name = below_list(state, path);
    if (!name) {
        return;
    }
    if (strcmp(name, "Tag/Key") == 0) {
        keep_text(reader, &state->key, text);
    } else if (strcmp(name, "Tag/Value") == 0) {
        keep_text(reader, &state->value, text);
    }
}

static void tag_end(struct reader *reader, struct tag_reader *state, const char *path)
{
    const char *name = below_list(state, path);
    if (!name || strcmp(name, "Tag") != 0) {
        return;
    }
    if (!state->key || !state->value) {
        malformed(reader, "A Tag lacks its Key or its Value");
        return;
    }
    int rc = rg_tags_add(state->tags, state->scope, rg_span_text(state->key),
                         rg_span_text(state->value), reader->err);
    free(RG_TAKE(state->key));
    free(RG_TAKE(state->value));
    if (rc) {
        stop(reader, rc);
    }
}

/* ---- Tagging ---- */

static void tagging_start(struct reader *reader, const char *path)
{
    tag_start(reader, reader->target, path);
}

static void tagging_text(struct reader *reader, const char *path, struct span text)
{
    tag_text(reader, reader->target, path, text);
}

static void tagging_end(struct reader *reader, const char *path)
{
    tag_end(reader, reader->target, path);
}

static const struct document tagging_document = {"Tagging", tagging_start, tagging_text,
                                                 tagging_end};

int rg_xml_read_tagging(struct span body, enum rg_tag_scope scope, struct rg_pairs *ret_tags,
                        struct rg_error *err)
{
    RG_CLEANUP(rg_pairs_free) struct rg_pairs tags = RG_PAIRS_INIT;
    RG_CLEANUP(tag_reader_free)
    struct tag_reader state = {.tags = &tags, .scope = scope, .list = "TagSet"};
    int rc = walk(&tagging_document, body, &state, err);
    if (rc) {
        return rc;
    }
    if (!state.seen_list) {
        return rg_failf(err, RG_MALFORMED_XML, "%s The TagSet is missing.",
                        rg_code_sentence(RG_MALFORMED_XML));
    }
    *ret_tags = tags;
    tags = (struct rg_pairs)RG_PAIRS_INIT;
    return 0;
}

/* ---- CreateBucketConfiguration ---- */

struct create_bucket_reader {
    struct rg_xml_create_bucket config;
    struct tag_reader tags;
};

static void create_bucket_start(struct reader *reader, const char *path)
{
    struct create_bucket_reader *state = reader->target;
    tag_start(reader, &state->tags, path);
}

static void create_bucket_text(struct reader *reader, const char *path, struct span text)
{
    struct create_bucket_reader *state = reader->target;
    if (strcmp(path, "LocationConstraint") == 0) {
        keep_text(reader, &state->config.location, trim(text));
        return;
    }
    tag_text(reader, &state->tags, path, text);
}

static void create_bucket_end(struct reader *reader, const char *path)
{
    struct create_bucket_reader *state = reader->target;
    tag_end(reader, &state->tags, path);
}

static const struct document create_bucket_document = {
    "CreateBucketConfiguration", create_bucket_start, create_bucket_text, create_bucket_end};

void rg_xml_create_bucket_free(struct rg_xml_create_bucket *config)
{
    free(config->location);
    rg_pairs_free(&config->tags);
    *config = (struct rg_xml_create_bucket){.location = NULL};
}

int rg_xml_read_create_bucket(struct span body, struct rg_xml_create_bucket *ret_config,
                              struct rg_error *err)
{
    if (trim(body).len == 0) {
        *ret_config = (struct rg_xml_create_bucket){.location = NULL};
        return 0;
    }
    struct create_bucket_reader state = {.config = {.location = NULL}};
    state.tags =
        (struct tag_reader){.tags = &state.config.tags, .scope = RG_TAG_BUCKET, .list = "Tags"};
    int rc = walk(&create_bucket_document, body, &state, err);
    tag_reader_free(&state.tags);
    if (rc) {
        rg_xml_create_bucket_free(&state.config);
        return rc;
    }
    if (state.config.location && !state.config.location[0]) {
        free(RG_TAKE(state.config.location));
    }
    *ret_config = state.config;
    return 0;
}

/* ---- Delete ---- */

#define DELETE_KEY_MAX 1024u

struct delete_reader {
    struct rg_xml_delete request;
    bool seen_quiet;
};

void rg_xml_delete_free(struct rg_xml_delete *request)
{
    for (size_t i = 0; i < request->count; i++) {
        free(request->keys[i].key);
        free(request->keys[i].version_id);
        free(request->keys[i].etag);
    }
    free(request->keys);
    *request = (struct rg_xml_delete){.keys = NULL};
}

static void delete_start(struct reader *reader, const char *path)
{
    struct delete_reader *state = reader->target;
    struct rg_xml_delete *request = &state->request;
    if (strcmp(path, "Object") != 0) {
        return;
    }
    if (request->count >= RG_XML_DELETE_MAX) {
        malformed(reader, "At most 1000 objects can be deleted at once");
        return;
    }
    if (!request->keys) {
        request->keys = calloc(RG_XML_DELETE_MAX, sizeof(*request->keys));
        if (!request->keys) {
            stop(reader, rg_fail(reader->err, RG_OUT_OF_MEMORY));
            return;
        }
    }
    request->count++;
}

static void keep_quiet(struct reader *reader, struct delete_reader *state, struct span text)
{
    text = trim(text);
    bool quiet = rg_span_is_nocase(text, "true");
    if (state->seen_quiet || (!quiet && !rg_span_is_nocase(text, "false"))) {
        malformed(reader, "Quiet is true or false");
        return;
    }
    state->seen_quiet = true;
    state->request.quiet = quiet;
}

static void keep_key(struct reader *reader, char **field, struct span text)
{
    if (text.len == 0) {
        malformed(reader, "A Key is empty");
    } else if (text.len > DELETE_KEY_MAX) {
        stop(reader, rg_fail(reader->err, RG_KEY_TOO_LONG));
    } else {
        keep_text(reader, field, text);
    }
}

static void keep_size(struct reader *reader, struct rg_xml_delete_key *key, struct span text)
{
    if (key->has_size || !rg_span_to_u64(trim(text), &key->size)) {
        malformed(reader, "A Size is not a number");
        return;
    }
    key->has_size = true;
}

static void keep_modified(struct reader *reader, struct rg_xml_delete_key *key, struct span text)
{
    text = trim(text);
    int64_t seconds;
    if (!key->has_modified && rg_date_parse_iso(text, &key->modified)) {
        key->has_modified = true;
    } else if (!key->has_modified && rg_date_parse_http(text, 0, &seconds)) {
        key->has_modified = true;
        key->modified = (struct timespec){.tv_sec = seconds};
    } else {
        malformed(reader, "A LastModifiedTime is not a time");
    }
}

static void delete_text(struct reader *reader, const char *path, struct span text)
{
    struct delete_reader *state = reader->target;
    struct rg_xml_delete *request = &state->request;
    if (strcmp(path, "Quiet") == 0) {
        keep_quiet(reader, state, text);
        return;
    }
    if (strncmp(path, "Object/", 7) != 0) {
        return;
    }
    struct rg_xml_delete_key *key = &request->keys[request->count - 1];
    const char *name = path + 7;
    if (strcmp(name, "Key") == 0) {
        keep_key(reader, &key->key, text);
    } else if (strcmp(name, "VersionId") == 0) {
        keep_text(reader, &key->version_id, trim(text));
    } else if (strcmp(name, "ETag") == 0) {
        keep_text(reader, &key->etag, without_quotes(text));
    } else if (strcmp(name, "Size") == 0) {
        keep_size(reader, key, text);
    } else if (strcmp(name, "LastModifiedTime") == 0) {
        keep_modified(reader, key, text);
    }
}

static void delete_end(struct reader *reader, const char *path)
{
    struct delete_reader *state = reader->target;
    if (strcmp(path, "Object") == 0 && !state->request.keys[state->request.count - 1].key) {
        malformed(reader, "An Object lacks its Key");
    }
}

static const struct document delete_document = {"Delete", delete_start, delete_text, delete_end};

int rg_xml_read_delete(struct span body, struct rg_xml_delete *ret_delete, struct rg_error *err)
{
    struct delete_reader state = {.request = {.keys = NULL}};
    int rc = walk(&delete_document, body, &state, err);
    if (rc == 0 && state.request.count == 0) {
        rc = rg_failf(err, RG_MALFORMED_XML, "%s There is no Object.",
                      rg_code_sentence(RG_MALFORMED_XML));
    }
    if (rc) {
        rg_xml_delete_free(&state.request);
        return rc;
    }
    *ret_delete = state.request;
    return 0;
}

/* ---- CompleteMultipartUpload ---- */

struct complete_reader {
    struct rg_xml_complete complete;
    size_t room;
    uint32_t parts_max;
};

void rg_xml_complete_free(struct rg_xml_complete *complete)
{
    free(complete->parts);
    *complete = (struct rg_xml_complete){.parts = NULL};
}

static void complete_start(struct reader *reader, const char *path)
{
    struct complete_reader *state = reader->target;
    struct rg_xml_complete *complete = &state->complete;
    if (strcmp(path, "Part") != 0) {
        return;
    }
    if (complete->count >= state->parts_max) {
        malformed(reader, "There are too many parts");
        return;
    }
    if (complete->count == state->room) {
        size_t room = state->room ? state->room * 2 : 64;
        void *parts = realloc(complete->parts, room * sizeof(*complete->parts));
        if (!parts) {
            stop(reader, rg_fail(reader->err, RG_OUT_OF_MEMORY));
            return;
        }
        complete->parts = parts;
        state->room = room;
    }
    complete->parts[complete->count++] = (struct rg_xml_complete_part){.number = 0};
}

static void keep_number(struct reader *reader, struct rg_xml_complete_part *part, uint32_t most,
                        struct span text)
{
    uint64_t number;
    text = trim(text);
    if (part->number || !rg_span_to_u64(text, &number)) {
        malformed(reader, "A PartNumber is not a number");
    } else if (number < 1 || number > most) {
        stop(reader, rg_failf(reader->err, RG_INVALID_ARGUMENT,
                              "Part number must be an integer between 1 and %u, inclusive", most));
    } else {
        part->number = (uint32_t)number;
    }
}

static void keep_etag(struct reader *reader, struct rg_xml_complete_part *part, struct span text)
{
    text = without_quotes(text);
    if (part->etag[0] || text.len == 0 || text.len > RG_ETAG_MAX) {
        malformed(reader, "An ETag is not one");
        return;
    }
    memcpy(part->etag, text.ptr, text.len);
    part->etag[text.len] = '\0';
}

static void keep_checksum(struct reader *reader, struct rg_xml_complete_part *part,
                          enum rg_checksum_algorithm algorithm, struct span text)
{
    if (part->checksum.algorithm != RG_CHECKSUM_NONE) {
        malformed(reader, "A part has more than one checksum");
        return;
    }
    int rc = rg_checksum_parse(algorithm, trim(text), &part->checksum, reader->err);
    if (rc == 0 && part->checksum.type != RG_CHECKSUM_FULL_OBJECT) {
        rc = rg_failf(reader->err, RG_INVALID_REQUEST, "Value for %s of a part is invalid.",
                      rg_checksum_element(algorithm));
    }
    if (rc) {
        stop(reader, rc);
    }
}

static void complete_text(struct reader *reader, const char *path, struct span text)
{
    struct complete_reader *state = reader->target;
    if (strncmp(path, "Part/", 5) != 0) {
        return;
    }
    struct rg_xml_complete_part *part = &state->complete.parts[state->complete.count - 1];
    const char *name = path + 5;
    if (strcmp(name, "PartNumber") == 0) {
        keep_number(reader, part, state->parts_max, text);
        return;
    }
    if (strcmp(name, "ETag") == 0) {
        keep_etag(reader, part, text);
        return;
    }
    for (int i = RG_CHECKSUM_NONE + 1; i < RG_CHECKSUM_ALGORITHM_COUNT; i++) {
        if (strcmp(name, rg_checksum_element((enum rg_checksum_algorithm)i)) == 0) {
            keep_checksum(reader, part, (enum rg_checksum_algorithm)i, text);
            return;
        }
    }
}

static void complete_end(struct reader *reader, const char *path)
{
    struct complete_reader *state = reader->target;
    if (strcmp(path, "Part") != 0) {
        return;
    }
    const struct rg_xml_complete_part *part = &state->complete.parts[state->complete.count - 1];
    if (part->number == 0 || !part->etag[0]) {
        malformed(reader, "A Part lacks its PartNumber or its ETag");
    }
}

static const struct document complete_document = {"CompleteMultipartUpload", complete_start,
                                                  complete_text, complete_end};

int rg_xml_read_complete(struct span body, uint32_t parts_max, struct rg_xml_complete *ret_complete,
                         struct rg_error *err)
{
    struct complete_reader state = {.complete = {.parts = NULL}, .parts_max = parts_max};
    int rc = walk(&complete_document, body, &state, err);
    if (rc == 0 && state.complete.count == 0) {
        rc = rg_failf(err, RG_MALFORMED_XML, "%s There is no Part.",
                      rg_code_sentence(RG_MALFORMED_XML));
    }
    if (rc) {
        rg_xml_complete_free(&state.complete);
        return rc;
    }
    *ret_complete = state.complete;
    return 0;
}
