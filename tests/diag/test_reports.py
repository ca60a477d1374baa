"""The outputs: the documented JSON, a page that stands alone, nothing leaked, noise that is no incident."""
import gzip
import html
import html.parser
import json
import re

import cluster
import jsonschema
import pytest
from diagnosis import HERE, LUSTRE, PUBLIC, diagnose, diagnose_text, run

SCHEMA = json.loads((HERE.parent.parent / "docs" / "diagnose.schema.json").read_text())
EVERY = sorted(PUBLIC.glob("*.log")) + sorted(LUSTRE.glob("*.log"))


def names(paths):
    return [path.stem for path in paths]


@pytest.mark.parametrize("path", EVERY, ids=names(EVERY))
def test_json_keeps_its_schema(path):
    jsonschema.validate(diagnose(path), SCHEMA)


def test_json_of_everything_at_once():
    found = diagnose(PUBLIC, LUSTRE)
    jsonschema.validate(found, SCHEMA)
    assert len(found["incidents"]) > 20
    for finding in found["findings"]:
        assert finding["incident"] is None or 1 <= finding["incident"] <= len(found["incidents"])


class Page(html.parser.HTMLParser):
    """Notes what the page would load, and whether its elements are closed."""
    VOID = {"meta", "br", "rect", "line"}

    def __init__(self):
        super().__init__()
        self.loads, self.stack, self.scripts, self.inside = [], [], 0, []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
                self.loads.append((tag, name, value))
            if name.startswith("on"):
                self.loads.append((tag, name, value))
        self.scripts += tag == "script"
        if tag not in self.VOID or tag == "rect":
            self.stack.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if self.stack and self.stack[-1] == tag:
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, (tag, self.stack[-5:])
        self.stack.pop()


def page_of(tmp_path, *words, stdin=None):
    path = tmp_path / "page.html"
    run("--html", path, *words, stdin=stdin)
    return path.read_text()


@pytest.mark.parametrize("language", ["en", "ko"])
def test_page_loads_nothing(tmp_path, language):
    text = page_of(tmp_path, "--lang", language, PUBLIC)
    page = Page()
    page.feed(text)
    assert page.loads == [] and page.stack == [] and page.scripts == 1
    assert "://" not in re.sub(r"(?s)<(pre|td|li|p|title|text)\b.*?</\1>", "", text)
    assert "url(#clip" in text and "url(h" not in text and "@import" not in text
    assert "default-src 'none'" in text
    assert "<svg" in text and 'class="matrix"' in text and "addEventListener('wheel'" in text


def test_page_has_nodes_in_time_and_nodes_by_targets(tmp_path):
    text = "".join(cluster.gone(node, at, "scr-OST0012", "192.0.2.11@o2ib")
                   for at, node in enumerate(("gpu01", "gpu02")))
    page = page_of(tmp_path, "-", stdin=text.encode())
    svg = page[page.index("<svg"):page.index("</svg>")]
    assert "gpu01" in svg and "gpu02" in svg and svg.count('class="lost"') == 2
    assert 'class="band"' in svg
    matrix = page[page.index('class="matrix"'):page.index("</table>")]
    assert "scr-OST0012 (index 18)" in matrix and matrix.count("<td class=") == 2


EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>'\"`|](javascript:alert(3))\x1b[2J\u202e"


def test_nothing_from_a_log_is_markup(tmp_path):
    text = cluster.line("gpu01", 0, "LDISKFS-fs error (device dm-0): " + EVIL)
    text += cluster.gone("<b>&gpu02", 1, "scr-OST0012", "192.0.2.11@o2ib")
    text += cluster.line("gpu03", 2, "LustreError: unheard of failure " + EVIL)
    page = page_of(tmp_path, "-", stdin=text.encode())
    parser = Page()
    parser.feed(page)
    assert parser.loads == [] and parser.stack == [] and parser.scripts == 1
    assert "<img" not in page and "<b>&" not in page
    for words in (["--json"], ["--markdown"], []):
        out = run(*words, "-", stdin=text.encode()).stdout.decode()
        assert "\x1b" not in out and "\u202e" not in out
        if words == ["--markdown"]:
            outside = re.sub(r"(?sm)^```$.*?^```$", "", out).replace("\\`", "")
            outside = re.sub(r"`[^`\n]*`", "", outside)
            assert "<script" not in outside and "<img" not in outside


