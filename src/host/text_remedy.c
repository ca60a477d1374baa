#include "host/text_remedy.h"

#include "host/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void rg_remedy_kernel_argument(struct rg_finding *finding, const struct rg_host_facts *facts,
                               const char *word)
{
    bool rhel = facts->system.distribution == RG_DISTRIBUTION_RHEL;
    bool debian = facts->system.distribution == RG_DISTRIBUTION_DEBIAN;
    if (!debian) {
        rg_find_remedy(finding,
                       rhel ? "grubby --update-kernel=ALL --args=%s"
                            : "grubby --update-kernel=ALL --args=%s   # RHEL and its like",
                       word);
    }
    if (!rhel) {
        rg_find_remedy(finding,
                       debian ? "sed -i 's|^GRUB_CMDLINE_LINUX=\"|&%s |' /etc/default/grub && "
                                "update-grub"
                              : "sed -i 's|^GRUB_CMDLINE_LINUX=\"|&%s |' /etc/default/grub && "
                                "update-grub   # Debian, Ubuntu",
                       word);
    }
    rg_find_remedy(finding, "reboot");
}

/* A file for each setting: what mends one thing must not undo what mended another. */
void rg_remedy_unit(struct rg_finding *finding, const char *unit, const char *assignment)
{
    int name = (int)strcspn(assignment, "=");
    rg_find_remedy(finding, "mkdir -p /etc/systemd/system/%s.d", unit);
    rg_find_remedy(finding, "printf '[Service]\\n%s\\n' >/etc/systemd/system/%s.d/rdma-%.*s.conf",
                   assignment, unit, name, assignment);
    rg_find_remedy(finding, "systemctl daemon-reload && systemctl restart %s", unit);
}

void rg_bytes_text(uint64_t bytes, char ret_text[RG_BYTES_TEXT_MAX + 1])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    if (bytes == RG_WORDS_UNLIMITED) {
        snprintf(ret_text, RG_BYTES_TEXT_MAX + 1, "unlimited");
        return;
    }
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(ret_text, RG_BYTES_TEXT_MAX + 1,
             value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value, units[unit]);
}
