"""Executables of stages: started by hand on hosts that have one stage each, and by the variables of launchers."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import programs
import stage_runs


class ByHand(stage_runs.StageTest):
    def test_hosts_with_one_stage_run_as_rannc_run_does(self):
        reference, said = self.reference(4)
        outputs = self.run_by_hand(*self.training(4))
        found = [host.with_suffix(".run") for host in self.hosts]
        self.same_run(found[0], reference, 4)
        self.same_part(found[1], reference, 4, 1)
        self.assertFalse((found[1] / "losses.txt").exists())
        self.assertIn("loss ", outputs[0][0])
        self.assertEqual([line for line in said.stdout.splitlines() if "adam" in line],
                         [line for line in outputs[0][0].splitlines() if "adam" in line])
        self.assertEqual(sorted(path.name for path in (found[1] / "checkpoints" / "step-4").iterdir()),
                         ["device1.safetensors", "manifest.json"], "marks of the folder go away")

    def test_hosts_resume_and_evaluate(self):
        reference, _ = self.reference(3)
        self.run_by_hand(*self.training(3))
        self.reference(6, "--resume")
        self.run_by_hand(*self.training(6), "--resume")
        found = [host.with_suffix(".run") for host in self.hosts]
        self.same_run(found[0], reference, 6)
        self.same_part(found[1], reference, 6, 1)
        evaluation = ["--data", stage_runs.MLP / "batch.safetensors", "--evaluate", "--resume"]
        self.succeed("rannc-run", self.whole, "-o", reference, *evaluation)
        self.run_by_hand(*evaluation)
        self.assertEqual((found[0] / "outputs.safetensors").read_bytes(), (reference / "outputs.safetensors").read_bytes())
        with self.subTest("the parts of all hosts are one checkpoint"):
            export = ["rannc-run", self.whole, "-o", found[0], "--resume", "--export-weights", self.scratch / "weights.safetensors"]
            self.refuse(1, ["device1.safetensors is not in this folder: copy it from the host that wrote it"], *export)
            shutil.copy2(found[1] / "checkpoints/step-6/device1.safetensors", found[0] / "checkpoints/step-6")
            self.succeed(*export)
        with self.subTest("checkpoints of different steps"):
            shutil.rmtree(found[1] / "checkpoints" / "step-6")
            errors = [errors for _, errors in self.run_by_hand(*self.training(9), "--resume", code=1)]
            for each in errors:
                self.assertIn("worker 0 has --resume from step 6, worker 1 has 3", each)

    def test_replace_removes_the_runs_of_all_hosts(self):
        self.run_by_hand(*self.training(3))
        self.run_by_hand(*self.training(2), "--replace")
        for host in self.hosts:
            self.assertEqual([path.name for path in (host.with_suffix(".run") / "checkpoints").iterdir()], ["step-2"])

    def test_worker_zero_exports_with_the_files_of_all_stages(self):
        export = ["--export-weights", self.scratch / "weights.safetensors"]
        port = programs.free_port()
        alone = self.popen([self.hosts[0] / "stage0", *self.by_hand(0, port), *self.training(2), *export])
        _, errors = self.finish(alone, 1)
        self.assertIn("stage1.safetensors: error: file is missing", errors)
        self.hosts[0] = self.whole
        found = self.scratch / "shared"
        self.run_by_hand(*self.training(2), *export, "-o", found)
        self.succeed("rannc-run", self.whole, "-o", found, "--resume", "--export-weights", self.scratch / "again.safetensors")
        self.assertEqual((self.scratch / "weights.safetensors").read_bytes(), (self.scratch / "again.safetensors").read_bytes())


class Launched(stage_runs.StageTest):
    """One program for all ranks."""

    def launched(self, variables, *flags):
        reference, _ = self.reference(2)
        found = self.scratch / "run"
        self.succeed_all([self.popen([self.whole / "stage0", "-o", found, *self.training(2), *flags], **variables(rank))
                          for rank in range(2)])
        self.same_run(found, reference, 2)
        self.same_part(found, reference, 2, 1)

    def succeed_all(self, workers):
        for worker in workers:
            self.finish(worker)

    def test_variables_of_torchrun(self):
        port = programs.free_port()
        self.launched(lambda rank: {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                    "MASTER_PORT": f"{port}"})

    def test_variables_of_mpirun(self):
        self.launched(lambda rank: {"OMPI_COMM_WORLD_RANK": f"{rank}", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"},
                      "--master", f"127.0.0.1:{programs.free_port()}")

    def test_variables_of_mpiexec(self):
        self.launched(lambda rank: {"PMI_RANK": f"{rank}", "PMI_SIZE": "2"}, "--master", f"127.0.0.1:{programs.free_port()}")

    def test_variables_of_srun(self):
        self.launched(lambda rank: {"SLURM_PROCID": f"{rank}", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2",
                                    "SLURM_STEP_NUM_NODES": "2", "SLURM_LOCALID": "0", "SLURM_JOB_ID": f"{os.getpid()}",
                                    "SLURM_STEP_ID": "0", "SLURM_JOB_NODELIST": "localhost,other[1-3]"})

    def test_hosts_with_their_own_stage(self):
        """mpirun starts one path everywhere; a host has the program of stage 0 and the files of its own stage."""
        shutil.copy2(self.whole / "stage0", self.hosts[1] / "stage0")
        master = f"127.0.0.1:{programs.free_port()}"
        self.succeed_all([self.popen([host / "stage0", *self.training(2), "--master", master], OMPI_COMM_WORLD_RANK=f"{rank}",
                                     OMPI_COMM_WORLD_SIZE="2") for rank, host in enumerate(self.hosts)])


class Refused(stage_runs.StageTest):
    def refused(self, words, command, **variables):
        _, errors = self.finish(self.popen(command, **variables), 1)
        for word in words:
            self.assertIn(word, errors)

    def test_wrong_ranks(self):
        stage1 = [self.hosts[1] / "stage1", *self.training(2)]
        self.refused(["--rank 0 is not a device of stage 1, which runs on 1"], [*stage1, *self.by_hand(0, 1)])
        self.refused(["--rank 2: expected a number below that of the workers, --world 2"], [*stage1, *self.by_hand(2, 1)])
        self.refused(["the plan is for 2 devices, --world is 3"], [*stage1, "--rank", 1, "--world", 3, "--master", "127.0.0.1:1"])
        self.refused(["the plan is for 2 devices: start one process per device", "rannc-run",
                      f"note: with torchrun: torchrun --no-python --nproc-per-node 2 -- {stage1[0]} …"], stage1)
        self.refused(["--master: give HOST:PORT"], [*stage1, "--rank", 1, "--world", 2])
        self.refused(["--transport local: the program of a stage runs one device"],
                     [*stage1, *self.by_hand(1, 1), "--transport", "local"])

    def test_missing_files(self):
        (self.hosts[1] / "stage1.safetensors").unlink()
        command = [self.hosts[1] / "stage1", *self.training(2), *self.by_hand(1, 1)]
        self.refused(["stage1.safetensors: error: file is missing", "[B1]"], command)
        (self.hosts[1] / "manifest.json").unlink()
        self.refused(["stage1: error: is not in a bundle"], command)
        self.refused(["rannc-stage: error: is not in a bundle"], [programs.program("rannc-stage"), *self.training(2)])
        self.refused(["stage1.safetensors: error: file is missing: device 1 runs stage 1"], [self.hosts[0] / "stage0", *self.training(2)],
                     OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")

    def test_master_that_is_not_there(self):
        port = programs.free_port()
        self.refused(["[worker 1]", f"worker 1 of 2 could not join at 127.0.0.1:{port} within 1000 ms: worker 0 does not listen there"],
                     [self.hosts[1] / "stage1", *self.training(2, timeout=1), *self.by_hand(1, port)])

    def test_killed_peer(self):
        port = programs.free_port()
        workers = [self.popen([host / f"stage{rank}", *self.training(10**9), *self.by_hand(rank, port)])
                   for rank, host in enumerate(self.hosts)]
        losses = self.hosts[0].with_suffix(".run") / "losses.txt"
        limit = time.monotonic() + programs.HANG_SECONDS
        while not (losses.exists() and losses.read_text().count("\n") >= 5):
            self.assertIsNone(workers[0].poll(), "it ended by itself")
            self.assertLess(time.monotonic(), limit, "nothing happens")
            time.sleep(0.01)
        workers[0].send_signal(signal.SIGKILL)
        _, errors = self.finish(workers[1], 1)
        self.assertIn("worker 0 is gone", errors)


class Described(stage_runs.StageTest):
    def describe(self, *flags):
        return self.finish(self.popen([self.hosts[1] / "stage1", "--describe", *flags]))[0]

    def test_facts_of_a_stage(self):
        found = json.loads(self.describe("--json"))
        manifest = self.manifest()["files"]
        self.assertEqual((found["stage"], found["stages"], found["world"]), (1, 2, 2))
        self.assertEqual([device["rank"] for device in found["devices"]], [1])
        self.assertGreater(found["tasks"]["count"], 0)
        self.assertEqual({file["name"]: {"bytes": file["bytes"], "digest": file["digest"]} for file in found["files"]},
                         {name: manifest[name] for name in ["plan.rir", "stage1", "stage1.safetensors", "stage1.safetensors"]})
        tensors = programs.read_safetensors(self.whole / "stage1.safetensors")
        self.assertEqual(found["weights"]["bytes"], sum(len(data) for _, _, data in tensors.values()))
        self.assertEqual(found["micro_batch"], 4)
        for value in found["arguments"] + found["results"]:
            self.assertTrue(value["type"].startswith(("f32[", "i64[")), value)
            self.assertGreater(value["bytes"], 0)
        text = self.describe()
        for word in ["stage 1 of 2", "--rank 1 --world 2", found["tasks"]["first"], manifest["stage1"]["digest"],
                     found["arguments"][0]["name"], f"{found['weights']['bytes']} bytes"]:
            self.assertIn(word, text)

    def test_libtorch_of_a_link_in_the_bundle_comes_first(self):
        def libtorch():
            libraries = subprocess.run(["ldd", self.hosts[0] / "stage0"], capture_output=True, text=True, check=True).stdout
            return pathlib.Path(re.search(r"libtorch_cpu\S* => (\S+)", libraries).group(1))

        (self.hosts[0] / "libtorch").symlink_to(libtorch().parent)
        self.assertEqual(libtorch().parent, self.hosts[0] / "libtorch")
        self.describe()

    def test_neither_onnx_nor_protobuf_is_linked(self):
        libraries = subprocess.run(["ldd", self.hosts[0] / "stage0"], capture_output=True, text=True, check=True).stdout
        self.assertIn("libtorch_cpu", libraries)
        for foreign in ["onnx", "protobuf", "not found"]:
            self.assertNotIn(foreign, libraries.lower())


if __name__ == "__main__":
    programs.main()
