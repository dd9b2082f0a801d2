// Programs of torch.export: what their archives say, and archives as strangers may hand them over.
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "frontend/torchscript/import.h"
#include "frontend/torchscript/internal/exported/exported_sizes.h"
#include "ir/base/replacement.h"
#include "ir/op/op.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "tests/support/tier.h"

// GCC 12 sees an uninitialized variable in nlohmann's iterators.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace rannc::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Records = std::map<std::string, std::string>;

constexpr const char* kProgram = "models/model.json";
constexpr const char* kWeights = "data/weights/model_weights_config.json";

Records records_of(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  Records found;
  for (const std::string& name : reader.getAllRecords()) {
    const auto [bytes, size] = reader.getRecord(name);
    found[name] = std::string(static_cast<const char*>(bytes.get()), size);
  }
  return found;
}

void write_archive(const std::string& path, const Records& records, bool packed = false) {
  fs::remove(path);
  caffe2::serialize::PyTorchStreamWriter writer(path);
  for (const auto& [name, bytes] : records) {
    if (!name.starts_with(".data")) writer.writeRecord(name, bytes.data(), bytes.size(), packed);
  }
  writer.writeEndOfFile();
}

/// A file of PyTorch itself, and copies of it that are changed.
class Exported : public ::testing::Test {
 protected:
  static std::string path() { return std::string(RANNC_SOURCE_DIR) + "/tests/data/small_exported/model.pt2"; }
  std::string changed_path() const { return ::testing::TempDir() + "exported-" + std::to_string(getpid()) + ".pt2"; }

  Result<frontend::Imported> changed(const Records& records, bool packed = false) const {
    write_archive(changed_path(), records, packed);
    return frontend::read_torch(changed_path());
  }
  /// What is said of the file once its program is changed; empty: it is read.
  std::string said(const std::function<void(Json&)>& change) const {
    Records records = records_of(path());
    Json program = Json::parse(records.at(kProgram));
    change(program);
    records[kProgram] = program.dump();
    const auto imported = changed(records);
    return imported.ok() ? std::string() : imported.diagnostic().str();
  }
  static Json& graph_of(Json& program) { return program.at("graph_module").at("graph"); }
  static Json& node(Json& program, const std::string& target) {
    for (Json& each : graph_of(program).at("nodes")) {
      if (each.at("target") == target) return each;
    }
    throw std::runtime_error("no node of " + target);
  }
};

void expect_says(const std::string& said, const std::string& wanted) {
  EXPECT_NE(said.find(wanted), std::string::npos) << said;
}

TEST_F(Exported, SaysItsInputsOutputsAndParameters) {
  const auto imported = frontend::read_torch(path());
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  const ir::Graph& graph = imported->graph;
  const auto wrong = ir::verify(graph);
  EXPECT_TRUE(wrong.empty()) << wrong.front().str();
  ASSERT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(graph.value(graph.inputs()[0]).name, "tokens");
  const ir::ValueType& tokens = graph.type(graph.inputs()[0]);
  EXPECT_EQ((*tokens.shape)[0], ir::Dim::symbol(graph.batch_symbol()));
  EXPECT_EQ((*tokens.shape)[1], ir::Dim(10));
  std::vector<std::string> outputs;
  for (const ValueId output : graph.outputs()) outputs.emplace_back(graph.value(output).name);
  EXPECT_EQ(outputs, (std::vector<std::string>{"logits", "parts_0", "parts_1"}));
  const auto& listed = imported->notes.stored.listed;
  EXPECT_EQ(listed.at("table.weight"), ir::ValueKind::kParameter);
  EXPECT_EQ(listed.at("norm.running_mean"), ir::ValueKind::kConstant);
  EXPECT_FALSE(listed.contains("out.weight")) << "it is the table";
  for (const char* name : {"places", "scale"}) EXPECT_FALSE(listed.contains(name)) << name << " is in no state_dict";
  const ValueId table = graph.find("table.weight");
  ASSERT_TRUE(table.valid());
  EXPECT_TRUE(graph.value(table).data.in_file()) << "weights stay in the archive";
}

