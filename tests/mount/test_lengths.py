"""shufflefs-check --write-lengths: which numbers it writes, where to, and when nothing is."""
import os
import stat
import struct
import threading
import zlib

import harness
import slow
import tars
from harness import binary, run
from test_check import CheckCase


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height):
    """A whole one, grey."""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress((b"\0" + bytes(width)) * height)) + chunk(b"IEND", b""))


def segment(marker, body):
    return struct.pack(">BBH", 0xff, marker, len(body) + 2) + body


def jpeg(width, height, thumbnail=0, data=b""):
    """The header of a grey one, with so many bytes of EXIF in it; `data` in place of a scan."""
    return (b"\xff\xd8" + (segment(0xe1, b"Exif\0\0" + bytes(thumbnail)) if thumbnail else b"") +
            segment(0xc0, struct.pack(">BHHB3B", 8, height, width, 1, 1, 0x11, 0)) +
            segment(0xda, bytes((1, 1, 0, 0, 63, 0))) + data + b"\xff\xd9")


class LengthsCase(CheckCase):
    def setUp(self):
        super().setUp()
        self.file = self.tmp / "lengths.txt"
        # Of every fifth sample there is no picture; keys are in no order.
        self.pixels, members = {}, [[], []]
        for i in range(100):
            key, width, height = "k%03d" % (i * 37 % 100), 1 + i * 7 % 40, 1 + i * 11 % 50
            shard = members[i >= 60]
            shard.append((b"%s.txt" % key.encode(), b"text"))
            if i % 5 != 4:
                made = png(width, height) if i % 3 else jpeg(width, height, 3000 * (i % 4), bytes(1000))
                shard.append((b"%s.%s" % (key.encode(), b"png" if i % 3 else b"jpg"), made))
                self.pixels[key] = width * height
        self.shards = [tars.write_shard(self.tmp / ("train-%d.tar" % i), some) for i, some in enumerate(members)]
        self.options = ["-o", "label=none,fields=jpg/png", "--examples", "100"]

    def write(self, *words, file=None, code=0, **more):
        return self.check(*self.shards, *self.options, "--write-lengths", file or self.file, *words, code=code, **more)

    def numbers(self):
        return [int(line) for line in harness.read(self.file).split()]

    def bad(self, name, data):
        self.shards.append(tars.write_shard(self.tmp / "bad.tar", [(b"good.jpg", jpeg(3, 4)), (name, data)]))


