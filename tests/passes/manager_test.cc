// The manager and the pipeline.
#include "passes/manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ir/base/replacement.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "passes/fusions/fuse.h"
#include "passes/pipeline.h"
#include "passes/planning/form_atoms.h"
#include "passes/planning/mark_constants.h"
#include "passes/simplify/remove_dead.h"
#include "tests/support/random_graph.h"

namespace rannc::passes {
namespace {

using ir::Graph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A pass of the test's own.
class Custom : public Pass {
 public:
  using Body = Result<Outcome> (*)(Graph&, PassContext&);
  Custom(std::string name, Body body) : name_(std::move(name)), body_(body) {}
  std::string_view name() const override { return name_; }
  Result<Outcome> run(Graph& graph, PassContext& context) const override { return body_(graph, context); }

 private:
  std::string name_;
  Body body_;
};

Result<Outcome> nothing(Graph&, PassContext&) { return Outcome{}; }
Result<Outcome> rename(Graph& graph, PassContext&) {
  graph.set_name("renamed");
  return Outcome{true};
}
Result<Outcome> damage(Graph& graph, PassContext&) {
  graph.add_output(ValueId(123456));
  return Outcome{true};
}
Result<Outcome> refuse(Graph&, PassContext&) { return error("the model is wrong"); }
Result<Outcome> crash(Graph&, PassContext&) {
  RANNC_CHECK(1 + 1 == 3) << "arithmetic";
  return Outcome{};
}

PassManager manager_of(std::initializer_list<std::pair<std::string, Custom::Body>> passes) {
  PassManager manager;
  for (const auto& [name, body] : passes) manager.add(std::make_unique<Custom>(name, body));
  return manager;
}

TEST(Manager, RunsInOrderAndTimes) {
  Graph graph = testing::random_graph({.seed = 1});
  PassContext context;
  const RunReport report = manager_of({{"one", nothing}, {"two", rename}, {"three", nothing}}).run(graph, context);
  EXPECT_TRUE(report.ok());
  ASSERT_EQ(report.times.size(), 3u);
  EXPECT_EQ(report.times[1].pass, "two");
  EXPECT_TRUE(report.times[1].changed);
  EXPECT_FALSE(report.times[2].changed);
  EXPECT_THAT(report.time_table(), HasSubstr("changed    two"));
  EXPECT_EQ(graph.name(), "renamed");
}

TEST(Manager, ShowsWhatIsAskedFor) {
  const auto shown = [](const ManagerOptions& options) {
    Graph graph = testing::random_graph({.seed = 1});
    PassContext context;
    std::vector<std::string> names;
    manager_of({{"one", nothing}, {"two", rename}})
        .run(graph, context, options, [&](std::string_view pass, const std::string& text) {
          names.emplace_back(pass);
          EXPECT_EQ(text, ir::print(graph));
        });
    return names;
  };
  EXPECT_THAT(shown({}), ElementsAre());
  EXPECT_THAT(shown({.print_after = {"one"}}), ElementsAre("one"));
  EXPECT_THAT(shown({.print_changed = true}), ElementsAre("two"));
  EXPECT_THAT(shown({.print_after = {"one", "two"}, .print_changed = true}), ElementsAre("one", "two"));
}

TEST(Manager, PrintAfterAnUnknownPassIsAnError) {
  Graph graph = testing::random_graph({.seed = 1});
  PassContext context;
  const RunReport report = manager_of({{"one", nothing}}).run(graph, context, {.print_after = {"onw"}});
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.failure->message, HasSubstr("onw"));
}

TEST(Manager, AGraphThatDoesNotHoldIsTheUsersFault) {
  Graph graph = testing::random_graph({.seed = 1});
  graph.add_output(ValueId(123456));
  PassContext context;
  const RunReport report = manager_of({{"one", nothing}}).run(graph, context);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.failure->rule, "G7");
  EXPECT_FALSE(report.internal);
}

