#include "tools/check/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "frontend/read_model.h"
#include "ir/dim/affine.h"
#include "ir/match/match.h"
#include "runtime/bundle/safetensors.h"
#include "tools/check/check_card.h"
#include "tools/check/module_reference.h"

namespace rannc::tools {

namespace {

namespace fs = std::filesystem;

// fp64: 1e-10 of the tensor, but at least 1e-15 of all gradients, the rounding error of a sum that cancels.
constexpr double kFp64 = 1e-10, kFp64Floor = 1e-5;
// fp32: twice the error of fp32 itself, plus 1e-6 of the tensor or of a thousandth of all gradients.
constexpr double kFp32Scale = 2, kFp32 = 1e-6, kFp32Floor = 1e-3;
// For fp64 compared with the module: the deviation caused by the file's constants, for any batch.
constexpr double kOfFile = 4;

Result<std::vector<double>> read_numbers(const runtime::SafetensorsFile& file,
                                         const runtime::SafetensorsFile::Entry& entry) {
  RANNC_ASSIGN(const std::vector<std::byte> bytes, file.data(entry).read());
  std::vector<double> numbers;
  const auto convert = [&]<class T>(T) {
    numbers.reserve(bytes.size() / sizeof(T));
    for (size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      numbers.push_back(static_cast<double>(value));
    }
  };
  switch (entry.spec.dtype) {
    case ir::DType::kF64:
      convert(double{});
      break;
    case ir::DType::kF32:
      convert(float{});
      break;
    case ir::DType::kI64:
      convert(int64_t{});
      break;
    case ir::DType::kI32:
      convert(int32_t{});
      break;
    default:
      return error({file.path(), 0, 0, entry.name},
                   "a reference number has type " + std::string(ir::str(entry.spec.dtype)));
  }
  return numbers;
}

// `grad.f64.chunks4.at64/name` -> kind `grad`, tag `f64.chunks4`, part `at64`, name.
struct Key {
  std::string kind, tag, part, name;
};

std::optional<Key> parse_key(const std::string& text) {
  const size_t slash = text.find('/');
  const std::string head = text.substr(0, slash);
  const size_t first = head.find('.');
  if (first == std::string::npos) return std::nullopt;
  Key key;
  key.kind = head.substr(0, first);
  key.tag = head.substr(first + 1);
  const size_t last = key.tag.rfind('.');
  const std::string part = last == std::string::npos ? "" : key.tag.substr(last + 1);
  if (part == "norm" || part == "at64") {
    key.part = part;
    key.tag.resize(last);
  }
  if (slash != std::string::npos) key.name = text.substr(slash + 1);
  return key;
}

Result<void> read_references(CheckFolder& folder) {
  RANNC_ASSIGN(const auto file,
               runtime::SafetensorsFile::open((fs::path(folder.path) / "reference.safetensors").string()));
  for (const auto& entry : file.entries()) {
    const auto key = parse_key(entry.name);
    if (!key) continue;
    RANNC_ASSIGN(std::vector<double> numbers, read_numbers(file, entry));
    if (key->kind == "loss" && numbers.size() == 1) folder.losses[key->tag] = numbers[0];
    const bool state = key->kind == "state";  // a gradient by the name of state_dict
    if (key->kind != "out" && key->kind != "grad" && !state) continue;
    ReferenceTensor& tensor = (key->kind == "out" ? folder.outputs
                               : state            ? folder.state
                                                  : folder.gradients)[key->tag][key->name];
    if (key->part == "norm") {
      if (numbers.size() != 1) return error({file.path(), 0, 0, entry.name}, "a norm is one number");
      tensor.norm = numbers[0];
    } else {
      tensor.values = std::move(numbers);
    }
  }
  return {};
}

Result<void> read_sample_count(CheckFolder& folder) {
  RANNC_ASSIGN(const auto file, runtime::SafetensorsFile::open(folder.batch));
  for (const auto& entry : file.entries()) {
    if (!entry.name.starts_with("x/") || entry.spec.shape.empty()) continue;
    folder.samples = static_cast<uint32_t>(std::clamp<int64_t>(entry.spec.shape[0], 0, 1 << 24));
    return {};
  }
  return error({folder.batch, 0, 0, {}}, "has no tensor x/<graph input>");
}

/// Returns the path of the model file, whether it exists or not.
std::string model_in(const std::string& folder, const std::string& requested) {
  if (!requested.empty()) return (fs::path(folder) / requested).string();
  for (const char* name : {"model.onnx", "model.pt", "model.pt2"}) {
    if (const fs::path file = fs::path(folder) / name; fs::exists(file)) return file.string();
  }
  return (fs::path(folder) / "model.onnx").string();
}

double norm(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

/// The transpose of a matrix.
OwnTensor transposed_tensor(const OwnTensor& matrix) {
  const auto rows = static_cast<size_t>(matrix.shape[0]), columns = static_cast<size_t>(matrix.shape[1]);
  OwnTensor result{{matrix.shape[1], matrix.shape[0]}, std::vector<double>(matrix.values.size())};
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) result.values[c * rows + r] = matrix.values[r * columns + c];
  }
  return result;
}

/// Returns the gradient of the parameter that `name` is a copy of, in the layout of `name`: the sum of all copies'
/// shares. Copies that we do not have were tied to the others. Returns nothing if a copy cannot be converted to that
/// layout.
std::optional<OwnTensor> whole_gradient(const TiedCopies& copies, const std::string& name, const OwnNumbers& own) {
  OwnTensor sum = own.gradients.at(name);
  for (const auto& [other, turned] : copies) {
    const auto found = own.gradients.find(other);
    if (other == name || found == own.gradients.end()) continue;
    const bool turn = turned != copies.at(name);
    if (turn && found->second.shape.size() != 2) return std::nullopt;
    const OwnTensor share = turn ? transposed_tensor(found->second) : found->second;
    if (share.shape != sum.shape) return std::nullopt;
    for (size_t i = 0; i < sum.values.size(); ++i) sum.values[i] += share.values[i];
  }
  return sum;
}

/// Returns our gradient of each initializer of the file: the sum over the tensors that were extracted from it.
std::map<std::string, OwnTensor> by_initializer(const CheckFolder& folder, const OwnNumbers& own) {
  std::map<std::string, OwnTensor> sums;
  for (const auto& [name, tensor] : own.gradients) {
    const auto parted = folder.parted.find(name);
    const auto [at, fresh] = sums.emplace(parted == folder.parted.end() ? name : parted->second, tensor);
    if (fresh) continue;
    for (size_t i = 0; i < std::min(at->second.values.size(), tensor.values.size()); ++i)
      at->second.values[i] += tensor.values[i];
  }
  return sums;
}

// Selects the entries of our tensor that the reference has, or nothing if the sizes differ.
std::optional<std::vector<double>> kept_entries(const std::vector<double>& own, const ReferenceTensor& reference) {
  if (reference.whole()) return own.size() == reference.values.size() ? std::optional(own) : std::nullopt;
  const size_t kept = std::min<size_t>(64, own.size());
  if (reference.values.size() != kept) return std::nullopt;
  std::vector<double> entries;
  for (size_t i = 0; i < kept; ++i) entries.push_back(own[i * own.size() / kept]);
  return entries;
}

/// Compares tensors with the references of one tag.
class Judge {
 public:
  Judge(const CheckFolder& folder, const Comparison& how, Tag tag, CheckResult& result)
      : folder_(folder), how_(how), tag_(std::move(tag)), fp64_(how.fp64), result_(result) {}

