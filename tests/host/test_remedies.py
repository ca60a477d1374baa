"""Every command that doctor may print, taken out of its source: its tool has to know what it is asked.

Tools that are installed are asked themselves: their help, or the usage texts in their binaries (some
want a device or a socket before they help). Tools that no distribution has are held to GRAMMAR, what
their makers' documents and sources say; a new command of such a tool is looked up there first.
"""

import functools
import glob
import os
import re
import shlex
import shutil
import subprocess

import pytest

from forest import TOP

LITERAL = r'"(?:[^"\\]|\\.)*"'
TOKEN = re.compile(rf'({LITERAL})|(\'(?:[^\'\\]|\\.)\')|(\w+)|(\s+)|(.)', re.S)
CALL = re.compile(r'\b(rg_find_remedy|rg_remedy_install|mend_pod|add_line|rg_buf_addf)\s*\(')
SOURCES = sorted(glob.glob(os.path.join(TOP, "src/host/*.c")))


def unquote(literal):
    return re.sub(r'\\(.)', lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), literal[1:-1])


@functools.lru_cache
def defines():
    """Names of the preprocessor that stand for texts."""
    found = {}
    for path in glob.glob(os.path.join(TOP, "src/host/*.[ch]")):
        with open(path, encoding="utf-8") as file:
            text = file.read().replace("\\\n", " ")
        for name, value in re.findall(rf'^#define\s+(\w+)\s+((?:{LITERAL}\s*)+)$', text, re.M):
            found[name] = "".join(unquote(x) for x in re.findall(LITERAL, value))
    return found


def arguments(text, start):
    """The top-level arguments of a call, as lists of (depth, token)."""
    result, depth, at = [[]], 0, start
    while True:
        match = TOKEN.match(text, at)
        at, token = match.end(), match[0]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            if depth == 0:
                return result
            depth -= 1
        elif token == "," and depth == 0:
            result.append([])
            continue
        if not token.isspace():
            result[-1].append((depth, token))


def texts(argument):
    """What an argument may be: its literals, those beside each other joined."""
    result, current = [], None
    for depth, token in argument:
        part = None
        if depth == 0 and token.startswith('"'):
            part = unquote(token)
        elif depth == 0 and re.fullmatch(r"PRI[diux]64", token):
            part = "llu"
        elif depth == 0 and token in defines():
            part = defines()[token]
        if part is None:
            current = None
        elif current is None:
            result.append(part)
            current = len(result) - 1
        else:
            result[current] += part
    return result


def fill(template):
    template = re.sub(r"%(?:\.\*|\.\d+|0?2)?(?:ll|z)?[duxX]", "3", template)
    return re.sub(r"%(?:\.\*|\.\d+)?s", "x0", template).replace("%%", "%")


def lines_of_source():
    found = set()
    for path in SOURCES:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for call in CALL.finditer(text):
            given = arguments(text, call.end())
            if call[1] == "rg_remedy_install" and len(given) == 4:
                found |= {"dnf install " + x for x in texts(given[2])}
                found |= {"apt-get install " + x for x in texts(given[3])}
            elif call[1] == "mend_pod" and len(given) == 4:
                found |= {f"podman run {x} IMAGE" for x in texts(given[3])}
            elif call[1] in ("rg_find_remedy", "add_line") and len(given) > 1:
                found |= set(texts(given[1]))
            elif call[1] == "rg_buf_addf" and path.endswith("unjudged.c") and len(given) > 1:
                found |= {x.replace("%s run", "docker run", 1) for x in texts(given[1]) if "run" in x}
        for said in re.findall(rf'LOOK_AS_SAID,\s*((?:{LITERAL}\s*)+)', text):
            found.add("".join(unquote(x) for x in re.findall(LITERAL, said)))
    return sorted(fill(x) for line in found for x in line.split("\n"))


def bare(line):
    """Without what a person reads."""
    return re.sub(r"(^|\s+)#(\s.*|$)", "", line).strip()


def commands(line):
    """The commands of a shell line, each a list of words."""
    line, found = bare(line), []
    while True:
        inner = re.search(r"\$\(([^()]*)\)", line)
        if not inner:
            break
        found += commands(inner[1])
        line = line[:inner.start()] + "x0" + line[inner.end():]
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    current, redirected = [], False
    for word in lexer:
        if word in (";", "&&", "||", "|"):
            found.append(current)
            current = []
        elif re.fullmatch(r"[0-9]?>>?|<", word):
            redirected = True
        elif redirected:
            redirected = False
        else:
            current.append(word)
    return [c for c in found + [current] if c]


@functools.lru_cache
def all_commands():
    return sorted({tuple(c) for line in lines_of_source() for c in commands(line)
                   if c[0] != "x0" and not c[0].startswith("%")})