TEST_F(Exported, TrainsWhatRequiresGradients) {
  Records records = records_of(path());
  Json weights = Json::parse(records.at(kWeights));
  EXPECT_EQ(frontend::read_torch(path())->notes.stored.listed.at("steps.weight_ih_l0"), ir::ValueKind::kParameter);
  weights["config"]["steps.weight_ih_l0"]["tensor_meta"]["requires_grad"] = false;
  records[kWeights] = weights.dump();
  EXPECT_EQ(changed(records)->notes.stored.listed.at("steps.weight_ih_l0"), ir::ValueKind::kConstant);
}

/// The records of a module whose weights are on the meta device.
Records without_numbers(Records records) {
  Json weights = Json::parse(records.at(kWeights));
  for (auto& [name, each] : weights["config"].items()) {
    records[std::string("data/weights/") + each["path_name"].get<std::string>()].clear();
    each["path_name"] = "weight_0";
    each["tensor_meta"]["device"]["type"] = "meta";
  }
  records[kWeights] = weights.dump();
  return records;
}

/// Weights in the memory of the caller, and the archive without them, in memory as well.
class InMemory : public Exported {
 protected:
  void SetUp() override {
    write_archive(changed_path(), without_numbers(records_of(path())));
    const std::string content = read_file(changed_path()).value();
    source_.bytes = held(std::vector<std::byte>(reinterpret_cast<const std::byte*>(content.data()),
                                                reinterpret_cast<const std::byte*>(content.data() + content.size())));
    source_.size = content.size();
    for (const auto& [name, kind] : known_.notes.stored.listed) {
      const std::vector<std::byte> bytes = known_.graph.value(known_.graph.find(name)).data.read().value();
      source_.tensors[name] = ir::TensorData::shared(held(bytes), bytes.size());
    }
    source_.tensors["out.weight"] = source_.tensors.at("table.weight");  // tied
    source_.tensors["norm.num_batches_tracked"] = ir::TensorData::shared(held(std::vector<std::byte>(8)), 8);
  }
  static std::shared_ptr<const std::byte> held(std::vector<std::byte> bytes) {
    const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    return {owner, owner->data()};
  }

  Result<frontend::Imported> imported() const {
    RANNC_ASSIGN(const frontend::ImportParsed parsed, frontend::parse_torch(source_, 1 << 30));
    return parsed({});
  }

  const frontend::Imported known_ = frontend::read_torch(path()).value();
  frontend::ModelSource source_{"net.pt2"};
};

TEST_F(InMemory, WeightsAreUsedWhereTheyAre) {
  const auto imported = this->imported();
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  EXPECT_EQ(imported->notes.stored.listed, known_.notes.stored.listed) << "a tie is known by its place";
  for (const auto& [name, kind] : known_.notes.stored.listed) {
    const ir::TensorData& data = imported->graph.value(imported->graph.find(name)).data;
    EXPECT_TRUE(data.is_shared()) << name;
    EXPECT_EQ(data.bytes().data(), source_.tensors.at(name).bytes().data()) << name;
  }
  const ir::Graph again = ir::parse_graph(ir::print(imported->graph), "text").value();
  EXPECT_FALSE(again.value(again.find("table.weight")).data.present()) << "text has no numbers of others";
}

TEST_F(InMemory, WeightsOfAnotherSizeOrInEachOtherAreErrors) {
  const ir::TensorData table = source_.tensors.at("table.weight");
  const auto own = std::shared_ptr<const std::byte>(held({}), table.bytes().data());
  source_.tensors["table.weight"] = source_.tensors["out.weight"] = ir::TensorData::shared(own, table.size() - 4);
  expect_says(imported().diagnostic().str(), "its type in the program has");
  const ir::TensorData steps = source_.tensors.at("steps.weight_ih_l0");
  ASSERT_LE(table.size() + 4, steps.size());
  const std::shared_ptr<const std::byte> inside(held({}), steps.bytes().data() + 4);
  source_.tensors["table.weight"] = source_.tensors["out.weight"] = ir::TensorData::shared(inside, table.size());
  expect_says(imported().diagnostic().str(), "steps.weight_ih_l0");
}

TEST_F(Exported, WeightsOfTheMetaDeviceAreAbsent) {
  const auto imported = changed(without_numbers(records_of(path())));
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  const auto known = frontend::read_torch(path());
  const auto& listed = imported->notes.stored.listed;
  EXPECT_EQ(listed.size(), known->notes.stored.listed.size() + 1) << "equal places are no tie, and a tie is not known";
  EXPECT_TRUE(listed.contains("out.weight"));
  const ValueId table = imported->graph.find("table.weight");
  ASSERT_TRUE(table.valid());
  EXPECT_FALSE(imported->graph.value(table).data.in_file());
  std::string remarks;
  for (const auto& each : imported->notes.remarks) remarks += each.message;
  expect_says(remarks, "--without-weights");
  // An archive that lacks the numbers of a single parameter is damaged.
  Records records = records_of(path());
  records["data/weights/weight_0"].clear();
  expect_says(changed(records).diagnostic().str(), "holds no numbers of it");
}

