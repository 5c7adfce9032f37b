# SPDX-License-Identifier: MIT
"""A second encoder and decoder of the Fuchsia Trace Format, written from its description alone.

A record is a list: type, kind, detail, number, value, time, outgoing thread, thread's index, pid, tid,
category, name, arguments, payload. A string is (index, bytes), an argument (type, name, value)."""
import struct

MAGIC = bytes.fromhex("1000044678541600")
(METADATA, INITIALIZATION, STRING, THREAD, EVENT, BLOB, USERSPACE_OBJECT, KERNEL_OBJECT, SCHEDULING,
 LOG) = range(10)
LARGE = 15
NO_EXTRA = (0, 2, 3)  # kinds of events without a word at their end
EMPTY = (0, b"")


def record(kind_of_record, kind=0, detail=0, number=0, value=0, time=0, outgoing=0, thread=(0, 0, 0),
           category=EMPTY, name=EMPTY, arguments=(), payload=b""):
    return [kind_of_record, kind, detail, number, value, time, outgoing, *thread, category, name,
            list(arguments), payload]


def words(*values):
    return struct.pack(f"<{len(values)}Q", *values)


def padded(data):
    return data + bytes(-len(data) % 8)


def reference(string):
    index, data = string
    return index or (0x8000 | len(data) if data else 0)


def inline(string):
    return b"" if string[0] else padded(string[1])