# ---- Tools that can be asked ----

@functools.lru_cache
def help_of(tool):
    """What the tool says about itself, and the texts in it; None when it is not here."""
    path = shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        return None
    said = ""
    for words in (["--help"], ["-h"], ["help"], ["--fullhelp"], ["run", "--help"]):
        if words[0] == "run" and tool not in ("docker", "podman"):
            continue
        done = subprocess.run([path, *words], capture_output=True, text=True, errors="replace",
                              timeout=20, stdin=subprocess.DEVNULL)
        said += done.stdout + done.stderr
    with open(os.path.realpath(path), "rb") as file:
        inside = re.findall(rb"[\t\n\x20-\x7e]{3,}", file.read())
    return said + "\n" + "\n".join(x.decode() for x in inside)


def knows_option(said, option):
    name = option.split("=")[0]
    if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", said):
        return True
    if name.startswith("--"):
        return re.search(rf"^{re.escape(name[2:])}$", said, re.M) is not None
    return len(name) > 2 and all(knows_option(said, "-" + c) for c in name[1:])


# The words behind the first that are the tool's own, not names of this host's things.
WORDS = {
    "devlink": r"dev|param|show|set|info|flash|reload|name|value|cmode|driverinit|runtime|permanent|"
               r"file",
    "rdma": r"link|resource|dev|system|show|set|add|type|netdev|netns|shared|qp",
    "ip": r"link|address|addr|set|show|add|up|down|nomaster|mtu|dev",
    "mstflint": r"query|burn|q",
    "mstconfig": r"query|set",
    "smpquery": r"portinfo",
    "udevadm": r"trigger",
    "systemctl": r"enable|disable|restart|start|daemon-reload|show|edit|cat",
}
# Parts of every system, or of a shell: nothing of them can be of another version here.
PLAIN = {"echo", "cat", "cd", "chmod", "cut", "df", "dmesg", "export", "grep", "head", "hostname", "id",
         "ls", "mkdir", "mount", "printf", "reboot", "rmmod", "sed", "tail", "top", "touch", "ulimit",
         "umount", "uname", "awk", "sudo", "ldd", "rm"}
ASKED = {"dcb", "devlink", "rdma", "ip", "ss", "ethtool", "lldptool", "ibv_devinfo", "ibv_devices",
         "iblinkinfo", "ibportstate", "ibqueryerrors", "perfquery", "sminfo", "smpquery", "lspci",
         "setpci", "modprobe", "modinfo", "depmod", "numactl", "mstflint", "mstconfig", "nft", "sysctl",
         "systemctl", "journalctl", "findmnt", "udevadm", "ldconfig", "ping", "apt-get", "apt-file",
         "update-initramfs", "lsinitramfs", "update-grub", "dkms", "dnf", "dracut", "lsinitrd", "nmcli",
         "firewall-cmd", "chronyc", "podman", "docker", "zfs", "irqbalance"}

# ---- Tools that only their makers have ----

ANY = r"\S+"
GRAMMAR = {
    # lnet/utils/lnetctl.c of Lustre, since 2.10.
    "lnetctl": [r"lnet configure( --all)?", rf"net add --net {ANY} --if {ANY}",
                rf"net del --net {ANY} --if {ANY}", r"net show( -v( \d)?)?", r"export",
                rf"peer show( --nid {ANY})?( -v( \d)?)?", rf"peer del --prim_nid {ANY}",
                r"route show -v", r"routing show"],
    # lustre/utils/lctl.c; the parameters are those of lustre-manual.
    "lctl": [r"list_nids", r"dl", rf"dk {ANY}", rf"ping {ANY}", rf"(get_param|set_param)( -n)?( {ANY})+",
             rf"--device {ANY} (activate|abort_recovery)"],
    # lustre/utils/lfs.c and its scripts.
    "lfs": [rf"df( -h)?( {ANY})?", rf"find {ANY} --(ost|mdt) {ANY}( --size {ANY}| --type f)?",
            rf"setstripe( -E {ANY}( -c {ANY})+)+ {ANY}"],
    "lfs_migrate": [r"-y"],
    "lustre_rmmod": [r""],
    # lustre/utils/mkfs_lustre.c.
    "tunefs.lustre": [rf"--(dryrun|writeconf) {ANY}", rf"--mgsnode={ANY} {ANY}"],
    # python/mlnx_qos of mlnx-tools.
    "mlnx_qos": [rf"-i {ANY} -d (os|fw)", rf"-i {ANY} --pfc {ANY}", rf"-i {ANY} --trust (dscp|pcp)"],
    # ROCm's documents for Pensando cards, and AMD's operator for Kubernetes.
    "nicctl": [r"show (qos|dcqcn)", r"update port --all --pause-type pfc --rx-pause enable --tx-pause enable",
               r"update qos pfc --priority \d --no-drop (enable|disable)",
               r"update qos --classification-type dscp",
               r"update qos dscp-to-priority --dscp \d+ --priority \d",
               r"update qos scheduling --priority \d,\d,\d --dwrr 50,50,0 --rate-limit 0,0,10",
               rf"update dcqcn -r {ANY} -i 1 --cnp-dscp \d+"],
    # Broadcom's niccli 23x; bnxt_setupcc.sh 236: -r and -s are RoCE's priority and DSCP, -c and -p
    # those of congestion notices.
    "niccli": [rf"--dev {ANY} nvm --getoption support_rdma --scope {ANY}",
               rf"--dev {ANY} nvm --setoption support_rdma --scope {ANY} --value 1"],
    "bnxt_setupcc.sh": [rf"-d {ANY} -i {ANY} -m [123] -r \d -s \d+ -c \d -p \d+"],
    # NVIDIA's and AMD's drivers and libraries.
    "nvidia-smi": [r"", r"topo -m", r"-q -d MEMORY"],
    "rocm-smi": [r"--showtopo"],
    "gdscheck": [r"-p"],
    # Scripts of distributions and of OFED.
    "grubby": [rf"--update-kernel=ALL --args={ANY}", rf"--set-default {ANY}"],
    "/etc/init.d/openibd": [r"restart"],
    "opensm": [r""],
    "railgate": None, # below
}


