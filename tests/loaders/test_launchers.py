"""Four processes as mpirun and srun start them: each finds its rank in its environment, moves it by itself, and reads it."""
import os
import subprocess
import tempfile

import case
import harness
import torch_order
from case import COUNT, EPOCHS, LoaderCase, expected, recipe

WORLD, SLOW, DELAY = 4, 2, 0.004


class Launchers(LoaderCase):
    def set_up(self):
        """The mount, the command of one process, and its environment. Rank SLOW sleeps after each sample, half a second an
        epoch: the others are in the next one by then."""
        mount = self.photographs()
        file = self.tmp / "recipe.py"
        file.write_text(recipe("mpirun, srun"), encoding="utf-8")
        words = [case.PYTHON, case.HERE / "record.py", mount.where, "", self.tmp / "seen-{rank}.json", self.tmp / "scratch",
                 SLOW, DELAY]
        environment = self.environment(RECIPE=str(file), PYTHONPATH=str(harness.ROOT / "python"))
        for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"):
            environment.pop(name, None)
        return mount, [str(word) for word in words], environment

    def check(self, mount):
        ranks = [self.seen(rank) for rank in range(WORLD)]
        for rank, seen in enumerate(ranks):
            self.assert_order(seen, expected(rank, WORLD))
        share = len(ranks[0]) // EPOCHS
        for epoch in range(EPOCHS):
            read = sorted(sample for seen in ranks for sample, _ in seen[epoch * share:(epoch + 1) * share])
            order = torch_order.epoch_order(COUNT, case.SEED, epoch)
            self.assertEqual(read, sorted(order + order[:-COUNT % WORLD]))
        for rank in range(WORLD):
            self.assertEqual(mount.read(".control", "rank-%d-of-%d.epoch" % (rank, WORLD)).strip(), b"%d" % (EPOCHS - 1))
        self.assertEqual(mount.status()["repeated_epochs"], 0)

    @harness.needs_program("mpirun")
    @harness.limit(300)
    def test_mpirun_gives_each_process_its_rank_however_slow_one_is(self):
        mount, words, environment = self.set_up()
        # Open MPI keeps sockets in its folder, whose names are short.
        with tempfile.TemporaryDirectory(prefix="mpi-") as folder:
            # As in a batch job of Slurm's, whose script has rank 0.
            environment.update(SLURM_PROCID="0", SLURM_NTASKS=str(WORLD))
            environment.update(TMPDIR=folder, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
            # No other machine is asked for: nothing like ssh is looked for.
            result = harness.run(["mpirun", "-np", WORLD, "--oversubscribe", "--bind-to", "none", "--mca", "plm", "isolated",
                                  *words], 200, cwd=self.tmp, env=environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.check(mount)

    @harness.limit(300)
    def test_slurms_variables_give_each_process_its_rank_however_slow_one_is(self):
        mount, words, environment = self.set_up()
        started = []
        try:
            for rank in range(WORLD):
                # What srun sets; a job's variables alone, as a batch script has them, are no rank.
                own = {**environment, "SLURM_JOB_ID": "7", "SLURM_NTASKS": str(WORLD), "SLURM_PROCID": str(rank),
                       "SLURM_LOCALID": str(rank), "SLURM_NODEID": "0"}
                started.append(subprocess.Popen(words, cwd=self.tmp, env=own, text=True, stdin=subprocess.DEVNULL,
                                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            for process in started:
                said, _ = process.communicate(timeout=200)
                self.assertEqual(process.returncode, 0, said)
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                    process.communicate()
        self.check(mount)

    @harness.limit(300)
    def test_a_rank_that_is_none_of_the_launchers_ends_the_job_and_reads_nothing(self):
        _, words, environment = self.set_up()
        result = harness.run(words, 200, cwd=self.tmp, env={**environment, "SLURM_PROCID": "4", "SLURM_NTASKS": "4"})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("SLURM_PROCID is 4", result.stderr)
        self.assertFalse(os.path.exists(self.tmp / "seen-4.json"))
