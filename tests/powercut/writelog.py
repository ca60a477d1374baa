"""Reads a dm-log-writes log, in the order in which writes became durable, and plays it on an image.

The format (the kernel's drivers/md/dm-log-writes.c): a sector with magic, version, number of entries
and sector size; then for each entry a sector with place, length, flags and length of the mark, which
follows in the same sector; then the data, but none for a discard.
"""
import collections
import struct

MAGIC, DISCARD, MARK = 0x6A736677736872, 4, 8
SUPER, ENTRY = struct.Struct("<QQQI"), struct.Struct("<QQQQ")

Entry = collections.namedtuple("Entry", "place length offset mark")  # bytes; mark "" for a write


class Log:
    def __init__(self, path):
        self.file = open(path, "rb")
        magic, version, count, unit = SUPER.unpack(self.file.read(SUPER.size))
        if magic != MAGIC or version != 1 or not count or not unit:
            raise ValueError(f"no log of writes: magic {magic:x}, version {version}, {count} entries of {unit}")
        self.entries = []
        offset = unit
        for _ in range(count):
            self.file.seek(offset)
            head = self.file.read(unit)
            sector, sectors, flags, length = ENTRY.unpack_from(head)
            mark = head[ENTRY.size:ENTRY.size + length].rstrip(b"\0").decode() if flags & MARK else ""
            offset += unit
            held = 0 if flags & (DISCARD | MARK) else sectors * unit
            if not flags & DISCARD:  # undefined afterwards: what was there will do
                self.entries.append(Entry(sector * unit, held, offset, mark))
            offset += held

    def play(self, image, first, last):
        """Entries first .. last-1 onto a file open for writing."""
        for entry in self.entries[first:last]:
            if entry.length:
                self.file.seek(entry.offset)
                image.seek(entry.place)
                image.write(self.file.read(entry.length))

    def close(self):
        self.file.close()
