"""What shufflefs-check --decode says of pictures: every kind, at once, whatever the number of threads."""
import json
import time

import harness
import odd_images
import tars
from harness import MountCase, binary, run


class EveryImage(MountCase):
    def setUp(self):
        super().setUp()
        if odd_images.MISSING:
            self.skipTest(odd_images.MISSING)

    def found(self, shard, threads):
        """{name: kinds} of what was told of pictures, sorted."""
        start = time.monotonic()
        result = run([binary("shufflefs-check"), shard, "--decode", "-j", str(threads), "--json", "--examples", "1000"])
        self.assertNotRegex(result.stderr, harness.SANITIZER)
        self.assertEqual(result.returncode, 1)
        told = json.loads(result.stdout)
        kinds = {}
        for group in told["problems"]:
            for example in group["examples"]:
                if group["kind"].startswith("image-"):
                    kinds.setdefault(example["member"][:-4], []).append(group["kind"])
        return {name: sorted(names) for name, names in kinds.items()}, told, time.monotonic() - start

    def test_every_kind_is_told_apart(self):
        files = odd_images.make()
        shard = tars.write_shard(self.tmp / "pictures.tar", [(name.encode() + b".jpg", data)
                                                            for name, (data, _) in files.items()])
        for threads in (1, 3):
            found, told, took = self.found(shard, threads)
            self.assertEqual(told["decoded"]["pictures"], len(files))
            for name, (_, kinds) in files.items():
                got = found.get(name, [])
                self.assertEqual(len(got), len(kinds), (name, got, kinds))
                for kind, wanted in zip(got, kinds):
                    self.assertIn(kind, wanted.split("|"), name)
            # The bombs are refused, not decoded: that would take half a minute alone.
            self.assertLess(took, 10)
