"""Shards with faults: the good ones go on, what is left out is counted, and no wrong byte is ever read."""
import errno
import gzip
import os

import harness
import tars
import torch_order
from harness import MountCase


def noise(size):
    return torch_order.generator(7).getrandbits(8 * size).to_bytes(size, "little")


class LeftOut(MountCase):
    def setUp(self):
        super().setUp()
        self.good = tars.make_dataset(self.tmp / "good", 20)

    def mount_with(self, odd, kind, kept, count=1, said=True):
        """Mounts the odd shard between the good ones: it adds the `kept` files' bytes, in order, and left_out[kind].
        `said`: a line names the shard."""
        mount = self.mount([self.good.shards[0], odd, self.good.shards[1]], "order=sequential,unpacked=none")
        data = [sample.fields["jpg"] for sample in self.good.samples]
        data[10:10] = kept
        names = [name for name in mount.list("current", "rank-0") if name.endswith(".jpg")]
        self.assertEqual([mount.read("current", "rank-0", name) for name in names], data)
        status = mount.status()
        self.assertEqual(status["samples"], len(data))
        self.assertEqual(status["left_out"].get(kind), count, status["left_out"])
        if said:
            self.assertIn(os.path.basename(odd), mount.stderr())
        return mount

    def members(self, *between):
        """A shard of two samples with something between them."""
        blocks = tars.member(b"x1.jpg", b"first") + b"".join(between) + tars.member(b"x2.jpg", b"second")
        return tars.write_file(self.tmp / "odd.tar", blocks + tars.END)

    def test_a_gzipped_shard_is_left_out(self):
        packed = gzip.compress(harness.read(self.good.shards[0]))
        self.mount_with(tars.write_file(self.tmp / "odd.tar.gz", packed), "compressed", [])

    def test_a_gzipped_shard_named_tar_is_left_out(self):
        packed = gzip.compress(harness.read(self.good.shards[0]))
        self.mount_with(tars.write_file(self.tmp / "odd.tar", packed), "compressed", [])

    def test_noise_is_left_out(self):
        self.mount_with(tars.write_file(self.tmp / "odd.tar", noise(20000)), "not-a-tar", [])

    def test_an_empty_file_is_left_out(self):
        self.mount_with(tars.write_file(self.tmp / "odd.tar", b""), "not-a-tar", [])

    def test_what_stands_before_a_cut_is_kept(self):
        whole = tars.member(b"x1.jpg", b"first") + tars.member(b"x2.jpg", b"second" * 1000)
        self.mount_with(tars.write_file(self.tmp / "odd.tar", whole[:-2048]), "truncated", [b"first"])

    def test_links_are_left_out_but_hard_ones_to_earlier_members(self):
        odd = self.members(tars.link_member(b"l1.jpg", b"x1.jpg", False), tars.link_member(b"l2.jpg", b"x1.jpg", True),
                           tars.link_member(b"l3.jpg", b"x2.jpg", True))
        self.mount_with(odd, "link", [b"first", b"first", b"second"], 2)

    def test_what_stands_behind_a_lone_zero_block_is_read(self):
        blocks = tars.member(b"x1.jpg", b"first") + bytes(512) + tars.member(b"x2.jpg", b"second") + tars.END
        self.mount_with(tars.write_file(self.tmp / "odd.tar", blocks), "lone-zero-block", [b"first", b"second"])

    def test_a_key_met_again_is_one_more_sample(self):
        odd = self.members(tars.member(b"x3.jpg", b"third"), tars.member(b"x1.jpg", b"again"))
        self.mount_with(odd, "split-sample", [b"first", b"third", b"again", b"second"])

    def test_a_sparse_member_is_left_out(self):
        odd = self.members(tars.sparse_member(b"holes.jpg", b"d" * 1024, 100000))
        self.mount_with(odd, "sparse", [b"first", b"second"])

    def test_a_fifo_is_left_out(self):
        self.mount_with(self.members(tars.header(b"pipe.jpg", 0, b"6")), "not-a-file", [b"first", b"second"])

    def test_litter_is_left_out(self):
        odd = self.members(tars.member(b"._x1.jpg", b"litter"), tars.member(b"d/._x.jpg", b"litter"))
        self.mount_with(odd, "litter", [b"first", b"second"], 2, said=False)

    def test_metadata_and_names_without_extension_are_left_out(self):
        odd = self.members(tars.member(b"__meta__", b"m"))
        self.mount_with(odd, "metadata", [b"first", b"second"], said=False).unmount()
        odd = self.members(tars.member(b"README", b"text"), tars.member(b"a.b/c", b"text"))
        self.mount_with(odd, "no-extension", [b"first", b"second"], 2)

    def test_a_broken_header_ends_its_shard_only(self):
        header = bytearray(tars.member(b"x2.jpg", b"second"))
        header[0:1] = b"y"  # the checksum no longer agrees
        blocks = tars.member(b"x1.jpg", b"first") + bytes(header) + tars.member(b"x3.jpg", b"third") + tars.END
        self.mount_with(tars.write_file(self.tmp / "odd.tar", blocks), "corrupt-header", [b"first"])

    def test_strict_refuses_what_would_be_left_out(self):
        good = self.good.shards[0]
        odd = {"odd.tar.gz": gzip.compress(harness.read(good)), "noise.tar": noise(20000), "empty.tar": b"",
               "cut.tar": harness.read(good)[:-3000],
               "link.tar": tars.link_member(b"l.jpg", b"x.jpg", False) + tars.member(b"m.jpg", b"x") + tars.END}
        for name, data in odd.items():
            with self.subTest(name=name):
                path = tars.write_file(self.tmp / name, data)
                self.refused(self.command([good, path], self.mountpoint(), "strict,unpacked=none"), 1, name, lines=None)
        mount = self.mount([good], "strict")
        self.assertEqual(len(mount.list("current", "rank-0")), 10)


