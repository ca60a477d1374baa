#include "gate/metrics.h"
#include "test.h"

#include <pthread.h>
#include <stdlib.h>

static struct rg_metrics *metrics;

static int make(void **state)
{
    (void)state;
    struct rg_error err = RG_ERROR_INIT;
    return rg_metrics_new(&metrics, &err);
}

static int drop(void **state)
{
    (void)state;
    rg_metrics_free(metrics);
    return 0;
}

static void expose(struct rg_buf *text)
{
    struct rg_metrics_sample sample = {.version = "1.2\"3", .ready = true};
    sample.http.connections = 7;
    sample.store.copy_count[RG_COPY_USED_REFLINK] = 3;
    rg_metrics_write(metrics, &sample, text);
    assert_true(rg_buf_ok(text));
}

static void assert_line(const struct rg_buf *text, const char *line)
{
    RG_BUF(wanted, 1024);
    rg_buf_addf(&wanted, "\n%s\n", line);
    if (!strstr(text->data, rg_buf_text(&wanted))) {
        fail_msg("%s is not in:\n%s", line, text->data);
    }
}

static struct rg_metrics_request request(const char *operation, int status)
{
    return (struct rg_metrics_request){.operation = operation,
                                       .status = status,
                                       .bytes_received = 10,
                                       .bytes_sent = 20,
                                       .total_ns = 30000000,
                                       .sent_whole = status != 0,
                                       .path = ""};
}

static void test_counts(void **state)
{
    (void)state;
    RG_BUF(text, 1 << 20);
    struct rg_metrics_request get = request("GetObject", 200);
    get.path = "http:no-token";
    rg_metrics_count(metrics, &get);
    get.path = "http:rdma-off";
    rg_metrics_count(metrics, &get);
    get.path = "rdma:ofi:tcp";
    rg_metrics_count(metrics, &get);
    struct rg_metrics_request missing = request("GetObject", 404);
    missing.failure = RG_NO_SUCH_KEY;
    rg_metrics_count(metrics, &missing);
    struct rg_metrics_request broken = request("PutObject", 0);
    rg_metrics_count(metrics, &broken);
    struct rg_metrics_request strange = request("PutObject", 299);
    strange.total_ns = 400000000000;
    rg_metrics_count(metrics, &strange);
    expose(&text);
    assert_line(&text, "railgate_build_info{version=\"1.2\\\"3\"} 1");
    assert_line(&text, "railgate_requests_total{operation=\"GetObject\",status=\"200\"} 3");
    assert_line(&text, "railgate_requests_total{operation=\"GetObject\",status=\"404\"} 1");
    assert_line(&text, "railgate_requests_total{operation=\"PutObject\",status=\"0\"} 1");
    assert_line(&text, "railgate_requests_total{operation=\"PutObject\",status=\"999\"} 1");
    assert_line(&text, "railgate_received_bytes_total{operation=\"GetObject\"} 40");
    assert_line(&text, "railgate_sent_bytes_total{operation=\"PutObject\"} 40");
    assert_line(&text, "railgate_requests_cut_total{operation=\"PutObject\"} 1");
    assert_line(&text, "railgate_errors_total{code=\"NoSuchKey\",cause=\"NO_SUCH_KEY\"} 1");
    assert_line(&text, "railgate_transfers_total{path=\"http\",reason=\"no-token\"} 1");
    assert_line(&text, "railgate_transfers_total{path=\"http\",reason=\"rdma-off\"} 1");
    assert_line(&text, "railgate_transfers_total{path=\"rdma:ofi:tcp\",reason=\"\"} 1");
    assert_line(&text, "railgate_transfer_bytes_total{path=\"http\"} 60");
    assert_line(&text, "railgate_transfer_bytes_total{path=\"rdma:ofi:tcp\"} 30");
    assert_line(&text, "railgate_copies_total{method=\"reflink\"} 3");
    assert_line(&text, "railgate_connections 7");
    assert_line(&text, "railgate_ready 1");
    /* Cumulative buckets; 30 ms lies between 25 and 50. */
    assert_line(&text, "railgate_request_seconds_bucket{operation=\"GetObject\",class=\"2xx\","
                       "le=\"0.025\"} 0");
    assert_line(&text, "railgate_request_seconds_bucket{operation=\"GetObject\",class=\"2xx\","
                       "le=\"0.05\"} 3");
    assert_line(&text, "railgate_request_seconds_bucket{operation=\"PutObject\",class=\"2xx\","
                       "le=\"300\"} 0");
    assert_line(&text, "railgate_request_seconds_bucket{operation=\"PutObject\",class=\"2xx\","
                       "le=\"+Inf\"} 1");
    assert_line(&text,
                "railgate_request_seconds_sum{operation=\"GetObject\",class=\"2xx\"} 0.090000");
    assert_line(&text, "railgate_request_seconds_count{operation=\"GetObject\",class=\"2xx\"} 3");
}

