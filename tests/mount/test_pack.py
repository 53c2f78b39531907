"""shufflefs-pack: what it writes, who reads it, and what it refuses."""
import gzip
import hashlib
import importlib.util
import json
import os
import random
import shutil
import sys
import tarfile

import harness
import tars
import torch_order
from harness import binary, limit, needs_nobody, needs_program, read, run, slow
from packing import PEERS, PROGRAM, PackCase, digest, members, png, tree


class Contents(PackCase):
    def test_samples_are_sorted_whole_and_plain_ustar(self):
        files = tree(self.source)
        summary = self.pack("--samples-per-shard", "7")
        self.assertEqual([summary[key] for key in ("shards", "samples", "members", "passed")], [9, 60, 120, 120])
        self.assertEqual(summary["bytes"], sum(path.stat().st_size for path in self.shards()))
        self.assertEqual(members(self.shards()), sorted(files.items()))
        for path in self.shards():
            data = read(path)
            self.assertTrue(data.endswith(tars.END))
            with tarfile.open(path) as archive:
                for member in archive:
                    head = data[member.offset:member.offset + 512]
                    self.assertEqual(member.offset_data, member.offset + 512)
                    self.assertEqual((head[257:265], head[156:157]), (b"ustar\x0000", b"0"))
                    want = tars.MTIME + int(member.name[6:10])
                    self.assertEqual((member.mode, member.uid, member.gid, member.uname, member.gname, member.mtime,
                                      member.pax_headers), (0o644, 0, 0, "", "", want, {}))
        self.expect_clean()

    def test_the_bytes_are_the_same_with_any_number_of_threads_on_each_run(self):
        tree(self.source, each=150)
        seen = []
        for threads in ("1", "2", "5", "5"):
            self.pack("--shuffle", "3", "--label", "dir", "--shard-size", "100K", "-j", threads)
            seen.append(digest(self.shards()))
            self.assertGreater(len(seen[-1]), 3)
            self.empty()
        self.assertEqual(seen, seen[:1] * 4)

    def test_their_first_mount_reads_no_shard(self):
        tree(self.source)
        kept = str(self.tmp / "kept.index")
        for place, walked in ((None, 0), (kept, 0), ("none", 3)):
            self.pack("--samples-per-shard", "20", "--force", *(["--index", place] if place else []))
            mount = self.mount([self.out], "index=" + kept if place == kept else "")
            status = mount.status()
            self.assertEqual((status["samples"], status["shards_walked"]), (60, walked), place)
            mount.unmount()
            shutil.rmtree(os.path.join(os.environ["XDG_CACHE_HOME"], "shufflefs"), ignore_errors=True)

    def test_shuffled_is_torchs_permutation(self):
        files = tree(self.source, each=5)
        self.pack("--shuffle", "1234")
        keys = sorted({name.split(".")[0] for name in files})
        packed = [name for name, _ in members(self.shards()) if name.endswith(".jpg")]
        self.assertEqual(packed, [keys[i] + ".jpg" for i in torch_order.randperm(len(keys), 1234)])

    def test_no_shard_is_larger_than_its_size_and_none_is_ended_early(self):
        tree(self.source, each=100)
        self.pack("--shard-size", "40K")
        paths = self.shards()
        self.assertGreater(len(paths), 5)
        for path, after in zip(paths, paths[1:] + [None]):
            size = path.stat().st_size
            self.assertLessEqual(size, 40 << 10)
            if after:
                with tarfile.open(after) as archive:
                    first = archive.getmembers()[:2]
                more = sum(1024 + (m.size + 511) // 512 * 512 - 512 for m in first)
                self.assertGreater(size + more, 40 << 10)

    def test_a_sample_that_is_larger_than_a_shard_gets_one_of_its_own(self):
        tree(self.source, classes=1, each=3)
        tars.write_file(self.source / "c0/img0001.bin", bytes(9 << 20))
        summary = self.pack("--shard-size", "1M")
        self.assertEqual(summary["shards"], 3)
        self.assertIn("'c0/img0001' alone takes", summary["said"])
        self.assertEqual(dict(members(self.shards()))["c0/img0001.bin"], bytes(9 << 20))

    def test_shard_count_evens_by_samples(self):
        tree(self.source, each=11)
        self.pack("--shard-count", "5")
        counts = [len(members([path])) // 2 for path in self.shards()]
        self.assertEqual((len(counts), sum(counts), set(counts)), (5, 33, {6, 7}))

    def test_a_pax_header_comes_only_for_the_name_that_needs_it_and_that_is_told(self):
        tree(self.source, classes=1, each=2)
        deep = self.source / ("d" * 90)
        deep.mkdir()
        names = ["%s/%s.txt" % (deep.name, "e" * 120), "c0/\u00fc.txt"]
        for name in names:
            tars.write_file(self.source / name, name.encode())
        summary = self.pack()
        self.assertEqual(summary["pax"], 1)
        packed = dict(members(self.shards()))
        for name in names:
            self.assertEqual(packed[name], name.encode())
        with tarfile.open(self.shards()[0]) as archive:
            self.assertEqual([m.name for m in archive if m.pax_headers], names[:1])
        self.assertIn("1 with a PAX header", run(self.packing("--force")).stdout)

    @slow
    @limit(400)
    def test_a_member_of_nine_gigabytes_is_held_in_a_pax_header(self):
        with open(self.source / "a.bin", "wb") as out:
            out.truncate(9 << 30)
            out.seek(9 << 30)
            out.write(b"end")
        self.assertEqual(self.pack("--shard-size", "20G", patience=300)["pax"], 1)
        with tarfile.open(self.shards()[0]) as archive:
            member = archive.next()
            self.assertEqual((member.name, member.size), ("a.bin", (9 << 30) + 3))
            data = archive.extractfile(member)
            data.seek(9 << 30)
            self.assertEqual(data.read(), b"end")
            self.assertIsNone(archive.next())

    def test_what_can_be_no_sample_is_left_out_counted_and_named(self):
        tree(self.source, classes=1, each=2)
        (self.source / ".git").mkdir()
        for name in ("._x.jpg", "__meta__", "README", ".git/a.b", "c0/.hidden", "x." + "e" * 201):
            tars.write_file(self.source / name, b"x")
        os.mkfifo(self.source / "pipe.jpg")
        summary = self.pack()
        self.assertEqual(summary["left_out"], {"litter": 2, "metadata": 1, "no-extension": 2, "long-extension": 1,
                                               "not-a-file": 1})
        for name in ("._x.jpg: litter", "__meta__: metadata", "README: no-ext", ".git: litter", ".hidden: no-ext",
                     "e: long-ext", "pipe.jpg: not-a-file"):
            self.assertIn(name, summary["said"])
        self.assertEqual(summary["samples"], 2)

    def test_only_the_first_of_many_alike_are_named(self):
        tree(self.source, classes=1, each=1)
        for i in range(50):
            tars.write_file(self.source / ("noext%02d" % i), b"x")
        summary = self.pack()
        self.assertEqual((len(summary["said"].splitlines()), summary["left_out"]), (21, {"no-extension": 50}))
        self.assertEqual(len(self.pack("--force", "--verbose")["said"].splitlines()), 50)

    def test_an_index_without_a_name_is_a_usage_error(self):
        tree(self.source, classes=1, each=1)
        self.assertIn("--index: an empty name", self.pack("--index", "", code=2)["said"])

    def test_links_are_followed_and_those_that_lead_nowhere_or_in_circles_are_refused(self):
        files = tree(self.source, classes=2, each=2)
        os.symlink("c0/img0000.jpg", self.source / "link.jpg")
        os.symlink("c1", self.source / "again")
        summary = self.pack()
        packed = dict(members(self.shards()))
        self.assertEqual(packed["link.jpg"], files["c0/img0000.jpg"])
        self.assertEqual(packed["again/img0001.json"], files["c1/img0001.json"])
        self.assertEqual(summary["samples"], 7)
        os.symlink("nothing", self.source / "broken.jpg")
        os.symlink(".", self.source / "circle")
        said = self.pack("--force", code=1)["said"]
        self.assertIn("broken.jpg: a link that leads nowhere", said)
        self.assertIn("circle: a link back to a folder that it is in", said)

    def test_two_members_of_one_name_are_refused(self):
        tree(self.source, classes=1, each=1)
        tars.write_file(self.source / "c0/img0000.JPG", b"x")
        self.assertIn("two members would be 'c0/img0000.jpg': c0/img0000.", self.pack(code=1)["said"])
        self.assertEqual(os.listdir(self.out), [])

    @needs_nobody
    def test_what_cannot_be_read_is_refused_before_anything_is_written(self):
        tree(self.source, classes=2, each=2)
        (self.source / "c0/img0001.jpg").chmod(0)
        (self.source / "c1").chmod(0)
        self.out.chmod(0o777)
        result = run(harness.AS_NOBODY + self.packing())
        self.assertEqual(result.returncode, 1)
        for name in ("c0/img0001.jpg: Permission denied", "c1: Permission denied"):
            self.assertIn(name, result.stderr)
        self.assertEqual(os.listdir(self.out), [])


class Labels(PackCase):
    def labels(self):
        return {name: data for name, data in members(self.shards()) if name.endswith(".cls")}

    def test_folders_are_numbered_in_sorted_order(self):
        tree(self.source, classes=12, each=2)
        summary = self.pack("--label", "dir", "--classes", self.tmp / "classes")
        names = sorted("c%d" % i for i in range(12))
        self.assertEqual((self.tmp / "classes").read_text(), "".join(name + "\n" for name in names))
        self.assertEqual(self.labels(), {"c%d/img%04d.cls" % (c, i): b"%d" % names.index("c%d" % c)
                                         for c in range(12) for i in range(2)})
        self.assertEqual(summary["labels"], 24)
        self.pack("--label", "dir", "--classes", self.tmp / "classes", pattern="u-%d.tar")  # the same list again
        for other in ("", "c0\n", "x\n" * 12, "".join(name + "\n" for name in names) + "more\n"):
            (self.tmp / "classes").write_text(other)
            said = self.pack("--label", "dir", "--classes", self.tmp / "classes", pattern="v-%d.tar", code=1)["said"]
            self.assertIn("classes: is there already", said)
            self.assertEqual((self.tmp / "classes").read_text(), other)
            self.assertEqual([path for path in self.out.iterdir() if "v-" in path.name], [])

    def test_the_first_folder_is_another_class_than_the_last(self):
        for name in ("train/cat/a.jpg", "train/dog/b.jpg", "val/cat/c.jpg"):
            (self.source / name).parent.mkdir(parents=True, exist_ok=True)
            tars.write_file(self.source / name, b"x")
        self.pack("--label", "dir")
        self.assertEqual(list(self.labels().values()), [b"0", b"1", b"0"])
        self.pack("--label", "dir:first", "--force")
        self.assertEqual(list(self.labels().values()), [b"0", b"0", b"1"])

    def test_labels_from_a_file_by_key_or_name_and_numbers_stay(self):
        for name in ("a.jpg", "b c.jpg", "d.JPG"):
            tars.write_file(self.source / name, b"x")
        (self.tmp / "labels").write_text("a 7\nb c.jpg -3\n./d.JPG 1000\ngone 5\n")
        summary = self.pack("--label", self.tmp / "labels")
        self.assertEqual(self.labels(), {"a.cls": b"7", "b c.cls": b"-3", "d.cls": b"1000"})
        self.assertIn("1 line names nothing that is packed, 'gone", summary["said"])

    def test_a_sample_without_a_label_is_refused_by_name(self):
        tree(self.source, classes=1, each=1)
        tars.write_file(self.source / "top.jpg", b"x")
        self.assertIn("'top' has no label: it is in no folder", self.pack("--label", "dir", code=1)["said"])
        (self.tmp / "labels").write_text("top 1\n")
        self.assertIn("'c0/img0000' has no label", self.pack("--label", self.tmp / "labels", code=1)["said"])
        self.assertEqual(os.listdir(self.out), [])

    def test_a_label_that_is_there_is_kept(self):
        tree(self.source, classes=2, each=2)
        tars.write_file(self.source / "c1/img0000.cls", b" 99\n")
        self.pack("--label", "dir")
        self.assertEqual(self.labels(), {"c0/img0000.cls": b"0", "c0/img0001.cls": b"0", "c1/img0000.cls": b" 99\n",
                                         "c1/img0001.cls": b"1"})

    def test_a_mount_shows_the_sources_bytes_and_labels(self):
        files = tree(self.source, classes=3, each=30, size=tars.odd_size)
        self.pack("--label", "dir", "--shuffle", "9", "--shard-size", "1M")
        mount = self.mount(self.shards(), "order=sequential")
        keys = [line.split("\t")[1] for line in run(
            [binary("shufflefs-order"), "--order", "sequential", "--keys", *self.shards()]).stdout.splitlines()]
        self.assertEqual(len(keys), 90)
        for position, key in enumerate(keys):
            for field in ("jpg", "json"):
                self.assertEqual(mount.read("epoch-0", "rank-0", "%08d.%s" % (position, field)), files[key + "." + field])
            self.assertEqual(mount.read("epoch-0", "rank-0", "%08d.cls" % position), key[1:2].encode())


class Readers(PackCase):
    def setUp(self):
        super().setUp()
        self.files = tree(self.source, each=10, size=tars.odd_size)
        self.pack("--shard-size", "1M", "--label", "dir")
        self.files.update({"c%d/img%04d.cls" % (c, i): b"%d" % c for c in range(3) for i in range(10)})
        self.assertGreater(len(self.shards()), 1)

    def unpacked(self):
        folder = self.tmp / "unpacked"
        return {str(path.relative_to(folder)): read(path) for path in folder.rglob("*.*") if path.is_file()}

    @needs_program("tar")
    def test_gnu_tar_unpacks_it_without_a_word(self):
        (self.tmp / "unpacked").mkdir()
        for path in self.shards():
            result = run(["tar", "-xf", path, "-C", self.tmp / "unpacked"])
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.unpacked(), self.files)

    @needs_program("bsdtar")
    def test_bsdtar_unpacks_it_without_a_word(self):
        (self.tmp / "unpacked").mkdir()
        for path in self.shards():
            result = run(["bsdtar", "-xf", path, "-C", self.tmp / "unpacked"])
            self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(self.unpacked(), self.files)

    def test_pythons_tarfile_reads_it(self):
        self.assertEqual(dict(members(self.shards())), self.files)

    def peers(self, script):
        """What the script prints as JSON, by an interpreter that has the package."""
        result = run([PEERS, "-c", script, *self.shards()])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout.splitlines()[-1])

    def needs_peer(self, package):
        if not os.path.exists(PEERS) or run([PEERS, "-c", "import " + package]).returncode:
            self.skipTest("needs %s, of %s" % (package, PEERS))

    def test_webdataset_reads_it(self):
        self.needs_peer("webdataset")
        got = self.peers("""
import hashlib, json, sys, webdataset
found = {}
for sample in webdataset.WebDataset(sys.argv[1:], shardshuffle=False):
    for field in ("jpg", "json", "cls"):
        found[sample["__key__"] + "." + field] = hashlib.sha256(sample[field]).hexdigest()
print(json.dumps(found))""")
        self.assertEqual(got, {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()})

    def test_dali_reads_it(self):
        self.needs_peer("nvidia.dali")
        got = self.peers("""
import hashlib, json, sys
import numpy
from nvidia.dali import fn, pipeline_def
@pipeline_def(batch_size=30, num_threads=1, device_id=None)
def pipe():
    jpg, cls = fn.readers.webdataset(paths=sys.argv[1:], ext=["jpg", "cls"], missing_component_behavior="error")
    return jpg, cls
p = pipe()
p.build()
jpgs, classes = p.run()
print(json.dumps([[hashlib.sha256(numpy.array(jpgs.at(i)).tobytes()).hexdigest(),
                   numpy.array(classes.at(i)).tobytes().decode()] for i in range(30)]))""")
        keys = sorted({name.split(".")[0] for name in self.files})
        self.assertEqual(got, [[hashlib.sha256(self.files[key + ".jpg"]).hexdigest(),
                                self.files[key + ".cls"].decode()] for key in keys])