class Lengths(LengthsCase):
    def test_lines_have_the_numbering_of_shufflefs_order(self):
        # What lacks a field is an error of the check, and no sample.
        self.write(code=1)
        order = run([binary("shufflefs-order"), *self.shards, *self.options[:2], "--order", "sequential", "--keys"])
        wanted = []
        for line in order.stdout.splitlines():
            number, key = line.split("\t")
            self.assertEqual(int(number), len(wanted))
            wanted.append(self.pixels[key])
        self.assertEqual(len(wanted), 80)
        self.assertEqual(self.numbers(), wanted)
        text = harness.read(self.file)
        self.assertEqual(text, b"".join(b"%d\n" % pixels for pixels in wanted))

    def test_json_tells_what_was_measured(self):
        told = self.json(*self.shards, *self.options, "--write-lengths", self.file, code=1)["lengths"]
        numbers = self.numbers()
        self.assertEqual((told["file"], told["written"], told["measured"], told["shortest"], told["longest"]),
                         (str(self.file), True, 80, min(numbers), max(numbers)))
        self.assertEqual(told["jpeg"] + told["png"], 80)
        self.assertGreater(told["jpeg"], 20)

    def test_headers_are_read_and_not_the_rest(self):
        self.shards = [tars.write_shard(self.tmp / "large.tar", [(b"%d.jpg" % i, jpeg(30, i + 1, 60000 * (i % 2), bytes(2000000)))
                                                                for i in range(4)])]
        told = self.json(*self.shards, *self.options, "--write-lengths", self.file)["lengths"]
        self.assertEqual(self.numbers(), [30, 60, 90, 120])
        # 4 KiB where that does; else 32 and 256 in all.
        self.assertEqual(told["bytes"], 2 * 4096 + 2 * 262144)

    def test_one_that_cannot_be_measured_is_named_and_no_file_is_written(self):
        for data, why in ((b"RIFF....WEBPVP8 ", "webp, of which no header is read, only of JPEG and PNG"), (b"", "no bytes"),
                          (b"none", "no picture format that is known"), (png(5, 5)[:20], "file ends too early"),
                          (jpeg(5, 5, 60000)[:50000], "JPEG datastream contains no image"),
                          (png(70000, 1), "70000x1 pixels: no side may be above 65535")):
            self.bad(b"x.jpg", data)
            said = self.write(code=1).stdout
            self.assertIn("no-length: 1 in 1 shard", said)
            self.assertIn("bad.tar: x.jpg, byte 1,536: %s\n" % why, said)
            self.assertIn("lengths      not written: 1 of 82 samples could not be measured", said)
            self.assertEqual([name for name in os.listdir(self.tmp) if name.startswith("lengths")], [])
            told = self.json(*self.shards, *self.options, "--write-lengths", self.file, code=1)["lengths"]
            self.assertEqual((told["written"], told["measured"]), (False, 81))
            self.assertNotIn("shortest", told)
            self.shards.pop()

    def test_a_primary_field_that_is_no_picture_is_told_of(self):
        self.options[1] = "label=none,fields=txt:jpg/png"
        self.assertIn("no-length: 80 in 2 shards", self.write(code=1).stdout)
        self.assertFalse(self.file.exists())

    def test_an_old_file_stays_when_a_new_one_cannot_be_had(self):
        self.write(code=1)
        old = harness.read(self.file)
        self.bad(b"x.jpg", b"GIF89a")
        self.write(code=1)
        self.assertEqual(harness.read(self.file), old)
        self.shards.pop()
        self.shards.reverse()
        self.write(code=1)
        self.assertEqual(sorted(self.numbers()), sorted(int(line) for line in old.split()))
        self.assertNotEqual(harness.read(self.file), old)
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode) & 0o600, 0o600)

    def test_standard_output_gets_numbers_alone(self):
        self.write(code=1)
        result = self.write(file="-", code=1)
        self.assertEqual(result.stdout.encode(), harness.read(self.file))
        self.assertIn("80 lines written to standard output", result.stderr)
        self.bad(b"x.jpg", b"GIF89a")
        result = self.write(file="-", code=1)
        self.assertEqual(result.stdout, "")
        self.assertIn("bad.tar: x.jpg, byte 1,536: gif", result.stderr)
        self.assertIn("standard output", self.write("--json", file="-", code=2).stderr)

    def test_a_forgotten_name_costs_no_shard(self):
        shard, *others = self.shards
        before = harness.read(shard)
        result = self.check(*self.options, "--write-lengths", shard, *others, code=2)
        self.assertIn("train-0.tar: there is such a file, and it does not begin with a number", result.stderr)
        self.assertEqual(harness.read(shard), before)

    def test_what_is_no_file_is_written_to_and_not_replaced(self):
        self.write(code=1)
        pipe, link = self.tmp / "pipe", self.tmp / "link"
        os.mkfifo(pipe)
        got = []
        reader = threading.Thread(target=lambda: got.append(harness.read(pipe)))
        reader.start()
        self.write(file=pipe, code=1)
        reader.join(harness.PATIENCE)
        self.assertEqual(got, [harness.read(self.file)])
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        target = self.tmp / "target.txt"
        target.write_text("1\n", encoding="ascii")
        link.symlink_to(target)
        self.write(file=link, code=1)
        self.assertTrue(link.is_symlink())
        self.assertEqual(harness.read(target), got[0])

    def test_a_file_that_cannot_be_written_is_told_of(self):
        for file, why in ((self.tmp / "none" / "lengths.txt", "No such file or directory"), (self.tmp, "Is a directory"),
                          ("/dev/full", "No space left on device")):
            result = self.write(file=file, code=1)
            self.assertIn("--write-lengths %s: %s\n" % (file, why), result.stderr)
            self.assertNotIn("written to", result.stdout)
        self.assertEqual(sorted(os.listdir(self.tmp)), ["shards", "train-0.tar", "train-1.tar"])


class LengthsOnBadStorage(slow.SlowCase, LengthsCase):
    def test_a_picture_that_cannot_be_read_is_told_of_and_no_file_is_written(self):
        members = [(b"%d.jpg" % i, jpeg(9, i + 1, 60000, bytes(3000000))) for i in range(3)]
        tars.write_shard(self.tmp / "shards" / "large.tar", members)
        storage = self.storage(self.tmp / "shards")
        self.shards = [storage.path("large.tar")]
        self.write()
        self.assertEqual(self.numbers(), [9, 18, 27])
        os.unlink(self.file)
        # The walk does not go as far into a member, and its long header does.
        second = 512 + len(tars.member(*members[0]))
        storage.forget()
        with storage.failing("large.tar eio %d %d" % (second + 200000, second + 200512)):
            result = self.write(code=1)
        self.assertIn("unreadable: 1 in 1 shard", result.stdout)
        self.assertIn("large.tar: 1.jpg, byte %s" % format(second, ","), result.stdout)
        self.assertIn("lengths      not written: 1 of 3 samples could not be measured", result.stdout)
        self.assertFalse(self.file.exists())
