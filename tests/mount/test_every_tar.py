"""Every kind of tar, one test a kind: what the mount shows, what shufflefs-check says, and for sound shards what other
readers see, is what odd_tars.py says it is."""
import collections
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import unicodedata

import harness
import odd_tars
import tars
from harness import MountCase, run

GOOD = [(b"zz/first.jpg", b"good")]


def text_of(value):
    """A name out of the JSON."""
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value if value is None else value.encode()


def composed(names):
    return unicodedata.normalize("NFC", names.decode("utf-8", "surrogateescape"))


def summary(samples):
    return [(key, {field: (len(data), hashlib.sha256(data).hexdigest()) for field, data in fields.items()})
            for key, fields in samples]


class EveryTar(MountCase):
    def make(self, kind):
        tar = odd_tars.KINDS[kind]()
        if tar is None:
            self.skipTest("needs the program that packs it")
        # Something is always there, so that a shard of nothing mounts.
        self.good = tars.write_shard(self.tmp / "good.tar", GOOD)
        self.path = tar.write(self.tmp, kind)
        return tar

    def expect_mount(self, tar):
        log = self.tmp / "log"
        mount = self.mount([self.good, self.path], "order=sequential,label=none,log=%s" % log)
        status = mount.status()
        # A compressed shard is unpacked: nothing of it is left out.
        wanted = collections.Counter(kind for kind, _ in tar.problems if kind != "compressed")
        self.assertEqual({kind: count for kind, count in status["left_out"].items() if count}, wanted)
        seen = {}
        folder = os.fsencode(mount.path("current", "rank-0"))
        for name in os.listdir(folder):
            position, field = name.split(b".", 1)
            path = os.path.join(folder, name)
            data = harness.read(path)
            self.assertEqual(os.stat(path).st_size, len(data))
            key = os.getxattr(path, "user.shufflefs.key")
            seen.setdefault(int(position), (key, {}))[1][field.decode()] = data
        samples = [seen[position] for position in sorted(seen)][1:]
        self.assertEqual(summary(samples), summary(tar.samples))
        self.expect_stream(mount, tar)
        mount.unmount()

    def expect_stream(self, mount, tar):
        """rank-0.tar, read by tarfile: the same, in archive order."""
        seen = []
        with tarfile.open(mount.path("current", "rank-0.tar"), encoding="utf-8", errors="surrogateescape") as stream:
            for info in stream:
                position, name = os.fsencode(info.name).split(b"/", 1)
                base = name.rpartition(b"/")[2]
                field = base.split(b".", 1)[1]
                key = name[:len(name) - len(field) - 1]
                if not seen or seen[-1][0] != int(position):
                    seen.append((int(position), key, []))
                seen[-1][2].append((field.decode(), stream.extractfile(info).read()))
        wanted = [(key, sorted(fields.items())) for key, fields in tar.samples]
        self.assertEqual([(key, sorted(fields)) for _, key, fields in seen][1:], wanted)

    def check(self, *words):
        result = run([harness.binary("shufflefs-check"), *words])
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        return result

    def expect_check(self, tar):
        result = self.check("--json", "--samples", "--examples", "100", "-o", "label=none", self.good, self.path)
        found = json.loads(result.stdout)
        examples = [(bool(example["member"] is None), example["offset"], group["kind"], text_of(example["member"]))
                    for group in found["problems"] for example in group["examples"]]
        # Those of one member have one offset: their order is not told.
        told = sorted((whole, offset, kind, member) for whole, offset, kind, member in examples)
        self.assertEqual(collections.Counter((kind, member) for _, _, kind, member in told),
                         collections.Counter(tar.problems))
        members = [member for whole, _, _, member in told if not whole]
        self.assertEqual(members, [member for _, member in tar.problems if member is not None])
        for group in found["problems"]:
            self.assertEqual([entry["shard"] for entry in group["shards"]], [self.path])
            self.assertEqual(group["count"], sum(1 for kind, _ in tar.problems if kind == group["kind"]))
        errors = sum(group["count"] for group in found["problems"] if group["error"])
        self.assertEqual((found["errors"], found["sound"], result.returncode), (errors, not errors, 1 if errors else 0))
        samples = [(text_of(sample["key"]), {text_of(field["name"]).decode(): (field["size"], field["sha256"])
                                             for field in sample["fields"]}) for sample in found["sample_list"]]
        self.assertEqual(samples[1:], summary(tar.samples))

    def expect_agreement(self, tar):
        """Names and bytes as other readers have them, of what is a plain file or a hard link to one."""
        wanted = list(tar.data.items())
        with tarfile.open(self.path, encoding="utf-8", errors="surrogateescape") as archive:
            found = [(os.fsencode(info.name), archive.extractfile(info).read()) for info in archive
                     if info.isreg() or info.islnk()]
        self.assertEqual(found, wanted, "tarfile")
        names = b"".join(name + b"\n" for name, _ in wanted)
        # Of a hard link they print nothing.
        data = b"".join(data for name, data in wanted if name not in tar.links)
        for program, options in (("tar", ["--quoting-style=literal"]), ("bsdtar", [])):
            if not shutil.which(program):
                continue
            listed, printed = (subprocess.run([program, *options, flags, self.path], check=True, capture_output=True,
                                              env=dict(os.environ, LC_ALL="C.UTF-8")).stdout
                               for flags in ("-tPf", "-xPOf"))
            if not options:
                listed = listed.decode("unicode_escape").encode("latin-1")
            listed = re.sub(rb"(?m)^.*/\n", b"", listed)  # folders
            self.assertEqual(printed, data, program)
            # bsdtar composes the characters of PAX records, in a locale that has them.
            same = composed if program == "bsdtar" else bytes
            self.assertEqual(same(listed), same(names), program)


def test_of(kind):
    def test(self):
        tar = self.make(kind)
        self.expect_mount(tar)
        self.expect_check(tar)
        if tar.agree and not tar.problems:
            self.expect_agreement(tar)
    return test


for name in odd_tars.KINDS:
    setattr(EveryTar, "test_" + re.sub(r"\W", "_", name), test_of(name))
