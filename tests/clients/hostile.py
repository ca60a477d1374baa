"""A server that answers whatever a test tells it to, byte for byte, and notes what it was asked."""
import re
import socket
import threading
import urllib.parse


class Request:
    def __init__(self, head, body):
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ", 2)
        path, _, query = self.target.partition("?")
        self.path = urllib.parse.unquote(path)
        self.query = urllib.parse.parse_qs(query, keep_blank_values=True)
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self.body = body

    def range(self, size):
        """(first, last) that is asked for; the whole without a Range."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return (int(found[1]), min(int(found[2]), size - 1)) if found else (0, size - 1)

    def __repr__(self):
        return f"{self.method} {self.target}"


def answer(status, fields=(), body=b""):
    """An ordinary answer; `fields` replace its Content-Length when they have one of their own."""
    fields = [*fields] if not isinstance(fields, dict) else [*fields.items()]
    if not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in fields):
        fields.append(("Content-Length", len(body)))
    fields.append(("Connection", "close"))
    head = f"HTTP/1.1 {status} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields)
    return head.encode() + b"\r\n" + body


RESET = object()  # instead of bytes: the connection is reset


class Server:
    """`reply(request)` gives bytes, or an iterable of bytes that are sent one after the other, or
    RESET; then the connection is closed. `read_body`: False leaves a request's body unread."""

    def __init__(self, reply, read_body=True):
        self.reply = reply
        self.read_body = read_body
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.stopped = threading.Event()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.port}"

    def asked(self, method):
        return [one for one in self.requests if one.method == method]

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *failure):
        self.stopped.set()
        self.listener.close()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                self.serve_one(connection)
            except OSError:
                pass  # the client hung up, as it should with most of what is sent here

    def serve_one(self, connection):
        head = b""
        while b"\r\n\r\n" not in head:
            more = connection.recv(65536)
            if not more:
                return
            head += more
        head, _, body = head.partition(b"\r\n\r\n")
        request = Request(head, body)
        length = int(request.headers.get("content-length", 0))
        if request.headers.get("expect") and self.read_body:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while self.read_body and len(request.body) < length:
            more = connection.recv(65536)
            if not more:
                return
            request.body += more
        self.requests.append(request)
        said = self.reply(request)
        if said is RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return
        for piece in [said] if isinstance(said, bytes) else said:
            if self.stopped.is_set():
                return
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        if self.read_body:
            connection.settimeout(5)
            while connection.recv(65536):
                pass
