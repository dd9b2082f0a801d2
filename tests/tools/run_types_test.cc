// What runs make of every value of a model is of the type that was inferred, at three sizes of the batch.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iostream>

#include "frontend/onnx/import.h"
#include "ir/op/op.h"
#include "passes/training/differentiate.h"
#include "runtime/aten/graph_run.h"
#include "runtime/aten/stored_tensor.h"
#include "runtime/aten/torch_types.h"
#include "runtime/data/dataset.h"
#include "runtime/engine/tensor.h"
#include "tests/frontend/support/shared_models.h"
#include "tools/check/reference.h"
#include "tools/compiler/compiler.h"

namespace rannc::test {
namespace {

namespace fs = std::filesystem;
using runtime::GraphValues;

/// Samples of a run, and what is taken off every other symbol's size in the folder's mini-batch.
struct Sizes {
  int64_t samples, shorter;
};
constexpr Sizes kSizes[] = {{1, 0}, {3, 2}, {7, 5}};

/// Sizes of symbols in the folder's mini-batch.
ir::Bindings sizes_of(const ir::Graph& graph, const runtime::Batch& batch) {
  ir::Bindings sizes;
  for (const ValueId input : graph.inputs()) {
    const auto given = batch.find(std::string(graph.value(input).name));
    const auto& shape = graph.type(input).shape;
    for (size_t axis = 0; given != batch.end() && shape && axis < shape->size(); ++axis) {
      if ((*shape)[axis].is_symbol()) sizes[(*shape)[axis].symbol_name()] = given->second->spec().shape[axis];
    }
  }
  return sizes;
}

/// The mini-batch's numbers, as many as asked for along each axis: from the start again where there are less.
at::Tensor resized(at::Tensor tensor, const std::vector<int64_t>& shape) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const auto at = static_cast<int64_t>(axis);
    tensor = tensor.index_select(at, at::arange(shape[axis]).remainder(tensor.size(at)));
  }
  return tensor;
}

Result<std::vector<int64_t>> shape_at(const ir::Graph& graph, ValueId value, const ir::Bindings& sizes) {
  const auto& shape = graph.type(value).shape;
  if (!shape) return error("nothing is known of the shape of %" + std::string(graph.value(value).name));
  std::vector<int64_t> extents;
  for (const ir::Dim& dim : *shape) {
    const auto extent = dim.evaluate(sizes);
    if (!extent) return error("%" + std::string(graph.value(value).name) + " has no size for " + dim.str());
    extents.push_back(*extent);
  }
  return extents;
}

/// Tensors of everything that no task makes.
Result<GraphValues> leaves(const ir::Graph& graph, const runtime::Batch& batch, const ir::Bindings& sizes) {
  GraphValues values(graph.value_count());
  for (const ValueId value : graph.values()) {
    const ir::Graph::Value& leaf = graph.value(value);
    if (leaf.producer.valid()) continue;
    const auto given = batch.find(std::string(leaf.name));
    const at::TensorOptions options(runtime::scalar_type(leaf.type.dtype));
    RANNC_ASSIGN(const std::vector<int64_t> shape, shape_at(graph, value, sizes));
    if (leaf.data.present()) {
      RANNC_ASSIGN(values[value.index()], runtime::to_tensor({leaf.type, leaf.data}));
    } else if (given != batch.end()) {
      values[value.index()] = resized(runtime::to_tensor(given->second), shape).to(options.dtype());
    } else {
      values[value.index()] = at::full(shape, leaf.kind == ir::ValueKind::kRandomInput ? 0.5 : 0.0, options);
    }
  }
  return values;
}

/// The element type that a run on a CPU has to make. There ATen keeps statistics of 16-bit floats in 16 bits, where
/// types are those of a GPU (`ir/op/rules/norms.h`): auxiliary results of normalisations, which only their own
/// gradients read.
ir::DType dtype_on_cpu(const ir::Graph& graph, ValueId value) {
  const ir::DType dtype = graph.type(value).dtype;
  const TaskId task = graph.producer(value);
  if (!task.valid() || graph.value(value).output_index == 0 || !graph.op(task).name.ends_with("_norm")) return dtype;
  const ir::DType of_x = graph.type(graph.inputs(task)[0]).dtype;
  return dtype == ir::DType::kF32 && ir::byte_size(of_x) == 2 ? of_x : dtype;
}

