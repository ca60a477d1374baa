"""Starts a gateway for tests, and looks at it closely when it stops."""
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import time

ACCESS_KEY = "RGTESTACCESSKEY00001"
SECRET_KEY = "test/secret+key0123456789abcdefABCDEF0001"
REGION = "us-east-1"

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(TOP, os.environ.get("RG_BINARY", "build/railgate"))
OUT = os.path.join(TOP, os.environ.get("RG_OUT", "tests/out/by-hand"))

# What a sanitizer, an assertion of ours or glibc prints when something is wrong.
REPORT = re.compile(
    r"AddressSanitizer|LeakSanitizer|ThreadSanitizer|runtime error:|assertion failed|must succeed|"
    r"Fatal error in GNU libmicrohttpd|corrupted|double free|Aborted"
)


def free_port():
    """None that the system gives to others by itself, so that it still is free when it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        low, high = map(int, file.read().split())
    ports = [port for port in range(25000, 32000) if not low <= port <= high]
    for port in random.sample(ports, min(100, len(ports))) + [0]:
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
            return one.getsockname()[1]


def clean_environment(**extra):
    """This process's environment without what would steer a client or the gateway."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "RAILGATE_", "RCLONE_", "RESTIC_")) and "PROXY" not in name.upper()
    }
    environment.update(extra)
    return environment


class Gateway:
    """One `railgate serve`. `options` are its command-line words before the store."""

    count = 0

    def __init__(self, tree, options=(), environment=None, scheme="http", name="gateway"):
        Gateway.count += 1
        self.tree = str(tree)
        self.options = [*os.environ.get("RG_SERVE_OPTIONS", "").split(), *map(str, options)]
        self.environment = environment or {}
        self.scheme = scheme
        self.log_path = os.path.join(OUT, f"{name}-{Gateway.count}.log")
        self.process = None
        self.port = self.admin_port = None

    def command(self, words):
        """For those who start it as somebody else."""
        return words

    def begin(self):
        """Starts it, on a tree that is there, and waits for nothing."""
        os.makedirs(OUT, exist_ok=True)
        words = [BINARY, "serve", "--address", "127.0.0.1", "--port", "0", "--admin-port", "0"]
        words += ["--log-format", "json", *self.options, "posix", self.tree]
        environment = clean_environment(
            RAILGATE_ROOT_ACCESS_KEY=ACCESS_KEY, RAILGATE_ROOT_SECRET_KEY=SECRET_KEY
        )
        environment.update(self.environment)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                self.command(words), env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return self

    def start(self, timeout=120):
        os.makedirs(self.tree, exist_ok=True)
        return self.begin().wait_until_ready(timeout)

    def wait_until_ready(self, timeout=60):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in self.log_lines():
                if line.get("event") == "gateway.ready":
                    self.port, self.admin_port = line["port"], line["admin_port"]
                    status, _ = self.admin("/-/ready")
                    assert status == 200, f"/-/ready answers {status}"
                    return self
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the gateway exited with {self.process.returncode}:\n{self.log()}"
                )
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"not ready after {timeout} s:\n{self.log()}")

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def endpoint(self):
        return f"{self.scheme}://{self.host}"

    def log(self):
        with open(self.log_path, errors="replace") as log:
            return log.read()

    def log_lines(self):
        """The log's complete JSON lines."""
        lines = []
        for line in self.log().splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                pass
        return lines

    def events(self, name):
        return [line for line in self.log_lines() if line.get("event") == name]

    def admin(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metric(self, name, **labels):
        """The sum of a metric's samples that carry these labels; 0 when it has none so far."""
        status, text = self.admin("/-/metrics")
        assert status == 200
        total, seen = 0.0, f"# TYPE {name} " in text.decode()
        for line in text.decode().splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if not match or match[1] != name:
                continue
            found = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            if all(found.get(label) == value for label, value in labels.items()):
                total += float(match[3])
                seen = True
        assert seen, f"no metric {name} with {labels}"
        return total

    def metric_at_rest(self, name, **labels):
        """The same once no request is in progress: what a request did is counted after its answer."""
        deadline = time.monotonic() + 30
        while self.metric("railgate_requests_in_progress"):
            assert time.monotonic() < deadline, "a request goes on"
            time.sleep(0.02)
        return self.metric(name, **labels)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, sent=signal.SIGTERM, timeout=90):
        """Stops it and checks that it left cleanly."""
        if self.process.poll() is None:
            self.process.send_signal(sent)
        try:
            status = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running {timeout} s after the signal:\n{self.log()}")
        log = self.log()
        report = REPORT.search(log)
        assert not report, f"{report[0]} in {self.log_path}:\n{log[max(0, report.start() - 200):][:8000]}"
        assert status == 0, f"exit status {status}, see {self.log_path}:\n{log[-4000:]}"

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            self.kill()
