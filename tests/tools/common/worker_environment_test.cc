// Who is a launched worker: torchrun's, Open MPI's and Slurm's variables.
#include "tools/common/worker_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace rannc::tools {
namespace {

using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

constexpr const char* kKnown[] = {"RANK",
                                  "WORLD_SIZE",
                                  "LOCAL_RANK",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TORCHELASTIC_USE_AGENT_STORE",
                                  "TORCHELASTIC_RESTART_COUNT",
                                  "OMPI_COMM_WORLD_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                  "PMIX_NAMESPACE",
                                  "OMPI_MCA_ess_base_jobid",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "MPI_LOCALRANKID",
                                  "MPI_LOCALNRANKS",
                                  "SLURM_JOB_NODELIST",
                                  "SLURM_STEP_NODELIST",
                                  "SLURM_PROCID",
                                  "SLURM_LOCALID",
                                  "SLURM_NTASKS",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_STEP_NUM_NODES",
                                  "SLURM_JOB_ID",
                                  "SLURM_STEP_ID",
                                  kListeningSocketVariable,
                                  kReportPipeVariable};

Result<std::optional<WorkerEnvironment>> read_in(const Variables& variables, const WorkerFlags& flags = {}) {
  for (const char* name : kKnown) unsetenv(name);
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  return read_worker_environment(flags);
}

WorkerEnvironment worker_in(const Variables& variables, const WorkerFlags& flags = {}) {
  const auto found = read_in(variables, flags);
  EXPECT_TRUE(found.ok()) << found.diagnostic().str();
  EXPECT_TRUE(!found.ok() || found->has_value());
  return found.ok() && *found ? **found : WorkerEnvironment{};
}

bool is_worker_in(const Variables& variables) {
  const auto found = read_in(variables);
  EXPECT_TRUE(found.ok()) << found.diagnostic().str();
  return found.ok() && found->has_value();
}

std::string error_in(const Variables& variables, const WorkerFlags& flags = {}) {
  const auto found = read_in(variables, flags);
  return found.ok() ? "" : found.diagnostic().str();
}

const Variables kTorchrun = {
    {"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
const Variables kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "prterun-node7-123@1"}};
const Variables kSrun = {{"SLURM_PROCID", "1"},         {"SLURM_NTASKS", "2"},  {"SLURM_STEP_NUM_TASKS", "2"},
                         {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "0"}};
// What sbatch sets for the script itself.
const Variables kBatchShell = {
    {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_JOB_ID", "77"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST(WorkerEnvironment, NumberAmongTheWorkersOfAMachine) {
  EXPECT_EQ(worker_in(kTorchrun).local_rank, 1u);
  EXPECT_EQ(worker_in(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}})).local_rank, 0u);
  EXPECT_EQ(worker_in(with(kSrun, {{"SLURM_LOCALID", "0"}})).local_rank, 0u);
  EXPECT_EQ(worker_in(kSrun).local_rank, 1u) << "that of the run";
  EXPECT_THAT(error_in(with(kTorchrun, {{"LOCAL_RANK", "4"}})), HasSubstr("LOCAL_RANK"));
  for (const char* outer : {"0", "7"}) {  // of the program that started the launcher
    EXPECT_EQ(worker_in(with(kTorchrun, {{kReportPipeVariable, "5"}, {"LOCAL_RANK", outer}})).local_rank, 3u);
  }
}

TEST(WorkerEnvironment, NothingSaysSo) {
  EXPECT_FALSE(is_worker_in({}));
  EXPECT_FALSE(is_worker_in({{"RANK", "0"}}));
  EXPECT_FALSE(is_worker_in(with(kTorchrun, {{"WORLD_SIZE", "1"}, {"RANK", "0"}})));
}

