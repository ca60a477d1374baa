"""Requests made by hand: an independent SigV4 signer, so that what no client sends can be sent.

Every knob is explicit; nothing is retried. See request() and presign().
"""
import base64
import datetime
import hashlib
import hmac
import http.client
import socket
import ssl
import urllib.parse
import xml.etree.ElementTree
import zlib

import xxhash

from gateway import ACCESS_KEY, REGION, SECRET_KEY

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"


class Answer:
    def __init__(self, answer, head):
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.read()
        assert not (head and self.body)

    def xml(self):
        """The body with namespaces removed."""
        root = xml.etree.ElementTree.fromstring(self.body)
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
        return root

    @property
    def code(self):
        """The S3 error code; '' when there is no error document."""
        return self.xml().findtext("Code") or "" if self.body else ""

    def __repr__(self):
        return f"{self.status} {dict(self.headers.items())} {self.body[:2000]!r}"


def quote(text, safe=""):
    return urllib.parse.quote(text, safe=safe + "-_.~")


def amz_date(when=None):
    return (when or datetime.datetime.utcnow()).strftime("%Y%m%dT%H%M%SZ")


def signing_key(date, secret=SECRET_KEY, region=REGION):
    key = ("AWS4" + secret).encode()
    for word in (date[:8], region, "s3", "aws4_request"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return key


def canonical_query(query):
    return "&".join(f"{quote(k)}={quote(v)}" for k, v in sorted(query, key=lambda p: (quote(p[0]), quote(p[1]))))


def sign_text(text, date, secret=SECRET_KEY, region=REGION):
    return hmac.new(signing_key(date, secret, region), text.encode(), hashlib.sha256).hexdigest()


def scope_of(date, region=REGION):
    return f"{date[:8]}/{region}/s3/aws4_request"


def string_to_sign(method, path, query, headers, signed, payload, date, region=REGION):
    lines = [method, path, canonical_query(query)]
    lines += [f"{name}:{' '.join(headers[name].split())}" for name in signed]
    lines += ["", ";".join(signed), payload]
    digest = hashlib.sha256("\n".join(lines).encode("latin-1")).hexdigest()  # as http.client sends them
    return f"AWS4-HMAC-SHA256\n{date}\n{scope_of(date, region)}\n{digest}"


def sign(method, host, path, query, headers, payload, date=None, access=ACCESS_KEY, secret=SECRET_KEY,
         region=REGION, unsigned=()):
    """Adds Authorization to `headers` (lower-case names). Returns the signature (the seed of chunks)."""
    date = date or amz_date()
    headers["host"] = host
    headers["x-amz-date"] = date
    if payload is not None:
        headers["x-amz-content-sha256"] = payload
    signed = sorted(name for name in headers if name not in unsigned)
    text = string_to_sign(method, path, query, headers, signed, payload or UNSIGNED, date, region)
    signature = sign_text(text, date, secret, region)
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={access}/{scope_of(date, region)}, "
        f"SignedHeaders={';'.join(signed)}, Signature={signature}"
    )
    return signature


def presign(gateway, method, path, query=(), headers=None, expires=600, date=None, access=ACCESS_KEY,
            secret=SECRET_KEY, region=REGION):
    """The target (path and query) of a presigned request."""
    date = date or amz_date()
    headers = {**(headers or {}), "host": gateway.host}
    signed = sorted(headers)
    path = quote(path, "/")
    query = list(query) + [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", f"{access}/{scope_of(date, region)}"),
        ("X-Amz-Date", date),
        ("X-Amz-Expires", str(expires)),
        ("X-Amz-SignedHeaders", ";".join(signed)),
    ]
    text = string_to_sign(method, path, query, headers, signed, UNSIGNED, date, region)
    query.append(("X-Amz-Signature", sign_text(text, date, secret, region)))
    return f"{path}?{canonical_query(query)}"


def connect(gateway, timeout=60):
    if gateway.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return http.client.HTTPSConnection("127.0.0.1", gateway.port, timeout=timeout, context=context)
    return http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=timeout)