TEST_F(Exported, TellsTheAuthorsLineAndTheModule) {
  const auto imported = frontend::read_torch(path());
  ASSERT_TRUE(imported.ok());
  const ir::Graph& graph = imported->graph;
  bool found = false;
  for (const TaskId task : graph.tasks()) {
    if (graph.op(task).name != "core.lstm") continue;
    found = true;
    const Location& where = graph.location(task);
    EXPECT_NE(where.file.find("models.py"), std::string::npos) << where.file;
    EXPECT_GT(where.line, 0u);
    EXPECT_EQ(imported->notes.training.modules.at(where.node), "steps");
  }
  EXPECT_TRUE(found);
}

TEST_F(Exported, CallsInputsAsFlagsDo) {
  const auto called = [&](std::vector<std::string> flags) {
    return frontend::read_torch(path(), {.inputs = std::move(flags), .outputs = {"scores"}});
  };
  const auto imported = called({"ids=i64[rows,10]"});
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  EXPECT_EQ(imported->graph.batch_symbol(), "rows");
  EXPECT_TRUE(imported->graph.find("ids").valid());
  EXPECT_TRUE(imported->graph.find("scores").valid());
  const auto refused = [&](std::vector<std::string> flags) { return called(std::move(flags)).diagnostic().str(); };
  expect_says(refused({"ids=f32[rows,10]"}), "the file has i64");
  expect_says(refused({"ids=i64[rows,12]"}), "the file has i64");
  expect_says(refused({"ids=i64[rows]"}), "the file has i64");
  expect_says(refused({"ids=i64[rows,10]", "more=f32[rows]"}), "specify all of them or none");
}

TEST_F(Exported, IsReadWhateverItIsCalled) {
  const std::string other = ::testing::TempDir() + "exported_by_another_name.bin";
  fs::copy_file(path(), other, fs::copy_options::overwrite_existing);
  EXPECT_TRUE(frontend::read_torch(other).ok());
}

// --- what is refused

TEST_F(Exported, OtherLayoutsAreNamed) {
  Records records = records_of(path());
  Records other = records;
  other.erase(kProgram);
  expect_says(changed(other).diagnostic().str(), "holds no exported program");
  other["serialized_exported_program.json"] = "{}";
  expect_says(changed(other).diagnostic().str(), "older than 2.8");
  other = records;
  other["models/second.json"] = records.at(kProgram);
  expect_says(changed(other).diagnostic().str(), "holds 2 exported programs");
  other = records;
  other["byteorder"] = "big";
  expect_says(changed(other).diagnostic().str(), "byte order");
  other = records;
  other[kProgram] = "[1, 2";
  expect_says(changed(other).diagnostic().str(), "is no JSON object");
  other = records;
  other[kProgram] = "{\"a\": " + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  expect_says(changed(other).diagnostic().str(), "nested too deep");
  other[kProgram] = "{\"a\": \"" + std::string(100'000'000, ' ') + "\"}";
  expect_says(changed(other, true).diagnostic().str(), "the archive unpacks to more than");
  other[kProgram] = "{\"a\": \"" + std::string(10'000'000, ' ') + "\"}";
  expect_says(changed(other, true).diagnostic().str(), "10000009 bytes of JSON; the limit for a file of");
  other = records;
  other.erase("data/weights/weight_0");
  expect_says(changed(other).diagnostic().str(), "lacks the record");
  other = records;
  other["data/weights/weight_0"].resize(8);
  expect_says(changed(other).diagnostic().str(), "needs");
  expect_says(said([](Json& program) { program["schema_version"]["major"] = 9; }), "expected 8");
}

