"""shufflefs-bench read: what it reads, what it says, and how it ends. No rate is judged here."""

import json
import os
import resource
import xml.etree.ElementTree

import harness
import tars
from harness import AS_NOBODY, MountCase, binary

SVG = "{http://www.w3.org/2000/svg}"


class BenchTool(MountCase):
    def setUp(self):
        super().setUp()
        if not os.access(binary("shufflefs-bench"), os.X_OK):
            self.fail("no program: " + binary("shufflefs-bench"))

    def bench(self, *words, code=0, wrapper=()):
        """Returns (stdout, stderr)."""
        result = harness.run([*wrapper, binary("shufflefs-bench"), "read", *words])
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        return result.stdout, result.stderr

    def json(self, *words, code=0):
        return json.loads(self.bench("--json", *words, code=code)[0])

    def only(self, *words, code=0):
        """The one result, of one pass."""
        results = self.json("--rounds", "1", "--warm-up", "0", *words, code=code)["results"]
        self.assertEqual(len(results), 1)
        return results[0]

    def tree(self, count=12, name="tree"):
        """`count` files of 0 to count - 1 bytes in three folders."""
        folder = self.tmp / name
        for i in range(count):
            (folder / ("class-%d" % (i % 3))).mkdir(parents=True, exist_ok=True)
            (folder / ("class-%d" % (i % 3)) / ("%03d.jpg" % i)).write_bytes(b"x" * i)
        return folder

    def test_a_folder_is_read_whole(self):
        tree = self.tree()
        got = self.only(tree)
        self.assertEqual((got["samples"], got["bytes"], got["errors"]), (12, 66, 0))
        self.assertEqual(got["path"], str(tree))
        for key in ("samples_per_s", "bytes_per_s", "list_s", "read_s", "p50_us"):
            self.assertGreater(got[key], 0, key)
        latencies = [got[key] for key in ("p50_us", "p90_us", "p99_us", "p999_us", "max_us")]
        self.assertEqual(latencies, sorted(latencies))

    def test_a_person_gets_a_table(self):
        out, err = self.bench(self.tree(), self.tree(name="other"), "--parts", "2", "--work", "10us")
        self.assertEqual(err, "")
        for word in ("samples/s", "p99.9", "list ms", "errors", "12 files", "cores", "round by round", "waited"):
            self.assertIn(word, out)

    def test_one_of_a_kind_is_told_as_one(self):
        out, _ = self.bench("--rounds", "1", self.tree(1))
        for words in (": 1 file, ", "1 round in turn, 1 warm-up pass, "):
            self.assertIn(words, out)
        _, err = self.bench("--baseline", "2", self.tree(1), code=2)
        self.assertIn("there is 1 PATH\n", err)

    def test_a_tar_is_a_stream_whose_members_count(self):
        data_set = tars.make_dataset(self.tmp / "shards", 30, shards=1, cls=lambda i: b"%d" % i)
        shard = data_set.shards[0]
        got = self.only(shard)
        self.assertEqual((got["samples"], got["bytes"]), (60, os.path.getsize(shard)))
        # A copy under another name is one file.
        os.rename(shard, shard + ".data")
        self.assertEqual(self.only(shard + ".data")["samples"], 1)

    def test_a_mount_is_read_as_its_rank_0(self):
        data_set = tars.make_dataset(self.tmp / "shards", 21, cls=lambda i: b"%d" % i)
        mount = self.mount(data_set.shards, "world=2")
        got = self.json("--rounds", "1", mount.where, mount.path("current", "rank-1"),
                        mount.path("current", "rank-0.tar"))
        self.assertEqual([result["samples"] for result in got["results"]], [22, 22, 22])
        self.assertEqual([result["errors"] for result in got["results"]], [0, 0, 0])
        paths = got["paths"]
        self.assertEqual(paths[0]["reads"], mount.path("current", "rank-0"))
        self.assertEqual([path["kind"] for path in paths], ["folder", "folder", "stream"])
        self.assertEqual({path["file_system"] for path in paths}, {"fuse.shufflefs"})

    def test_a_list_names_fixed_paths(self):
        tree = self.tree()
        paths = self.tmp / "list"
        paths.write_text("tree/class-1/001.jpg\n%s\n" % (tree / "class-2" / "011.jpg"), encoding="ascii")
        got = self.only("@%s" % paths)
        self.assertEqual((got["samples"], got["bytes"]), (2, 12))

    def test_a_sweep_has_a_result_for_each_path_and_number_of_readers(self):
        svg = self.tmp / "sweep.svg"
        for kind in ([], ["--processes"], ["--split", "block"], ["--split", "batch:4"]):
            got = self.json("--readers", "1,2,5", "--rounds", "2", "--svg", svg, *kind, self.tree(), self.tree(name="b"))
            self.assertEqual([r["readers"] for r in got["results"]], [1, 1, 2, 2, 5, 5])
            self.assertEqual({(r["samples"], r["bytes"]) for r in got["results"]}, {(12, 66)})
            self.assertEqual({len(r["rounds"]) for r in got["results"]}, {2})
        root = xml.etree.ElementTree.parse(svg).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        self.assertEqual(len(root.findall(".//%spolyline" % SVG)), 2)
        texts = [text.text for text in root.iter(SVG + "text")]
        for text in ("readers", "samples/s", str(self.tmp / "tree"), str(self.tmp / "b")):
            self.assertIn(text, texts)

    def test_each_reader_reads_everything_if_told(self):
        got = self.only("--readers", "3", "--split", "each", self.tree())
        self.assertEqual((got["samples"], got["bytes"]), (36, 198))

    def test_a_stream_is_not_shared_but_may_be_read_by_each(self):
        shard = tars.make_dataset(self.tmp / "shards", 10, shards=1).shards[0]
        _, err = self.bench("--readers", "2", shard, code=2)
        self.assertIn("--split each", err)
        self.assertEqual(self.only("--readers", "2", "--split", "each", shard)["samples"], 20)

    def test_paths_read_at_once_have_results_of_their_own_and_one_of_all(self):
        for kind in ([], ["--processes"]):
            got = self.json("--at-once", "--rounds", "2", *kind, self.tree(), self.tree(9, name="b"))
            self.assertEqual([r["path"] and os.path.basename(r["path"]) for r in got["results"]], ["tree", "b", None])
            self.assertEqual([r["samples"] for r in got["results"]], [12, 9, 21])
            share = got["results"][2]["slowest_to_fastest"]["median"]
            self.assertTrue(0 < share <= 1, share)

    def test_ratios_are_to_the_baseline(self):
        tree = self.tree()
        got = self.json("--baseline", "2", tree, tree, tree)["results"]
        self.assertEqual(got[1]["ratio"], {"median": 1.0, "least": 1.0, "most": 1.0})
        for result in got:
            for mine, base in zip(result["rounds"], got[1]["rounds"]):
                ratio = mine["samples_per_s"] / base["samples_per_s"]
                self.assertLessEqual(result["ratio"]["least"], ratio + 1e-9)
                self.assertGreaterEqual(result["ratio"]["most"], ratio - 1e-9)

    def test_a_slow_consumer_hardly_waits(self):
        got = self.only("--work", "2ms", self.tree(60))
        # 60 times 2 ms of work: the share is below one whatever reading takes.
        self.assertGreaterEqual(got["read_s"], 0.12)
        self.assertTrue(0 < got["wait_share"] < 1, got)
        self.assertTrue(0 < got["wait_share_later"] < 1, got)

    def test_a_consumer_that_computes_takes_processor_time(self):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        got = self.only("--work", "5ms", "--busy", "--warm-up", "0", "--rounds", "1", self.tree(60))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertGreaterEqual(got["read_s"], 0.3)
        self.assertGreater(after.ru_utime - before.ru_utime, 0.05)
        self.assertLess(got["wait_share"], 1)

    def test_parts_are_told_apart(self):
        self.assertEqual([rate > 0 for rate in self.only("--parts", "3", self.tree())["parts_samples_per_s"]], [True] * 3)
        self.assertEqual(self.only(self.tree(name="b"))["parts_samples_per_s"], [])

    def test_limits_end_a_pass(self):
        tree = self.tree(300)
        self.assertEqual(self.only("--samples", "5", tree)["samples"], 5)
        # The first sample alone takes the consumer longer.
        self.assertEqual(self.only("--seconds", "1ms", "--work", "5ms", tree)["samples"], 1)

    def test_listing_is_apart_counted_once_or_all_there_is(self):
        tree = self.tree()
        apart = self.only(tree)
        self.assertAlmostEqual(apart["samples_per_s"] * apart["read_s"], 12, 3)
        counted = self.only("--count-listing", tree)
        self.assertAlmostEqual(counted["samples_per_s"] * (counted["read_s"] + counted["list_s"]), 12, 3)
        listed = self.only("--list-only", tree)
        self.assertEqual((listed["samples"], listed["bytes"], listed["samples_per_s"]), (12, None, None))
        rounds = self.json("--fixed", tree)["results"][0]["rounds"]
        self.assertEqual(len({one["list_s"] for one in rounds}), 1)

    def test_an_unreadable_file_is_named_once_and_counted(self):
        tree = self.tree()
        gone = tree / "class-0" / "003.jpg"
        gone.unlink()
        gone.symlink_to("nowhere")
        (tree / "class-1" / "004.jpg").unlink()
        (tree / "class-1" / "004.jpg").symlink_to("nowhere")
        out, err = self.bench("--json", "--rounds", "2", tree, code=1)
        self.assertEqual(err, "shufflefs-bench: %s: No such file or directory\n" % gone)
        got = json.loads(out)["results"][0]
        self.assertEqual((got["samples"], got["errors"]), (10, 4))

    def test_a_tar_that_was_cut_is_named_with_what_it_lacks(self):
        whole = self.tmp / "whole.tar"
        tars.write_shard(whole, [(b"a.jpg", b"x" * 700), (b"b.jpg", b"y" * 10)])
        data = whole.read_bytes()
        cut = self.tmp / "cut.tar"
        for length, samples, lacks in (
                (1000, 0, "1000, and 212 more bytes were expected of the member at offset 0"),
                (1211, 0, "1211, and 1 more byte was expected of the member at offset 0"),
                (1636, 1, "1636, and 412 more bytes were expected of the header at offset 1536")):
            tars.write_file(cut, data[:length])
            for kind in ([], ["--processes"], ["--readers", "2", "--split", "each"]):
                out, err = self.bench("--json", "--rounds", "1", *kind, cut, whole, code=1)
                self.assertEqual(err, "shufflefs-bench: %s: cut short: it ends at offset %s\n" % (cut, lacks))
                got = json.loads(out)["results"]
                readers = 2 if "each" in kind else 1
                self.assertEqual([(one["samples"], one["errors"] > 0) for one in got],
                                 [(samples * readers, True), (2 * readers, False)])
        # Without the blocks that mark its end, and without the last padding, it is whole.
        for length in (2058, 2560):
            tars.write_file(cut, data[:length])
            self.assertEqual(self.only(cut)["samples"], 2)
        # Who does not read to the end is told nothing of it.
        tars.write_file(cut, data[:1636])
        self.assertEqual(self.only("--samples", "1", cut)["samples"], 1)

    def test_nothing_to_read_is_an_error(self):
        empty = self.tmp / "empty"
        empty.mkdir()
        (self.tmp / "empty.tar").write_bytes(b"")
        (self.tmp / "list").write_text("# none\n", encoding="ascii")
        for path in (empty, self.tmp / "empty.tar", "@%s" % (self.tmp / "list")):
            _, err = self.bench(path, code=1)
            self.assertIn("%s: nothing to read" % path, err)
        for path in (self.tmp / "none", "@%s" % (self.tmp / "none"), "@%s" % empty, "/dev/null"):
            _, err = self.bench(path, code=1)
            self.assertIn(str(path), err)

    def test_usage_is_checked(self):
        tree = self.tree(1)
        for words in ([], ["--readers", "0", tree], ["--readers", "1,,2", tree], ["--split", "even", tree],
                      ["--rounds", "0", tree], ["--rounds", "200000000", tree], ["--work", "1x", tree], ["--busy", tree],
                      ["--order", "size", tree], ["--bogus", tree], ["-xh", tree],
                      ["--baseline", "2", tree], ["--parts", "17", tree], ["--rounds"], ["--json=1", tree],
                      ["--fixed", "--count-listing", tree], ["--list-only", "--at-once", tree]):
            _, err = self.bench(*words, code=2)
            self.assertEqual(len(err.splitlines()), 1, err)
            self.assertTrue(err.startswith("shufflefs-bench: "), err)
        for words in ([], ["write"]):
            self.assertEqual(harness.run([binary("shufflefs-bench"), *words]).returncode, 2)
        for words in (["--help"], ["--version"], ["read", "--help"]):
            self.assertEqual(harness.run([binary("shufflefs-bench"), *words]).returncode, 0)

    def test_names_of_any_bytes_are_shown(self):
        folder = os.fsencode(self.tmp) + b"/\xff<&>\n"
        os.mkdir(folder)
        with open(folder + b"/\xfe.jpg", "wb") as file:
            file.write(b"x")
        svg = self.tmp / "plot.svg"
        got = self.json("--svg", svg, os.fsdecode(folder))
        self.assertEqual(got["results"][0]["path"], str(self.tmp) + "/?<&>?")
        texts = [text.text for text in xml.etree.ElementTree.parse(svg).getroot().iter(SVG + "text")]
        self.assertIn(str(self.tmp) + "/?<&>?", texts)

    @harness.needs_nobody
    def test_cold_refuses_when_it_may_not_drop_caches(self):
        _, err = self.bench("--cold", "/etc", code=1, wrapper=AS_NOBODY)
        self.assertIn("--cold", err)
        self.assertIn("root", err)

    @harness.needs_root
    @harness.slow
    def test_cold_reads_all_the_same(self):
        self.assertEqual(self.only("--cold", self.tree())["samples"], 12)