TEST(WorkerEnvironment, OfTorchrun) {
  const WorkerEnvironment worker =
      worker_in(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_EQ(worker.launcher, "torchrun");
  EXPECT_EQ(worker.rank, 3U);
  EXPECT_EQ(worker.workers, 4U);
  EXPECT_EQ(worker.master_address, "node7");
  EXPECT_EQ(worker.master_port, 29500);
  EXPECT_TRUE(worker.torch_store);
  EXPECT_EQ(worker.torch_round, "2");
  EXPECT_FALSE(worker_in(kTorchrun).torch_store);
}

TEST(WorkerEnvironment, OfMpirunOnOneMachine) {
  const WorkerEnvironment worker = worker_in(kMpirun);
  EXPECT_EQ(worker.rank, 1U);
  EXPECT_EQ(worker.workers, 2U);
  EXPECT_EQ(worker.master_address, "127.0.0.1");
  EXPECT_GE(worker.master_port, 1024);
  EXPECT_EQ(worker_in(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"}})).master_port, worker.master_port);
  EXPECT_NE(worker_in(with(kMpirun, {{"PMIX_NAMESPACE", "prterun-node7-124@1"}})).master_port, worker.master_port);
}

TEST(WorkerEnvironment, OfSrun) {
  const WorkerEnvironment worker = worker_in(kSrun);
  EXPECT_EQ(worker.launcher, "srun");
  EXPECT_EQ(worker.rank, 1U);
  EXPECT_EQ(worker.master_address, "127.0.0.1");
  EXPECT_EQ(worker_in(with(kSrun, {{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "5000"}})).master_address, "node7");
}

TEST(WorkerEnvironment, OfSrunOnSeveralMachines) {
  const Variables machines = with(kSrun, {{"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "other[1-4]"}});
  const auto first_of = [&](const char* list) {
    return worker_in(with(machines, {{"SLURM_STEP_NODELIST", list}})).master_address;
  };
  EXPECT_EQ(worker_in(machines).master_address, "other1");
  EXPECT_EQ(first_of("node7,node8"), "node7");
  EXPECT_EQ(first_of("node[07-09,12],login1"), "node07");
  EXPECT_EQ(first_of("node[3,5]-ib,login1"), "node3-ib");
  EXPECT_EQ(first_of("a,node[1-2]"), "a");
  EXPECT_EQ(worker_in(machines).master_port, worker_in(with(machines, {{"SLURM_PROCID", "0"}})).master_port);
}

TEST(WorkerEnvironment, OfMpiexec) {
  const Variables mpiexec = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}};
  const WorkerEnvironment worker = worker_in(mpiexec, {.master = "node7:5000"});
  EXPECT_EQ(worker.launcher, "mpiexec");
  EXPECT_EQ(worker.rank, 1U);
  EXPECT_EQ(worker.workers, 2U);
  EXPECT_EQ(worker.local_rank, 0U);
  EXPECT_EQ(worker.master_port, 5000);
  EXPECT_THAT(error_in(mpiexec), HasSubstr("--master HOST:PORT"));
  EXPECT_EQ(worker_in(with(mpiexec, kSrun)).launcher, "srun") << "whose PMI library sets the same variables";
  EXPECT_EQ(worker_in(with(with(mpiexec, kSrun), {{"MPI_LOCALNRANKS", "2"}}), {.master = "a:1"}).launcher, "mpiexec");
}

TEST(WorkerEnvironment, OfFlags) {
  const WorkerEnvironment worker = worker_in(kTorchrun, {.rank = 1, .world = 2, .master = "[::1]:29500"});
  EXPECT_TRUE(worker.by_flags);
  EXPECT_EQ(worker.rank, 1U);
  EXPECT_EQ(worker.workers, 2U);
  EXPECT_EQ(worker.master_address, "::1");
  EXPECT_EQ(worker.master_port, 29500);
  EXPECT_EQ(worker_in(kTorchrun, {.rank = 1, .world = 2}).master_address, "node7");
  EXPECT_EQ(worker_in({}, {.rank = 0, .world = 1}).workers, 1U);
  EXPECT_FALSE(worker_in(kTorchrun).by_flags);
}

TEST(WorkerEnvironment, MasterByFlagGoesBeforeTheLaunchers) {
  const Variables elastic = with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  const WorkerEnvironment worker = worker_in(elastic, {.master = "node1:7"});
  EXPECT_EQ(worker.master_address, "node1");
  EXPECT_FALSE(worker.torch_store) << "which listens elsewhere";
  EXPECT_EQ(worker.rank, 3U);
}

TEST(WorkerEnvironment, WrongFlagsAreNamed) {
  EXPECT_THAT(error_in({}, {.rank = 2, .world = 2, .master = "a:1"}), HasSubstr("--rank 2"));
  EXPECT_THAT(error_in({}, {.rank = 0, .world = 0, .master = "a:1"}), HasSubstr("--world 0"));
  EXPECT_THAT(error_in({}, {.rank = 0, .world = 2}), HasSubstr("--master"));
  EXPECT_THAT(error_in({}, {.rank = 0}), HasSubstr("--rank and --world"));
  EXPECT_THAT(error_in({}, {.master = "a:1"}), HasSubstr("no rank is known"));
  for (const char* master : {"a", "a:", ":1", "a:0", "a:70000", "a:1x"})
    EXPECT_THAT(error_in({}, {.rank = 0, .world = 2, .master = master}), HasSubstr("expected HOST:PORT")) << master;
}

TEST(WorkerEnvironment, ASecretIsTakenOnce) {
  EXPECT_EQ(take_secret().value(), "");
  setenv(kSecretVariable, "sixteen letters.", 1);
  const char* const kept = std::getenv(kSecretVariable);
  EXPECT_EQ(take_secret().value(), "sixteen letters.");
  EXPECT_EQ(std::string(kept, 16), std::string(16, '\0')) << "as ps shows it";
  EXPECT_EQ(take_secret().value(), "");
  setenv(kSecretVariable, "15 letters, no.", 1);
  const auto refused = take_secret();
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.diagnostic().str(), HasSubstr("'RANNC_SECRET': error: environment variable has 15 characters"));
  EXPECT_TRUE(worker_in(kTorchrun, {.insecure = true}).insecure);
  EXPECT_TRUE(worker_in({}, {.rank = 0, .world = 1, .insecure = true}).insecure);
  EXPECT_FALSE(worker_in(kTorchrun).insecure);
}

TEST(WorkerEnvironment, ABatchShellIsNoWorker) {
  EXPECT_FALSE(is_worker_in(kBatchShell));
  EXPECT_FALSE(is_worker_in(with(kBatchShell, {{"SLURM_STEP_NUM_TASKS", "1"}})));
}

// mpirun and torchrun are started by srun or within its allocation, never the other way round.
TEST(WorkerEnvironment, TheInnermostLauncherCounts) {
  EXPECT_EQ(worker_in(with(kTorchrun, kSrun)).launcher, "torchrun");
  EXPECT_EQ(worker_in(with(kMpirun, kSrun)).launcher, "mpirun");
  EXPECT_EQ(worker_in(with(kTorchrun, kMpirun)).workers, 4U);
}

TEST(WorkerEnvironment, OfOurLauncher) {
  const WorkerEnvironment worker = worker_in({{"RANK", "0"},
                                              {"WORLD_SIZE", "1"},
                                              {"MASTER_ADDR", "127.0.0.1"},
                                              {"MASTER_PORT", "4000"},
                                              {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                              {kListeningSocketVariable, "7"},
                                              {kReportPipeVariable, "8"}});
  EXPECT_EQ(worker.launcher, "rannc-run");
  EXPECT_EQ(worker.listening_socket, 7);
  EXPECT_EQ(worker.report_pipe, 8);
  EXPECT_FALSE(worker.torch_store) << "that is of who started our launcher";
}

TEST(WorkerEnvironment, WhatIsMissingOrMalformedIsNamed) {
  Variables no_rank = kTorchrun;
  no_rank.erase("RANK");
  EXPECT_THAT(error_in(no_rank), HasSubstr("RANK"));
  Variables no_port = kTorchrun;
  no_port.erase("MASTER_PORT");
  EXPECT_THAT(error_in(no_port), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(error_in(with(kTorchrun, {{"WORLD_SIZE", "many"}})), HasSubstr("'many'"));
  EXPECT_THAT(error_in(with(kTorchrun, {{"RANK", "4"}})), HasSubstr("up to 3"));
  EXPECT_THAT(error_in(with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}})), HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(error_in(with(kSrun, {{"SLURM_STEP_NUM_NODES", "2"}})), HasSubstr("MASTER_ADDR"));
}

}  // namespace
}  // namespace rannc::tools
