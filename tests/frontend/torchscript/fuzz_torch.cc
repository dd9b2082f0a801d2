/// Whatever an archive of PyTorch has in its records: a diagnostic that names the file, or a graph that verifies.
///
/// An input is a whole archive, or the records of one: a line `x=f32[batch,4]` per input, then a line `--- NAME` before
/// the bytes of each record. Edits of records reach code, pickles and JSON, which the checksums of an archive protect.
#include <caffe2/serialize/inline_container.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/torchscript/import.h"
#include "ir/verify.h"
#include "tests/fuzz/target.h"

namespace {

namespace fs = std::filesystem;

/// A folder that is removed with what is in it.
class Scratch {
 public:
  Scratch() {
    std::string name = (fs::temp_directory_path() / "rannc-fuzz-XXXXXX").string();
    RANNC_CHECK(::mkdtemp(name.data()) != nullptr) << "no scratch folder";
    root_ = name;
  }
  ~Scratch() { fs::remove_all(root_); }
  std::string file() const { return (root_ / "model.pt").string(); }

 private:
  fs::path root_;
};

constexpr std::string_view kMark = "--- ";

/// Writes the records; an archive cannot have two of one name.
void write_records(std::string_view records, std::string& archive) {
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, size_t count) {
    archive.append(static_cast<const char*>(bytes), count);
    return count;
  });
  while (records.starts_with(kMark)) {
    records.remove_prefix(kMark.size());
    const size_t line = records.find('\n');
    if (line == std::string_view::npos) break;
    const std::string name(records.substr(0, line));
    records.remove_prefix(line + 1);
    const size_t next = records.find("\n--- ");
    const std::string_view bytes = records.substr(0, next);
    records.remove_prefix(next == std::string_view::npos ? records.size() : next + 1);
    if (name.empty() || writer.getAllWrittenRecords().contains(name)) continue;
    writer.writeRecord(name, bytes.data(), bytes.size());
  }
  writer.writeEndOfFile();
}

std::vector<std::string> take_inputs(std::string_view& input) {
  std::vector<std::string> inputs;
  while (!input.empty() && !input.starts_with(kMark)) {
    const size_t line = std::min(input.find('\n'), input.size());
    if (line > 0) inputs.emplace_back(input.substr(0, line));
    input.remove_prefix(std::min(line + 1, input.size()));
  }
  return inputs;
}

}  // namespace

bool rannc::fuzz::feed(std::string_view input) {
  static const Scratch scratch;
  std::string archive(input);
  std::vector<std::string> inputs;
  if (!input.starts_with("PK")) {
    archive.clear();
    inputs = take_inputs(input);
    try {
      write_records(input, archive);
    } catch (const std::exception&) {
      return false;  // the writer of archives has rules for names
    }
  }
  fs::remove(scratch.file());  // a new file: one that is written again would be flushed to the disk
  std::ofstream(scratch.file(), std::ios::binary) << archive;
  const auto imported = frontend::read_torch(scratch.file(), {.inputs = inputs, .max_nodes = 10'000});
  if (!imported.ok()) {
    RANNC_CHECK(!imported.diagnostic().message.empty()) << "a diagnostic without a message";
    return false;
  }
  const auto wrong = ir::verify(imported->graph);
  RANNC_CHECK(wrong.empty()) << wrong.front().str();
  return true;
}
