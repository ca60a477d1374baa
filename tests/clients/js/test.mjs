// Drives the AWS SDK for JavaScript v3 through its everyday work and compares every byte.
// Settings come from the environment: ENDPOINT, BUCKET, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createReadStream, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import {
    S3Client, CreateBucketCommand, PutObjectCommand, GetObjectCommand, HeadObjectCommand,
    DeleteObjectCommand, DeleteObjectsCommand, DeleteBucketCommand, CopyObjectCommand,
    ListBucketsCommand, GetObjectAttributesCommand, PutObjectTaggingCommand,
    GetObjectTaggingCommand, paginateListObjectsV2, S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';

const Bucket = process.env.BUCKET;
const s3 = new S3Client({
    endpoint: process.env.ENDPOINT, region: 'us-east-1', forcePathStyle: true, maxAttempts: 1,
});

// Repeatable bytes: a hash chain is random enough and needs no seedable generator.
function content(seed, size) {
    const blocks = [];
    let digest = createHash('sha512').update(seed).digest();
    for (let have = 0; have < size; have += digest.length) {
        blocks.push(digest);
        digest = createHash('sha512').update(digest).digest();
    }
    return Buffer.concat(blocks).subarray(0, size);
}

async function read(Key, more = {}) {
    const answer = await s3.send(new GetObjectCommand({ Bucket, Key, ...more }));
    return Buffer.from(await answer.Body.transformToByteArray());
}

async function fails(promise, status, name) {
    await assert.rejects(promise, (problem) => {
        assert.ok(problem instanceof S3ServiceException, String(problem));
        assert.equal(problem.$metadata.httpStatusCode, status);
        if (name) assert.equal(problem.name, name);
        return true;
    });
}