/// What a run made of a value beside its type.
struct Made {
  const ir::ValueType& type;
  ir::DType dtype;
  const at::Tensor& tensor;
  const ir::Bindings& sizes;
  int64_t samples;  ///< of the run; 0 where no symbol counts them
};

std::string fault_of_shape(const Made& made, const std::vector<int64_t>& expected) {
  if (made.tensor.scalar_type() != runtime::scalar_type(made.dtype)) return "another element type";
  if (made.tensor.sizes().vec() == expected) return "";
  return "the run made " + ir::str(ir::Shape(made.tensor.sizes().begin(), made.tensor.sizes().end())) +
         ", the type is " + ir::str(*made.type.shape);
}

std::string fault_of_layout(const Made& made) {
  const ir::BatchLayout& batch = made.type.batch;
  if (!batch.has_batch()) return "";
  const auto outer = batch.outer.evaluate(made.sizes), inner = batch.inner.evaluate(made.sizes);
  if (!outer || !inner) return "the place of its samples has no size";
  return *outer * made.samples * *inner == made.tensor.size(batch.axis) ? "" : "its samples do not fill their axis";
}

std::string fault_of_contents(const Made& made) {
  if (!made.type.contents) return "";
  const at::Tensor elements = made.tensor.reshape({-1}).to(at::kLong);
  if (elements.numel() != static_cast<int64_t>(made.type.contents->size()))
    return "another number of elements is known";
  for (int64_t i = 0; i < elements.numel(); ++i) {
    const auto known = (*made.type.contents)[static_cast<size_t>(i)].evaluate(made.sizes);
    if (!known || elements[i].item<int64_t>() != *known) {
      return "element " + std::to_string(i) + " is " + std::to_string(elements[i].item<int64_t>()) + ", known is " +
             (*made.type.contents)[static_cast<size_t>(i)].str();
    }
  }
  return "";
}

/// How much was compared.
struct Tally {
  size_t values = 0, symbolic = 0, contents = 0;
};

/// What a run at those sizes made otherwise than the types say: a line each, with the value's name.
Result<std::vector<std::string>> faults_of_types(const ir::Graph& graph, const runtime::Batch& batch,
                                                 const ir::Bindings& sizes, Tally& tally) {
  RANNC_ASSIGN(GraphValues values, leaves(graph, batch, sizes));
  RANNC_TRY(runtime::run_graph(graph, {.sizes = sizes}, values));
  const auto samples = sizes.find(graph.batch_symbol());
  std::vector<std::string> faults;
  for (const ValueId value : graph.values()) {
    const ir::ValueType& type = graph.type(value);
    RANNC_ASSIGN(const std::vector<int64_t> shape, shape_at(graph, value, sizes));
    const Made made{type, dtype_on_cpu(graph, value), *values[value.index()], sizes,
                    samples == sizes.end() ? 0 : samples->second};
    for (const std::string& fault : {fault_of_shape(made, shape), fault_of_layout(made), fault_of_contents(made)}) {
      if (!fault.empty()) faults.push_back(std::string(graph.value(value).name) + ": " + fault);
    }
    ++tally.values;
    for (const ir::Dim& dim : *type.shape) tally.symbolic += !dim.is_constant();
    tally.contents += type.contents.has_value();
  }
  return faults;
}

/// Runs a graph of the model's inputs at three sizes, or at that of the folder's mini-batch where nothing is left open.
void run(const ir::Graph& graph, const ir::Graph& model, const tools::CheckFolder& folder) {
  const auto batch = runtime::read_batch(folder.batch);
  ASSERT_TRUE(batch.ok()) << batch.diagnostic().str();
  const ir::Bindings usual = sizes_of(model, *batch);
  Tally tally;
  for (const Sizes& size : kSizes) {
    ir::Bindings sizes = usual;
    for (auto& [symbol, extent] : sizes) {
      extent = symbol == graph.batch_symbol() ? size.samples : std::max<int64_t>(1, extent - size.shorter);
    }
    const auto faults = faults_of_types(graph, *batch, sizes, tally);
    ASSERT_TRUE(faults.ok()) << faults.diagnostic().str();
    EXPECT_THAT(*faults, testing::IsEmpty());
    if (usual.empty()) break;
  }
  EXPECT_EQ(tally.symbolic == 0, usual.empty());
  std::cout << tally.values << " values, " << tally.symbolic << " dimensions of symbols, " << tally.contents
            << " values whose contents are known\n";
}

