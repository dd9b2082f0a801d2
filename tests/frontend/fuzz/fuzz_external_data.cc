/// Whatever a tensor says of the file that it lies in, and whatever lies there: a diagnostic, or bytes of a file inside
/// the model's folder.
///
/// An input is lines, an empty line, and the contents of `weights.bin`. `dims 2 2` and `type 1` are the tensor's,
/// `attribute` has a Constant node carry it, any other line is an entry: `location weights.bin`. Beside that file there
/// are links to it, to what lies outside, and a pipe.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "frontend/onnx/import.h"
#include "ir/verify.h"
#include "onnx/onnx_pb.h"
#include "tests/fuzz/target.h"

namespace {

namespace fs = std::filesystem;
using ONNX_NAMESPACE::ModelProto;
using ONNX_NAMESPACE::TensorProto;

constexpr std::string_view kSecret = "of somebody else";

void write(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// A model's folder, and beside it what no model may read.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "rannc-fuzz-XXXXXX").string();
    RANNC_CHECK(::mkdtemp(name.data()) != nullptr) << "no scratch folder";
    root_ = fs::canonical(name);
    fs::create_directories(model() / "sub");
    write(root_ / "secret.bin", kSecret);
    write(root_ / "model2.bin", kSecret);
    write(model() / "sub" / "inner.bin", "inside the folder");
    fs::create_symlink("sub/inner.bin", model() / "in");
    fs::create_symlink("../secret.bin", model() / "out");
    fs::create_directory_symlink("..", model() / "up");
    fs::create_symlink("circle", model() / "circle");
    fs::create_hard_link(root_ / "secret.bin", model() / "twin");
    RANNC_CHECK(::mkfifo((model() / "pipe").c_str(), 0600) == 0) << "no pipe";
  }
  ~Scratch() { fs::remove_all(root_); }
  fs::path model() const { return root_ / "model"; }

  bool holds(const fs::path& path) const {
    const fs::path real = fs::canonical(path);
    const fs::path folder = model();
    return std::mismatch(folder.begin(), folder.end(), real.begin(), real.end()).first == folder.end();
  }

 private:
  fs::path root_;
};

/// Reads one line of an input into the tensor; whether it was `attribute`.
bool describe(const std::string& line, TensorProto& tensor) {
  std::istringstream words(line);
  std::string key;
  std::getline(words, key, ' ');
  if (key == "attribute") return true;
  int64_t number = 0;
  if (key == "dims") {
    while (words >> number) tensor.add_dims(number);
  } else if (key == "type") {
    if (words >> number) tensor.set_data_type(static_cast<int>(number));
  } else {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(line.size() > key.size() ? line.substr(key.size() + 1) : "");
  }
  return false;
}

/// w, read by an Identity.
std::string model_of(const TensorProto& tensor, bool attribute) {
  ModelProto model;
  model.set_ir_version(10);
  model.add_opset_import()->set_version(21);
  auto& graph = *model.mutable_graph();
  graph.set_name("external");
  if (attribute) {
    auto& constant = *graph.add_node();
    constant.set_op_type("Constant");
    constant.add_output("w");
    auto& value = *constant.add_attribute();
    value.set_name("value");
    value.set_type(ONNX_NAMESPACE::AttributeProto::TENSOR);
    *value.mutable_t() = tensor;
  } else {
    *graph.add_initializer() = tensor;
  }
  auto& node = *graph.add_node();
  node.set_op_type("Identity");
  node.add_input("w");
  node.add_output("y");
  graph.add_output()->set_name("y");
  return model.SerializeAsString();
}

void check(const rannc::ir::TensorData& data, const Scratch& scratch, std::string_view contents) {
  if (data.in_file()) RANNC_CHECK(scratch.holds(data.path())) << data.path() << " is outside of the model's folder";
  const auto bytes = data.read();
  if (!bytes.ok()) return;
  RANNC_CHECK(bytes->size() == data.size()) << "a tensor of another size than it says";
  const std::string_view read(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  const bool own = contents.find(read) != std::string_view::npos;
  RANNC_CHECK(own || kSecret.find(read) == std::string_view::npos ||
              std::string_view("inside the folder").find(read) != std::string_view::npos)
      << "a model reads what lies outside of its folder";
}

}  // namespace

bool rannc::fuzz::feed(std::string_view input) {
  static const Scratch scratch;
  TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_location(TensorProto::EXTERNAL);
  bool attribute = false;
  size_t at = 0;
  while (at < input.size() && input[at] != '\n') {
    const size_t end = std::min(input.find('\n', at), input.size());
    attribute = describe(std::string(input.substr(at, end - at)), tensor) || attribute;
    at = std::min(end + 1, input.size());
  }
  const std::string_view contents = input.substr(std::min(at + 1, input.size()));
  write(scratch.model() / "weights.bin", contents);
  const auto graph = frontend::import_onnx_bytes(model_of(tensor, attribute), scratch.model() / "model.onnx");
  if (!graph.ok()) return false;
  RANNC_CHECK(ir::verify(*graph).empty()) << "an imported graph does not verify";
  for (const ValueId value : graph->values()) check(graph->value(value).data, scratch, contents);
  return true;
}
