"""The recipes of docs/loaders.md that need no package of Python: they run with every `make test`, where their programs are."""
import hashlib
import os
import re
import shutil
import subprocess

import case
import harness
import recipes
import tars
import torch_order
from case import EPOCHS, SEED, recipe
from harness import MountCase

N, WORLD, RANK = 60, 4, 1
NAME = "rank-%d-of-%d" % (RANK, WORLD)


class Tools(MountCase):
    def setUp(self):
        super().setUp()
        self.data_set = tars.make_dataset(self.tmp / "shards", N, cls=self.label, size=lambda i: 4096 + 700 * (i % 9))
        self.view = self.mount(self.data_set.shards, "seed=%d" % SEED)

    @staticmethod
    def label(sample):
        return b"%d" % (sample * 5 % 7)

    def wanted(self, epoch):
        return torch_order.rank_order(N, WORLD, RANK, SEED, epoch)

    def shell(self, section, word, epoch):
        """What a recipe prints, in bytes."""
        more = {"mount": self.view.where, "name": NAME, "epoch": str(epoch), "out": str(self.tmp / "out")}
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", recipe(section, word)], cwd=self.tmp, check=False,
                                env={**os.environ, **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_plain_python(self):
        text = recipes.recipe("Plain Python", "os.listdir").replace("/mnt/imagenet", self.view.where)
        text = text.replace("rank-0", NAME).replace("range(90)", "range(%d)" % EPOCHS)
        seen = []
        exec(text + "\n            seen.append((name, data))", {"seen": seen})  # pylint: disable=exec-used
        wanted = []
        for epoch in range(EPOCHS):
            for place, sample in enumerate(self.wanted(epoch)):
                wanted += [("%08d.cls" % place, self.label(sample)), ("%08d.jpg" % place, self.data_set.data(sample, "jpg"))]
        self.assertEqual(seen, wanted)

    def test_find_and_xargs(self):
        for epoch in range(EPOCHS):
            lines = self.shell("Shell tools", "xargs", epoch).decode().splitlines()
            sums = [hashlib.sha256(self.data_set.data(sample, "jpg")).hexdigest() for sample in self.wanted(epoch)]
            self.assertEqual([line.split()[0] for line in lines], sums)

    def test_tar_reads_a_stream(self):
        for epoch in range(EPOCHS):
            self.assertEqual(self.shell("Shell tools", "-xOf", epoch),
                             b"".join(self.data_set.data(sample, "jpg") for sample in self.wanted(epoch)))

    def test_tar_takes_a_folder_in_order(self):
        names = self.shell("Shell tools", "-cf", 2).decode().splitlines()
        self.assertEqual([name for name in names if name != "./"],
                         ["./%08d.%s" % (place, field) for place in range(N // WORLD) for field in ("cls", "jpg")])

    @harness.needs_program("rsync")
    def test_rsync_copies_an_epoch(self):
        for epoch in range(EPOCHS):
            self.shell("Shell tools", "rsync", epoch)
            out = self.tmp / "out"
            self.assertEqual(len(os.listdir(out)), 2 * N // WORLD)
            for place, sample in enumerate(self.wanted(epoch)):
                self.assertEqual((out / ("%08d.jpg" % place)).read_bytes(), self.data_set.data(sample, "jpg"))
                self.assertEqual((out / ("%08d.cls" % place)).read_bytes(), self.label(sample))

    @harness.needs_program("fio")
    def test_fio_reads_files_in_order_by_whole_blocks(self):
        self.shell("fio", "file_service_type", 1)
        reads = {}
        for line in (self.tmp / "out").read_text(encoding="utf-8").splitlines():
            found = re.search(r"(\d{8}\.jpg) read \d+ (\d+)", line)
            if found:
                reads[found[1]] = reads.get(found[1], 0) + int(found[2])
        self.assertEqual(list(reads), ["%08d.jpg" % place for place in range(N // WORLD)])
        self.assertEqual(list(reads.values()),
                         [len(self.data_set.data(sample, "jpg")) // 4096 * 4096 for sample in self.wanted(1)])


class Pictures(case.LoaderCase):
    def test_ffmpegs_image2(self):
        if not shutil.which("ffmpeg"):  # pip's imageio-ffmpeg brings one, under another name
            self.need("imageio_ffmpeg")
            program = self.python("-c", "import imageio_ffmpeg as f; print(f.get_ffmpeg_exe())").strip()
            (self.tmp / "bin").mkdir()
            (self.tmp / "bin" / "ffmpeg").symlink_to(program)
            os.environ["PATH"] += ":%s/bin" % self.tmp
        mount = self.photographs()
        epochs = [self.frames(mount, epoch) for epoch in range(EPOCHS)]
        self.assertEqual(sum(epochs, []), [sample for sample, _ in case.expected(RANK, WORLD)])

    def frames(self, mount, epoch):
        out = self.tmp / "out"
        out.unlink(missing_ok=True)
        result = harness.run(["bash", "-euc", recipe("ffmpeg", "rawvideo")], env={
            **os.environ, "mount": mount.where, "name": NAME, "epoch": str(epoch), "out": str(out)})
        self.assertEqual(result.returncode, 0, result.stderr)
        numbers = self.python("-c", case.READ_PIXELS, out, env=self.environment(PYTHONPATH=str(case.HERE)))
        return [int(number) for number in numbers.split()]
