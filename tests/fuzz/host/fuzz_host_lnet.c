/* YAML of lnetctl, the kernel's table, module options, scripts, lists of identifiers. */
#include "host/lnet_text.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = rg_span(data, size);
    struct rg_lnet_conf *conf = malloc(sizeof *conf);
    struct rg_lnet_module *module = calloc(1, sizeof *module);
    struct rg_nid_list *list = calloc(1, sizeof *list);
    struct rg_nid nid, again;
    size_t line;
    rg_lnet_yaml_parse(text, conf);
    assert(conf->ni_count <= RG_LNET_NIS_MAX && conf->route_count <= RG_LNET_LIST_MAX);
    (void)rg_lnet_nis_parse(text, conf);
    rg_lnet_module_parse(text, module);
    assert(module->count <= RG_LNET_LIST_MAX);
    rg_nid_list_add(list, text);
    assert(list->count <= RG_LNET_LIST_MAX);
    if (rg_nid_parse(text, &nid)) {
        char shown[RG_NID_TEXT_MAX + 1];
        rg_nid_text(&nid, shown);
        assert(rg_nid_parse(rg_span_text(shown), &again) && rg_nid_is_same(&nid, &again));
    }
    if (rg_lnet_script_parse(text, &line)) {
        assert(line >= 1 && line <= size);
    }
    free(conf);
    free(module);
    free(list);
    return 0;
}
