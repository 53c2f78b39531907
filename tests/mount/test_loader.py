"""libshuffleload on a real mount: every way in gives the same batches, and the mount's own order."""

import collections
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import harness
import tars
import torch_order
from harness import MountCase

BYTES = 3
GONE = (errno.ENOTCONN, errno.ECONNABORTED)
SOURCE = {"mount": 1, "mount_tar": 2, "folder": 3, "tar": 4, "list": 5}
Sample = collections.namedtuple("Sample", "epoch batch position label status name hash")


def fnv(data):
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return "%016x" % value


@unittest.skipUnless(os.access(harness.binary("load-dump"), os.X_OK), "needs the program load-dump")
class Loader(MountCase):
    N = 61

    def setUp(self):
        super().setUp()
        self.set = tars.make_dataset(self.tmp / "shards", self.N, size=lambda i: 40 + i * 37 % 300,
                                     cls=lambda i: b"%d" % self.label(i))
        self.known = {i: fnv(self.set.data(i, "jpg")) for i in range(self.N)}

    @staticmethod
    def label(i):
        """Some are negative, -1 among them."""
        return i - 30

    def dump(self, path, code=0, **config):
        config = {"output": BYTES, "field": "jpg", "batch_size": 7, "workers": 2, "length_most": 4096, **config}
        result = harness.run([harness.binary("load-dump"), "path=%s" % path,
                              *("%s=%s" % item for item in config.items())])
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        samples, epochs = [], []
        for line in result.stdout.splitlines():
            word, *rest = line.split(" ")
            if word == "sample":
                numbers = [int(text) for text in rest[:5]]
                samples.append(Sample(*numbers, " ".join(rest[5:-1]), rest[-1]))
            elif word == "epoch":
                epochs.append([int(text) for text in rest])
        self.said = result.stderr
        self.epochs = epochs
        return samples

    def check(self, samples, order, rank=0, world=1, epoch=0, base=0):
        self.assertEqual([s.hash for s in samples], [self.known[i] for i in order])
        self.assertEqual([s.label for s in samples], [self.label(i) for i in order])
        self.assertEqual([s.position for s in samples], [base + rank + world * i for i in range(len(order))])
        self.assertEqual({s.epoch for s in samples}, {epoch})
        self.assertEqual({s.status for s in samples}, {0})

    def ways(self, mount, rank, world, epoch):
        """Every path that leads to a rank's epoch, with the configuration it needs."""
        name = "rank-%d-of-%d" % (rank, world)
        folder = mount.path("epoch-%d" % epoch, name)
        numbers = {"rank": rank, "world": world, "epoch": epoch}
        yield mount.where, numbers
        yield mount.where, {"source": SOURCE["mount"], **numbers}
        yield mount.where, {"source": SOURCE["mount_tar"], **numbers}
        yield folder, {}
        yield folder + ".tar", {}
        yield folder + ".list", {}

    def test_every_way_in_gives_the_mounts_order_labels_and_places(self):
        mount = self.mount(self.set.shards, "world=3,seed=5")
        for rank, world, epoch in ((0, 3, 0), (2, 3, 4), (1, 2, 1)):
            order = torch_order.rank_order(self.N, world, rank, seed=5, epoch=epoch)
            for path, config in self.ways(mount, rank, world, epoch):
                with self.subTest(path=path, **config):
                    self.check(self.dump(path, **config), order, rank, world, epoch)
                    self.assertEqual(self.epochs[0][2:], [len(order)] * 2)

    def test_the_world_is_the_mounts_where_it_is_not_given(self):
        mount = self.mount(self.set.shards, "world=3")
        order = torch_order.rank_order(self.N, 3, 1)
        self.check(self.dump(mount.where, rank=1), order, 1, 3)
        self.check(self.dump(mount.path("current", "rank-1")), order, 1, 3)
        self.check(self.dump(mount.path("current", "rank-1.tar")), order, 1, 3)
        self.dump(mount.where, code=1, rank=3)
        self.assertIn("its world is 3", self.said)

    def test_set_epoch_takes_other_paths_and_moves_nothing(self):
        mount = self.mount(self.set.shards, "world=2")
        before = mount.status()
        for path, config in ((mount.where, {"rank": 1}), (mount.where, {"rank": 1, "source": SOURCE["mount_tar"]}),
                             (mount.path("current", "rank-1"), {}), (mount.path("epoch-0", "rank-1.tar"), {}),
                             (mount.path("current", "rank-1.list"), {})):
            samples = self.dump(path, epochs="0,7,2,7", **config)
            for epoch in (0, 7, 2):
                order = torch_order.rank_order(self.N, 2, 1, epoch=epoch)
                mine = [s for s in samples if s.epoch == epoch]
                self.check(mine[:len(order)], order, 1, 2, epoch)
                self.assertEqual(len(mine), len(order) * (2 if epoch == 7 else 1))
        self.assertEqual(mount.read(".control", "epoch"), b"0\n")
        self.assertEqual(mount.status()["epoch"], before["epoch"])

    def part_of(self, order, part, parts, run):
        """Places in a rank's order that are a part's."""
        return [i for i in range(len(order)) if i // run % parts == part]

    def test_set_epoch_finds_the_same_view_and_part_of_the_new_epoch(self):
        mount = self.mount(self.set.shards, "world=2")
        for folder, name, part in (("current", "rank-1.keys", (0, 1, 1)), ("epoch-0", "rank-1-of-2.keys", (0, 1, 1)),
                                   *(("current", "rank-1.part-1-of-3.by-4" + view, (1, 3, 4))
                                     for view in ("", ".keys", ".list", ".tar")),
                                   ("epoch-0", "rank-1.part-0-of-2", (0, 2, 1)), ("current", "rank-1.part-0-of-1.by-5", (0, 1, 5))):
            with self.subTest(name=name):
                samples = self.dump(mount.path(folder, name), epochs="0,3", batch_size=4)
                for epoch in (0, 3):
                    order = torch_order.rank_order(self.N, 2, 1, epoch=epoch)
                    places = self.part_of(order, *part)
                    mine = [s for s in samples if s.epoch == epoch]
                    self.assertEqual([s.hash for s in mine], [self.known[order[i]] for i in places])
                    self.assertEqual([s.label for s in mine], [self.label(order[i]) for i in places])
                    self.assertEqual([s.position for s in mine], [1 + 2 * i for i in places])
                self.assertEqual(len(samples), sum(s.epoch in (0, 3) for s in samples))
                self.assertEqual({s.status for s in samples}, {0})
        self.assertEqual(mount.read(".control", "epoch"), b"0\n")

    def test_parts_go_on_from_where_all_of_them_are(self):
        mount = self.mount(self.set.shards, "world=2")
        # Each of 3 parts of 2 ranks has done 2 runs of 4: a job of any other shape goes on from there.
        for part in range(3):
            self.dump(mount.path("current", "rank-0.part-%d-of-3.by-4" % part), batch_size=4, leave=2)
            self.assertEqual(self.epochs[0][1], 2 * 4 * 3 * 2)
        rest = self.dump(mount.where, rank=0, world=1, after=48)
        self.assertEqual([s.hash for s in rest], [self.known[i] for i in torch_order.rank_order(self.N, 1, 0)[48:]])
        for view in ("", ".tar"):
            tail = torch_order.rank_order(self.N, 1, 0)[24:]
            samples = self.dump(mount.path("current", "rank-1.part-0-of-2.by-4" + view), after=24, batch_size=4)
            dealt = (tail + tail[:len(tail) % 2])[1::2]
            self.assertEqual([s.hash for s in samples],
                             [self.known[dealt[i]] for i in self.part_of(dealt, 0, 2, 4)])
            # At the end of a part whose last run is cut, that run counts as whole.
            self.assertEqual(self.epochs[0][1] % (2 * 2 * 4), 24 % 16)
        # An order without such a prefix: whole runs of each part.
        mount = self.mount(self.set.shards, "world=2,order=contiguous")
        path = mount.path("current", "rank-1.part-1-of-2.by-4")
        whole = [s.hash for s in self.dump(path, batch_size=4)]
        self.assertEqual([s.hash for s in self.dump(path, after=32, batch_size=4)], whole[8:])
        self.dump(path, code=1, after=24)
        self.assertIn("multiples of a run of each of its ranks' parts, 16", self.said)

    def test_folders_that_are_no_ranks_order_are_refused_and_name_one_that_is(self):
        mount = self.mount(self.set.shards, "world=3,label=shard")
        mixed = mount.path("current", "rank-1.classes")
        for path, part in ((mount.path("current"), "open one of them, as %s/rank-0" % mount.path("current")),
                           (mount.path("epoch-0"), "as %s/rank-0" % mount.path("epoch-0")),
                           (mount.path("epoch-7"), "as %s/rank-0" % mount.path("epoch-7")),
                           (mixed, "open %s," % mount.path("current", "rank-1")),
                           (os.path.join(mixed, os.listdir(mixed)[0]), "open %s," % mount.path("current", "rank-1")),
                           (mount.path("epoch-2", "rank-1.part-0-of-2.by-8.classes"),
                            "open %s," % mount.path("epoch-2", "rank-1.part-0-of-2.by-8")),
                           (mount.path("epoch-0", "rank-1.after-30.part-0-of-2"), "config.after")):
            with self.subTest(path=path):
                self.dump(path, code=1)
                self.assertIn(part, self.said)
        self.dump(mount.where, code=1, source=SOURCE["folder"])
        self.assertIn("is a mount's root", self.said)

    def test_the_epoch_of_current_is_its_own(self):
        mount = self.mount(self.set.shards, "world=2")
        mount.set_epoch(5)
        order = torch_order.rank_order(self.N, 2, 0, epoch=5)
        self.check(self.dump(mount.path("current", "rank-0")), order, 0, 2, 5)

    def test_going_on_after_g_gives_the_rest(self):
        mount = self.mount(self.set.shards, "world=2")
        whole = torch_order.rank_order(self.N, 2, 1, epoch=3)
        for source in ("mount", "mount_tar"):
            samples = self.dump(mount.where, rank=1, epoch=3, after=28, source=SOURCE[source])
            # Where W does not divide the epoch, the last sample is padding, and of the tail it may be another one.
            self.assertEqual([s.hash for s in samples][:-1], [self.known[i] for i in whole[14:-1]])
            self.assertEqual([s.position for s in samples], [29 + 2 * i for i in range(len(whole) - 14)])
            self.assertEqual(self.epochs[0][1], 28 + 2 * len(samples))

    def test_going_on_past_the_end_is_an_error_with_the_epochs_samples(self):
        for remainder in ("pad", "drop", "keep"):
            mount = self.mount(self.set.shards, "world=2,remainder=%s" % remainder)
            for source in ("mount", "mount_tar"):
                for after in (61, 62):  # 62: after the padding
                    self.assertEqual(self.dump(mount.where, rank=1, epoch=3, after=after, source=SOURCE[source]), [])
                for after in (63, 64):
                    self.dump(mount.where, code=1, rank=1, epoch=3, after=after, source=SOURCE[source])
                    self.assertEqual(self.said, "cannot go on after sample %d: epoch 3 of %s has 61 samples\n"
                                     % (after, mount.where))
            self.dump(mount.where, code=1, rank=0, world=1, after=62)
            self.assertIn("after sample 62: epoch 0 of %s has 61 samples" % mount.where, self.said)

    def test_a_folder_of_current_that_was_resumed_is_its_rest(self):
        mount = self.mount(self.set.shards, "world=2")
        mount.set_epoch(b"3 after 28\n")
        order = torch_order.rank_order(self.N, 2, 1, epoch=3)[14:]
        for name in ("rank-1", "rank-1.tar", "rank-1.list"):
            samples = self.dump(mount.path("current", name))
            self.assertEqual([s.hash for s in samples][:-1], [self.known[i] for i in order[:-1]])
            self.assertEqual([s.position for s in samples], [29 + 2 * i for i in range(len(order))])
            # Another epoch than the folder's own is whole.
            whole = torch_order.rank_order(self.N, 2, 1, epoch=4)
            self.check(self.dump(mount.path("current", name), epoch=4), whole, 1, 2, 4)
        self.dump(mount.path("epoch-3", "rank-1.after-28"), code=1)
        self.assertIn("without .after", self.said)

    def test_ranks_together_read_each_sample_once_an_epoch(self):
        mount = self.mount(self.set.shards, "world=3,remainder=keep")
        hashes = [s.hash for rank in range(3) for s in self.dump(mount.where, rank=rank, epoch=2)]
        self.assertEqual(sorted(hashes), sorted(self.known.values()))

    def test_a_mount_that_dies_under_it_is_the_epochs_error_and_no_bad_samples(self):
        """load-dump waits in the middle, as what it says is more than a pipe holds."""
        n = 4000
        data_set = tars.make_dataset(self.tmp / "many", n, shards=2, size=lambda i: 40, cls=lambda i: b"%d" % i)
        known = {fnv(data_set.data(i, "jpg")) for i in range(n)}
        for source, bad in (("mount", 0), ("mount", 1), ("mount", 2), ("mount_tar", 0)):
            mount = self.mount(data_set.shards, "readahead=0")
            command = [harness.binary("load-dump"), "path=" + mount.where, "output=%d" % BYTES, "field=jpg", "batch_size=8",
                       "length_most=64", "workers=2", "bad=%d" % bad, "source=%d" % SOURCE[source]]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
                lines = [process.stdout.readline()]
                os.kill(mount.pid(), signal.SIGKILL)
                mount.process.wait(harness.PATIENCE)
                harness.wait_until(lambda: harness.run(["ls", mount.path(".control")]).returncode, "the mount is dead")
                rest, said = process.stdout.read(), process.stderr.read()
            self.assertEqual(process.returncode, 1, said)
            self.assertNotRegex(said, harness.SANITIZER)
            why, folder = "(%s)" % "|".join(map(os.strerror, GONE)), re.escape(mount.path("epoch-0", "rank-0-of-1"))
            self.assertRegex(said, "^%s\\.tar: %s after byte \\d+\n$" % (folder, why) if source == "mount_tar" else
                             "^sample \\d+ of the global order, \\d{8}\\.jpg: %s \\(epoch 0 of %s\\)\n$" % (why, folder))
            samples = [line.split() for line in lines + rest.splitlines() if line.startswith("sample ")]
            self.assertTrue(0 < len(samples) < n)
            self.assertEqual([int(words[3]) for words in samples], list(range(len(samples))))
            self.assertEqual({words[5] for words in samples}, {"0"})
            self.assertTrue({words[7] for words in samples} <= known)
            self.assertTrue(all(int(words[4]) >= 0 for words in samples))
            mount.destroy()
            mount.judged = True

    def test_shards_themselves_are_tars_in_their_own_order(self):
        for shard in self.set.shards:
            samples = self.dump(shard)
            found = [sample for sample, value in self.known.items() if value in {s.hash for s in samples}]
            self.check(samples, found)


@unittest.skipUnless(shutil.which("nm") and shutil.which("cc"), "needs nm and cc")
class Library(MountCase):
    def symbols(self, *words):
        result = harness.run(["nm", *words])
        self.assertEqual(result.returncode, 0, result.stderr)
        return {line.split()[-1].split("@")[0] for line in result.stdout.splitlines() if len(line.split()) > 2}

    def test_nothing_but_sl_leaves_the_libraries(self):
        shared = self.symbols("-D", "--defined-only", harness.binary("libshuffleload.so.0"))
        static = self.symbols("-g", "--defined-only", harness.binary("libshuffleload.a"))
        self.assertEqual({name for name in shared if not name.startswith(("sl_", "SHUFFLELOAD_"))}, set())
        self.assertEqual({name for name in static if not name.startswith("sl_")}, set())
        self.assertEqual({name for name in shared if name.startswith("sl_")}, static)
        header = (harness.ROOT / "loader" / "shuffleload.h").read_text(encoding="utf-8")
        declared = set(re.findall(r"\b(sl_\w+)\(", "".join(re.findall(r"^SL_API [^;]*;", header, re.M))))
        self.assertEqual(declared, static)

    def test_the_manual_page_has_every_function_constant_and_member(self):
        header = (harness.ROOT / "loader" / "shuffleload.h").read_text(encoding="utf-8")
        page = (harness.ROOT / "man" / "shuffleload.3").read_text(encoding="utf-8")
        told = set(re.findall(r"[\w]+", page))
        header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
        wanted = set(re.findall(r"\b(?:sl_\w+(?=\()|SL_(?!API)\w+)", header))
        for body in re.findall(r"^struct sl_\w+ \{(.*?)^\};", header, re.S | re.M):
            wanted.update(re.findall(r"(\w+)(?:\[\d+\])*(?=[,;])", body))
        self.assertIn("deviation", wanted)
        self.assertEqual(wanted - told, set())
        if shutil.which("groff"):  # warns of what it does not know
            result = harness.run(["groff", "-mandoc", "-Tascii", "-ww", "-z", harness.ROOT / "man" / "shuffleload.3"])
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    @harness.needs_program("abidw", "abidiff")
    @harness.needs_plain_build
    def test_the_library_tells_abidiff_its_functions_and_types(self):
        library, told = harness.binary("libshuffleload.so.0"), self.tmp / "abi.xml"
        result = harness.run(["abidw", "--headers-dir", harness.ROOT / "loader", "--out-file", told, library])
        self.assertEqual(result.returncode, 0, result.stderr)
        text = told.read_text(encoding="utf-8")
        exported = self.symbols("-D", "--defined-only", library) - {"SHUFFLELOAD_0"}
        self.assertEqual(set(re.findall(r"elf-symbol name='(\w+)'", text)), exported)
        for name in ("sl_config", "sl_batch", "sl_position", "sl_stats"):
            self.assertRegex(text, r"class-decl name='%s' size-in-bits" % name)
        self.assertEqual(harness.run(["abidiff", told, library]).returncode, 0)

    def test_the_header_stands_alone_in_c_and_cpp(self):
        for language, standard in (("c", "c99"), ("c", "c17"), ("c++", "c++11")):
            if language == "c++" and not shutil.which("c++"):
                continue
            result = harness.run(["cc", "-x", language, "-std=" + standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                                  "-fsyntax-only", harness.ROOT / "loader" / "shuffleload.h"])
            self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_examples_build_as_users_would_and_run(self):
        wanted = harness.run(["nm", "-D", "--undefined-only", harness.binary("libshuffleload.so.0")]).stdout
        if re.search(r"__(asan|tsan|ubsan)_", wanted):
            self.skipTest("a sanitizer's library cannot be linked without it")
        shutil.copy(harness.ROOT / "LICENSE", self.tmp / "no-picture.jpg")
        for name in ("train", "contact-sheet"):
            program = str(self.tmp / name)
            result = harness.run(["cc", "-std=c17", "-Wall", "-Wextra", "-Werror", "-I", harness.ROOT / "loader", "-o",
                                  program, harness.ROOT / "loader" / "examples" / (name + ".c"),
                                  harness.binary("libshuffleload.so.0")])
            self.assertEqual(result.returncode, 0, result.stderr)
            library = {**os.environ, "LD_LIBRARY_PATH": str(harness.BINARY_DIR)}
            result = harness.run([program, self.tmp / "none"], env=library)
            self.assertEqual(result.returncode, 1)
            self.assertIn("none", result.stderr)
            result = harness.run([program, self.tmp], env=library)
            self.assertIn("no-picture.jpg", result.stderr)


class Valgrind(MountCase):
    """Pictures and bytes, folders, lists and tars, closed early, epochs changed in the middle: the unit tests' loaders make
    about a thousand small batches; the rest is what only a mount has."""

    VALGRIND = ("valgrind", "--quiet", "--leak-check=full", "--error-exitcode=99",
                "--errors-for-leak-kinds=definite,indirect,possible", "--show-leak-kinds=definite,indirect,possible")

    def clean(self, *words, **environment):
        result = harness.run([*self.VALGRIND, *words], patience=600, env={**os.environ, **environment})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertNotRegex(result.stderr, r"==\d+==")
        return result.stdout

    @harness.slow
    @harness.needs_program("valgrind")
    @harness.needs_plain_build
    @harness.limit(1200)
    def test_memcheck_finds_no_error_and_no_leak_in_the_loaders_unit_tests(self):
        program = harness.binary("unit-plain")
        if not os.access(program, os.X_OK):
            self.skipTest("needs the program unit-plain")
        for suite in ("load", "load_bad", "load_sources", "load_misuse"):
            self.assertRegex(self.clean(program, suite, UNIT_SOAK_STEPS="144"), r"[1-9]\d* passed, 0 failed")

    @harness.slow
    @harness.needs_program("valgrind")
    @harness.needs_plain_build
    @harness.limit(600)
    def test_memcheck_finds_no_error_and_no_leak_on_a_mount(self):
        data_set = tars.make_dataset(self.tmp / "shards", 200, size=lambda i: 40 + i * 37 % 300, cls=lambda i: b"%d" % i)
        mount = self.mount(data_set.shards, "world=2")
        common = ["output=%d" % BYTES, "field=jpg", "batch_size=4", "length_most=512", "mask=1", "workers=3", "epochs=0,1,2"]
        for path in (mount.where, mount.path("current", "rank-0"), mount.path("current", "rank-1.list"),
                     mount.path("current", "rank-0.tar")):
            for leave in (0, 5):
                self.clean(harness.binary("load-dump"), "path=%s" % path, *common, "leave=%d" % leave)


class Measured(MountCase):
    """shufflefs-bench load."""

    def bench(self, *words, code=0):
        result = harness.run([harness.binary("shufflefs-bench"), "load", *words])
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        return result

    def test_rates_and_stages_of_a_sweep_as_json_table_and_plot(self):
        data_set = tars.make_dataset(self.tmp / "shards", 300, size=lambda i: 2000)
        mount = self.mount(data_set.shards)
        common = ["--output", "bytes", "--field", "jpg", "--batch", "32", "--workers", "1,2", "--rounds", "2"]
        told = json.loads(self.bench(*common, "--json", "--need", "1000000000", mount.where,
                                     data_set.shards[0]).stdout)
        self.assertEqual([path["path"] for path in told["paths"]], [mount.where, data_set.shards[0]])
        for path, count in zip(told["paths"], (300, 150)):
            self.assertEqual([step["workers"] for step in path["steps"]], [1, 2])
            self.assertLess(path["need_met"], 1)
            self.assertIn("the training waits", path["verdict"])
            for step in path["steps"]:
                self.assertEqual([one["samples"] for one in step["rounds"]], [count, count])
                self.assertAlmostEqual(sum(step["shares"].values()), 1, delta=0.02)
                self.assertGreater(step["samples_per_s"], 0)
        svg = self.tmp / "plot.svg"
        text = self.bench(*common, "--svg", svg, mount.where).stdout
        self.assertIn("samples/s", text)
        self.assertIn("<svg", svg.read_text(encoding="utf-8"))

    def test_the_device_that_was_used_is_told(self):
        data_set = tars.make_dataset(self.tmp / "shards", 40)
        common = ["--output", "bytes", "--field", "jpg", "--rounds", "1", "--warm-up", "0"]
        step = json.loads(self.bench(*common, "--json", data_set.shards[0]).stdout)["paths"][0]["steps"][0]
        self.assertEqual((step["device"], step["device_decoded"], step["fallbacks"]), ("host", 0, 0))
        result = self.bench(*common, "--device", "auto", data_set.shards[0])
        self.assertRegex(result.stdout, r", device (host|\d+)[;,]")
        self.assertEqual("device host" in result.stdout, "no GPU can be used" in result.stderr)
        self.assertRegex(self.bench(*common, "--device", "4000", data_set.shards[0], code=1).stderr, "GPU|CUDA")

    def test_bad_samples_and_nothing_to_load_are_code_1_and_usage_is_2(self):
        data_set = tars.make_dataset(self.tmp / "shards", 5)
        result = self.bench("--rounds", "1", "--warm-up", "0", data_set.shards[0], code=1)
        self.assertIn("all 2 samples were bad", result.stdout)
        self.assertIn("jpg", result.stderr)
        self.assertIn("none", self.bench(self.tmp / "none", code=1).stderr)
        for words in ([], ["--workers", "x", "p"], ["--size", "0", "p"], ["--output", "int", "p"], ["--bogus", "p"],
                      ["--flip", "2", "p"], ["--device", "gpu", "p"], ["--decode", "device", "p"], ["--decode", "x", "p"],
                      ["--decode", "device", "--device", "auto", "--output", "bytes", "p"]):
            self.bench(*words, code=2)
