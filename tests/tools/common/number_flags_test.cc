// Every flag of every program accepts only numbers of its range: none is read as another number, and none is ignored.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/tools/common/captured_program.h"
#include "tools/common/driver.h"
#include "tools/common/programs.h"
#include "tools/run/run_flags.h"

namespace rannc::tools {
namespace {

struct Program {
  std::vector<std::string> words;  ///< its name, and those that every command line has
  int (*main)(int, char**);
};

const std::vector<Program>& programs() {
  static const std::vector<Program> kPrograms = [] {
    std::vector<Program> all = {{{"rannc-check"}, check_main}, {{"rannc-compile"}, compile_main},
                                {{"rannc-opt"}, opt_main},     {{"rannc-profile"}, profile_main},
                                {{"rannc-run"}, run_main},     {{"rannc-stage"}, stage_main}};
    for (const char* const model : {"gpt", "bert", "resnet", "vgg", "unet", "amoebanet", "gnmt", "xlnet"})
      all.push_back({{"rannc-zoo", model}, zoo_main});
    return all;
  }();
  return kPrograms;
}

struct Flag {
  std::string name, type;  ///< `--steps`, `UINT`
  bool operator<(const Flag& other) const { return name < other.name; }
};

/// The flags with a value that `--help` lists.
std::vector<Flag> flags_of(const Program& program) {
  std::vector<std::string> words = program.words;
  words.emplace_back("--help");
  std::istringstream help(run_captured(program.main, words).printed);
  std::vector<Flag> found;
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  -")) continue;
    std::istringstream parts(line);
    std::string names, type;
    parts >> names >> type;
    const size_t end = type.find_first_of(":={");
    found.push_back({names.substr(names.rfind(',') + 1), type.substr(0, end)});
  }
  return found;
}

// What precedes a number in the value of a flag that is a text.
const std::map<std::string, std::string> kNumbersInTexts = {
    {"--assume", "symbol="},    {"--device", "cuda:"}, {"--dropout", "pattern="},     {"--input-value", "name="},
    {"--loss-weight", "name="}, {"--pin", "task="},    {"--padding-index", "table="}, {"--replicas", "1,"},
};
// Their texts are examined with the files that they describe: `tests/tools/check_flags_test.py`, `stage_test.py`,
// `listing_test.cc`, `passes/loss`, `passes/pipeline_test.cc`, `training_settings_test.py`.
const std::set<std::string> kExaminedLater = {"--cluster", "--group", "--input", "--loss",
                                              "--master",  "--pad",   "--pass",  "--size"};
// Names, choices and paths.
const std::set<std::string> kWithoutNumbers = {
    "--accumulate-as",
    "--batch-symbol",
    "--block-partitioner",
    "--buffer",
    "--bundle",
    "--compare",
    "--costs",
    "--cxx",
    "--data",
    "--database",
    "--decay",
    "--dtype",
    "--emit",
    "--engine",
    "--export-weights",
    "--form",
    "--freeze",
    "--kernels",
    "--kind",
    "--list",
    "--load-library",
    "--log",
    "--loss-graph",
    "--loss-input",
    "--loss-log",
    "--lost",
    "--matmul-precision",
    "--metric",
    "--model",
    "--muon-rate",
    "--no-fuse",
    "--objective",
    "--optimizer",
    "--output",
    "--output-name",
    "--plan",
    "--planner",
    "--precision",
    "--print-after",
    "--rebuild",
    "--recompute",
    "--reproducer",
    "--resume-shared",
    "--same-symbol",
    "--schedule",
    "--schedule-file",
    "--shard-optimizer",
    "--skip-pass",
    "--stop-gradient",
    "--strict-bounds",
    "--summary",
    "--tensorboard",
    "--text",
    "--tie",
    "--together",
    "--token-type",
    "--tokenizer",
    "--tokens",
    "--train",
    "--transport",
    "--untie",
    "--validate",
    "--weights",
};
const std::vector<std::string> kWrong = {
    "-1", "", "abc", "1e400", "nan", "18446744073709551616", "99999999999999999999", "0x10", "inf", "1 2", "-0.5"};

/// Why a flag accepts one of `kWrong`; empty: it must not.
std::string reason_to_accept(const std::string& flag, const std::string& value) {
  const bool large = value.starts_with("18446744073709551616") || value.starts_with("99999999999999999999");
  const std::set<std::string> kUnbounded = {"--learning-rate", "--weight-decay", "--clip-norm", "--input-value",
                                            "--loss-weight"};
  if (kUnbounded.contains(flag) && large) return "any finite number of that sign is a setting";
  const bool negative = value == "-1" || value == "-0.5";
  if ((flag == "--input-value" || flag == "--loss-weight") && negative) return "inputs and weights may be negative";
  if (flag == "--padding-index" && value == "-1") return "PyTorch counts rows from the end, too";
  return "";
}

class NumberFlags : public ::testing::TestWithParam<size_t> {};

TEST_P(NumberFlags, AcceptNumbersOfTheirRangesOnly) {
  const Program& program = programs()[GetParam()];
  size_t numbers = 0;
  for (const Flag& flag : flags_of(program)) {
    const bool text = flag.type == "TEXT";
    if (!text && flag.type != "UINT" && flag.type != "INT" && flag.type != "FLOAT") continue;
    const auto prefix = kNumbersInTexts.find(flag.name);
    if (text && (kWithoutNumbers.contains(flag.name) || kExaminedLater.contains(flag.name))) continue;
    ASSERT_TRUE(!text || prefix != kNumbersInTexts.end()) << flag.name << " is in none of the lists of this test";
    ++numbers;
    for (const std::string& value : kWrong) {
      if (!reason_to_accept(flag.name, value).empty()) continue;
      std::vector<std::string> words = program.words;
      words.insert(words.end(), {flag.name, text ? prefix->second + value : value});
      const Captured done = run_captured(program.main, words);
      SCOPED_TRACE(fmt::format("{} {} '{}': {}", program.words.back(), flag.name, words.back(), done.complained));
      EXPECT_EQ(done.code, 2);
      EXPECT_NE(done.complained.find(flag.name), std::string::npos);
      const bool names_range = done.complained.find("expected") != std::string::npos ||
                               done.complained.find("is not between") != std::string::npos;
      EXPECT_TRUE(names_range);
    }
  }
  EXPECT_TRUE(numbers > 0 || program.words.front() == "rannc-opt") << "the help is not understood";
}

INSTANTIATE_TEST_SUITE_P(Programs, NumberFlags, ::testing::Range<size_t>(0, 13), [](const auto& info) {
  std::string name = programs()[info.param].words.back();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(NumbersOfFlags, AreThoseThatAreWritten) {
  CLI::App app;
  RunFlags flags;
  add_run_flags(app, flags);
  app.parse("--steps 010 --learning-rate 1e-3 --seed 18446744073709551615");
  EXPECT_EQ(flags.steps, 10U) << "not an octal number";
  EXPECT_EQ(flags.settings.learning_rate, 1e-3);
  EXPECT_EQ(flags.settings.seed, UINT64_MAX);
  EXPECT_EQ(run_captured(run_main, {"rannc-run", "--steps", "9007199254740993", "no.rannc"}).complained,
            "rannc-run: error: --steps: expected a whole number from 0 to 9007199254740992, found '9007199254740993'\n"
            "Try 'rannc-run --help'.\n");
}

TEST(NumbersOfFlags, HaveARangeOrTheProgramDoesNotStart) {
  const auto main = [](int argc, char** argv) {
    CLI::App app("a program", "program");
    uint32_t number = 0;
    app.add_option("--number", number);
    return run_tool(app, argc, argv, [] { return Result<void>(); });
  };
  const Captured done = run_captured(main, {"program"});
  EXPECT_EQ(done.code, kInternal);
  EXPECT_NE(done.complained.find("--number has no range"), std::string::npos) << done.complained;
}

TEST(NumbersOfFlags, OfALossNeedTheLoss) {
  for (const char* const flag : {"--loss-weight", "--loss-input"}) {
    const Captured done = run_captured(compile_main, {"rannc-compile", "no.onnx", flag, "a=1"});
    EXPECT_EQ(done.code, 2);
    EXPECT_NE(done.complained.find("--loss-graph"), std::string::npos) << done.complained;
  }
}

}  // namespace
}  // namespace rannc::tools
