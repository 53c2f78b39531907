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
        launchers = [(TORCHRUN, (3, 8)), (OPEN_MPI, (1, 2)), (PMI, (0, 4)), (SLURM, (5, 16)), ({}, (0, 1))]
        for number, (variables, expected) in enumerate(launchers):
            self.assertEqual(shufflefs.rank_and_world(variables), expected)
            later = {name: value for others, _ in launchers[number + 1 :] for name, value in others.items()}
            self.assertEqual(shufflefs.rank_and_world({**later, **variables}), expected if variables else (0, 1))

    def test_mpirun_in_a_slurm_batch_job_is_mpiruns_rank_and_not_the_batch_scripts(self):
        for tasks in ("4", "1"):
            batch = {"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": tasks}
            for rank in range(4):
                for prefix in ("OMPI_COMM_WORLD_", "PMI_"):
                    started = {f"{prefix}RANK": str(rank), f"{prefix}SIZE": "4", "PMIX_RANK": str(rank)}
                    self.assertEqual(shufflefs.rank_and_world({**batch, **started}), (rank, 4))
        # A batch script without --ntasks has no SLURM_NTASKS.
        batch = {"SLURM_PROCID": "0", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4"}
        self.assertEqual(shufflefs.rank_and_world(batch), (3, 4))

    def test_srun_with_pmi_is_one_rank_by_two_names(self):
        own = {"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "PMI_RANK": "5", "PMI_SIZE": "16", "PMIX_RANK": "5"}
        self.assertEqual(shufflefs.rank_and_world(own), (5, 16))
        del own["PMI_RANK"], own["PMI_SIZE"]
        self.assertEqual(shufflefs.rank_and_world(own), (5, 16))

    def test_two_ranks_of_which_one_is_a_mistake_are_both_named(self):
        srun = {"SLURM_PROCID": "5", "SLURM_NTASKS": "8", "SLURM_STEP_ID": "0"}
        by_hand = {"RANK": "0", "WORLD_SIZE": "8"}
        for variables, words in (
            ({**srun, **by_hand}, "^RANK is 0 .* SLURM_PROCID 5, both of 8"),
            ({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", **by_hand}, "^RANK is 0 .* OMPI_COMM_WORLD_RANK 3"),
            ({**srun, "SLURM_PROCID": "0", "PMIX_RANK": "3"}, "SLURM_PROCID is 0 .* PMIX_RANK 3"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                shufflefs.rank_and_world(variables)
        # torchrun, one on each node, deals ranks as its processes come.
        self.assertEqual(shufflefs.rank_and_world({**srun, **by_hand, "TORCHELASTIC_RUN_ID": "none"}), (0, 8))
        # A batch script that starts processes by itself.
        for step in ({}, {"SLURM_STEP_ID": str(2**32 - 5)}):
            batch = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8", **step}
            self.assertEqual(shufflefs.rank_and_world({**batch, "RANK": "3", "WORLD_SIZE": "8"}), (3, 8))
        # RANK of MPI's rank, in a batch job.
        own = {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "RANK": "3", "WORLD_SIZE": "8"}
        self.assertEqual(shufflefs.rank_and_world({**srun, **own}), (3, 8))

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
        for wrong in (
            *({"world": 2}, {"rank": -1}, {"after": -1}, {"epoch": -1}, {"epoch": "1"}, {"epoch": True}),
            *({"epoch": 2**64}, {"epoch": 10**5000}, {"rank": 1.0}),
        ):
            with self.assertRaises(ValueError):
                shufflefs.set_epoch(self.tmp, **{"epoch": 7, **wrong})

    def test_numbers_of_others_are_numbers(self):
        class Number:
            def __index__(self):
                return 3

        (self.tmp / ".control").mkdir()
        path = self.tmp / ".control" / "rank-3-of-3.epoch"
        path.touch()
        shufflefs.set_epoch(self.tmp, Number(), rank=Number(), world=Number(), after=Number())
        self.assertEqual(path.read_bytes(), b"3 after 3\n")
        self.assertEqual(shufflefs.rank_path("/mnt", Number(), environment=TORCHRUN), "/mnt/epoch-3/rank-3-of-8")
