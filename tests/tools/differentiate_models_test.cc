// Real exports: gradients that their backward pass, written as tasks, gives are those of their references.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/gradient/vjp.h"
#include "ir/op/op.h"
#include "passes/training/differentiate.h"
#include "runtime/aten/stored_tensor.h"
#include "runtime/aten/totals.h"
#include "runtime/data/batch.h"
#include "runtime/data/dataset.h"
#include "runtime/data/numbers.h"
#include "runtime/engine/tensor.h"
#include "tests/codegen/joint_run.h"
#include "tests/frontend/support/shared_models.h"
#include "tools/check/reference.h"
#include "tools/compiler/compiler.h"

namespace rannc::test {
namespace {

namespace fs = std::filesystem;
using runtime::GraphValues;

/// A folder's model in float64, with its mini-batch.
struct Model {
  tools::CheckFolder folder;
  ir::Plan plan;  ///< graph and mini-batch alone
  runtime::Batch batch;
  ir::Bindings symbols;
};

Result<Model> read(const fs::path& path) {
  Model model;
  RANNC_ASSIGN(model.folder, tools::read_check_folder(path.string()));
  const compiler::ReadOptions options{.loss = model.folder.loss,
                                      .precision = compiler::Precision::kFloat64,
                                      .untied = tools::tied_copies(model.folder),
                                      .skipped_passes = {"snap-constants"}};  // the file's own numbers
  RANNC_ASSIGN(tools::PreparedModel prepared, tools::prepare_model(model.folder.model, options));
  model.folder.parted = prepared.parted;
  model.folder.stand_ins = prepared.folded.stand_ins;
  model.folder.recomputed = !prepared.folded.recomputed.empty();
  model.plan.graph = std::move(prepared.graph);
  model.plan.mini_batch = model.folder.samples;
  model.plan.training = true;
  RANNC_ASSIGN(const runtime::Batch raw, runtime::read_batch(model.folder.batch));
  model.batch = runtime::to_model_types(model.plan, raw);
  RANNC_ASSIGN(model.symbols, runtime::bind_batch(model.plan, model.batch));
  return model;
}

Result<GraphValues> leaves(const ir::Joint& joint) {
  GraphValues values(joint.graph.value_count());
  for (const ValueId value : joint.graph.values()) {
    const ir::Graph::Value& leaf = joint.graph.value(value);
    if (leaf.producer.valid() || leaf.kind == ir::ValueKind::kInput || !leaf.data.present()) continue;
    RANNC_ASSIGN(values[value.index()], runtime::to_tensor({leaf.type, leaf.data}));
  }
  return values;
}

tools::OwnTensor own(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.to(at::kDouble).contiguous();
  return {dense.sizes().vec(), {dense.data_ptr<double>(), dense.data_ptr<double>() + dense.numel()}};
}

Result<tools::OwnNumbers> run(const Model& model, const ir::Joint& joint) {
  RANNC_ASSIGN(GraphValues values, leaves(joint));
  RANNC_ASSIGN(JointRun run, JointRun::load(joint, std::move(values)));
  JointRun::MicroBatch whole{GraphValues(joint.graph.value_count()), model.symbols};
  for (const auto& [name, value] : model.batch) {
    const ValueId input = joint.graph.find(name);
    if (input.valid()) whole.inputs[input.index()] = runtime::to_tensor(value);
  }
  RANNC_ASSIGN(const runtime::TotalsRun totals, runtime::TotalsRun::load(model.plan.graph));
  const auto input = [&](const std::string& name) -> Result<at::Tensor> {
    return runtime::to_tensor(model.batch.at(name));
  };
  RANNC_ASSIGN(const runtime::Tensors counts, totals.count(input, model.symbols));
  RANNC_ASSIGN(const runtime::Tensors coefficients, totals.coefficients(counts));
  std::vector<double> seeds;
  for (const ir::LossTerm& term : model.plan.graph.losses()) {
    seeds.push_back(term.loss(1, totals.scale(term, coefficients)));
  }
  RANNC_ASSIGN(const JointRun::Step step, run.step({&whole, 1}, seeds));
  tools::OwnNumbers numbers;
  RANNC_ASSIGN(const int64_t derived, kept_bytes(joint, model.symbols));
  EXPECT_NEAR(static_cast<double>(step.kept_bytes), static_cast<double>(derived), 0.02 * static_cast<double>(derived));
  numbers.loss = 0;
  for (size_t term = 0; term < seeds.size(); ++term)
    *numbers.loss += seeds[term] * step.numerators[term].item<double>();
  std::map<std::string, at::Tensor> sums;
  for (const ValueId value : joint.graph.values()) {
    if (joint.graph.kind(value) == ir::ValueKind::kParameter)
      sums[std::string(joint.graph.value(value).name)] =
          at::zeros_like(runtime::to_tensor({joint.graph.type(value), joint.graph.value(value).data}).value());
  }
  for (size_t i = 0; i < joint.gradients.size(); ++i)
    sums[std::string(joint.graph.value(joint.gradients[i].parameter).name)] += step.gradients[i];
  for (const auto& [name, sum] : sums) numbers.gradients[name] = own(sum);
  return numbers;
}

class DifferentiateModels : public ::testing::TestWithParam<fs::path> {};

TEST_P(DifferentiateModels, HaveTheReferencesGradients) {
  const auto model = read(GetParam());
  ASSERT_TRUE(model.ok()) << model.diagnostic().str();
  if (model->plan.graph.losses().empty()) GTEST_SKIP() << "evaluated alone";
  const auto joint = passes::differentiate(model->plan.graph);
  ASSERT_TRUE(joint.ok()) << joint.diagnostic().str();
  const auto wrong = ir::verify(*joint, model->plan.graph);
  ASSERT_TRUE(wrong.empty()) << wrong[0].str();
  for (const TaskId task : joint->graph.tasks()) {
    const auto vjp = ir::vjp_of(joint->graph, task);  // recurrent layers say so in their entries
    EXPECT_TRUE(!vjp || vjp->op->gradient != nullptr) << joint->graph.op(task).name << " has no rule";
  }
  auto numbers = run(*model, *joint);
  ASSERT_TRUE(numbers.ok()) << numbers.diagnostic().str();
  auto folder = model->folder;
  folder.outputs.clear();  // those are the forward pass's
  const tools::CheckResult found = tools::compare(folder, *numbers, {});
  EXPECT_GT(found.compared_gradients, 0U);
  for (const std::string& failure : found.failures) ADD_FAILURE() << failure;
}

std::vector<fs::path> folders() {
  std::vector<fs::path> all = small_model_folders();
  for (const fs::path& path : shared_model_folders()) {
    if (fs::exists(path / "reference.safetensors")) all.push_back(path);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, DifferentiateModels, ::testing::ValuesIn(folders()), [](const auto& info) {
  std::string name = info.param.filename().string() + "_" + std::to_string(info.index);
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace rannc::test