# ---- Anonymous reports. ----

SECRETS = ["gpu017", "gpu018", "oss1", "mds-a.cluster.example.org", "10.23.45.67", "10.23.45.68", "kim",
           "hongkildong", "2001:db8::77", "50:6b:4b:03:aa:bb", "storage.example.org", "4411@gpu017",
           "yuna.park", "minsu", "login-b", "506b:4b03", "506b4b0300a1b2c4", "50-6b-4b-a1-b2-c3", "192.0.2.99",
           "0.2.99", "2.99", "ip-10-23-45-69",
           # Users where another word says so, and where nothing says so once they are known.
           "seojun", "jiwoo", "haneul", "byeol",
           # What switches and subnet managers print.
           "506b.4bc1.d2e3", "ec0d9a0300c0ffee", "fe80000000000000ec0d9a0300c0ffee",
           # Hosts of which there is no log and no table.
           "nfsvault", "bastion", "fence-ctl", "ost-head9", "tapevault2"]


def secret_log():
    text = cluster.gone("gpu017", 0, "scr-OST0012", "10.23.45.67@o2ib").replace("job:''", "job:'kim.1000'")
    text += cluster.gone("gpu018", 0, "scr-OST0012", "10.23.45.67@o2ib")
    text += cluster.line("oss1", 1, "Lustre: scr-OST0012: Client 939243e4-2f54 (at 10.23.45.68@o2ib) "
                                    "refused connection, still busy with 5 references")
    text += cluster.line("oss1", 1, "LNetError: Unexpected error -22 connecting to 10.23.45.68@tcp at "
                                    "host 10.23.45.68:988")
    text += cluster.line("mds-a.cluster.example.org", 2, "Lustre: scr-MDT0000: Client 939243e4-2f54 (at "
                                                         "2001:db8::77@tcp) reconnecting")
    text += cluster.line("gpu017", 3, "LustreError: unheard of failure in /home/hongkildong/x of "
                                      "kim@storage.example.org on gpu018, mac 50:6b:4b:03:aa:bb")
    # Places that say "user" in some other way, and the same user where nothing says so.
    text += cluster.line("gpu018", 5, "error: failed for yuna.park from 2001:db8::77 port 5555, /data/yuna.park/x "
                                      "uid=1000(yuna.park) and /lustre/home/minsu/y, minsu@login-b, \"minsu\"")
    text += cluster.line("gpu018", 6, "error: failed guid 506b:4b03:00a1:b2c3 node_guid: 0x506b4b0300a1b2c4 hw "
                                      "50-6b-4b-a1-b2-c3 from ::ffff:192.0.2.99 at ip-10-23-45-69")
    text += cluster.line("gpu018", 7, "error: failed for owner: seojun of /data/seojun, user: jiwoo, /x/jiwoo/y, "
                                      "owner=\"haneul\" haneul; login: byeol, byeol's job")
    text += cluster.line("gpu018", 8, "error: failed at mac 506b.4bc1.d2e3, Ca 0xec0d9a0300c0ffee "
                                      "gid fe80000000000000ec0d9a0300c0ffee")
    text += cluster.line("gpu018", 9, "error: failed password from bastion port 22; Node fence-ctl state is now "
                                      "lost; mount of nfsvault:/export, node ost-head9, ost-head9 again, "
                                      "bastion, fence-ctl, nfsvault, rhost=tapevault2")
    text += cluster.line("gpu017", 4, "nfs: server storage.example.org not responding, still trying")
    return text


