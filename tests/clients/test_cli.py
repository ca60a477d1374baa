"""The command line: help, settings, and the one line that says why it does not start."""
import os
import socket
import subprocess
import tempfile

import gateway as gateways
import pytest


def railgate(*words, timeout=30, how={}, **environment):
    return subprocess.run([gateways.BINARY, *map(str, words)], env=gateways.clean_environment(**environment),
                          capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **how)


CREDENTIALS = {"RAILGATE_ROOT_ACCESS_KEY": gateways.ACCESS_KEY, "RAILGATE_ROOT_SECRET_KEY": gateways.SECRET_KEY}

NOBODY = {"user": 65534, "group": 65534, "extra_groups": []}


def test_help_and_version():
    overview = railgate("--help")
    assert overview.returncode == 0 and "serve" in overview.stdout and overview.stderr == ""
    assert railgate("help").stdout == overview.stdout
    version = railgate("--version")
    assert version.returncode == 0 and version.stdout.startswith("railgate ")
    for command in ("serve", "config", "reference"):
        one = railgate("help", command)
        assert one.returncode == 0 and one.stdout.startswith(f"usage: railgate {command}")
        assert railgate(command, "--help").stdout == one.stdout
    assert "--durability" in railgate("serve", "--help").stdout


def test_usage_mistakes():
    for words in ([], ["nonsense"], ["help", "nonsense"], ["serve"], ["serve", "posix"], ["serve", "posix", "a", "b"],
                  ["serve", "floppy", "/tmp"], ["config", "extra"], ["reference"], ["reference", "nonsense"]):
        done = railgate(*words, **CREDENTIALS)
        assert done.returncode == 2, words
        assert done.stdout == "" and done.stderr, words
        if words:
            assert len(done.stderr.splitlines()) == 1, done.stderr


def test_config_shows_value_and_source(tmp_path):
    file = tmp_path / "conf"
    file.write_text("# comment\nregion = eu-test-1\nport = 1111\nadmin-port = 2222\n")
    done = railgate("config", "--config", file, "--port=3333", RAILGATE_ADMIN_PORT="4444", **CREDENTIALS)
    assert done.returncode == 0, done.stderr
    rows = {}
    for line in done.stdout.splitlines():
        name, _, rest = line.partition("=")
        value, _, source = rest.rpartition("#")
        rows[name.strip()] = (value.strip(), source.strip())
    assert rows["region"] == ("eu-test-1", "file")
    assert rows["port"] == ("3333", "option")
    assert rows["admin-port"] == ("4444", "environment")
    assert rows["durability"] == ("full", "default")
    assert gateways.SECRET_KEY not in done.stdout


@pytest.mark.parametrize("words, environment, named", [
    (["--port", "70000"], {}, "port"),
    (["--port", "x"], {}, "port"),
    (["--Port", "9000"], {}, "port"),
    (["--nonsense", "1"], {}, "nonsense"),
    (["--port"], {}, "port"),
    (["--durability", "Full"], {}, "durability"),
    (["--idle-timeout", "1ms"], {}, "idle-timeout"),
    ([], {"RAILGATE_NONSENSE": "1"}, "RAILGATE_NONSENSE"),
    ([], {"RAILGATE_port": "1"}, "RAILGATE_port"),
    ([], {"RAILGATE_PORT": "-1"}, "port"),
    ([], {"RAILGATE_ROOT_ACCESS_KEY": ""}, "root-access-key"),
    ([], {"RAILGATE_ROOT_SECRET_KEY": ""}, "root-secret-key"),
    (["--config", "/nowhere/at/all"], {}, "config"),
    (["--mask", "nonsense"], {}, "mask"),
    (["--tls-cert", "/nowhere/cert.pem"], {}, "tls-"),
    (["--tls-cert", "/nowhere/a.pem", "--tls-key", "/nowhere/b.pem"], {}, "tls-cert: cannot read /nowhere/a.pem"),
    (["--tls-cert", "/etc/passwd", "--tls-key", "/etc/passwd"], {}, "tls-cert: /etc/passwd holds no usable certificate"),
    (["--address", "not an address"], {}, "address"),
    (["--address", "localhost", "--rdma-transports", "ofi"], {}, "setting address"),
    (["--address", "192.0.2.1", "--rdma-transports", "ofi"], {}, "setting address"),
    (["--port", "9000", "--admin-port", "9000"], {}, "admin-port are both 9000"),
    (["--root-secret-key", "x"], {}, "root-secret-key"),
])
def test_bad_settings_stop_the_start(tmp_path, words, environment, named):
    done = railgate("serve", "--port", 0, "--admin-port", 0, *words, "posix", tmp_path,
                    **{**CREDENTIALS, **environment})
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1 and named in done.stderr, done.stderr
    assert done.stdout == ""