TEST_F(Exported, BrokenNodesAreNamed) {
  const std::string target = "torch.ops.aten.lstm.input";
  expect_says(said([&](Json& program) { node(program, target).erase("inputs"); }), "key 'inputs' not found");
  expect_says(said([&](Json& program) {
                node(program, target)["outputs"].push_back({{"as_tensor", {{"name", "x"}}}});
              }),
              "3 results are given 4 names");
  expect_says(said([&](Json& program) { node(program, target)["inputs"][0]["arg"]["as_tensor"]["name"] = "nobody"; }),
              "%nobody is read before it is defined");
  expect_says(said([&](Json& program) { node(program, target)["inputs"].erase(0); }), "without its argument input");
  expect_says(said([&](Json& program) { node(program, target)["inputs"][0]["name"] = "x"; }), "lstm.input");
  expect_says(said([&](Json& program) { node(program, target)["target"] = "torch.ops.mine.step.default"; }),
              "operators without a translation: mine::step (1)");
  expect_says(said([&](Json& program) { node(program, target)["target"] = "torch.ops.mine.step.default"; }),
              "--load-library");
  expect_says(said([&](Json& program) { node(program, target)["inputs"][4]["arg"]["as_int"] = 1e30; }), "type_error");
  expect_says(said([&](Json& program) {
                program["graph_module"]["signature"]["output_specs"][0] = {
                    {"user_input_mutation", {{"arg", {{"name", "x"}}}, {"user_input_name", "tokens"}}}};
              }),
              "user_input_mutation");
  expect_says(said([&](Json& program) {
                graph_of(program)["tensor_values"]["tokens"]["sizes"][0] = {
                    {"as_expr", {{"expr_str", "Add(Symbol('half'), Symbol('rest'))"}}}};
              }),
              "half + rest elements, but no axis determines its symbols");
}

// The program was recorded with 10 tokens: its other sizes fix the symbol.
TEST_F(Exported, AnAffineAxisDeterminesItsSymbol) {
  Records records = records_of(path());
  Json program = Json::parse(records.at(kProgram));
  graph_of(program)["tensor_values"]["tokens"]["sizes"][1] = {
      {"as_expr", {{"expr_str", "Mul(Integer(2), Symbol('half'))"}}}};
  records[kProgram] = program.dump();
  const auto imported = changed(records);
  ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
  EXPECT_EQ((*imported->graph.type(imported->graph.inputs()[0]).shape)[1].str(), "10");
}

TEST_F(Exported, MutantsEndInADiagnostic) {
  const std::string bytes = read_file(path()).value();
  std::mt19937 random(7);
  size_t refused = 0;
  constexpr size_t kMutants = 300;
  for (size_t i = 0; i < kMutants; ++i) {
    std::string mutant = bytes;
    for (uint32_t change = 0; change <= random() % 3; ++change)
      mutant[random() % mutant.size()] = static_cast<char>(random());
    std::ofstream(changed_path(), std::ios::binary) << mutant;
    const auto imported = frontend::read_torch(changed_path());
    EXPECT_TRUE(imported.ok() || !imported.diagnostic().message.empty());
    refused += !imported.ok();
  }
  EXPECT_GT(refused, 30u);
}

TEST_F(Exported, ThatAreCutOffEndInADiagnostic) {
  const std::string bytes = read_file(path()).value();
  for (size_t length = 0; length < bytes.size(); length += 997) {
    std::ofstream(changed_path(), std::ios::binary) << bytes.substr(0, length);
    EXPECT_FALSE(frontend::read_torch(changed_path()).ok());
  }
}

/// A place of the document at random: itself, or one within.
Json& somewhere(Json& json, std::mt19937& random) {
  if (!json.is_structured() || json.empty() || random() % 6 == 0) return json;
  auto at = json.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random() % json.size()));
  return somewhere(*at, random);
}

TEST_F(Exported, DocumentsOfAnotherShapeEndInADiagnostic) {
  const Records records = records_of(path());
  const Json program = Json::parse(records.at(kProgram));
  const std::vector<Json> others = {
      nullptr,  true, -1, 1e300, "", "as_tensor", "nan", Json::array(), Json::object(), {{"as_int", 1 << 30}},
      INT64_MAX};
  std::mt19937 random(11);
  size_t refused = 0;
  constexpr size_t kMutants = 400;
  for (size_t i = 0; i < kMutants; ++i) {
    Json mutant = program;
    Json& place = somewhere(mutant["graph_module"], random);
    if (random() % 3 == 0 && place.is_structured() && !place.empty()) {
      place.is_array() ? void(place.erase(place.size() - 1)) : void(place.erase(place.begin()));
    } else {
      place = others[random() % others.size()];
    }
    Records changed_records = records;
    changed_records[kProgram] = mutant.dump();
    const auto imported = changed(changed_records);
    EXPECT_TRUE(imported.ok() || !imported.diagnostic().message.empty());
    refused += !imported.ok();
  }
  EXPECT_GT(refused, kMutants / 4);
}