class ChangedAfterMounting(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", 40, size=lambda i: 5000)

    def check(self, change, must_fail):
        """change(path of shard 1) after mounting; then shard 0's samples read well, those of shard 1 for which
        must_fail(sample) say EIO, and others EIO or the true bytes."""
        log = self.tmp / "log"
        mount = self.mount(self.data_set.shards, "log=%s" % log)
        names = mount.list("current", "rank-0")
        change(self.data_set.shards[1])
        failed = 0
        for name, index in zip(names, torch_order.rank_order(40, 1, 0)):
            sample = self.data_set.samples[index]
            for _ in range(2):
                try:
                    data = mount.read("current", "rank-0", name)
                except OSError as error:
                    self.assertEqual(error.errno, errno.EIO)
                    self.assertEqual(sample.shard, self.data_set.shards[1])
                    failed += 1
                    continue
                self.assertEqual(data, sample.fields["jpg"], "wrong bytes")
                self.assertFalse(sample.shard == self.data_set.shards[1] and must_fail(index), "no EIO")
        if failed:
            errors = mount.status()["errors"]
            self.assertEqual([os.path.basename(shard) for shard in errors], ["train-000001.tar"])
            self.assertGreater(list(errors.values())[0], 0)
            said = mount.stderr() + (log.read_text(encoding="utf-8") if log.exists() else "")
            self.assertIn("train-000001.tar", said)
        self.assertEqual(mount.list("current", "rank-0"), names)
        return failed

    def rewrite(self, path):
        """The same size and layout, other bytes and names: what a careless rsync --inplace does."""
        tars.write_shard(path, [(b"z%07d.jpg" % i, tars.content(i + 100, "jpg", 5000)) for i in range(20)])
        os.utime(path)

    def test_a_truncated_shard_gives_eio_for_what_is_gone(self):
        def cut(path):
            os.truncate(path, os.path.getsize(path) // 2)
        self.assertGreater(self.check(cut, lambda i: i >= 30), 0)

    def test_a_shard_rewritten_in_place_gives_eio(self):
        self.assertGreater(self.check(self.rewrite, lambda i: True), 0)

    def test_a_shard_rewritten_under_its_old_time_gives_no_wrong_name(self):
        def rewrite_keeping_time(path):
            self.rewrite(path)
            os.utime(path, (tars.MTIME, tars.MTIME))
        self.assertGreater(self.check(rewrite_keeping_time, lambda i: True), 0)

    def test_a_shard_replaced_by_rename_never_gives_the_new_bytes(self):
        def replace(path):
            self.rewrite(path + ".new")
            os.rename(path + ".new", path)
        self.check(replace, lambda i: False)

    def test_a_shard_that_was_read_is_served_from_the_old_file_after_a_rename(self):
        """Its bytes come from the shard, not from the page cache: only one of its samples was read before."""
        order = torch_order.rank_order(40, 1, 0)
        path = self.data_set.shards[1]
        first = next(position for position, index in enumerate(order) if self.data_set.samples[index].shard == path)
        for how in ("replaced", "removed"):
            for options in ("readahead=0", ""):
                with self.subTest(how, options=options):
                    self.data_set = tars.make_dataset(self.tmp / "shards", 40, size=lambda i: 5000)
                    mount = self.mount(self.data_set.shards, options)
                    mount.read("epoch-0", "rank-0", "%08d.jpg" % first)
                    if how == "replaced":
                        self.rewrite(path + ".new")
                        os.rename(path + ".new", path)
                    else:
                        os.unlink(path)
                    before = mount.status()["storage"]["reads"]
                    self.assert_rank(mount, self.data_set, order, "epoch-0", "rank-0")
                    self.assertGreater(mount.status()["storage"]["reads"], before)
                    self.assertEqual(mount.status()["errors"], {})
                    self.assertEqual(mount.stderr(), "")
                    mount.unmount()

    def test_a_removed_shard_gives_its_bytes_or_eio(self):
        self.check(os.unlink, lambda i: False)


class FewDescriptors(MountCase):
    def test_a_low_limit_of_open_files_closes_shards_instead_of_failing(self):
        data_set = tars.make_dataset(self.tmp / "shards", 400, shards=100)
        mount = self.mount(data_set.shards, wrapper=("sh", "-c", 'ulimit -n 40; exec "$@"', "sh"))
        for name in mount.list("epoch-1", "rank-0"):
            mount.read("epoch-1", "rank-0", name)
        self.assertEqual(mount.status()["errors"], {})