def of_tool(tool):
    return [c for c in all_commands() if c[0] == tool]


def test_every_tool_is_known():
    tools = {c[0] for c in all_commands()}
    unknown = {t for t in tools if "=" not in t} - PLAIN - ASKED - set(GRAMMAR)
    assert not unknown, unknown
    assert len(tools) > 50 and len(all_commands()) > 200, (len(tools), len(all_commands()))


@pytest.mark.parametrize("line", lines_of_source())
def test_it_is_shell(line):
    if bare(line):
        done = subprocess.run(["bash", "-n", "-c", bare(line)], capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, (line, done.stderr)
    # <interface> would be read as a redirection.
    assert not re.search(r"<\w+>", bare(line)), line


@pytest.mark.parametrize("tool", sorted(ASKED - {"dcb"}))
def test_the_tool_knows_its_options(tool):
    said = help_of(tool)
    if said is None:
        pytest.skip(f"{tool} is not installed")
    for command in of_tool(tool):
        for word in command[1:]:
            if re.fullmatch(r"-[-\w]+(=.*)?", word) and not re.fullmatch(r"-\d+\w?", word):
                assert knows_option(said, word), (word, command)
            elif tool in WORDS and re.fullmatch(WORDS[tool], word):
                assert re.search(rf"\b{re.escape(word)}\b", said), (word, command)


def test_dcb_parses_its_commands():
    """Its usage has every word; some it parses before it asks the kernel, and lo has no DCB that could
    change."""
    if help_of("dcb") is None:
        pytest.skip("dcb is not installed")
    tried = 0
    for command in of_tool("dcb"):
        usage = subprocess.run(["dcb", command[1], "help"], capture_output=True, text=True)
        usage = usage.stdout + usage.stderr
        for part in command[2:3] + command[5:]:
            # "prio-pfc", "all:off", "26:3"
            for word in part.split(":"):
                assert re.fullmatch(r"\d+", word) or re.search(rf"(?<![\w-]){word}(?![\w-])", usage), (part, command)
        words = list(command)
        words[words.index("dev") + 1] = "lo"
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
        said = done.stdout + done.stderr
        assert not re.search(r"Usage|Unknown|Unrecognized|What is|expected|invalid|Missing|Out of range",
                             said, re.I), (command, said)
        tried += 1
    assert tried >= 8


@pytest.mark.parametrize("tool", sorted(t for t, rules in GRAMMAR.items() if rules))
def test_commands_of_makers_tools(tool):
    for command in of_tool(tool):
        said = " ".join(command[1:])
        assert any(re.fullmatch(rule, said) for rule in GRAMMAR[tool]), (tool, said)


def test_own_commands():
    """What doctor tells to be done with railgate itself."""
    binary = os.path.join(TOP, os.environ.get("RG_BINARY", "build/railgate"))
    for command in of_tool("railgate"):
        # config takes what serve takes.
        name = "serve" if command[1] == "config" else command[1]
        done = subprocess.run([binary, name, "--help"], capture_output=True, text=True)
        assert done.returncode == 0, command
        for word in command[2:]:
            if word.startswith("-"):
                assert knows_option(done.stdout, word), (word, command)
