"""shufflefs-check: what it says of sound shards and of others, and how it ends."""
import json
import os
import re
import stat
import subprocess
import sys

import harness
import slow
import tars
from harness import MountCase, binary, run

PROGRAM = "shufflefs-check"
OTHER = "0123456789abcdef"


def has_dali():
    return run([sys.executable, "-c", "import nvidia.dali"]).returncode == 0


class CheckCase(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", 20, fields=("jpg",), cls=lambda i: b"%d" % (i % 3))

    def check(self, *words, code=0, **more):
        result = run([binary(PROGRAM), *words], **more)
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def json(self, *words, code=0):
        return json.loads(self.check("--json", *words, code=code).stdout)

    def kinds(self, *words, code=0):
        return {group["kind"]: group["count"] for group in self.json(*words, code=code)["problems"]}

    def odd(self, *members, name="odd.tar"):
        return tars.write_shard(self.tmp / name, members)


class Check(CheckCase):
    def test_a_sound_data_set_takes_a_handful_of_lines(self):
        result = self.check(*self.data_set.shards, "--world", "4", "--batch", "3")
        lines = result.stdout.splitlines()
        self.assertEqual((lines[0].rsplit(",", 1)[0], lines[-1], result.stderr),
                         ("2 shards, 20 samples, 40 members", "no problem", ""))
        self.assertLess(len(lines), 10)
        self.assertIn("cls 20, jpg 20", lines[1])
        self.assertRegex(result.stdout, r"labels +cls, 3 classes")
        self.assertRegex(result.stdout, r"split +4 ranks of 5 samples; 0 padded, 0 dropped")
        self.assertRegex(result.stdout, r"batches +of 3: 2 a rank, the last of 2\n")

    def test_the_fingerprint_is_the_mounts(self):
        options = "seed=7,remainder=drop,fields=jpg:cls"
        mount = self.mount(self.data_set.shards, options)
        own = mount.read(".control", "fingerprint").decode().strip()
        self.assertEqual(self.json("-o", options, *self.data_set.shards)["fingerprint"], own)
        config = self.tmp / "data.conf"
        config.write_text("seed = 7\nremainder = drop\nfields = jpg:cls\nshards = shards\n", encoding="utf-8")
        said = self.check("-c", str(config), "--expect", own).stdout
        self.assertIn(own + ", as expected", said)

    def test_the_half_of_a_fingerprint_that_differs_is_named(self):
        own = self.json(*self.data_set.shards)["fingerprint"]
        data, order = own.split("-")
        for expected, kinds in ((own, {}), (OTHER + "-" + order, {"other-data": 1}),
                                (data + "-" + OTHER, {"other-order": 1}),
                                (OTHER + "-" + OTHER, {"other-data": 1, "other-order": 1})):
            self.assertEqual(self.kinds("--expect", expected, *self.data_set.shards, code=1 if kinds else 0), kinds)
        found = self.json("-o", "seed=1", "--expect", own, *self.data_set.shards, code=1)["expected"]
        self.assertEqual((found["data_agrees"], found["order_agrees"]), (True, False))
        turned = self.json("--expect", own, *self.data_set.shards[::-1], code=1)["expected"]
        self.assertEqual((turned["data_agrees"], turned["order_agrees"]), (False, True))

    def test_remarks_are_no_fault_unless_strict(self):
        shard = self.odd((b"a.jpg", b"1"), (b"._a.jpg", b"2"), (b"README", b"3"), (b"b.jpg", b""))
        remarks = {"litter": 1, "no-extension": 1, "empty": 1}
        self.assertEqual(self.kinds(shard), remarks)
        self.assertEqual(self.kinds(shard, "--strict", code=1), remarks)
        self.assertEqual(self.kinds(shard, "-o", "strict", code=1), remarks)
        self.check(*self.data_set.shards, "--strict")

    def test_what_fields_leave_out_is_named_by_its_key(self):
        shard = self.odd((b"a.jpg", b"1"), (b"a.txt", b"2"), (b"d/b.jpg", b"3"), (b"c.jpg", b"4"), (b"c.txt", b"5"))
        found = self.json(shard, "-o", "fields=jpg:txt,label=none", code=1)
        self.assertEqual([(group["kind"], [example["member"] for example in group["examples"]])
                          for group in found["problems"]], [("field-missing", ["d/b"])])
        self.assertEqual(found["samples"], 2)

    def test_samples_without_a_label_are_named(self):
        shard = self.odd((b"a.jpg", b"1"), (b"a.cls", b"2"), (b"b.jpg", b"3"))
        group = self.json(shard, code=1)["problems"][0]
        self.assertEqual((group["kind"], group["examples"][0]["member"]), ("no-label", "b"))

    def test_many_of_one_kind_take_few_lines(self):
        shard = self.odd((b"a.jpg", b"1"), *((b"._%05d" % i, b"") for i in range(20000)))
        result = self.check(shard, "--examples", "5")
        lines = [line for line in result.stdout.splitlines() if line.startswith("    ")]
        self.assertEqual(len(lines), 6)
        self.assertEqual(lines[-1], "    and 19,995 more")
        self.assertIn("remark  litter: 20,000 in 1 shard;", result.stdout)

    def test_all_bad_shards_are_told_of_not_the_first_alone(self):
        whole = harness.read(self.odd((b"a.jpg", b"1"), (b"b.jpg", b"2" * 20000)))
        shards = [tars.write_file(self.tmp / ("cut-%02d.tar" % i), whole[:3000 + 512 * i]) for i in range(12)]
        group, = self.json(*shards, code=1)["problems"]
        self.assertEqual((group["kind"], [entry["shard"] for entry in group["shards"]]), ("truncated", shards))
        self.assertEqual([example["shard"] for example in group["examples"]], shards[:3])

    def test_names_cannot_forge_lines(self):
        shard = self.odd((b"a.jpg", b"1"), (b"x\nno problem\x1b[2J", b"2"))
        said = self.check(shard).stdout
        self.assertIn("x\\x0ano problem\\x1b[2J", said)

    def test_a_last_batch_of_one_is_an_error_that_says_what_to_change(self):
        shards = tars.make_dataset(self.tmp / "more", 66).shards
        words = [*shards, "--world", "2", "--batch", "32"]
        self.assertEqual(self.kinds(*words, code=1), {"last-batch-of-one": 1})
        said = self.check(*words, code=1).stdout
        self.assertIn("drop_last=True", said)
        self.assertIn("batches of 31", said)
        self.assertEqual(self.kinds(*shards, "--world", "2", "--batch", "31"), {})

    def test_the_split_is_as_the_remainder_says(self):
        shards = tars.make_dataset(self.tmp / "more", 10).shards
        for remainder, padding, dropped, ranks, kinds in (("pad", 2, 0, (4, 4), {}), ("drop", 0, 1, (3, 3), {}),
                                                          ("keep", 0, 0, (4, 3), {"uneven-ranks": 1})):
            found = self.json(*shards, "-o", "remainder=" + remainder, "--world", "3")
            split = found["split"]
            self.assertTrue(split["right"])
            self.assertEqual((split["padding"], split["dropped"], split["longest_rank"], split["shortest_rank"]),
                             (padding, dropped, *ranks))
            self.assertEqual({group["kind"]: group["count"] for group in found["problems"]}, kinds)
        self.assertEqual(self.kinds(*shards, "-o", "remainder=drop,world=11", code=1), {"empty-rank": 11})
        self.assertEqual(self.kinds(*shards, "-o", "remainder=keep,world=10000", code=1),
                         {"empty-rank": 9990, "uneven-ranks": 1})
        self.assertIn("fewer shards than ranks", self.check(*shards, "--world", "3").stdout)

    def test_usage_is_told_apart_from_faults(self):
        shard = self.data_set.shards[0]
        for words in ([], [shard, "--world", "0"], [shard, "--world", "x"], [shard, "--batch", "0"],
                      [shard, "--expect", "abc"], [shard, "--expect", OTHER + "-" + OTHER[:-1] + "G"],
                      [shard, "-j", "0"], [shard, "--samples"], [shard, "-o", "wrold=3"], [shard, "--nothing"],
                      ["-c", str(self.tmp / "none.conf")]):
            result = self.check(*words, code=2)
            self.assertEqual(result.stdout, "", words)
            self.assertTrue(result.stderr.startswith((PROGRAM + ": ", binary(PROGRAM) + ": ")), result.stderr)
        result = self.check(str(self.tmp / "none.tar"), code=1)
        self.assertIn("none.tar", result.stderr)

    def test_shards_of_nothing_end_with_one(self):
        path = tars.write_file(self.tmp / "zero.tar", b"")
        result = self.check(path, code=1)
        self.assertIn("not-a-tar", result.stdout)
        self.assertTrue(all(line.strip() for line in result.stdout.splitlines()), result.stdout)
        self.assertIn("no sample in 1 shard", result.stderr)
        found = self.json(path, code=1)
        self.assertEqual(([group["kind"] for group in found["problems"]], found["sound"]), (["not-a-tar", "no-sample"], False))
        self.assertEqual([len(group["examples"]) for group in found["problems"]], [1, 0])
        self.assertNotIn("samples", found)

    def test_every_key_and_kind_is_in_the_manual(self):
        page = (harness.ROOT / "man" / (PROGRAM + ".1")).read_text(encoding="utf-8")
        own = self.json(*self.data_set.shards)["fingerprint"]
        found = self.json(*self.data_set.shards, "--world", "2", "--batch", "3", "--decode", "--write-idx", "--samples",
                          "--write-lengths", self.tmp / "lengths", "--expect", own, code=1)
        keys = set()

        def collect(value):
            for part in value if isinstance(value, list) else value.values() if isinstance(value, dict) else ():
                collect(part)
            if isinstance(value, dict):
                keys.update(value)
        collect(found)
        section = page.split(".Sh JSON")[1].split(".Sh EXIT STATUS")[0]
        self.assertEqual(keys - set(re.findall(r"[a-z_0-9]+", section)), set())
        source = (harness.ROOT / "check" / "kinds.c").read_text(encoding="utf-8")
        source += (harness.ROOT / "core" / "record.c").read_text(encoding="utf-8")
        kinds = set(re.findall(r'"([a-z-]+)"', source.split('#include "record.h"')[0].split('[CHECK_UNREADABLE]')[1]))
        kinds |= set(re.findall(r'\] = "([a-z-]+)"', source))
        section = page.split(".Sh KINDS")[1].split(".Sh JSON")[0]
        self.assertEqual(kinds - set(re.findall(r"[a-z-]+", section)), set())


class Idx(CheckCase):
    def idx_of(self, shard):
        return shard[:-4] + ".idx"

    def test_an_idx_is_written_beside_each_shard(self):
        found = self.json(*self.data_set.shards, "--write-idx")
        self.assertEqual(found["idx"], {"written": 2, "equal": 0, "refused": 0})
        lines = harness.read(self.idx_of(self.data_set.shards[0])).decode().splitlines()
        sample = self.data_set.samples[0]
        self.assertEqual(lines[0], "v1.2 10")
        self.assertEqual(lines[1], "jpg %d %d s0000000.jpg cls %d 1 s0000000.cls" % (
            sample.offsets["jpg"], len(sample.fields["jpg"]), sample.offsets["cls"]))
        self.assertEqual(self.json(*self.data_set.shards, "--write-idx")["idx"],
                         {"written": 0, "equal": 2, "refused": 0})
        self.assertEqual(stat.S_IMODE(os.stat(self.idx_of(self.data_set.shards[0])).st_mode), 0o666 & ~self.umask())
        self.assertEqual(sorted(os.listdir(self.tmp / "shards")),
                         sorted(os.path.basename(name) for shard in self.data_set.shards
                                for name in (shard, self.idx_of(shard))))

    def umask(self):
        mask = os.umask(0)
        os.umask(mask)
        return mask

    def test_no_idx_is_written_of_a_cut_shard(self):
        whole = harness.read(self.data_set.shards[0])
        shard = tars.write_file(self.tmp / "cut.tar", whole[:-3000])
        found = self.json(shard, "--write-idx", code=1)
        self.assertIn("no-idx", [group["kind"] for group in found["problems"]])
        self.assertEqual(found["idx"]["refused"], 1)
        self.assertFalse(os.path.exists(self.tmp / "cut.idx"))

    def test_dali_reads_the_same_samples_by_it(self):
        """In a process of its own, which prints the bytes that DALI hands out."""
        if not has_dali():
            self.skipTest("needs NVIDIA DALI for this Python")
        shards = [*self.data_set.shards]
        self.check(*shards, "--write-idx")
        script = (
            "import sys\n"
            "from nvidia.dali import fn, pipeline_def\n"
            "half = len(sys.argv) // 2\n"
            "paths, idx = sys.argv[1:1 + half], sys.argv[1 + half:]\n"
            "@pipeline_def(batch_size=20, num_threads=1, device_id=None)\n"
            "def read():\n"
            "    return tuple(fn.readers.webdataset(paths=paths, index_paths=idx, ext=['jpg', 'cls'], random_shuffle=False))\n"
            "pipe = read()\npipe.build()\n"
            "jpg, cls = pipe.run()\n"
            "for i in range(20):\n"
            "    print(bytes(jpg.at(i)).hex(), bytes(cls.at(i)).hex())\n")
        result = subprocess.run([sys.executable, "-c", script, *shards, *map(self.idx_of, shards)], check=True,
                                capture_output=True, text=True)
        wanted = ["%s %s" % (sample.fields["jpg"].hex(), sample.fields["cls"].hex())
                  for sample in self.data_set.samples]
        self.assertEqual(result.stdout.splitlines(), wanted)


class BadStorage(slow.SlowCase, CheckCase):
    def test_each_shard_that_cannot_be_read_is_told_of_and_the_others_are_checked(self):
        shards = tars.make_dataset(self.tmp / "three", 30, shards=5).shards
        whole = harness.read(shards[4])
        tars.write_file(shards[4], whole[:-3000])
        storage = self.storage(self.tmp / "three")
        there = [storage.path(os.path.basename(shard)) for shard in shards]
        with storage.failing("train-000001.tar", "train-000003.tar"):
            found = self.json("-o", "label=none", *there, code=1)
        groups = {group["kind"]: [entry["shard"] for entry in group["shards"]] for group in found["problems"]}
        self.assertEqual(groups, {"unreadable": [there[1], there[3]], "truncated": [there[4]]})
        self.assertEqual([group["examples"][0]["why"] for group in found["problems"] if group["kind"] == "unreadable"],
                         ["Input/output error"])
        self.assertNotIn("samples", found)

    def test_a_terminal_sees_how_far_the_decoding_is_and_nothing_else_does(self):
        storage = self.storage(self.tmp / "shards", "delay_ms=30,direct_io")
        command = [binary(PROGRAM), "--decode", *storage.shards(self.data_set)]
        code, said = harness.on_terminal(command)
        self.assertEqual(code, 1)  # the members are no pictures
        self.assertIn(b"decoding", said)
        self.assertTrue(said.endswith(b"\r\x1b[K"), said)
        self.assertEqual(run(command).stderr, "")