TEST_F(Exported, SmallTensorsAreNotExpanded) {
  Records records = records_of(path());
  Json weights = Json::parse(records.at(kWeights));
  Json& meta = weights["config"]["table.weight"]["tensor_meta"];
  meta["sizes"] = {{{"as_int", int64_t{1} << 31}}};
  meta["strides"] = {{{"as_int", 0}}};
  records[kWeights] = weights.dump();
  expect_says(changed(records).diagnostic().str(), "tensors that are not stored as they are read take more than");
}

// --- sizes

TEST(ExportedSizes, AreRead) {
  const auto read = [](std::string_view text) {
    const auto size = frontend::torchscript::parse_size(text);
    return size.ok() ? size->str() : size.diagnostic().message;
  };
  EXPECT_EQ(read("Symbol('s13', positive=True, integer=True)"), "s13");
  EXPECT_EQ(read("Integer(12)"), "12");
  EXPECT_EQ(read("Mul(Integer(2), Symbol('s39', positive=True, integer=True))"), "2*s39");
  EXPECT_EQ(read("Add(Mul(Integer(-1), Integer(3)), Symbol('s1'), Symbol('s2'))"), "s1 + s2 - 3");
  EXPECT_EQ(read("FloorDiv(Symbol('s1'), Integer(2))"), ir::Dim::parse("s1 // 2")->str());
  EXPECT_EQ(read("Mod(Symbol('s1'), Integer(2))"), ir::Dim::parse("s1 % 2")->str());
  EXPECT_EQ(read("Max(Integer(1), Symbol('s1'))"), ir::Dim::parse("max(1, s1)")->str());
  for (const char* wrong :
       {"", "s13", "Symbol(s13)", "Integer()", "Integer(1", "Integer(1))", "Pow(Symbol('a'), Integer(2))",
        "FloorDiv(Symbol('a'), Integer(0))", "Integer(99999999999999999999)", "Symbol('a', b)"})
    EXPECT_FALSE(frontend::torchscript::parse_size(wrong).ok()) << wrong;
  std::string deep = "Integer(1)", wide = "Add(Integer(1)";
  for (int i = 0; i < 200; ++i) deep = "Add(" + deep + ")", wide += ", Symbol('s" + std::to_string(i) + "')";
  expect_says(read(deep), "nested too deep");
  expect_says(read(wide + ")"), "more than 16 terms");
}

// --- programs

/// Seconds of the processor.
double took(const std::function<void()>& run) {
  const std::clock_t start = std::clock();
  run();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

Json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }

/// Type of [s0, 16] elements.
Json type_of(int dtype) {
  return {{"dtype", dtype},
          {"sizes", {{{"as_expr", {{"expr_str", "Symbol('s0')"}}}}, {{"as_int", 16}}}},
          {"strides", Json::array()},
          {"storage_offset", {{"as_int", 0}}},
          {"requires_grad", false},
          {"device", {{"type", "cpu"}}},
          {"layout", 7}};
}

/// A program of one input x, with these nodes.
std::string program_of(const Json& nodes, const std::string& last) {
  const Json graph = {{"inputs", Json::array({tensor("x")})},
                      {"outputs", Json::array({tensor(last)})},
                      {"nodes", nodes},
                      {"tensor_values", {{"x", type_of(7)}}}};
  const Json signature = {{"input_specs", Json::array({{{"user_input", {{"arg", tensor("x")}}}}})},
                          {"output_specs", Json::array({{{"user_output", {{"arg", tensor(last)}}}}})}};
  return Json{{"schema_version", {{"major", 8}, {"minor", 17}}},
              {"graph_module", {{"graph", graph}, {"signature", signature}, {"module_call_graph", Json::array()}}}}
      .dump();
}

std::string chain(size_t length) {
  Json nodes = Json::array();
  std::string last = "x";
  for (size_t i = 0; i < length; ++i) {
    const std::string name = "relu_" + std::to_string(i);
    nodes.push_back(
        {{"target", "torch.ops.aten.relu.default"},
         {"inputs", {{{"name", "self"}, {"arg", tensor(last)}, {"kind", 1}}}},
         {"outputs", Json::array({tensor(name)})},
         {"name", name},
         {"metadata", {{"stack_trace", "File \"/home/me/model.py\", line 7, in forward\n    x = x.relu()"}}}});
    last = name;
  }
  return program_of(nodes, last);
}