@pytest.mark.parametrize("words", [["--json"], ["--markdown"], ["--markdown", "--lang", "ko"], [],
                                   ["--html"]])
def test_anonymous_reports_leak_nothing(tmp_path, words):
    log = tmp_path / "gpu017-kernel.log"
    log.write_text(secret_log())
    if words == ["--html"]:
        out = page_of(tmp_path, "--anonymise", log)
    else:
        out = run("--anonymise", *words, log).stdout.decode()
    for secret in SECRETS:
        assert not re.search(r"(?<![A-Za-z0-9])" + re.escape(secret), out), secret
    assert "host1" in out and "addr1" in out
    for kept in ("scr-OST0012", "@o2ib"):
        assert kept in out


def test_standard_error_is_anonymous_too(tmp_path):
    tree = tmp_path / "home" / "hongkildong" / "gpu017"
    tree.mkdir(parents=True)
    (tree / "kernel.log").write_text(secret_log())
    (tree / "journal.bin").write_bytes(b"\0\1\2" * 100)
    names = [tree, tree / "gpu018.missing.log", tmp_path / "lab77.log", tmp_path / "10.23.45.67.log"]
    done = run("--anonymise", "-v", *names, expect=(2,))
    shown = run("-v", *names, expect=(2,)).stderr.decode()
    hidden = done.stderr.decode()
    for secret in ("hongkildong", "gpu017", "gpu018", "lab77", "10.23.45.67"):
        assert secret in shown and secret not in hidden and secret not in done.stdout.decode(), secret
    assert hidden.count("No such file") == 3 and "host1" in hidden
    failed = run("--anonymise", "--rules", tree / "gpu018.rules", tree, expect=(2,)).stderr.decode()
    assert "hongkildong" not in failed and "No such file" in failed
    failed = run("--anonymise", "--html", tree / "none" / "x.html", tree, expect=(2,)).stderr.decode()
    assert "hongkildong" not in failed and "cannot write" in failed


def test_placeholders_are_stable_and_told_apart(tmp_path):
    found = json.loads(run("--json", "--anonymise", "-", stdin=secret_log().encode()).stdout)
    assert found["anonymous"]
    jsonschema.validate(found, SCHEMA)
    nodes = [node["name"] for node in found["nodes"]]
    assert len(set(nodes)) == 4
    incident = next(i for i in found["incidents"] if "scr-OST0012" in i["targets"])
    server = incident["nids"][0]
    assert re.fullmatch(r"addr[0-9]+@o2ib", server)
    quoted = " ".join(line for finding in found["findings"] for line in finding["lines"])
    assert server in quoted
    again = json.loads(run("--json", "--anonymise", "-", stdin=secret_log().encode()).stdout)
    assert again == found
    # Every form of the report says the same of the same.
    log = tmp_path / "x.log"
    log.write_text(secret_log())
    page, text = page_of(tmp_path, "--anonymise", log), run("--anonymise", log).stdout.decode()
    markdown = run("--anonymise", "--markdown", log).stdout.decode()
    for out in page, text, markdown:
        assert server in out and all(node in out for node in nodes)


def test_what_only_looks_like_a_name_stays():
    text = cluster.line("gpu017", 0, "LustreError: unheard of failure by user request from 12345-10.1.2.3@tcp fl "
                                     "Interpret:/600/0 o250->MGC10.1.2.3@tcp1@10.1.2.3@tcp1:26/25 user 1001, gone")
    out = run("--anonymise", "--json", "-", stdin=text.encode()).stdout.decode()
    assert ("by user request from 12345-addr1@tcp fl Interpret:/600/0 o250->MGCaddr1@tcp1@addr1@tcp1:26/25 user "
            "user1, gone") in out


def test_handles_and_pointers_are_no_guids():
    text = cluster.line("gpu017", 0, "LustreError: unheard of failure lock: ffff88810a0b0c0d/0x5d6b2a9c11d2f3e4 "
                                     "remote: 0x5d6b2a9c11d2f3e5 req@00000000f178e0a7")
    out = run("--anonymise", "--json", "-", stdin=text.encode()).stdout.decode()
    assert "0x5d6b2a9c11d2f3e4 remote: 0x5d6b2a9c11d2f3e5 req@00000000f178e0a7" in out


