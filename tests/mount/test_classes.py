"""rank-R.classes: each rank's epoch as folders of classes, the same classes everywhere, as ImageFolder wants them."""
import concurrent.futures
import errno
import os
import shutil
import subprocess
import time

import harness
import tars
import torch_order
from harness import MountCase

N = 47


def find_classes(folder):
    """torchvision.datasets.folder.find_classes."""
    return {name: i for i, name in enumerate(sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()))}


def make_samples(folder):
    """torchvision.datasets.folder.make_dataset, of pictures."""
    samples = []
    for name, index in sorted(find_classes(folder).items()):
        for root, _, files in sorted(os.walk(os.path.join(folder, name), followlinks=True)):
            samples += [(os.path.join(root, file), index) for file in sorted(files) if file.endswith(".jpg")]
    return samples


def in_order(samples):
    """The recipe of the README."""
    return sorted(samples, key=lambda sample: os.path.basename(sample[0]))


def key(sample):
    return b"d.ir/s%07d" % sample


def shown_key(sample):
    return "d_ir_s%07d" % sample


class Classes(MountCase):
    """`label_of(sample)` gives the class's text, `folders` are those that are expected, `place` one's number."""

    def make(self, label_of, n=N, **more):
        return tars.make_dataset(self.tmp / "shards", n, cls=lambda i: label_of(i).encode(), key=key, **more)

    def expected(self, order, folder_of, folders):
        """folder -> the names in it, by the model."""
        names = {folder: [] for folder in folders}
        for position, sample in enumerate(order):
            if folder_of(sample) is not None:
                names[folder_of(sample)] += ["%08d_%s.%s" % (position, shown_key(sample), field) for field in ("cls", "jpg")]
        return names

    def check(self, mount, data_set, order, folder_of, folders, *path):
        expected = self.expected(order, folder_of, folders)
        self.assertEqual(mount.list(*path), folders)
        for name in folders:
            self.assertEqual(mount.list(*path, name), expected[name], (path, name))
            self.assertEqual(os.getxattr(mount.path(*path, name), "user.shufflefs.samples"),
                             b"%d" % (len(expected[name]) // 2))
            for file in expected[name]:
                if file.endswith(".jpg"):
                    self.assertEqual(mount.read(*path, name, file), data_set.data(order[int(file[:8])], "jpg"))


class Folders(Classes):
    def test_each_rank_and_epoch_shows_its_samples_by_class_and_all_classes(self):
        data_set = self.make(lambda i: str(i * 7 % 12))
        folders = ["%02d" % i for i in range(12)]
        for remainder in ("pad", "drop", "keep"):
            mount = self.mount(data_set.shards, "world=3,seed=5,remainder=" + remainder)
            for epoch in (0, 3):
                for rank, world, name in ((0, 3, "rank-0"), (2, 3, "rank-2"), (6, 7, "rank-6-of-7"), (0, 1, "rank-0-of-1"),
                                          (50, 64, "rank-50-of-64")):
                    order = torch_order.rank_order(N, world, rank, 5, epoch, remainder=remainder) if remainder != "keep" \
                        else list(torch_order.epoch_order(N, 5, epoch))[rank::world]
                    self.check(mount, data_set, order, lambda s: "%02d" % (s * 7 % 12), folders,
                               "epoch-%d" % epoch, name + ".classes")
            self.assertEqual(mount.list("current"), ["rank-%d%s" % (rank, view) for rank in range(3)
                                                     for view in ("", ".classes", ".keys", ".list", ".tar")])
            self.assertEqual(mount.stderr(), "")
            mount.unmount()

    def test_a_class_that_no_sample_has_between_0_and_the_largest_is_there_too(self):
        data_set = self.make(lambda i: ("0", "1000")[i % 2])
        mount = self.mount(data_set.shards)
        folders = ["%04d" % i for i in range(1001)]
        self.assertEqual(mount.list("current", "rank-0.classes"), folders)
        self.assertEqual(len(mount.list("current", "rank-0.classes", "1000")), 2 * (N // 2))
        self.assertEqual(mount.list("current", "rank-0.classes", "0500"), [])

    def test_named_classes_have_their_names(self):
        texts = ("zebra", "ant", "Yak", "wild cat", "\u00e9t\u00e9")
        data_set = self.make(lambda i: texts[i % 5])
        folders = sorted(texts, key=str.encode)
        mount = self.mount(data_set.shards, "world=2")
        for epoch in (0, 1):
            self.check(mount, data_set, torch_order.rank_order(N, 2, 1, epoch=epoch), lambda s: texts[s % 5], folders,
                       "epoch-%d" % epoch, "rank-1.classes")
        self.assertEqual(mount.stderr(), "")
        for name in folders:
            self.assertEqual(os.getxattr(mount.path("epoch-0", "rank-1.classes", name), "user.shufflefs.label"),
                             b"%d" % folders.index(name))

    def test_names_that_a_folder_cannot_have_are_made_safe_or_become_numbers(self):
        for texts, folders, warns in (
                (("b", "c/d", "d\ne"), ["b", "c_d", "d_e"], False),
                (("a_b", "a/b", "c"), ["0", "1", "2"], True),  # would be one name
                (("..", "Z", "y"), ["0", "1", "2"], True),  # '__' would stand after 'Z'
                (("x" * 251 + "\u00e9", "y", "z"), sorted(("x" * 251 + "\u00e9", "y", "z")), False)):
            with self.subTest(texts=texts):
                shutil.rmtree(self.tmp / "shards", ignore_errors=True)
                data_set = self.make(lambda i, texts=texts: texts[i % 3], n=9)
                mount = self.mount(data_set.shards)
                classes = sorted(texts, key=str.encode)
                self.check(mount, data_set, torch_order.rank_order(9, 1, 0),
                           lambda s, texts=texts, folders=folders, classes=classes: folders[classes.index(texts[s % 3])],
                           folders, "current", "rank-0.classes")
                self.assertEqual("folders have the classes' numbers" in mount.stderr(), warns)
                mount.unmount()

    def test_negative_labels_and_far_ones_have_folders_as_far_as_they_exist(self):
        for values, folders in (((-5, 3, -12), ["-05", "-12", "03"]), ((7, 1200000, 12), ["0000007", "0000012", "1200000"])):
            with self.subTest(values=values):
                shutil.rmtree(self.tmp / "shards", ignore_errors=True)
                data_set = self.make(lambda i, values=values: str(values[i % 3]))
                mount = self.mount(data_set.shards)
                width = len(folders[0].lstrip("-"))
                def name(sample, values=values, width=width):
                    return ("-" if values[sample % 3] < 0 else "") + "%0*d" % (width, abs(values[sample % 3]))
                self.check(mount, data_set, torch_order.rank_order(N, 1, 0), name, folders, "current", "rank-0.classes")
                self.assertEqual(mount.stderr().count("only those that exist have a folder"), 1)
                for folder in folders:
                    self.assertEqual(int(os.getxattr(mount.path("current", "rank-0.classes", folder),
                                                     "user.shufflefs.label")), int(folder))
                mount.unmount()

    def test_samples_without_a_label_stand_in_no_folder(self):
        members = []
        for i in range(N):
            members.append((key(i) + b".jpg", tars.content(i, "jpg", 500)))
            if i % 5:
                members.append((key(i) + b".cls", b"%d" % (i % 3)))
        mount = self.mount([tars.write_shard(self.tmp / "x.tar", members)])
        order = torch_order.rank_order(N, 1, 0)
        found = [file for name in mount.list("current", "rank-0.classes")
                 for file in mount.list("current", "rank-0.classes", name) if file.endswith(".jpg")]
        self.assertEqual(sorted(found), ["%08d_%s.jpg" % (p, shown_key(s)) for p, s in enumerate(order) if s % 5])
        missing = next(p for p, s in enumerate(order) if not s % 5)
        for name in ("0", "1", "2"):
            self.assert_errno(errno.ENOENT, os.stat, mount.path("current", "rank-0.classes", name, "%08d_%s.jpg" % (
                missing, shown_key(order[missing]))))

    def test_without_labels_there_is_no_such_view(self):
        data_set = self.make(lambda i: str(i % 3))
        mount = self.mount(data_set.shards, "label=none")
        self.assertEqual(mount.list("current"), ["rank-0", "rank-0.keys", "rank-0.list", "rank-0.tar"])
        self.assert_errno(errno.ENOENT, os.stat, mount.path("current", "rank-0.classes"))
        self.assert_errno(errno.ENOENT, os.stat, mount.path("epoch-3", "rank-0-of-5.classes"))

    def test_only_names_of_the_class_exist_in_its_folder(self):
        data_set = self.make(lambda i: "%d" % (i % 12))
        mount = self.mount(data_set.shards)
        order = torch_order.rank_order(N, 1, 0)
        first = "%08d_%s" % (0, shown_key(order[0]))
        here, other = "%02d" % (order[0] % 12), "%02d" % ((order[0] + 1) % 12)
        self.assertTrue(os.path.exists(mount.path("current", "rank-0.classes", here, first + ".jpg")))
        for names in ((other, first + ".jpg"), (here, "00000000.jpg"), (here, first), (here, first + ".png"), (here, "99999999_x.jpg"),
                      ("12",), ("-1",), ("0",), ("000",), ("x",), ("",), (here, ".hidden"), (first + ".jpg",)):
            if names == ("",):
                continue
            for _ in range(2):
                with self.subTest(names=names):
                    self.assert_errno(errno.ENOENT, os.stat, mount.path("current", "rank-0.classes", *names))
        self.assert_errno(errno.ENOTDIR, os.listdir, mount.path("current", "rank-0.classes", here, first + ".jpg"))
        self.assert_errno(errno.EROFS, os.mkdir, mount.path("current", "rank-0.classes", "new"))
        self.assert_errno(errno.EROFS, os.unlink, mount.path("current", "rank-0.classes", here, first + ".jpg"))

    def test_the_list_has_the_label_of_each_files_folder(self):
        data_set = self.make(lambda i: str(i * i % 7))
        mount = self.mount(data_set.shards, "world=2")
        labels = {line.split(" ")[0].rsplit("/", 1)[1][:8]: int(line.split(" ")[1])
                  for line in mount.read("epoch-2", "rank-1.list").decode().splitlines()}
        found = {file[:8]: int(name) for name in mount.list("epoch-2", "rank-1.classes")
                 for file in mount.list("epoch-2", "rank-1.classes", name)}
        self.assertEqual(found, labels)

    def test_every_name_that_a_rank_may_have_has_its_classes(self):
        data_set = self.make(lambda i: str(i % 4))
        mount = self.mount(data_set.shards, "world=2")
        mount.set_epoch(b"3 after 10", "rank-0.epoch")
        for folder in ("epoch-1/rank-1.part-0-of-2.by-4", "epoch-1/rank-1-of-3.after-7", "epoch-1/rank-0.after-5.part-1-of-3.by-2",
                       "current/rank-0", "current/rank-0.part-1-of-2"):
            with self.subTest(folder=folder):
                found = sorted(file for name in mount.list(folder + ".classes")
                               for file in mount.list(folder + ".classes", name))
                self.assertEqual(found, mount.list(folder + ".keys"))
                self.assertGreater(len(found), 10)
                for attribute in ("samples", "epoch"):
                    self.assertEqual(os.getxattr(mount.path(folder + ".classes"), "user.shufflefs." + attribute),
                                     os.getxattr(mount.path(folder), "user.shufflefs." + attribute))

    def test_a_listing_may_start_anywhere_and_is_the_same_from_many_threads(self):
        data_set = self.make(lambda i: str(i % 3), n=1500)
        mount = self.mount(data_set.shards)
        expected = self.expected(torch_order.rank_order(1500, 1, 0), lambda s: str(s % 3), ["0", "1", "2"])
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            lists = list(pool.map(lambda i: mount.list("epoch-4", "rank-0.classes", str(i % 3)), range(24)))
        expected = self.expected(torch_order.rank_order(1500, 1, 0, epoch=4), lambda s: str(s % 3), ["0", "1", "2"])
        for i, names in enumerate(lists):
            self.assertEqual(names, expected[str(i % 3)])
        found = subprocess.run(["find", mount.path("epoch-4", "rank-0.classes"), "-type", "f", "-printf", "%P\n"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        self.assertEqual(found, [name + "/" + file for name in ("0", "1", "2") for file in expected[name]])

    def test_copying_programs_take_it(self):
        data_set = self.make(lambda i: str(i % 3))
        mount = self.mount(data_set.shards)
        source = mount.path("current", "rank-0.classes")
        order = torch_order.rank_order(N, 1, 0)
        programs = [["cp", "-r", source, str(self.tmp / "cp")]]
        if shutil.which("rsync"):
            programs.append(["rsync", "-a", source + "/", str(self.tmp / "rsync")])
        for program in programs:
            subprocess.run(program, check=True)
            copied = {}
            for root, _, files in os.walk(program[-1]):
                for file in files:
                    with open(os.path.join(root, file), "rb") as copy:
                        copied[os.path.basename(root), file] = copy.read()
            wanted = {}
            for position, sample in enumerate(order):
                for field in ("cls", "jpg"):
                    wanted[str(sample % 3), "%08d_%s.%s" % (position, shown_key(sample), field)] = data_set.data(sample, field)
            self.assertEqual(copied, wanted, program[0])
        listing = subprocess.run(["ls", "-lR", source], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(listing.count(".jpg"), N)


class Large(MountCase):
    @harness.slow
    @harness.needs_plain_build
    def test_1000_classes_of_1281167_samples_are_there_within_seconds(self):
        n, shards = 1281167, 1000
        borders = [n * s // shards for s in range(shards + 1)]
        os.mkdir(self.tmp / "shards")
        paths = [tars.write_many(self.tmp / "shards" / ("class-%04d.tar" % s), borders[s], borders[s + 1] - borders[s])
                 for s in range(shards)]
        mount = self.mount(["@" + tars.write_file(self.tmp / "list", "\n".join(paths).encode())], "label=shard,fields=bin")
        began = time.monotonic()
        first = mount.list("epoch-1", "rank-0.classes", "class-0007")
        took = time.monotonic() - began
        self.assertEqual(sorted(int(name[9:16]) for name in first), list(range(borders[7], borders[8])))
        self.assertLess(took, 3)
        self.assertEqual(mount.list("epoch-1", "rank-0.classes"), ["class-%04d" % s for s in range(shards)])
        positions = bytearray(n)
        for root, _, files in os.walk(mount.path("epoch-1", "rank-0.classes")):
            low, high = (borders[int(root[-4:])], borders[int(root[-4:]) + 1]) if files else (0, 0)
            for name in files:
                positions[int(name[:8])] += 1
                if not low <= int(name[9:16]) < high:
                    self.fail("%s in %s" % (name, root))
        self.assertEqual(positions, b"\1" * n)


class ImageFolders(Classes):
    def check_loader(self, mount, data_set, load, classes, label_of, world):
        indices = None
        for epoch in (0, 7):
            mount.set_epoch(epoch)
            for rank in range(world):
                folder = mount.path("current", "rank-%d.classes" % rank)
                class_to_idx, samples = load(folder)
                self.assertEqual(class_to_idx, indices or class_to_idx, "the same on all ranks and epochs")
                indices = class_to_idx
                order = torch_order.rank_order(N, world, rank, epoch=epoch)
                got = [(harness.read(path), index) for path, index in in_order(samples)]
                self.assertEqual(got, [(data_set.data(s, "jpg"), label_of(s)) for s in order])
        self.assertEqual(indices, classes)

    def test_sorted_by_base_name_they_are_the_epochs_order_with_the_integer_labels(self):
        data_set = self.make(lambda i: str(i * 5 % 13))
        mount = self.mount(data_set.shards, "world=20")
        self.check_loader(mount, data_set, lambda folder: (find_classes(folder), make_samples(folder)),
                          {"%02d" % i: i for i in range(13)}, lambda s: s * 5 % 13, 20)

    def test_torchvisions_image_folder_does_so(self):
        try:
            from torchvision.datasets import ImageFolder  # pylint: disable=import-outside-toplevel
        except ImportError as error:
            self.skipTest("no torchvision: %s" % error)
        data_set = self.make(lambda i: str(i * 5 % 13))
        mount = self.mount(data_set.shards, "world=20")

        def load(folder):
            images = ImageFolder(folder, allow_empty=True, loader=harness.read)
            return images.class_to_idx, images.samples

        self.check_loader(mount, data_set, load, {"%02d" % i: i for i in range(13)}, lambda s: s * 5 % 13, 20)


class Switches(Classes):
    def names(self, epoch, text, n=N):
        return ["%08d_%s.%s" % (p, shown_key(s), f) for p, s in enumerate(torch_order.rank_order(n, 1, 0, epoch=epoch))
                if str(s % 3) == text for f in ("cls", "jpg")]

    def test_no_name_of_the_old_epoch_is_left_in_a_class(self):
        data_set = self.make(lambda i: str(i % 3))
        mount = self.mount(data_set.shards)
        before = os.stat(mount.path("current", "rank-0.classes")).st_ino
        for epoch in (0, 1, 2, 7, 2, 1000):
            mount.set_epoch(epoch, "rank-0.epoch")
            if epoch:
                self.assertNotEqual(os.stat(mount.path("current", "rank-0.classes")).st_ino, before)
            before = os.stat(mount.path("current", "rank-0.classes")).st_ino
            for text in ("0", "1", "2"):
                folder = mount.path("current", "rank-0.classes", text)
                self.assertEqual(os.getxattr(folder, "user.shufflefs.epoch"), b"%d" % epoch)
                names = self.names(epoch, text)
                for old in set(self.names(epoch - 1, text)) - set(names) if epoch else ():
                    self.assertFalse(os.path.exists(os.path.join(folder, old)), old)
                self.assertEqual(os.listdir(folder), names)
                for name in names:
                    with open(os.path.join(folder, name), "rb") as file:
                        self.assertEqual(tars.sample_of(file.read()) if name.endswith("jpg") else int(name[15:22]), int(name[15:22]))

    def test_a_folder_that_is_open_and_a_cwd_inside_stay_with_their_epoch(self):
        data_set = self.make(lambda i: str(i % 3))
        mount = self.mount(data_set.shards)
        names = self.names(0, "1")
        folder = os.open(mount.path("current", "rank-0.classes", "1"), os.O_RDONLY | os.O_DIRECTORY)
        here = os.getcwd()
        try:
            os.chdir(mount.path("current", "rank-0.classes", "1"))
            os.stat(names[0])
            for epoch in (1, 2, 3):
                mount.set_epoch(epoch, "rank-0.epoch")
                self.assertEqual(os.listdir("."), names)
                self.assertEqual(os.listdir(folder), names)
                for name in names:
                    os.stat(name)
                self.assertEqual(mount.list("current", "rank-0.classes", "1"), self.names(epoch, "1"))
                self.assertEqual(os.listdir(".."), ["0", "1", "2"])
                self.assertEqual(os.listdir("../2"), self.names(0, "2"))
        finally:
            os.chdir(here)
            os.close(folder)

    def test_switches_under_readers_give_each_path_its_own_epochs_picture(self):
        data_set = self.make(lambda i: str(i % 3), n=300)
        mount = self.mount(data_set.shards)
        stop = [False]

        def read():
            count = 0
            while not stop[0]:
                for text in ("0", "1", "2"):
                    folder = mount.path("current", "rank-0.classes", text)
                    try:
                        for name in os.listdir(folder)[1::2]:
                            with open(os.path.join(folder, name), "rb") as file:
                                if tars.sample_of(file.read()) != int(name[15:22]):
                                    return "%s is another sample" % name
                            count += 1
                    except FileNotFoundError:
                        pass  # it was listed before the switch
            return count

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            readers = [pool.submit(read) for _ in range(4)]
            for epoch in range(1, 31):
                mount.set_epoch(epoch, "rank-0.epoch")
                time.sleep(0.01)
            stop[0] = True
            for reader in readers:
                self.assertIsInstance(reader.result(), int)
                self.assertGreater(reader.result(), 0)
        self.assertEqual(mount.list("current", "rank-0.classes", "2"), self.names(30, "2", 300))


class Unprivileged(Classes):
    unprivileged = True

    def setUp(self):
        super().setUp()
        self.skip_unless_nobody_mounts()

    def test_switches_leave_no_name_behind_without_privilege_either(self):
        data_set = self.make(lambda i: str(i % 3))
        mount = self.mount(data_set.shards, user=True)
        folder = mount.path("current", "rank-0.classes")
        for epoch in (0, 1, 5):
            self.nobodys_shell('echo $2 > "$1/.control/rank-0.epoch"', mount.where, epoch)
            order = torch_order.rank_order(N, 1, 0, epoch=epoch)
            expected = self.expected(order, lambda s: str(s % 3), ["0", "1", "2"])
            self.assertEqual(self.nobodys_shell('find "$1" -type f -printf "%P\\n"', folder).splitlines(),
                             [name + "/" + file for name in ("0", "1", "2") for file in expected[name]])
            self.nobodys_shell('cat "$1"/1/*.jpg > "$2"', folder, self.tmp / "out")
            self.assertEqual(harness.read(self.tmp / "out"),
                             b"".join(data_set.data(s, "jpg") for s in order if s % 3 == 1))


class ReadingAhead(Classes):
    def sorted_paths(self, mount, *path):
        return [file for file, _ in in_order(make_samples(mount.path(*path)))]

    @harness.needs_root
    def test_a_reader_in_the_epochs_order_gets_files_pushed(self):
        n = 3000
        data_set = self.make(lambda i: str(i % 50), n=n, size=lambda i: 12000 + i % 7)
        mount = self.mount(data_set.shards, "prime=64,fields=jpg")
        order = torch_order.rank_order(n, 1, 0)
        for path, sample in zip(self.sorted_paths(mount, "current", "rank-0.classes"), order):
            self.assertEqual(harness.read(path), data_set.data(sample, "jpg"))
        status = mount.status()
        self.assertGreater(status["pushed_files"], n // 4)
        self.assertEqual(status["repeated_epochs"], 0)
        for path, sample in zip(self.sorted_paths(mount, "current", "rank-0.classes"), order):
            self.assertEqual(harness.read(path), data_set.data(sample, "jpg"))
        self.assertEqual(mount.status()["repeated_epochs"], 1)
        # The next epoch, and after a switch.
        mount.set_epoch(1)
        order = torch_order.rank_order(n, 1, 0, epoch=1)
        for path, sample in zip(self.sorted_paths(mount, "current", "rank-0.classes"), order):
            self.assertEqual(harness.read(path), data_set.data(sample, "jpg"))

    def test_a_reader_class_by_class_is_no_second_pass_and_gets_little_pushed(self):
        n = 2400
        for classes, primes in ((3, (16,)), (20, (16, 65536))):
            with self.subTest(classes=classes):
                shutil.rmtree(self.tmp / "shards", ignore_errors=True)
                data_set = self.make(lambda i, classes=classes: str(i % classes), n=n, size=lambda i: 3000)
                for prime in primes:
                    mount = self.mount(data_set.shards, "prime=%d,fields=jpg" % prime)
                    order = torch_order.rank_order(n, 1, 0)
                    for path, _ in make_samples(mount.path("epoch-0", "rank-0.classes")):
                        self.assertEqual(harness.read(path), data_set.data(order[int(os.path.basename(path)[:8])], "jpg"))
                    status = mount.status()
                    self.assertEqual(status["repeated_epochs"], 0, mount.stderr())
                    if prime == 16:
                        # It shows within the first class: until then up to 384 positions are pushed ahead of it.
                        self.assertLess(status["pushed_files"], n // 3)
                    mount.unmount()

    def test_listing_all_classes_instantiates_no_more_names_than_prime(self):
        n, prime = 4000, 500
        data_set = self.make(lambda i: str(i % 40), n=n, size=lambda i: 100)
        mount = self.mount(data_set.shards, "prime=%d,fields=jpg,readahead=0,debug" % prime)
        samples = make_samples(mount.path("epoch-0", "rank-0.classes"))
        self.assertEqual(len(samples), n)
        before = mount.stderr().count("opcode: LOOKUP")
        for path, _ in samples:
            os.stat(path)
        # Names that expire at once, so that readers are seen, are looked up too.
        looked = mount.stderr().count("opcode: LOOKUP") - before
        self.assertGreaterEqual(looked, n - prime)
        self.assertLessEqual(looked, n - prime + n // 256 + 2)