TEST(Manager, APassThatBreaksARuleIsOurFaultAndIsReproduced) {
  Graph graph = testing::random_graph({.seed = 1});
  const Graph before = graph.clone();
  PassContext context;
  const RunReport report = manager_of({{"one", rename}, {"two", damage}, {"three", nothing}}).run(graph, context);
  ASSERT_FALSE(report.ok());
  EXPECT_TRUE(report.internal);
  EXPECT_EQ(report.failure->rule, "G7");
  EXPECT_THAT(report.failure->str(), HasSubstr("in pass two"));
  EXPECT_THAT(report.reproducer, HasSubstr("// rannc-opt '--pass=one,two' FILE\n"));
  EXPECT_TRUE(equal(ir::parse_graph(report.reproducer, "r.rir").value(), before));
}

TEST(Manager, DiagnosticsAndCrashesAreToldApart) {
  for (const auto body : {&refuse, &crash}) {
    Graph graph = testing::random_graph({.seed = 1});
    PassContext context;
    const RunReport report = manager_of({{"it", body}}).run(graph, context);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.internal, body == &crash);
    EXPECT_THAT(report.failure->str(), HasSubstr(body == &crash ? "arithmetic" : "the model is wrong"));
    EXPECT_FALSE(report.reproducer.empty());
  }
}

TEST(Manager, FactsOfAGraphThatWasChangedAreDropped) {
  for (const auto& [body, kept] : {std::pair{&nothing, true}, std::pair{&rename, false}}) {
    Graph graph = testing::random_graph({.seed = 1});
    PassContext context;
    PassManager manager;
    manager.add(std::make_unique<MarkConstants>());
    manager.add(std::make_unique<FormAtoms>());
    manager.add(std::make_unique<Custom>("last", body));
    EXPECT_TRUE(manager.run(graph, context).ok());
    EXPECT_EQ(context.constant.has_value(), kept);
    EXPECT_EQ(context.atoms.has_value(), kept);
  }
}

// --- pipeline

TEST(Pipeline, EveryPassHasItsSpelling) {
  for (const std::string& name : pass_names()) {
    std::string spelling = name;
    if (name == "set-precision") spelling += "{f64}";
    if (name == "mixed-precision") spelling += "{bf16}";
    if (name == "attach-loss" || name == "open-loss") spelling += "{mse(output=y)+cross_entropy(axis=1)}";
    if (name == "lose-gradients") spelling += "{padding=table:-1,stop=a,stop=b,strict=c}";
    const auto pass = make_pass(spelling);
    ASSERT_TRUE(pass.ok()) << pass.diagnostic().str();
    EXPECT_EQ((*pass)->name(), name);
    EXPECT_EQ((*pass)->spelling(), spelling);
  }
}

/// Header that declares a pass. Fusions share a class, so theirs is the file of their rules.
std::string header_that_names(const std::string& example, const std::string& pass) {
  const std::string folder = RANNC_SOURCE_DIR "/passes", declared = "return \"" + pass + "\"";
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const bool is_rules = pass.starts_with("fuse-") && entry.path().parent_path() == folder + "/fusions";
    if (entry.path().extension() != (is_rules ? ".cc" : ".h")) continue;
    const std::string text = read_file(entry.path()).value();
    if (text.find(example) != std::string::npos && (is_rules || text.find(declared) != std::string::npos))
      return entry.path();
  }
  return "";
}

/// Passes on the second line of an example: `// rannc-opt --pass 'a,b'`.
std::string passes_of(const std::string& text) {
  const std::string start = "\n// rannc-opt --pass ";
  const size_t at = text.find(start);
  if (at != text.find('\n') || at == std::string::npos) return "";
  std::string passes = text.substr(at + start.size(), text.find('\n', at + 1) - at - start.size());
  std::erase(passes, '\'');
  return passes;
}

