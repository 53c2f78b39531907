"""Keyword arguments, errors, and the library's structs as the header has them."""

import ctypes
import errno
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import unittest.mock

import case
import shuffleload
from case import ROOT, Case
from shuffleload import _library, _settings

HEADER = ROOT / "loader" / "shuffleload.h"
STRUCTS = {
    "sl_config": _library.Config,
    "sl_batch": _library.BatchStruct,
    "sl_position": _library.PositionStruct,
    "sl_stats": _library.StatsStruct,
}


class Structs(Case):
    pictures = 0

    @unittest.skipUnless(shutil.which("cc"), "needs cc")
    def test_every_member_stands_where_the_compiler_puts_it(self):
        lines = []
        for name, struct in STRUCTS.items():
            lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
            for field in struct._fields_:
                lines.append(f'printf("{name}.{field[0]} %zu\\n", offsetof(struct {name}, {field[0]}));')
        source = self.tmp / "structs.c"
        source.write_text(
            f'#include <stdio.h>\n#include "{HEADER}"\nint main(void) {{ {" ".join(lines)} return 0; }}\n', encoding="utf-8"
        )
        subprocess.run(["cc", "-o", self.tmp / "structs", source], check=True)
        told = subprocess.run([self.tmp / "structs"], check=True, capture_output=True, text=True).stdout.splitlines()
        ours = []
        for name, struct in STRUCTS.items():
            ours.append(f"{name} {ctypes.sizeof(struct)}")
            ours += [f"{name}.{field[0]} {getattr(struct, field[0]).offset}" for field in struct._fields_]
        self.assertEqual(ours, told)

    def test_every_member_of_the_header_is_there_and_in_the_documentation(self):
        header = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
        for name, struct in STRUCTS.items():
            body = re.search(rf"^struct {name} \{{(.*?)^\}};", header, re.DOTALL | re.MULTILINE).group(1)
            members = re.findall(r"(\w+)(?:\[\d+\])*(?=[,;])", body)
            self.assertEqual([field[0] for field in struct._fields_], members)
        told = set(re.findall(r"\w+", shuffleload.Loader.__doc__))
        settings = [field[0] for field in _library.Config._fields_ if field[0] != "size"]
        parameters = list(inspect.signature(shuffleload.Loader).parameters)
        self.assertEqual(parameters, settings)
        self.assertEqual(set(parameters) - told, set())
        self.assertEqual([*shuffleload.Stats._fields], [field[0] for field in _library.StatsStruct._fields_][1:])
        self.assertEqual([*shuffleload.Position._fields], [field[0] for field in _library.PositionStruct._fields_][1:])

    def test_words_are_the_headers_constants(self):
        header = HEADER.read_text(encoding="utf-8")
        for prefix, words in (
            ("SOURCE_", shuffleload.Source),
            ("", shuffleload.Output),
            ("CROP_", [word for word in shuffleload.Crop if word.name != "STRETCH"]),
            ("", [shuffleload.Crop.STRETCH]),
            ("BAD_", shuffleload.Bad),
            ("DECODE_", shuffleload.Decode),
            ("SAMPLE_", shuffleload.Status),
            ("", [shuffleload.Crop.STRETCH]),
        ):
            for word in words:
                self.assertIn(f"SL_{prefix}{word.name} = {int(word)},", header)
        for name in ("PARTIAL", "END", "TIMEOUT", "ARRAY_DATA", "ARRAY_POSITIONS", "EXPORT_VERSIONED", "EXPORT_COPY"):
            self.assertIn(f"SL_{name} = {getattr(_library, name)},", header)