  void gradient(const std::string& name, const std::vector<double>& own, const ReferenceTensor& reference) {
    const double all = all_gradients();
    const double floor = fp64_ ? kFp64Floor * all : kFp32Floor * all;
    tensor("gradient of " + name, own, reference, floor, find(folder_.gradients, "f32", name), result_.gradients);
    ++result_.compared_gradients;
  }
  void output(const std::string& name, const std::vector<double>& own, const ReferenceTensor& reference) {
    tensor("output " + name, own, reference, 0, find(folder_.outputs, "f32", name), result_.outputs);
  }
  void loss(double own, double reference) {
    ReferenceTensor as_tensor{{reference}, std::nullopt};
    const auto single = folder_.losses.find("f32");
    const ReferenceTensor f32{{single == folder_.losses.end() ? reference : single->second}, std::nullopt};
    tensor("loss", {own}, as_tensor, 0, &f32, result_.loss);
  }

 private:
  static const ReferenceTensor* find(const std::map<Tag, std::map<std::string, ReferenceTensor>>& all, const Tag& tag,
                                     const std::string& name) {
    const auto of_tag = all.find(tag);
    if (of_tag == all.end()) return nullptr;
    const auto found = of_tag->second.find(name);
    return found == of_tag->second.end() ? nullptr : &found->second;
  }