// What the examples print is compared by tests/passes/golden/compare.
TEST(Pipeline, EveryPassHasAnExampleThatItsHeaderNames) {
  for (const std::string& name : pass_names()) {
    std::string example = "tests/passes/golden/" + name + ".rir";
    std::replace(example.begin() + 20, example.end(), '-', '_');
    SCOPED_TRACE(example);
    EXPECT_NE(header_that_names(example, name), "") << "the header of " << name << " does not name its example";

    const std::string text = read_file(std::filesystem::path(RANNC_SOURCE_DIR) / example).value();
    ASSERT_NE(text, "") << "there is no such file";
    const auto manager = make_passes(passes_of(text));
    ASSERT_TRUE(manager.ok()) << manager.diagnostic().str();
    Graph graph = ir::parse_graph(text, example).value();
    PassContext context;
    const RunReport report = manager->run(graph, context);
    ASSERT_TRUE(report.ok()) << report.failure->str();
    const auto done = std::find_if(report.times.begin(), report.times.end(), [&](const PassTime& time) {
      return time.pass.substr(0, time.pass.find('{')) == name;
    });
    ASSERT_NE(done, report.times.end()) << "the example does not run " << name;
    EXPECT_TRUE(done->changed || context.constant || context.atoms || context.joint) << "the example shows no effect";
  }
}

TEST(Pipeline, LeavesOutWhatIsAskedForAndMayBe) {
  const auto names = [](std::set<std::string> excluded) {
    return standard_pipeline({.baked = BakedBatch{}, .excluded = std::move(excluded)}).names();
  };
  const std::vector<std::string> all = names({});
  for (const std::string& pass : optional_passes()) {
    EXPECT_THAT(all, ::testing::Contains(pass));
    EXPECT_THAT(names({pass}), ::testing::Not(::testing::Contains(pass)));
    EXPECT_EQ(names({pass}).size(), all.size() - static_cast<size_t>(std::count(all.begin(), all.end(), pass)));
  }
  auto others = optional_passes();
  for (const Fusion& fusion : fusions()) EXPECT_EQ(std::erase(others, pass_name(fusion)), 1U) << fusion.name;
  EXPECT_THAT(others, ElementsAre("rebatch", "fold-constants", "cse", "hoist-uniform", "join-pieces", "snap-constants",
                                  "merge-slices", "remove-dead", "mark-constants"));
}

TEST(Pipeline, ListsAreSplitOutsideBraces) {
  const auto manager = make_passes("infer-shapes,attach-loss{mse(output=y,weight=2)},form-atoms");
  ASSERT_TRUE(manager.ok()) << manager.diagnostic().str();
  EXPECT_THAT(manager->names(), ElementsAre("infer-shapes", "attach-loss", "form-atoms"));
  for (const char* wrong :
       {"", "no-such", "form-atoms{", "form-atoms{x}", "set-precision", "set-precision{i64}", "form-atoms,",
        "lose-gradients{stop}", "lose-gradients{padding=t}", "lose-gradients{padding=t:x}"}) {
    EXPECT_FALSE(make_passes(wrong).ok()) << wrong;
  }
}

TEST(Pipeline, RunsRandomGraphsToAtomsAndIsIdempotent) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = testing::random_graph({.seed = seed});
    const std::string output(graph.value(graph.outputs()[0]).name);
    PassContext context;
    const PipelineOptions options{.losses = {{.kind = LossSpec::Kind::kMse, .output = output}}};
    const RunReport report = standard_pipeline(options).run(graph, context);
    ASSERT_TRUE(report.ok()) << report.failure->str();
    ASSERT_TRUE(context.atoms.has_value());
    const std::string once = ir::print(graph);
    const RunReport again = standard_pipeline({}).run(graph, context);
    ASSERT_TRUE(again.ok()) << again.failure->str();
    EXPECT_EQ(ir::print(graph), once);
    for (const PassTime& time : again.times) EXPECT_FALSE(time.changed) << time.pass;
  }
}

}  // namespace
}  // namespace rannc::passes