/* Names beyond the ceiling are counted under one. */
static void test_ceiling(void **state)
{
    (void)state;
    RG_BUF(text, 4 << 20);
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "Operation%d", i);
        struct rg_metrics_request made_up = request(name, 200);
        made_up.path = name;
        rg_metrics_count(metrics, &made_up);
    }
    expose(&text);
    assert_line(&text, "railgate_requests_total{operation=\"other\",status=\"200\"} 72");
    assert_line(&text, "railgate_transfers_total{path=\"other\",reason=\"\"} 136");
    assert_line(&text, "railgate_transfer_bytes_total{path=\"other\"} 4080");
}

static void *count_many(void *argument)
{
    (void)argument;
    for (int i = 0; i < 2000; i++) {
        char name[32];
        snprintf(name, sizeof name, "Op%d", i % 10);
        struct rg_metrics_request one = request(name, 200);
        rg_metrics_count(metrics, &one);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    RG_BUF(text, 1 << 20);
    for (size_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_many, NULL), 0);
    }
    for (size_t i = 0; i < RG_ARRAY_LENGTH(threads); i++) {
        pthread_join(threads[i], NULL);
    }
    expose(&text);
    assert_line(&text, "railgate_requests_total{operation=\"Op3\",status=\"200\"} 800");
}

/* Every line is a comment or a sample, each family has its heading, no family comes twice. */
static void test_form(void **state)
{
    (void)state;
    RG_BUF(text, 1 << 20);
    struct rg_metrics_request get = request("GetObject", 200);
    rg_metrics_count(metrics, &get);
    expose(&text);
    char current[128] = "";
    size_t families = 0;
    struct span rest = rg_buf_span(&text);
    while (rest.len) {
        struct span line = rg_span_cut(&rest, '\n');
        char name[128];
        if (rg_span_starts(line, RG_SPAN_LITERAL("# TYPE "))) {
            assert_int_equal(sscanf(line.ptr, "# TYPE %127s", current), 1);
            families++;
        } else if (!rg_span_starts(line, RG_SPAN_LITERAL("# HELP "))) {
            assert_int_equal(sscanf(line.ptr, "%127[a-z_A-Z]", name), 1);
            assert_memory_equal(name, current, strlen(current));
        }
    }
    assert_true(families > 30);
}

static void test_reference(void **state)
{
    (void)state;
    RG_BUF(text, 1 << 20);
    rg_metrics_reference(&text);
    assert_true(rg_buf_ok(&text));
    assert_line(&text, "| `railgate_connections` | gauge | - | Open connections of the S3 "
                       "listener. |");
    assert_non_null(
        strstr(text.data, "| `railgate_requests_total` | counter | operation,status |"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_counts, make, drop),
        cmocka_unit_test_setup_teardown(test_ceiling, make, drop),
        cmocka_unit_test_setup_teardown(test_threads, make, drop),
        cmocka_unit_test_setup_teardown(test_form, make, drop),
        cmocka_unit_test(test_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