  double all_gradients() {
    if (all_gradients_) return *all_gradients_;
    double sum = 0;
    const auto tag = folder_.gradients.find(tag_);
    if (tag != folder_.gradients.end()) {
      const std::set<std::string> counted =
          expected_gradients(folder_, {how_.fp64, true, how_.micro_batches, how_.snapped});
      for (const auto& [name, reference] : tag->second) {
        if (!counted.contains(name)) continue;
        const double size = reference.norm.value_or(norm(reference.values));
        sum += size * size;
      }
    }
    all_gradients_ = std::sqrt(sum);
    return *all_gradients_;
  }

  /// The module computes in double precision what the file has rounded to float32.
  double file_off() const {
    constexpr double kRounded = 0x1p-24;
    const bool rounded = folder_.recomputed && !folder_.stand_ins.empty();
    return rounded ? std::max(folder_.file_off, kRounded) : folder_.file_off;
  }

  void tensor(const std::string& what, const std::vector<double>& own, const ReferenceTensor& reference, double floor,
              const ReferenceTensor* single, WorstError& worst) {
    const auto entries = kept_entries(own, reference);
    if (!entries) {
      result_.failures.push_back(
          fmt::format("{}: has {} entries, the reference has {}", what, own.size(), reference.values.size()));
      return;
    }
    const double size = norm(reference.values);
    judge(what, distance(*entries, reference.values), size, floor,
          single ? distance(single->values, reference.values) : 0, worst);
    if (!reference.norm) return;
    // The distance bounds the difference of norms, which may be near zero by chance: it is taken from the kept entries.
    const double kept = static_cast<double>(std::max<size_t>(reference.values.size(), 1));
    const double single_norm =
        single ? distance(single->values, reference.values) * std::sqrt(static_cast<double>(own.size()) / kept) : 0;
    judge(what + " (norm)", std::abs(norm(own) - *reference.norm), *reference.norm, floor, single_norm, worst);
  }

  void judge(const std::string& what, double off, double size, double floor, double single_off, WorstError& worst) {
    const double scale = std::max({size, floor, 1e-300});
    const double exact = tag_ == "file64" ? kFp64 : std::max(kFp64, kOfFile * file_off());
    const double limit = fp64_ ? exact * scale : kFp32Scale * single_off + (kFp32 + kOfFile * file_off()) * scale;
    const double part = std::isfinite(off) ? off / limit : std::numeric_limits<double>::infinity();
    if (!(part <= worst.of_limit) || worst.at.empty()) worst = {off / scale, part, what};
    if (!(part <= 1))
      result_.failures.push_back(fmt::format("{}: off by {:.3g} of {:.3g}, allowed {:.3g}", what, off, size, limit));
  }

  const CheckFolder& folder_;
  const Comparison how_;
  const Tag tag_;
  const bool fp64_;
  CheckResult& result_;
  std::optional<double> all_gradients_;
};

size_t unreferenced(const CheckFolder& folder) {
  const auto has = [](const auto& all, const std::string& name) {
    return std::any_of(all.begin(), all.end(), [&](const auto& of_tag) { return of_tag.second.contains(name); });
  };
  return static_cast<size_t>(std::count_if(folder.absent.begin(), folder.absent.end(), [&](const std::string& name) {
    return !has(folder.state, name) && !has(folder.gradients, name);
  }));
}

}  // namespace

Result<CheckFolder> read_model_folder(const std::string& path, const std::string& model) {
  CheckFolder folder;
  folder.path = path;
  folder.model = model_in(path, model);
  folder.batch = (fs::path(path) / "batch.safetensors").string();
  if (const fs::path loss = fs::path(path) / "loss.onnx"; fs::exists(loss)) folder.loss_graph = loss.string();
  if (!fs::exists(folder.model))
    return error({folder.model, 0, 0, {}},
                 "there is no such file: a check folder contains model.onnx, model.pt or model.pt2, "
                 "batch.safetensors, reference.safetensors and card.json");
  folder.torchscript = frontend::is_torch(frontend::model_format(folder.model));
  RANNC_TRY(read_card(folder));
  if (folder.torchscript) RANNC_TRY(read_signature(folder));
  RANNC_TRY(read_sample_count(folder));
  return folder;
}

