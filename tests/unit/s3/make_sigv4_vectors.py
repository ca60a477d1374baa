#!/usr/bin/env python3
"""Writes sigv4_vectors.txt: random requests signed by botocore, an independent signer.

Usage: make_sigv4_vectors.py > sigv4_vectors.txt        (needs python3-botocore)

A record ends with an empty line; a line is a word, a space and the rest verbatim:
  form       header | presigned
  method, path, query                as signed (path and query percent-encoded)
  other-path, other-query            the same, spelt otherwise: must verify as well
  header     name:value              without the Authorization header; value verbatim
  authorization                      header form
  canonical-sha256, signature
The secrets and the time are the constants below. The output depends on the seed only.
"""
import datetime
import hashlib
import random
import sys
from unittest import mock
from urllib.parse import urlsplit

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.utils import percent_encode

ACCESS_KEY = 'RAILGATETESTKEY00001'
SECRET_KEY = 'vectors/are+made+with+This=Secret0123456'
REGION = 'eu-test-7'
NOW = datetime.datetime(2026, 11, 29, 16, 40, 1)

rng = random.Random(20261129)

PIECES = ['a', 'Z', '0', ' ', '  ', '+', '%', '&', '=', '?', '#', '~', '-', '_', '.', '!', '*',
          "'", '(', ')', ';', ':', '@', ',', '$', '[', ']', '{', '}', '|', '\\', '^', '`', '"',
          '<', '>', 'ü', '日本', '\U0001f600', '\x01', '\x7f', '\n', '%41', '%zz', '..', '/', '//']


def text(most, pieces=PIECES):
    return ''.join(rng.choice(pieces) for _ in range(rng.randint(0, most)))


def respell(encoded, query):
    """Another way to write the same bytes: AWS decodes before it canonicalises."""
    out = []
    i = 0
    while i < len(encoded):
        c = encoded[i]
        if c == '%':
            byte = int(encoded[i + 1:i + 3], 16)
            plain = chr(byte)
            keep = "!*'();:@,$[]" if query else "!*'();:@,$[]&=+"
            if query and plain == ' ' and rng.random() < 0.5:
                out.append('+')
            elif plain in keep and rng.random() < 0.7:
                out.append(plain)
            else:
                out.append(encoded[i:i + 3].lower() if rng.random() < 0.5 else encoded[i:i + 3])
            i += 3
            continue
        if (c.isalnum() or c in '-_.~') and rng.random() < 0.2:
            out.append('%%%02X' % ord(c))
        else:
            out.append(c)
        i += 1
    return ''.join(out)


def respell_query(query):
    if not query:
        return query
    return '&'.join('='.join(respell(side, True) for side in pair.split('=', 1))
                    for pair in query.split('&'))


def spaced(value):
    words = value.split(' ')
    return (' ' * rng.randint(0, 3)) + (' ' * rng.randint(1, 4)).join(words) + ' ' * rng.randint(0, 2)


def random_headers():
    headers = []
    names = ['x-amz-meta-' + text(4, ['a', 'B', 'c-', '0', '_', 'x.']) + 'k', 'Content-Type',
             'X-Amz-Acl', 'Range', 'Content-MD5', 'x-amz-storage-class', 'If-Match', 'X-Custom',
             'Cache-Control', 'x-amz-meta-twice', 'x-amz-rdma-token']
    for name in rng.sample(names, rng.randint(0, 6)):
        value = text(6, ['one', 'TWO', ' ', 'a b', '"q  q"', 'ü', ',', ';=', '0:1'])
        headers.append((name, spaced(value)))
    if rng.random() < 0.2:
        headers.append(('x-amz-meta-twice', spaced('second, value')))
        headers.append(('X-AMZ-Meta-Twice', ' third'))
    return headers


