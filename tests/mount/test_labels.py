"""Labels, lists, fields and keys: what stands beside and in the names."""
import os

import tars
import torch_order
from harness import MountCase

CLASSES = (b"zebra", b"ant", b"Yak", b"cat")
NUMBERS = {b"Yak": 0, b"ant": 1, b"cat": 2, b"zebra": 3}


def in_folder(sample):
    return b"train/n%02d/s%07d" % (sample * 5 % 3 * 10, sample)


class Labels(MountCase):
    N = 24

    def check(self, mount, label_of, folder=("epoch-2", "rank-1"), world=2):
        """POSITION.cls has exactly the bytes of label_of(sample); None: there is no such file."""
        for position, sample in enumerate(torch_order.rank_order(self.N, world, 1, epoch=2)):
            path = mount.path(*folder, "%08d.cls" % position)
            label = label_of(sample)
            if label is None:
                self.assertFalse(os.path.exists(path))
            else:
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), label)
                self.assertEqual(os.stat(path).st_size, len(label))

    def check_list(self, mount, label_of, extension="jpg"):
        samples = torch_order.rank_order(self.N, 2, 1, epoch=2)
        lines = ["../epoch-2/rank-1/%08d.%s%s\n" % (p, extension, "" if label_of is None else " %d" % label_of(s))
                 for p, s in enumerate(samples)]
        self.assertEqual(mount.read("epoch-2", "rank-1.list").decode(), "".join(lines))

    def test_integer_cls_members_are_shown_as_they_are(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, cls=lambda i: b"%d\n" % (i % 5 * 100))
        for option in ("", "label=cls", "label=auto"):
            mount = self.mount(data_set.shards, "world=2" + (option and "," + option))
            self.check(mount, lambda i: b"%d\n" % (i % 5 * 100))
            self.check_list(mount, lambda i: i % 5 * 100)
            self.assertEqual(int(os.getxattr(mount.path("epoch-2", "rank-1", "00000000.jpg"), "user.shufflefs.label")),
                             torch_order.rank_order(self.N, 2, 1, epoch=2)[0] % 5 * 100)
            mount.unmount()

    def test_string_classes_are_numbered_in_sorted_byte_order(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, cls=lambda i: CLASSES[i % 4])
        mount = self.mount(data_set.shards, "world=2")
        self.check(mount, lambda i: b"%d" % NUMBERS[CLASSES[i % 4]])
        self.check_list(mount, lambda i: NUMBERS[CLASSES[i % 4]])
        for position, sample in enumerate(torch_order.rank_order(self.N, 2, 1, epoch=2)):
            path = mount.path("epoch-2", "rank-1", "%08d.jpg" % position)
            self.assertEqual(os.getxattr(path, "user.shufflefs.label"), b"%d" % NUMBERS[CLASSES[sample % 4]])

    def test_folders_are_the_labels_when_there_is_no_cls(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, key=in_folder)
        for option in ("", "label=dir"):
            mount = self.mount(data_set.shards, "world=2" + (option and "," + option))
            self.check(mount, lambda i: b"%d" % (i * 5 % 3))
            self.check_list(mount, lambda i: i * 5 % 3)
            listed = mount.list("epoch-2", "rank-1")
            self.assertEqual(listed, ["%08d.%s" % (p, f) for p in range(self.N // 2) for f in ("cls", "jpg")])
            mount.unmount()

    def test_label_dir_wins_over_cls_members_when_asked_for(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, key=in_folder, cls=lambda i: b"77")
        mount = self.mount(data_set.shards, "world=2,label=dir")
        self.check(mount, lambda i: b"%d" % (i * 5 % 3))
        self.check_list(mount, lambda i: i * 5 % 3)

    def test_a_shards_name_is_the_label_where_there_is_one_tar_a_class(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, shards=3, prefix="class")
        mount = self.mount(data_set.shards, "world=2,label=shard")
        self.check(mount, lambda i: b"%d" % (i // 8))
        self.check_list(mount, lambda i: i // 8)
        self.assertEqual((mount.status()["label"], mount.status()["classes"]), ("shard", 3))

    def test_a_json_value_is_the_label_and_is_saved_for_the_next_mount(self):
        members = []
        for i in range(self.N):
            members += [(b"s%07d.jpg" % i, tars.content(i, "jpg", 300)),
                        (b"s%07d.json" % i, b'{"meta": {"label": %d}, "name": "c%02d"}' % (i * 5 % 7, i % 4))]
        members.append((b"last.json", b'{"meta": {"label": 2.5}, "name": "c00"}'))
        members.append((b"last.jpg", b"x"))
        shard = tars.write_shard(self.tmp / "x.tar", members)
        place = str(self.tmp / "set.index")
        prints, before = set(), None
        for turn in range(2):
            for key, label_of, classes in (("meta.label", lambda i: i * 5 % 7, 7), ("name", lambda i: i % 4, 4)):
                mount = self.mount([shard], "label=json:%s,remainder=keep,index=%s" % (key, place))
                status = mount.status()
                self.assertEqual((status["label"], status["classes"]), ("json:" + key, classes))
                prints.add(status["fingerprint"])
                missing = key == "meta.label"
                self.assertEqual(status["left_out"].get("no-label", 0), missing)
                if missing:
                    self.assertRegex(mount.stderr(), "1 of 25 samples has no label.*last in .*x.tar: .*fraction")
                for position, sample in enumerate(torch_order.rank_order(self.N + 1, 1, 0, epoch=1)):
                    path = mount.path("epoch-1", "rank-0", "%08d.cls" % position)
                    if sample == self.N and missing:
                        self.assertFalse(os.path.exists(path))
                        continue
                    with open(path, "rb") as file:
                        self.assertEqual(file.read(), b"%d" % (0 if sample == self.N else label_of(sample)))
                mount.unmount()
            kept = {name: os.stat(self.tmp / name).st_ino for name in os.listdir(self.tmp) if name.endswith(".labels")}
            self.assertEqual(len(kept), 2)
            if turn:
                self.assertEqual(kept, before, "the second mounts wrote no labels: they took the saved ones")
            before = kept
        self.assertEqual(len(prints), 2)

    def test_one_folder_alone_is_no_label(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, key=lambda i: b"train/s%07d" % i)
        mount = self.mount(data_set.shards, "world=2")
        self.check(mount, lambda i: None)
        self.check_list(mount, None)

    def test_label_none_makes_nothing_and_keeps_members(self):
        data_set = tars.make_dataset(self.tmp / "a", self.N, key=in_folder)
        mount = self.mount(data_set.shards, "world=2,label=none")
        self.check(mount, lambda i: None)
        self.check_list(mount, None)
        mount.unmount()
        data_set = tars.make_dataset(self.tmp / "b", self.N, cls=lambda i: CLASSES[i % 4])
        mount = self.mount(data_set.shards, "world=2,label=none")
        self.check(mount, lambda i: CLASSES[i % 4])
        self.check_list(mount, None)

    def test_labels_stand_in_every_view_and_world(self):
        data_set = tars.make_dataset(self.tmp / "shards", self.N, key=in_folder)
        mount = self.mount(data_set.shards, "world=2")
        self.check(mount, lambda i: b"%d" % (i * 5 % 3), ("epoch-2", "rank-1-of-4"), 4)
        for position, sample in enumerate(torch_order.rank_order(self.N, 2, 1, epoch=2)):
            name = "%08d_%s" % (position, in_folder(sample).decode().replace("/", "_"))
            self.assertEqual(mount.read("epoch-2", "rank-1.keys", name + ".cls"), b"%d" % (sample * 5 % 3))
            self.assertEqual(mount.read("epoch-2", "rank-1.keys", name + ".jpg"), data_set.data(sample, "jpg"))


class Lists(MountCase):
    def test_a_list_names_files_that_exist_and_spells_its_epoch_out(self):
        data_set = tars.make_dataset(self.tmp / "shards", 30, cls=lambda i: b"%d" % (i % 3))
        mount = self.mount(data_set.shards, "world=2,epoch=4")
        mount.set_epoch(6, "rank-1.epoch")
        for folder, name, world, rank, epoch in (("current", "rank-0", 2, 0, 4), ("current", "rank-1", 2, 1, 6),
                                                 ("epoch-9", "rank-0", 2, 0, 9), ("epoch-9", "rank-3-of-4", 4, 3, 9),
                                                 ("current", "rank-3-of-4", 4, 3, 4)):
            text = mount.read(folder, name + ".list").decode()
            self.assertEqual(os.stat(mount.path(folder, name + ".list")).st_size, len(text))
            samples = torch_order.rank_order(30, world, rank, epoch=epoch)
            self.assertEqual(len(text.splitlines()), len(samples))
            for position, (line, sample) in enumerate(zip(text.splitlines(), samples)):
                self.assertEqual(line, "../epoch-%d/%s/%08d.jpg %d" % (epoch, name, position, sample % 3))
                self.assertEqual(mount.read(folder, line.split(" ")[0]), data_set.data(sample, "jpg"))

    def test_a_list_in_current_follows_the_control_file(self):
        data_set = tars.make_dataset(self.tmp / "shards", 30)
        mount = self.mount(data_set.shards)
        with open(mount.path("current", "rank-0.list"), encoding="ascii") as old:
            mount.set_epoch(1)
            self.assertTrue(mount.read("current", "rank-0.list").startswith(b"../epoch-1/rank-0/00000000.jpg"))
            self.assertEqual(old.readline(), "../epoch-0/rank-0/00000000.jpg\n")

    def test_a_list_names_the_first_of_fields_else_the_first_image(self):
        data_set = tars.make_dataset(self.tmp / "shards", 12, fields=("json", "png", "txt"))
        for option, extension in (("", "png"), ("fields=json:png", "json"), ("fields=txt", "txt")):
            mount = self.mount(data_set.shards, option)
            self.assertEqual(mount.read("epoch-0", "rank-0.list").decode(),
                             "".join("../epoch-0/rank-0/%08d.%s\n" % (p, extension) for p in range(12)))
            mount.unmount()


class Fields(MountCase):
    def mixed(self):
        """jpg, jpeg and png in turn, each with cls; every seventh lacks its cls."""
        members, samples = [], []
        for i in range(42):
            field = ("jpg", "jpeg", "png")[i % 3]
            data = tars.content(i, field, 500)
            members.append((b"s%07d.%s" % (i, field.encode()), data))
            if i % 7 != 6:
                members.append((b"s%07d.cls" % i, b"%d" % (i % 4)))
                samples.append((i, data))
        return tars.write_shard(self.tmp / "mixed.tar", members), samples

    def test_alternatives_appear_under_the_first_name(self):
        shard, samples = self.mixed()
        mount = self.mount([shard], "fields=jpg/jpeg/png:cls")
        status = mount.status()
        self.assertEqual(status["samples"], len(samples))
        self.assertEqual(status["left_out"].get("field-missing"), 6, status["left_out"])
        for epoch in (0, 3):
            names = mount.list("epoch-%d" % epoch, "rank-0")
            self.assertEqual(names, ["%08d.%s" % (p, f) for p in range(len(samples)) for f in ("cls", "jpg")])
            for position, place in enumerate(torch_order.rank_order(len(samples), 1, 0, epoch=epoch)):
                number, data = samples[place]
                self.assertEqual(mount.read("epoch-%d" % epoch, "rank-0", "%08d.jpg" % position), data)
                self.assertEqual(mount.read("epoch-%d" % epoch, "rank-0", "%08d.cls" % position), b"%d" % (number % 4))
        # Told what was left out, and no longer that extensions differ.
        self.assertTrue(all("left out" in line for line in mount.stderr().splitlines()), mount.stderr())

    def test_differing_extensions_are_said_with_the_fields_that_mend_it(self):
        shard, _ = self.mixed()
        mount = self.mount([shard])
        self.assertRegex(mount.stderr(), r"fields=\S*(jpg|jpeg|png)/(jpg|jpeg|png)/(jpg|jpeg|png)")

    def test_only_chosen_fields_appear(self):
        data_set = tars.make_dataset(self.tmp / "shards", 10, fields=("jpg", "json", "txt"))
        mount = self.mount(data_set.shards, "fields=JSON")
        self.assertEqual(mount.list("current", "rank-0"), ["%08d.json" % p for p in range(10)])
        self.assert_rank(mount, data_set, torch_order.rank_order(10, 1, 0), "current", "rank-0", field="json")

    def test_extensions_are_lower_cased_and_start_at_the_first_dot(self):
        shard = tars.write_shard(self.tmp / "x.tar", [(b"d.ir/a.Seg.PNG", b"1"), (b"d.ir/a.JPG", b"2")])
        mount = self.mount([shard])
        self.assertEqual(mount.list("current", "rank-0"), ["00000000.jpg", "00000000.seg.png"])
        self.assertEqual(mount.read("current", "rank-0", "00000000.seg.png"), b"1")
        self.assertEqual(mount.list("current", "rank-0.keys"), ["00000000_d_ir_a.jpg", "00000000_d_ir_a.seg.png"])


class Keys(MountCase):
    def test_long_keys_are_cut_so_that_names_fit(self):
        keys = [b"n/" + b"k" * 300 + b"%d" % i for i in range(4)]
        shard = tars.write_shard(self.tmp / "x.tar", [(key + b"." + field, b"%d" % i + field) for i, key in
                                                      enumerate(keys) for field in (b"jpg", b"segmentation.json")])
        mount = self.mount([shard], "order=sequential")
        names = mount.list("current", "rank-0.keys")
        self.assertEqual(len(names), 8)
        for i in range(4):
            pair = names[2 * i:2 * i + 2]
            self.assertEqual(len({name.split(".", 1)[0] for name in pair}), 1)
            self.assertTrue(all(name.startswith("%08d_n_kkkk" % i) and len(name) <= 255 for name in pair))
            self.assertEqual([mount.read("current", "rank-0.keys", name) for name in pair],
                             [b"%djpg" % i, b"%dsegmentation.json" % i])
            path = mount.path("current", "rank-0", "%08d.jpg" % i)
            self.assertEqual(os.getxattr(path, "user.shufflefs.key"), keys[i])

    def test_keys_that_are_not_utf8_keep_their_bytes(self):
        shard = tars.write_shard(self.tmp / "x.tar", [(b"d/caf\xe9.jpg", b"latin"), ("d/é.jpg".encode(), b"utf")])
        mount = self.mount([shard], "order=sequential")
        names = os.listdir(os.fsencode(mount.path("current", "rank-0.keys")))
        self.assertEqual(names, [b"00000000_d_caf\xe9.jpg", "00000001_d_é.jpg".encode()])
        for name, data in zip(names, (b"latin", b"utf")):
            with open(os.path.join(os.fsencode(mount.path("current", "rank-0.keys")), name), "rb") as file:
                self.assertEqual(file.read(), data)
        self.assertEqual(os.getxattr(mount.path("current", "rank-0", "00000000.jpg"), "user.shufflefs.key"), b"d/caf\xe9")