Result<CheckFolder> read_check_folder(const std::string& path, const std::string& model) {
  RANNC_ASSIGN(CheckFolder folder, read_model_folder(path, model));
  RANNC_TRY(read_references(folder));
  if (folder.torchscript) RANNC_TRY(name_by_module(folder));
  folder.unreferenced = unreferenced(folder);
  for (auto& [tag, tensors] : folder.state) {
    for (auto& [name, tensor] : tensors) {
      if (folder.gradients[tag].try_emplace(name, std::move(tensor)).second) folder.absent.insert(name);
    }
  }
  if (folder.gradients.empty() && folder.losses.empty()) {
    folder.loss.clear();
    folder.loss_graph.clear();
  }
  return folder;
}

std::vector<std::string> tied_copies(const CheckFolder& folder) {
  std::vector<std::string> names;
  for (const TiedCopies& copies : folder.tied) {
    for (const auto& [name, turned] : copies) names.push_back(name);
  }
  return names;
}

Result<std::map<std::string, int64_t>> assumed_sizes(const ir::Graph& graph, const std::string& batch) {
  RANNC_ASSIGN(const auto file, runtime::SafetensorsFile::open(batch));
  ir::Bindings bindings;
  for (int round = 0; round < 2; ++round) {  // a sum such as `past + s` waits for the symbols of other inputs
    for (const ValueId input : graph.inputs()) {
      const auto* entry = file.find("x/" + std::string(graph.value(input).name));
      const auto& shape = graph.type(input).shape;
      if (entry == nullptr || !shape || shape->size() != entry->spec.shape.size()) continue;
      for (size_t i = 0; i < shape->size(); ++i) {
        if (!graph.batch_symbol().empty() && (*shape)[i].uses(graph.batch_symbol())) continue;
        ir::bind_extent((*shape)[i], entry->spec.shape[i], bindings);
      }
    }
  }
  return std::map<std::string, int64_t>(bindings.begin(), bindings.end());
}

std::set<std::string> read_in_branches(const ir::Graph& graph) {
  static const ir::Ops kBranches = {"if"};
  std::set<std::string> names;
  for (const ValueId value : graph.values()) {
    if (graph.kind(value) != ir::ValueKind::kParameter || !graph.has_uses(value)) continue;
    const bool elsewhere =
        graph.any_use(value, [&](ir::Graph::Use use) { return !kBranches.contains(graph.op(use.task)); });
    if (!elsewhere) names.emplace(graph.value(value).name);
  }
  return names;
}

void CheckResult::merge(const CheckResult& other) {
  const auto worse = [](WorstError& own, const WorstError& theirs) {
    if (own.at.empty() || theirs.of_limit > own.of_limit) own = theirs.at.empty() ? own : theirs;
  };
  worse(outputs, other.outputs);
  worse(loss, other.loss);
  worse(gradients, other.gradients);
  compared_gradients += other.compared_gradients;
  failures.insert(failures.end(), other.failures.begin(), other.failures.end());
}

namespace {

/// Returns the tag of the references to compare with.
Tag tag_of(const CheckFolder& folder, const Comparison& how) {
  constexpr uint32_t kChunks = 4;
  constexpr const char* kInChunks = "f64.chunks4";
  if (how.micro_batches == kChunks && folder.losses.contains(kInChunks)) return kInChunks;
  return how.fp64 && !how.snapped && !folder.torchscript && !folder.recomputed ? "file64" : "f64";
}

}  // namespace

std::set<std::string> expected_gradients(const CheckFolder& folder, const Comparison& how) {
  if (folder.gradients.empty()) return {};
  std::set<std::string> names = folder.parameters;
  const auto tag = folder.gradients.find(tag_of(folder, how));
  if (tag != folder.gradients.end()) {
    for (const auto& [name, reference] : tag->second) {
      if (!folder.constants.contains(name) && !folder.absent.contains(name)) names.insert(name);
    }
  }
  if (how.complete) return names;
  for (const auto& [copy, initializer] : folder.parted) names.erase(initializer);
  return names;
}