@pytest.mark.parametrize("path", EVERY, ids=names(EVERY))
def test_anonymous_cases_hold_no_address(path):
    out = run("--json", "--anonymise", path).stdout.decode()
    assert not re.search(r"(?<![0-9.])(?:10\.9\.0|192\.0\.2|198\.51\.100)\.[0-9]+", out)


# ---- Korean reports. ----

# Words that no Korean sentence of ours needs; "for", "in" and the like stand only in English ones.
ENGLISH = re.compile(r"\b(the|is|are|was|were|of|its|by|not|no|one|any|and|this|that|it|what|which|"
                     r"before|after|stated|unknown|node|server|target|fabric|router|config|software|hardware|"
                     r"network|storage|host|planned|untouched|delayed|lost|low|medium|high|critical|note|layer|"
                     r"nature|confidence|data|scope|lines|nodes|incident)\b")


def ours(text, found):
    """What is left of a Korean report without quoted lines, commands, samples and names."""
    quoted = {line for finding in found["findings"] for line in finding["lines"]}
    quoted |= {noise["sample"] for noise in found["noise"] if noise["sample"]}
    for line in sorted(quoted, key=len, reverse=True):
        for written in (line, re.sub(r"([\\`*_\[\]|#!~])", r"\\\1", html.escape(line, quote=False)),
                        html.escape(line),
                        html.escape(line).replace("&#x27;", "&#39;")):
            text = text.replace(written, " ")
    text = re.sub(r'<text x="4"[^>]*>[^<]*', " ", text)  # names of nodes, cut short
    text = re.sub(r"(?ms)^```$.*?^```$|<(style|script|code|pre)\b.*?</\1>|<title>[^<]*</title>", " ", text)
    text = re.sub(r'[A-Z0-9]+(-[A-Z0-9]+)+|"[^"\n]*"|&quot;.*?&quot;', " ", text)
    text = re.sub(r"<[^>]*>|&[a-z]+;|`[^`\n]*`|(?m:^ *(\$.*?|>.*)(  #|$))", " ", text)
    for incident in found["incidents"]:
        for step in incident["next"]:
            text = text.replace(step["command"], " ")
    names = {node["name"] for node in found["nodes"]}
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, " ")
    return text


@pytest.mark.parametrize("words", [["--markdown"], [], ["--html"]], ids=["markdown", "text", "html"])
@pytest.mark.parametrize("path", EVERY, ids=names(EVERY))
def test_korean_reports_are_korean(tmp_path, path, words):
    if words == ["--html"]:
        out = page_of(tmp_path, "--lang", "ko", path)
    else:
        out = run(*words, "--lang", "ko", path).stdout.decode()
    left = ours(out, diagnose(path))
    assert re.search("[가-힣]", left)
    for line in left.splitlines():
        assert not ENGLISH.search(line), line


def test_korean_particles_and_durations():
    """The particle is the one that fits the name; nothing is left in two forms."""
    def report(target, nid="192.0.2.7@o2ib"):
        text = "".join(cluster.gone(node, 0, target, nid) + cluster.restored(node, 130, target, nid)
                       for node in ("gpu01", "gpu02"))
        return run("--markdown", "--lang", "ko", "-", stdin=text.encode()).stdout.decode()
    assert "192.0.2.7@o2ib와의" in report("scr-OST0000")
    assert "동안 대기" in report("scr-OST0000") and re.search("2분 [0-9]+초", report("scr-OST0000"))
    head = "UUID 1K-blocks Used Available Use% Mounted on\n"
    for index, particle in ("1", "이"), ("2", "가"), ("3", "이"), ("c", "가"):
        text = head + f"scr-OST000{index}_UUID : inactive device\n"
        out = run("--lang", "ko", "-", stdin=text.encode()).stdout.decode()
        assert f"scr-OST000{index}{particle} “inactive" in out
    for path in EVERY:
        assert not re.search(r"(?<!\w)[^ ]*(이\(가\)|을\(를\)|은\(는\)|와\(과\)|\(으\)로)",
                             run("--markdown", "--lang", "ko", path).stdout.decode()), path


