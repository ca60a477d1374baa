/*
 * Writes a made-up kernel log to standard output: diagnose-log MEBIBYTES KIND [SEED].
 *
 *   ordinary  one node's dmesg: drivers, containers, audit; Lustre now and then
 *   storm     one node's dmesg in an incident: every fourth line is Lustre's
 *   hostile   everything that grows what is kept: ever new hosts, targets, NIDs, texts, boots,
 *             sites, lines without end, binary noise
 *
 * The same words give the same bytes. It must be faster than what reads it.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 1024

static uint64_t seed = 1;

static uint32_t any(uint32_t below)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(((seed >> 33) * below) >> 31);
}

/* Every %u becomes a number. */
static const char *const ordinary[] = {
    "usb 1-%u: new high-speed USB device number %u using xhci_hcd",
    "audit: type=1400 audit(1795962611.%u:%u): apparmor=\"STATUS\" operation=\"profile_load\" "
    "profile=\"unconfined\" name=\"docker-default\" pid=%u comm=\"apparmor_parser\"",
    "docker0: port %u(veth%ua7f) entered blocking state",
    "docker0: port %u(veth%ua7f) entered forwarding state",
    "device veth%ua7f entered promiscuous mode",
    "EXT4-fs (sda%u): mounted filesystem with ordered data mode. Quota mode: none.",
    "systemd[1]: Started Session %u of user root.",
    "perf: interrupt took too long (%u > 2500), lowering kernel.perf_event_max_sample_rate to %u",
    "kauditd_printk_skb: %u callbacks suppressed",
    "loop%u: detected capacity change from 0 to %u",
    "x86/split lock detection: #AC: python3/%u took a split_lock trap at address: 0x7f%u",
    "TCP: request_sock_TCP: Possible SYN flooding on port %u. Sending cookies.",
    "hrtimer: interrupt took %u ns",
    "nvidia-uvm: Loaded the UVM driver, major device number %u.",
    "IPv6: eth0: IPv6 duplicate address fe80::%u used by 00:00:5e:00:53:%u detected!",
};

static const char *const lustre[] = {
    "Lustre: %u:0:(client.c:2310:ptlrpc_expire_one_request()) @@@ Request sent has timed out for "
    "slow reply: [sent 1795962600/real 1795962600]  req@00000000f178e0a7 x18287875%u/t0(0) "
    "o4->scratch-OST0012-osc-ffff8881@192.0.2.73@o2ib:6/4 lens 488/448 e 0 to 1 dl 1795962607 ref "
    "1 fl Rpc:XQr/0/ffffffff rc 0/-1 job:'u0.g0'",
    "Lustre: scratch-OST0012-osc-ffff8881: Connection to scratch-OST0012 (at 192.0.2.73@o2ib) was "
    "lost; in progress operations using this service will wait for recovery to complete",
    "Lustre: scratch-OST0012-osc-ffff8881: Connection restored to 192.0.2.73@o2ib (at "
    "192.0.2.73@o2ib)",
    "LustreError: %u:0:(client.c:1234:ptlrpc_import_delay_req()) Skipped %u previous similar "
    "messages",
};

static size_t fill(char *out, const char *pattern)
{
    char *at = out;
    for (; *pattern; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'u') {
            at += sprintf(at, "%" PRIu32, any(100000));
            pattern++;
        } else {
            *at++ = *pattern;
        }
    }
    return (size_t)(at - out);
}

static size_t write_dmesg(char *out, uint64_t line, uint32_t lustre_in)
{
    uint64_t usec = 100000000 + line * 5000 + any(4000);
    int len = sprintf(out, "[%5" PRIu64 ".%06" PRIu64 "] ", usec / 1000000, usec % 1000000);
    bool ours = any(lustre_in) == 0;
    const char *pattern = ours ? lustre[any(sizeof(lustre) / sizeof(lustre[0]))]
                               : ordinary[any(sizeof(ordinary) / sizeof(ordinary[0]))];
    size_t used = (size_t)len + fill(out + len, pattern);
    out[used++] = '\n';
    return used;
}

static size_t write_hostile(char *out, uint64_t line)
{
    unsigned long long n = line;
    uint32_t a = any(1000000), b = any(65536);
    switch (any(10)) {
    case 0:
        return (size_t)sprintf(out,
                               "Nov 29 14:30:11 host%llu kernel: Lustre: fs%u-OST%04x-osc-ffff%u: "
                               "Connection to fs%u-OST%04x (at 10.%u.%u.%u@o2ib%u) was lost; in "
                               "progress operations using this service will wait for recovery to "
                               "complete\n",
                               n, a % 1000, b, a, a % 1000, b, a % 256, b % 256, a % 251, b % 20);
    case 1:
        return (size_t)sprintf(out,
                               "node%u: [%u.%06u] LustreError: %u:0:(file%u.c:%u:function%u()) "
                               "Skipped %u previous similar messages\n",
                               a, b, a, a, a % 5000, b, a % 7777, b);
    case 2:
        return (size_t)sprintf(out,
                               "gpu%u: [%u.%06u] LustreError: %u:0:(file%u.c:%u:function%u()) "
                               "unheard of error number %llu of %u failed: rc = -%u\n",
                               a % 3000, b, a, a, a % 5000, b, a % 7777, n, a, b % 130);
    case 3:
        return (size_t)sprintf(
            out,
            "{\"_HOSTNAME\":\"j%u\",\"_BOOT_ID\":\"%016llx\",\"__REALTIME_"
            "TIMESTAMP\":\"17959626110%05u\",\"MESSAGE\":\"LustreError: evicting "
            "client %llu\"}\n",
            a, n, b, n);
    case 4:
        return (size_t)sprintf(out, "mds%u: [    0.000000] Linux version %u\n", a % 100, b);
    case 5:
        memset(out, 'x', 900); /* and no line end, now and then */
        out[900] = '\n';
        return any(50) == 0 ? 900 : 901;
    case 6:
        for (int i = 0; i < 64; i++) {
            out[i] = (char)any(256);
        }
        return 64;
    case 7:
        return (size_t)sprintf(out, "----\nlist%u-[1-%u]\n----\n", a, b % 40);
    case 8:
        return (size_t)sprintf(
            out,
            "[Sun Nov 29 14:%02u:%02u 2026] mlx5_core %04x:%02x:00.0 eth%u: Link "
            "down\n",
            a % 60, b % 60, b, a % 256, a);
    default:
        return (size_t)sprintf(out, "LNetError: %u:0:(o2iblnd_cb.c:%u:f()) error %llu -110\n", a, b,
                               n);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: diagnose-log MEBIBYTES ordinary|storm|hostile [SEED]\n", stderr);
        return 2;
    }
    uint64_t left = strtoull(argv[1], NULL, 10) << 20;
    bool hostile = strcmp(argv[2], "hostile") == 0;
    uint32_t lustre_in = strcmp(argv[2], "storm") == 0 ? 4 : 500;
    seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    static char buffer[1 << 20];
    size_t used = 0;
    for (uint64_t line = 0; left > 0; line++) {
        size_t len = hostile ? write_hostile(buffer + used, line)
                             : write_dmesg(buffer + used, line, lustre_in);
        used += len;
        left -= len < left ? len : left;
        if (used + 4 * LINE_MAX_BYTES > sizeof(buffer) || left == 0) {
            if (fwrite(buffer, 1, used, stdout) != used) {
                return 1;
            }
            used = 0;
        }
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