class Arguments(Case):
    def test_all_settings_reach_the_library(self):
        config = _settings.configure(
            {
                "path": pathlib.Path("/x"),
                "source": "mount_tar",
                "output": shuffleload.Output.BYTES,
                "field": "txt",
                "rank": 2**64 - 1,
                "drop_last": True,
                "bad": 1,
                "crop": "Centre",
                "flip": 1,
                "mean": (1, 2, 3),
                "padding": 255,
                "seed": None,
            }
        )
        self.assertEqual(config.size, ctypes.sizeof(config))
        self.assertEqual((config.path, config.source, config.output, config.field), (b"/x", 2, 3, b"txt"))
        self.assertEqual((config.rank, config.drop_last, config.bad, config.crop), (2**64 - 1, 1, 1, 1))
        self.assertEqual((config.flip, list(config.mean), config.padding, config.seed), (1, [1, 2, 3], 255, 0))

    def test_what_does_not_fit_is_named_and_never_cut(self):
        for settings, kind, word in (
            ({"batch_size": -1}, ValueError, "batch_size"),
            ({"batch_size": 2**64}, ValueError, "batch_size"),
            ({"batch_size": 65537}, ValueError, "batch_size"),
            ({"width": 2**32 + 8}, ValueError, "width"),
            ({"workers": 2**31}, ValueError, "workers"),
            ({"workers": 2.0}, TypeError, "workers"),
            ({"flip": 2}, ValueError, "flip"),
            ({"flip": "often"}, ValueError, "often"),
            ({"output": "float64"}, ValueError, "'float32_nchw'"),
            ({"bad": 17}, ValueError, "bad"),
            ({"mean": (1, 2)}, ValueError, "mean"),
            ({"mean": 0.5}, TypeError, "mean"),
            ({"deviation": (1, -1, 1)}, ValueError, "deviation"),
            ({"field": ".jpg"}, ValueError, "field"),
            ({"field": 7}, TypeError, "field is 7"),
            ({"path": "a\0b"}, ValueError, "path"),
            ({"path": None}, TypeError, "path is None"),
            ({"path": 7}, TypeError, "path is 7"),
            ({"batch_size": True}, TypeError, "batch_size is True"),
            ({"batch_size": 10**400}, ValueError, "batch_size is an integer of 1329 bits"),
            ({"batch_size": -(10**5000)}, ValueError, "batch_size is an integer of 16610 bits"),
            ({"flip": "x"}, ValueError, "flip is 'x'"),
            ({"flip": [1]}, TypeError, "flip is [1]"),
            ({"flip": 10**400}, ValueError, "flip is an integer of 1329 bits"),
            ({"mean": (1, 2, "x")}, ValueError, "mean[2] is 'x'"),
            ({"mean": (1, None, 2)}, TypeError, "mean[1] is None"),
            ({"area_least": 2}, ValueError, "area_least is 2"),
            ({"area_most": -1}, ValueError, "area_most is -1"),
            ({"ratio_least": -1}, ValueError, "ratio_least is -1"),
            ({"ratio_most": 0.5}, ValueError, "ratio_least is 0.75"),
            ({"device": "cuda:99999999999"}, ValueError, "device is 'cuda:99999999999': out of range"),
            ({"device": "cuda:" + "9" * 5000}, ValueError, "9...: out of range"),
            ({"device": "gpu"}, ValueError, "'cuda:N'"),
            ({"device": "cpu:1"}, ValueError, "device is 'cpu:1'"),
            ({"device": "cuda:-1"}, ValueError, "device"),
            ({"device": "mps:0"}, ValueError, "device"),
            ({"wrold": 2}, TypeError, "wrold"),
        ):
            with self.subTest(settings), self.assertRaises(kind) as told:
                shuffleload.Loader(**{"path": self.folder, **settings})
            self.assertIn(word, str(told.exception))

    def test_errors_are_the_built_in_ones_too_and_have_the_librarys_text(self):
        missing = self.tmp / "none"
        with self.assertRaises(FileNotFoundError) as told:
            self.loader(missing)
        self.assertIsInstance(told.exception, shuffleload.ShuffleloadError)
        self.assertIsInstance(told.exception, OSError)
        self.assertEqual(told.exception.errno, errno.ENOENT)
        self.assertIn(str(missing), str(told.exception))
        with self.assertRaises(shuffleload.ShuffleloadValueError) as told:
            self.loader(crop="centre", shorter=4)
        self.assertEqual(told.exception.errno, errno.EINVAL)
        empty = self.tmp / "empty"
        empty.mkdir()
        with self.assertRaises(shuffleload.ShuffleloadError) as told:
            self.loader(empty)
        self.assertEqual(told.exception.errno, errno.ENODATA)
        (self.folder / "003.png").write_bytes(b"no picture")
        with self.loader(bad="fail") as loader:
            batches = iter(loader)
            for _ in range(2):
                with self.assertRaises(shuffleload.ShuffleloadError) as told:
                    next(batches)
                self.assertIn("003.png", str(told.exception))
            with self.assertRaises(shuffleload.ShuffleloadError):
                loader.seek(0, 2**63)

    def test_the_device_is_the_host_unless_another_is_asked_for(self):
        for device in (None, "cpu"):
            with self.loader(device=device) as loader:
                batch = next(iter(loader))
                self.assertEqual(batch.device, "cpu")
                self.assertEqual(batch.device_labels.tolist(), batch.labels.tolist())
                self.assertIsNone(batch.device_lengths)
        self.assertEqual(_settings.configure({"device": "cpu"}).device, 0)
        self.assertEqual(_settings.configure({"device": "auto"}).device, _library.DEVICE_AUTO)
        self.assertEqual(_settings.configure({"device": "cuda:3"}).device, 4)
        with self.assertRaises(ValueError):
            _settings.configure({"device": "cuda:2147483647"})

    def test_a_device_without_a_number_is_torchs_current_one(self):
        class Torch:
            class cuda:
                index = None

                @classmethod
                def is_available(cls):
                    return cls.index is not None

                @classmethod
                def current_device(cls):
                    return cls.index

        def device(name):
            return _settings.configure({"device": name}).device

        with unittest.mock.patch.dict(sys.modules):
            sys.modules.pop("torch", None)
            self.assertEqual(device("cuda"), 1)
            sys.modules["torch"] = Torch
            self.assertEqual(device("cuda"), 1)
            Torch.cuda.index = 2
            self.assertEqual((device("cuda"), device("cuda:0"), device("cpu:0")), (3, 1, _library.DEVICE_HOST))

    @case.needs_module("torch")
    def test_a_torch_device_is_a_device(self):
        import torch

        for index in (None, 0):
            with self.loader(device=torch.device("cpu", index)) as loader:
                self.assertEqual(next(iter(loader)).device, "cpu")
        self.assertEqual(_settings.configure({"device": torch.device("cuda", 3)}).device, 4)

    def test_one_limit_of_a_range_leaves_the_other_at_its_default(self):
        for given, expected in (
            ({}, (0, 0, 0, 0)),  # the library's own
            ({"area_least": 0.5}, (0.5, 1, 0, 0)),
            ({"area_most": 0.5, "ratio_least": 1}, (0.08, 0.5, 1, 4 / 3)),
            ({"ratio_most": 2, "ratio_least": None}, (0, 0, 3 / 4, 2)),
        ):
            config = _settings.configure(given)
            self.assertEqual((config.area_least, config.area_most, config.ratio_least, config.ratio_most), expected)
        with self.loader(crop="random_resized", area_least=0.5, ratio_most=1) as loader:
            next(iter(loader))

    def test_none_and_zero_are_the_default_and_help_says_so(self):
        self.assertIn("Args (None, and 0 of a number: the default)", shuffleload.Loader.__doc__)
        with shuffleload.Loader(self.folder, batch_size=0, width=0, height=0, workers=0, hold=0) as loader:
            self.assertEqual(next(iter(loader)).images.shape, (1, 224, 224, 3))

    @case.needs_module("numpy")
    def test_bfloat16_in_numpy_says_that_numpy_has_none(self):
        import numpy

        with self.loader(output="bfloat16_nchw") as loader:
            images = next(iter(loader)).images
            for function in (numpy.asarray, numpy.array, lambda images: images.numpy()):
                with self.assertRaisesRegex(TypeError, r"numpy has no bfloat16: use torch\(\)"):
                    function(images)

    def test_pictures_are_decoded_on_the_host_unless_a_gpu_is_asked_for(self):
        self.assertEqual(_settings.configure({}).decode, shuffleload.Decode.HOST)
        self.assertEqual(_settings.configure({"decode": "device"}).decode, shuffleload.Decode.DEVICE)
        with self.assertRaisesRegex(ValueError, "'host', 'device'"):
            _settings.configure({"decode": "gpu"})
        with self.assertRaisesRegex(shuffleload.ShuffleloadValueError, r"config\.decode is 1: .* set config\.device"):
            self.loader(decode="device")
        with self.loader(decode="host") as loader:
            next(iter(loader))
            self.assertEqual((loader.stats().device_decoded, loader.stats().last_fallback), (0, ""))

    def test_a_gpu_that_cannot_be_used_is_told_or_done_without(self):
        script = """
        import sys, shuffleload
        settings = dict(batch_size=8, width=8, height=8, workers=1)
        try:
            shuffleload.Loader(sys.argv[1], device="cuda:99", **settings)
        except shuffleload.ShuffleloadError as error:
            print(str(error) != "")
        with shuffleload.Loader(sys.argv[1], device="auto", **settings) as loader:
            print(next(iter(loader)).device)
        """
        done = self.python(script, self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        told, device = done.stdout.splitlines()
        self.assertEqual(told, "True")
        self.assertRegex(device, r"^cpu$|^cuda:\d+$")
        self.assertEqual(device == "cpu", "host" in done.stderr)

    @case.needs_module("torch")
    def test_bfloat16_is_torchs(self):
        import torch

        with self.loader(output="bfloat16_nchw") as loader:
            batch = next(iter(loader))
            images = torch.from_dlpack(batch.images)
            self.assertEqual((images.dtype, batch.images.dtype), (torch.bfloat16, "bfloat16"))
            self.assertEqual(images[:, 0, 0, 0].tolist(), torch.tensor([i / 255 for i in range(8)]).bfloat16().tolist())

    def test_paths_are_bytes_text_or_path_objects_in_any_encoding(self):
        odd = os.fsencode(self.tmp) + b"/\xff\xe4"
        os.rename(self.folder, odd)
        for path in (odd, os.fsdecode(odd), pathlib.Path(os.fsdecode(odd))):
            with self.loader(path) as loader:
                self.assertEqual(len(next(iter(loader))), 8)

    def test_a_library_that_is_missing_or_too_old_says_what_to_do(self):
        package = self.tmp / "package"
        shutil.copytree(ROOT / "python" / "shuffleload", package / "shuffleload")
        other = re.search(r"\S*/libc\.so\S*", pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")).group()
        for library in ("/nonexistent.so", other):
            environment = {**os.environ, "PYTHONPATH": str(package), "SHUFFLELOAD_LIBRARY": library}
            done = self.python("import shuffleload", env=environment)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.splitlines()[-1], f"^ImportError.*{library}.*SHUFFLELOAD_LIBRARY")

    def test_a_copy_in_the_package_comes_before_the_environments(self):
        package = self.tmp / "package"
        shutil.copytree(ROOT / "python" / "shuffleload", package / "shuffleload")
        own = package / "shuffleload" / _library.SONAME
        shutil.copy(os.environ["SHUFFLELOAD_LIBRARY"], own)
        environment = {**os.environ, "PYTHONPATH": str(package), "SHUFFLELOAD_LIBRARY": "/nonexistent"}
        told = self.runs("import shuffleload._library as l\nprint(l.PATH)", env=environment)
        self.assertEqual(told, f"{own}\n")


class Epochs(Case):
    def numbers(self, loader):
        return [batch.number for batch in loader]

    def test_a_for_is_a_whole_epoch_and_len_its_batches(self):
        with self.loader(batch_size=7, hold=3) as loader:
            self.assertEqual(len(loader), 6)
            self.assertEqual(self.numbers(loader), list(range(6)))
            loader.set_epoch(1)
            for batch in loader:
                self.assertEqual(batch.epoch, 1)
                if batch.number == 2:
                    break
            self.assertEqual(self.numbers(loader), list(range(6)))
            self.assertEqual(loader.epoch, 1)
            self.assertTrue(loader)
        with self.loader(batch_size=7, drop_last=True) as loader:
            self.assertEqual((len(loader), self.numbers(loader)), (5, list(range(5))))

    def test_an_epoch_that_nobody_asked_for_again_is_told_once_it_starts(self):
        with self.loader() as loader:
            self.numbers(loader)
            with self.assertWarnsRegex(shuffleload.RepeatedEpochWarning, "epoch 0 .*set_epoch"):
                self.numbers(loader)
            loader.set_epoch(0)  # asked for, as in an evaluation
            with case.no_warnings():
                self.numbers(loader)

    def test_an_iterator_of_before_is_over(self):
        with self.loader() as loader:
            before = iter(loader)
            next(before)
            after = iter(loader)
            self.assertEqual(next(after).number, 0)
            with self.assertRaisesRegex(RuntimeError, "over"):
                next(before)
            loader.set_epoch(4)
            with self.assertRaisesRegex(RuntimeError, "over"):
                next(after)

    def test_a_tars_length_is_not_known_before_its_end(self):
        import tars

        # More than there are slots for: its reader cannot get to the end before batches are taken.
        tar = tars.write_shard(self.tmp / "s.tar", [(b"%03d.png" % i, case.png(i % 10)) for i in range(402)])
        with self.loader(tar) as loader:
            with self.assertRaisesRegex(TypeError, "not known"):
                len(loader)
            self.assertEqual([len(batch) for batch in loader], [8] * 50 + [2])
            self.assertEqual(len(loader), 51)

    def test_a_checkpoint_goes_on_with_the_next_sample(self):
        whole, state = [], None
        with self.loader(batch_size=4, crop="random_resized", flip=0.5, seed=9) as loader:
            loader.set_epoch(2)
            for batch in loader:
                whole.append((batch.names, bytes(batch.images.view())))
                if batch.number == 3:
                    state = loader.state_dict()
        self.assertEqual((state["epoch"], state["after"]), (2, 16))
        with self.loader(batch_size=4, crop="random_resized", flip=0.5, seed=9) as loader:
            loader.load_state_dict(state)
            self.assertEqual([(batch.names, bytes(batch.images.view())) for batch in loader], whole[4:])
            self.assertEqual(len(loader), 6)
            loader.set_epoch(2)
            self.assertEqual(len(self.numbers(loader)), 10)
        with self.loader(batch_size=5, epoch=state["epoch"], after=state["after"]) as loader:
            self.assertEqual(next(iter(loader)).names[0], "016.png")

    def test_a_checkpoint_of_an_epochs_end_is_the_next_ones_start(self):
        for drop_last, batches in ((False, 6), (True, 5)):
            with self.loader(batch_size=7, epoch=4, drop_last=drop_last, hold=3) as loader:
                for batch in loader:
                    state = loader.state_dict()
                    if batch.number == batches - 2:
                        self.assertEqual((state["epoch"], state["after"]), (4, 7 * (batches - 1)))
                self.assertEqual((state["epoch"], state["after"]), (5, 0))
                loader.load_state_dict(state)
                self.assertEqual((loader.epoch, len(self.numbers(loader))), (5, batches))

    def test_a_checkpoint_of_other_numbers_or_data_is_refused_and_nothing_moves(self):
        with self.loader(seed=1) as loader:
            next(iter(loader))
            state = loader.state_dict()
            for wrong, word in (({"seed": 2}, "seed"), ({"fingerprint": "0-0"}, "fingerprint"), ({"version": 9}, "state_dict")):
                with self.assertRaisesRegex(ValueError, word):
                    loader.load_state_dict({**state, **wrong})
            with self.assertRaisesRegex(ValueError, "state_dict"):
                loader.load_state_dict({})
            for epoch, after in ((-1, 0), (2**64, 0), (0, "1")):
                with self.assertRaises(ValueError):
                    loader.seek(epoch, after)
            self.assertEqual(loader.state_dict(), state)

    def test_numbers_of_others_are_numbers(self):
        class Number:
            def __init__(self, number):
                self.number = number

            def __index__(self):
                return self.number

        with self.loader(epoch=Number(2), batch_size=Number(4)) as loader:
            self.assertEqual(loader.epoch, 2)
            loader.set_epoch(Number(3))
            self.assertEqual(loader.epoch, 3)
            loader.seek(Number(4), Number(8))
            state = loader.state_dict()
            loader.load_state_dict({**state, "epoch": Number(5), "after": Number(4)})
            self.assertEqual(loader.position()[:2], (5, 4))
            for wrong in (True, 1.0, "1", None, Number(-1), Number(2**64), 10**5000):
                for call in (loader.set_epoch, lambda number: loader.seek(1, number)):
                    with self.assertRaisesRegex(ValueError, "^(epoch|after) is .*: an integer from 0"):
                        call(wrong)
            with self.assertRaisesRegex(TypeError, "^state is None"):
                loader.load_state_dict(None)

    def test_a_checkpoint_past_the_end_is_an_error_with_the_epochs_samples(self):
        with self.loader() as loader:
            state = loader.state_dict()
            loader.load_state_dict({**state, "after": 40})
            self.assertEqual(self.numbers(loader), [])
            for _ in range(2):
                with self.assertRaisesRegex(ValueError, "after sample 41: .*pictures has 40 samples"):
                    loader.load_state_dict({**state, "after": 41})
            with self.assertRaisesRegex(ValueError, "after sample 41"):
                next(iter(loader))
            loader.load_state_dict(state)
            self.assertEqual(len(self.numbers(loader)), 5)
        with self.assertRaisesRegex(shuffleload.ShuffleloadValueError, "40 samples"):
            self.loader(after=41)