# ---- Every answer, in every report. ----

NID = "192.0.2.11@o2ib"


def everything():
    """Two nodes, three kinds of target's trouble, a known cause, numbers, a hung process, a line nobody knows."""
    text = ""
    for node in ("gpu01", "gpu02"):
        text += cluster.healthy(node, -86400, "scr-OST0001", NID)
        text += cluster.line(node, -5, "LNet: 4021:0:(o2iblnd_cb.c:1072:kiblnd_tx_complete()) Tx -> "
                                       f"{NID} cookie 0x4a1 sending 1 waiting 0: failed 12")
        text += cluster.gone(node, 0, "scr-OST0012", NID) + cluster.gone(node, 1, "scr-MDT0000", NID)
        text += cluster.line(node, 20, f"LustreError: 11-0: {cluster.client_device('scr-OST0012')}: operation "
                                       f"ost_connect to node {NID} failed: rc = -16")
        text += cluster.evicted(node, 90, "scr-OST0012") + cluster.restored(node, 91, "scr-OST0012", NID)
        text += cluster.line(node, 130, "INFO: task ls:4037 blocked for more than 120 seconds.")
    return text + cluster.line("gpu01", 5, "LustreError: 9:0:(new.c:1:f()) frobnication failed: rc = -71")


def plain(text):
    text = html.unescape(re.sub("<[^>]*>", "", text))
    return re.sub(r"\s+", " ", re.sub(r"\\([^\w\s])", r"\1", text))


def answers(incident, language):
    """Every text of the incident that a report owes its reader."""
    yield incident["headline"][language]
    for name in ("targets", "nids", "nodes"):
        yield from incident[name]
    yield incident["first"]["text"]
    yield incident["last"]["text"]
    yield incident["cause"]["row"]
    yield from incident["cause"]["lines"]
    for name in ("consequences", "other_causes"):
        yield from (part["row"] for part in incident[name])
    for name in ("evidence", "contrary", "undecided", "users", "data_reasons", "confidence_reasons", "avoid",
                 "healthy"):
        yield from (phrase[language] for phrase in incident[name])
    for step in incident["next"]:
        yield from (step["command"], step["where"][language], step["why"][language])
    for status in incident["statuses"]:
        yield from (status["name"], status["meaning"][language])


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_answer_is_in_every_report(tmp_path, form, language):
    page = tmp_path / "page.html"
    words = {"text": [], "markdown": ["--markdown"], "html": ["--html", page]}[form]
    report = run(*words, "--lang", language, "-", stdin=everything().encode()).stdout.decode()
    report = plain(page.read_text() if form == "html" else report)
    incident = diagnose_text(everything())["incidents"][-1]
    owed = list(answers(incident, language))
    assert len(owed) > 60 and len(incident["statuses"]) >= 2 and incident["consequences"]
    assert [text for text in owed if plain(text) not in report] == []
    assert "frobnication failed" in report
    assert ("96 s" if language == "en" else "96초") in report


def test_the_timeline_has_room_for_names(tmp_path):
    log = tmp_path / "x.log"
    names = [f"gpu-node-with-a-very-long-name-{i:03d}.cluster.example.org" for i in range(3)] + ["gpu01"]
    log.write_text("".join(cluster.gone(name, 0, "scr-OST0000", "192.0.2.7@o2ib")
                           + cluster.restored(name, 7200, "scr-OST0000", "192.0.2.7@o2ib") for name in names))
    page = page_of(tmp_path, log)
    labels = re.findall(r'<text x="4"[^>]*>([^<]*)<title>([^<]*)</title>', page)
    assert [whole for _, whole in labels] == names
    assert all(len(shown) <= 26 for shown, _ in labels) and len({shown for shown, _ in labels}) == 4
    # A moment is drawn wider than it was, and says how wide it was, so that zooming does not widen it.
    for width, real in re.findall(r'<rect class="fault"[^>]* width="([0-9.]+)" data-w="([0-9.]+)"', page):
        assert float(real) < 0.1 < float(width)