class RunTypes : public testing::TestWithParam<fs::path> {};

TEST_P(RunTypes, OfTheImportedGraph) {
  const auto folder = tools::read_model_folder(GetParam().string());
  ASSERT_TRUE(folder.ok()) << folder.diagnostic().str();
  const auto graph = frontend::import_onnx(folder->model);
  if (!graph.ok()) return;  // models_test.cc says which may be refused
  run(*graph, *graph, *folder);
}

TEST_P(RunTypes, OfThePreparedGraphAndItsBackwardPass) {
  const auto folder = tools::read_model_folder(GetParam().string());
  ASSERT_TRUE(folder.ok()) << folder.diagnostic().str();
  const auto prepared = tools::prepare_model(folder->model, {.loss = folder->loss});
  if (!prepared.ok()) return;
  run(prepared->graph, prepared->graph, *folder);
  if (prepared->graph.losses().empty()) return;
  const auto joint = passes::differentiate(prepared->graph);
  ASSERT_TRUE(joint.ok()) << joint.diagnostic().str();
  run(joint->graph, prepared->graph, *folder);
}

/// Of a graph of which one type is spoiled.
TEST(SpoiledTypes, AreFound) {
  const fs::path path = fs::path(RANNC_SOURCE_DIR) / "tests" / "data" / "small_gpt";
  const auto folder = tools::read_model_folder(path.string());
  ASSERT_TRUE(folder.ok()) << folder.diagnostic().str();
  const ir::Graph graph = frontend::import_onnx(folder->model).value();
  const runtime::Batch batch = runtime::read_batch(folder->batch).value();
  const ValueId value = graph.outputs()[0];
  const auto faults_with = [&](const std::function<void(ir::ValueType&)>& spoil) {
    ir::Graph spoiled = graph.clone();
    ir::ValueType type = graph.type(value);
    spoil(type);
    spoiled.set_type(value, std::move(type));
    Tally tally;
    return faults_of_types(spoiled, batch, {{graph.batch_symbol(), 3}}, tally).value();
  };
  const std::string name(graph.value(value).name);
  const ir::Dim samples = ir::Dim::symbol(graph.batch_symbol());
  EXPECT_THAT(faults_with([](ir::ValueType&) {}), testing::IsEmpty());
  EXPECT_THAT(faults_with([&](ir::ValueType& type) { (*type.shape)[0] = samples + 1; }),
              testing::ElementsAre(testing::StartsWith(name + ": the run made [3,")));
  EXPECT_THAT(faults_with([](ir::ValueType& type) { type.dtype = ir::DType::kF64; }),
              testing::ElementsAre(name + ": another element type"));
  EXPECT_THAT(faults_with([](ir::ValueType& type) { type.batch.inner = 2; }),
              testing::ElementsAre(name + ": its samples do not fill their axis"));
  EXPECT_THAT(faults_with([](ir::ValueType& type) { type.contents = ir::Contents{7}; }),
              testing::ElementsAre(name + ": another number of elements is known"));
}

TEST(PublishedTypes, AreThere) {
  if (!shared_models()) GTEST_SKIP() << "no ../shared/data/models and no RANNC_SHARED_DIR";
  EXPECT_GT(shared_model_folders().size(), 60U);
}

std::string folder_name(const testing::TestParamInfo<fs::path>& info) { return info.param.filename().string(); }

INSTANTIATE_TEST_SUITE_P(Small, RunTypes, testing::ValuesIn(small_model_folders()), folder_name);
INSTANTIATE_TEST_SUITE_P(Shared, RunTypes, testing::ValuesIn(shared_model_folders()), folder_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RunTypes);

}  // namespace
}  // namespace rannc::test
