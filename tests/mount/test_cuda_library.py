"""The loader's CUDA back end as it is built and installed, without a GPU: the library with CUDA's runtime in it, and the parts
of `make test-gpu` on the unit tests' device."""
import os
import re
import shutil
import unittest

import harness
from harness import MountCase

RUN = harness.ROOT / "tests" / "gpu" / "run"


def has_cuda():
    program = harness.binary("libshuffleload.a")
    return os.path.exists(program) and "cudaMemcpyAsync" in harness.run(["nm", program]).stdout


@unittest.skipUnless(os.access(harness.binary("gpu-check-fake"), os.X_OK), "needs the program gpu-check-fake")
class GpuCheck(MountCase):
    def check(self, part, *words, **environment):
        return harness.run([harness.binary("gpu-check-fake"), part, *words], env={**os.environ, **environment})

    def pictures(self, count):
        self.assertEqual(self.check("pictures", "dir=%s" % self.tmp, "count=%d" % count, "width=60", "height=50").returncode, 0)
        return "path=%s" % self.tmp

    def table(self, **environment):
        return harness.run([RUN, "--program", harness.binary("gpu-check-fake"), "--pictures", "8", "--repeat", "1",
                            "--rounds", "3", "--seconds", "0.05", "--batch", "2", "--sanitizer", "",
                            "--out", self.tmp / "gpu.md"], env={**os.environ, **environment})

    @harness.needs_plain_build
    def test_all_parts_make_one_table_and_a_part_that_fails_fails_all(self):
        result = self.table()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.tmp / "gpu.md").read_text(encoding="utf-8"), result.stdout)
        for row in (r"bits equal to the host's \| yes, in 10 outputs and sizes", r"memcheck \| not run",
                    r"plain pinned copies, GB/s \| \d", r"the loader's batches, bfloat16, GB/s \| \d.* of plain",
                    r"part of the shorter one that is hidden \| -?\d", r"decoding alone .*images/s \| \d",
                    r"idle device, images/s \| \d", r"busy device, images/s \| \d",
                    r"nvJPEG, pictures decoded \(left to the host\) \| 8 \(0\)",
                    r"nvJPEG, mean difference .* levels \| 0\.0000", r"decoded by nvJPEG, 1 thread, images/s \| \d",
                    r"decoded by the host, 4 threads, images/s \| \d"):
            self.assertRegex(result.stdout, row)
        result = self.table(GPU_CHECK_SPOIL="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("failed: equal: exit 1", result.stderr)
        self.assertRegex(result.stdout, r"bits equal to the host's \| uint8 224 x 224, bytes that differ: [1-9]")

    def test_a_wrong_byte_and_a_failing_call_are_found_and_named(self):
        words = ("equal", self.pictures(4), "batch=2")
        self.assertEqual(self.check(*words).returncode, 0)
        spoiled = self.check(*words, GPU_CHECK_SPOIL="1")
        self.assertEqual(spoiled.returncode, 1)
        self.assertEqual(len(re.findall(r"bytes that differ\t[1-9]", spoiled.stdout)), 10)
        failed = self.check(*words, GPU_CHECK_FAIL="30")
        self.assertEqual(failed.returncode, 1)
        self.assertIn("a fault of the fake", failed.stderr)

    def test_a_wrong_pixel_of_nvjpegs_and_its_absence_are_told(self):
        words = ("decode", self.pictures(4), "batch=2", "ms=20", "workers=1")
        result = self.check(*words, GPU_CHECK_SPOIL="1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("largest difference, levels\t1\n", result.stdout)
        result = self.check(*words, GPU_CHECK_NO_NVJPEG="1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"nvJPEG\tnot used: pictures are decoded on the host: nvJPEG cannot be used: .")
        self.assertEqual(result.stderr.count("nvJPEG cannot be used"), 1)

    def test_wrong_words_are_usage(self):
        for words in ((), ("equal",), ("none",), ("rate", "path=x", "batch=0"), ("copies", "rounds=x")):
            result = harness.run([harness.binary("gpu-check-fake"), *words])
            self.assertEqual((result.returncode, result.stderr.startswith("usage:")), (2, True), words)


class Library(MountCase):
    def setUp(self):
        super().setUp()
        wanted = harness.run(["nm", "-D", "--undefined-only", harness.binary("libshuffleload.so.0")]).stdout
        if re.search(r"__(asan|tsan|ubsan)_", wanted):
            self.skipTest("a sanitizer's library cannot be linked without it")
        self.folder = self.tmp / "pictures"
        self.folder.mkdir()
        result = harness.run([harness.binary("gpu-check-fake"), "pictures", "dir=%s" % self.folder, "count=5", "width=60",
                              "height=50"])
        self.assertEqual(result.returncode, 0, result.stderr)

    def build(self, compiler, name, *words):
        program = str(self.tmp / name.split(".")[0])
        result = harness.run([*compiler, "-I", harness.ROOT / "loader", "-o", program,
                              harness.ROOT / "loader" / "examples" / name, "-L%s" % harness.BINARY_DIR, "-lshuffleload",
                              *words])
        self.assertEqual(result.returncode, 0, result.stderr)
        return [program, {**os.environ, "LD_LIBRARY_PATH": str(harness.BINARY_DIR)}]

    @harness.needs_program("c++")
    def test_the_example_in_cpp_builds_and_runs(self):
        program, env = self.build(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror"], "batches.cpp")
        result = harness.run([program, self.folder], env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no label: 5", result.stdout)
        result = harness.run([program, self.tmp / "none"], env=env)
        self.assertEqual(result.returncode, 1)
        self.assertIn("none", result.stderr)

    def test_auto_on_a_machine_without_a_gpu_says_why_and_gives_batches_of_the_host(self):
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        source = self.tmp / "auto.c"
        source.write_text("""
#include <shuffleload.h>
#include <stdio.h>
int main(int count, char **words)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct sl_loader *loader;
    struct sl_batch *batch;
    config.path = words[count - 1];
    for (int i = 0; i < 2; i++) {
        config.device = SL_DEVICE_AUTO;
        if (sl_open(&loader, &config) || sl_next(loader, &batch, -1))
            return 1;
        printf("%d %s\\n", batch->device, sl_error(loader));
        sl_close(loader);
    }
    config.device = SL_DEVICE_CUDA(0);
    printf("%d %s\\n", sl_open(&loader, &config), sl_error(NULL));
    return 0;
}""", encoding="utf-8")
        program, env = self.build(["cc", "-Wall", "-Wextra", "-Werror"], str(source))
        result = harness.run([program, self.folder], env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        why = r"cudaGetDeviceCount: cudaError\w+ \(\d+\): \w" if has_cuda() else "built without CUDA"
        self.assertEqual(len(re.findall("no GPU can be used: .*" + why, result.stderr)), 1, result.stderr)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], "^0 batches are made in the host's memory: .*" + why)
        self.assertRegex(lines[1], "^0 batches are made in the host's memory: .*" + why)
        self.assertRegex(lines[2], "^-19 .*" + why)

    @harness.slow
    def test_the_example_in_cuda_builds_and_takes_the_host_without_a_gpu(self):
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        if not has_cuda() or not os.access(nvcc, os.X_OK):
            self.skipTest("built without CUDA")
        program, env = self.build([nvcc, "-std=c++17", "-arch=sm_80"], "means.cu")
        result = harness.run([program, self.folder], env=env)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"5 images, on (the host|a GPU): 0\.\d+ 0\.\d+ 0\.\d+")
