"""Which rank a process is, and what that is called in a mount."""

import os

import shufflefs
from case import Case

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "8"}
SLURM = {"SLURM_PROCID": "5", "SLURM_NTASKS": "16"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
PMI = {"PMI_RANK": "0", "PMI_SIZE": "4"}


class Ranks(Case):
    pictures = 0

    def test_each_launcher_tells_and_the_first_in_the_order_counts(self):
        launchers = [(TORCHRUN, (3, 8)), (SLURM, (5, 16)), (OPEN_MPI, (1, 2)), (PMI, (0, 4)), ({}, (0, 1))]
        for number, (variables, expected) in enumerate(launchers):
            self.assertEqual(shufflefs.rank_and_world(variables), expected)
            later = {name: value for others, _ in launchers[number + 1 :] for name, value in others.items()}
            self.assertEqual(shufflefs.rank_and_world({**later, **variables}), expected if variables else (0, 1))

    def test_the_environment_is_the_processs_own_where_none_is_given(self):
        self.addCleanup(os.environ.pop, "RANK")
        self.addCleanup(os.environ.pop, "WORLD_SIZE")
        os.environ.update(TORCHRUN)
        self.assertEqual(shufflefs.rank_and_world(), (3, 8))
        self.assertEqual(shufflefs.rank_path("/mnt"), "/mnt/current/rank-3-of-8")

    def test_half_a_launcher_is_an_error_and_a_world_alone_is_none(self):
        for variables in ({"RANK": "3"}, {"SLURM_PROCID": "1"}, {"OMPI_COMM_WORLD_RANK": "0"}, {"PMI_RANK": "1"}):
            with self.assertRaisesRegex(ValueError, next(iter(variables))):
                shufflefs.rank_and_world({**variables, **({} if "RANK" in variables else {"WORLD_SIZE": "4"})})
        # As in a shell of salloc's, outside of any step.
        self.assertEqual(shufflefs.rank_and_world({"SLURM_NTASKS": "16"}), (0, 1))

    def test_what_is_no_rank_is_named(self):
        for rank, world in (("8", "8"), ("-1", "8"), ("x", "8"), ("0", ""), ("\u0663", "8")):
            with self.assertRaisesRegex(ValueError, "RANK|WORLD_SIZE"):
                shufflefs.rank_and_world({"RANK": rank, "WORLD_SIZE": world})

    def test_paths_name_epoch_world_and_view(self):
        for how, path in (
            ({}, "/mnt/current/rank-3-of-8"),
            ({"epoch": 0}, "/mnt/epoch-0/rank-3-of-8"),
            ({"epoch": 7, "view": "tar"}, "/mnt/epoch-7/rank-3-of-8.tar"),
            ({"view": "keys"}, "/mnt/current/rank-3-of-8.keys"),
            ({"view": "classes"}, "/mnt/current/rank-3-of-8.classes"),
            ({"view": "list"}, "/mnt/current/rank-3-of-8.list"),
        ):
            self.assertEqual(shufflefs.rank_path("/mnt", environment=TORCHRUN, **how), path)
        for how in ({"view": ".tar"}, {"epoch": -1}, {"epoch": "7"}):
            with self.assertRaises(ValueError):
                shufflefs.rank_path("/mnt", environment=TORCHRUN, **how)

    def test_set_epoch_writes_the_control_file_of_its_rank_at_once(self):
        (self.tmp / ".control").mkdir()
        for how, name, text in (
            ({}, "epoch", b"7\n"),
            ({"rank": 2}, "rank-2.epoch", b"7\n"),
            ({"rank": 2, "world": 4}, "rank-2-of-4.epoch", b"7\n"),
            ({"rank": 0, "after": 40000}, "rank-0.epoch", b"7 after 40000\n"),
        ):
            path = self.tmp / ".control" / name
            path.touch()
            shufflefs.set_epoch(self.tmp, 7, **how)
            self.assertEqual(path.read_bytes(), text)
            path.unlink()
            with self.assertRaises(FileNotFoundError) as told:
                shufflefs.set_epoch(str(self.tmp), 7, **how)
            self.assertEqual(told.exception.filename, str(path))
        for wrong in ({"world": 2}, {"rank": -1}, {"after": -1}, {"epoch": -1}, {"epoch": "1"}):
            with self.assertRaises(ValueError):
                shufflefs.set_epoch(self.tmp, **{"epoch": 7, **wrong})