class Shards(PackCase):
    """Shards as the source."""

    def test_shards_are_packed_anew_by_patterns_and_lists(self):
        data_set = tars.make_dataset(self.tmp / "old", 90, shards=3, fields=("jpg", "json"), cls=lambda i: b"%d\n" % i)
        want = [(("%s.%s" % (s.key.decode(), field)), s.fields[field]) for s in data_set.samples
                for field in sorted(s.fields)]
        (self.tmp / "list").write_text("".join(path + "\n" for path in data_set.shards))
        for source in ([self.tmp / "old"], data_set.shards, ["@%s" % (self.tmp / "list")],
                       ["%s/train-{000000..000002}.tar" % (self.tmp / "old")]):
            summary = self.pack("--samples-per-shard", "40", source=source)
            self.assertEqual((summary["shards"], summary["samples"], summary["members"]), (3, 90, 270))
            self.assertEqual(members(self.shards()), want)
            self.empty()

    def test_keep_order_keeps_the_shards_order_where_else_keys_are_sorted(self):
        order = random.Random(5).sample(range(60), 60)
        tars.make_dataset(self.tmp / "old", 60, shards=2, key=lambda i: b"k%03d" % order[i])
        self.pack("--keep-order", source=[self.tmp / "old"])
        self.assertEqual([name for name, _ in members(self.shards())], ["k%03d.jpg" % n for n in order])
        self.pack("--force", source=[self.tmp / "old"])
        self.assertEqual([name for name, _ in members(self.shards())], ["k%03d.jpg" % n for n in range(60)])

    def test_a_key_of_two_samples_is_refused_by_name(self):
        tars.make_dataset(self.tmp / "old", 4, shards=2, key=lambda i: b"./x/%d" % (i % 3))
        said = self.pack(code=1, source=[self.tmp / "old"])["said"]
        self.assertIn("two samples have the key 'x/0'", said)
        self.assertEqual(os.listdir(self.out), [])

    def test_damaged_shards_are_refused_unless_the_rest_is_asked_for(self):
        data_set = tars.make_dataset(self.tmp / "old", 10, shards=1)
        data = read(data_set.shards[0])
        tars.write_file(data_set.shards[0], data[:data_set.samples[5].offsets["jpg"] + 10])
        said = self.pack(code=1, source=[self.tmp / "old"])["said"]
        self.assertIn("not all of the shards can be read (truncated: 1)", said)
        summary = self.pack("--damaged", "skip", source=[self.tmp / "old"])
        self.assertEqual(summary["left_out"], {"truncated": 1})
        self.assertEqual(summary["samples"], 5)

    def test_members_of_shards_that_are_left_out_are_named_and_counted(self):
        path = tars.write_shard(self.tmp / "a.tar", [(b"._x.jpg", b"1"), (b"../a.jpg", b"2"), (b"noext", b"3"),
                                                     (b"b.jpg", b"4"), (b"b.txt", b"")])
        summary = self.pack(source=[path])
        self.assertEqual(summary["left_out"], {"litter": 1, "no-extension": 1})
        for text in ("left out: %s: offset 512: '._x.jpg': litter" % path, "'noext': no-extension",
                     "warning: %s: offset 1536: '../a.jpg': unsafe-path" % path, "'b.txt': empty"):
            self.assertIn(text, summary["said"])
        self.assertEqual(members(self.shards()), [("a.jpg", b"2"), ("b.jpg", b"4"), ("b.txt", b"")])

    def test_a_member_that_is_copied_in_pieces_is_whole(self):
        data_set = tars.make_dataset(self.tmp / "old", 3, shards=1, fields=("bin", "jpg"), size=lambda i: (5 << 20) + i)
        self.pack(source=[self.tmp / "old"])
        self.assertEqual(dict(members(self.shards())), {"%s.%s" % (s.key.decode(), f): d for s in data_set.samples
                                                        for f, d in s.fields.items()})


