// From where a run continues whose workers were lost, and which runs cannot.
#include "tools/run/run_restart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/train/checkpoint.h"
#include "tools/common/scratch.h"

namespace rannc::tools {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string write(const RunFlags& flags, const char* name) {
  const std::string folder = checkpoints_of(flags.output) / name;
  EXPECT_TRUE(runtime::write_checkpoint_part(folder, 0, {}).ok());
  EXPECT_TRUE(runtime::finish_checkpoint(folder, {0}, {}).ok());
  return folder;
}

TEST(RunRestart, FindsTheLatestCheckpoint) {
  const Scratch scratch;
  RunFlags flags;
  flags.output = scratch.path() + "/run";
  const RunRestart restart(flags);
  EXPECT_EQ(restart.checkpoint(), "");
  write(flags, "step-9");
  const std::string latest = write(flags, "step-10");
  EXPECT_EQ(restart.checkpoint(), latest);
  EXPECT_EQ(RunRestart(flags).checkpoint(), latest) << "as with --resume";
}

// Its workers may be lost before the other run is removed, or in the middle of that.
TEST(RunRestart, NeverContinuesTheRunThatIsReplaced) {
  const Scratch scratch;
  RunFlags flags;
  flags.output = scratch.path() + "/run";
  flags.replace = true;
  const std::string first = write(flags, "step-2"), last = write(flags, "step-4");
  const RunRestart restart(flags);
  EXPECT_EQ(restart.checkpoint(), "");
  fs::remove_all(last);
  EXPECT_EQ(restart.checkpoint(), "");
  fs::remove_all(first);
  EXPECT_EQ(restart.checkpoint(), "");
  write(flags, "step-2");
  EXPECT_EQ(restart.checkpoint(), first) << "this one is of the new run, in spite of its name";
}

TEST(RunRestart, IsForWorkersOfThisProgram) {
  const auto refused = [](const char* transport, const std::optional<WorkerEnvironment>& worker) {
    const Result<void> checked = check_restarts(*runtime::find_transport(transport), worker);
    return checked.ok() ? std::string() : checked.diagnostic().str();
  };
  EXPECT_EQ(refused("auto", std::nullopt), "");
  WorkerEnvironment worker;
  worker.report_pipe = 3;
  EXPECT_EQ(refused("gloo", worker), "");
  worker.report_pipe = -1;
  worker.launcher = "torchrun";
  EXPECT_THAT(refused("gloo", worker), HasSubstr("started by torchrun"));
  worker.by_flags = true;
  EXPECT_THAT(refused("gloo", worker), HasSubstr("started by hand"));
  EXPECT_THAT(refused("local", std::nullopt), HasSubstr("transport local runs all devices in one process"));
}

TEST(RunRestart, CommandThatContinuesIsThatOfTheRun) {
  RunFlags flags;
  EXPECT_EQ(resume_command(flags, std::nullopt), "") << "of a library";
  flags.command = {"rannc-run", "my model.rannc", "--replace", "--resume-shared", "other.run"};
  EXPECT_EQ(resume_command(flags, std::nullopt), "rannc-run 'my model.rannc' --resume-shared other.run --resume");
  flags.command = {"rannc-run", "m.rannc", "--resume"};
  EXPECT_EQ(resume_command(flags, std::nullopt), "rannc-run m.rannc --resume");
  EXPECT_EQ(resume_command(flags, WorkerEnvironment()), "the same command and --resume") << "of another launcher";
}

TEST(RunRestart, FailureNamesTheCheckpointOfThisRunOnly) {
  const Scratch scratch;
  RunFlags flags;
  flags.output = scratch.path() + "/run";
  flags.command = {"rannc-run", "m.rannc"};
  const auto failure = [&](const RunRestart& restart) {
    return with_resume_command(error("it failed"), flags, restart, std::nullopt).str();
  };
  const RunRestart first(flags);
  EXPECT_EQ(failure(first), "error: it failed") << "before training";
  const std::string written = write(flags, "step-1");
  EXPECT_THAT(failure(first), HasSubstr("note: continue from " + written + " with: rannc-run m.rannc --resume"));
  EXPECT_EQ(failure(RunRestart(flags)), "error: it failed") << "the command continues from there already";
}

}  // namespace
}  // namespace rannc::tools