def encode_argument(argument):
    kind, name, value = argument
    field, body = 0, b""
    if kind in (1, 2):
        field = value & 0xffffffff
    elif kind == 9:
        field = value
    elif kind in (3, 4, 5, 7, 8):
        body = words(value)
    elif kind == 6:
        field, body = reference(value), inline(value)
    elif kind == 10:
        field, body = len(value), padded(value)
    body = inline(name) + body
    return words(kind | (1 + len(body) // 8) << 4 | reference(name) << 16 | field << 32) + body


def encode(item):
    (what, kind, detail, number, value, time, outgoing, index, pid, tid, category, name, arguments,
     payload) = item
    who = b"" if index else words(pid, tid)
    known = b"".join(map(encode_argument, arguments))
    fields, body = 0, b""
    if what == METADATA:
        fields = kind << 16 | number << 20
        if kind == 1:
            fields, body = fields | len(name[1]) << 52, padded(name[1])
        elif kind == 3:
            fields |= detail << 52
        elif kind == 4:
            return MAGIC
    elif what == INITIALIZATION:
        body = words(value)
    elif what == STRING:
        fields, body = number << 16 | len(name[1]) << 32, padded(name[1])
    elif what == THREAD:
        fields, body = number << 16, words(pid, tid)
    elif what == EVENT:
        fields = (kind << 16 | len(arguments) << 20 | index << 24 | reference(category) << 32 |
                  reference(name) << 48)
        body = words(time) + who + inline(category) + inline(name) + known
        body += b"" if kind in NO_EXTRA else words(value)
    elif what == BLOB:
        fields = reference(name) << 16 | len(payload) << 32 | kind << 48
        body = inline(name) + padded(payload)
    elif what == USERSPACE_OBJECT:
        fields = index << 16 | reference(name) << 24 | len(arguments) << 40
        body = words(value) + (b"" if index else words(pid)) + inline(name) + known
    elif what == KERNEL_OBJECT:
        fields = kind << 16 | reference(name) << 24 | len(arguments) << 40
        body = words(value) + inline(name) + known
    elif what == SCHEDULING:
        fields = len(arguments) << 16 | number << 20 | kind << 60
        if kind == 1:
            fields, body = fields | detail << 36, words(time, outgoing, value) + known
        else:
            body = words(time, value) + known
    elif what == LOG:
        fields = len(name[1]) << 16 | index << 32
        body = words(time) + who + padded(name[1])
    elif what == LARGE:
        fields = kind << 40
        head = reference(category) | reference(name) << 16
        if kind == 0:
            head |= len(arguments) << 32 | index << 36
        body = words(head) + inline(category) + inline(name)
        if kind == 0:
            body += words(time) + who + known
        body += words(len(payload)) + padded(payload)
    return words(what | (1 + len(body) // 8) << 4 | fields) + body


class Decoder:
    """The records of a file that has no fault: anything else raises."""

    def __init__(self, data):
        self.data, self.at, self.strings, self.threads = data, 0, {}, {}

    def word(self):
        value, = struct.unpack_from("<Q", self.data, self.at)
        self.at += 8
        return value

    def take(self, size):
        data = self.data[self.at:self.at + size]
        assert len(data) == size
        self.at += size + -size % 8
        return data

    def string(self, number):
        if number & 0x8000:
            return (0, self.take(number & 0x7fff))
        return (number, self.strings[number]) if number else EMPTY

    def thread(self, index):
        return (index, *self.threads[index]) if index else (0, self.word(), self.word())

    def argument(self):
        begin, head = self.at, self.word()
        kind, field = head & 15, head >> 32
        name = self.string(head >> 16 & 0xffff)
        if kind == 1:
            value = field | (0xffffffff << 32 if field >> 31 else 0)
        elif kind in (2, 9):
            value = field
        elif kind in (3, 4, 5, 7, 8):
            value = self.word()
        elif kind == 6:
            value = self.string(field & 0xffff)
        elif kind == 10:
            value = self.take(field)
        else:
            value = 0
        assert self.at - begin == (head >> 4 & 0xfff) * 8
        return (kind, name, value)

    def arguments(self, count):
        return [self.argument() for _ in range(count)]

    def records(self):
        while self.at < len(self.data):
            begin, head = self.at, self.word()
            item = self.decode(head & 15, head)
            size = head >> 4 & (0xffffffff if head & 15 == LARGE else 0xfff)
            assert self.at - begin == size * 8, (item, self.at - begin, size * 8)
            yield item

    def decode(self, what, head):
        kind4, name16, args = head >> 16 & 15, head >> 24 & 0xffff, head >> 40 & 15
        if what == METADATA and kind4 == 4:
            return record(what, 4)
        if what == METADATA:
            name = (0, self.take(head >> 52 & 0xff)) if kind4 == 1 else EMPTY
            return record(what, kind4, head >> 52 & 15 if kind4 == 3 else 0,
                          head >> 20 & 0xffffffff, name=name)
        if what == INITIALIZATION:
            return record(what, value=self.word())
        if what == STRING:
            index, text = head >> 16 & 0x7fff, self.take(head >> 32 & 0x7fff)
            self.strings[index] = text
            return record(what, number=index, name=(0, text))
        if what == THREAD:
            index = head >> 16 & 0xff
            self.threads[index] = (self.word(), self.word())
            return record(what, number=index, thread=(0, *self.threads[index]))
        if what == EVENT:
            time, thread = self.word(), self.thread(head >> 24 & 0xff)
            category, name = self.string(head >> 32 & 0xffff), self.string(head >> 48)
            arguments = self.arguments(head >> 20 & 15)
            return record(what, kind4, time=time, thread=thread, category=category, name=name,
                          arguments=arguments, value=0 if kind4 in NO_EXTRA else self.word())
        if what == BLOB:
            name = self.string(head >> 16 & 0xffff)
            return record(what, head >> 48 & 0xff, name=name, payload=self.take(head >> 32 & 0x7fff))
        if what == USERSPACE_OBJECT:
            value, index = self.word(), head >> 16 & 0xff
            thread = self.thread(index) if index else (0, self.word(), 0)
            name = self.string(name16)
            return record(what, value=value, thread=thread, name=name, arguments=self.arguments(args))
        if what == KERNEL_OBJECT:
            value, name = self.word(), self.string(name16)
            return record(what, head >> 16 & 0xff, value=value, name=name,
                          arguments=self.arguments(args))
        if what == SCHEDULING:
            is_switch, time = head >> 60 == 1, self.word()
            outgoing = self.word() if is_switch else 0
            return record(what, head >> 60, head >> 36 & 15 if is_switch else 0,
                          head >> 20 & 0xffff, time=time, outgoing=outgoing, value=self.word(),
                          arguments=self.arguments(head >> 16 & 15))
        if what == LOG:
            time, thread = self.word(), self.thread(head >> 32 & 0xff)
            return record(what, time=time, thread=thread, name=(0, self.take(head >> 16 & 0x7fff)))
        assert what == LARGE and head >> 36 & 15 == 0
        return self.large_blob(head >> 40 & 15)

    def large_blob(self, form):
        fields = self.word()
        category, name = self.string(fields & 0xffff), self.string(fields >> 16 & 0xffff)
        time, thread, arguments = 0, (0, 0, 0), []
        if form == 0:
            time, thread = self.word(), self.thread(fields >> 36 & 0xff)
            arguments = self.arguments(fields >> 32 & 15)
        return record(LARGE, form, time=time, thread=thread, category=category, name=name,
                      arguments=arguments, payload=self.take(self.word()))


def decode(data):
    return list(Decoder(data).records())