Result<frontend::Imported> imported_program(const std::string& path, const std::string& program) {
  const std::string config = R"({"config": {}})";
  write_archive(path, {{"archive_format", "pt2"},
                       {kProgram, program},
                       {"data/weights/model_weights_config.json", config},
                       {"data/constants/model_constants_config.json", config}});
  return frontend::read_torch(path);
}

/// A node of an operator with positional tensors.
Json node_of(const std::string& target, const std::vector<std::pair<std::string, Json>>& inputs,
             const std::string& name) {
  Json given = Json::array();
  for (const auto& [argument, value] : inputs) given.push_back({{"name", argument}, {"arg", value}, {"kind", 1}});
  return {{"target", target}, {"inputs", given}, {"outputs", Json::array({tensor(name)})}, {"name", name}};
}

/// In a region of autocast, the recorded types of results tell which operands were cast.
TEST(ExportedAutocast, CastsAsRecorded) {
  constexpr int kFloat = 7, kBFloat16 = 13;
  const std::string aten = "torch.ops.aten.";
  const Json square = {
      {"inputs", Json::array({tensor("a")})},
      {"outputs", Json::array({tensor("wide")})},
      {"tensor_values",
       {{"a", type_of(kFloat)},
        {"turned", type_of(kFloat)},
        {"product", type_of(kBFloat16)},
        {"more", type_of(kBFloat16)},
        {"wide", type_of(kFloat)}}},
      {"nodes",
       {node_of(aten + "numpy_T.default", {{"self", tensor("a")}}, "turned"),
        node_of(aten + "matmul.default", {{"self", tensor("turned")}, {"other", tensor("a")}}, "product"),
        node_of(aten + "relu.default", {{"self", tensor("product")}}, "more"),
        node_of(aten + "exp.default", {{"self", tensor("more")}}, "wide")}}};
  const auto read = [&](bool enabled) {
    const Json region = node_of("torch.ops.higher_order.wrap_with_autocast",
                                {{"", {{"as_string", "cpu"}}},
                                 {"", {{"as_scalar_type", kBFloat16}}},
                                 {"", {{"as_bool", enabled}}},
                                 {"", {{"as_bool", false}}},
                                 {"", {{"as_graph", {{"name", "square"}, {"graph", square}}}}},
                                 {"", tensor("x")}},
                                "made");
    return imported_program(::testing::TempDir() + "autocast.pt2", program_of(Json::array({region}), "made"));
  };
  const auto types = [](const ir::Graph& graph) {
    std::string found;
    for (const TaskId task : graph.tasks()) {
      found += std::string(graph.op(task).name.substr(5)) + ":" +
               std::string(ir::str(graph.type(graph.outputs(task)[0]).dtype)) + " ";
    }
    return found;
  };
  const auto plain = read(false);
  ASSERT_TRUE(plain.ok()) << plain.diagnostic().str();
  EXPECT_EQ(types(plain->graph), "permute:f32 matmul:f32 relu:f32 exp:f32 ");
  const auto cast = read(true);
  ASSERT_TRUE(cast.ok()) << cast.diagnostic().str();
  EXPECT_EQ(types(cast->graph), "permute:f32 cast:bf16 cast:bf16 matmul:bf16 relu:bf16 cast:f32 exp:f32 ");
}

/// Twice as many operators take about twice as long, reading the document among it.
TEST(ExportedScale, IsLinear) {
  const std::string path = ::testing::TempDir() + "chain.pt2";
  const auto import = [&](size_t length) {
    const std::string program = chain(length);
    const double seconds = took([&] {
      const auto imported = imported_program(path, program);
      ASSERT_TRUE(imported.ok()) << imported.diagnostic().str();
      EXPECT_EQ(imported->graph.task_count(), length);
    });
    std::cout << length << " operators: " << seconds << " s\n";
    return seconds;
  };
  import(1'000);
  const size_t length = rannc::testing::tests_everything() ? 30'000 : 10'000;
  const double some = import(length), more = import(2 * length);
  EXPECT_LT(more, 4 * some);
}

}  // namespace
}  // namespace rannc::test
