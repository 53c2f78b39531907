"""Which shards a name on the command line or in a file stands for, and in which order."""
import os

import harness
import tars
from harness import MountCase


class Names(MountCase):
    """Every shard holds one sample, whose key is the shard's name: order=sequential shows the shards' order."""

    def setUp(self):
        super().setUp()
        self.folder = self.tmp / "shards"
        self.folder.mkdir()
        for name in ("t-00", "t-01", "t-02", "t-10", "v-a", "v-b", "odd{1}", "Big"):
            tars.write_shard(self.folder / (name + ".tar"), [(name.encode() + b".jpg", name.encode())])

    def order(self, *names, **more):
        mount = self.mount(names, "order=sequential", **more)
        shown = [name.split("_", 1)[1][:-4] for name in mount.list("current", "rank-0.keys")]
        mount.unmount()
        return shown

    def path(self, name):
        return str(self.folder / name)

    def test_files_keep_the_order_given(self):
        self.assertEqual(self.order(self.path("v-b.tar"), self.path("t-00.tar"), self.path("v-a.tar")), ["v-b", "t-00", "v-a"])

    def test_a_folder_is_its_tars_sorted_by_bytes(self):
        tars.write_file(self.folder / "notes.txt", b"no shard")
        tars.write_shard(self.folder / ".hidden.tar", [(b"h.jpg", b"h")])
        self.assertEqual(self.order(self.folder), ["Big", "odd{1}", "t-00", "t-01", "t-02", "t-10", "v-a", "v-b"])

    def test_braces_expand_as_webdataset_has_them(self):
        for pattern, expected in (("t-{00..02}.tar", ["t-00", "t-01", "t-02"]), ("t-{02..00}.tar", ["t-02", "t-01", "t-00"]),
                                  ("{v-b,t-01}.tar", ["v-b", "t-01"]), ("{t-0{2,0},v-{a..b}}.tar", ["t-02", "t-00", "v-a", "v-b"]),
                                  ("t-{00..10..10}.tar", ["t-00", "t-10"])):
            with self.subTest(pattern=pattern):
                self.assertEqual(self.order(self.path(pattern)), expected)

    def test_a_name_that_exists_is_not_expanded(self):
        self.assertEqual(self.order(self.path("odd{1}.tar")), ["odd{1}"])

    def test_a_glob_is_sorted(self):
        self.assertEqual(self.order(self.path("t-*.tar")), ["t-00", "t-01", "t-02", "t-10"])

    def test_a_list_names_shards_relative_to_itself(self):
        (self.folder / "list.txt").write_text("# shards\nv-a.tar\n\n%s\nt-{00..01}.tar\n" % self.path("v-b.tar"),
                                              encoding="ascii")
        self.assertEqual(self.order("@" + self.path("list.txt"), self.path("Big.tar")), ["v-a", "v-b", "t-00", "t-01", "Big"])

    def test_relative_names_work_from_any_folder(self):
        where = self.mountpoint()
        mount = self.mount(["../shards/t-{00..01}.tar", "../shards/Big.tar"], "order=sequential",
                           where="../" + os.path.basename(where), foreground=False, cwd=self.make_folder("elsewhere"))
        self.assertEqual(sorted(os.path.basename(name) for name in mount.list("current", "rank-0")),
                         ["00000000.jpg", "00000001.jpg", "00000002.jpg"])
        self.assertEqual(mount.read("current", "rank-0", "00000002.jpg"), b"Big")

    def make_folder(self, name):
        (self.tmp / name).mkdir()
        return self.tmp / name


class ConfigFile(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", 20)
        self.file = self.tmp / "etc" / "x.conf"
        self.file.parent.mkdir()

    def write(self, text):
        self.file.write_text(text, encoding="utf-8")
        return ["-c", str(self.file)]

    def test_a_file_says_all_that_the_command_line_can(self):
        words = self.write("# a comment\n[shufflefs]\nshards = ../shards/train-000000.tar\nworld = 2\n; another\nseed=3\n"
                           "shards = ../shards/train-000001.tar\nepoch = 4\nremainder = drop\nlog = here.log\n")
        mount = self.mount([], words=words)
        status = mount.status()
        self.assertEqual([status[key] for key in ("world", "seed", "epoch", "remainder", "shards", "samples")],
                         [2, 3, 4, "drop", 2, 20])
        mount.unmount()
        mount = self.mount([], words=self.write("shards = ../shards\n"))
        self.assertEqual(mount.status()["samples"], 20)

    def test_the_command_line_wins_over_the_file(self):
        mount = self.mount([], "world=4", words=self.write("[shufflefs]\nshards=../shards\nworld=2\nseed=8\n"))
        self.assertEqual((mount.status()["world"], mount.status()["seed"]), (4, 8))

    def test_options_add_up(self):
        mount = self.mount(self.data_set.shards, words=["-o", "world=2", "-o", "seed=5,epoch=1"], options="world=3")
        self.assertEqual([mount.status()[key] for key in ("world", "seed", "epoch")], [3, 5, 1])

    def test_faults_name_file_and_line(self):
        for text, line in (("[shufflefs]\nworld = 0\n", 2), ("[shufflefs]\n\nwrold = 2\n", 3), ("shards=../shards\nseed=x\n", 2),
                           ("[other]\nworld=2\n", None), ("shards=../shards\nno equals sign\n", 2)):
            with self.subTest(text=text):
                words = self.write(text)
                where = "x.conf" if line is None else "x.conf:%d" % line
                self.refused(self.command([], self.mountpoint(), words=words), (1, 2), where)

    def test_a_file_that_is_missing_or_names_nothing_is_named(self):
        self.refused(self.command([], self.mountpoint(), words=["-c", self.tmp / "absent.conf"]), (1, 2), "absent.conf")
        self.refused(self.command([], self.mountpoint(), words=self.write("world=2\n")), (1, 2))
        self.refused(self.command([], self.mountpoint(), words=self.write("shards=nowhere.tar\n")), (1, 2), "nowhere.tar")

    @harness.needs_root
    def test_a_log_file_relative_to_the_config_is_written(self):
        mount = self.mount([], words=self.write("shards=../shards\nlog=here.log\n"), foreground=False)
        os.truncate(self.data_set.shards[0], 1024)
        for name in mount.list("current", "rank-0"):
            try:
                mount.read("current", "rank-0", name)
            except OSError:
                pass
        harness.wait_until(lambda: (self.file.parent / "here.log").exists() and
                           "train-000000.tar" in (self.file.parent / "here.log").read_text(encoding="utf-8"), "a log line")
