/*
 * Table, JSON and SVG of what railgate bench measured. Pure.
 */
#include "cli/bench.h"

#include "cli/remote.h"

#include "base/checked.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MIB 1048576.0
#define GIB 1073741824.0

#define SVG_WIDTH   900
#define SVG_HEIGHT  520
#define SVG_LEFT    80
#define SVG_RIGHT   240
#define SVG_TOP     30
#define SVG_BOTTOM  60
#define SVG_LINES   24u
#define SVG_Y_STEPS 5

static const char *op_name(enum rg_cli_bench_op op)
{
    return op == RG_CLI_BENCH_PUT ? "put" : "get";
}

static const char *path_name(enum rg_path_choice path)
{
    return path == RG_PATH_AUTO ? "auto" : path == RG_PATH_RDMA_ONLY ? "rdma" : "http";
}

static double rate(const struct rg_cli_bench_cell *cell)
{
    return cell->seconds > 0 ? (double)cell->bytes / MIB / cell->seconds : 0;
}

static double per_gib(const struct rg_cli_bench_cell *cell, double seconds)
{
    return cell->bytes ? seconds / ((double)cell->bytes / GIB) : 0;
}

double rg_cli_bench_percentile_ms(const uint64_t *sorted_ns, size_t count, unsigned percent)
{
    uint64_t rank = ((uint64_t)count * percent + 99) / 100;
    return (double)sorted_ns[rank ? rank - 1 : 0] / 1e6;
}

double rg_cli_bench_witness(const struct rg_cli_bench_cell *cell)
{
    /* Where HTTP was asked for nothing may go by RDMA; elsewhere all of it should. */
    if (cell->path == RG_PATH_HTTP_ONLY) {
        return cell->witness_bytes ? (double)INFINITY : 0;
    }
    return cell->bytes ? (double)cell->witness_bytes / (double)cell->bytes : 0;
}

/* ---- Table ---- */

void rg_cli_bench_table_head(struct rg_buf *out)
{
    rg_buf_addf(out, "%-4s %-5s %10s %5s %9s %9s %9s %8s %8s %8s %8s %8s %8s %7s  %s\n", "op",
                "asked", "size", "conc", "ops", "MiB/s", "ops/s", "p50 ms", "p90 ms", "p99 ms",
                "max ms", "cli s/G", "srv s/G", "witness", "went by");
}

void rg_cli_bench_table_row(const struct rg_cli_bench_cell *cell, struct rg_buf *out)
{
    RG_BUF(size, 32);
    rg_cli_add_bytes(&size, cell->size);
    rg_buf_addf(out, "%-4s %-5s %10s %5u %9" PRIu64 " %9.1f %9.1f %8.2f %8.2f %8.2f %8.2f %8.2f ",
                op_name(cell->op), path_name(cell->path), rg_buf_text(&size), cell->concurrency,
                cell->operations, rate(cell),
                cell->seconds > 0 ? (double)cell->operations / cell->seconds : 0, cell->p50_ms,
                cell->p90_ms, cell->p99_ms, cell->max_ms, per_gib(cell, cell->client_cpu_s));
    if (cell->has_server_cpu) {
        rg_buf_addf(out, "%8.2f ", per_gib(cell, cell->server_cpu_s));
    } else {
        rg_buf_addf(out, "%8s ", "-");
    }
    if (cell->has_witness) {
        rg_buf_addf(out, "%7.3f  ", rg_cli_bench_witness(cell));
    } else {
        rg_buf_addf(out, "%7s  ", "-");
    }
    rg_buf_addf(out, "%s\n", cell->went[0] ? cell->went : "-");
    if (cell->failures) {
        rg_buf_addf(out, "     %" PRIu64 " FAILED: ", cell->failures);
        rg_cli_add_name(out, cell->failure);
        rg_buf_add_char(out, '\n');
    }
}

/* ---- JSON ---- */

static void add_json_text(struct rg_buf *out, const char *text)
{
    rg_buf_add_char(out, '"');
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\' || c < 0x20) {
            rg_buf_addf(out, "\\u%04x", c);
        } else {
            rg_buf_add_char(out, (char)c);
        }
    }
    rg_buf_add_char(out, '"');
}