const steps = {
    async 'strings and buffers'() {
        await s3.send(new PutObjectCommand({ Bucket, Key: 'string', Body: 'text äöü' }));
        assert.equal((await read('string')).toString(), 'text äöü');
        const body = content('buffer', 300001);
        const put = await s3.send(new PutObjectCommand({
            Bucket, Key: 'dir with space/ä+b%20', Body: body, ContentType: 'image/x-test',
            Metadata: { colour: 'blue' },
        }));
        assert.equal(put.ETag, `"${createHash('md5').update(body).digest('hex')}"`);
        assert.ok(put.ChecksumCRC32);
        assert.deepEqual(await read('dir with space/ä+b%20'), body);
        assert.deepEqual(await read('dir with space/ä+b%20', { Range: 'bytes=-10' }), body.subarray(-10));
        const head = await s3.send(new HeadObjectCommand({ Bucket, Key: 'dir with space/ä+b%20' }));
        assert.equal(head.ContentType, 'image/x-test');
        assert.equal(head.Metadata.colour, 'blue');
        await s3.send(new PutObjectCommand({ Bucket, Key: 'empty', Body: '' }));
        assert.equal((await read('empty')).length, 0);
    },

    // Sent as Transfer-Encoding: chunked with aws-chunked inside and no Content-Length.
    async 'streams'() {
        const body = content('stream', 5 * 1024 * 1024 + 3);
        const pieces = () => Readable.from((function* () {
            for (let at = 0; at < body.length; at += 50021) yield body.subarray(at, at + 50021);
        })());
        for (const ChecksumAlgorithm of [undefined, 'CRC32C', 'SHA1', 'SHA256']) {
            const Key = `stream ${ChecksumAlgorithm}`;
            await s3.send(new PutObjectCommand({
                Bucket, Key, Body: pieces(), ContentLength: body.length, ChecksumAlgorithm,
            }));
            const back = await s3.send(new GetObjectCommand({ Bucket, Key, ChecksumMode: 'ENABLED' }));
            assert.ok(back[`Checksum${ChecksumAlgorithm ?? 'CRC32'}`]);
            assert.deepEqual(Buffer.from(await back.Body.transformToByteArray()), body);
        }
        const path = join(tmpdir(), `railgate-js-${process.pid}`);
        writeFileSync(path, body);
        try {
            await s3.send(new PutObjectCommand({ Bucket, Key: 'file', Body: createReadStream(path) }));
        } finally {
            unlinkSync(path);
        }
        assert.deepEqual(await read('file'), body);
    },

    async 'multipart upload by lib-storage'() {
        const body = content('multi', 17 * 1024 * 1024 + 5);
        const upload = new Upload({
            client: s3, queueSize: 3, partSize: 5 * 1024 * 1024,
            params: { Bucket, Key: 'multi', Body: Readable.from([body.subarray(0, 7000000), body.subarray(7000000)]) },
        });
        const done = await upload.done();
        assert.match(done.ETag, /-4"$/);
        assert.deepEqual(await read('multi'), body);
        const attributes = await s3.send(new GetObjectAttributesCommand({
            Bucket, Key: 'multi', ObjectAttributes: ['ObjectSize', 'ObjectParts', 'Checksum'],
        }));
        assert.equal(attributes.ObjectSize, body.length);
        assert.equal(attributes.ObjectParts.TotalPartsCount, 4);
        assert.ok(attributes.Checksum.ChecksumCRC32);
    },

    async 'presigned URLs'() {
        const body = content('presigned', 200003);
        const put = await getSignedUrl(s3, new PutObjectCommand({ Bucket, Key: 'presigned ü' }), { expiresIn: 60 });
        const up = await fetch(put, { method: 'PUT', body });
        assert.equal(up.status, 200, await up.text());
        const get = await getSignedUrl(s3, new GetObjectCommand({
            Bucket, Key: 'presigned ü', ResponseContentDisposition: 'attachment; filename="a b"',
        }), { expiresIn: 60 });
        const down = await fetch(get);
        assert.equal(down.status, 200);
        assert.equal(down.headers.get('content-disposition'), 'attachment; filename="a b"');
        assert.deepEqual(Buffer.from(await down.arrayBuffer()), body);
    },

    async 'conditions'() {
        const first = await s3.send(new PutObjectCommand({ Bucket, Key: 'once', Body: '1', IfNoneMatch: '*' }));
        await fails(s3.send(new PutObjectCommand({ Bucket, Key: 'once', Body: '2', IfNoneMatch: '*' })), 412);
        await fails(s3.send(new PutObjectCommand({ Bucket, Key: 'once', Body: '2', IfMatch: '"0123"' })), 412);
        await s3.send(new PutObjectCommand({ Bucket, Key: 'once', Body: '3', IfMatch: first.ETag }));
        assert.equal((await read('once')).toString(), '3');
    },

    async 'copy, tags and errors'() {
        await s3.send(new CopyObjectCommand({ Bucket, Key: 'copy', CopySource: encodeURI(`${Bucket}/dir with space/ä+b%20`) }));
        assert.deepEqual(await read('copy'), content('buffer', 300001));
        await s3.send(new PutObjectTaggingCommand({
            Bucket, Key: 'copy', Tagging: { TagSet: [{ Key: 'k 1', Value: 'v/1' }] },
        }));
        const tags = await s3.send(new GetObjectTaggingCommand({ Bucket, Key: 'copy' }));
        assert.deepEqual(tags.TagSet, [{ Key: 'k 1', Value: 'v/1' }]);
        await fails(s3.send(new GetObjectCommand({ Bucket, Key: 'nothing' })), 404, 'NoSuchKey');
        await fails(s3.send(new GetObjectCommand({ Bucket: `${Bucket}-nothing`, Key: 'x' })), 404, 'NoSuchBucket');
    },

    async 'list and delete'() {
        const keys = [];
        for await (const page of paginateListObjectsV2({ client: s3, pageSize: 3 }, { Bucket })) {
            keys.push(...(page.Contents ?? []).map((item) => item.Key));
        }
        const sorted = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
        assert.deepEqual(keys, sorted);
        assert.ok(keys.length >= 12, String(keys));
        assert.ok((await s3.send(new ListBucketsCommand({}))).Buckets.some((item) => item.Name === Bucket));
        await s3.send(new DeleteObjectCommand({ Bucket, Key: keys[0] }));
        const gone = await s3.send(new DeleteObjectsCommand({
            Bucket, Delete: { Objects: keys.slice(1).map((Key) => ({ Key })) },
        }));
        assert.equal(gone.Deleted.length, keys.length - 1);
        assert.equal(gone.Errors, undefined);
        await s3.send(new DeleteBucketCommand({ Bucket }));
    },
};

await s3.send(new CreateBucketCommand({ Bucket }));
for (const [name, step] of Object.entries(steps)) {
    const start = Date.now();
    try {
        await step();
    } catch (problem) {
        console.error(`FAILED: ${name}`);
        throw problem;
    }
    console.log(`ok: ${name} (${Date.now() - start} ms)`);
}
console.log('all steps passed');
