"""What the tests put into buckets: repeatable bytes, awkward names, trees on disk, and comparisons."""
import hashlib
import itertools
import os
import random

import gateway as gateways

_numbers = itertools.count(1)


def new_bucket_name(prefix="t"):
    return f"{prefix}-{os.getpid()}-{next(_numbers)}"


def boto3_client(gateway, **config):
    import boto3
    import botocore.config

    config = {"s3": {"addressing_style": "path"}, "retries": {"max_attempts": 0}, "read_timeout": 120,
              "max_pool_connections": 64, **config}
    return boto3.client(
        "s3", endpoint_url=gateway.endpoint, aws_access_key_id=gateways.ACCESS_KEY,
        aws_secret_access_key=gateways.SECRET_KEY, region_name=gateways.REGION,
        config=botocore.config.Config(**config),
    )


def content(seed, size):
    """`size` bytes that are always the same for a seed."""
    return random.Random(seed).randbytes(size)


def md5(data):
    return hashlib.md5(data).hexdigest()


# Names that clients, URLs, XML and signatures tend to get wrong.
AWKWARD = [
    "plain",
    "with space",
    "with  two   spaces",
    " leading and trailing ",
    "plus+plus",
    "percent%41%2F%25",
    "question?mark=1&a=b",
    "hash#fragment",
    "amp&lt;<tag>\"quotes\"'single'",
    "semi;colon,comma:colon@at$dollar!bang*star(paren)[bracket]{brace}|pipe^caret`tick~tilde",
    "back\\slash",
    "unicode-äöü-ß-é-ø",
    "combining-e\u0301",
    "greek-αβγ-cyrillic-где-cjk-漢字-emoji-🚀",
    "dots...in..the...middle",
    ".hidden",
    "..two-dots-first",
    "trailing-dot.",
    "-dash-first",
    "--option=like",
    "tab\tinside",
    "deep/er/and/deep/er/still/leaf",
    "dir with space/ä+b/c%20d",
    "CON", "aux.txt",
    "x" * 200,
    "=equals=", "null", "0", "~",
]

# Control characters: in keys of requests made by hand, not in those of tools that refuse them.
CONTROL = ["newline\ninside", "return\rinside", "bell\x07", "delete\x7f", "escape\x1b[0m"]


def write_tree(top, names=None, seed="tree", sizes=(0, 1, 17, 4096, 70000)):
    """Files below `top`; returns {relative name: bytes}."""
    files = {}
    for number, name in enumerate(names or AWKWARD):
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        files[name] = content(f"{seed}/{name}", sizes[number % len(sizes)])
        with open(path, "wb") as out:
            out.write(files[name])
    return files


def read_tree(top):
    """{relative name: bytes} of all regular files below `top`."""
    files = {}
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as source:
                files[os.path.relpath(path, top)] = source.read()
    return files


def assert_same_files(got, want):
    """Compares two {name: bytes} with a short message."""
    missing, extra = sorted(want.keys() - got.keys()), sorted(got.keys() - want.keys())
    assert not missing and not extra, f"missing {missing[:10]!r}, unexpected {extra[:10]!r}"
    different = [name for name in want if got[name] != want[name]]
    assert not different, "different bytes: " + ", ".join(
        f"{name!r} ({len(got[name])} bytes {got[name][:20]!r}, not {len(want[name])} {want[name][:20]!r})"
        for name in different[:5])


def write_big(path, size, seed="big", step=16 << 20):
    """A large file of random bytes with holes between; returns its SHA-256."""
    numbers = random.Random(seed)
    with open(path, "wb") as out:
        out.truncate(size)
        for offset in range(0, size, step):
            out.seek(offset)
            out.write(numbers.randbytes(min(1 << 20, size - offset)))
    return file_sha256(path)


def file_sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def all_objects(s3, bucket, **query):
    """{key: bytes} of a bucket, through the paginator."""
    found = {}
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, **query):
        for item in page.get("Contents", []):
            body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
            assert len(body) == item["Size"]
            found[item["Key"]] = body
    return found