def send(gateway, method, target, headers, body=b"", connection=None):
    """One request exactly as given; `body` may be bytes or an iterable of chunks (then chunked)."""
    own = connection is None
    connection = connection or connect(gateway)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                connection.putheader(name, one)
        if isinstance(body, (bytes, bytearray)):
            if "content-length" not in headers and (body or method in ("PUT", "POST")):
                connection.putheader("content-length", str(len(body)))
            connection.endheaders()
            try:
                if body:
                    connection.send(body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it answered before it read everything
        else:
            connection.putheader("transfer-encoding", "chunked")
            connection.endheaders(body, encode_chunked=True)
        return Answer(connection.getresponse(), method == "HEAD")
    finally:
        if own:
            connection.close()


def begin(gateway, method, path, length, timeout=60):
    """The head of a signed request; returns the connection, on which `length` bytes are to be sent."""
    headers, connection = {}, connect(gateway, timeout)
    sign(method, gateway.host, quote(path, "/"), [], headers, UNSIGNED)
    connection.putrequest(method, quote(path, "/"), skip_host=True, skip_accept_encoding=True)
    for name, value in (headers | {"content-length": str(length)}).items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection


def request(gateway, method, path, query=(), headers=None, body=b"", payload=None, connection=None,
            host=None, **how):
    """A signed request. `path` is unencoded; `payload` overrides x-amz-content-sha256."""
    headers = {name.lower(): value for name, value in (headers or {}).items()}
    path = quote(path, "/")
    query = list(query.items()) if isinstance(query, dict) else list(query)
    if payload is None:
        payload = hashlib.sha256(body).hexdigest() if isinstance(body, (bytes, bytearray)) else UNSIGNED
    sign(method, host or gateway.host, path, query, headers, payload, **how)
    target = path + ("?" + canonical_query(query) if query else "")
    return send(gateway, method, target, headers, body, connection)


# ---- aws-chunked bodies ----

def chunked_unsigned(data, size=65536, trailers=()):
    """STREAMING-UNSIGNED-PAYLOAD-TRAILER."""
    out = b""
    for start in range(0, len(data), size):
        chunk = data[start:start + size]
        out += b"%x\r\n%s\r\n" % (len(chunk), chunk)
    out += b"0\r\n"
    for name, value in trailers:
        out += f"{name}:{value}\r\n".encode()
    return out + b"\r\n"


def chunked_signed(data, seed, date, size=65536, trailers=(), spoil=None):
    """STREAMING-AWS4-HMAC-SHA256-PAYLOAD, with trailers its -TRAILER form. `spoil` is the number of a
    chunk whose signature is made wrong; -1 spoils the trailer's."""
    out, previous = b"", seed
    pieces = [data[start:start + size] for start in range(0, len(data), size)] + [b""]
    for number, piece in enumerate(pieces):
        text = (f"AWS4-HMAC-SHA256-PAYLOAD\n{date}\n{scope_of(date)}\n{previous}\n{EMPTY_SHA256}\n"
                f"{hashlib.sha256(piece).hexdigest()}")
        previous = sign_text(text, date)
        shown = previous if number != spoil else previous[:-1] + ("0" if previous[-1] != "0" else "1")
        out += f"{len(piece):x};chunk-signature={shown}\r\n".encode()
        out += piece + b"\r\n" if piece else b""
    if trailers:
        lines = "".join(f"{name}:{value}\n" for name, value in trailers)
        text = (f"AWS4-HMAC-SHA256-TRAILER\n{date}\n{scope_of(date)}\n{previous}\n"
                f"{hashlib.sha256(lines.encode()).hexdigest()}")
        signature = sign_text(text, date)
        if spoil == -1:
            signature = "0" * 64
        for name, value in trailers:
            out += f"{name}:{value}\r\n".encode()
        out += f"x-amz-trailer-signature:{signature}\r\n".encode()
    return out + b"\r\n"


def put_signed_chunks(gateway, path, data, size=65536, trailers=(), spoil=None, headers=None):
    headers = dict(headers or {})
    date = amz_date()
    kind = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD" + ("-TRAILER" if trailers else "")
    headers["content-encoding"] = headers.get("content-encoding", "aws-chunked")
    headers["x-amz-decoded-content-length"] = str(len(data))
    if trailers:
        headers["x-amz-trailer"] = ",".join(name for name, _ in trailers)
    seed = sign("PUT", gateway.host, quote(path, "/"), [], headers, kind, date)
    body = chunked_signed(data, seed, date, size, trailers, spoil)
    return send(gateway, "PUT", quote(path, "/"), headers, body)


def put_unsigned_trailer(gateway, path, data, trailers, size=65536, transfer_chunked=False, headers=None):
    headers = dict(headers or {})
    headers["content-encoding"] = headers.get("content-encoding", "aws-chunked")
    headers["x-amz-decoded-content-length"] = str(len(data))
    headers["x-amz-trailer"] = ",".join(name for name, _ in trailers)
    sign("PUT", gateway.host, quote(path, "/"), [], headers, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
    body = chunked_unsigned(data, size, trailers)
    if transfer_chunked:
        body = [body[i:i + 70001] for i in range(0, len(body), 70001)]
    return send(gateway, "PUT", quote(path, "/"), headers, body)


# ---- digests ----

def _crc_table(polynomial, bits):
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (polynomial if value & 1 else 0)
        table.append(value)
    return table


_TABLES = {32: _crc_table(0x82F63B78, 32), 64: _crc_table(0x9A6C9329AC4BC9B5, 64)}


def _crc(data, bits):
    table, value = _TABLES[bits], (1 << bits) - 1
    for byte in data:
        value = table[(value ^ byte) & 255] ^ (value >> 8)
    return value ^ ((1 << bits) - 1)


def _base64(number, size):
    return base64.b64encode(number.to_bytes(size, "big")).decode()


XXHASHES = {"xxhash64": xxhash.xxh64, "xxhash3": xxhash.xxh3_64, "xxhash128": xxhash.xxh3_128}
ALGORITHMS = ("crc32", "crc32c", "crc64nvme", "sha1", "sha256", "sha512", "md5", *XXHASHES)


def checksum(algorithm, data):
    """Base64, as in x-amz-checksum-ALGORITHM. The CRC32C and CRC64NVME here are slow: small data only."""
    if algorithm == "crc32":
        return _base64(zlib.crc32(data), 4)
    if algorithm == "crc32c":
        return _base64(_crc(data, 32), 4)
    if algorithm == "crc64nvme":
        return _base64(_crc(data, 64), 8)
    if algorithm in XXHASHES:
        return base64.b64encode(XXHASHES[algorithm](data).digest()).decode()
    return base64.b64encode(hashlib.new(algorithm, data).digest()).decode()


def content_md5(data):
    return base64.b64encode(hashlib.md5(data).digest()).decode()


def talk(gateway, data, timeout=10):
    """Bytes in, bytes out, on a plain connection of their own."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout) as connection:
        connection.sendall(data)
        out = b""
        try:
            while True:
                piece = connection.recv(65536)
                if not piece:
                    return out
                out += piece
        except (socket.timeout, ConnectionResetError):
            return out