def random_query():
    pairs = []
    for _ in range(rng.choice([0, 0, 1, 2, 3, 6])):
        name = rng.choice(['prefix', 'delimiter', 'uploadId', 'list-type', 'a', 'A', 'a-b', text(3)])
        pairs.append((name or 'empty', text(4)))
    if pairs and rng.random() < 0.3:
        pairs.append((pairs[0][0], text(2)))
    return pairs


def emit(word, rest):
    assert '\n' not in rest and '\r' not in rest
    sys.stdout.write(f'{word} {rest}\n')


def record(form, request, sent, canonical):
    split = urlsplit(request.url)
    path, query = split.path, split.query
    emit('form', form)
    emit('method', request.method)
    emit('path', path)
    emit('query', query)
    emit('other-path', respell(path, False))
    emit('other-query', respell_query(query))
    for name, value in sent:
        emit('header', f'{name}:{value}')
    if form == 'header':
        authorization = request.headers['Authorization']
        emit('authorization', authorization)
        signature = authorization.rsplit('=', 1)[1]
    else:
        signature = query.rsplit('=', 1)[1]
    emit('canonical-sha256', hashlib.sha256(canonical.encode()).hexdigest())
    emit('signature', signature)
    sys.stdout.write('\n')


def sign(signer, request):
    seen = []
    real = type(signer).string_to_sign

    def spy(self, req, canonical):
        seen.append(canonical)
        return real(self, req, canonical)

    with mock.patch.object(type(signer), 'string_to_sign', spy), \
            mock.patch('botocore.auth.get_current_datetime', lambda: NOW):
        signer.add_auth(request)
    return seen[0]


def build(path, pairs, headers):
    query = '&'.join(f"{percent_encode(n, safe='-_.~')}={percent_encode(v, safe='-_.~')}"
                     for n, v in pairs)
    host = rng.choice(['127.0.0.1:9000', 'bucket.s3.example.test', 'gw.example.test', '[::1]:80'])
    scheme = rng.choice(['http', 'https'])
    url = f'{scheme}://{host}{path}' + (f'?{query}' if query else '')
    request = AWSRequest(method=rng.choice(['GET', 'PUT', 'HEAD', 'DELETE', 'POST']), url=url)
    for name, value in headers:
        request.headers[name] = value
    return request


def header_case(credentials):
    headers = random_headers()
    path = '/bucket/' + percent_encode(text(8), safe='/~')
    request = build(path, random_query(), headers)
    if rng.random() < 0.5:
        request.data = text(5).encode()
    if rng.random() < 0.3:
        request.context['checksum'] = {'request_algorithm': {'in': 'trailer'}}
    with_date = rng.random() < 0.15
    if with_date:
        request.headers['Date'] = 'to be replaced'
    signer = botocore.auth.S3SigV4Auth(credentials, 's3', REGION)
    canonical = sign(signer, request)
    sent = headers + [('Host', botocore.auth._host_from_url(request.url)),
                      ('X-Amz-Content-SHA256', request.headers['X-Amz-Content-SHA256'])]
    if with_date:
        sent.append(('Date', request.headers['Date']))
    else:
        sent.append(('X-Amz-Date', request.headers['X-Amz-Date']))
    sent.append(('User-Agent', 'not signed'))
    record('header', request, sent, canonical)


def presigned_case(credentials):
    headers = random_headers()[:2]
    path = '/bucket/' + percent_encode(text(8), safe='/~')
    pairs = list(dict(random_query()).items())
    request = build(path, pairs, headers)
    signer = botocore.auth.S3SigV4QueryAuth(credentials, 's3', REGION,
                                            expires=rng.choice([1, 60, 3600, 604800]))
    canonical = sign(signer, request)
    sent = headers + [('Host', botocore.auth._host_from_url(request.url)),
                      ('User-Agent', 'not signed')]
    record('presigned', request, sent, canonical)


def main():
    credentials = Credentials(ACCESS_KEY, SECRET_KEY)
    for _ in range(250):
        header_case(credentials)
    for _ in range(100):
        presigned_case(credentials)


main()