namespace {

void compare_outputs(const CheckFolder& folder, const OwnNumbers& own, const Tag& tag, bool complete, Judge& judge,
                     CheckResult& result) {
  const auto outputs = folder.outputs.find(tag);
  if (outputs == folder.outputs.end()) return;
  for (const auto& [name, tensor] : own.outputs) {
    const auto reference = outputs->second.find(name);
    if (reference != outputs->second.end()) judge.output(name, tensor.values, reference->second);
    // Outputs without a reference are graph outputs that nobody named.
  }
  // The compiler may omit outputs that no loss reads and reports them. An output that the folder lacks is a failure.
  const bool all_known = std::all_of(own.outputs.begin(), own.outputs.end(),
                                     [&](const auto& entry) { return outputs->second.contains(entry.first); });
  if (!complete || (own.loss && all_known)) return;
  for (const auto& [name, reference] : outputs->second) {
    const bool missing = !own.outputs.contains(name) && !(own.loss && folder.loss_outputs.contains(name));
    if (missing) result.failures.push_back("output " + name + ": the model has no output of that name");
  }
}

using References = std::map<std::string, ReferenceTensor>;

/// Requires a gradient without a reference to be zero if only branches read its parameter, since the branch was not
/// taken. Returns false for other parameters.
bool judge_untaken(const OwnNumbers& own, const std::string& name, const OwnTensor& tensor, bool known, Judge& judge) {
  const auto is_zero = [](double value) { return value == 0; };
  if (!own.in_branches.contains(name)) return false;
  if (!known) return std::all_of(tensor.values.begin(), tensor.values.end(), is_zero);
  judge.gradient(name, tensor.values, {std::vector<double>(tensor.values.size()), std::nullopt});
  return true;
}

/// Compares with the unmodified file, by initializer.
void compare_with_file(const CheckFolder& folder, const OwnNumbers& own, const std::set<std::string>& expected,
                       const References& references, const Comparison& how, Judge& judge, CheckResult& result) {
  std::set<std::string> in_parts;
  for (const auto& [copy, initializer] : folder.parted) in_parts.insert(initializer);
  size_t unnamed = 0;
  for (const auto& [name, tensor] : by_initializer(folder, own)) {
    const bool known = folder.absent.contains(name);  // of the module, not of the file
    const auto reference = references.find(name);
    if (!how.complete && in_parts.contains(name)) continue;
    if (folder.stand_ins.contains(name) && !expected.contains(name)) {  // references of files have it as well
      if (reference != references.end()) judge.gradient(name, tensor.values, reference->second);
      continue;
    }
    if (reference == references.end() && !known && judge_untaken(own, name, tensor, expected.contains(name), judge)) {
      continue;
    }
    if (!expected.contains(name) && !known && reference == references.end() && unnamed++ < folder.unreferenced)
      continue;
    if (!expected.contains(name) && !known) {
      result.failures.push_back("gradient of " + name +
                                ": it is trained, but is not a parameter of the original model");
    } else if (reference != references.end()) {
      judge.gradient(name, tensor.values, reference->second);
    } else if (!known) {
      result.failures.push_back("gradient of " + name + ": the reference has none");
    }
  }
}

/// Parameters that were already compared with the original module.
struct Compared {
  std::set<std::string> names;    ///< names of references
  std::set<std::string> tensors;  ///< trained tensors, each whole
};

bool is_tied(const CheckFolder& folder, const std::string& initializer) {
  return std::any_of(folder.tied.begin(), folder.tied.end(),
                     [&](const TiedCopies& copies) { return copies.contains(initializer); });
}

/// Compares by `state_dict` name. Copies of a tied parameter are skipped, since they are summed over their
/// initializers.
Compared compare_by_state(const CheckFolder& folder, const OwnNumbers& own, const References& references,
                          Judge& judge) {
  Compared compared;
  std::vector<const StateGradient*> judged, left;
  for (const auto& [name, gradient] : own.state) {
    const auto reference = references.find(name);
    const bool tied = std::any_of(gradient.of.begin(), gradient.of.end(),
                                  [&](const std::string& tensor) { return is_tied(folder, tensor); });
    const bool known = std::any_of(judged.begin(), judged.end(),
                                   [&, &parts = gradient.parts](const auto* other) { return other->parts == parts; });
    if (!known && (tied || reference == references.end())) left.push_back(&gradient);
    if (tied || known || reference == references.end()) continue;
    judge.gradient(name, gradient.tensor.values, reference->second);
    compared.names.insert(name);
    judged.push_back(&gradient);
  }
  for (const StateGradient* gradient : judged) compared.tensors.insert(gradient->of.begin(), gradient->of.end());
  for (const StateGradient* gradient : left) {
    const bool alias =
        std::any_of(judged.begin(), judged.end(), [&](const auto* other) { return other->parts == gradient->parts; });
    if (alias) continue;
    for (const std::string& tensor : gradient->of) compared.tensors.erase(tensor);  // not whole
  }
  return compared;
}

/// Compares with the original module by `state_dict` name, then by initializer. Returns the compared names, including
/// initializers whose contents were all compared.
std::set<std::string> compare_with_module(const CheckFolder& folder, const OwnNumbers& own,
                                          const std::set<std::string>& expected, const References& references,
                                          Judge& judge, CheckResult& result) {
  Compared compared = compare_by_state(folder, own, references, judge);
  size_t unnamed = 0;
  for (const auto& [name, tensor] : own.gradients) {
    if (compared.tensors.contains(name)) continue;
    const auto reference = references.find(name);
    const bool known = expected.contains(name) || folder.absent.contains(name);
    if (folder.stand_ins.contains(name) && !expected.contains(name)) continue;
    if (!known && reference == references.end() && unnamed++ < folder.unreferenced) continue;
    if (reference == references.end() && judge_untaken(own, name, tensor, expected.contains(name), judge)) {
      if (expected.contains(name)) compared.names.insert(name);
      continue;
    }
    if (!known || reference == references.end()) {
      result.failures.push_back(
          "gradient of " + name +
          (known ? ": the reference has none" : ": it is trained, but is not a parameter of the original model"));
      continue;
    }
    const auto copies = std::find_if(folder.tied.begin(), folder.tied.end(),
                                     [&name = name](const TiedCopies& tied) { return tied.contains(name); });
    const auto whole = copies == folder.tied.end() ? std::optional(tensor) : whole_gradient(*copies, name, own);
    if (!whole) continue;
    judge.gradient(name, whole->values, reference->second);
    compared.names.insert(name);
  }
  compared.names.insert(compared.tensors.begin(), compared.tensors.end());
  return compared.names;
}

/// Whether another initializer of the same parameter was compared, so that this one was tied to it.
bool has_compared_copy(const CheckFolder& folder, const std::string& name, const std::set<std::string>& compared) {
  return std::any_of(folder.tied.begin(), folder.tied.end(), [&](const TiedCopies& copies) {
    return copies.contains(name) &&
           std::any_of(copies.begin(), copies.end(), [&](const auto& copy) { return compared.contains(copy.first); });
  });
}

void compare_gradients(const CheckFolder& folder, const OwnNumbers& own, const Comparison& how, Judge& judge,
                       CheckResult& result) {
  if (folder.gradients.empty()) return;
  const Tag tag = tag_of(folder, how);
  const std::set<std::string> expected = expected_gradients(folder, how);
  const auto found = folder.gradients.find(tag);
  const References none;
  const References& references = found == folder.gradients.end() ? none : found->second;
  std::set<std::string> compared;
  if (tag == "file64") {
    compare_with_file(folder, own, expected, references, how, judge, result);
    for (const auto& [name, tensor] : by_initializer(folder, own)) compared.insert(name);
  } else {
    compared = compare_with_module(folder, own, expected, references, judge, result);
  }
  if (!how.complete) return;
  for (const std::string& name : expected) {
    if (compared.contains(name) || (tag != "file64" && has_compared_copy(folder, name, compared))) continue;
    result.failures.push_back(
        "gradient of " + name + ": " +
        (own.gradients.contains(name) ? "the copies of a tied parameter do not fit each other" : "we have none"));
  }
}

}  // namespace

CheckResult compare(const CheckFolder& folder, const OwnNumbers& own, const Comparison& how) {
  CheckResult result;
  const Tag tag = tag_of(folder, how);
  Judge judge(folder, how, tag, result);
  compare_outputs(folder, own, tag, how.complete, judge, result);
  if (!own.loss) return result;
  const auto loss = folder.losses.find(tag);
  if (loss != folder.losses.end()) judge.loss(*own.loss, loss->second);
  compare_gradients(folder, folder.torchscript ? laid_out(folder, own) : own, how, judge, result);
  return result;
}

}  // namespace rannc::tools
