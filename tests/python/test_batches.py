"""What batches hold, and that others share their memory for as long as they like."""

import array
import ctypes
import gc
import itertools
import pickle
import random
import threading
import unittest.mock

import case
import shuffleload
from case import Case, needs_module
from shuffleload import _library, _memory


def shades(batch):
    """Of uint8 pictures: each one's, from the library's memory."""
    return [batch.row(i)[0] for i in range(len(batch))]


def held_batches(loader):
    """How many more batches can be taken while everything that lives is in use."""
    taken = []
    try:
        for batch in loader:
            taken.append(batch)
    except shuffleload.ShuffleloadError:
        pass
    return len(taken)


class Content(Case):
    def test_pictures_labels_names_and_places_are_the_folders_in_order(self):
        with self.loader() as loader:
            at = 0
            for batch in loader:
                numbers = list(range(at, at + len(batch)))
                self.assertEqual(shades(batch), numbers)
                self.assertEqual(batch.labels.tolist(), [10 * number for number in numbers])
                self.assertEqual(list(batch.labels), batch.labels.tolist())
                self.assertEqual(batch.labels[-1], 10 * numbers[-1])
                self.assertEqual(batch.names, [f"{number:03}.png" for number in numbers])
                self.assertEqual(batch.keys, [f"{number:03}" for number in numbers])
                self.assertEqual(batch.positions.tolist(), numbers)
                self.assertEqual(batch.statuses.tolist(), [shuffleload.Status.GOOD] * len(batch))
                self.assertEqual((batch.epoch, batch.number, batch.after), (0, at // 8, at + 8))
                self.assertEqual((batch.images.shape, batch.images.dtype), ((8, 8, 8, 3), "uint8"))
                self.assertIsNone(batch.lengths)
                self.assertIsNone(batch.mask)
                at += len(batch)
            self.assertEqual(at, self.pictures)

    def test_negative_labels_are_labels_and_a_missing_one_is_none_of_them(self):
        texts = {0: b"-1", 1: b"-100", 2: b"0", 3: b"none", 4: b"-9223372036854775807"}
        for number, text in texts.items():
            (self.folder / f"{number:03}.cls").write_bytes(text)
        (self.folder / "005.cls").unlink()
        with self.loader() as loader:
            labels = next(iter(loader)).labels.tolist()
            self.assertEqual(labels, [-1, -100, 0, shuffleload.NO_LABEL, 1 - 2**63, shuffleload.NO_LABEL, 60, 70])
            self.assertEqual(shuffleload.NO_LABEL, -(2**63))

    def test_floats_are_normalised_and_in_planes(self):
        with self.loader(output="float32_nchw", mean=(0, 0.5, 0), deviation=(1, 0.5, 2)) as loader:
            batch = next(iter(loader))
            self.assertEqual((batch.images.shape, batch.images.dtype), ((8, 3, 8, 8), "float32"))
            values = array.array("f", bytes(batch.row(7)))
            for plane, expected in enumerate((7 / 255, (7 / 255 - 0.5) / 0.5, 7 / 255 / 2)):
                self.assertAlmostEqual(values[plane * 64], expected, places=6)

    def test_bytes_have_lengths_and_a_mask(self):
        for number, size in enumerate((3, 0, 200)):
            (self.tmp / f"{number}.txt").write_bytes(bytes([65 + number]) * size)
        with self.loader(self.tmp, output="bytes", field="txt", mask=True, padding=7, length_most=100) as loader:
            (batch,) = loader
            self.assertEqual(batch.lengths.tolist(), [3, 0, 100])
            self.assertEqual([bytes(batch.row(i)) for i in range(3)], [b"AAA", b"", b"C" * 100])
            self.assertEqual(batch.data.shape, (3, 100))
            self.assertEqual(batch.data.strides, (128, 1))
            self.assertEqual(batch.statuses.tolist(), [0, 0, shuffleload.Status.CUT])
            self.assertEqual(batch.mask.shape, batch.data.shape)
            with self.assertRaises(ValueError):
                batch.data.view()
            with self.assertRaises(AttributeError):
                batch.images  # noqa: B018

    def test_samples_that_are_left_out_come_last_and_are_told(self):
        (self.folder / "001.png").write_bytes(b"no picture")
        with self.loader(bad="skip") as loader:
            batch = next(iter(loader))
            self.assertEqual((batch.count, batch.asked, len(batch)), (7, 8, 7))
            self.assertEqual(shades(batch), [0, 2, 3, 4, 5, 6, 7])
            self.assertEqual(batch.names[-1], "001.png")
            self.assertLess(batch.statuses[-1], 0)
            self.assertEqual(batch.labels.shape, (7,))
            with self.assertRaises(IndexError):
                batch.row(7)
            del batch
            self.assertIn("001.png", loader.stats().last_bad)

    def test_batches_without_a_good_sample_have_empty_arrays(self):
        for path in self.folder.glob("*.png"):
            path.write_bytes(b"no picture")
        with self.loader(bad="skip") as loader:
            batch = next(iter(loader))
            self.assertEqual((len(batch), batch.labels.tolist(), list(batch.labels)), (0, [], []))
            self.assertTrue(batch)
            self.assertEqual(len(batch.images.view()), 0)

    def test_what_is_a_loaders_memory_is_not_pickled(self):
        with self.loader() as loader:
            batch = next(iter(loader))
            for thing in (loader, batch, batch.images):
                with self.assertRaises(TypeError) as told:
                    pickle.dumps(thing)
                self.assertIn("pickle", str(told.exception))


class Shared(Case):
    """numpy, torch and others have the library's own memory."""

    def address(self, batch, name="data"):
        return getattr(_library.BatchStruct.from_address(batch._lease.batch.value), name)

    @needs_module("numpy")
    def test_numpy_arrays_are_the_same_memory(self):
        import numpy

        for output, kind in (("uint8_nhwc", "uint8"), ("float32_nchw", "float32"), ("float16_nchw", "float16")):
            with self.loader(output=output) as loader:
                batch = next(iter(loader))
                for images in (batch.images.numpy(), numpy.asarray(batch.images), numpy.from_dlpack(batch.images)):
                    self.assertEqual(images.ctypes.data, self.address(batch))
                    self.assertEqual((str(images.dtype), images.shape), (kind, batch.images.shape))
                for name in ("labels", "statuses", "positions"):
                    self.assertEqual(getattr(batch, name).numpy().ctypes.data, self.address(batch, name))
                    self.assertEqual(getattr(batch, name).numpy().tolist(), getattr(batch, name).tolist())
                batch.images.numpy()[0] = 0  # a batch is its holder's
                self.assertEqual(bytes(batch.row(0)), bytes(len(batch.row(0))))

    @needs_module("numpy")
    def test_rows_of_bytes_stand_apart_in_numpy_too(self):
        (self.tmp / "0.txt").write_bytes(b"abc")
        (self.tmp / "1.txt").write_bytes(b"de")
        with self.loader(self.tmp, output="bytes", field="txt", mask=True) as loader:
            (batch,) = loader
            self.assertEqual(batch.data.numpy().tolist(), [[97, 98, 99], [100, 101, 0]])
            self.assertEqual(batch.mask.numpy().tolist(), [[1, 1, 1], [1, 1, 0]])
            self.assertEqual(batch.lengths.numpy().tolist(), [3, 2])

    @needs_module("torch")
    def test_torch_tensors_are_the_same_memory(self):
        import torch

        for output, kind in (("uint8_nhwc", torch.uint8), ("float32_nchw", torch.float32), ("float16_nchw", torch.float16)):
            with self.loader(output=output) as loader:
                batch = next(iter(loader))
                for images in (batch.images.torch(), torch.from_dlpack(batch.images), torch.asarray(batch.images)):
                    self.assertEqual(images.data_ptr(), self.address(batch))
                    self.assertEqual((images.dtype, tuple(images.shape)), (kind, batch.images.shape))
                for name in ("labels", "statuses", "positions"):
                    self.assertEqual(getattr(batch, name).torch().data_ptr(), self.address(batch, name))
                    self.assertEqual(getattr(batch, name).torch().tolist(), getattr(batch, name).tolist())

    @needs_module("torch")
    def test_a_tensor_that_goes_while_an_exception_is_under_way_leaves_the_exception(self):
        import torch

        with self.loader() as loader:
            for _ in range(3):
                with self.assertRaisesRegex(AttributeError, "no_such_thing"):
                    torch.from_dlpack(next(iter(loader)).images).no_such_thing  # noqa: B018
                with self.assertRaisesRegex(RuntimeError, "shape"):
                    torch.from_dlpack(next(iter(loader)).images).reshape(7, 7, 7)
            self.assertEqual(held_batches(loader), 2)

    def test_views_are_the_same_memory(self):
        with self.loader() as loader:
            batch = next(iter(loader))
            view = batch.images.view()
            self.assertEqual(ctypes.addressof(ctypes.c_char.from_buffer(view)), self.address(batch))
            self.assertEqual(len(view), batch.images.nbytes)
            view[0] = 99
            self.assertEqual(batch.row(0)[0], 99)


class Capsules(Case):
    """The protocol itself: what is asked for, and what is given."""

    VERSIONED = _library.ManagedTensorVersioned

    def setUp(self):
        super().setUp()
        self.made = self.loader()
        self.addCleanup(self.made.close)
        self.batch = next(iter(self.made))
        self.address = _library.BatchStruct.from_address(self.batch._lease.batch.value).data
        python = ctypes.PyDLL(None)
        self.name = python["PyCapsule_GetName"]
        self.name.restype, self.name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
        self.pointer = python["PyCapsule_GetPointer"]
        self.pointer.restype, self.pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)

    def tensor(self, capsule):
        name = self.name(capsule)
        kind = {b"dltensor": _library.ManagedTensor, b"dltensor_versioned": self.VERSIONED}[name]
        return kind.from_address(self.pointer(capsule, name))

    def test_the_version_is_the_consumers(self):
        for asked, kind in (
            (None, _library.ManagedTensor),
            ((0, 8), _library.ManagedTensor),
            ((1, 0), self.VERSIONED),
            ((2, 5), self.VERSIONED),
        ):
            tensor = self.tensor(self.batch.images.__dlpack__(max_version=asked))
            self.assertIsInstance(tensor, kind)
            self.assertEqual(tensor.tensor.data, self.address)
            if kind is self.VERSIONED:
                self.assertEqual((tensor.major, tensor.flags), (1, 0))

    def test_a_copy_is_made_when_asked_for_and_says_so(self):
        for wanted in (None, False):
            self.assertEqual(self.tensor(self.batch.images.__dlpack__(copy=wanted)).tensor.data, self.address)
        capsule = self.batch.images.__dlpack__(copy=True, max_version=(1, 1))
        tensor = self.tensor(capsule)
        self.assertNotEqual(tensor.tensor.data, self.address)
        self.assertEqual(tensor.flags, 2)
        size = self.batch.images.nbytes
        self.assertEqual(ctypes.string_at(tensor.tensor.data, size), bytes(self.batch.images.view()))

    def test_the_device_is_the_hosts_and_another_is_refused(self):
        images = self.batch.images
        self.assertEqual(images.__dlpack_device__(), (1, 0))
        self.assertEqual(self.tensor(images.__dlpack__(dl_device=(1, 0))).tensor.device_type, 1)
        with self.assertRaises(BufferError):
            images.__dlpack__(dl_device=(2, 0))

    def test_there_is_no_stream_to_wait_for_on_the_host(self):
        images = self.batch.images
        for stream in (None, -1):
            self.tensor(images.__dlpack__(stream=stream))
        for stream in (0, 1, 2, 12345):
            with self.assertRaises(BufferError):
                images.__dlpack__(stream=stream)
        with self.assertRaises(TypeError):
            images.__dlpack__(stream="default")

    def asked(self, images, **how):
        """What the library is asked for by __dlpack__() of an array that is said to be elsewhere: (bits, stream)."""
        with unittest.mock.patch.object(_memory, "capsule") as capsule:
            images.__dlpack__(**how)
        return capsule.call_args.args[2:]

    def test_pinned_memory_is_the_cpus_unless_asked_for_and_takes_any_stream_as_its_batches_are_complete(self):
        images = self.batch.images
        images._device = (3, 0)
        self.assertEqual(images.__dlpack_device__(), (1, 0))
        as_cpu = _library.EXPORT_PINNED_AS_CPU
        for stream in (None, -1, 1, 2, 12345):
            self.assertEqual(self.asked(images, stream=stream), (as_cpu, None))
            self.assertEqual(self.asked(images, stream=stream, dl_device=(1, 0), copy=True), (as_cpu | 2, None))
            self.assertEqual(self.asked(images, stream=stream, dl_device=(3, 0), max_version=(1, 0)), (1, None))
        with self.assertRaises(BufferError):
            images.__dlpack__(dl_device=(2, 0))

    def test_in_a_gpus_memory_the_consumers_stream_is_told_and_the_host_cannot_look(self):
        images = self.batch.images
        images._device = (2, 1)
        self.assertEqual(images.__dlpack_device__(), (2, 1))
        for stream, handle in ((None, 0), (-1, 0), (1, 1), (2, 2), (12345, 12345)):
            self.assertEqual(self.asked(images, stream=stream), (0, handle))
            self.assertEqual(self.asked(images, stream=stream, max_version=(1, 0), dl_device=(2, 1)), (1, handle))
        for how in ({"stream": 0}, {"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 0)}):
            with self.assertRaises(BufferError):
                images.__dlpack__(**how)
        self.assertFalse(hasattr(images, "__array_interface__"))
        with self.assertRaises(BufferError):
            images.view()

    @needs_module("numpy")
    def test_what_numpy_does_not_know_is_told(self):
        images = self.batch.images
        images._element = shuffleload._array.BFLOAT16
        with self.assertRaisesRegex(TypeError, "bfloat16"):
            images.numpy()
        images._device = (2, 0)
        with self.assertRaisesRegex(BufferError, "GPU 0"):
            images.numpy()

    def test_capsules_that_nobody_takes_go(self):
        capsules = [self.batch.images.__dlpack__(max_version=version) for version in (None, (1, 0)) for _ in range(10)]
        loader = self.made
        self.batch = None
        self.assertEqual(held_batches(loader), 1)
        del capsules
        self.assertEqual(held_batches(loader), 2)
        self.assertEqual(_memory._waiting, [])

    @needs_module("numpy")
    def test_a_consumer_that_refuses_tells_why_itself_and_the_tensor_goes(self):
        import numpy

        class Strange:
            """numpy destroys the capsule while its own exception is under way."""

            def __init__(self, images, tensor):
                self.images, self.tensor = images, tensor

            def __dlpack_device__(self):
                return (1, 0)

            def __dlpack__(self, **how):
                capsule = self.images.__dlpack__()
                self.tensor(capsule).tensor.lanes = 4
                return capsule

        with self.assertRaisesRegex((RuntimeError, BufferError), "lanes"):
            numpy.from_dlpack(Strange(self.batch.images, self.tensor))
        loader, self.batch = self.made, None
        self.assertEqual(held_batches(loader), 2)


class Lives(Case):
    """A batch stays as it is until the last of all that shares it is gone, and no longer."""

    def views(self, batch):
        """(name, thing, how to read its first byte) for all that there is here."""
        found = [
            ("batch", batch, shades),
            ("array", batch.images, lambda a: a.view()[0]),
            ("view", batch.images.view(), lambda v: v[0]),
        ]
        found.append(("row", batch.row(0), lambda v: v[0]))
        if case.importlib.util.find_spec("numpy"):
            import numpy

            found.append(("numpy", batch.images.numpy(), lambda a: int(a.flat[0])))
            found.append(("numpy, from_dlpack", numpy.from_dlpack(batch.images), lambda a: int(a.flat[0])))
        if case.importlib.util.find_spec("torch"):
            import torch

            found.append(("torch", torch.from_dlpack(batch.images), lambda t: int(t.flatten()[0])))
        return found

    def test_each_kind_of_view_keeps_its_batch_alone(self):
        kinds = 4
        for number in itertools.count():
            with self.loader() as loader:
                views = self.views(next(iter(loader)))
                kinds = len(views)
                name, kept, read = views[number]
                del views
                with self.subTest(name):
                    self.assertEqual(held_batches(loader), 1)
                    loader.set_epoch(1)
                    value = read(kept)
                    self.assertEqual(value, list(range(8)) if name == "batch" else 0)
                    del kept, value
                    self.assertEqual(held_batches(loader), 2)
            if number == kinds - 1:
                break

    def test_dropped_in_any_order_batches_stay_what_they_were(self):
        chance = random.Random(1)
        with self.loader(hold=5, batch_size=4) as loader:
            for epoch in range(8):
                loader.set_epoch(epoch)
                held = []
                for number, batch in enumerate(loader):
                    self.assertEqual(batch.number, number)
                    _, view, read = chance.choice(self.views(batch)[1:])
                    held.append((batch.labels, view, read, number))
                    del batch, view
                    if len(held) == 4:
                        held.pop(chance.randrange(4))
                    for labels, view, read, number in held:
                        self.assertEqual(labels[0], 40 * number)
                        self.assertEqual(read(view), 4 * number)
                    del labels, view, read

    def test_too_many_in_use_is_told_at_once_and_mends_when_one_goes(self):
        with self.loader(hold=2) as loader:
            batches = iter(loader)
            first, second = next(batches), next(batches)
            with self.assertRaises(shuffleload.ShuffleloadError) as told:
                next(batches)
            self.assertIn("hold=2", str(told.exception))
            first = None
            third = next(batches)
            self.assertEqual((second.number, third.number), (1, 2))
            self.assertIsNone(first)

    def test_three_batches_may_be_in_use_where_nothing_is_said(self):
        for nothing in (None, 0):
            with shuffleload.Loader(self.folder, batch_size=4, width=8, height=8, workers=1, hold=nothing) as loader:
                self.assertEqual(held_batches(loader), 3)

    def test_batches_in_reference_cycles_are_found(self):
        class Node:
            pass

        gc.disable()
        self.addCleanup(gc.enable)
        with self.loader() as loader:
            for batch in loader:
                node = Node()
                node.itself, node.batch = node, batch
            self.assertEqual(batch.number, 4)

    def test_threads_drop_and_export_at_any_time(self):
        faults = []

        def work(batch, expected):
            try:
                for _ in range(20):
                    batch.images.__dlpack__(max_version=(1, 0))
                    if shades(batch) != expected:
                        faults.append((shades(batch), expected))
            except BaseException as error:
                faults.append(error)

        with self.loader(hold=6) as loader:
            for epoch in range(3):
                loader.set_epoch(epoch)
                workers = []
                for batch in loader:
                    expected = list(range(8 * batch.number, 8 * batch.number + 8))
                    worker = threading.Thread(target=work, args=(batch, expected))
                    worker.start()
                    workers = [*workers, worker][-4:]
                    if len(workers) == 4:
                        workers[0].join()
                        del workers[0]
                    del batch, worker
                for worker in workers:
                    worker.join()
        self.assertEqual(faults, [])

    @case.slow
    def test_ten_thousand_batches_take_no_more_memory(self):
        def resident():
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * 4096

        def go_on(count):
            done = 0
            while done < count:
                loader.set_epoch(done)
                for batch in loader:
                    self.views(batch)
                    batch.images.__dlpack__()
                    batch.labels.tolist(), batch.names, batch.statuses[0]
                    done += 1

        with self.loader(batch_size=4) as loader:
            go_on(1000)
            gc.collect()
            before = resident()
            go_on(10000)
            gc.collect()
            self.assertLess(resident() - before, 1 << 20)
        self.assertLess(len(_memory._waiting), 4)