static void add_json_cell(const struct rg_cli_bench_cell *cell, struct rg_buf *out)
{
    rg_buf_addf(out,
                "{\"operation\":\"%s\",\"path_asked\":\"%s\",\"size\":%" PRIu64
                ",\"concurrency\":%u,\"operations\":%" PRIu64 ",\"failures\":%" PRIu64
                ",\"bytes\":%" PRIu64 ",\"rdma_bytes\":%" PRIu64 ",\"seconds\":%.6f",
                op_name(cell->op), path_name(cell->path), cell->size, cell->concurrency,
                cell->operations, cell->failures, cell->bytes, cell->rdma_bytes, cell->seconds);
    rg_buf_addf(out,
                ",\"mib_per_s\":%.3f,\"p50_ms\":%.4f,\"p90_ms\":%.4f,\"p99_ms\":%.4f,"
                "\"max_ms\":%.4f,\"client_cpu_s\":%.4f",
                rate(cell), cell->p50_ms, cell->p90_ms, cell->p99_ms, cell->max_ms,
                cell->client_cpu_s);
    if (cell->has_server_cpu) {
        rg_buf_addf(out, ",\"server_cpu_s\":%.4f", cell->server_cpu_s);
    }
    if (cell->has_witness) {
        rg_buf_addf(out, ",\"witness_bytes\":%" PRIu64, cell->witness_bytes);
        if (cell->path != RG_PATH_HTTP_ONLY) {
            rg_buf_addf(out, ",\"witness_ratio\":%.6f", rg_cli_bench_witness(cell));
        }
    }
    rg_buf_add_text(out, ",\"path\":");
    add_json_text(out, cell->went);
    if (cell->failures) {
        rg_buf_add_text(out, ",\"failure\":");
        add_json_text(out, cell->failure);
    }
    rg_buf_add_char(out, '}');
}

void rg_cli_bench_json(const struct rg_cli_bench_cell *cells, size_t count, struct rg_buf *out)
{
    rg_buf_add_text(out, "{\"cells\":[\n");
    for (size_t i = 0; i < count; i++) {
        add_json_cell(&cells[i], out);
        rg_buf_add_text(out, i + 1 < count ? ",\n" : "\n");
    }
    rg_buf_add_text(out, "]}\n");
}

/* ---- SVG ---- */

struct chart {
    const struct rg_cli_bench_cell *cells;
    size_t count;
    double size_min, size_max; /* log2 */
    double rate_max;
};

static double x_of(const struct chart *chart, uint64_t size)
{
    double span = chart->size_max - chart->size_min;
    double share = span > 0 ? (log2((double)size) - chart->size_min) / span : 0.5;
    return SVG_LEFT + share * (SVG_WIDTH - SVG_LEFT - SVG_RIGHT);
}

static double y_of(const struct chart *chart, double mib_per_s)
{
    double share = chart->rate_max > 0 ? mib_per_s / chart->rate_max : 0;
    return SVG_HEIGHT - SVG_BOTTOM - share * (SVG_HEIGHT - SVG_TOP - SVG_BOTTOM);
}

static bool same_line(const struct rg_cli_bench_cell *a, const struct rg_cli_bench_cell *b)
{
    return a->op == b->op && a->path == b->path && a->concurrency == b->concurrency;
}

static bool is_first_of_line(const struct chart *chart, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (same_line(&chart->cells[i], &chart->cells[index])) {
            return false;
        }
    }
    return true;
}

static void find_scales(struct chart *chart)
{
    chart->size_min = INFINITY;
    chart->size_max = 0;
    for (size_t i = 0; i < chart->count; i++) {
        double size = log2((double)chart->cells[i].size);
        chart->size_min = size < chart->size_min ? size : chart->size_min;
        chart->size_max = size > chart->size_max ? size : chart->size_max;
        double mib_per_s = rate(&chart->cells[i]);
        chart->rate_max = mib_per_s > chart->rate_max ? mib_per_s : chart->rate_max;
    }
    /* A round number at the top. */
    double unit = pow(10, floor(log10(chart->rate_max > 1 ? chart->rate_max : 1)));
    chart->rate_max = ceil(chart->rate_max / unit) * unit;
}