class Refusals(PackCase):
    def test_usage_is_2(self):
        tree(self.source, classes=1, each=1)
        for words in (["--quality", "101"], ["--shard-size", "1X"], ["--shard-size", "0"], ["-j", "0"],
                      ["--shard-size", "1G", "--shard-count", "2"], ["--damaged", "maybe"], ["--shuffle", "-1"],
                      ["--resize-short", "0"], ["--shuffle", "1", "--keep-order"], ["--classes", "x"], ["--nonsense"]):
            self.assertEqual(run(self.packing(*words)).returncode, 2, words)
        for pattern in ("t.tar", "t-%s.tar", "t-%d%d.tar", "t-%d%%.tar"):
            self.assertEqual(run(self.packing(pattern=pattern)).returncode, 2, pattern)
        self.assertEqual(run([binary(PROGRAM), self.source]).returncode, 2)
        self.assertEqual(run([binary(PROGRAM), "-o", "t-%d.tar"]).returncode, 2)
        self.assertEqual(os.listdir(self.out), [])

    def test_of_several_folders_one_without_tars_is_named_with_what_would_do(self):
        tree(self.source)
        said = self.pack(code=1, source=[self.source / "c0", self.source / "c1"])["said"]
        self.assertEqual(said, "shufflefs-pack: %s has no *.tar; of folders of files, one is packed: the one above them\n"
                         % (self.source / "c0"))
        self.assertEqual(os.listdir(self.out), [])

    def test_foreign_files_are_never_overwritten_without_force(self):
        tree(self.source)
        for name in ("t-000000.tar", "t-000001.tar", "t-000777.tar"):
            self.empty()
            tars.write_file(self.out / name, b"precious")
            said = self.pack("--samples-per-shard", "30", code=1)["said"]
            self.assertIn(name, said)
            self.assertEqual({path.name: read(path) for path in self.out.iterdir()}, {name: b"precious"})
        tars.write_file(self.out / "t-1.tar", b"another pattern's")
        self.pack("--samples-per-shard", "30", "--force")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["t-000000.tar", "t-000001.tar", "t-1.tar"])
        self.assertEqual(len(members([self.out / "t-000000.tar", self.out / "t-000001.tar"])), 120)

    def test_a_file_that_comes_while_it_packs_is_not_overwritten(self):
        tree(self.source, classes=1, each=10)
        process = self.begin("-j", "1", source=self.slow_source(50))
        tars.write_file(self.out / "t-000000.tar", b"precious")
        said = process.communicate(timeout=60)[1].decode()
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("t-000000.tar: offset", said)
        self.assertEqual({path.name: read(path) for path in self.out.iterdir()}, {"t-000000.tar": b"precious"})

    def test_output_within_the_source_is_refused(self):
        tree(self.source, classes=1, each=1)
        (self.source / "c0/out").mkdir()
        for folder in (self.source, self.source / "c0/out"):
            said = run([binary(PROGRAM), self.source, "-o", folder / "t-%d.tar"])
            self.assertEqual(said.returncode, 1)
            self.assertIn("within", said.stderr)

    def test_shards_are_never_packed_over_themselves(self):
        data_set = tars.make_dataset(self.out, 30, shards=3)
        before = digest(data_set.shards)
        os.symlink(self.out, self.tmp / "link")
        for source in ([self.out], data_set.shards[1:2], [self.tmp / "link"]):
            said = self.pack("--force", code=1, source=source, pattern="train-%06d.tar")["said"]
            self.assertIn("is one of the shards that are packed", said)
            self.assertEqual(digest(self.out.iterdir()), before)

    def test_a_folder_of_shards_does_not_get_its_samples_twice(self):
        data_set = tars.make_dataset(self.out, 30, shards=3)
        before = digest(data_set.shards)
        said = self.pack(code=1, source=[self.out], pattern="other-%d.tar")["said"]
        self.assertIn("its samples would be there twice", said)
        self.assertEqual(digest(self.out.iterdir()), before)

    def test_compressed_shards_are_packed_as_their_copies_are(self):
        data_set = tars.make_dataset(self.tmp / "s", 30, shards=2)
        with open(data_set.shards[1], "rb") as plain, gzip.open(data_set.shards[1] + ".gz", "wb") as packed:
            packed.write(plain.read())
        os.utime(data_set.shards[1] + ".gz", (tars.MTIME, tars.MTIME))
        self.pack(source=data_set.shards)
        plain = digest(self.shards())
        self.empty()
        self.pack(source=[data_set.shards[0], data_set.shards[1] + ".gz"])
        self.assertEqual(digest(self.shards()), plain)

    def test_a_folder_of_compressed_shards_is_one_of_shards(self):
        data_set = tars.make_dataset(self.tmp / "s", 30, shards=2)
        self.pack(source=data_set.shards)
        plain = digest(self.shards())
        self.empty()
        for shard in data_set.shards:
            tars.write_file(shard + ".gz", gzip.compress(read(shard)), tars.MTIME)
            os.unlink(shard)
        self.pack(source=[self.tmp / "s"])
        self.assertEqual(digest(self.shards()), plain)
        self.empty()
        self.pack("--from", "tree", source=[self.tmp / "s"])
        self.assertEqual([name for name, _ in members(self.shards())],
                         [os.path.basename(shard) + ".gz" for shard in data_set.shards])

    def test_names_that_no_longer_sort_as_numbers_are_told(self):
        tree(self.source, classes=1, each=12)
        said = self.pack("--shard-count", "12", pattern="t-%d.tar")["said"]
        self.assertIn("from shard 10 on, names have more digits", said)
        self.empty()
        self.assertEqual(self.pack("--shard-count", "12", pattern="t-%02d.tar")["said"], "")

    def test_nothing_to_pack_is_a_fault(self):
        self.assertIn("no file in it can be a sample", self.pack(code=1)["said"])
        self.assertIn("t-000000.tar", self.pack(code=1, source=[self.tmp / "gone/t-000000.tar"])["said"])
        tree(self.source, classes=1, each=2)
        self.assertIn("--shard-count 3: there are 2 samples", self.pack("--shard-count", "3", code=1)["said"])

    def test_two_runs_at_once_on_the_same_shards_are_refused(self):
        tree(self.source, classes=1, each=10)
        process = self.begin("-j", "1", source=self.slow_source(50))
        self.assertIn("another shufflefs-pack writes these shards", self.pack(code=1)["said"])
        self.assertIn("another shufflefs-pack writes these shards", self.pack("--force", code=1)["said"])
        said = process.communicate(timeout=60)[1].decode()
        self.assertEqual((process.returncode, said), (0, ""))
        self.assertEqual(len(members(self.shards())), 20)
        self.expect_clean()