def test_korean_clocks_and_holes(tmp_path):
    log = tmp_path / "broken.log.gz"
    log.write_bytes(gzip.compress(b"gpu01: [  533.840297] printk: 12 messages dropped\n" * 9000)[:-40])
    out = run("--markdown", "--lang", "ko", log, expect=(0, 1, 2)).stdout.decode()
    assert "부팅 533초 후부터" in out and re.search("커널 메시지 [0-9]+개", out)
    assert re.search(r"broken\.log\.gz: .*(아카이브|끊김|읽)", out.replace("\\", ""))


# ---- Noise. ----

NOISE = {
    "restricted PF": "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 2411): ACCESS_REG(0x805) "
                     "op_mod(0x1) failed, status bad resource(0x5), syndrome (0x305684), err(-22)",
    "partner asked": "LustreError: 137-5: scr-OST0004_UUID: not available for connect from "
                     "192.0.2.77@o2ib (no target). If you are running an HA pair check that the target "
                     "is mounted on the other server.",
    "orphans": "Lustre: scr-OST0008: deleting orphan objects from 0x540000401:1107896 to "
               "0x540000401:1107937",
    "modules": "libcfs: loading out-of-tree module taints kernel.",
    "mounted": "Lustre: Mounted lfs01-client - version 2.17.57",
    "who owns DCB": "ice 0000:41:00.0: FW LLDP is disabled, DCBx/LLDP in SW mode.",
}


@pytest.mark.parametrize("line", NOISE.values(), ids=NOISE.keys())
def test_floods_of_noise_are_no_incident(line):
    found = diagnose_text("".join(cluster.line("gpu01", at, line) for at in range(5000)))
    assert found["incidents"] == [] and found["coverage"]["lines"] == 5000


def test_floods_are_counted():
    found = diagnose_text("".join(
        cluster.line("gpu01", at, NOISE["restricted PF"]) for at in range(5000)))
    noise = [item for item in found["noise"] if item["kind"] == "benign"]
    assert sum(item["count"] for item in noise) == 5000


# ---- Sizes. ----

def test_more_subjects_than_any_ceiling():
    """20,000 clients of 50 targets: bounded, and what was folded is said."""
    lines = []
    for client in range(20000):
        lines.append(cluster.silent_client(
            f"oss{client % 5}", client % 100, f"scr-OST00{client % 50:02x}", f"u{client}",
            f"10.{client >> 14}.{(client >> 7) & 127}.{client & 127}@o2ib"))
    found = diagnose_text("".join(lines))
    jsonschema.validate(found, SCHEMA)
    assert found["coverage"]["matched"] == 20000
    assert found["incidents"] and found["coverage"]["folded"] > 0
    assert any("eiling" in hole["en"] for hole in found["holes"])


def test_empty_and_odd_input():
    assert diagnose_text("")["incidents"] == []
    odd = b"LNetError: ordinary\n" * 500 + b"a" * 3000000 + b"\n" + b"\xed\xa0\x80 LustreError: \n"
    odd += b"LustreError: \x00\xff\xfe\n"
    found = diagnose("-", stdin=odd)
    jsonschema.validate(found, SCHEMA)


def test_an_archive_that_gave_nothing_is_told_by_the_status(tmp_path):
    deep = b"mlx5_core 0000:01:00.0: health compromised\n"
    for _ in range(60):
        deep = gzip.compress(deep)
    log = tmp_path / "deep.gz"
    log.write_bytes(deep)
    done = run(log, expect=(2,))
    assert b"could be read" in done.stderr, done