def test_settings_file_mistakes(tmp_path):
    file = tmp_path / "conf"
    for text, named in (("nonsense = 1", "nonsense"), ("Port = 1", "port"), ("port", "conf:1"), ("\n\nport = x\n", "conf:3")):
        file.write_text(text)
        done = railgate("serve", "--config", file, "posix", tmp_path, **CREDENTIALS)
        assert done.returncode == 2 and named in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_too_few_open_files(tmp_path):
    done = subprocess.run(
        ["bash", "-c", f"ulimit -n 512; exec {gateways.BINARY} serve --port 0 --admin-port 0 posix {tmp_path}"],
        env=gateways.clean_environment(**CREDENTIALS), capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "connections-max" in done.stderr, done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_tree_that_the_gateway_may_not_write(mode):
    if subprocess.run(["test", "-x", gateways.BINARY], **NOBODY).returncode:
        pytest.skip("nobody may run the gateway here")
    with tempfile.TemporaryDirectory() as tree:  # of which everybody may come as far as its parent
        os.chmod(tree, mode)
        done = railgate("serve", "--port", 0, "--admin-port", 0, "posix", tree,
                        how=NOBODY, **CREDENTIALS)
        assert done.returncode == 1, done
        assert "the user that the gateway runs as" in done.stderr.splitlines()[-1], done.stderr


def test_other_failures_exit_with_1(tmp_path):
    done = railgate("serve", "--port", 0, "--admin-port", 0, "posix", tmp_path / "absent", **CREDENTIALS)
    assert done.returncode == 1 and "absent (which has to be there)" in done.stderr.splitlines()[-1]
    (tmp_path / "file").write_text("")
    done = railgate("serve", "--port", 0, "--admin-port", 0, "posix", tmp_path / "file", **CREDENTIALS)
    assert done.returncode == 1 and done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = railgate("serve", "--address", "127.0.0.1", "--port", port, "--admin-port", 0, "posix", tmp_path,
                        **CREDENTIALS)
    assert done.returncode == 1 and str(port) in done.stderr.splitlines()[-1], done.stderr


def test_reference_pages_are_up_to_date():
    for page in ("settings", "errors", "operations", "metrics"):
        with open(os.path.join(gateways.TOP, "docs", f"{page}.md")) as kept:
            assert railgate("reference", page).stdout == kept.read(), f"run ./dev docs ({page})"


def test_doctor_of_a_transport():
    """Most machines have no ConnectX: then the reason stands there, and nothing is called passed."""
    done = railgate("doctor", "--transport", "dc", timeout=120)
    lines = done.stdout.splitlines()
    passed, failed, skipped = (int(word) for word in lines[-1].replace(",", "").split()[::2])
    assert sum(line.startswith("FAIL") for line in lines) == failed
    if failed:
        assert done.returncode == 2 and skipped == 1
        assert any(line.startswith("FAIL") and len(line.split()) > 4 for line in lines), done.stdout
    else:
        assert done.returncode == 0 and passed > 40
    for words in (["--transport", "rc"], ["--transport", "dc", "--device", "no-such-device"]):
        assert railgate("doctor", *words, timeout=120).returncode == 2