static void add_axes(const struct chart *chart, struct rg_buf *out)
{
    double bottom = SVG_HEIGHT - SVG_BOTTOM;
    double right = SVG_WIDTH - SVG_RIGHT;
    rg_buf_addf(out, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", SVG_WIDTH, SVG_HEIGHT);
    for (int i = 0; i <= SVG_Y_STEPS; i++) {
        double value = chart->rate_max * i / SVG_Y_STEPS;
        double y = y_of(chart, value);
        rg_buf_addf(out,
                    "<line x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                    "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n",
                    SVG_LEFT, y, right, y, SVG_LEFT - 8, y + 4, value);
    }
    for (size_t i = 0; i < chart->count; i++) {
        bool is_new = true;
        for (size_t j = 0; j < i; j++) {
            is_new = is_new && chart->cells[j].size != chart->cells[i].size;
        }
        if (is_new) {
            rg_buf_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">",
                        x_of(chart, chart->cells[i].size), bottom + 20);
            rg_cli_add_bytes(out, chart->cells[i].size);
            rg_buf_add_text(out, "</text>\n");
        }
    }
    rg_buf_addf(out,
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">object size</text>"
                "<text x=\"%d\" y=\"18\" text-anchor=\"middle\">MiB/s</text>\n",
                (SVG_LEFT + right) / 2, bottom + 44, SVG_LEFT - 8);
}

static void add_line(const struct chart *chart, size_t first, unsigned number, struct rg_buf *out)
{
    const struct rg_cli_bench_cell *cell = &chart->cells[first];
    /* Hues far from each other, dashes for GET. */
    unsigned hue = number * 137 % 360;
    const char *dashes = cell->op == RG_CLI_BENCH_GET ? "6 3" : "none";
    rg_buf_addf(out,
                "<polyline fill=\"none\" stroke=\"hsl(%u,70%%,40%%)\" stroke-width=\"2\" "
                "stroke-dasharray=\"%s\" points=\"",
                hue, dashes);
    for (size_t i = first; i < chart->count; i++) {
        if (same_line(&chart->cells[i], cell)) {
            rg_buf_addf(out, "%.1f,%.1f ", x_of(chart, chart->cells[i].size),
                        y_of(chart, rate(&chart->cells[i])));
        }
    }
    rg_buf_add_text(out, "\"/>\n");
    for (size_t i = first; i < chart->count; i++) {
        if (same_line(&chart->cells[i], cell)) {
            rg_buf_addf(
                out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"hsl(%u,70%%,40%%)\"/>\n",
                x_of(chart, chart->cells[i].size), y_of(chart, rate(&chart->cells[i])), hue);
        }
    }
    double y = SVG_TOP + 10 + 18.0 * number;
    rg_buf_addf(out,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"hsl(%u,70%%,40%%)\" "
                "stroke-width=\"2\" stroke-dasharray=\"%s\"/><text x=\"%d\" y=\"%.1f\">%s %s, %u "
                "at once</text>\n",
                SVG_WIDTH - SVG_RIGHT + 20, y, SVG_WIDTH - SVG_RIGHT + 50, y, hue, dashes,
                SVG_WIDTH - SVG_RIGHT + 58, y + 4, op_name(cell->op), path_name(cell->path),
                cell->concurrency);
}

void rg_cli_bench_svg(const struct rg_cli_bench_cell *cells, size_t count, struct rg_buf *out)
{
    struct chart chart = {.cells = cells, .count = count};
    unsigned number = 0;
    find_scales(&chart);
    rg_buf_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n",
                SVG_WIDTH, SVG_HEIGHT);
    add_axes(&chart, out);
    for (size_t i = 0; i < count && number < SVG_LINES; i++) {
        if (is_first_of_line(&chart, i)) {
            add_line(&chart, i, number++, out);
        }
    }
    rg_buf_add_text(out, "</svg>\n");
}
