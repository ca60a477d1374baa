"""Listings against a flat sort of the same keys: random trees, every page size, both versions."""
import random

import data
import pytest

pytestmark = pytest.mark.store

ALPHABET = ["a", "b", "-", ".", "0", " ", "~", "!", "ä", "a.b", "a-b", "é", "🚀", "a0", "\x7f", "%2F", "+"]


def random_keys(numbers, count):
    """Keys of 1 to 4 segments, without a file and a directory of the same name."""
    keys, folders = set(), set()
    while len(keys) < count:
        parts = ["".join(numbers.choices(ALPHABET, k=numbers.randrange(1, 4))) for _ in range(numbers.randrange(1, 5))]
        if any(part in (".", "..") for part in parts):
            continue
        key = "/".join(parts)
        above = {"/".join(parts[:i]) for i in range(1, len(parts))}
        if key in folders or above & keys:
            continue
        keys.add(key)
        folders |= above
    return sorted(keys, key=str.encode)


def expected(keys, prefix="", delimiter=""):
    """The flat sort: entries (kind, name) in listing order."""
    out = []
    for key in keys:
        if not key.startswith(prefix):
            continue
        rest = key[len(prefix):]
        if delimiter and delimiter in rest:
            entry = ("prefix", prefix + rest.split(delimiter)[0] + delimiter)
        else:
            entry = ("key", key)
        if not out or out[-1] != entry:
            out.append(entry)
    return out


def entries(page):
    found = [("key", item["Key"]) for item in page.get("Contents", [])]
    found += [("prefix", item["Prefix"]) for item in page.get("CommonPrefixes", [])]
    return sorted(found, key=lambda entry: entry[1].encode())


def walk_v2(s3, bucket, size, **query):
    found, token = [], {}
    while True:
        page = s3.list_objects_v2(Bucket=bucket, MaxKeys=size, **query, **token)
        got = entries(page)
        assert page["KeyCount"] == len(got) <= size
        found += got
        if not page["IsTruncated"]:
            return found
        assert got, "a truncated page without an entry"
        token = {"ContinuationToken": page["NextContinuationToken"]}


def walk_v1(s3, bucket, size, **query):
    found, marker = [], {}
    while True:
        page = s3.list_objects(Bucket=bucket, MaxKeys=size, **query, **marker)
        got = entries(page)
        assert len(got) <= size
        found += got
        if not page["IsTruncated"]:
            return found
        marker = {"Marker": page.get("NextMarker") or got[-1][1]}


@pytest.fixture(scope="module")
def tree(s3):
    numbers = random.Random(20)
    bucket = data.new_bucket_name("list")
    s3.create_bucket(Bucket=bucket)
    keys = random_keys(numbers, 150)
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    return bucket, keys


def test_flat_and_by_folder(s3, tree):
    bucket, keys = tree
    for size in (1, 2, 7, 50, 1000):
        assert walk_v2(s3, bucket, size) == expected(keys)
        assert walk_v2(s3, bucket, size, Delimiter="/") == expected(keys, delimiter="/")
        assert walk_v1(s3, bucket, size) == expected(keys)
        assert walk_v1(s3, bucket, size, Delimiter="/") == expected(keys, delimiter="/")


def test_prefixes_and_delimiters(s3, tree):
    bucket, keys = tree
    numbers = random.Random(21)
    prefixes = {""}
    for key in numbers.sample(keys, 25):
        cut = numbers.randrange(len(key) + 1)
        prefixes |= {key[:cut], key.rsplit("/", 1)[0] + "/", key}
    prefixes |= {"nothing", "a/", "/", "//"}
    for prefix in sorted(prefixes):
        for delimiter in ("", "/", "a", "b/", ".", " "):
            size = numbers.choice((1, 3, 1000))
            want = expected(keys, prefix, delimiter)
            query = {"Prefix": prefix, **({"Delimiter": delimiter} if delimiter else {})}
            assert walk_v2(s3, bucket, size, **query) == want, (prefix, delimiter, size)
            assert walk_v1(s3, bucket, size, **query) == want, (prefix, delimiter, size)


def test_start_after(s3, tree):
    bucket, keys = tree
    numbers = random.Random(22)
    for _ in range(30):
        after = numbers.choice(keys)
        after = numbers.choice((after, after[:-1], after + "/", after + "0", after.split("/")[0]))
        want = [("key", key) for key in keys if key.encode() > after.encode()]
        assert walk_v2(s3, bucket, numbers.choice((2, 1000)), StartAfter=after) == want if after else True
        if after:
            assert walk_v1(s3, bucket, 1000, Marker=after) == want


def test_changes_between_pages(s3, bucket):
    """Keys added and removed while a listing is under way: what is there throughout is listed once."""
    stable = [f"s{i:03}/x" for i in range(0, 100, 2)]
    for key in stable:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    token, seen, number = {}, [], 1
    while True:
        page = s3.list_objects_v2(Bucket=bucket, MaxKeys=7, **token)
        seen += [item["Key"] for item in page["Contents"]]
        s3.put_object(Bucket=bucket, Key=f"s{number:03}/added", Body=b"")
        s3.put_object(Bucket=bucket, Key=f"t{number:03}", Body=b"")
        number += 10
        if not page["IsTruncated"]:
            break
        token = {"ContinuationToken": page["NextContinuationToken"]}
    assert seen == sorted(set(seen))
    assert [key for key in seen if key in set(stable)] == stable


def test_fresh_changes_show_at_once(s3, bucket):
    """A listing after an acknowledged change always shows it, also within the same clock tick."""
    have = set()
    for i in range(60):
        key = f"d/{i % 13:02}-{i}"
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
        have.add(key)
        if i % 3 == 2:
            gone = sorted(have)[i % len(have)]
            s3.delete_object(Bucket=bucket, Key=gone)
            have.discard(gone)
        listed = s3.list_objects_v2(Bucket=bucket, Prefix="d/").get("Contents", [])
        assert [item["Key"] for item in listed] == sorted(have)