class Pictures(PackCase):
    def setUp(self):
        super().setUp()
        if not os.path.exists(PEERS) and importlib.util.find_spec("PIL") is None:
            self.skipTest("needs Pillow")
        self.python = sys.executable if importlib.util.find_spec("PIL") else PEERS
        self.pillow("""
rng = numpy.random.default_rng(1)
def picture(width, height, mode="RGB"):
    low = rng.integers(0, 256, (6, 8, 3), dtype=numpy.uint8)
    return Image.fromarray(low).resize((width, height), Image.BICUBIC).convert(mode)
picture(500, 375).save("a.jpg", quality=95)
picture(375, 500).save("b.jpg", quality=95)
picture(2000, 1400).save("large.jpg", quality=92)
picture(300, 200).save("small.jpg")
picture(500, 400, "L").save("grey.jpg", quality=95)
picture(500, 400, "CMYK").save("inks.jpg", quality=95)
exif = Image.Exif()
exif[0x0112] = 6
picture(600, 400).save("turned.jpg", quality=95, exif=exif)
picture(400, 300).save("p.png")
data = open("a.jpg", "rb").read()
open("cut.jpg", "wb").write(data[:len(data) // 2])
""", self.source)

    def pillow(self, script, folder, *words):
        start = "import io, json, os, sys, numpy, tarfile\nfrom PIL import Image, ImageOps\nos.chdir(sys.argv[1])\n"
        result = run([self.python, "-c", start + script, folder, *words])
        if "No module named" in result.stderr:
            self.skipTest(result.stderr.splitlines()[-1])
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout) if result.stdout else None

    def test_resized_pictures_are_pillows(self):
        summary = self.pack("--resize-short", "240", "--damaged", "keep", code=1)
        self.assertEqual([summary[key] for key in ("resized", "passed", "damaged")], [6, 3, 1])
        self.assertIn("cut.jpg: damaged: Premature end", summary["said"])
        packed = dict(members(self.shards()))
        for name in ("small.jpg", "p.png", "cut.jpg"):
            self.assertEqual(packed[name], read(self.source / name), name)
        told = self.pillow("""
found = {}
with tarfile.open(sys.argv[2]) as archive:
    for member in archive:
        if member.name in ("p.png", "cut.jpg", "small.jpg"):
            continue
        new = Image.open(io.BytesIO(archive.extractfile(member).read()))
        old = ImageOps.exif_transpose(Image.open(member.name))
        if old.mode == "CMYK":
            old = old.convert("RGB")
        short = min(old.size)
        want = old.resize((old.width * 240 // short, old.height * 240 // short), Image.BILINEAR)
        again = io.BytesIO()
        want.save(again, "JPEG", quality=90)
        want = Image.open(again)
        off = numpy.abs(numpy.asarray(new, dtype=int) - numpy.asarray(want, dtype=int))
        found[member.name] = [new.mode, new.size == want.size, float(off.mean()), int(off.max()),
                              len(new.getexif())]
print(json.dumps(found))""", self.source, self.shards()[0])
        self.assertEqual(len(told), 6)
        for name, (mode, same_size, mean, most, exif) in told.items():
            self.assertEqual((mode, same_size, exif), ("L" if name == "grey.jpg" else "RGB", True, 0), name)
            self.assertLess(mean, 1.5, name)
            self.assertLess(most, 40, name)

    def test_equal_bytes_whatever_the_threads_with_pictures_too(self):
        seen = []
        for threads in ("1", "2", "5"):
            self.pack("--resize-short", "200", "--convert-png", "-j", threads, code=1)
            seen.append(digest(self.shards()))
            self.empty()
        self.assertEqual(seen, seen[:1] * 3)

    def test_damaged_pictures_are_kept_skipped_or_end_it(self):
        summary = self.pack("--resize-short", "240", "--damaged", "skip", code=1)
        self.assertEqual((summary["damaged"], summary["samples_left_out"], summary["samples"]), (1, 1, 8))
        self.assertNotIn("cut.jpg", dict(members(self.shards())))
        self.empty()
        said = self.pack("--resize-short", "240", "--damaged", "stop", code=1)["said"]
        self.assertIn("cut.jpg: damaged: Premature end", said)
        self.assertEqual(os.listdir(self.out), [])
        self.assertEqual(self.pack()["damaged"], 0, "without work on pictures, nothing is decoded")

    def test_pngs_become_jpegs_on_request(self):
        (self.source / "cut.jpg").unlink()
        tars.write_file(self.source / "q.seg.png", png(50, 40, (200, 30, 90)))
        tars.write_file(self.source / "r.png", read(self.source / "small.jpg"))
        summary = self.pack("--convert-png")
        self.assertEqual((summary["converted"], summary["resized"]), (2, 0))
        packed = dict(members(self.shards()))
        self.assertEqual(packed["r.jpg"], read(self.source / "small.jpg"), "a JPEG under a PNG's name")
        self.assertEqual((packed["p.jpg"][:2], packed["q.seg.jpg"][:2]), (b"\xff\xd8", b"\xff\xd8"))
        self.assertFalse({"p.png", "q.seg.png", "r.png"} & set(packed))
        tars.write_file(self.source / "p.jpg", b"x")
        self.assertIn("'p.jpg' is there already, beside its .png", self.pack("--convert-png", "--force", code=1)["said"])
